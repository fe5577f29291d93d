//! The measured properties of a device, and the read latency goal derived from them.

use super::DeviceFacts;
use std::fmt;
use std::time::Duration;

/// The bounds of derived goals, for the fastest and the slowest device.
pub(crate) const GOAL_MIN: Duration = Duration::from_millis(2);
pub(crate) const GOAL_MAX: Duration = Duration::from_millis(60);

/// The largest derived goal for a non-rotational device: 16 times the 0.5 ms of a slow one. A measurement under load
/// includes that load: it gave a disk of 90 us a goal of 60 ms. A device that is slower even without load gets more
/// time, because the goal in force follows the slowest reads made without concurrent writes.
const GOAL_MAX_FLASH: Duration = Duration::from_millis(8);

/// The calibration of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calibration {
    /// The device's own description, or the assumed one if it gives none.
    pub facts: DeviceFacts,
    /// The number of 4 KiB reads measured: up to 24 when a file is opened, up to 48 later.
    pub reads: u32,
    /// Their median latency.
    pub read_latency: Duration,
    /// Their maximum latency.
    pub read_latency_max: Duration,
    /// The time that the measurement added to opening the file; zero if it was made later.
    pub took: Duration,
}

impl Calibration {
    /// Returns the read latency goal for this device if no other is set: 16 times the median read latency, from 2 to 60
    /// ms on a rotational device and from 2 to 8 ms on others. `docs/experiments/frontier.md` compares smaller and
    /// larger goals.
    pub fn read_latency_goal(&self) -> Duration {
        (self.read_latency * 16).clamp(GOAL_MIN, self.goal_max())
    }

    fn goal_max(&self) -> Duration {
        match self.facts.rotational {
            true => GOAL_MAX,
            false => GOAL_MAX_FLASH,
        }
    }

    /// Returns whether the goal is clamped to the maximum of its class.
    pub(crate) fn is_longest_goal(&self) -> bool {
        self.read_latency_goal() == self.goal_max()
    }
}

/// The origin of the read latency goal. As text it is a part of a sentence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GoalSource {
    /// Not measured yet: the goal suits a flash disk. The cache measures when it opens a file of 1 MiB or more.
    Unmeasured,
    /// Not measured yet: the first file's device reports that it is rotational. The cache measures when it opens a file
    /// of 1 MiB or more.
    Presumed,
    /// Measured.
    Measured(Calibration),
    /// Measured under other load. The cache measures again when the device is idle.
    MeasuredUnderLoad(Calibration),
    /// A measurement was requested with `admission.read_latency=measure`. The previous goal applies until it is done.
    Remeasuring,
    /// Set explicitly.
    Given,
}

impl fmt::Display for GoalSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GoalSource::Unmeasured => f.write_str(
                "a flash disk's, until the disk is measured at the first file of 1 MiB or more",
            ),
            GoalSource::Presumed => f.write_str(
                "a rotating disk's, which this one reports to be, until it is measured at the first file of 1 MiB or \
                 more",
            ),
            GoalSource::Measured(found) | GoalSource::MeasuredUnderLoad(found) => {
                let (us, reads) = (found.read_latency.as_micros(), found.reads);
                let (kind, most) = match found.facts.rotational {
                    true => ("reports that it rotates", GOAL_MAX),
                    false => ("reports that it does not rotate", GOAL_MAX_FLASH),
                };
                let (least, most) = (GOAL_MIN.as_millis(), most.as_millis());
                write!(
                    f,
                    "16 times the {us} us that {reads} reads took, {least} to {most} ms as the disk {kind}"
                )?;
                match self {
                    GoalSource::MeasuredUnderLoad(_) => f.write_str(
                        "; the disk had other load meanwhile, so it is measured again when idle",
                    ),
                    _ => Ok(()),
                }
            }
            GoalSource::Remeasuring => f.write_str("the previous one, until reads of the idle disk are measured"),
            GoalSource::Given => f.write_str("set"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured while something else wrote to the disk, which may go on for as long as there is a cache.
    #[test]
    fn a_load_s_effect_on_a_measurement_is_bounded_by_the_reported_device_class() {
        let goal = |rotational: bool, read_us: u64| {
            let found = Calibration {
                facts: DeviceFacts {
                    rotational,
                    ..DeviceFacts::UNKNOWN
                },
                reads: 24,
                read_latency: Duration::from_micros(read_us),
                read_latency_max: Duration::from_micros(read_us),
                took: Duration::from_micros(24 * read_us),
            };
            let text = GoalSource::Measured(found).to_string();
            assert!(text.contains(&format!("{read_us} us")), "{text}");
            found.read_latency_goal().as_millis()
        };
        assert_eq!(
            [goal(false, 90), goal(false, 300), goal(false, 12_000)],
            [2, 4, 8]
        );
        assert_eq!(
            [goal(true, 90), goal(true, 3_000), goal(true, 12_000)],
            [2, 48, 60]
        );
    }
}
