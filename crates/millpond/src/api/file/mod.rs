//! Files: reading, writing and syncing.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | the handle, and calls that move no bytes |
//! | `options` | open options and advice |
//! | `close` | closing with a result |
//! | `read` `guards` `write` | the bytes: copied out, lent, copied in |
//! | `write_part` | the pages that a write locks at a time |
//! | `pieces` | vectored buffers |
//! | `whole` | the calls of `std::os::unix::fs::FileExt` |
//! | `resize` | the file length |
//! | `punch` | hole punching |
//! | `unwritten` | dirty data: write it out, query it |
//! | `invalidate` | files that other programs have changed |

mod close;
mod guards;
mod invalidate;
mod note;
mod options;
mod pieces;
mod punch;
mod read;
mod resize;
mod unwritten;
mod whole;
mod write;
mod write_part;

pub use close::CloseError;
pub(crate) use close::dropped;
pub use options::{Advice, OpenOptions};

use super::handle::Handle;
use super::opened::Opened;
use crate::device::FileIdentity;
use crate::engine::driver::{CallBack, Dirtier, Discards, Engine, Holders, Reads, Syncs};
use crate::error::{Error, Result};
use crate::files::{FileInner, LEN_MAX};
use crate::frames::own::Waits;
use crate::frames::table::{ExclusivePin, Lookup, SharedPin, Table};
use crate::frames::wait::Slow;
use crate::observe::events;
use crate::observe::explain::{self, Call, Wait};
use crate::observe::trace::{Note, What};
use crate::sys::arena::Arena;
use millpond_core::event::Event;
use millpond_core::readahead::Pattern;
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use parking_lot::MutexGuard;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The largest record size of [`Advice::Records`].
const RECORD_BYTES_MAX: u64 = 4 << 20;

/// A handle of a file in a cache. Any thread may use it at any time. A clone is the same handle for another thread or
/// owner; it costs three atomic additions.
///
/// Dropping the last handle of a file, including clones, writes its dirty pages and drops all its pages from memory.
/// This waits for the device and cannot report errors; use [`File::close`] for that.
///
/// `docs/SEMANTICS.md` states what each call promises when it returns, when it fails, and when the machine stops.
///
/// ```
/// use millpond::{OpenOptions, PageCache};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let cache = PageCache::builder().build()?;
/// let file = cache.open(&path, OpenOptions::new().create(true))?;
///
/// file.write_at(b"some bytes", 10_000)?; // copied into memory; the device gets them in the background
/// file.page_mut(2)?[..4].copy_from_slice(b"page"); // the third page, changed where it is
/// let mut bytes = [0; 10];
/// assert_eq!(file.read_at(&mut bytes, 10_000)?, 10); // copied out
/// assert_eq!(&file.page(2)?[..4], b"page"); // lent: no copy, no lock
///
/// file.sync_data()?; // all of it durable, or an error that comes again until it is
/// file.close()?; // the same, and says what dropping the file can't
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct File {
    pub(crate) inner: Arc<FileInner>,
    pub(crate) cache: Arc<Handle>,
    pub(crate) writable: bool,
    /// Its reads are those of a background task.
    is_background: bool,
    opened: Arc<Opened>,
}

impl File {
    /// Creates a handle that the cache has already counted.
    pub(crate) fn new(inner: Arc<FileInner>, cache: Arc<Handle>, options: &OpenOptions) -> File {
        let opened = Arc::new(Opened::new(inner.clone(), cache.clone(), options.is_exclusive()));
        let writable = options.writes();
        File {
            inner,
            cache,
            writable,
            is_background: false,
            opened,
        }
    }

