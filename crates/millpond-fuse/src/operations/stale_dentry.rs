//! A file that is to be made, and whose name has appeared behind the mount since the kernel asked for it.
//!
//! ```text
//!   open(O_CREAT) ─ lookup: nothing ─ create ─ it is there ─► ESTALE, which is no error: the kernel looks once more
//!                 └ lookup: nothing ─ create ─ it is there ─► ESTALE again, and the program has it as an error
//! ```
//!
//! The first time the kernel does best: it then opens what is there by all its rules. The second time of the same call is
//! answered here, where the rules are plain: the file is opened for whoever may do so by its mode alone.

use super::names::Making;
use super::setattr::Change;
use crate::caller::Asks;
use crate::flags::OpenFlags;
use crate::inode::Node;
use crate::inode::content::Result;
use crate::state::{OpenFile, Pond};
use fuser::FileAttr;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::Arc;

/// So many of those that were sent back are remembered: most do not come again, as the kernel finds the file.
const REMEMBERED: usize = 64;

/// Whom we have told to look once more: the thread, the directory, the name.
pub(crate) type SentBack = VecDeque<(u32, u64, OsString)>;

impl Pond {
    /// Whether the same call was sent back before. If not, it is now.
    pub(crate) fn was_sent_back(&self, at: &Making<'_>) -> bool {
        let mut sent = self.sent_back.lock();
        let is_it = |(thread, parent, name): &(u32, u64, OsString)| {
            (*thread, *parent) == (at.thread, at.parent) && name == at.name
        };
        if let Some(n) = sent.iter().position(is_it) {
            sent.remove(n);
            return true;
        }
        if sent.len() == REMEMBERED {
            sent.pop_front();
        }
        sent.push_back((at.thread, at.parent, at.name.to_owned()));
        false
    }

    /// Opens the file that is there. Its handle, and what stat says.
    ///
    /// # Errors
    /// `ESTALE` if it is no regular file, or another rule than its mode says who may open it.
    pub(crate) fn open_appeared(self: &Arc<Pond>, at: &Making<'_>, flags: i32) -> Result<(u64, FileAttr)> {
        let parent = self.node(at.parent)?;
        let (node, stat) = self.look(at.parent, &parent.place, at.name)?;
        let opened = self.open_by_mode(&parent, &node, &stat, at, OpenFlags(flags));
        if opened.is_err() {
            self.forget(node.id, 1);
        }
        opened
    }

    fn open_by_mode(
        self: &Arc<Pond>,
        parent: &Node,
        node: &Arc<Node>,
        stat: &Stat,
        at: &Making<'_>,
        flags: OpenFlags,
    ) -> Result<(u64, FileAttr)> {
        let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
        if !is_file || !may_open(parent, node, stat, at.caller, flags)? {
            return Err(Errno::STALE);
        }
        let content = self.content(node, flags.writes())?;
        let handle = self.files.add(OpenFile {
            node: node.clone(),
            content,
            durable: flags.durable(),
        });
        let change = Change {
            len: flags.truncates().then_some(0),
            handle: Some(handle),
            asks: Asks {
                user: at.caller.0,
                group: at.caller.1,
                thread: at.thread,
            },
            mode: None,
            user: None,
            group: None,
            accessed: None,
            modified: None,
        };
        self.change(node.id, &change)
            .map(|attributes| (handle, attributes))
            .inspect_err(|_| self.release(handle))
    }
}

/// Whether the mode alone says that the caller may open it so. Groups of the caller's beside the first are not known here, and
/// an ACL can say another thing than the mode.
fn may_open(parent: &Node, node: &Node, stat: &Stat, caller: (u32, u32), flags: OpenFlags) -> Result<bool> {
    const ACL: &str = "system.posix_acl_access";
    const STICKY: u32 = 0o1000;
    let mode = stat.st_mode;
    if caller.0 == 0 {
        return Ok(true);
    }
    let is_owner = stat.st_uid == caller.0;
    let has_acl = rustix::fs::getxattr_query(node.path(), ACL).is_ok_and(|len| len > 0);
    // As by `protected_regular` of the kernel below: others' files in directories such as /tmp.
    let is_protected = rustix::fs::fstat(&parent.place)?.st_mode & STICKY != 0;
    if !is_owner && (has_acl || is_protected) {
        return Ok(false);
    }
    let bits = match (is_owner, stat.st_gid == caller.1) {
        (true, _) => mode >> 6,
        (false, true) => mode >> 3,
        // Who is in the file's group by another of his groups may have less than others have.
        (false, false) => mode & (mode >> 3),
    };
    let asked = match (flags.reads(), flags.writes() || flags.truncates()) {
        (true, false) => 0o4,
        (false, _) => 0o2,
        (true, true) => 0o6,
    };
    Ok(bits & asked == asked)
}
