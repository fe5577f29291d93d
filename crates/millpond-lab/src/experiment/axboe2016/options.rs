//! The user's options, their checks, and the sizes that follow from them.

use super::EXPERIMENT;
use crate::backend::{self, Backend, Row};
use crate::error::Result;
use crate::experiment::Job;
use crate::experiment::check;
use crate::machine;
use crate::program::Program;
use crate::setup::Device;
use crate::testbed;
use crate::workload::Workload;
use crate::workload::axboe2016::{Axboe2016, Phase, WRITE_UNIT};
use millpond::internal::quantity::{self, size_typed};
use millpond_core::units::{Bytes, Nanos, PageCount, PageSize};
use std::path::PathBuf;

/// The user's options. Units are in the types; ranges are checked by [`run`](super::run).
#[derive(Clone, Debug)]
pub struct Options {
    /// Targets by name; `None` is every one that this build has.
    pub on: Option<Vec<String>>,
    /// Variants of simulator and engine; none is each target's own choice.
    pub variants: Vec<String>,
    /// How the kernel is set up on a modelled disk, as [`testbed::Configuration`] reads it; none is as most machines are.
    pub kernel_variants: Vec<String>,
    /// The device.
    pub device: Device,
    /// Where files go on a real device.
    pub dir: PathBuf,
    /// The memory that a target may use. 16 MiB or more.
    pub memory: Bytes,
    /// How many files are written: 1 to 10000. The post: 50.
    pub files: u32,
    /// The size of each: 64 KiB or more. The post: 100 MB.
    pub file_size: Bytes,
    /// The size of the file that is read: 1 MiB or more.
    pub read_file_size: Bytes,
    /// Threads that write: 1 to `files`. The post's program is one.
    pub writers: u32,
    /// Runs of each row: 1 to 100.
    pub runs: u32,
    /// The factor on all sizes: 0.001 to 100. `None`: 1, or less where 1 would take too long.
    pub scale: Option<f64>,
    /// The seed of everything random.
    pub seed: u64,
    /// The read latency that variants with a goal aim at.
    pub read_latency_goal: Option<Nanos>,
    /// Workloads by name; none is the post's three.
    pub workloads: Vec<String>,
    /// Starts a run's process.
    pub program: Program,
    /// The command line, for the report.
    pub command: String,
}

/// How long all runs on real files are planned to take at most when the sizes are ours to choose.
const SECONDS_PLANNED_MAX: f64 = 130.0;
/// No faster than this is believed in planning: a page cache does not fill faster on a busy machine.
const RATE_MAX: f64 = 1e9;
/// The scales among which that choice is made.
const SCALES: [f64; 11] = [1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005];
/// How long the reader reads alone.
const READER_ALONE_MS: u64 = 2_000;
/// Below this a process hardly starts.
const MEMORY_MIN: Bytes = Bytes::from_mib(16);
const FILE_SIZE_MIN: Bytes = Bytes(WRITE_UNIT as u64);
const READ_FILE_SIZE_MIN: Bytes = Bytes::from_mib(1);
/// Left free on the file system besides the files: for journals, and other users.
const SPARE: Bytes = Bytes::from_mib(128);

/// The sizes of one plan, scaled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) scale: f64,
    pub(super) files: u32,
    pub(super) file: Bytes,
    pub(super) read_file: Bytes,
    pub(super) memory: Bytes,
}

impl Sizes {
    pub(super) fn written(&self) -> Bytes {
        Bytes(self.file.0 * u64::from(self.files))
    }

    pub(super) fn needed(&self) -> Bytes {
        self.written() + self.read_file + SPARE
    }
}

/// The post's: 50 files of 100 MiB, beside 512 MiB of memory and a file of 4 GiB that is read.
pub(super) fn post_sizes() -> Sizes {
    Sizes {
        scale: 1.0,
        files: 50,
        file: Bytes::from_mib(100),
        read_file: Bytes::from_mib(4096),
        memory: Bytes::from_mib(512),
    }
}

