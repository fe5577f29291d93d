//! What all handles of one file share.
//!
//! Its length is here twice: as users see it (`len`), and as the file on the device has it (`room`), which goes ahead
//! of the writes that extend it.

use super::{Keeping, LEN_MAX};
use crate::device::{Device, DeviceFile};
use crate::error::Error;
use crate::explain::{self, Wait};
use millpond_core::units::FileId;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

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
    /// A block device: its length is its size.
    pub(super) is_fixed: bool,
    pub(crate) keeping: Keeping,
    /// Its length before a cut of which the device has not heard yet, or which it has refused.
    pub(super) cut_from: AtomicU64,
    /// Its length as users see it.
    pub(super) len: AtomicU64,
    /// How far the file on the device goes; grows ahead of the writes.
    pub(super) room: Mutex<u64>,
    /// Whoever changes the length holds this.
    pub(super) resize: Mutex<()>,
    /// The page whose use asks for the next read-ahead.
    pub(crate) readahead_mark: AtomicU64,
    /// Some of its pages could not be written, when the core was asked last: whoever changes the file asks it first.
    pub(crate) failing: AtomicBool,
    /// A sync of the device failed: nobody knows what it holds.
    pub(crate) sync_error: OnceLock<i32>,
}

impl FileInner {
    pub(crate) fn new(
        id: FileId,
        device: DeviceFile,
        path: &Path,
        len: u64,
        writable: bool,
        keeping: Keeping,
    ) -> FileInner {
        FileInner {
            id,
            is_fixed: device.is_block_device(),
            device: RwLock::new(Arc::new(device)),
            writable: AtomicBool::new(writable),
            path: path.to_owned(),
            keeping,
            len: AtomicU64::new(len),
            cut_from: AtomicU64::new(0),
            room: Mutex::new(len),
            resize: Mutex::new(()),
            readahead_mark: AtomicU64::new(u64::MAX),
            failing: AtomicBool::new(false),
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

    /// How far writes to the device go. While a cut has not reached the device, what is behind it is written like all
    /// else: a sync may promise it, and the cut may be refused. In this order; see `cut`.
    pub(crate) fn len_to_write(&self) -> u64 {
        let len = self.len();
        len.max(self.cut_from.load(Ordering::SeqCst))
    }

    pub(crate) fn write_failed(&self, errno: i32) -> Error {
        Error::Write {
            path: self.path.clone(),
            source: io::Error::from_raw_os_error(errno),
        }
    }

    /// As [`FileInner::make_room`], by the one who makes the file longer, so that the cache's thread finds it done, and
    /// so that a length which the file system does not have is refused before anything is written.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn make_room_ahead(&self, disk: &dyn Device, end: u64) -> io::Result<()> {
        let room = self.room.lock();
        if end.saturating_sub(*room) >= ROOM_STEP {
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
    /// Not if somebody else is changing the device's length at the moment: shortening a large file takes seconds, and
    /// the cache's thread, which calls this, has other files' writes to see to.
    pub(crate) fn make_room(&self, disk: &dyn Device, end: u64) {
        if let Some(room) = self.room.try_lock() {
            // If it does not work, a write beyond the end extends the file by itself; it only takes longer.
            let _ = self.extend(disk, room, end);
        }
    }

    fn extend(&self, disk: &dyn Device, mut room: MutexGuard<'_, u64>, end: u64) -> io::Result<()> {
        if end <= *room {
            return Ok(());
        }
        // All that was appended so far, not only this write.
        let target = self.len().max(end);
        explain::timed(Wait::Length, || disk.set_len(&self.device(), target))?;
        *room = target;
        Ok(())
    }
}
