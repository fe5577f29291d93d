//! A device's write rate, and the rate of each of its dirtiers that follows from it.
//!
//! Every 200 ms, while a task is throttled: the pages written give the bandwidth, smoothed over about 3 s. The rate for
//! each dirtier is found by feeding back: if all of them together dirtied twice what was written, each may have half. It
//! moves in small steps, and only when the present, the last and the throttled rate all point the same way, so that it
//! does not swing. In the end each of N dirtiers has bandwidth / N, without a count of them.
//!
//! Linux 7.0: `wb_update_write_bandwidth`, `wb_update_dirty_ratelimit`. Pages a second; ticks of `hz` a second.

use super::position::ONE;
use millpond_core::units::PageCount;

/// The bandwidth of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bandwidth {
    /// Over the last period, pages a second.
    pub now: u64,
    /// Smoothed once more.
    pub average: u64,
}

impl Bandwidth {
    /// Linux's assumption about an unknown device: 100 MB/s.
    pub const START: Bandwidth = Bandwidth {
        now: 25_600,
        average: 25_600,
    };

    /// After `elapsed` ticks in which `written` pages were written.
    pub fn next(self, written: u64, elapsed: u64, hz: u64) -> Bandwidth {
        let period = (3 * hz).next_power_of_two();
        if elapsed > period {
            let now = (u128::from(written) * u128::from(hz) / u128::from(elapsed)) as u64;
            return Bandwidth {
                now,
                average: now.max(1),
            };
        }
        let (old, mut average) = (self.now, self.average);
        let kept = u128::from(old) * u128::from(period - elapsed);
        let now = ((u128::from(written) * u128::from(hz) + kept) / u128::from(period)) as u64;
        // Only if the last two agree on the direction.
        if average > old && old >= now {
            average -= (average - old) >> 3;
        }
        if average < old && old <= now {
            average += (old - average) >> 3;
        }
        Bandwidth {
            now,
            average: average.max(1),
        }
    }
}

/// The rate that each dirtier of a device may dirty at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Pages a second, 1 at least.
    pub pages: u64,
    /// The balanced rate as it was last.
    pub balanced: u64,
}

/// The measurements of the last 200 ms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    /// Pages dirtied.
    pub dirtied: u64,
    /// The length in ticks.
    pub elapsed: u64,
    /// The device's bandwidth.
    pub average: u64,
    /// The factor of its position.
    pub factor: u64,
    /// Dirty pages, and where they are to be: of the device if its part is strict, else of all.
    pub dirty: PageCount,
    /// See `dirty`.
    pub setpoint: PageCount,
}

impl Rate {
    /// Linux's initial value: 100 MB/s.
    pub const START: Rate = Rate {
        pages: 25_600,
        balanced: 25_600,
    };

    /// After 200 ms.
    pub fn next(self, shown: &Shown, hz: u64) -> Rate {
        let dirtied = shown.dirtied * hz / shown.elapsed.max(1);
        let throttled = (self.pages * shown.factor / ONE) + 1;
        let balanced = u128::from(throttled) * u128::from(shown.average) / u128::from(dirtied | 1);
        let balanced = balanced.min(u128::from(shown.average)) as u64;
        let step = match shown.dirty < shown.setpoint {
            true => {
                let least = self.balanced.min(balanced).min(throttled);
                least.saturating_sub(self.pages)
            }
            false => {
                let most = self.balanced.max(balanced).max(throttled);
                self.pages.saturating_sub(most)
            }
        };
        // The nearer, the smaller.
        let shift = self.pages / (2 * step + 1);
        let step = if shift < 64 {
            (step >> shift).div_ceil(8)
        } else {
            0
        };
        let pages = match self.pages < balanced {
            true => self.pages + step,
            false => self.pages.saturating_sub(step),
        };
        Rate {
            pages: pages.max(1),
            balanced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::position::cubic;
    use super::*;

    #[test]
    fn bandwidth_comes_to_what_is_written() {
        let mut bandwidth = Bandwidth::START;
        for _ in 0..200 {
            bandwidth = bandwidth.next(2_560, 200, 1000);
        }
        assert!((12_500..=12_900).contains(&bandwidth.now), "{bandwidth:?}");
        assert!((12_500..=13_500).contains(&bandwidth.average), "{bandwidth:?}");
        // After a long pause it is measured anew; it never comes to nothing.
        assert_eq!(bandwidth.next(5_000, 5_000, 1000).average, 1_000);
        assert_eq!(bandwidth.next(0, 5_000, 1000), Bandwidth { now: 0, average: 1 });
    }

    #[test]
    fn one_period_moves_the_bandwidth_by_its_part_of_three_seconds() {
        // (1000 * 1000 + 25600 * (4096 - 200)) / 4096
        assert_eq!(Bandwidth::START.next(1_000, 200, 1000).now, 24_594);
    }

    #[test]
    fn each_dirtiers_rate_comes_to_its_share_of_the_bandwidth() {
        for dirtiers in [1, 2, 4, 10] {
            let mut rate = Rate::START;
            let mut dirty = 175_000_u64;
            for _ in 0..1000 {
                let factor = cubic(PageCount(175_000), PageCount(dirty), PageCount(200_000));
                let dirtied = rate.pages * factor / ONE * dirtiers / 5;
                dirty = (dirty + dirtied).saturating_sub(10_000 / 5);
                let shown = Shown {
                    dirtied,
                    elapsed: 200,
                    average: 10_000,
                    factor,
                    dirty: PageCount(dirty),
                    setpoint: PageCount(175_000),
                };
                rate = rate.next(&shown, 1000);
            }
            let fair = 10_000 / dirtiers;
            assert!(rate.pages.abs_diff(fair) <= fair / 10 + 2, "{dirtiers}: {rate:?}");
        }
    }

    #[test]
    fn the_rate_never_comes_to_nothing() {
        let mut rate = Rate::START;
        for _ in 0..10_000 {
            let shown = Shown {
                dirtied: 100_000,
                elapsed: 200,
                average: 1,
                factor: 0,
                dirty: PageCount(1),
                setpoint: PageCount(0),
            };
            rate = rate.next(&shown, 1000);
        }
        assert_eq!(rate.pages, 1);
    }
}
