//! The files of runs on real devices: made by the workload, checked as the device has them, and removed.

use crate::error::{LabError, Result};
use crate::experiment::Files;
use crate::watch::Watch;
use crate::workload::Workload;
use crate::workload::data::{AlignedBuf, Content, PAGE};
use crate::workload::gorman2011::Gorman2011;
use millpond_core::units::Bytes;
use rustix::fs::Advice;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The number of pages of a run's files that are compared with what was written; the last page of the last file is one.
const PAGES_CHECKED: usize = 64;

/// The experiment's files around its runs.
pub(super) struct Around;

impl Files for Around {
    fn bytes_max(&self, workload: &Workload) -> Bytes {
        match workload {
            Workload::Gorman2011(work) => Bytes(work.bytes()),
            _ => Bytes(0),
        }
    }

    fn prepare(&self, _: &Path, _: &Workload, _: &mut dyn Watch) -> Result<()> {
        Ok(())
    }

    fn settle(&self, dir: &Path, workload: &Workload) -> Result<()> {
        let Workload::Gorman2011(work) = workload else {
            return Ok(());
        };
        check(dir, work)?;
        let folder = Gorman2011::folder(dir);
        fs::remove_dir_all(&folder).map_err(|e| LabError::path("cannot remove", &folder, e))?;
        // the removal and its discards are written now and not during the next run
        let failed = |e: io::Error| LabError::path("syncing", dir, e);
        let handle = File::open(dir).map_err(failed)?;
        rustix::fs::syncfs(handle).map_err(|e| failed(e.into()))
    }
}

/// Compares sizes, and some pages in full, as the kernel reads them from the device.
fn check(dir: &Path, work: &Gorman2011) -> Result<()> {
    let files = work.files(dir);
    for (path, bytes) in &files {
        let found = fs::metadata(path).map_err(|e| LabError::path("a written file is missing:", path, e))?;
        if found.len() != *bytes {
            let what = format!("has {} bytes and not the {bytes} that were written", found.len());
            return Err(LabError::path("wrong data:", path, io::Error::other(what)));
        }
    }
    let mut content = Content::new(work.seed);
    let mut random = fastrand::Rng::with_seed(work.seed);
    let mut buf = AlignedBuf::new(PAGE);
    let some: Vec<_> = (0..PAGES_CHECKED)
        .map(|_| {
            let n = random.usize(..files.len());
            (n, random.u64(..files[n].1 / PAGE as u64))
        })
        .collect();
    let last = (files.len() - 1, files[files.len() - 1].1 / PAGE as u64 - 1);
    for (n, page) in some.into_iter().chain([last]) {
        let path = &files[n].0;
        let failed = |e: io::Error| LabError::path("checking", path, e);
        let file = File::open(path).map_err(failed)?;
        // what the page cache holds came from a writer; what counts is what the device has
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(|e| failed(e.into()))?;
        file.read_exact_at(&mut buf, page * PAGE as u64).map_err(failed)?;
        if !content.is_page(n as u64, page, &buf) {
            let what = format!("page {page} is not what was written there and synced");
            return Err(LabError::path("wrong data:", path, io::Error::other(what)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::gorman2011::Load;

    #[test]
    fn written_files_are_checked_and_removed_and_wrong_data_is_found() {
        let dir = crate::scratch::for_tests();
        let load = Load::FsMark {
            rounds: 2,
            files: 2,
            file_bytes: 32 << 10,
            threads: 1,
        };
        let work = Gorman2011 { load, seed: 3 };
        let files = work.files(dir.path());
        let write = || {
            for (n, (path, bytes)) in (0..).zip(&files) {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, Content::new(3).slice(n, 0, *bytes as usize)).unwrap();
            }
        };
        let settle = || Around.settle(dir.path(), &Workload::Gorman2011(work.clone()));
        write();
        settle().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        write();
        let last = &files[3].0;
        let mut torn = fs::read(last).unwrap();
        *torn.last_mut().unwrap() ^= 1;
        fs::write(last, &torn).unwrap();
        let error = settle().unwrap_err().to_string();
        assert!(error.contains("page 7 is not what was written"), "{error}");
        fs::write(last, &torn[..4096]).unwrap();
        let error = settle().unwrap_err().to_string();
        assert!(error.contains("has 4096 bytes"), "{error}");
        fs::remove_file(last).unwrap();
        let error = settle().unwrap_err().to_string();
        assert!(error.contains("missing"), "{error}");
    }
}
