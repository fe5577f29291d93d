//! What a device was measured to be like, and the goal for read latency that follows from it.

use super::DeviceFacts;
use std::fmt;
use std::time::Duration;

/// The goals that are chosen, for the quickest device and for the slowest.
pub(crate) const GOAL_MIN: Duration = Duration::from_millis(2);
pub(crate) const GOAL_MAX: Duration = Duration::from_millis(60);

/// The longest for a device that does not rotate: 16 times the 0.5 ms of a slow one. What is measured beside a load is the
/// load's: a disk of 90 us had 60 ms. One that needs more by itself gets more, as the goal in force follows the
/// slowest reads that no write was beside.
const GOAL_MAX_FLASH: Duration = Duration::from_millis(8);

/// What a device is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calibration {
    /// What it says of itself, or what is assumed where it says nothing.
    pub facts: DeviceFacts,
    /// Reads of 4 KiB that were measured: up to 24 when a file is opened, up to 48 later.
    pub reads: u32,
    /// The median of what they took.
    pub read_latency: Duration,
    /// The longest.
    pub read_latency_max: Duration,
    /// What opening the file took longer for it; zero if it was measured later.
    pub took: Duration,
}

impl Calibration {
    /// The goal for read latency on such a device, unless another is given: 16 times what a read takes, 2 to 60 ms on a
    /// device that rotates and 2 to 8 ms on others (what shorter and longer goals cost stands in decision 0004).
    pub fn read_latency_goal(&self) -> Duration {
        (self.read_latency * 16).clamp(GOAL_MIN, self.goal_max())
    }

    fn goal_max(&self) -> Duration {
        match self.facts.rotational {
            true => GOAL_MAX,
            false => GOAL_MAX_FLASH,
        }
    }

    /// Whether the goal is cut to the longest of its class.
    pub(crate) fn is_longest_goal(&self) -> bool {
        self.read_latency_goal() == self.goal_max()
    }
}

/// Where the goal for read latency comes from. As text it is a part of a sentence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GoalSource {
    /// Nothing was measured yet: it is what suits a flash disk, until a file of 1 MiB or more is opened.
    Unmeasured,
    /// The device of the first file says that it rotates; it is measured when a file of 1 MiB or more is opened.
    Presumed,
    /// A measurement.
    Measured(Calibration),
    /// A measurement beside other load, which is therefore made again when the device is idle.
    MeasuredUnderLoad(Calibration),
    /// It is to be measured, as `admission.read_latency=measure` asked: until then the goal is that of before.
    Remeasuring,
    /// Set by the program.
    Given,
}

impl fmt::Display for GoalSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GoalSource::Unmeasured => f.write_str(
                "that of a flash disk, until the disk is measured at the first file of 1 MiB or more",
            ),
            GoalSource::Presumed => f.write_str(
                "that of a disk that rotates, as this one says it does, until it is measured at the first file of 1 MiB or \
                 more",
            ),
            GoalSource::Measured(found) | GoalSource::MeasuredUnderLoad(found) => {
                let (us, reads) = (found.read_latency.as_micros(), found.reads);
                let (kind, most) = match found.facts.rotational {
                    true => ("says that it rotates", GOAL_MAX),
                    false => ("says that it does not rotate", GOAL_MAX_FLASH),
                };
                let (least, most) = (GOAL_MIN.as_millis(), most.as_millis());
                write!(
                    f,
                    "16 times the {us} us that {reads} reads took, {least} to {most} ms as the disk {kind}"
                )?;
                match self {
                    GoalSource::MeasuredUnderLoad(_) => f.write_str(
                        "; other load was on it meanwhile, so it is measured again when it is idle",
                    ),
                    _ => Ok(()),
                }
            }
            GoalSource::Remeasuring => f.write_str("that of before, until reads of the idle disk are measured"),
            GoalSource::Given => f.write_str("set"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured while something else wrote to the disk, which may go on for as long as there is a cache.
    #[test]
    fn what_a_load_adds_to_a_measurement_is_bounded_by_what_the_device_says_it_is() {
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
