//! Linux' background and hard limit, and how often a dirtier looks at them.
//!
//! Either limit is a percentage of dirtyable memory or a number of bytes; setting one forgets the other. A
//! background limit that is not below the hard one counts as half of it. Nothing has a floor: of one
//! dirtyable page 20 % are no page, and a hard limit of 0 is what Hills 2015 has met. What does have a floor
//! is [`ratelimit`], at 16 pages; it hides the defect from a reader that looks only there.

use millpond_core::units::{Bytes, PageCount, PageSize};

/// A limit as the administrator gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelLimit {
    /// `vm.dirty_ratio`, `vm.dirty_background_ratio`: percent of dirtyable memory.
    Percent(u32),
    /// `vm.dirty_bytes`, `vm.dirty_background_bytes`.
    Bytes(Bytes),
}

/// Both of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelLimits {
    /// Above: the flusher writes. 10 % unless set.
    pub background: KernelLimit,
    /// Above: a task that dirties is throttled hard. 20 % unless set.
    pub hard: KernelLimit,
}

impl Default for KernelLimits {
    fn default() -> Self {
        KernelLimits {
            background: KernelLimit::Percent(10),
            hard: KernelLimit::Percent(20),
        }
    }
}

/// The kernel whose arithmetic is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelVersion {
    /// 4.0: percent; a favoured caller scales both limits by 5/4.
    Linux4,
    /// 7.0: percent rounded down to 4096ths, 32 bits at most; a real-time caller gets a quarter and a 32nd of the
    /// domain's limit more.
    Linux7,
}

/// The task that asks. A limit of the whole system should not depend on it; Linux' does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Caller {
    /// Linux 4.0: `PF_LESS_THROTTLE` (nfsd and the like) or real-time; 7.0: real-time or deadline.
    pub is_favoured: bool,
    /// The domain's limit at present; 7.0 adds a 32nd of it for such a caller.
    pub limit_now: PageCount,
}

/// The limits that the settings give. Either may be 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelThresholds {
    /// Above: the flusher writes.
    pub background: PageCount,
    /// The hard limit.
    pub hard: PageCount,
}

impl KernelThresholds {
    /// Below it no task is checked: the middle between both.
    pub fn free_run(&self) -> PageCount {
        PageCount((self.background.0 + self.hard.0) / 2)
    }
}

/// The values of `limits` with `dirtyable` pages: Linux's `global_dirty_limits`, `domain_dirty_limits`.
pub fn thresholds(
    version: KernelVersion,
    limits: KernelLimits,
    dirtyable: PageCount,
    caller: Caller,
) -> KernelThresholds {
    let pages = |limit| match (limit, version) {
        (KernelLimit::Bytes(bytes), _) => bytes.0.div_ceil(PageSize::KIB_4.bytes()),
        (KernelLimit::Percent(percent), KernelVersion::Linux4) => u64::from(percent) * dirtyable.0 / 100,
        (KernelLimit::Percent(percent), KernelVersion::Linux7) => {
            u64::from(percent) * 4096 / 100 * dirtyable.0 / 4096
        }
    };
    let (mut background, mut hard) = (pages(limits.background), pages(limits.hard));
    match version {
        KernelVersion::Linux4 => {
            if background >= hard {
                background = hard / 2;
            }
            if caller.is_favoured {
                (background, hard) = (background + background / 4, hard + hard / 4);
            }
        }
        KernelVersion::Linux7 => {
            if caller.is_favoured {
                background += background / 4 + caller.limit_now.0 / 32;
                hard += hard / 4 + caller.limit_now.0 / 32;
            }
            hard = hard.min(u64::from(u32::MAX));
            if background >= hard {
                background = hard / 2;
            }
        }
    }
    KernelThresholds {
        background: PageCount(background),
        hard: PageCount(hard),
    }
}

/// The fewest pages that a processor dirties between two looks at the limits.
pub const RATELIMIT_MIN: u64 = 16;

/// How many pages a processor dirties at most before its task looks at the limits: the hard limit over 32 times the number
/// of processors *online when it is derived*, 16 at least (`writeback_set_ratelimit`).
pub fn ratelimit(hard: PageCount, processors: u32) -> PageCount {
    PageCount((hard.0 / (u64::from(processors.max(1)) * 32)).max(RATELIMIT_MIN))
}

