//! The posts' machines with their loads, and Millpond on the same loads.

pub mod axboe2016;
pub mod dillon2000;
pub mod gorman2011;
pub mod hills2015;
pub mod kim2020;
pub mod millpond;
pub mod swarm;
