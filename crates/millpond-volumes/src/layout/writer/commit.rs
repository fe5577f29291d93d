//! The content of a commit, whether it is stored, and which callers are notified.
//!
//! A commit is *frozen* when it is made: until its outcome is known, the same bytes are put again, and no other commit
//! is made.
//!
//! ```text
//!             ┌──────────── absent ────────────┐
//!             ▼                                │
//!   create m/<n> ── exists, no answer ──► read m/<n> ── another's ──► fenced
//!             │                                │
//!           stored                            ours
//!             └───────────────┬────────────────┘
//!                             ▼
//!        known for half a grace to be the newest? ── no ──► list what is behind ── anything ──► fenced
//!                             │ yes                                │ nothing
//!                             └─────────────► told ◄───────────────┘
//! ```

use super::staging::Staged;
use super::{Fence, PageKey, Phase, Told, Writer};
use crate::format::{Commit, Key, Kind, ObjectId, Op, PageEntry, checksum};
use crate::layout::head::{Head, HeadFetch};
use crate::layout::load::pause;
use crate::layout::requests::{Answer, Body, Refusal, Request, RequestId};
use crate::layout::state::{Place, Snapshot};
use crate::mutation::{self, Mutation};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug)]
enum Step {
    /// Its checkpoint has to be stored first, as a snapshot needs it.
    Checkpoint,
    Putting(RequestId),
    Finding(HeadFetch),
    Proving {
        request: RequestId,
        asked: Duration,
    },
    /// Until it is asked again what became of it.
    Waiting {
        until: Duration,
        next: Next,
    },
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Put,
    Find,
    Prove,
}

/// A commit of which it is not known yet whether it is stored.
#[derive(Debug)]
pub(super) struct Frozen {
    step: Step,
    commit: Commit,
    checksum: u64,
    body: Body,
    inline: Vec<Staged>,
    /// All pages that it places.
    pub(super) pages: Vec<PageKey>,
    /// It has all changes up to this one.
    covers: u64,
    dead: Vec<ObjectId>,
    pub(super) dropped: Vec<Snapshot>,
    /// When it was first put.
    first: Duration,
    /// When the last request for it was made.
    asked: Duration,
    failures: u32,
    /// How often it was absent after it was put, or said to exist, without a failure between.
    circles: u32,
    /// All that holds as of it, if a checkpoint is due.
    checkpoint: Option<Body>,
}

impl Frozen {
    pub(super) fn next_tick(&self) -> Option<Duration> {
        match self.step {
            Step::Waiting { until, .. } => Some(until),
            _ => None,
        }
    }
}

impl Writer {
    pub(super) fn is_of_commit(&self, id: RequestId) -> bool {
        self.frozen.as_ref().is_some_and(|frozen| match &frozen.step {
            Step::Putting(request) | Step::Proving { request, .. } => *request == id,
            Step::Finding(fetch) => fetch.request == id,
            Step::Checkpoint | Step::Waiting { .. } => false,
        })
    }

    /// Makes a commit if a sync waits for one, and all that it is to have can be had.
    pub(super) fn try_commit(&mut self, now: Duration) {
        if self.gives_way(now) {
            return;
        }
        // The last commit names the checkpoint that is on its way, or no other writer would find it.
        if self.frozen.is_some() || self.is_closing && self.checkpoint.is_on_its_way() {
            return;
        }

        let asked = self.syncs.iter().map(|sync| sync.barrier).min();
        let moved = self.is_commit_for_moved_due(now).then_some(self.covered);
        let Some(barrier) = asked.or(moved) else { return };
        let Writer {
            options,
            epoch,
            outbox,
            staging,
            ..
        } = self;
        if let Some(inline) = staging.inline(barrier, options, *epoch, now, outbox) {
            self.freeze(now, inline);
        }
    }

