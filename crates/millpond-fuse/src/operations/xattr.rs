//! Extended attributes, and ACLs, which are some of them: passed on. Two of the root's are the mount's own.

use crate::caller::Asks;
use crate::inode::content::Result;
use crate::inode::{Node, ROOT};
use crate::state::Pond;
use crate::{PROCESS_ATTRIBUTE, SYNC_ATTRIBUTE};
use rustix::fs::{AtFlags, CWD, Mode, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::sync::atomic::Ordering;

/// Whether something that was stored through a map has been lost before: what `SYNC_ATTRIBUTE` says when all else is on the disk.
pub(crate) const LOST: &[u8] = b"0";
const SAVED: &[u8] = b"1";

/// The longest value, or list of names, that there is (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const BYTES_MAX: usize = 64 << 10;

/// The ACL that says who may what, beside the mode, and changes that.
const ACCESS_ACL: &str = "system.posix_acl_access";

/// What is asked for has so many bytes, or is this.
pub(crate) enum Answer {
    Len(u32),
    Bytes(Vec<u8>),
}

impl Pond {
    pub(crate) fn xattr(&self, id: u64, name: &OsStr, room: u32) -> Result<Answer> {
        if id == ROOT && name == PROCESS_ATTRIBUTE {
            return own(room, self.last_word.address().as_bytes());
        }
        let node = self.node(id)?;
        answer(room, |buffer| match buffer.is_empty() {
            true => rustix::fs::getxattr_query(node.path(), name),
            false => rustix::fs::getxattr(node.path(), name, buffer),
        })
    }

    /// What is said to who has everything made durable.
    pub(crate) fn synced(&self, room: u32) -> Result<Answer> {
        if room > 0 {
            self.sync_all()?;
        }
        let said = match self.has_lost.load(Ordering::Relaxed) {
            true => LOST,
            false => SAVED,
        };
        own(room, said)
    }

    pub(crate) fn xattrs(&self, id: u64, room: u32) -> Result<Answer> {
        let node = self.node(id)?;
        answer(room, |buffer| match buffer.is_empty() {
            true => rustix::fs::listxattr_query(node.path()),
            false => rustix::fs::listxattr(node.path(), buffer),
        })
    }

    pub(crate) fn set_xattr(
        &self,
        id: u64,
        (name, value): (&OsStr, &[u8]),
        flags: i32,
        asks: &Asks,
    ) -> Result<()> {
        let node = self.node(id)?;
        let flags = XattrFlags::from_bits_retain(flags as u32);
        // It may be one of capabilities, or an ACL, which changes the mode.
        let mut is_bare = node.is_bare.lock();
        *is_bare = false;
        rustix::fs::setxattr(node.path(), name, value, flags)?;
        if name == ACCESS_ACL {
            // It has changed the mode, and may do so for us where it would not for whoever asks (`posix_acl_update_mode`).
            let stat = rustix::fs::fstat(&node.place)?;
            let mode = Mode::from_raw_mode(stat.st_mode);
            if mode.contains(Mode::SGID) && !asks.may_set_group(stat.st_gid) {
                rustix::fs::chmodat(CWD, node.path(), mode - Mode::SGID, AtFlags::empty())?;
            }
        }
        drop(is_bare);
        self.xattrs_changed(&node);
        Ok(())
    }

    pub(crate) fn remove_xattr(&self, id: u64, name: &OsStr) -> Result<()> {
        let node = self.node(id)?;
        rustix::fs::removexattr(node.path(), name)?;
        self.xattrs_changed(&node);
        Ok(())
    }

    fn xattrs_changed(&self, node: &Node) {
        self.attributes_changed(node);
    }
}

/// Whether that is the attribute of which every access makes everything durable, which takes as long as the disk does.
pub(crate) fn is_sync(id: u64, name: &OsStr) -> bool {
    id == ROOT && name == SYNC_ATTRIBUTE
}

/// The value of an attribute of the mount's own.
fn own(room: u32, value: &[u8]) -> Result<Answer> {
    answer(room, |buffer| {
        let is_asked = !buffer.is_empty();
        match buffer.get_mut(..value.len()) {
            Some(place) => place.copy_from_slice(value),
            None if is_asked => return Err(Errno::RANGE),
            None => {}
        }
        Ok(value.len())
    })
}

/// Asks with a buffer of the room that whoever asks has; without any, for the length only.
fn answer(room: u32, ask: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<Answer> {
    let mut buffer = vec![0; BYTES_MAX.min(room as usize)];
    let len = ask(&mut buffer)?;
    if room == 0 {
        return Ok(Answer::Len(len as u32));
    }
    buffer.truncate(len);
    Ok(Answer::Bytes(buffer))
}
