//! The records of a run, and how they become metrics and series.

use super::{Axboe2016, Run};
use crate::measure::heat::Counts;
use crate::measure::latency::{FIO_PERCENTILES, Latencies, PERCENTILES};
use crate::measure::process;
use crate::measure::steps::{LatencySteps, STEP, Sampled, Sums};
use crate::outcome::{Outcome, Series};
use crate::storage::Served;
use std::time::Duration;

/// The readers' observations.
#[derive(Default)]
pub(crate) struct Read {
    misses: Latencies,
    hits: Latencies,
    latency_steps: LatencySteps,
    count_steps: Sums,
    pub(crate) last_end: Duration,
}

impl Read {
    /// A read under way from `from` to `to`, as far as that is after the beginning.
    pub(crate) fn add(&mut self, from: Duration, to: Duration, latency: Duration, served: Served) {
        self.count_steps.add(to, 1);
        self.last_end = to;
        if served == Served::Memory {
            self.hits.record(latency);
        } else {
            self.misses.record(latency);
            self.latency_steps.add(from, to, latency);
        }
    }

    pub(super) fn merge(&mut self, other: &Read) {
        self.misses.merge(&other.misses);
        self.hits.merge(&other.hits);
        self.latency_steps.merge(&other.latency_steps);
        self.count_steps.merge(&other.count_steps);
        self.last_end = self.last_end.max(other.last_end);
    }

    pub(crate) fn report(&self, length: Duration, steps: usize, outcome: &mut Outcome) {
        let (hits, misses) = (self.hits.count(), self.misses.count());
        let reads = hits + misses;
        outcome.push("reader_reads_per_s", "1/s", reads as f64 / length.as_secs_f64());
        let mut push = |name: &str, us: Option<f64>| {
            if let Some(us) = us {
                outcome.push(&format!("reader_latency_{name}_us"), "us", us);
            }
        };
        for (share, name) in PERCENTILES {
            push(name, self.misses.percentile_us(share));
        }
        push("max", self.misses.max_us());
        push("mean", self.misses.mean_us());
        push("over_time_p50", self.misses.median_over_time_us());
        if let Some(us) = self.hits.percentile_us(0.5) {
            outcome.push("reader_hit_latency_p50_us", "us", us);
        }
        if reads > 0 {
            outcome.push("reader_hits_percent", "%", hits as f64 * 100.0 / reads as f64);
        }
        outcome.push("reader_reads", "1", reads as f64);
        outcome.push("reader_misses", "1", misses as f64);
        self.report_all(outcome);
        outcome.latency_curve = self.misses.curve();
        outcome.series.extend([
            self.latency_steps.max_series("reader_latency_max_us", steps),
            self.latency_steps.mean_series("reader_latency_mean_us", steps),
            self.count_steps
                .series("reader_reads_per_s", "1/s", steps, 1.0 / STEP.as_secs_f64()),
        ]);
    }
}

impl Read {
    /// Over all reads, hits too, as fio has them.
    fn report_all(&self, outcome: &mut Outcome) {
        let mut all = Latencies::new();
        all.merge(&self.hits);
        all.merge(&self.misses);
        let mut push = |name: &str, us: Option<f64>| {
            if let Some(us) = us {
                outcome.push(&format!("reader_all_{name}_us"), "us", us);
            }
        };
        for (share, name) in FIO_PERCENTILES {
            push(name, all.percentile_us(share));
        }
        push("min", all.min_us());
        push("max", all.max_us());
        push("mean", all.mean_us());
        push("stdev", all.stdev_us());
    }
}

/// The log's observations.
#[derive(Default)]
pub(crate) struct Logged {
    appends: Latencies,
    syncs: Latencies,
    latency_steps: LatencySteps,
    pub(crate) last_end: Duration,
}

impl Logged {
    /// A record: its write call, and the sync that was under way from `from` to `to`, as far as that lies after the
    /// beginning.
    pub(crate) fn add(&mut self, from: Duration, to: Duration, append: Duration, sync: Duration) {
        self.appends.record(append);
        self.syncs.record(sync);
        self.latency_steps.add(from, to, sync);
        self.last_end = to;
    }

    pub(crate) fn report(&self, length: Duration, steps: usize, outcome: &mut Outcome) {
        let syncs = self.syncs.count();
        outcome.push("syncs_per_s", "1/s", syncs as f64 / length.as_secs_f64());
        outcome.push("log_syncs", "1", syncs as f64);
        let mut push = |name: &str, us: Option<f64>| {
            if let Some(us) = us {
                outcome.push(name, "us", us);
            }
        };
        for (share, name) in PERCENTILES {
            push(&format!("sync_{name}_us"), self.syncs.percentile_us(share));
        }
        push("sync_max_us", self.syncs.max_us());
        push("sync_mean_us", self.syncs.mean_us());
        push("append_p99_us", self.appends.percentile_us(0.99));
        push("append_max_us", self.appends.max_us());
        outcome
            .series
            .push(self.latency_steps.max_series("sync_max_us", steps));
    }
}

/// The scan's observations.
#[derive(Default)]
pub(crate) struct Scanned {
    calls: Latencies,
    bytes: Sums,
    total: u64,
    pub(crate) last_end: Duration,
}

