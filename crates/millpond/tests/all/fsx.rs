//! One file, and anything that can be done with one, for long: as fsx does with file systems.
//!
//! Reads, writes, appends, cuts, guards, growth by guards, syncs, invalidations, closing and opening again, other
//! settings and less memory, all drawn from a seed; the file beside a vector of bytes.
//!
//! `MILLPOND_SEED=n cargo test -p millpond --test all fsx::` replays one history; `MILLPOND_FSX=n` runs n of them on each device
//! and place.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Kind, Place, bounded, seeds};

/// Histories by default, and their length: some seconds without optimisation.
const HISTORIES: u64 = 8;
const OPERATIONS: u64 = 600;

fn histories(kind: Kind, place: Place) {
    for seed in seeds("MILLPOND_FSX", HISTORIES) {
        bounded(move || {
            let folder = place.folder();
            crate::world::history(kind, folder.path(), seed, OPERATIONS);
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
