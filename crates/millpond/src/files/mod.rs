//! Files as the engine has them: what all handles of one file share.
//!
//! | file | what |
//! |---|---|
//! | `mod` | a file, and its length on the device |
//! | `writeback_rules` | what its pages are kept to on their way to the device: whole, after the log, checked |
//! | `order` | how far a log is durable, and which pages wait for it |
//! | `check` | what a user checks of pages |
//! | `hole` | pages that are on their way out |
//! | `shrunk` | a file that others have cut |
//! | `tail` | the last page, while the file becomes longer |
//! | `requests` | how many of its pages calls have asked for |
//! | `writers` | which cache of the process writes which file |
//!
//! Its length is here twice: as users see it (`len`), and as the file on the device has it (`room`), which goes ahead
//! of the writes that extend it.

pub(crate) mod check;
mod hole;
pub(crate) mod order;
pub(crate) mod requests;
mod shrunk;
mod tail;
pub(crate) mod writeback_rules;
pub(crate) mod writers;

pub(crate) use hole::Making;
pub(crate) use shrunk::Shrunk;
pub(crate) use tail::Kept;
pub use writeback_rules::StablePages;
pub(crate) use writeback_rules::{WritebackRules, log_failed};
pub(crate) use writers::Writes;

use crate::device::{Device, DeviceFile};
use crate::error::{Error, again, errno_of};
use crate::observe::explain::{self, Wait};
use hole::Hole;
use millpond_core::io::IoError;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::FileId;
use parking_lot::{Mutex, MutexGuard, RwLock};
use requests::FileRequests;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tail::Tail;

/// No file is longer: 2^40 pages of 4 KiB, and what a system's signed offset can name.
pub(crate) const LEN_MAX: u64 = 1 << 52;

/// A thread that appends extends the file on the device by this much at a time.
const ROOM_STEP: u64 = 4 << 20;

/// How soon a thread that waits for the length looks whether it is being made shorter: nothing beside a cut,
/// which takes seconds.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

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

/// The state that all handles of one file share: one per file, whatever its name.
pub(crate) struct FileInner {
    pub(crate) id: FileId,
    device: RwLock<Arc<DeviceFile>>,
    /// Whether the device's file can be written.
    writable: AtomicBool,
    /// Shows other caches of the process that this one writes it.
    pub(crate) writes: Mutex<Option<Writes>>,
    /// One of its handles was opened with `exclusive`. Changes under the lock of the list of open files, or when that handle is
    /// dropped.
    pub(crate) has_exclusive: AtomicBool,
    pub(crate) path: PathBuf,
    /// A block device: its length is its size.
    pub(crate) is_fixed: bool,
    pub(crate) writeback_rules: WritebackRules,
    /// Its length as users see it.
    pub(crate) len: AtomicU64,
    /// The file's length on the device; grows ahead of the writes.
    pub(crate) room: Mutex<u64>,
    /// The end of the farthest range that was allocated ahead: the file system has files so long.
    pub(crate) allocated: AtomicU64,
    /// The holder of `room` makes the file on the device shorter.
    pub(crate) is_shortening: AtomicBool,
    /// Held by the thread that changes the length.
    pub(crate) resize: Mutex<()>,
    /// The pages of a hole being punched.
    pub(crate) hole: Hole,
    /// The last page, while the file becomes longer.
    pub(crate) tail: Tail,
    /// The page whose use asks for the next read-ahead.
    pub(crate) readahead_mark: AtomicU64,
    /// Pages of the records that it is read in; 0: it has none.
    pub(crate) record_pages: AtomicU64,
    pub(crate) requests: FileRequests,
    /// Some of its pages could not be written, when the core was asked last: a thread that changes the file
    /// asks it first.
    pub(crate) failing: AtomicBool,
    /// The device's last error for a refused write, by its number: the core gets only the number.
    refusals: Mutex<BTreeMap<i32, io::Error>>,
    /// See [`FileInner::short_at`].
    short_at: AtomicU64,
    /// A sync of the device failed: it is unknown what it holds.
    pub(crate) sync_error: OnceLock<io::Error>,
    /// A page that its last handle left in a forgotten guard, if one was left that is not written: it stays in the list of
    /// open files.
    pub(crate) stuck: OnceLock<u64>,
}

impl FileInner {
    /// Whether threads may write the page in a mapping; the caller has made sure that no other thread uses it.
    pub(crate) fn may_open(&self, page: u64) -> bool {
        let is_tail = self.tail.is(page) && !mutation::is(Mutation::TailIsOpened);
        !self.hole.has(page) && !is_tail
    }

    /// Waits until they may, as far as can be told. The caller holds no page.
    pub(crate) fn wait_openable(&self, page: u64) {
        self.hole.wait(page);
        if !self.may_open(page) {
            drop(self.resize.lock());
        }
    }

