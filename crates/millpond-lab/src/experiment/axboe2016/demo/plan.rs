//! The sizes of the files and the number of rounds: what fits the time, by the disk's speed.
//!
//! ```text
//!   time = trial + read file + rounds x 2 x (writing + overhead)
//! ```

use crate::error::{LabError, Result};
use crate::machine;
use crate::workload::axboe2016::WRITE_UNIT;
use millpond::internal::quantity;
use millpond_core::units::Bytes;
use std::path::Path;
use std::time::Instant;

/// The post's number.
const FILES: u32 = 50;
/// The share of the time for the trial and the read file, at most.
const PREPARING: f64 = 0.15;
/// What a run takes beside writing: a process that starts, what was written that is checked and removed. 0.7 s on a
/// virtual machine with two processors.
const OVERHEAD_S: f64 = 0.8;
/// A run shorter than this has no tail.
const WRITING_MIN_S: f64 = 0.25;
/// By how much writers take longer beside a reader, or a disk that was fast in a short trial is slower in a long run.
const SLOWER: f64 = 1.3;
/// No disk of ours is faster; a page cache is.
const RATE_MAX: f64 = 4e9;
/// More than this is not written in a run, however fast the disk is.
const WRITTEN_MAX: u64 = 16 << 30;
const MEMORY_MIN: u64 = 32 << 20;
const MEMORY_MAX: u64 = 512 << 20;
/// Writers must have several times as much to write as there is memory, and the reader to read.
const TIMES_MEMORY: u64 = 4;
/// A round that took less than this part of what it may take could be longer.
const SHORT: f64 = 0.6;
/// The largest factor: a short round is not exact.
const LONGER_MAX: f64 = 6.0;
/// More rounds than this show nothing more.
const ROUNDS_MAX: u32 = 8;
const ROUNDS_MIN: u32 = 2;
/// Left free besides the files.
const SPARE: u64 = 128 << 20;
/// The space for the trial and the smallest sizes.
const NEEDED_MIN: u64 = 512 << 20;

/// The sizes, and how it is planned to go.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where, for people: the directory, its file system and device.
    pub place: String,
    /// Bytes a second that the disk took in the trial.
    pub rate: f64,
    /// About how long all of it takes, in seconds.
    pub seconds: u32,
    /// Rounds that are planned; there may be more of them, or fewer.
    pub rounds: u32,
    /// Files that are written in a run.
    pub files: u32,
    /// The size of each file.
    pub file: Bytes,
    /// The size of the file that is read.
    pub read_file: Bytes,
    /// The memory that Millpond has, and the kernel if that is possible.
    pub memory: Bytes,
    /// The version of the memory group in which the kernel's side has no more memory than Millpond, "v1" or "v2"; `None`: it
    /// has all of the machine's.
    pub kernel_group: Option<&'static str>,
    /// The most that may be written in a run, in bytes.
    written_max: u64,
    /// The growth of the files after the first round, if it was requested.
    resized: Option<f64>,
}

/// The time that there is.
pub(super) struct Clock {
    began: Instant,
    seconds: u32,
}

impl Clock {
    pub(super) fn start(seconds: u32) -> Result<Clock> {
        if !(6..=600).contains(&seconds) {
            return Err(LabError::BadValue {
                option: "--seconds",
                value: seconds.to_string(),
                allowed: "must be 6 to 600".into(),
                instead: "40 show a difference on most disks".into(),
            });
        }
        Ok(Clock {
            began: Instant::now(),
            seconds,
        })
    }

    fn left(&self) -> f64 {
        f64::from(self.seconds) - self.began.elapsed().as_secs_f64()
    }

    /// Whether another round begins after `done` of them, the longest of which took this many seconds.
    pub(super) fn has_time_for(&self, done: u32, longest: f64) -> bool {
        done < ROUNDS_MIN || (done < ROUNDS_MAX && longest <= self.left())
    }

