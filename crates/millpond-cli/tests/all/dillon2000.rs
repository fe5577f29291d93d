//! dillon2000 as a user meets it: a rule in virtual time, and the news on real files as small as they can be.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::support::experiment::{Ran, assert_says, value};
use crate::support::{experiment, scratch, testbed_turn};
use serde_json::Value;
use std::path::Path;

fn run(line: &str, dir: &Path) -> Option<Ran> {
    let ran = experiment::run(&format!("{line} --scale 0.01"), dir)?;
    let plot = "How many readers waited, over time (news on real files";
    assert!(ran.page.contains(plot));
    Some(ran)
}

/// The metrics of both targets.
fn check(metrics: &[Value], target: &str) {
    for load in ["news", "saturated"] {
        let of = |metric| value(metrics, target, load, metric);
        assert!(
            of("articles_per_s").is_some_and(|rate| rate > 0.0),
            "{load} on {target}"
        );
        for metric in [
            "load_mean",
            "load_max",
            "article_latency_p50_us",
            "article_latency_p99_us",
            "pageouts_per_s",
            "pgscan",
        ] {
            assert!(of(metric).is_some(), "{load} on {target}: {metric} is missing");
        }
    }
}

#[test]
fn on_real_files_the_engine_serves_the_news_and_reclaim_writes_nothing() {
    let dir = scratch();
    let Some(Ran { said, metrics, .. }) = run("lab run dillon2000 --on engine", dir.path()) else {
        return;
    };
    assert_says(
        &said,
        &[
            "news on real files: 6 readers take 96 KiB of 40 MiB every 6.75 s or so",
            "saturated on real files: 64 readers take 16 KiB of 30 MiB one after the other and change 4 pages of 3 MiB",
        ],
    );
    check(&metrics, "engine");
    let written = value(&metrics, "engine", "saturated", "file_pages_written_by_reclaim");
    assert_eq!(written, Some(0.0));
}

#[test]
fn the_kernel_serves_them_in_a_memory_group_and_on_the_modelled_disk() {
    for device in ["real", "hdd"] {
        let _turn = (device == "hdd").then(testbed_turn);
        let dir = scratch();
        let line = format!("lab run dillon2000 --on kernel,engine --device {device}");
        let Some(Ran { said, metrics, .. }) = run(&line, dir.path()) else {
            continue;
        };
        check(&metrics, "kernel");
        check(&metrics, "engine");
        assert_says(&said, &[" -> Millpond: "]);
    }
}
