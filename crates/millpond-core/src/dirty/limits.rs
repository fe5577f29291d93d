//! The limits on dirty pages: pure functions of the settings and of current memory.
//!
//! ```text
//!   0 ───────── background ───────── free-run ───────── hard
//!       nothing      writeback runs       a dirtier above    every dirtier
//!       happens      beside the writers   its share waits    waits
//! ```
//!
//! Hills 2015: a limit once collapsed to zero because it was derived from a difference of totals at the moment a
//! setting was touched. Here no subtraction can go negative, no limit depends on who asks, and every limit has a floor:
//! [`limits`] never returns zero, whatever the input.
//!
//! Unwritable pages do not count among the dirty pages that other writers wait for. They are counted separately and may
//! take space beyond the hard limit ([`Thresholds::beside`]). [`refuses`] says when their file accepts no more writes.

use crate::formula::Formula;
use crate::units::{Bytes, PageCount, PageSize, Ratio};
use alloc::format;

/// A limit as set by the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirtyLimit {
    /// A share of dirtyable memory (Linux: `dirty_ratio`).
    Share(Ratio),
    /// A size (Linux: `dirty_bytes`).
    Size(Bytes),
}

/// The settings of the dirty limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyOptions {
    /// Background writeback runs above this. Default 10 % of dirtyable memory (Linux: `dirty_background_ratio`). A
    /// value at or above the hard limit counts as one page less than that limit.
    pub background: DirtyLimit,
    /// Callers that dirty pages wait above this. Default 20 % (Linux: `dirty_ratio`). The minimum is 1 MiB or 32 pages,
    /// or half of a pool too small for that. The maximum is 15/16 of dirtyable memory.
    pub hard: DirtyLimit,
    /// The share of the hard limit that unwritable pages of one file may take. Above it, writes to that file fail with
    /// the device's error until some of the pages are written or given up. All such files together may take the whole
    /// hard limit. 0 to 100 %, at least one page. Default 25 %: a file that breaks while others write takes at most 5 %
    /// of memory for pages that may never leave it.
    pub failed: Ratio,
}

/// Part of a cache's memory: all of it, or that of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Frames in the pool.
    pub frames: PageCount,
    /// Frames that only I/O may take.
    pub reserve: PageCount,
}

/// Dirtyable pages of several pools: the sum of each pool's frames above its reserve, at least a sixteenth of the pool.
pub fn pages_of(pools: impl IntoIterator<Item = Pool>) -> PageCount {
    let of = |pool: Pool| pool.frames.saturating_sub(pool.reserve).0.max(pool.frames.0 / 16);
    PageCount(pools.into_iter().map(of).sum::<u64>().max(1))
}

/// Dirtyable memory: the frames of the pool minus its reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyableMemory {
    /// All frames of the pool.
    pub frames: PageCount,
    /// Frames that only I/O may take.
    pub reserve: PageCount,
    /// The size of a frame.
    pub page_size: PageSize,
}

impl DirtyableMemory {
    /// The number of dirtyable pages: at least a sixteenth of the pool, whatever the reserve.
    pub fn pages(&self) -> PageCount {
        let (frames, reserve) = (self.frames, self.reserve);
        pages_of([Pool { frames, reserve }])
    }
}

/// The limits in pages. `1 <= background < hard`, `background <= free_run <= hard`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Writeback runs above this.
    pub background: PageCount,
    /// No dirtier waits below this. The midpoint of the other two, as in Linux.
    pub free_run: PageCount,
    /// Every dirtier waits above this.
    pub hard: PageCount,
    /// A file with more unwritable pages than this accepts no more writes.
    pub failed: PageCount,
    /// The most dirty pages, unwritable ones included, so that space for reads remains.
    pub ceiling: PageCount,
    /// How much a dirtier may dirty after a wait before another one gets its turn.
    pub burst: PageCount,
}

