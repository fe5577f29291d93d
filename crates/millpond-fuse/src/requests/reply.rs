//! Converts results of operations to replies to the kernel.

use crate::attributes::Attributes;
use crate::flags::OpenFlags;
use crate::operations::xattr::XattrReply;
use crate::state::MountState;
use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, ReplyXattr,
};
use rustix::io::Result;
use std::time::Duration;

/// The error that a program gets. `ENOTCONN` is the kernel's alone, for a mount that has lost its process: a file system
/// below that gives it is one that does not work.
pub(super) fn errno(error: rustix::io::Errno) -> Errno {
    match error {
        rustix::io::Errno::NOTCONN => Errno::EIO,
        other => Errno::from_i32(other.raw_os_error()),
    }
}

/// `keep`: for how long the kernel may keep the name.
pub(super) fn entry(found: Result<Attributes>, keep: &Duration, reply: ReplyEntry) {
    match found {
        Ok(found) => reply.entry_with_ttls(&found.keep, keep, &found.of_file, Generation(0)),
        Err(error) => reply.error(errno(error)),
    }
}

/// There is nothing of that name, which the kernel may keep in mind for so long. `any` is of any file.
pub(super) fn no_entry(any: &FileAttr, keep: &Duration, reply: ReplyEntry) {
    let nothing = FileAttr {
        ino: INodeNo(0),
        ..*any
    };
    reply.entry(keep, &nothing, Generation(0));
}

pub(super) fn attr(attributes: Result<Attributes>, reply: ReplyAttr) {
    match attributes {
        Ok(attributes) => reply.attr(&attributes.keep, &attributes.of_file),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn opened(handle: Result<u64>, flags: FopenFlags, reply: ReplyOpen) {
    match handle {
        Ok(handle) => reply.opened(FileHandle(handle), flags),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn written(bytes: Result<u32>, reply: ReplyWrite) {
    match bytes {
        Ok(bytes) => reply.written(bytes),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn empty(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn xattr(value: Result<XattrReply>, reply: ReplyXattr) {
    match value {
        Ok(XattrReply::Len(len)) => reply.size(len),
        Ok(XattrReply::Bytes(bytes)) => reply.data(&bytes),
        Err(error) => reply.error(errno(error)),
    }
}

/// Past the kernel's page cache, and several writes at a time.
const DIRECT: FopenFlags = FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

/// How the kernel is to do I/O on a file that is opened so.
pub(super) fn io_flags(state: &MountState, flags: OpenFlags) -> FopenFlags {
    match (state.lend_pool.is_some(), state.is_lent(flags)) {
        (false, _) => DIRECT,
        // Others may have it cached.
        (true, false) => DIRECT | FopenFlags::FOPEN_KEEP_CACHE,
        (true, true) => FopenFlags::FOPEN_KEEP_CACHE,
    }
}
