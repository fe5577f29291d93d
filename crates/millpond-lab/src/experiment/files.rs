//! Files of runs on real devices: written in full and stamped, checked as the device has them, and kept out of the page
//! cache.

use crate::error::{LabError, Result};
use crate::watch::{Proceed, Watch};
use crate::workload::data::{AlignedBuf, Content, PAGE, WRITE_MAX};
use millpond::internal::quantity::size;
use millpond_core::units::Bytes;
use rustix::fs::Advice;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Written before it is synced and dropped from the page cache: enough for any disk to stream, little
/// beside any machine's memory.
const BATCH: u64 = 64 << 20;
/// The number of pages of a run's files that are compared with what was written; the last page of the last file is one.
const PAGES_CHECKED: usize = 64;

/// Writes a file of stamped pages, `number` in their stamps, and leaves none of it in the page cache. Returns the bytes
/// written a second.
pub(super) fn make_file(
    path: &Path,
    number: u64,
    (bytes, step): (u64, &str),
    share: f64,
    watch: &mut dyn Watch,
) -> Result<f64> {
    let began = Instant::now();
    write_file(path, number, bytes, &mut |written| {
        let detail = format!("{} of {}", size(Bytes(written)), size(Bytes(bytes)));
        match watch.at(share * written as f64 / bytes as f64, step, &detail) {
            Proceed::Stop => Step::Stop,
            Proceed::Yes => Step::On,
        }
    })?;
    // the name as well
    sync_file_system(path.parent().unwrap_or(path))?;
    Ok(bytes as f64 / began.elapsed().as_secs_f64())
}

/// How a file that is being written goes on.
pub(super) enum Step {
    On,
    Enough,
    Stop,
}

/// Writes a file of stamped pages; `step` is told after each part how many bytes there are.
pub(super) fn write_file(
    path: &Path,
    number: u64,
    bytes: u64,
    step: &mut dyn FnMut(u64) -> Step,
) -> Result<()> {
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
pub(super) fn forget(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Removals and their discards, too, are written now and not during the next run.
pub(super) fn sync_file_system(dir: &Path) -> Result<()> {
    let failed = |e: io::Error| LabError::path("syncing", dir, e);
    let handle = File::open(dir).map_err(failed)?;
    rustix::fs::syncfs(handle).map_err(|e| failed(e.into()))
}

/// Compares sizes, and some pages in full, as the device has them. The number in a file's stamps is its place.
pub(super) fn check_written(files: &[(PathBuf, u64)], seed: u64) -> Result<()> {
    for (path, bytes) in files {
        let found = fs::metadata(path).map_err(|e| LabError::path("a written file is missing:", path, e))?;
        if found.len() != *bytes {
            return wrong(
                path,
                format!("has {} bytes and not the {bytes} that were written", found.len()),
            );
        }
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut some: Vec<(usize, u64)> = Vec::new();
    for _ in 0..PAGES_CHECKED {
        let n = random.usize(..files.len());
        some.push((n, random.u64(..files[n].1 / PAGE as u64)));
    }
    if let Some((_, bytes)) = files.last() {
        some.push((files.len() - 1, bytes / PAGE as u64 - 1));
    }
    let mut content = Content::new(seed);
    for (n, page) in some {
        check_page(&files[n].0, n as u64, page, &mut content)?;
    }
    Ok(())
}

/// Compares some pages of a file that has this number, all of which were synced.
pub(super) fn check_synced(path: &Path, number: u64, seed: u64) -> Result<()> {
    let found = fs::metadata(path).map_err(|e| LabError::path("checking", path, e))?;
    let pages = found.len() / PAGE as u64;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut content = Content::new(seed);
    for page in (0..PAGES_CHECKED.min(pages as usize)).map(|_| random.u64(..pages)) {
        check_page(path, number, page, &mut content)?;
    }
    Ok(())
}

fn check_page(path: &Path, number: u64, page: u64, content: &mut Content) -> Result<()> {
    let failed = |e: io::Error| LabError::path("checking", path, e);
    let file = File::open(path).map_err(failed)?;
    // what the page cache holds came from a writer; what counts is what the device has
    forget(&file).map_err(failed)?;
    let mut buf = AlignedBuf::new(PAGE);
    file.read_exact_at(&mut buf, page * PAGE as u64).map_err(failed)?;
    match content.is_page(number, page, &buf) {
        true => Ok(()),
        false => wrong(
            path,
            format!("page {page} is not what was written there and synced"),
        ),
    }
}

fn wrong(path: &Path, what: String) -> Result<()> {
    Err(LabError::path("wrong data:", path, io::Error::other(what)))
}
