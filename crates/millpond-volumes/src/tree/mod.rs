//! Names and attributes of the files of a mount: records of a store, so that a commit has them with the bytes.
//!
//! ```text
//!   key                     value
//!   t                       the next number
//!   n <number>              a node: mode, owner, links, times, a directory's parent, a link's target
//!   e <directory> <name>    an entry: the number of what it names, and its kind
//!   x <number> <name>       an extended attribute
//! ```
//!
//! Numbers are eight bytes, the highest first, so that what is of one directory or one node lies together. The bytes of node
//! 7 are the store's file `inode:7`. A node without a name (links 0) is one that a process still has open; what is left of
//! these by a mount that was killed goes when the store is mounted again.
//!
//! A store without the record `t` has no tree: its files have the paths that slashes in their names make ([`names`]).
//!
//! [`names`]: crate::StoreReader::children

mod node;
#[cfg(test)]
mod tests;

pub use node::{Node, Time};

use crate::format::op::RecordBytes;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ops::Bound;

/// The number of a node.
pub type Ino = u64;

/// The root.
pub const ROOT: Ino = 1;

/// The longest name of an entry, and of an attribute (`NAME_MAX`, `XATTR_NAME_MAX`).
pub const NAME_BYTES_MAX: usize = 255;

/// As much of mode as can be changed.
const PERMISSIONS: u32 = 0o7777;

type Result<T> = std::result::Result<T, Errno>;

/// What a new node is to be.
#[derive(Clone, Debug)]
pub struct New<'a> {
    /// Its kind and permissions.
    pub mode: u32,
    /// Its user.
    pub uid: u32,
    /// Its group, unless its directory gives it its own.
    pub gid: u32,
    /// What device it is, if it is one.
    pub rdev: u32,
    /// A symbolic link's target.
    pub target: &'a [u8],
}

/// How an entry is renamed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renaming {
    /// What has the name is replaced.
    Over,
    /// Refused if something has the name.
    Fresh,
    /// Each gets the other's name.
    Exchange,
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name.
    pub name: Vec<u8>,
    /// What it names.
    pub ino: Ino,
    /// The kind of that.
    pub kind: FileType,
}

/// The records and files below a tree, for reading.
pub trait Below {
    /// The value of a record.
    fn get(&self, key: &[u8]) -> Option<RecordBytes>;
    /// The next record behind a key.
    fn next(&self, after: Bound<&[u8]>) -> Option<(RecordBytes, RecordBytes)>;
}

/// The same for changes.
pub trait BelowMut: Below {
    /// Sets a record, or removes it.
    ///
    /// # Errors
    /// `ESTALE` if another writer has the store.
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()>;
    /// Whether the store has a file of this name.
    fn has_file(&self, name: &str) -> bool;
    /// Makes an empty file.
    ///
    /// # Errors
    /// As of [`BelowMut::put`].
    fn create_file(&mut self, name: &str) -> Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// As of [`BelowMut::put`].
    fn remove_file(&mut self, name: &str) -> Result<()>;
}

/// The store's file with the bytes of a node.
pub fn data_name(ino: Ino) -> String {
    format!("inode:{ino}")
}

/// The node whose bytes a file of the store may have.
pub fn data_ino(name: &str) -> Option<Ino> {
    let ino = name.strip_prefix("inode:")?.parse().ok()?;
    (data_name(ino) == name).then_some(ino)
}

fn key(kind: u8, ino: Ino, name: &[u8]) -> Vec<u8> {
    [&[kind][..], &ino.to_be_bytes(), name].concat()
}

fn number(bytes: &[u8]) -> Option<Ino> {
    Some(Ino::from_be_bytes(*bytes.first_chunk()?))
}

/// A tree, on what is below it.
#[derive(Debug)]
pub struct Tree<B>(pub B);

