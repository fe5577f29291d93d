//! Hills 2015: a limit on dirty pages was touched, and writing became thirty times slower until a reboot.
//!
//! ```text
//!   post-numbers   the post's machine: each figure that it prints, computed again
//!   post-dd        dd on it in virtual time, while dirty_ratio goes from 20 to 20, to 21, to 20
//!   limits         one writer under hard limits from 1 MiB to all memory: the rate, and the longest write
//!   storm          the same while limits are touched all the time, and what is left behind; beside it without (calm)
//!   four-writers   four of them: how far apart they are (in virtual time only)
//! ```
//!
//! On the kernel `storm` changes the machine's own `vm.dirty_*`, so the kernel takes part only if it is named; they are put
//! back however the run ends.

mod answer;
mod dd;
mod numbers;
mod report;

pub use super::Options;
use super::{Experiment, Job, OwnFiles, moving, perform};
use crate::backend::{self, Row};
use crate::error::{LabError, Result};
use crate::experiment::check;
use crate::machine;
use crate::report::Report;
use crate::scratch;
use crate::setup::Device;
use crate::testbed::Tuned;
use crate::watch::Watch;
use crate::workload::Workload;
use crate::workload::hills2015::{Hills2015, WRITE};
use millpond::internal::ScratchDir;
use millpond::internal::quantity::size_typed;
use millpond_core::units::{Bytes, PageCount, PageSize};
use std::path::Path;

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hills2015",
    post: "Mark Hills, \"Write throughput impaired by touching dirty_ratio\", June 2015",
    numbers_of_the_post: "The post's numbers are in two of the tables above, beside ours: \"The post's machine in numbers\" and \"dd on the post's machine\"; `--workload post-numbers,post-dd` runs these alone.",
    tables: &[],
    shows: "limits on dirty pages that are low, or constantly touched: the writer's rate and its longest wait",
    variants: &["bug404", "fixed", "millpond"],
    workloads: &[NUMBERS, DD, LIMITS, STORM, FOUR],
    run,
};

pub(super) const NUMBERS: &str = "post-numbers";
pub(super) const DD: &str = "post-dd";
const LIMITS: &str = "limits";
const STORM: &str = "storm";
const FOUR: &str = "four-writers";

/// A hard limit that is tried.
struct Limit {
    /// In bytes; `None`: the default.
    hard: Option<u64>,
    workload: &'static str,
    shown: &'static str,
}

const fn limit(hard: u64, workload: &'static str, shown: &'static str) -> Limit {
    let hard = Some(hard);
    Limit {
        hard,
        workload,
        shown,
    }
}

const OWN: &str = "limits-own";
const ALL: u64 = 1 << 50;
const HARD: [Limit; 8] = [
    limit(1 << 20, "limits-1M", "1 MiB"),
    limit(2 << 20, "limits-2M", "2 MiB"),
    limit(4 << 20, "limits-4M", "4 MiB"),
    limit(16 << 20, "limits-16M", "16 MiB"),
    limit(64 << 20, "limits-64M", "64 MiB"),
    limit(200 << 20, "limits-200M", "200 MiB"),
    limit(ALL, "limits-all", "all"),
    Limit {
        hard: None,
        workload: OWN,
        shown: "its own",
    },
];
/// Of four writers.
const FOUR_HARD: [Limit; 5] = [
    limit(1 << 20, "four-1M", "1 MiB"),
    limit(4 << 20, "four-4M", "4 MiB"),
    limit(16 << 20, "four-16M", "16 MiB"),
    limit(64 << 20, "four-64M", "64 MiB"),
    Limit {
        hard: None,
        workload: "four-own",
        shown: "its own",
    },
];
const STORM_RUN: &str = "storm";
const CALM_RUN: &str = "calm";
/// The interval between touches of the limits, in microseconds: thousands in a run. The kernel's sysctl less often.
const STORM_US: u64 = 1_000;
const STORM_US_KERNEL: u64 = 100_000;

/// The scale on real devices, unless one is given.
const SCALE_REAL: f64 = 0.25;
/// The file that is written.
const FILE: u64 = 1 << 30;