impl Scanned {
    /// A read of `bytes` that ended at `to`.
    pub(crate) fn add(&mut self, to: Duration, latency: Duration, bytes: u64) {
        self.calls.record(latency);
        self.bytes.add(to, bytes);
        self.total += bytes;
        self.last_end = to;
    }

    pub(crate) fn report(&self, length: Duration, steps: usize, outcome: &mut Outcome) {
        let megabytes = self.total as f64 / 1e6;
        outcome.push("scan_mb_per_s", "MB/s", megabytes / length.as_secs_f64());
        for (name, us) in [
            ("scan_call_p50_us", self.calls.percentile_us(0.5)),
            ("scan_call_p99_us", self.calls.percentile_us(0.99)),
            ("scan_call_max_us", self.calls.max_us()),
        ] {
            if let Some(us) = us {
                outcome.push(name, "us", us);
            }
        }
        let series = self
            .bytes
            .series("scan_mb_per_s", "MB/s", steps, PER_STEP_TO_MB_PER_S);
        outcome.series.push(series);
    }
}

/// The writers' results.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) calls: Latencies,
    pub(crate) bytes: Sums,
    pub(crate) write_seconds: f64,
    pub(crate) seconds: f64,
}

impl Written {
    pub(super) fn merge(&mut self, other: &Written) {
        self.calls.merge(&other.calls);
        self.bytes.merge(&other.bytes);
    }

    pub(crate) fn report(&self, work: &Axboe2016, steps: usize, outcome: &mut Outcome) {
        outcome.push("writers_seconds", "s", self.seconds);
        outcome.push("writers_write_seconds", "s", self.write_seconds);
        let megabytes = work.written_bytes() as f64 / 1e6;
        outcome.push("writers_mb_per_s", "MB/s", megabytes / self.seconds);
        for (name, us) in [
            ("writers_call_p99_us", self.calls.percentile_us(0.99)),
            ("writers_call_max_us", self.calls.max_us()),
        ] {
            if let Some(us) = us {
                outcome.push(name, "us", us);
            }
        }
        outcome.series.push(
            self.bytes
                .series("writers_mb_per_s", "MB/s", steps, PER_STEP_TO_MB_PER_S),
        );
    }
}

/// Bytes in a step to megabytes a second: 10 steps a second.
pub(crate) const PER_STEP_TO_MB_PER_S: f64 = 10.0 / 1e6;

/// Other counters over the same time.
#[derive(Default)]
pub(super) struct Watched {
    device_read: Sampled,
    device_written: Sampled,
    pub(super) device_written_bytes: u64,
    has_device: bool,
    interrupts: Sampled,
    switches: Sampled,
    has_machine: bool,
    page_cache_mib_max: f64,
    /// The reads that missed, in each finished step; how many of the steps were reported.
    reads: Vec<Counts>,
    told: usize,
    tellings: u32,
}

impl Watched {
    pub(super) fn sample(&mut self, run: &Run<'_>) {
        let now = run.now();
        if let Some(bytes) = run.device() {
            self.has_device = true;
            self.device_read.sample(now, bytes.read);
            self.device_written.sample(now, bytes.written);
            self.device_written_bytes = bytes.written;
        }
        if let Some((interrupts, switches)) = process::interrupts_and_switches() {
            self.has_machine = true;
            self.interrupts.sample(now, interrupts);
            self.switches.sample(now, switches);
        }
        if let Some(mib) = process::page_cache_mib() {
            self.page_cache_mib_max = self.page_cache_mib_max.max(mib);
        }
    }

    /// The bytes read in the step that has just ended.
    pub(super) fn end_step(&mut self, run: &Run<'_>) {
        self.reads.push(run.recent.take());
    }

    /// The steps that were not told before, and which telling this is.
    pub(super) fn tell(&mut self) -> (u32, Vec<Counts>) {
        let new = self.reads[self.told..].to_vec();
        self.told = self.reads.len();
        self.tellings += 1;
        (self.tellings - 1, new)
    }

    pub(super) fn report(&self, steps: usize, cache_before: Option<f64>, outcome: &mut Outcome) {
        outcome.reads.clone_from(&self.reads);
        if let Some(before) = cache_before {
            let growth = (self.page_cache_mib_max - before).max(0.0);
            outcome.push("page_cache_growth_mib", "MiB", growth);
        }
        if self.has_machine {
            let per_s = 1.0 / STEP.as_secs_f64();
            for (sampled, name) in [
                (&self.interrupts, "machine_interrupts_per_s"),
                (&self.switches, "machine_context_switches_per_s"),
            ] {
                let series = sampled.sums().series(name, "1/s", steps, per_s);
                outcome.series.push(series);
            }
        }
        if self.has_device {
            let series = |sampled: &Sampled, name| -> Series {
                sampled.sums().series(name, "MB/s", steps, PER_STEP_TO_MB_PER_S)
            };
            outcome
                .series
                .push(series(&self.device_read, "device_read_mb_per_s"));
            outcome
                .series
                .push(series(&self.device_written, "device_written_mb_per_s"));
        }
    }
}
