//! How much memory is free, and when that is too little.

pub mod boost;
pub mod free;
pub mod reserve;
pub mod watermark;