impl Thresholds {
    /// The limits for all other pages when `failed` pages are unwritable. They stay the same as long as both fit below
    /// the ceiling. They never fall below a page or two, so that a writable file makes progress.
    pub fn beside(&self, failed: PageCount) -> Thresholds {
        let headroom = self.ceiling.saturating_sub(failed).0.max(2);
        if self.hard.0 <= headroom {
            return *self;
        }
        let background = self.background.0.min(headroom / 2);
        Thresholds {
            background: PageCount(background),
            free_run: PageCount((background + headroom) / 2),
            hard: PageCount(headroom),
            ..*self
        }
    }
}

impl Thresholds {
    /// How many more pages may become dirty when `failed` are unwritable and `others` are dirty, leaving space for
    /// reads. A file that the device has not refused yet (`is_sound`) gets slightly more: its writer makes progress if
    /// the file is writable, and otherwise the failure is detected.
    pub fn left(&self, failed: PageCount, others: PageCount, is_sound: bool) -> PageCount {
        // Half of what is above the ceiling, which is a fifteenth of it, stays for reads in any case.
        let more = if is_sound { self.ceiling.0 / 30 } else { 0 };
        PageCount(self.ceiling.0 + more).saturating_sub(failed + others)
    }
}

/// Whether a file with `own` unwritable pages, out of `all` in all files, accepts no more writes.
pub fn refuses(thresholds: &Thresholds, own: PageCount, all: PageCount) -> bool {
    own > thresholds.failed || (own > PageCount(0) && all > thresholds.hard)
}

/// The floor of the hard limit in pages: one batch of faults and one write of it must fit together.
pub const HARD_PAGES_MIN: u64 = 32;
/// The floor of the hard limit in bytes: what a rotating disk writes in 9 ms, one revolution. With less, the disk
/// finishes before the dirtier comes back and waits for the next revolution each time.
pub const HARD_MIN: Bytes = Bytes::from_mib(1);
/// See [`Thresholds::burst`]: 9 ms of a rotating disk, about the time to move there from another file.
pub const BURST: Bytes = Bytes::from_mib(1);

/// The limits derived from `options` and `memory`.
///
/// ```
/// use millpond_core::dirty::limits::*;
/// use millpond_core::units::*;
/// let memory = DirtyableMemory { frames: PageCount(100_000), reserve: PageCount(0), page_size: PageSize::KIB_4 };
/// let options = DirtyOptions {
///     background: DirtyLimit::Share(Ratio::percent(10)),
///     hard: DirtyLimit::Share(Ratio::percent(20)),
///     failed: Ratio::percent(25),
/// };
/// let t = limits(&memory, &options);
/// assert_eq!((t.background.0, t.free_run.0, t.hard.0, t.failed.0), (10_000, 15_000, 20_000, 5_000));
/// ```
pub fn limits(memory: &DirtyableMemory, options: &DirtyOptions) -> Thresholds {
    let formulas = Formulas::of(memory, options);
    Thresholds {
        background: formulas.background.pages(),
        free_run: formulas.free_run.pages(),
        hard: formulas.hard.pages(),
        failed: formulas.failed.pages(),
        ceiling: formulas.ceiling.pages(),
        burst: formulas.burst.pages(),
    }
}

/// The formulas of the limits.
pub(crate) struct Formulas {
    pub(crate) dirtyable: Formula,
    pub(crate) ceiling: Formula,
    pub(crate) hard: Formula,
    pub(crate) background: Formula,
    pub(crate) free_run: Formula,
    pub(crate) failed: Formula,
    pub(crate) burst: Formula,
}

