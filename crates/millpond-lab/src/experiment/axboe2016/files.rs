//! The files around the runs: the one that is read is made once, those that were written are checked and
//! removed after each run, and neither leaves anything in the page cache for the next run.

use crate::error::{LabError, Result};
use crate::experiment::Files;
use crate::watch::Proceed;
use crate::watch::Watch;
use crate::workload::Workload;
use crate::workload::axboe2016::actors::{CHECKPOINT_FILE, LOG_BYTES, LOG_FILE};
use crate::workload::axboe2016::phase::{Actor, CHECKPOINT_FILE_BYTES};
use crate::workload::axboe2016::{Axboe2016, READ_FILE};
use crate::workload::data::{AlignedBuf, Content, PAGE, WRITE_MAX};
use millpond_core::units::Bytes;
use rustix::fs::Advice;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Written before it is synced and dropped from the page cache: enough for any disk to stream, little
/// beside any machine's memory.
const BATCH: u64 = 64 << 20;
/// How much to write to measure the device's rate, unless time is up before.
const TRIAL: u64 = 256 << 20;
/// How long that may take.
const TRIAL_TIME: Duration = Duration::from_secs(2);
/// The number of pages of a run's files that are compared with what was written; the last page of the last file is one.
const PAGES_CHECKED: usize = 64;

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

/// Writes a file of stamped pages, `number` in their stamps, and leaves none of it in the page cache. Returns the bytes
/// written a second.
pub(in crate::experiment) fn make_file(
    path: &Path,
    number: u64,
    (bytes, step): (u64, &str),
    share: f64,
    watch: &mut dyn Watch,
) -> Result<f64> {
    let began = Instant::now();
    write_file(path, number, bytes, &mut |written| {
        let detail = format!(
            "{} of {}",
            millpond::internal::quantity::size(Bytes(written)),
            millpond::internal::quantity::size(Bytes(bytes))
        );
        match watch.at(share * written as f64 / bytes as f64, step, &detail) {
            Proceed::Stop => Step::Stop,
            Proceed::Yes => Step::On,
        }
    })?;
    // the name as well
    sync_file_system(path.parent().unwrap_or(path))?;
    Ok(bytes as f64 / began.elapsed().as_secs_f64())
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

enum Step {
    On,
    Enough,
    Stop,
}

fn write_file(path: &Path, number: u64, bytes: u64, step: &mut dyn FnMut(u64) -> Step) -> Result<()> {
    let failed = |e: io::Error| LabError::path("cannot write", path, e);
    let file = File::create_new(path).map_err(failed)?;
    let mut content = Content::new(number);
    let mut offset = 0;
    while offset < bytes {
        let batch_end = (offset + BATCH).min(bytes);
        while offset < batch_end {
            let len = (WRITE_MAX as u64).min(batch_end - offset);
            file.write_all_at(content.slice(number, offset, len as usize), offset)
                .map_err(failed)?;
            offset += len;
        }
        file.sync_data().map_err(failed)?;
        forget(&file).map_err(failed)?;
        match step(offset) {
            Step::On => {}
            Step::Enough => return Ok(()),
            Step::Stop => return Err(LabError::Interrupted),
        }
    }
    Ok(())
}

/// Drops a file's pages from the page cache. Only clean ones go, so sync first. Dropping the whole machine's
/// caches would add nothing for these files, and slow all other processes down.
pub(in crate::experiment) fn forget(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

fn sync_file_system(dir: &Path) -> Result<()> {
    let failed = |e: io::Error| LabError::path("syncing", dir, e);
    let handle = File::open(dir).map_err(failed)?;
    rustix::fs::syncfs(handle).map_err(|e| failed(e.into()))
}

/// Checks what a run has written, removes it, and leaves disk and page cache as the run found them.
fn settle(dir: &Path, work: &Axboe2016) -> Result<()> {
    if work.phase.writes() {
        check_written(dir, work)?;
        for n in 0..work.files {
            let path = Axboe2016::written_file(dir, n);
            fs::remove_file(&path).map_err(|e| LabError::path("cannot remove", &path, e))?;
        }
        // the removal and its discards are written now and not during the next run
        sync_file_system(dir)?;
    }
    let log = (Axboe2016::log_file(dir), LOG_FILE);
    let synced = match work.phase.actor() {
        Some(Actor::Log) => vec![log],
        Some(Actor::Checkpoints) => vec![log, (Axboe2016::checkpoint_file(dir), CHECKPOINT_FILE)],
        _ => Vec::new(),
    };
    for (path, number) in synced {
        check_synced(&path, number, work)?;
        fs::remove_file(&path).map_err(|e| LabError::path("cannot remove", &path, e))?;
    }
    let path = Axboe2016::read_file(dir);
    File::open(&path)
        .and_then(|file| forget(&file))
        .map_err(|e| LabError::path("cannot drop from the page cache", &path, e))
}

/// Compares sizes, and some pages in full, as the kernel reads them from the device.
fn check_written(dir: &Path, work: &Axboe2016) -> Result<()> {
    let mut content = Content::new(work.seed);
    let mut random = fastrand::Rng::with_seed(work.seed);
    let pages = work.file_bytes / PAGE as u64;
    let mut buf = AlignedBuf::new(PAGE);
    for n in 0..work.files {
        let path = Axboe2016::written_file(dir, n);
        let len = fs::metadata(&path)
            .map_err(|e| LabError::path("a written file is missing:", &path, e))?
            .len();
        if len != work.file_bytes {
            let what = format!(
                "has {len} bytes and not the {} that were written and synced",
                work.file_bytes
            );
            return Err(LabError::path("wrong data:", &path, io::Error::other(what)));
        }
    }
    let some = (0..PAGES_CHECKED).map(|_| (random.u32(..work.files), random.u64(..pages)));
    let last = (work.files - 1, pages - 1);
    for (n, page) in some.chain([last]) {
        let path = Axboe2016::written_file(dir, n);
        let failed = |e: io::Error| LabError::path("checking", &path, e);
        let file = OpenOptions::new().read(true).open(&path).map_err(failed)?;
        // what the page cache holds came from a writer; what counts is what the device has
        forget(&file).map_err(failed)?;
        file.read_exact_at(&mut buf, page * PAGE as u64).map_err(failed)?;
        if !content.is_page(u64::from(n), page, &buf) {
            let what = format!("page {page} is not what was written there and synced");
            return Err(LabError::path("wrong data:", &path, io::Error::other(what)));
        }
    }
    Ok(())
}

/// Compares some pages of a file that has this number, all of which were synced.
fn check_synced(path: &Path, number: u64, work: &Axboe2016) -> Result<()> {
    let failed = |e: io::Error| LabError::path("checking", path, e);
    let file = File::open(path).map_err(failed)?;
    forget(&file).map_err(failed)?;
    let pages = file.metadata().map_err(failed)?.len() / PAGE as u64;
    let mut content = Content::new(work.seed);
    let mut random = fastrand::Rng::with_seed(work.seed);
    let mut buf = AlignedBuf::new(PAGE);
    for page in (0..PAGES_CHECKED.min(pages as usize)).map(|_| random.u64(..pages)) {
        file.read_exact_at(&mut buf, page * PAGE as u64).map_err(failed)?;
        if !content.is_page(number, page, &buf) {
            let what = format!("page {page} is not the record that was synced");
            return Err(LabError::path("wrong data:", path, io::Error::other(what)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::axboe2016::Phase;

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