impl Options {
    /// The ranges that no machine changes.
    pub(super) fn check(&self) -> Result<()> {
        let too_small = |option, value: Bytes, least: Bytes, instead| {
            check::bad(
                option,
                size_typed(value),
                format!("the least is {}", size_typed(least)),
                instead,
            )
        };
        for variant in &self.variants {
            if variant.contains('/') {
                variant.parse::<backend::GoalVariant>()?;
            } else {
                check::names("variant", std::slice::from_ref(variant), EXPERIMENT.variants)?;
            }
        }
        check::names("workload", &self.workloads, EXPERIMENT.workloads)?;
        if !(1..=10_000).contains(&self.files) {
            return check::bad(
                "--files",
                self.files,
                "allowed are 1 to 10000 files",
                "the post has 50; --file-size makes them larger",
            );
        }
        if !(1..=self.files).contains(&self.writers) {
            return check::bad(
                "--writers",
                self.writers,
                format!("allowed are 1 to {} writers, the number of files", self.files),
                "each writer takes one file after the other; more files: --files",
            );
        }
        check::runs(self.runs)?;
        check::scale(
            self.scale.unwrap_or(1.0),
            0.001..=100.0,
            "",
            "1 has the post's sizes; without it the sizes fit this disk",
        )?;
        if self.file_size < FILE_SIZE_MIN {
            return too_small(
                "--file-size",
                self.file_size,
                FILE_SIZE_MIN,
                "one write is at least as large",
            );
        }
        if self.read_file_size < READ_FILE_SIZE_MIN {
            return too_small(
                "--read-file-size",
                self.read_file_size,
                READ_FILE_SIZE_MIN,
                "take more than the memory, or every read becomes a hit",
            );
        }
        if self.memory < MEMORY_MIN {
            return too_small(
                "--memory",
                self.memory,
                MEMORY_MIN,
                "the program itself needs some of it",
            );
        }
        // Of every size that makes a simulated machine, before any run; no real one takes as much.
        let pages = |bytes: Bytes| bytes.to_pages(PageSize::KIB_4);
        let none = PageCount(0);
        let typed = size_typed;
        machine::check_simulated("--memory", typed(self.memory), pages(self.memory), none)?;
        let files = Bytes(self.file_size.0.saturating_mul(self.files.into()));
        machine::check_simulated("--file-size", typed(self.file_size), none, pages(files))?;
        let read = self.read_file_size;
        machine::check_simulated("--read-file-size", typed(read), none, pages(read))?;
        Ok(())
    }

    /// The kernel's configurations.
    pub(super) fn kernel_configurations(&self) -> Result<Vec<testbed::Configuration>> {
        check::kernel_configurations(self.device, &self.kernel_variants)
    }

