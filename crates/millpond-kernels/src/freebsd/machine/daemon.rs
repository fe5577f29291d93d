//! The pageout daemon: inactive scan, perhaps a second one, active scan, and again.

use super::launder::Cleaned;
use super::memory::{ACTIVE, CACHE, DIRTY, INACTIVE, LAP, LAUNDRY, USED};
use super::scheduler::{Entry, Machine};
use crate::freebsd::LaundryRule;
use crate::freebsd::activity::{self, Visit};
use crate::freebsd::laundering::daemon::{self, Next};
use crate::freebsd::laundering::{self, Facts, Met, Verdict};
use millpond_core::units::{FrameNo, Nanos, PageCount};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    /// Until woken.
    #[default]
    Asleep,
    Inactive,
    Active,
    /// Within the inactive scan, for a write to swap to end.
    WaitsForSwap,
}

/// Its state.
#[derive(Debug, Default)]
pub(super) struct Daemon {
    stage: Stage,
    /// The number of its present sleep.
    number: u64,
    pass: u32,
    compensation: u32,
    /// Clusters on their way to swap.
    pub(super) swap_writes: u32,
    /// Pages still to be scanned, and the next one.
    left: u64,
    next: Option<FrameNo>,
    shortage: i64,
    first_budget: u32,
    budget: u32,
    /// Pages that were of no use to the scan: the active scan makes up for them.
    additional: i64,
    /// Whether this pass has changed anything.
    has_changed: bool,
    /// Whether the last one changed nothing.
    pub(super) is_fruitless: bool,
}

/// Pages between two looks at the disk.
const SLICE: u64 = 128;

impl Machine {
    pub(super) fn wake_daemon(&mut self) {
        if self.daemon.stage == Stage::Asleep {
            self.begin_scan();
        }
    }

    fn turn_after(&mut self, after: Nanos) {
        self.daemon.number += 1;
        self.enqueue(after, Entry::Daemon(self.daemon.number));
    }

    /// A write to swap has ended.
    pub(super) fn daemon_may_write(&mut self) {
        if self.daemon.stage == Stage::WaitsForSwap {
            self.daemon.stage = Stage::Inactive;
            self.turn_after(Nanos::ZERO);
        }
    }

    pub(super) fn daemon_turn(&mut self, number: u64) {
        if self.daemon.number != number {
            return;
        }
        match self.daemon.stage {
            Stage::Asleep => self.begin_scan(),
            Stage::Inactive => self.inactive_slice(),
            Stage::Active => self.active_slice(),
            Stage::WaitsForSwap => {}
        }
    }

    /// Its activity, and whether it is a wait.
    pub(super) fn daemon_does(&self) -> (&'static str, bool) {
        match self.daemon.stage {
            Stage::Asleep => ("asleep", false),
            Stage::Inactive => ("scanning the inactive queue", false),
            Stage::Active => ("scanning the active queue", false),
            Stage::WaitsForSwap => ("waiting for a write to swap", true),
        }
    }

    fn facts(&self) -> Facts {
        Facts {
            pass: self.daemon.pass,
            inactive: self.memory.len(INACTIVE),
            inactive_target: self.targets.inactive_target,
            shortage: PageCount(self.daemon.shortage.max(0) as u64),
            compensation: self.daemon.compensation,
        }
    }

    fn begin_scan(&mut self) {
        self.counters.scans += 1;
        self.counters.scans_pass_1 += u64::from(self.daemon.pass > 0);
        let available = self.memory.available();
        let shortage = match self.is_modern() {
            true => self.modern.pages_to_free(self.now, available.0) as i64,
            false => self.targets.shortage(available).0 as i64 + i64::from(self.daemon.compensation),
        };
        self.daemon.shortage = shortage;
        self.daemon.has_changed = false;
        let budget = laundering::budget(&self.options.rules, &self.facts());
        self.daemon.first_budget = budget;
        self.look_again(budget);
    }

    fn look_again(&mut self, budget: u32) {
        let daemon = &mut self.daemon;
        (daemon.budget, daemon.additional) = (budget, 0);
        daemon.left = self.memory.queues.len(INACTIVE);
        daemon.next = self.memory.queues.cold(INACTIVE);
        daemon.stage = Stage::Inactive;
        self.turn_after(Nanos::ZERO);
    }

