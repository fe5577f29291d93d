//! Experiments: what each post measured, and how its runs are made here.
//!
//! An experiment plans rows (back ends) and workloads, has them performed and turns the
//! outcomes into a report. Runs are interleaved: the first run of every row and workload, then the second
//! of every one, each time starting with another row. What the machine does besides, how full the disk is
//! and how warm it ran then fall on all rows alike.

pub mod axboe2016;
mod check;
pub mod dillon2000;
mod files;
pub mod gorman2011;
pub mod hills2015;
pub mod kim2020;
pub mod mapped;
mod moving;
mod options;
mod parallel;
pub mod policies;

pub use options::Options;

use crate::backend::{self, Backend, Driver, Row, RowRequest};
use crate::error::{LabError, Result};
use crate::memory_group::MemoryGroup;
use crate::outcome::{Outcome, Setting};
use crate::program::Program;
use crate::report::{Metric, Report, RowName, Runs};
use crate::setup::{Device, Setup};
use crate::testbed::{self, Testbed, Tuned};
use crate::watch::{Proceed, Watch};
use crate::worker::{self, Request};
use crate::workload::{Progress, Workload};
use millpond_core::units::Bytes;
use std::path::Path;
use std::time::{Duration, Instant};

/// Every experiment of this build.
pub const EXPERIMENTS: &[Experiment] = &[
    gorman2011::EXPERIMENT,
    axboe2016::EXPERIMENT,
    dillon2000::EXPERIMENT,
    hills2015::EXPERIMENT,
    kim2020::EXPERIMENT,
    policies::EXPERIMENT,
    mapped::EXPERIMENT,
];

/// An experiment, as `lab list` shows it.
pub struct Experiment {
    /// The name that `lab run` takes.
    pub name: &'static str,
    /// The post.
    pub post: &'static str,
    /// The location of the post's own numbers, if `--table post` has no table for a run: a sentence.
    pub numbers_of_the_post: &'static str,
    /// What `--table` takes besides `post`.
    pub tables: &'static [&'static str],
    /// Its subject.
    pub shows: &'static str,
    /// The variants of the simulator and the engine.
    pub variants: &'static [&'static str],
    /// The workloads as metrics name them.
    pub workloads: &'static [&'static str],
    /// Runs it and returns its report.
    pub run: fn(&Options, &mut dyn Watch) -> Result<Report>,
}

/// The experiment of that name.
///
/// # Errors
/// [`LabError::UnknownName`].
pub fn find(name: &str) -> Result<&'static Experiment> {
    let found = EXPERIMENTS.iter().find(|e| e.name == name);
    found.ok_or_else(|| LabError::UnknownName {
        what: "experiment",
        value: name.into(),
        allowed: EXPERIMENTS.iter().map(|e| e.name).collect::<Vec<_>>().join(", "),
    })
}

/// What was measured on real files or memory.
struct Measured {
    names: Vec<RowName>,
    results: Vec<Runs>,
    /// Sentences for the report.
    notes: Vec<String>,
    machine: Vec<Setting>,
}

impl Measured {
    /// Adds to a report all but tables and answers.
    fn add_to(&self, report: &mut Report, metrics: Vec<Metric>) {
        report.notes.extend_from_slice(&self.notes);
        report.add_rows(&self.names, &self.results);
        report.machine.extend_from_slice(&self.machine);
        report.metrics.extend(metrics);
    }
}

/// What an experiment does with its files around a run.
trait Files {
    /// Bytes that a run's files have at most.
    fn bytes_max(&self, _: &Workload) -> Bytes {
        Bytes(0)
    }

    /// Makes what a run needs in the empty folder of a testbed.
    fn prepare(&self, _: &Path, _: &Workload, _: &mut dyn Watch) -> Result<()> {
        Ok(())
    }

    /// Checks what a run on real files has left, and leaves what the next one needs.
    fn settle(&self, _: &Path, _: &Workload) -> Result<()> {
        Ok(())
    }
}

/// For an experiment whose runs make and remove all of their files themselves.
struct OwnFiles;

impl Files for OwnFiles {}

/// A run's own progress, as a watch shows it.
struct WatchOfRun<'a>(&'a mut dyn FnMut(Progress) -> Proceed);

impl Watch for WatchOfRun<'_> {
    fn at(&mut self, _share: f64, step: &str, detail: &str) -> Proceed {
        (self.0)(Progress {
            doing: step.into(),
            detail: detail.into(),
            ..Progress::default()
        })
    }
}

impl WatchOfRun<'_> {
    fn go_on(&mut self, step: &str) -> Result<()> {
        match self.at(0.0, step, "") {
            Proceed::Yes => Ok(()),
            Proceed::Stop => Err(LabError::Interrupted),
        }
    }
}

/// A row with its work.
struct Job {
    row: Row,
    /// The workload, and its name in metrics.
    workload: Workload,
    workload_name: &'static str,
    /// The number of runs.
    runs: u32,
    /// About how long one run takes; for the progress bar.
    seconds: f64,
}

/// The rows that these targets contribute. `by_name` tells whether the user has named the targets: what one of them
/// cannot do is then an error, and otherwise a note.
fn rows(kinds: &[&Backend], by_name: bool, request: &RowRequest<'_>) -> Result<backend::Rows> {
    let mut all = backend::Rows::default();
    for kind in kinds {
        match (kind.rows)(request) {
            Ok(rows) => {
                all.rows.extend(rows.rows);
                all.notes.extend(rows.notes);
            }
            Err(error) if by_name => return Err(error),
            Err(error) => all
                .notes
                .push(format!("Target `{}` was left out: {error}.", kind.name)),
        }
    }
    Ok(all)
}

