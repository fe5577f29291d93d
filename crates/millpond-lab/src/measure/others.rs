//! Other programs' use of this machine: its processors and a disk, sampled while this program does nothing.
//!
//! Not the load average. That is of the last minute, and in that minute the machine has mostly built this program.

use super::disk::block_device;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough to see a build, and hardly noticed.
const LOOK: Duration = Duration::from_millis(500);
/// The share of the processors or of the disk's time from which the machine is busy: a run needs all of both.
const BUSY: f64 = 0.25;

/// Other programs' use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Others {
    /// Processors, of how many.
    processors: (f64, usize),
    /// The share of the time that the disk is at work, if the kernel reports it.
    disk: Option<f64>,
}

/// Ticks of all processors since the machine was started.
#[derive(Clone, Copy)]
struct Ticks {
    all: u64,
    idle: u64,
    processors: usize,
}

impl Others {
    /// Their effect on figures measured meanwhile, if they are busy.
    pub fn note(self) -> Option<String> {
        self.is_busy().then(|| {
            format!("The machine was busy: beside the runs, others used {self}. Tails may be theirs; compare within a round.")
        })
    }

    /// Looks for half a second at the processors and at the disk under `dir`. Do nothing else meanwhile.
    pub fn look(dir: &Path) -> Option<Others> {
        let stat = block_device(dir).map(|device| device.join("stat"));
        let now = || {
            Some((
                ticks(&fs::read_to_string("/proc/stat").ok()?)?,
                busy(stat.as_ref()),
            ))
        };
        let (before, disk_before) = now()?;
        let began = Instant::now();
        thread::sleep(LOOK);
        let took = began.elapsed();
        let (after, disk_after) = now()?;
        let all = after.all.saturating_sub(before.all).max(1);
        let idle = after.idle.saturating_sub(before.idle).min(all);
        let disk = disk_before.zip(disk_after).map(|(before, after)| {
            let busy = Duration::from_millis(after.saturating_sub(before));
            (busy.as_secs_f64() / took.as_secs_f64()).min(1.0)
        });
        Some(Others {
            processors: (
                (all - idle) as f64 / all as f64 * after.processors as f64,
                after.processors,
            ),
            disk,
        })
    }

    /// Whether they use so much that measured figures may be theirs.
    pub fn is_busy(&self) -> bool {
        let (used, of) = self.processors;
        used >= BUSY * of as f64 || self.disk.is_some_and(|share| share >= BUSY)
    }

    /// The larger use of two samples.
    #[must_use]
    pub fn or_busier(self, other: Others) -> Others {
        let weight = |others: &Others| {
            let (used, of) = others.processors;
            (used / of.max(1) as f64).max(others.disk.unwrap_or(0.0))
        };
        match weight(&other) > weight(&self) {
            true => other,
            false => self,
        }
    }

    /// The number of processors, and the share of a disk's time.
    pub fn of(used: f64, processors: usize, disk: Option<f64>) -> Others {
        Others {
            processors: (used, processors),
            disk,
        }
    }
}

/// The text after "others use": `1.9 of 2 processors and 60 % of the disk's time`.
impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, of) = self.processors;
        write!(f, "{used:.1} of {of} processors")?;
        match self.disk {
            Some(share) => write!(f, " and {:.0} % of the disk's time", share * 100.0),
            None => Ok(()),
        }
    }
}

/// The first line of `/proc/stat`, whose fields are user, nice, system, idle, waiting for disks, interrupts (two), and what
/// the host gave to others. Time of guests is in the first two already.
fn ticks(text: &str) -> Option<Ticks> {
    let mut lines = text.lines();
    let fields = lines.next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let fields: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
    let is_processor = |line: &&str| line.starts_with("cpu");
    Some(Ticks {
        all: fields.iter().sum(),
        idle: fields.get(3)? + fields.get(4)?,
        processors: lines.take_while(is_processor).count(),
    })
}

/// Milliseconds that a disk has been at work: the tenth field (Linux, Documentation/block/stat.rst).
fn busy(stat: Option<&PathBuf>) -> Option<u64> {
    let text = fs::read_to_string(stat?).ok()?;
    text.split_ascii_whitespace().nth(9)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_neither_idle_nor_waiting_is_used() {
        let ticks = ticks("cpu  10 1 5 100 20 2 3 4 9 9\ncpu0 1 2\ncpu1 1 2\nintr 5\n").unwrap();
        assert_eq!((ticks.all, ticks.idle, ticks.processors), (145, 120, 2));
    }

    #[test]
    fn busy_is_a_quarter_of_the_processors_or_of_the_disk() {
        let busy = |used, disk| Others::of(used, 2, disk).is_busy();
        assert!(!busy(0.4, None) && !busy(0.1, Some(0.2)));
        assert!(busy(0.5, None) && busy(0.0, Some(0.3)));
        let (idle, disk) = (Others::of(0.4, 2, Some(0.1)), Others::of(0.1, 2, Some(0.6)));
        assert_eq!(idle.or_busier(disk), disk);
        assert_eq!(disk.or_busier(idle), disk);
        assert_eq!(
            disk.to_string(),
            "0.1 of 2 processors and 60 % of the disk's time"
        );
    }

    #[test]
    fn this_machine_tells() {
        let others = Others::look(Path::new("/")).unwrap();
        let (used, of) = others.processors;
        assert!(of >= 1 && (0.0..=of as f64).contains(&used), "{others:?}");
    }
}
