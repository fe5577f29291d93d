//! Operations of the file system. Each file is a family of system calls, as methods of
//! [`MountState`](crate::state::MountState).

pub(crate) mod data;
pub(crate) mod descriptors;
pub(crate) mod hand_over;
pub(crate) mod lend;
mod maps;
pub(crate) mod names;
mod order;
pub(crate) mod ranges;
pub(crate) mod readdir;
pub(crate) mod setattr;
pub(crate) mod shut_down;
pub(crate) mod stale_dentry;
pub(crate) mod writeback;
pub(crate) mod xattr;
