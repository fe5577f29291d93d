//! The links that reports print name the runs that were made: the page's numbers at that moment are the report's.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use millpond_core::units::Instant;
use millpond_lab::experiment::{Options, axboe2016, dillon2000, gorman2011, hills2015};
use millpond_lab::report::{Metric, Report};
use millpond_worlds::column::Column;
use millpond_worlds::link::Link;

/// The link that a report prints.
fn link(report: &Report) -> Link {
    let note = report
        .notes
        .iter()
        .find_map(|note| note.split_once("millpond playground '"));
    let (_, behind) = note.expect("a report of runs in virtual time prints a link");
    Link::parse(behind.trim_end_matches('\'')).unwrap()
}

/// A system of the scene at the moment of the link.
fn column(link: &Link, number: usize) -> Column {
    let mut column = Column::begin(link, number).unwrap();
    column.run(Instant(link.at), u64::MAX);
    column
}

fn metric(report: &Report, workload: &str, variant: &str, name: &str) -> f64 {
    let is_it =
        |m: &&Metric| m.workload == workload && m.variant == variant && m.metric == name && m.target == "sim";
    report.metrics.iter().find(is_it).expect(name).value
}

/// All numbers that both have, to the bit.
fn assert_same(report: &Report, workload: &str, variant: &str, column: &Column, least: usize) {
    let of_run = |m: &&Metric| m.workload == workload && m.variant == variant && m.target == "sim";
    let mut compared = 0;
    for metric in report.metrics.iter().filter(of_run) {
        if let Some(figure) = column.figure(&metric.metric) {
            assert_eq!(
                figure.to_bits(),
                metric.value.to_bits(),
                "{variant}: {metric:?} and {figure}"
            );
            compared += 1;
        }
    }
    assert!(
        compared >= least,
        "{variant}: only {compared} numbers were compared"
    );
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).into()).collect()
}

#[test]
fn gorman_2011() {
    let options = Options {
        on: Some(names(&["sim"])),
        variants: names(&["throttle", "linux-7.0", "millpond"]),
        workloads: names(&["fs_mark"]),
        scale: Some(0.08),
        seed: 5,
        ..Options::default()
    };
    let report = gorman2011::run(&options, &mut ()).unwrap();
    let link = link(&report);
    assert_eq!((link.step("rule"), link.seed, link.scale), ("throttle", 5, 80));
    for (number, variant, least) in [(0, "throttle", 15), (1, "linux-7.0", 15), (2, "millpond", 10)] {
        // each ends at a time of its own
        let at = metric(&report, "fs_mark", variant, "elapsed_seconds") * 1e9 + 1.0;
        let link = Link {
            at: at as u64,
            ..link.clone()
        };
        assert_same(&report, "fs_mark", variant, &column(&link, number), least);
    }
}

#[test]
fn dillon_2000() {
    let options = Options {
        on: Some(names(&["sim"])),
        variants: names(&["queue-order", "two-laps"]),
        workloads: names(&["news"]),
        scale: Some(0.1),
        seed: 2,
        ..Options::default()
    };
    let report = dillon2000::run(&options, &mut ()).unwrap();
    let link = link(&report);
    assert_eq!(link.at, 360_000_000_000, "a warm-up of 300 s and a minute");
    for (number, variant) in [(0, "queue-order"), (1, "two-laps")] {
        let column = column(&link, number);
        for name in ["load_mean", "load_max", "pageouts_per_s"] {
            let value = metric(&report, "news", variant, name);
            assert_eq!(
                column.figure(name).unwrap().to_bits(),
                value.to_bits(),
                "{variant}: {name}"
            );
        }
    }
}

#[test]
fn hills_2015() {
    let options = Options {
        on: Some(names(&["sim"])),
        runs: 1,
        scale: Some(0.01),
        workloads: names(&["post-dd"]),
        ..Options::default()
    };
    let report = hills2015::run(&options, &mut ()).unwrap();
    let end = Link {
        at: 30_000_000_000,
        ..link(&report)
    };
    let column = column(&end, 0);
    for (of_report, of_page) in [
        ("boot_mb_per_s", "boot_mb_per_s"),
        ("20_again_mb_per_s", "20_again_mb_per_s"),
        ("21_mb_per_s", "touched_mb_per_s"),
        ("20_once_more_mb_per_s", "20_once_more_mb_per_s"),
    ] {
        let value = metric(&report, "post-dd", "bug404 hz=1000", of_report);
        assert_eq!(column.figure(of_page), Some(value), "{of_report}");
    }
}

#[test]
fn axboe_2016() {
    let options = Options {
        on: Some(names(&["sim"])),
        variants: names(&["off", "v3-10", "goal"]),
        runs: 1,
        scale: Some(0.05),
        seed: 3,
        workloads: names(&["writers-and-reader"]),
        ..Options::default()
    };
    let report = axboe2016::run(&options, &mut ()).unwrap();
    let end = Link {
        at: 60_000_000_000,
        ..link(&report)
    };
    assert_eq!((end.scale, end.step("wb_percent")), (50, "10"));
    for (number, variant) in [(0, "off"), (1, "v3-10"), (2, "goal")] {
        let value = metric(&report, "writers-and-reader", variant, "writers_seconds");
        assert_eq!(
            column(&end, number).figure("writers_seconds"),
            Some(value),
            "{variant}"
        );
    }
}
