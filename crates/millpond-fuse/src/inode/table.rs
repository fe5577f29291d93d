//! The inode table: every file that the kernel knows, by number.
//!
//! The kernel's number is that of the underlying file system, so that programs see it (`st_ino`). The exceptions: 1 is
//! the root's, and files of other file systems mounted below the source have numbers of our own.
//!
//! An inode that the kernel has forgotten stays until its data is written. Its reported change time is remembered for
//! longer, for a limited number of files, in case the file comes back.

use super::lent::Cleared;
use super::times::ReportedCtime;
use super::{Identity, Inode};
use crate::own_attributes::ROOT_ID;
use parking_lot::Mutex;
use rustix::fs::Stat;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Numbers from here on are given to files whose own number is another's.
const OWN_NUMBERS: u64 = 1 << 63;

/// Removed inodes of which the change time is remembered, 64 bytes each.
const REMEMBERED_MAX: usize = 64 << 10;

/// All files that the kernel knows.
pub(crate) struct InodeTable {
    /// Of the source.
    device: u64,
    table: Mutex<Table>,
}

struct Table {
    by_id: HashMap<u64, Entry>,
    by_identity: HashMap<Identity, u64>,
    next_own: u64,
    ctimes: ReportedCtimes,
}

struct Entry {
    inode: Arc<Inode>,
    /// How often the kernel was told of it, less what it has forgotten (`nlookup` of FUSE).
    lookups: u64,
}

/// What a table has beside its inodes.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct TableRecord {
    pub(crate) next_own: u64,
    /// Change times that were reported of inodes that are removed, the oldest first.
    pub(crate) ctimes: Vec<(Identity, ReportedCtime)>,
}

/// Change times that were reported of inodes that are removed.
#[derive(Default)]
struct ReportedCtimes {
    by_identity: HashMap<Identity, ReportedCtime>,
    oldest_first: VecDeque<Identity>,
}

impl ReportedCtimes {
    fn remember(&mut self, identity: Identity, ctime: ReportedCtime) {
        if self.by_identity.insert(identity, ctime).is_none() {
            self.oldest_first.push_back(identity);
        }
        if self.oldest_first.len() > REMEMBERED_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.by_identity.remove(&oldest);
        }
    }
}

impl Table {
    fn by_identity(&self, identity: Identity) -> Option<&Entry> {
        self.by_id.get(self.by_identity.get(&identity)?)
    }

    /// As [`InodeTable::lookup`].
    fn lookup(&mut self, identity: Identity) -> Option<Arc<Inode>> {
        let entry = self.by_id.get_mut(self.by_identity.get(&identity)?)?;
        entry.lookups += 1;
        Some(entry.inode.clone())
    }

    fn add(&mut self, inode: Arc<Inode>) {
        self.by_identity.insert(inode.identity, inode.id);
        self.by_id.insert(inode.id, Entry { inode, lookups: 1 });
    }
}

impl InodeTable {
    /// With the root alone.
    pub(crate) fn new(root: OwnedFd, stat: &Stat) -> InodeTable {
        let root = Inode::new(ROOT_ID, stat, root, None);
        let device = root.identity.device;
        let mut table = Table {
            by_id: HashMap::new(),
            by_identity: HashMap::new(),
            next_own: OWN_NUMBERS,
            ctimes: ReportedCtimes::default(),
        };
        table.add(Arc::new(root));
        InodeTable {
            device,
            table: Mutex::new(table),
        }
    }

