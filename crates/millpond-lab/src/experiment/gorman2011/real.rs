//! The same loads on real files: Millpond's engine beside the kernel in a memory group of the same size.
//!
//! At `--scale 1` fs_mark writes 40 times the memory and micro 9.5 times, as the post's mapping had 4.76 GiB on 512 MB. A
//! smaller scale takes less data; memory stays as long as fs_mark's data is eight times as much, and shrinks with it below
//! that, because a load that fits into memory has no reclaim.

use super::files::Around;
use super::{EXPERIMENT, FS_MARK, MICRO, Options};
use crate::backend::engine::{MAPPING, can_map};
use crate::backend::{self, Backend, Row, RowRequest};
use crate::error::Result;
use crate::experiment::{Job, Measured, check, perform, row_name, rows_on_limited_memory};
use crate::machine;
use crate::scratch;
use crate::watch::Watch;
use crate::workload::Workload;
use crate::workload::gorman2011::{Gorman2011, Load};
use millpond::internal::quantity;
use millpond_core::units::Bytes;

/// The bytes that fs_mark writes, in multiples of memory.
const FS_MARK_MEMORIES: f64 = 40.0;
/// The bytes that micro writes: 4.76 GiB on 512 MB.
const MICRO_MEMORIES: f64 = 9.5;
/// Data that fs_mark has at least, in times of memory: else memory is less.
const MEMORIES_MIN: f64 = 8.0;
/// The scale unless one is given: 5 GiB a run of fs_mark, which the post's kind of disk takes in three quarters of a minute.
pub(super) const SCALE: f64 = 0.25;
/// The post's.
const FILE: u64 = 10 << 20;
const ROUNDS_MAX: u64 = 25;
/// The minimum number of files in a round; otherwise there are fewer rounds.
const ROUND_FILES_MIN: u64 = 10;
/// The engine takes no less.
const MEMORY_MIN: u64 = 16 << 20;
/// A guess at a device that was not measured, for the progress bar only.
const BYTES_PER_S: f64 = 300e6;

/// The amount written, and the memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) memory: Bytes,
    pub(super) fs_mark: Load,
    pub(super) micro: Load,
}

impl Sizes {
    pub(super) fn of(memory: Bytes, scale: f64, threads: u32) -> Sizes {
        let data = memory.0 as f64 * FS_MARK_MEMORIES * scale;
        let least = (data / MEMORIES_MIN) as u64;
        let budget = memory.0.min(least >> 20 << 20).max(MEMORY_MIN);
        let files = (data as u64 / FILE).max((MEMORIES_MIN as u64 * budget).div_ceil(FILE));
        let rounds = (files / ROUND_FILES_MIN).clamp(2, ROUNDS_MAX);
        let mapping = (memory.0 as f64 * MICRO_MEMORIES * scale) as u64;
        Sizes {
            memory: Bytes(budget),
            fs_mark: Load::FsMark {
                rounds: rounds as u32,
                files: files.div_ceil(rounds) as u32,
                file_bytes: FILE,
                threads,
            },
            micro: Load::Micro {
                bytes: mapping.max(2 * budget) >> 12 << 12,
            },
        }
    }

    /// A load's writes, in words.
    pub(super) fn description(&self, load: &Load) -> String {
        match load {
            Load::FsMark {
                rounds,
                files,
                file_bytes,
                threads,
            } => format!(
                "{rounds} rounds of {files} files of {}, {threads} {}",
                quantity::size(Bytes(*file_bytes)),
                if *threads == 1 { "thread" } else { "threads" }
            ),
            Load::Micro { bytes } => format!("one file of {}", quantity::size(Bytes(*bytes))),
        }
    }
}

