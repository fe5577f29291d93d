//! Files for tokio tasks. Work on pages in memory completes on the task's thread; calls that must wait run on the
//! runtime's blocking pool.
//!
//! ```text
//!   read, page ── in memory? ── yes ──► copied, lent: on the task's thread, no other is asked
//!                    └── no ──► one of 64 slots ───► blocking pool: the device is read, the page is pinned ──► the task
//!   write ── small, inside the file, its pages in memory, no pause due? ── yes ──► the same
//!                    └── no ──► one of 32 slots ───► blocking pool: as any thread that writes, pauses among it
//!   sync, close ──► one of 32 slots ───► blocking pool
//! ```
//!
//! The slots belong to the cache, across all its files and tasks. Each kind has its own, so writers that pause do not
//! delay readers. A task that waits for a slot occupies no thread and none of the cache's memory. A task with a
//! slot needs no more memory than a thread that makes the same call, from the same budget.

use super::file::{CloseError, File};
use super::guard::{OwnedPageMut, OwnedPageRef};
use super::opened::MAY_WAIT;
use super::tasks::Places;
use crate::error::{Error, Result};
use crate::memory::buffers;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::{coop, spawn_blocking};

/// The largest write that a task copies on its own thread, about 10 µs of work.
const WRITE_AT_ONCE_MAX: usize = 64 << 10;

/// A file in a cache for tokio tasks. It is one more handle of the [`File`] it wraps.
///
/// A call whose pages are in memory and available completes on the task's own thread and without an allocation. A call
/// that must wait for the device, a guard or memory runs on the runtime's blocking pool: at most 64 reads, 32 writes
/// and 32 syncs of a cache at a time. The pool must have a thread for each of them; tokio's default of 512 suffices for
/// four caches. A call that waits for a guard occupies its thread meanwhile.
///
/// Don't hold a page guard across the `await` of another call of the same cache. Calls that wait for that page may
/// occupy all slots, and the other call would then wait for them forever. A task that finds everything in memory yields
/// regularly, as tokio's own operations do. `docs/ASYNC.md` states the costs, and compares them with blocking calls.
///
/// Every call may be dropped before it completes. A dropped read or page request leaves nothing behind, except that the
/// page may be in memory. A dropped write resembles a failed one: it has not begun, or a prefix of it is in memory, or
/// it is running and still completes; so does a sync. The result of a dropped call is not returned, but no error is
/// lost: the next sync reports what could not be written.
///
/// Dropping the last handle of a file waits for the device. In a runtime, dropping the last handle of an `AsyncFile`
/// does that on the blocking pool and discards the result; [`AsyncFile::close`] returns it.
///
/// # Panics
/// A call that must wait panics outside a tokio runtime.
///
/// ```
/// use millpond::{AsyncFile, OpenOptions, PageCache};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let cache = PageCache::builder().memory(64 << 20).build()?;
/// let file = AsyncFile::new(cache.open(&path, OpenOptions::new().create(true))?);
/// file.write_at("Hello, pond", 0).await?;
/// file.sync_data().await?;
/// assert_eq!(&file.page(0).await?[..], b"Hello, pond");
/// # Ok::<(), millpond::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AsyncFile {
    file: File,
}

impl From<File> for AsyncFile {
    fn from(file: File) -> AsyncFile {
        AsyncFile::new(file)
    }
}

impl AsyncFile {
    /// Wraps a file for use by tasks. Opening a file is fast, except the first in a cache; where that matters, open it
    /// on the blocking pool.
    pub fn new(file: File) -> AsyncFile {
        file.in_tasks();
        AsyncFile { file }
    }

    /// Returns the file, for calls that don't wait ([`File::len`], [`File::try_page`], [`File::prefetch`]).
    pub fn get_ref(&self) -> &File {
        &self.file
    }

    /// Returns the file, for [`File::close`] outside a runtime.
    pub fn into_inner(self) -> File {
        self.file
    }

