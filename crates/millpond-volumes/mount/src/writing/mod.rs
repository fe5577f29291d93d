//! What answers the kernel, of the one writer: the store's tree, and its files through the cache. `requests` has the calls.

mod requests;

use crate::attributes::{attributes, check_attribute, kind_of};
use crate::commits::Commits;
use crate::handles::Handles;
use crate::inodes::Inode;
use crate::replies::errno;
use fuser::{Errno, FileAttr, FileType, Generation, INodeNo, ReplyEmpty, ReplyEntry, Request, TimeOrNow};
use millpond_fuse::ReportPipe;
use millpond_volumes::tree::{Ino, Listed, New, Node, Renaming, Time, data_name};
use rustix::fs::FileType as Kind;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// For how long the kernel may keep names and attributes. Nobody else changes them.
const KEEP: Duration = Duration::from_secs(60);

const SUID: u32 = 0o4000;
const SGID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o10;

// Of setxattr(2).
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;

/// The longest value of an extended attribute (`XATTR_SIZE_MAX`).
const XATTR_BYTES_MAX: usize = 64 << 10;

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
    /// The largest request for data.
    request_bytes: u32,
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
    pub(crate) fn new(commits: Arc<Commits>, report_pipe: Arc<ReportPipe>, request_bytes: u32) -> Writing {
        Writing {
            commits,
            open: Handles::new(),
            directories: Handles::new(),
            report_pipe,
            request_bytes,
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
        if value.is_some() {
            check_attribute(name)?;
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
