//! The public cache handle.

mod budget;
mod inspect;
mod lost;
mod open;
mod regions;
mod settings;

pub use budget::SetAside;

use super::file::File;
use super::handle::Handle;
use crate::control::calibration::Calibrating;
#[cfg(feature = "control")]
use crate::control::socket::Control;
use crate::device::{self, Calibration, Device as _, DeviceFigures, GoalSource, StoreFigures};
use crate::engine::driver::{Engine, Holders, Syncing, Syncs};
use crate::error::Result;
use crate::files::FileInner;
use crate::frames::own::Waits;
use crate::host::Notice;
use crate::observe::contents::{self, Contents, Order};
#[cfg(feature = "metrics")]
use crate::observe::http;
use crate::observe::stats::Stats;
use millpond_core::options::Options;
use millpond_core::reclaim::trace::Trace;
#[cfg(feature = "metrics")]
use std::net::SocketAddr;
#[cfg(feature = "control")]
use std::path::Path;
use std::sync::Arc;

/// A page cache under one memory budget. Clones are handles of the same cache.
///
/// ```
/// use millpond::{OpenOptions, PageCache};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let cache = PageCache::builder().memory(64 << 20).build()?;
/// let file = cache.open(&path, OpenOptions::new().create(true))?;
/// file.write_at(b"Hello, pond", 0)?;
/// file.sync_data()?;
/// assert_eq!(&file.page(0)?[..], b"Hello, pond");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PageCache {
    pub(crate) handle: Arc<Handle>,
}

impl PageCache {
    /// Makes all earlier writes to all files of the cache durable.
    ///
    /// # Errors
    /// The first error, as for [`File::sync_data`]; all files are tried. [`Error::OwnGuard`](crate::Error::OwnGuard) if
    /// the calling thread holds a [`PageMut`](crate::PageMut); no file is synced then.
    pub fn sync_all(&self) -> Result<()> {
        self.of_all_files(|engine, file, syncing| Syncs::of(engine, file).sync_file(syncing))
    }

    /// Writes out all files, as [`File::write_out`] one.
    ///
    /// # Errors
    /// As for [`File::write_out`], and as for [`sync_all`](PageCache::sync_all).
    pub(crate) fn write_out_all(&self) -> Result<()> {
        self.of_all_files(|engine, file, syncing| {
            let written = Syncs::of(engine, file).sync_end(syncing)?;
            written.map(|_| ()).map_err(|error| file.write_refused(error))
        })
    }

    /// Has all files written at once, and ends each by `end`. The first error; all files are tried.
    fn of_all_files(&self, end: impl Fn(&Engine, &FileInner, Syncing) -> Result<()>) -> Result<()> {
        let engine = &self.handle.engine;
        engine.call_flags.check()?;
        // As handles, so that none is closed before its answer is there.
        let files: Vec<_> = {
            let mut files = self.handle.files.lock();
            let open = files.open.values_mut().filter(|(_, handles)| *handles > 0);
            open.map(|(inner, handles)| {
                *handles += 1;
                File::new(inner.clone(), self.handle.clone(), &crate::OpenOptions::new())
            })
            .collect()
        };
        let own = |file: &File| Holders::of(engine, &file.inner).check_guards(0..u64::MAX, Waits::ForWriters);
        files.iter().try_for_each(own)?;
        let logs: Vec<_> = files
            .iter()
            .map(|f| Syncs::of(engine, &f.inner).log_first())
            .collect();
        // All of them at once, so that the flusher can order them.
        let begun: Vec<_> = files
            .iter()
            .zip(logs)
            .map(|(f, log)| (&*f.inner, Syncs::of(engine, &f.inner).sync_begin(log)))
            .collect();
        let results: Vec<_> = begun
            .into_iter()
            .map(|(file, begun)| end(engine, file, begun?))
            .collect();
        results.into_iter().collect()
    }

    /// Returns the page size in bytes, for all files of the cache: what
    /// [`Builder::page_size`](crate::Builder::page_size) set, or 4096.
    pub fn page_size(&self) -> u64 {
        self.handle.engine.page_size.bytes()
    }

