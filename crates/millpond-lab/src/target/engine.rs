//! Millpond's engine on real files: the page cache in the run's own process.
//!
//! On `--device hdd` and the other modelled ones the files are real as well, and the modelled disk's service time is
//! around every transfer.

use super::{
    Access, Device, Driver, RowRequest, Rows, Served, Setup, Target, TargetFile, TargetKind, millpond_rows,
    reasons,
};
use crate::error::{LabError, Result};
use crate::outcome::{Measure, Setting};
use millpond::device::{self, Modelled};
use millpond::{OpenOptions, PageCache};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// This kind of target.
pub const KIND: TargetKind = TargetKind {
    name: "engine",
    about: "Millpond's page cache on real files, in a process of its own",
    rows,
    driver: Driver::Files(open),
};

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

fn open(setup: &Setup) -> Result<Box<dyn Target>> {
    let failed =
        |e: millpond::Error| LabError::path("cannot open the engine for", &setup.dir, io::Error::other(e));
    let mut builder = PageCache::builder()
        .memory(setup.memory.0)
        .options(millpond_rows::options(setup)?);
    builder = builder.calibrate(setup.read_latency_goal.is_none());
    if let Some(goal) = setup.read_latency_goal {
        builder = builder.read_latency_goal(Duration::from_nanos(goal.0));
    }
    let mut modelled = None;
    if let Device::Modelled(disk) = setup.device {
        let device = Modelled::new(device::best(), disk.model()?)
            .map_err(|e| LabError::path("cannot model the disk of", &setup.dir, e))?;
        let device = Arc::new(device);
        modelled = Some(device.clone());
        builder = builder.device(device);
    }
    let cache = builder.build().map_err(failed)?;
    let dir = File::open(&setup.dir).map_err(|e| LabError::path("cannot open", &setup.dir, e))?;
    Ok(Box::new(Engine { cache, dir, modelled }))
}

struct Engine {
    cache: PageCache,
    dir: File,
    modelled: Option<Arc<Modelled>>,
}

impl Target for Engine {
    /// The engine finds out by itself how a file is read.
    fn open(&self, path: &Path, _: Access) -> io::Result<Box<dyn TargetFile>> {
        Ok(Box::new(EngineFile(
            self.cache.open(path, OpenOptions::new()).map_err(error)?,
        )))
    }

    fn create(&self, path: &Path, _len: u64) -> io::Result<Box<dyn TargetFile>> {
        // Fails if it is there.
        drop(File::create_new(path)?);
        Ok(Box::new(EngineFile(
            self.cache
                .open(path, OpenOptions::new().write(true))
                .map_err(error)?,
        )))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.cache.sync_all().map_err(error)?;
        // The names of new files.
        self.dir.sync_all()
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
        ];
        if let Some(modelled) = &self.modelled {
            settings.push(Setting::new(
                "modelled disk",
                format_args!("{:?}", modelled.lateness()),
            ));
        }
        settings
    }

    fn measures(&self) -> Vec<Measure> {
        let stats = self.cache.stats();
        let c = &stats.counters;
        let frames = stats.derived.frames.0.max(1) as f64;
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
            ("metadata_bytes_per_page", "B", stats.metadata.0 as f64 / frames),
        ]
        .into_iter()
        .map(|(metric, unit, value)| Measure {
            metric: metric.into(),
            unit: unit.into(),
            value,
        })
        .chain(reasons::measures(c))
        .collect()
    }
}

struct EngineFile(millpond::File);

impl TargetFile for EngineFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<Served> {
        let served = if self.0.is_resident(offset) {
            Served::Memory
        } else {
            Served::Device
        };
        let n = self.0.read_at(buf, offset).map_err(error)?;
        if n < buf.len() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(served)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.0.write_at(buf, offset).map_err(error)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_all().map_err(error)
    }
}

fn error(error: millpond::Error) -> io::Error {
    io::Error::other(error)
}
