//! The storage of a workload: files, whatever cache is above them.

use crate::measure::disk::DiskBytes;
use crate::outcome::{Measure, Setting};
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::units::{Bytes, Ratio};
use std::io;
use std::path::Path;

/// DirtyLimits limits on dirty pages, as an administrator gives them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyLimits {
    /// Above: writing begins.
    pub background: DirtyLimit,
    /// Above: writers wait.
    pub hard: DirtyLimit,
}

impl DirtyLimits {
    /// `hard` bytes, and half of it.
    pub fn of_hard(hard: u64) -> DirtyLimits {
        DirtyLimits {
            background: DirtyLimit::Size(Bytes((hard / 2).max(1))),
            hard: DirtyLimit::Size(Bytes(hard)),
        }
    }

    /// The `n`th of the limits that a storm of this seed sets: shares and sizes, small and large, in either order.
    pub fn any(seed: u64, n: u64) -> DirtyLimits {
        let mut random = fastrand::Rng::with_seed(seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut limit = || {
            if random.bool() {
                DirtyLimit::Share(Ratio::percent(random.u32(1..=100)))
            } else {
                DirtyLimit::Size(Bytes(1 << random.u32(16..30)))
            }
        };
        DirtyLimits {
            background: limit(),
            hard: limit(),
        }
    }

    /// The storm's final settings: Linux's own.
    pub const LAST: DirtyLimits = DirtyLimits {
        background: DirtyLimit::Share(Ratio::percent(10)),
        hard: DirtyLimit::Share(Ratio::percent(20)),
    };
}

/// The source of a read's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// From memory: a hit.
    Memory,
    /// From the device, or by waiting for another caller's read from it: a miss.
    Device,
    /// The target can't tell. Counts as a miss, so no wait is left out.
    Unknown,
}

/// How a file will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Single pages anywhere, which are not expected to be in memory.
    Random,
    /// Single random pages, most of which should stay in memory.
    Cached,
    /// From the start to the end.
    Sequential,
}

/// An opened target. Used by several threads at a time.
pub trait Storage: Send + Sync {
    /// Opens a file that exists, to be read in this way.
    ///
    /// # Errors
    /// The system's or the target's own.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>>;

    /// Creates a file that will be written from its start to `len` bytes. It must not exist.
    ///
    /// # Errors
    /// The system's or the target's own.
    fn create(&self, path: &Path, len: u64) -> io::Result<Box<dyn StorageFile>>;

    /// Creates a file of `len` bytes, whole pages, that will be filled page by page from its start, each page changed where
    /// it is in memory: every [`StorageFile::write_at`] of it has one page. It must not exist.
    ///
    /// # Errors
    /// The system's or the target's own; that this target has no such way.
    fn create_in_place(&self, _path: &Path, _len: u64) -> io::Result<Box<dyn StorageFile>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Opens a file that exists to change words of it where they are in memory, anywhere: with [`StorageFile::change_at`].
    ///
    /// # Errors
    /// The system's or the target's own; that this target has no such way.
    fn open_to_change(&self, _path: &Path) -> io::Result<Box<dyn StorageFile>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// How many files of that size a program keeps open behind the one that it writes, so that closing one finds nothing
    /// to write. None where closing writes nothing.
    fn files_kept_open(&self, _file_bytes: u64) -> usize {
        0
    }

    /// Counters of reclaim that only grow, by the metrics of `measure::reclaim`; none if they are unknown.
    fn reclaim(&self) -> Vec<Measure> {
        Vec::new()
    }

    /// Brings everything that was written to the device, as `sync` does; returns when it would survive a loss
    /// of power, names of new files included.
    ///
    /// # Errors
    /// The first write that failed.
    fn sync_all(&self) -> io::Result<()>;

    /// Sets the limits on dirty pages, for everything from now on.
    ///
    /// # Errors
    /// The system's or the target's own; that this target has no such limits.
    fn set_dirty_limits(&self, _both: DirtyLimits) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Whether the limits in force are those that a fresh target with the same settings would have, if known.
    fn dirty_limits_are_fresh(&self) -> Option<bool> {
        None
    }

    /// Its settings, for the report.
    fn settings(&self) -> Vec<Setting>;

    /// Notes that a reader of its numbers needs. Asked after the run.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its slowest calls and what they have waited for, a sentence each, if known. Asked after the run.
    fn explanations(&self) -> Vec<String> {
        Vec::new()
    }

    /// Counters of its own, with stable metric names. Asked after the run.
    fn measures(&self) -> Vec<Measure> {
        Vec::new()
    }

    /// What its device has transferred so far, where the target has a device of its own. `None`: take the
    /// counters of the block device under the directory.
    fn device_bytes(&self) -> Option<DiskBytes> {
        None
    }

    /// Bytes of writes that were handed to the device and are not completed, if known.
    fn in_transit_bytes(&self) -> Option<u64> {
        None
    }
}

/// A file of a target. Used by several threads at a time; dropping it closes it.
pub trait StorageFile: Send + Sync {
    /// Fills `buf`, which starts on a 4 KiB boundary and has whole pages, from `offset`, a multiple of 4 KiB, and
    /// says where the bytes came from.
    ///
    /// # Errors
    /// The system's or the target's own; also when the file ends before `buf` does.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<Served>;

    /// Writes all of `buf` at `offset`, both in whole pages of 4 KiB. May pause its caller.
    ///
    /// # Errors
    /// The system's or the target's own.
    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()>;

    /// Stores `word` at `offset`, a multiple of 8, in the page that is in memory or is brought there. Of a file from
    /// [`Storage::open_to_change`].
    ///
    /// # Errors
    /// The system's or the target's own; that the file was not opened so.
    fn change_at(&self, _offset: u64, _word: u64) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Brings what was written to this file to the device.
    ///
    /// # Errors
    /// The first write that failed.
    fn sync(&self) -> io::Result<()>;
}
