//! Swap files: preallocated, each for one cache alone, and readable by no other user.

use crate::device::{self, Descriptor, DeviceFile, is_behind_limit, look_at_limit};
use crate::error::{Error, Result};
use crate::files::{FileInner, WritebackRules, Writes};
use crate::frames::table::Table;
use crate::memory::Spaces;
use crate::size::{Size, apart};
use crate::sys::arena::Arena;
use crate::sys::arena::exchange::Exchange;
use crate::sys::direct;
use crate::sys::forks::FileLock;
use millpond_core::swap::SlotNo;
use millpond_core::units::{Bytes, FileId, PageCount, PageSize};
use parking_lot::Mutex;
use std::fs::{self, File, Permissions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The core keeps a slot in 31 bits.
const SLOTS_MAX: u64 = 1 << 31;

/// The beginning of a swap file. No other file is overwritten.
const MAGIC: &[u8] = b"millpond swap: nothing in here is of use to anybody\n";

/// A swap file or block device, to which pages of regions are evicted.
///
/// The file is created with mode 600 if it does not exist, and all its blocks are allocated at once. It is locked
/// (`flock`) while the cache lives. The lock ends with the process, however that ends and whichever forked children
/// exist. The contents are useless afterwards, and they are not encrypted.
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
    /// For as long.
    pub(super) claim: Claim,
    /// Its first slot among those of all.
    pub(super) first: SlotNo,
    pub(super) slots: PageCount,
    pub(super) priority: i16,
}

/// A file that is locked for swap, and put back as it was when this is dropped before the cache has it.
pub(crate) struct Claim {
    lock: FileLock<Descriptor>,
    undo: Mutex<Option<Undo>>,
}

enum Undo {
    /// It was made.
    Remove(PathBuf),
    /// It existed, with this length.
    Cut(u64),
}

impl Claim {
    /// The cache has been made: the file stays.
    pub(super) fn keep(&self) {
        *self.undo.lock() = None;
    }

    fn undo(&self) -> io::Result<()> {
        let file = self.lock.file().file();
        let now = file.metadata()?;
        match self.undo.lock().take() {
            Some(Undo::Remove(path)) => {
                let named = fs::metadata(&path)?;
                if (named.dev(), named.ino()) == (now.dev(), now.ino()) {
                    fs::remove_file(&path)?;
                }
            }
            Some(Undo::Cut(len)) if len < now.len() => file.set_len(len)?,
            _ => {}
        }
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The error that brought us here is the one to report.
        let _ = self.undo();
    }
}

impl SwapFile {
    /// Uses `bytes` bytes of the file at `path`. The swap files must be at least as large as all regions of the cache
    /// together.
    pub fn new(path: impl AsRef<Path>, bytes: u64) -> SwapFile {
        SwapFile {
            path: path.as_ref().to_owned(),
            bytes,
            unlinked: false,
            priority: 0,
        }
    }

    /// Sets the priority. The cache fills the swap file with the highest priority first, and alternates between files
    /// of equal priority. Default: 0.
    pub fn priority(mut self, priority: i16) -> SwapFile {
        self.priority = priority;
        self
    }

    /// Removes the file's name as soon as the file is open, so that nothing is left behind in any case. Default: no,
    /// which saves allocating the blocks again next time. Not for block devices. If the path is a directory, the file
    /// is created there without a name.
    pub fn unlinked(mut self, unlinked: bool) -> SwapFile {
        self.unlinked = unlinked;
        self
    }

    /// Bytes of the map of free slots: a bit for each, and summaries.
    pub(crate) fn metadata_bytes(&self, page_size: PageSize) -> u64 {
        let slots = Bytes(self.bytes).to_pages(page_size).0;
        slots / 8 + slots / 256 + 64
    }

    /// Opens, locks and preallocates it, and says how many slots of a page it has. Nothing of it is left if that fails, but
    /// what was there before.
    ///
    /// # Errors
    /// [`Error::Swap`].
    pub(crate) fn open(&self, page_size: PageSize) -> Result<(FileInner, Claim, PageCount)> {
        self.prepare(page_size).map_err(|source| Error::Swap {
            path: self.path.clone(),
            source,
        })
    }

    /// Looks whether there can be one of this size, before anything is made.
    ///
    /// # Errors
    /// [`Error::Swap`].
    pub(crate) fn check(&self, page_size: PageSize) -> Result<()> {
        self.slots(page_size).map(drop).map_err(|source| Error::Swap {
            path: self.path.clone(),
            source,
        })
    }

    fn slots(&self, page_size: PageSize) -> io::Result<PageCount> {
        let slots = Bytes(self.bytes).to_pages(page_size);
        if slots.0 == 0 || slots.0 >= SLOTS_MAX {
            let most = Size(PageCount(SLOTS_MAX - 1).to_bytes(page_size).0);
            let (least, given) = (Size(page_size.bytes()), Size(self.bytes));
            return Err(invalid(format!(
                "its size can't be {given}: must be {least} to {most}"
            )));
        }
        Ok(slots)
    }

