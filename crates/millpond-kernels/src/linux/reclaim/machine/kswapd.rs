//! The background reclaimer (`kswapd`, `balance_pgdat` of 3.0; a simpler loop for 4.11 and later).
//!
//! ```text
//!   woken below low ─► priority 12 … 0: from the highest zone that is short down to the lowest, one pass each
//!                         enough freed (32)?  begin again at 12
//!                         below priority 10?  sleep for congestion, or not if a zone is below min ("skipped wait")
//!   all above high  ─► nap of a tenth of a second ─► still above: long sleep
//! ```
//!
//! The post's "time awake" ends with the long sleep, so the naps are in it.

use super::counters::Counters;
use super::scheduler::{KSWAPD, Machine, Step, Wait};
use super::shrink::Shrink;
use crate::linux::reclaim::System;
use crate::linux::reclaim::congestion::WAIT_MAX;
use crate::linux::reclaim::effort::{BATCH_PAGES, is_hopeless, is_short};
use millpond_core::reclaim::launder::{PRIORITY_DEFAULT, PRIORITY_TROUBLE};
use millpond_core::reclaim::trace::Caller;
use millpond_core::units::{Instant, Nanos, PageCount};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    Asleep,
    Napping,
    Awake,
}

/// Its state.
#[derive(Debug, Default)]
pub(super) struct Kswapd {
    phase: Phase,
    since: Instant,
    priority: u32,
    /// The highest zone that is short; `None`: a pass over the zones is to begin.
    highest: Option<usize>,
    zone: usize,
    shrink: Option<Shrink>,
    all_above: bool,
    below_min: bool,
    freed: u64,
    scanned: u64,
    woken: bool,
}

impl Kswapd {
    /// The run is over: what it was awake until now counts.
    pub(super) fn note_awake(&mut self, now: Instant, counters: &mut Counters) {
        if self.phase != Phase::Asleep {
            counters.kswapd_awake = counters.kswapd_awake + now.since(self.since);
            self.since = now;
        }
    }
}

impl Machine {
    /// A task has found a zone below its low mark.
    pub(super) fn wake_kswapd(&mut self) {
        let sleeps = self.kswapd.phase != Phase::Awake && self.threads[KSWAPD].wait == Wait::Time;
        let is_low = |zone: &super::memory::Zone| zone.free().0 <= zone.marks.low.0;
        if sleeps && self.memory.zones.iter().any(is_low) {
            self.counters.kswapd_wake_requests += 1;
            self.kswapd.woken = true;
            self.wake(KSWAPD);
        }
    }

    pub(super) fn kswapd_step(&mut self) -> Step {
        let mut kswapd = std::mem::take(&mut self.kswapd);
        let step = self.balance(&mut kswapd);
        self.kswapd = kswapd;
        step
    }

    fn balance(&mut self, kswapd: &mut Kswapd) -> Step {
        let woken = std::mem::take(&mut kswapd.woken);
        match kswapd.phase {
            Phase::Asleep if !woken => {
                self.sleep(KSWAPD, Wait::Time, Instant::NEVER);
                return Step::Waits(Nanos::ZERO);
            }
            Phase::Asleep => {
                self.counters.kswapd_wakeups += 1;
                kswapd.since = self.now;
                begin(kswapd);
            }
            Phase::Napping if !woken && self.all_above_high() => {
                kswapd.note_awake(self.now, &mut self.counters);
                kswapd.phase = Phase::Asleep;
                self.sleep(KSWAPD, Wait::Time, Instant::NEVER);
                return Step::Waits(Nanos::ZERO);
            }
            Phase::Napping => begin(kswapd),
            Phase::Awake => {}
        }
        if let Some(shrink) = &mut kswapd.shrink {
            let step = self.shrink(shrink);
            let Step::Done(cost) = step else {
                return step;
            };
            self.pass_ended(kswapd);
            return Step::Ran(cost);
        }
        match kswapd.highest {
            None => self.begin_pass(kswapd),
            Some(highest) if kswapd.zone > highest => self.end_of_pass(kswapd),
            Some(highest) => self.next_zone(kswapd, highest),
        }
    }

    fn is_modern(&self) -> bool {
        matches!(self.options.system, System::Linux4_11 | System::Linux7_0)
    }

    fn all_above_high(&self) -> bool {
        self.memory
            .zones
            .iter()
            .all(|zone| zone.hopeless || zone.free().0 > zone.marks.high.0)
    }

