//! One file, and anything that can be done with one, for long: as fsx does with file systems.
//!
//! Reads, writes, appends, cuts, guards, growth by guards, syncs, invalidations, closing and opening again, other
//! settings and less memory, all drawn from a seed; the file beside a vector of bytes.
//!
//! `MILLPOND_SEED=n cargo test -p millpond --test fsx` replays one history; `MILLPOND_FSX=n` runs n of them on each device
//! and place.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;
#[path = "support/world.rs"]
mod world;

use support::{Kind, Place, bounded};

/// Histories by default, and their length: some seconds without optimisation.
const HISTORIES: u64 = 8;
const OPERATIONS: u64 = 600;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|n| n.parse().unwrap())
}

fn histories(kind: Kind, place: Place) {
    let seeds = match number("MILLPOND_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MILLPOND_FSX").unwrap_or(HISTORIES),
    };
    for seed in seeds {
        bounded(move || {
            let folder = place.folder();
            world::history(kind, folder.path(), seed, OPERATIONS);
        });
    }
}

#[test]
fn a_long_history_leaves_the_file_as_it_should_be_by_the_ring_on_disk() {
    histories(Kind::Ring, Place::Disk);
}

#[test]
fn a_long_history_leaves_the_file_as_it_should_be_by_threads_in_memory() {
    histories(Kind::Pool, Place::Memory);
}
