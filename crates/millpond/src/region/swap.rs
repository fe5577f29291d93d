//! Swap files: preallocated, one cache's alone, and nobody else's to read.

use crate::cache::Writes;
use crate::device::{self, DeviceFile};
use crate::error::{Error, Result};
use crate::file::{FileInner, Keeping, OpenOptions};
use crate::region::Regions;
use crate::sys::arena::Arena;
use crate::sys::direct;
use crate::sys::exchange::Exchange;
use crate::sys::mapping::kernel_page;
use crate::table::Table;
use millpond_core::swap::SlotNo;
use millpond_core::units::{Bytes, FileId, PageCount, PageSize};
use std::fs::{self, File, Permissions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The core keeps a slot in 31 bits.
const SLOTS_MAX: u64 = 1 << 31;

/// How a swap file begins. No other file is overwritten.
const MAGIC: &[u8] = b"millpond swap: nothing in here is of use to anybody\n";

/// Where pages of regions go that have no room in memory: a file, or a block device.
///
/// The file is made if it is not there, with mode 600, gets its blocks at once, and is locked (`flock`) for as long as
/// the cache lives: it is free for the next as soon as the process ends, however that ends. What is in it is of no use to
/// anybody afterwards, and it is not encrypted.
#[derive(Clone, Debug)]
pub struct SwapFile {
    path: PathBuf,
    bytes: u64,
    unlinked: bool,
    priority: i16,
}

/// A swap file that is open.
pub(crate) struct SwapArea {
    pub(super) file: Arc<FileInner>,
    /// Its first slot among those of all.
    pub(super) first: SlotNo,
    pub(super) slots: PageCount,
    pub(super) priority: i16,
}

impl SwapFile {
    /// `bytes` bytes in the file at `path`: as many as all regions of the cache have together, at least.
    pub fn new(path: impl AsRef<Path>, bytes: u64) -> SwapFile {
        SwapFile {
            path: path.as_ref().to_owned(),
            bytes,
            unlinked: false,
            priority: 0,
        }
    }

    /// Of several swap files, the one with the highest priority is filled first, and those of the same take turns.
    /// Default: 0.
    pub fn priority(mut self, priority: i16) -> SwapFile {
        self.priority = priority;
        self
    }

    /// Whether the file's name is removed as soon as the file is open: nothing is left behind then, whatever happens.
    /// Default: no, so that its blocks need not be got again the next time. Not for block devices.
    pub fn unlinked(mut self, unlinked: bool) -> SwapFile {
        self.unlinked = unlinked;
        self
    }

    /// Bytes of the map of free slots: a bit for each, and summaries.
    pub(crate) fn metadata_bytes(&self, page_size: PageSize) -> u64 {
        let slots = Bytes(self.bytes).to_pages(page_size).0;
        slots / 8 + slots / 256 + 64
    }

    /// Opens, locks and preallocates it, and says how many slots of a page it has.
    ///
    /// # Errors
    /// [`Error::Swap`].
    pub(crate) fn open(&self, page_size: PageSize) -> Result<(FileInner, PageCount)> {
        self.prepare(page_size).map_err(|source| Error::Swap {
            path: self.path.clone(),
            source,
        })
    }

    fn prepare(&self, page_size: PageSize) -> io::Result<(FileInner, PageCount)> {
        let slots = Bytes(self.bytes).to_pages(page_size);
        if slots.0 == 0 || slots.0 >= SLOTS_MAX {
            let most = PageCount(SLOTS_MAX - 1).to_bytes(page_size);
            let (least, given) = (page_size.bytes(), self.bytes);
            return Err(invalid(format!(
                "its size can't be {given}: allowed is {least} to {most} bytes"
            )));
        }
        let len = slots.to_bytes(page_size).0 + page_size.bytes();
        let is_block_device = fs::metadata(&self.path).is_ok_and(|m| m.file_type().is_block_device());
        let mut options = fs::OpenOptions::new();
        options
            .read(true)
            .write(true)
            .mode(0o600)
            .create(!is_block_device);
        let file = options.open(&self.path)?;
        lock(&file)?;
        let metadata = file.metadata()?;
        let writes = Writes::swap(device::identity(&metadata))?;
        if is_block_device {
            let has = (&file).seek(SeekFrom::End(0))?;
            if has < len {
                return Err(invalid(format!("it has {has} bytes, and {len} are needed")));
            }
        } else if !metadata.is_file() {
            return Err(invalid("it is neither a file nor a block device".into()));
        }
        check_ours(&file, !is_block_device && metadata.len() == 0)?;
        if !is_block_device {
            file.set_permissions(Permissions::from_mode(0o600))?;
            preallocate(&file, len)?;
        }
        file.write_all_at(MAGIC, 0)?;
        if self.unlinked && !is_block_device {
            fs::remove_file(&self.path)?;
        }
        // Transfers go past the kernel's page cache; what is left of the first page there would have to be looked for at
        // each of them.
        file.sync_data()?;
        direct::forget_cached(&file);
        let keeping = Keeping::new(&OpenOptions::new())?;
        let device = DeviceFile::from_file(file)?;
        let inner = FileInner::new(FileId(u32::MAX), device, &self.path, len, true, keeping);
        *inner.writes.lock() = Some(writes);
        Ok((inner, slots))
    }
}

/// What a cache with swap has for its regions.
///
/// # Errors
/// [`Error::Swap`]; [`Error::Setup`] if userfaultfd is refused.
pub(crate) fn make(files: &[SwapFile], table: &Arc<Table<Arena>>, page_size: PageSize) -> Result<Regions> {
    let setup = |source| Error::Setup {
        what: "userfaultfd, for regions",
        source,
    };
    if page_size.bytes() as usize != kernel_page() {
        let (given, kernel) = (page_size.bytes(), kernel_page());
        return Err(setup(invalid(format!(
            "a cache with swap has pages of the kernel's size: page_size can't be {given}, allowed is {kernel}"
        ))));
    }
    let exchange = Exchange::new(table.clone()).map_err(setup)?;
    let (mut areas, mut first) = (Vec::new(), 0);
    for swap in files {
        let (file, slots) = swap.open(page_size)?;
        let next = first + slots.0 + 1;
        if next >= SLOTS_MAX {
            return Err(Error::Swap {
                path: swap.path.clone(),
                source: invalid(format!(
                    "with it there are {} slots, allowed is {SLOTS_MAX} for all swap files",
                    first + slots.0
                )),
            });
        }
        areas.push(SwapArea {
            file: Arc::new(file),
            first: SlotNo(first as u32),
            slots,
            priority: swap.priority,
        });
        // As the core counts: a number between two files is nobody's.
        first = next;
    }
    Regions::new(exchange, areas).map_err(setup)
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn lock(file: &File) -> io::Result<()> {
    direct::lock(file).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(
            io::ErrorKind::ResourceBusy,
            "somebody has it locked: each cache needs a swap file of its own",
        ),
        _ => error,
    })
}

/// Whether the file may be overwritten: it is new, or was swap of a cache before. A block device without anything in its
/// first bytes is new.
fn check_ours(file: &File, is_empty: bool) -> io::Result<()> {
    let mut first = [0; 512];
    if is_empty {
        return Ok(());
    }
    file.read_exact_at(&mut first, 0)
        .map_err(|_| invalid("it holds something else: name a file that does not exist".into()))?;
    let is_blank = first.iter().all(|&byte| byte == 0) && file.metadata()?.file_type().is_block_device();
    if first.starts_with(MAGIC) || is_blank {
        return Ok(());
    }
    Err(invalid(
        "it holds something else: name a file that does not exist, or clear the device".into(),
    ))
}

/// Gives the file all its blocks: swap that finds the disk full later would have nowhere to put a page.
fn preallocate(file: &File, len: u64) -> io::Result<()> {
    direct::allocate(file, len)?;
    if file.metadata()?.len() != len {
        file.set_len(len)?;
    }
    let has = file.metadata()?.blocks() * 512;
    if has < len {
        return Err(invalid(format!(
            "it has holes ({has} of {len} bytes have blocks), for which there may be no room later: put it on ext4 or xfs"
        )));
    }
    Ok(())
}