    /// Makes the next commit of all that is placed, and of pages that it carries itself.
    pub(super) fn freeze(&mut self, now: Duration, inline: Vec<Staged>) {
        let number = self.number + 1;
        let mut ops = std::mem::take(&mut self.pending);
        let records = std::mem::take(&mut self.records).into_iter();
        ops.extend(records.map(|key| Op::Record {
            value: self.state.records.get(&key).cloned(),
            key,
        }));
        let mut is_snapshot = false;
        for name in std::mem::take(&mut self.snapshots) {
            let epoch = self.epoch;
            let op = Op::Snapshot { name, number, epoch };
            is_snapshot = true;
            let applied = self.state.apply(&op, self.page_bytes, &mut self.emptied);
            assert!(applied.is_ok(), "{applied:?}");
            ops.push(op);
        }
        // A page of the commit itself counts from the end of its head, until that is known.
        let object = ObjectId::commit(number);
        let mut offset = 0;
        let mut places = BTreeMap::new();
        for Staged { key, bytes, .. } in &inline {
            let len = bytes.len() as u32;
            let checksum = checksum(bytes);
            let place = Place {
                object,
                offset,
                bytes: len,
                kept: len,
                checksum,
            };
            places.insert(*key, place);
            offset += len;
        }
        let delta = std::mem::take(&mut self.delta);
        self.cleaner.has_moved = false;
        for key in &delta {
            if let Some(place) = self.state.place(key.0, key.1) {
                places.entry(*key).or_insert(place);
            }
        }
        let covers = self.staging.placed_up_to(self.seq);
        let is_newest = covers == self.seq;
        let mut commit = Commit {
            number,
            epoch: self.epoch,
            nonce: self.options.nonce,
            previous: self.checksum,
            checkpoint: self.checkpoint.newest,
            page_bytes: self.page_bytes,
            grace_ms: self.grace.as_millis() as u64,
            at_unix_ms: self.options.unix_ms_at_zero + now.as_millis() as u64,
            closed: self.is_closing && is_newest,
            owner: self.options.owner.clone(),
            ops: Vec::new(),
        };
        let names = ops.len();
        for (&(file, page), &place) in &places {
            let entry = PageEntry::of(page, place);
            match ops[names..].last_mut() {
                Some(Op::Pages { file: last, entries }) if *last == file => entries.push(entry),
                _ => ops.push(Op::Pages {
                    file,
                    entries: vec![entry],
                }),
            }
        }
        commit.ops = ops;
        let head_bytes = commit.encode().len() as u32;
        for op in &mut commit.ops {
            let Op::Pages { entries, .. } = op else { continue };
            for entry in entries.iter_mut().filter(|entry| entry.object == object) {
                entry.offset += head_bytes;
            }
        }
        let head = Bytes::from(commit.encode());
        for Staged { key, seq, .. } in &inline {
            let mut place = places[key];
            place.offset += head_bytes;
            self.state.put(key.0, key.1, place, &mut self.emptied);
            self.staging.inline_is_placed(*key, *seq);
        }
        if offset > 0 {
            self.stored.insert(object, u64::from(offset));
        }
        let is_due = self.is_checkpoint_due() && matches!(self.phase, Phase::Open);
        let checkpoint = (is_due || is_snapshot).then(|| self.checkpoint_of(number));
        if is_snapshot {
            self.snapshot_holds(number, self.epoch);
        }
        let checksum = checksum(&head);
        let pieces = inline.iter().map(|page| page.bytes.clone());
        let body: Vec<Bytes> = std::iter::once(head).chain(pieces).collect();
        self.frozen = Some(Frozen {
            step: Step::Checkpoint,
            commit,
            checksum,
            body: body.into(),
            pages: places.into_keys().collect(),
            inline,
            covers,
            dead: std::mem::take(&mut self.emptied),
            dropped: std::mem::take(&mut self.dropped),
            first: now,
            asked: now,
            failures: 0,
            circles: 0,
            checkpoint,
        });
        match is_snapshot || matches!(self.phase, Phase::Fencing(_)) && self.salvaged.is_some() {
            true => self.put_checkpoint_first(now),
            false => self.put_commit(now),
        }
    }

