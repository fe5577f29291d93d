//! Millpond's default form: writes use what a goal for read latency leaves.
//!
//! Decides how many bytes of writes may be in transit to a device, and when the next write goes. The inputs are read
//! latencies, the device's write rate, and the reasons of writes. Known as: a congestion controller (Vegas, BBR) whose
//! path is the device's queue and whose signal is the tail of read latencies; on devices that favor writes, together
//! with a proportional-share scheduler (BFQ).
//!
//! ```text
//!   NoReader ── a read ──► SideBySide ◄── what is written while a read waits ──► TimeSlices
//!      ▲                                                                             │
//!      └───── no read for 50 ms, from both ──────────────────────────────────────────┘
//! ```
//!
//! | `Regime` | limit in transit | what else a write waits for |
//! |---|---|---|
//! | `NoReader` | what the device drains within the goal, `in_transit_max` at most | |
//! | `SideBySide` | steered by the p99 of reads, up to the knee | two reads, once one has missed the goal; its pacing |
//! | `TimeSlices` | what the device writes in an eighth of the goal; half of it for background writes | the readers' slice; the first write of its stream |
//!
//! | file | decides | by what | known as |
//! |---|---|---|---|
//! | `limit` | bytes in transit beside readers | the p99 of reads since it was changed, against the goal | delay-based congestion window |
//! | `knee` | the most in transit that is of use | rates of writes with two limits in turn | Kleinrock's knee; a paired trial |
//! | `pacing` | when the next write goes | whether the goal is kept, reads' mean | BBR's pacing rate |
//! | `favours_writes` | whether the device serves new writes before waiting reads | bytes written meanwhile | a detector |
//! | `time_slices` | whose slice it is | how long reads have waited, shares | BFQ's slices, DRR's deficit |
//! | `stream_start` | how long a stream's first write is alone | the device's rate | |
//! | `backlog` | what a write cache has still to write | answered bytes, reads that are late | a leaky bucket |
//! | `unloaded` | the least goal that is of use | reads with no write beside them | Vegas' base round trip |
//! | `write_rate` | what the device writes at its best | ends of writes | BBR's bottleneck rate |
//!
//! On a device with an arm, where a request costs a seek, at most two background writes are in transit beside a reader,
//! however short they are, because their cost does not depend on size alone.
//!
//! The goal in force is never below three times what reads take while no write is in transit. On a disk that is slow or
//! noisy in itself, holding writes back further would starve the writers without helping the readers.
//!
//! Origin: Axboe 2016 limits background writes while others use the device, and Linux 4.10's `blk-wbt` controls that
//! limit by the *minimum* read latency of a 100 ms window. A device whose cache sometimes answers always looks healthy
//! by that measure, so this form uses a high percentile. Dillon 2000 counts bytes, not requests, because the cost of a
//! write depends on its size.

mod backlog;
#[cfg(test)]
mod backlog_tests;
mod favours_writes;
mod knee;
#[cfg(test)]
mod knee_tests;
mod limit;
mod options;
mod pacing;
#[cfg(test)]
mod pacing_tests;
mod stream_start;
#[cfg(test)]
mod tests;
mod time_slices;
mod unloaded;
mod write_rate;

use super::class::ClassDetector;
use super::{DeviceClass, DeviceHints, InTransit, Verdict};
use crate::io::Reason;
use crate::units::{Bytes, Instant, Nanos};
use knee::Knee;
use limit::Sample;
use pacing::Pacing;
use stream_start::StreamStart;
use time_slices::TimeSlices;
use unloaded::UnloadedReads;

pub use options::GoalOptions;

/// A reader counts as active this long after its last read. Linux uses 100 ms ("other I/O"). Half of it leaves the
/// other half for returning to full speed within 100 ms.
const READER_SPAN: Nanos = Nanos::from_millis(50);
/// The least goal, in unloaded p95s. With two, a goal of 20 ms made the modeled disk's writers take 300 s instead of
/// 18, because every write was followed by a seek. With three it is 54 s.
pub(crate) const UNLOADED_P95S: u64 = 3;
/// The limit for a new reader before anything is measured, and the least with time slices.
const LIMIT_START: Bytes = Bytes::from_kib(512);

