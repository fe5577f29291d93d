//! Crashes at every boundary of the device's journal, in histories drawn from seeds.
//!
//! `MILLPOND_SEED=n cargo test -p millpond --test all crash::` replays one history; `MILLPOND_HISTORIES=n` runs n of them. A
//! seed gives the same calls; how the threads of the engine meet is up to the machine.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it has seen"
)]

mod find_a_bug;
mod images;
mod kv;
mod world;

use crate::history::Seen;
use crate::support::{bounded, seeds};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use world::World;

/// Histories by default: some seconds without optimisation.
const HISTORIES: u64 = 200;

/// The events that a run of [`HISTORIES`] must contain.
const ALL: &[&str] = &[
    "call write",
    "call change",
    "call set_len longer",
    "call set_len shorter",
    "call sync",
    "call sync_all",
    "call close",
    "call drop",
    "call open",
    "call read",
    "call prefetch",
    "call guard held",
    "page changed while it was written",
    "file cut while it was written",
    "sync beside writers",
    "sync failed",
    "device write begun",
    "device write done",
    "device write failed",
    "device longer",
    "device shorter",
    "device synced",
    "crash write kept",
    "crash write lost",
    "crash write torn",
    "crash write reordered",
    "crash write in transit",
    "crash length kept",
    "crash length lost",
    "pages evicted",
    "dirtier paused",
];

/// One history; `None` where its device is not to be had.
fn run(seed: u64) -> Option<Seen> {
    let mut world = World::new(seed)?;
    let steps = 10 + world.draw.below(50);
    let told = catch_unwind(AssertUnwindSafe(|| (0..steps).for_each(|_| world.step())));
    let log = world.log.clone();
    let seen = told.and_then(|()| catch_unwind(AssertUnwindSafe(|| world.end())));
    match seen {
        Ok(seen) => Some(seen),
        Err(panic) => {
            println!("{}", log.join("\n"));
            println!("replay: MILLPOND_SEED={seed} cargo test -p millpond --test all crash:: -- --nocapture");
            resume_unwind(panic);
        }
    }
}

#[test]
fn synced_data_survives_a_crash_at_any_moment() {
    let seeds = seeds("MILLPOND_HISTORIES", HISTORIES);
    let histories = seeds.end - seeds.start;
    let mut seen = Seen::default();
    for seed in seeds {
        if let Some(one) = bounded(move || run(seed)) {
            seen.merge(one);
            seen.add("histories", 1);
        }
    }
    println!("{}", seen.line());
    if histories >= HISTORIES {
        seen.assert_all(ALL);
    }
}
