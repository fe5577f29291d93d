//! Millpond beside others, and an engine that stands on it.
//!
//! | module | what |
//! |---|---|
//! | `hits` | what it costs to get a page that is in memory, here and in other caches |
//! | `misses` | how many pages are in memory, and how fast they come, where not all have room |
//! | `redb_speed` | how fast redb is in a Millpond file and in its own, at equal memory |
//! | `child` `group` | a run in a process and a memory group of its own |
//! | `machine` | what the figures were made on |
//! | `content` `figures` `table` | what pages hold, so that every read can be checked; medians; what is printed |
//!
//! This package is outside of the workspace, so that nothing else compiles the caches that it compares with.

mod child;
pub mod content;
pub mod figures;
mod group;
pub mod hits;
pub mod machine;
pub mod misses;
pub mod redb_speed;
pub mod table;

/// A line on standard error, if that can be written to.
pub fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}
