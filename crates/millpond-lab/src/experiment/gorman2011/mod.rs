//! Gorman 2011: what reclaim's page writes cost, and what taking them away patch by patch changes.
//!
//! ```text
//!   fs_mark    25 rounds of 150 files of 10 MiB, no sync, on 512 MB: dirty pages reach the end of a small zone's list
//!   micro      one mapping of 4.76 GiB, written once
//!   rows       the post's six kernels, the two patches as they were posted, what came of them, and Millpond
//! ```
//!
//! In virtual time on a machine like the post's: Linux' kernels by `millpond_kernels::linux::reclaim`, Millpond by its own
//! manager on the same disk with the memory that is left for files there. Nothing is random but what the tasks beside the load do, so one run says it.
//! On real files (`real.rs`): Millpond's engine beside the kernel in a memory group of the same size.

mod answer;
mod files;
mod measures;
mod options;
mod post;
mod real;
mod real_report;
mod report;
mod runs;

use super::Experiment;
pub use super::Options;
use super::check;
use crate::error::Result;
use crate::report::{REASONS, Report};
use crate::watch::Watch;
use millpond_kernels::linux::reclaim::filesystem::FileSystem;

/// The workload of 37,500 MiB in files.
pub const FS_MARK: &str = "fs_mark";
/// The streaming write through a mapping.
pub const MICRO: &str = "micro";

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gorman2011",
    post: "Mel Gorman, \"Reduce filesystem writeback from page reclaim (again)\", July 2011",
    numbers_of_the_post: "The post's tables are of fs_mark and micro.",
    tables: &[REASONS],
    shows: "files are written on a small machine: what reclaim scans, writes and waits for, patch by patch",
    variants: &options::VARIANTS,
    workloads: &[FS_MARK, MICRO],
    run,
};

/// Runs the experiment and returns its report.
///
/// # Errors
/// Options out of range, before anything is done; a target that can't run it; a run that failed;
/// [`Interrupted`](crate::LabError::Interrupted). What it made on disk is removed either way.
pub fn run(options: &Options, watch: &mut dyn Watch) -> Result<Report> {
    let (is_simulated, real) = options.simulated_and_real()?;
    check::names("workload", &options.workloads, EXPERIMENT.workloads)?;
    if !real.is_empty() || options.on.is_none() {
        options::check_real(options)?;
    }
    let plan = is_simulated.then(|| options::plan(options)).transpose()?;
    let mut report = match &plan {
        Some(plan) => {
            let results = runs::perform(plan, watch)?;
            // the page's machine has the post's file system
            let first = results.first().filter(|_| plan.filesystem == FileSystem::Xfs);
            let link = first.and_then(|run| runs::link(run, plan));
            let mut report = report::report(plan, &results);
            report.notes.extend(link);
            report
        }
        None => report::empty(),
    };
    if !real.is_empty() {
        real_report::add(&mut report, &real::measure(options, &real, watch)?);
    }
    report.command = options.command.clone();
    Ok(report)
}
