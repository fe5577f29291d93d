//! `fuser::Filesystem`: the kernel's requests, one line each.

use super::reply::{self, errno};
use super::{FuseServer, capabilities, write};
use crate::attributes::Attributes;
use crate::credentials::Credentials;
use crate::inode::lent::LentWrite;
use crate::operations::data::{Write, WriteKind};
use crate::operations::names::NewEntry;
use crate::operations::setattr::Change;
use crate::own_attributes::{ROOT_ID, is_for_owner, is_sync};
use crate::state::{MountState, PAGE_BYTES};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
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
    /// For reads that cross pages.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn caller(request: &Request) -> Credentials {
    Credentials {
        user: request.uid(),
        group: request.gid(),
        thread: request.pid(),
    }
}

fn new_entry<'a>(request: &Request, parent: INodeNo, name: &'a OsStr, mode: u32, umask: u32) -> NewEntry<'a> {
    NewEntry {
        parent: parent.0,
        name,
        caller: caller(request),
        mode,
        umask,
    }
}

impl Filesystem for FuseServer {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        capabilities::ask(&self.state, config);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let keep = &self.state.attribute_timeout;
        match self.state.lookup(parent.0, name) {
            Err(rustix::io::Errno::NOENT) if !keep.is_zero() => {
                reply::no_entry(&self.state.root, keep, reply);
            }
            found => reply::entry(found, keep, reply),
        }
    }

    fn forget(&self, _: &Request, inode: INodeNo, count: u64) {
        self.state.forget(inode.0, count);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let attributes = self
            .state
            .inode(inode.0)
            .and_then(|inode| self.state.attributes(&inode));
        // The root always has some, so that a mount whose source does not answer can be asked and ended.
        let attributes = attributes.or_else(|error| match inode.0 {
            ROOT_ID => Ok(Attributes {
                of_file: self.state.root,
                keep: self.state.attribute_timeout,
            }),
            _ => Err(error),
        });
        reply::attr(attributes, reply);
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
            caller: caller(request),
        };
        let work = move |state: &Arc<MountState>| {
            reply::attr(state.change(inode.0, &change), reply);
        };
        if size.is_some() {
            self.in_pool(work);
        } else {
            work(&self.state);
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        match self.state.read_link(inode.0) {
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
        let new = new_entry(request, parent, name, mode, umask);
        reply::entry(
            self.state.create_device(&new, rdev),
            &self.state.attribute_timeout,
            reply,
        );
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
        let new = new_entry(request, parent, name, mode, umask);
        reply::entry(
            self.state.create_directory(&new),
            &self.state.attribute_timeout,
            reply,
        );
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply::empty(self.state.remove(parent.0, name, AtFlags::empty()), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply::empty(self.state.remove(parent.0, name, AtFlags::REMOVEDIR), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let new = new_entry(request, parent, name, 0o777, 0);
        reply::entry(
            self.state.create_symlink(&new, target),
            &self.state.attribute_timeout,
            reply,
        );
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
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        self.in_pool(move |state| {
            let (from, to) = ((parent.0, &*name), (new_parent.0, &*new_name));
            reply::empty(state.rename(from, to, flags.bits()), reply);
        });
    }

    fn link(&self, _: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.in_pool(move |state| {
            let linked = state.link(inode.0, parent.0, &name);
            reply::entry(linked, &state.attribute_timeout, reply);
        });
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let flags = crate::flags::OpenFlags(flags.0);
        // A flush at close reports errors of writes: a file that is open for reading only has none.
        let io = reply::io_flags(&self.state, flags);
        let reply_flags = match flags.writes() {
            true => io,
            false => io | FopenFlags::FOPEN_NOFLUSH,
        };
        reply::opened(self.state.open(inode.0, flags), reply_flags, reply);
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
        let new = new_entry(request, parent, name, mode, umask);
        let flags = crate::flags::OpenFlags(flags);
        match self.state.create(&new, flags) {
            Ok((handle, attributes)) => {
                let Attributes { of_file, keep } = attributes;
                let io = reply::io_flags(&self.state, flags);
                reply.created(&keep, &of_file, Generation(0), FileHandle(handle), io);
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
        let file = match self.state.file(handle.0) {
            Ok(file) => file,
            Err(error) => return reply.error(errno(error)),
        };
        if let Err(error) = self.state.retrying_emfile(|| file.content.begin_reading()) {
            return reply.error(errno(error));
        }
        // A read of a program has an owner; one that the kernel makes for pages of its own has none.
        let lent = match owner {
            Some(_) => None,
            None => self.state.begin_lent_read(&file.inode, offset, size.into()),
        };
        if owner.is_none() && lent.is_none() {
            file.inode.kernel_pages.note_mapped();
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
        drop(lent);
        self.state.take_back_excess();
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
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = match self.state.file(handle.0) {
            Ok(file) => file,
            Err(error) => return reply.error(errno(error)),
        };
        // Both at once, since the write may wait for a thread.
        file.inode.writing.fetch_add(1, Ordering::SeqCst);
        let (inode, pages) = (&file.inode, &file.inode.kernel_pages);
        let kind = if write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            WriteKind::PageWriteback(pages.begin_writeback())
        } else if owner.is_none() && file.writes_through {
            let lent = LentWrite::begin(inode, offset..offset.saturating_add(bytes.len() as u64));
            self.state.note_lent(inode, &lent.range);
            WriteKind::Through(pages.begin_write_through(), lent)
        } else {
            WriteKind::Direct
        };
        let how = Write {
            offset,
            flags: crate::flags::OpenFlags(flags.0),
            caller: caller(request),
            drops_privileges: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
            kind,
        };
        if !self.is_full_of_writes() {
            write(&self.state, &file, bytes, &how, reply);
            drop(how);
            return self.state.take_back_excess();
        }
        let held = self.state.held_writes.hold(bytes.len() as u64);
        let bytes = bytes.to_vec();
        self.in_write_pool(move |state| {
            write(state, &file, &bytes, &how, reply);
            drop(bytes);
            drop(held);
        });
    }

    fn flush(&self, request: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        match self.state.is_rewritten_by(handle.0, request.pid()) {
            true => self.in_pool(move |state| reply::empty(state.write_out_and_flush(handle.0), reply)),
            false => reply::empty(self.state.flush(handle.0), reply),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.in_pool(move |state| reply::empty(state.sync(handle.0, data_only), reply));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        flags: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.state.release(handle.0, crate::flags::OpenFlags(flags.0));
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
        let caller = caller(request);
        self.in_pool(move |state| {
            reply::empty(state.allocate(handle.0, (offset, len), mode, &caller), reply)
        });
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
        self.in_pool(move |state| match state.seek(handle.0, offset, whence) {
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
        let caller = caller(request);
        let (from, to) = ((from.0, from_offset), (to.0, to_offset));
        self.in_pool(move |state| reply::written(state.copy(from, to, len, &caller), reply));
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply::opened(self.state.open_directory(inode.0), FopenFlags::empty(), reply);
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, from: u64, mut reply: ReplyDirectory) {
        match self.state.read_directory(handle.0, from, &mut reply) {
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
        match self.state.read_directory_plus(handle.0, from, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.state.directories.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        self.in_pool(move |state| reply::empty(state.sync_directory(handle.0), reply));
    }

    fn statfs(&self, _: &Request, inode: INodeNo, reply: ReplyStatfs) {
        match self.state.statfs(inode.0) {
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
        if is_sync(inode.0, name) {
            return self.in_pool(move |state| reply::empty(state.sync_all(), reply));
        }
        reply::empty(
            self.state
                .set_xattr(inode.0, (name, value), flags, &caller(request)),
            reply,
        );
    }

    fn getxattr(&self, request: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if is_for_owner(inode.0, name) {
            reply::xattr(self.state.owner_attribute(name, size, &caller(request)), reply);
        } else if is_sync(inode.0, name) {
            self.in_pool(move |state| reply::xattr(state.sync_attribute(size), reply));
        } else {
            reply::xattr(self.state.xattr(inode.0, name, size), reply);
        }
        self.state.gate.park();
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        reply::xattr(self.state.xattrs(inode.0, size), reply);
    }

    fn removexattr(&self, _: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply::empty(self.state.remove_xattr(inode.0, name), reply);
    }
}
