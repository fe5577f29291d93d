//! What answers the kernel, of a reader: names and lengths as of the reader's commit, files as of when they were opened.

use crate::attributes::{BLOCK_BYTES, NAME_BYTES_MAX, attributes, check_name, kind, xattr};
use crate::handles::{Handles, lock};
use crate::nodes::Nodes;
use crate::replies::{self, bytes};
use fuser::{
    AccessFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use millpond::File;
use millpond_fuse::{PROCESS_ATTRIBUTE, ReportPipe, SYNC_ATTRIBUTE};
use millpond_volumes::{CacheReader, Child, Error};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What does not change is asked for again after so long.
const FOR_GOOD: Duration = Duration::from_secs(86_400);

/// The commit that is read, and how long ago it was known to be the newest: of the root.
const COMMIT_ATTRIBUTE: &str = "user.millpond.commit";
const AGE_ATTRIBUTE: &str = "user.millpond.age_ms";

/// An entry of a directory that is open.
#[derive(Debug)]
struct Listed {
    id: u64,
    kind: FileType,
    name: OsString,
}

/// A reader's files as a file system.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) files: Arc<CacheReader>,
    /// For how long the kernel may keep names: not at all if the reader follows the writer.
    keep: Duration,
    nodes: Mutex<Nodes>,
    open: Handles<File>,
    listed: Handles<Vec<Listed>>,
    /// Who has mounted it, and owns all of it.
    owner: (u32, u32),
    report_pipe: Arc<ReportPipe>,
    /// The largest request for data.
    request_bytes: u32,
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        b"" => name.to_owned(),
        _ => [directory, b"/", name].concat(),
    }
}

/// The error that a program gets.
fn errno(error: &millpond_volumes::CacheError) -> Errno {
    match error {
        millpond_volumes::CacheError::Store(Error::NoFile(_)) => Errno::ESTALE,
        millpond_volumes::CacheError::Cache(error) => replies::errno(error),
        _ => Errno::EIO,
    }
}

impl Reading {
    pub(crate) fn new(
        files: Arc<CacheReader>,
        is_snapshot: bool,
        report_pipe: Arc<ReportPipe>,
        request_bytes: u32,
    ) -> Reading {
        Reading {
            files,
            keep: if is_snapshot { FOR_GOOD } else { Duration::ZERO },
            nodes: Mutex::new(Nodes::new()),
            open: Handles::new(),
            listed: Handles::new(),
            owner: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
            report_pipe,
            request_bytes,
        }
    }

