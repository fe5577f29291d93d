//! Tables that virtual time makes exact, the same on every machine: those in the documents are what this build prints.
//!
//! ```text
//!   docs/experiments/NAME.md     title        a table of the page is found in the report by its title
//!                                sim vanilla  each of its rows in virtual time must be a row of the report's table
//!                                engine goal  measured on real files, not compared
//! ```
//!
//! A change of behavior is so one of the page, too: run the command that the page names, and copy the rows. Millpond's own
//! rows are compared here in seconds. The kernels' take minutes: `-- --ignored`, each night.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use millpond::internal::quantity::number;
use millpond_lab::experiment::{Options, axboe2016, dillon2000, gorman2011, hills2015, kim2020};
use millpond_lab::report::{Metric, Report, table};

const HILLS: &str = include_str!("../../../../docs/experiments/hills2015.md");
const AXBOE: &str = include_str!("../../../../docs/experiments/axboe2016.md");
const GORMAN: &str = include_str!("../../../../docs/experiments/gorman2011.md");
const DILLON: &str = include_str!("../../../../docs/experiments/dillon2000.md");
const KIM: &str = include_str!("../../../../docs/experiments/kim2020.md");
const KERNELS: &str = include_str!("../../../../docs/decisions/0007-kernels-of-the-past.md");
const RECLAIM: &str = include_str!("../../../../docs/decisions/0009-reclaim.md");

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines below `title`, up to an empty one or the end of the block, with one space between words.
fn below(text: &str, title: &str) -> Option<Vec<String>> {
    let mut lines = text.lines().skip_while(|line| line.trim() != title).skip(1);
    let ends = |line: &&str| !line.trim().is_empty() && !line.starts_with("```");
    let found: Vec<String> = lines.by_ref().take_while(ends).map(words).collect();
    (!found.is_empty()).then_some(found)
}

/// Each row below these titles of the page that begins with one of `rows` is one of the report. There is at least one.
fn compare(page: &str, report: &Report, titles: &[&str], rows: &[&str]) {
    let text = table::text(report);
    let mut wrong = String::new();
    for title in titles {
        let told = below(page, title).unwrap_or_else(|| panic!("the page has no table \"{title}\""));
        let printed =
            below(&text, title).unwrap_or_else(|| panic!("no table \"{title}\" is printed:\n{text}"));
        let told: Vec<_> = told
            .iter()
            .filter(|line| rows.iter().any(|row| line.starts_with(row)))
            .collect();
        assert!(!told.is_empty(), "\"{title}\" of the page has none of {rows:?}");
        if let Some(row) = told.iter().find(|row| !printed.contains(row)) {
            wrong += &format!(
                "{title}\n  the page: {row}\n  this build:\n    {}\n",
                printed.join("\n    ")
            );
        }
    }
    assert!(
        wrong.is_empty(),
        "the page is not what this build prints; copy the rows, and read what the page says of them:\n{wrong}"
    );
}

/// The page has this line of figures.
fn has(page: &str, line: &str) {
    let page = words(page);
    assert!(
        page.contains(&words(line)),
        "this build says: {line}\nThe page has another line: write it there, and read what is said of it."
    );
}

fn value(report: &Report, workload: &str, variant: &str, metric: &str) -> f64 {
    let is_it = |m: &&Metric| m.workload == workload && m.variant == variant && m.metric == metric;
    let found = report.metrics.iter().find(is_it);
    found
        .unwrap_or_else(|| panic!("no {metric} of {variant} in {workload}"))
        .value
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.into()).collect()
}

#[test]
fn hills2015() {
    let options = Options {
        on: Some(names(&["sim"])),
        runs: 1,
        ..Options::default()
    };
    let report = hills2015::run(&options, &mut ()).unwrap();
    compare(
        HILLS,
        &report,
        &[
            "dd on the post's machine, virtual time, MB/s",
            "One writer under each limit: MB/s to the end of the sync",
            "The longest write of 1 MiB",
        ],
        &["sim ", "bug404,", "fixed,", "millpond,"],
    );
}

#[test]
fn axboe2016_on_the_posts_own_machine() {
    let options = Options {
        on: Some(names(&["sim"])),
        runs: 1,
        scale: Some(1.0),
        workloads: names(&["writers-and-reader"]),
        ..Options::default()
    };
    let report = axboe2016::run(&options, &mut ()).unwrap();
    let title = "Reader and writers together (in virtual time, the post's own machine)";
    compare(AXBOE, &report, &[title], &["sim "]);
}

const FS_MARK: &str = "fs_mark (in virtual time, on xfs)";

fn gorman(variants: &[&str]) -> Report {
    let options = Options {
        variants: names(variants),
        ..Options::default()
    };
    gorman2011::run(&options, &mut ()).unwrap()
}

/// Pages that reclaim looks at for each one that it frees, on fs_mark.
fn scanned(report: &Report, variant: &str) -> String {
    let freed_percent = value(report, "fs_mark", variant, "reclaimed_percent");
    format!("{:.2}", 100.0 / freed_percent)
}

