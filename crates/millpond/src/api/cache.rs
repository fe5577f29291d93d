//! The cache: made by a builder, shared by its files, ended by the last of them.

mod budget;
mod end;
mod inspect;
mod lost;
mod open;
mod regions;
mod settings;

#[cfg(feature = "tokio")]
use crate::api::async_file::Places;
use crate::api::builder::Builder;
use crate::api::file::File;
use crate::control::cache::Cache;
use crate::control::calibration::Calibrating;
#[cfg(feature = "control")]
use crate::control::socket::{Control, Place};
use crate::device::{Calibration, DeviceFigures, FileIdentity, GoalSource};
use crate::error::{Error, Result};
use crate::files::FileInner;
use crate::frames::own::Waits;
use crate::host::Notice;
use crate::observe::contents::{self, Contents, Order};
use crate::observe::events;
#[cfg(feature = "metrics")]
use crate::observe::http;
#[cfg(feature = "metrics")]
use crate::observe::metrics;
use crate::observe::stats::Stats;
use crate::observe::trace::What;
use millpond_core::event::Event;
use millpond_core::options::Options;
use millpond_core::reclaim::trace::Trace;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
#[cfg(feature = "metrics")]
use std::net::SocketAddr;
use std::ops::Deref;
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

/// What keeps a cache alive: its handles and its files. Its control socket does not.
pub(crate) struct Handle {
    cache: Arc<Cache>,
    files: Mutex<Files>,
    closed: Condvar,
    #[cfg(feature = "tokio")]
    pub(crate) places: Places,
    #[cfg(feature = "control")]
    control: Option<Control>,
    #[cfg(feature = "metrics")]
    metrics: Option<http::Server>,
}

impl Deref for Handle {
    type Target = Cache;
    fn deref(&self) -> &Cache {
        &self.cache
    }
}

#[derive(Default)]
struct Files {
    open: HashMap<FileIdentity, (Arc<FileInner>, usize)>,
    free_ids: Vec<u32>,
    next_id: u32,
    /// What could not be written when the last handle of a file was dropped.
    lost: Vec<Error>,
    /// Pages of all regions.
    region_pages: u64,
}

impl PageCache {
    /// A builder with the defaults: 64 MiB, pages of 4 KiB, Millpond's own options.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Makes everything durable that was written to any file of the cache.
    ///
    /// # Errors
    /// The first error, as of [`File::sync_data`]; all files are tried.
    pub fn sync_all(&self) -> Result<()> {
        let shared = &self.handle.shared;
        shared.poison.check()?;
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
        let own = |file: &File| shared.check_guards(&file.inner, 0..u64::MAX, Waits::ForWriters);
        files.iter().try_for_each(own)?;
        let logs: Vec<_> = files.iter().map(|f| shared.log_first(&f.inner)).collect();
        // All of them at once, so that the flusher can order them.
        let begun: Vec<_> = files
            .iter()
            .zip(logs)
            .map(|(f, log)| (&*f.inner, shared.sync_begin(f.inner.id, log)))
            .collect();
        let results: Vec<_> = begun
            .into_iter()
            .map(|(file, begun)| shared.sync_file(file, begun?))
            .collect();
        results.into_iter().collect()
    }

    /// The options in force.
    pub fn options(&self) -> Options {
        self.handle.options()
    }

    /// Takes other options, at once and for everything that is in memory; the page size stays as it is.
    ///
    /// # Errors
    /// [`Error::Option`] if one is out of its range; then nothing changes.
    pub fn set_options(&self, options: Options) -> Result<()> {
        self.handle.set_options(options)
    }

    /// Changes the budget. More memory can be used at once; less is given back as pages can be evicted, which needs
    /// no writing but may have to wait for writes and guards.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`], [`Error::MemoryLimit`], [`Error::Option`] if it is more than the machine has,
    /// [`Error::Setup`] if the system gives no memory; then nothing changes.
    pub fn set_memory(&self, bytes: u64) -> Result<()> {
        self.handle.set_memory(bytes)
    }

    /// What the cache has done and how full it is. Takes the core's lock for a moment.
    pub fn stats(&self) -> Stats {
        self.handle.shared.stats()
    }

    /// What is in memory: pages by state, and the `count` files that are first in `order`. Looks at the frames, 2^20 at
    /// most, 1024 at a time under the core's lock; [`contents`](crate::contents) says how exact it is.
    pub fn contents(&self, count: usize, order: Order) -> Contents {
        self.handle.shared.contents(count, order, contents::FRAMES_MAX)
    }

    /// What each device has done that has files of the cache, in the order in which they were met. As cheap as
    /// [`PageCache::stats`], without the core's lock.
    pub fn devices(&self) -> Vec<DeviceFigures> {
        self.handle.shared.device.figures()
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
        self.handle.shared.core().manager.trace().clone()
    }

