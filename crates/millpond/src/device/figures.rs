//! Figures per disk: transfers, bytes and times, by the device that holds the file.
//!
//! ```text
//!   a transfer is noted by the watchdog ──► in transit of its device
//!   it ends ─────────────────────────────► counted; a read that a thread waited for, with its time
//! ```
//!
//! A cache may have files on several disks, and one slow disk must show as that disk. The figures are updated under the
//! lock that the watchdog takes for each transfer anyway, in a list with one entry per device, usually two or three. No
//! decision depends on them: admission keeps its own figures, some of which are added for display
//! (`engine/driver/devices.rs`).

use super::{Asked, FileIdentity};
use millpond_core::admission::DeviceClass;
use millpond_core::io::Reason;
use millpond_core::recent::Recent;
use millpond_core::units::{Bytes, Instant, Nanos};

/// The maximum number of devices, more than any host has. Files on further devices count toward the last one.
const DEVICES_MAX: usize = 64;

/// The figures of one device since the cache was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DeviceFigures {
    /// The device: [`FileIdentity::device`](super::FileIdentity::device).
    pub device: u64,
    /// Completed reads, including failed ones.
    pub reads: u64,
    /// Bytes requested by these reads.
    pub read_bytes: u64,
    /// Of these, reads that a thread waited for.
    pub waited_reads: u64,
    /// The total time of the reads that a thread waited for.
    pub waited_read_time: Nanos,
    /// Completed writes, including failed ones.
    pub writes: u64,
    /// Bytes of these writes.
    pub write_bytes: u64,
    /// The total time of these writes.
    pub write_time: Nanos,
    /// Completed syncs, including failed ones.
    pub syncs: u64,
    /// The total time of these syncs.
    pub sync_time: Nanos,
    /// Failed reads, writes, syncs and changes of a file's length.
    pub errors: u64,
    /// Reads in transit.
    pub reads_in_transit: u64,
    /// Writes in transit.
    pub writes_in_transit: u64,
    /// Bytes of the writes in transit.
    pub write_bytes_in_transit: u64,
    /// The median latency of the reads that a thread waited for in the last one to two seconds.
    pub read_p50: Option<Nanos>,
    /// Their p99 latency.
    pub read_p99: Option<Nanos>,
    /// The goal for that p99, if the form of admission has one and a file on the device is open or was the last.
    pub read_goal: Option<Nanos>,
    /// The limit of write bytes in transit, if the form of admission sets one.
    pub write_bytes_in_transit_limit: Option<Bytes>,
    /// The class that admission assigns to the device.
    pub class: Option<DeviceClass>,
}

/// The counted properties of a transfer or call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) at: FileIdentity,
    pub(super) asked: Asked,
    pub(super) reason: Option<Reason>,
    pub(super) bytes: u64,
    pub(super) began_ns: u64,
}

#[derive(Default)]
struct Entry {
    figures: DeviceFigures,
    reads: Recent,
}

/// All devices of a cache, in the order of their first use.
#[derive(Default)]
pub(super) struct Figures(Vec<Entry>);

