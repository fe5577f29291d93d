//! The changes of 2014 to 2019: a controller, a clock on the active queue, and a thread that cleans the laundry queue.

use super::launder::Cleaned;
use super::memory::{ACTIVE, INACTIVE, LAUNDRY, USED};
use super::options::MachineOptions;
use super::scheduler::{Entry, Machine};
use crate::freebsd::LaundryRule;
use crate::freebsd::activity;
use crate::freebsd::laundry::clock;
use crate::freebsd::laundry::pid::{Controller, INTERVAL};
use crate::freebsd::laundry::{CYCLES_PER_S, Facts, Laundry};
use crate::freebsd::targets::Targets;
use millpond_core::units::{Instant, Nanos, PageCount};

/// Their state; idle on older systems.
#[derive(Debug)]
pub(super) struct Modern {
    is_on: bool,
    controller: Controller,
    laundry: Laundry,
    shortfall: u64,
    freed: u64,
    looked_at: Instant,
    /// Pages that the clock's hand must still look at in this scan.
    must_look: u64,
    /// Pages that the laundry thread is to clean and has not, because it waits for a write to swap to end.
    owed: u64,
    /// Whether its last try cleaned nothing, though there was something to clean.
    pub(super) is_fruitless: bool,
}

impl Modern {
    pub(super) fn new(options: &MachineOptions, targets: &Targets) -> Modern {
        let is_on = options.rules.laundry == LaundryRule::Queue;
        Modern {
            is_on,
            controller: Controller::new(targets.free_target.0),
            laundry: Laundry::new(options.laundry_unit),
            shortfall: 0,
            freed: 0,
            looked_at: Instant(0),
            must_look: 0,
            owed: 0,
            is_fruitless: !is_on,
        }
    }

    pub(super) fn pages_to_free(&mut self, now: Instant, available: u64) -> u64 {
        self.controller.pages(now, available)
    }

    pub(super) fn has_freed(&mut self, pages: u64) {
        self.freed += pages;
    }

    pub(super) fn must_look(&self) -> bool {
        self.must_look > 0
    }

    pub(super) fn has_looked(&mut self) {
        self.must_look = self.must_look.saturating_sub(1);
    }

    /// The part of a shortage that an inactive page makes up for.
    pub(super) fn weight(&self, is_dirty: bool) -> i64 {
        match (self.is_on, is_dirty) {
            (true, false) => clock::LAUNDRY_WEIGHT as i64,
            _ => 1,
        }
    }
}

impl Machine {
    /// The inactive scan has ended with this much missing: returns how much is to become inactive.
    pub(super) fn active_shortage(&mut self, left: PageCount) -> i64 {
        self.modern.shortfall = left.0;
        let span = self.now.since(self.modern.looked_at);
        self.modern.looked_at = self.now;
        self.modern.must_look += clock::at_least(self.memory.len(ACTIVE), span).0;
        let (inactive, laundry) = (self.memory.len(INACTIVE), self.memory.len(LAUNDRY));
        let paging = self.targets.free_target.saturating_sub(self.memory.available());
        clock::shortage(self.targets.inactive_target, inactive, laundry, paging) as i64
    }

    pub(super) fn end_of_modern_scan(&mut self) {
        self.sleep_modern(INTERVAL);
    }

    pub(super) fn laundry_cycle(&mut self) {
        let gap = self.targets.free_target - self.targets.free_min;
        let available = self.memory.available();
        let facts = Facts {
            shortfall: PageCount(std::mem::take(&mut self.modern.shortfall)),
            missing: self.targets.free_target.saturating_sub(available),
            clean: available + self.memory.len(INACTIVE),
            dirty: self.memory.len(LAUNDRY),
            freed: PageCount(self.modern.freed),
            gap,
        };
        let cycle = self.modern.laundry.cycle(&facts);
        if cycle.resets_freed {
            self.modern.freed = 0;
        }
        self.modern.owed = cycle.pages.0;
        self.launder_pages();
        self.enqueue(Nanos(1_000_000_000 / CYCLES_PER_S), Entry::Laundry);
    }

    /// Cleans the due pages from the cold end of the laundry queue; pages in use become active.
    pub(super) fn launder_pages(&mut self) {
        let mut left = self.memory.queues.len(LAUNDRY);
        while self.modern.owed > 0 && left > 0 {
            let Some(frame) = self.memory.queues.cold(LAUNDRY) else {
                return;
            };
            left -= 1;
            let state = &mut self.memory.frames[frame.index()];
            if state.is_busy() {
                self.memory.enqueue(frame.0, LAUNDRY);
                continue;
            }
            if state.flags & USED != 0 {
                state.flags &= !USED;
                let count = activity::reactivated(state.count, 1, false);
                self.counters.reactivated += 1;
                self.counters.rescued += 1;
                self.activate(frame.0, count);
                continue;
            }
            match self.clean(frame.0, LAUNDRY) {
                Cleaned::Started(cleaned) => {
                    self.modern.owed = self.modern.owed.saturating_sub(cleaned);
                    self.modern.is_fruitless = false;
                }
                Cleaned::MustWait => return,
                Cleaned::Impossible => {
                    self.modern.is_fruitless = true;
                    return;
                }
            }
        }
    }
}
