//! Seed 003 (Dillon 2000): what writing a dirty page costs on a disk that is nearly saturated, and how long to wait with it.
//!
//! ```text
//!   news        550 readers take 8 MB/s from a spool on 512 MB: four rules for dirty pages, what came of them, Millpond
//!   budgets     the news in queue order and with two laps, when a scan may write 16, 32, 64 clusters or all that it meets
//!   in-transit  one writer of a huge file among readers, with and without a limit on bytes on their way
//!   deadlock    nothing but dirty pages, and writes that need a frame: with and without the reserve for I/O
//! ```
//!
//! In virtual time only, on a machine like the post's: FreeBSD's rules by `sim/bsd`, Millpond by its own manager on the same
//! disk with the memory that is left for files there.

mod measures;
mod millpond;
mod options;
mod report;
mod runs;
mod verdict;

pub use options::Options;

use super::{Experiment, Watch};
use crate::error::Result;
use crate::report::Report;

/// The news server.
pub const NEWS: &str = "news";
/// The same with other budgets.
pub const BUDGETS: &str = "budgets";
/// One huge file among readers.
pub const IN_TRANSIT: &str = "in-transit";
/// Nothing but dirty pages.
pub const DEADLOCK: &str = "deadlock";

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "dillon2000",
    post: "Matthew Dillon, \"Interesting item came up while working on FreeBSD's pageout daemon\", December 2000 (seed 003)",
    shows: "a news server close to thrashing: when dirty pages are written, how much may be on its way, whose the last frames are",
    variants: &options::VARIANTS,
    workloads: &[NEWS, BUDGETS, IN_TRANSIT, DEADLOCK],
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
