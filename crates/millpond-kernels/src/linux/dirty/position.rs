//! The position of dirty pages between the limits, as a factor for the dirtiers' rates.
//!
//! ```text
//!   factor 2 ┤*
//!            │   *  *
//!          1 ┤- - - - - -*- - - - -            at the setpoint every task gets its share of the bandwidth
//!            │           ·   *
//!          0 ┤           ·      *───           at the limit no task gets anything
//!            └────────┬──┬──────┬─► dirty
//!              free-run  setpoint  limit
//! ```
//!
//! A cubic between the two, flat at the setpoint and steep at the ends; then a line that does the same for the device's own
//! part of it, so that a slow device does not take the room of a fast one. With a hard limit of 0 everything is at the
//! limit: the factor is 0 for ever (Hills 2015).
//!
//! Linux 7.0: `pos_ratio_polynom`, `wb_position_ratio`, `update_dirty_limit`. Fixed point with 10 bits.

use super::limits::KernelVersion;
use millpond_core::units::PageCount;

/// The factor 1.
pub const ONE: u64 = 1 << 10;

/// The limits of a domain at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// No task is throttled below.
    pub free_run: PageCount,
    /// All stop above: the hard limit, or what the domain still has of a higher one.
    pub limit: PageCount,
    /// The target of dirty pages.
    pub setpoint: PageCount,
}

impl Span {
    /// Of these limits, when the domain's own is `domain_limit`.
    pub fn of(background: PageCount, hard: PageCount, domain_limit: PageCount) -> Span {
        let free_run = PageCount((hard.0 + background.0) / 2);
        let limit = hard.max(domain_limit);
        Span {
            free_run,
            limit,
            setpoint: PageCount((free_run.0 + limit.0) / 2),
        }
    }
}

/// The domain's own limit after 200 ms: it follows a limit that rises at once, and one that falls in 32nds of the way to
/// what is dirty, so that a task below the old limit is not stopped dead.
pub fn domain_limit_next(limit: PageCount, hard: PageCount, dirty: PageCount) -> PageCount {
    if limit < hard {
        return hard;
    }
    let towards = hard.max(dirty);
    PageCount(limit.0 - (limit.saturating_sub(towards).0 >> 5))
}

/// The factor at `dirty` pages, 0 to 2.
pub fn cubic(setpoint: PageCount, dirty: PageCount, limit: PageCount) -> u64 {
    let (setpoint, dirty, limit) = (setpoint.0 as i64, dirty.0 as i64, limit.0 as i64);
    let x = ((setpoint - dirty) << 10) / ((limit - setpoint) | 1);
    let r = (((x * x) >> 10) * x) >> 10;
    (ONE as i64 + r).clamp(0, 2 * ONE as i64) as u64
}

/// One device's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DevicePart {
    /// Dirty pages and pages being written of this device.
    pub dirty: PageCount,
    /// Its part of the hard limit.
    pub hard: PageCount,
    /// Its part of the background limit.
    pub background: PageCount,
    /// Its write rate, pages a second.
    pub bandwidth: u64,
    /// Its part is a limit of its own, also while all together have dirtied little.
    pub is_strict: bool,
}

