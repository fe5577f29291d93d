//! A reader: reads the state as of a commit, and follows newer ones.
//!
//! ```text
//!   load ──► put a pin ──► open ──► read m/<n+1> ── absent ──► as new as a moment ago; later again
//!    ▲                      │            └───────── there ───► apply it, and look for the next at once
//!    └── its pin was not renewed for a grace; its pages are gone
//! ```
//!
//! A reader never sees a mixture: its state changes by whole commits, and objects never change. It sees no commit of a
//! writer that has lost its fence: while the reader's pin exists, no commit after its own is deleted, so none is
//! created again.
//!
//! A reader that may not write, or is told not to, has no pin. It trusts what follows its commit for half a grace since
//! nothing did, as a writer does, and starts over after that. What it reads may be deleted a grace after it was
//! superseded.

use crate::format::{Key, Pin};
use crate::layout::head::{Head, HeadFetch, READINGS};
use crate::layout::load::{Load, checkpoint_state, pause};
use crate::layout::loaded::{LastWriter, Loaded, Purpose};
use crate::layout::requests::{Answer, Numbered, Outbox, Request, RequestId};
use crate::layout::salvage::Salvaged;
use crate::layout::state::State;
use bytes::Bytes;
use std::time::Duration;

mod holds;
mod told;
mod view;

use holds::Holds;
use view::View;

pub use told::{At, Pinning, ReadError, ReaderOptions, ReaderTold};

#[derive(Debug)]
enum Step {
    Loading(Box<Load>),
    /// Of a snapshot.
    Checkpoint {
        request: Result<RequestId, Duration>,
        key: Key,
    },
    Pinning {
        request: Result<RequestId, Duration>,
        sent: Duration,
    },
    Open {
        poll: Result<HeadFetch, Duration>,
        sent: Duration,
    },
    Failed,
}

/// A reader of a store.
#[derive(Debug)]
pub struct Reader {
    options: ReaderOptions,
    /// The store's.
    grace: Duration,
    outbox: Outbox,
    told: Vec<ReaderTold>,
    step: Step,
    view: View,
    /// What was loaded, and is read once it is pinned.
    next: View,
    holds: Holds,
    /// The pin: how often it was put, which request does so, when the last that is stored was sent.
    beat: u64,
    /// Pins that were given up before it.
    pins: u64,
    renewing: Option<(RequestId, Duration)>,
    pinned: Duration,
    /// Why it has no pin.
    unpinned: Option<String>,
    /// How often the checkpoint of a snapshot was read and is damaged.
    readings: u32,
    failures: u32,
    trouble: Option<String>,
    is_open: bool,
}

impl Reader {
    /// Starts to open a store for reading.
    pub fn new(now: Duration, options: ReaderOptions) -> Reader {
        let mut outbox = Outbox::default();
        let load = Load::new(now, Reader::purpose(&options), &mut outbox);
        let is_without = options.pinning == Pinning::Never;
        Reader {
            unpinned: is_without.then(|| String::from("it was opened as one that has none")),
            readings: 0,
            options,
            grace: Duration::MAX,
            outbox,
            told: Vec::new(),
            step: Step::Loading(Box::new(load)),
            view: View::default(),
            next: View::default(),
            holds: Holds::default(),
            beat: 0,
            pins: 0,
            renewing: None,
            pinned: now,
            failures: 0,
            trouble: None,
            is_open: false,
        }
    }

    fn purpose(options: &ReaderOptions) -> Purpose {
        Purpose {
            grace: options.grace,
            writes: false,
            salvages: options.salvage,
        }
    }

    /// Why the reader has no pin to keep what it reads from being deleted, if it has none.
    pub fn unpinned(&self) -> Option<&str> {
        self.unpinned.as_deref()
    }

    /// What was opened of an incomplete store.
    pub fn salvaged(&self) -> Option<&Salvaged> {
        self.view.salvaged.as_ref()
    }

    /// The writer of the newest commit, unless that commit could not be read.
    pub fn last_writer(&self) -> Option<&LastWriter> {
        self.view.last_writer.as_ref()
    }