    /// When the newest commit was made.
    fn committed_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.files.reader().last_writer().at_unix_ms)
    }

    /// Of a store without a tree: all of it is the mounting user's, and as old as the commit in which it was found.
    fn attributes(&self, id: u64, child: &Child, found_at: SystemTime) -> FileAttr {
        if let Some(node) = &child.node {
            return attributes(INodeNo(id), node, child.bytes, self.files.reader().page_bytes());
        }
        let is_directory = child.is_directory;
        FileAttr {
            ino: INodeNo(id),
            size: child.bytes,
            blocks: child.bytes.div_ceil(BLOCK_BYTES),
            atime: found_at,
            mtime: found_at,
            ctime: found_at,
            crtime: found_at,
            kind: if is_directory {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: if is_directory { 0o555 } else { 0o444 },
            nlink: if is_directory { 2 } else { 1 },
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: self.files.reader().page_bytes(),
            flags: 0,
        }
    }

    /// The path of a name in a directory.
    fn path(&self, parent: INodeNo, name: &OsStr) -> Result<Vec<u8>, Errno> {
        let nodes = lock(&self.nodes);
        let directory = nodes.directory(parent.0).ok_or(Errno::ENOTDIR)?;
        Ok(joined(directory, name.as_bytes()))
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<(Duration, FileAttr), Errno> {
        check_name(name)?;
        let path = self.path(parent, name)?;
        let reader = self.files.reader();
        loop {
            let (commit, child) = reader.child(&path);
            let child = child.ok_or(Errno::ENOENT)?;
            if child.is_directory {
                let id = lock(&self.nodes).id_of_directory(&path);
                return Ok((self.keep, self.attributes(id, &child, self.committed_at())));
            }
            let mut nodes = lock(&self.nodes);
            let is_version = |version: &_| reader.has_version(&path, version);
            let id = match nodes.known(child.number, commit, is_version) {
                Some(id) => id,
                None => {
                    match reader.versions([&path]) {
                        (now, [Some(version)]) if now == commit => {
                            nodes.new_file((&path, child), (commit, version), self.committed_at())
                        }
                        // The reader has moved on meanwhile: look again.
                        _ => continue,
                    }
                }
            };
            nodes.looked_up(id);
            let node = nodes.file(id).ok_or(Errno::ENOENT)?;
            return Ok((FOR_GOOD, self.attributes(id, &node.child, node.found_at)));
        }
    }

    fn open_file(&self, id: INodeNo) -> Result<File, Errno> {
        let node = lock(&self.nodes).file(id.0).cloned();
        let node = node.ok_or(Errno::EISDIR)?;
        // As of the version that the kernel knows, though the reader may have gone on.
        let file = self.files.open_version(&node.version, node.seen);
        file.map_err(|error| errno(&error))
    }

    fn list(&self, id: INodeNo) -> Result<Vec<Listed>, Errno> {
        let path = lock(&self.nodes).directory(id.0).map(<[u8]>::to_vec);
        let path = path.ok_or(Errno::ENOTDIR)?;
        let children = self.files.reader().children(&path);
        let mut nodes = lock(&self.nodes);
        let parent = match path.iter().rposition(|byte| *byte == b'/') {
            Some(end) => nodes.id_of_directory(&path[..end]),
            None => INodeNo::ROOT.0,
        };
        let own = [(id.0, "."), (parent, "..")].map(|(id, name)| Listed {
            id,
            kind: FileType::Directory,
            name: OsString::from(name),
        });
        let others = children.into_iter().map(|(name, child)| Listed {
            id: match child.is_directory {
                true => nodes.id_of_directory(&joined(&path, &name)),
                false => nodes.id_in_list(child.number),
            },
            kind: match (child.is_directory, &child.node) {
                (true, _) => FileType::Directory,
                (false, None) => FileType::RegularFile,
                (false, Some(node)) => kind(node),
            },
            name: OsString::from_vec(name),
        });
        Ok(own.into_iter().chain(others).collect())
    }

    /// The path of something that the kernel knows.
    fn path_of(&self, id: INodeNo) -> Result<Vec<u8>, Errno> {
        let nodes = lock(&self.nodes);
        let path = match nodes.file(id.0) {
            Some(node) => Some(&node.path[..]),
            None => nodes.directory(id.0),
        };
        path.map(<[u8]>::to_vec).ok_or(Errno::ESTALE)
    }

    /// The value of an attribute of the root.
    fn attribute(&self, name: &OsStr) -> Option<String> {
        let reader = self.files.reader();
        match name.to_str()? {
            PROCESS_ATTRIBUTE => Some(self.report_pipe.address()),
            // There is nothing to make durable.
            SYNC_ATTRIBUTE => Some(String::from("1")),
            COMMIT_ATTRIBUTE => Some(reader.commit().to_string()),
            AGE_ATTRIBUTE => Some(reader.age().as_millis().to_string()),
            _ => None,
        }
    }
}

impl Filesystem for Reading {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for capability in [InitFlags::FUSE_ASYNC_READ, InitFlags::FUSE_PARALLEL_DIROPS] {
            // It is only slower without.
            let _ = config.add_capabilities(capability);
        }
        let _ = config.set_max_write(self.request_bytes);
        let _ = config.set_max_readahead(self.request_bytes);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name) {
            Ok((keep, found)) => reply.entry_with_ttls(&keep, &self.keep, &found, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn forget(&self, _: &Request, id: INodeNo, count: u64) {
        lock(&self.nodes).forget(id.0, count);
    }

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let nodes = lock(&self.nodes);
        if let Some(node) = nodes.file(id.0) {
            return reply.attr(&FOR_GOOD, &self.attributes(id.0, &node.child, node.found_at));
        }
        let directory = nodes.directory(id.0);
        let child = directory.and_then(|path| self.files.reader().child(path).1);
        match child.filter(|child| child.is_directory) {
            Some(child) => reply.attr(&self.keep, &self.attributes(id.0, &child, self.committed_at())),
            None => reply.error(Errno::ESTALE),
        }
    }

    fn readlink(&self, _: &Request, id: INodeNo, reply: ReplyData) {
        let node = lock(&self.nodes).file(id.0).cloned();
        match node.and_then(|node| node.child.node) {
            Some(node) => reply.data(&node.target),
            None => reply.error(Errno::EINVAL),
        }
    }

    fn open(&self, _: &Request, id: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_file(id) {
            Ok(file) => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
                reply.opened(self.open.put(file), flags);
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
        bytes(self.open.get(handle), (offset, size), reply);
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
        self.open.remove(handle);
        reply.ok();
    }

    fn opendir(&self, _: &Request, id: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(id) {
            Ok(listed) => reply.opened(self.listed.put(listed), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, from: u64, mut reply: ReplyDirectory) {
        let listed = match self.listed.get(handle) {
            Ok(listed) => listed,
            Err(error) => return reply.error(error),
        };
        for (at, entry) in listed.iter().enumerate().skip(from as usize) {
            if reply.add(INodeNo(entry.id), at as u64 + 1, entry.kind, &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listed.remove(handle);
        reply.ok();
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (files, bytes) = self.files.reader().totals();
        let block = self.files.reader().page_bytes();
        let blocks = bytes.div_ceil(block.into());
        reply.statfs(blocks, 0, 0, files, 0, block, NAME_BYTES_MAX, block);
    }

    fn getxattr(&self, _: &Request, id: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let own = self.attribute(name).filter(|_| id == INodeNo::ROOT);
        let value = match own {
            Some(value) => Some(value.into_bytes()),
            None => self
                .path_of(id)
                .ok()
                .and_then(|path| self.files.reader().xattr(&path, name.as_bytes())),
        };
        xattr(value.as_deref(), size, reply);
    }

    fn listxattr(&self, _: &Request, id: INodeNo, size: u32, reply: ReplyXattr) {
        let mut names = match id {
            INodeNo::ROOT => format!("{COMMIT_ATTRIBUTE}\0{AGE_ATTRIBUTE}\0").into_bytes(),
            _ => Vec::new(),
        };
        let stored = self.path_of(id).map(|path| self.files.reader().xattrs(&path));
        for name in stored.into_iter().flatten() {
            names.extend(name);
            names.push(0);
        }
        xattr(Some(&names), size, reply);
    }
}
