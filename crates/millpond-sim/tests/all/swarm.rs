//! The swarm: many small worlds, each drawn from one seed, all checks on.
//!
//! It goes on for some seconds of processor time, so that a faster simulator or machine tries more.
//!
//! `MILLPOND_SEED=n cargo test -p millpond-sim --test all swarm::` replays one world; `MILLPOND_SEEDS=n` runs n of them.

use millpond_sim::pressure::{self, Pressure, PressureReport};
use millpond_sim::swarm::run;
use millpond_sim::{Coverage, Seen};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{RefUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Worlds that are run at least if it is not said how many, and for how long this goes on: processor time of all threads.
/// Each rare case is among the first worlds; the later ones search for unforeseen ones.
const WORLDS: Worlds = Worlds {
    least: 300,
    budget: Duration::from_secs(5),
};

/// Counters of regions, which the swarm's worlds don't have; the tests of regions move them.
const REGIONS: [&str; 5] = ["pswpin", "swap_ra", "pswpout", "pglazyfreed", "pswpout_failed"];
/// Worlds under memory pressure.
const PRESSURES: Worlds = Worlds {
    least: 500,
    budget: Duration::from_secs(5),
};

/// The number of worlds to run.
#[derive(Clone, Copy)]
struct Worlds {
    least: u64,
    budget: Duration,
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value}: a number is needed")),
    )
}

/// Runs worlds, as many as `MILLPOND_SEEDS` says or else as `worlds` does, from the seed `MILLPOND_FIRST_SEED` on, on as many
/// threads as there are processors, and hands over the reports in the order in which they end. How many it were, if they are
/// enough to say that each rare case must be among them: those from seed 0 on are the same everywhere.
///
/// # Panics
/// If a world does: with the command that replays the lowest of those that failed.
#[allow(clippy::print_stdout, reason = "a test says what it has tried")]
fn for_seeds<R: Send>(
    test: &str,
    worlds: Worlds,
    run: impl Fn(u64) -> R + Sync + RefUnwindSafe,
    mut each: impl FnMut(R) + Send,
) -> Option<u64> {
    let first = number("MILLPOND_FIRST_SEED").unwrap_or(0);
    let asked = number("MILLPOND_SEEDS");
    let least = first.saturating_add(asked.unwrap_or(worlds.least));
    let (next, failed) = (AtomicU64::new(first), AtomicU64::new(u64::MAX));
    let (done, spent) = (AtomicU64::new(0), AtomicU64::new(0));
    let each = Mutex::new(&mut each);
    let goes_on = |seed| {
        let has_time = asked.is_none() && u128::from(spent.load(Relaxed)) < worlds.budget.as_nanos();
        (seed < least || has_time) && seed < failed.load(Relaxed)
    };
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if !goes_on(seed) {
                return;
            }
            let began = thread_time();
            match catch_unwind(|| run(seed)) {
                Ok(report) => each.lock().unwrap_or_else(|e| e.into_inner())(report),
                Err(_) => drop(failed.fetch_min(seed, Relaxed)),
            }
            spent.fetch_add((thread_time() - began).as_nanos() as u64, Relaxed);
            done.fetch_add(1, Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (failed, done) = (failed.into_inner(), done.into_inner());
    assert!(
        failed == u64::MAX,
        "seed {failed} failed; replay: MILLPOND_SEED={failed} cargo test -p millpond-sim --test all swarm::{test}"
    );
    let spent = Duration::from_nanos(spent.into_inner()).as_secs_f64();
    println!("{done} worlds from seed {first} on, in {spent:.1} s of the processor");
    (first == 0 && done >= worlds.least).then_some(done)
}

#[test]
fn no_world_of_the_swarm_loses_a_write_or_stops() {
    if let Some(seed) = number("MILLPOND_SEED") {
        println!("{:?}", run(seed));
        return;
    }
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
    let enough = for_seeds(test, WORLDS, run, |report| {
        coverage.add(&report.coverage);
        let s = report.stats;
        s.for_each(|counter, reason, n| {
            let reason = reason.map_or("", |reason| reason.name());
            *every.entry((counter.name, reason)).or_insert(0) += n;
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
    println!("{}", words.join(", "));
    let Some(worlds) = enough else { return };
    // A swarm that never comes near the rare cases checks nothing.
    for (name, n) in all {
        assert!(n > 0, "no world of {worlds} had {name}");
    }
    // A counter that nothing moves is useless as well.
    for ((name, reason), n) in every {
        let is_of_regions = REGIONS.contains(&name) || reason == "swap";
        assert!((n == 0) == is_of_regions, "{name} {reason} is {n}");
    }
}

/// Dillon 2000's low-memory deadlock, in every form that a pool can have.
#[test]
fn under_pressure_an_allocation_waits_or_fails_as_it_should_and_no_process_stops() {
    if let Some(seed) = number("MILLPOND_SEED") {
        println!("{:?}", pressure::run(seed));
        return;
    }
    let mut by_pressure: BTreeMap<Pressure, Vec<PressureReport>> = BTreeMap::new();
    let test = "under_pressure";
    let enough = for_seeds(test, PRESSURES, pressure::run, |report| {
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
        if enough.is_none() {
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
