//! Millpond's engine on real files: the page cache in the run's own process.
//!
//! On `--device hdd` and the other modelled ones the files are real as well, and the modelled disk's service time is
//! around every transfer.
//!
//! The slowest read that missed, write and sync of a run are explained; such calls cost two looks at the clock for that.
//!
//! The variant `mapping` is `goal` in which a file that is filled in place is a [`Mapping`].
//!
//! While it runs, the cache can be looked into and retuned by `millpond stat`, `inspect` and `set`.

use super::{Backend, Driver, RowRequest, Rows, millpond_rows, reasons};
use crate::error::{LabError, Result};
use crate::outcome::{Measure, Setting};
use crate::setup::{Device, Setup};
use crate::storage::DirtyLimits;
use crate::storage::{Access, Served, Storage, StorageFile};
use crate::workload::data::PAGE;
use millpond::device;
use millpond::explain::Explanation;
use millpond::internal::Surface;
use millpond::{MapOptions, Mapping, OpenOptions, PageCache, Stats, explain};
use millpond_core::manager::Derived;
use millpond_core::options::Options;
use millpond_core::page::PageKind;
use millpond_core::reclaim::trace::{Caller, Outcome, Trace};
use millpond_core::units::Bytes;
use millpond_testing::Modelled;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// This kind of target.
pub const KIND: Backend = Backend {
    name: "engine",
    about: "Millpond's page cache on real files, in a process of its own",
    rows,
    driver: Driver::Files(open),
};

/// Files that are filled in place are mapped.
pub(crate) const MAPPING: &str = "mapping";

/// Whether this machine lets files be mapped.
///
/// # Errors
/// Why not, as a part of a sentence.
pub(crate) fn can_map() -> Result<(), String> {
    let built = PageCache::builder().memory(16 << 20).mappings(true).build();
    built.map(drop).map_err(|e| error(e).to_string())
}

fn rows(request: &RowRequest) -> Result<Rows> {
    let mut rows = millpond_rows::rows(request, "engine", &["goal"], false)?;
    for row in &mut rows.rows {
        row.device_bytes_per_s = match request.device {
            Device::Real => None,
            Device::Modelled(disk) => Some(disk.write_bytes_per_s()),
        };
    }
    Ok(rows)
}

fn open(setup: &Setup) -> Result<Box<dyn Storage>> {
    let failed = |e: millpond::Error| LabError::path("cannot open the engine for", &setup.dir, error(e));
    let is_mapping = setup.variant == MAPPING;
    let options = match is_mapping {
        true => Options::default(),
        false => millpond_rows::options(setup)?,
    };
    let mut modelled = None;
    if let Device::Modelled(disk) = setup.device {
        let device = Modelled::new(device::best(), disk.model()?)
            .map_err(|e| LabError::path("cannot model the disk of", &setup.dir, e))?;
        let device = Arc::new(device);
        modelled = Some(device);
    }
    let build = |control| {
        let mut builder = PageCache::builder()
            .memory(setup.memory.0)
            .options(options.clone())
            .mappings(is_mapping)
            .calibrate(setup.read_latency_goal.is_none())
            .control(control);
        if let Some(goal) = setup.read_latency_goal {
            builder = builder.read_latency_goal(Duration::from_nanos(goal.0));
        }
        if let Some(device) = &modelled {
            builder = builder.device(device.clone());
        }
        builder.build()
    };
    // A run is worth as much on a host that has no place for the socket.
    let cache = match build(true) {
        Err(millpond::Error::Control { .. }) => build(false),
        built => built,
    };
    let cache = cache.map_err(failed)?;
    let dir = File::open(&setup.dir).map_err(|e| LabError::path("cannot open", &setup.dir, e))?;
    Ok(Box::new(Engine {
        cache,
        dir,
        memory: setup.memory,
        is_mapping,
        modelled,
        slowest: Arc::default(),
    }))
}

struct Engine {
    cache: PageCache,
    dir: File,
    memory: Bytes,
    is_mapping: bool,
    modelled: Option<Arc<Modelled>>,
    slowest: Arc<Slowest>,
}

