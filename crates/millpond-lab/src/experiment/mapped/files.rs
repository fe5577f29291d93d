//! The file that is touched: made once, and dropped from the page cache between runs.

use crate::error::{LabError, Result};
use crate::experiment::Files;
use crate::experiment::files::{forget, make_file};
use crate::watch::Watch;
use crate::workload::Workload;
use crate::workload::mapped::{FILE, Mapped};
use millpond_core::units::Bytes;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The experiment's files around its runs.
pub(super) struct Around;

/// Makes the file. Runs change words of its pages and not their stamps.
pub(super) fn make(dir: &Path, bytes: u64, watch: &mut dyn Watch) -> Result<()> {
    let step = (bytes, "writing the file that is mapped");
    make_file(&Mapped::file(dir), FILE, step, 0.0, watch)?;
    settle(dir)
}

fn settle(dir: &Path) -> Result<()> {
    let written = Mapped::written(dir);
    if written.exists() {
        fs::remove_dir_all(&written).map_err(|e| LabError::path("cannot remove", &written, e))?;
    }
    let path = Mapped::file(dir);
    let failed = |e: io::Error| LabError::path("cannot sync", &path, e);
    let file = File::open(&path).map_err(failed)?;
    // removals and their discards, too, are written now and not during the next run
    rustix::fs::syncfs(&file).map_err(|e| failed(e.into()))?;
    forget(&file).map_err(failed)
}

impl Files for Around {
    fn bytes_max(&self, workload: &Workload) -> Bytes {
        match workload {
            Workload::Mapped(work) => Bytes(work.file_bytes),
            _ => Bytes(0),
        }
    }

    fn settle(&self, dir: &Path, _: &Workload) -> Result<()> {
        settle(dir)
    }
}
