//! The files around the runs: the one that is read is made once, those that were written are checked and
//! removed after each run, and neither leaves anything in the page cache for the next run.

use crate::error::{LabError, Result};
use crate::experiment::Files;
use crate::experiment::files::{
    Step, check_synced, check_written, forget, make_file, sync_file_system, write_file,
};
use crate::watch::{Proceed, Watch};
use crate::workload::Workload;
use crate::workload::axboe2016::actors::{CHECKPOINT_FILE, LOG_BYTES, LOG_FILE};
use crate::workload::axboe2016::phase::{Actor, CHECKPOINT_FILE_BYTES};
use crate::workload::axboe2016::{Axboe2016, READ_FILE};
use millpond_core::units::Bytes;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

/// How much to write to measure the device's rate, unless time is up before.
const TRIAL: u64 = 256 << 20;
/// How long that may take.
const TRIAL_TIME: Duration = Duration::from_secs(2);

/// The write rate of the device under `dir` in bytes a second, measured by writing up to 256 MiB and syncing.
pub(super) fn write_rate(dir: &Path, watch: &mut dyn Watch) -> Result<f64> {
    let path = dir.join("trial");
    let began = Instant::now();
    let mut rate = 0.0;
    write_file(&path, 0, TRIAL, &mut |written| {
        let seconds = began.elapsed().as_secs_f64().max(1e-6);
        rate = written as f64 / seconds;
        match watch.at(0.0, "measuring how fast the disk takes writes", "") {
            Proceed::Stop => Step::Stop,
            Proceed::Yes if began.elapsed() > TRIAL_TIME => Step::Enough,
            Proceed::Yes => Step::On,
        }
    })?;
    fs::remove_file(&path).map_err(|e| LabError::path("cannot remove", &path, e))?;
    Ok(rate)
}

/// Writes the file that is read, in full, so that no read finds a hole. Returns the bytes written a second.
pub(super) fn make_read_file(dir: &Path, bytes: u64, share: f64, watch: &mut dyn Watch) -> Result<f64> {
    let step = (bytes, "writing the file to be read");
    make_file(&Axboe2016::read_file(dir), READ_FILE, step, share, watch)
}

/// The experiment's files around its runs.
pub(super) struct Around;

impl Files for Around {
    fn bytes_max(&self, workload: &Workload) -> Bytes {
        let Workload::Axboe2016(work) = workload else {
            return Bytes(0);
        };
        let log = match work.phase.actor() {
            Some(Actor::Log) => LOG_BYTES,
            Some(Actor::Checkpoints) => LOG_BYTES + CHECKPOINT_FILE_BYTES,
            _ => 0,
        };
        Bytes(work.read_file_bytes + work.written_bytes() + log)
    }

    fn prepare(&self, dir: &Path, workload: &Workload, watch: &mut dyn Watch) -> Result<()> {
        let Workload::Axboe2016(work) = workload else {
            return Ok(());
        };
        make_read_file(dir, work.read_file_bytes, 1.0, watch).map(drop)
    }

    fn settle(&self, dir: &Path, workload: &Workload) -> Result<()> {
        let Workload::Axboe2016(work) = workload else {
            return Ok(());
        };
        settle(dir, work)
    }
}

/// Checks what a run has written, removes it, and leaves disk and page cache as the run found them.
fn settle(dir: &Path, work: &Axboe2016) -> Result<()> {
    if work.phase.writes() {
        let files = (0..work.files).map(|n| (Axboe2016::written_file(dir, n), work.file_bytes));
        let files: Vec<_> = files.collect();
        check_written(&files, work.seed)?;
        for (path, _) in &files {
            fs::remove_file(path).map_err(|e| LabError::path("cannot remove", path, e))?;
        }
        sync_file_system(dir)?;
    }
    let log = (Axboe2016::log_file(dir), LOG_FILE);
    let synced = match work.phase.actor() {
        Some(Actor::Log) => vec![log],
        Some(Actor::Checkpoints) => vec![log, (Axboe2016::checkpoint_file(dir), CHECKPOINT_FILE)],
        _ => Vec::new(),
    };
    for (path, number) in synced {
        check_synced(&path, number, work.seed)?;
        fs::remove_file(&path).map_err(|e| LabError::path("cannot remove", &path, e))?;
    }
    let path = Axboe2016::read_file(dir);
    File::open(&path)
        .and_then(|file| forget(&file))
        .map_err(|e| LabError::path("cannot drop from the page cache", &path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::axboe2016::Phase;
    use crate::workload::data::{Content, PAGE};

    fn work(dir: &Path) -> Axboe2016 {
        let work = Axboe2016 {
            phase: Phase::WritersAndReader,
            files: 3,
            file_bytes: 256 << 10,
            writers: 1,
            read_file_bytes: 1 << 20,
            reader_alone_ms: 1,
            seed: 5,
        };
        make_read_file(dir, work.read_file_bytes, 1.0, &mut ()).unwrap();
        for n in 0..work.files {
            let bytes = Content::new(work.seed)
                .slice(n.into(), 0, work.file_bytes as usize)
                .to_vec();
            fs::write(Axboe2016::written_file(dir, n), bytes).unwrap();
        }
        work
    }

    #[test]
    fn written_files_are_checked_and_removed() {
        let dir = crate::scratch::for_tests();
        let work = work(dir.path());
        settle(dir.path(), &work).unwrap();
        let left: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .flatten()
            .map(|e| e.path())
            .collect();
        assert_eq!(left, [Axboe2016::read_file(dir.path())]);
        assert_eq!(fs::metadata(&left[0]).unwrap().len(), 1 << 20);
    }

    #[test]
    fn a_file_that_is_wrong_short_or_missing_is_found() {
        let dir = crate::scratch::for_tests();
        let work = work(dir.path());
        let path = Axboe2016::written_file(dir.path(), 2);
        let good = fs::read(&path).unwrap();
        let mut torn = good.clone();
        // the last page is always checked
        *torn.last_mut().unwrap() ^= 1;
        fs::write(&path, &torn).unwrap();
        let error = settle(dir.path(), &work).unwrap_err().to_string();
        assert!(error.contains("page 63 is not what was written"), "{error}");
        fs::write(&path, &good[..good.len() - PAGE]).unwrap();
        let error = settle(dir.path(), &work).unwrap_err().to_string();
        assert!(error.contains("258048 bytes"), "{error}");
        fs::remove_file(&path).unwrap();
        let error = settle(dir.path(), &work).unwrap_err().to_string();
        assert!(error.contains("missing"), "{error}");
    }

    #[test]
    fn the_trial_gives_a_rate_and_leaves_nothing() {
        let dir = crate::scratch::for_tests();
        assert!(write_rate(dir.path(), &mut ()).unwrap() > 0.0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