impl Figures {
    fn of(&mut self, device: u64) -> &mut Entry {
        let found = self.0.iter().position(|entry| entry.figures.device == device);
        let at = found.unwrap_or_else(|| {
            if self.0.len() < DEVICES_MAX {
                let mut entry = Entry::default();
                entry.figures.device = device;
                self.0.push(entry);
            }
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Counts the start of a transfer.
    pub(super) fn begun(&mut self, counted: &Counted) {
        let figures = &mut self.of(counted.at.device).figures;
        match counted.asked {
            Asked::Read => figures.reads_in_transit += 1,
            Asked::Write => {
                figures.writes_in_transit += 1;
                figures.write_bytes_in_transit += counted.bytes;
            }
            Asked::Sync | Asked::SetLen | Asked::Punch | Asked::Allocate => {}
        }
    }

    /// Counts the end of a transfer at `now_ns`.
    pub(super) fn ended(&mut self, counted: &Counted, now_ns: u64, is_error: bool) {
        let took = Nanos(now_ns.saturating_sub(counted.began_ns));
        let Entry { figures, reads } = self.of(counted.at.device);
        // A file system need not be able to make holes, or to allocate ahead.
        let is_optional = matches!(counted.asked, Asked::Punch | Asked::Allocate);
        figures.errors += u64::from(is_error && !is_optional);
        match counted.asked {
            Asked::Read => {
                figures.reads_in_transit -= 1;
                figures.reads += 1;
                figures.read_bytes += counted.bytes;
                if counted.reason == Some(Reason::Fault) {
                    figures.waited_reads += 1;
                    figures.waited_read_time.0 += took.0;
                    reads.add(Instant(now_ns), took);
                }
            }
            Asked::Write => {
                figures.writes_in_transit -= 1;
                figures.write_bytes_in_transit -= counted.bytes;
                figures.writes += 1;
                figures.write_bytes += counted.bytes;
                figures.write_time.0 += took.0;
            }
            Asked::Sync => {
                figures.syncs += 1;
                figures.sync_time.0 += took.0;
            }
            Asked::SetLen | Asked::Punch | Asked::Allocate => {}
        }
    }

    /// Returns the figures as of `now_ns`.
    pub(super) fn list(&self, now_ns: u64) -> Vec<DeviceFigures> {
        let now = Instant(now_ns);
        let one = |entry: &Entry| DeviceFigures {
            read_p50: entry.reads.p50(now),
            read_p99: entry.reads.p99(now),
            ..entry.figures
        };
        self.0.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(device: u64, asked: Asked, reason: Reason, began_ns: u64) -> Counted {
        Counted {
            at: FileIdentity { device, inode: 1 },
            asked,
            reason: Some(reason),
            bytes: 4096,
            began_ns,
        }
    }

    #[test]
    fn each_device_has_its_own_figures_and_only_awaited_reads_have_latencies() {
        let mut figures = Figures::default();
        let fault = counted(7, Asked::Read, Reason::Fault, 1_000);
        let ahead = counted(7, Asked::Read, Reason::ReadAhead, 1_000);
        let write = counted(8, Asked::Write, Reason::Sync, 0);
        for one in [&fault, &ahead, &write] {
            figures.begun(one);
        }
        let list = figures.list(1_000);
        assert_eq!(
            (list[0].reads_in_transit, list[1].write_bytes_in_transit),
            (2, 4096)
        );
        figures.ended(&fault, 2_001_000, false);
        figures.ended(&ahead, 90_000_000, false);
        figures.ended(&write, 500, true);
        let list = figures.list(90_000_000);
        let [one, other] = list[..] else {
            panic!("{list:?}")
        };
        assert_eq!(
            (one.device, one.reads, one.read_bytes, one.reads_in_transit),
            (7, 2, 8192, 0)
        );
        assert_eq!((one.waited_reads, one.waited_read_time), (1, Nanos(2_000_000)));
        let p99 = one.read_p99.unwrap();
        assert!(
            p99 >= Nanos::from_millis(2) && p99 < Nanos::from_millis(3),
            "{p99:?}"
        );
        assert_eq!((other.writes, other.errors, other.writes_in_transit), (1, 1, 0));
        assert_eq!((other.write_time, other.read_p99), (Nanos(500), None));
    }

    #[test]
    fn devices_beyond_the_limit_are_counted_with_the_last_one() {
        let mut figures = Figures::default();
        for device in 0..=DEVICES_MAX as u64 {
            let sync = counted(device, Asked::Sync, Reason::Sync, 0);
            figures.begun(&sync);
            figures.ended(&sync, 1, false);
        }
        let list = figures.list(1);
        assert_eq!(list.len(), DEVICES_MAX);
        assert_eq!(list.last().map(|last| last.syncs), Some(2));
    }
}