impl Engine {
    fn file(&self, path: &Path, options: OpenOptions) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(EngineFile {
            file: self.cache.open(path, options).map_err(error)?,
            slowest: self.slowest.clone(),
        }))
    }
}

/// The slowest read that missed, write and sync of a run, and what each has waited for.
#[derive(Default)]
struct Slowest([(AtomicU64, Mutex<Option<Explanation>>); 3]);

const READ: usize = 0;
const WRITE: usize = 1;
const SYNC: usize = 2;

impl Slowest {
    fn explained<T>(&self, kind: usize, call: impl FnOnce() -> T) -> T {
        let (result, why) = explain(call);
        let (longest, slowest) = &self.0[kind];
        let took = why.took.as_nanos() as u64;
        if took > longest.load(Ordering::Relaxed) {
            let mut slowest = slowest.lock().unwrap_or_else(PoisonError::into_inner);
            if longest.fetch_max(took, Ordering::Relaxed) < took {
                *slowest = Some(why);
            }
        }
        result
    }

    fn sentences(&self) -> Vec<String> {
        let sentences = self.0.iter().filter_map(|(_, slowest)| {
            let slowest = slowest.lock().unwrap_or_else(PoisonError::into_inner);
            Some(slowest.as_ref()?.to_string())
        });
        sentences.collect()
    }
}

impl Storage for Engine {
    /// The engine detects how a file is read.
    fn open(&self, path: &Path, _: Access) -> io::Result<Box<dyn StorageFile>> {
        self.file(path, OpenOptions::new())
    }

    fn create(&self, path: &Path, _len: u64) -> io::Result<Box<dyn StorageFile>> {
        // Fails if it is there.
        drop(File::create_new(path)?);
        self.file(path, OpenOptions::new().write(true))
    }

    /// Dropping the last handle of a file writes its dirty pages: as many files stay open as twice the memory holds, so
    /// their pages have left before.
    fn files_kept_open(&self, file_bytes: u64) -> usize {
        (2 * self.memory.0 / file_bytes.max(1)) as usize + 1
    }

    /// Each page is appended, and written before any other thread sees it; or the file has its length at once, and is mapped.
    fn create_in_place(&self, path: &Path, len: u64) -> io::Result<Box<dyn StorageFile>> {
        drop(File::create_new(path)?);
        let file = self
            .cache
            .open(path, OpenOptions::new().write(true))
            .map_err(error)?;
        let slowest = self.slowest.clone();
        if self.is_mapping {
            file.set_len(len).map_err(error)?;
            let mapping = file.map(.., &MapOptions::new().writable(true));
            let mapping = mapping.map_err(error)?;
            return Ok(Box::new(EngineMapping { mapping, slowest }));
        }
        Ok(Box::new(EnginePages(EngineFile { file, slowest })))
    }

    fn open_to_change(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        self.file(path, OpenOptions::new().write(true))
    }

    fn reclaim(&self) -> Vec<Measure> {
        reclaim_of(&self.cache.stats())
    }

    fn sync_all(&self) -> io::Result<()> {
        let synced = self.slowest.explained(SYNC, || self.cache.sync_all());
        synced.map_err(error)?;
        // The names of new files.
        self.dir.sync_all()
    }

    fn set_dirty_limits(&self, both: DirtyLimits) -> io::Result<()> {
        let mut options = self.cache.options();
        (options.dirty.background, options.dirty.hard) = (both.background, both.hard);
        self.cache.set_options(options).map_err(error)
    }

    fn dirty_limits_are_fresh(&self) -> Option<bool> {
        let derived = self.cache.stats().derived;
        Some(derived == Derived::of(&self.cache.options(), derived.frames))
    }

    fn settings(&self) -> Vec<Setting> {
        let (stats, options) = (self.cache.stats(), self.cache.options());
        let mut settings = vec![
            Setting::new("device", stats.device),
            Setting::new(
                "frames",
                format_args!(
                    "{} of {} bytes",
                    stats.derived.frames.0,
                    options.page_size.bytes()
                ),
            ),
            Setting::new("frames in huge pages", stats.is_huge),
            Setting::new(
                "dirty background, hard",
                format_args!(
                    "{:?}, {:?}",
                    stats.derived.dirty.background, stats.derived.dirty.hard
                ),
            ),
            Setting::new("admission", format_args!("{:?}", options.admission)),
            Setting::new("control socket", self.cache.control_path().is_some()),
        ];
        if let Some(modelled) = &self.modelled {
            settings.push(Setting::new(
                "modelled disk",
                format_args!("{:?}", modelled.lateness()),
            ));
        }
        settings
    }

