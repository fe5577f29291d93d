//! All runs of a plan, as many at a time as there are processors.

use super::bounds;
use super::machines::machine;
use super::millpond;
use super::options::{Plan, Rules, Variant};
use super::published::throughput;
use crate::error::{LabError, Result};
use crate::experiment::parallel::{self, Reporter};
use crate::outcome::{Outcome, Setting};
use crate::report::{RowName, Runs};
use crate::watch::Watch;
use crate::workload::kim2020::draws::{Draws, FILLS, FILLS_WARM};
use crate::workload::kim2020::loads::{CHUNK, Copier, Ebizzy, Load, script};
use millpond_core::memory::watermark::{WatermarkRule, Watermarks};
use millpond_core::options::Options;
use millpond_core::page::PageKind;
use millpond_core::units::{Nanos, PageSize, Ratio};
use millpond_kernels::linux::anon::System;
use millpond_kernels::linux::anon::machine::{Counters, Machine, MachineOptions};
use millpond_sim::task::{Op, Ops};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The row of what no policy can be better than.
pub(super) const BOUNDS: &str = "bounds";

/// A row in virtual time, by the disk under swap.
pub(super) fn row(load: &Load, variant: &str) -> RowName {
    let device = match load {
        Load::Ebizzy(_) => "sata-ssd",
        _ => "ram",
    };
    RowName::new("sim", device, variant)
}

struct Job {
    load: Load,
    /// `None`: what no policy can be better than.
    variant: Option<Variant>,
}

/// Performs all runs; the results are in the plan's order.
pub(super) fn perform(plan: &Plan, watch: &mut dyn Watch) -> Result<Vec<Runs>> {
    let mut jobs = Vec::new();
    for &load in &plan.loads {
        let variants = plan.rows(&load).map(Some).chain([None]);
        jobs.extend(variants.map(|variant| Job { load, variant }));
    }
    let run = |job: &Job, reporter: &Reporter<'_, Runs>| {
        let (name, outcome) = match job.variant {
            Some(variant) => (variant.name, run(plan, job.load, variant, reporter.stop)?),
            None => (BOUNDS, bounds(plan, job.load)),
        };
        Ok(Runs::single(row(&job.load, name), job.load.name(), outcome))
    };
    parallel::perform(&jobs, |job| job.load.name(), run, watch)
}

/// A run under way.
struct On {
    machine: Machine,
}

impl On {
    fn new(machine: MachineOptions, load: Load, variant: &str) -> Result<On> {
        let machine = Machine::new(machine).map_err(|e| failed(load, variant, &e))?;
        Ok(On { machine })
    }

    fn finish(&mut self, stop: &AtomicBool) -> Result<()> {
        finish_by(|steps| self.machine.run(steps), stop)
    }
}

/// Runs to the end, this many steps at a time.
pub(super) fn finish_by(mut run: impl FnMut(u32) -> bool, stop: &AtomicBool) -> Result<()> {
    while !run(100_000) {
        if stop.load(Relaxed) {
            return Err(LabError::Interrupted);
        }
    }
    Ok(())
}

pub(super) fn failed(load: Load, variant: &str, why: &dyn std::fmt::Display) -> LabError {
    LabError::RunFailed {
        row: format!("{} on {variant}", load.name()),
        why: why.to_string(),
    }
}

fn run(plan: &Plan, load: Load, variant: Variant, stop: &AtomicBool) -> Result<Outcome> {
    let system = match variant.rules {
        Rules::Linux(system) => system,
        Rules::Millpond => return millpond::run(plan, load, &Options::default(), stop),
    };
    let mut on = On::new(machine(&load, system), load, variant.name)?;
    let mut outcome = Outcome::default();
    let (from, before) = match load {
        Load::Ebizzy(cell) => {
            let before = warm_up(&mut on, plan, cell, stop)?;
            let from = on.machine.now();
            let records = copiers(&mut on.machine, plan, cell, FILLS, 1);
            on.finish(stop)?;
            let took = on.machine.now().since(from);
            outcome.push("records_per_s", "1/s", records as f64 / seconds(took));
            let ins = on.machine.counters().since(&before).pswpin;
            outcome.push("swap_ins_per_record_pages", "1", ins as f64 / records as f64);
            (from, before)
        }
        _ => {
            let script = script(load, plan.rounds());
            script.add_pages(&mut on.machine);
            on.machine.add_task(script.set_up());
            on.finish(stop)?;
            let (from, before) = (on.machine.now(), *on.machine.counters());
            on.machine.add_task(script.rounds());
            on.finish(stop)?;
            (from, before)
        }
    };
    let counted = on.machine.counters().since(&before);
    push(&mut outcome, &counted);
    let took = on.machine.now().since(from);
    outcome.push("elapsed_seconds", "s", seconds(took));
    outcome.settings = settings(&machine(&load, system));
    Ok(outcome)
}