    fn inactive_slice(&mut self) {
        let mut cost = 0;
        for _ in 0..SLICE {
            let daemon = &mut self.daemon;
            let Some(frame) = daemon.next.filter(|_| daemon.left > 0 && daemon.shortage > 0) else {
                self.end_of_inactive();
                return;
            };
            if !self.memory.frames[frame.index()].is_on(INACTIVE) {
                // it was taken while the daemon waited: from the cold end again
                self.daemon.next = self.memory.queues.cold(INACTIVE);
                continue;
            }
            if !self.meet(frame) {
                self.counters.daemon_waits += 1;
                self.daemon.stage = Stage::WaitsForSwap;
                return;
            }
            cost += self.options.scan_page.0;
        }
        self.turn_after(Nanos(cost));
    }

    /// Decides about a page; `false`: the daemon has to wait, and meets it again.
    fn meet(&mut self, frame: FrameNo) -> bool {
        let state = self.memory.frames[frame.index()];
        let met = Met {
            is_held: false,
            is_busy: state.is_busy(),
            is_owned: true,
            references: u8::from(state.flags & USED != 0),
            is_flagged: false,
            is_valid: true,
            is_dirty: state.flags & DIRTY != 0,
            has_lap: state.flags & LAP != 0,
        };
        let verdict =
            laundering::at_cold_end(&self.options.rules, &met, self.daemon.pass, self.daemon.budget);
        // a cluster goes to the warm end: the next page is the first after it
        let most = 1 + self.options.rules.cluster_pages as usize;
        let mut behind = [None; 32];
        let mut at = frame;
        let wanted = if verdict == Verdict::Launder {
            most.min(32)
        } else {
            1
        };
        for next in &mut behind[..wanted] {
            *next = self.memory.queues.warmer(at);
            at = next.unwrap_or(at);
        }
        if verdict == Verdict::Launder {
            match self.clean(frame.0, INACTIVE) {
                Cleaned::MustWait => return false,
                Cleaned::Impossible => {}
                Cleaned::Started(_) => {
                    self.daemon.budget -= 1;
                    self.daemon.shortage -= i64::from(self.options.rules.laundered_counts);
                    self.daemon.has_changed = true;
                }
            }
        }
        let is_left = |next: &FrameNo| !self.memory.frames[next.index()].is_busy();
        let next = match verdict {
            Verdict::Launder => behind.into_iter().flatten().find(is_left),
            _ => behind[0],
        };
        self.note(frame.0, verdict, met.is_busy, self.daemon.pass);
        self.apply(frame.0, verdict, met);
        self.counters.scanned[0] += 1;
        self.daemon.left -= 1;
        self.daemon.next = next;
        true
    }

    fn apply(&mut self, frame: u32, verdict: Verdict, met: Met) {
        match verdict {
            Verdict::Rotate => {
                self.memory.enqueue(frame, INACTIVE);
                self.daemon.additional += 1;
            }
            Verdict::Skip => self.daemon.additional += i64::from(met.is_busy),
            Verdict::Activate => {
                self.counters.reactivated += 1;
                self.counters.rescued += u64::from(met.is_dirty && met.has_lap);
                let state = &mut self.memory.frames[frame as usize];
                state.flags &= !USED;
                let count = activity::reactivated(state.count, met.references, met.is_flagged);
                self.activate(frame, count);
                self.daemon.has_changed = true;
            }
            Verdict::Free | Verdict::Cache => {
                self.memory.enqueue(frame, CACHE);
                self.counters.freed += 1;
                self.modern.has_freed(1);
                self.daemon.shortage -= 1;
                self.daemon.has_changed = true;
                self.wake_short();
            }
            Verdict::MarkLap => {
                self.counters.laps += 1;
                self.memory.frames[frame as usize].flags |= LAP;
                self.memory.enqueue(frame, INACTIVE);
                self.daemon.has_changed = true;
            }
            Verdict::ToLaundry => {
                self.memory.enqueue(frame, LAUNDRY);
                self.daemon.has_changed = true;
            }
            Verdict::Launder => {}
        }
    }

