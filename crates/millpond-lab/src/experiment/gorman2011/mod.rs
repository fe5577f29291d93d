//! Seed 000 (Gorman 2011): what reclaim's page writes cost, and what taking them away patch by patch changes.
//!
//! ```text
//!   fs_mark    25 rounds of 150 files of 10 MiB, no sync, on 512 MB: dirty pages reach the end of a small zone's list
//!   micro      one mapping of 4.76 GiB, written once
//!   rows       the post's six kernels, the two patches as they were posted, what came of them, and Millpond
//! ```
//!
//! In virtual time only, on a machine like the post's: Linux' rungs by `sim/era`, Millpond by its own manager on the same
//! disk with the memory that is left for files there. Nothing is random but what company the load has, so one run says it.

mod measures;
mod options;
mod post;
mod published;
mod report;
mod runs;
mod trace;
mod verdict;

pub use options::Options;

use super::{Experiment, Watch};
use crate::error::Result;
use crate::report::Report;

/// The workload of 37,500 MiB in files.
pub const FS_MARK: &str = "fs_mark";
/// The streaming write through a mapping.
pub const MICRO: &str = "micro";

/// What can be printed on request, beside the report.
pub const TABLES: [&str; 2] = [post::NAME, trace::NAME];

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gorman2011",
    post: "Mel Gorman, \"Reduce filesystem writeback from page reclaim (again)\", July 2011 (seed 000)",
    shows: "files are written on a small machine: what reclaim scans, writes and waits for, patch by patch",
    variants: &options::VARIANTS,
    workloads: &[FS_MARK, MICRO],
};

/// Runs the experiment and returns its report.
///
/// # Errors
/// Options out of range, before anything is done; a target that can't run it; [`Interrupted`](crate::LabError::Interrupted).
pub fn run(options: &Options, watch: &mut dyn Watch) -> Result<Report> {
    let plan = options.plan()?;
    let results = runs::perform(&plan, watch)?;
    let mut report = report::report(&plan, &results);
    report.command = options.command.clone();
    Ok(report)
}
