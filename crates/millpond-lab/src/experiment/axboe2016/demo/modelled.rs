//! The demo's last word, which nothing else on the machine can change: the post's load in virtual time on a modelled disk.
//!
//! Both sides are Millpond's cache, with the same memory. On the first, Linux' throttling of writeback (`blk-wbt`) stands in
//! the place of Millpond's admission. The sizes are the experiment's own, whatever this machine's disk can do: so the figures
//! are the same everywhere.

use super::answer::{Of, compared};
use super::{Round, Side};
use crate::backend::{Row, RowRequest, sim};
use crate::error::{LabError, Result};
use crate::experiment::axboe2016::options::{self, Sizes};
use crate::experiment::{Job, OwnFiles, row_name};
use crate::program::Program;
use crate::report::Runs;
use crate::report::verdict::{Circumstances, Verdict, judge, letter};
use crate::setup::Device;
use crate::watch::Proceed;
use crate::workload::Progress;
use crate::workload::axboe2016::Phase;
use millpond::internal::quantity;
use millpond_core::units::Bytes;
use std::path::Path;

/// The disk. The kernel's own page cache on the same model has about the first side's figures: `docs/experiments/frontier.md`.
const DISK: &str = "sata-ssd";
/// The simulator's variants: Linux's throttling, and Millpond's default.
const VARIANTS: [&str; 2] = ["latency", "goal"];

/// The result.
pub struct Modelled {
    /// Each side, in the order of [`Side::BOTH`].
    pub sides: [Round; 2],
    /// What is compared, and that it is exact.
    pub verdict: Verdict,
}

impl Modelled {
    /// A side's name in a table.
    pub const fn name(side: Side) -> &'static str {
        match side {
            Side::Kernel => "throttled as Linux' wbt",
            Side::Millpond => "throttled as Millpond",
        }
    }

    /// The heading of both sides' rows. They say nothing about the disk's own speed and price.
    pub fn heading() -> String {
        let sizes = options::post_sizes();
        format!(
            "virtual time, modelled SATA SSD: the post's load ({} written, {} of memory), on Millpond's cache",
            quantity::size(Bytes(sizes.file.0 * u64::from(sizes.files))),
            quantity::size(sizes.memory)
        )
    }
}

/// Runs it, which takes a few seconds. With the rows and their runs, for the report.
pub(super) fn run(
    program: &Program,
    seed: u64,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<(Modelled, Vec<Row>, Vec<Runs>)> {
    let sizes = options::post_sizes();
    let disk = DISK.parse()?;
    let request = RowRequest {
        experiment: super::EXPERIMENT.name,
        variants: &VARIANTS.map(String::from),
        kernel_variants: &[],
        program,
        device: Device::Modelled(disk),
        dir: Path::new("/"),
        memory: sizes.memory,
        read_latency_goal: None,
        seed,
    };
    let rows = (sim::KIND.rows)(&request)?.rows;
    let workload = super::workload(&sizes, seed);
    let mut runs = Vec::new();
    for row in &rows {
        let job = Job {
            row: row.clone(),
            workload: workload.clone(),
            workload_name: Phase::WritersAndReader.name(),
            runs: 1,
            seconds: 0.0,
        };
        runs.push(Runs {
            row: row_name(row),
            workload: job.workload_name.into(),
            outcomes: vec![job.perform(program, &job.workload, &OwnFiles, progress)?],
        });
    }
    let sides: Vec<Round> = runs.iter().map(|runs| Round::of(&runs.outcomes[0])).collect();
    let sides: [Round; 2] = sides.try_into().map_err(|_| LabError::Unavailable {
        target: sim::KIND.name.into(),
        why: format!("it has not both of {}", VARIANTS.join(", ")),
    })?;
    let modelled = Modelled {
        verdict: verdict(&sides, &sizes),
        sides,
    };
    Ok((modelled, rows, runs))
}

fn verdict(sides: &[Round; 2], sizes: &Sizes) -> Verdict {
    let [linux, millpond] = sides;
    let tail: (_, Of) = ("one in 1000", |run| run.p999_us);
    let compared = compared(std::slice::from_ref(linux), std::slice::from_ref(millpond), tail);
    let circumstances = Circumstances::exact();
    let judged = judge(&compared, &circumstances);
    let mut verdict = judged.unwrap_or_else(super::answer::no_run);
    verdict.line = format!(
        "In virtual time, the post's load ({} written, {} of memory) on a modelled SATA SSD and not this disk, the same on every \
         machine, however busy: {} Both sides are Millpond's cache; the first holds writes back as Linux does (blk-wbt, 2 ms), \
         the second as Millpond does.",
        quantity::size(Bytes(sizes.file.0 * u64::from(sizes.files))),
        quantity::size(sizes.memory),
        letter(&verdict.line, char::to_lowercase)
    );
    verdict
}
