//! The state of a mount: its inodes, its open files, its cache.

use crate::attributes::{Attributes, blocks_with_unwritten, file_attr};
use crate::create_retries::CreateRetries;
use crate::directory::Directory;
use crate::events::Events;
use crate::exit_report::ReportPipe;
use crate::flags::Durability;
use crate::gate::Gate;
use crate::inode::closed::ClosedInodes;
use crate::inode::content::Content;
use crate::inode::lend_pool::LendPool;
use crate::inode::table::InodeTable;
use crate::inode::times::Clock;
use crate::inode::{DiskVersion, Inode};
use crate::options::Options;
use crate::own_attributes::ROOT_ID;
use crate::pool::Pool;
use crate::request_memory::{HeldWrites, RequestMemory};
use crate::room::Room;
use crate::source::SourceLock;
use fuser::{FileAttr, Notifier};
use millpond::internal::memory_bytes;
use millpond::{PageCache, SetAside};
use parking_lot::{Mutex, RwLock};
use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The size of the cache's pages, which answers of one page depend on.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// How many files that no program has open keep their data in the cache: each has two descriptors, and about a kilobyte of
/// what is known of it.
fn closed_max(descriptors: u64) -> usize {
    (descriptors / 16).clamp(16, 16 << 10) as usize
}

/// What a known file costs: 1.1 KiB here, and 1.6 KiB of the kernel's for its inode, name and descriptor below (measured with
/// 10,000 on ext4).
const KNOWN_FILE_BYTES: u64 = 2816;

/// Known files may cost an eighth of the budget, and as much as this with any.
const KNOWN_FILES_MIN: u64 = 32 << 10;

/// How many files may be known, by the descriptors that there are and by the budget: at half of them the kernel is asked to
/// forget some.
fn files_max(descriptors: u64, budget: u64) -> u64 {
    descriptors.min(2 * (budget / 8 / KNOWN_FILE_BYTES).max(KNOWN_FILES_MIN))
}

/// What a mount is made of.
pub(crate) struct Parts {
    /// The source's root, open with `O_PATH`, and what stat says of it.
    pub(crate) root: (OwnedFd, Stat),
    pub(crate) source: Arc<SourceLock>,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    pub(crate) cache: Option<PageCache>,
    pub(crate) request_memory: RequestMemory,
    pub(crate) held_writes: Arc<HeldWrites>,
    /// `None`: nothing is lent to the kernel.
    pub(crate) lend_pool: Option<LendPool>,
    /// The budget's share for all that.
    pub(crate) set_aside: Option<SetAside>,
    /// How many descriptors this process may have.
    pub(crate) descriptors: u64,
    /// The least budget of the cache, or what it would have.
    pub(crate) budget: u64,
    pub(crate) report_pipe: ReportPipe,
}

/// The state of a mount.
pub(crate) struct MountState {
    pub(crate) inodes: InodeTable,
    pub(crate) files: Handles<OpenFile>,
    pub(crate) directories: Handles<Directory>,
    pub(crate) cache: Option<PageCache>,
    pub(crate) closed: ClosedInodes,
    pub(crate) pool: Pool,
    pub(crate) request_memory: RequestMemory,
    pub(crate) held_writes: Arc<HeldWrites>,
    /// `None`: nothing is lent to the kernel.
    pub(crate) lend_pool: Option<LendPool>,
    _set_aside: Option<SetAside>,
    pub(crate) clock: Clock,
    /// Of the root when it was mounted: the answer while the file system below gives none.
    pub(crate) root: FileAttr,
    pub(crate) report_pipe: ReportPipe,
    /// Figures of the disk of the source, where it is one (`Documentation/block/stat.rst`).
    disk_figures: PathBuf,
    /// The source, open and perhaps locked for as long as this is there. Errors of the file system below are asked for
    /// through it: it has those that came since it was opened.
    pub(crate) source: Arc<SourceLock>,
    pub(crate) is_read_only: bool,
    /// The error that the file system below has given for data that only it had. It gives it once.
    pub(crate) below_failed: Mutex<Option<Errno>>,
    /// What the process that served before has lost, in sentences.
    pub(crate) lost_before: Mutex<Vec<String>>,
    /// Something that was stored through a map is lost.
    pub(crate) has_lost_stores: AtomicBool,
    /// Why the last write of everything was refused.
    pub(crate) refused: Mutex<Option<String>>,
    /// What can't be written is not tried again at the end.
    pub(crate) is_given_up: AtomicBool,
    pub(crate) attribute_timeout: Duration,
    /// The process is root's: it makes files as their callers.
    pub(crate) is_root: bool,
    /// The kernel leaves the umask to us, since a directory may have a default ACL instead.
    pub(crate) applies_umask: AtomicBool,
    /// Threads that answer the kernel, and how many of them are in a write, which may pause.
    pub(crate) threads: usize,
    pub(crate) writing: AtomicUsize,
    /// Closed files whose writeback has failed: it is tried again.
    pub(crate) unwritten: Mutex<Vec<Arc<Inode>>>,
    /// How many descriptors this process may have.
    descriptors: u64,
    /// The budget without a cache.
    budget: u64,
    pub(crate) create_retries: CreateRetries,
    /// Stops the threads that answer the kernel, for a process that takes over.
    pub(crate) gate: Gate,
    /// The name at which such a process listens, if one has asked.
    pub(crate) successor: Mutex<Option<String>>,
    pub(crate) events: Events,
    pub(crate) room: Arc<Room>,
    pub(crate) point: PathBuf,
    /// Held by the thread that has the mount's own root open.
    pub(crate) own_root: Mutex<()>,
    pub(crate) is_writing_back_maps: AtomicBool,
    /// For invalidating what the kernel caches.
    pub(crate) notifier: OnceLock<Notifier>,
    /// Held while dentries of files that others have removed are invalidated: when that was last done for want of room.
    pub(crate) looked_for_unlinked: Mutex<Option<Instant>>,
    /// Dentries are being invalidated to get descriptors back.
    pub(crate) invalidating: AtomicBool,
    /// Capabilities that the kernel's FUSE does not have, in sentences.
    pub(crate) unsupported: Mutex<Vec<String>>,
}

