//! Extended attributes of the mount's root that belong to the mount: programs use them to find and query its process.

use std::ffi::OsStr;

/// The extended attribute of the mount's root that has the process that serves it, and where that leaves its exit report:
/// what [`ServerProcess::find`](crate::ServerProcess::find) asks for.
pub const PROCESS_ATTRIBUTE: &str = "millpond.process";

/// The extended attribute of the mount's root that makes everything durable when it is set to anything, or read.
pub const SYNC_ATTRIBUTE: &str = "millpond.sync";

/// The extended attribute of the mount's root by which root, or the user that has mounted it, gives up what can't be written:
/// when it is read, the process that serves does not try again at its end, and that is lost.
pub const GIVE_UP_ATTRIBUTE: &str = "millpond.give_up";

/// The extended attribute of the mount's root that names what is not written, for the same users; empty if there is nothing.
pub const UNWRITTEN_ATTRIBUTE: &str = "millpond.unwritten";

/// The extended attribute of the mount's root by which the same users have the mount handed over, when it is read: to the process
/// that listens at the name behind this.
pub(crate) const TAKE_OVER_ATTRIBUTE: &str = "millpond.take_over:";

/// Values of `SYNC_ATTRIBUTE` when all else is on the disk: nothing, or something, that was stored through a map has been
/// lost before.
pub(crate) const NOTHING_LOST: &[u8] = b"1";
pub(crate) const STORES_LOST: &[u8] = b"0";

/// The inode number of the mount's root (`FUSE_ROOT_ID`).
pub(crate) const ROOT_ID: u64 = 1;

/// Whether this is the attribute of which every access makes everything durable, which takes as long as the disk does.
pub(crate) fn is_sync(id: u64, name: &OsStr) -> bool {
    id == ROOT_ID && name == SYNC_ATTRIBUTE
}

/// Whether this attribute is for root and the user that has mounted.
pub(crate) fn is_for_owner(id: u64, name: &OsStr) -> bool {
    id == ROOT_ID && (name == GIVE_UP_ATTRIBUTE || name == UNWRITTEN_ATTRIBUTE || listener_in(name).is_some())
}

/// The name at which the process listens that is to take over, if this attribute asks for that.
pub(crate) fn listener_in(name: &OsStr) -> Option<&str> {
    name.to_str()?.strip_prefix(TAKE_OVER_ATTRIBUTE)
}
