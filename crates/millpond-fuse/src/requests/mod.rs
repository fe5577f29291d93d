//! What the kernel asks by FUSE, and what it is asked for in turn.

mod capabilities;
pub(crate) mod filesystem;
