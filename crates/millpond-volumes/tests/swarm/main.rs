//! Worlds of a store, its writers and its readers, each drawn from a seed; every second one has a tree of names.
//!
//! `MILLPOND_SEEDS=20000` runs more of them, `MILLPOND_SEED=42` one. With the feature `mutations` it is shown that a
//! layout with one of the mistakes of `mutation` is caught.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

mod actor;
mod checker;
mod cleaning;
#[path = "../shared/draw.rs"]
mod draw;
mod ends;
mod faults;
mod histories;
mod links;
mod losses;
mod lost;
#[cfg(feature = "mutations")]
mod mutations;
mod names;
mod snapshots;
mod store;
mod world;

use faults::Seen;
use std::time::Duration;
use world::World;

const BUSY: Duration = Duration::from_secs(600);

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// So many seeds, if the environment names no others.
fn seeds(count: u64) -> std::ops::Range<u64> {
    match number("MILLPOND_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("MILLPOND_FIRST_SEED").unwrap_or(0);
            first..first + number("MILLPOND_SEEDS").unwrap_or(count)
        }
    }
}

fn run(seed: u64) -> Result<Seen, String> {
    let mut world = World::new(seed);
    match world.run(BUSY) {
        Ok(()) => Ok(world.seen),
        Err(broken) => Err(format!("{broken}; {:?}", world.faults)),
    }
}

#[test]
fn no_world_loses_what_was_promised_shows_a_mixture_or_believes_a_fenced_writer() {
    let seeds = seeds(40);
    let is_many = seeds.end - seeds.start >= 40;
    let mut all = Seen::default();
    for seed in seeds {
        let seen = match run(seed) {
            Ok(seen) => seen,
            Err(broken) => panic!("seed {seed}, MILLPOND_SEED={seed} runs it alone: {broken}"),
        };
        all.commits += seen.commits;
        all.bogus += seen.bogus;
        all.synced += seen.synced;
        all.failed += seen.failed;
        all.moved += seen.moved;
        all.writers += seen.writers;
        all.steps += seen.steps;
        all.losses += seen.losses;
        all.salvaged += seen.salvaged;
        all.refused += seen.refused;
    }
    println!("{all:?}");
    if is_many {
        assert!(
            all.bogus > 0,
            "no sleeper has made a commit under a number that was deleted"
        );
        assert!(
            all.synced > 1000 && all.failed > 100 && all.moved > 1000,
            "{all:?}"
        );
        assert!(all.losses > 5 && all.salvaged > 5 && all.refused > 2, "{all:?}");
    }
}
