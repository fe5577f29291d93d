//! The kernel's calls, answered by [`Writing`].

use super::{KEEP, OpenDirectory, Result, Writing, now, of_tree};
use crate::attributes::{NAME_BYTES_MAX, check_name, xattr};
use crate::replies::bytes;
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use millpond_fuse::{GIVE_UP_ATTRIBUTE, PROCESS_ATTRIBUTE, SYNC_ATTRIBUTE, UNWRITTEN_ATTRIBUTE};
use millpond_volumes::tree::New;
use rustix::fs::FileType as Kind;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;

/// What a store holds at most, nearly: one of 64 KiB pages whose map can still be stored at once.
const STORE_BYTES: u64 = 8 << 40;

/// The unit in which `df` is told.
const BLOCK_BYTES: u32 = 4096;

// Of fallocate(2), linux/falloc.h.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 0x10;

fn new<'a>(request: &Request, kind: Kind, mode: u32, rdev: u32, target: &'a [u8]) -> New<'a> {
    New {
        mode: kind.as_raw_mode() | mode & 0o7777,
        uid: request.uid(),
        gid: request.gid(),
        rdev,
        target,
    }
}

fn empty(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Writing {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for capability in [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            // It is only slower without.
            let _ = config.add_capabilities(capability);
        }
        let _ = config.set_max_write(self.request_bytes);
        let _ = config.set_max_readahead(self.request_bytes);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.commits.files.store().tree(|tree| {
            check_name(name)?;
            let ino = tree.lookup(parent.0, name.as_bytes()).ok_or(Errno::ENOENT)?;
            Ok((ino, tree.node(ino).ok_or(Errno::EIO)?))
        });
        self.entry(found, reply);
    }

    fn forget(&self, _: &Request, id: INodeNo, count: u64) {
        if self.commits.inodes.forget(id.0, count) {
            let is_orphan = self.node(id.0).is_ok_and(|node| node.links == 0);
            if is_orphan {
                let _change = self.commits.change();
                self.drop_orphan(id.0);
            }
        }
    }

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(id.0) {
            Ok(node) => reply.attr(&KEEP, &self.attributes(id.0, &node)),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        id: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.set(request, id.0, mode, (uid, gid), size, (accessed, modified)) {
            Ok(attributes) => reply.attr(&KEEP, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, id: INodeNo, reply: ReplyData) {
        match self.node(id.0) {
            Ok(node) => reply.data(&node.target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = Kind::from_raw_mode(mode);
        let made = self.make(parent, name, &new(request, kind, mode, rdev, b""));
        self.entry(made, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.make(parent, name, &new(request, Kind::Directory, mode, 0, b""));
        self.entry(made, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        let made = self.make(parent, name, &new(request, Kind::Symlink, 0o777, 0, target));
        self.entry(made, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.remove(parent, name, false), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.remove(parent, name, true), reply);
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
        let renamed = self.rename_entry((parent, name), (new_parent, new_name), flags.bits());
        empty(renamed, reply);
    }

    fn link(&self, _: &Request, id: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let change = self.commits.change();
        let store = self.commits.files.store();
        let linked = store.tree(|tree| tree.link(id.0, parent.0, name.as_bytes(), now()));
        drop(change);
        self.entry(linked.map(|node| (id.0, node)).map_err(of_tree), reply);
    }

    fn open(&self, _: &Request, id: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let inode = self.commits.inodes.get(id.0);
        inode.opened();
        let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(self.open.put(inode), flags);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(parent, name, &new(request, Kind::RegularFile, mode, 0, b"")) {
            Ok((ino, node)) => {
                let attributes = self.told(ino, &node);
                let inode = self.commits.inodes.get(ino);
                inode.opened();
                let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
                reply.created(&KEEP, &attributes, Generation(0), self.open.put(inode), flags);
            }
            Err(error) => reply.error(error),
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
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = self
            .open
            .get(handle)
            .and_then(|inode| inode.file(&self.commits.files));
        bytes(file, (offset, size), reply);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        write_flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let drops = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let written = self
            .open
            .get(handle)
            .and_then(|inode| self.change_bytes(&inode, drops, |file| file.write_at(bytes, offset)));
        match written {
            Ok(()) => reply.written(bytes.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if let Ok(inode) = self.open.get(handle) {
            self.open.remove(handle);
            self.commits.inodes.closed(&inode);
        }
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
        let Some(end) = offset.checked_add(len) else {
            return reply.error(Errno::EFBIG);
        };
        let is_known = matches!(mode & !KEEP_SIZE, 0 | ZERO_RANGE) || mode == PUNCH_HOLE | KEEP_SIZE;
        if !is_known {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let changed = self.open.get(handle).and_then(|inode| {
            self.change_bytes(&inode, request.uid() != 0, |file| {
                let before = file.len();
                if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 && offset < before {
                    file.punch(offset, len.min(before - offset))?;
                }
                // A store has no room that could be kept.
                match mode & KEEP_SIZE == 0 && end > before {
                    true => file.set_len(end),
                    false => Ok(()),
                }
            })
        });
        empty(changed, reply);
    }

    fn opendir(&self, _: &Request, id: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let directory = OpenDirectory {
            ino: id.0,
            listed: Mutex::default(),
        };
        reply.opened(self.directories.put(directory), FopenFlags::empty());
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, from: u64, mut reply: ReplyDirectory) {
        let directory = match self.directories.get(handle) {
            Ok(directory) => directory,
            Err(error) => return reply.error(error),
        };
        let mut listed = crate::handles::lock(&directory.listed);
        if from == 0 {
            *listed = match self.list(directory.ino) {
                Ok(listed) => listed,
                Err(error) => return reply.error(error),
            };
        }
        for (at, (ino, kind, name)) in listed.iter().enumerate().skip(from as usize) {
            if reply.add(INodeNo(*ino), at as u64 + 1, *kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.directories.remove(handle);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let store = self.commits.files.store();
        let (files, bytes) = store.totals();
        let (block, used) = (u64::from(BLOCK_BYTES), bytes.div_ceil(u64::from(BLOCK_BYTES)));
        let free = (STORE_BYTES / block).saturating_sub(used);
        let free = store.available().map_or(free, |bytes| free.min(bytes / block));
        let all = used + free;
        let nodes = u64::from(u32::MAX);
        reply.statfs(
            all,
            free,
            free,
            nodes,
            nodes.saturating_sub(files),
            BLOCK_BYTES,
            NAME_BYTES_MAX,
            BLOCK_BYTES,
        );
    }

    fn setxattr(
        &self,
        _: &Request,
        id: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if id == INodeNo::ROOT && name == SYNC_ATTRIBUTE {
            return self.sync(reply);
        }
        empty(self.set_attribute(id.0, name, Some(value), flags), reply);
    }

    fn getxattr(&self, request: &Request, id: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if id == INodeNo::ROOT && name == PROCESS_ATTRIBUTE {
            return xattr(Some(self.report_pipe.address().as_bytes()), size, reply);
        }
        if id == INodeNo::ROOT && name == SYNC_ATTRIBUTE {
            return match self.commits.commit() {
                Ok(()) => xattr(Some(b"1"), size, reply),
                Err(refused) => reply.error(refused.into()),
            };
        }
        if id == INodeNo::ROOT && (name == GIVE_UP_ATTRIBUTE || name == UNWRITTEN_ATTRIBUTE) {
            let is_owner = request.uid() == 0 || request.uid() == rustix::process::geteuid().as_raw();
            if !is_owner {
                return reply.error(Errno::EPERM);
            }
            if name == GIVE_UP_ATTRIBUTE {
                self.commits.give_up();
                return xattr(Some(b"1"), size, reply);
            }
            let unwritten = self.commits.unwritten().unwrap_or_default();
            return xattr(Some(unwritten.as_bytes()), size, reply);
        }
        let store = self.commits.files.store();
        let value = store.tree(|tree| tree.xattr(id.0, name.as_bytes()));
        xattr(value.as_deref(), size, reply);
    }

    fn listxattr(&self, _: &Request, id: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.commits.files.store().tree(|tree| tree.xattrs(id.0));
        let names: Vec<u8> = names
            .into_iter()
            .flat_map(|name| [&name[..], b"\0"].concat())
            .collect();
        xattr(Some(&names), size, reply);
    }

    fn removexattr(&self, _: &Request, id: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.set_attribute(id.0, name, None, 0), reply);
    }
}
