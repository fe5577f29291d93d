//! Files by the numbers that the kernel knows them by.
//!
//! Each file that the kernel knows is held open here (`O_PATH`), so that it is found whatever becomes of its name, and
//! so that the file system below gives its number to no other. The kernel's number is that of the file system below, so
//! that programs see it (`st_ino`); but 1 is the root's, and files of other file systems, mounted below the source, have
//! numbers of their own.
//!
//! A file that the kernel has forgotten stays as long as its data are not written. The change time that was said of it is
//! remembered for longer, of so many files, in case it comes back.

pub(crate) mod closed;
pub(crate) mod coherence;
pub(crate) mod content;
pub(crate) mod times;

use crate::inode::coherence::Mapped;
use crate::inode::content::Content;
use crate::inode::times::{Said, Times};
use parking_lot::Mutex;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// The number of the root (FUSE_ROOT_ID).
pub(crate) const ROOT: u64 = 1;

/// Numbers from here on are given to files whose own are another's.
const OWN_NUMBERS: u64 = 1 << 63;

/// Files that are let go of, and of which a change time is remembered, 64 bytes each.
const REMEMBERED: usize = 64 << 10;

/// Which file it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[expect(clippy::unnecessary_cast, reason = "stat has other types on other machines")]
    pub(crate) fn of(stat: &Stat) -> Identity {
        Identity {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
        }
    }
}

/// A file, directory, link or whatever else has a name.
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) identity: Identity,
    /// Names it, whatever it is called by now; not for reading or writing.
    pub(crate) place: OwnedFd,
    pub(crate) is_directory: bool,
    /// Its data, if it is a regular file.
    pub(crate) data: Mutex<Data>,
    pub(crate) mapped: Arc<Mapped>,
    /// Writes that have come and are not answered.
    pub(crate) writing: AtomicU32,
    pub(crate) times: Mutex<Times>,
    /// Where it was found last: in which directory, under which name; not where the kernel has taken that name away.
    pub(crate) found: Mutex<Option<(u64, OsString)>>,
    /// It has neither bits nor capabilities that a change of its data takes, as far as is known since it was opened.
    pub(crate) is_bare: Mutex<bool>,
    /// Attributes were changed that no sync has made durable yet.
    pub(crate) attributes_changed: AtomicBool,
}

/// The data of a regular file.
#[derive(Default)]
pub(crate) struct Data {
    /// Stays for a while when nobody has the file open.
    pub(crate) content: Option<Arc<Content>>,
    pub(crate) opens: u32,
    /// Counts what was opened, so that `idle` knows whether it was since.
    pub(crate) turn: u64,
    /// How the file below was when nothing was left to write to it.
    pub(crate) seen: Option<Seen>,
    /// Why something that was stored through a map is lost. Whoever has the file open meanwhile is told at each sync and
    /// close.
    pub(crate) lost: Option<Errno>,
}

/// What shows that others have changed a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    len: i64,
    modified: (i64, u64),
}

impl Seen {
    #[expect(clippy::unnecessary_cast, reason = "stat has other types on other machines")]
    pub(crate) fn of(stat: &Stat) -> Seen {
        Seen {
            len: stat.st_size as i64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        }
    }
}

impl Node {
    fn new(id: u64, stat: &Stat, place: OwnedFd, said: Option<Said>) -> Node {
        Node {
            id,
            identity: Identity::of(stat),
            place,
            is_directory: FileType::from_raw_mode(stat.st_mode).is_dir(),
            data: Mutex::default(),
            mapped: Arc::default(),
            writing: AtomicU32::new(0),
            times: Mutex::new(Times::remembering(said)),
            found: Mutex::default(),
            is_bare: Mutex::default(),
            attributes_changed: AtomicBool::new(false),
        }
    }

