//! Stores the complete state from time to time, so that opening reads few commits.
//!
//! A checkpoint is as large as the map. So one is made after a number of commits, but not before their heads are half
//! as large as the last checkpoint. The bytes written for checkpoints thus stay below twice those of the commits.
//! Commits name a checkpoint once it is stored.

use super::Writer;
use crate::format::{Checkpoint, Key};
use crate::layout::load::pause;
use crate::layout::options::WriterOptions;
use crate::layout::requests::{Answer, Body, Refusal, Request, RequestId};
use crate::mutation::{self, Mutation};
use bytes::Bytes;
use std::time::Duration;

/// After so many commits there is a checkpoint, however large the map is: opening reads no more of them.
const COMMITS_MAX: u64 = 1024;

#[derive(Debug)]
struct Flight {
    number: u64,
    body: Body,
    request: Result<RequestId, Duration>,
    asked: Duration,
    failures: u32,
    /// A commit waits for it.
    is_first: bool,
    /// It was there already: it is read, to see whether it is this one.
    is_compared: bool,
}

/// What is known of checkpoints.
#[derive(Default, Debug)]
pub(super) struct Checkpoints {
    /// The newest that is stored: commit and epoch.
    pub(super) newest: (u64, u32),
    /// Commits since then, and their heads.
    pub(super) commits: u64,
    pub(super) head_bytes: u64,
    bytes: u64,
    flight: Option<Flight>,
    /// For what is dead in commits.
    is_wanted: bool,
}

impl Checkpoints {
    /// As of commit `number`, which names this one as the newest.
    pub(super) fn begin(&mut self, newest: (u64, u32), number: u64) {
        *self = Checkpoints {
            newest,
            commits: number - newest.0,
            ..Checkpoints::default()
        };
    }

    pub(super) fn is(&self, id: RequestId) -> bool {
        self.flight
            .as_ref()
            .is_some_and(|flight| flight.request == Ok(id))
    }

    pub(super) fn is_due(&self, options: &WriterOptions) -> bool {
        let is_worth_it = self.head_bytes * 2 >= self.bytes || self.commits >= COMMITS_MAX;
        self.flight.is_none() && self.commits >= options.checkpoint_commits && is_worth_it
    }

    /// Whether one is, and has not failed yet.
    pub(super) fn is_on_its_way(&self) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.failures == 0)
    }

    /// How often one could not be stored since the last that was.
    pub(super) fn failures(&self) -> u32 {
        self.flight.as_ref().map_or(0, |flight| flight.failures)
    }

    /// What waits to be put again is due.
    pub(super) fn again(&mut self, now: Duration) {
        if let Some(flight) = self.flight.as_mut().filter(|flight| flight.request.is_err()) {
            flight.request = Err(now);
        }
    }

    pub(super) fn next_tick(&self) -> Option<Duration> {
        self.flight.as_ref()?.request.err()
    }
}

