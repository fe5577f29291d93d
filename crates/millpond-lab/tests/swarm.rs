//! The swarm: many small worlds, each drawn from one seed, all checks on.
//!
//! `MILLPOND_SEED=n cargo test -p millpond-lab --test swarm` replays one world; `MILLPOND_SEEDS=n` runs n of them.

use millpond_lab::sim::swarm::run;
use std::panic::catch_unwind;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value}: a number is needed")),
    )
}

#[test]
fn no_world_of_the_swarm_loses_a_write_or_stops() {
    if let Some(seed) = number("MILLPOND_SEED") {
        println!("{:?}", run(seed));
        return;
    }
    let (mut stalls, mut tagged, mut paused, mut failed, mut ahead, mut direct) = (0, 0, 0, 0, 0, 0);
    for seed in 0..number("MILLPOND_SEEDS").unwrap_or(300) {
        let Ok(report) = catch_unwind(|| run(seed)) else {
            panic!(
                "seed {seed} failed; replay: MILLPOND_SEED={seed} cargo test -p millpond-lab --test swarm"
            );
        };
        let s = report.stats;
        stalls += s.nr_vmscan_throttled_writeback;
        tagged += s.nr_vmscan_immediate_reclaim;
        paused += s.balance_dirty_pauses;
        failed += s.nr_write_failed;
        ahead += s.readahead_pages;
        direct += s.pgsteal_direct;
    }
    // A swarm that never comes near the rare cases checks nothing.
    println!(
        "stalls {stalls}, tagged {tagged}, pauses {paused}, failed writes {failed}, ahead {ahead}, direct {direct}"
    );
    for (what, n) in [
        ("stalls", stalls),
        ("tags", tagged),
        ("pauses", paused),
        ("failed writes", failed),
        ("read-ahead", ahead),
        ("direct reclaim", direct),
    ] {
        assert!(n > 0, "no world had {what}");
    }
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in [1, 2, 3] {
        let (a, b) = (run(seed), run(seed));
        assert_eq!((a.ended, a.stats), (b.ended, b.stats), "seed {seed}");
    }
}