    /// It was found there.
    pub(crate) fn found_at(&self, directory: u64, name: &OsStr) {
        let mut found = self.found.lock();
        if found
            .as_ref()
            .is_none_or(|(there, called)| *there != directory || called != name)
        {
            *found = Some((directory, name.to_owned()));
        }
    }

    /// The kernel is about to take that name away; whether it was found there.
    pub(crate) fn leave(&self, directory: u64, name: &OsStr) -> bool {
        let mut found = self.found.lock();
        found
            .take_if(|(there, called)| *there == directory && called == name)
            .is_some()
    }

    /// A name for system calls that take no descriptor of this kind.
    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.place.as_raw_fd())
    }
}

struct Known {
    node: Arc<Node>,
    /// How often the kernel was told of it, and has not forgotten.
    lookups: u64,
}

/// All files that the kernel knows.
pub(crate) struct Nodes {
    device: u64,
    table: Mutex<Table>,
}

struct Table {
    by_id: HashMap<u64, Known>,
    by_identity: HashMap<Identity, u64>,
    next_own: u64,
    said: HashMap<Identity, Said>,
    /// Those of `said`, the oldest first.
    remembered: VecDeque<Identity>,
}

impl Table {
    fn remember(&mut self, identity: Identity, said: Said) {
        if self.said.insert(identity, said).is_none() {
            self.remembered.push_back(identity);
        }
        if self.remembered.len() > REMEMBERED
            && let Some(first) = self.remembered.pop_front()
        {
            self.said.remove(&first);
        }
    }
}

impl Nodes {
    pub(crate) fn new(root: OwnedFd, stat: &Stat) -> Nodes {
        let identity = Identity::of(stat);
        let known = Known {
            node: Arc::new(Node::new(ROOT, stat, root, None)),
            lookups: 1,
        };
        let table = Table {
            by_id: HashMap::from([(ROOT, known)]),
            by_identity: HashMap::from([(identity, ROOT)]),
            next_own: OWN_NUMBERS,
            said: HashMap::new(),
            remembered: VecDeque::new(),
        };
        Nodes {
            device: identity.device,
            table: Mutex::new(table),
        }
    }