/// The factor for dirtiers of one device, when `dirty` pages are dirty in all, `hard` is the hard limit and `span` what
/// follows from it.
///
/// Linux 4.0 gives a device an eighth of the room below the *domain's* limit at least, which may be far above the hard limit
/// of this moment; later versions go by the latter (see [`part`](super::device::part)).
pub fn factor(
    version: KernelVersion,
    dirty: PageCount,
    hard: PageCount,
    span: Span,
    device: &DevicePart,
) -> u64 {
    if dirty >= span.limit {
        return 0;
    }
    let mut factor = cubic(span.setpoint, dirty, span.limit);
    if device.is_strict {
        if device.dirty >= device.hard {
            return 0;
        }
        let setpoint = PageCount((device.hard.0 + device.background.0) / 2);
        let own = cubic(setpoint, device.dirty, device.hard);
        return factor.min(own);
    }
    let own_hard = match version {
        KernelVersion::Linux4 => device.hard.min(hard).max(PageCount((span.limit.0 - dirty.0) / 8)),
        KernelVersion::Linux7 => device.hard.min(hard),
    };
    let q = (u128::from(own_hard.0) << 16) / u128::from(hard.0 | 1);
    let scaled = |pages: u64| ((u128::from(pages) * q) >> 16).min(1 << 62) as u64;
    let own_setpoint = scaled(span.setpoint.0);
    let width = scaled((hard.0 + 8 * device.bandwidth).saturating_sub(own_hard.0));
    let end = own_setpoint + width;
    let own = device.dirty.0;
    if own + width / 4 < end {
        let (up, down) = (u128::from(end - own), u128::from((end - own_setpoint) | 1));
        factor = (u128::from(factor) * up / down) as u64;
    } else {
        factor /= 4;
    }
    let half = own_hard.0 / 2;
    if own < half {
        factor = match own > half / 8 {
            true => (u128::from(factor) * u128::from(half) / u128::from(own)) as u64,
            false => factor * 8,
        };
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(setpoint: u64, dirty: u64, limit: u64) -> u64 {
        cubic(PageCount(setpoint), PageCount(dirty), PageCount(limit))
    }

    #[test]
    fn the_cubic_is_one_at_the_setpoint_and_ends_at_the_limit() {
        let expected = [
            (0, 2042),
            (250, 1453),
            (500, 1151),
            (900, 1024),
            (1000, 1024),
            (1100, 1023),
            (1250, 1008),
            (1500, 896),
            (1750, 594),
            (1999, 8),
        ];
        for (dirty, factor) in expected {
            assert_eq!(at(1000, dirty, 2000), factor, "{dirty} dirty");
        }
    }

    fn whole(dirty: u64, hard: u64) -> DevicePart {
        DevicePart {
            dirty: PageCount(dirty),
            hard: PageCount(hard),
            background: PageCount(hard / 2),
            bandwidth: 25_600,
            is_strict: false,
        }
    }

    #[test]
    fn the_span_lies_between_free_run_and_limit() {
        let span = Span::of(PageCount(1000), PageCount(2000), PageCount(0));
        assert_eq!(
            (span.free_run.0, span.limit.0, span.setpoint.0),
            (1500, 2000, 1750)
        );
        assert_eq!(at(1750, 1750, 2000), ONE);
        assert_eq!(
            factor(
                KernelVersion::Linux7,
                PageCount(2000),
                PageCount(2000),
                span,
                &whole(2000, 2000)
            ),
            0
        );
    }

    /// Hills 2015 before the touch: thresholds of 0, and the domain's limit of the boot above them.
    #[test]
    fn the_domains_limit_alone_keeps_linux_4_going() {
        let span = Span::of(PageCount(0), PageCount(0), PageCount(20_000));
        let of = |version| factor(version, PageCount(1000), PageCount(0), span, &whole(1000, 0));
        assert!(of(KernelVersion::Linux4) > ONE, "{}", of(KernelVersion::Linux4));
        assert!(
            of(KernelVersion::Linux7) < ONE / 2,
            "{}",
            of(KernelVersion::Linux7)
        );
    }

    /// Hills 2015: it is not the ratelimit that makes it slow.
    #[test]
    fn under_a_hard_limit_of_zero_nobody_gets_anything_ever() {
        let span = Span::of(PageCount(0), PageCount(0), PageCount(0));
        for dirty in [0, 1, 1000] {
            assert_eq!(
                factor(
                    KernelVersion::Linux7,
                    PageCount(dirty),
                    PageCount(0),
                    span,
                    &whole(dirty, 0)
                ),
                0
            );
        }
    }

    #[test]
    fn a_device_alone_at_its_setpoint_has_factor_one_and_less_above() {
        let span = Span::of(PageCount(10_000), PageCount(20_000), PageCount(20_000));
        let of = |dirty| {
            factor(
                KernelVersion::Linux7,
                PageCount(dirty),
                PageCount(20_000),
                span,
                &whole(dirty, 20_000),
            )
        };
        assert!((ONE - 2..=ONE + 2).contains(&of(17_500)), "{}", of(17_500));
        assert!(of(16_000) > of(17_500) && of(17_500) > of(19_000));
    }

    #[test]
    fn a_device_over_its_part_is_held_back_and_one_that_is_hardly_used_is_not() {
        let span = Span::of(PageCount(10_000), PageCount(20_000), PageCount(20_000));
        let of = |own| {
            let part = DevicePart {
                dirty: PageCount(own),
                ..whole(0, 2_000)
            };
            factor(
                KernelVersion::Linux7,
                PageCount(17_500),
                PageCount(20_000),
                span,
                &part,
            )
        };
        assert_eq!(of(1750), ONE - 1);
        assert!(of(4_000) < ONE && of(100_000) == ONE / 4);
        assert!(of(500) > ONE && of(0) > 8 * ONE, "{} {}", of(500), of(0));
    }

    #[test]
    fn a_strict_part_is_a_limit_of_its_own() {
        let span = Span::of(PageCount(10_000), PageCount(20_000), PageCount(20_000));
        let of = |own, all| {
            let part = DevicePart {
                dirty: PageCount(own),
                is_strict: true,
                ..whole(0, 200)
            };
            factor(
                KernelVersion::Linux7,
                PageCount(all),
                PageCount(20_000),
                span,
                &part,
            )
        };
        assert_eq!(of(200, 300), 0, "though hardly anything is dirty in all");
        assert_eq!(of(150, 300), ONE);
        assert_eq!(of(0, 20_000), 0);
    }

    #[test]
    fn the_domains_limit_follows_up_at_once_and_down_slowly() {
        let next =
            |limit, hard, dirty| domain_limit_next(PageCount(limit), PageCount(hard), PageCount(dirty)).0;
        assert_eq!(next(1000, 2000, 0), 2000);
        assert_eq!(next(2000, 1000, 500), 2000 - 31);
        assert_eq!(next(2000, 1000, 1968), 1999);
        assert_eq!(next(1000, 1000, 5000), 1000);
    }
}
