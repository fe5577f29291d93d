//! Files: what users read, write and sync.
//!
//! | file | what |
//! |---|---|
//! | `mod` | a handle, and what is not about bytes |
//! | `options` | how a file is opened and used |
//! | `close` | closing with an answer |
//! | `read` `guards` `write` | the bytes: copied out, lent, copied in |
//! | `write_part` | the pages that a write locks at a time |
//! | `pieces` | buffers in several pieces |
//! | `whole` | the calls of `std::os::unix::fs::FileExt` that are made of those |
//! | `resize` | the length as users see it |
//! | `punch` | ranges that are given back to the file system |
//! | `unwritten` | what the device has not got yet: written out, asked for |
//! | `invalidate` | files that others have changed |

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
pub use options::{Advice, OpenOptions};

use super::handle::Handle;
use super::opened::Opened;
use crate::engine::driver::Engine;
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

/// The largest record that a file can be said to be read in.
const RECORD_BYTES_MAX: u64 = 4 << 20;

/// A file in a cache: a handle, which any thread may use at any time. A clone is the same handle once more, for another
/// thread or another owner; it costs three atomic additions.
///
/// Dropping the last handle of a file, clones among them, writes what is dirty and forgets the file's pages, which waits for
/// the device and can't say whether it went well; [`File::close`] can.
///
/// What each call promises when it returns, fails, or the machine stops, is in `docs/SEMANTICS.md`.
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
    opened: Arc<Opened>,
}

impl File {
    /// A handle that the cache has counted.
    pub(crate) fn new(inner: Arc<FileInner>, cache: Arc<Handle>, writable: bool) -> File {
        let opened = Arc::new(Opened::new(inner.clone(), cache.clone()));
        File {
            inner,
            cache,
            writable,
            opened,
        }
    }

    #[inline]
    pub(crate) fn engine(&self) -> &Engine {
        &self.cache.engine
    }

    /// The begin of a call that reads or writes `len` bytes from `offset` on: what is to be kept until its end, if calls
    /// are recorded. One load if they are not.
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

    /// A page that a call has asked for was in memory, or on its way there.
    #[inline]
    fn found(&self) {
        self.inner.requests.found(&self.engine().requests);
    }

    /// So many pages that a call has asked for were not.
    #[cold]
    fn missed(&self, pages: u64) {
        self.inner.requests.add(pages, &self.engine().requests);
    }

    #[inline]
    fn key(&self, page: u64) -> PageKey {
        PageKey::new(self.inner.id, PageIndex(page))
    }

    /// Waits for a page that is being loaded, in `call`. The core is told, as the page may have been read
    /// ahead: now a thread waits for it.
    #[cold]
    fn wait_loading(&self, frame: FrameNo, key: PageKey, call: Call) {
        explain::waits_in(call);
        self.engine().tell(Event::Awaited {
            file: key.file(),
            page: key.index(),
        });
        explain::timed(Wait::Read, || self.engine().table.wait_loading(frame, key));
    }

