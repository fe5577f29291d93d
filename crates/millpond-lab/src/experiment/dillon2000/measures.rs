//! What a run of the news measured, by name.

use crate::outcome::{Outcome, Series};
use millpond_core::units::Nanos;
use millpond_kernels::freebsd::machine::{Ran, Streamed, Stuck};

/// Pageouts are looked at over so many seconds, as one who looks at `vmstat 5` sees them.
pub(super) const BIN_S: usize = 5;

/// What is noted each second, of the part that is measured.
pub(crate) struct Seconds {
    /// Mean number of readers that waited.
    pub(crate) load: Vec<f64>,
    /// Pages written.
    pub(crate) pageouts: Vec<f64>,
}

/// Mean and coefficient of variation.
fn mean_and_variation(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt();
    (mean, (mean > 0.0).then(|| deviation / mean))
}

/// Means of each so many seconds.
fn binned(seconds: &[f64], bin: usize) -> Vec<f64> {
    let bins = seconds.chunks_exact(bin);
    bins.map(|values| values.iter().sum::<f64>() / bin as f64)
        .collect()
}

fn series(name: &str, unit: &str, values: &[f64], bin: usize) -> Series {
    Series {
        name: name.into(),
        unit: unit.into(),
        step_s: bin as f64,
        values: values.iter().map(|&value| Some(value)).collect(),
    }
}

/// What every row of the news has.
pub(crate) fn news(seconds: &Seconds, mut latencies: Vec<Nanos>, busy_percent: Option<f64>) -> Outcome {
    let mut outcome = Outcome::default();
    // Each second of a run that has few.
    let bin = if seconds.load.len() < 2 * BIN_S { 1 } else { BIN_S };
    let (load, pageouts) = (binned(&seconds.load, bin), binned(&seconds.pageouts, bin));
    let (mean, variation) = mean_and_variation(&load);
    outcome.push("load_mean", "1", mean);
    outcome.push("load_max", "1", load.iter().copied().fold(0.0, f64::max));
    if let Some(variation) = variation {
        outcome.push("load_variation", "1", variation);
    }
    let length = seconds.load.len().max(1) as f64;
    outcome.push("articles_per_s", "1/s", latencies.len() as f64 / length);
    push_latencies("article_latency", &mut latencies, &mut outcome);
    let (mean, variation) = mean_and_variation(&pageouts);
    outcome.push("pageouts_per_s", "1/s", mean);
    if let Some(variation) = variation {
        outcome.push("pageouts_variation", "1", variation);
    }
    if let Some(busy) = busy_percent {
        outcome.push("disk_busy_percent", "%", busy);
    }
    outcome.series.push(series("load", "1", &load, bin));
    outcome
        .series
        .push(series("pageouts_per_s", "1/s", &pageouts, bin));
    outcome
}

/// Percentiles by nearest rank.
fn push_latencies(name: &str, latencies: &mut [Nanos], outcome: &mut Outcome) {
    latencies.sort_unstable();
    let Some(last) = latencies.len().checked_sub(1) else {
        return;
    };
    for (share, percentile) in [(0.5, "p50"), (0.99, "p99"), (1.0, "max")] {
        let rank = (share * latencies.len() as f64).ceil() as usize;
        let us = latencies[rank.clamp(1, last + 1) - 1].0 as f64 / 1e3;
        outcome.push(&format!("{name}_{percentile}_us"), "us", us);
    }
}

/// The outcome of a run of a FreeBSD.
pub(super) fn of_bsd(ran: &Ran) -> Outcome {
    let (from, to) = (
        (ran.from.0 / 1_000_000_000) as usize,
        (ran.to.0 / 1_000_000_000) as usize,
    );
    let second = |values: &[u64], factor: f64| -> Vec<f64> {
        let at = |n| values.get(n).copied().unwrap_or(0) as f64 * factor;
        (from..to).map(at).collect()
    };
    let seconds = Seconds {
        load: second(&ran.noted.blocked, 1e-9),
        pageouts: second(&ran.noted.pageouts, 1.0),
    };
    let measured = ran.noted.latencies.iter().filter(|(at, _)| *at >= ran.from);
    let latencies = measured.map(|&(_, took)| took).collect();
    let busy = 100.0 * ran.disk.busy_time.0 as f64 / ran.disk.span.0.max(1) as f64;
    let mut outcome = news(&seconds, latencies, Some(busy));
    let counters = &ran.counters;
    let length = (to - from) as f64;
    for (name, value) in [
        ("pageout_clusters_per_s", counters.clusters),
        ("swapins_per_s", counters.swapped_in),
        ("history_reads_per_s", counters.history_read),
        ("deactivations_per_s", counters.deactivated),
        ("reactivations_per_s", counters.reactivated),
    ] {
        outcome.push(name, "1/s", value as f64 / length);
    }
    for (name, value) in [
        ("pageouts", counters.pageouts),
        ("rescued_dirty_pages", counters.rescued),
        ("laps_marked", counters.laps),
        ("pages_freed", counters.freed),
        ("scans", counters.scans),
        ("scans_in_later_passes", counters.scans_pass_1),
        ("second_looks", counters.second_looks),
        ("daemon_waits_for_swap", counters.daemon_waits),
        ("waits_for_memory", counters.memory_waits),
        ("waits_for_written_pages", counters.write_waits),
    ] {
        outcome.push(name, "1", value as f64);
    }
    outcome
}

/// The outcome of one writer among readers.
pub(super) fn of_stream(ran: &Streamed) -> Outcome {
    let mut outcome = Outcome::default();
    let length = ran.disk.span.0 as f64 / 1e9;
    outcome.push("in_transit_max_kib", "KiB", ran.in_transit_max as f64 / 1024.0);
    outcome.push("in_transit_mean_kib", "KiB", ran.in_transit_mean / 1024.0);
    outcome.push("written_mb_per_s", "MB/s", ran.written as f64 / 1e6 / length);
    outcome.push("articles_per_s", "1/s", ran.latencies.len() as f64 / length);
    push_latencies("article_latency", &mut ran.latencies.clone(), &mut outcome);
    let (mean, variation) = mean_and_variation(&ran.load);
    outcome.push("load_mean", "1", mean);
    outcome.push("load_max", "1", ran.load.iter().copied().fold(0.0, f64::max));
    if let Some(variation) = variation {
        outcome.push("load_variation", "1", variation);
    }
    outcome
}

/// The outcome of memory that is nothing but dirty.
pub(super) fn of_stuck(ran: &Stuck) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.push("deadlocks", "1", f64::from(ran.at.is_some()));
    outcome.push("free_frames", "1", ran.available as f64);
    outcome.push("dirty_pages", "1", ran.dirty as f64);
    outcome.push("clusters_written", "1", ran.clusters as f64);
    outcome.push("rounds_finished", "1", ran.rounds as f64);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_deviation_by_mean_over_five_seconds() {
        let seconds = Seconds {
            load: vec![1.0; 20],
            pageouts: [10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 30.0].repeat(2),
        };
        let outcome = news(&seconds, vec![Nanos(3000), Nanos(1000)], Some(75.0));
        let of = |name| outcome.value(name).unwrap();
        assert_eq!((of("load_mean"), of("load_variation")), (1.0, 0.0));
        assert_eq!((of("pageouts_per_s"), of("pageouts_variation")), (4.0, 0.5));
        assert_eq!(
            (of("article_latency_p50_us"), of("article_latency_p99_us")),
            (1.0, 3.0)
        );
        assert_eq!(of("articles_per_s"), 0.1);
    }
}