pub(super) fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e9
}

fn push(outcome: &mut Outcome, counted: &Counters) {
    let [file, anonymous] = PageKind::ALL.map(|kind| kind as usize);
    outcome.counts(&[
        ("swap_ins_pages", counted.pswpin),
        ("swap_outs_pages", counted.pswpout),
        ("file_reads_pages", counted.file_reads),
        ("workingset_refault_anon", counted.workingset_refault[anonymous]),
        ("workingset_activate_anon", counted.workingset_activate[anonymous]),
        ("workingset_restore_anon", counted.workingset_restore[anonymous]),
        ("workingset_refault_file", counted.workingset_refault[file]),
        ("workingset_activate_file", counted.workingset_activate[file]),
        ("pgactivate", counted.pgactivate),
        ("pgdeactivate", counted.pgdeactivate),
        ("pgscan", counted.pgscan),
    ]);
}

fn settings(machine: &MachineOptions) -> Vec<Setting> {
    let size = ::millpond::internal::quantity::size;
    vec![
        Setting::new("rules", machine.system.name()),
        Setting::new("memory", size(machine.memory)),
        Setting::new("of it for the load", size(machine.usable)),
        Setting::new(
            "swap",
            format!("{}, {}", size(machine.swap_size), machine.swap.name()),
        ),
        Setting::new("swappiness", machine.swappiness),
        Setting::new("page-cluster", machine.page_cluster),
    ]
}

/// The processor time of a record while all is in memory: from the post's own row of 512M, for the skew and threads.
pub(super) fn record_cost(cell: Ebizzy) -> Nanos {
    let threads = if cell.threads == 1 { 1 } else { 8 };
    let skew = (cell.skew_tenths / 2 * 2 + 1).clamp(1, 13);
    let per_s = throughput(512, skew, threads).map_or(7_000.0, |[base, _]| base);
    Nanos((f64::from(threads) / per_s * 1e9) as u64)
}

/// The draws of a cell's threads on this machine.
pub(super) fn draws(plan: &Plan, cell: Ebizzy) -> Draws {
    let frames = frames_in_use(&Load::Ebizzy(cell));
    Draws::new(cell, frames, plan.scale, plan.seed)
}

/// Allocates, and copies until the lists are those of a machine that has done this for a while.
fn warm_up(on: &mut On, plan: &Plan, cell: Ebizzy, stop: &AtomicBool) -> Result<Counters> {
    let pages = cell.mb * 256;
    on.machine
        .add_pages(PageKind::Anonymous, pages + u64::from(cell.threads) * CHUNK);
    let allocate = Op::Touch {
        first: 0,
        pages,
        write: true,
        each: Nanos(100),
    };
    on.machine.add_task(Box::new(Ops::new(vec![allocate])));
    on.finish(stop)?;
    copiers(&mut on.machine, plan, cell, FILLS_WARM, 0);
    on.finish(stop)?;
    Ok(*on.machine.counters())
}

/// Adds the threads; answers how many records they copy together.
fn copiers(machine: &mut Machine, plan: &Plan, cell: Ebizzy, fills: f64, phase: u64) -> u64 {
    let draws = draws(plan, cell);
    let each = draws.records(fills);
    let cost = Nanos(record_cost(cell).0.saturating_sub(CHUNK * 400) / CHUNK);
    for thread in 0..cell.threads {
        machine.add_task(Box::new(Copier {
            zipf: draws.zipf.clone(),
            draw: draws.of(phase, thread),
            records: each,
            to: (cell.mb * 256) as u32 + thread * CHUNK as u32,
            each: cost,
        }));
    }
    each * u64::from(cell.threads)
}

/// Frames that hold something: all but those that reclaim keeps free.
pub(super) fn frames_in_use(load: &Load) -> u64 {
    let machine = machine(load, System::Linux5_5);
    let scale = Ratio { num: 10, den: 10_000 };
    let memory = machine.memory.to_pages(PageSize::KIB_4);
    let marks = Watermarks::of(WatermarkRule::Linux46 { scale }, memory, PageSize::KIB_4);
    machine.usable.to_pages(PageSize::KIB_4).0 - marks.low.0
}

/// The bound of every policy on this load, and the result of least recently used.
fn bounds(plan: &Plan, load: Load) -> Outcome {
    match load {
        Load::Ebizzy(cell) => bounds::of_draws(&draws(plan, cell)),
        _ => bounds::of_course(&script(load, plan.rounds()), frames_in_use(&load)),
    }
}
