//! What answers the kernel, of the one writer: the store's tree, and its files through the cache.

use crate::attributes::{NAME_BYTES_MAX, attributes, kind_of, xattr};
use crate::commits::Commits;
use crate::handles::Handles;
use crate::inodes::{Inode, errno};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use millpond_fuse::{PROCESS_ATTRIBUTE, ReportPipe, SYNC_ATTRIBUTE};
use millpond_volumes::tree::{Ino, Listed, New, Node, Renaming, Time, data_name};
use rustix::fs::FileType as Kind;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// For how long the kernel may keep names and attributes. Nobody else changes them.
const KEEP: Duration = Duration::from_secs(60);

/// The largest request for data.
const REQUEST_BYTES: u32 = 1 << 20;

/// What a store holds at most, nearly: one of 64 KiB pages whose map can still be stored at once.
const STORE_BYTES: u64 = 8 << 40;

/// The unit in which `df` is told.
const BLOCK_BYTES: u32 = 4096;

const SUID: u32 = 0o4000;
const SGID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o10;

// Of fallocate(2), linux/falloc.h.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 0x10;

// Of setxattr(2).
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;

/// The longest value of an extended attribute (`XATTR_SIZE_MAX`).
const XATTR_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A directory that is open: what it had when it was read from its beginning.
#[derive(Debug)]
struct OpenDirectory {
    ino: Ino,
    listed: Mutex<Vec<(Ino, FileType, Vec<u8>)>>,
}

/// A store's tree as a file system.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) commits: Arc<Commits>,
    open: Handles<Arc<Inode>>,
    directories: Handles<OpenDirectory>,
    report_pipe: Arc<ReportPipe>,
}

type Result<T> = std::result::Result<T, Errno>;

