//! Which rule replaces pages, and its numbers.
//!
//! A closed set: what Linux did, by version, and Millpond's own. Every field says its unit, default, range
//! and source. [`Replacement::check`] names the field, the value and the range when one is out of it.

use crate::range::{self, Number, Number::Share, OutOfRange, Row, count, percent};
use crate::units::{Bytes, PageSize, Ratio};

/// How pages are chosen for eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// Two lists as Linux keeps them.
    Linux(LinuxOptions),
    /// Two lists with a correlated-reference window, an inactive list whose length adapts, and admission to the
    /// active list by a probe of its cold end. The default.
    Millpond(MillpondOptions),
}

impl Default for Replacement {
    fn default() -> Self {
        Replacement::Millpond(MillpondOptions::default())
    }
}

impl Replacement {
    /// Whether every number is in its range.
    ///
    /// # Errors
    /// [`OutOfRange`] names the first option that is not; correct it and try again.
    pub fn check(&self) -> Result<(), OutOfRange> {
        match self {
            Replacement::Linux(_) => Ok(()),
            // No range depends on the size of a page.
            Replacement::Millpond(options) => range::check(RANGES, options, Bytes(0)),
        }
    }
}

/// Linux's rule, in its versions.
///
/// The default is what Kim 2020 built on, Linux 5.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinuxOptions {
    /// When a second use moves a page to the active list. Default [`Promotion::Lazy`].
    pub promotion: Promotion,
    /// How long the active list may be for a given inactive one. Default [`InactiveRatio::SquareRoot`] with
    /// pages of 4 KiB.
    pub inactive_ratio: InactiveRatio,
    /// How a refault soon after the eviction is recognised. Default [`Detection::Linux4_19`].
    pub detection: Detection,
    /// Whether a page that was recognised lets the next batch of the scan shorten the active list even if its ratio
    /// is satisfied (the comparison of refault counters in `inactive_list_is_low`, later `may_deactivate`). Default
    /// true.
    pub refaults_deactivate: bool,
}

impl Default for LinuxOptions {
    fn default() -> Self {
        LinuxOptions {
            promotion: Promotion::Lazy,
            inactive_ratio: InactiveRatio::SquareRoot(PageSize::KIB_4),
            detection: Detection::Linux4_19,
            refaults_deactivate: true,
        }
    }
}

/// When a second use of an inactive page moves it to the active list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promotion {
    /// When the scan meets the page: hits only leave a count, so they touch no list and take no lock.
    Lazy,
    /// At once, as `mark_page_accessed` does: the driver calls [`super::Lru::mark_accessed`] at every hit. The
    /// list then moves, and the age of evicted pages advances, at the moment of the hit.
    Immediate,
}

/// The longest active list for a given inactive one: it is shortened while `inactive * ratio < active`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InactiveRatio {
    /// Ratio 1 whatever the size: file pages up to about Linux 4.6.
    Equal,
    /// Ratio `isqrt(10 * GiB)` of inactive and active together, 1 below 1 GiB: since about Linux 4.7
    /// (`inactive_is_low`). Needs the page size to know what a GiB is.
    SquareRoot(PageSize),
}

/// How a refault that is too soon is recognised by the shadow that the page left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detection {
    /// Not at all: Linux before 3.15, and so Gorman 2011.
    Off,
    /// Linux 4.19 to 5.5 (`workingset_eviction`): the shadow keeps the age after its own eviction was counted;
    /// a page is activated if its distance is at most the active list's length.
    Linux4_19,
    /// Linux 5.9 and later: the shadow keeps the age before its own eviction was counted, so that distances are
    /// one longer; the length compared with also counts lists of anonymous pages, where there are any.
    Linux5_9,
}

/// Millpond's own rule. The defaults were measured: see `docs/decisions/0002-replacement.md`.
///
/// Shares are of the memory that the cache has at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MillpondOptions {
    /// The correlated-reference window (LRU-K, 2Q), in insertions, as a share of memory: all uses of a new page within it
    /// count as the one that brought it in. A burst of touches says nothing about reuse. Default 1 %; 0 to 10 %.
    pub window: Ratio,
    /// Length of the inactive list that is aimed at first, per mille of memory. Default 100; 0 to 1000.
    pub inactive_start_per_mille: u32,
    /// A refault is a ghost hit, which moves the aim, if no more than this share of memory was evicted of its class (never
    /// active, or once active) in between: a little longer list of that class would have kept it. Default 5 %;
    /// 0 to 100 %.
    pub ghost_window: Ratio,
    /// The most that an active page's usage count can be (as PostgreSQL's `usage_count`, and GCLOCK's); each is worth a lap.
    /// Default 3; 1 to 3, what a frame's word counts.
    pub usage_count_max: u8,
    /// The same of a page of a region, whose accessed bit shows one use a lap at most. Default 8; 1 to 15.
    pub region_usage_count_max: u8,
    /// How much an accessed bit adds to that usage count. Default 4; 1 to 15.
    pub accessed_bit_weight: u8,
    /// From this usage count on a scan skips an active page of a region: a lap costs it one, and its accessed bit is not
    /// sampled. Default 5; 1 to 16, and more than `region_usage_count_max` is never.
    pub skip_scan_threshold: u8,
    /// The admission probe: how many pages at the cold end of the active list a refaulted page looks at. It takes the place
    /// of the first whose usage count is 0; that of the others goes down by one. Default 2 pages; 1 to 32.
    pub probe_pages: u32,
    /// Scan balance by refault cost (as Linux' `lru_note_cost`): of files' pages and regions' pages in one memory, those whose
    /// reads take longer are favoured. So many of 1000 would-be victims are kept for another lap, at most. Default 875; 0 (the
    /// cost of reads does not matter) to 950.
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
    use alloc::string::ToString;

    #[test]
    fn defaults_are_in_range() {
        assert_eq!(Replacement::default().check(), Ok(()));
        assert_eq!(Replacement::Linux(LinuxOptions::default()).check(), Ok(()));
    }

    #[test]
    fn a_value_out_of_range_is_named_with_its_range() {
        let wrong = |change: fn(&mut MillpondOptions)| {
            let mut options = MillpondOptions::default();
            change(&mut options);
            Replacement::Millpond(options).check().unwrap_err().to_string()
        };
        assert_eq!(
            wrong(|o| o.inactive_start_per_mille = 1001),
            "option replacement.inactive_start_per_mille can't be 1001: allowed is 0 to 1000"
        );
        assert_eq!(
            wrong(|o| o.usage_count_max = 4),
            "option replacement.usage_count_max can't be 4: allowed is 1 to 3"
        );
        assert_eq!(
            wrong(|o| o.window = Ratio::percent(11)),
            "option replacement.window can't be 11 %: allowed is 0 to 10 %"
        );
        assert_eq!(
            wrong(|o| o.probe_pages = 0),
            "option replacement.probe_pages can't be 0: allowed is 1 to 32"
        );
    }
}
