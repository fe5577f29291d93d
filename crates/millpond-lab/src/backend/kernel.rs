//! The kernel's own page cache, with the settings that this machine has.
//!
//! Writers write in the ordinary way: into the page cache, from which the kernel writes back when its limits
//! or a sync say so. The reader comes in two kinds:
//!
//! * `direct`: with `O_DIRECT`. Every read goes to the device, so every read is a miss, and what is measured
//!   is the wait behind the kernel's writeback and nothing else;
//! * `memory-group`: through the page cache, with writers and reader together in a memory control group of
//!   the size that Millpond gets, and with read-ahead off (`POSIX_FADV_RANDOM`). Hits are told from misses by
//!   asking first with `RWF_NOWAIT`, which reads only what is in memory.
//!
//! Data meant to be cached is read in the second way by both kinds, and a scan in the ordinary way, with read-ahead.
//!
//! The first kind gives the writers the whole machine's memory, as the kernel does; the second is what a
//! container gets. A group of the second version has limits of its own for dirty pages. One of the first version has none:
//! its pages may all be dirty, and reclaim then waits until they are written. Labels say which it is.
//!
//! Writers of `--kernel-variant …/dontcache` and `…/flush=SIZE` write in other ways (`testbed/writing.rs`).

use super::{Backend, Driver};
use crate::backend::{kernel_limits, kernel_rows};
use crate::error::{LabError, Result};
use crate::machine;
use crate::measure::{process, reclaim};
use crate::outcome::{Measure, Setting};
use crate::setup::Setup;
use crate::storage::DirtyLimits;
use crate::storage::{Access, Served, Storage, StorageFile};
use crate::testbed::Writing;
use millpond::internal::MappedFile;
use rustix::fs::{Advice, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// This kind of target.
pub const KIND: Backend = Backend {
    name: "kernel",
    about: "the same reads and writes through this machine's own page cache",
    rows: kernel_rows::rows,
    driver: Driver::Files(open),
};

pub(super) const DIRECT: &str = "direct";
pub(crate) const MEMORY_GROUP: &str = "memory-group";

fn open(setup: &Setup) -> Result<Box<dyn Storage>> {
    let (reads, writing) = setup.variant.split_once(' ').unwrap_or((&setup.variant, ""));
    let unknown = |what, value: &str, allowed: String| LabError::UnknownName {
        what,
        value: value.into(),
        allowed,
    };
    let writing = writing
        .parse()
        .map_err(|_| unknown("way to write", writing, "dontcache, flush=SIZE".into()))?;
    let reads = match reads {
        DIRECT => Reads::Direct,
        MEMORY_GROUP => Reads::Buffered,
        other => {
            let allowed = format!("{DIRECT}, {MEMORY_GROUP}");
            return Err(unknown("variant of the kernel", other, allowed));
        }
    };
    let dir = File::open(&setup.dir).map_err(|e| LabError::path("cannot open", &setup.dir, e))?;
    Ok(Box::new(Kernel {
        dir,
        reads,
        writing,
        settings: machine::kernel_settings(&setup.dir),
        cannot_tell_hits: Arc::default(),
    }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Past the page cache.
    Direct,
    /// Through it, without read-ahead; asks first whether it is a hit.
    Buffered,
    /// Through it in the ordinary way.
    Ahead,
}

struct Kernel {
    dir: File,
    reads: Reads,
    writing: Writing,
    settings: Vec<Setting>,
    cannot_tell_hits: Arc<AtomicBool>,
}

impl Storage for Kernel {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let reads = match access {
            Access::Random => self.reads,
            Access::Cached => Reads::Buffered,
            Access::Sequential => Reads::Ahead,
        };
        let mut options = OpenOptions::new();
        options.read(true);
        if reads == Reads::Direct {
            options.custom_flags(OFlags::DIRECT.bits() as i32);
        }
        let file = options.open(path).map_err(|e| explain_direct(e, path))?;
        if reads == Reads::Buffered {
            rustix::fs::fadvise(&file, 0, None, Advice::Random)?;
        }
        Ok(self.file(file, reads))
    }

    fn create(&self, path: &Path, _len: u64) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.file(File::create_new(path)?, self.reads))
    }

    fn create_in_place(&self, path: &Path, len: u64) -> io::Result<Box<dyn StorageFile>> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        file.set_len(len)?;
        let mapped = Mutex::new(MappedFile::new(&file, len)?);
        Ok(Box::new(KernelMapping { file, mapped }))
    }

    fn open_to_change(&self, path: &Path) -> io::Result<Box<dyn StorageFile>> {
        let file = File::options().read(true).write(true).open(path)?;
        let mapped = MappedFile::new(&file, file.metadata()?.len())?;
        Ok(Box::new(KernelWords { file, mapped }))
    }

    fn reclaim(&self) -> Vec<Measure> {
        reclaim::of_kernel()
    }

    /// For the whole file system, as `sync` does it: all files at once, so the kernel can order the writes.
    fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.dir)?)
    }

    fn set_dirty_limits(&self, both: DirtyLimits) -> io::Result<()> {
        kernel_limits::set(both)
    }

    /// The whole machine's.
    fn in_transit_bytes(&self) -> Option<u64> {
        process::writeback_bytes()
    }

    fn settings(&self) -> Vec<Setting> {
        self.settings.clone()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.cannot_tell_hits.load(Ordering::Relaxed) {
            warnings.push(
                "this file system cannot say whether a read is a hit (no RWF_NOWAIT): hits are counted as misses"
                    .into(),
            );
        }
        warnings
    }
}

