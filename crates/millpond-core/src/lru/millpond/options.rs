//! The parameters of Millpond's replacement. Every field states its unit, default, range and source.

use crate::range::{Number, Number::Share, Row, count, percent};
use crate::units::Ratio;

/// Millpond's rule. The defaults were measured; see `docs/decisions/0002-replacement.md`.
///
/// Shares are of the cache's current memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MillpondOptions {
    /// Correlated-reference window (LRU-K, 2Q), counted in insertions, as a share of memory. All uses of a new page
    /// within it count as one, so a burst of touches is not taken for reuse. Default 1 %; 0 to 10 %.
    pub window: Ratio,
    /// Initial target length of the inactive list, per mille of memory. Default 100; 0 to 1000.
    pub inactive_start_per_mille: u32,
    /// A refault is a ghost hit, which moves the target, if no more than this share of memory was evicted in between
    /// from the page's class (never active, or once active). A slightly longer list of that class would have kept the
    /// page. Default 5 %; 0 to 100 %.
    pub ghost_window: Ratio,
    /// Maximum usage count of an active page (as PostgreSQL's `usage_count`, and GCLOCK's). Each count is worth one
    /// lap. Default 3; 1 to 3, the most a frame's word can count.
    pub usage_count_max: u8,
    /// The same for a page of a region, whose accessed bit shows at most one use per lap. Default 8; 1 to 15.
    pub region_usage_count_max: u8,
    /// How much a set accessed bit adds to that usage count. Default 4; 1 to 15.
    pub accessed_bit_weight: u8,
    /// At or above this usage count a scan skips an active page of a region: the lap costs one count, and the accessed
    /// bit is not sampled. A value above `region_usage_count_max` disables skipping. Default 5; 1 to 16.
    pub skip_scan_threshold: u8,
    /// Admission probe: the number of pages that a refaulted page checks at the cold end of the active list. It
    /// replaces the first one with usage count 0; each of the others loses one count. Default 2 pages; 1 to 32.
    pub probe_pages: u32,
    /// Scan balance by refault cost (as Linux's `lru_note_cost`): of file pages and region pages in one memory, the
    /// kind that takes longer to read is favored. At most this many of 1000 would-be victims get another lap. Default
    /// 875; 0 (ignore the cost of reads) to 950.
    pub scan_balance_max_per_mille: u32,
}

impl Default for MillpondOptions {
    fn default() -> Self {
        MillpondOptions {
            window: Ratio::percent(1),
            inactive_start_per_mille: 100,
            ghost_window: Ratio::percent(5),
            usage_count_max: 3,
            region_usage_count_max: 8,
            accessed_bit_weight: 4,
            skip_scan_threshold: 5,
            probe_pages: 2,
            scan_balance_max_per_mille: 875,
        }
    }
}

/// The range of each number of [`MillpondOptions`].
#[rustfmt::skip]
pub static RANGES: &[Row<MillpondOptions>] = &[
    Row::new("replacement.window", percent(0), percent(10), |o| Some(Share(o.window))),
    Row::new("replacement.ghost_window", percent(0), percent(100), |o| Some(Share(o.ghost_window))),
    Row::new("replacement.inactive_start_per_mille", count(0), count(1000), |o| n(o.inactive_start_per_mille)),
    Row::new("replacement.usage_count_max", count(1), count(3), |o| n(o.usage_count_max.into())),
    Row::new("replacement.region_usage_count_max", count(1), count(15), |o| n(o.region_usage_count_max.into())),
    Row::new("replacement.accessed_bit_weight", count(1), count(15), |o| n(o.accessed_bit_weight.into())),
    Row::new("replacement.skip_scan_threshold", count(1), count(16), |o| n(o.skip_scan_threshold.into())),
    Row::new("replacement.probe_pages", count(1), count(32), |o| n(o.probe_pages)),
    Row::new("replacement.scan_balance_max_per_mille", count(0), count(950), |o| n(o.scan_balance_max_per_mille)),
];

fn n(count: u32) -> Option<Number> {
    Some(Number::Count(count.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lru::millpond::Millpond;
    use crate::lru::rule::Rule;
    use alloc::string::ToString;

    #[test]
    fn a_value_out_of_range_is_named_with_its_range() {
        let wrong = |change: fn(&mut MillpondOptions)| {
            let mut options = MillpondOptions::default();
            change(&mut options);
            Millpond::check(&options).unwrap_err().to_string()
        };
        assert_eq!(
            wrong(|o| o.inactive_start_per_mille = 1001),
            "option replacement.inactive_start_per_mille can't be 1001: must be 0 to 1000"
        );
        assert_eq!(
            wrong(|o| o.usage_count_max = 4),
            "option replacement.usage_count_max can't be 4: must be 1 to 3"
        );
        assert_eq!(
            wrong(|o| o.window = Ratio::percent(11)),
            "option replacement.window can't be 11 %: must be 0 to 10 %"
        );
        assert_eq!(
            wrong(|o| o.probe_pages = 0),
            "option replacement.probe_pages can't be 0: must be 1 to 32"
        );
    }
}
