//! Files: what users read, write and sync.

use crate::cache::Handle;
use crate::device::{Access, DeviceFile};
use crate::driver::{Deferred, Reach, Shared};
use crate::error::{Error, Result};
use crate::guard::{PageMut, PageRef};
use crate::sys::arena::Arena;
use crate::table::{ExclusivePin, Lookup, Table};
use millpond_core::event::{Event, Intent, Pattern};
use millpond_core::frame::FrameTable;
use millpond_core::units::{FileId, FrameNo, Nanos, PageCount, PageIndex, PageKey};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Pages that one fault asks for at most: 1 MiB of 4 KiB pages, what one read of the device takes.
const FAULT_PAGES_MAX: u64 = 256;
/// Pages that a write holds at a time. Few enough that a pool of the least size has frames left for others.
const WRITE_PAGES_MAX: usize = 32;
/// No file is longer: 2^40 pages of 4 KiB, and what a system's signed offset can name.
const LEN_MAX: u64 = 1 << 52;
/// Pages, or frames, that a discard looks at before it lets others have the core lock: about 0.2 ms.
const DISCARD_BATCH: u64 = 1024;
/// Whoever appends makes the file on the device longer after so much.
const ROOM_STEP: u64 = 4 << 20;

/// The length of a file that is to be opened, if a cache can have it.
///
/// # Errors
/// If it is too long.
pub(crate) fn check_len(len: u64) -> io::Result<u64> {
    if len <= LEN_MAX {
        return Ok(len);
    }
    let said = format!("it is {len} bytes long, and a cache takes files of up to {LEN_MAX}");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, said))
}

/// What all handles of one file share: one per file, whatever its name.
pub(crate) struct FileInner {
    pub(crate) id: FileId,
    device: RwLock<Arc<DeviceFile>>,
    /// Whether the device's file can be written.
    writable: AtomicBool,
    pub(crate) path: PathBuf,
    /// Its length as users see it.
    len: AtomicU64,
    /// How far the file on the device goes; grows ahead of the writes.
    room: Mutex<u64>,
    /// Whoever changes the length holds this.
    resize: Mutex<()>,
    /// The page whose use asks for the next read-ahead.
    pub(crate) readahead_mark: AtomicU64,
    /// The last write failed: where, and the error number.
    write_error: Mutex<Option<(u64, i32)>>,
    /// A sync of the device failed: nobody knows what it holds.
    sync_error: OnceLock<i32>,
}

impl FileInner {
    pub(crate) fn new(id: FileId, device: DeviceFile, path: &Path, len: u64, writable: bool) -> FileInner {
        FileInner {
            id,
            device: RwLock::new(Arc::new(device)),
            writable: AtomicBool::new(writable),
            path: path.to_owned(),
            len: AtomicU64::new(len),
            room: Mutex::new(len),
            resize: Mutex::new(()),
            readahead_mark: AtomicU64::new(u64::MAX),
            write_error: Mutex::new(None),
            sync_error: OnceLock::new(),
        }
    }

    /// The file as the device sees it.
    pub(crate) fn device(&self) -> Arc<DeviceFile> {
        self.device.read().clone()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }

    /// The same file, opened for writing, takes the place of the one that was opened for reading.
    pub(crate) fn reopen(&self, device: DeviceFile) {
        *self.device.write() = Arc::new(device);
        self.writable.store(true, Ordering::Release);
    }