    /// The file with this number.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Node>> {
        self.table.lock().by_id.get(&id).map(|known| known.node.clone())
    }

    /// The file, if it is known, of which the kernel is told once more.
    pub(crate) fn known(&self, identity: Identity) -> Option<Arc<Node>> {
        let mut table = self.table.lock();
        let id = *table.by_identity.get(&identity)?;
        let known = table.by_id.get_mut(&id)?;
        known.lookups += 1;
        Some(known.node.clone())
    }

    /// The file that `place` names, of which the kernel is told once more.
    pub(crate) fn enter(&self, place: OwnedFd, stat: &Stat) -> Arc<Node> {
        let identity = Identity::of(stat);
        if let Some(node) = self.known(identity) {
            return node;
        }
        let mut table = self.table.lock();
        let table = &mut *table;
        if let Some(id) = table.by_identity.get(&identity)
            && let Some(known) = table.by_id.get_mut(id)
        {
            known.lookups += 1;
            return known.node.clone();
        }
        let is_free = identity.device == self.device && identity.inode > ROOT && identity.inode < OWN_NUMBERS;
        let id = match is_free && !table.by_id.contains_key(&identity.inode) {
            true => identity.inode,
            false => {
                table.next_own += 1;
                table.next_own
            }
        };
        let said = table.said.get(&identity).copied();
        let node = Arc::new(Node::new(id, stat, place, said));
        table.by_identity.insert(identity, id);
        let known = Known {
            node: node.clone(),
            lookups: 1,
        };
        table.by_id.insert(id, known);
        node
    }

    /// The kernel has forgotten `count` of what it was told. The file, if that was all: it is to be let go of.
    pub(crate) fn forget(&self, id: u64, count: u64) -> Option<Arc<Node>> {
        let mut table = self.table.lock();
        let known = table.by_id.get_mut(&id)?;
        known.lookups = known.lookups.saturating_sub(count);
        (known.lookups == 0 && id != ROOT).then(|| known.node.clone())
    }

    /// Lets go of a file if the kernel still does not know it, and nothing of its data is here.
    pub(crate) fn remove(&self, node: &Arc<Node>) {
        let mut table = self.table.lock();
        // By now another file may have its number.
        let is_it = |known: &Known| Arc::ptr_eq(&known.node, node) && known.lookups == 0;
        let is_unknown = table.by_id.get(&node.id).is_some_and(is_it);
        let data = node.data.lock();
        if is_unknown && data.content.is_none() && data.opens == 0 {
            table.by_id.remove(&node.id);
            table.by_identity.remove(&node.identity);
            if let Some(said) = node.times.lock().said() {
                table.remember(node.identity, said);
            }
        }
    }

    /// Whether the kernel has forgotten it.
    pub(crate) fn is_forgotten(&self, node: &Arc<Node>) -> bool {
        let table = self.table.lock();
        let known = table.by_id.get(&node.id);
        known.is_none_or(|known| !Arc::ptr_eq(&known.node, node) || known.lookups == 0)
    }

    /// The file, if it is known, without telling anybody.
    pub(crate) fn seen(&self, identity: Identity) -> Option<Arc<Node>> {
        let table = self.table.lock();
        let id = table.by_identity.get(&identity)?;
        table.by_id.get(id).map(|known| known.node.clone())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        self.table
            .lock()
            .by_id
            .values()
            .map(|known| known.node.clone())
            .collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.table.lock().by_id.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};

    fn place(folder: &std::path::Path) -> (OwnedFd, Stat) {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let place = rustix::fs::open(folder, flags, Mode::empty()).unwrap();
        let stat = rustix::fs::fstat(&place).unwrap();
        (place, stat)
    }

    #[test]
    fn the_change_time_that_was_said_of_a_file_is_said_when_it_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let (root, stat) = place(folder.path());
        let nodes = Nodes::new(root, &stat);
        let path = folder.path().join("file");
        std::fs::write(&path, "").unwrap();
        let enter = || {
            let (place, stat) = place(&path);
            nodes.enter(place, &stat)
        };
        let told = |node: &Node| {
            let mut stat = place(&path).1;
            node.times.lock().tell(&mut stat);
            (stat.st_ctime, stat.st_ctime_nsec)
        };
        let now = rustix::fs::Timespec {
            tv_sec: 1_000,
            tv_nsec: 5,
        };
        let node = enter();
        node.times.lock().written(now);
        node.times.lock().settled(&place(&path).1);
        assert_eq!(told(&node), (1_000, 5));
        assert!(nodes.forget(node.id, 1).is_some());
        nodes.remove(&node);
        let again = enter();
        assert!(!Arc::ptr_eq(&node, &again));
        assert_eq!(told(&again), (1_000, 5));
        // Not once it has changed below.
        std::fs::hard_link(&path, folder.path().join("other")).unwrap();
        assert_ne!(told(&again).0, 1_000);
    }

    #[test]
    fn a_file_that_is_let_go_of_twice_takes_no_other_with_it_that_has_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let (root, stat) = place(folder.path());
        let nodes = Nodes::new(root, &stat);
        std::fs::write(folder.path().join("file"), "").unwrap();
        let enter = || {
            let (place, stat) = place(&folder.path().join("file"));
            nodes.enter(place, &stat)
        };
        let old = enter();
        assert!(nodes.forget(old.id, 1).is_some());
        nodes.remove(&old);
        assert!(nodes.find(old.id).is_none());
        let new = enter();
        assert_eq!(new.id, old.id);
        assert!(nodes.forget(new.id, 1).is_some());
        nodes.remove(&old);
        assert!(nodes.find(new.id).is_some() && nodes.is_forgotten(&old));
        nodes.remove(&new);
        assert!(nodes.find(new.id).is_none());
    }
}
