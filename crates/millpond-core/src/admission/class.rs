//! The kind of device: one arm that seeks, or many channels.
//!
//! Decides the [`DeviceClass`], which determines what a write costs concurrent reads. The input is how long reads of at
//! most 64 KiB take that have the device to themselves. Until there are enough of them, it is a measurement or what the
//! device reports ([`DeviceHints`]). The goal plays no part: 40 ms on a flash disk do not make it a hard disk, nor 20
//! ms a hard disk flash.
//!
//! Hard disks can look like flash (behind a RAID controller or USB), and flash like a hard disk (a virtual disk). The
//! slowest quarter of the reads distinguishes them: an arm serves some reads from its position or its buffer, but never
//! three of four.

use crate::latencies::Latencies;
use crate::units::{Bytes, Instant, Nanos};

/// Half a revolution of the fastest disk ever sold (15,000 rpm) takes 2 ms; flash takes a twentieth of that.
const SEEK_MIN: Nanos = Nanos::from_millis(2);
/// This many reads override what was known before. Twice as many are kept; each new half replaces the older one.
const READS: u32 = 32;
/// A longer read takes long because of its length.
const READ_BYTES_MAX: Bytes = Bytes::from_kib(64);

/// The kind of device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceClass {
    /// A hard disk: one arm, and every request costs a seek, however short it is.
    Arm,
    /// Flash, or many disks: requests are served in parallel, wherever they are.
    #[default]
    Channels,
}

impl DeviceClass {
    /// Whether a request costs a seek, however short it is.
    pub(super) fn seeks(self) -> bool {
        match self {
            DeviceClass::Arm => true,
            DeviceClass::Channels => false,
        }
    }
}

/// What is known about a device before it is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceHints {
    /// Whether the device says that it rotates; `None` if it does not say.
    pub rotational: Option<bool>,
    /// Latency of a short random read on the idle device, if measured.
    pub read_latency: Option<Nanos>,
    /// Read latency goal of this device, if it differs from the setting.
    pub goal: Option<Nanos>,
    /// The largest transfer; reads and writes end at its multiples. `None`: the setting `flusher.write_max` applies,
    /// and reads end anywhere.
    pub transfer_max: Option<Bytes>,
    /// The largest read-ahead window. `None`: the setting `readahead.max`.
    pub readahead_max: Option<Bytes>,
    /// A fixed limit on bytes of writes in transit, whatever reads take. The device then has no goal and no class.
    /// `None`: the form of admission decides.
    pub in_transit_max: Option<Bytes>,
}

impl DeviceHints {
    fn class(&self) -> DeviceClass {
        let is_arm = match self.read_latency {
            Some(took) => took >= SEEK_MIN,
            None => self.rotational == Some(true),
        };
        if is_arm {
            DeviceClass::Arm
        } else {
            DeviceClass::Channels
        }
    }
}

/// What is known about the class.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassDetector {
    class: DeviceClass,
    reads: Latencies,
    /// When the read that has the device to itself was issued.
    alone: Option<Instant>,
}

impl ClassDetector {
    pub(super) fn class(&self) -> DeviceClass {
        self.class
    }

    /// The device has changed.
    pub(super) fn found(&mut self, hints: DeviceHints) {
        *self = ClassDetector {
            class: hints.class(),
            ..ClassDetector::default()
        };
    }

    /// A transfer of `bytes` was issued, which makes `in_transit`. `is_read`: a caller waits for it.
    pub(super) fn issued(&mut self, now: Instant, is_read: bool, bytes: Bytes, in_transit: Bytes) {
        let is_alone = is_read && bytes <= READ_BYTES_MAX && bytes == in_transit;
        self.alone = is_alone.then_some(now);
    }

    /// A read issued at `issued_at` has ended.
    pub(super) fn read_done(&mut self, now: Instant, issued_at: Instant) {
        if self.alone.take() != Some(issued_at) {
            return;
        }
        self.reads.add(now.since(issued_at));
        let total = self.reads.total();
        if total >= READS {
            let quarter = self.reads.nth_largest(total / 4 + 1);
            self.class = match quarter {
                Some(took) if took >= SEEK_MIN => DeviceClass::Arm,
                _ => DeviceClass::Channels,
            };
        }
        if total >= 2 * READS {
            self.reads.halve();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Bytes = Bytes::from_kib(4);

    fn read(detector: &mut ClassDetector, us: u64, beside: Bytes) {
        let (from, to) = (Instant(1), Instant(1) + Nanos::from_micros(us));
        detector.issued(from, true, PAGE, PAGE + beside);
        detector.read_done(to, from);
    }

    fn hints(rotational: Option<bool>, read_us: Option<u64>) -> DeviceHints {
        DeviceHints {
            rotational,
            read_latency: read_us.map(Nanos::from_micros),
            ..DeviceHints::default()
        }
    }

    #[test]
    fn a_measurement_outweighs_the_device_s_report() {
        for (rotational, read_us, class) in [
            (None, None, DeviceClass::Channels),
            (Some(true), None, DeviceClass::Arm),
            (Some(true), Some(90), DeviceClass::Channels),
            (Some(false), Some(8_000), DeviceClass::Arm),
        ] {
            let mut detector = ClassDetector::default();
            detector.found(hints(rotational, read_us));
            assert_eq!(detector.class(), class, "{rotational:?}, {read_us:?}");
        }
    }

    #[test]
    fn a_device_that_says_the_wrong_thing_is_found_out_by_reads_that_have_it_to_themselves() {
        let mut detector = ClassDetector::default();
        detector.found(hints(Some(true), None));
        for _ in 0..READS {
            read(&mut detector, 100, Bytes::from_mib(1));
        }
        assert_eq!(
            detector.class(),
            DeviceClass::Arm,
            "beside others they say nothing"
        );
        for _ in 0..READS {
            read(&mut detector, 100, Bytes(0));
        }
        assert_eq!(detector.class(), DeviceClass::Channels);
        // Two of three from the drive's buffer.
        for n in 0..4 * READS {
            read(&mut detector, if n % 3 == 0 { 8_000 } else { 200 }, Bytes(0));
        }
        assert_eq!(detector.class(), DeviceClass::Arm);
        for _ in 0..4 * READS {
            read(&mut detector, 100, Bytes(0));
        }
        assert_eq!(detector.class(), DeviceClass::Channels, "what was learnt fades");
    }

    #[test]
    fn flash_that_stalls_now_and_then_has_no_arm() {
        let mut detector = ClassDetector::default();
        for n in 0..8 * READS {
            read(&mut detector, if n % 8 == 0 { 20_000 } else { 100 }, Bytes(0));
            assert_eq!(detector.class(), DeviceClass::Channels);
        }
    }
}
