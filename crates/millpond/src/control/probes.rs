//! Reads that measure a device: which of them had it to themselves, and what follows from enough of them.
//!
//! ```text
//!   what is asked of the disk ──► a read ──► what was asked meanwhile
//!        nothing ended: no read of the disk (a hole) · one ended, none under way before: alone · else: beside others
//! ```
//!
//! What is measured beside a load is the load's, and too long: three mounts of one disk had goals of 60, 2.0 and 10.3 ms. So
//! 24 reads that were alone decide, whichever way; where others leave the disk no such moments, 48 reads may shorten a goal
//! and not lengthen it.

use crate::device::DeviceLoad;
use std::time::Duration;

/// Few enough for a disk that rotates: 130 ms.
pub(super) const READS: usize = 24;
/// Of reads beside other load twice as many: each was disturbed differently.
const READS_BESIDE: usize = 2 * READS;
/// With fewer undisturbed reads the median is the latency of just one or two.
const ALONE_MIN: usize = READS / 2;

/// The circumstances of one read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probe {
    /// The disk did nothing else meanwhile, as far as the system reports.
    Alone,
    /// It did.
    Beside,
    /// The disk was not used: a hole, or data that the file system knows itself.
    NoRead,
}

impl Probe {
    /// A read between the two looks.
    pub(super) fn of(before: DeviceLoad, after: DeviceLoad) -> Probe {
        let (DeviceLoad::Disk { in_transit, ended }, DeviceLoad::Disk { ended: later, .. }) = (before, after)
        else {
            return Probe::Alone;
        };
        match later.wrapping_sub(ended) {
            0 => Probe::NoRead,
            1 if in_transit == 0 => Probe::Alone,
            _ => Probe::Beside,
        }
    }
}

/// The result of a number of reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Measurement {
    pub(super) reads: usize,
    pub(super) median: Duration,
    pub(super) least: Duration,
    pub(super) longest: Duration,
    /// They were alone.
    pub(super) is_alone: bool,
}

/// The reads of one measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Probes {
    alone: Vec<Duration>,
    beside: Vec<Duration>,
}

impl Probes {
    pub(super) fn add(&mut self, probe: Probe, took: Duration) {
        match probe {
            Probe::Alone => self.alone.push(took),
            Probe::Beside => self.beside.push(took),
            Probe::NoRead => {}
        }
    }

    /// Whether there are enough.
    pub(super) fn is_done(&self) -> bool {
        self.alone.len() >= READS || self.alone.len() + self.beside.len() >= READS_BESIDE
    }

    /// Their result, however many there are: of the undisturbed ones, if they are enough or are all.
    pub(super) fn measurement(&self) -> Option<Measurement> {
        let is_alone = self.alone.len() >= ALONE_MIN || self.beside.is_empty();
        let mut took = self.alone.clone();
        if !is_alone {
            took.extend(&self.beside);
        }
        took.sort_unstable();
        Some(Measurement {
            reads: took.len(),
            median: *took.get(took.len() / 2)?,
            least: *took.first()?,
            longest: *took.last()?,
            is_alone,
        })
    }
}

/// The bits of `n`, well mixed (splitmix64): anywhere in a file, as equal steps would meet a turning disk at equal angles.
pub(super) fn scatter(n: u64) -> u64 {
    let z = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(in_transit: u64, ended: u64) -> DeviceLoad {
        DeviceLoad::Disk { in_transit, ended }
    }

    #[test]
    fn a_read_is_alone_if_the_disk_did_nothing_before_it_and_one_request_meanwhile() {
        assert_eq!(Probe::of(disk(0, 10), disk(0, 11)), Probe::Alone);
        assert_eq!(Probe::of(disk(1, 10), disk(1, 11)), Probe::Beside);
        assert_eq!(Probe::of(disk(0, 10), disk(0, 12)), Probe::Beside);
        assert_eq!(Probe::of(disk(0, 10), disk(0, 10)), Probe::NoRead, "a hole");
        let untold = Probe::of(DeviceLoad::OwnOnly, DeviceLoad::OwnOnly);
        assert_eq!(untold, Probe::Alone, "nothing says that it was not");
    }

    #[test]
    fn reads_that_were_alone_decide_and_the_others_only_where_there_are_too_few_of_them() {
        let ms = Duration::from_millis;
        let mut probes = Probes::default();
        assert_eq!(probes.measurement(), None);
        (0..READS_BESIDE - ALONE_MIN).for_each(|_| probes.add(Probe::Beside, ms(50)));
        assert!(!probes.is_done());
        assert_eq!(probes.measurement().unwrap().median, ms(50));
        probes.add(Probe::NoRead, ms(0));
        (0..ALONE_MIN).for_each(|_| probes.add(Probe::Alone, ms(1)));
        assert!(probes.is_done());
        let found = probes.measurement().unwrap();
        assert_eq!(
            (found.reads, found.median, found.is_alone),
            (ALONE_MIN, ms(1), true)
        );
    }
}
