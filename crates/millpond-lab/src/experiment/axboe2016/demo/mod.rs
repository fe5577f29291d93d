//! `millpond demo`: the post's writers and reader, on the kernel's page cache and on Millpond, several short rounds in
//! turn.
//!
//! ```text
//!   how fast is the disk? ─► sizes ─► the read file ─► kernel, Millpond ─► Millpond, kernel ─► … ─► verdict
//!                              ▲                             │
//!                              └── once, if the first round was much longer or shorter than it should be
//! ```
//!
//! Runs of one side differ from each other, so one long run of each would say little; each round begins with the other
//! side. The workload, the runs' processes, the checks of what was written and the removal of it are the experiment's.
//! Measurements on a busy machine may show nothing; so the end is the post's load in virtual time (`modelled`).

mod answer;
mod modelled;
mod picture;
mod plan;

pub use answer::{Figures, median_of, tails};
pub use modelled::Modelled;
pub use plan::Plan;

use super::options::{self, Sizes};
use super::{EXPERIMENT, files, report};
use crate::backend::{Row, RowRequest, engine, kernel};
use crate::error::{LabError, Result};
use crate::experiment::{Job, row_name};
use crate::machine;
use crate::measure::heat::Counts;
use crate::measure::others::Others;
use crate::measure::process;
use crate::memory_group;
use crate::outcome::{Outcome, Setting};
use crate::program::Program;
use crate::report::verdict::Verdict;
use crate::report::{Report, Runs};
use crate::scratch;
use crate::setup::Device;
use crate::watch::Proceed;
use crate::watch::Watch;
use crate::workload::axboe2016::{Axboe2016, Phase};
use crate::workload::{Progress, Workload};
use millpond::internal::quantity;
use millpond_core::units::Bytes;
use plan::Clock;
use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The user's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where files are made, and removed again.
    pub dir: PathBuf,
    /// About how long all of it takes: 6 to 600.
    pub seconds: u32,
    /// The seed of everything random.
    pub seed: u64,
    /// Starts a run's process.
    pub program: Program,
    /// The command line, for the report.
    pub command: String,
}

/// An upper bound of what Millpond's process has besides the budget; `docs/experiments/axboe2016.md` has 10 MiB.
const PROGRAM_MEMORY: Bytes = Bytes::from_mib(13);

/// One of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The kernel's page cache.
    Kernel,
    /// Millpond's.
    Millpond,
}

impl Side {
    /// Both, in the order in which they are shown.
    pub const BOTH: [Side; 2] = [Side::Kernel, Side::Millpond];

    /// As in a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Kernel => "the kernel",
            Side::Millpond => "Millpond",
        }
    }
}

/// A report on the progress.
#[derive(Debug)]
pub enum Told {
    /// The machine is busy: what others take of it. Told before anything is written.
    Busy(Others),
    /// It is not begun yet: what is done, and how far that has come.
    Preparing(String, String),
    /// The plan. Reported again if it begins anew, with other sizes.
    Planned(Box<Plan>),
    /// The progress of a run of this side, in this round, from 0. The same progress may be reported several times.
    Running(u32, Side, Progress),
    /// It is over.
    Ended(Side, Round),
}

/// One run of one side.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The inputs of the verdict.
    pub figures: Figures,
    /// The reads in each tenth of a second.
    pub reads: Vec<Counts>,
}

impl Round {
    fn of(outcome: &Outcome) -> Round {
        let value = |metric: &str| outcome.value(metric).unwrap_or_default();
        Round {
            figures: Figures {
                reads: value("reader_misses"),
                reads_per_s: value("reader_reads_per_s"),
                p50_us: value("reader_latency_p50_us"),
                p99_us: value("reader_latency_p99_us"),
                p999_us: value("reader_latency_p999_us"),
                slowest_us: value("reader_latency_max_us"),
                writers_s: value("writers_seconds"),
            },
            reads: outcome.reads.clone(),
        }
    }
}

/// The result.
pub struct Demo {
    /// The plan that was followed.
    pub plan: Plan,
    /// Each side's rounds, in the order of [`Side::BOTH`].
    pub rounds: [Vec<Round>; 2],
    /// The answer.
    pub verdict: Verdict,
    /// The post's load on a modelled disk.
    pub modelled: Modelled,
    /// Sentences of what to beware of.
    pub notes: Vec<String>,
    /// The page and its numbers.
    pub report: Report,
    /// The picture, a drawing of its own.
    pub svg: String,
}