impl Writer {
    /// Whether a checkpoint is to be made with the next commit.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        let is_free = self.checkpoint.flight.is_none();
        is_free && self.checkpoint.is_wanted || self.checkpoint.is_due(&self.options)
    }

    /// A commit is the newest: a checkpoint may be wanted for what is dead in commits, which is deleted behind one.
    pub(super) fn look_for_dead_commits(&mut self) {
        let dead = self
            .empty_commits
            .iter()
            .filter_map(|number| self.commit_bytes.get(number));
        let dead: u64 = dead.sum();
        let least = self.options.chunk_bytes.max(self.checkpoint.bytes * 2);
        self.checkpoint.is_wanted = dead > least && dead > self.state.live.values().sum::<u64>() / 2;
    }

    /// Whether a commit is of use that nobody asks for: to make a checkpoint that is wanted, or to name one, so that commits
    /// before it can be deleted.
    pub(super) fn is_commit_for_checkpoint(&self) -> bool {
        let newest = self.checkpoint.newest.0;
        let is_empty = self.empty_commits.first().is_some_and(|first| *first <= newest);
        let is_unnamed = newest > self.garbage.named.0 && is_empty;
        is_unnamed || self.checkpoint.flight.is_none() && self.checkpoint.is_wanted
    }

    /// The state as of commit `number`, which is being made. Kept now, at the cost of a count for each leaf of the map; walked,
    /// and made bytes of, later.
    pub(super) fn checkpoint_of(&self, number: u64) -> Body {
        let (state, epoch, page_bytes) = (self.state.copy_for_ops(), self.epoch, self.page_bytes);
        Body::later(move || {
            let ops = state.ops();
            let checkpoint = Checkpoint {
                number,
                epoch,
                page_bytes,
                ops,
            };
            vec![Bytes::from(checkpoint.encode())]
        })
    }

    pub(super) fn put_checkpoint(&mut self, now: Duration, number: u64, body: Body, is_first: bool) {
        self.garbage.checkpoint_is_made(number, self.epoch);
        // One that is still on its way is of an older commit.
        self.checkpoint.flight = Some(Flight {
            number,
            body,
            request: Err(now),
            asked: now,
            failures: 0,
            is_first,
            is_compared: false,
        });
        self.send_checkpoint(now);
        if mutation::is(Mutation::CheckpointUnproven) {
            self.checkpoint.newest = (number, self.epoch);
        }
    }

    fn send_checkpoint(&mut self, now: Duration) {
        let epoch = self.epoch;
        if let Some(flight) = &mut self.checkpoint.flight {
            let number = flight.number;
            let (key, body) = (Key::Checkpoint { number, epoch }, flight.body.clone());
            flight.request = Ok(self.outbox.ask(Request::Create { key, body }));
            flight.is_compared = false;
            flight.asked = now;
        }
    }

    pub(super) fn checkpoint_answered(&mut self, now: Duration, answer: Answer) {
        let Some(flight) = &mut self.checkpoint.flight else {
            return;
        };
        match answer {
            Answer::Exists if !mutation::is(Mutation::NameBelieved) => {
                let (number, epoch) = (flight.number, self.epoch);
                let key = Key::Checkpoint { number, epoch };
                flight.is_compared = true;
                flight.request = Ok(self.outbox.ask(Request::Get { key, range: None }));
            }
            Answer::Bytes(bytes) if flight.is_compared && !flight.body.is(&bytes) => {
                self.checkpoint_is_anothers(now)
            }
            Answer::Stored | Answer::Exists | Answer::Bytes(_) => {
                let (number, bytes, is_first) = (flight.number, flight.body.total(), flight.is_first);
                self.garbage.checkpoint_bytes.insert((number, self.epoch), bytes);
                self.checkpoint = Checkpoints {
                    newest: (number, self.epoch),
                    // A commit that waits for it counts when it is stored.
                    commits: self.number.saturating_sub(number),
                    head_bytes: 0,
                    bytes,
                    flight: None,
                    is_wanted: false,
                };
                if is_first {
                    self.checkpoint_is_there(now);
                }
            }
            answer => {
                flight.request = Err(now + pause(flight.failures));
                flight.failures += 1;
                let refusal = answer.refusal();
                let (asked, why) = (flight.asked, answer.why("checkpoint"));
                if refusal.is_some() && matches!(self.phase, super::Phase::Fencing(_)) {
                    self.refused = Some(why.clone());
                }
                match flight.is_first {
                    true => self.tell_failure(now, &why, asked, refusal),
                    false => self.trouble = Some(why),
                }
            }
        }
    }

    /// What is there under its name has other bytes: a copy of the store that is not whole has brought it.
    fn checkpoint_is_anothers(&mut self, now: Duration) {
        let Some(flight) = self.checkpoint.flight.take() else {
            return;
        };
        let (number, epoch) = (flight.number, self.epoch);
        let key = Key::Checkpoint { number, epoch };
        let why = format!("{key} is there, and is another's");
        match flight.is_first {
            true if matches!(self.phase, super::Phase::Fencing(_)) => {
                let fence = super::Fence::unknown(why);
                self.overtaken(now, fence, None);
            }
            true => {
                self.tell_failure(now, &why, flight.asked, Some(Refusal::Access));
                self.checkpoint.flight = Some(Flight {
                    request: Err(now + pause(u32::MAX)),
                    failures: flight.failures + 1,
                    ..flight
                });
            }
            // The next commit makes one under another name.
            false => self.trouble = Some(why),
        }
    }

    pub(super) fn checkpoint_tick(&mut self, now: Duration) {
        if self.checkpoint.next_tick().is_some_and(|until| until <= now) {
            self.send_checkpoint(now);
        }
    }
}
