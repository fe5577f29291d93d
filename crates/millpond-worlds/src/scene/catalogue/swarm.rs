//! The scene of the swarm: a world of the swarm.

use super::{PAGES, column, count};
use crate::scene::{Plot, Scene};

pub(super) const SWARM: Scene = Scene {
    name: "swarm",
    short: "Swarm",
    title: "A world of the swarm",
    post: "Millpond's own test: thousands of small worlds, drawn from their seeds",
    saw: "A seed is a world: a small pool, small limits, a few processes that do anything to a few files, and a disk that may go \
          wrong. All checks run after every step. `MILLPOND_SEED=1 cargo test -p millpond-sim --test all swarm::` runs the world of \
          seed 1.",
    look: "Choose a seed. Everything that is rare in practice happens here all the time: dirty limits, waits, evictions.",
    shows: None,
    settings: &[],
    columns: &[column(
        "Millpond",
        "Options, memory, disk, load and faults are drawn from the seed.",
    )],
    shades: PAGES,
    shown: &[
        count("pgmajfault", "faults"),
        count("pgscan", "pages scanned"),
        count("pgsteal", "pages freed"),
        count("nr_dirtied", "pages dirtied"),
        count("nr_written", "pages written"),
        count("nr_write_failed", "writes that failed"),
        count("balance_dirty_pauses", "times that a writer was paused"),
    ],
    published: &[],
    published_note: "",
    plot: Plot {
        figure: "pgscan",
        label: "pages scanned, a second",
        per_ms: 1000,
        every_ms: 100,
        top: 0.0,
    },
    opens_at_ms: 1_000,
    ends_at_ms: 60_000,
    speed_ms: 500,
};
