//! The news on Millpond's own manager: the same readers, articles and history on the same disk.
//!
//! Millpond has no anonymous memory, so readers' own data are not its business: it has the memory that is left for files
//! beside them and the kernel, and its history file is written back like any other.

use super::options::WARM_UP;
use crate::backend::reasons;
use crate::outcome::Outcome;
use crate::workload::dillon2000::news::{self, Seconds};
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::options::Options;
use millpond_core::units::{Instant, Nanos, Ratio};
use millpond_kernels::freebsd::machine::MachineOptions;
use millpond_worlds::worlds::dillon2000;

/// Options under which a file may stay dirty: nine tenths of memory, and for a day.
pub(super) fn no_sync() -> Options {
    let mut options = Options::default();
    options.dirty.background = DirtyLimit::Share(Ratio::percent(80));
    options.dirty.hard = DirtyLimit::Share(Ratio::percent(90));
    options.flusher.expire = Nanos::from_secs(86_400);
    options
}

/// Runs it; `None` if `at` said to stop.
pub(super) fn run(
    machine: &MachineOptions,
    options: &Options,
    length: Nanos,
    at: &mut dyn FnMut(f64) -> bool,
) -> Result<Option<Outcome>, String> {
    let (mut world, seen) = dillon2000::millpond(machine, options)?;
    let until = Instant(0) + WARM_UP + length;
    let (mut written, mut pageouts) = (0, Vec::new());
    let mut busy_before = Nanos::ZERO;
    while world.now() < until {
        world.run((world.now() + Nanos::from_secs(1)).min(until));
        let all = world.manager().stats().nr_written;
        if world.now() <= Instant(0) + WARM_UP {
            busy_before = world.model().statistics(world.now()).busy_time;
        } else {
            pageouts.push((all - written) as f64);
        }
        written = all;
        if !at(world.now().0 as f64 / until.0 as f64) {
            return Ok(None);
        }
    }
    let busy = world.model().statistics(world.now()).busy_time.0 - busy_before.0;
    let from = Instant(0) + WARM_UP;
    let seen = seen.borrow();
    let seconds = Seconds {
        load: load(&seen.waits, from, length),
        pageouts,
    };
    let measured = seen.articles.iter().filter(|(at, _)| *at >= from);
    let latencies = measured.map(|&(_, took)| took).collect();
    let mut outcome = news::news(&seconds, latencies, Some(100.0 * busy as f64 / length.0 as f64));
    let stats = world.manager().stats();
    outcome.push("pages_written_by_reclaim", "1", stats.nr_vmscan_write as f64);
    // of all of the run, the beginning included
    outcome.measures.extend(reasons::measures(stats));
    Ok(Some(outcome))
}

/// The number of waiting readers, averaged over each second.
fn load(waits: &[(Instant, Instant)], from: Instant, length: Nanos) -> Vec<f64> {
    let second = 1_000_000_000;
    let mut load = vec![0.0; (length.0 / second) as usize];
    for &(began, ended) in waits {
        let mut at = began.max(from);
        while at < ended {
            let n = (at.0 - from.0) / second;
            let end = Instant(from.0 + (n + 1) * second).min(ended);
            if let Some(load) = load.get_mut(n as usize) {
                *load += end.since(at).0 as f64 / second as f64;
            }
            at = end;
        }
    }
    load
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_kernels::freebsd::System;
    use millpond_kernels::freebsd::machine as freebsd;

    /// The second meeting of a dirty page used to be a reason to write all of its file, and pages that were being read
    /// filled the inactive list: 39 readers waited on the average, and the disk was full of writes.
    #[test]
    fn no_more_readers_wait_than_with_two_laps() {
        let machine = MachineOptions::new(System::FreeBsdPatches);
        let length = Nanos::from_secs(180);
        let of = |outcome: &Outcome| outcome.value("load_mean").unwrap();
        let laps = freebsd::run(machine, (WARM_UP, length), &mut |_| true).unwrap();
        let laps = of(&super::super::measures::of_bsd(&laps.unwrap()));
        let ours = |options: &Options| run(&machine, options, length, &mut |_| true).unwrap().unwrap();
        let (default, no_sync) = (ours(&Options::default()), ours(&no_sync()));
        assert!(of(&default) <= laps, "{} and {laps}", of(&default));
        assert!(of(&no_sync) <= laps / 2.0, "{} and {laps}", of(&no_sync));
        // 390 of them then; 42 since pages of articles leave first, and what is left to be met is the history.
        assert!(no_sync.value("pageouts_per_s").unwrap() < 60.0);
    }

    #[test]
    fn a_wait_counts_in_each_second_that_it_covers() {
        let ms = |n: u64| Instant(n * 1_000_000);
        let waits = [(ms(500), ms(1500)), (ms(2500), ms(2750)), (ms(3900), ms(9000))];
        assert_eq!(load(&waits, ms(1000), Nanos::from_secs(3)), [0.5, 0.25, 0.1]);
    }
}