/// Runs it.
///
/// # Errors
/// As of [`super::run`]; files in memory, where no disk takes part. Its files are removed either way.
pub fn run(options: &Options, tell: &mut dyn FnMut(Told) -> Proceed) -> Result<Demo> {
    let clock = Clock::start(options.seconds)?;
    if machine::is_in_memory(&options.dir) {
        return Err(LabError::BadValue {
            option: "--dir",
            value: options.dir.display().to_string(),
            allowed: "files are in memory there, no disk takes part, and nothing can be shown".into(),
            instead: "give a directory on a disk".into(),
        });
    }
    let others = Others::look(&options.dir);
    if let Some(others) = others.filter(Others::is_busy) {
        go_on(tell(Told::Busy(others)))?;
    }
    let scratch = scratch::create(&options.dir)?;
    let dir = scratch.path();
    let machine = machine::describe(Some(dir));
    let free = scratch::free_bytes(dir);
    plan::check_space(&options.dir, free)?;
    let mut notes = Vec::new();
    let rate = files::write_rate(dir, &mut Preparing(tell))?;
    let mut plan = plan::plan(&options.dir, &clock, rate, free);
    files::make_read_file(dir, plan.read_file.0, 1.0, &mut Preparing(tell))?;
    let rows = rows(options, dir, &mut plan, &mut notes)?;
    go_on(tell(Told::Planned(Box::new(plan.clone()))))?;

    let mut outcomes = Vec::new();
    let (mut done, mut longest) = (0, 0.0_f64);
    while clock.has_time_for(done, longest) {
        let began = Instant::now();
        let round = perform(options, &plan, &rows, done, tell)?;
        let took = began.elapsed().as_secs_f64();
        if done == 0 && plan.fit(&clock, took) {
            go_on(tell(Told::Planned(Box::new(plan.clone()))))?;
            notes.push(format!(
                "A first round took {took:.0} s and does not count; the others are {}, with files of {}.",
                if plan.resized() < 1.0 { "shorter" } else { "longer" },
                quantity::size(plan.file)
            ));
            longest = took * plan.resized();
            continue;
        }
        longest = longest.max(took);
        done += 1;
        outcomes.push(round);
    }
    let after = Others::look(&options.dir);
    let others = others.into_iter().chain(after).reduce(Others::or_busier);
    notes.extend(others.and_then(Others::note));
    drop(scratch);
    let (modelled, modelled_rows, modelled_runs) =
        modelled::run(&options.program, options.seed, &mut |progress: Progress| {
            tell(Told::Preparing(
                "the post's load in virtual time, on a modelled disk".into(),
                progress.detail,
            ))
        })?;

    let mut results: Vec<Runs> = Side::BOTH
        .iter()
        .map(|&side| Runs {
            row: row_name(&rows[side as usize]),
            workload: Phase::WritersAndReader.name().into(),
            outcomes: outcomes
                .iter()
                .map(|round| round[side as usize].clone())
                .collect(),
        })
        .collect();
    let rounds = Side::BOTH.map(|side| results[side as usize].outcomes.iter().map(Round::of).collect());
    results.extend(modelled_runs);
    let sizes = [&plan.sizes(), &options::post_sizes()];
    let mut demo = Demo {
        verdict: answer::verdict(&plan, &rounds, others),
        report: report::report(&rows, &modelled_rows, &results, sizes, None),
        svg: String::new(),
        plan,
        rounds,
        modelled,
        notes,
    };
    if demo.verdict.line.contains("busy") {
        demo.notes.retain(|note| !note.contains("busy"));
    }
    demo.svg = picture::draw(&demo);
    demo.complete_report(options, machine);
    Ok(demo)
}

impl Demo {
    fn complete_report(&mut self, options: &Options, machine: Vec<Setting>) {
        let plan = &self.plan;
        let report = &mut self.report;
        report.title =
            "millpond demo: reads beside writers, on the kernel's page cache and on Millpond".into();
        report.command.clone_from(&options.command);
        report.answers = vec![self.verdict.line.clone(), self.modelled.verdict.line.clone()];
        report.rename(&[
            ("sim latency", Modelled::name(Side::Kernel)),
            ("sim goal", Modelled::name(Side::Millpond)),
        ]);
        report.picture = Some(self.svg.clone());
        report.notes.splice(0..0, self.notes.iter().cloned());
        report.machine = machine;
        report.machine.extend([
            Setting::new(
                "written",
                format_args!(
                    "{} files of {} in each run",
                    plan.files,
                    quantity::size(plan.file)
                ),
            ),
            Setting::new(
                "read",
                format_args!("a file of {}", quantity::size(plan.read_file)),
            ),
            Setting::new("rounds", self.rounds[0].len()),
            Setting::new("seed", options.seed),
        ]);
    }
}

