//! The cache as users have it.

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
use crate::error::Result;
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
    /// Makes everything durable that was written to any file of the cache.
    ///
    /// # Errors
    /// The first error, as of [`File::sync_data`]; all files are tried.
    pub fn sync_all(&self) -> Result<()> {
        let engine = &self.handle.engine;
        engine.call_flags.check()?;
        // As handles, so that none is closed before its answer is there.
        let files: Vec<_> = {
            let mut files = self.handle.files.lock();
            let open = files.open.values_mut().filter(|(_, handles)| *handles > 0);
            open.map(|(inner, handles)| {
                *handles += 1;
                File::new(inner.clone(), self.handle.clone(), false)
            })
            .collect()
        };
        let own = |file: &File| engine.check_guards(&file.inner, 0..u64::MAX, Waits::ForWriters);
        files.iter().try_for_each(own)?;
        let logs: Vec<_> = files.iter().map(|f| engine.log_first(&f.inner)).collect();
        // All of them at once, so that the flusher can order them.
        let begun: Vec<_> = files
            .iter()
            .zip(logs)
            .map(|(f, log)| (&*f.inner, engine.sync_begin(f.inner.id, log)))
            .collect();
        let results: Vec<_> = begun
            .into_iter()
            .map(|(file, begun)| engine.sync_file(file, begun?))
            .collect();
        results.into_iter().collect()
    }

    /// The bytes of a page, of all files of the cache: what [`Builder::page_size`](crate::Builder::page_size) said, else 4096.
    pub fn page_size(&self) -> u64 {
        self.handle.engine.page_size.bytes()
    }

    /// The options in force.
    pub fn options(&self) -> Options {
        self.handle.options()
    }

    /// Takes other options, at once and for everything that is in memory; the page size stays as it is.
    ///
    /// # Errors
    /// [`Error::Option`](crate::Error::Option) if one is out of its range; then nothing changes.
    pub fn set_options(&self, options: Options) -> Result<()> {
        self.handle.set_options(options)
    }

    /// Changes the budget. More memory can be used at once; less is given back as pages can be evicted, which needs
    /// no writing but may have to wait for writes and guards.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`](crate::Error::BudgetTooSmall), [`Error::MemoryLimit`](crate::Error::MemoryLimit), [`Error::Option`](crate::Error::Option) if it is more than the machine has,
    /// [`Error::Setup`](crate::Error::Setup) if the system gives no memory; then nothing changes.
    pub fn set_memory(&self, bytes: u64) -> Result<()> {
        self.handle.set_memory(bytes)
    }

    /// What the cache has done and how full it is. Takes the core's lock for a moment, and may allocate: as no other call, it is
    /// not for a signal handler, which may have interrupted the thread that has the lock.
    pub fn stats(&self) -> Stats {
        self.handle.engine.stats()
    }

    /// What is in memory: pages by state, and the `count` files that are first in `order`. Looks at the frames, 2^20 at
    /// most, 1024 at a time under the core's lock; [`contents`](crate::contents) says how exact it is.
    pub fn contents(&self, count: usize, order: Order) -> Contents {
        self.handle.engine.contents(count, order, contents::FRAMES_MAX)
    }

    /// What each device has done that has files of the cache, in the order in which they were met. As cheap as
    /// [`PageCache::stats`], without the core's lock.
    pub fn devices(&self) -> Vec<DeviceFigures> {
        self.handle.engine.device_figures()
    }

    /// Whether this is the device that the cache was built with, or one below that ([`Device::below`](device::Device::below)):
    /// the very same, not one like it.
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

    /// The figures of stores that the device of the cache stands on. Costs what the device says of it
    /// ([`Device::stores`](crate::device::Device::stores)).
    pub fn stores(&self) -> Vec<StoreFigures> {
        self.handle.engine.device.stores()
    }

    /// Where the control socket is, if [`Builder::control`](crate::Builder::control) or
    /// [`Builder::control_at`](crate::Builder::control_at) asked for one.
    #[cfg(feature = "control")]
    pub fn control_path(&self) -> Option<&Path> {
        self.handle.control.as_ref().map(Control::path)
    }

    /// Where metrics are served, if [`Builder::metrics`](crate::Builder::metrics) asked for it.
    #[cfg(feature = "metrics")]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.handle.metrics.as_ref().map(http::Server::address)
    }

    /// What reclaim has met at the cold end of memory and what it did there: all decisions counted, the last samples
    /// kept. A copy of 6 KiB, made under the core's lock.
    #[doc(hidden)]
    pub fn reclaim_trace(&self) -> Trace {
        self.handle.engine.core().manager.trace().clone()
    }

    /// What the device of the first file with content is like, once that was measured or if it was given.
    pub fn calibration(&self) -> Option<Calibration> {
        match self.handle.calibrating.lock().setting {
            Calibrating::Done(calibration) => Some(calibration),
            _ => None,
        }
    }

    /// Where the goal for read latency comes from, if the form of admission has one.
    pub fn goal_source(&self) -> Option<GoalSource> {
        self.handle.goal_source()
    }

    /// What the cache has to do without on this host, in the order in which it was found. One of a kind is kept, of
    /// those about files one for each file system.
    pub fn notices(&self) -> Vec<Notice> {
        self.handle.notices.list()
    }
}

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageCache({:?})", self.stats().occupancy)
    }
}