    /// Pins a page for reading in `call`. Never `Busy`.
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
                Lookup::Busy(_) => self.engine().call_one_back(&self.inner, page, false),
                other => break other,
            }
        };
        explain::timed(Wait::Busy, pin)
    }

    /// Locks a page for changing it in `call`, as [`Table::lock`].
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
                            self.engine().call_one_back(&self.inner, page, true);
                        }
                        other => break other,
                    }
                };
                explain::timed(Wait::Busy, lock)
            }
            other => other,
        }
    }

    /// Locks a page for changing it without waiting for other threads, as [`Table::try_lock`]. A mapping of the file gives
    /// it back first.
    fn try_lock(&self, key: PageKey) -> Lookup<ExclusivePin<&Table<Arena>>> {
        let table = &self.engine().table;
        match table.try_lock(key) {
            Lookup::Busy(frame) if table.word(frame).is_mapped() => {
                let page = key.index().0;
                self.engine().call_back(&self.inner, page..page + 1, true);
                table.try_lock(key)
            }
            other => other,
        }
    }

    /// Keeps others from changing the length, in `call`.
    fn lock_length(&self, call: Call) -> MutexGuard<'_, ()> {
        if let Some(resize) = self.inner.resize.try_lock() {
            return resize;
        }
        explain::waits_in(call);
        explain::timed(Wait::Busy, || self.inner.resize.lock())
    }

    /// The path it was opened by first, or what [`OpenOptions::shown_as`] says.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The length in bytes, with all writes that have returned. No system call.
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes a page has, of whichever file of the cache.
    pub fn page_size(&self) -> u64 {
        self.engine().page_size.bytes()
    }

    /// Whether the whole page that holds byte `offset` is in memory at this moment. For measuring; by the time it
    /// returns it may not be.
    pub fn is_resident(&self, offset: u64) -> bool {
        offset < LEN_MAX
            && self
                .engine()
                .table
                .holds(self.key(offset >> self.engine().page_size.shift()))
    }

    /// Says how the file will be used from now on, by all handles.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] of records of more than 4 MiB, [`Error::Poisoned`].
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

    /// Makes everything durable that was written to the file before, by any handle: when this returns, it would
    /// survive a loss of power. Waits for [`PageMut`](crate::PageMut) guards of the file to be dropped.
    ///
    /// # Errors
    /// [`Error::Write`] if a write fails; its pages stay in memory, dirty, and every sync says so until they are
    /// written. [`Error::Sync`] if the device can't say that it has kept what it took: latched until the file is
    /// opened anew, unless `is_kept`. [`Error::Log`] if the log of its pages can't be made durable: pages that don't wait
    /// for it were written, if they can be. Without a callback to ask it waits until the log advances.
    pub fn sync_data(&self) -> Result<()> {
        self.engine().call_flags.check()?;
        let _noted = self.engine().note(self.inner.id, (0, 0), What::Sync);
        self.check_own_changes()?;
        explain::waits_in(Call::Sync);
        let log = self.engine().log_first(&self.inner);
        let syncing = self.engine().sync_begin(self.inner.id, log)?;
        let synced = self.engine().sync_file(&self.inner, syncing);
        synced.inspect_err(|error| events::sync_failed(&self.inner.path, error))
    }

    /// As [`File::sync_data`]; the length and other metadata that reading the data needs are made durable by both.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<()> {
        self.sync_data()
    }

    /// Gives up what can't be written: the pages whose last write has failed are dropped, and with them the error that
    /// every sync gives. They are read from the device again at their next use, and then hold what it has: the
    /// content before the change, or any part of it, or zeros. All other pages stay as they are, dirty or not, and so
    /// does the length. How many pages were dropped; 0 if none was known that can't be written.
    ///
    /// Waits for guards and transfers of these pages; what is written meanwhile is kept. An [`Error::Sync`] stays: it is
    /// about what the device has taken.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Write`] if the file on the device is shorter than this one and can't be made as
    /// long; [`Error::Poisoned`].
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
        let given_up = self.engine().discard_failed(&self.inner)?;
        if given_up > 0 {
            lengthen()?;
        }
        Ok(given_up)
    }

    /// Before a sync: it waits for guards that change pages of the file.
    ///
    /// # Errors
    /// [`Error::OwnGuard`] if the calling thread has one.
    fn check_own_changes(&self) -> Result<()> {
        self.engine()
            .check_guards(&self.inner, 0..u64::MAX, Waits::ForWriters)
    }

    /// Before pages from `first` on leave memory, which waits for guards of them.
    ///
    /// # Errors
    /// [`Error::OwnGuard`] if the calling thread has one.
    fn check_own_guards(&self, first: u64) -> Result<()> {
        self.engine()
            .check_guards(&self.inner, first..u64::MAX, Waits::ForAll)
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.writable {
            Ok(())
        } else {
            Err(Error::ReadOnly {
                path: self.inner.path.clone(),
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