/// An open file description: what an open(2) of a program has made.
pub(crate) struct OpenFile {
    pub(crate) inode: Arc<Inode>,
    pub(crate) content: Arc<Content>,
    /// What is durable when a call that changes the file returns.
    pub(crate) durability: Durability,
    /// The kernel caches it, and its writes change the kernel's pages first.
    pub(crate) writes_through: bool,
}

impl MountState {
    pub(crate) fn new(parts: Parts, options: &Options) -> MountState {
        let (root, stat) = parts.root;
        MountState {
            inodes: InodeTable::new(root, &stat),
            files: Handles::default(),
            directories: Handles::default(),
            cache: parts.cache,
            closed: ClosedInodes::new(closed_max(parts.descriptors)),
            pool: Pool::default(),
            held_writes: parts.held_writes,
            request_memory: parts.request_memory,
            lend_pool: parts.lend_pool,
            _set_aside: parts.set_aside,
            clock: Clock::default(),
            root: file_attr(ROOT_ID, &stat),
            disk_figures: format!(
                "/sys/dev/block/{}:{}/stat",
                rustix::fs::major(stat.st_dev),
                rustix::fs::minor(stat.st_dev)
            )
            .into(),
            source: parts.source,
            is_read_only: options.read_only,
            below_failed: Mutex::default(),
            lost_before: Mutex::default(),
            has_lost_stores: AtomicBool::new(false),
            refused: Mutex::default(),
            is_given_up: AtomicBool::new(false),
            report_pipe: parts.report_pipe,
            attribute_timeout: options.attribute_timeout,
            is_root: rustix::process::geteuid().is_root(),
            applies_umask: AtomicBool::new(false),
            threads: options.threads,
            writing: AtomicUsize::new(0),
            unwritten: Mutex::default(),
            descriptors: parts.descriptors,
            budget: parts.budget,
            create_retries: CreateRetries::default(),
            gate: Gate::default(),
            successor: Mutex::default(),
            events: options.events.clone(),
            room: Arc::default(),
            point: parts.point,
            own_root: Mutex::default(),
            is_writing_back_maps: AtomicBool::new(false),
            notifier: OnceLock::new(),
            looked_for_unlinked: Mutex::default(),
            invalidating: AtomicBool::new(false),
            unsupported: Mutex::default(),
        }
    }

    /// How many files may be known: each has a descriptor, and costs memory.
    pub(crate) fn files_max(&self) -> u64 {
        let cache = self.cache.as_ref();
        let budget = cache.map_or(self.budget, memory_bytes);
        files_max(self.descriptors, budget)
    }

    /// How old a change gets before the cache writes it by itself.
    pub(crate) fn expire(&self) -> Duration {
        let cache = self.cache.as_ref();
        cache.map_or(Duration::ZERO, |cache| {
            Duration::from_nanos(cache.options().flusher.expire.0)
        })
    }

    /// A number that grows while what is to be written gets on: what the cache's devices have ended, and what the disk has
    /// for whomever, as when the file system below writes its own. `None` without a cache.
    pub(crate) fn progress(&self) -> Option<u64> {
        let devices = self.cache.as_ref()?.devices();
        let ended = devices
            .iter()
            .map(|device| device.writes + device.syncs + device.errors);
        // Reads, writes and flushes that have ended.
        let figures = std::fs::read_to_string(&self.disk_figures).unwrap_or_default();
        let figures = figures.split_ascii_whitespace().enumerate();
        let of_disk = figures
            .filter(|(n, _)| matches!(n, 0 | 4 | 15))
            .filter_map(|(_, figure)| figure.parse::<u64>().ok());
        Some(ended.chain(of_disk).fold(0, u64::wrapping_add))
    }

    /// The inode with this number.
    ///
    /// # Errors
    /// `ESTALE`: the kernel was not told of it.
    pub(crate) fn inode(&self, id: u64) -> Result<Arc<Inode>> {
        self.inodes.find(id).ok_or(Errno::STALE)
    }