    fn rounds(&self) -> u32 {
        match self.seconds {
            ..15 => 2,
            15..30 => 3,
            // as many as show a difference that is there in each of them, where a busy machine has the runs overlap
            _ => 6,
        }
    }

    /// The planned writing time of a run.
    fn writing_s(&self) -> f64 {
        let runs = f64::from(2 * self.rounds());
        (f64::from(self.seconds) * (1.0 - PREPARING) / runs - OVERHEAD_S).max(WRITING_MIN_S)
    }
}

/// Refuses a place that has no room for the smallest sizes.
pub(super) fn check_space(dir: &Path, free: Option<Bytes>) -> Result<()> {
    match free {
        Some(free) if free.0 < NEEDED_MIN => Err(LabError::BadValue {
            option: "--dir",
            value: dir.display().to_string(),
            allowed: format!(
                "{} are free there and {} are needed",
                quantity::size(free),
                quantity::size(Bytes(NEEDED_MIN))
            ),
            instead: "give a directory on another disk".into(),
        }),
        _ => Ok(()),
    }
}

/// The sizes for a disk with a rate of `rate` bytes a second and this much free space.
pub(super) fn plan(dir: &Path, clock: &Clock, rate: f64, free: Option<Bytes>) -> Plan {
    let fits = free.map_or(u64::MAX, |free| free.0.saturating_sub(SPARE) / 2);
    let written = (rate.min(RATE_MAX) * clock.writing_s() / SLOWER) as u64;
    let written = written.min(WRITTEN_MAX).min(fits);
    let memory = (written / TIMES_MEMORY).clamp(MEMORY_MIN, MEMORY_MAX);
    // a power of two, which is easy to name
    let memory = 1 << memory.ilog2();
    let file_system = machine::file_system(dir);
    let device = crate::measure::disk::block_device(dir)
        .and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned()));
    let on = match (file_system, device) {
        (Some(name), Some(device)) => format!(" ({name} on {device})"),
        (Some(name), None) => format!(" ({name})"),
        _ => String::new(),
    };
    Plan {
        place: format!("{}{on}", dir.display()),
        rate,
        seconds: clock.seconds,
        rounds: clock.rounds(),
        files: FILES,
        file: file_of(written),
        read_file: Bytes((memory * TIMES_MEMORY).min(fits / (1 << 20) * (1 << 20))),
        memory: Bytes(memory),
        kernel_group: None,
        written_max: WRITTEN_MAX.min(fits),
        resized: None,
    }
}

/// The size of one of the files with this total: whole writes.
fn file_of(written: u64) -> Bytes {
    let unit = WRITE_UNIT as u64;
    Bytes((written / u64::from(FILES) / unit * unit).max(unit))
}

/// The factor on the bytes written, for a round to take `wanted` seconds instead of those it took.
fn times(wanted: f64, took: f64) -> f64 {
    let overhead = 2.0 * OVERHEAD_S;
    (wanted - overhead) / (took - overhead).max(0.1)
}

impl Plan {
    /// After a first round of this many seconds: chooses other sizes, once, if there would be too few rounds otherwise,
    /// or if the disk is so much faster than it seemed that longer runs would show more. Returns whether there are
    /// other sizes.
    pub(super) fn fit(&mut self, clock: &Clock, took: f64) -> bool {
        let wanted = clock.left() / f64::from(self.rounds);
        let is_long = took * (f64::from(self.rounds.min(3)) - 1.0) > clock.left();
        let is_short = took < SHORT * wanted;
        let factor = match self.resized {
            None if is_long => {
                let wanted = clock.left() / f64::from(self.rounds.min(3));
                // not so small that the first round was more of a run than all the others
                times(wanted, took).clamp(0.1, 0.9)
            }
            None if is_short => times(wanted, took).clamp(1.0, LONGER_MAX),
            _ => return false,
        };
        let before = self.written().0;
        let written = ((before as f64 * factor) as u64).clamp(self.memory.0, self.written_max);
        let file = file_of(written);
        let factor = (file.0 * u64::from(self.files)) as f64 / before as f64;
        let is_other = !(0.9..1.3).contains(&factor);
        // what was announced is what runs
        self.resized = Some(if is_other { factor } else { 1.0 });
        if is_other {
            self.file = file;
        }
        is_other
    }

