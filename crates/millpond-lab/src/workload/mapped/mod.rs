//! A file four times as large as memory, touched at addresses: what a touch takes.
//!
//! ```text
//!   fill        an ordinary read of as much as memory holds, so that no run begins with empty memory
//!   warm        the load, by eight threads where it is random, for as long as is measured
//!   measured    the load by its own threads: each access timed, its page's stamp checked
//! ```
//!
//! The kernel's mapping and Millpond's are read and changed by atomic loads and stores of words, the pages of a file by
//! `page` and `page_mut`, each through the same loop (`loads`). The hot set beside a scan is one pass of the file, and no time.

mod access;
mod beside;
mod loads;
mod timed;

pub use access::{IN_THREAD, MAPPING, NORMAL, NORMAL_128K, PAGE_CALLS, RANDOM, can_set_read_ahead};
pub use loads::Load;

use super::Progress;
use super::data::PAGE;
use crate::error::{LabError, Result};
use crate::measure::process;
use crate::outcome::Outcome;
use crate::setup::Setup;
use crate::watch::Proceed;
use access::{Access, KernelWords, MappedWords, Pages};
use millpond::Advice;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A record, a list of vectors, a piece of a layer: 256 KiB.
pub const RECORD: u64 = 256 << 10;
/// In the stamps of the file's pages.
pub const FILE: u64 = 0;

/// One run's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mapped {
    /// The load.
    pub load: Load,
    /// The file's size, in whole records.
    pub file_bytes: u64,
    /// The measured time in milliseconds, and the unmeasured time before it.
    pub measured_ms: u64,
    /// The seed of what is touched.
    pub seed: u64,
}

impl Mapped {
    /// The file, made before the runs.
    pub fn file(dir: &Path) -> PathBuf {
        dir.join("mapped")
    }

    /// The folder of the files written beside the load.
    pub fn written(dir: &Path) -> PathBuf {
        dir.join("written")
    }

    /// The advice to Millpond about the load, as a user would give it. The kernel has no such advice.
    fn advice(&self) -> Advice {
        match self.load {
            Load::Records | Load::Vectors => Advice::Records(RECORD),
            _ => Advice::Normal,
        }
    }

    fn pages(&self) -> u64 {
        self.file_bytes / PAGE as u64
    }

    /// Performs it in this process.
    ///
    /// # Errors
    /// What the system or the engine refuses; a page with another stamp; [`LabError::Interrupted`].
    pub fn perform(&self, setup: &Setup, progress: &mut dyn FnMut(Progress) -> Proceed) -> Result<Outcome> {
        let resident = process::resident_mib();
        let path = Mapped::file(&setup.dir);
        let mut outcome = match setup.variant.as_str() {
            RANDOM | NORMAL | NORMAL_128K => self.on(&KernelWords::open(&path, setup)?, setup, progress),
            MAPPING | IN_THREAD => self.on(&MappedWords::open(&path, setup, self.advice())?, setup, progress),
            PAGE_CALLS => self.on(&Pages::open(&path, setup, self.advice())?, setup, progress),
            other => Err(LabError::UnknownName {
                what: "variant",
                value: other.into(),
                allowed: [RANDOM, NORMAL_128K, NORMAL, MAPPING, IN_THREAD, PAGE_CALLS].join(", "),
            }),
        }?;
        if let (Some(before), Some(peak)) = (resident, process::resident_peak_mib()) {
            outcome.push("resident_above_start_mib", "MiB", (peak - before).max(0.0));
        }
        Ok(outcome)
    }

    fn on<A: Access>(
        &self,
        access: &A,
        setup: &Setup,
        progress: &mut dyn FnMut(Progress) -> Proceed,
    ) -> Result<Outcome> {
        let mut outcome = match self.load {
            Load::HotBesideScan => beside::hot_set(self, access, setup, progress),
            Load::ReaderBesideWriters => beside::writers(self, access, setup, progress),
            _ => timed::perform(self, access, setup, progress),
        }?;
        if let Some(mib) = process::page_tables_mib() {
            outcome.push("page_tables_mib", "MiB", mib);
        }
        outcome.settings = access.settings();
        Ok(outcome)
    }
}