impl<B: Below> Tree<B> {
    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.0.get(b"t").is_some()
    }

    /// A node.
    pub fn node(&self, ino: Ino) -> Option<Node> {
        Node::decode(&self.0.get(&key(b'n', ino, b""))?)
    }

    fn known(&self, ino: Ino) -> Result<Node> {
        self.node(ino).ok_or(Errno::STALE)
    }

    /// What a name in a directory names.
    pub fn lookup(&self, directory: Ino, name: &[u8]) -> Option<Ino> {
        number(&self.0.get(&key(b'e', directory, name))?)
    }

    /// What a path from the root names.
    pub fn walk(&self, path: &[u8]) -> Option<Ino> {
        let mut parts = path.split(|byte| *byte == b'/').filter(|_| !path.is_empty());
        parts.try_fold(ROOT, |directory, part| self.lookup(directory, part))
    }

    /// All records whose keys begin so, without that beginning.
    fn each(&self, prefix: &[u8], mut with: impl FnMut(&[u8], &[u8]) -> bool) {
        let mut last: Option<RecordBytes> = None;
        loop {
            let after = match &last {
                Some(key) => Bound::Excluded(&key[..]),
                None => Bound::Included(prefix),
            };
            let Some((key, value)) = self.0.next(after) else {
                return;
            };
            let Some(rest) = key.strip_prefix(prefix) else {
                return;
            };
            if !with(rest, &value) {
                return;
            }
            last = Some(key);
        }
    }

    /// What a directory has, by name.
    pub fn list(&self, directory: Ino) -> Vec<Listed> {
        let mut listed = Vec::new();
        self.each(&key(b'e', directory, b""), |name, value| {
            let kind = value.get(8).map_or(0, |kind| u32::from(*kind) << 12);
            listed.extend(number(value).map(|ino| Listed {
                name: name.to_owned(),
                ino,
                kind: FileType::from_raw_mode(kind),
            }));
            true
        });
        listed
    }

    fn is_empty(&self, directory: Ino) -> bool {
        let mut is_empty = true;
        self.each(&key(b'e', directory, b""), |_, _| {
            is_empty = false;
            false
        });
        is_empty
    }

    /// The value of an extended attribute.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Option<RecordBytes> {
        self.0.get(&key(b'x', ino, name))
    }

    /// The names of the extended attributes.
    pub fn xattrs(&self, ino: Ino) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        self.each(&key(b'x', ino, b""), |name, _| {
            names.push(name.to_owned());
            true
        });
        names
    }

    /// Nodes without a name.
    pub fn orphans(&self) -> Vec<Ino> {
        let mut orphans = Vec::new();
        self.each(b"n", |ino, node| {
            let is_orphan = Node::decode(node).is_some_and(|node| node.links == 0);
            orphans.extend(number(ino).filter(|_| is_orphan));
            true
        });
        orphans
    }

    /// How many nodes there are.
    pub fn count(&self) -> u64 {
        let mut count = 0;
        self.each(b"n", |_, _| {
            count += 1;
            true
        });
        count
    }

    /// All regular files: their paths, and their nodes. What has no path in UTF-8 is left out.
    pub fn files(&self) -> Vec<(String, Ino)> {
        let (mut files, mut directories) = (Vec::new(), vec![(String::new(), ROOT)]);
        while let Some((path, directory)) = directories.pop() {
            for Listed { name, ino, kind } in self.list(directory) {
                let Ok(name) = std::str::from_utf8(&name) else {
                    continue;
                };
                match kind {
                    FileType::Directory => directories.push((format!("{path}{name}/"), ino)),
                    FileType::RegularFile => files.push((format!("{path}{name}"), ino)),
                    _ => {}
                }
            }
        }
        files.sort();
        files
    }
}

fn check(name: &[u8]) -> Result<()> {
    match name.len() {
        0 => Err(Errno::NOENT),
        len if len > NAME_BYTES_MAX => Err(Errno::NAMETOOLONG),
        _ => Ok(()),
    }
}

impl<B: BelowMut> Tree<B> {
    fn put_node(&mut self, ino: Ino, node: &Node) -> Result<()> {
        self.0.put(&key(b'n', ino, b""), Some(&node.encode()))
    }

    fn put_entry(&mut self, directory: Ino, name: &[u8], to: Option<(Ino, &Node)>) -> Result<()> {
        let value = to.map(|(ino, node)| [&ino.to_be_bytes()[..], &[(node.mode >> 12) as u8]].concat());
        self.0.put(&key(b'e', directory, name), value.as_deref())
    }

    /// Makes a tree of one directory where there is none.
    ///
    /// # Errors
    /// `ESTALE` if another writer has the store, as of all that follow.
    pub fn make(&mut self, uid: u32, gid: u32, now: Time) -> Result<()> {
        if self.is_there() {
            return Ok(());
        }
        self.0.put(b"t", Some(&(ROOT + 1).to_be_bytes()))?;
        let root = Node {
            mode: FileType::Directory.as_raw_mode() | 0o755,
            uid,
            gid,
            rdev: 0,
            links: 2,
            accessed: now,
            modified: now,
            changed: now,
            parent: ROOT,
            target: Vec::new(),
        };
        self.put_node(ROOT, &root)
    }