    /// The commit behind one that is not whole: it begins from a checkpoint of what is.
    pub(super) fn freeze_salvaged(&mut self, now: Duration) {
        let number = self.number;
        let body = self.checkpoint_of(number);
        self.checkpoint.newest = (number, self.epoch);
        self.freeze(now, Vec::new());
        self.put_checkpoint(now, number, body, true);
    }

    fn put_checkpoint_first(&mut self, now: Duration) {
        let Some(frozen) = &mut self.frozen else { return };
        let number = frozen.commit.number;
        if let Some(body) = frozen.checkpoint.take() {
            self.put_checkpoint(now, number, body, true);
        }
    }

    /// The checkpoint that a snapshot needs is stored.
    pub(super) fn checkpoint_is_there(&mut self, now: Duration) {
        if matches!(
            &self.frozen,
            Some(Frozen {
                step: Step::Checkpoint,
                ..
            })
        ) {
            self.put_commit(now);
        }
    }

    fn put_commit(&mut self, now: Duration) {
        let Some(frozen) = &mut self.frozen else { return };
        let key = Key::Commit(frozen.commit.number);
        let body = frozen.body.clone();
        if frozen.failures == 0 {
            frozen.first = now;
        }
        frozen.asked = now;
        frozen.step = Step::Putting(self.outbox.ask(Request::Create { key, body }));
    }

    fn find(&mut self, now: Duration) {
        let Some(frozen) = &mut self.frozen else { return };
        frozen.asked = now;
        frozen.step = Step::Finding(HeadFetch::new(frozen.commit.number, &mut self.outbox));
    }

    fn list_behind(&mut self, now: Duration) {
        let Some(frozen) = &mut self.frozen else { return };
        let (kind, after) = (Kind::Commit, Some(Key::Commit(frozen.commit.number)));
        let request = self.outbox.ask(Request::List { kind, after });
        frozen.asked = now;
        frozen.step = Step::Proving { request, asked: now };
    }

    pub(super) fn commit_tick(&mut self, now: Duration) {
        let Some(Frozen {
            step: Step::Waiting { until, next },
            ..
        }) = self.frozen
        else {
            return;
        };
        if until > now {
            return;
        }
        match next {
            Next::Put => self.put_commit(now),
            Next::Find => self.find(now),
            Next::Prove => self.list_behind(now),
        }
    }

    pub(super) fn commit_answered(&mut self, now: Duration, id: RequestId, answer: Answer) {
        if !self.is_of_commit(id) {
            return;
        }
        let Some(frozen) = &mut self.frozen else { return };
        let refusal = answer.refusal();
        match &mut frozen.step {
            Step::Putting(_) => match answer {
                Answer::Stored => self.stored(now),
                Answer::Failed(_) if mutation::is(Mutation::OutcomeGuessed) => self.stored(now),
                Answer::Failed(why) => {
                    frozen.failures += 1;
                    match frozen.failures {
                        1 => self.find(now),
                        _ => self.wait(now, Next::Find, &why, None),
                    }
                }
                // An attempt before the one that was refused may have been done.
                Answer::Refused(refusal, why) => {
                    frozen.failures += 1;
                    self.refused = Some(why.clone());
                    self.wait(now, Next::Find, &why, Some(refusal));
                }
                _ => self.find(now),
            },
            Step::Finding(fetch) => match fetch.answered(answer, &mut self.outbox) {
                Head::Is(found, checksum) => {
                    let ours = checksum == frozen.checksum && *found == frozen.commit;
                    match ours || mutation::is(Mutation::FenceIgnored) {
                        true => self.stored(now),
                        false => self.overtaken(now, Fence::of(&found), Some((found, checksum))),
                    }
                }
                Head::More => {}
                Head::Absent => {
                    frozen.failures += 1;
                    frozen.circles += 1;
                    match frozen.circles {
                        ..4 => self.put_commit(now),
                        _ => self.wait(now, Next::Put, "it says that a commit exists, and has none", None),
                    }
                }
                Head::Failed(why) => {
                    frozen.failures += 1;
                    self.wait(now, Next::Find, &why, refusal);
                }
                // What is there is no commit of ours, which had been whole.
                Head::Bad(error) => {
                    let owner = format!("an unknown one: {error}");
                    self.overtaken(now, Fence::unknown(owner), None);
                }
            },
            Step::Proving { asked, .. } => {
                let asked = *asked;
                match answer {
                    Answer::Listed(listed) if listed.is_empty() => self.confirmed(now, asked),
                    Answer::Listed(_) | Answer::Part(_) => {
                        let owner = String::from("one that has made newer commits");
                        self.overtaken(now, Fence::unknown(owner), None);
                    }
                    other => {
                        frozen.failures += 1;
                        self.wait(now, Next::Prove, &other.why("list"), refusal);
                    }
                }
            }
            Step::Checkpoint | Step::Waiting { .. } => {}
        }
    }

