//! A page cache and memory manager that lives in your process instead of in the kernel.

pub mod device;
mod sys;
