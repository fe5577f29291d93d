//! The user's options, their checks, and the sizes that follow from them.

use super::EXPERIMENT;
use crate::backend::{self, Backend, Row};
use crate::error::Result;
use crate::experiment::{Job, Options, check};
use crate::machine;
use crate::workload::Workload;
use crate::workload::axboe2016::{Axboe2016, Phase, WRITE_UNIT};
use millpond::internal::quantity::{self, size_typed};
use millpond_core::units::{Bytes, PageCount, PageSize};

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

/// The ranges that no machine changes.
pub(super) fn check(options: &Options) -> Result<()> {
    let too_small = |option, value: Bytes, least: Bytes, instead| {
        check::bad(
            option,
            size_typed(value),
            format!("the least is {}", size_typed(least)),
            instead,
        )
    };
    for variant in &options.variants {
        if variant.contains('/') {
            variant.parse::<backend::GoalVariant>()?;
        } else {
            check::names("variant", std::slice::from_ref(variant), EXPERIMENT.variants)?;
        }
    }
    check::names("workload", &options.workloads, EXPERIMENT.workloads)?;
    if !(1..=10_000).contains(&options.files) {
        return check::bad(
            "--files",
            options.files,
            "must be 1 to 10000 files",
            "the post has 50; --file-size makes them larger",
        );
    }
    if !(1..=options.files).contains(&options.writers) {
        return check::bad(
            "--writers",
            options.writers,
            format!("must be 1 to {} writers, the number of files", options.files),
            "each writer takes one file after the other; more files: --files",
        );
    }
    check::runs(options.runs)?;
    check::scale(
        options.scale.unwrap_or(1.0),
        0.001..=100.0,
        "",
        "1 has the post's sizes; without it the sizes fit this disk",
    )?;
    if options.file_size < FILE_SIZE_MIN {
        return too_small(
            "--file-size",
            options.file_size,
            FILE_SIZE_MIN,
            "one write is at least as large",
        );
    }
    if options.read_file_size < READ_FILE_SIZE_MIN {
        return too_small(
            "--read-file-size",
            options.read_file_size,
            READ_FILE_SIZE_MIN,
            "take more than the memory, or every read becomes a hit",
        );
    }
    if options.memory < MEMORY_MIN {
        return too_small(
            "--memory",
            options.memory,
            MEMORY_MIN,
            "the program itself needs some of it",
        );
    }
    // Of every size that makes a simulated machine, before any run; no real one takes as much.
    let pages = |bytes: Bytes| bytes.to_pages(PageSize::KIB_4);
    let none = PageCount(0);
    let typed = size_typed;
    machine::check_simulated("--memory", typed(options.memory), pages(options.memory), none)?;
    let files = Bytes(options.file_size.0.saturating_mul(options.files.into()));
    machine::check_simulated("--file-size", typed(options.file_size), none, pages(files))?;
    let read = options.read_file_size;
    machine::check_simulated("--read-file-size", typed(read), none, pages(read))?;
    Ok(())
}

/// The back ends that were named, or all, in the order of tables.
pub(super) fn backends(options: &Options) -> Result<Vec<&'static Backend>> {
    match &options.on {
        None => Ok(backend::BACKENDS.iter().collect()),
        Some(named) => check::backends(named),
    }
}

pub(super) fn phases(options: &Options) -> Vec<Phase> {
    if options.workloads.is_empty() {
        return Phase::POST.to_vec();
    }
    let named = |phase: &Phase| options.workloads.iter().any(|name| name == phase.name());
    Phase::ALL.into_iter().filter(named).collect()
}

pub(super) fn sizes(options: &Options, scale: f64) -> Sizes {
    let scaled = |size: Bytes, least: Bytes| {
        let bytes = (size.0 as f64 * scale) as u64;
        // whole writes, so that no file ends in a small one, and whole mebibytes of memory
        Bytes((bytes / least.0.min(1 << 20) * least.0.min(1 << 20)).max(least.0))
    };
    Sizes {
        scale,
        files: options.files,
        file: scaled(options.file_size, FILE_SIZE_MIN),
        read_file: scaled(options.read_file_size, READ_FILE_SIZE_MIN),
        memory: scaled(options.memory, MEMORY_MIN),
    }
}

