//! What the kernel asks, one line each, and who answers.
//!
//! Reads, writes and names are answered by the thread that has the request: a hit takes less time than giving it to
//! another. What waits for the disk by its nature (sync, truncation, holes, copies) goes to a pool. A write may pause, so
//! when half of the threads are in one the next is done by the pool as well, with a copy of its bytes: some thread is
//! always there for a read.

use super::capabilities;
use crate::caller::Asks;
use crate::inode::ROOT;
use crate::inode::content::Result;
use crate::operations::data::Write;
use crate::operations::names::Making;
use crate::operations::setattr::Change;
use crate::operations::xattr::{self, Answer};
use crate::state::{PAGE_BYTES, Pond};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::AtFlags;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

thread_local! {
    /// For what is read and does not lie in one page.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The file system that the kernel talks to.
pub(crate) struct Server(pub(crate) Arc<Pond>);

/// What a program is told. That a mount has lost its process is said by the kernel alone: a file system below that says so of
/// itself is one that does not work.
fn errno(error: rustix::io::Errno) -> Errno {
    match error {
        rustix::io::Errno::NOTCONN => Errno::EIO,
        other => Errno::from_i32(other.raw_os_error()),
    }
}

impl Server {
    fn entry(&self, told: Result<FileAttr>, reply: ReplyEntry) {
        match told {
            Ok(attributes) => reply.entry(&self.0.attribute_timeout, &attributes, Generation(0)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn opened(&self, opened: Result<u64>, flags: FopenFlags, reply: ReplyOpen) {
        match opened {
            Ok(handle) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Does what takes long on another thread.
    fn slowly(&self, work: impl FnOnce(&Arc<Pond>) + Send + 'static) {
        let pond = self.0.clone();
        self.0.pool.run(move || work(&pond));
    }
}

fn done(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn answered(answer: Result<Answer>, reply: ReplyXattr) {
    match answer {
        Ok(Answer::Len(len)) => reply.size(len),
        Ok(Answer::Bytes(bytes)) => reply.data(&bytes),
        Err(error) => reply.error(errno(error)),
    }
}

fn asks(request: &Request) -> Asks {
    Asks {
        user: request.uid(),
        group: request.gid(),
        thread: request.pid(),
    }
}

fn making<'a>(request: &Request, parent: INodeNo, name: &'a OsStr, mode: u32, umask: u32) -> Making<'a> {
    Making {
        parent: parent.0,
        name,
        caller: (request.uid(), request.gid()),
        thread: request.pid(),
        mode,
        umask,
    }
}

/// Past the kernel's page cache, and several writes at a time.
const DIRECT: FopenFlags = FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        capabilities::ask(&self.0, config);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.0.lookup(parent.0, name), reply);
    }

    fn forget(&self, _: &Request, inode: INodeNo, count: u64) {
        self.0.forget(inode.0, count);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.node(inode.0).and_then(|node| self.0.attributes(&node)) {
            Ok(attributes) => reply.attr(&self.0.attribute_timeout, &attributes),
            // So that the mount itself can be asked and ended.
            Err(_) if inode.0 == ROOT => reply.attr(&self.0.attribute_timeout, &self.0.root),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change {
            mode,
            user: uid,
            group: gid,
            len: size,
            accessed: atime,
            modified: mtime,
            handle: handle.map(|handle| handle.0),
            asks: asks(request),
        };
        let work = move |pond: &Arc<Pond>| match pond.change(inode.0, &change) {
            Ok(attributes) => reply.attr(&pond.attribute_timeout, &attributes),
            Err(error) => reply.error(errno(error)),
        };
        match size {
            Some(_) => self.slowly(work),
            None => work(&self.0),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        match self.0.read_link(inode.0) {
            Ok(target) => reply.data(target.as_encoded_bytes()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let at = making(request, parent, name, mode, umask);
        self.entry(self.0.make_node(&at, rdev), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let at = making(request, parent, name, mode, umask);
        self.entry(self.0.make_directory(&at), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.0.remove(parent.0, name, AtFlags::empty()), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.0.remove(parent.0, name, AtFlags::REMOVEDIR), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let at = making(request, parent, name, 0o777, 0);
        self.entry(self.0.make_symlink(&at, target), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self
            .0
            .rename((parent.0, name), (new_parent.0, new_name), flags.bits());
        done(renamed, reply);
    }

    fn link(&self, _: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.0.link(inode.0, parent.0, name), reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.0.open(inode.0, flags.0) {
            // Who only reads has nothing to be told at the end.
            Ok((handle, true)) => reply.opened(FileHandle(handle), DIRECT | FopenFlags::FOPEN_NOFLUSH),
            Ok((handle, false)) => reply.opened(FileHandle(handle), DIRECT),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let at = making(request, parent, name, mode, umask);
        match self.0.create(&at, flags) {
            Ok((handle, attributes)) => {
                let timeout = &self.0.attribute_timeout;
                reply.created(timeout, &attributes, Generation(0), FileHandle(handle), DIRECT);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = match self.0.file(handle.0) {
            Ok(file) => file,
            Err(error) => return reply.error(errno(error)),
        };
        // What a program reads is somebody's; for its own pages the kernel asks in nobody's name.
        if owner.is_none() {
            file.node.mapped.set();
        }
        let mut reply = Some(reply);
        let read = BUFFER.with_borrow_mut(|buffer| {
            let answer = |bytes: &[u8]| {
                if let Some(reply) = reply.take() {
                    reply.data(bytes);
                }
            };
            file.content.read(offset, size as usize, buffer, answer)
        });
        if let (Err(error), Some(reply)) = (read, reply) {
            reply.error(errno(error));
        }
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let asks = asks(request);
        let drops_privileges = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let file = match self.0.file(handle.0) {
            Ok(file) => file,
            Err(error) => return reply.error(errno(error)),
        };
        // Here, where it has just come: it may wait for a thread.
        file.node.writing.fetch_add(1, Ordering::SeqCst);
        let is_promised = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let promised = is_promised.then(|| file.node.mapped.begin());
        let work = move |pond: &Arc<Pond>, bytes: &[u8], reply: ReplyWrite| {
            pond.writing.fetch_add(1, Ordering::Relaxed);
            let write = Write {
                bytes,
                offset,
                flags: flags.0,
                asks: &asks,
                drops_privileges,
                promised,
            };
            let written = pond.write(&file, &write);
            pond.writing.fetch_sub(1, Ordering::Relaxed);
            file.node.writing.fetch_sub(1, Ordering::SeqCst);
            match written {
                Ok(()) => reply.written(bytes.len() as u32),
                Err(error) => reply.error(errno(error)),
            }
        };
        if self.0.writing.load(Ordering::Relaxed) < self.0.threads / 2 {
            return work(&self.0, bytes, reply);
        }
        let bytes = bytes.to_vec();
        self.slowly(move |pond| work(pond, &bytes, reply));
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        done(self.0.flush(handle.0), reply);
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.slowly(move |pond| done(pond.sync(handle.0, data_only), reply));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.release(handle.0);
        reply.ok();
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let asks = asks(request);
        self.slowly(move |pond| done(pond.allocate(handle.0, (offset, len), mode, &asks), reply));
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.slowly(move |pond| match pond.seek(handle.0, offset, whence) {
            Ok(at) => reply.offset(at as i64),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let asks = asks(request);
        let (from, to) = ((from.0, from_offset), (to.0, to_offset));
        self.slowly(move |pond| match pond.copy(from, to, len, &asks) {
            Ok(copied) => reply.written(copied),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.opened(self.0.open_directory(inode.0), FopenFlags::empty(), reply);
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, from: u64, mut reply: ReplyDirectory) {
        match self.0.read_directory(handle.0, from, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        from: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        match self.0.read_directory_plus(handle.0, from, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.directories.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        self.slowly(move |pond| done(pond.sync_directory(handle.0), reply));
    }

    fn statfs(&self, _: &Request, inode: INodeNo, reply: ReplyStatfs) {
        match self.0.statistics(inode.0) {
            Ok(s) => reply.statfs(
                s.f_blocks,
                s.f_bfree,
                s.f_bavail,
                s.f_files,
                s.f_ffree,
                u32::try_from(s.f_bsize).unwrap_or(PAGE_BYTES as u32),
                u32::try_from(s.f_namemax).unwrap_or(255),
                u32::try_from(s.f_frsize).unwrap_or(PAGE_BYTES as u32),
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if xattr::is_sync(inode.0, name) {
            return self.slowly(move |pond| done(pond.sync_all(), reply));
        }
        done(
            self.0.set_xattr(inode.0, (name, value), flags, &asks(request)),
            reply,
        );
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        match xattr::is_sync(inode.0, name) {
            true => self.slowly(move |pond| answered(pond.synced(room), reply)),
            false => answered(self.0.xattr(inode.0, name, room), reply),
        }
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, room: u32, reply: ReplyXattr) {
        answered(self.0.xattrs(inode.0, room), reply);
    }

    fn removexattr(&self, _: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.0.remove_xattr(inode.0, name), reply);
    }
}
