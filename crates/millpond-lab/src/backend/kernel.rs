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
//! What is meant to be cached is read in the second way by both kinds, and a scan in the ordinary way, with read-ahead.
//!
//! On a modelled disk there is the second kind alone, in a testbed of its own (`testbed/`): a real file system on the disk of
//! `millpond slowdisk`, with scheduler and throttling as `--kernel-variant` says.
//!
//! The first kind gives the writers the whole machine's memory, as the kernel does; the second is what a
//! container gets. In the first version of control groups the limits for dirty pages do not know of the
//! group; in the second they do.

use super::{Backend, Driver, Row, RowRequest, Rows};
use crate::backend::kernel_limits;
use crate::disk_model::DiskModel;
use crate::error::{LabError, Result};
use crate::machine;
use crate::measure::{process, reclaim};
use crate::memory_group::MemoryGroup;
use crate::outcome::{Measure, Setting};
use crate::setup::{Device, Setup};
use crate::storage::DirtyLimits;
use crate::storage::{Access, Served, Storage, StorageFile};
use crate::testbed::{Configuration, Testbed};
use millpond::internal::MappedFile;
use millpond::internal::quantity::size_typed;
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
    rows,
    driver: Driver::Files(open),
};

const DIRECT: &str = "direct";
pub(crate) const MEMORY_GROUP: &str = "memory-group";

fn rows(request: &RowRequest) -> Result<Rows> {
    if let Device::Modelled(disk) = request.device {
        return rows_on_modelled_disk(request, disk);
    }
    let mut label = String::from("kernel");
    if let Some(scheduler) = machine::scheduler(request.dir) {
        label += &format!(" {scheduler}");
    }
    match machine::writeback_latency_us(request.dir) {
        Some(0) => label += " wbt=off",
        Some(us) => label += &format!(" wbt={us}us"),
        None => {}
    }
    let row = |label: String, variant: &str, in_memory_group| Row {
        label,
        setup: Setup {
            target: "kernel".into(),
            variant: variant.into(),
            device: Device::Real,
            dir: request.dir.to_owned(),
            memory: request.memory,
            read_latency_goal: None,
            seed: request.seed,
        },
        in_memory_group,
        testbed: None,
        is_deterministic: false,
        device_bytes_per_s: None,
    };
    let mut rows = Rows::default();
    rows.rows.push(row(label.clone(), DIRECT, false));
    let memory = size_typed(request.memory);
    let group = if machine::is_in_memory(request.dir) {
        Err("where files are in memory they would fill it".to_owned())
    } else {
        MemoryGroup::create(request.memory).map(drop)
    };
    match group {
        Ok(()) => rows
            .rows
            .push(row(format!("{label} memory={memory}"), MEMORY_GROUP, true)),
        Err(why) => rows.notes.push(format!(
            "The kernel within {memory} of memory was left out: {why}."
        )),
    }
    if !request.variants.is_empty() {
        rows.notes.push(format!(
            "--variant {} says nothing to the kernel: it runs as this machine has it set.",
            request.variants.join(",")
        ));
    }
    Ok(rows)
}

/// In a memory group, so that page cache and dirty pages have the limits that the other rows have.
fn rows_on_modelled_disk(request: &RowRequest, disk: DiskModel) -> Result<Rows> {
    let (configurations, notes) = Testbed::try_out(request.program, disk, request.kernel_variants)?;
    let group = MemoryGroup::create(request.memory).map(drop);
    group.map_err(|why| LabError::Unavailable {
        target: "kernel".into(),
        why,
    })?;
    let memory = size_typed(request.memory);
    let row = |configuration: Configuration| Row {
        label: format!("kernel {configuration} memory={memory}"),
        setup: Setup {
            target: "kernel".into(),
            variant: MEMORY_GROUP.into(),
            device: request.device,
            dir: request.dir.to_owned(),
            memory: request.memory,
            read_latency_goal: None,
            seed: request.seed,
        },
        in_memory_group: true,
        testbed: Some(configuration),
        is_deterministic: false,
        device_bytes_per_s: Some(disk.write_bytes_per_s()),
    };
    Ok(Rows {
        rows: configurations.into_iter().map(row).collect(),
        notes,
    })
}

fn open(setup: &Setup) -> Result<Box<dyn Storage>> {
    let reads = match setup.variant.as_str() {
        DIRECT => Reads::Direct,
        MEMORY_GROUP => Reads::Buffered,
        other => {
            return Err(LabError::UnknownName {
                what: "variant of the kernel",
                value: other.into(),
                allowed: format!("{DIRECT}, {MEMORY_GROUP}"),
            });
        }
    };
    let dir = File::open(&setup.dir).map_err(|e| LabError::path("cannot open", &setup.dir, e))?;
    Ok(Box::new(Kernel {
        dir,
        reads,
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

    /// Of the file system, as `sync` does it: all files at once, so that the kernel can order the writes.
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
        self.file.write_all_at(buf, offset)
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

/// A file words of which are changed through a mapping, by several threads.
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
        let setup = Setup {
            target: "kernel".into(),
            variant: variant.into(),
            device: Device::Real,
            dir: dir.to_owned(),
            memory: Bytes::from_mib(64),
            read_latency_goal: None,
            seed: 1,
        };
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