    /// SeqCst, and stored so: a writer who has locked a page and then sees the old length locked it before whoever
    /// cuts the file looks for pages in use.
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::SeqCst)
    }

    /// A write to the device has ended.
    pub(crate) fn written(&self, error: Option<(u64, i32)>) {
        *self.write_error.lock() = error;
    }

    /// # Errors
    /// [`Error::Write`] if the last write to the device failed.
    pub(crate) fn check_written(&self) -> Result<()> {
        match *self.write_error.lock() {
            None => Ok(()),
            Some((_, errno)) => Err(self.write_failed(errno)),
        }
    }

    pub(crate) fn write_failed(&self, errno: i32) -> Error {
        Error::Write {
            path: self.path.clone(),
            source: io::Error::from_raw_os_error(errno),
        }
    }

    /// As [`FileInner::make_room`], by the one who appends, so that the cache's thread finds it done.
    fn make_room_ahead(&self, end: u64) {
        let room = self.room.lock();
        if end.saturating_sub(*room) >= ROOM_STEP {
            self.extend(room, end);
        }
    }

    /// The file on the device will be written up to `end`: gives it its length before the write, because a file system
    /// does writes that extend a file one after the other.
    ///
    /// Only the length: `fallocate` would give it blocks as well, but on ext4 (`ext4_fallocate`, Linux 6.18) it waits
    /// for all writes of the file that are in transit, which emptied the device's queue every few MiB.
    ///
    /// Not if somebody else is changing the device's length at the moment: shortening a large file takes seconds, and
    /// the cache's thread, which calls this, has other files' writes to see to.
    pub(crate) fn make_room(&self, end: u64) {
        if let Some(room) = self.room.try_lock() {
            self.extend(room, end);
        }
    }

    fn extend(&self, mut room: MutexGuard<'_, u64>, end: u64) {
        if end <= *room {
            return;
        }
        // All that was appended so far, not only this write.
        let target = self.len().max(end);
        let device = self.device();
        // If it does not work, a write beyond the end extends the file by itself; it only takes longer.
        if device.set_len(target).is_ok() {
            *room = target;
        }
    }
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    write: bool,
    create: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions::new()
    }
}

impl OpenOptions {
    /// For reading a file that exists.
    pub fn new() -> OpenOptions {
        OpenOptions {
            write: false,
            create: false,
        }
    }

    /// Also for writing.
    pub fn write(mut self, write: bool) -> OpenOptions {
        self.write = write;
        self
    }

    /// Also for writing, and a file that does not exist is made.
    pub fn create(mut self, create: bool) -> OpenOptions {
        self.create = create;
        self.write |= create;
        self
    }

    pub(crate) fn access(self) -> Access {
        match (self.write, self.create) {
            (_, true) => Access::Create,
            (true, false) => Access::ReadWrite,
            (false, false) => Access::Read,
        }
    }

    pub(crate) fn writes(self) -> bool {
        self.write
    }
}

/// What a part of a write came to.
struct Written {
    bytes: usize,
    /// How long to pause, at most, before more is written.
    pause: Option<Nanos>,
    /// The file became shorter meanwhile than the write would leave it.
    is_cut: bool,
}

/// How a user expects to use a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Find out: read ahead when reads turn out to be sequential. The default.
    Normal,
    /// Never read ahead.
    Random,
    /// Read ahead with the largest window at once.
    Sequential,
}

/// A file in a cache. Any thread may use it at any time; dropping the last handle of a file writes what is dirty and
/// forgets its pages.
///
/// What each call promises when it returns, fails, or the machine stops, is in `docs/SEMANTICS.md`.
pub struct File {
    pub(crate) inner: Arc<FileInner>,
    pub(crate) cache: Arc<Handle>,
    pub(crate) writable: bool,
}

impl File {
    fn shared(&self) -> &Shared {
        &self.cache.shared
    }

    fn key(&self, page: u64) -> PageKey {
        PageKey::new(self.inner.id, PageIndex(page))
    }

    /// The path it was opened by first.
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

    /// Whether the whole page that holds byte `offset` is in memory at this moment. For measuring; by the time it
    /// returns it may not be.
    pub fn is_resident(&self, offset: u64) -> bool {
        offset < LEN_MAX
            && self
                .shared()
                .table
                .holds(self.key(offset >> self.shared().page_size.shift()))
    }