    /// A number that no node and no file of the store has had.
    fn next_ino(&mut self) -> Result<Ino> {
        let next = self.0.get(b"t").and_then(|next| number(&next));
        let mut ino = next.ok_or(Errno::STALE)?;
        while self.0.has_file(&data_name(ino)) {
            ino += 1;
        }
        self.0.put(b"t", Some(&(ino + 1).to_be_bytes()))?;
        Ok(ino)
    }

    /// The directory's bytes have changed: `more` directories are in it.
    fn touch(&mut self, directory: Ino, more: i32, now: Time) -> Result<()> {
        let mut node = self.known(directory)?;
        node.links = node.links.saturating_add_signed(more);
        (node.modified, node.changed) = (now, now);
        self.put_node(directory, &node)
    }

    /// Makes a node with a name. A regular file gets a file of the store.
    ///
    /// # Errors
    /// `EEXIST`, `ENAMETOOLONG`; `ENOENT` if the directory was removed.
    pub fn create(&mut self, directory: Ino, name: &[u8], new: &New<'_>, now: Time) -> Result<(Ino, Node)> {
        check(name)?;
        let parent = self.known(directory)?;
        if parent.links == 0 {
            return Err(Errno::NOENT);
        }
        if self.lookup(directory, name).is_some() {
            return Err(Errno::EXIST);
        }
        let is_directory = FileType::from_raw_mode(new.mode) == FileType::Directory;
        let (mut mode, mut gid) = (new.mode, new.gid);
        // As all file systems of Linux have it: what is in such a directory is of its group.
        if parent.mode & 0o2000 != 0 {
            gid = parent.gid;
            if is_directory {
                mode |= 0o2000;
            }
        }
        let ino = self.next_ino()?;
        let node = Node {
            mode,
            uid: new.uid,
            gid,
            rdev: new.rdev,
            links: if is_directory { 2 } else { 1 },
            accessed: now,
            modified: now,
            changed: now,
            parent: if is_directory { directory } else { 0 },
            target: new.target.to_vec(),
        };
        if node.kind() == FileType::RegularFile {
            self.0.create_file(&data_name(ino))?;
        }
        self.put_node(ino, &node)?;
        self.put_entry(directory, name, Some((ino, &node)))?;
        self.touch(directory, i32::from(is_directory), now)?;
        Ok((ino, node))
    }

    /// Gives a node another name.
    ///
    /// # Errors
    /// `EEXIST`; `EPERM` for a directory; `ENOENT` if the node or the directory was removed.
    pub fn link(&mut self, ino: Ino, directory: Ino, name: &[u8], now: Time) -> Result<Node> {
        check(name)?;
        let mut node = self.known(ino)?;
        let parent = self.known(directory)?;
        if node.is_directory() {
            return Err(Errno::PERM);
        }
        if node.links == 0 || parent.links == 0 {
            return Err(Errno::NOENT);
        }
        if self.lookup(directory, name).is_some() {
            return Err(Errno::EXIST);
        }
        node.links = node.links.checked_add(1).ok_or(Errno::MLINK)?;
        node.changed = now;
        self.put_node(ino, &node)?;
        self.put_entry(directory, name, Some((ino, &node)))?;
        self.touch(directory, 0, now)?;
        Ok(node)
    }

    /// A name of a node is gone. The node stays until [`Tree::drop_orphan`], if that was its last one.
    fn lose_name(&mut self, ino: Ino, now: Time) -> Result<()> {
        let mut node = self.known(ino)?;
        node.links = if node.is_directory() {
            0
        } else {
            node.links.saturating_sub(1)
        };
        node.changed = now;
        self.put_node(ino, &node)
    }

