//! The files of runs on real devices: spool and history, made once, and not left in the page cache.

use crate::error::{LabError, Result};
use crate::experiment::Files;
use crate::experiment::files::{forget, make_file};
use crate::watch::Watch;
use crate::workload::Workload;
use crate::workload::dillon2000::{Dillon2000, HISTORY, SPOOL};
use millpond_core::units::Bytes;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The experiment's files around its runs.
pub(super) struct Around;

/// Makes both files of a workload. Its run changes words of the history and nothing else.
pub(super) fn make(dir: &Path, work: &Dillon2000, watch: &mut dyn Watch) -> Result<()> {
    let folder = work.folder(dir);
    fs::create_dir(&folder).map_err(|e| LabError::path("cannot create", &folder, e))?;
    for (path, number, bytes, step) in [
        (work.spool(dir), SPOOL, work.spool_bytes, "writing the spool"),
        (
            work.history(dir),
            HISTORY,
            work.history_bytes,
            "writing the history",
        ),
    ] {
        make_file(&path, number, (bytes, step), 0.0, watch)?;
    }
    Ok(())
}

impl Files for Around {
    fn bytes_max(&self, workload: &Workload) -> Bytes {
        match workload {
            Workload::Dillon2000(work) => Bytes(work.bytes()),
            _ => Bytes(0),
        }
    }

    fn prepare(&self, dir: &Path, workload: &Workload, watch: &mut dyn Watch) -> Result<()> {
        match workload {
            Workload::Dillon2000(work) => make(dir, work, watch),
            _ => Ok(()),
        }
    }

    fn settle(&self, dir: &Path, workload: &Workload) -> Result<()> {
        let Workload::Dillon2000(work) = workload else {
            return Ok(());
        };
        for path in [work.spool(dir), work.history(dir)] {
            let failed = |e: io::Error| LabError::path("cannot sync", &path, e);
            let file = File::open(&path).map_err(failed)?;
            file.sync_all().map_err(failed)?;
            forget(&file).map_err(failed)?;
        }
        Ok(())
    }
}
