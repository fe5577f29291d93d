//! All that holds, now and then, so that opening reads few commits.
//!
//! A checkpoint is as large as the map. So it is made after a number of commits, and not before their heads are half as
//! large as the last checkpoint: what is written for it stays below twice of what the commits are. Commits name it once
//! it is stored.

use super::Writer;
use crate::format::{Checkpoint, Key};
use crate::layout::load::pause;
use crate::layout::options::WriterOptions;
use crate::layout::requests::{Answer, Body, Request, RequestId};
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
}

impl Checkpoints {
    pub(super) fn is(&self, id: RequestId) -> bool {
        self.flight
            .as_ref()
            .is_some_and(|flight| flight.request == Ok(id))
    }

    pub(super) fn is_due(&self, options: &WriterOptions) -> bool {
        let is_worth_it = self.head_bytes * 2 >= self.bytes || self.commits >= COMMITS_MAX;
        self.flight.is_none() && self.commits >= options.checkpoint_commits && is_worth_it
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
    /// The state as of commit `number`, which is being made. Kept now, at the cost of a count for each leaf of the map; walked,
    /// and made bytes of, later.
    pub(super) fn checkpoint_of(&self, number: u64) -> Body {
        let (state, epoch, page_bytes) = (self.state.copy_for_ops(), self.epoch, self.options.page_bytes);
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
            flight.asked = now;
        }
    }

    pub(super) fn checkpoint_answered(&mut self, now: Duration, answer: Answer) {
        let Some(flight) = &mut self.checkpoint.flight else {
            return;
        };
        match answer {
            // The name has our epoch and the commit's number: what is there has the same bytes.
            Answer::Stored | Answer::Exists => {
                let (number, bytes, is_first) = (flight.number, flight.body.total(), flight.is_first);
                self.checkpoint = Checkpoints {
                    newest: (number, self.epoch),
                    // A commit that waits for it counts when it is stored.
                    commits: self.number.saturating_sub(number),
                    head_bytes: 0,
                    bytes,
                    flight: None,
                };
                if is_first {
                    self.checkpoint_is_there(now);
                }
            }
            answer => {
                flight.request = Err(now + pause(flight.failures));
                flight.failures += 1;
                let (asked, why) = (flight.asked, answer.why("checkpoint"));
                match flight.is_first && flight.failures > 1 {
                    true => self.tell_failure(&why, asked),
                    false => self.trouble = Some(why),
                }
            }
        }
    }

    pub(super) fn checkpoint_tick(&mut self, now: Duration) {
        if self.checkpoint.next_tick().is_some_and(|until| until <= now) {
            self.send_checkpoint(now);
        }
    }
}
