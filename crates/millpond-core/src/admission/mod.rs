//! When a write may go to the device.
//!
//! Reads are admitted always and at once; what is limited is how much writing stands before them in the
//! device's queue. A closed enum of forms:
//!
//! - `Off`: as much as the device's queue takes (Axboe 2016's "base").
//! - `Percent`: Axboe 2016's v3, a share of the device's queue, and the fixed depth before it; see [`percent`].
//! - `Latency`: what Linux made of it, `blk-wbt`; see [`latency`].
//! - `Bytes`: Dillon 2000's high and low water marks on bytes in transit; reads count and never wait.
//! - `Goal`: Millpond's default, a goal for read latency; see [`goal`].

pub mod bytes;
mod gate;
pub mod goal;
mod in_transit;
pub mod latency;
pub mod percent;
mod waits;

use crate::io::Reason;
use crate::units::{Bytes, Instant, Nanos};
use alloc::boxed::Box;
use bytes::{BytesOptions, BytesState};
use goal::{GoalOptions, GoalState};
use latency::{LatencyOptions, LatencyState};
use percent::{PercentOptions, PercentState};

pub use in_transit::InTransit;

/// Which form, and its settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmissionOptions {
    /// No limit but the device's queue.
    Off,
    /// A share of the device's queue.
    Percent(PercentOptions),
    /// As many as let the fastest read of a window be fast enough.
    Latency(LatencyOptions),
    /// High and low water marks.
    Bytes(BytesOptions),
    /// A goal for read latency.
    Goal(GoalOptions),
}

/// Whether a write may be issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Now.
    Go,
    /// Not before some transfer ends, or this time has come.
    Wait(Option<Instant>),
}

impl Verdict {
    /// [`Verdict::Go`], or a wait for the end of some transfer.
    pub fn go_if(may_go: bool) -> Verdict {
        if may_go { Verdict::Go } else { Verdict::Wait(None) }
    }

    /// Whether the write has to wait.
    pub fn is_wait(self) -> bool {
        self != Verdict::Go
    }
}

#[derive(Clone, Debug)]
enum State {
    Off,
    Percent(PercentState),
    Latency(Box<LatencyState>),
    Bytes(BytesState),
    Goal(Box<GoalState>),
}

/// The admission of one device.
#[derive(Clone, Debug)]
pub struct Admission {
    in_transit: InTransit,
    state: State,
    /// No single write is larger.
    write_bytes_max: Bytes,
}

impl Admission {
    /// Nothing in transit.
    pub fn new(options: AdmissionOptions, write_bytes_max: Bytes) -> Admission {
        let mut admission = Admission {
            in_transit: InTransit::default(),
            state: State::Off,
            write_bytes_max,
        };
        admission.retune(options, write_bytes_max);
        admission
    }

    /// Takes other settings; what is in transit stays counted.
    pub fn retune(&mut self, options: AdmissionOptions, write_bytes_max: Bytes) {
        self.write_bytes_max = write_bytes_max;
        self.state = match (options, &self.state) {
            (AdmissionOptions::Off, _) => State::Off,
            (AdmissionOptions::Percent(options), _) => State::Percent(PercentState::new(options)),
            (AdmissionOptions::Latency(options), State::Latency(old)) if old.options() == options => {
                State::Latency(old.clone())
            }
            (AdmissionOptions::Latency(options), _) => State::Latency(Box::new(LatencyState::new(options))),
            (AdmissionOptions::Bytes(options), _) => State::Bytes(BytesState::new(options)),
            (AdmissionOptions::Goal(options), State::Goal(old)) if old.options() == options => {
                State::Goal(old.clone())
            }
            (AdmissionOptions::Goal(options), _) => State::Goal(Box::new(GoalState::new(options))),
        };
    }

    /// What is in transit.
    pub fn in_transit(&self) -> &InTransit {
        &self.in_transit
    }

    /// How many bytes of writes may be in transit now. Forms that count requests say no number.
    pub fn in_transit_limit(&self, now: Instant) -> Bytes {
        match &self.state {
            State::Off | State::Percent(_) | State::Latency(_) => Bytes(u64::MAX),
            State::Bytes(s) => s.options().high,
            State::Goal(s) => s.in_transit_limit(now, &self.in_transit),
        }
    }

