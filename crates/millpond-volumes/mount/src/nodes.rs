//! The files that the kernel knows, each as of one version.
//!
//! ```text
//!   name ──► file 7 ──► node (7, 0)   as it was; open files and maps of it stay so
//!                  └──► node (7, 1)   as it is: what the next lookup gives
//! ```
//!
//! The kernel caches the pages of a node for all that have it open. So a node never changes: a file that has other bytes than a
//! node is another node.

use fuser::INodeNo;
use millpond_volumes::{Child, FileVersion};
use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

/// Numbers of files begin here; those below are of directories.
const FILES: u64 = 1 << 63;

/// Bits for the version of a file. More versions than that at a time are not known to the kernel.
const VERSION_BITS: u32 = 20;

/// A file as of one version.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) path: Vec<u8>,
    pub(crate) child: Child,
    /// Of the commit in which this mount has first found it so.
    pub(crate) found_at: SystemTime,
    pub(crate) version: FileVersion,
    /// The last commit in which the file was seen to have this version.
    pub(crate) seen: u64,
    lookups: u64,
}

/// All that the kernel knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// Directories by path. They are few, and stay.
    directories: HashMap<Vec<u8>, u64>,
    paths: HashMap<u64, Vec<u8>>,
    files: BTreeMap<u64, Node>,
    /// By the number of a file: the newest node.
    newest: HashMap<u64, u64>,
}

fn node_of(number: u64, version: u64) -> u64 {
    FILES | (number << VERSION_BITS) & !FILES | version
}

impl Nodes {
    pub(crate) fn new() -> Nodes {
        let root = INodeNo::ROOT.0;
        Nodes {
            directories: HashMap::from([(Vec::new(), root)]),
            paths: HashMap::from([(root, Vec::new())]),
            files: BTreeMap::new(),
            newest: HashMap::new(),
        }
    }

    /// The path of a directory; the root's is empty.
    pub(crate) fn directory(&self, id: u64) -> Option<&[u8]> {
        self.paths.get(&id).map(Vec::as_slice)
    }

    pub(crate) fn id_of_directory(&mut self, path: &[u8]) -> u64 {
        if let Some(&id) = self.directories.get(path) {
            return id;
        }
        let id = INodeNo::ROOT.0 + self.directories.len() as u64;
        self.directories.insert(path.to_owned(), id);
        self.paths.insert(id, path.to_owned());
        id
    }

    pub(crate) fn file(&self, id: u64) -> Option<&Node> {
        self.files.get(&id)
    }

    /// The node that a file has as of commit `seen`; `None`: it has none, or another version. `is_version`: whether it has this
    /// then.
    pub(crate) fn known(
        &mut self,
        number: u64,
        seen: u64,
        is_version: impl FnOnce(&FileVersion) -> bool,
    ) -> Option<u64> {
        let id = *self.newest.get(&number)?;
        let node = self.files.get_mut(&id)?;
        if node.seen != seen && !is_version(&node.version) {
            return None;
        }
        node.seen = seen;
        Some(id)
    }

    /// A node of a version that no other has.
    pub(crate) fn new_file(
        &mut self,
        (path, child): (&[u8], Child),
        (seen, version): (u64, FileVersion),
        found_at: SystemTime,
    ) -> u64 {
        let number = child.number;
        let newest = self.newest.get(&number);
        let from = newest.map_or(0, |id| (id + 1) % (1 << VERSION_BITS));
        let versions = (from..1 << VERSION_BITS).chain(0..from);
        let mut ids = versions.map(|version| node_of(number, version));
        let id = ids.find(|id| !self.files.contains_key(id));
        let id = id.unwrap_or_else(|| node_of(number, 0));
        self.newest.insert(number, id);
        let node = Node {
            path: path.to_owned(),
            child,
            found_at,
            version,
            seen,
            lookups: 0,
        };
        self.files.insert(id, node);
        id
    }

    /// The number that a file has in a list of its directory.
    pub(crate) fn id_in_list(&self, number: u64) -> u64 {
        let newest = self.newest.get(&number);
        newest.copied().unwrap_or_else(|| node_of(number, 0))
    }

    /// The kernel was told of it once more.
    pub(crate) fn looked_up(&mut self, id: u64) {
        if let Some(node) = self.files.get_mut(&id) {
            node.lookups += 1;
        }
    }

    /// The kernel has forgotten it so often.
    pub(crate) fn forget(&mut self, id: u64, count: u64) {
        let Some(node) = self.files.get_mut(&id) else {
            return;
        };
        node.lookups = node.lookups.saturating_sub(count);
        if node.lookups > 0 {
            return;
        }
        let number = node.child.number;
        self.files.remove(&id);
        if self.newest.get(&number) == Some(&id) {
            self.newest.remove(&number);
        }
    }
}
