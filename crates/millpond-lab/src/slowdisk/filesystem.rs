//! The FUSE side of a slow disk: a folder with three files.
//!
//! | file | what |
//! |---|---|
//! | `disk.img` | the disk |
//! | `stats` | JSON: what the disk did since it was made or reset, as of the moment the file is opened |
//! | `control` | takes `reset`, `untimed` and `timed`, one a line; says `timed` or `untimed` when read |
//!
//! All of them past the page cache (`FOPEN_DIRECT_IO`), so that every request reaches the disk; writes of several
//! threads at a time (`FOPEN_PARALLEL_DIRECT_WRITES`, else the kernel locks the file for each); asynchronous requests
//! as such (`FUSE_ASYNC_DIO`, else they come one after the other).

use super::disk::Disk;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the kernel may keep names and sizes, which never change.
const FOREVER: Duration = Duration::from_secs(3600);

/// Requests that the kernel sends before it waits for answers: more than any queue on top has. Its default of 12 would
/// be a queue of its own in front of the disk.
const BACKGROUND_MAX: u16 = 2048;

/// The most that a request carries: 256 pages, which is all that Linux allows unless told otherwise
/// (`fs.fuse.max_pages_limit`), and what a command of the modelled disk has.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

const BLOCK_BYTES: u32 = 4096;

const FILES: [(&str, INodeNo); 3] = [("disk.img", IMAGE), ("stats", STATISTICS), ("control", CONTROL)];
const IMAGE: INodeNo = INodeNo(2);
const STATISTICS: INodeNo = INodeNo(3);
const CONTROL: INodeNo = INodeNo(4);

pub(super) struct SlowDisk {
    disk: Arc<Disk>,
    /// The owner of these files: the user that started the disk.
    owner: (u32, u32),
    next_handle: AtomicU64,
    /// The content of the small files.
    texts: Mutex<HashMap<u64, String>>,
}

impl SlowDisk {
    pub(super) fn new(disk: Arc<Disk>) -> SlowDisk {
        let owner = (rustix::process::geteuid(), rustix::process::getegid());
        SlowDisk {
            disk,
            owner: (owner.0.as_raw(), owner.1.as_raw()),
            next_handle: AtomicU64::new(1),
            texts: Mutex::new(HashMap::new()),
        }
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o755, 0),
            IMAGE => (FileType::RegularFile, 0o600, self.disk.size().0),
            STATISTICS => (FileType::RegularFile, 0o444, 0),
            CONTROL => (FileType::RegularFile, 0o644, 0),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }

    fn tell_attributes(&self, inode: INodeNo, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn command(&self, line: &str) -> Result<(), Errno> {
        match line {
            "" => {}
            "reset" => self.disk.reset(),
            "timed" => self.disk.set_timed(true),
            "untimed" => self.disk.set_timed(false),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}

impl Filesystem for SlowDisk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let refused = |what: &str| io::Error::other(format!("this kernel's FUSE has no {what}"));
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(|_| refused("asynchronous direct I/O"))?;
        // Only quicker without it.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        config
            .set_max_write(REQUEST_BYTES_MAX)
            .map_err(|_| refused("requests of 1 MiB"))?;
        config
            .set_max_background(BACKGROUND_MAX)
            .map_err(|_| refused("background requests"))?;
        config
            .set_congestion_threshold(BACKGROUND_MAX)
            .map_err(|_| refused("background requests"))?;
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = FILES.iter().find(|(n, _)| parent == INodeNo::ROOT && name == *n);
        match found.and_then(|&(_, inode)| self.attributes(inode)) {
            Some(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.tell_attributes(inode, reply);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // A shell's `>` truncates; the disk keeps its size.
        if inode == IMAGE && size.is_some_and(|size| size != self.disk.size().0) {
            return reply.error(Errno::EPERM);
        }
        self.tell_attributes(inode, reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if inode == IMAGE {
            let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
            return reply.opened(FileHandle(0), flags);
        }
        let text = match inode {
            STATISTICS => format!("{:#}\n", self.disk.statistics()),
            _ if self.disk.is_timed() => "timed\n".into(),
            _ => "untimed\n".into(),
        };
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.texts.lock().insert(handle, text);
        reply.opened(FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn release(
        &self,
        _: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.texts.lock().remove(&handle.0);
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if inode == IMAGE {
            return self.disk.read(offset, size, reply);
        }
        let texts = self.texts.lock();
        let text = texts.get(&handle.0).map_or(&[][..], |text| text.as_bytes());
        let from = text.len().min(offset as usize);
        let to = text.len().min(from + size as usize);
        reply.data(&text[from..to]);
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match inode {
            IMAGE => self.disk.write(offset, data, reply),
            CONTROL => {
                let text = String::from_utf8_lossy(data);
                match text.lines().try_for_each(|line| self.command(line.trim())) {
                    Ok(()) => reply.written(data.len() as u32),
                    Err(error) => reply.error(error),
                }
            }
            _ => reply.error(Errno::EPERM),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // close(2), which does not flush the disk.
        reply.ok();
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        match inode {
            IMAGE => self.disk.flush(reply),
            _ => reply.ok(),
        }
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let is_inside = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.disk.size().0);
        let flags = rustix::fs::FallocateFlags::from_bits_retain(mode as u32);
        let makes_zero =
            flags.intersects(rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::ZERO_RANGE);
        if inode != IMAGE {
            return reply.error(Errno::EPERM);
        }
        if !is_inside {
            return reply.error(Errno::ENOSPC);
        }
        match makes_zero.then(|| self.disk.discard(offset, length)) {
            None | Some(Ok(())) => reply.ok(),
            Some(Err(error)) => reply.error(error.into()),
        }
    }

    fn readdir(&self, _: &Request, _inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let folder = [".", ".."].map(|name| (name, INodeNo::ROOT, FileType::Directory));
        let files = FILES.map(|(name, inode)| (name, inode, FileType::RegularFile));
        let entries = folder.into_iter().chain(files).enumerate().skip(offset as usize);
        for (n, (name, inode, kind)) in entries {
            if reply.add(inode, n as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = self.disk.size().0 / u64::from(BLOCK_BYTES);
        reply.statfs(blocks, 0, 0, FILES.len() as u64, 0, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}