fn check(options: &Options) -> Result<()> {
    check::names("workload", &options.workloads, EXPERIMENT.workloads)?;
    check::runs(options.runs)?;
    check::scale(options.scale.unwrap_or(1.0), 0.001..=100.0, "", "1 writes 1 GiB")?;
    if options.memory < Bytes::from_mib(16) {
        return check::bad(
            "--memory",
            size_typed(options.memory),
            "the least is 16M",
            "the program itself needs some of it",
        );
    }
    let frames = options.memory.to_pages(PageSize::KIB_4);
    machine::check_simulated("--memory", size_typed(options.memory), frames, PageCount(0))?;
    for name in options.on.iter().flatten() {
        backend::find(name)?;
        if name == "kernel" && options.device != Device::Real {
            return check::bad(
                "--device",
                options.device,
                "this experiment runs the kernel on real devices only",
                "use --device real, or leave the kernel out of --on",
            );
        }
    }
    Ok(())
}

fn takes(options: &Options, target: &str) -> bool {
    match &options.on {
        Some(names) => names.iter().any(|name| name == target),
        None => target != "kernel",
    }
}

fn row(options: &Options, target: &str, dir: &Path) -> Row {
    let is_sim = target == "sim";
    let mut request = options.request(EXPERIMENT.name, &[], dir);
    if is_sim {
        request.device = Device::Modelled(options.device.model_or_hdd());
    }
    let (label, variant) = match target {
        "kernel" => ("kernel", "direct"),
        // The default in everything.
        _ => ("millpond", "goal"),
    };
    let mut row = request.row(target, label);
    row.setup.variant = variant.into();
    row.is_deterministic = is_sim;
    row
}

fn bytes(options: &Options, row: &Row) -> f64 {
    let default = match row.setup.device {
        Device::Real => SCALE_REAL,
        Device::Modelled(_) => 1.0,
    };
    FILE as f64 * options.scale.unwrap_or(default)
}

fn work(options: &Options, row: &Row) -> Hills2015 {
    let bytes = bytes(options, row) as u64;
    Hills2015 {
        hard: None,
        storm_us: None,
        writers: 1,
        bytes: (bytes / WRITE * WRITE).max(4 * WRITE),
        seed: options.seed,
    }
}

/// The work of `row`.
fn jobs(options: &Options, row: &Row) -> Vec<Job> {
    let job = |work: Hills2015, name| Job {
        row: row.clone(),
        workload: Workload::Hills2015(work),
        workload_name: name,
        runs: if row.is_deterministic { 1 } else { options.runs },
        seconds: if row.is_deterministic {
            0.5
        } else {
            bytes(options, row) / 150e6
        },
    };
    let under = |limit: &Limit, writers| {
        let work = Hills2015 {
            hard: limit.hard,
            writers,
            ..work(options, row)
        };
        job(work, limit.workload)
    };
    let (mut jobs, is_kernel) = (Vec::new(), row.setup.target == "kernel");
    if options.has(LIMITS) {
        let limits = HARD.iter().filter(|limit| !is_kernel || limit.hard != Some(ALL));
        jobs.extend(limits.map(|limit| under(limit, 1)));
    }
    if options.has(STORM) {
        let every = if is_kernel { STORM_US_KERNEL } else { STORM_US };
        for (storm_us, name) in [(None, CALM_RUN), (Some(every), STORM_RUN)] {
            let work = work(options, row);
            jobs.push(job(Hills2015 { storm_us, ..work }, name));
        }
    }
    if options.has(FOUR) && row.is_deterministic {
        jobs.extend(FOUR_HARD.iter().map(|limit| under(limit, 4)));
    }
    jobs
}

