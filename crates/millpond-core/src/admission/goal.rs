//! Millpond's default: writes fill what a goal for read latency leaves.
//!
//! Two rules, both derived from the goal:
//!
//! ```text
//!   in transit   while somebody reads, at most `allowance` bytes of writes are in the device's queue;
//!                it shrinks when the reads of the last window missed the goal, and grows when they were
//!                well inside it. When nobody has read for a while, `idle` bytes are allowed.
//!   turns        when a read has waited for a quarter of the goal, no further write is issued until
//!                `reads_per_turn` reads have ended, no reader comes back in time, or the turn has lasted
//!                as long as the goal: then it is the writers' turn again.
//! ```
//!
//! The first rule alone is enough where a device works on many requests at a time. A rotating disk puts
//! sequential writes before a read for as long as there are any (it is its fastest order), so reads must be
//! given a turn; and a read served right after another costs half of one served between writes (5.4 against
//! 11.5 ms of the actuator on a 7200 rpm disk), so they get more than one.
//!
//! The goal aimed at is never below three times what reads take while no write is in transit: on a disk that is slow or noisy by
//! itself, holding writes back further gains the readers nothing, and would starve the writers for it.
//!
//! Where it comes from: seed 001 (Axboe 2016) limits background writes while others use the device, and
//! Linux 4.10's `blk-wbt` steers that limit by the *minimum* read latency of a 100 ms window. A device whose
//! cache answers now and then always looks healthy that way, so this takes a high percentile. Seed 003
//! (Dillon 2000) counts bytes, not requests: what one write costs depends on its size.

use super::{InTransit, Verdict};
use crate::units::{Bytes, Instant, Nanos};

/// The settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GoalOptions {
    /// What 99 of 100 reads should not exceed while writers are at work. Default 2 ms, `blk-wbt`'s target for
    /// devices that don't rotate; the engine measures the device and takes up to 60 ms for one that does. Where reads
    /// take more than a third of it even while nothing is written, three times what they take is aimed at.
    pub read_latency: Nanos,
    /// Bytes of writes that may be in transit when nobody reads: enough to keep the device busy, not
    /// so much that the next reader waits for long. Default 8 MiB.
    pub idle: Bytes,
    /// The least that may be in transit, so that writers always progress. Default 64 KiB.
    pub allowance_min: Bytes,
    /// How many reads end before it is the writers' turn again. Default 2.
    pub reads_per_turn: u32,
}

impl Default for GoalOptions {
    fn default() -> Self {
        GoalOptions {
            read_latency: Nanos::from_millis(2),
            idle: Bytes::from_mib(8),
            allowance_min: Bytes::from_kib(64),
            reads_per_turn: 2,
        }
    }
}

/// For so long after a read the reader is taken to be still there. Linux uses 100 ms ("other I/O");
/// half of it leaves the other half to come back to full speed within 100 ms.
const READER_SPAN: Nanos = Nanos::from_millis(50);
/// The shortest window over which latencies are judged, as `blk-wbt`'s.
const WINDOW_MIN: Nanos = Nanos::from_millis(100);
/// A window needs so many reads to be judged: a percentile of fewer says nothing.
const WINDOW_READS_MIN: u32 = 20;
/// From so many reads on the 99th percentile is looked at, below the 95th: the slowest two of 200 are a tail, the
/// slowest of 20 is not.
const WINDOW_READS_P99: u32 = 200;
/// So many reads during which nothing was written say what the device does by itself; see [`WINDOW_READS_P99`].
const CALM_READS: u32 = 200;
/// Fewer do after so long.
const CALM_READS_MIN: u32 = 20;
const CALM_WINDOW: Nanos = Nanos::from_secs(2);
/// The least goal, in tails of such reads. With two of them the writers of the modelled disk took 374 s instead of 18,
/// as every write was followed by a seek; with three it is 54 s.
const CALM_TAILS: u64 = 3;
/// The allowance that a new reader meets, before anything was measured.
const ALLOWANCE_START: Bytes = Bytes::from_kib(512);

/// Latencies by powers of two with four steps each, from 1 us up: enough to tell a quarter more from a
/// quarter less.
#[derive(Clone, Debug)]
struct Window {
    since: Instant,
    counts: [u32; 128],
    reads: u32,
}