    /// Removes a name; `of_directory`: as rmdir(2). What it named, which may have no name then.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `ENOTDIR`, `ENOTEMPTY`.
    pub fn remove(&mut self, directory: Ino, name: &[u8], of_directory: bool, now: Time) -> Result<Ino> {
        let ino = self.lookup(directory, name).ok_or(Errno::NOENT)?;
        let node = self.known(ino)?;
        match (node.is_directory(), of_directory) {
            (true, false) => return Err(Errno::ISDIR),
            (false, true) => return Err(Errno::NOTDIR),
            (true, true) if !self.is_empty(ino) => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        self.put_entry(directory, name, None)?;
        self.lose_name(ino, now)?;
        self.touch(directory, -i32::from(of_directory), now)?;
        Ok(ino)
    }

    /// Whether `ino` is `directory`, or one that it lies in.
    fn contains(&self, ino: Ino, directory: Ino) -> bool {
        let mut at = directory;
        while at != ROOT && at != ino {
            match self.node(at) {
                Some(node) if node.parent != at => at = node.parent,
                _ => return false,
            }
        }
        at == ino
    }

    /// Renames. What was replaced, which may have no name then.
    ///
    /// # Errors
    /// As of rename(2) and renameat2(2).
    pub fn rename(
        &mut self,
        (from, old): (Ino, &[u8]),
        (to, new): (Ino, &[u8]),
        how: Renaming,
        now: Time,
    ) -> Result<Option<Ino>> {
        check(new)?;
        let ino = self.lookup(from, old).ok_or(Errno::NOENT)?;
        let replaced = self.lookup(to, new);
        let node = self.known(ino)?;
        if self.known(to)?.links == 0 {
            return Err(Errno::NOENT);
        }
        if node.is_directory() && self.contains(ino, to) {
            return Err(Errno::INVAL);
        }
        match (how, replaced) {
            (Renaming::Fresh, Some(_)) => return Err(Errno::EXIST),
            (Renaming::Exchange, None) => return Err(Errno::NOENT),
            (Renaming::Exchange, Some(other)) => {
                let other_node = self.known(other)?;
                if other_node.is_directory() && self.contains(other, from) {
                    return Err(Errno::INVAL);
                }
                self.put_entry(to, new, Some((ino, &node)))?;
                self.put_entry(from, old, Some((other, &other_node)))?;
                self.moved(ino, node, (from, to), now)?;
                self.moved(other, other_node, (to, from), now)?;
                return Ok(None);
            }
            _ => {}
        }
        if let Some(other) = replaced {
            let other_node = self.known(other)?;
            // Two names of one file: nothing is done (POSIX).
            if other == ino {
                return Ok(None);
            }
            match (node.is_directory(), other_node.is_directory()) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if !self.is_empty(other) => return Err(Errno::NOTEMPTY),
                _ => {}
            }
            self.lose_name(other, now)?;
            if other_node.is_directory() {
                self.touch(to, -1, now)?;
            }
        }
        self.put_entry(from, old, None)?;
        self.put_entry(to, new, Some((ino, &node)))?;
        self.moved(ino, node, (from, to), now)?;
        Ok(replaced)
    }

    fn moved(&mut self, ino: Ino, mut node: Node, (from, to): (Ino, Ino), now: Time) -> Result<()> {
        let is_directory = i32::from(node.is_directory() && from != to);
        self.touch(from, -is_directory, now)?;
        self.touch(to, is_directory, now)?;
        // One of them may be this node itself only by an exchange, which can't be: see `contains`.
        node.changed = now;
        if node.is_directory() {
            node.parent = to;
        }
        self.put_node(ino, &node)
    }

    /// Changes a node. Its kind, links and parent stay.
    ///
    /// # Errors
    /// `ESTALE` if it is gone.
    pub fn change(&mut self, ino: Ino, change: impl FnOnce(&mut Node)) -> Result<Node> {
        let before = self.known(ino)?;
        let mut node = before.clone();
        change(&mut node);
        node.mode = before.mode & !PERMISSIONS | node.mode & PERMISSIONS;
        (node.links, node.parent) = (before.links, before.parent);
        self.put_node(ino, &node)?;
        Ok(node)
    }

    /// Sets an extended attribute, or removes it.
    ///
    /// # Errors
    /// `ESTALE` if the node is gone.
    pub fn put_xattr(&mut self, ino: Ino, name: &[u8], value: Option<&[u8]>, now: Time) -> Result<()> {
        self.change(ino, |node| node.changed = now)?;
        self.0.put(&key(b'x', ino, name), value)
    }

    /// A node without a name, which nobody has open, is gone with its bytes. One that has a name stays.
    ///
    /// # Errors
    /// `ESTALE` if another writer has the store.
    pub fn drop_orphan(&mut self, ino: Ino) -> Result<bool> {
        let Some(node) = self.node(ino).filter(|node| node.links == 0) else {
            return Ok(false);
        };
        for name in self.xattrs(ino) {
            self.0.put(&key(b'x', ino, &name), None)?;
        }
        if node.kind() == FileType::RegularFile && self.0.has_file(&data_name(ino)) {
            self.0.remove_file(&data_name(ino))?;
        }
        self.0.put(&key(b'n', ino, b""), None)?;
        Ok(true)
    }
}