impl Formulas {
    pub(crate) fn of(memory: &DirtyableMemory, options: &DirtyOptions) -> Formulas {
        let (frames, reserve, page) = (memory.frames.0, memory.reserve.0, memory.page_size);
        let of_memory = memory.pages().0;
        let text = format!("{frames} frames - {reserve} reserve, {} at least", frames / 16);
        let dirtyable = Formula::new(of_memory, text);
        let pages = |limit| match limit {
            DirtyLimit::Share(share) => Formula::share(share, of_memory, "dirtyable"),
            DirtyLimit::Size(Bytes(bytes)) => {
                let text = format!("{bytes} B / {} B, rounded up", page.bytes());
                Formula::new(bytes.div_ceil(page.bytes()), text)
            }
        };
        // Room for reads must remain whatever was asked for: at most 15 of 16 pages may be dirty. In a pool
        // too small for the floor, half of it is the limit.
        let text = format!("{of_memory} dirtyable - 1/16 of them");
        let ceiling = Formula::new(of_memory - of_memory / 16, text).at_least(2);
        let room = ceiling.value();
        let floor = HARD_MIN.to_pages(page).0.max(HARD_PAGES_MIN).min(room / 2).max(2);
        let why = match floor {
            _ if Bytes(floor << page.shift()) == HARD_MIN => format!("{HARD_MIN}"),
            HARD_PAGES_MIN => "at least".into(),
            _ => "half of dirty.ceiling".into(),
        };
        let hard = pages(options.hard).within((floor, &why), (room, "dirty.ceiling"));
        let most = hard.value();
        // In Linux a background limit that is not below the hard one counts as half of it, so that raising it a little may lower
        // it much. Here it is just below; for a dirtier that waits there is writing in any case.
        let background = pages(options.background).within((1, ""), (most - 1, "dirty.hard - 1"));
        let least = background.value();
        let free_run = Formula::new((least + most) / 2, format!("({least} + {most}) / 2"));
        let failed = Formula::share(options.failed, most, "(dirty.hard)").at_least(1);
        let text = format!("{BURST} / {} B", page.bytes());
        let burst = Formula::new(BURST.to_pages(page).0, text).within((1, ""), (most, "dirty.hard"));
        let of_hard = ("dirty.hard", most);
        Formulas {
            dirtyable: dirtyable.from(&[("frames", frames), ("reserve", reserve)]),
            ceiling: ceiling.from(&[("dirtyable", of_memory)]),
            hard: hard.from(&[
                ("dirtyable", of_memory),
                ("floor", floor),
                ("dirty.ceiling", room),
            ]),
            background: background.from(&[("dirtyable", of_memory), of_hard]),
            free_run: free_run.from(&[("dirty.background", least), of_hard]),
            failed: failed.from(&[of_hard]),
            burst: burst.from(&[of_hard]),
        }
    }
}