#[test]
fn gorman2011_millpond() {
    let report = gorman(&["millpond"]);
    compare(GORMAN, &report, &[FS_MARK], &["sim millpond"]);
    let own = scanned(&report, "millpond");
    has(
        KERNELS,
        &format!("On fs_mark it scans {own} pages for each page freed;"),
    );
}

#[test]
#[ignore = "a minute: .ci/nightly runs it"]
fn gorman2011_all_kernels() {
    let report = gorman(&[]);
    compare(GORMAN, &report, &[FS_MARK], &["sim "]);
    let [before, series, last] = ["vanilla", "prioinode", "linux-7.0"].map(|v| scanned(&report, v));
    has(
        KERNELS,
        &format!("Linux 3.0 scans {before}, {series} with the series, and 7.0 {last}"),
    );
}

const NEWS: &str = "news (in virtual time)";

fn dillon(variants: &[&str], workloads: &[&str], scale: f64) -> Report {
    let options = Options {
        variants: names(variants),
        workloads: names(workloads),
        scale: Some(scale),
        ..Options::default()
    };
    dillon2000::run(&options, &mut ()).unwrap()
}

#[test]
fn dillon2000_millpond() {
    let report = dillon(&["millpond", "millpond-nosync"], &["news"], 1.0);
    compare(DILLON, &report, &[NEWS], &["sim millpond"]);
}

#[test]
fn decision_0009_what_decided() {
    let report = dillon(&["millpond", "millpond-nosync", "two-laps"], &["news"], 0.2);
    let of = |variant, metric| number(value(&report, "news", variant, metric));
    has(
        RECLAIM,
        &format!(
            "and while the pool has no clean ones | {} | {} | {} |",
            of("millpond", "load_mean"),
            of("millpond-nosync", "load_mean"),
            of("millpond-nosync", "pageouts_per_s"),
        ),
    );
    has(
        RECLAIM,
        &format!(
            "| two laps, for comparison | | {} | {} |",
            of("two-laps", "load_mean"),
            of("two-laps", "pageouts_per_s"),
        ),
    );
}

#[test]
#[ignore = "a minute: .ci/nightly runs it"]
fn dillon2000_all_rules() {
    compare(DILLON, &dillon(&[], &[], 1.0), &[NEWS], &["sim "]);
}

const ROUNDS: [&str; 6] = [
    "hot-cold",
    "moving-window",
    "phase-change",
    "stationary",
    "file-scan",
    "memory-scan",
];

fn kim(variants: &[&str], workloads: &[&str]) -> Report {
    let options = Options {
        variants: names(variants),
        workloads: names(workloads),
        ..Options::default()
    };
    kim2020::run(&options, &mut ()).unwrap()
}

/// The cells of the page's row for a load.
fn loads_row(load: &str) -> Vec<String> {
    let row = KIM.lines().find(|line| line.starts_with(&format!("| {load} |")));
    let cells = row.unwrap_or_else(|| panic!("no row {load}")).split('|');
    cells.map(|cell| cell.trim().into()).collect()
}

#[test]
fn kim2020_millpond() {
    let report = kim(&["millpond"], &ROUNDS);
    for load in ROUNDS {
        let own = value(&report, load, "millpond", "swap_ins_pages").to_string();
        assert_eq!(loads_row(load)[5], own, "{load}, Millpond's column");
    }
}

#[test]
#[ignore = "minutes: .ci/nightly runs it"]
fn kim2020_all_kernels() {
    let report = kim(&["base", "detect", "linux-7.0", "millpond"], &ROUNDS);
    for load in ROUNDS {
        let kernels =
            ["base", "detect", "linux-7.0", "millpond"].map(|v| value(&report, load, v, "swap_ins_pages"));
        let bounds = ["misses_lru_pages", "misses_optimum_pages"].map(|m| value(&report, load, "bounds", m));
        let printed: Vec<String> = kernels.iter().chain(&bounds).map(f64::to_string).collect();
        assert_eq!(loads_row(load)[2..8], printed, "{load}");
    }
    let cells = ["ebizzy-1280-0.7-1", "ebizzy-2048-0.1-1", "ebizzy-2048-1.3-1"];
    let report = kim(&["base", "detect", "millpond"], &cells);
    for cell in cells {
        let of = |variant, metric| number(value(&report, cell, variant, metric));
        let row = loads_row(cell);
        for (at, variant) in [(2, "base"), (3, "detect"), (5, "millpond")] {
            assert_eq!(
                row[at],
                of(variant, "swap_ins_per_record_pages"),
                "{cell}, {variant}"
            );
        }
        assert_eq!(row[6], of("bounds", "swap_ins_per_record_lru_pages"), "{cell}");
        assert_eq!(
            row[7],
            of("bounds", "swap_ins_per_record_optimum_pages"),
            "{cell}"
        );
    }
}