    /// Runs any other call on the blocking pool, in one of the slots for writes.
    ///
    /// # Errors
    /// Those of the call; [`Error::Runtime`].
    pub async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&File) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.wait(&self.places().writes, call).await
    }

    /// As [`File::read_at`]. If it is dropped before it completes, any part of `buf` may have been overwritten.
    ///
    /// # Errors
    /// As [`File::read_at`]; [`Error::Runtime`].
    pub async fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let size = self.file.page_size();
        let is_apart = buffers::are_in_region(buf);
        let mut done = 0;
        while done < buf.len() {
            coop::consume_budget().await;
            let at = offset.saturating_add(done as u64);
            let left = self.file.len().saturating_sub(at).min((buf.len() - done) as u64);
            if left == 0 {
                break;
            }
            let (page, from) = (at / size, (at % size) as usize);
            let to = &mut buf[done..];
            let copied = match self.file.try_page(page) {
                Ok(Some(guard)) => copy(guard, from, to, is_apart),
                Ok(None) => {
                    let last = (at + left - 1) / size;
                    let read = move |file: &File| Ok(file.page_of_run(page, last)?.hand_on());
                    match self.wait(&self.places().reads, read).await {
                        Ok(guard) => copy(guard, from, to, is_apart),
                        Err(Error::OutOfRange { .. }) => 0,
                        Err(error) => return Err(error),
                    }
                }
                // It was cut meanwhile.
                Err(Error::OutOfRange { .. }) => 0,
                Err(error) => return Err(error),
            };
            if copied == 0 {
                break;
            }
            done += copied;
        }
        Ok(done)
    }

    /// As [`File::read_exact_at`]. If it is dropped before it completes, any part of `buf` may have been overwritten.
    ///
    /// # Errors
    /// As [`File::read_exact_at`]; [`Error::Runtime`].
    pub async fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let read = self.read_at(buf, offset).await?;
        self.file.check_all(read, buf.len(), offset)
    }

    /// As [`File::page_owned`]. If it is dropped before it completes, the page may still be read.
    ///
    /// # Errors
    /// As [`File::page`]; [`Error::Runtime`].
    pub async fn page(&self, page: u64) -> Result<OwnedPageRef> {
        coop::consume_budget().await;
        if let Some(guard) = self.file.try_page_owned(page)? {
            return Ok(guard);
        }
        let read = move |file: &File| Ok(file.page_owned(page)?.hand_on());
        self.wait(&self.places().reads, read).await
    }

    /// As [`File::page_mut_owned`]. While the guard lives, threads that want the page wait, and so does a sync of the
    /// file: change the page and drop the guard before the task awaits anything else. If this call is dropped before it
    /// completes, it changes nothing; the page may be written once more unchanged.
    ///
    /// # Errors
    /// As [`File::page_mut`]; [`Error::Runtime`].
    pub async fn page_mut(&self, page: u64) -> Result<OwnedPageMut> {
        coop::consume_budget().await;
        if let Some(guard) = self.file.try_page_mut_owned(page)? {
            return Ok(guard);
        }
        let lock = move |file: &File| Ok(file.page_mut_owned(page)?.hand_on());
        self.wait(&self.places().writes, lock).await
    }

    /// As [`File::write_at`], with a buffer that the call owns until it completes: a `Vec<u8>`, `bytes::Bytes`,
    /// `&'static str`, or an `Arc<[u8]>` shared with the caller. Writes of up to 64 KiB inside the file, to pages in
    /// memory, complete at once; other callers may see the first pages of such a write before the rest.
    ///
    /// If it is dropped before it completes, none of the buffer, a prefix, or all of it is written.
    ///
    /// # Errors
    /// As [`File::write_at`]; [`Error::Runtime`].
    pub async fn write_at(&self, buf: impl AsRef<[u8]> + Send + 'static, offset: u64) -> Result<()> {
        coop::consume_budget().await;
        let done = self.write_at_once(buf.as_ref(), offset)?;
        if done > 0 && done == buf.as_ref().len() {
            return Ok(());
        }
        // All of it once more: a cut meanwhile may have taken the first pages, and this call comes after it.
        let write = move |file: &File| file.write_at(buf.as_ref(), offset);
        self.wait(&self.places().writes, write).await
    }

    /// As [`File::append`], with a buffer as in [`AsyncFile::write_at`], always on the blocking pool. If it is dropped
    /// before it completes, it either still completes or has not begun.
    ///
    /// # Errors
    /// As [`File::append`]; [`Error::Runtime`].
    pub async fn append(&self, buf: impl AsRef<[u8]> + Send + 'static) -> Result<u64> {
        self.blocking(move |file| file.append(buf.as_ref())).await
    }

    /// As [`File::sync_data`], always on the blocking pool. If it is dropped before it completes, nothing is known to
    /// be durable. The next sync reports the errors that this one would have reported.
    ///
    /// # Errors
    /// As [`File::sync_data`]; [`Error::Runtime`].
    pub async fn sync_data(&self) -> Result<()> {
        self.wait(&self.places().syncs, File::sync_data).await
    }

    /// As [`File::sync_all`] and [`AsyncFile::sync_data`].
    ///
    /// # Errors
    /// As [`File::sync_all`]; [`Error::Runtime`].
    pub async fn sync_all(&self) -> Result<()> {
        self.wait(&self.places().syncs, File::sync_all).await
    }

    /// As [`File::close`], on the blocking pool, which also drops the handle. If the call is dropped before it
    /// completes, the handle is dropped too, possibly after a sync.
    ///
    /// # Errors
    /// As [`File::close`], with the handle; [`Error::Runtime`].
    pub async fn close(self) -> std::result::Result<(), CloseError> {
        let place = self.places().syncs.clone().acquire_owned().await;
        // For a call that the runtime no longer makes: its drop gives the handle back.
        let slot = Arc::new(Mutex::new(Some(self.file)));
        let taken = slot.clone();
        let close = move || {
            let _place = place;
            let file = taken.lock().take();
            file.map_or(Ok(()), File::close)
        };
        match on_pool(close).await {
            Ok(closed) => closed,
            Err(error) => match slot.lock().take() {
                Some(file) => Err(CloseError { error, file }),
                None => unreachable!("a call that was not made took the handle"),
            },
        }
    }

    fn places(&self) -> &Places {
        &self.file.cache.places
    }

    /// Runs a call on the blocking pool once one of the `places` is available.
    async fn wait<T: Send + 'static>(
        &self,
        places: &Arc<Semaphore>,
        call: impl FnOnce(&File) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let place = places.clone().acquire_owned().await;
        let file = self.file.clone();
        let call = move || {
            let _place = place;
            call(&file)
        };
        on_pool(call).await?
    }

    /// Writes the longest prefix of `buf` that can be written without waiting. Returns the number of bytes written.
    fn write_at_once(&self, buf: &[u8], offset: u64) -> Result<usize> {
        let size = self.file.page_size();
        let is_inside = |end| end <= self.file.len();
        let end = offset.checked_add(buf.len() as u64);
        if buf.len() > WRITE_AT_ONCE_MAX || !end.is_some_and(is_inside) || buffers::are_in_region(buf) {
            return Ok(0);
        }
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let (page, from) = (at / size, (at % size) as usize);
            let mut guard = match self.file.try_page_mut(page) {
                Ok(Some(guard)) => guard,
                Ok(None) | Err(Error::OutOfRange { .. }) => break,
                Err(error) => return Err(error),
            };
            let part = (size as usize - from).min(buf.len() - done);
            // It may have been cut meanwhile.
            let Some(to) = guard.get_mut(from..from + part) else {
                break;
            };
            to.copy_from_slice(&buf[done..done + part]);
            done += part;
        }
        Ok(done)
    }
}

async fn on_pool<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let call = move || {
        MAY_WAIT.set(true);
        let done = call();
        MAY_WAIT.set(false);
        done
    };
    match spawn_blocking(call).await {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => Err(Error::Runtime { source: error.into() }),
    }
}

/// Copies from a page as much as fits and the page has. Touches a region only while no page is held
/// (`memory/buffers.rs`).
fn copy(guard: impl AsRef<[u8]>, from: usize, to: &mut [u8], is_apart: bool) -> usize {
    let bytes = guard.as_ref().get(from..).unwrap_or_default();
    let len = bytes.len().min(to.len());
    if is_apart {
        let own = bytes[..len].to_vec();
        drop(guard);
        to[..len].copy_from_slice(&own);
    } else {
        to[..len].copy_from_slice(&bytes[..len]);
    }
    len
}