    fn in_transit_bytes(&self) -> Option<u64> {
        Some(self.cache.stats().occupancy.in_transit_writes.0)
    }

    fn explanations(&self) -> Vec<String> {
        self.slowest.sentences()
    }

    fn measures(&self) -> Vec<Measure> {
        let stats = self.cache.stats();
        let c = &stats.counters;
        let frames = stats.derived.frames.0.max(1) as f64;
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        [
            ("file_pages_written_by_reclaim", "1", c.nr_vmscan_write as f64),
            ("pgscan_direct", "1", c.pgscan_direct as f64),
            ("pgscan_kswapd", "1", c.pgscan_kswapd as f64),
            ("pgsteal_direct", "1", c.pgsteal_direct as f64),
            ("pgsteal_kswapd", "1", c.pgsteal_kswapd as f64),
            ("balance_dirty_pauses", "1", c.balance_dirty_pauses as f64),
            (
                "allocation_stalls",
                "1",
                (c.nr_vmscan_throttled_writeback + c.nr_vmscan_throttled_noprogress) as f64,
            ),
            ("pgactivate", "1", stats.replacement.pgactivate as f64),
            ("pgdeactivate", "1", stats.replacement.pgdeactivate as f64),
            ("pgrefill", "1", stats.replacement.pgrefill as f64),
            ("frame_waits", "1", stats.frame_waits.count as f64),
            ("frame_wait_max_us", "us", us(stats.frame_waits.longest)),
            (
                "frame_wait_with_clean_max_us",
                "us",
                us(stats.frame_waits.longest_with_clean),
            ),
            ("metadata_bytes_per_page", "B", stats.metadata.0 as f64 / frames),
        ]
        .into_iter()
        .map(|(metric, unit, value)| Measure {
            metric: metric.into(),
            unit: unit.into(),
            value,
        })
        .chain(reasons::measures(c))
        .chain(decisions(&self.cache.reclaim_trace()))
        .collect()
    }
}

struct EngineFile {
    file: millpond::File,
    slowest: Arc<Slowest>,
}

impl StorageFile for EngineFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<Served> {
        let (served, n) = match self.file.is_resident(offset) {
            true => (Served::Memory, self.file.read_at(buf, offset)),
            false => {
                let read = self.slowest.explained(READ, || self.file.read_at(buf, offset));
                (Served::Device, read)
            }
        };
        let n = n.map_err(error)?;
        if n < buf.len() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(served)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        let written = self.slowest.explained(WRITE, || self.file.write_at(buf, offset));
        written.map_err(error)
    }

    fn change_at(&self, offset: u64, word: u64) -> io::Result<()> {
        let (page, at) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
        let locked = self.slowest.explained(WRITE, || self.file.page_mut(page));
        locked.map_err(error)?[at..at + size_of::<u64>()].copy_from_slice(&word.to_ne_bytes());
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let synced = self.slowest.explained(SYNC, || self.file.sync_all());
        synced.map_err(error)
    }
}

/// A file that is filled through guards.
struct EnginePages(EngineFile);

