//! An append-only log on a cache, and how a test finds what is wrong with it. `docs/TESTING.md` goes through it.
//!
//! `cargo run -p millpond --example find_a_bug`
//!
//! The log is there three times: as it should be, with a sync that was forgotten, and without a checksum of its records.
//! All three pass a test that writes, closes and reads again.

#![allow(clippy::print_stdout, reason = "what it finds is what it is for")]

use millpond::trace::{Trace, What};
use millpond::{File, OpenOptions, PageCache, Result, device};
use millpond_testing::{Crashing, Fate, Fault, FaultRule, FaultTarget, Faulty};
use std::path::Path;
use std::sync::Arc;

/// The fault of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Nothing.
    Nothing,
    /// A record is acknowledged before it is durable.
    NoSync,
    /// A record that is there in part is taken for whole.
    NoSum,
}

/// A log: records one after the other, each preceded by its length and its checksum.
pub struct Log {
    file: File,
    end: u64,
    planted: Planted,
}

const HEADER: usize = 8;

impl Log {
    /// A new log.
    pub fn create(cache: &PageCache, path: &Path, planted: Planted) -> Result<Log> {
        let file = cache.open(path, OpenOptions::new().create(true))?;
        let end = 0;
        Ok(Log { file, end, planted })
    }

    /// Appends a record. It is there after a crash if this returns `Ok`.
    pub fn append(&mut self, record: &[u8]) -> Result<()> {
        let mut bytes = (record.len() as u32).to_le_bytes().to_vec();
        bytes.extend(sum(record).to_le_bytes());
        bytes.extend(record);
        self.file.write_at(&bytes, self.end)?;
        if self.planted != Planted::NoSync {
            self.file.sync_data()?;
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// The records of a log that was left like this: as many as are whole.
    pub fn recover(mut left: &[u8], planted: Planted) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        while let Some((header, rest)) = left.split_at_checked(HEADER) {
            let number = |bytes: &[u8]| {
                bytes
                    .iter()
                    .rev()
                    .fold(0, |n: u32, byte| n << 8 | u32::from(*byte))
            };
            let (len, sum_then) = (number(&header[..4]), number(&header[4..]));
            let Some((record, next)) = rest.split_at_checked(len as usize) else {
                break;
            };
            if len == 0 || (planted != Planted::NoSum && sum(record) != sum_then) {
                break;
            }
            records.push(record.to_vec());
            left = next;
        }
        records
    }
}

/// FNV-1a.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Some records, shorter and longer than a sector of the disk.
fn records() -> Vec<Vec<u8>> {
    (1..=16_u8).map(|n| vec![n; 40 + 173 * usize::from(n)]).collect()
}

/// Every crash that could have been: each moment of a run, with what the disk had taken lost, kept, or anything between.
/// The fault, if there is one.
pub fn crash_everywhere(
    folder: &Path,
    planted: Planted,
) -> std::result::Result<String, Box<dyn std::error::Error>> {
    let disk = Arc::new(Crashing::new(device::best(), 512));
    let cache = PageCache::builder()
        .memory(4 << 20)
        .device(disk.clone())
        .build()?;
    let mut log = Log::create(&cache, &folder.join("log"), planted)?;
    let mut acknowledged = Vec::new();
    for record in records() {
        log.append(&record)?;
        acknowledged.push(disk.position()); // a crash from this moment on has the record
    }
    log.file.close()?;

    let (journal, mut images) = (disk.journal(), 0);
    let file = journal.files().next().ok_or("nothing was written")?;
    let mut crash = journal.file(file).ok_or("nothing was written")?;
    loop {
        let must = acknowledged.iter().filter(|&&at| at <= crash.until()).count();
        for fate in [Fate::Lost, Fate::Kept]
            .into_iter()
            .chain((0..20).map(Fate::Drawn))
        {
            let (left, _) = crash.image(fate);
            let found = Log::recover(&left, planted);
            images += 1;
            if !records().starts_with(&found) {
                let wrong = found.iter().zip(records()).position(|(is, was)| *is != was);
                let wrong = wrong.map_or(found.len(), |n| n + 1);
                return Ok(format!("{fate:?}: record {wrong} is not what was appended"));
            }
            if found.len() < must {
                let there = found.len();
                return Ok(format!(
                    "{fate:?}: {must} records were acknowledged, {there} are there"
                ));
            }
        }
        if crash.advance().is_none() {
            return Ok(format!("nothing, in {images} images of crashes"));
        }
    }
}

/// A disk that is full, and has room again. What is wrong, if something is.
pub fn fill_the_disk(
    folder: &Path,
    planted: Planted,
) -> std::result::Result<String, Box<dyn std::error::Error>> {
    const ENOSPC: i32 = 28;
    let disk = Arc::new(Faulty::new(device::best(), 1));
    let cache = PageCache::builder()
        .memory(4 << 20)
        .device(disk.clone())
        .build()?;
    let path = folder.join("log");
    let mut log = Log::create(&cache, &path, planted)?;
    log.append(b"there is room")?;

    disk.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(ENOSPC)));
    match log.append(b"there is none") {
        Ok(()) => return Ok("a record was acknowledged that the disk had no room for".into()),
        Err(error) if error.errno() != ENOSPC => return Err(error.into()),
        Err(_) => {}
    }
    disk.clear();
    log.append(b"there is room again")?; // in the place of the one before
    log.file.close()?;

    let found = Log::recover(&std::fs::read(&path)?, planted);
    match found == [&b"there is room"[..], b"there is room again"] {
        true => Ok("nothing".into()),
        false => Ok(format!("{} records are there, and not the two", found.len())),
    }
}

/// The log's requests to its file. Returns the fault, if there is one.
pub fn look_at_the_calls(
    folder: &Path,
    planted: Planted,
) -> std::result::Result<String, Box<dyn std::error::Error>> {
    let cache = PageCache::builder().memory(4 << 20).build()?;
    let mut log = Log::create(&cache, &folder.join("log"), planted)?;
    let recording = cache.record(folder.join("trace"))?;
    for record in records() {
        log.append(&record)?;
    }
    recording.stop()?;

    let trace = Trace::read(&folder.join("trace"))?;
    let syncs = trace
        .accesses
        .iter()
        .filter(|call| call.what == What::Sync)
        .count();
    match records().len() - syncs {
        0 => Ok("nothing".into()),
        missing => Ok(format!("{missing} appends without a sync")),
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("millpond-find-a-bug-{}", std::process::id()));
    let look =
        |what: &str, test: fn(&Path, Planted) -> _| -> std::result::Result<(), Box<dyn std::error::Error>> {
            for planted in [Planted::Nothing, Planted::NoSync, Planted::NoSum] {
                std::fs::create_dir(&folder)?;
                let found = test(&folder, planted);
                std::fs::remove_dir_all(&folder)?;
                let (planted, found): (_, String) = (format!("{planted:?}"), found?);
                println!("{what:20} planted {planted:8} found {found}");
                if planted == "Nothing" && !found.starts_with("nothing") {
                    return Err(format!("{what}: the log has a bug that was not planted: {found}").into());
                }
            }
            Ok(())
        };
    look("crash everywhere", crash_everywhere)?;
    look("fill the disk", fill_the_disk)?;
    look("look at the calls", look_at_the_calls)
}