    /// Reads into `buf` from byte `offset` on, as far as the file goes: the number of bytes read, less than asked for
    /// only at the end of the file.
    ///
    /// Pages that are in memory are copied without a lock. What is missing is read by the calling thread, pages
    /// that follow one another with one request; after sequential reads more is read ahead.
    ///
    /// # Errors
    /// [`Error::Read`] if the device can't; `buf` is then undefined. [`Error::NoFrames`], [`Error::Poisoned`].
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.shared().poison.check()?;
        let inside = |wanted: usize| (wanted as u64).min(self.len().saturating_sub(offset)) as usize;
        let mut wanted = inside(buf.len());
        let shift = self.shared().page_size.shift();
        let size = 1_usize << shift;
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let (page, from) = (at >> shift, (at & (size as u64 - 1)) as usize);
            let n = (size - from).min(wanted - done);
            match self.shared().table.pin(self.key(page)) {
                Lookup::Found(pin) => {
                    buf[done..done + n].copy_from_slice(&pin[from..from + n]);
                    drop(pin);
                    self.passed(page);
                    done += n;
                }
                Lookup::Loading(frame) | Lookup::Busy(frame) => {
                    self.shared().table.wait_loading(frame, self.key(page));
                    self.shared().poison.check()?;
                }
                Lookup::Absent => {
                    let last = (offset + wanted as u64 - 1) >> shift;
                    match self.read_missing(page, last, offset, &mut buf[..wanted])? {
                        Some(n) => done += n,
                        None => wanted = inside(wanted),
                    }
                }
            }
        }
        Ok(done)
    }

    /// Tells the core if a reader has come to the page that asks for more read-ahead.
    #[inline]
    fn passed(&self, page: u64) {
        let mark = &self.inner.readahead_mark;
        if mark.load(Ordering::Relaxed) == page
            && mark
                .compare_exchange(page, u64::MAX, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.shared().tell(Event::ReadAheadDue {
                file: self.inner.id,
                at: PageIndex(page),
            });
        }
    }

    /// Reads the missing pages from `page` up to `last`, a run of them, and copies what of them is in the request that
    /// began at `offset`. How many bytes that was, 0 if the page is there by now; `None` if the file ends before it by now.
    #[cold]
    fn read_missing(&self, page: u64, last: u64, offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        let count = (last - page + 1).min(FAULT_PAGES_MAX) as u32;
        let why = (Intent::Read, Reach::Inside);
        let fault = self
            .shared()
            .fault(&self.inner, PageIndex(page), count, why, true)?;
        let Some(own) = fault.own else {
            return Ok((!fault.outside).then_some(0));
        };
        let shift = self.shared().page_size.shift();
        let end = offset + buf.len() as u64;
        let mut copied = 0;
        let copy = |page: PageIndex, bytes: &[u8]| {
            let start = page.0 << shift;
            let (from, to) = (start.max(offset), (start + bytes.len() as u64).min(end));
            let source = &bytes[(from - start) as usize..(to - start) as usize];
            buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
            copied += source.len();
        };
        self.shared()
            .read(&self.inner, own, copy, false)
            .map_err(|source| self.read_failed(page, source))?;
        Ok(Some(copied))
    }

    fn read_failed(&self, page: u64, source: io::Error) -> Error {
        let offset = page << self.shared().page_size.shift();
        Error::Read {
            path: self.inner.path.clone(),
            offset,
            source,
        }
    }

    /// The length of page `page` up to the end of the file.
    fn page_len(&self, page: u64) -> Result<usize> {
        let size = self.shared().page_size;
        let start = page.saturating_mul(size.bytes());
        let left = self.len().saturating_sub(start).min(size.bytes()) as usize;
        if left == 0 {
            let max = self.len().div_ceil(size.bytes()).saturating_sub(1);
            return Err(Error::OutOfRange {
                path: self.inner.path.clone(),
                what: "page",
                given: page,
                max,
            });
        }
        Ok(left)
    }

    /// Pins page number `page` for reading. It is read from the device if it is not in memory.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] behind the end of the file; otherwise as [`File::read_at`].
    #[inline]
    pub fn page(&self, page: u64) -> Result<PageRef<'_>> {
        let len = self.page_len(page)?;
        if let Some(pin) = self.shared().table.hit(self.key(page)) {
            self.passed(page);
            return Ok(PageRef { pin, len });
        }
        self.page_slowly(page, len)
    }

    #[cold]
    fn page_slowly(&self, page: u64, len: usize) -> Result<PageRef<'_>> {
        loop {
            self.shared().poison.check()?;
            match self.shared().table.pin(self.key(page)) {
                Lookup::Found(pin) => {
                    self.passed(page);
                    return Ok(PageRef { pin, len });
                }
                Lookup::Loading(frame) | Lookup::Busy(frame) => {
                    self.shared().table.wait_loading(frame, self.key(page))
                }
                Lookup::Absent => {
                    let why = (Intent::Read, Reach::Inside);
                    let fault = self.shared().fault(&self.inner, PageIndex(page), 1, why, true)?;
                    if fault.outside {
                        self.page_len(page)?;
                    }
                    if let Some(own) = fault.own {
                        let pinned = self.shared().read(&self.inner, own, |_, _| {}, true);
                        if let Some(pin) = pinned.map_err(|source| self.read_failed(page, source))? {
                            return Ok(PageRef { pin, len });
                        }
                    }
                }
            }
        }
    }

    /// Locks page number `page` for changing it, after waiting for others who read or change it. It is read from the
    /// device if it is not in memory. Pauses before if too much is dirty.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::OutOfRange`] behind the end of the file ([`File::set_len`] extends it);
    /// otherwise as [`File::read_at`] and [`File::write_at`].
    pub fn page_mut(&self, page: u64) -> Result<PageMut<'_>> {
        self.check_writable()?;
        self.shared().poison.check()?;
        self.page_len(page)?;
        self.shared().throttle(&self.inner)?;
        let pin = self.lock_page(page)?;
        if pin.first_dirty() {
            self.shared()
                .dirtied(self.inner.id, PageIndex(page), &[pin.frame()]);
        }
        // Whoever cuts the file inside the page takes the page first, so from here on this is where it ends.
        let len = self.page_len(page)?;
        Ok(PageMut { pin, len })
    }

    /// Locks a page, reading it if it is missing.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it is missing and the file ends before it by now; those of reading.
    fn lock_page(&self, page: u64) -> Result<ExclusivePin<&Table<Arena>>> {
        let key = self.key(page);
        loop {
            self.shared().poison.check()?;
            match self.shared().table.lock(key) {
                Lookup::Found(pin) => return Ok(pin),
                Lookup::Loading(frame) | Lookup::Busy(frame) => self.shared().table.wait_loading(frame, key),
                Lookup::Absent => {
                    if !self.bring(page, Reach::Inside)? {
                        self.page_len(page)?;
                    }
                }
            }
        }
    }

    fn check_writable(&self) -> Result<()> {
        if self.writable {
            Ok(())
        } else {
            Err(Error::ReadOnly {
                path: self.inner.path.clone(),
            })
        }
    }

    /// Writes all of `buf` at byte `offset`; the file grows if it ends before. The bytes are in memory when this
    /// returns and reach the device in the background, or at a sync.
    ///
    /// Pauses, at most for as long as the device needs to take what others and this thread have dirtied beyond the
    /// limits. Each page changes at once for all readers, but a write of several pages is no transaction.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::OutOfRange`] beyond what a file can have; [`Error::Write`] if dirty pages fill their
    /// limit and this file, or after two seconds without any write another, can't be written; [`Error::Read`] if a page
    /// of which only a part is overwritten can't be read; [`Error::NoFrames`], [`Error::Poisoned`]. What came before the
    /// failed page is written.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.check_writable()?;
        self.shared().poison.check()?;
        let end = offset.checked_add(buf.len() as u64).filter(|&end| end <= LEN_MAX);
        let Some(end) = end else {
            let max = LEN_MAX - buf.len() as u64;
            return Err(Error::OutOfRange {
                path: self.inner.path.clone(),
                what: "offset",
                given: offset,
                max,
            });
        };
        if buf.is_empty() {
            return Ok(());
        }
        // Writes inside the file run beside one another. One that goes up to its end, or beyond, excludes whoever else
        // changes the length.
        let mut resize = (end >= self.len()).then(|| self.inner.resize.lock());
        let mut done = 0;
        while done < buf.len() {
            let some = self.write_some(&buf[done..], offset + done as u64, resize.is_some())?;
            done += some.bytes;
            if let Some(at_most) = some.pause {
                self.shared().pause(&self.inner, at_most)?;
            }
            if some.is_cut {
                // What came before may be gone again: the whole write comes after the cut.
                (resize, done) = (Some(self.inner.resize.lock()), 0);
            }
        }
        Ok(())
    }

    /// Writes up to [`WRITE_PAGES_MAX`] pages. `at_end`: the caller keeps others from changing the length, and may
    /// change it; else all of it is inside the file, unless somebody cuts that.
    fn write_some(&self, buf: &[u8], offset: u64, at_end: bool) -> Result<Written> {
        let shift = self.shared().page_size.shift();
        let size = 1_u64 << shift;
        let (first, end) = (offset >> shift, offset + buf.len() as u64);
        let last = ((end - 1) >> shift).min(first + WRITE_PAGES_MAX as u64 - 1);
        let reach = if at_end { Reach::Beyond } else { Reach::Within(end) };
        let mut pins: Vec<ExclusivePin<&Table<Arena>>> = Vec::with_capacity(WRITE_PAGES_MAX);
        let mut page = first;
        let (mut wait, mut is_cut) = (None, false);
        while page <= last {
            let key = self.key(page);
            let start = page << shift;
            // The part of the page that is written, and of the buffer.
            let (from, to) = (start.max(offset), (start + size).min(end));
            let source = &buf[(from - offset) as usize..(to - offset) as usize];
            let in_page = (from - start) as usize..(to - start) as usize;
            // With pages in hand it waits for nobody: a reader of this page may want to read one of those next.
            let locked = if pins.is_empty() {
                self.shared().table.lock(key)
            } else {
                self.shared().table.try_lock(key)
            };
            match locked {
                Lookup::Found(mut pin) => {
                    // After the page is ours: whoever cuts stores the length first and then waits for the page.
                    is_cut = !at_end && self.inner.len() < end;
                    if !is_cut {
                        pin[in_page].copy_from_slice(source);
                        page += 1;
                    }
                    pins.push(pin);
                    if is_cut {
                        break;
                    }
                }
                Lookup::Loading(_) | Lookup::Busy(_) if !pins.is_empty() => break,
                Lookup::Loading(frame) | Lookup::Busy(frame) => {
                    self.shared().table.wait_loading(frame, key);
                    self.shared().poison.check()?;
                }
                Lookup::Absent if self.needs_old(start, &in_page, at_end) => {
                    if !pins.is_empty() {
                        break;
                    }
                    is_cut = !self.bring(page, reach)?;
                    if is_cut {
                        break;
                    }
                }
                Lookup::Absent => {
                    let count = self.overwritten(page, last, end, at_end) as u32;
                    // With pages in hand it must not wait for memory: their owner could be what memory waits for.
                    let may_wait = pins.is_empty();
                    let why = (Intent::Overwrite, reach);
                    let fault = self
                        .shared()
                        .fault(&self.inner, PageIndex(page), count, why, may_wait)?;
                    is_cut = fault.outside;
                    if is_cut {
                        break;
                    }
                    let Deferred {
                        granted, wait: told, ..
                    } = fault;
                    if granted.is_empty() && told.is_some() {
                        wait = told;
                        break;
                    }
                    for mut load in granted {
                        let start = page << shift;
                        let (from, to) = (start.max(offset), (start + size).min(end));
                        let bytes = self.shared().table.load_bytes(&mut load);
                        let in_page = (from - start) as usize..(to - start) as usize;
                        bytes[..in_page.start].fill(0);
                        bytes[in_page.end..].fill(0);
                        bytes[in_page]
                            .copy_from_slice(&buf[(from - offset) as usize..(to - offset) as usize]);
                        pins.push(self.shared().table.finish_load_exclusive(load));
                        page += 1;
                    }
                }
            }
        }
        let bytes = ((page << shift).min(end).max(offset) - offset) as usize;
        if at_end && bytes > 0 {
            self.grow_to(offset + bytes as u64);
            self.inner.make_room_ahead(offset + bytes as u64);
        }
        let pause = self.report_dirty(first, &pins);
        drop(pins);
        if let Some(at_most) = wait {
            self.shared().wait_for_memory(at_most);
        }
        Ok(Written { bytes, pause, is_cut })
    }

    /// Reads a page that is missing. `false`: it is not within `reach` by now.
    fn bring(&self, page: u64, reach: Reach) -> Result<bool> {
        let why = (Intent::Read, reach);
        let fault = self.shared().fault(&self.inner, PageIndex(page), 1, why, true)?;
        if let Some(own) = fault.own {
            let read = self.shared().read(&self.inner, own, |_, _| {}, false);
            read.map_err(|source| self.read_failed(page, source))?;
        }
        Ok(!fault.outside)
    }

    /// Whether a page that starts at `start` has bytes that the write of `in_page` leaves as they are. Only the caller
    /// who keeps others from changing the length, `at_end`, knows where in the page the file ends.
    fn needs_old(&self, start: u64, in_page: &Range<usize>, at_end: bool) -> bool {
        let size = self.shared().page_size.bytes();
        let old = if at_end {
            self.len().saturating_sub(start).min(size) as usize
        } else {
            size as usize
        };
        old > 0 && (in_page.start > 0 || in_page.end < old)
    }

    /// How many pages from `page` to `last` a write up to byte `end` overwrites whole.
    fn overwritten(&self, page: u64, last: u64, end: u64, at_end: bool) -> u64 {
        let shift = self.shared().page_size.shift();
        let whole = (end >> shift).saturating_sub(page);
        // The last one counts if nothing of the file is behind the write.
        let covers_last = at_end && self.len() <= end;
        let pages = if covers_last {
            last - page + 1
        } else {
            whole.min(last - page + 1)
        };
        pages.max(1)
    }

    /// The file is at least `end` bytes long from now on. The caller holds the pages behind the old end, and keeps
    /// others from changing the length.
    fn grow_to(&self, end: u64) {
        let before = self.inner.len.fetch_max(end, Ordering::SeqCst);
        let size = self.shared().page_size.bytes();
        if end.div_ceil(size) > before.div_ceil(size) {
            self.resized(end);
        }
    }

    /// Tells the core which of the pages from `first` on, which the caller owns, went from clean to dirty.
    fn report_dirty(&self, first: u64, pins: &[ExclusivePin<&Table<Arena>>]) -> Option<Nanos> {
        let mut pause = None;
        let mut run: Vec<FrameNo> = Vec::with_capacity(pins.len());
        for (n, pin) in pins.iter().enumerate() {
            if pin.first_dirty() {
                run.push(pin.frame());
            }
            let is_end = n + 1 == pins.len() || !pins[n + 1].first_dirty();
            if is_end && !run.is_empty() {
                let start = first + (n as u64 + 1) - run.len() as u64;
                pause = self
                    .shared()
                    .dirtied(self.inner.id, PageIndex(start), &run)
                    .or(pause);
                run.clear();
            }
        }
        pause
    }

    /// Makes everything durable that was written to the file before, by any handle: when this returns, it would
    /// survive a loss of power. Waits for [`PageMut`] guards of the file to be dropped.
    ///
    /// # Errors
    /// [`Error::Write`] if a write fails; its pages stay in memory, dirty, and every sync says so until they are
    /// written. [`Error::Sync`] if the device can't say that it has kept what it took: latched until the file is
    /// opened anew.
    pub fn sync_data(&self) -> Result<()> {
        self.shared().poison.check()?;
        let ticket = self.shared().sync_begin(self.inner.id);
        self.shared().sync_file(&self.inner, ticket)
    }

    /// As [`File::sync_data`]; the length and other metadata that reading the data needs are made durable by both.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<()> {
        self.sync_data()
    }

    /// Makes the file `len` bytes long: what lies behind is gone, what is new reads as zeros. Waits for guards and
    /// transfers of the pages that go.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::OutOfRange`], [`Error::Write`] if the file system refuses.
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.check_writable()?;
        self.shared().poison.check()?;
        if len > LEN_MAX {
            return Err(Error::OutOfRange {
                path: self.inner.path.clone(),
                what: "length",
                given: len,
                max: LEN_MAX,
            });
        }
        let _resize = self.inner.resize.lock();
        if len < self.len() {
            return self.cut(len);
        }
        self.resize_device(len)?;
        self.inner.len.store(len, Ordering::SeqCst);
        self.resized(len);
        Ok(())
    }

    /// Makes the file `len` bytes long, which is inside it. The caller keeps others from changing the length.
    fn cut(&self, len: u64) -> Result<()> {
        let size = self.shared().page_size.bytes();
        let (page, cut, old) = (len / size, (len % size) as usize, self.len());
        // The page that stays in part is ours until everybody sees the new length.
        let pin = if cut > 0 {
            Some(self.lock_page(page)?)
        } else {
            None
        };
        self.inner.len.store(len, Ordering::SeqCst);
        // Whether it can be at all, before anything is thrown away.
        let refused = self.resize_device(len);
        if refused.is_err() {
            self.inner.len.store(old, Ordering::SeqCst);
        }
        let frame = pin.as_ref().map(ExclusivePin::frame);
        if let Some(mut pin) = pin {
            if refused.is_ok() {
                // It reads as zeros if the file grows again.
                pin[cut..].fill(0);
            }
            if pin.first_dirty() {
                self.shared()
                    .dirtied(self.inner.id, PageIndex(page), &[pin.frame()]);
            }
        }
        refused?;
        // Before the discard: read-ahead goes no further from here on.
        self.resized(len);
        if let Some(frame) = frame {
            self.shared().table.wait_written(frame, self.key(page));
        }
        self.shared()
            .discard(&self.inner, len.div_ceil(size)..old.div_ceil(size))?;
        // What could not be written may be gone; if it is not, the next try says so again.
        self.inner.written(None);
        // Writes that had begun before went up to the old end and may have made it long again; now there is none.
        self.resize_device(len)
    }

    /// Makes the file on the device `len` bytes long.
    fn resize_device(&self, len: u64) -> Result<()> {
        let mut room = self.inner.room.lock();
        self.inner
            .device()
            .set_len(len)
            .map_err(|e| self.inner.write_failed(e.raw_os_error().unwrap_or(libc::EIO)))?;
        *room = len;
        Ok(())
    }

    /// Tells the core how long the file is now.
    fn resized(&self, len: u64) {
        self.shared().tell(Event::Resized {
            file: self.inner.id,
            pages: PageCount(len.div_ceil(self.shared().page_size.bytes())),
        });
    }

    /// Says how the file will be used from now on, by all handles.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn advise(&self, advice: Advice) -> Result<()> {
        self.shared().poison.check()?;
        let pattern = match advice {
            Advice::Normal => Pattern::Normal,
            Advice::Random => Pattern::Random,
            Advice::Sequential => Pattern::Sequential,
        };
        self.shared().tell(Event::Advised {
            file: self.inner.id,
            pattern,
        });
        Ok(())
    }

    /// Starts to read what of the `len` bytes from `offset` on is not in memory, and does not wait for it. Dropped
    /// silently where memory is short, and where half of it has been asked for: more would only push out what came
    /// before. A later read finds out about errors.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn prefetch(&self, offset: u64, len: u64) -> Result<()> {
        let shift = self.shared().page_size.shift();
        let end = offset.saturating_add(len).min(self.len());
        if offset >= end {
            return Ok(());
        }
        let mut left = self.shared().core().manager.derived().frames.0 / 2;
        let (mut page, last) = (offset >> shift, (end - 1) >> shift);
        while page <= last && left > 0 {
            let key = self.key(page);
            if !self.shared().table.lacks(key) {
                page += 1;
                continue;
            }
            let count = (last - page + 1).min(FAULT_PAGES_MAX).min(left) as u32;
            let why = (Intent::Prefetch, Reach::Inside);
            let fault = self
                .shared()
                .fault(&self.inner, PageIndex(page), count, why, false)?;
            if fault.outside || (fault.ahead == 0 && self.shared().table.lacks(key)) {
                // The file has become shorter, or no frame can be had.
                break;
            }
            page += fault.ahead;
            left -= fault.ahead.min(left);
        }
        Ok(())
    }

    /// Writes what is dirty, makes it durable and drops this handle, saying whether that went well; dropping it alone
    /// can't say.
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn close(self) -> Result<()> {
        if self.writable { self.sync_data() } else { Ok(()) }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.cache.file_dropped(&self.inner);
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({}, {} bytes)", self.inner.path.display(), self.len())
    }
}

