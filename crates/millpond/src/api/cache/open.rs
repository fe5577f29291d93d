//! Opening files: joins a file that is already open, or admits a new one.
//!
//! ```text
//!   path ──► which file is it? (no descriptor) ── it is open here ──────────────────────────► a handle
//!                       └── opened ──► which file is it? ── it is open here, if only since then ──► a handle
//!                                                └── other writers? ──► taken in ──────────────► a handle
//! ```

use super::PageCache;
use crate::api::file::{File, OpenOptions};
use crate::api::handle::Files;
use crate::api::parked::Stale;
use crate::device::{Access, Awaited, DeviceFile, FileIdentity, identity_at};
use crate::error::{Error, Result};
use crate::files::writers::{self, Writes};
use crate::files::{self, FileInner, WritebackRules};
use crate::host::Notice;
use crate::observe::events;
use crate::sys::direct::OpenedFor;
use millpond_core::event::Event;
use millpond_core::units::PageCount;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl PageCache {
    /// Opens a file or block device. Paths that lead to the same file share it: all its handles see one another's
    /// writes at once. Another cache of the process may also open the file. At most one cache may open it for writing,
    /// unless [`OpenOptions::beside_other_caches`] is set.
    ///
    /// **Other processes are not seen.** If two processes write one file through caches of their own, each writes whole
    /// pages over the other's, and acknowledged data is lost without an error. [`OpenOptions::exclusive`] keeps out
    /// every process that sets it too.
    ///
    /// # Errors
    /// [`Error::Open`], with the reason: the file does not exist, may not be read or written, is a directory, has no
    /// length (such as files in `/proc`), is longer than 2^52 bytes, is already open with another log or check, is
    /// written by another cache of the process, or is the swap file of one. With [`OpenOptions::truncate`], also the
    /// errors of [`File::set_len`]. [`Error::BudgetTooSmall`] if the budget has no room for the copies that the first
    /// file with stable pages needs.
    pub fn open(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<File> {
        let path = path.as_ref();
        self.handle.engine.call_flags.check()?;
        let failed = |error| open_failed(path, error);
        let writeback_rules = options.writeback_rules().map_err(failed)?;
        // If it is open here it is not opened once more, not even to be closed again at once.
        if !options.makes_new()
            && let Some(identity) = identity_at(path, options.access())
        {
            let device = self.device_of(identity);
            if let Some(device) = &device {
                self.handle.calibrate(device).map_err(failed)?;
            }
            let mut files = self.handle.files.lock();
            let joined = self.join(&mut files, (identity, None), path, &options)?;
            drop(files);
            if let Some(file) = joined {
                return cut(self.tell_writers(file), &options);
            }
        }
        let device = DeviceFile::open_as(path, options.access(), options.making())
            .map_err(|error| failed(missing(path, &options, error)))?;
        cut(
            self.admit(Arc::new(device), path, &options, writeback_rules)?,
            &options,
        )
    }

    /// Adopts a file that is already open for reading, for instance one that has no name or that only its creator may
    /// write. To write, use [`OpenOptions::write`]; the file must then be open for writing too, and not for appending. [`OpenOptions::create`] and [`OpenOptions::create_new`] mean the same as `write` here. The cache
    /// neither uses nor moves the file position. It opens the file again for direct I/O through `/proc/self/fd`. If
    /// that is refused, transfers go through the kernel's page cache.
    ///
    /// # Errors
    /// As [`PageCache::open`]; also [`Error::Open`] if the file is not open for reading, or if write access is requested
    /// and it is not open for that.
    pub fn open_file(&self, file: fs::File, options: OpenOptions) -> Result<File> {
        self.handle.engine.call_flags.check()?;
        let here = Path::new("a file that is open");
        let writeback_rules = options.writeback_rules().map_err(|e| open_failed(here, e))?;
        let device = DeviceFile::from_file(file).map_err(|e| open_failed(here, e))?;
        let path = options.shown().cloned();
        let path = path.unwrap_or_else(|| PathBuf::from(device.name()));
        let OpenedFor {
            is_readable,
            is_writable,
            appends,
        } = device.opened_for();
        if !is_readable || options.writes() && (!is_writable || appends) {
            let why = match (is_readable, is_writable) {
                (false, _) => {
                    "it is open for writing only, and the cache must read it: open it for reading and writing"
                }
                (true, true) => {
                    "it is open for appending, so a write would ignore its offset: open it without O_APPEND"
                }
                (true, false) => "it is open for reading only",
            };
            let why = io::Error::new(io::ErrorKind::PermissionDenied, why);
            return Err(open_failed(&path, why));
        }
        cut(
            self.admit(Arc::new(device), &path, &options, writeback_rules)?,
            &options,
        )
    }

    /// Returns the device's view of the file, if the file is open.
    fn device_of(&self, identity: FileIdentity) -> Option<Arc<DeviceFile>> {
        let files = self.handle.files.lock();
        files.open.get(&identity).map(|(inner, _)| inner.device())
    }

    /// Returns another handle of a file that is open and not being closed. Returns `None` if there is none, or if write
    /// access is requested, the file is open read-only, and no `device` is given.
    ///
    /// # Errors
    /// [`Error::Open`].
    fn join(
        &self,
        files: &mut Files,
        (identity, device): (FileIdentity, Option<&Arc<DeviceFile>>),
        path: &Path,
        options: &OpenOptions,
    ) -> Result<Option<File>> {
        let failed = |source| open_failed(path, source);
        let writable = options.writes();
        let Some((inner, handles)) = files.open.get_mut(&identity) else {
            return Ok(None);
        };
        let is_missing = writable && !inner.is_writable();
        if *handles == 0 || (is_missing && device.is_none()) {
            return Ok(None);
        }
        options.agree_with(&inner.writeback_rules).map_err(failed)?;
        if options.is_exclusive() && inner.has_exclusive.load(Ordering::Acquire) {
            let why = "this cache has it open with OpenOptions::exclusive already: clone that handle, or drop it first";
            return Err(failed(io::Error::new(io::ErrorKind::WouldBlock, why)));
        }
        if is_missing && let Some(device) = device {
            let writes = self.writes(identity, options).map_err(failed)?;
            if options.is_exclusive() {
                device.lock().map_err(failed)?;
            }
            *inner.writes.lock() = Some(writes);
            inner.reopen(device.clone(), true);
        } else if options.is_exclusive() {
            inner.device().lock().map_err(failed)?;
        }
        *handles += 1;
        Ok(Some(File::new(inner.clone(), self.handle.clone(), options)))
    }

    /// Registers this cache as a writer of the file.
    ///
    /// # Errors
    /// If another cache is registered.
    fn writes(&self, identity: FileIdentity, options: &OpenOptions) -> io::Result<Writes> {
        let cache = Arc::as_ptr(&self.handle.engine).addr();
        Writes::by(identity, cache, options.is_beside_others())
    }

    /// Issues a notice if another cache also has the file open for writing. Must not run under a lock, because a hook
    /// may open files.
    fn tell_writers(&self, file: File) -> File {
        let is_shared = |writes: &Option<Writes>| writes.as_ref().is_some_and(|w| w.is_shared);
        if file.writable && is_shared(&file.inner.writes.lock()) {
            let path = file.inner.path.clone();
            let notice = Notice::WrittenTwice { path };
            self.handle
                .notices
                .add(notice, file.inner.device().identity().device);
        }
        file
    }

    /// Returns a handle of the file that is open as `device`.
    fn admit(
        &self,
        device: Arc<DeviceFile>,
        path: &Path,
        options: &OpenOptions,
        writeback_rules: WritebackRules,
    ) -> Result<File> {
        let engine = &self.handle.engine;
        let failed = |source| open_failed(path, source);
        let identity = device.identity();
        writers::check_no_swap(identity).map_err(failed)?;
        self.handle.calibrate(&device).map_err(failed)?;
        for notice in device.notices() {
            self.handle.notices.add(notice, identity.device);
        }
        // Its pages leave memory when the lock is let go.
        let mut stale = Stale::of(&self.handle);
        let mut files = self.handle.files.lock();
        // A file whose last handle is being dropped has to be written and forgotten first.
        let mut wait = None;
        while let Some((inner, 0)) = files.open.get(&identity) {
            if let Some(&page) = inner.stuck.get() {
                return Err(failed(stuck(page)));
            }
            wait.get_or_insert_with(|| engine.device.waits(path, Awaited::Close, Duration::ZERO));
            self.handle.closed.wait(&mut files);
            engine.call_flags.check()?;
        }
        drop(wait);
        if let Some(file) = self.join(&mut files, (identity, Some(&device)), path, options)? {
            drop(files);
            return Ok(self.tell_writers(file));
        }
        let writable = options.writes();
        let writes = match writable {
            true => Some(self.writes(identity, options).map_err(failed)?),
            false => None,
        };
        if options.is_exclusive() {
            device.lock().map_err(failed)?;
        }
        if let Some(parked) = files.parked.take(&device) {
            if writeback_rules.is_default() && parked.is(&device, path) {
                let inner = parked.inner;
                inner.reopen(device, writable);
                *inner.writes.lock() = writes;
                files.open.insert(identity, (inner.clone(), 1));
                drop(files);
                engine.note_opened(&inner);
                events::opened(path, inner.len().div_ceil(engine.page_size.bytes()));
                return Ok(self.tell_writers(File::new(inner, self.handle.clone(), options)));
            }
            stale.file = Some(parked);
        }
        // Not before: another last handle may have made it longer until now.
        let len = device.len().and_then(files::check_len).map_err(failed)?;
        self.handle.reserve_for(&writeback_rules)?;
        if let Some(held) = &writeback_rules.held {
            let cache = Arc::downgrade(engine);
            held.log.join(cache);
        }
        let id = files.take_id();
        let inner = FileInner::new(id, device, path, len, writable, writeback_rules);
        *inner.writes.lock() = writes;
        let inner = Arc::new(inner);
        {
            let mut core = engine.core();
            let at = id.0 as usize;
            if at >= core.files.len() {
                core.files.resize(at + 1, None);
            }
            core.files[at] = Some(inner.clone());
        }
        let hints = || self.handle.device_hints(&inner.device());
        let device = engine.device_entered(identity.device, hints);
        engine.tell(Event::Opened {
            file: id,
            pages: PageCount(len.div_ceil(engine.page_size.bytes())),
            device,
        });
        files.open.insert(identity, (inner.clone(), 1));
        engine.note_opened(&inner);
        drop(files);
        events::opened(path, len.div_ceil(engine.page_size.bytes()));
        Ok(self.tell_writers(File::new(inner, self.handle.clone(), options)))
    }
}

/// Truncates the file if `options` ask for it, which must wait until the file belongs to this cache alone.
fn cut(file: File, options: &OpenOptions) -> Result<File> {
    if options.truncates() && !file.is_empty() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Returns the error of opening a file, with what is missing to make it.
fn missing(path: &Path, options: &OpenOptions, error: io::Error) -> io::Error {
    let is_folder = |folder: &Path| folder.as_os_str().is_empty() || folder.is_dir();
    let could_make = || matches!(options.access(), Access::ReadWrite) && path.parent().is_some_and(is_folder);
    let said = match error.kind() {
        io::ErrorKind::NotFound if path.as_os_str().is_empty() => "the path is empty".into(),
        io::ErrorKind::NotFound if could_make() => {
            format!("{error}; OpenOptions::create(true) would make it")
        }
        _ => return error,
    };
    io::Error::new(error.kind(), said)
}

fn open_failed(path: &Path, source: io::Error) -> Error {
    Error::Open {
        path: path.to_owned(),
        source,
    }
}

/// Returns the error for a file that can't be opened again, because its pages in memory could overwrite later changes.
fn stuck(page: u64) -> io::Error {
    let said = format!(
        "its last handle was dropped while a guard of page {page} had been forgotten (mem::forget), whose change can be \
         neither written nor given up: drop guards before the file; only a new cache can open it"
    );
    io::Error::new(io::ErrorKind::ResourceBusy, said)
}
