//! A store's tree of names and attributes, on the records of its writer.

use crate::format::op::RecordBytes;
use crate::layout::{WriteError, Writer};
use crate::tree::{Below, BelowMut, New, ROOT, Time, Tree, data_ino, data_name};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ops::Bound;

/// The records and files of a writer, below a tree.
#[derive(Debug)]
pub struct Records<'a>(&'a mut Writer);

impl Records<'_> {
    /// Those of this writer.
    pub fn new(writer: &mut Writer) -> Records<'_> {
        Records(writer)
    }
}

impl Below for Records<'_> {
    fn get(&self, key: &[u8]) -> Option<RecordBytes> {
        self.0.state().get(key)
    }

    fn next(&self, after: Bound<&[u8]>) -> Option<(RecordBytes, RecordBytes)> {
        self.0.state().next(after)
    }
}

/// All that a writer refuses of a tree's changes is for another's store.
fn stale<T>(result: Result<T, WriteError>) -> Result<(), Errno> {
    result.map(drop).map_err(|_| Errno::STALE)
}

impl BelowMut for Records<'_> {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Errno> {
        stale(self.0.put_record(key.into(), value.map(RecordBytes::from)))
    }

    fn has_file(&self, name: &str) -> bool {
        self.0.state().names.contains_key(name)
    }

    fn create_file(&mut self, name: &str) -> Result<(), Errno> {
        stale(self.0.create(name))
    }

    fn remove_file(&mut self, name: &str) -> Result<(), Errno> {
        stale(self.0.remove(name))
    }
}

/// As of [`Store::adopt`](super::Store::adopt).
pub(super) fn adopt(writer: &mut Writer, (uid, gid): (u32, u32), now: Time) -> Result<Vec<String>, Errno> {
    let had_tree = Tree(writer.state()).is_there();
    let mut left = match had_tree {
        true => Vec::new(),
        false => super::names::without_place(writer.state()),
    };
    let is_data = |name: &String| {
        let ino = data_ino(name).filter(|_| had_tree);
        ino.is_some_and(|ino| Tree(writer.state()).node(ino).is_some())
    };
    let names = writer.state().names.keys();
    let names: Vec<String> = names
        .filter(|name| !is_data(name) && !left.contains(name))
        .cloned()
        .collect();
    Tree(Records(writer)).make(uid, gid, now)?;
    for name in names {
        let ino = match place(&mut Tree(Records(writer)), &name, (uid, gid), now) {
            Ok(ino) => ino,
            Err(Errno::STALE) => return Err(Errno::STALE),
            Err(_) => {
                left.push(name);
                continue;
            }
        };
        // The empty file that it was made with is replaced, in the same commit.
        stale(writer.rename(&name, &data_name(ino)))?;
    }
    Ok(left)
}

/// A new file at a path, with the directories on the way to it.
fn place(tree: &mut Tree<Records<'_>>, path: &str, (uid, gid): (u32, u32), now: Time) -> Result<u64, Errno> {
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
    if path
        .split('/')
        .any(|part| matches!(part, "" | "." | "..") || part.contains('\0'))
    {
        return Err(Errno::INVAL);
    }
    let new = |kind: FileType, permissions| New {
        mode: kind.as_raw_mode() | permissions,
        uid,
        gid,
        rdev: 0,
        target: b"",
    };
    let mut at = ROOT;
    for part in directories.split('/').filter(|part| !part.is_empty()) {
        at = match tree.lookup(at, part.as_bytes()) {
            Some(ino)
                if tree
                    .node(ino)
                    .is_some_and(|node| node.kind() == FileType::Directory) =>
            {
                ino
            }
            Some(_) => return Err(Errno::NOTDIR),
            None => {
                tree.create(at, part.as_bytes(), &new(FileType::Directory, 0o755), now)?
                    .0
            }
        };
    }
    if tree.lookup(at, name.as_bytes()).is_some() {
        let replaced = tree.remove(at, name.as_bytes(), false, now)?;
        tree.drop_orphan(replaced)?;
    }
    let (ino, _) = tree.create(at, name.as_bytes(), &new(FileType::RegularFile, 0o644), now)?;
    Ok(ino)
}