/// The kernel's row and Millpond's.
fn rows(options: &Options, dir: &Path, plan: &mut Plan, notes: &mut Vec<String>) -> Result<[Row; 2]> {
    let request = RowRequest {
        experiment: EXPERIMENT.name,
        variants: &[],
        kernel_variants: &[],
        program: &options.program,
        device: Device::Real,
        dir,
        memory: plan.memory,
        read_latency_goal: None,
        seed: options.seed,
    };
    let missing = |target: &str| LabError::Unavailable {
        target: target.into(),
        why: "it has no rows here".into(),
    };
    // As much as Millpond's process takes with its budget, or a small one would have a larger share for Millpond.
    let kernels = (kernel::KIND.rows)(&RowRequest {
        memory: plan.memory + PROGRAM_MEMORY,
        ..request
    })?;
    // The one within memory is the last, where there can be one.
    let mut kernel = kernels
        .rows
        .into_iter()
        .next_back()
        .ok_or_else(|| missing("kernel"))?;
    plan.kernel_group = match kernel.in_memory_group {
        true => memory_group::available().ok(),
        false => None,
    };
    if !kernel.in_memory_group {
        // Why not, in full, is a matter for `doctor`.
        notes.push(
            "Run as root, or under `systemd-run --user --scope -p Delegate=yes`, the kernel gets no more memory than Millpond."
                .into(),
        );
    }
    let has_direct = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(Axboe2016::read_file(dir))
        .is_ok();
    if !has_direct && !kernel.in_memory_group {
        kernel.setup.variant = kernel::MEMORY_GROUP.into();
        notes.push(
            "The file system has no O_DIRECT: the kernel's reader reads through its page cache.".into(),
        );
    }
    let engines = (engine::KIND.rows)(&request)?;
    let engine = engines.rows.into_iter().next().ok_or_else(|| missing("engine"))?;
    Ok([kernel, engine])
}

/// One round: both sides, the one first that was second before.
fn perform(
    options: &Options,
    plan: &Plan,
    rows: &[Row; 2],
    round: u32,
    tell: &mut dyn FnMut(Told) -> Proceed,
) -> Result<[Outcome; 2]> {
    let workload = workload(&plan.sizes(), options.seed);
    let mut order = Side::BOTH;
    if round % 2 == 1 {
        order.reverse();
    }
    let mut outcomes = [Outcome::default(), Outcome::default()];
    for side in order {
        let job = Job {
            row: rows[side as usize].clone(),
            workload: workload.with_run(round),
            workload_name: Phase::WritersAndReader.name(),
            runs: 1,
            seconds: 0.0,
        };
        let mut progress = |progress: Progress| tell(Told::Running(round, side, progress));
        let outcome = job.perform(&options.program, &job.workload, &files::Around, &mut progress)?;
        go_on(tell(Told::Ended(side, Round::of(&outcome))))?;
        outcomes[side as usize] = outcome;
    }
    Ok(outcomes)
}

fn workload(sizes: &Sizes, seed: u64) -> Workload {
    Workload::Axboe2016(Axboe2016 {
        phase: Phase::WritersAndReader,
        files: sizes.files,
        file_bytes: sizes.file.0,
        writers: 1,
        read_file_bytes: sizes.read_file.0,
        reader_alone_ms: 1,
        seed,
    })
}

fn go_on(proceed: Proceed) -> Result<()> {
    match proceed {
        Proceed::Yes => Ok(()),
        Proceed::Stop => Err(LabError::Interrupted),
    }
}

/// The step before the first run, as reported.
struct Preparing<'a>(&'a mut dyn FnMut(Told) -> Proceed);

impl Watch for Preparing<'_> {
    fn at(&mut self, _share: f64, step: &str, detail: &str) -> Proceed {
        (self.0)(Told::Preparing(step.into(), detail.into()))
    }
}

impl Plan {
    fn sizes(&self) -> Sizes {
        Sizes {
            scale: 1.0,
            files: self.files,
            file: self.file,
            read_file: self.read_file,
            memory: self.memory,
        }
    }

    /// The memory of each side, as a sentence.
    pub fn memory_said(&self) -> String {
        let memory = quantity::size(self.memory);
        match (self.kernel_group, process::machine_memory_mib()) {
            (Some(version), _) => {
                let group = format!(
                    "Millpond had a budget of {memory} and its program beside it, the kernel a memory group of {} for all, of \
                     version {}",
                    quantity::size(self.memory + PROGRAM_MEMORY),
                    version.trim_start_matches('v')
                );
                match version {
                    "v1" => group + ", which lets writers fill it with dirty pages.",
                    _ => group + ".",
                }
            }
            (None, Some(mib)) => format!(
                "The kernel had all of the machine's memory ({}), Millpond {memory}.",
                quantity::size(Bytes((mib * 1048576.0) as u64))
            ),
            (None, None) => format!("The kernel had all of the machine's memory, Millpond {memory}."),
        }
    }

    /// The figures of a side, after its name.
    pub fn memory_of(&self, side: Side) -> String {
        match side {
            Side::Kernel if self.kernel_group.is_none() => "all memory".into(),
            Side::Kernel => quantity::size(self.memory + PROGRAM_MEMORY),
            _ => quantity::size(self.memory),
        }
    }
}

#[cfg(test)]
mod tests;
