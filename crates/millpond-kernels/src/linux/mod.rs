//! Linux 2.6 to 7.0.

pub mod anon;
pub mod balance;
pub mod dirty;
pub mod reclaim;
pub mod reference;
pub mod wbt;