    /// What the device of the first file with content is like, once that was measured or if it was given.
    pub fn calibration(&self) -> Option<Calibration> {
        match *self.handle.calibrating.lock() {
            Calibrating::Done(calibration) => Some(calibration),
            Calibrating::Off | Calibrating::Due | Calibrating::Presumed => None,
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

impl Handle {
    pub(crate) fn new(cache: Arc<Cache>) -> Handle {
        Handle {
            cache,
            files: Mutex::default(),
            closed: Condvar::new(),
            #[cfg(feature = "tokio")]
            places: Places::default(),
            #[cfg(feature = "control")]
            control: None,
            #[cfg(feature = "metrics")]
            metrics: None,
        }
    }

    /// Opens a control socket, which is there until the cache is dropped.
    ///
    /// # Errors
    /// [`Error::Control`].
    #[cfg(feature = "control")]
    pub(crate) fn listen(&mut self, place: &Place) -> Result<()> {
        self.control = Some(Control::start(self.cache.clone(), place)?);
        Ok(())
    }

    /// Serves metrics at `address` until the cache is dropped.
    ///
    /// # Errors
    /// [`Error::Metrics`].
    #[cfg(feature = "metrics")]
    pub(crate) fn serve_metrics(&mut self, address: SocketAddr) -> Result<()> {
        let cache = self.cache.clone();
        let facts = move || metrics::Facts {
            stats: cache.shared.stats(),
            devices: cache.shared.device.figures(),
            name: cache.name.get().cloned(),
            age: cache.shared.age(),
            memory: cache.budget.lock().memory,
            page_size: cache.shared.page_size,
        };
        self.metrics = Some(metrics::start(address, facts)?);
        Ok(())
    }

    /// A handle of the file was dropped: after the last one its dirty pages are written and all are forgotten.
    pub(crate) fn file_dropped(&self, inner: &Arc<FileInner>) {
        let identity = inner.device().identity();
        {
            let mut files = self.files.lock();
            let Some((_, handles)) = files.open.get_mut(&identity) else {
                return;
            };
            *handles -= 1;
            if *handles > 0 {
                return;
            }
        }
        let _noted = self.shared.note(inner.id, (0, 0), What::Close);
        // Whoever opens the file waits for this, also if what follows panics.
        let closing = Closing {
            handle: self,
            identity,
        };
        let mut lost = Vec::new();
        // The core knows the file still if that fails.
        let forgotten = self.write_and_forget(inner, &mut lost);
        let free_id = forgotten.is_ok().then_some(inner.id.0);
        lost.extend(forgotten.err());
        events::closed(&inner.path);
        lost.iter().for_each(|error| events::lost(&inner.path, error));
        {
            let mut files = self.files.lock();
            files.free_ids.extend(free_id);
            files.lost.extend(lost);
        }
        drop(closing);
    }

    /// Writes what can be written, and forgets the file: its number may be another's then. `lost`: why something could not
    /// be written.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or [`Error::OwnGuard`] if the calling thread has forgotten a guard: the file was not forgotten.
    fn write_and_forget(&self, inner: &Arc<FileInner>, lost: &mut Vec<Error>) -> Result<()> {
        let shared = &self.shared;
        shared.poison.check()?;
        if let Err(error) = shared.log_first(inner) {
            shared.poison.check()?;
            lost.push(error);
            // Nobody can change them any more, and they can't be written.
            let held = inner.keeping.held.as_ref();
            for page in held.map(|held| held.pages()).unwrap_or_default() {
                shared.discard_but_own(inner, page..page + 1)?;
            }
        }
        let syncing = shared.sync_begin(inner.id, Ok(()))?;
        let own = match shared.sync_end(inner, syncing) {
            Err(Error::OwnGuard { page, .. }) => {
                let failing = shared.core().manager.failing(inner.id);
                lost.extend(failing.map(|(_, e)| inner.write_failed(e.0)));
                Some(page)
            }
            Err(error) => {
                shared.poison.check()?;
                lost.push(error);
                None
            }
            Ok(written) => {
                lost.extend(written.err().map(|e| inner.write_failed(e.0)));
                None
            }
        };
        // No guard is left but such as were forgotten.
        let pages = 0..inner.len().div_ceil(shared.page_size.bytes());
        let kept = shared.discard_but_own(inner, pages.clone())?;
        if let Some(page) = own.or(kept) {
            // What is clean is written by nobody, whoever opens the file.
            if shared.is_changed(inner, pages)? {
                let _ = inner.stuck.set(page);
            }
            let path = inner.path.clone();
            return Err(Error::OwnGuard { path, page });
        }
        shared.tell(Event::Closed { file: inner.id });
        shared.core().files[inner.id.0 as usize] = None;
        Ok(())
    }
}

/// A file whose last handle is being dropped.
struct Closing<'a> {
    handle: &'a Handle,
    identity: FileIdentity,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let open = &mut self.handle.files.lock().open;
        let is_stuck = |(file, _): &(Arc<FileInner>, usize)| file.stuck.get().is_some();
        // Others may write it from now on, whoever still knows of it.
        if !open.get(&self.identity).is_some_and(is_stuck)
            && let Some((file, _)) = open.remove(&self.identity)
        {
            file.writes.lock().take();
        }
        self.handle.closed.notify_all();
    }
}