    pub(crate) fn new(
        id: FileId,
        device: impl Into<Arc<DeviceFile>>,
        path: &Path,
        len: u64,
        writable: bool,
        writeback_rules: WritebackRules,
    ) -> FileInner {
        let device = device.into();
        FileInner {
            id,
            is_fixed: device.is_block_device(),
            device: RwLock::new(device),
            writable: AtomicBool::new(writable),
            writes: Mutex::new(None),
            has_exclusive: AtomicBool::new(false),
            path: path.to_owned(),
            writeback_rules,
            len: AtomicU64::new(len),
            room: Mutex::new(len),
            allocated: AtomicU64::new(0),
            is_shortening: AtomicBool::new(false),
            resize: Mutex::new(()),
            hole: Hole::default(),
            tail: Tail::default(),
            readahead_mark: AtomicU64::new(u64::MAX),
            record_pages: AtomicU64::new(0),
            requests: FileRequests::default(),
            failing: AtomicBool::new(false),
            refusals: Mutex::default(),
            short_at: AtomicU64::new(shrunk::WHOLE),
            sync_error: OnceLock::new(),
            stuck: OnceLock::new(),
        }
    }

    /// The record that the page is of, if the file is read in records: at most up to its end.
    pub(crate) fn record_of(&self, page: u64, page_bytes: u64) -> Option<Range<u64>> {
        let pages = self.record_pages.load(Ordering::Relaxed);
        let first = page - page.checked_rem(pages)?;
        Some(first..(first + pages).min(self.len().div_ceil(page_bytes)))
    }

    /// The file as the device sees it.
    pub(crate) fn device(&self) -> Arc<DeviceFile> {
        self.device.read().clone()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }

    /// The same file, opened again, takes the place of what was open.
    pub(crate) fn reopen(&self, device: Arc<DeviceFile>, writable: bool) {
        *self.device.write() = device;
        self.writable.store(writable, Ordering::Release);
    }

    /// Whether its pages are worth keeping without it: nothing else is known of it that the next who opens it must know, or can
    /// change.
    pub(crate) fn may_park(&self) -> bool {
        let is_well =
            self.sync_error.get().is_none() && self.stuck.get().is_none() && self.short_at().is_none();
        self.writeback_rules.is_default() && is_well && !self.is_fixed && self.len() > 0
    }