    fn end_of_inactive(&mut self) {
        let left = PageCount(self.daemon.shortage.max(0) as u64);
        let second =
            laundering::second_look(&self.options.rules, &self.facts(), self.daemon.first_budget, left);
        if let Some(budget) = second {
            self.counters.second_looks += 1;
            self.daemon.first_budget = budget;
            return self.look_again(budget);
        }
        let available = self.memory.available();
        let is_limited = self.options.rules.laundry == LaundryRule::LimitedOrder;
        if is_limited {
            let is_below_min = self.targets.is_below_min(available);
            self.daemon.compensation = laundering::compensation(self.daemon.compensation, is_below_min);
        }
        self.daemon.shortage = match self.is_modern() {
            true => self.active_shortage(left),
            false => {
                let paging = self.targets.paging_target().0 as i64 - available.0 as i64;
                let inactive = self.memory.len(INACTIVE).0 as i64;
                paging + self.targets.inactive_target.0 as i64 - inactive
                    + self.daemon.additional
                    + i64::from(self.daemon.compensation)
            }
        };
        self.daemon.left = self.memory.queues.len(ACTIVE);
        self.daemon.stage = Stage::Active;
        self.turn_after(Nanos::ZERO);
    }

    fn active_slice(&mut self) {
        let mut cost = 0;
        for _ in 0..SLICE {
            let is_wanted = self.daemon.left > 0 && (self.daemon.shortage > 0 || self.modern.must_look());
            let Some(frame) = self.memory.queues.cold(ACTIVE).filter(|_| is_wanted) else {
                self.end_of_scan();
                return;
            };
            self.visit(frame.0);
            cost += self.options.scan_page.0;
        }
        self.turn_after(Nanos(cost));
    }

    fn visit(&mut self, frame: u32) {
        self.counters.scanned[1] += 1;
        self.daemon.left -= 1;
        self.modern.has_looked();
        let state = &mut self.memory.frames[frame as usize];
        let references = u8::from(state.flags & USED != 0);
        if state.is_busy() {
            return self.memory.enqueue(frame, ACTIVE);
        }
        state.flags &= !USED;
        match activity::visited(state.count, references, self.daemon.compensation) {
            Visit::Keep(count) => {
                self.daemon.has_changed |= count != state.count || references > 0;
                state.count = count;
                self.memory.enqueue(frame, ACTIVE);
            }
            // the clock of later systems goes on past the shortage, but takes nothing then
            Visit::Deactivate if self.daemon.shortage <= 0 => self.memory.enqueue(frame, ACTIVE),
            Visit::Deactivate => {
                let is_dirty = state.flags & DIRTY != 0;
                state.count = 0;
                self.daemon.shortage -= self.modern.weight(is_dirty);
                self.daemon.has_changed = true;
                self.counters.deactivated += 1;
                let queue = if is_dirty && self.is_modern() {
                    LAUNDRY
                } else {
                    INACTIVE
                };
                self.memory.enqueue(frame, queue);
            }
        }
    }

    fn end_of_scan(&mut self) {
        self.daemon.is_fruitless = !self.daemon.has_changed;
        self.wake_short();
        if self.is_modern() {
            return self.end_of_modern_scan();
        }
        let is_enough = !self.targets.wakes_daemon(self.memory.available());
        let (pass, next) = daemon::after_scan(self.daemon.pass, is_enough);
        self.daemon.pass = pass;
        match next {
            Next::Scan => self.begin_scan(),
            Next::ScanAfter(span) => {
                self.daemon.stage = Stage::Asleep;
                self.turn_after(span);
            }
            Next::Sleep => {
                self.daemon.stage = Stage::Asleep;
                // the scan for statistics every few seconds is left out: with this load the daemon is woken more often
                self.daemon.number += 1;
            }
        }
    }

    /// The daemon sleeps for a tenth of a second at most.
    pub(super) fn sleep_modern(&mut self, span: Nanos) {
        self.daemon.stage = Stage::Asleep;
        self.turn_after(span);
    }
}
