//! Which rule replaces pages, and its numbers.
//!
//! A closed set: what Linux did, by version, and Millpond's own. Every field says its unit, default, range
//! and source. [`Replacement::check`] names the field, the value and the range when one is out of it.

use crate::units::{PageSize, Ratio};
use core::fmt;

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
    /// [`OutOfRange`] names the first field that is not; correct it and try again.
    pub fn check(&self) -> Result<(), OutOfRange> {
        match self {
            Replacement::Linux(_) => Ok(()),
            Replacement::Millpond(options) => options.check(),
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
    /// How a page that comes back soon after its eviction is recognised. Default [`Detection::Linux4_19`].
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

/// How a page that comes back too soon is recognised by the shadow that it left.
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
    /// Length of the inactive list that is aimed at first, per mille of memory. Default 100; between
    /// `inactive_min` and `inactive_max`.
    pub inactive_start_per_mille: u32,
    /// The shortest that the aim may become, per mille. Default 20; 1 to `inactive_max`.
    pub inactive_min_per_mille: u32,
    /// The longest that the aim may become, per mille. Default 500; `inactive_min` to 900.
    pub inactive_max_per_mille: u32,
    /// How far one ghost hit moves the aim, per mille. Default 2; 0 (never) to 100.
    pub inactive_step_per_mille: u32,
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
    /// of the first whose usage count is 0; that of the others goes down by one. Default 4 pages; 1 to 32.
    pub probe_pages: u32,
    /// It probes although the active list has room: active pages that are no longer used then go sooner, and the inactive
    /// list keeps the room. Default false.
    pub probe_always: bool,
    /// Bimodal insertion (BIP): of pages without a shadow one in this many, which is 1/epsilon, may probe one active page.
    /// It keeps a part of a loop that is longer than memory. Default 32, in a cache with regions 37; 1 or more.
    pub admit_epsilon_one_in: u32,
    /// The same while the active list holds less than half of the memory. Default 4; 1 or more.
    pub admit_epsilon_one_in_when_short: u32,
    /// The same while the inactive list is longer than this many percent of its aim. Default 0: never;
    /// up to 1000.
    pub admit_inactive_percent: u32,
    /// Scan balance by refault cost (as Linux' `lru_note_cost`): of files' pages and regions' pages in one memory, those whose
    /// reads take longer are favoured. So many of 1000 would-be victims are kept for another lap, at most. Default 875; 0 (the
    /// cost of reads does not matter) to 950.
    pub scan_balance_max_per_mille: u32,
}

impl MillpondOptions {
    /// The rule for a pool with anonymous pages in it: the aim of the inactive list moves more slowly, a refaulted page
    /// probes in any case, and pages without a shadow fill what the inactive list does not need. Measured on
    /// Kim 2020's loads (decision 0010).
    pub fn with_regions() -> MillpondOptions {
        MillpondOptions {
            inactive_start_per_mille: 120,
            inactive_step_per_mille: 1,
            probe_pages: 16,
            probe_always: true,
            admit_epsilon_one_in: 37,
            admit_epsilon_one_in_when_short: 2,
            admit_inactive_percent: 150,
            ..MillpondOptions::default()
        }
    }
}

impl Default for MillpondOptions {
    fn default() -> Self {
        MillpondOptions {
            window: Ratio::percent(1),
            inactive_start_per_mille: 100,
            inactive_min_per_mille: 20,
            inactive_max_per_mille: 500,
            inactive_step_per_mille: 2,
            ghost_window: Ratio::percent(5),
            usage_count_max: 3,
            region_usage_count_max: 8,
            accessed_bit_weight: 4,
            skip_scan_threshold: 5,
            probe_pages: 4,
            probe_always: false,
            admit_epsilon_one_in: 32,
            admit_epsilon_one_in_when_short: 4,
            admit_inactive_percent: 0,
            scan_balance_max_per_mille: 875,
        }
    }
}

impl MillpondOptions {
    fn check(&self) -> Result<(), OutOfRange> {
        const WHOLE: u64 = 1_000_000;
        let in_range = |field, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(OutOfRange {
                    field,
                    value,
                    low,
                    high,
                })
            }
        };
        for (field, ratio) in [
            ("window (denominator)", self.window),
            ("ghost_window (denominator)", self.ghost_window),
        ] {
            in_range(field, ratio.den.into(), 1, u32::MAX.into())?;
        }
        in_range("window (per million)", self.window.of(WHOLE), 0, WHOLE / 10)?;
        let (low, high) = (self.inactive_min_per_mille, self.inactive_max_per_mille);
        in_range("inactive_max_per_mille", high.into(), 1, 900)?;
        in_range("inactive_min_per_mille", low.into(), 1, high.into())?;
        in_range(
            "inactive_start_per_mille",
            self.inactive_start_per_mille.into(),
            low.into(),
            high.into(),
        )?;
        in_range(
            "inactive_step_per_mille",
            self.inactive_step_per_mille.into(),
            0,
            100,
        )?;
        in_range(
            "ghost_window (per million)",
            self.ghost_window.of(WHOLE),
            0,
            WHOLE,
        )?;
        in_range("usage_count_max", self.usage_count_max.into(), 1, 3)?;
        in_range(
            "region_usage_count_max",
            self.region_usage_count_max.into(),
            1,
            15,
        )?;
        in_range("accessed_bit_weight", self.accessed_bit_weight.into(), 1, 15)?;
        in_range("skip_scan_threshold", self.skip_scan_threshold.into(), 1, 16)?;
        in_range("probe_pages", self.probe_pages.into(), 1, 32)?;
        let any = u64::from(u32::MAX);
        in_range("admit_epsilon_one_in", self.admit_epsilon_one_in.into(), 1, any)?;
        in_range(
            "admit_epsilon_one_in_when_short",
            self.admit_epsilon_one_in_when_short.into(),
            1,
            any,
        )?;
        let percent = self.admit_inactive_percent.into();
        in_range("admit_inactive_percent", percent, 0, 1000)?;
        let most = self.scan_balance_max_per_mille.into();
        in_range("scan_balance_max_per_mille", most, 0, 950)
    }
}

/// A number of [`Replacement`] that is not in its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfRange {
    /// The field's name, with its unit where the value is not in the field's own.
    pub field: &'static str,
    /// What it was set to.
    pub value: u64,
    /// The least that is allowed.
    pub low: u64,
    /// The most that is allowed.
    pub high: u64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {}, must be from {} to {}",
            self.field, self.value, self.low, self.high
        )
    }
}

impl core::error::Error for OutOfRange {}

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
            wrong(|o| o.inactive_start_per_mille = 10),
            "inactive_start_per_mille is 10, must be from 20 to 500"
        );
        assert_eq!(
            wrong(|o| o.usage_count_max = 4),
            "usage_count_max is 4, must be from 1 to 3"
        );
        assert_eq!(
            wrong(|o| o.window = Ratio::percent(11)),
            "window (per million) is 110000, must be from 0 to 100000"
        );
        assert_eq!(
            wrong(|o| o.admit_epsilon_one_in = 0),
            "admit_epsilon_one_in is 0, must be from 1 to 4294967295"
        );
    }
}
