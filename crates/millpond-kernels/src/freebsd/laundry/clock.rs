//! How fast the active queue is looked through, from 2014 on: a hand that comes to every page within ten minutes
//! (`vm_pageout_scan_active`, `vm.pageout_update_period`).
//!
//! ```text
//!   at least    active pages x time since the last look / 600 s, though nothing is short
//!   and         until shortage pages are inactive; dirty ones count a third of what clean ones do
//! ```

use millpond_core::units::{Nanos, PageCount};

/// Every page is scanned within this time.
pub const PERIOD: Nanos = Nanos::from_secs(600);
/// The part of a shortage that a clean page makes up for; a dirty one 1 (`act_scan_laundry_weight`).
pub const LAUNDRY_WEIGHT: u64 = 3;

/// Pages that the hand must look at after `span`, of `active`.
pub fn at_least(active: PageCount, span: Nanos) -> PageCount {
    let span = span.0.min(PERIOD.0);
    PageCount((u128::from(active.0) * u128::from(span) / u128::from(PERIOD.0)) as u64)
}

/// How many pages are to become inactive, in units of a dirty one: what both queues lack of their target, of which what is on
/// the laundry queue counts a third.
pub fn shortage(
    inactive_target: PageCount,
    inactive: PageCount,
    laundry: PageCount,
    paging: PageCount,
) -> u64 {
    let has = inactive.0 + laundry.0 / LAUNDRY_WEIGHT;
    (inactive_target.0 + paging.0).saturating_sub(has) * LAUNDRY_WEIGHT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_comes_round_within_ten_minutes() {
        assert_eq!(at_least(PageCount(60_000), Nanos::from_secs(1)), PageCount(100));
        assert_eq!(
            at_least(PageCount(60_000), Nanos::from_secs(9000)),
            PageCount(60_000)
        );
        assert_eq!(at_least(PageCount(60_000), Nanos::ZERO), PageCount(0));
    }

    #[test]
    fn a_dirty_page_makes_up_for_a_third_of_a_clean_one() {
        let of = |inactive, laundry| {
            shortage(
                PageCount(100),
                PageCount(inactive),
                PageCount(laundry),
                PageCount(0),
            )
        };
        assert_eq!(of(100, 0), 0);
        assert_eq!(of(70, 0), 90);
        assert_eq!(of(70, 60), 30);
    }
}