impl Shared {
    /// Waits for a request for durability and lets the device make its part of it.
    pub(crate) fn sync_file(&self, file: &FileInner, ticket: millpond_core::event::SyncTicket) -> Result<()> {
        self.sync_end(ticket)?.map_err(|e| file.write_failed(e.0))?;
        if let Some(&errno) = file.sync_error.get() {
            return Err(sync_failed(file, errno));
        }
        let dart = self.dart("device");
        let synced = self.device.sync(&file.device());
        drop(dart);
        match synced {
            Ok(()) => Ok(()),
            Err(error) => {
                let errno = *file
                    .sync_error
                    .get_or_init(|| error.raw_os_error().unwrap_or(libc::EIO));
                Err(sync_failed(file, errno))
            }
        }
    }

    /// Takes the pages `pages` of the file out of memory, whether they are dirty or not, after waiting for those who use
    /// them. None comes into memory meanwhile: the file is closed, or shorter by now ([`Reach`]).
    ///
    /// Looks at each of the pages or at each frame, whichever are fewer, and lets go of the core lock in between.
    pub(crate) fn discard(&self, file: &FileInner, pages: Range<u64>) -> Result<()> {
        let page_count = pages.end.saturating_sub(pages.start);
        let by_page = page_count <= u64::from(self.table.locked(&mut self.core().turn).frames());
        let mut at = 0;
        loop {
            self.poison.check()?;
            let mut busy = None;
            let mut deferred = Deferred::default();
            {
                let mut core = self.core();
                let mut table = self.table.locked(&mut core.turn);
                let end = if by_page {
                    page_count
                } else {
                    table.frames().into()
                };
                if at >= end {
                    return Ok(());
                }
                let found = |n: u64| {
                    if by_page {
                        let key = PageKey::new(file.id, PageIndex(pages.start + n));
                        return table.lookup(key).map(|frame| (key, frame));
                    }
                    let (frame, key) = (FrameNo(n as u32), table.key(FrameNo(n as u32)));
                    let is_ours =
                        key != PageKey::NONE && key.file() == file.id && pages.contains(&key.index().0);
                    (is_ours && table.lookup(key) == Some(frame)).then_some((key, frame))
                };
                let all: Vec<_> = (at..end.min(at + DISCARD_BATCH)).filter_map(found).collect();
                let mut gone: Vec<FrameNo> = all.iter().map(|&(_, frame)| frame).collect();
                table.forget(&mut gone);
                let mut forgotten = gone.iter().copied().peekable();
                let mut discarded = Vec::with_capacity(gone.len());
                for &(key, frame) in &all {
                    if forgotten.next_if_eq(&frame).is_some() {
                        discarded.push((key.index(), frame));
                    } else {
                        busy = Some((key, frame));
                    }
                }
                if !discarded.is_empty() {
                    self.step(
                        &mut core,
                        Event::Discarded {
                            file: file.id,
                            pages: &discarded,
                        },
                        &mut deferred,
                    );
                }
            }
            self.finish(&mut deferred);
            match busy {
                None => at += DISCARD_BATCH,
                Some((key, frame)) => self.table.wait_unused(frame, key),
            }
        }
    }
}

fn sync_failed(file: &FileInner, errno: i32) -> Error {
    Error::Sync {
        path: file.path.clone(),
        source: io::Error::from_raw_os_error(errno),
    }
}
