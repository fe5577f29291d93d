//! Reads directories.

use crate::attributes::{Attributes, file_type};
use crate::directory::{Directory, Entry};
use crate::state::MountState;
use fuser::{Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use std::sync::Arc;

impl MountState {
    /// Opens a directory. Its handle.
    pub(crate) fn open_directory(&self, id: u64) -> Result<u64> {
        let inode = self.inode(id)?;
        let file = self.reopen(&inode, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(self.directories.add(Directory::new(id, file)))
    }

    pub(crate) fn sync_directory(&self, handle: u64) -> Result<()> {
        rustix::fs::fsync(&self.directory(handle)?.file)
    }

    fn directory(&self, handle: u64) -> Result<Arc<Directory>> {
        self.directories.find(handle).ok_or(Errno::BADF)
    }

    /// Entries from the cookie `from` on, as many as the reply takes.
    pub(crate) fn read_directory(&self, handle: u64, from: u64, reply: &mut ReplyDirectory) -> Result<()> {
        let mut is_empty = true;
        let read = self.directory(handle)?.read(from, |entry| {
            let kind = file_type(entry.kind.as_raw_mode());
            let is_full = reply.add(INodeNo(entry.inode), entry.next, kind, entry.name);
            is_empty = false;
            Ok(!is_full)
        });
        error_if_empty(is_empty, read)
    }

    /// The same, each entry with the attributes that a lookup of it would give.
    pub(crate) fn read_directory_plus(
        self: &Arc<MountState>,
        handle: u64,
        from: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<()> {
        let directory = self.directory(handle)?;
        let mut is_empty = true;
        let read = directory.read(from, |entry| {
            let is_self = entry.name == "." || entry.name == "..";
            let attributes = match is_self {
                true => self.attributes_of_self(&directory, entry),
                false => self.lookup_entry(&directory, entry),
            };
            let attributes = match attributes {
                Ok(attributes) => attributes,
                // Removed meanwhile.
                Err(Errno::NOENT) => return Ok(true),
                Err(error) if is_empty => return Err(error),
                Err(_) => return Ok(false),
            };
            let Attributes { of_file, keep } = attributes;
            let id = of_file.ino;
            let is_full = reply.add(id, entry.next, entry.name, &keep, &of_file, Generation(0));
            if is_full && !is_self {
                self.forget(id.0, 1);
            }
            is_empty = false;
            Ok(!is_full)
        });
        error_if_empty(is_empty, read)
    }

    /// Attributes for `.` and `..`, of which the kernel takes nothing but the number and the kind.
    fn attributes_of_self(&self, directory: &Directory, entry: &Entry<'_>) -> Result<Attributes> {
        let stat = rustix::fs::fstat(&directory.file)?;
        Ok(Attributes {
            of_file: self.reply_attr(entry.inode, &stat),
            keep: self.attribute_timeout,
        })
    }

    fn lookup_entry(self: &Arc<MountState>, directory: &Directory, entry: &Entry<'_>) -> Result<Attributes> {
        let (inode, stat) = self.lookup_at(directory.id, &directory.file, entry.name)?;
        let attributes = self.attributes_from(&inode, &stat);
        attributes.inspect_err(|_| self.forget(inode.id, 1))
    }
}

/// An error behind some entries ends the reply early: the kernel takes those, and knows their files by it. The next call
/// finds the error again.
fn error_if_empty(is_empty: bool, read: Result<()>) -> Result<()> {
    if is_empty { read } else { Ok(()) }
}
