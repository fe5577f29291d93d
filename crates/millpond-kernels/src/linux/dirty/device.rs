//! A device's part of the limits: as much as it has of what was written lately.
//!
//! Each device counts the pages that were written to it; all counts are halved about every 3 s. Its part of a limit is its
//! share of these, plus what it was promised (`min_ratio`), and no more than it may have (`max_ratio`). A device that was
//! idle has no share yet: while there is room below the hard limit it gets an eighth of that, a hundredth if its part is
//! strict (FUSE: 1 % at most unless set otherwise).
//!
//! Linux 7.0: `__wb_calc_thresh`, `wb_min_max_ratio`, `lib/flex_proportions.c` (without the smearing over processors).

use super::limits::{KernelThresholds, KernelVersion};
use millpond_core::units::PageCount;

/// Ratios of devices are in 10,000ths of a percent.
pub const RATIO_WHOLE: u64 = 100 * 10_000;

/// The minimum and maximum share of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceRatios {
    /// The least, of [`RATIO_WHOLE`]. 0 unless set.
    pub min: u64,
    /// The most, of [`RATIO_WHOLE`]. All unless set.
    pub max: u64,
    /// A limit of its own, also below the free-run limit.
    pub is_strict: bool,
}

impl Default for DeviceRatios {
    fn default() -> Self {
        DeviceRatios {
            min: 0,
            max: RATIO_WHOLE,
            is_strict: false,
        }
    }
}

/// Pages written lately.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Completions {
    /// To this device.
    pub own: u64,
    /// To all.
    pub all: u64,
}

impl Completions {
    /// A period is over.
    pub fn halve(&mut self) {
        (self.own, self.all) = (self.own / 2, self.all / 2);
    }
}

/// A device's part of the hard limit when `dirty` pages are dirty in all and `promised` is the sum of all devices' `min`.
///
/// In Linux 4.0 an idle device has nothing here; its share of the room is found with its position.
pub fn part(
    version: KernelVersion,
    hard: PageCount,
    dirty: PageCount,
    completions: Completions,
    ratios: DeviceRatios,
    promised: u64,
) -> PageCount {
    let of = |share: u64| u128::from(hard.0) * u128::from(share) / u128::from(RATIO_WHOLE);
    let shared = of(RATIO_WHOLE.saturating_sub(promised));
    let own = shared * u128::from(completions.own) / u128::from(completions.all.max(1));
    let mut part = (own + of(ratios.min)) as u64;
    let room = hard.saturating_sub(dirty).0;
    let room = match ratios.is_strict {
        true => room / 100,
        false => room / 8,
    };
    if version == KernelVersion::Linux7 {
        part = part.max(room);
    }
    PageCount(part.min(of(ratios.max) as u64))
}

/// Its part of the background limit.
pub fn background_part(part: PageCount, thresholds: KernelThresholds) -> PageCount {
    if thresholds.hard == PageCount(0) {
        return PageCount(0);
    }
    let background = u128::from(part.0) * u128::from(thresholds.background.0) / u128::from(thresholds.hard.0);
    PageCount(background as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARD: PageCount = PageCount(20_000);

    fn of(dirty: u64, own: u64, ratios: DeviceRatios, promised: u64) -> u64 {
        let completions = Completions { own, all: 1000 };
        part(
            KernelVersion::Linux7,
            HARD,
            PageCount(dirty),
            completions,
            ratios,
            promised,
        )
        .0
    }

    #[test]
    fn a_part_is_the_share_of_what_was_written_lately() {
        let usual = DeviceRatios::default();
        assert_eq!(
            [of(20_000, 1000, usual, 0), of(20_000, 250, usual, 0)],
            [20_000, 5_000]
        );
        let mut completions = Completions { own: 1000, all: 1001 };
        completions.halve();
        assert_eq!(completions, Completions { own: 500, all: 500 });
    }

    #[test]
    fn an_idle_device_gets_an_eighth_of_the_room_and_a_strict_one_a_hundredth() {
        let strict = DeviceRatios {
            is_strict: true,
            ..DeviceRatios::default()
        };
        assert_eq!(of(12_000, 0, DeviceRatios::default(), 0), 1000);
        assert_eq!(of(12_000, 0, strict, 0), 80);
        assert_eq!(of(20_000, 0, DeviceRatios::default(), 0), 0, "no room, no part");
    }

    #[test]
    fn promised_bandwidth_is_there_and_the_allowed_maximum_is_not_passed() {
        let promised = DeviceRatios {
            min: 10 * 10_000,
            ..DeviceRatios::default()
        };
        assert_eq!(of(20_000, 0, promised, promised.min), 2000);
        assert_eq!(
            of(20_000, 500, DeviceRatios::default(), promised.min),
            9000,
            "half of the rest"
        );
        let capped = DeviceRatios {
            max: 10_000,
            ..DeviceRatios::default()
        };
        assert_eq!(of(0, 1000, capped, 0), 200, "1 %, as FUSE has it");
    }

    #[test]
    fn the_background_part_is_in_proportion() {
        let thresholds = KernelThresholds {
            background: PageCount(10_000),
            hard: HARD,
        };
        assert_eq!(background_part(PageCount(500), thresholds), PageCount(250));
        let nothing = KernelThresholds {
            background: PageCount(0),
            hard: PageCount(0),
        };
        assert_eq!(background_part(PageCount(0), nothing), PageCount(0));
    }
}
