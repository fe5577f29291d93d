//! All runs of a plan, as many at a time as there are processors.

use super::measures;
use super::options::Plan;
use crate::error::{LabError, Result};
use crate::experiment::moving;
use crate::experiment::parallel::{self, Reporter};
use crate::outcome::{Outcome, Setting};
use crate::report::{RowName, Runs};
use crate::watch::Watch;
use millpond_core::units::{Instant, Nanos};
use millpond_kernels::linux::reclaim::System;
use millpond_kernels::linux::reclaim::machine::{self as linux, Load};
use millpond_worlds::worlds::gorman2011;

/// A system's row in virtual time.
pub(super) fn row(system: &str) -> RowName {
    RowName::new("sim", "hdd", system)
}

/// The note on where a run can be seen at its end.
pub(super) fn link(run: &Runs, plan: &Plan) -> Option<String> {
    let load = if run.workload == super::MICRO {
        "micro"
    } else {
        "fs-mark"
    };
    let ended = run.outcomes.iter().find_map(|run| run.value("elapsed_seconds"));
    let link = moving::Run {
        steps: &[("rule", &run.row.variant), ("load", load)],
        seed: plan.seed,
        scale: plan.scale,
        at: Some(Nanos((ended.unwrap_or(0.0) * 1e9) as u64 + 1)),
    };
    moving::note(super::EXPERIMENT.name, &link)
}

struct Job {
    system: System,
    workload: &'static str,
    load: Load,
}

/// Performs all runs; the results are in the plan's order.
pub(super) fn perform(plan: &Plan, watch: &mut dyn Watch) -> Result<Vec<Runs>> {
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
    fn run(&self, plan: &Plan, reporter: &Reporter<'_, Runs>) -> Result<Runs> {
        let mut at = |share: f64| reporter.at(share);
        let mut outcome = match self.system {
            System::Millpond => self.millpond(plan, &mut at)?,
            system => {
                let ran =
                    linux::run(plan.machine(system), self.load, &mut at).map_err(|e| self.failed(&e))?;
                let ran = ran.ok_or(LabError::Interrupted)?;
                measures::of_linux(&ran)
            }
        };
        outcome.settings = self.settings(plan);
        Ok(Runs::single(row(self.system.name()), self.workload, outcome))
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
    fn millpond(&self, plan: &Plan, at: &mut dyn FnMut(f64) -> bool) -> Result<Outcome> {
        let machine = plan.machine(self.system);
        let made = gorman2011::millpond(&machine, self.load);
        let (mut world, all, ended) = made.map_err(|e| self.failed(&e))?;
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
        Ok(measures::of_millpond(world.manager().stats(), elapsed, &took))
    }
}