/// The number of dirty pages above which a dirtier with `share` of recent dirtying waits: the hard limit minus up to an
/// eighth of it, in proportion to the share, but never below the free-run limit.
///
/// As Linux before 3.2 (`task_dirty_limit`): the heaviest dirtier stops first, and a light one is hardly affected.
pub fn dirtier_limit(thresholds: &Thresholds, share: Ratio) -> PageCount {
    let hard = thresholds.hard.0;
    PageCount(
        (hard - share.of(hard / 8))
            .max(hard / 2)
            .max(thresholds.free_run.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(frames: u64, reserve: u64) -> DirtyableMemory {
        DirtyableMemory {
            frames: PageCount(frames),
            reserve: PageCount(reserve),
            page_size: PageSize::KIB_4,
        }
    }

    fn shares(background: u32, hard: u32) -> DirtyOptions {
        DirtyOptions {
            background: DirtyLimit::Share(Ratio::percent(background)),
            hard: DirtyLimit::Share(Ratio::percent(hard)),
            failed: Ratio::percent(25),
        }
    }

    #[test]
    fn bytes_are_rounded_up_to_pages() {
        let options = DirtyOptions {
            background: DirtyLimit::Size(Bytes(5000 * 4096 + 1)),
            hard: DirtyLimit::Size(Bytes(1_048_576_000)),
            failed: Ratio::percent(25),
        };
        let t = limits(&memory(3_000_000, 0), &options);
        assert_eq!((t.background.0, t.hard.0), (5001, 256_000));
    }

    #[test]
    fn no_setting_and_no_memory_yields_zero_or_the_whole() {
        for frames in [1, 2, 16, 64, 1000, 1 << 20] {
            for reserve in [0, frames / 2, frames, frames * 10] {
                for (background, hard) in [(0, 0), (0, 100), (100, 100), (100, 1), (10, 20)] {
                    let t = limits(&memory(frames, reserve), &shares(background, hard));
                    let case = (frames, reserve, background, hard, t);
                    assert!(t.background.0 >= 1 && t.background < t.hard, "{case:?}");
                    assert!(t.background <= t.free_run && t.free_run <= t.hard, "{case:?}");
                    assert!(frames < 32 || t.hard.0 < frames, "{case:?}");
                    assert!(
                        t.failed.0 >= 1 && t.failed <= t.hard && t.hard <= t.ceiling,
                        "{case:?}"
                    );
                    for failed in [0, 1, t.hard.0, t.ceiling.0, frames * 2] {
                        let b = t.beside(PageCount(failed));
                        assert!(b.background.0 >= 1 && b.background < b.hard, "{case:?} {failed}");
                        assert!(
                            b.background <= b.free_run && b.free_run <= b.hard,
                            "{case:?} {failed}"
                        );
                    }
                    assert_eq!(t.beside(PageCount(0)), t);
                }
            }
        }
    }

    #[test]
    fn limits_grow_with_the_setting_and_with_memory() {
        for (a, b) in [(1, 2), (10, 20), (20, 21), (50, 90)] {
            assert!(
                limits(&memory(50_000, 100), &shares(1, a)).hard
                    < limits(&memory(50_000, 100), &shares(1, b)).hard
            );
        }
        for (a, b) in [(1_000, 2_000), (50_000, 50_100)] {
            assert!(
                limits(&memory(a, 100), &shares(10, 20)).hard < limits(&memory(b, 100), &shares(10, 20)).hard
            );
        }
    }

    #[test]
    fn pages_that_cannot_be_written_leave_others_their_limit_while_there_is_room() {
        let t = limits(&memory(100_000, 0), &shares(10, 20));
        assert_eq!(t.ceiling, PageCount(93_750));
        assert_eq!(t.beside(PageCount(20_000)), t);
        assert_eq!(t.beside(PageCount(83_750)).hard, PageCount(10_000));
        assert_eq!(t.beside(PageCount(93_750)).hard, PageCount(2));
    }

    #[test]
    fn a_file_is_refused_above_its_part_and_all_that_fail_above_the_hard_limit() {
        let t = limits(&memory(100_000, 0), &shares(10, 20));
        let refused = |own, all| refuses(&t, PageCount(own), PageCount(all));
        assert!(!refused(5_000, 5_000) && refused(5_001, 5_001));
        assert!(!refused(1, 20_000) && refused(1, 20_001));
        assert!(
            !refused(0, 100_000),
            "a file that can be written is never refused"
        );
    }

    #[test]
    fn failed_pages_leave_room_for_reads_whatever_becomes_dirty() {
        let t = limits(&memory(100_000, 0), &shares(10, 20));
        let left = |failed, others, sound| t.left(PageCount(failed), PageCount(others), sound).0;
        assert_eq!((left(1, 0, false), left(50_000, 10_000, false)), (93_749, 33_750));
        assert_eq!((left(93_750, 0, false), left(90_000, 5_000, false)), (0, 0));
        // 6,250 are above the ceiling: half of them are for files that were not refused yet.
        assert_eq!((left(93_750, 0, true), left(96_875, 0, true)), (3_125, 0));
    }

    #[test]
    fn the_heaviest_dirtier_waits_first() {
        let t = limits(&memory(100_000, 0), &shares(10, 20));
        let at = |percent| dirtier_limit(&t, Ratio::percent(percent)).0;
        assert_eq!((at(0), at(50), at(100)), (20_000, 18_750, 17_500));
        assert!(at(100) >= t.free_run.0);
    }

    #[test]
    fn a_pool_with_nothing_but_reserve_takes_nothing_from_another() {
        let pool = |frames, reserve| Pool {
            frames: PageCount(frames),
            reserve: PageCount(reserve),
        };
        assert_eq!(pages_of([pool(1600, 100)]), PageCount(1500));
        assert_eq!(pages_of([pool(1600, 100), pool(1600, 9999)]), PageCount(1600));
        assert_eq!(pages_of([]), PageCount(1));
    }
}
