//! The rate of the laundry thread, which cleans ten times a second, from 2016 on (`vm_pageout_laundry_worker`).
//!
//! ```text
//!   shortfall    the inactive scan found too little: clean what is missing, spread over half a second
//!   background   dirty x sqrt(freed / (free_target - free_min)) >= clean: a tenth of that gap, at 4 MiB a second
//!                nothing was freed since 20 MiB: stop
//! ```
//!
//! The code of 2019 gives rates in KiB and multiplies by the page size where it means to divide: 4096 KB a second become
//! 16,384 pages, which is 64 MiB. [`Unit`] has both; ours counts bytes.

pub mod clock;
pub mod pid;

use millpond_core::units::{Bytes, PageCount, PageSize, isqrt};

/// Cycles a second.
pub const CYCLES_PER_S: u64 = 10;
/// Cycles over which a shortfall is spread: half a second.
const SHORTFALL_CYCLES: u64 = 5;

/// The conversion of a rate in KiB to pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// As intended.
    Bytes,
    /// As written: pages times the page size in KiB.
    PagesBug,
}

/// `vm.background_launder_rate`: 4096 KB/s.
const RATE: Bytes = Bytes::from_kib(4096);
/// `vm.background_launder_max`: 20 MiB.
const MAX: Bytes = Bytes::from_kib(20 * 1024);

impl Unit {
    fn pages(self, bytes: Bytes) -> u64 {
        match self {
            Unit::Bytes => bytes.to_pages(PageSize::KIB_4).0,
            Unit::PagesBug => (bytes.0 >> 10) * (PageSize::KIB_4.bytes() / 1024),
        }
    }
}

/// Its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Pages that the inactive scan was short of since the last cycle.
    pub shortfall: PageCount,
    /// The present distance to the free target.
    pub missing: PageCount,
    /// Clean pages: free ones and the inactive queue.
    pub clean: PageCount,
    /// The laundry queue.
    pub dirty: PageCount,
    /// Pages that the inactive scan has freed since background laundering began last.
    pub freed: PageCount,
    /// `free_target - free_min`.
    pub gap: PageCount,
}

/// The state of the thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Laundry {
    unit: Unit,
    in_shortfall: bool,
    cycles_left: u64,
    target: u64,
    target_at_pressure: u64,
}

/// A cycle's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cycle {
    /// Pages to clean now.
    pub pages: PageCount,
    /// They are missing: the scan may take long, and clean pages that it cannot spare.
    pub in_shortfall: bool,
    /// The count of freed pages begins anew.
    pub resets_freed: bool,
}

impl Laundry {
    /// An idle thread.
    pub fn new(unit: Unit) -> Laundry {
        Laundry {
            unit,
            in_shortfall: false,
            cycles_left: 0,
            target: 0,
            target_at_pressure: 0,
        }
    }

    /// A tenth of a second has passed.
    pub fn cycle(&mut self, facts: &Facts) -> Cycle {
        if facts.shortfall.0 > 0 {
            self.in_shortfall = true;
            self.cycles_left = SHORTFALL_CYCLES;
            self.target = facts.shortfall.0;
        } else if self.in_shortfall && (self.cycles_left == 0 || facts.missing.0 == 0) {
            self.in_shortfall = false;
            self.target = 0;
        }
        if self.in_shortfall {
            let pages = self.target.div_ceil(self.cycles_left);
            self.cycles_left -= 1;
            return self.clean(pages, false);
        }
        let pressure = isqrt((facts.freed.0 + 1).div_ceil(facts.gap.0.max(1)));
        if self.target == 0 && facts.dirty.0 * pressure >= facts.clean.0 && facts.dirty.0 > 0 {
            self.target = (facts.gap.0 / 10).max(1);
        }
        if self.target == 0 {
            return self.clean(0, false);
        }
        let has_pressure = facts.freed.0 > 0;
        if has_pressure {
            self.target_at_pressure = self.target;
        } else if self.target_at_pressure.saturating_sub(self.target) >= self.unit.pages(MAX) {
            self.target = 0;
        }
        let rate = self.unit.pages(RATE) / CYCLES_PER_S;
        self.clean(rate.min(self.target), has_pressure)
    }

    fn clean(&mut self, pages: u64, resets_freed: bool) -> Cycle {
        self.target -= pages.min(self.target);
        Cycle {
            pages: PageCount(pages),
            in_shortfall: self.in_shortfall,
            resets_freed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Facts = Facts {
        shortfall: PageCount(0),
        missing: PageCount(0),
        clean: PageCount(10_000),
        dirty: PageCount(1000),
        freed: PageCount(0),
        gap: PageCount(2846),
    };

    #[test]
    fn a_shortfall_is_cleaned_within_half_a_second() {
        let mut laundry = Laundry::new(Unit::Bytes);
        let short = Facts {
            shortfall: PageCount(100),
            missing: PageCount(100),
            ..QUIET
        };
        let later = Facts {
            shortfall: PageCount(0),
            ..short
        };
        let first = laundry.cycle(&short);
        assert!(first.in_shortfall);
        let pages: u64 = first.pages.0 + (0..4).map(|_| laundry.cycle(&later).pages.0).sum::<u64>();
        assert!((100..105).contains(&pages), "{pages}");
        assert!(!laundry.cycle(&later).in_shortfall);
    }

    #[test]
    fn enough_clean_pages_are_no_shortfall() {
        let mut laundry = Laundry::new(Unit::Bytes);
        let short = Facts {
            shortfall: PageCount(100),
            missing: PageCount(100),
            ..QUIET
        };
        assert_eq!(laundry.cycle(&short).pages, PageCount(20));
        assert_eq!(laundry.cycle(&QUIET).pages, PageCount(0));
    }

    #[test]
    fn the_more_is_freed_the_earlier_dirty_pages_are_cleaned() {
        let freed = |pages: u64| {
            let facts = Facts {
                freed: PageCount(pages),
                ..QUIET
            };
            Laundry::new(Unit::Bytes).cycle(&facts).pages.0
        };
        assert_eq!(freed(2846 * 90), 0, "a tenth is dirty: sqrt(91) is 9");
        assert_eq!(freed(2846 * 100), 102, "4 MiB a second");
    }

    #[test]
    fn the_unit_bug_makes_the_rate_sixteen_times_higher() {
        assert_eq!(Unit::Bytes.pages(RATE), 1024);
        assert_eq!(Unit::PagesBug.pages(RATE), 16_384);
    }

    #[test]
    fn a_run_ends_with_its_target() {
        let mut laundry = Laundry::new(Unit::Bytes);
        let pressed = Facts {
            freed: PageCount(2846 * 100),
            ..QUIET
        };
        let pages: Vec<u64> = core::iter::once(laundry.cycle(&pressed).pages.0)
            .chain((0..4).map(|_| laundry.cycle(&QUIET).pages.0))
            .collect();
        assert_eq!(pages, [102, 102, 80, 0, 0]);
    }
}