    /// Returns a handle of the same file, as a clone, whose reads are those of a background task: a compaction, a backup,
    /// a verification. They leave the device to other callers that wait for it, for half of its time at most. What they
    /// find in memory does not count as used, and what they bring in, with pages ahead of a sequential reader, leaves
    /// memory before other pages. This is about `read_at` and the calls like it; guards, mappings and writes are as of any
    /// handle.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// # std::fs::write(&path, [7; 100_000])?;
    /// # let cache = millpond::PageCache::builder().build()?;
    /// let file = cache.open(&path, millpond::OpenOptions::new())?;
    /// let scan = file.background();
    /// let mut part = vec![0; 65536];
    /// let mut at = 0;
    /// loop {
    ///     match scan.read_at(&mut part, at)? {
    ///         0 => break,
    ///         n => at += n as u64, // checked, or copied away
    ///     }
    /// }
    /// # assert_eq!(at, 100_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn background(&self) -> File {
        File {
            is_background: true,
            ..self.clone()
        }
    }

    #[inline]
    pub(crate) fn engine(&self) -> &Engine {
        &self.cache.engine
    }

    /// Begins a call that reads or writes `len` bytes at `offset`. If calls are recorded, the caller must keep the
    /// returned note until the call ends. If not, this costs one load.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    #[inline]
    fn begin(&self, offset: u64, len: usize, writes: bool) -> Result<Option<Note<'_>>> {
        if self.engine().call_flags.is_usual() {
            return Ok(None);
        }
        self.engine().call_flags.check()?;
        if !writes {
            self.check_whole(offset..offset.saturating_add(len as u64))?;
        }
        Ok(self.note_bytes(offset, len, writes))
    }

    #[inline]
    fn holders(&self) -> Holders<'_> {
        Holders::of(self.engine(), &self.inner)
    }

    fn reads(&self) -> Reads<'_> {
        Reads::of(self.engine(), &self.inner)
    }

    fn dirtier(&self) -> Dirtier<'_> {
        Dirtier::of(self.engine(), &self.inner)
    }

    fn syncs(&self) -> Syncs<'_> {
        Syncs::of(self.engine(), &self.inner)
    }

    fn discards(&self) -> Discards<'_> {
        Discards::of(self.engine(), &self.inner)
    }

    /// Counts a requested page that was in memory or being loaded.
    #[inline]
    fn found(&self) {
        self.inner.requests.found(&self.engine().requests);
    }

    /// Counts `pages` requested pages that were missing.
    #[cold]
    fn missed(&self, pages: u64) {
        self.inner.requests.add(pages, &self.engine().requests);
    }

    #[inline]
    fn key(&self, page: u64) -> PageKey {
        PageKey::new(self.inner.id, PageIndex(page))
    }

    /// Waits in `call` for a page that is being loaded. Tells the core that a thread waits, because the page may have
    /// been read ahead.
    #[cold]
    fn wait_loading(&self, frame: FrameNo, key: PageKey, call: Call) {
        explain::waits_in(call);
        if !self.is_background {
            self.engine().tell(Event::Awaited {
                file: key.file(),
                page: key.index(),
            });
        }
        explain::timed(Wait::Read, || self.engine().table.wait_loading(frame, key));
    }

    /// Pins a page for reading in `call`. Never returns `Busy`.
    #[inline]
    fn pin(&self, key: PageKey, call: Call) -> Lookup<SharedPin<&Table<Arena>>> {
        match self.engine().table.hit(key) {
            Some(pin) => Lookup::Found(pin),
            None => self.pin_patiently(key, call),
        }
    }

    #[cold]
    fn pin_patiently(&self, key: PageKey, call: Call) -> Lookup<SharedPin<&Table<Arena>>> {
        explain::waits_in(call);
        let pin = || loop {
            let page = key.index().0;
            let watched = |slow: Slow<'_>| self.engine().table.pin(key, slow);
            match self.engine().watched(&self.inner, page, watched) {
                Lookup::Busy(_) => CallBack::of(self.engine()).call_one_back(&self.inner, page, false),
                other => break other,
            }
        };
        explain::timed(Wait::Busy, pin)
    }

    /// Locks a page for writing in `call`, as [`Table::lock`] does.
    fn lock(&self, key: PageKey, call: Call) -> Lookup<ExclusivePin<&Table<Arena>>> {
        match self.try_lock(key) {
            Lookup::Busy(_) => {
                explain::waits_in(call);
                let lock = || loop {
                    let (watched, page) = (
                        |slow: Slow<'_>| self.engine().table.lock(key, slow),
                        key.index().0,
                    );
                    match self.engine().watched(&self.inner, page, watched) {
                        Lookup::Busy(frame) if self.engine().table.word(frame).is_mapped() => {
                            CallBack::of(self.engine()).call_one_back(&self.inner, page, true);
                        }
                        other => break other,
                    }
                };
                explain::timed(Wait::Busy, lock)
            }
            other => other,
        }
    }

    /// Locks a page for writing without waiting for other threads, as [`Table::try_lock`] does. First takes the page
    /// back from a mapping of the file.
    fn try_lock(&self, key: PageKey) -> Lookup<ExclusivePin<&Table<Arena>>> {
        let table = &self.engine().table;
        match table.try_lock(key) {
            Lookup::Busy(frame) if table.word(frame).is_mapped() => {
                let page = key.index().0;
                CallBack::of(self.engine()).call_back(&self.inner, page..page + 1, true);
                table.try_lock(key)
            }
            other => other,
        }
    }

    /// Locks the length against changes by other threads, in `call`.
    fn lock_length(&self, call: Call) -> MutexGuard<'_, ()> {
        if let Some(resize) = self.inner.resize.try_lock() {
            return resize;
        }
        explain::waits_in(call);
        explain::timed(Wait::Busy, || self.inner.resize.lock())
    }

    /// Returns the path by which the file was first opened, or the name that [`OpenOptions::shown_as`] gave it.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the identity of the file, as devices see it: the rules and journals of `millpond-testing` name files so.
    pub fn identity(&self) -> FileIdentity {
        self.inner.device().identity()
    }

    /// Returns the length in bytes, including all writes that have returned. Makes no system call.
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Returns whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the page size in bytes, which is the same for all files of the cache.
    pub fn page_size(&self) -> u64 {
        self.engine().page_size.bytes()
    }

    /// Returns whether the page that holds byte `offset` is in memory. For measurements only: the answer may be out of
    /// date by the time it returns.
    pub fn is_resident(&self, offset: u64) -> bool {
        offset < LEN_MAX
            && self
                .engine()
                .table
                .holds(self.key(offset >> self.engine().page_size.shift()))
    }

    /// Sets the expected access pattern of the file, for all its handles.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if records are larger than 4 MiB; [`Error::Poisoned`].
    pub fn advise(&self, advice: Advice) -> Result<()> {
        self.engine().call_flags.check()?;
        let pattern = match advice {
            Advice::Normal => Pattern::Normal,
            Advice::Random => Pattern::Random,
            Advice::Sequential => Pattern::Sequential,
            Advice::Records(_) => Pattern::Random,
        };
        let record_pages = match advice {
            Advice::Records(bytes @ ..=RECORD_BYTES_MAX) => bytes.div_ceil(self.engine().page_size.bytes()),
            Advice::Records(given) => {
                return Err(Error::OutOfRange {
                    path: self.inner.path.clone(),
                    what: "bytes of a record",
                    given,
                    max: Some(RECORD_BYTES_MAX),
                });
            }
            _ => 0,
        };
        self.inner.record_pages.store(record_pages, Ordering::Relaxed);
        self.engine().tell(Event::Advised {
            file: self.inner.id,
            pattern,
        });
        Ok(())
    }

    /// Makes all earlier writes to the file durable, by whichever handle they were made. After it returns they survive
    /// a power loss. Waits until [`PageMut`](crate::PageMut) guards of the file are dropped.
    ///
    /// # Errors
    /// [`Error::Write`] if a write fails. The pages stay in memory, dirty, and every sync returns the error until they
    /// are written. [`Error::Sync`] if the device can't confirm that it has made the writes durable. Unless `is_kept`
    /// is set, this error is latched until the file is closed and opened again. [`Error::Log`] if the log of its pages
    /// can't be made durable; pages that don't depend on the log are still written if possible. If the log has no
    /// callback, the sync waits until the log advances. [`Error::OwnGuard`] if the calling thread holds a
    /// [`PageMut`](crate::PageMut) of the file. [`Error::Poisoned`].
    pub fn sync_data(&self) -> Result<()> {
        self.engine().call_flags.check()?;
        let _noted = self.engine().note(self.inner.id, (0, 0), What::Sync);
        self.check_own_changes()?;
        explain::waits_in(Call::Sync);
        let log = self.syncs().log_first();
        let syncing = self.syncs().sync_begin(log)?;
        let synced = self.syncs().sync_file(syncing);
        synced.inspect_err(|error| events::sync_failed(&self.inner.path, error))
    }

    /// Same as [`File::sync_data`]: both also make durable the length and other metadata needed to read the data.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<()> {
        self.sync_data()
    }

    /// Discards the pages whose last write failed, and clears the error that every sync returns for them. The next use
    /// of such a page reads it from the device again. It then holds whatever the device has: the content before the
    /// change, any part of the change, or zeros. All other pages, dirty or clean, and the length stay as they are.
    /// Returns the number of pages discarded, which is 0 if no page had a failed write.
    ///
    /// Waits for guards and transfers of these pages; changes that are written meanwhile are kept. Does not clear an
    /// [`Error::Sync`], which concerns data that the device has accepted.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Write`] if the file is shorter on the device than here and can't be extended;
    /// [`Error::OwnGuard`] if the calling thread holds a guard of one of these pages; [`Error::Poisoned`].
    pub fn discard_unwritten(&self) -> Result<u64> {
        self.check_writable()?;
        self.engine().call_flags.check()?;
        // What was appended and never written: the next sync promises the length all the same. First, as the device may refuse.
        let lengthen = || {
            let _resize = self.inner.resize.lock();
            let on_device = self.inner.device().len();
            match on_device.is_ok_and(|len| len < self.len()) {
                true => self.resize_device(self.len()),
                false => Ok(()),
            }
        };
        if self.failure().is_some() {
            lengthen()?;
        }
        // While others may change the length: a thread that holds one of the pages may want to.
        let given_up = self.discards().discard_failed()?;
        if given_up > 0 {
            lengthen()?;
        }
        Ok(given_up)
    }

    /// Checks, before a sync waits for them, for guards that change pages of the file.
    ///
    /// # Errors
    /// [`Error::OwnGuard`] if the calling thread has one.
    fn check_own_changes(&self) -> Result<()> {
        self.holders().check_guards(0..u64::MAX, Waits::ForWriters)
    }

    /// Checks, before pages from `first` on leave memory, for guards of them.
    ///
    /// # Errors
    /// [`Error::OwnGuard`] if the calling thread has one.
    fn check_own_guards(&self, first: u64) -> Result<()> {
        self.holders().check_guards(first..u64::MAX, Waits::ForAll)
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.writable {
            Ok(())
        } else {
            Err(Error::ReadOnly {
                path: self.inner.path.clone(),
                is_mapping: false,
            })
        }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({}, {} bytes)", self.inner.path.display(), self.len())
    }
}

#[cfg(test)]
mod tests {
    use crate::{OpenOptions, PageCache};
    use millpond_core::frame::FrameTable;

    #[test]
    fn asking_whether_a_page_is_resident_is_no_use_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let path = folder.path().join("data");
        let file = cache.open(path, OpenOptions::new().create(true)).unwrap();
        file.write_at(&[1; 4096], 0).unwrap();
        let uses = || {
            let mut core = file.engine().core();
            let mut table = file.engine().table.locked(&mut core.token);
            let frame = table.lookup(file.key(0)).unwrap();
            table.test_and_clear_accessed(frame)
        };
        uses();
        assert!((0..10).all(|_| file.is_resident(0)));
        assert_eq!(uses(), 0);
        drop(file.page(0).unwrap());
        assert_eq!(uses(), 1);
    }
}
