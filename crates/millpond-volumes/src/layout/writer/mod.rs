//! The writer of a store.
//!
//! ```text
//!   write ──► staged ──4 MiB──► chunk in transit ──stored──► placed in the state ─┐
//!                └── the rest, inline ────────────────────────────────────────────┴─ sync ──► commit ──► told
//! ```
//!
//! | file | what |
//! |---|---|
//! | `open` | the newest commit is loaded, and the next one created: the fence |
//! | `follow` | another writer is faster, or is to have its turn |
//! | `staging` | pages on their way into the store, and the bytes that are held for them |
//! | `chunks` | writes that are taken, and chunks that are answered |
//! | `files` | changes of names and lengths |
//! | `commit` | what a commit has, whether it is stored, and which callers are told |
//! | `checkpoint` | all that holds, now and then |
//! | `garbage` | what nothing needs any more is deleted |
//! | `sweep` | what is in the store, and what of it nothing knows |
//! | `ages` | for how long what is in the store has been dead |
//! | `clean` | chunks that are mostly dead are written anew |
//! | `told` | what a writer says |

mod ages;
mod checkpoint;
mod chunks;
mod clean;
mod commit;
mod files;
mod follow;
mod garbage;
mod open;
mod staging;
mod sweep;
mod told;

use super::loaded::Loaded;
use super::options::WriterOptions;
use super::requests::{Answer, Numbered, Outbox, Refusal, RequestId};
use super::salvage::Salvaged;
use super::state::{Snapshot, State};
use crate::format::op::{FileNo, RecordBytes};
use crate::format::{Key, ObjectId, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use told::{Fence, Lost, OpenError, SyncError, Told, Uncommitted, Usage, WriteError};

/// A caller's name for a sync.
pub type Ticket = u64;

/// A page of a file.
pub(super) type PageKey = (FileNo, u64);

#[derive(Debug)]
enum Phase {
    Opening(Box<super::load::Load>),
    /// With what was loaded, but for its state.
    Fencing(Box<Loaded>),
    Catching(Box<follow::Catching>),
    Open,
    Closed,
    Fenced(Fence),
    Failed,
}

#[derive(Debug)]
struct Sync {
    ticket: Ticket,
    /// It covers the changes up to this one.
    barrier: u64,
    /// It is told of requests that were made since.
    at: Duration,
    /// Of the time since, the process was stopped for so long.
    stopped: Duration,
}

/// The writer of a store.
#[derive(Debug)]
pub struct Writer {
    options: WriterOptions,
    phase: Phase,
    outbox: Outbox,
    told: Vec<Told>,
    /// As of all that is placed, committed or not.
    state: State,
    /// The store's.
    grace: Duration,
    epoch: u32,
    /// The newest commit that is known to be stored, and its head's checksum.
    number: u64,
    checksum: u64,
    /// When nothing newer than `number` was there.
    fresh: Duration,
    /// Counts changes.
    seq: u64,
    /// Changes up to this one are committed.
    covered: u64,
    syncs: Vec<Sync>,
    is_closing: bool,
    staging: staging::Staging,
    frozen: Option<commit::Frozen>,
    /// Changes of names and lengths, and placed pages, that are in no commit yet.
    pending: Vec<Op>,
    delta: BTreeSet<PageKey>,
    /// Keys of records that were changed since.
    records: BTreeSet<RecordBytes>,
    snapshots: Vec<String>,
    dropped: Vec<Snapshot>,
    emptied: Vec<ObjectId>,
    checkpoint: checkpoint::Checkpoints,
    /// Commits that are in the store.
    commits: BTreeSet<u64>,
    /// Those of them whose pages, if they had any, are superseded by the newest commit.
    empty_commits: BTreeSet<u64>,
    /// Their bytes, pages and all.
    commit_bytes: BTreeMap<u64, u64>,
    /// Bytes of pages, live and dead, by object.
    stored: BTreeMap<ObjectId, u64>,
    garbage: garbage::Garbage,
    cleaner: clean::Cleaner,
    /// Why the store could not be read or written last.
    trouble: Option<String>,
    /// Whether that was a refusal, and nothing was stored since.
    refusal: Option<Refusal>,
    /// The same, if it said that asking again is of no use.
    refused: Option<String>,
    is_full: bool,
    claims: follow::Claims,
    /// Bytes of a page.
    page_bytes: u32,
    salvaged: Option<Salvaged>,
}

impl Writer {
    /// Starts to open a store. [`Told::Opened`] reports the outcome.
    pub fn new(now: Duration, options: WriterOptions) -> Writer {
        let mut outbox = Outbox::default();
        let load = super::load::Load::new(now, Writer::purpose(&options), &mut outbox);
        Writer {
            phase: Phase::Opening(Box::new(load)),
            outbox,
            told: Vec::new(),
            state: State::default(),
            grace: Duration::ZERO,
            epoch: 0,
            number: 0,
            checksum: 0,
            fresh: now,
            seq: 0,
            covered: 0,
            syncs: Vec::new(),
            is_closing: false,
            staging: staging::Staging::default(),
            frozen: None,
            pending: Vec::new(),
            delta: BTreeSet::new(),
            records: BTreeSet::new(),
            snapshots: Vec::new(),
            dropped: Vec::new(),
            emptied: Vec::new(),
            checkpoint: checkpoint::Checkpoints::default(),
            commits: BTreeSet::new(),
            commit_bytes: BTreeMap::new(),
            empty_commits: BTreeSet::new(),
            stored: BTreeMap::new(),
            garbage: garbage::Garbage::new(now),
            cleaner: clean::Cleaner::default(),
            trouble: None,
            refusal: None,
            refused: None,
            is_full: false,
            claims: follow::Claims::default(),
            page_bytes: 0,
            salvaged: None,
            options,
        }
    }

    /// The requests made since the last call.
    pub fn requests(&mut self) -> Vec<Numbered> {
        self.outbox.take()
    }

    /// The reports since the last call.
    pub fn told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// Handles the answer to a request.
    pub fn answered(&mut self, now: Duration, id: RequestId, answer: Answer) {
        match self.phase {
            Phase::Opening(_) => self.load_answered(now, id, answer),
            Phase::Fencing(_) if self.checkpoint.is(id) => self.checkpoint_answered(now, answer),
            Phase::Fencing(_) => self.commit_answered(now, id, answer),
            Phase::Catching(_) => self.catching_answered(now, id, answer),
            Phase::Open | Phase::Closed => {
                if self.is_of_commit(id) {
                    self.commit_answered(now, id, answer);
                } else if self.staging.is_of_chunk(id) {
                    self.chunk_answered(now, id, answer);
                } else if self.checkpoint.is(id) {
                    self.checkpoint_answered(now, answer);
                } else if self.claims.is(id) {
                    self.claim_answered(now, answer);
                } else if self.cleaner.is(id) {
                    self.clean_answered(answer);
                } else {
                    self.garbage_answered(now, id, answer);
                }
                self.go_on(now);
            }
            Phase::Fenced(_) | Phase::Failed => {}
        }
    }

    /// The latest time for the next [`Writer::tick`].
    pub fn next_tick(&self) -> Option<Duration> {
        let of_phase = match &self.phase {
            Phase::Opening(load) => return load.next_tick(),
            Phase::Fenced(_) | Phase::Failed | Phase::Catching(_) => return None,
            Phase::Fencing(_) => None,
            Phase::Open | Phase::Closed => self.garbage.next_tick(),
        };
        let others = [
            of_phase,
            self.frozen.as_ref().and_then(|frozen| frozen.next_tick()),
            self.staging.next_tick(),
            self.checkpoint.next_tick(),
            self.clean_tick_at().filter(|_| matches!(self.phase, Phase::Open)),
            self.claims
                .waits_until()
                .filter(|_| matches!(self.phase, Phase::Open)),
        ];
        others.into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) {
        match &mut self.phase {
            Phase::Opening(load) => return load.tick(now, &mut self.outbox),
            Phase::Fenced(_) | Phase::Failed | Phase::Catching(_) => return,
            Phase::Fencing(_) | Phase::Open | Phase::Closed => {}
        }
        self.commit_tick(now);
        if matches!(self.phase, Phase::Fencing(_)) {
            self.checkpoint_tick(now);
        }
        if matches!(self.phase, Phase::Open | Phase::Closed) {
            self.staging.tick(now, self.epoch, &mut self.outbox);
            self.checkpoint_tick(now);
            self.garbage_tick(now);
            self.go_on(now);
        }
    }

    /// Requests that all earlier changes be committed. [`Told::Synced`] reports the outcome. After an error the commit
    /// may still be retried, so another sync may succeed.
    pub fn sync(&mut self, now: Duration, ticket: Ticket) {
        match &self.phase {
            Phase::Open | Phase::Closed => {}
            Phase::Fenced(fence) => {
                let error = SyncError::Fenced(fence.clone());
                return self.told.push(Told::Synced(ticket, Err(error)));
            }
            _ => {
                let error = SyncError::Store(String::from("it is not open"));
                return self.told.push(Told::Synced(ticket, Err(error)));
            }
        }
        // A writer that may have been taken over asks, by a commit of nothing.
        let is_known = self.is_known(now) || matches!(self.phase, Phase::Closed);
        if self.covered >= self.seq && is_known {
            return self.told.push(Told::Synced(ticket, Ok(())));
        }
        let barrier = self.seq;
        self.syncs.push(Sync {
            ticket,
            barrier,
            at: now,
            stopped: Duration::ZERO,
        });
        self.try_again(now);
        self.go_on(now);
    }

    /// The process was stopped for this long, which no sync has waited. `now` includes it, because a grace passes in
    /// the meantime.
    pub fn stopped(&mut self, time: Duration) {
        self.syncs.iter_mut().for_each(|sync| sync.stopped += time);
    }

    /// Retries immediately what waits for a retry.
    fn try_again(&mut self, now: Duration) {
        self.commit_again(now);
        self.reduce(now);
        self.staging.again(now);
        self.staging.tick(now, self.epoch, &mut self.outbox);
        self.checkpoint.again(now);
        self.checkpoint_tick(now);
    }

    /// As [`Writer::sync`], with a commit that records that the writer is done. Changes are refused from here on. After
    /// a failure it may be requested again.
    pub fn close(&mut self, now: Duration, ticket: Ticket) {
        if matches!(self.phase, Phase::Open) && !self.is_closing {
            self.seq += 1;
            self.is_closing = true;
        }
        self.sync(now, ticket);
    }

    /// The state, including all changes.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The newest commit known to be stored.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The epoch of this writer; zero until it is open.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The writer that has taken the store.
    pub fn fence(&self) -> Option<&Fence> {
        match &self.phase {
            Phase::Fenced(fence) => Some(fence),
            _ => None,
        }
    }

    /// Why the last read or write of the store failed, if it did.
    pub fn trouble(&self) -> Option<&str> {
        match &self.phase {
            Phase::Opening(load) => load.trouble.as_deref(),
            _ => self.trouble.as_deref(),
        }
    }

    /// Why the store refuses to be written, if that was its last answer: waiting for room among held bytes is useless.
    pub fn refusal(&self) -> Option<SyncError> {
        let (refusal, why) = (self.refusal?, self.trouble.as_deref()?);
        Some(SyncError::of(Some(refusal), why))
    }

    /// Why the store refuses to be opened, while opening.
    pub fn refused(&self) -> Option<&str> {
        match &self.phase {
            Phase::Opening(load) => load.refused.as_deref(),
            Phase::Fencing(_) => self.refused.as_deref(),
            _ => None,
        }
    }

    /// Whether the store is open for writes.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open) && !self.is_closing
    }

    /// The number of the last change, for [`Writer::covered`].
    pub fn changes(&self) -> u64 {
        self.seq
    }

    /// All changes up to this number are committed.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// The location of a page's newest bytes.
    pub fn page(&self, file: FileNo, page: u64) -> Uncommitted {
        if let Some(bytes) = self.staging.held(file, page) {
            return Uncommitted::Held(bytes);
        }
        match self.state.place(file, page) {
            Some(place) => Uncommitted::At(place),
            None => Uncommitted::Zeros,
        }
    }

    /// All pages that were written and are in no commit, in order.
    pub fn lost(&self) -> Vec<Lost> {
        let frozen = self.frozen.iter().flat_map(|frozen| &frozen.pages).copied();
        let keys: BTreeSet<PageKey> = frozen
            .chain(self.delta.iter().copied())
            .chain(self.staging.held_keys())
            .collect();
        let lost = keys.into_iter().map(|(file, page)| Lost {
            file,
            name: self
                .state
                .files
                .get(&file)
                .map(|file| file.name.clone())
                .unwrap_or_default(),
            page,
            bytes: self.page(file, page),
        });
        lost.filter(|lost| lost.bytes != Uncommitted::Zeros).collect()
    }

    /// All objects but pins.
    fn stored_bytes(&self) -> u64 {
        let chunks = self
            .stored
            .iter()
            .filter(|(object, _)| matches!(object.key(), Key::Chunk { .. }));
        let chunks: u64 = chunks.map(|(_, bytes)| bytes).sum();
        let commits: u64 = self.commit_bytes.values().sum();
        let checkpoints: u64 = self.garbage.checkpoint_bytes.values().sum();
        chunks + commits + checkpoints
    }

    /// For a closed store: whether everything started, and every due deletion, is done.
    pub fn is_settled(&self, now: Duration) -> bool {
        match self.phase {
            Phase::Open | Phase::Closed => self.garbage.is_settled(now),
            _ => true,
        }
    }

    /// Sizes and counts. Costs a visit to each object's record.
    pub fn usage(&self) -> Usage {
        Usage {
            live_bytes: self.state.live.values().sum(),
            stored_bytes: self.stored_bytes(),
            checkpoint_bytes: self.garbage.checkpoint_bytes.values().sum(),
            garbage_objects: self.garbage.objects(),
            uncommitted_bytes: self.staging.bytes(),
            commit: self.number,
            commits_since_checkpoint: self.checkpoint.commits,
            checkpoint_failures: self.checkpoint.failures(),
            deletion_failures: self.garbage.failures(),
            cleaned_bytes: self.cleaner.moved_bytes,
            pages: self
                .state
                .files
                .values()
                .map(|file| file.pages.len() as u64)
                .sum(),
        }
    }

    fn go_on(&mut self, now: Duration) {
        if matches!(self.phase, Phase::Open) {
            self.staging
                .seal_full(&self.options, self.epoch, now, &mut self.outbox);
            self.try_commit(now);
            self.try_clean(now);
        }
        if self.is_full {
            self.make_room(now);
        }
        if self.is_full && self.staging.written_bytes() < self.writes_max() {
            self.is_full = false;
            self.told.push(Told::Room);
        }
    }

    /// Whether no commit that was the newest can have been superseded and deleted since. Where there was none, another may have
    /// made the store meanwhile, with a grace that is not known.
    fn is_known(&self, now: Duration) -> bool {
        self.number > 0 && now.saturating_sub(self.fresh) <= self.grace / 2
    }

    fn fenced(&mut self, fence: Fence) {
        for sync in std::mem::take(&mut self.syncs) {
            self.told
                .push(Told::Synced(sync.ticket, Err(fence.clone().into())));
        }
        self.told.push(Told::Fenced(fence.clone()));
        if self.is_full {
            self.is_full = false;
            self.told.push(Told::Room);
        }
        self.phase = Phase::Fenced(fence);
    }

    fn open_or_why(&self) -> Result<(), WriteError> {
        match &self.phase {
            Phase::Open if !self.is_closing => Ok(()),
            Phase::Fenced(fence) => Err(fence.clone().into()),
            _ => Err(WriteError::Closed),
        }
    }
}
