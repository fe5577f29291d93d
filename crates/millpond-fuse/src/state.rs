//! What a mount knows: its files, who has them open, the cache.

use crate::attributes::attributes;
use crate::directory::Directory;
use crate::exit_report::LastWord;
use crate::flags::Durable;
use crate::inode::closed::Idle;
use crate::inode::content::{Content, Result};
use crate::inode::times::Clock;
use crate::inode::{Node, Nodes, ROOT};
use crate::operations::stale_dentry::SentBack;
use crate::options::Options;
use crate::pool::Pool;
use crate::source::Locked;
use fuser::{FileAttr, Notifier};
use millpond::PageCache;
use parking_lot::{Mutex, RwLock};
use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The size of the cache's pages, which answers of one page depend on.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Files that nobody has open and whose data stay in the cache: a part of the descriptors, of which each has two, and of
/// what is known of a file, which is about a kilobyte.
fn idle_max(descriptors: u64) -> usize {
    (descriptors / 16).clamp(16, 16 << 10) as usize
}

/// The state of a mount.
pub(crate) struct Pond {
    pub(crate) nodes: Nodes,
    pub(crate) files: Handles<OpenFile>,
    pub(crate) directories: Handles<Directory>,
    pub(crate) cache: Option<PageCache>,
    pub(crate) idle: Idle,
    pub(crate) pool: Pool,
    pub(crate) clock: Clock,
    /// Of the root when it was mounted: what is said of it while the file system below does not answer.
    pub(crate) root: FileAttr,
    pub(crate) last_word: LastWord,
    /// The source, open and perhaps locked for as long as this is there. Errors of the file system below are asked for
    /// through it, which says those that came since it was opened.
    pub(crate) source: Arc<Locked>,
    pub(crate) is_read_only: bool,
    /// What the file system below has said of data that only it had, and says once.
    pub(crate) below_failed: Mutex<Option<Errno>>,
    /// Something that was stored through a map is lost.
    pub(crate) has_lost: AtomicBool,
    pub(crate) attribute_timeout: Duration,
    /// Root's: it makes files as whoever asks.
    pub(crate) is_root: bool,
    /// The umask is left to us, since a directory may have a default ACL instead.
    pub(crate) applies_umask: AtomicBool,
    /// Threads that answer the kernel, and how many of them are in a write, which may pause.
    pub(crate) threads: usize,
    pub(crate) writing: AtomicUsize,
    /// Files that could not be let go of, because they could not be written: tried again.
    pub(crate) unwritten: Mutex<Vec<Arc<Node>>>,
    /// How many descriptors this process may have.
    pub(crate) descriptors: u64,
    /// Who was told to look once more for a name that has appeared.
    pub(crate) sent_back: Mutex<SentBack>,
    /// For telling the kernel to forget names, and whether somebody does.
    pub(crate) notifier: OnceLock<Notifier>,
    pub(crate) forgetting: AtomicBool,
    /// What the host's FUSE lacks, in sentences.
    pub(crate) lacks: Mutex<Vec<String>>,
}

/// Somebody's open file.
pub(crate) struct OpenFile {
    pub(crate) node: Arc<Node>,
    pub(crate) content: Arc<Content>,
    /// What is durable when a call that changes the file returns.
    pub(crate) durable: Durable,
}

impl Pond {
    pub(crate) fn new(
        ((root, stat), source): ((OwnedFd, Stat), Arc<Locked>),
        cache: Option<PageCache>,
        options: &Options,
        (descriptors, last_word): (u64, LastWord),
    ) -> Pond {
        Pond {
            nodes: Nodes::new(root, &stat),
            files: Handles::default(),
            directories: Handles::default(),
            cache,
            idle: Idle::new(idle_max(descriptors)),
            pool: Pool::default(),
            clock: Clock::default(),
            root: attributes(ROOT, &stat),
            source,
            is_read_only: options.read_only,
            below_failed: Mutex::default(),
            has_lost: AtomicBool::new(false),
            last_word,
            attribute_timeout: options.attribute_timeout,
            is_root: rustix::process::geteuid().is_root(),
            applies_umask: AtomicBool::new(false),
            threads: options.threads,
            writing: AtomicUsize::new(0),
            unwritten: Mutex::default(),
            descriptors,
            sent_back: Mutex::default(),
            notifier: OnceLock::new(),
            forgetting: AtomicBool::new(false),
            lacks: Mutex::default(),
        }
    }

    pub(crate) fn node(&self, id: u64) -> Result<Arc<Node>> {
        self.nodes.find(id).ok_or(Errno::STALE)
    }

    pub(crate) fn file(&self, handle: u64) -> Result<Arc<OpenFile>> {
        self.files.find(handle).ok_or(Errno::BADF)
    }

    /// What stat says of a file: what the disk says, and what it does not know yet.
    pub(crate) fn attributes(&self, node: &Node) -> Result<FileAttr> {
        let data = node.data.lock();
        let times = node.times.lock();
        // Not before: what is not written yet may be, meanwhile.
        let mut stat = rustix::fs::fstat(&node.place)?;
        if self.is_cached(&stat) {
            // Where nobody has it open and nothing is left to write the disk knows best: others may have changed it.
            let is_ours = data.opens > 0 || times.to_settle().is_some();
            let content = data.content.as_ref().filter(|_| is_ours);
            if let Some(len) = content.and_then(|content| content.cached_len()) {
                stat.st_size = len as _;
            }
            times.tell(&mut stat);
        }
        Ok(self.say(node.id, &stat))
    }

    /// The same where the disk has been asked already.
    pub(crate) fn told(&self, node: &Node, stat: &Stat) -> Result<FileAttr> {
        match self.is_cached(stat) {
            true => self.attributes(node),
            false => Ok(self.say(node.id, stat)),
        }
    }

    pub(crate) fn say(&self, id: u64, stat: &Stat) -> FileAttr {
        self.clock.tell(stat);
        attributes(id, stat)
    }

    fn is_cached(&self, stat: &Stat) -> bool {
        self.cache.is_some() && rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
    }

    /// Opens a file, which the kernel knows by number, for what a descriptor that only names it can't do.
    pub(crate) fn reopen(&self, node: &Node, flags: OFlags) -> Result<OwnedFd> {
        rustix::fs::open(
            node.path(),
            flags | OFlags::CLOEXEC | OFlags::NOCTTY,
            Mode::empty(),
        )
    }

    /// Data of the file were changed, by a program and just now.
    pub(crate) fn written(&self, node: &Node) {
        if self.cache.is_some() {
            node.times.lock().written(self.clock.now());
        }
    }

    /// Attributes of the file were changed below, or its names, by us.
    pub(crate) fn attributes_changed(&self, node: &Node) {
        node.attributes_changed.store(true, Ordering::Release);
        node.times.lock().changed(self.clock.now());
    }
}

/// What is open, by the number that the kernel gives back.
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

    pub(crate) fn find(&self, number: u64) -> Option<Arc<T>> {
        self.open.read().get(&number).cloned()
    }

    pub(crate) fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.open.write().remove(&number)
    }
}
