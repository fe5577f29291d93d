//! Results of operations as replies to the kernel.

use crate::operations::xattr::XattrReply;
use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, ReplyXattr,
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

pub(super) fn entry(found: Result<FileAttr>, timeout: &Duration, reply: ReplyEntry) {
    match found {
        Ok(attributes) => reply.entry(timeout, &attributes, Generation(0)),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn attr(attributes: Result<FileAttr>, timeout: &Duration, reply: ReplyAttr) {
    match attributes {
        Ok(attributes) => reply.attr(timeout, &attributes),
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