    fn wait(&mut self, now: Duration, next: Next, why: &str, refusal: Option<Refusal>) {
        let Some(frozen) = &mut self.frozen else { return };
        frozen.circles = 0;
        let (mut until, asked) = (now + pause(frozen.failures), frozen.asked);
        // A sync that came meanwhile wants it to be tried once more at once.
        if self.syncs.iter().any(|sync| sync.at > asked) {
            until = now;
        }
        frozen.step = Step::Waiting { until, next };
        self.tell_failure(now, why, asked, refusal);
        self.commit_tick(now);
    }

    /// If it waits to be asked again what became of it, it is asked now.
    pub(super) fn commit_again(&mut self, now: Duration) {
        if let Some(Frozen {
            step: Step::Waiting { until, .. },
            ..
        }) = &mut self.frozen
        {
            *until = now;
        }
        self.commit_tick(now);
    }

    /// The commit is there under its number. Whether that was free because nothing newer is there, or because all that was
    /// there has been deleted, is known by the time.
    fn stored(&mut self, now: Duration) {
        self.refusal = None;
        let Some(first) = self.frozen.as_ref().map(|frozen| frozen.first) else {
            return;
        };
        match self.is_known(now) || mutation::is(Mutation::SleeperBelieved) {
            true => self.confirmed(now, first),
            false => self.list_behind(now),
        }
    }

    /// The commit is the newest; nothing newer was there at `fresh`.
    fn confirmed(&mut self, now: Duration, fresh: Duration) {
        let Some(frozen) = self.frozen.take() else { return };
        let Frozen {
            commit,
            checksum,
            inline,
            covers,
            dead,
            dropped,
            checkpoint,
            body,
            ..
        } = frozen;
        (self.number, self.checksum, self.fresh) = (commit.number, checksum, fresh);
        self.covered = self.covered.max(covers);
        self.commits.insert(commit.number);
        self.commit_bytes.insert(commit.number, body.total());
        self.staging.committed(&inline);
        self.checkpoint.commits += 1;
        self.checkpoint.head_bytes += body.first().map_or(0, |head| head.len() as u64);
        if let Some(body) = checkpoint {
            self.put_checkpoint(now, commit.number, body, false);
        }
        self.look_for_claim(now);
        self.superseded(now, &commit, dead, dropped);
        let covered = self.covered;
        let (done, waiting) = std::mem::take(&mut self.syncs)
            .into_iter()
            .partition(|sync| sync.barrier <= covered);
        self.syncs = waiting;
        for super::Sync { ticket, .. } in done as Vec<super::Sync> {
            self.told.push(Told::Synced(ticket, Ok(())));
        }
        match self.phase {
            Phase::Fencing(_) => self.opened(now, &commit),
            _ if commit.closed => self.phase = Phase::Closed,
            _ => {}
        }
    }
}

impl Fence {
    pub(super) fn unknown(owner: String) -> Fence {
        Fence {
            epoch: 0,
            owner,
            at_unix_ms: 0,
        }
    }

    fn of(commit: &Commit) -> Fence {
        Fence {
            epoch: commit.epoch,
            owner: commit.owner.clone(),
            at_unix_ms: commit.at_unix_ms,
        }
    }
}