    /// The factor by which runs are longer than the first, or shorter: below 1.
    pub(super) fn resized(&self) -> f64 {
        self.resized.unwrap_or(1.0)
    }

    /// A plan of these sizes, for a screen that is tried without a disk: four rounds in 40 s.
    pub fn with_sizes(place: &str, files: u32, file: Bytes, memory: Bytes) -> Plan {
        Plan {
            place: place.into(),
            rate: 1e9,
            seconds: 40,
            rounds: 4,
            files,
            file,
            read_file: Bytes(memory.0 * TIMES_MEMORY),
            memory,
            kernel_group: None,
            written_max: WRITTEN_MAX,
            resized: None,
        }
    }

    /// Bytes that are written in a run.
    pub fn written(&self) -> Bytes {
        Bytes(self.file.0 * u64::from(self.files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(rate: f64, free: Option<Bytes>) -> Plan {
        plan(Path::new("/"), &Clock::start(40).unwrap(), rate, free)
    }

    #[test]
    fn each_disk_gets_files_that_it_writes_in_the_time() {
        for rate in [100e6, 500e6, 2e9, 3.5e9] {
            let plan = planned(rate, None);
            let run = plan.written().0 as f64 / rate * SLOWER + OVERHEAD_S;
            let all = run * 2.0 * f64::from(plan.rounds) + plan.read_file.0 as f64 / rate + 2.0;
            assert!((30.0..45.0).contains(&all), "{rate}: {all} s, {plan:?}");
            assert!(plan.read_file.0 >= 2 * plan.memory.0 && plan.written().0 >= 2 * plan.memory.0);
        }
    }

    #[test]
    fn files_fit_where_little_is_free() {
        let free = Bytes::from_mib(1024);
        let plan = planned(2e9, Some(free));
        assert!(plan.written() + plan.read_file <= free, "{plan:?}");
        assert!(plan.read_file > plan.memory);
        check_space(Path::new("/"), Some(free)).unwrap();
        let error = check_space(Path::new("/x"), Some(Bytes::from_mib(100))).unwrap_err();
        let told =
            "--dir /x: 100 MiB are free there and 512 MiB are needed; give a directory on another disk";
        assert_eq!(error.to_string(), told);
    }

    #[test]
    fn a_round_that_took_too_long_makes_the_others_shorter() {
        let clock = Clock::start(40).unwrap();
        let mut plan = planned(2e9, None);
        let before = plan.written();
        assert!(!plan.clone().fit(&clock, 8.0));
        assert!(plan.fit(&clock, 40.0));
        assert!(plan.written() < before && plan.resized() < 0.5, "{plan:?}");
        assert!(plan.written() >= plan.memory);
        assert!(
            !plan.fit(&clock, 40.0),
            "a machine that is slow whatever the size would begin anew for ever"
        );
        assert!(
            clock.has_time_for(1, 1000.0) && !clock.has_time_for(2, 1000.0) && !clock.has_time_for(8, 0.1)
        );
    }

    #[test]
    fn a_disk_that_is_faster_than_it_seemed_gets_more_to_write() {
        let clock = Clock::start(40).unwrap();
        let mut plan = planned(100e6, None);
        let before = plan.written();
        assert!(plan.fit(&clock, 3.0));
        assert!(
            plan.written().0 > 3 * before.0 && plan.resized() > 3.0,
            "{plan:?}"
        );
        let mut full = planned(2e9, Some(Bytes::from_mib(1024)));
        assert!(!full.fit(&clock, 1.0), "there is no room for more: {full:?}");
    }

    #[test]
    fn a_time_out_of_range_is_named() {
        let error = Clock::start(5).err().unwrap().to_string();
        assert!(error.starts_with("--seconds 5: must be 6 to 600"), "{error}");
    }
}