impl Window {
    fn new() -> Window {
        Window {
            since: Instant(0),
            counts: [0; 128],
            reads: 0,
        }
    }

    fn add(&mut self, latency: Nanos) {
        self.counts[Window::bucket(latency)] += 1;
        self.reads += 1;
    }

    fn bucket(latency: Nanos) -> usize {
        let us = (latency.0 / 1_000).max(4);
        let log = us.ilog2();
        ((log as usize) * 4 + ((us >> (log - 2)) & 3) as usize).min(127)
    }

    /// The upper edge of a bucket.
    fn edge(bucket: usize) -> Nanos {
        let (log, quarter) = ((bucket / 4) as u32, (bucket % 4) as u64);
        Nanos::from_micros((5 + quarter) << log >> 2)
    }

    /// The 99th percentile, or the 95th of fewer than [`WINDOW_READS_P99`] reads.
    fn tail(&self) -> Nanos {
        self.percentile(if self.reads >= WINDOW_READS_P99 { 99 } else { 95 })
    }

    fn percentile(&self, percent: u32) -> Nanos {
        let mut left = self.reads - self.reads * percent / 100;
        for bucket in (0..self.counts.len()).rev() {
            if self.counts[bucket] >= left.max(1) {
                return Window::edge(bucket);
            }
            left -= self.counts[bucket];
        }
        Nanos::ZERO
    }

    fn restart(&mut self, now: Instant) {
        *self = Window {
            since: now,
            ..Window::new()
        };
    }
}

/// The state of the controller.
#[derive(Clone, Debug)]
pub struct GoalState {
    options: GoalOptions,
    allowance: Bytes,
    window: Window,
    /// A read of the window had writes beside it: only then does it say something about the allowance.
    disturbed: bool,
    /// Reads during which no write was in transit, and what they took last time.
    calm: Window,
    calm_tail: Nanos,
    /// Since when it is the readers' turn, and how many of their reads have ended.
    readers_turn: Option<(Instant, u32)>,
}

impl GoalState {
    /// A controller that has seen nothing yet.
    pub fn new(options: GoalOptions) -> GoalState {
        let allowance = ALLOWANCE_START.clamp(options.allowance_min, options.idle.max(options.allowance_min));
        GoalState {
            options,
            allowance,
            window: Window::new(),
            disturbed: false,
            calm: Window::new(),
            calm_tail: Nanos::ZERO,
            readers_turn: None,
        }
    }

    /// The settings.
    pub fn options(&self) -> GoalOptions {
        self.options
    }

    /// The goal that is aimed at.
    pub fn goal(&self) -> Nanos {
        self.options
            .read_latency
            .max(Nanos(self.calm_tail.0 * CALM_TAILS))
    }

    pub(super) fn allowance(&self, now: Instant, in_transit: &InTransit) -> Bytes {
        if in_transit.reader_active(now, READER_SPAN) {
            self.allowance
        } else {
            self.options.idle
        }
    }

    /// Half of the allowance: two writes in transit keep a device busy, and each is as long as it may be.
    pub(super) fn write_bytes(&self, now: Instant, in_transit: &InTransit) -> Bytes {
        Bytes((self.allowance(now, in_transit).0 / 2).max(self.options.allowance_min.0))
    }

    /// How long the readers' turn waits for another read: short against the goal, long against the time a
    /// reader needs to come back.
    fn gap(&self) -> Nanos {
        Nanos(self.goal().0 / 32)
    }

    pub(super) fn may_write(&mut self, now: Instant, bytes: Bytes, in_transit: &InTransit) -> Verdict {
        let writes = in_transit.writes();
        if !in_transit.reader_active(now, READER_SPAN) {
            self.readers_turn = None;
            return if writes.0 + bytes.0 <= self.options.idle.0.max(bytes.0) {
                Verdict::Go
            } else {
                Verdict::Wait(None)
            };
        }
        let hold = Nanos(self.goal().0 / 4);
        if let Some((since, ended)) = self.readers_turn {
            let back_by = in_transit.last_fault_done() + self.gap();
            let turn_ends = since + self.goal();
            if ended >= self.options.reads_per_turn
                || now >= turn_ends
                || (ended > 0 && in_transit.faults() == 0 && now >= back_by)
            {
                self.readers_turn = None;
            } else {
                let wake = if in_transit.faults() == 0 {
                    back_by.min(turn_ends)
                } else {
                    turn_ends
                };
                return Verdict::Wait(Some(wake));
            }
        } else if in_transit.waiting(now) >= hold && writes.0 > 0 {
            self.readers_turn = Some((now, 0));
            return Verdict::Wait(Some(now + self.goal()));
        }
        if writes.0 == 0 || writes.0 + bytes.0 <= self.allowance.0 {
            Verdict::Go
        } else {
            Verdict::Wait(None)
        }
    }