/// On a device with an arm, the most background writes in transit beside a reader. At the size they have in a stream,
/// two reach the limit. Of single pages the limit has room for dozens; they made up a third of the work of a news
/// server's disk (Dillon 2000) while 64 readers waited.
const BESIDE_READERS: u32 = 2;

/// The largest page.
const PAGE_MAX: u64 = 64 << 10;

/// The goal for reads and its origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Goal {
    /// The setting, or three unloaded p95s if that is more.
    pub in_force: Nanos,
    /// The setting.
    pub setting: Nanos,
    /// The p95 of recent reads with no write beside them; 0 before there were enough.
    pub unloaded_p95: Nanos,
}

/// The rules in force. At each event they follow from whether readers are active and from what is known about the
/// device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Regime {
    /// No caller has read, or waited for a small fsync, within [`READER_SPAN`].
    NoReader,
    /// The device serves new writes before waiting reads.
    TimeSlices,
    /// As far as is known, the device serves reads and writes side by side.
    SideBySide,
}

/// The purpose of a write, as far as its share and its limit depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// A caller waits for it: a sync, reclaim, a dirtier that sleeps.
    Waited,
    Background,
}

/// The inputs of the rules at an event.
#[derive(Clone, Copy, Debug)]
struct Facts<'a> {
    now: Instant,
    /// The goal in force.
    goal: Nanos,
    /// The writers' share of the time, in percent.
    share: u32,
    /// The device has one arm.
    seeks: bool,
    in_transit: &'a InTransit,
}

/// A caller's wait that has ended.
#[derive(Clone, Copy, Debug)]
struct WaitEnd {
    begun: Instant,
    /// For a read, and not for a write.
    is_read: bool,
    /// Writes were in transit meanwhile.
    beside_writes: bool,
}

/// The state of the controller.
#[derive(Clone, Debug)]
pub struct GoalState {
    options: GoalOptions,
    /// This device's goal, if it differs from the setting.
    own_goal: Option<Nanos>,
    class: ClassDetector,
    /// The limit in transit beside readers.
    limit: Bytes,
    sample: Sample,
    /// The previous window missed the goal.
    missed_before: bool,
    /// The purpose of the writes that asked last.
    purpose: Purpose,
    knee: Knee,
    pacing: Pacing,
    unloaded: UnloadedReads,
    slices: TimeSlices,
    /// The last write, if it began a stream.
    stream_start: Option<StreamStart>,
}

impl GoalState {
    /// A controller that has seen nothing yet.
    pub fn new(options: GoalOptions) -> GoalState {
        let limit = LIMIT_START.clamp(
            options.in_transit_min,
            options.in_transit_max.max(options.in_transit_min),
        );
        GoalState {
            options,
            own_goal: None,
            class: ClassDetector::default(),
            limit,
            sample: Sample::new(Instant(0)),
            missed_before: false,
            purpose: Purpose::Background,
            knee: Knee::new(),
            pacing: Pacing::new(),
            unloaded: UnloadedReads::new(),
            slices: TimeSlices::new(),
            stream_start: None,
        }
    }

    /// The settings.
    pub fn options(&self) -> GoalOptions {
        self.options
    }

    /// Takes new settings. What was learned about the device is kept only if they are the same.
    pub(super) fn retune(&mut self, options: GoalOptions) {
        if options == self.options {
            return;
        }
        *self = GoalState {
            own_goal: self.own_goal,
            class: self.class.clone(),
            ..GoalState::new(options)
        };
    }

    /// What is known about the device before it is used.
    pub(super) fn found(&mut self, hints: DeviceHints) {
        *self = GoalState {
            own_goal: hints.goal,
            ..GoalState::new(self.options)
        };
        self.class.found(hints);
    }

    /// The kind of device.
    pub fn class(&self) -> DeviceClass {
        self.class.class()
    }

    /// The goal as set, or as given by the device.
    fn setting(&self) -> Nanos {
        self.own_goal.unwrap_or(self.options.read_latency)
    }

    /// The goal in force.
    pub fn goal(&self) -> Nanos {
        self.setting().max(Nanos(self.unloaded.p95().0 * UNLOADED_P95S))
    }

