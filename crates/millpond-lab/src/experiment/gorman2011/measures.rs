//! The metrics of a run, those of the post's tables.

use crate::measure::reclaim::{Scans, spread};
use crate::outcome::Outcome;
use millpond_core::page::PageKind;
use millpond_core::reclaim::trace::Caller;
use millpond_core::stats::Stats;
use millpond_core::units::Nanos;
use millpond_kernels::linux::reclaim::machine::{FILES, Ran, Round, Waits};

fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e9
}

fn rounds(rounds: &[Round], outcome: &mut Outcome) {
    let rates: Vec<f64> = rounds
        .iter()
        .map(|round| f64::from(FILES) / seconds(round.took))
        .collect();
    let overheads: Vec<f64> = rounds.iter().map(|round| seconds(round.overhead) * 1e6).collect();
    spread(outcome, "files_per_s", "1/s", &rates);
    spread(outcome, "overhead_us", "us", &overheads);
}

/// The outcome of a run on the machine of the time.
pub(super) fn of_linux(ran: &Ran) -> Outcome {
    let mut outcome = Outcome::default();
    let counters = &ran.counters;
    let (kswapd, direct) = (Caller::Kswapd as usize, Caller::Direct as usize);
    let (file, anonymous) = (PageKind::File as usize, PageKind::Anonymous as usize);
    let elapsed = seconds(ran.elapsed);
    rounds(&ran.rounds, &mut outcome);
    let user_sys = seconds(ran.cpu[0]);
    outcome.push("user_sys_seconds", "s", user_sys);
    outcome.push("elapsed_seconds", "s", elapsed);
    outcome.push("pgpgin_kib", "KiB", counters.pgpgin_kib as f64);
    outcome.push("pgpgout_kib", "KiB", counters.pgpgout_kib as f64);
    outcome.push("pswpin", "1", counters.pswpin as f64);
    outcome.push("pswpout", "1", counters.pswpout as f64);
    let scans = Scans {
        scan: [counters.pgscan_kswapd, counters.pgscan_direct],
        steal: [counters.pgsteal_kswapd, counters.pgsteal_direct],
    };
    scans.report(elapsed, &mut outcome);
    let writes = |caller: usize, kind: usize| counters.writes[caller][kind];
    let all: u64 = counters.writes.iter().flatten().sum();
    let files = writes(kswapd, file) + writes(direct, file);
    let scanned = (counters.pgscan_kswapd + counters.pgscan_direct).max(1) as f64;
    outcome.counts(&[
        ("nr_vmscan_write", all),
        ("nr_vmscan_write_skip", counters.nr_vmscan_write_skip),
        (
            "nr_vmscan_immediate_reclaim",
            counters.nr_vmscan_immediate_reclaim,
        ),
        ("nr_vmscan_throttled", counters.nr_vmscan_throttled),
        (
            "kswapd_skip_congestion_wait",
            counters.kswapd_skip_congestion_wait,
        ),
        ("direct_reclaims", counters.direct_reclaims),
        ("direct_write_file", writes(direct, file)),
        ("direct_write_anon", writes(direct, anonymous)),
        ("kswapd_write_file", writes(kswapd, file)),
        ("kswapd_write_anon", writes(kswapd, anonymous)),
        ("write_sync", 0),
        ("kswapd_wake_requests", counters.kswapd_wake_requests),
        ("kswapd_wakeups", counters.kswapd_wakeups),
    ]);
    let (stall, awake) = (seconds(counters.direct_stall), seconds(counters.kswapd_awake));
    outcome.push("direct_stall_seconds", "s", stall);
    outcome.push("kswapd_awake_seconds", "s", awake);
    outcome.push("written_percent", "%", 100.0 * all as f64 / scanned);
    outcome.push("file_written_percent", "%", 100.0 * files as f64 / scanned);
    outcome.push("direct_time_percent", "%", 100.0 * stall / (stall + user_sys));
    outcome.push("kswapd_awake_percent", "%", 100.0 * awake / elapsed);
    for (who, caller) in [("direct", direct), ("kswapd", kswapd)] {
        waits(&format!("{who}_congest"), &counters.congest[caller], &mut outcome);
        waits(
            &format!("{who}_conditional"),
            &counters.conditional[caller],
            &mut outcome,
        );
    }
    outcome.push(
        "kswapd_write_waits_seconds",
        "s",
        seconds(counters.kswapd_request_waits.time),
    );
    outcome.push("dirtiers_stall_seconds", "s", seconds(counters.dirtiers_stall));
    outcome
}

fn waits(name: &str, waits: &Waits, outcome: &mut Outcome) {
    outcome.push(&format!("{name}_number"), "1", waits.number as f64);
    outcome.push(&format!("{name}_ms"), "ms", waits.time.0 as f64 / 1e6);
    outcome.push(&format!("{name}_full"), "1", waits.full as f64);
}

/// The outcome of a run of Millpond's manager, which has no swap and no sleeps of these kinds: what it does not count is
/// left out.
pub(super) fn of_millpond(stats: &Stats, elapsed: Nanos, took: &[Nanos]) -> Outcome {
    let mut outcome = Outcome::default();
    let rates: Vec<f64> = took.iter().map(|&t| f64::from(FILES) / seconds(t)).collect();
    spread(&mut outcome, "files_per_s", "1/s", &rates);
    let elapsed = seconds(elapsed);
    outcome.push("elapsed_seconds", "s", elapsed);
    outcome.push("pgpgout_kib", "KiB", stats.nr_written as f64 * 4.0);
    let scans = Scans {
        scan: [stats.pgscan_kswapd, stats.pgscan_direct],
        steal: [stats.pgsteal_kswapd, stats.pgsteal_direct],
    };
    scans.report(elapsed, &mut outcome);
    outcome.counts(&[
        ("nr_vmscan_write", stats.nr_vmscan_write),
        ("kswapd_write_file", stats.nr_vmscan_write),
        ("direct_write_file", stats.nr_vmscan_write),
        ("nr_vmscan_immediate_reclaim", stats.nr_vmscan_immediate_reclaim),
        (
            "nr_vmscan_throttled",
            stats.nr_vmscan_throttled_writeback + stats.nr_vmscan_throttled_noprogress,
        ),
        ("direct_reclaims", stats.allocstall),
    ]);
    outcome
}
