//! Nodes of a tree in the words of the kernel.

use fuser::{Errno, FileAttr, FileType, INodeNo, ReplyXattr};
use millpond_volumes::tree::{Node, Time};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The unit of the number of blocks that a file has.
pub(crate) const BLOCK_BYTES: u64 = 512;

/// The longest name (`NAME_MAX`).
pub(crate) const NAME_BYTES_MAX: u32 = 255;

/// # Errors
/// `ENAMETOOLONG` where no file can have that name, also for a call that looks for it.
pub(crate) fn check_name(name: &OsStr) -> Result<(), Errno> {
    match name.len() > NAME_BYTES_MAX as usize {
        true => Err(Errno::ENAMETOOLONG),
        false => Ok(()),
    }
}

/// # Errors
/// `EOPNOTSUPP` for an extended attribute of no class that a file can have, and for ACLs; `EINVAL` if its class is all of the
/// name. As of xattr(7).
pub(crate) fn check_attribute(name: &OsStr) -> Result<(), Errno> {
    let classes = [&b"user."[..], b"trusted.", b"security."];
    let of_class = classes
        .iter()
        .find_map(|class| name.as_bytes().strip_prefix(*class));
    match of_class {
        None => Err(Errno::EOPNOTSUPP),
        Some(b"") => Err(Errno::EINVAL),
        Some(_) => Ok(()),
    }
}

pub(crate) fn kind(node: &Node) -> FileType {
    kind_of(node.kind())
}

pub(crate) fn kind_of(kind: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Kind;
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let base = match time.seconds < 0 {
        true => UNIX_EPOCH.checked_sub(whole),
        false => UNIX_EPOCH.checked_add(whole),
    };
    let time = base.and_then(|base| base.checked_add(Duration::from_nanos(time.nanos.into())));
    time.unwrap_or(UNIX_EPOCH)
}

/// A node that has so many bytes.
pub(crate) fn attributes(ino: INodeNo, node: &Node, bytes: u64, page_bytes: u32) -> FileAttr {
    FileAttr {
        ino,
        size: bytes,
        blocks: bytes.div_ceil(BLOCK_BYTES),
        atime: system_time(node.accessed),
        mtime: system_time(node.modified),
        ctime: system_time(node.changed),
        crtime: system_time(node.changed),
        kind: kind(node),
        perm: (node.mode & 0o7777) as u16,
        nlink: node.links,
        uid: node.uid,
        gid: node.gid,
        rdev: node.rdev,
        blksize: page_bytes,
        flags: 0,
    }
}

/// As getxattr(2) and listxattr(2) are called: with no room for the length only.
pub(crate) fn xattr(value: Option<&[u8]>, size: u32, reply: ReplyXattr) {
    match value {
        None => reply.error(Errno::NO_XATTR),
        Some(value) if size == 0 => reply.size(value.len() as u32),
        Some(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Some(value) => reply.data(value),
    }
}