    /// The goal in force and its origin.
    pub fn explain_goal(&self) -> Goal {
        Goal {
            in_force: self.goal(),
            setting: self.setting(),
            unloaded_p95: self.unloaded.p95(),
        }
    }

    fn regime(&self, now: Instant, in_transit: &InTransit) -> Regime {
        if !in_transit.reader_active(now, READER_SPAN) {
            Regime::NoReader
        } else if self.slices.favours_writes() {
            Regime::TimeSlices
        } else {
            Regime::SideBySide
        }
    }

    /// Whether a request costs a seek, however short it is.
    fn seeks(&self) -> bool {
        self.class().seeks()
    }

    /// The writers' share of the time, in percent.
    fn share(&self) -> u32 {
        match self.purpose {
            Purpose::Waited => self.options.share_waited,
            Purpose::Background => self.options.share_background,
        }
    }

    fn facts<'a>(&self, now: Instant, in_transit: &'a InTransit) -> Facts<'a> {
        Facts {
            now,
            goal: self.goal(),
            share: self.share(),
            seeks: self.seeks(),
            in_transit,
        }
    }

    /// How many bytes of writes may be in transit now, for the writes that asked last.
    pub(super) fn in_transit_limit(&self, now: Instant, in_transit: &InTransit) -> Bytes {
        match self.regime(now, in_transit) {
            Regime::NoReader => self.limit_without_readers(),
            Regime::TimeSlices | Regime::SideBySide => self.limit_beside_readers(),
        }
    }

    /// What the device drains within seven eighths of the goal, minus the latency of a read itself: the next reader
    /// meets no more than that. The maximum until 4 MiB were written and the rate is known.
    fn limit_without_readers(&self) -> Bytes {
        let goal = self.goal().0;
        let span = Nanos((goal - goal / 8).saturating_sub(self.unloaded.p95().0));
        let (least, most) = (self.options.in_transit_min, self.options.in_transit_max);
        let drained = self.slices.drained_in(span).unwrap_or(most);
        drained.clamp(least, most.max(least))
    }

    /// Where reads and writes are served side by side, the tail controls the limit. With half of it for background
    /// writes, the writers of a real flash disk took 1.75 s instead of 1.27, at the same tail.
    fn limit_beside_readers(&self) -> Bytes {
        match self.purpose {
            _ if !self.slices.favours_writes() => Bytes(self.knee.in_transit(self.range())),
            Purpose::Waited => self.limit,
            Purpose::Background => Bytes(self.limit.0 / 2),
        }
    }

    /// Half of the limit: two writes in transit keep a device busy, and each is as long as it may be. A multiple of the
    /// largest page, so that two of them fit.
    pub(super) fn write_bytes(&self, now: Instant, in_transit: &InTransit) -> Bytes {
        let half = self.in_transit_limit(now, in_transit).0 / 2;
        let whole = half - if half < PAGE_MAX { 0 } else { half % PAGE_MAX };
        Bytes(whole.max(self.options.in_transit_min.0))
    }

    /// A write of `bytes` asks. The rules are checked in order; the first that makes it wait decides.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        reason: Reason,
        bytes: Bytes,
        in_transit: &InTransit,
    ) -> Verdict {
        let writes = in_transit.writes();
        if self.regime(now, in_transit) == Regime::NoReader {
            self.forget_readers();
            let most = self.limit_without_readers().max(bytes);
            return Verdict::go_if(writes + bytes <= most);
        }
        self.purpose = match reason {
            Reason::Background if !in_transit.dirtiers_wait() => Purpose::Background,
            _ => Purpose::Waited,
        };
        let facts = self.facts(now, in_transit);
        let verdict = self.slices.admit(facts, bytes);
        if verdict.is_wait() {
            return verdict;
        }
        let verdict = self.admit_behind_stream_start(facts);
        if verdict.is_wait() {
            return verdict;
        }
        let is_background = self.purpose == Purpose::Background;
        if self.seeks() && is_background && in_transit.write_requests() >= BESIDE_READERS {
            return Verdict::Wait(None);
        }
        let limit = self.limit_beside_readers();
        let is_limited = writes > Bytes(0) && writes + bytes > limit;
        self.sample.limited |= is_limited;
        let has_room_for_two = writes.0 + 2 * bytes.0 <= limit.0;
        self.knee.asked(now, is_limited, has_room_for_two);
        if writes == Bytes(0) {
            // Whatever came in between: the head is elsewhere.
            self.stream_begun(bytes);
        }
        if is_limited {
            return Verdict::Wait(None);
        }
        self.pacing.admit(now, bytes)
    }

    fn admit_behind_stream_start(&mut self, facts: Facts<'_>) -> Verdict {
        let Some(start) = &mut self.stream_start else {
            return Verdict::Go;
        };
        let verdict = start.admit_next(facts, self.slices.best_bytes_per_ms());
        if verdict == Verdict::Go {
            self.stream_start = None;
        }
        verdict
    }

    /// No reader is active now: what was learned about the last ones does not apply to the next.
    fn forget_readers(&mut self) {
        self.slices.forget_readers();
        self.stream_start = None;
        // The running trial has nothing left to compare.
        self.knee.forget_trial();
        self.pacing.forget_trial();
    }

    /// A transfer of `bytes` was issued.
    pub(super) fn issued(&mut self, now: Instant, reason: Reason, bytes: Bytes, in_transit: &InTransit) {
        let is_read = reason == Reason::Fault && !self.slices.had_backlog(now);
        self.class.issued(now, is_read, bytes, in_transit.all());
    }

    /// A read has ended.
    pub(super) fn read_done(&mut self, now: Instant, issued_at: Instant, in_transit: &InTransit) {
        self.class.read_done(now, issued_at);
        self.add_unloaded(now, issued_at, in_transit);
        let end = WaitEnd {
            begun: issued_at,
            is_read: true,
            beside_writes: in_transit.last_write() > issued_at || in_transit.writes() > Bytes(0),
        };
        self.wait_ended(now, end, in_transit);
    }

    /// A transfer that a caller has awaited since `begun` has ended: a write of a small fsync, or a read ahead. Its end
    /// says nothing about the writes beside it. A scan that reads at the device's full speed waits longer than the goal
    /// by its own doing: counting that left its writers 16 MB/s of 450, beside 534 of the scan.
    pub(super) fn wait_done(&mut self, now: Instant, reason: Reason, begun: Instant, in_transit: &InTransit) {
        if reason == Reason::ReadAhead {
            self.add_unloaded(now, begun, in_transit);
        }
        let end = WaitEnd {
            begun,
            is_read: false,
            beside_writes: in_transit.writes() > Bytes(0),
        };
        self.wait_ended(now, end, in_transit);
    }

    /// The device's part of a small fsync has ended. Its duration depends on the device alone, and says nothing about
    /// what may be in transit.
    pub(super) fn device_sync_done(&mut self, now: Instant, in_transit: &InTransit) {
        self.slices.device_sync_ended(self.facts(now, in_transit));
    }

    /// A read that a caller has awaited since `begun` has ended.
    fn add_unloaded(&mut self, now: Instant, begun: Instant, in_transit: &InTransit) {
        if in_transit.writes() == Bytes(0) && !self.slices.had_backlog(begun) {
            self.unloaded
                .add(now, now.since(begun.max(in_transit.last_write())));
        }
    }

    fn wait_ended(&mut self, now: Instant, end: WaitEnd, in_transit: &InTransit) {
        let facts = self.facts(now, in_transit);
        let latency = now.since(end.begun);
        // Of little in transit it is nothing special that as much was written meanwhile.
        let limit = match self.knee.bytes() {
            Some(_) => self.limit.max(LIMIT_START),
            None => self.limit,
        };
        self.slices.wait_ended(facts, end, limit);
        self.judge(now, latency, end.beside_writes);
    }

    /// The write just issued does not start where the previous one ended.
    pub(super) fn stream_begun(&mut self, bytes: Bytes) {
        self.stream_start = self.slices.favours_writes().then(|| StreamStart::new(bytes));
    }

    /// A write has ended.
    pub(super) fn write_done(
        &mut self,
        now: Instant,
        bytes: Bytes,
        issued_at: Instant,
        in_transit: &InTransit,
    ) {
        self.slices.write_done(now, bytes, issued_at, in_transit);
        if let Some(better) = self.knee.write_done(now, bytes, issued_at, self.range()) {
            self.limit = Bytes(better);
            self.sample = Sample::new(now);
        }
    }
}