/// Runs the experiment and returns its report.
///
/// # Errors
/// Options out of range, before anything is done; a target that was named and cannot run; a run that failed;
/// [`LabError::Interrupted`]. What it made on disk is removed, and the kernel's limits are put back, either way.
pub fn run(options: &Options, watch: &mut dyn Watch) -> Result<Report> {
    check(options)?;
    let runs_here =
        |target: &str| takes(options, target) && [LIMITS, STORM].iter().any(|part| options.has(part));
    let has_files = runs_here("engine") || runs_here("kernel");
    let scratch = has_files.then(|| scratch::create(&options.dir)).transpose()?;
    let dir = scratch.as_ref().map_or(options.dir.as_path(), ScratchDir::path);
    // Dropped last, when no process sets limits.
    let saved = match runs_here("kernel") {
        true => Some(Tuned::keep_dirty_limits(&options.program).map_err(|error| LabError::Unavailable {
            target: "kernel".into(),
            why: format!("its limits on dirty pages can't be set ({error}); run as root, outside a container that forbids it"),
        })?),
        false => None,
    };
    let rows: Vec<Row> = ["kernel", "engine", "sim"]
        .into_iter()
        .filter(|target| takes(options, target))
        .map(|target| row(options, target, dir))
        .collect();
    let jobs: Vec<Job> = rows.iter().flat_map(|row| jobs(options, row)).collect();
    let machine = machine::describe(scratch.as_ref().map(ScratchDir::path));
    let results = perform(&options.program, &jobs, None, 0.0, watch, &OwnFiles)?;
    drop(saved);
    drop(scratch);
    let mut report = report::report(options, &rows, &results);
    if options.has(DD) {
        let run = moving::Run {
            steps: &[],
            seed: options.seed,
            scale: 1.0,
            at: Some(millpond_worlds::worlds::hills2015::LENGTH),
        };
        report.notes.extend(moving::note(EXPERIMENT.name, &run));
    }
    report.command = options.command.clone();
    report.machine = machine;
    if options.scale.is_none() && rows.iter().any(|row| row.setup.device == Device::Real) {
        let note = "On a real device the file has 256 MiB; --scale 1 takes 1 GiB.";
        report.notes.push(note.into());
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::lookup;

    fn options(workloads: &[&str]) -> Options {
        Options {
            on: Some(vec!["sim".into()]),
            dir: "/tmp".into(),
            memory: Bytes::from_mib(64),
            runs: 1,
            scale: Some(0.125),
            workloads: workloads.iter().map(|&name| name.into()).collect(),
            ..Options::default()
        }
    }

    #[test]
    fn under_every_limit_a_writer_has_the_disks_rate_and_no_write_waits_for_long() {
        let report = run(&options(&[LIMITS]), &mut ()).unwrap();
        let row = super::super::row_name(&super::row(&options(&[]), "sim", Path::new("/tmp")));
        for Limit { workload: name, .. } in HARD {
            let of = |metric| lookup(&report.metrics, &row, name, metric).unwrap().value;
            // The modelled disk takes 120 MB/s.
            assert!(
                of("writers_mb_per_s") >= 0.95 * 120.0,
                "{name}: {} MB/s",
                of("writers_mb_per_s")
            );
            assert!(
                of("write_latency_max_us") <= 100_000.0,
                "{name}: {} us",
                of("write_latency_max_us")
            );
        }
    }

    #[test]
    fn a_storm_of_settings_costs_nothing_and_leaves_nothing_behind() {
        let report = run(&options(&[STORM]), &mut ()).unwrap();
        let row = super::super::row_name(&super::row(&options(&[]), "sim", Path::new("/tmp")));
        let of = |workload, metric| lookup(&report.metrics, &row, workload, metric).unwrap().value;
        let (calm, storm) = (
            of(CALM_RUN, "writers_mb_per_s"),
            of(STORM_RUN, "writers_mb_per_s"),
        );
        assert!((storm / calm - 1.0).abs() < 0.03, "{calm} {storm}");
        assert!(of(STORM_RUN, "settings_touched") > 1000.0);
        assert_eq!(of(STORM_RUN, "limits_left_behind"), 0.0);
    }

    #[test]
    fn four_writers_are_within_a_tenth_of_each_other() {
        let report = run(
            &Options {
                scale: Some(0.5),
                ..options(&[FOUR])
            },
            &mut (),
        )
        .unwrap();
        let row = super::super::row_name(&super::row(&options(&[]), "sim", Path::new("/tmp")));
        for name in ["four-1M", "four-4M", "four-16M", "four-own"] {
            let apart = lookup(&report.metrics, &row, name, "writers_apart_percent")
                .unwrap()
                .value;
            assert!(apart <= 10.0, "{name}: {apart} %");
        }
    }

    #[test]
    fn bad_values_are_named_with_what_is_allowed() {
        type Change = fn(&mut Options);
        let table: [(Change, &str); 4] = [
            (|o| o.runs = 0, "--runs 0: must be 1 to 100"),
            (|o| o.scale = Some(0.0), "--scale 0: must be 0.001 to 100"),
            (
                |o| o.workloads = vec!["dd".into()],
                "unknown workload `dd`; allowed: post-numbers, post-dd",
            ),
            (|o| o.on = Some(vec!["kernal".into()]), "unknown target `kernal`"),
        ];
        for (change, expected) in table {
            let mut options = options(&[]);
            change(&mut options);
            let error = run(&options, &mut ()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}