    /// The back ends that were named, or all, in the order of tables.
    pub(super) fn backends(&self) -> Result<Vec<&'static Backend>> {
        match &self.on {
            None => Ok(backend::BACKENDS.iter().collect()),
            Some(named) => check::backends(named),
        }
    }

    pub(super) fn phases(&self) -> Vec<Phase> {
        if self.workloads.is_empty() {
            return Phase::POST.to_vec();
        }
        let named = |phase: &Phase| self.workloads.iter().any(|name| name == phase.name());
        Phase::ALL.into_iter().filter(named).collect()
    }

    pub(super) fn sizes(&self, scale: f64) -> Sizes {
        let scaled = |size: Bytes, least: Bytes| {
            let bytes = (size.0 as f64 * scale) as u64;
            // whole writes, so that no file ends in a small one, and whole mebibytes of memory
            Bytes((bytes / least.0.min(1 << 20) * least.0.min(1 << 20)).max(least.0))
        };
        Sizes {
            scale,
            files: self.files,
            file: scaled(self.file_size, FILE_SIZE_MIN),
            read_file: scaled(self.read_file_size, READ_FILE_SIZE_MIN),
            memory: scaled(self.memory, MEMORY_MIN),
        }
    }

    /// The largest sizes with which all runs fit the time and the disk, and a sentence if they are not full.
    pub(super) fn choose_sizes(
        &self,
        rows: &[Row],
        rate: f64,
        free: Option<Bytes>,
    ) -> (Sizes, Option<String>) {
        let phases = self.phases();
        let seconds = |sizes: &Sizes| {
            let runs = rows.iter().flat_map(|row| {
                let rate = row.device_bytes_per_s.unwrap_or(rate).min(RATE_MAX);
                let phases = phases.iter().map(move |&phase| phase_seconds(phase, sizes, rate));
                phases.map(move |seconds| seconds + testbed_seconds(row, sizes))
            });
            sizes.read_file.0 as f64 / rate + f64::from(self.runs) * runs.sum::<f64>()
        };
        let fits = |sizes: &Sizes| {
            seconds(sizes) <= SECONDS_PLANNED_MAX && free.is_none_or(|free| sizes.needed() <= free)
        };
        let all = || SCALES.into_iter().map(|scale| self.sizes(scale));
        let smallest = || self.sizes(SCALES[SCALES.len() - 1]);
        let sizes = all().find(fits).unwrap_or_else(smallest);
        let full = self.sizes(1.0);
        let note = (sizes.scale < 1.0).then(|| {
            let why = if free.is_some_and(|free| full.needed() > free) && seconds(&full) <= SECONDS_PLANNED_MAX {
                "this disk has no room for more".to_owned()
            } else {
                let minutes = (seconds(&full) / 60.0).ceil();
                format!("this disk takes {:.0} MB/s, and full size could take about {minutes} minutes", rate / 1e6)
            };
            let (scale, files) = (sizes.scale, sizes.files);
            let [file, read, memory] = [sizes.file, sizes.read_file, sizes.memory].map(quantity::size);
            format!(
                "All sizes on real files are {scale} of the full ones ({files} files of {file}, a read file of {read}, {memory} of memory): {why}. --scale 1 takes full size."
            )
        });
        (sizes, note)
    }

    pub(super) fn job(&self, row: &Row, phase: Phase, sizes: &Sizes, rate: f64) -> Job {
        Job {
            row: row.clone(),
            workload: Workload::Axboe2016(Axboe2016 {
                phase,
                files: sizes.files,
                file_bytes: sizes.file.0,
                writers: self.writers,
                read_file_bytes: sizes.read_file.0,
                reader_alone_ms: READER_ALONE_MS,
                seed: self.seed,
            }),
            workload_name: phase.name(),
            runs: if row.is_deterministic { 1 } else { self.runs },
            seconds: phase_seconds(phase, sizes, row.device_bytes_per_s.unwrap_or(rate))
                + testbed_seconds(row, sizes),
        }
    }
}

/// About how long it takes to set up a row's testbed, if it has one, to make its read file at the speed of memory and to
/// take it down: 2 s and 1 GB a second on a virtual machine with two processors.
fn testbed_seconds(row: &Row, sizes: &Sizes) -> f64 {
    match row.is_in_place() {
        false => 2.0 + sizes.read_file.0 as f64 / 1e9,
        true => 0.0,
    }
}

/// About how long a phase takes on a device that takes `rate` bytes a second: with a reader the writers lose
/// some of it, and each phase has its start and its end.
fn phase_seconds(phase: Phase, sizes: &Sizes, rate: f64) -> f64 {
    let writing = sizes.written().0 as f64 / rate;
    match (phase.actor(), phase.writes()) {
        (Some(_), true) => 1.0 + 1.5 * writing,
        (_, false) => 0.5 + READER_ALONE_MS as f64 / 1e3,
        (None, true) => 0.5 + 1.1 * writing,
    }
}

#[cfg(test)]
mod tests {
    use super::super::run;
    use super::*;
    use crate::experiment::find;

    fn options() -> Options {
        Options {
            on: None,
            variants: Vec::new(),
            kernel_variants: Vec::new(),
            device: Device::Real,
            dir: "/tmp".into(),
            memory: Bytes::from_mib(512),
            files: 50,
            file_size: Bytes::from_mib(100),
            read_file_size: Bytes::from_mib(4096),
            writers: 1,
            runs: 3,
            scale: None,
            seed: 1,
            read_latency_goal: None,
            workloads: Vec::new(),
            program: Program::this(&[]),
            command: String::new(),
        }
    }