/// The rows of `kinds`, which were all named, with memory that is limited for each: with all of the machine's the kernel has
/// nothing to reclaim.
///
/// # Errors
/// [`LabError::Unavailable`] of a back end that has no such row.
fn rows_on_limited_memory(kinds: &[&Backend], request: &RowRequest<'_>) -> Result<backend::Rows> {
    let mut all = rows(kinds, true, request)?;
    all.rows
        .retain(|row| row.setup.target != "kernel" || row.in_memory_group);
    let has_row = |kind: &&&Backend| all.rows.iter().any(|row| row.setup.target == kind.name);
    if let Some(kind) = kinds.iter().find(|kind| !has_row(kind)) {
        return Err(LabError::Unavailable {
            target: kind.name.into(),
            why: all.notes.join(" "),
        });
    }
    all.notes.retain(|note| !note.starts_with("The kernel within"));
    Ok(all)
}

/// Performs all runs of all jobs, interleaved. Once the clock shows that another round would end after `until`, there is none; the first one always is.
fn perform(
    program: &Program,
    jobs: &[Job],
    until: Option<Instant>,
    from_share: f64,
    watch: &mut dyn Watch,
    files: &dyn Files,
) -> Result<Vec<Runs>> {
    let mut results: Vec<Runs> = jobs.iter().map(Job::no_runs).collect();
    let runs_max = jobs.iter().map(|job| job.runs).max().unwrap_or(0);
    let seconds: f64 = jobs.iter().map(|job| job.seconds * f64::from(job.runs)).sum();
    let mut behind = 0.0;
    let mut round_longest = Duration::ZERO;
    for run in 0..runs_max {
        let round_began = Instant::now();
        if run > 0 && until.is_some_and(|until| round_began + round_longest > until) {
            break;
        }
        for n in 0..jobs.len() {
            // each run starts with another row
            let n = (n + run as usize) % jobs.len();
            let job = &jobs[n];
            if run >= job.runs {
                continue;
            }
            let step = format!("run {} of {runs_max}: {}", run + 1, job.title());
            let mut progress = |progress: Progress| {
                let behind = behind + job.seconds * progress.share;
                let share = from_share + (1.0 - from_share) * behind / seconds;
                watch.at(share, &step, &format!("{}: {}", progress.doing, progress.detail))
            };
            let workload = job.workload.with_run(run);
            results[n]
                .outcomes
                .push(job.perform(program, &workload, files, &mut progress)?);
            behind += job.seconds;
        }
        round_longest = round_longest.max(round_began.elapsed());
    }
    Ok(results)
}

impl Job {
    fn title(&self) -> String {
        format!("{}, {}", self.row.label, self.workload_name)
    }

    fn no_runs(&self) -> Runs {
        Runs {
            row: row_name(&self.row),
            workload: self.workload_name.into(),
            outcomes: Vec::new(),
        }
    }

    fn perform(
        &self,
        program: &Program,
        workload: &Workload,
        files: &dyn Files,
        progress: &mut dyn FnMut(Progress) -> Proceed,
    ) -> Result<Outcome> {
        let mut setup = self.row.setup.clone();
        if let Driver::InProcess(run) = backend::find(&setup.target)?.driver {
            return run(&setup, workload, progress);
        }
        let (Some(configuration), Device::Modelled(model)) = (self.row.testbed, setup.device) else {
            // for no longer than the run: all of the machine has these settings
            let tuned = match self.row.testbed {
                Some(configuration) => Tuned::set_up(program, &setup.dir, configuration)?,
                None => None,
            };
            let outcome = self.perform_on_files(program, setup, workload, progress)?;
            tuned.map_or(Ok(()), Tuned::take_down)?;
            files.settle(&self.row.setup.dir, workload)?;
            return Ok(outcome);
        };
        let plan = testbed::Plan {
            model,
            configuration,
            files_bytes: files.bytes_max(workload),
            memory: setup.memory,
        };
        WatchOfRun(progress).go_on("setting up the modelled disk")?;
        let testbed = Testbed::set_up(program, &plan)?;
        setup.dir = testbed.files().to_owned();
        files.prepare(&setup.dir, workload, &mut WatchOfRun(progress))?;
        testbed.begin()?;
        let mut outcome = self.perform_on_files(program, setup, workload, progress)?;
        testbed.end(&mut outcome)?;
        files.settle(testbed.files(), workload)?;
        testbed.take_down()?;
        Ok(outcome)
    }

    fn perform_on_files(
        &self,
        program: &Program,
        setup: Setup,
        workload: &Workload,
        progress: &mut dyn FnMut(Progress) -> Proceed,
    ) -> Result<Outcome> {
        let group = self
            .row
            .in_memory_group
            .then(|| {
                MemoryGroup::create(setup.memory).map_err(|why| LabError::Unavailable {
                    target: self.row.label.clone(),
                    why,
                })
            })
            .transpose()?;
        let request = Request {
            enter: group.as_ref().map(MemoryGroup::entry),
            setup,
            workload: workload.clone(),
        };
        let mut outcome = worker::run(program, &request, &self.title(), progress)?;
        if let Some(group) = group {
            if let Some(mib) = group.peak_mib() {
                outcome.push("memory_group_peak_mib", "MiB", mib);
            }
            outcome
                .settings
                .push(Setting::new("memory group", group.version()));
        }
        Ok(outcome)
    }
}

fn row_name(row: &Row) -> RowName {
    RowName {
        target: row.setup.target.clone(),
        device: row.setup.device.to_string(),
        variant: row.label.clone(),
    }
}
