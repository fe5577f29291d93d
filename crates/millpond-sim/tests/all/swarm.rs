//! The swarm: many small worlds, each drawn from one seed, all checks on.
//!
//! `MILLPOND_SEED=n cargo test -p millpond-sim --test all swarm::` replays one world; `MILLPOND_SEEDS=n` runs n of them.

use millpond_sim::pressure::{self, Pressure, PressureReport};
use millpond_sim::swarm::run;
use millpond_sim::{Coverage, Seen};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{RefUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// Worlds that are run if it is not said how many.
const SEEDS: u64 = 600;

/// Counters of regions, which the swarm's worlds don't have; the tests of regions move them.
const REGIONS: [&str; 5] = ["pswpin", "swap_ra", "pswpout", "pglazyfreed", "pswpout_failed"];
/// Worlds under memory pressure.
const PRESSURES: u64 = 1000;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value}: a number is needed")),
    )
}

/// Runs the worlds of all seeds below `seeds`, on as many threads as there are processors, and hands over the reports
/// in the order in which they end.
///
/// # Panics
/// If a world does: with the command that replays the lowest of those that failed.
fn for_seeds<R: Send>(
    test: &str,
    seeds: u64,
    run: impl Fn(u64) -> R + Sync + RefUnwindSafe,
    mut each: impl FnMut(u64, R) + Send,
) {
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let each = Mutex::new(&mut each);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.min(failed.load(Relaxed)) {
                return;
            }
            match catch_unwind(|| run(seed)) {
                Ok(report) => each.lock().unwrap_or_else(|e| e.into_inner())(seed, report),
                Err(_) => drop(failed.fetch_min(seed, Relaxed)),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner();
    assert!(
        failed == u64::MAX,
        "seed {failed} failed; replay: MILLPOND_SEED={failed} cargo test -p millpond-sim --test all swarm::{test}"
    );
}

#[test]
fn no_world_of_the_swarm_loses_a_write_or_stops() {
    if let Some(seed) = number("MILLPOND_SEED") {
        println!("{:?}", run(seed));
        return;
    }
    let seeds = number("MILLPOND_SEEDS").unwrap_or(SEEDS);
    let mut coverage = Coverage::default();
    let mut counters = [
        ("stalls", 0),
        ("tagged", 0),
        ("pauses", 0),
        ("failed writes", 0),
        ("read ahead", 0),
        ("direct reclaim", 0),
    ];
    let mut every = BTreeMap::new();
    let test = "no_world_of_the_swarm_loses_a_write_or_stops";
    for_seeds(test, seeds, run, |_, report| {
        coverage.add(&report.coverage);
        let s = report.stats;
        s.for_each(|name, reason, n| {
            let reason = reason.map_or("", |reason| reason.name());
            *every.entry((name, reason)).or_insert(0) += n;
        });
        let more = [
            s.nr_vmscan_throttled_writeback,
            s.nr_vmscan_immediate_reclaim,
            s.balance_dirty_pauses,
            s.nr_write_failed,
            s.readahead_pages,
            s.pgsteal_direct,
        ];
        counters
            .iter_mut()
            .zip(more)
            .for_each(|((_, n), more)| *n += more);
    });
    let seen = Seen::ALL.iter().map(|&what| (what.name(), coverage.of(what)));
    let all: Vec<_> = counters.into_iter().chain(seen).collect();
    let words: Vec<_> = all.iter().map(|(name, n)| format!("{name} {n}")).collect();
    println!("{seeds} worlds: {}", words.join(", "));
    // A swarm that never comes near the rare cases checks nothing.
    for (name, n) in all {
        assert!(n > 0 || seeds < SEEDS, "no world of {seeds} had {name}");
    }
    // Nor does a counter that nothing moves say anything.
    for ((name, reason), n) in every {
        let is_of_regions = REGIONS.contains(&name) || reason == "swap";
        assert!(
            (n == 0) == is_of_regions || seeds < SEEDS,
            "{name} {reason} is {n}"
        );
    }
}

/// Dillon 2000's low-memory deadlock, in every form that a pool can have.
#[test]
fn under_pressure_an_allocation_waits_or_fails_as_it_should_and_no_process_stops() {
    if let Some(seed) = number("MILLPOND_SEED") {
        println!("{:?}", pressure::run(seed));
        return;
    }
    let seeds = number("MILLPOND_SEEDS").unwrap_or(PRESSURES);
    let mut by_pressure: BTreeMap<Pressure, Vec<PressureReport>> = BTreeMap::new();
    let test = "under_pressure";
    for_seeds(test, seeds, pressure::run, |_, report| {
        by_pressure.entry(report.pressure).or_default().push(report);
    });
    for (pressure, reports) in by_pressure {
        let with = |f: &dyn Fn(&PressureReport) -> bool| reports.iter().filter(|r| f(r)).count();
        let sum = |f: &dyn Fn(&PressureReport) -> u64| reports.iter().map(f).sum::<u64>();
        let worlds = reports.len();
        let full = with(&|r| r.unclean_permille_max >= 1000);
        let held = with(&|r| r.held_permille_max >= 500);
        let waited = with(&|r| r.world.stats.nr_vmscan_throttled_writeback > 0);
        let waits = sum(&|r| r.world.stats.nr_vmscan_throttled_writeback);
        let pauses = sum(&|r| r.world.stats.balance_dirty_pauses);
        let no_frames = sum(&|r| r.world.coverage.of(Seen::NoFrames));
        println!(
            "{pressure:?}: {worlds} worlds, all that may be dirty was in {full}, half of memory or more was held in {held}, \
             allocations waited in {waited} ({waits} times), dirtiers paused {pauses} times, \
             {no_frames} operations got no frames, none stopped"
        );
        if seeds < PRESSURES {
            continue;
        }
        let some = worlds / 2;
        assert!(full > some / 2, "{pressure:?}: full in {full}");
        // Half of memory stays clean when the other half can't be written.
        let is_short = pressure != Pressure::Broken;
        assert!(!is_short || waited > some, "{pressure:?}: waited in {waited}");
        let is_held = matches!(pressure, Pressure::Held | Pressure::Beyond);
        assert!((held > some) == is_held, "{pressure:?}: held in {held}");
        assert_eq!(
            no_frames > 0,
            pressure == Pressure::Beyond,
            "{pressure:?} and its errors"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let mut digests = BTreeSet::new();
    for seed in 0..20 {
        let (a, b) = (run(seed), run(seed));
        assert_eq!(a, b, "seed {seed}");
        digests.insert(a.digest);
    }
    assert_eq!(digests.len(), 20, "different seeds give different worlds");
}
