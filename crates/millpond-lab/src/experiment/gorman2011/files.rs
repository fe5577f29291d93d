//! The files of runs on real devices: made by the workload, checked as the device has them, and removed.

use crate::error::{LabError, Result};
use crate::experiment::Files;
use crate::experiment::files::{check_written, sync_file_system};
use crate::workload::Workload;
use crate::workload::gorman2011::Gorman2011;
use millpond_core::units::Bytes;
use std::fs;
use std::path::Path;

/// The experiment's files around its runs.
pub(super) struct Around;

impl Files for Around {
    fn bytes_max(&self, workload: &Workload) -> Bytes {
        match workload {
            Workload::Gorman2011(work) => Bytes(work.bytes()),
            _ => Bytes(0),
        }
    }

    fn settle(&self, dir: &Path, workload: &Workload) -> Result<()> {
        let Workload::Gorman2011(work) = workload else {
            return Ok(());
        };
        check_written(&work.files(dir), work.seed)?;
        let folder = Gorman2011::folder(dir);
        fs::remove_dir_all(&folder).map_err(|e| LabError::path("cannot remove", &folder, e))?;
        sync_file_system(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::data::Content;
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
