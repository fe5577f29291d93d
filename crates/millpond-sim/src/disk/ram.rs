//! Memory used as a disk: one copier, and almost no latency.
//!
//! - Requests are copied one after the other at 5 GB/s, in order of arrival.
//! - Each is answered 1 us after its bytes are there, for the call, the locks and the wake-up.
//! - 256 are inside; the order is fixed, so this makes no difference to the rest.
//!
//! The parameters are our own, similar to a tmpfs with one processor of a virtual machine (1.3 us for 4 KiB, 4.2 GB/s).
//! On this device only the cache itself costs time.

use super::{Command, ModelFacts, ModelParameterError, Output, in_range};
use millpond_core::units::{Instant, Nanos};
use std::collections::VecDeque;

/// Memory as a disk.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RamParameters {
    /// A request's latency besides its copying, 1 us.
    pub latency: Nanos,
    /// Bytes copied in a second, 5 GB/s; at least 1 kB/s.
    pub bytes_per_s: u64,
    /// Requests that it says it takes at a time, 256; at least 1.
    pub queue_depth: u32,
}

impl Default for RamParameters {
    fn default() -> RamParameters {
        RamParameters {
            latency: Nanos::from_micros(1),
            bytes_per_s: 5_000_000_000,
            queue_depth: 256,
        }
    }
}

#[derive(Debug)]
pub(super) struct Ram {
    parameters: RamParameters,
    copier_free_at: Instant,
    /// In order of time.
    copied: VecDeque<(Instant, Command)>,
}

impl Ram {
    pub(super) fn new(parameters: RamParameters) -> Result<Ram, ModelParameterError> {
        let (rate, depth) = (parameters.bytes_per_s, parameters.queue_depth);
        in_range("bytes_per_s", rate as f64, rate >= 1000, "at least 1000")?;
        in_range("queue_depth", depth.into(), depth > 0, "at least 1")?;
        Ok(Ram {
            parameters,
            copier_free_at: Instant(0),
            copied: VecDeque::new(),
        })
    }

    pub(super) fn facts(&self) -> ModelFacts {
        ModelFacts {
            queue_depth: self.parameters.queue_depth,
            rotational: false,
            write_cache: false,
        }
    }

    pub(super) fn submit(&mut self, command: Command, out: &mut Output<'_>) {
        let ns = f64::from(command.len) / self.parameters.bytes_per_s as f64 * 1e9;
        self.copier_free_at = self.copier_free_at.max(command.arrived) + Nanos(ns as u64);
        out.tally.busy(ns);
        self.copied
            .push_back((self.copier_free_at + self.parameters.latency, command));
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.copied.front().map(|&(at, _)| at)
    }

    pub(super) fn run(&mut self, now: Instant, out: &mut Output<'_>) {
        while let Some(&(at, command)) = self.copied.front().filter(|(at, _)| *at <= now) {
            self.copied.pop_front();
            out.finish(&command, at);
        }
    }

    /// Commands that it holds, how many of them it has answered, and flushes that wait.
    pub(super) fn validate(&self) -> (usize, usize, usize) {
        assert!(
            self.copied.iter().is_sorted_by_key(|&(at, _)| at),
            "out of order: {:?}",
            self.copied
        );
        (self.copied.len(), 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Model, ModelParameters, ModelRequest};
    use super::*;

    #[test]
    fn requests_are_copied_one_after_the_other() {
        let mut disk = Model::new(&ModelParameters::Ram(RamParameters::default())).unwrap();
        for id in 0..3 {
            disk.submit(
                Instant(0),
                ModelRequest {
                    id,
                    write: id == 1,
                    offset: 0,
                    len: 5000,
                },
            );
        }
        disk.flush(Instant(0), 9);
        let mut done = Vec::new();
        while let Some(at) = disk.next_event() {
            disk.advance(at, &mut done);
            disk.validate();
        }
        let done: Vec<_> = done.iter().map(|done| (done.id, done.at.0)).collect();
        assert_eq!(
            done,
            [(9, 0), (0, 2000), (1, 3000), (2, 4000)],
            "1 us each, and 1 us"
        );
        assert_eq!(disk.name(), "ram");
        let seen = disk.statistics(Instant(4000));
        assert_eq!((seen.reads, seen.writes, seen.busy_time), (2, 1, Nanos(3000)));
    }

    #[test]
    fn parameter_out_of_range_says_which() {
        let error = Ram::new(RamParameters {
            queue_depth: 0,
            ..RamParameters::default()
        });
        assert!(error.unwrap_err().to_string().contains("queue_depth"));
        let error = Ram::new(RamParameters {
            bytes_per_s: 999,
            ..RamParameters::default()
        });
        assert!(error.unwrap_err().to_string().contains("at least 1000"));
    }
}