    /// The inode with this number.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Inode>> {
        self.table.lock().by_id.get(&id).map(|entry| entry.inode.clone())
    }

    /// The inode of a file, if it is known. Counts a lookup: the kernel is told of it once more.
    pub(crate) fn lookup(&self, identity: Identity) -> Option<Arc<Inode>> {
        self.table.lock().lookup(identity)
    }

    /// The inode of a file, if it is known, without a lookup.
    pub(crate) fn peek(&self, identity: Identity) -> Option<Arc<Inode>> {
        let table = self.table.lock();
        table.by_identity(identity).map(|entry| entry.inode.clone())
    }

    /// The inode of the file that `fd` is open for, new if it is not known. Counts a lookup.
    pub(crate) fn insert(&self, fd: OwnedFd, stat: &Stat) -> Arc<Inode> {
        let identity = Identity::of(stat);
        let mut table = self.table.lock();
        if let Some(inode) = table.lookup(identity) {
            return inode;
        }
        let is_usable =
            identity.device == self.device && identity.inode > ROOT_ID && identity.inode < OWN_NUMBERS;
        let id = if is_usable && !table.by_id.contains_key(&identity.inode) {
            identity.inode
        } else {
            table.next_own += 1;
            table.next_own
        };
        let ctime = table.ctimes.by_identity.get(&identity).copied();
        let inode = Arc::new(Inode::new(id, stat, fd, ctime));
        table.add(inode.clone());
        inode
    }

    /// The kernel has forgotten `count` lookups. The inode, if those were all: it is to be evicted. And what of it was lent
    /// to the kernel until then.
    pub(crate) fn forget(&self, id: u64, count: u64) -> Option<(Arc<Inode>, Cleared)> {
        let mut table = self.table.lock();
        let entry = table.by_id.get_mut(&id)?;
        entry.lookups = entry.lookups.saturating_sub(count);
        // Before it is looked up again, after which pages can be lent.
        (entry.lookups == 0 && id != ROOT_ID).then(|| (entry.inode.clone(), entry.inode.lent.clear()))
    }

    /// Removes an inode if the kernel still does not know it, and nothing of its data is here.
    pub(crate) fn remove(&self, inode: &Arc<Inode>) {
        let mut table = self.table.lock();
        // By now another file may have its number.
        let is_it = |entry: &Entry| Arc::ptr_eq(&entry.inode, inode) && entry.lookups == 0;
        let is_unknown = table.by_id.get(&inode.id).is_some_and(is_it);
        let data = inode.data.lock();
        if is_unknown && data.content.is_none() && data.opens == 0 {
            table.by_id.remove(&inode.id);
            table.by_identity.remove(&inode.identity);
            if let Some(ctime) = inode.times.lock().reported_ctime() {
                table.ctimes.remember(inode.identity, ctime);
            }
        }
    }

    /// Whether the kernel has forgotten it.
    pub(crate) fn is_forgotten(&self, inode: &Arc<Inode>) -> bool {
        let table = self.table.lock();
        let entry = table.by_id.get(&inode.id);
        entry.is_none_or(|entry| !Arc::ptr_eq(&entry.inode, inode) || entry.lookups == 0)
    }

    /// Those that the kernel knows, or has forgotten before it has closed them; each with how often it was told of it.
    pub(crate) fn known(&self) -> Vec<(Arc<Inode>, u64)> {
        let table = self.table.lock();
        let is_known = |entry: &&Entry| entry.lookups > 0 || entry.inode.data.lock().opens > 0;
        let known = table.by_id.values().filter(is_known);
        known.map(|entry| (entry.inode.clone(), entry.lookups)).collect()
    }

    /// Adds one that the kernel knows from the process that served before.
    pub(crate) fn adopt(&self, inode: Inode, lookups: u64) {
        let mut table = self.table.lock();
        let id = inode.id;
        table.add(Arc::new(inode));
        if let Some(entry) = table.by_id.get_mut(&id) {
            entry.lookups = lookups;
        }
    }

    /// What else there is to know, for the process that takes over.
    pub(crate) fn record(&self) -> TableRecord {
        let table = self.table.lock();
        let ctimes = table.ctimes.oldest_first.iter();
        let known = |identity: &Identity| Some((*identity, *table.ctimes.by_identity.get(identity)?));
        TableRecord {
            next_own: table.next_own,
            ctimes: ctimes.filter_map(known).collect(),
        }
    }

    /// The process that served before has known this.
    pub(crate) fn go_on_from(&self, record: TableRecord) {
        let mut table = self.table.lock();
        table.next_own = table.next_own.max(record.next_own);
        for (identity, ctime) in record.ctimes {
            table.ctimes.remember(identity, ctime);
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        let table = self.table.lock();
        table.by_id.values().map(|entry| entry.inode.clone()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.table.lock().by_id.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::Inode;
    use rustix::fs::{Mode, OFlags};

    fn open_path(path: &std::path::Path) -> (OwnedFd, Stat) {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).unwrap();
        let stat = rustix::fs::fstat(&fd).unwrap();
        (fd, stat)
    }

    #[test]
    fn the_reported_change_time_of_an_evicted_file_is_reported_again_when_it_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let (root, stat) = open_path(folder.path());
        let inodes = InodeTable::new(root, &stat);
        let path = folder.path().join("file");
        std::fs::write(&path, "").unwrap();
        let insert = || {
            let (fd, stat) = open_path(&path);
            inodes.insert(fd, &stat)
        };
        let reported = |inode: &Inode| {
            let mut stat = open_path(&path).1;
            inode.times.lock().apply_to(&mut stat);
            (stat.st_ctime, stat.st_ctime_nsec)
        };
        let now = rustix::fs::Timespec {
            tv_sec: 1_000,
            tv_nsec: 5,
        };
        let inode = insert();
        inode.times.lock().data_changed(now);
        inode.times.lock().mtime_written(&open_path(&path).1);
        assert_eq!(reported(&inode), (1_000, 5));
        assert!(inodes.forget(inode.id, 1).is_some());
        inodes.remove(&inode);
        let again = insert();
        assert!(!Arc::ptr_eq(&inode, &again));
        assert_eq!(reported(&again), (1_000, 5));
        // Not once it has changed below.
        std::fs::hard_link(&path, folder.path().join("other")).unwrap();
        assert_ne!(reported(&again).0, 1_000);
    }

    #[test]
    fn an_inode_that_is_removed_twice_takes_no_other_with_it_that_has_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let (root, stat) = open_path(folder.path());
        let inodes = InodeTable::new(root, &stat);
        std::fs::write(folder.path().join("file"), "").unwrap();
        let insert = || {
            let (fd, stat) = open_path(&folder.path().join("file"));
            inodes.insert(fd, &stat)
        };
        let old = insert();
        assert!(inodes.forget(old.id, 1).is_some());
        inodes.remove(&old);
        assert!(inodes.find(old.id).is_none());
        let new = insert();
        assert_eq!(new.id, old.id);
        assert!(inodes.forget(new.id, 1).is_some());
        inodes.remove(&old);
        assert!(inodes.find(new.id).is_some() && inodes.is_forgotten(&old));
        inodes.remove(&new);
        assert!(inodes.find(new.id).is_none());
    }
}