    /// SeqCst, and stored so: a writer that has locked a page and then sees the old length locked it before
    /// the thread that cuts the file looks for pages in use.
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::SeqCst)
    }

    /// The device has refused to write some of its pages. Returns what to report to the core.
    pub(crate) fn refused(&self, error: io::Error) -> IoError {
        let errno = errno_of(&error);
        self.refusals.lock().insert(errno, error);
        IoError(errno)
    }

    /// The error of a write that the core knows by number, as the device gave it.
    pub(crate) fn write_refused(&self, IoError(errno): IoError) -> Error {
        let said = self.refusals.lock().get(&errno).map(again);
        self.write_failed(said.unwrap_or_else(|| io::Error::from_raw_os_error(errno)))
    }

    pub(crate) fn write_failed(&self, source: io::Error) -> Error {
        let path = self.path.clone();
        Error::Write {
            path,
            source,
            is_kept: true,
        }
    }

    pub(crate) fn sync_failed(&self, source: io::Error, is_kept: bool) -> Error {
        Error::Sync {
            path: self.path.clone(),
            source,
            is_kept,
        }
    }

    /// The error of every sync from the first one on that the device has failed.
    pub(crate) fn sync_latched(&self) -> Option<Error> {
        let error = self.sync_error.get()?;
        Some(self.sync_failed(again(error), false))
    }

    /// As [`FileInner::make_room`], by the thread that makes the file longer, so that the cache's thread
    /// finds it done, and so that a length which the file system does not have is refused before anything is
    /// written. Not where blocks were allocated ahead: if the write fails, cutting the file back would free them.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn make_room_ahead(&self, disk: &dyn Device, end: u64) -> io::Result<()> {
        let room = self.room.lock();
        let is_known = end <= self.allocated.load(Ordering::Relaxed);
        if !is_known && end.saturating_sub(*room) >= ROOM_STEP {
            return self.extend(disk, room, end);
        }
        Ok(())
    }

    /// The file on the device will be written up to `end`: gives it its length before the write, because a file system
    /// does writes that extend a file one after the other.
    ///
    /// Only the length: `fallocate` would give it blocks as well, but on ext4 (`ext4_fallocate`, Linux 6.18) it waits
    /// for all writes of the file that are in transit, which emptied the device's queue every few MiB.
    ///
    /// Waits for the thread that is making the file longer: it sets a length computed from the one it found,
    /// so what is written behind that meanwhile would be cut off. Does not wait for a thread that makes the
    /// file shorter: that takes seconds for a large file, and the cache's thread, which calls this, has other
    /// files' writes to see to. The shortening thread keeps others from making the file longer until all
    /// writes behind the cut are over.
    pub(crate) fn make_room(&self, disk: &dyn Device, end: u64) {
        let mut taken = self.room.try_lock();
        let room = loop {
            match taken {
                Some(room) => break room,
                None if self.is_shortening.load(Ordering::SeqCst) => return,
                // A thread that shortens sets the flag a moment after it has taken the lock, so the flag is
                // looked at again. It must not set it before: then a thread that makes the file longer may
                // have the lock, and that one has to be waited for.
                None => taken = self.room.try_lock_for(LOOK_AGAIN),
            }
        };
        // If it fails, a write beyond the end extends the file anyway; it only takes longer.
        let _ = self.extend(disk, room, end);
    }

    fn extend(&self, disk: &dyn Device, mut room: MutexGuard<'_, u64>, end: u64) -> io::Result<()> {
        if end <= *room {
            return Ok(());
        }
        // All appends so far, not only this write.
        let target = self.len().max(end);
        explain::timed(Wait::Length, || disk.set_len(&self.device(), target))?;
        *room = target;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Access, Completion, DeviceFacts, Request, Threads};
    use std::os::unix::fs::FileExt;
    use std::time::Duration;

    const PAGE: u64 = 4096;

    /// A disk whose first change of a length is not even started until it is released.
    #[derive(Default, Debug)]
    struct HoldsLength {
        holds: AtomicBool,
        released: AtomicBool,
    }

    impl Device for HoldsLength {
        fn set_len(&self, file: &DeviceFile, len: u64) -> io::Result<()> {
            if !self.holds.swap(true, Ordering::SeqCst) {
                while !self.released.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }
            file.set_len(len)
        }

        fn transfer(&self, _: &Request) -> io::Result<usize> {
            unreachable!("only lengths are set")
        }

        fn submit(&self, _: &mut Vec<Request>) -> io::Result<()> {
            unreachable!("only lengths are set")
        }

        fn wait(&self, _: &mut Vec<Completion>, _: Option<Duration>) -> io::Result<()> {
            unreachable!("only lengths are set")
        }

        fn wake(&self) {}

        fn sync(&self, _: &DeviceFile) -> io::Result<()> {
            unreachable!("only lengths are set")
        }

        fn facts(&self, _: &DeviceFile) -> DeviceFacts {
            DeviceFacts::UNKNOWN
        }

        fn name(&self) -> &str {
            "for a test"
        }
    }

    /// A thread that makes a file longer on the device starts from the length that the file has at that
    /// moment. What another thread wrote behind it meanwhile, without waiting, was cut off: zeros in the
    /// file, and no error anywhere. A long history found it, once in some ten thousand times.
    #[test]
    fn a_write_past_a_length_that_is_just_being_set_is_not_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let direct = std::fs::File::create(&path).unwrap();
        let device = DeviceFile::open(&path, Access::ReadWrite).unwrap();
        let writeback_rules = WritebackRules::default();
        let file = FileInner::new(FileId(1), device, &path, 0, true, writeback_rules);
        let disk = HoldsLength::default();
        let write = |end: u64| {
            file.make_room(&disk, end);
            direct.write_all_at(&[1; PAGE as usize], end - PAGE).unwrap();
        };
        std::thread::scope(|scope| {
            file.len.store(PAGE, Ordering::SeqCst);
            let first = scope.spawn(|| write(PAGE));
            while !disk.holds.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            file.len.store(2 * PAGE, Ordering::SeqCst);
            let second = scope.spawn(|| write(2 * PAGE));
            // It is over in a moment if it waits for no thread.
            let began = std::time::Instant::now();
            while !second.is_finished() && began.elapsed().as_millis() < 50 {
                std::thread::yield_now();
            }
            disk.released.store(true, Ordering::SeqCst);
            first.join().unwrap();
            second.join().unwrap();
        });
        let bytes = std::fs::read(&path).unwrap();
        assert!(
            bytes == [1; 2 * PAGE as usize],
            "{} bytes, the last is {:?}",
            bytes.len(),
            bytes.last()
        );
    }

    /// The lock is taken first, the flag set then. A thread that came between the two waited for all of a
    /// cut, which takes seconds for a large file.
    #[test]
    fn a_reader_that_finds_the_lock_taken_and_the_flag_unset_does_not_wait_for_the_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, [0; PAGE as usize]).unwrap();
        let device = DeviceFile::open(&path, Access::ReadWrite).unwrap();
        let writeback_rules = WritebackRules::default();
        let file = FileInner::new(FileId(1), device, &path, PAGE, true, writeback_rules);
        let disk = Threads::new("for a test");
        let is_waiting = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let cut = file.room.lock();
            let write = scope.spawn(|| {
                is_waiting.store(true, Ordering::SeqCst);
                file.make_room(&disk, 2 * PAGE);
            });
            while !is_waiting.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            // Long enough for the writer to come to the lock; if it does not, the test sees nothing.
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!write.is_finished());
            file.is_shortening.store(true, Ordering::SeqCst);
            // The lock stays taken: the scope ends only if the writer has left. A minute is for a machine that is slow.
            let began = std::time::Instant::now();
            while !write.is_finished() && began.elapsed().as_secs() < 60 {
                std::thread::yield_now();
            }
            let has_left = write.is_finished();
            drop(cut);
            assert!(has_left, "it waits for the cut");
        });
    }
}
