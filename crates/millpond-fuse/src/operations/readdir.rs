//! Directories, read.

use crate::attributes::kind;
use crate::directory::{Directory, Entry};
use crate::inode::content::Result;
use crate::state::Pond;
use fuser::{FileAttr, FileType, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::sync::Arc;

impl Pond {
    pub(crate) fn open_directory(&self, id: u64) -> Result<u64> {
        let node = self.node(id)?;
        let file = self.reopen(&node, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(self.directories.add(Directory::new(id, file)))
    }

    pub(crate) fn sync_directory(&self, handle: u64) -> Result<()> {
        rustix::fs::fsync(&self.directory(handle)?.file)
    }

    fn directory(&self, handle: u64) -> Result<Arc<Directory>> {
        self.directories.find(handle).ok_or(Errno::BADF)
    }

    pub(crate) fn read_directory(&self, handle: u64, from: u64, reply: &mut ReplyDirectory) -> Result<()> {
        let mut is_empty = true;
        let read = self.directory(handle)?.read(from, |entry| {
            let is_full = reply.add(INodeNo(entry.inode), entry.next, kind_of(entry), entry.name);
            is_empty = false;
            Ok(!is_full)
        });
        unless_some(is_empty, read)
    }

    /// The same, each entry with what a lookup of it would say.
    pub(crate) fn read_directory_plus(
        self: &Arc<Pond>,
        handle: u64,
        from: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<()> {
        let directory = self.directory(handle)?;
        let mut is_empty = true;
        let read = directory.read(from, |entry| {
            let is_self = entry.name == "." || entry.name == "..";
            // The kernel takes nothing but the number and the kind of these two.
            let told = match is_self {
                true => rustix::fs::fstat(&directory.file).map(|stat| FileAttr {
                    ino: INodeNo(entry.inode),
                    ..self.say(entry.inode, &stat)
                }),
                false => self
                    .look(directory.id, &directory.file, entry.name)
                    .and_then(|(node, stat)| {
                        self.told(&node, &stat).inspect_err(|_| self.forget(node.id, 1))
                    }),
            };
            let told = match told {
                Ok(told) => told,
                // Gone meanwhile.
                Err(Errno::NOENT) => return Ok(true),
                Err(error) if is_empty => return Err(error),
                Err(_) => return Ok(false),
            };
            let timeout = &self.attribute_timeout;
            let is_full = reply.add(told.ino, entry.next, entry.name, timeout, &told, Generation(0));
            if is_full && !is_self {
                self.forget(told.ino.0, 1);
            }
            is_empty = false;
            Ok(!is_full)
        });
        unless_some(is_empty, read)
    }
}

/// What was found before an error is told, as of a read that ends early, and with it that the kernel knows these files; who
/// asks for more finds the error again.
fn unless_some(is_empty: bool, read: Result<()>) -> Result<()> {
    match is_empty {
        true => read,
        false => Ok(()),
    }
}

fn kind_of(entry: &Entry<'_>) -> FileType {
    kind(entry.kind.as_raw_mode())
}
