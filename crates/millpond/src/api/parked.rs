//! Closed files whose pages stay in memory. They hold no descriptor, and replacement evicts their pages like any
//! others.
//!
//! ```text
//!   last handle dropped ─► written ─► clean, and provably the device's? ─ no ─► its pages are discarded
//!                                          │ yes
//!                                          ▼
//!             parked: its version is kept, its descriptors are closed ─┬─ opened again, unchanged ─► its pages are there
//!                                                                      ├─ opened again, changed ───► discarded
//!                                                                      └─ too many: the one parked first ─► discarded
//! ```
//!
//! A parked file has no handle, so nothing reads or writes it; late read-ahead finds an empty file.

use super::handle::Handle;
use crate::device::{DeviceFile, FileIdentity, Version};
use crate::engine::driver::{Discards, Holders};
use crate::error::Result;
use crate::files::FileInner;
use crate::frames::own::Waits;
use millpond_core::event::Event;
use millpond_core::units::FileId;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// A closed file whose pages are still in memory.
pub(super) struct ParkedFile {
    pub(super) inner: Arc<FileInner>,
    identity: FileIdentity,
    version: Version,
}

/// All parked files, the one parked first at the front.
#[derive(Default)]
pub(super) struct ParkedFiles {
    files: HashMap<FileIdentity, ParkedFile>,
    /// A file that was opened since has another number, and its old entry means nothing.
    order: VecDeque<(FileIdentity, FileId)>,
}

impl ParkedFiles {
    /// Adds a file. Returns the files beyond `max`.
    fn add(&mut self, parked: ParkedFile, max: usize) -> Vec<ParkedFile> {
        self.order.push_back((parked.identity, parked.inner.id));
        let mut gone: Vec<_> = self.files.insert(parked.identity, parked).into_iter().collect();
        while self.files.len() > max
            && let Some((identity, id)) = self.order.pop_front()
        {
            gone.extend(self.take_if(identity, |parked| parked.inner.id == id));
        }
        // Two entries for each file at most.
        if self.order.len() > 2 * max {
            let files = &self.files;
            let is_there = |(identity, id): &(FileIdentity, FileId)| {
                files.get(identity).is_some_and(|p| p.inner.id == *id)
            };
            self.order.retain(is_there);
        }
        gone
    }

    fn take_if(&mut self, identity: FileIdentity, is_it: impl Fn(&ParkedFile) -> bool) -> Option<ParkedFile> {
        self.files.get(&identity).is_some_and(is_it).then_some(())?;
        self.files.remove(&identity)
    }

    /// Removes and returns the parked file that `device` is, if there is one.
    pub(super) fn take(&mut self, device: &DeviceFile) -> Option<ParkedFile> {
        self.files.remove(&device.identity())
    }
}

impl ParkedFile {
    /// Returns whether its pages match the content of `device`, opened as `path`.
    pub(super) fn is(&self, device: &DeviceFile, path: &Path) -> bool {
        self.inner.path == path
            && device
                .version()
                .is_ok_and(|now| now.as_ref() == Some(&self.version))
    }
}

/// A parked file that has changed since, and must be forgotten.
pub(super) struct Stale<'a> {
    handle: &'a Handle,
    pub(super) file: Option<ParkedFile>,
}

impl Stale<'_> {
    pub(super) fn of(handle: &Handle) -> Stale<'_> {
        Stale { handle, file: None }
    }
}

impl Drop for Stale<'_> {
    fn drop(&mut self) {
        if let Some(parked) = self.file.take() {
            self.handle.forget_parked(&parked);
        }
    }
}

impl Handle {
    /// After the last handle has been dropped and everything is written: returns the version of the file that its pages
    /// hold, if they may stay.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned).
    pub(super) fn version_to_park(&self, inner: &FileInner) -> Result<Option<Version>> {
        let engine = &self.engine;
        if self.closed_files_max == 0 || !inner.may_park() || engine.mapped_of(inner).is_some() {
            return Ok(None);
        }
        let pages = 0..inner.len().div_ceil(engine.page_size.bytes());
        if Holders::of(engine, inner)
            .check_guards(pages.clone(), Waits::ForAll)
            .is_err()
        {
            return Ok(None);
        }
        let device = inner.device();
        let is_whole = || device.len().is_ok_and(|len| len == inner.len());
        if no_file().is_none() {
            return Ok(None);
        }
        let version = device.version().ok().flatten().filter(|_| is_whole());
        // Last: what is read meanwhile is of no older version.
        match version.is_some() && Discards::of(engine, inner).settled(pages)? {
            true => Ok(version),
            false => Ok(None),
        }
    }

    /// Parks the unused file, and closes its descriptor.
    pub(super) fn park(&self, inner: &Arc<FileInner>, version: Version) {
        let device = inner.device();
        device.unlock();
        let identity = device.identity();
        if let Some(none) = no_file() {
            inner.reopen(none, false);
            // What was advised goes with the handles.
            inner.record_pages.store(0, Ordering::Relaxed);
        }
        let parked = ParkedFile {
            inner: inner.clone(),
            identity,
            version,
        };
        let gone = self.files.lock().parked.add(parked, self.closed_files_max);
        gone.into_iter().for_each(|parked| self.forget_parked(&parked));
    }

    /// Removes the pages of a parked file from memory.
    pub(super) fn forget_parked(&self, parked: &ParkedFile) {
        let (engine, inner) = (&self.engine, &parked.inner);
        let pages = 0..inner.len().div_ceil(engine.page_size.bytes());
        // Else the cache is broken, and it makes no difference.
        if Discards::of(engine, inner).discard(pages).is_ok() {
            self.forget(inner, parked.identity);
            self.files.lock().free_ids.push(inner.id.0);
        }
    }

    /// Removes the file, which has no pages in memory, from the core and the engine.
    pub(super) fn forget(&self, inner: &FileInner, identity: FileIdentity) {
        self.engine.tell(Event::Closed { file: inner.id });
        self.engine.device_left(identity.device);
        self.engine.core().files[inner.id.0 as usize] = None;
    }
}

/// The placeholder device of parked files: one empty file in memory for the whole process.
fn no_file() -> Option<Arc<DeviceFile>> {
    static NONE: OnceLock<Option<Arc<DeviceFile>>> = OnceLock::new();
    NONE.get_or_init(|| DeviceFile::memory("closed", 0).ok().map(Arc::new))
        .clone()
}
