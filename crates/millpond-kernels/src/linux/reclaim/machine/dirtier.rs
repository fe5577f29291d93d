//! A task that dirties too much is held back (`balance_dirty_pages`).
//!
//! ```text
//!   to 3.1   over (background + limit)/2 and over 7/8 of the limit: it writes 1.5 times what it dirtied itself if that much
//!            is not even on its way, and sleeps 1, 2, 4 … 100 ms until it is under
//!   since    it sleeps for as long as the device takes for what it dirtied, longer the nearer the limit (a cubic)
//! ```
//!
//! To 3.1 it is asked every 1024 pages, and every 8 once the limit was exceeded. The pauses of the later form are summed up
//! until they are worth a sleep of 10 ms, and 200 ms at most.

use super::scheduler::{Machine, Step, Wait};
use super::writeback::Slice;
use crate::linux::reclaim::DirtierRule;
use millpond_core::units::{Instant, Nanos};

/// `ratelimit_pages` on one processor: 4 MiB.
const ASKED_EVERY: u64 = 1024;
/// The same once the limit was exceeded.
const ASKED_EVERY_WHEN_OVER: u64 = 8;
/// `sync_writeback_pages`: one and a half.
const fn to_write(dirtied: u64) -> u64 {
    dirtied + dirtied / 2
}
/// The longest of the doubling sleeps.
const NAP_MAX: Nanos = Nanos::from_millis(100);
/// `MAX_PAUSE`.
const PAUSE_MAX: u64 = 200_000_000;
/// Below that a pause is put off.
const PAUSE_MIN: u64 = 10_000_000;
/// Later kernels ask every 32 pages at least.
const POLLED_EVERY: u64 = 32;

/// A dirtier's account.
#[derive(Debug, Default)]
pub(super) struct Dirtier {
    dirtied: u64,
    held: Option<Held>,
    /// Pause that is not taken yet.
    owed: u64,
    /// The device's rate in pages a second, and what it is measured by.
    rate: u64,
    measured: (Instant, u64),
    over: bool,
}

#[derive(Debug)]
struct Held {
    since: Instant,
    nap: Nanos,
    slice: Option<Slice>,
    chunk: u64,
    written: u64,
}

impl Dirtier {
    pub(super) fn dirtied(&mut self, pages: u64) {
        self.dirtied += pages;
    }

    /// Whether it is due to be checked.
    pub(super) fn is_due(&self, rule: DirtierRule) -> bool {
        let every = match rule {
            DirtierRule::WritesItself if self.over => ASKED_EVERY_WHEN_OVER,
            DirtierRule::WritesItself => ASKED_EVERY,
            DirtierRule::Pauses => POLLED_EVERY,
        };
        self.held.is_some() || self.dirtied >= every
    }
}

impl Machine {
    /// Asks a dirtier, or goes on with one that is held. `Done`: it may go on.
    pub(super) fn hold_back(&mut self, thread: usize, dirtier: &mut Dirtier) -> Step {
        let limits = self.limits();
        if self.dirty > limits.background {
            self.wake_flusher(0);
        }
        match self.options.system.dirtiers() {
            DirtierRule::WritesItself => self.writes_itself(thread, dirtier),
            DirtierRule::Pauses => self.pauses(thread, dirtier),
        }
    }

    fn writes_itself(&mut self, thread: usize, dirtier: &mut Dirtier) -> Step {
        let limits = self.limits();
        let chunk = to_write(std::mem::take(&mut dirtier.dirtied));
        let held = dirtier.held.get_or_insert(Held {
            since: self.now,
            nap: Nanos::from_millis(1),
            slice: None,
            chunk,
            written: 0,
        });
        if let Some(slice) = &mut held.slice {
            let step = self.write_back(thread, slice);
            let Step::Done(cost) = step else {
                return step;
            };
            held.written += slice.written;
            held.slice = None;
            if held.written < held.chunk {
                return self.naps(thread, dirtier, cost);
            }
            return self.lets_go(dirtier, cost);
        }
        // A task that does all the dirtying has an eighth less.
        let own = limits.hard - limits.hard / 8;
        if self.unclean() <= (limits.background + limits.hard) / 2 || self.unclean() <= own {
            dirtier.over = false;
            return self.lets_go(dirtier, Nanos(1_000));
        }
        dirtier.over = true;
        if self.dirty > own {
            held.slice = Some(Slice::new(held.chunk, None));
            return Step::Ran(Nanos(1_000));
        }
        self.naps(thread, dirtier, Nanos(1_000))
    }

    fn naps(&mut self, thread: usize, dirtier: &mut Dirtier, cost: Nanos) -> Step {
        if let Some(held) = &mut dirtier.held {
            self.sleep(thread, Wait::Time, self.now + held.nap);
            held.nap = Nanos((held.nap.0 * 2).min(NAP_MAX.0));
        }
        Step::Waits(cost)
    }

    fn lets_go(&mut self, dirtier: &mut Dirtier, cost: Nanos) -> Step {
        if let Some(held) = dirtier.held.take() {
            self.counters.dirtiers_stall = self.counters.dirtiers_stall + self.now.since(held.since);
        }
        Step::Done(cost)
    }

    fn pauses(&mut self, thread: usize, dirtier: &mut Dirtier) -> Step {
        let pages = std::mem::take(&mut dirtier.dirtied);
        let limits = self.limits();
        let took = self.now.since(dirtier.measured.0);
        if took >= Nanos::from_millis(200) {
            let written = self.counters.file_pages_written;
            let rate = (written - dirtier.measured.1) * 1_000_000_000 / took.0;
            dirtier.rate = if dirtier.rate == 0 {
                rate
            } else {
                (dirtier.rate * 7 + rate) / 8
            };
            dirtier.measured = (self.now, written);
        }
        let free_run = (limits.background + limits.hard) / 2;
        if self.unclean() <= free_run {
            dirtier.owed = 0;
            return Step::Done(Nanos(300));
        }
        let ratio = position(free_run, limits.hard, self.unclean());
        let rate = (dirtier.rate.max(256) * ratio / 1024).max(1);
        dirtier.owed += (pages * 1_000_000_000 / rate).min(PAUSE_MAX);
        if dirtier.owed < PAUSE_MIN {
            return Step::Done(Nanos(300));
        }
        let pause = Nanos(std::mem::take(&mut dirtier.owed).min(PAUSE_MAX));
        self.counters.dirtiers_stall = self.counters.dirtiers_stall + pause;
        self.sleep(thread, Wait::Time, self.now + pause);
        Step::Waits(Nanos(300))
    }
}

/// `pos_ratio_polynom`: 1024 at the set point between free run and limit, 2048 at most, 0 at the limit.
fn position(free_run: u64, limit: u64, unclean: u64) -> u64 {
    if unclean >= limit {
        return 0;
    }
    let set_point = (free_run + limit) as i64 / 2;
    let x = ((set_point - unclean as i64) << 10) / ((limit as i64 - set_point) | 1);
    let cube = (((x * x) >> 10) * x) >> 10;
    (1024 + cube).clamp(0, 2048) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cubic_is_one_at_the_set_point_and_nothing_at_the_limit() {
        let at = |unclean| position(1500, 2000, unclean);
        assert_eq!([at(1750), at(2000), at(2500)], [1024, 0, 0]);
        assert!(at(1500) > 2000 && at(1900) < 900);
    }
}
