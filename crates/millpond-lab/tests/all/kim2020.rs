//! What Kim 2020 shows, as directions and bands. Each run is exact: the same figures every time.
//!
//! The lists of its two examples are held page by page beside them, in `experiment/kim2020/toys.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use millpond_lab::experiment::{Options, kim2020};
use millpond_lab::report::{Metric, Report};
use std::sync::LazyLock;

fn report(variants: &[&str], workloads: &[&str], device: &str, scale: f64) -> Report {
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    let options = Options {
        variants: names(variants),
        workloads: names(workloads),
        device: device.parse().unwrap(),
        scale: Some(scale),
        seed: 1,
        ..Options::default()
    };
    kim2020::run(&options, &mut ()).unwrap()
}

const ROUNDS: [&str; 6] = [
    "hot-cold",
    "moving-window",
    "phase-change",
    "stationary",
    "file-scan",
    "memory-scan",
];

static ON_ROUNDS: LazyLock<Report> = LazyLock::new(|| {
    let variants = [
        "base",
        "protect",
        "detect",
        "linux-5.5+anon-as-posted",
        "linux-5.8",
        "linux-5.9",
        "linux-7.0",
        "millpond",
    ];
    report(&variants, &ROUNDS, "real", 1.0)
});

fn of(report: &Report, workload: &str, variant: &str, metric: &str) -> f64 {
    let is_it = |m: &&Metric| m.workload == workload && m.variant == variant && m.metric == metric;
    report.metrics.iter().find(is_it).expect(metric).value
}

fn swap_ins(workload: &str, variant: &str) -> f64 {
    of(&ON_ROUNDS, workload, variant, "swap_ins_pages")
}

fn change_percent(before: f64, after: f64) -> f64 {
    100.0 * (after / before - 1.0)
}

#[test]
fn e5_with_the_series_the_seven_steps_swap_in_as_much_less_as_published() {
    let [base, protect, detect] = ["base", "protect", "detect"].map(|v| swap_ins("hot-cold", v));
    let change = change_percent(base, detect);
    assert!((-45.0..=-15.0).contains(&change), "{base} to {detect}: {change}");
    assert!((detect / 681_565.0 - 1.0).abs() < 0.02, "{detect}");
    assert_eq!(protect, 20.0 * 224.0 * 256.0, "all of it, in each round");
    let outs = |variant| of(&ON_ROUNDS, "hot-cold", variant, "swap_outs_pages");
    assert!(change_percent(outs("base"), outs("detect")) < -10.0);
}

#[test]
fn e5_what_landed_does_the_same() {
    let [before, after] = ["linux-5.8", "linux-5.9"].map(|v| swap_ins("hot-cold", v));
    let change = change_percent(before, after);
    assert!((-45.0..=-15.0).contains(&change), "{change}");
}

#[test]
fn e5_as_posted_detection_is_dead_on_5_5() {
    let posted = "linux-5.5+anon-as-posted";
    let activated = |v| of(&ON_ROUNDS, "hot-cold", v, "workingset_activate_anon");
    assert_eq!(activated(posted), 0.0);
    assert!(activated("detect") > 10_000.0);
    assert_eq!(swap_ins("hot-cold", posted), swap_ins("hot-cold", "protect"));
}

#[test]
fn detection_pays_when_what_is_hot_changes_and_does_no_harm_when_it_stays() {
    let [base, protect, detect] = ["base", "protect", "detect"].map(|v| swap_ins("phase-change", v));
    assert!(detect < protect && detect < base, "{base}, {protect}, {detect}");
    let [base, protect, detect] = ["base", "protect", "detect"].map(|v| swap_ins("stationary", v));
    assert!(protect < base, "{base}, {protect}");
    assert_eq!(protect, detect);
}

/// And it is on its way to the optimum: hot-cold least, where a hot set that is no longer used leaves the active list slowly.
#[test]
fn millponds_own_rule_swaps_in_less_than_the_kernel_on_every_load() {
    for workload in &ROUNDS {
        let (own, kernel) = (swap_ins(workload, "millpond"), swap_ins(workload, "linux-7.0"));
        let optimum = of(&ON_ROUNDS, workload, "bounds", "misses_optimum_pages");
        if kernel == 0.0 {
            assert_eq!(own, 0.0, "{workload}");
            continue;
        }
        assert!(own < kernel, "{workload}: {own}, the kernel {kernel}");
        assert!(own >= optimum, "{workload}: {own}, the optimum {optimum}");
        let way = (kernel - own) / (kernel - optimum);
        println!("{workload}: {own}, {way} of the way");
        assert!(way >= 0.2, "{workload}: {way} of the way");
    }
}

#[test]
fn no_kernel_is_better_than_the_optimum() {
    for workload in &ROUNDS[..4] {
        let optimum = of(&ON_ROUNDS, workload, "bounds", "misses_optimum_pages");
        assert!(of(&ON_ROUNDS, workload, "bounds", "misses_lru_pages") >= optimum);
        for variant in ["base", "protect", "detect", "linux-5.9"] {
            assert!(swap_ins(workload, variant) >= optimum, "{workload} on {variant}");
        }
    }
}

#[test]
fn a_file_that_is_read_once_pushes_out_no_memory_in_use() {
    for variant in ["base", "protect", "detect", "linux-5.8", "linux-5.9"] {
        assert_eq!(swap_ins("file-scan", variant), 0.0, "{variant}");
    }
}

#[test]
fn e6_what_fits_costs_nothing_and_what_does_not_is_read_less_with_protection() {
    let cells = ["ebizzy-512-0.7-1", "ebizzy-2048-1.3-1"];
    let report = report(&["base", "protect", "detect"], &cells, "real", 0.5);
    let rate = |cell, variant| of(&report, cell, variant, "records_per_s");
    let flat = change_percent(rate(cells[0], "base"), rate(cells[0], "detect"));
    assert!(flat.abs() < 1.0, "{flat}");
    for cell in &cells[1..] {
        let ins = |variant| of(&report, cell, variant, "swap_ins_per_record_pages");
        assert!(ins("protect") < ins("base"), "{cell}");
        assert!(ins("detect") < ins("base"), "{cell}");
        assert!(rate(cell, "protect") > rate(cell, "base"), "{cell}");
        let optimum = of(&report, cell, "bounds", "swap_ins_per_record_optimum_pages");
        assert!(ins("detect") > optimum, "{cell}");
    }
}

#[test]
fn the_same_seed_gives_the_same_report_and_another_one_does_not() {
    let cell = ["ebizzy-1024-0.9-8", "toy-detect"];
    let run = |seed| {
        let options = Options {
            variants: vec!["detect".into()],
            workloads: cell.map(String::from).to_vec(),
            scale: Some(0.05),
            seed,
            ..Options::default()
        };
        let report = kim2020::run(&options, &mut ()).unwrap();
        let mut bytes = Vec::new();
        millpond_lab::report::json::write(&report.metrics, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
