//! Extended attributes, including ACLs: passed on. Two on the root belong to the mount.

use crate::credentials::Credentials;
use crate::own_attributes::{
    NOTHING_LOST, PROCESS_ATTRIBUTE, ROOT_ID, STORES_LOST, UNWRITTEN_ATTRIBUTE, listener_in,
};
use crate::state::MountState;
use rustix::fs::{AtFlags, CWD, Mode, XattrFlags};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::sync::atomic::Ordering;

/// The longest value, or list of names, that there is (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const BYTES_MAX: usize = 64 << 10;

/// The ACL that decides on access, beside the mode, and changes that.
const ACCESS_ACL: &str = "system.posix_acl_access";

/// The length of a value or list, or itself: as getxattr(2) is called with a size of 0 or more.
pub(crate) enum XattrReply {
    Len(u32),
    Bytes(Vec<u8>),
}

impl MountState {
    /// The value of an attribute, for a buffer of `size` bytes.
    pub(crate) fn xattr(&self, id: u64, name: &OsStr, size: u32) -> Result<XattrReply> {
        if id == ROOT_ID && name == PROCESS_ATTRIBUTE {
            let mut value = self.report_pipe.address();
            if let Some(progress) = self.progress() {
                value += &format!(" {progress}");
            }
            return own_value(size, value.as_bytes());
        }
        let inode = self.inode(id)?;
        value(size, |buffer| {
            if buffer.is_empty() {
                rustix::fs::getxattr_query(inode.path(), name)
            } else {
                rustix::fs::getxattr(inode.path(), name, buffer)
            }
        })
    }

    /// The value of `SYNC_ATTRIBUTE`: makes everything durable.
    pub(crate) fn sync_attribute(&self, size: u32) -> Result<XattrReply> {
        if size > 0 {
            self.sync_all()?;
        }
        let has_lost = self.has_lost_stores.load(Ordering::Relaxed);
        own_value(size, if has_lost { STORES_LOST } else { NOTHING_LOST })
    }

    /// The value of `GIVE_UP_ATTRIBUTE`, by which what can't be written is not tried again at the end, of `UNWRITTEN_ATTRIBUTE`,
    /// or of `TAKE_OVER_ATTRIBUTE`, by which another process takes over.
    ///
    /// # Errors
    /// `EPERM` if the caller is neither root nor the user that has mounted.
    pub(crate) fn owner_attribute(
        &self,
        name: &OsStr,
        size: u32,
        caller: &Credentials,
    ) -> Result<XattrReply> {
        if caller.user != 0 && caller.user != rustix::process::geteuid().as_raw() {
            return Err(Errno::PERM);
        }
        if let Some(listener) = listener_in(name) {
            *self.successor.lock() = Some(listener.to_owned());
            self.events.notify();
            return own_value(size, NOTHING_LOST);
        }
        if name == UNWRITTEN_ATTRIBUTE {
            let unwritten = self.unwritten_now().map(|unwritten| unwritten.to_string());
            return own_value(size, unwritten.unwrap_or_default().as_bytes());
        }
        self.is_given_up.store(true, Ordering::Relaxed);
        own_value(size, NOTHING_LOST)
    }

    /// The names of a file's attributes, for a buffer of `size` bytes.
    pub(crate) fn xattrs(&self, id: u64, size: u32) -> Result<XattrReply> {
        let inode = self.inode(id)?;
        value(size, |buffer| {
            if buffer.is_empty() {
                rustix::fs::listxattr_query(inode.path())
            } else {
                rustix::fs::listxattr(inode.path(), buffer)
            }
        })
    }

    pub(crate) fn set_xattr(
        &self,
        id: u64,
        (name, value): (&OsStr, &[u8]),
        flags: i32,
        caller: &Credentials,
    ) -> Result<()> {
        let inode = self.inode(id)?;
        let flags = XattrFlags::from_bits_retain(flags as u32);
        // It may be one of capabilities, or an ACL, which changes the mode.
        let mut nosec = inode.nosec.lock();
        *nosec = false;
        rustix::fs::setxattr(inode.path(), name, value, flags)?;
        if name == ACCESS_ACL {
            // It has changed the mode, and has left a set-group-ID bit for us that it would have removed for the caller
            // (`posix_acl_update_mode`).
            let stat = rustix::fs::fstat(&inode.fd)?;
            let mode = Mode::from_raw_mode(stat.st_mode);
            if mode.contains(Mode::SGID) && !caller.may_set_group(stat.st_gid) {
                rustix::fs::chmodat(CWD, inode.path(), mode - Mode::SGID, AtFlags::empty())?;
            }
        }
        drop(nosec);
        self.attributes_changed(&inode);
        Ok(())
    }

    pub(crate) fn remove_xattr(&self, id: u64, name: &OsStr) -> Result<()> {
        let inode = self.inode(id)?;
        rustix::fs::removexattr(inode.path(), name)?;
        self.attributes_changed(&inode);
        Ok(())
    }
}

/// The value of an attribute of the mount's own.
fn own_value(size: u32, own: &[u8]) -> Result<XattrReply> {
    value(size, |buffer| {
        let is_asked = !buffer.is_empty();
        match buffer.get_mut(..own.len()) {
            Some(start) => start.copy_from_slice(own),
            None if is_asked => return Err(Errno::RANGE),
            None => {}
        }
        Ok(own.len())
    })
}

/// Calls `get` with a buffer as large as the caller's; of size 0, with an empty one, for the length only.
fn value(size: u32, get: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<XattrReply> {
    let mut buffer = vec![0; BYTES_MAX.min(size as usize)];
    let len = get(&mut buffer)?;
    if size == 0 {
        return Ok(XattrReply::Len(len as u32));
    }
    buffer.truncate(len);
    Ok(XattrReply::Bytes(buffer))
}
