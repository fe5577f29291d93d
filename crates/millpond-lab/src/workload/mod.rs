//! Workloads: what is read and written, however and wherever that happens.
//!
//! A workload is a value that fits through a pipe. On a storage with real files it is performed by threads
//! of the run's own process ([`perform`]); a simulator reads the same value and performs it in virtual time.

pub mod axboe2016;
pub mod data;
pub mod dillon2000;
pub mod gorman2011;
pub mod hills2015;
pub mod kim2020;
pub mod mapped;

use crate::error::Result;
use crate::measure::heat::Counts;
use crate::outcome::Outcome;
use crate::setup::Setup;
use crate::storage::Storage;
use crate::watch::Proceed;
use serde::{Deserialize, Serialize};

/// One run's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "experiment", rename_all = "lowercase")]
pub enum Workload {
    /// Writers of many files beside a random reader (Axboe 2016).
    Axboe2016(axboe2016::Axboe2016),
    /// Readers of a news server (Dillon 2000).
    Dillon2000(dillon2000::Dillon2000),
    /// Files, or a mapping, written on memory that is too small for them (Gorman 2011).
    Gorman2011(gorman2011::Gorman2011),
    /// Writers under limits on dirty pages (Hills 2015).
    Hills2015(hills2015::Hills2015),
    /// Memory that is larger than memory (Kim 2020). Needs no storage's files.
    Kim2020(kim2020::Work),
    /// A file that is touched at addresses. Opens its file itself.
    Mapped(mapped::Mapped),
}

/// The progress of a run, several times a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The present step: "writing", "syncing", "reading".
    pub doing: String,
    /// The finished share of the run, from 0 to 1, as far as it is known.
    pub share: f64,
    /// A line for the user: "1.2 of 4.9 GiB written, 61 reads/s, slowest 181 ms".
    pub detail: String,
    /// Any count that grows while the run is alive; a run whose count stands still is stuck.
    pub beat: u64,
    /// The data for a screen, where a workload has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
}

/// The events of a run since the last report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// The number of the report, from 0: a repeated number is the same report.
    pub number: u32,
    /// The reads that missed, in each tenth of a second that is over.
    pub reads: Vec<Counts>,
    /// The longest latency of a read of the run, in microseconds.
    pub slowest_us: f64,
    /// Bytes that the writers have written, and shall write.
    pub written: u64,
    /// Bytes that they shall write.
    pub total: u64,
    /// Bytes of writes that are on their way to the device.
    pub in_transit: Option<u64>,
}

/// Performs `workload` on a storage with real files.
///
/// # Errors
/// The first error of the storage; a page that came back wrong; [`crate::LabError::Interrupted`].
pub fn perform(
    workload: &Workload,
    storage: &dyn Storage,
    setup: &Setup,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    match workload {
        Workload::Axboe2016(work) => axboe2016::perform(work, storage, setup, progress),
        Workload::Dillon2000(work) => dillon2000::perform(work, storage, setup, progress),
        Workload::Gorman2011(work) => gorman2011::perform(work, storage, setup, progress),
        Workload::Hills2015(work) => hills2015::perform(work, storage, setup, progress),
        Workload::Kim2020(work) => work.perform(setup, progress),
        Workload::Mapped(work) => work.perform(setup, progress),
    }
}

impl Workload {
    /// The same work with other random choices, for run number `run`; the same ones for every row.
    #[must_use]
    pub fn with_run(&self, run: u32) -> Workload {
        let mut work = self.clone();
        let seed = match &mut work {
            Workload::Axboe2016(work) => &mut work.seed,
            Workload::Dillon2000(work) => &mut work.seed,
            Workload::Gorman2011(work) => &mut work.seed,
            Workload::Hills2015(work) => &mut work.seed,
            Workload::Kim2020(work) => &mut work.seed,
            Workload::Mapped(work) => &mut work.seed,
        };
        *seed = seed.wrapping_add(u64::from(run));
        work
    }
}