impl Kernel {
    fn file(&self, file: File, reads: Reads) -> Box<dyn StorageFile> {
        Box::new(KernelFile {
            file,
            reads,
            writing: self.writing,
            cannot_tell_hits: Arc::clone(&self.cannot_tell_hits),
        })
    }
}

fn explain_direct(error: io::Error, path: &Path) -> io::Error {
    if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) {
        let dir = path.parent().unwrap_or(path).display();
        return io::Error::other(format!(
            "{error}: the file system of {dir} has no O_DIRECT; give --dir on one that has (ext4, xfs, btrfs)"
        ));
    }
    error
}

struct KernelFile {
    file: File,
    reads: Reads,
    writing: Writing,
    cannot_tell_hits: Arc<AtomicBool>,
}

impl StorageFile for KernelFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<Served> {
        let mut missed = match self.reads {
            Reads::Direct | Reads::Buffered => Served::Device,
            Reads::Ahead => Served::Unknown,
        };
        if self.reads == Reads::Buffered {
            let now = rustix::io::preadv2(
                &self.file,
                &mut [IoSliceMut::new(buf)],
                offset,
                ReadWriteFlags::NOWAIT,
            );
            match now {
                Ok(n) if n == buf.len() => return Ok(Served::Memory),
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.cannot_tell_hits.store(true, Ordering::Relaxed);
                    missed = Served::Unknown;
                }
                Err(e) => return Err(e.into()),
            }
        }
        self.file.read_exact_at(buf, offset)?;
        Ok(missed)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.writing.write(&self.file, offset, buf)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// A file that is filled through a mapping.
struct KernelMapping {
    file: File,
    mapped: Mutex<MappedFile>,
}

impl StorageFile for KernelMapping {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<Served> {
        self.file.read_exact_at(buf, offset)?;
        Ok(Served::Unknown)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        mapped.write(offset, buf);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        mapped.sync()
    }
}

/// A file whose words are changed through a mapping, by several threads.
struct KernelWords {
    file: File,
    mapped: MappedFile,
}

impl StorageFile for KernelWords {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<Served> {
        self.file.read_exact_at(buf, offset)?;
        Ok(Served::Unknown)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
    }

    fn change_at(&self, offset: u64, word: u64) -> io::Result<()> {
        self.mapped.store(offset, word);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.mapped.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::data::{AlignedBuf, PAGE};
    use millpond_core::units::Bytes;

    fn kernel(dir: &Path, variant: &str) -> Box<dyn Storage> {
        let setup = Setup::of_files("kernel", variant, dir, Bytes::from_mib(64));
        open(&setup).unwrap()
    }

    #[test]
    fn a_buffered_read_misses_once_and_then_hits() {
        let dir = crate::scratch::for_tests();
        let path = dir.path().join("file");
        let target = kernel(dir.path(), MEMORY_GROUP);
        let written = target.create(&path, PAGE as u64).unwrap();
        written.write_at(0, &[7; PAGE]).unwrap();
        written.sync().unwrap();
        target.sync_all().unwrap();
        let raw = File::open(&path).unwrap();
        rustix::fs::fadvise(&raw, 0, None, Advice::DontNeed).unwrap();

        let file = target.open(&path, Access::Random).unwrap();
        let mut buf = AlignedBuf::new(PAGE);
        let first = file.read_at(0, &mut buf).unwrap();
        assert_eq!(buf[..], [7; PAGE]);
        let second = file.read_at(0, &mut buf).unwrap();
        if first == Served::Unknown {
            println!("skipped: this file system has no RWF_NOWAIT");
            assert_eq!(target.warnings().len(), 1);
            return;
        }
        // on a file system in memory the first read hits as well
        assert!(
            first == Served::Device || machine::is_in_memory(dir.path()),
            "{first:?}"
        );
        assert_eq!(second, Served::Memory);
        assert!(target.warnings().is_empty());
    }

    #[test]
    fn a_read_past_the_end_is_an_error() {
        let dir = crate::scratch::for_tests();
        let path = dir.path().join("file");
        let target = kernel(dir.path(), MEMORY_GROUP);
        target.create(&path, 0).unwrap().write_at(0, &[7; PAGE]).unwrap();
        let file = target.open(&path, Access::Random).unwrap();
        let mut buf = AlignedBuf::new(2 * PAGE);
        let error = file.read_at(0, &mut buf).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
