//! All unsafe code of this crate, and the system calls behind it.
//!
//! What leaves this folder is safe by its types: memory is named by ranges of an owner who lives as long as
//! they do, and what the kernel may still touch is owned by the ring until it says it is done.

pub(crate) mod buffer;
pub(crate) mod direct;
pub(crate) mod realtime;
pub(crate) mod segment;
pub(crate) mod uring;