/// What was run, and the measurements.
pub(super) struct Ran {
    pub(super) loads: Vec<(&'static str, Load)>,
    pub(super) sizes: Sizes,
    pub(super) measured: Measured,
}

/// Performs all runs on `kinds`, interleaved.
///
/// # Errors
/// A target that can't run; a run that failed; `LabError::Interrupted`. What it made on disk is removed either way.
pub(super) fn measure(options: &Options, kinds: &[&Backend], watch: &mut dyn Watch) -> Result<Ran> {
    let sizes = Sizes::of(
        options.memory,
        options.scale.unwrap_or(SCALE),
        options.writers.max(1),
    );
    let scratch = scratch::create(&options.dir)?;
    let kernel_variants = options.kernel_configurations()?;
    let request = RowRequest {
        memory: sizes.memory,
        ..options.request(EXPERIMENT.name, &kernel_variants, scratch.path())
    };
    let backend::Rows { mut rows, mut notes } = rows_on_limited_memory(kinds, &request)?;
    if let (true, Some(engine)) = (
        options.has(MICRO),
        rows.iter().find(|row| row.setup.target == "engine"),
    ) {
        match can_map() {
            Ok(()) => rows.push(mapped(engine)),
            Err(why) => notes.push(format!(
                "micro through a mapping of the engine was left out: {why}."
            )),
        }
    }
    let mut loads = Vec::new();
    for (name, load) in [(FS_MARK, &sizes.fs_mark), (MICRO, &sizes.micro)] {
        if options.has(name) {
            loads.push((name, load.clone()));
        }
    }
    let jobs: Vec<Job> = loads
        .iter()
        .flat_map(|(name, load)| {
            let able = rows
                .iter()
                .filter(|row| *name == MICRO || row.setup.variant != MAPPING);
            able.map(|row| job(options, row, name, load))
        })
        .collect();
    let bytes = |job: &Job| match &job.workload {
        Workload::Gorman2011(work) => work.bytes(),
        _ => 0,
    };
    let in_place = jobs.iter().filter(|job| job.row.is_in_place());
    let needed = in_place.map(bytes).max().unwrap_or(0);
    check::free_space(&options.dir, scratch.path(), needed)?;
    let machine = machine::describe(Some(scratch.path()));
    let results = perform(&options.program, &jobs, None, 0.0, watch, &Around)?;
    Ok(Ran {
        loads,
        sizes,
        measured: Measured {
            names: rows.iter().map(row_name).collect(),
            results,
            notes,
            machine,
        },
    })
}

/// The same row with its file in a mapping, as on the kernel; it appends pages by calls.
fn mapped(row: &Row) -> Row {
    let mut mapped = row.clone();
    mapped.label = MAPPING.into();
    mapped.setup.variant = MAPPING.into();
    mapped
}

fn job(options: &Options, row: &Row, name: &'static str, load: &Load) -> Job {
    let work = Gorman2011 {
        load: load.clone(),
        seed: options.seed,
    };
    let rate = row.device_bytes_per_s.unwrap_or(BYTES_PER_S);
    let seconds = 1.0 + work.bytes() as f64 / rate;
    Job {
        row: row.clone(),
        workload: Workload::Gorman2011(work),
        workload_name: name,
        runs: options.runs,
        seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fs_mark(sizes: &Sizes) -> (u32, u32) {
        match sizes.fs_mark {
            Load::FsMark { rounds, files, .. } => (rounds, files),
            Load::Micro { .. } => panic!(),
        }
    }

    #[test]
    fn memory_stays_while_the_data_is_eight_times_as_much_and_shrinks_below_that() {
        let of = |scale| Sizes::of(Bytes::from_mib(512), scale, 1);
        let full = of(1.0);
        assert_eq!(full.memory, Bytes::from_mib(512));
        assert_eq!(fs_mark(&full), (25, 82));
        assert_eq!(full.micro, Load::Micro { bytes: 19 << 28 });
        let usual = of(SCALE);
        assert_eq!(usual.memory, Bytes::from_mib(512));
        assert_eq!(fs_mark(&usual), (25, 21));
        let small = of(0.02);
        assert_eq!(small.memory, Bytes::from_mib(51));
        assert_eq!(fs_mark(&small), (4, 11));
        let least = of(0.001);
        assert_eq!(least.memory, Bytes::from_mib(16));
        assert_eq!(fs_mark(&least), (2, 7));
        assert_eq!(least.micro, Load::Micro { bytes: 32 << 20 });
    }
}