    /// How large a write should be.
    pub fn write_bytes(&self, now: Instant) -> Bytes {
        match &self.state {
            State::Goal(s) => s.write_bytes(now, &self.in_transit).min(self.write_bytes_max),
            _ => self.write_bytes_max,
        }
    }

    /// The read latency that is aimed at, of forms that aim at one for a percentile of reads.
    pub fn read_goal(&self) -> Option<Nanos> {
        match &self.state {
            State::Goal(s) => Some(s.goal()),
            _ => None,
        }
    }

    /// The goal that was set and what reads take by themselves, of the form that has a goal for a percentile of reads.
    pub fn goal_inputs(&self) -> Option<(Nanos, Nanos)> {
        match &self.state {
            State::Goal(s) => Some((s.options().read_latency, s.unloaded_p99())),
            _ => None,
        }
    }

    /// Whether there are dirtiers that sleep until pages become clean.
    pub fn dirtiers_wait(&mut self, now: Instant, wait: bool) {
        self.in_transit.set_dirtiers_waiting(now, wait);
    }

    /// Whether writes of a brief sync are held back as others are. The kernels' forms know no difference; for a goal
    /// they are like reads: somebody waits, and they are small.
    pub fn holds_brief_back(&self) -> bool {
        !matches!(self.state, State::Goal(_))
    }

    /// Somebody waits for a transfer that was not made for him alone, as for a read: the write of a brief sync, or what was
    /// read ahead.
    pub fn wait_begun(&mut self, now: Instant) {
        self.in_transit.waits.transfer_begun(now);
    }

    /// It has ended, and was made for `reason`.
    pub fn wait_ended(&mut self, now: Instant, reason: Reason, begun: Instant) {
        self.in_transit.waits.transfer_ended(now, begun);
        if let State::Goal(s) = &mut self.state {
            s.wait_done(now, reason, begun, &self.in_transit);
        }
    }

    /// The device's part of a brief sync has begun.
    pub fn device_sync_begun(&mut self, now: Instant) {
        self.in_transit.waits.sync_begun(now);
    }

    /// One has ended.
    pub fn device_sync_ended(&mut self, now: Instant) {
        self.in_transit.waits.sync_ended(now);
        if let State::Goal(s) = &mut self.state {
            s.device_sync_done(now, &self.in_transit);
        }
    }

    /// Whether a write of `bytes` may be issued now for `reason`.
    pub fn may_write(&mut self, now: Instant, reason: Reason, bytes: Bytes) -> Verdict {
        match &mut self.state {
            State::Off => Verdict::Go,
            State::Percent(s) => s.may_write(now, reason, &self.in_transit),
            State::Latency(s) => s.may_write(now, reason, &self.in_transit),
            State::Bytes(s) => s.may_write(&self.in_transit),
            State::Goal(s) => s.admit(now, reason, bytes, &self.in_transit),
        }
    }

    /// The write just issued, of `bytes`, does not begin where the one before it ended.
    pub fn stream_begun(&mut self, bytes: Bytes) {
        if let State::Goal(s) = &mut self.state {
            s.stream_begun(bytes);
        }
    }

    /// A transfer was issued.
    pub fn issued(&mut self, now: Instant, reason: Reason, bytes: Bytes) {
        let t = &mut self.in_transit;
        t.issued(now, reason, bytes);
        if reason == Reason::Fault {
            t.waits.transfer_begun(now);
        }
        match &mut self.state {
            State::Latency(s) if reason.is_read() => s.read_issued(now),
            State::Bytes(s) => s.issued(t),
            _ => {}
        }
    }

    /// A transfer that was issued at `issued_at` has ended.
    pub fn completed(&mut self, now: Instant, reason: Reason, bytes: Bytes, issued_at: Instant) {
        let t = &mut self.in_transit;
        t.done(now, reason, bytes);
        if reason == Reason::Fault {
            t.waits.transfer_ended(now, issued_at);
        }
        match &mut self.state {
            State::Percent(s) if !reason.is_read() => s.write_done(now, t),
            State::Latency(s) if reason.is_read() => s.read_done(now, issued_at, t),
            State::Latency(s) => s.write_done(now, reason, t),
            State::Goal(s) if !reason.is_read() => s.write_done(now, bytes, issued_at, t),
            State::Goal(s) if reason == Reason::Fault => s.read_done(now, issued_at, t),
            _ => {}
        }
    }
}