impl StorageFile for EnginePages {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<Served> {
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        let page = offset / buf.len() as u64;
        let EngineFile { file, slowest } = &self.0;
        let locked = slowest.explained(WRITE, || file.page_mut_or_grow(page));
        locked.map_err(error)?.copy_from_slice(buf);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

/// A file that is filled through a mapping.
struct EngineMapping {
    mapping: Mapping,
    slowest: Arc<Slowest>,
}

impl StorageFile for EngineMapping {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<Served> {
        self.mapping.copy_to(buf, offset as usize).map_err(error)?;
        Ok(Served::Unknown)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        let words = &self.mapping.words()[offset as usize / size_of::<u64>()..];
        for (word, &bytes) in words.iter().zip(buf.as_chunks().0) {
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let synced = self.slowest.explained(SYNC, || self.mapping.sync(..));
        synced.map_err(error)
    }
}

/// Each of reclaim's decisions that there was, counted: `reclaim_kswapd_dirty_tagged` and so on.
fn decisions(trace: &Trace) -> Vec<Measure> {
    let mut measures = Vec::new();
    for (who, caller) in [("kswapd", Caller::Kswapd), ("direct", Caller::Direct)] {
        for outcome in Outcome::ALL {
            let count = trace.count(caller, PageKind::File, outcome);
            let words = outcome.name().split(|c: char| !c.is_ascii_alphanumeric());
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            if count > 0 {
                measures.push(Measure {
                    metric: format!("reclaim_{who}_{}", words.join("_")),
                    unit: "1".into(),
                    value: count as f64,
                });
            }
        }
    }
    measures
}

/// What reclaim has done, by the metrics of the kernel's counters of the same meaning.
fn reclaim_of(stats: &Stats) -> Vec<Measure> {
    let (c, waits) = (&stats.counters, &stats.frame_waits);
    let stalled = waits.total + waits.reclaiming;
    [
        ("file_pages_written_by_reclaim", "1", c.nr_vmscan_write as f64),
        ("nr_vmscan_write", "1", c.nr_vmscan_write as f64),
        ("kswapd_write_file", "1", c.nr_vmscan_write as f64),
        ("direct_write_file", "1", c.nr_vmscan_write as f64),
        (
            "nr_vmscan_immediate_reclaim",
            "1",
            c.nr_vmscan_immediate_reclaim as f64,
        ),
        (
            "nr_vmscan_throttled",
            "1",
            (c.nr_vmscan_throttled_writeback + c.nr_vmscan_throttled_noprogress) as f64,
        ),
        ("pgpgout_kib", "KiB", c.nr_written as f64 * 4.0),
        ("pgscan_direct", "1", c.pgscan_direct as f64),
        ("pgscan_kswapd", "1", c.pgscan_kswapd as f64),
        ("pgsteal_direct", "1", c.pgsteal_direct as f64),
        ("pgsteal_kswapd", "1", c.pgsteal_kswapd as f64),
        ("direct_reclaims", "1", c.allocstall as f64),
        ("kswapd_wakeups", "1", c.kswapd_wakeups as f64),
        ("kswapd_awake_seconds", "s", c.kswapd_awake_ns as f64 / 1e9),
        ("direct_stall_seconds", "s", stalled.as_secs_f64()),
    ]
    .map(|(metric, unit, value)| Measure {
        metric: metric.into(),
        unit: unit.into(),
        value,
    })
    .into()
}

fn error(error: millpond::Error) -> io::Error {
    io::Error::other(error.told(Surface::CommandLine))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::data::{AlignedBuf, PAGE};

    #[test]
    fn the_slowest_of_each_kind_of_call_is_explained() {
        let dir = crate::scratch::for_tests();
        let setup = Setup::of_files("engine", "goal", dir.path(), Bytes::from_mib(16));
        let target = open(&setup).unwrap();
        let path = dir.path().join("file");
        let file = target.create(&path, 2 * PAGE as u64).unwrap();
        file.write_at(0, &[7; 2 * PAGE]).unwrap();
        assert_eq!(target.explanations().len(), 1, "only a write so far");
        file.sync().unwrap();
        drop(file);
        let file = target.open(&path, Access::Random).unwrap();
        let mut buf = AlignedBuf::new(PAGE);
        assert_eq!(file.read_at(0, &mut buf).unwrap(), Served::Device);
        let sentences = target.explanations();
        let [read, _, sync] = &sentences[..] else {
            panic!("{sentences:?}")
        };
        // the device had to make a new file durable, which no disk does in 10 us
        assert!(sync.starts_with("sync waited "), "{sync}");
        assert!(
            read.starts_with("read of 4 KiB ") || read.starts_with("it took "),
            "{read}"
        );
        // a hit is not noted
        assert_eq!(file.read_at(0, &mut buf).unwrap(), Served::Memory);
        assert_eq!(target.explanations(), sentences);
    }
}