    /// Finds the highest zone that is short, ageing anonymous pages on the way.
    fn begin_pass(&mut self, kswapd: &mut Kswapd) -> Step {
        let mut cost = Nanos(500);
        (kswapd.all_above, kswapd.below_min) = (true, false);
        for zone in (0..self.memory.zones.len()).rev() {
            if self.memory.zones[zone].hopeless && kswapd.priority != PRIORITY_DEFAULT {
                continue;
            }
            cost = cost + self.age_anonymous(zone);
            let zone_state = &mut self.memory.zones[zone];
            if zone_state.free().0 <= zone_state.marks.high.0 {
                kswapd.highest = Some(zone);
                kswapd.zone = 0;
                return Step::Ran(cost);
            }
            (zone_state.congested, zone_state.dirty, zone_state.writeback) = (false, false, false);
        }
        kswapd.phase = Phase::Napping;
        self.sleep(KSWAPD, Wait::Time, self.now + WAIT_MAX);
        Step::Waits(cost)
    }

    /// The pages that the zone keeps from requests that could use a higher one.
    fn reserved(&self, zone: usize, highest: usize) -> PageCount {
        match zone < highest {
            true => self.memory.zones[zone].reserved,
            false => PageCount(0),
        }
    }

    fn next_zone(&mut self, kswapd: &mut Kswapd, highest: usize) -> Step {
        let number = kswapd.zone;
        let reserved = self.reserved(number, highest);
        let zone = &self.memory.zones[number];
        let skips = zone.hopeless && kswapd.priority != PRIORITY_DEFAULT;
        if !skips && is_short(zone.free(), zone.managed, &zone.marks, reserved) {
            let goal = match self.is_modern() {
                true => zone.marks.high.0.max(BATCH_PAGES),
                false => u64::MAX,
            };
            kswapd.shrink = Some(self.begin_shrink((Caller::Kswapd, KSWAPD), number, kswapd.priority, goal));
        } else {
            self.look_at_zone(kswapd, highest);
            kswapd.zone += 1;
        }
        Step::Ran(Nanos(200))
    }

    fn pass_ended(&mut self, kswapd: &mut Kswapd) {
        if let Some(shrink) = kswapd.shrink.take() {
            kswapd.freed += shrink.freed;
            kswapd.scanned += shrink.scanned;
        }
        let number = kswapd.zone;
        let reclaimable = self.memory.sizes(number).reclaimable(!self.swap.is_full());
        let zone = &mut self.memory.zones[number];
        zone.hopeless |= is_hopeless(zone.scanned_since_freed, reclaimable);
        if let Some(highest) = kswapd.highest {
            self.look_at_zone(kswapd, highest);
        }
        kswapd.zone += 1;
    }

    fn look_at_zone(&mut self, kswapd: &mut Kswapd, highest: usize) {
        let reserved = self.reserved(kswapd.zone, highest);
        let zone = &mut self.memory.zones[kswapd.zone];
        if zone.hopeless {
            return;
        }
        if zone.free().0 <= zone.marks.high.0 + reserved.0 {
            kswapd.all_above = false;
            kswapd.below_min |= zone.free().0 <= zone.marks.min.0 + reserved.0;
        } else {
            (zone.congested, zone.dirty, zone.writeback) = (false, false, false);
        }
    }

    fn end_of_pass(&mut self, kswapd: &mut Kswapd) -> Step {
        kswapd.highest = None;
        if kswapd.all_above {
            kswapd.phase = Phase::Napping;
            self.sleep(KSWAPD, Wait::Time, self.now + WAIT_MAX);
            return Step::Waits(Nanos(200));
        }
        if self.is_modern() {
            let goal = self.memory.zones[0].marks.high.0;
            if kswapd.freed == 0 || kswapd.scanned < goal {
                kswapd.priority = kswapd.priority.saturating_sub(1).max(1);
            }
            if kswapd.freed >= goal {
                begin(kswapd);
            }
            return Step::Ran(Nanos(200));
        }
        let mut sleeps = false;
        if kswapd.scanned > 0 && kswapd.priority < PRIORITY_TROUBLE {
            if kswapd.below_min {
                self.counters.kswapd_skip_congestion_wait += 1;
            } else {
                self.counters.congest[Caller::Kswapd as usize].number += 1;
                self.sleep_for_congestion(KSWAPD, Wait::Congestion(self.now));
                sleeps = true;
            }
        }
        if kswapd.freed >= BATCH_PAGES || kswapd.priority == 0 {
            begin(kswapd);
        } else {
            kswapd.priority -= 1;
        }
        match sleeps {
            true => Step::Waits(Nanos(200)),
            false => Step::Ran(Nanos(200)),
        }
    }
}

fn begin(kswapd: &mut Kswapd) {
    kswapd.phase = Phase::Awake;
    kswapd.priority = PRIORITY_DEFAULT;
    (kswapd.highest, kswapd.shrink) = (None, None);
    (kswapd.freed, kswapd.scanned) = (0, 0);
}