    pub(super) fn read_done(&mut self, now: Instant, latency: Nanos, calm: bool) {
        if let Some((_, ended)) = &mut self.readers_turn {
            *ended += 1;
        }
        self.disturbed |= !calm;
        if calm {
            self.calm.add(latency);
            let is_long = now.since(self.calm.since) >= CALM_WINDOW;
            if self.calm.reads >= CALM_READS || (is_long && self.calm.reads >= CALM_READS_MIN) {
                self.calm_tail = self.calm.tail();
                self.calm.restart(now);
            }
        }
        self.window.add(latency);
        if self.window.reads < WINDOW_READS_MIN || now.since(self.window.since) < WINDOW_MIN {
            return;
        }
        if self.disturbed {
            self.adapt();
        }
        self.disturbed = false;
        self.window.restart(now);
    }

    fn adapt(&mut self) {
        // Towards seven eighths of the goal, by at most a half down and a half up at once: what a read waits for
        // is roughly proportional to what was written before it.
        let (goal, seen) = (self.goal().0, self.window.tail().0);
        let allowance = self.allowance.0;
        let wanted = (u128::from(allowance) * u128::from(goal - goal / 8) / u128::from(seen.max(1))) as u64;
        if seen > goal {
            self.allowance.0 = wanted.max(allowance / 2);
        } else if seen < goal - goal / 4 {
            self.allowance.0 = wanted.min(allowance + allowance / 2);
        }
        self.allowance = self.allowance.clamp(
            self.options.allowance_min,
            self.options.idle.max(self.options.allowance_min),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Admission, AdmissionOptions};
    use super::*;
    use crate::event::Reason::{Background, Fault};

    const KIB_64: Bytes = Bytes::from_kib(64);
    const PAGE: Bytes = Bytes::from_kib(4);

    fn admission() -> Admission {
        Admission::new(AdmissionOptions::Goal(GoalOptions::default()), Bytes::from_mib(1))
    }

    /// One read from `from` to `to`.
    fn read(a: &mut Admission, from: Instant, to: Instant) {
        a.issued(from, Fault, PAGE);
        a.completed(to, Fault, PAGE, from);
    }

    fn read_beside_a_write(a: &mut Admission, from: Instant, to: Instant) {
        a.issued(from, Background, KIB_64);
        read(a, from, to);
        a.completed(to, Background, KIB_64, from);
    }

    /// A goal below what the disk can do held the writers back for ever: 20 ms on a hard disk made 18 s into 386 s.
    #[test]
    fn a_goal_that_reads_miss_without_any_write_is_not_aimed_at() {
        let mut a = admission();
        let mut now = Instant(0);
        for n in 0..1_000 {
            let to = now + Nanos::from_millis(8);
            if n % 2 == 0 {
                read(&mut a, now, to);
            } else {
                read_beside_a_write(&mut a, now, to);
            }
            now = to + Nanos::from_millis(1);
        }
        assert!(a.allowance(now) > ALLOWANCE_START, "{:?}", a.allowance(now));
    }

    #[test]
    fn reads_without_writes_beside_them_say_nothing_about_the_allowance() {
        let mut a = admission();
        let mut now = Instant(0);
        for _ in 0..1_000 {
            read(&mut a, now, now + Nanos::from_micros(100));
            now = now + Nanos::from_millis(1);
        }
        assert_eq!(a.allowance(now), ALLOWANCE_START);
    }

    #[test]
    fn with_no_reader_all_that_the_device_takes_may_go() {
        let mut a = admission();
        for _ in 0..8 {
            assert_eq!(
                a.may_write(Instant(0), Background, Bytes::from_mib(1)),
                Verdict::Go
            );
            a.issued(Instant(0), Background, Bytes::from_mib(1));
        }
        assert_eq!(
            a.may_write(Instant(0), Background, Bytes::from_mib(1)),
            Verdict::Wait(None)
        );
    }

    #[test]
    fn a_reader_lowers_the_allowance_at_once_and_its_leaving_raises_it_within_100_ms() {
        let mut a = admission();
        read(&mut a, Instant(0), Instant(60_000));
        assert_eq!(a.allowance(Instant(60_000)), ALLOWANCE_START);
        assert_eq!(
            a.allowance(Instant(60_000) + Nanos::from_millis(49)),
            ALLOWANCE_START
        );
        assert_eq!(
            a.allowance(Instant(60_000) + Nanos::from_millis(50)),
            Bytes::from_mib(8)
        );
    }

    #[test]
    fn reads_beyond_the_goal_shrink_the_allowance_and_reads_well_inside_it_raise_it() {
        let mut a = admission();
        let mut now = Instant(0);
        let mut reads = |a: &mut Admission, latency, n| {
            for _ in 0..n {
                read_beside_a_write(a, now, now + latency);
                now = now + latency + Nanos::from_millis(1);
            }
            a.allowance(now)
        };
        let start = ALLOWANCE_START.0;
        assert_eq!(reads(&mut a, Nanos::from_millis(8), 20).0, start / 2);
        let low = reads(&mut a, Nanos::from_millis(8), 400);
        assert_eq!(
            low,
            GoalOptions::default().allowance_min,
            "never below the writers' minimum"
        );
        assert!(reads(&mut a, Nanos::from_micros(100), 2_000) > low);
    }

    #[test]
    fn a_read_that_waits_stops_writes_until_two_reads_have_ended() {
        let mut a = admission();
        let at = |us| Instant(0) + Nanos::from_micros(us);
        a.issued(at(0), Background, KIB_64);
        a.issued(at(0), Fault, PAGE);
        assert_eq!(
            a.may_write(at(499), Background, KIB_64),
            Verdict::Go,
            "a quarter of the goal has not passed"
        );
        assert_eq!(
            a.may_write(at(500), Background, KIB_64),
            Verdict::Wait(Some(at(2_500)))
        );
        a.completed(at(600), Background, KIB_64, at(0));
        a.completed(at(700), Fault, PAGE, at(0));
        assert!(
            matches!(a.may_write(at(701), Background, KIB_64), Verdict::Wait(Some(_))),
            "it waits for the second read"
        );
        a.issued(at(710), Fault, PAGE);
        a.completed(at(800), Fault, PAGE, at(710));
        assert_eq!(a.may_write(at(801), Background, KIB_64), Verdict::Go);
    }

    #[test]
    fn writers_get_their_turn_when_the_reader_does_not_come_back_or_is_never_served() {
        let mut a = admission();
        let at = |us| Instant(0) + Nanos::from_micros(us);
        a.issued(at(0), Background, KIB_64);
        a.issued(at(0), Fault, PAGE);
        assert!(matches!(
            a.may_write(at(500), Background, KIB_64),
            Verdict::Wait(_)
        ));
        assert_eq!(
            a.may_write(at(2_500), Background, KIB_64),
            Verdict::Go,
            "the turn has lasted as long as the goal"
        );
        let mut a = admission();
        a.issued(at(0), Background, KIB_64);
        a.issued(at(0), Fault, PAGE);
        assert!(matches!(
            a.may_write(at(500), Background, KIB_64),
            Verdict::Wait(_)
        ));
        a.completed(at(600), Fault, PAGE, at(0));
        assert_eq!(
            a.may_write(at(601), Background, KIB_64),
            Verdict::Wait(Some(at(600) + Nanos(62_500)))
        );
        assert_eq!(a.may_write(at(663), Background, KIB_64), Verdict::Go);
    }

    #[test]
    fn percentiles_of_the_window_are_within_a_quarter() {
        let mut w = Window {
            since: Instant(0),
            counts: [0; 128],
            reads: 0,
        };
        for us in 1..=1000 {
            w.counts[Window::bucket(Nanos::from_micros(us))] += 1;
            w.reads += 1;
        }
        let p95 = w.percentile(95).0 / 1_000;
        assert!((950..1200).contains(&p95), "{p95}");
    }
}
