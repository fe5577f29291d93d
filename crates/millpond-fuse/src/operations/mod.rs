//! What the kernel asks, answered: each file is a family of calls, as methods of [`Pond`](crate::pond::Pond).

pub(crate) mod appeared;
pub(crate) mod data;
pub(crate) mod folders;
pub(crate) mod keep;
pub(crate) mod meta;
pub(crate) mod names;
pub(crate) mod room;
pub(crate) mod space;
pub(crate) mod xattr;