/// Before 3.2 it followed memory and not the limit: all of it over 32 times the processors, 16 to 1024 pages.
pub fn ratelimit_before32(memory: PageCount, processors: u32) -> PageCount {
    PageCount(ratelimit(memory, processors).0.min(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: KernelVersion, hard: KernelLimit, dirtyable: u64, caller: Caller) -> (u64, u64) {
        let limits = KernelLimits {
            hard,
            ..KernelLimits::default()
        };
        let t = thresholds(version, limits, PageCount(dirtyable), caller);
        (t.background.0, t.hard.0)
    }

    const NOBODY: Caller = Caller {
        is_favoured: false,
        limit_now: PageCount(0),
    };

    #[test]
    fn a_share_of_one_page_is_nothing_and_the_ratelimit_hides_it() {
        for percent in [20, 21] {
            let (background, hard) = of(KernelVersion::Linux4, KernelLimit::Percent(percent), 1, NOBODY);
            assert_eq!((background, hard), (0, 0));
            assert_eq!(ratelimit(PageCount(hard), 8), PageCount(16));
        }
    }

    #[test]
    fn the_posts_ratelimits_follow_from_its_inputs() {
        let at = |dirtyable| {
            let hard = of(KernelVersion::Linux4, KernelLimit::Percent(20), dirtyable, NOBODY);
            ratelimit(PageCount(hard.1), 8).0
        };
        let bytes = KernelLimit::Bytes(Bytes(1_048_576_000));
        assert_eq!(of(KernelVersion::Linux4, bytes, 1, NOBODY).1, 256_000);
        assert_eq!(ratelimit(PageCount(256_000), 8), PageCount(1000));
        // High memory counted: the table's pages, the pages that the post adds up, and what its 2186 needs.
        assert_eq!((at(2_785_548), at(2_632_414)), (2176, 2056));
        assert_eq!(
            of(KernelVersion::Linux4, KernelLimit::Percent(20), 2_785_548, NOBODY).1,
            557_109
        );
        for (seen, from, to) in [
            (2186, 2_798_080, 2_799_359),
            (78, 99_840, 101_119),
            (63, 80_640, 81_919),
        ] {
            assert_eq!([at(from), at(to)], [seen, seen]);
            assert_eq!([at(from - 1), at(to + 1)], [seen - 1, seen + 1]);
        }
        // Low memory of the post's machine lies in the range of what it saw at boot.
        assert_eq!(at(3970 + 96_678), 78);
        // With each zone clamped separately: more than nothing, though little.
        assert_eq!(at(31_980), 24);
        // With one processor online it would have been another number.
        let hard = of(KernelVersion::Linux4, KernelLimit::Percent(20), 100_648, NOBODY).1;
        assert_eq!(ratelimit(PageCount(hard), 1), PageCount(629));
    }

    #[test]
    fn a_background_limit_that_is_not_below_the_hard_one_counts_as_half() {
        for version in [KernelVersion::Linux4, KernelVersion::Linux7] {
            assert_eq!(
                of(version, KernelLimit::Percent(10), 100_000, NOBODY).0,
                5_000.min(of(version, KernelLimit::Percent(10), 100_000, NOBODY).1 / 2)
            );
        }
        assert_eq!(
            of(KernelVersion::Linux4, KernelLimit::Percent(5), 100_000, NOBODY),
            (2500, 5000)
        );
    }

    #[test]
    fn later_versions_round_the_share_down_and_have_32_bits() {
        assert_eq!(
            of(KernelVersion::Linux4, KernelLimit::Percent(20), 100_000, NOBODY).1,
            20_000
        );
        // 20 * 4096 / 100 = 819.
        assert_eq!(
            of(KernelVersion::Linux7, KernelLimit::Percent(20), 100_000, NOBODY),
            (9985, 19_995)
        );
        let whole = of(KernelVersion::Linux7, KernelLimit::Percent(100), 1 << 40, NOBODY);
        assert_eq!(whole.1, u64::from(u32::MAX));
    }

    #[test]
    fn a_favoured_caller_gets_other_limits_for_everybody() {
        let favoured = Caller {
            is_favoured: true,
            limit_now: PageCount(3200),
        };
        let share = KernelLimit::Percent(20);
        assert_eq!(
            of(KernelVersion::Linux4, share, 100_000, favoured),
            (12_500, 25_000)
        );
        assert_eq!(
            of(KernelVersion::Linux7, share, 100_000, favoured),
            (9985 + 2496 + 100, 19_995 + 4998 + 100)
        );
    }

    #[test]
    fn before_3_2_the_ratelimit_followed_memory() {
        assert_eq!(ratelimit_before32(PageCount(1 << 20), 8), PageCount(1024));
        assert_eq!(ratelimit_before32(PageCount(131_072), 8), PageCount(512));
        assert_eq!(ratelimit_before32(PageCount(100), 8), PageCount(16));
    }
}