    /// Returns the options in force.
    pub fn options(&self) -> Options {
        self.handle.options()
    }

    /// Replaces the options, at once and for everything in memory. The page size stays the same.
    ///
    /// # Errors
    /// [`Error::Option`](crate::Error::Option) if an option is out of range; nothing changes then.
    pub fn set_options(&self, options: Options) -> Result<()> {
        self.handle.set_options(options)
    }

    /// Changes the budget. More memory is available at once. Memory is given back as pages are evicted, which requires
    /// no writing but may have to wait for writes and guards.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`](crate::Error::BudgetTooSmall); [`Error::MemoryLimit`](crate::Error::MemoryLimit);
    /// [`Error::Option`](crate::Error::Option) if it is more than the machine has;
    /// [`Error::Setup`](crate::Error::Setup) if the system provides no memory. Nothing changes then.
    pub fn set_memory(&self, bytes: u64) -> Result<()> {
        self.handle.set_memory(bytes)
    }

    /// Returns counters of the cache's work and its occupancy. Takes the core's lock briefly, and may allocate. Like
    /// every other call, it must not be made from a signal handler: the interrupted thread may hold the lock.
    pub fn stats(&self) -> Stats {
        self.handle.engine.stats()
    }

    /// Returns what is in memory: pages by state, and the first `count` files in `order`. Scans at most 2^20 frames,
    /// 1024 at a time under the core's lock. [`contents`](crate::contents) explains the accuracy.
    pub fn contents(&self, count: usize, order: Order) -> Contents {
        self.handle.engine.contents(count, order, contents::FRAMES_MAX)
    }

    /// Returns figures of each device that holds files of the cache, in the order in which the cache first used them.
    /// As cheap as [`PageCache::stats`], and takes no core lock.
    pub fn devices(&self) -> Vec<DeviceFigures> {
        self.handle.engine.device_figures()
    }

    /// Returns whether `device` is the device that the cache was built with, or one that it wraps
    /// ([`Device::below`](device::Device::below)). Compares identity, not type.
    pub fn has_device(&self, device: &dyn device::Device) -> bool {
        let mut at = self.handle.engine.device.below();
        while let Some(one) = at {
            if std::ptr::addr_eq(one, device) {
                return true;
            }
            at = one.below();
        }
        false
    }

    /// Returns the figures of the stores beneath the cache's device. Costs as much as the device's
    /// [`Device::stores`](crate::device::Device::stores).
    pub fn stores(&self) -> Vec<StoreFigures> {
        self.handle.engine.device.stores()
    }

    /// Returns the path of the control socket, if [`Builder::control`](crate::Builder::control) or
    /// [`Builder::control_at`](crate::Builder::control_at) requested one.
    #[cfg(feature = "control")]
    pub fn control_path(&self) -> Option<&Path> {
        self.handle.control.as_ref().map(Control::path)
    }

    /// Returns the address at which metrics are served, if [`Builder::metrics`](crate::Builder::metrics) requested it.
    #[cfg(feature = "metrics")]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.handle.metrics.get().map(http::Server::address)
    }

    /// Returns what reclaim found at the cold end of memory and what it did there: counts of all decisions, and the
    /// most recent samples. Copies 6 KiB under the core's lock.
    #[doc(hidden)]
    pub fn reclaim_trace(&self) -> Trace {
        self.handle.engine.core().manager.trace().clone()
    }

    /// Returns the calibration of the device that holds the first file of 1 MiB or more, once it has been measured or
    /// supplied.
    pub fn calibration(&self) -> Option<Calibration> {
        match self.handle.calibrating.lock().setting {
            Calibrating::Done(calibration) => Some(calibration),
            _ => None,
        }
    }

    /// Returns where the read latency goal comes from, if the form of admission has one.
    pub fn goal_source(&self) -> Option<GoalSource> {
        self.handle.goal_source()
    }

    /// Returns what the cache must do without on this host, in the order of discovery: one notice per kind, or per file
    /// system for kinds that concern files.
    pub fn notices(&self) -> Vec<Notice> {
        self.handle.notices.list()
    }
}

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageCache({:?})", self.stats().occupancy)
    }
}