    fn prepare(&self, page_size: PageSize) -> io::Result<(FileInner, Claim, PageCount)> {
        let slots = self.slots(page_size)?;
        let len = slots.to_bytes(page_size).0 + page_size.bytes();
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let is_folder = self.unlinked && self.path.is_dir();
        let (lock, is_new) = match options.open(&self.path) {
            _ if is_folder => (nameless(&self.path)?, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (options.clone().create(true).open(&self.path)?, true)
            }
            opened => (opened?, false),
        };
        let lock = lock_for_good(lock)?;
        let before = lock.file().file().metadata()?;
        let is_made = is_new && !is_folder && before.len() == 0;
        let claim = Claim {
            lock,
            undo: Mutex::new(is_made.then(|| Undo::Remove(self.path.clone()))),
        };
        // A lock goes when the process closes the file that has it, and children close that: transfers use another.
        let opened = match is_folder {
            true => options.open(format!("/proc/self/fd/{}", claim.lock.file().as_raw_fd()))?,
            false => options.open(&self.path)?,
        };
        let opened = Descriptor::new(opened);
        let mut file = opened.file();
        let now = file.metadata()?;
        if (now.dev(), now.ino()) != (before.dev(), before.ino()) {
            return Err(invalid("another file has replaced it: try again".into()));
        }
        let writes = Writes::swap(device::identity(&now))?;
        let is_block_device = before.file_type().is_block_device();
        if is_block_device {
            let has = file.seek(SeekFrom::End(0))?;
            if has < len {
                let (has, len) = (apart(has, len), apart(len, has));
                return Err(invalid(format!("it has {has}, and {len} are needed")));
            }
        } else if !before.is_file() {
            return Err(invalid("it is neither a file nor a block device".into()));
        }
        check_ours(file, !is_block_device && before.len() == 0)?;
        if !is_block_device {
            // Before anything is written, which would end the process.
            look_at_limit();
            if let Some(limit) = is_behind_limit(len) {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, limit.to_string()));
            }
            claim.undo.lock().get_or_insert(Undo::Cut(before.len()));
        }
        if self.unlinked && !is_block_device && !is_folder {
            fs::remove_file(&self.path)?;
        }
        // What is ours is known as that from the start, wherever this ends.
        file.write_all_at(MAGIC, 0)?;
        if !is_block_device {
            fill(file, len)?;
        }
        // Transfers go past the kernel's page cache; what is left of the first page there would have to be looked for at
        // each of them.
        file.sync_data()?;
        direct::forget_cached(file);
        let writeback_rules = WritebackRules::default();
        let device = DeviceFile::from_descriptor(opened)?;
        let inner = FileInner::new(FileId(u32::MAX), device, &self.path, len, true, writeback_rules);
        *inner.writes.lock() = Some(writes);
        Ok((inner, claim, slots))
    }
}

/// A cache's swap for its regions.
///
/// # Errors
/// [`Error::Swap`]; [`Error::Setup`] if userfaultfd is refused.
pub(crate) fn make(
    files: &[SwapFile],
    table: &Arc<Table<Arena>>,
    page_size: PageSize,
    populate: bool,
) -> Result<Spaces> {
    let setup = |source| Error::Setup {
        what: "memory beyond RAM needs userfaultfd",
        source,
    };
    let exchange = Exchange::new(table.clone(), populate).map_err(setup)?;
    let (mut areas, mut first) = (Vec::new(), 0);
    for swap in files {
        let (file, claim, slots) = swap.open(page_size)?;
        let next = first + slots.0 + 1;
        if next >= SLOTS_MAX {
            return Err(Error::Swap {
                path: swap.path.clone(),
                source: invalid(format!(
                    "with it there are {} slots: all swap files may have at most {SLOTS_MAX}",
                    first + slots.0
                )),
            });
        }
        areas.push(SwapArea {
            file: Arc::new(file),
            claim,
            first: SlotNo(first as u32),
            slots,
            priority: swap.priority,
        });
        // As the core counts: a number between two files belongs to no region.
        first = next;
    }
    Spaces::new(exchange, areas).map_err(setup)
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn lock_for_good(file: File) -> io::Result<FileLock<Descriptor>> {
    FileLock::new(Descriptor::new(file)).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(
            io::ErrorKind::ResourceBusy,
            "it is locked: each cache needs a swap file of its own",
        ),
        _ => error,
    })
}

/// A new file in `folder` without a name, or unlinked at once where the file system has no such files.
fn nameless(folder: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        Err(error)
            if [libc::EOPNOTSUPP, libc::EISDIR, libc::ENOENT]
                .map(Some)
                .contains(&error.raw_os_error()) =>
        {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let name = format!(
                "millpond-{}-{}.swap",
                std::process::id(),
                NEXT.fetch_add(1, Ordering::Relaxed)
            );
            let path = folder.join(name);
            // Of a folder that is there: a file system that makes no files, such as /proc.
            let made = options
                .create_new(true)
                .open(&path)
                .map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => {
                        let why =
                            format!("no file can be made in it: name a folder on ext4 or xfs ({error})");
                        io::Error::new(io::ErrorKind::Unsupported, why)
                    }
                    _ => error,
                })?;
            fs::remove_file(&path)?;
            Ok(made)
        }
        opened => opened,
    }
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
fn fill(file: &File, len: u64) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))?;
    let free = rustix::fs::fstatvfs(file)
        .ok()
        .map(|has| has.f_bavail * has.f_frsize);
    direct::allocate(file, len).map_err(|error| no_room(error, free, len))?;
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

/// Says how much there would have to be.
fn no_room(error: io::Error, free: Option<u64>, len: u64) -> io::Error {
    match (error.raw_os_error(), free) {
        (Some(libc::ENOSPC), Some(free)) => io::Error::new(
            error.kind(),
            format!(
                "{error}: it needs {}, and {} are free; name another folder, or a smaller size",
                apart(len, free),
                apart(free, len)
            ),
        ),
        _ => error,
    }
}
