//! The workload on targets that live in memory and do what a test needs.

use super::data::PAGE;
use super::record::Read;
use super::*;
use crate::outcome::Setting;
use crate::storage::{Access, Served};
use std::collections::HashMap;
use std::sync::Arc;

const PAGES: u64 = 64;

/// Files in memory. Only reads of page 0 are hits. A sync waits for a read, if there is a reader.
#[derive(Default)]
struct Memory {
    files: Mutex<HashMap<PathBuf, Arc<Mutex<Vec<u8>>>>>,
    synced: AtomicBool,
    reads: Arc<AtomicU64>,
    /// The mistake.
    fault: Fault,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Fault {
    #[default]
    None,
    WriteFails,
    SyncFails,
    WrongPage,
    ReadFails,
}

struct MemoryFile {
    bytes: Arc<Mutex<Vec<u8>>>,
    reads: Arc<AtomicU64>,
    fault: Fault,
}

impl Memory {
    fn with_read_file(fault: Fault) -> Memory {
        let memory = Memory {
            fault,
            ..Memory::default()
        };
        let mut content = Content::new(1);
        let bytes = content.slice(READ_FILE, 0, PAGES as usize * PAGE).to_vec();
        let path = Axboe2016::read_file(&setup().dir);
        memory
            .files
            .lock()
            .unwrap()
            .insert(path, Arc::new(Mutex::new(bytes)));
        memory
    }

    fn file(&self, bytes: Arc<Mutex<Vec<u8>>>) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(MemoryFile {
            bytes,
            reads: Arc::clone(&self.reads),
            fault: self.fault,
        }))
    }
}

impl Storage for Memory {
    fn open(&self, path: &Path, _: Access) -> io::Result<Box<dyn StorageFile>> {
        let bytes = self.files.lock().unwrap().get(path).cloned();
        self.file(bytes.ok_or(io::ErrorKind::NotFound)?)
    }

    fn create(&self, path: &Path, _len: u64) -> io::Result<Box<dyn StorageFile>> {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let old = self
            .files
            .lock()
            .unwrap()
            .insert(path.to_owned(), Arc::clone(&bytes));
        assert!(old.is_none(), "{} was created twice", path.display());
        self.file(bytes)
    }

    fn sync_all(&self) -> io::Result<()> {
        if self.fault == Fault::SyncFails {
            return Err(io::Error::other("the sync failed"));
        }
        let read = self.reads.load(Ordering::Relaxed);
        while read > 0 && self.reads.load(Ordering::Relaxed) < read + 100 {
            thread::yield_now();
        }
        self.synced.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting::new("memory", "all of it")]
    }
}

