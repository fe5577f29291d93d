//! The interface between the manager and a form of admission, and the form chosen by the options.
//!
//! A form decides from what is in transit and from the events it sees: a write asks, a transfer is issued or ends, a
//! caller's wait ends. All methods but [`Form::admit`] are optional.

use super::bytes::BytesState;
use super::goal::{Goal, GoalState};
use super::{AdmissionOptions, DeviceClass, DeviceHints, InTransit, Verdict};
use crate::io::Reason;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use core::fmt;

/// A form of admission. Each method is called after the in-transit counts are updated.
pub trait Form: Clone + fmt::Debug {
    /// A write of `bytes` for `reason` asks whether it may be issued now.
    fn admit(&mut self, now: Instant, reason: Reason, bytes: Bytes, in_transit: &InTransit) -> Verdict;

    /// Takes new settings, for forms that have settings in the options.
    fn retune(&mut self, _options: AdmissionOptions) -> Retuned {
        Retuned::AsBefore
    }

    /// What is known about the device before it is used.
    fn found(&mut self, _hints: DeviceHints) {}

    /// The kind of device, for forms that distinguish them.
    fn class(&self) -> Option<DeviceClass> {
        None
    }

    /// A transfer of `bytes` was issued.
    fn issued(&mut self, _now: Instant, _reason: Reason, _bytes: Bytes, _in_transit: &InTransit) {}

    /// A transfer issued at `issued_at` has ended.
    fn completed(
        &mut self,
        _now: Instant,
        _reason: Reason,
        _bytes: Bytes,
        _issued_at: Instant,
        _in_transit: &InTransit,
    ) {
    }

    /// A caller's wait since `begun` has ended, for a transfer that was not made for this caller alone.
    fn wait_ended(&mut self, _now: Instant, _reason: Reason, _begun: Instant, _in_transit: &InTransit) {}

    /// The device's part of a small fsync has ended.
    fn device_sync_ended(&mut self, _now: Instant, _in_transit: &InTransit) {}

    /// The write of `bytes` just issued does not start where the previous one ended.
    fn stream_begun(&mut self, _bytes: Bytes) {}

    /// How many bytes of writes may be in transit. A form that counts requests returns the maximum.
    fn in_transit_limit(&self, _now: Instant, _in_transit: &InTransit) -> Bytes {
        Bytes(u64::MAX)
    }

    /// The largest write that should be issued.
    fn write_bytes(&self, _now: Instant, _in_transit: &InTransit) -> Bytes {
        Bytes(u64::MAX)
    }

    /// The goal for a percentile of reads, for forms that have one.
    fn goal(&self) -> Option<Goal> {
        None
    }

    /// Whether writes of a small fsync are held back like other writes. The kernels make no difference. For a goal they
    /// are like reads: small, and a caller waits for them.
    fn holds_small_fsyncs_back(&self) -> bool {
        true
    }
}

/// The effect of new settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retuned {
    /// The form keeps what it has learned.
    AsBefore,
    /// The form starts over, knowing nothing of the device.
    Anew,
}

/// The form chosen by the options.
#[derive(Clone, Debug)]
pub enum Configured {
    /// [`AdmissionOptions::Off`].
    Off,
    /// [`AdmissionOptions::Bytes`].
    Bytes(BytesState),
    /// [`AdmissionOptions::Goal`].
    Goal(Box<GoalState>),
}

impl Configured {
    /// A form that has seen nothing yet.
    pub fn new(options: AdmissionOptions) -> Configured {
        match options {
            AdmissionOptions::Off => Configured::Off,
            AdmissionOptions::Bytes(options) => Configured::Bytes(BytesState::new(options)),
            AdmissionOptions::Goal(options) => Configured::Goal(Box::new(GoalState::new(options))),
        }
    }
}

impl Form for Configured {
    fn admit(&mut self, now: Instant, reason: Reason, bytes: Bytes, in_transit: &InTransit) -> Verdict {
        match self {
            Configured::Off => Verdict::Go,
            Configured::Bytes(form) => form.admit(in_transit),
            Configured::Goal(form) => form.admit(now, reason, bytes, in_transit),
        }
    }

    /// A goal that stays keeps what it has learned.
    fn retune(&mut self, options: AdmissionOptions) -> Retuned {
        match (options, &mut *self) {
            (AdmissionOptions::Goal(new), Configured::Goal(form)) => form.retune(new),
            _ => {
                *self = Configured::new(options);
                return Retuned::Anew;
            }
        }
        Retuned::AsBefore
    }

    fn found(&mut self, hints: DeviceHints) {
        if let Configured::Goal(form) = self {
            form.found(hints);
        }
    }

    fn class(&self) -> Option<DeviceClass> {
        match self {
            Configured::Goal(form) => Some(form.class()),
            _ => None,
        }
    }

    fn issued(&mut self, now: Instant, reason: Reason, bytes: Bytes, in_transit: &InTransit) {
        match self {
            Configured::Bytes(form) => form.issued(in_transit),
            Configured::Goal(form) => form.issued(now, reason, bytes, in_transit),
            Configured::Off => {}
        }
    }

    fn completed(
        &mut self,
        now: Instant,
        reason: Reason,
        bytes: Bytes,
        issued_at: Instant,
        in_transit: &InTransit,
    ) {
        match self {
            Configured::Goal(form) if !reason.is_read() => {
                form.write_done(now, bytes, issued_at, in_transit);
            }
            Configured::Goal(form) if reason == Reason::Fault => form.read_done(now, issued_at, in_transit),
            _ => {}
        }
    }

    fn wait_ended(&mut self, now: Instant, reason: Reason, begun: Instant, in_transit: &InTransit) {
        if let Configured::Goal(form) = self {
            form.wait_done(now, reason, begun, in_transit);
        }
    }

    fn device_sync_ended(&mut self, now: Instant, in_transit: &InTransit) {
        if let Configured::Goal(form) = self {
            form.device_sync_done(now, in_transit);
        }
    }

    fn stream_begun(&mut self, bytes: Bytes) {
        if let Configured::Goal(form) = self {
            form.stream_begun(bytes);
        }
    }

    fn in_transit_limit(&self, now: Instant, in_transit: &InTransit) -> Bytes {
        match self {
            Configured::Off => Bytes(u64::MAX),
            Configured::Bytes(form) => form.options().high,
            Configured::Goal(form) => form.in_transit_limit(now, in_transit),
        }
    }

    fn write_bytes(&self, now: Instant, in_transit: &InTransit) -> Bytes {
        match self {
            Configured::Goal(form) => form.write_bytes(now, in_transit),
            _ => Bytes(u64::MAX),
        }
    }

    fn goal(&self) -> Option<Goal> {
        match self {
            Configured::Goal(form) => Some(form.explain_goal()),
            _ => None,
        }
    }

    fn holds_small_fsyncs_back(&self) -> bool {
        !matches!(self, Configured::Goal(_))
    }
}