    fn real_rows(count: usize) -> Vec<Row> {
        let row = Row {
            label: "kernel".into(),
            setup: crate::setup::Setup {
                target: "kernel".into(),
                variant: "direct".into(),
                device: Device::Real,
                dir: "/tmp".into(),
                memory: Bytes::from_mib(512),
                read_latency_goal: None,
                seed: 1,
            },
            in_memory_group: false,
            testbed: None,
            is_deterministic: false,
            device_bytes_per_s: None,
        };
        vec![row; count]
    }

    #[test]
    fn the_page_has_runs_of_the_posts_sizes_and_no_others() {
        let is_of_page = |options: &Options| super::super::is_of_page(options, &options.sizes(0.05));
        let mut own = options();
        assert!(is_of_page(&own));
        own.writers = 2;
        assert!(!is_of_page(&own));
        own = options();
        own.files = 10;
        assert!(!is_of_page(&own));
    }

    #[test]
    fn every_bad_value_is_named_with_what_is_allowed() {
        type Change = fn(&mut Options);
        let table: [(Change, &str); 10] = [
            (|o| o.files = 0, "--files 0: allowed are 1 to 10000"),
            (|o| o.writers = 0, "--writers 0: allowed are 1 to 50"),
            (|o| o.writers = 51, "--writers 51: allowed are 1 to 50"),
            (|o| o.runs = 0, "--runs 0: allowed are 1 to 100"),
            (|o| o.scale = Some(0.0), "--scale 0: allowed is 0.001 to 100"),
            (|o| o.file_size = Bytes(4096), "--file-size 4K: the least is 64K"),
            (
                |o| o.read_file_size = Bytes(0),
                "--read-file-size 0: the least is 1M",
            ),
            (|o| o.memory = Bytes(1 << 20), "--memory 1M: the least is 16M"),
            (
                |o| o.workloads = vec!["reader".into()],
                "unknown workload `reader`; allowed: writers-and-reader, reader-alone, writers-alone, thinking-reader",
            ),
            (
                |o| o.variants = vec!["v4".into()],
                "unknown variant `v4`; allowed: off, v2, v3-10",
            ),
        ];
        for (change, expected) in table {
            let mut options = options();
            change(&mut options);
            let error = run(&options, &mut ()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn a_fast_disk_gets_full_size_and_a_slow_one_what_fits_the_time() {
        let options = options();
        let (sizes, note) = options.choose_sizes(&real_rows(1), 2e9, None);
        assert_eq!((sizes.scale, note), (1.0, None));
        assert_eq!(sizes.written(), Bytes::from_mib(5000));
        let (sizes, note) = options.choose_sizes(&real_rows(3), 100e6, None);
        let note = note.unwrap();
        assert!(sizes.scale < 0.2, "{sizes:?}");
        assert!(
            note.contains("takes 100 MB/s") && note.contains("--scale 1"),
            "{note}"
        );
        // even a disk that takes nothing gets something that ends
        let (sizes, _) = options.choose_sizes(&real_rows(3), 1e5, None);
        assert_eq!(sizes.scale, 0.005);
        assert_eq!(sizes.memory, MEMORY_MIN);
    }

    #[test]
    fn a_full_disk_gets_what_it_has_room_for() {
        let (sizes, note) = options().choose_sizes(&real_rows(1), 2e9, Some(Bytes::from_mib(3000)));
        assert!(sizes.needed() <= Bytes::from_mib(3000), "{sizes:?}");
        assert!(note.unwrap().contains("no room"));
    }

    #[test]
    fn scaling_keeps_whole_writes() {
        let sizes = options().sizes(0.03);
        assert_eq!(sizes.file.0 % FILE_SIZE_MIN.0, 0);
        assert_eq!(sizes.files, 50);
        assert_eq!(options().sizes(1.0).file, Bytes::from_mib(100));
    }

    #[test]
    fn the_experiment_is_listed() {
        assert!(find("axboe2016").is_ok_and(|e| e.variants.len() == 9 && e.workloads.len() == 10));
        let error = find("axboe2061").err().map(|e| e.to_string()).unwrap();
        assert!(
            error.contains("`axboe2061`") && error.contains("axboe2016"),
            "{error}"
        );
    }
}