    /// Keeps what the current commit has from being deleted, as the pin does, until it is released as often. Returns the
    /// commit.
    pub fn hold(&mut self) -> u64 {
        let commit = self.number();
        self.holds.hold(commit);
        commit
    }

    /// Keeps what an earlier commit had, as far as it was not deleted yet, until it is released as often.
    pub fn hold_at(&mut self, commit: u64) {
        self.holds.hold(commit);
    }

    /// Undoes a hold. What only that kept stays until the pin is renewed.
    pub fn release(&mut self, commit: u64) {
        self.holds.release(commit);
    }

    /// How long the store keeps superseded objects.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// The requests made since the last call.
    pub fn requests(&mut self) -> Vec<Numbered> {
        self.outbox.take()
    }

    /// The reports since the last call.
    pub fn told(&mut self) -> Vec<ReaderTold> {
        std::mem::take(&mut self.told)
    }

    /// The current state. It changes by whole commits, in order.
    pub fn state(&self) -> &State {
        &self.view.state
    }

    /// Page size in bytes.
    pub fn page_bytes(&self) -> u32 {
        self.view.page_bytes
    }

    /// The current commit; for a snapshot, the newest one when it was opened.
    pub fn number(&self) -> u64 {
        self.view.commit()
    }

    /// How long ago this commit was known to be the newest.
    pub fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.view.fresh)
    }

    /// When it was last known that there is nothing newer.
    pub fn fresh(&self) -> Duration {
        self.view.fresh
    }

    /// How long ago the pin that protects the current state was put. After two graces a writer drops it.
    pub fn pin_age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.pinned)
    }

    /// Whether the reader has let its pin lapse.
    fn is_lapsed(&self, now: Duration) -> bool {
        self.unpinned.is_none() && self.pin_age(now) > self.grace
    }

    /// Whether there is something to read.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Why the last read of the store failed, if it did.
    pub fn trouble(&self) -> Option<&str> {
        match &self.step {
            Step::Loading(load) => load.trouble.as_deref(),
            _ => self.trouble.as_deref(),
        }
    }

    /// Why the very first request failed, while opening.
    pub fn refused(&self) -> Option<&str> {
        match &self.step {
            Step::Loading(load) => load.refused.as_deref(),
            _ => None,
        }
    }

    /// An object named by the state does not exist: the reader was away for too long. It starts over.
    pub fn is_gone(&mut self, now: Duration) {
        if matches!(self.step, Step::Open { .. }) {
            self.load(now);
        }
    }

    /// Looks for a newer commit now.
    pub fn poll(&mut self, now: Duration) {
        if let Step::Open {
            poll: poll @ Err(_), ..
        } = &mut self.step
        {
            *poll = Err(now);
            self.tick(now);
        }
    }

    fn load(&mut self, now: Duration) {
        if self.is_lapsed(now) {
            self.pins += 1;
        }
        (self.renewing, self.readings) = (None, 0);
        let load = Load::new(now, Reader::purpose(&self.options), &mut self.outbox);
        self.step = Step::Loading(Box::new(load));
    }

    /// A reader that has a state keeps it and retries: a newer commit may be complete.
    fn fail(&mut self, now: Duration, error: ReadError) {
        match (&error, self.is_open) {
            (ReadError::Load(_) | ReadError::Pin { .. }, true) => {
                self.trouble = Some(error.to_string());
                let load = Load::later(now, Reader::purpose(&self.options));
                self.step = Step::Loading(Box::new(load));
            }
            _ => {
                self.told.push(ReaderTold::Failed(error));
                self.step = Step::Failed;
            }
        }
    }

    /// The latest time for the next [`Reader::tick`].
    pub fn next_tick(&self) -> Option<Duration> {
        match &self.step {
            Step::Loading(load) => load.next_tick(),
            Step::Checkpoint { request, .. } | Step::Pinning { request, .. } => request.err(),
            Step::Open { poll, .. } => {
                let renews = self.renewing.is_none() && self.unpinned.is_none();
                let renewal = renews.then(|| self.renewal());
                let poll = poll
                    .as_ref()
                    .err()
                    .copied()
                    .filter(|_| self.options.at == At::Newest);
                [renewal, poll].into_iter().flatten().min()
            }
            Step::Failed => None,
        }
    }

    fn renewal(&self) -> Duration {
        self.pinned + self.grace / 8 + pause(self.failures) - pause(0)
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) {
        match &mut self.step {
            Step::Loading(load) => load.tick(now, &mut self.outbox),
            Step::Checkpoint { request, key } => {
                if request.is_err_and(|until| until <= now) {
                    let key = *key;
                    *request = Ok(self.outbox.ask(Request::Get { key, range: None }));
                }
            }
            Step::Pinning { request, .. } => {
                if request.is_err_and(|until| until <= now) {
                    self.pin(now);
                }
            }
            Step::Open { poll, sent } => {
                if poll.as_ref().is_err_and(|until| *until <= now) && self.options.at == At::Newest {
                    *poll = Ok(HeadFetch::new(self.view.number + 1, &mut self.outbox));
                    *sent = now;
                }
                if self.renewing.is_none() && self.unpinned.is_none() && self.renewal() <= now {
                    // A writer may give it up by now. Its name is not used again: a deletion may be under way.
                    if self.is_lapsed(now) {
                        return self.load(now);
                    }
                    let request = self.put_pin(self.holds.oldest(self.number()));
                    self.renewing = Some((request, now));
                }
            }
            Step::Failed => {}
        }
    }

    fn put_pin(&mut self, number: u64) -> RequestId {
        self.beat += 1;
        let pin = Pin {
            number,
            beat: self.beat,
            owner: self.options.owner.clone(),
        };
        let (key, body) = (self.pin_key(), vec![Bytes::from(pin.encode())].into());
        self.outbox.ask(Request::Overwrite { key, body })
    }

    fn pin(&mut self, now: Duration) {
        if self.unpinned.is_some() {
            return self.go_on(now, now);
        }
        // What is read until it is stored is held as well.
        let number = match self.is_open {
            true => self.number().min(self.next.commit()),
            false => self.next.commit(),
        };
        let request = Ok(self.put_pin(self.holds.oldest(number)));
        self.step = Step::Pinning { request, sent: now };
    }

    /// Handles the answer to a request.
    pub fn answered(&mut self, now: Duration, id: RequestId, answer: Answer) {
        if let Answer::Failed(why) | Answer::Refused(_, why) = &answer {
            self.trouble = Some(why.clone());
        }
        if let Some((request, sent)) = self.renewing
            && request == id
        {
            self.renewing = None;
            match answer {
                Answer::Stored => (self.pinned, self.failures) = (sent, 0),
                _ => self.failures += 1,
            }
            return;
        }
        match &mut self.step {
            Step::Loading(load) => match load.answered(now, id, answer, &mut self.outbox) {
                None => {}
                Some(Ok(loaded)) => self.loaded(now, loaded),
                Some(Err(error)) => self.fail(now, error.into()),
            },
            Step::Checkpoint { request, key } if *request == Ok(id) => match answer {
                Answer::Bytes(bytes) => {
                    let Key::Checkpoint { number, epoch } = *key else {
                        return;
                    };
                    match checkpoint_state((number, epoch), &bytes) {
                        Ok((state, _)) => {
                            self.next.state = state;
                            self.pin(now);
                        }
                        Err(_) if self.readings + 1 < READINGS => {
                            self.readings += 1;
                            *request = Err(now);
                            self.tick(now);
                        }
                        Err(error) => self.fail(now, error.into()),
                    }
                }
                // It was given up meanwhile, or will be found missing.
                Answer::Absent => self.load(now),
                _ => *request = Err(now + pause(3)),
            },
            Step::Pinning { request, sent } if *request == Ok(id) => match answer {
                // What held when it was asked has not been deleted if the pin came in time.
                Answer::Stored if now.saturating_sub(self.next.fresh) <= self.grace / 2 => {
                    let sent = *sent;
                    self.go_on(now, sent);
                }
                Answer::Refused(_, why) => {
                    let key = self.pin_key();
                    match self.options.pinning {
                        Pinning::Always => self.fail(now, ReadError::Pin { key, why }),
                        _ => {
                            self.unpinned = Some(format!("{key}: {why}"));
                            self.pin(now);
                        }
                    }
                }
                Answer::Stored => self.load(now),
                _ => *request = Err(now + pause(3)),
            },
            Step::Open {
                poll: poll @ Ok(_),
                sent,
            } => {
                let (Ok(fetch), sent) = (poll.as_mut(), *sent) else {
                    return;
                };
                if fetch.request != id {
                    return;
                }
                match fetch.answered(answer, &mut self.outbox) {
                    Head::More => {}
                    Head::Failed(_) => *poll = Err(now + self.options.poll),
                    Head::Absent => {
                        *poll = Err(now + self.options.poll);
                        self.believe(now, sent);
                    }
                    Head::Is(commit, checksum) => self.follow(now, &commit, checksum),
                    Head::Bad(_) => self.load(now),
                }
            }
            _ => {}
        }
    }

    /// What was loaded is read from now on. The pin that holds it was sent at `pinned`.
    fn go_on(&mut self, now: Duration, pinned: Duration) {
        if now.saturating_sub(self.next.fresh) > self.grace / 2 {
            return self.load(now);
        }
        self.pinned = pinned;
        self.view = std::mem::take(&mut self.next);
        let moved = match std::mem::replace(&mut self.is_open, true) {
            true => ReaderTold::Moved,
            false => ReaderTold::Opened,
        };
        self.told.push(moved);
        let poll = Err(now + self.options.poll);
        self.step = Step::Open { poll, sent: now };
    }

    /// Whether the commit behind its own, if there was one, is there still: its pin holds it. Without one it is for half a
    /// grace.
    fn is_held(&self, now: Duration) -> bool {
        match self.unpinned {
            Some(_) => now.saturating_sub(self.view.fresh) <= self.grace / 2,
            None => self.pin_age(now) <= self.grace,
        }
    }

    /// Nothing was behind its commit at `sent`.
    fn believe(&mut self, now: Duration, sent: Duration) {
        match self.is_held(now) {
            true => self.view.fresh = sent,
            false => self.load(now),
        }
    }

    fn follow(&mut self, now: Duration, commit: &crate::format::Commit, checksum: u64) {
        let follows = commit.previous == self.view.checksum;
        if !self.is_held(now) || !follows {
            return self.load(now);
        }
        let mut next = Ok(());
        for op in &commit.ops {
            next = next.and_then(|()| self.view.state.apply(op, commit.page_bytes, &mut Vec::new()));
        }
        if next.is_err() {
            self.is_open = false;
            return self.load(now);
        }
        (self.view.number, self.view.checksum) = (commit.number, checksum);
        self.view.last_writer = Some(LastWriter::of(commit));
        self.view.salvaged = None;
        self.told.push(ReaderTold::Moved);
        self.step = Step::Open {
            poll: Err(now),
            sent: now,
        };
        self.tick(now);
    }

    fn loaded(&mut self, now: Duration, loaded: Loaded) {
        let grace = loaded.grace;
        let Some(next) = View::of(loaded) else {
            return self.fail(now, ReadError::Empty);
        };
        (self.grace, self.next) = (grace, next);
        match &self.options.at {
            At::Newest => self.pin(now),
            At::Snapshot(name) => match self.next.state.snapshots.get(name) {
                Some(snapshot) => {
                    let (number, epoch) = (snapshot.number, snapshot.epoch);
                    let key = Key::Checkpoint { number, epoch };
                    let request = Ok(self.outbox.ask(Request::Get { key, range: None }));
                    self.step = Step::Checkpoint { request, key };
                }
                None => {
                    let name = name.clone();
                    self.fail(now, ReadError::NoSnapshot(name));
                }
            },
        }
    }

    /// Its pin, to be deleted when the reader is done.
    pub fn pin_key(&self) -> Key {
        Key::Pin(self.options.id.wrapping_add(self.pins))
    }
}
