//! The metrics of a run in virtual time.

use crate::outcome::Outcome;
use crate::workload::dillon2000::news::{Seconds, mean_and_variation, news, push_latencies};
use millpond_kernels::freebsd::machine::{Ran, Streamed, Stuck};

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
    outcome.counts(&[
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
    ]);
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
    outcome.counts(&[
        ("deadlocks", u64::from(ran.at.is_some())),
        ("free_frames", ran.available),
        ("dirty_pages", ran.dirty),
        ("clusters_written", ran.clusters),
        ("rounds_finished", ran.rounds),
    ]);
    outcome
}
