//! The shared owner of a cache and its files. The cache ends with its last handle and its last file, but never in a
//! forked child.

use super::parked::ParkedFiles;
#[cfg(feature = "tokio")]
use super::tasks::Places;
use crate::control::cache::Cache;
#[cfg(feature = "control")]
use crate::control::socket::{Control, Place};
use crate::device::{Device, FileIdentity, Version};
use crate::engine::driver::{Discards, Syncs};
use crate::error::{Error, Result};
use crate::files::FileInner;
use crate::observe::events;
#[cfg(feature = "metrics")]
use crate::observe::http;
#[cfg(feature = "metrics")]
use crate::observe::metrics;
use crate::observe::trace::What;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
#[cfg(feature = "metrics")]
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
#[cfg(feature = "metrics")]
use std::sync::OnceLock;

/// The state that keeps a cache alive. Handles and files share it; the control socket does not.
pub(crate) struct Handle {
    cache: Arc<Cache>,
    pub(super) files: Mutex<Files>,
    pub(super) closed: Condvar,
    /// The number of closed files that keep their pages.
    pub(super) closed_files_max: usize,
    #[cfg(feature = "tokio")]
    pub(crate) places: Places,
    #[cfg(feature = "control")]
    pub(super) control: Option<Control>,
    #[cfg(feature = "metrics")]
    pub(super) metrics: OnceLock<http::Server>,
}

impl Deref for Handle {
    type Target = Cache;
    fn deref(&self) -> &Cache {
        &self.cache
    }
}

#[derive(Default)]
pub(super) struct Files {
    pub(super) open: HashMap<FileIdentity, (Arc<FileInner>, usize)>,
    pub(super) free_ids: Vec<u32>,
    pub(super) next_id: u32,
    /// Data that could not be written when the last handle of a file was dropped.
    pub(super) lost: Vec<Error>,
    pub(super) parked: ParkedFiles,
    /// Pages of all regions together.
    pub(super) region_pages: u64,
}

impl Handle {
    pub(crate) fn new(cache: Arc<Cache>, closed_files_max: usize) -> Handle {
        Handle {
            cache,
            files: Mutex::default(),
            closed: Condvar::new(),
            closed_files_max,
            #[cfg(feature = "tokio")]
            places: Places::default(),
            #[cfg(feature = "control")]
            control: None,
            #[cfg(feature = "metrics")]
            metrics: OnceLock::new(),
        }
    }

    /// Opens a control socket that lives until the cache is dropped.
    ///
    /// # Errors
    /// [`Error::Control`].
    #[cfg(feature = "control")]
    pub(crate) fn listen(&mut self, place: &Place) -> Result<()> {
        self.control = Some(Control::start(self.cache.clone(), place)?);
        Ok(())
    }

    /// Serves metrics at `address` until the cache is dropped, unless it does already.
    ///
    /// # Errors
    /// [`Error::Metrics`].
    #[cfg(feature = "metrics")]
    pub(crate) fn serve_metrics(&self, address: SocketAddr) -> Result<()> {
        let cache = self.cache.clone();
        let facts = move || metrics::Facts {
            stats: cache.engine.stats(),
            devices: cache.engine.device_figures(),
            stores: Device::stores(&cache.engine.device),
            name: cache.name.get().cloned(),
            age: cache.engine.age(),
            memory: cache.budget.lock().memory,
            page_size: cache.engine.page_size,
        };
        let _ = self.metrics.set(metrics::start(address, facts)?);
        Ok(())
    }

    /// Returns the number of handles of the file that the cache counts. A handle and its clones are one.
    pub(crate) fn handles_of(&self, inner: &Arc<FileInner>) -> usize {
        let files = self.files.lock();
        let mut open = files.open.values();
        open.find(|(file, _)| Arc::ptr_eq(file, inner))
            .map_or(0, |(_, handles)| *handles)
    }