    /// The open file with this handle.
    ///
    /// # Errors
    /// `EBADF`: there is none.
    pub(crate) fn file(&self, handle: u64) -> Result<Arc<OpenFile>> {
        self.files.find(handle).ok_or(Errno::BADF)
    }

    /// A file's attributes: those on disk, and what has not reached the disk yet.
    pub(crate) fn attributes(&self, inode: &Inode) -> Result<Attributes> {
        let data = inode.data.lock();
        let times = inode.times.lock();
        // First: what is written meanwhile counts twice, and not nowhere.
        let unwritten = data
            .content
            .as_ref()
            .map_or(0, |content| content.unwritten_bytes());
        // Under the locks: what is not written yet may be, meanwhile.
        let mut stat = rustix::fs::fstat(&inode.fd)?;
        if self.is_cached(&stat) {
            // A file that is closed and clean may have been changed below by others: the disk's length counts.
            let is_ours = data.opens > 0 || times.pending_mtime().is_some();
            let content = data.content.as_ref().filter(|_| is_ours);
            if let Some(len) = content.and_then(|content| content.cached_len()) {
                stat.st_size = len as _;
            }
            times.apply_to(&mut stat);
            stat.st_blocks = self.blocks(inode, &stat, unwritten) as _;
        }
        Ok(Attributes {
            of_file: self.reply_attr(inode.id, &stat),
            // Its blocks change when it is written, of which the kernel does not hear.
            keep: match unwritten {
                0 => self.attribute_timeout,
                _ => Duration::ZERO,
            },
        })
    }

    /// A file's blocks, with those that it will need below; `stat` has its length as programs see it.
    fn blocks(&self, inode: &Inode, stat: &Stat, unwritten: u64) -> u64 {
        // Of what is stored through maps the kernel tells later: there may be data where there seem to be none.
        let may_be_stored = stat.st_blocks == 0 && inode.kernel_pages.is_mapped();
        let stored = if may_be_stored {
            PAGE_BYTES.min(stat.st_size as u64)
        } else {
            0
        };
        blocks_with_unwritten(stat, unwritten.max(stored))
    }

    /// As [`attributes`](Self::attributes), for a caller that has asked the disk already.
    pub(crate) fn attributes_from(&self, inode: &Inode, stat: &Stat) -> Result<Attributes> {
        if self.is_cached(stat) {
            return self.attributes(inode);
        }
        Ok(Attributes {
            of_file: self.reply_attr(inode.id, stat),
            keep: self.attribute_timeout,
        })
    }

    /// Attributes as they go to the kernel. A change that comes later is stamped no earlier.
    pub(crate) fn reply_attr(&self, id: u64, stat: &Stat) -> FileAttr {
        self.clock.reported(stat);
        file_attr(id, stat)
    }

    fn is_cached(&self, stat: &Stat) -> bool {
        self.cache.is_some() && rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
    }

    /// Opens the file of an inode, for what an `O_PATH` descriptor can't do.
    pub(crate) fn reopen(&self, inode: &Inode, flags: OFlags) -> Result<OwnedFd> {
        rustix::fs::open(
            inode.path(),
            flags | OFlags::CLOEXEC | OFlags::NOCTTY,
            Mode::empty(),
        )
    }

    /// A program has changed data of the file just now.
    pub(crate) fn data_changed(&self, inode: &Inode) {
        if self.cache.is_some() {
            inode.times.lock().data_changed(self.clock.now());
        }
    }

    /// We have changed attributes or names of the file below.
    pub(crate) fn attributes_changed(&self, inode: &Inode) {
        inode.attributes_changed.store(true, Ordering::Release);
        inode.times.lock().attributes_changed(self.clock.now());
    }

    /// How the file is below now.
    pub(crate) fn disk_version(&self, inode: &Inode) -> Result<DiskVersion> {
        Ok(DiskVersion::of(&rustix::fs::fstat(&inode.fd)?))
    }
}

/// What is open, by the handle that the kernel gives back.
pub(crate) struct Handles<T> {
    open: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles {
            open: RwLock::default(),
            next: AtomicU64::new(1),
        }
    }
}

impl<T> Handles<T> {
    pub(crate) fn add(&self, opened: T) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().insert(number, Arc::new(opened));
        number
    }

    /// The process that served before has opened it under this number.
    pub(crate) fn go_on_from(&self, number: u64, opened: T) {
        self.next.fetch_max(number + 1, Ordering::Relaxed);
        self.open.write().insert(number, Arc::new(opened));
    }

    pub(crate) fn count(&self) -> usize {
        self.open.read().len()
    }

    /// All of them, each with its number.
    pub(crate) fn all(&self) -> Vec<(u64, Arc<T>)> {
        let open = self.open.read();
        open.iter()
            .map(|(&number, opened)| (number, opened.clone()))
            .collect()
    }

    pub(crate) fn find(&self, number: u64) -> Option<Arc<T>> {
        self.open.read().get(&number).cloned()
    }

    /// Whether one of them is as asked.
    pub(crate) fn any(&self, is: impl Fn(&T) -> bool) -> bool {
        self.open.read().values().any(|opened| is(opened))
    }

    pub(crate) fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.open.write().remove(&number)
    }
}
