//! Dillon 2000: what writing a dirty page costs on a disk that is nearly saturated, and how long to wait with it.
//!
//! ```text
//!   news        550 readers take 8 MB/s from a spool on 512 MB: four rules for dirty pages, what came of them, Millpond
//!   saturated   64 readers that take the next article at once, as many as the disk has: real files only
//!   budgets     the news in queue order and with two laps, when a scan may write 16, 32, 64 clusters or all that it meets
//!   in-transit  one writer of a huge file among readers, with and without a limit on bytes on their way
//!   deadlock    nothing but dirty pages, and writes that need a frame: with and without the reserve for I/O
//! ```
//!
//! In virtual time on a machine like the post's: FreeBSD's rules by `millpond_kernels::freebsd`, Millpond by its own manager
//! on the same disk with the memory that is left for files there. On real files (`real.rs`) Millpond's engine beside the kernel.

mod answer;
mod files;
mod measures;
mod millpond;
mod options;
mod published;
mod real;
mod report;
mod runs;

pub use super::Options;
use super::{Experiment, moving};
use crate::error::Result;
use crate::report::Report;
use crate::watch::Watch;

/// The news server.
pub const NEWS: &str = "news";
/// Readers that take the next article at once, on real files.
pub const SATURATED: &str = "saturated";
/// The news with other budgets.
pub const BUDGETS: &str = "budgets";
/// One huge file among readers.
pub const IN_TRANSIT: &str = "in-transit";
/// Nothing but dirty pages.
pub const DEADLOCK: &str = "deadlock";

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "dillon2000",
    post: "Matthew Dillon, \"Interesting item came up while working on FreeBSD's pageout daemon\", December 2000",
    numbers_of_the_post: "The post has the load of its news server in words, and no table: the line \"news, the post of 2000\" has it, beside the loads above.",
    tables: &[],
    shows: "a news server close to thrashing: when dirty pages are written, how much may be on its way, whose the last frames are",
    variants: &options::VARIANTS,
    workloads: &[NEWS, SATURATED, BUDGETS, IN_TRANSIT, DEADLOCK],
    run,
};

/// Runs the experiment and returns its report.
///
/// # Errors
/// Options out of range, before anything is done; a target that can't run it; a run that failed;
/// [`Interrupted`](crate::LabError::Interrupted). What it made on disk is removed either way.
pub fn run(options: &Options, watch: &mut dyn Watch) -> Result<Report> {
    let (is_simulated, real) = options.simulated_and_real()?;
    let plan = options::plan(options)?;
    options::check(options, is_simulated, !real.is_empty())?;
    let mut report = match is_simulated {
        false => report::empty(),
        true => {
            let mut report = report::report(&plan, &runs::perform(&plan, watch)?);
            if let Some(system) = plan.systems().next().filter(|_| plan.has(NEWS)) {
                let run = moving::Run {
                    steps: &[("rule", system.variant())],
                    seed: plan.seed,
                    scale: 1.0,
                    at: Some(options::WARM_UP + plan.length),
                };
                report.notes.extend(moving::note(EXPERIMENT.name, &run));
            }
            report
        }
    };
    if !real.is_empty() {
        let (loads, measured) = real::measure(options, &real, watch)?;
        report::add(&mut report, &loads, &measured);
    }
    report.command = options.command.clone();
    Ok(report)
}