    /// Called when a handle of the file was dropped. After the last one, writes its dirty pages and forgets all of
    /// them.
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
        let _noted = self.engine.note(inner.id, (0, 0), What::Close);
        // A thread that opens the file waits for this, also if what follows panics.
        let closing = Closing {
            handle: self,
            identity,
        };
        let mut lost = Vec::new();
        let device = inner.device();
        // The core knows the file still if that fails.
        let closed = self.write_and_forget(inner, &mut lost);
        let is_forgotten = matches!(closed, Ok(None));
        let free_id = is_forgotten.then_some(inner.id.0);
        // Before another thread can open it.
        match closed {
            Ok(version) => {
                self.engine.device.closed(&device);
                if let Some(version) = version {
                    self.park(inner, version);
                }
            }
            Err(error) => lost.push(error),
        }
        drop(device);
        events::closed(&inner.path);
        let lost: Vec<_> = lost.into_iter().map(Error::given_up).collect();
        lost.iter().for_each(|error| events::lost(&inner.path, error));
        {
            let mut files = self.files.lock();
            files.free_ids.extend(free_id);
            files.lost.extend(lost);
        }
        drop(closing);
    }

    /// Writes what can be written, then forgets the file, whose number may be reused. If the file is to be parked,
    /// returns its version instead. Adds to `lost` the reasons why something could not be written.
    ///
    /// # Errors
    /// [`Error::Poisoned`], or [`Error::OwnGuard`] if the calling thread has leaked a guard. The file is then not
    /// forgotten.
    fn write_and_forget(&self, inner: &Arc<FileInner>, lost: &mut Vec<Error>) -> Result<Option<Version>> {
        let engine = &self.engine;
        engine.call_flags.check()?;
        if let Err(error) = Syncs::of(engine, inner).log_first() {
            engine.call_flags.check()?;
            lost.push(error);
            // No thread can change them now, and they can't be written.
            let held = inner.writeback_rules.held.as_ref();
            for page in held.map(|held| held.pages()).unwrap_or_default() {
                Discards::of(engine, inner).discard_but_own(page..page + 1)?;
            }
        }
        let syncing = Syncs::of(engine, inner).sync_begin(Ok(()))?;
        let own = match Syncs::of(engine, inner).sync_end(syncing) {
            Err(Error::OwnGuard { page, .. }) => {
                let failing = engine.core().manager.failing(inner.id);
                lost.extend(failing.map(|(_, e)| inner.write_refused(e)));
                Some(page)
            }
            Err(error) => {
                engine.call_flags.check()?;
                lost.push(error);
                None
            }
            Ok(written) => {
                lost.extend(written.err().map(|e| inner.write_refused(e)));
                None
            }
        };
        if own.is_none()
            && lost.is_empty()
            && let Some(version) = self.version_to_park(inner)?
        {
            return Ok(Some(version));
        }
        // No guard is left but such as were forgotten.
        let pages = 0..inner.len().div_ceil(engine.page_size.bytes());
        let kept = Discards::of(engine, inner).discard_but_own(pages.clone())?;
        if let Some(page) = own.or(kept) {
            // A clean page is written by no thread, even if the file is opened again.
            if Discards::of(engine, inner).is_changed(pages)? {
                let _ = inner.stuck.set(page);
            }
            let path = inner.path.clone();
            return Err(Error::OwnGuard { path, page });
        }
        self.forget(inner, inner.device().identity());
        Ok(None)
    }
}

/// A file whose last handle is being dropped.
struct Closing<'a> {
    handle: &'a Handle,
    identity: FileIdentity,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut files = self.handle.files.lock();
        let is_stuck = |(file, _): &(Arc<FileInner>, usize)| file.stuck.get().is_some();
        let closed = match files.open.get(&self.identity).is_some_and(is_stuck) {
            true => None,
            false => files.open.remove(&self.identity),
        };
        if let Some((file, _)) = &closed {
            // Others may write and lock it from now on, even if some still know of it.
            file.writes.lock().take();
            file.device().unlock();
        }
        drop(files);
        self.handle.closed.notify_all();
        // Last, as it may wait for a call of the user's, which may open the file.
        let held = closed
            .as_ref()
            .and_then(|(file, _)| file.writeback_rules.held.as_ref());
        held.inspect(|held| held.closed());
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.engine.call_flags.is_of_another() {
            // In a forked child nothing ends: the threads are the parent's, and so is the socket.
            std::mem::forget(self.cache.clone());
            #[cfg(feature = "control")]
            std::mem::forget(self.control.take());
            #[cfg(feature = "metrics")]
            std::mem::forget(self.metrics.take());
            return;
        }
        // First of all: they work with the rest.
        #[cfg(feature = "control")]
        drop(self.control.take());
        #[cfg(feature = "metrics")]
        drop(self.metrics.take());
        self.follower.stop();
        self.remeasure.stop();
        #[cfg(feature = "trace")]
        self.record_stop(None);
    }
}