fn of_tree(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

/// The time.
pub(crate) fn now() -> Time {
    time(SystemTime::now())
}

/// fuser 0.18 counts the nanoseconds of times before 1970 in the wrong direction (`system_time_from_time`); this undoes it.
fn time(of: SystemTime) -> Time {
    match of.duration_since(UNIX_EPOCH) {
        Ok(since) => Time {
            seconds: since.as_secs() as i64,
            nanos: since.subsec_nanos(),
        },
        Err(before) => Time {
            seconds: -(before.duration().as_secs() as i64),
            nanos: before.duration().subsec_nanos(),
        },
    }
}

fn time_or_now(of: TimeOrNow, now: Time) -> Time {
    match of {
        TimeOrNow::SpecificTime(of) => time(of),
        TimeOrNow::Now => now,
    }
}

/// Who writes to a file does not get its owner's rights by that.
fn without_privileges(mode: u32) -> u32 {
    match mode & GROUP_EXECUTES {
        0 => mode & !SUID,
        _ => mode & !(SUID | SGID),
    }
}

impl Writing {
    pub(crate) fn new(commits: Arc<Commits>, report_pipe: Arc<ReportPipe>) -> Writing {
        Writing {
            commits,
            open: Handles::new(),
            directories: Handles::new(),
            report_pipe,
        }
    }

    fn node(&self, ino: Ino) -> Result<Node> {
        let node = self.commits.files.store().tree(|tree| tree.node(ino));
        node.ok_or(Errno::ESTALE)
    }

    fn attributes(&self, ino: Ino, node: &Node) -> FileAttr {
        let store = self.commits.files.store();
        let bytes = match node.kind() {
            Kind::RegularFile => {
                let len = self.commits.inodes.len(ino);
                len.or_else(|| store.len_of(&data_name(ino))).unwrap_or(0)
            }
            Kind::Symlink => node.target.len() as u64,
            _ => 0,
        };
        attributes(INodeNo(ino), node, bytes, store.page_bytes())
    }

    /// The kernel is told of a node.
    fn told(&self, ino: Ino, node: &Node) -> FileAttr {
        self.commits.inodes.looked_up(ino);
        self.attributes(ino, node)
    }

    fn entry(&self, found: Result<(Ino, Node)>, reply: ReplyEntry) {
        match found {
            Ok((ino, node)) => reply.entry(&KEEP, &self.told(ino, &node), Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn make(&self, parent: INodeNo, name: &OsStr, new: &New<'_>) -> Result<(Ino, Node)> {
        let _change = self.commits.change();
        let store = self.commits.files.store();
        let made = store.tree(|tree| tree.create(parent.0, name.as_bytes(), new, now()));
        made.map_err(of_tree)
    }

    /// A node has lost a name. If that was the last one, it goes when the kernel has forgotten it.
    fn lost_name(&self, ino: Ino) {
        if !self.commits.inodes.is_known(ino) {
            self.drop_orphan(ino);
        }
    }

    fn drop_orphan(&self, ino: Ino) {
        let store = self.commits.files.store();
        if store.tree(|tree| tree.node(ino).is_some_and(|node| node.links == 0)) {
            self.commits.inodes.discard(ino);
            // If another writer has the store, that one drops it.
            let _ = store.tree(|tree| tree.drop_orphan(ino));
        }
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, of_directory: bool) -> Result<()> {
        let _change = self.commits.change();
        let removed = self
            .commits
            .files
            .store()
            .tree(|tree| tree.remove(parent.0, name.as_bytes(), of_directory, now()));
        self.lost_name(removed.map_err(of_tree)?);
        Ok(())
    }

    fn is_dirty(&self, ino: Ino) {
        let files = self.commits.inodes.is_dirty(ino);
        self.commits.dirty(files);
    }

    /// Changes bytes of a file, and says so in its times.
    fn change_bytes(
        &self,
        inode: &Inode,
        drops_privileges: bool,
        change: impl FnOnce(&millpond::File) -> millpond::Result<()>,
    ) -> Result<()> {
        let _change = self.commits.change();
        let file = inode.file(&self.commits.files)?;
        let now = now();
        // First, as it says whether the store is another's.
        let changed = self.commits.files.store().tree(|tree| {
            tree.change(inode.ino, |node| {
                (node.modified, node.changed) = (now, now);
                if drops_privileges {
                    node.mode = without_privileges(node.mode);
                }
            })
        });
        changed.map_err(of_tree)?;
        self.is_dirty(inode.ino);
        change(&file).map_err(|error| errno(&error))
    }

    #[allow(clippy::too_many_arguments, reason = "as of setattr")]
    fn set(
        &self,
        request: &Request,
        ino: Ino,
        mode: Option<u32>,
        (uid, gid): (Option<u32>, Option<u32>),
        size: Option<u64>,
        (accessed, modified): (Option<TimeOrNow>, Option<TimeOrNow>),
    ) -> Result<FileAttr> {
        if let Some(size) = size {
            let node = self.node(ino)?;
            if node.kind() != Kind::RegularFile {
                return Err(Errno::EINVAL);
            }
            let inode = self.commits.inodes.get(ino);
            self.change_bytes(&inode, request.uid() != 0, |file| file.set_len(size))?;
        }
        let _change = self.commits.change();
        let now = now();
        let node = self.commits.files.store().tree(|tree| {
            tree.change(ino, |node| {
                if (uid.is_some() || gid.is_some()) && node.kind() == Kind::RegularFile {
                    node.mode = without_privileges(node.mode);
                }
                node.mode = mode.unwrap_or(node.mode);
                node.uid = uid.unwrap_or(node.uid);
                node.gid = gid.unwrap_or(node.gid);
                if let Some(accessed) = accessed {
                    node.accessed = time_or_now(accessed, now);
                }
                if let Some(modified) = modified {
                    node.modified = time_or_now(modified, now);
                }
                node.changed = now;
            })
        });
        let node = node.map_err(of_tree)?;
        Ok(self.attributes(ino, &node))
    }

    fn rename_entry(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: u32,
    ) -> Result<()> {
        let how = match flags {
            0 => Renaming::Over,
            1 => Renaming::Fresh,
            2 => Renaming::Exchange,
            _ => return Err(Errno::EINVAL),
        };
        let _change = self.commits.change();
        let from = (parent.0, name.as_bytes());
        let to = (new_parent.0, new_name.as_bytes());
        let store = self.commits.files.store();
        let replaced = store.tree(|tree| tree.rename(from, to, how, now()));
        if let Some(ino) = replaced.map_err(of_tree)? {
            self.lost_name(ino);
        }
        Ok(())
    }

    fn list(&self, ino: Ino) -> Result<Vec<(Ino, FileType, Vec<u8>)>> {
        let store = self.commits.files.store();
        let (node, listed) = store.tree(|tree| (tree.node(ino), tree.list(ino)));
        let node = node.ok_or(Errno::ESTALE)?;
        let own = [(ino, &b"."[..]), (node.parent, b"..")];
        let own = own.map(|(ino, name)| (ino, FileType::Directory, name.to_vec()));
        let others = listed
            .into_iter()
            .map(|Listed { name, ino, kind }| (ino, kind_of(kind), name));
        Ok(own.into_iter().chain(others).collect())
    }

    fn set_attribute(&self, ino: Ino, name: &OsStr, value: Option<&[u8]>, flags: i32) -> Result<()> {
        if name.as_bytes().starts_with(b"system.posix_acl") {
            return Err(Errno::EOPNOTSUPP);
        }
        if value.is_some_and(|value| value.len() > XATTR_BYTES_MAX) {
            return Err(Errno::E2BIG);
        }
        let _change = self.commits.change();
        self.commits.files.store().tree(|tree| {
            let is_there = tree.xattr(ino, name.as_bytes()).is_some();
            match (is_there, value) {
                (true, Some(_)) if flags & XATTR_CREATE != 0 => Err(Errno::EEXIST),
                (false, Some(_)) if flags & XATTR_REPLACE != 0 => Err(Errno::NO_XATTR),
                (false, None) => Err(Errno::NO_XATTR),
                _ => {
                    let put = tree.put_xattr(ino, name.as_bytes(), value, now());
                    put.map_err(of_tree)
                }
            }
        })
    }

    fn sync(&self, reply: ReplyEmpty) {
        match self.commits.commit() {
            Ok(()) => reply.ok(),
            Err(refused) => reply.error(refused.into()),
        }
    }
}

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
        let _ = config.set_max_write(REQUEST_BYTES);
        let _ = config.set_max_readahead(REQUEST_BYTES);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.commits.files.store().tree(|tree| {
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
        let file = match file {
            Ok(file) => file,
            Err(error) => return reply.error(error),
        };
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match file.read_at(&mut buffer[..size], offset) {
                Ok(read) => reply.data(&buffer[..read]),
                Err(error) => reply.error(errno(&error)),
            }
        });
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
        let (files, bytes) = self.commits.files.store().totals();
        let block = u64::from(BLOCK_BYTES);
        let (all, used) = (STORE_BYTES / block, bytes.div_ceil(block));
        let free = all.saturating_sub(used);
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

    fn getxattr(&self, _: &Request, id: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if id == INodeNo::ROOT && name == PROCESS_ATTRIBUTE {
            return xattr(Some(self.report_pipe.address().as_bytes()), size, reply);
        }
        if id == INodeNo::ROOT && name == SYNC_ATTRIBUTE {
            return match self.commits.commit() {
                Ok(()) => xattr(Some(b"1"), size, reply),
                Err(refused) => reply.error(refused.into()),
            };
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
