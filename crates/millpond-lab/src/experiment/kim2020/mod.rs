//! Kim 2020: what new anonymous pages push out, and how soon what comes back is known again.
//!
//! ```text
//!   toys       the post's two examples, lists step by step
//!   rounds     the seven steps of hot-1, hot-2 and cold memory, and five that ask the same in other ways
//!   ebizzy     the post's grid: seven skews, six sizes, one and eight threads
//!   rows       Linux 5.5, its patches, what landed, and what no policy can be better than
//! ```
//!
//! In virtual time on machines like the post's (`millpond_kernels::linux::anon`). One run says it: nothing is random but what
//! ebizzy draws, and that from a seed. On real memory (`real.rs`): the kernel's swap beside a region of Millpond's engine.

mod answer;
mod bounds;
mod grid;
mod machines;
#[cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::print_stdout,
        reason = "a test fails by panicking"
    )
)]
mod millpond;
mod optimum;
mod options;
mod published;
mod real;
mod real_report;
mod report;
mod runs;
mod toys;

pub use super::Options;
use super::{Experiment, moving};
use crate::error::Result;
use crate::report::Report;
use crate::watch::Watch;
use crate::workload::kim2020::WORKLOADS;

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "kim2020",
    post: "Joonsoo Kim, \"workingset protection/detection on the anonymous LRU list\", February 2020",
    numbers_of_the_post: "The post's numbers stand beside ours in the tables of ebizzy and in the sentence about hot-cold; its two examples are lists, which `--table lists` prints.",
    tables: &[report::TABLE],
    shows: "more anonymous memory than RAM: which pages go to swap, and which come back",
    variants: &options::VARIANTS,
    workloads: &WORKLOADS,
    run,
};

/// Runs the experiment and returns its report.
///
/// # Errors
/// Options out of range, before anything is done; a target that can't run it; a run that failed;
/// [`Interrupted`](crate::LabError::Interrupted). What it made on disk is removed either way, and swap as it was.
pub fn run(options: &Options, watch: &mut dyn Watch) -> Result<Report> {
    let (is_simulated, real) = options.simulated_and_real()?;
    if !real.is_empty() {
        options::check_real(options)?;
    }
    let plan = options::plan(options, is_simulated)?;
    let mut report = if is_simulated {
        let mut report = report::report(&plan, &runs::perform(&plan, watch)?);
        if !plan.toys.is_empty() {
            let run = moving::Run {
                steps: &[("patches", "linux-5.5+anon")],
                seed: plan.seed,
                scale: 1.0,
                at: None,
            };
            report.notes.extend(moving::note(EXPERIMENT.name, &run));
        }
        report
    } else {
        report::empty()
    };
    if !real.is_empty() {
        let (loads, measured) = real::measure(options, &real, &plan.loads, watch)?;
        real_report::add(&mut report, &loads, &measured);
    }
    report.command = options.command.clone();
    Ok(report)
}