/// The largest sizes with which all runs fit the time and the disk, and a sentence if they are not full.
pub(super) fn choose_sizes(
    options: &Options,
    rows: &[Row],
    rate: f64,
    free: Option<Bytes>,
) -> (Sizes, Option<String>) {
    let phases = phases(options);
    let seconds = |sizes: &Sizes| {
        let runs = rows.iter().flat_map(|row| {
            let rate = row.device_bytes_per_s.unwrap_or(rate).min(RATE_MAX);
            let phases = phases.iter().map(move |&phase| phase_seconds(phase, sizes, rate));
            phases.map(move |seconds| seconds + testbed_seconds(row, sizes))
        });
        sizes.read_file.0 as f64 / rate + f64::from(options.runs) * runs.sum::<f64>()
    };
    let fits = |sizes: &Sizes| {
        seconds(sizes) <= SECONDS_PLANNED_MAX && free.is_none_or(|free| sizes.needed() <= free)
    };
    let all = || SCALES.into_iter().map(|scale| sizes(options, scale));
    let smallest = || sizes(options, SCALES[SCALES.len() - 1]);
    let full = sizes(options, 1.0);
    let sizes = all().find(fits).unwrap_or_else(smallest);
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

pub(super) fn job(options: &Options, row: &Row, phase: Phase, sizes: &Sizes, rate: f64) -> Job {
    Job {
        row: row.clone(),
        workload: Workload::Axboe2016(Axboe2016 {
            phase,
            files: sizes.files,
            file_bytes: sizes.file.0,
            writers: options.writers,
            read_file_bytes: sizes.read_file.0,
            reader_alone_ms: READER_ALONE_MS,
            seed: options.seed,
        }),
        workload_name: phase.name(),
        runs: if row.is_deterministic { 1 } else { options.runs },
        seconds: phase_seconds(phase, sizes, row.device_bytes_per_s.unwrap_or(rate))
            + testbed_seconds(row, sizes),
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
    use crate::experiment::check::tests::assert_refused;
    use crate::experiment::find;

    fn options() -> Options {
        Options::default()
    }

    fn real_rows(count: usize) -> Vec<Row> {
        let options = options();
        let row = options
            .request("axboe2016", &[], "/tmp".as_ref())
            .row("kernel", "direct");
        vec![row; count]
    }

    #[test]
    fn the_page_has_runs_of_the_posts_sizes_and_no_others() {
        let is_of_page = |options: &Options| super::super::is_of_page(options, &sizes(options, 0.05));
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
        assert_refused(
            run,
            &[
                (|o| o.files = 0, "--files 0: must be 1 to 10000", 2),
                (|o| o.writers = 0, "--writers 0: must be 1 to 50", 2),
                (|o| o.writers = 51, "--writers 51: must be 1 to 50", 2),
                (|o| o.runs = 0, "--runs 0: must be 1 to 100", 2),
                (|o| o.scale = Some(0.0), "--scale 0: must be 0.001 to 100", 2),
                (
                    |o| o.file_size = Bytes(4096),
                    "--file-size 4K: the least is 64K",
                    2,
                ),
                (
                    |o| o.read_file_size = Bytes(0),
                    "--read-file-size 0: the least is 1M",
                    2,
                ),
                (|o| o.memory = Bytes(1 << 20), "--memory 1M: the least is 16M", 2),
                (
                    |o| o.workloads = vec!["reader".into()],
                    "unknown workload `reader`; allowed: writers-and-reader, reader-alone, writers-alone, thinking-reader",
                    2,
                ),
                (
                    |o| o.variants = vec!["v4".into()],
                    "unknown variant `v4`; allowed: off, v2, v3-10",
                    2,
                ),
            ],
        );
    }

    #[test]
    fn a_fast_disk_gets_full_size_and_a_slow_one_what_fits_the_time() {
        let options = options();
        let (sizes, note) = choose_sizes(&options, &real_rows(1), 2e9, None);
        assert_eq!((sizes.scale, note), (1.0, None));
        assert_eq!(sizes.written(), Bytes::from_mib(5000));
        let (sizes, note) = choose_sizes(&options, &real_rows(3), 100e6, None);
        let note = note.unwrap();
        assert!(sizes.scale < 0.2, "{sizes:?}");
        assert!(
            note.contains("takes 100 MB/s") && note.contains("--scale 1"),
            "{note}"
        );
        // even a disk that takes nothing gets something that ends
        let (sizes, _) = choose_sizes(&options, &real_rows(3), 1e5, None);
        assert_eq!(sizes.scale, 0.005);
        assert_eq!(sizes.memory, MEMORY_MIN);
    }

    #[test]
    fn a_full_disk_gets_what_it_has_room_for() {
        let (sizes, note) = choose_sizes(&options(), &real_rows(1), 2e9, Some(Bytes::from_mib(3000)));
        assert!(sizes.needed() <= Bytes::from_mib(3000), "{sizes:?}");
        assert!(note.unwrap().contains("no room"));
    }

    #[test]
    fn scaling_keeps_whole_writes() {
        let small = sizes(&options(), 0.03);
        assert_eq!(small.file.0 % FILE_SIZE_MIN.0, 0);
        assert_eq!(small.files, 50);
        assert_eq!(sizes(&options(), 1.0).file, Bytes::from_mib(100));
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
