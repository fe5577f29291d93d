//! Dillon 2000's statements about its four systems, as directions and bands: four minutes of news after 150 s of
//! warming up.
//!
//! Each run is exact: the same figures every time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use millpond_core::units::Nanos;
use millpond_kernels::freebsd::System;
use millpond_kernels::freebsd::machine::{MachineOptions, Ran, run};
use std::sync::LazyLock;

const WARM_UP: Nanos = Nanos::from_secs(200);
const LENGTH: Nanos = Nanos::from_secs(240);

fn ran(options: MachineOptions) -> Ran {
    run(options, (WARM_UP, LENGTH), &mut |_| true).unwrap().unwrap()
}

static NEWS: LazyLock<Vec<(System, Ran)>> = LazyLock::new(|| {
    let runs =
        System::ALL.map(|system| std::thread::spawn(move || (system, ran(MachineOptions::new(system)))));
    runs.map(|run| run.join().unwrap()).into()
});

fn of(system: System) -> &'static Ran {
    &NEWS.iter().find(|(s, _)| *s == system).unwrap().1
}

/// Means of each five seconds of what is measured.
fn bins(ran: &Ran, values: &[u64], factor: f64) -> Vec<f64> {
    let (from, to) = (
        (ran.from.0 / 1_000_000_000) as usize,
        (ran.to.0 / 1_000_000_000) as usize,
    );
    let seconds: Vec<f64> = (from..to)
        .map(|n| values.get(n).copied().unwrap_or(0) as f64 * factor)
        .collect();
    seconds
        .chunks_exact(5)
        .map(|bin| bin.iter().sum::<f64>() / 5.0)
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    (squares / values.len() as f64).sqrt() / mean
}

fn load(system: System) -> f64 {
    let ran = of(system);
    mean(&bins(ran, &ran.noted.blocked, 1e-9))
}

fn pageouts(system: System) -> Vec<f64> {
    let ran = of(system);
    bins(ran, &ran.noted.pageouts, 1.0)
}

#[test]
fn in_queue_order_the_load_is_25_times_that_of_two_laps() {
    let (order, laps) = (load(System::FreeBsdStable), load(System::FreeBsdPatches));
    assert!((50.0..150.0).contains(&order), "the post: 50 to 150; {order}");
    assert!(laps < 3.0, "the post: 1 to 2; {laps}");
    assert!(order >= 25.0 * laps, "{order} {laps}");
}

#[test]
fn clean_pages_first_keeps_the_load_low_and_writes_in_bursts() {
    let load = load(System::FreeBsd4_2);
    assert!((1.0..2.0).contains(&load), "the post: 1 to 2; {load}");
    let (first, laps) = (
        variation(&pageouts(System::FreeBsd4_2)),
        variation(&pageouts(System::FreeBsdPatches)),
    );
    assert!(first >= 3.0 * laps, "{first} {laps}");
    assert!(laps < 0.2, "very consistent: {laps}");
}

#[test]
fn a_second_lap_rescues_dirty_pages_and_so_saves_writes() {
    let (order, laps) = (of(System::FreeBsdStable), of(System::FreeBsdPatches));
    assert!(laps.counters.rescued > 10_000, "{:?}", laps.counters);
    assert_eq!(order.counters.rescued, 0, "there are no laps in queue order");
    assert!(
        laps.counters.pageouts * 2 < order.counters.pageouts,
        "{:?}",
        laps.counters
    );
    assert!(laps.counters.swapped_in < order.counters.swapped_in);
}

#[test]
fn a_limited_order_is_between_the_two() {
    let limited = load(System::FreeBsd4_0);
    assert!(
        limited > load(System::FreeBsdPatches) && limited < load(System::FreeBsdStable),
        "{limited}"
    );
}

#[test]
fn normal_operation_keeps_the_disk_70_to_90_percent_busy() {
    let disk = of(System::FreeBsdPatches).disk;
    let busy = disk.busy_time.0 as f64 / disk.span.0 as f64;
    assert!((0.7..0.9).contains(&busy), "{busy}");
    let per_s = disk.bytes_read.0 as f64 / 1e6 / (disk.span.0 as f64 / 1e9);
    assert!((8.0..8.5).contains(&per_s), "{per_s} MB/s");
}

#[test]
fn the_later_rule_writes_least() {
    let modern = of(System::FreeBsd13);
    assert!(load(System::FreeBsd13) <= load(System::FreeBsdPatches));
    assert!(modern.counters.pageouts < of(System::FreeBsdPatches).counters.pageouts);
}

/// The load of a rule with another budget.
fn load_with_budget(system: System, clusters_max: u32) -> f64 {
    let mut options = MachineOptions::new(system);
    options.rules.clusters_max = clusters_max;
    let ran = ran(options);
    mean(&bins(&ran, &ran.noted.blocked, 1e-9))
}

/// The post: "Limiting the number of dirty page flushes allowed per pass also works".
#[test]
fn a_small_budget_keeps_the_load_low_without_laps_as_well() {
    let order = load_with_budget(System::FreeBsdStable, 32);
    assert!(order * 10.0 < load(System::FreeBsdStable), "{order}");
}

#[test]
fn without_a_budget_laps_still_help_but_do_not_suffice() {
    let laps = load_with_budget(System::FreeBsdPatches, 10_000);
    assert!(laps < load(System::FreeBsdStable), "{laps}");
    assert!(laps > 10.0 * load(System::FreeBsdPatches), "{laps}");
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_seed_others() {
    let of_seed = |seed| {
        let options = MachineOptions {
            seed,
            ..MachineOptions::new(System::FreeBsdPatches)
        };
        let ran = ran(options);
        (ran.counters, ran.noted)
    };
    let first = of(System::FreeBsdPatches);
    assert!(of_seed(1) == (first.counters.clone(), first.noted.clone()));
    assert!(of_seed(2).0 != first.counters);
}
