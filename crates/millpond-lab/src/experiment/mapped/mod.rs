//! A file four times as large as memory, at addresses: the kernel's mmap beside Millpond's mapping and its calls.
//!
//! ```text
//!   kernel random         mmap in a memory group, MADV_RANDOM: no read-ahead
//!   kernel normal-128K    the same not advised, with read-ahead of 128 KiB
//!   kernel normal         with what the disk has it set to (only if named)
//!   engine mapping        File::map, faults served by handlers: the default
//!   engine in-thread      the same, by the thread that touches
//!   engine page           page and page_mut, in a cache without mappings
//! ```
//!
//! The file is made once. What a run leaves of it in the page cache is dropped before the next.

mod answer;
mod files;
mod options;
mod report;
mod rows;

pub use super::Options;
use super::{Experiment, Job, check, perform, row_name};
use crate::error::Result;
use crate::machine;
use crate::report::Report;
use crate::scratch;
use crate::watch::Watch;
use crate::workload::Workload;
use crate::workload::mapped::{IN_THREAD, Load, MAPPING, Mapped, NORMAL, NORMAL_128K, PAGE_CALLS, RANDOM};
use millpond_core::units::Bytes;

/// The loads by name, in the order of tables.
const LOADS: [(&str, Load); 13] = [
    ("uniform-1", Load::Uniform(1)),
    ("uniform-8", Load::Uniform(8)),
    ("zipf-1", Load::Zipf(1)),
    ("zipf-8", Load::Zipf(8)),
    ("change-1", Load::Change(1)),
    ("change-8", Load::Change(8)),
    ("records", Load::Records),
    ("sequential", Load::Sequential),
    ("in-memory", Load::InMemory),
    (HOT_SET, Load::HotBesideScan),
    (WRITERS, Load::ReaderBesideWriters),
    ("vectors", Load::Vectors),
    ("weights", Load::Weights),
];
const HOT_SET: &str = "hot-set";
const WRITERS: &str = "writers";

const WORKLOADS: [&str; LOADS.len()] = {
    let mut names = [""; LOADS.len()];
    let mut n = 0;
    while n < names.len() {
        names[n] = LOADS[n].0;
        n += 1;
    }
    names
};

/// The file, in times of memory.
const MEMORIES: u64 = 4;
/// The hot set's memory is a part of the others', as its scan takes all the time that it needs.
const HOT_SET_PART: u64 = 4;

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mapped",
    post: "none: mmap as used by programs whose data is larger than memory",
    numbers_of_the_post: "This experiment comes from no post.",
    tables: &[],
    shows: "a file four times as large as memory is accessed through a mapping: what an access takes",
    variants: &[RANDOM, NORMAL_128K, NORMAL, MAPPING, IN_THREAD, PAGE_CALLS],
    workloads: &WORKLOADS,
    run,
};

/// Runs the experiment and returns its report.
///
/// # Errors
/// Options out of range, before anything is done; a target that can't run it; a run that failed;
/// [`Interrupted`](crate::LabError::Interrupted). What it made on disk is removed either way.
pub fn run(options: &Options, watch: &mut dyn Watch) -> Result<Report> {
    let plan = options::plan(options)?;
    let scratch = scratch::create(&options.dir)?;
    let rows = rows::rows(options, &plan, scratch.path())?;
    check::free_space(
        &options.dir,
        scratch.path(),
        plan.file_bytes() + 2 * plan.memory.0,
    )?;
    files::make(scratch.path(), plan.file_bytes(), watch)?;
    let mut jobs = Vec::new();
    for (name, load) in &plan.loads {
        let suiting = rows.rows.iter().filter(|row| suits(&row.label, *load));
        jobs.extend(suiting.map(|row| {
            let mut row = row.clone();
            row.setup.memory = plan.memory_of(*load);
            Job {
                row,
                workload: Workload::Mapped(Mapped {
                    load: *load,
                    file_bytes: MEMORIES * plan.memory_of(*load).0,
                    measured_ms: plan.measured_ms,
                    seed: options.seed,
                }),
                workload_name: name,
                runs: options.runs,
                seconds: 2.0 * plan.measured_ms as f64 / 1e3 + 1.0,
            }
        }));
    }
    let machine = machine::describe(Some(scratch.path()));
    let results = perform(&options.program, &jobs, None, 0.0, watch, &files::Around)?;
    let names: Vec<_> = rows.rows.iter().map(row_name).collect();
    let mut report = report::report(&plan, &names, &results);
    report.notes.extend(rows.notes);
    report.machine = machine;
    report.command = options.command.clone();
    Ok(report)
}

/// No program has reason to choose a scan without read-ahead, and it takes minutes.
fn suits(row: &str, load: Load) -> bool {
    load != Load::HotBesideScan || row != RANDOM
}

/// The plan of the runs.
#[derive(Clone, Debug)]
struct Plan {
    memory: Bytes,
    measured_ms: u64,
    loads: Vec<(&'static str, Load)>,
}

impl Plan {
    fn file_bytes(&self) -> u64 {
        MEMORIES * self.memory.0
    }

    fn memory_of(&self, load: Load) -> Bytes {
        match load {
            Load::HotBesideScan => Bytes((self.memory.0 / HOT_SET_PART).max(options::MEMORY_MIN.0)),
            _ => self.memory,
        }
    }
}