impl StorageFile for MemoryFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<Served> {
        let n = self.reads.fetch_add(1, Ordering::Relaxed);
        if self.fault == Fault::ReadFails && n > 20 {
            return Err(io::Error::other("the read failed"));
        }
        let from = if self.fault == Fault::WrongPage && n > 20 {
            0
        } else {
            offset as usize
        };
        buf.copy_from_slice(&self.bytes.lock().unwrap()[from..][..buf.len()]);
        Ok(if offset == 0 {
            Served::Memory
        } else {
            Served::Device
        })
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        if self.fault == Fault::WriteFails && offset > 0 {
            return Err(io::Error::other("the write failed"));
        }
        let mut bytes = self.bytes.lock().unwrap();
        let begin = offset as usize;
        assert!(begin <= bytes.len(), "files grow at their end");
        let end = bytes.len().max(begin + buf.len());
        bytes.resize(end, 0);
        bytes[begin..][..buf.len()].copy_from_slice(buf);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn setup() -> Setup {
    Setup::of_files("memory", "memory", Path::new("/nowhere"), Bytes::from_mib(16))
}

fn work(phase: Phase) -> Axboe2016 {
    Axboe2016 {
        phase,
        files: 7,
        file_bytes: (3 << 20) + 4096,
        writers: 2,
        read_file_bytes: PAGES * PAGE as u64,
        reader_alone_ms: 50,
        seed: 11,
    }
}

fn run(memory: &Memory, phase: Phase) -> Result<Outcome> {
    perform(&work(phase), memory, &setup(), &mut |_| Proceed::Yes)
}

#[test]
fn every_file_is_written_in_full_with_its_own_content() {
    let memory = Memory::with_read_file(Fault::None);
    let outcome = run(&memory, Phase::WritersAndReader).unwrap();
    assert!(memory.synced.load(Ordering::Relaxed));
    let work = work(Phase::WritersAndReader);
    let mut content = Content::new(work.seed);
    let files = memory.files.lock().unwrap();
    assert_eq!(files.len(), 8);
    for n in 0..work.files {
        let bytes = files[&Axboe2016::written_file(&setup().dir, n)].lock().unwrap();
        assert_eq!(bytes.len() as u64, work.file_bytes);
        for (index, page) in bytes.chunks(PAGE).enumerate() {
            assert!(
                content.is_page(n.into(), index as u64, page),
                "file {n} page {index}"
            );
        }
    }
    let series = outcome.series("writers_mb_per_s").unwrap();
    let bytes: f64 = series.values.iter().flatten().sum::<f64>() * series.step_s * 1e6;
    assert!((bytes - work.written_bytes() as f64).abs() < 1.0, "{bytes}");
    assert_eq!(outcome.settings, [Setting::new("memory", "all of it")]);
}

#[test]
fn each_phase_measures_its_own() {
    let reader = [
        "reader_reads_per_s",
        "reader_latency_p99_us",
        "reader_latency_max_us",
        "reader_hits_percent",
    ];
    let writers = [
        "writers_seconds",
        "writers_write_seconds",
        "writers_mb_per_s",
        "writers_call_max_us",
    ];
    let log = [
        "syncs_per_s",
        "sync_p50_us",
        "sync_p99_us",
        "sync_max_us",
        "append_max_us",
    ];
    for phase in Phase::ALL {
        let outcome = run(&Memory::with_read_file(Fault::None), phase).unwrap();
        for name in reader {
            assert_eq!(outcome.value(name).is_some(), phase.reads(), "{phase:?} {name}");
        }
        for name in writers {
            assert_eq!(outcome.value(name).is_some(), phase.writes(), "{phase:?} {name}");
        }
        let is_log = matches!(phase.actor(), Some(phase::Actor::Log | phase::Actor::Checkpoints));
        for name in log {
            assert_eq!(outcome.value(name).is_some(), is_log, "{phase:?} {name}");
        }
        let is_scan = phase == Phase::Scan;
        assert_eq!(outcome.value("scan_mb_per_s").is_some(), is_scan, "{phase:?}");
        assert!(outcome.value("resident_peak_mib").is_some_and(|mib| mib > 0.0));
    }
}

#[test]
fn hits_are_counted_and_their_latency_is_not_mixed_with_that_of_misses() {
    let ms = Duration::from_millis;
    let mut read = Read::default();
    for n in 0..6 {
        read.add(ms(n), ms(n + 1), ms(1), Served::Memory);
    }
    // began 30 ms before the beginning
    read.add(ms(0), ms(20), ms(50), Served::Device);
    read.add(ms(20), ms(420), ms(400), Served::Unknown);
    let mut outcome = Outcome::default();
    read.report(ms(500), 5, &mut outcome);
    let value = |name: &str| outcome.value(name).map(f64::round);
    assert_eq!(value("reader_reads_per_s"), Some(16.0));
    assert_eq!(value("reader_hits_percent"), Some(75.0));
    assert_eq!(value("reader_misses"), Some(2.0));
    assert_eq!(value("reader_latency_max_us"), Some(400_000.0));
    assert_eq!(value("reader_latency_mean_us"), Some(225_000.0));
    assert!(value("reader_latency_p50_us").is_some_and(|us| (49_900.0..=50_100.0).contains(&us)));
    let waited = &outcome.series("reader_latency_max_us").unwrap().values;
    assert_eq!(waited[..], [Some(400_000.0); 5]);
}

#[test]
fn an_error_of_the_target_ends_the_run_and_names_the_file() {
    let table = [
        (
            Fault::WriteFails,
            Phase::WritersAlone,
            "/nowhere/written-000",
            "the write failed",
        ),
        (
            Fault::WriteFails,
            Phase::WritersAndReader,
            "/nowhere/written-000",
            "the write failed",
        ),
        (
            Fault::SyncFails,
            Phase::WritersAlone,
            "syncing /nowhere",
            "the sync failed",
        ),
        (
            Fault::ReadFails,
            Phase::ReaderAlone,
            "/nowhere/read-file",
            "the read failed",
        ),
        (
            Fault::WrongPage,
            Phase::ReaderAlone,
            "/nowhere/read-file",
            "something else in it",
        ),
    ];
    for (fault, phase, place, what) in table {
        // However long it takes until the reader comes to the page.
        let mut work = work(phase);
        work.reader_alone_ms = 3_600_000;
        let memory = Memory::with_read_file(fault);
        let error = perform(&work, &memory, &setup(), &mut |_| Proceed::Yes);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(place) && error.contains(what), "{error}");
    }
}

#[test]
fn stopping_ends_a_run_that_would_go_on() {
    let memory = Memory::with_read_file(Fault::None);
    let mut work = work(Phase::ReaderAlone);
    work.reader_alone_ms = 3_600_000;
    let result = perform(&work, &memory, &setup(), &mut |progress| {
        assert_eq!(progress.doing, "reading");
        Proceed::Stop
    });
    assert!(matches!(result, Err(LabError::Interrupted)), "{result:?}");
}

#[test]
fn the_same_seed_writes_the_same_bytes_in_any_number_of_threads() {
    let written = |writers: u32| {
        let memory = Memory::with_read_file(Fault::None);
        let work = Axboe2016 {
            writers,
            ..work(Phase::WritersAlone)
        };
        perform(&work, &memory, &setup(), &mut |_| Proceed::Yes).unwrap();
        let files = memory.files.into_inner().unwrap();
        let mut files: Vec<_> = files
            .into_iter()
            .map(|(path, bytes)| (path, bytes.lock().unwrap().clone()))
            .collect();
        files.sort();
        files
    };
    assert!(written(1) == written(3));
}
