//! All runs of a plan, as many at a time as there are processors.

use super::measures;
use super::options::Plan;
use crate::error::{LabError, Result};
use crate::experiment::parallel::{self, Reporter};
use crate::outcome::{Outcome, Setting};
use crate::watch::Watch;
use millpond_core::options::Options;
use millpond_core::reclaim::trace::Trace;
use millpond_core::units::{Instant, Nanos, PageCount, PageSize};
use millpond_kernels::linux::reclaim::System;
use millpond_kernels::linux::reclaim::machine::{self as linux, FILES, Load};
use millpond_sim::disk::Model;
use millpond_sim::scripts::stream::{RoundsEnded, Stream};
use millpond_sim::{Costs, Faults, World, WorldOptions};

/// A run's result.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) system: System,
    pub(super) workload: &'static str,
    pub(super) outcome: Outcome,
    /// Reclaim's decisions.
    pub(super) trace: Trace,
}

struct Job {
    system: System,
    workload: &'static str,
    load: Load,
}

/// Performs all runs; the results are in the plan's order.
pub(super) fn perform(plan: &Plan, watch: &mut dyn Watch) -> Result<Vec<Run>> {
    let jobs: Vec<Job> = plan
        .loads
        .iter()
        .flat_map(|&(workload, load)| {
            plan.systems.iter().map(move |&system| Job {
                system,
                workload,
                load,
            })
        })
        .collect();
    let title = |job: &Job| format!("{} on {}", job.workload, job.system.name());
    parallel::perform(&jobs, title, |job, reporter| job.run(plan, reporter), watch)
}

impl Job {
    fn run(&self, plan: &Plan, reporter: &Reporter<'_, Run>) -> Result<Run> {
        let mut at = |share: f64| reporter.at(share);
        let (mut outcome, trace) = match self.system {
            System::Millpond => self.millpond(plan, &mut at)?,
            system => {
                let ran =
                    linux::run(plan.machine(system), self.load, &mut at).map_err(|e| self.failed(&e))?;
                let ran = ran.ok_or(LabError::Interrupted)?;
                (measures::of_linux(&ran), ran.trace)
            }
        };
        outcome.settings = self.settings(plan);
        Ok(Run {
            system: self.system,
            workload: self.workload,
            outcome,
            trace,
        })
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> LabError {
        LabError::RunFailed {
            row: format!("{} on {}", self.workload, self.system.name()),
            why: error.to_string(),
        }
    }

    fn settings(&self, plan: &Plan) -> Vec<Setting> {
        let machine = plan.machine(self.system);
        vec![
            Setting::new("memory", millpond::internal::quantity::size(machine.memory)),
            Setting::new("file system", plan.filesystem.name()),
            Setting::new(
                "disk",
                format!("hdd, {} MB/s", machine.disk.media_bytes_per_s / 1_000_000),
            ),
        ]
    }

    /// Millpond's own manager, with the memory that files have on the post's machine.
    fn millpond(&self, plan: &Plan, at: &mut dyn FnMut(f64) -> bool) -> Result<(Outcome, Trace)> {
        let machine = plan.machine(self.system);
        let model = Model::hdd(machine.disk).map_err(|e| self.failed(&e))?;
        let taken = machine.kernel.0 + machine.files_in_use.0 + u64::from(linux::anonymous_pages());
        let frames = PageCount(machine.memory.to_pages(PageSize::KIB_4).0 - taken);
        let mapped = matches!(self.load, Load::Micro { .. });
        let costs = machine.costs;
        let mut world = World::new(WorldOptions {
            options: Options::default(),
            alternatives: Vec::new(),
            frames,
            model,
            costs: Costs {
                copy: if mapped {
                    costs.fault_page
                } else {
                    costs.write_page
                },
                scan: costs.scan_page,
                ..Costs::default()
            },
            faults: Faults::default(),
            seed: plan.seed,
            validate_every: 0,
        })
        .map_err(|e| self.failed(&e))?;
        let (files, pages, step, think) = match self.load {
            Load::FsMark { rounds } => (rounds * FILES, 2560, 4, costs.think + costs.file),
            Load::Micro { pages } => (1, pages, 1, Nanos::ZERO),
        };
        let files: Vec<_> = (0..files).map(|_| world.add_file(PageCount(pages))).collect();
        let all = files.len() as u64 * pages;
        let ended = RoundsEnded::default();
        let stream = Stream::new(files, (pages, step), FILES as usize, think, ended.clone());
        world.add_process(Box::new(stream));
        while !world.is_over() {
            world.run(world.now() + Nanos::from_millis(500));
            if !at(world.manager().stats().nr_written as f64 / all as f64) {
                return Err(LabError::Interrupted);
            }
        }
        let ended = ended.borrow();
        let begins = std::iter::once(Instant(0)).chain(ended.iter().copied());
        let took: Vec<Nanos> = begins
            .zip(ended.iter())
            .map(|(from, to)| to.since(from))
            .collect();
        let elapsed = Nanos(world.now().0);
        let outcome = measures::of_millpond(world.manager().stats(), elapsed, &took);
        Ok((outcome, world.manager().trace().clone()))
    }
}
