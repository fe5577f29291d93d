//! What the manager asks of a form of admission, and the form that the options name.
//!
//! A form decides by what is in transit and by what it is told: that a write asks, that transfers are issued and end, that
//! waits of callers end. All but [`Form::admit`] may be left out.

use super::bytes::BytesState;
use super::goal::{Goal, GoalState};
use super::{AdmissionOptions, DeviceClass, DeviceHints, InTransit, Verdict};
use crate::io::Reason;
use crate::units::{Bytes, Instant};
use alloc::boxed::Box;
use core::fmt;

/// A form of admission. What is in transit is counted before a form is told.
pub trait Form: Clone + fmt::Debug {
    /// A write of `bytes` asks, for `reason`: whether it may be issued now.
    fn admit(&mut self, now: Instant, reason: Reason, bytes: Bytes, in_transit: &InTransit) -> Verdict;

    /// Takes the settings, of forms that have some in the options.
    fn retune(&mut self, _options: AdmissionOptions) -> Retuned {
        Retuned::AsBefore
    }

    /// What is known of the device, before it is used.
    fn found(&mut self, _hints: DeviceHints) {}

    /// The kind of device, of forms that make a difference.
    fn class(&self) -> Option<DeviceClass> {
        None
    }

    /// A transfer of `bytes` was issued.
    fn issued(&mut self, _now: Instant, _reason: Reason, _bytes: Bytes, _in_transit: &InTransit) {}

    /// A transfer that was issued at `issued_at` has ended.
    fn completed(
        &mut self,
        _now: Instant,
        _reason: Reason,
        _bytes: Bytes,
        _issued_at: Instant,
        _in_transit: &InTransit,
    ) {
    }

    /// A caller's wait, since `begun`, for a transfer that was not made for it alone has ended.
    fn wait_ended(&mut self, _now: Instant, _reason: Reason, _begun: Instant, _in_transit: &InTransit) {}

    /// The device's part of a small fsync has ended.
    fn device_sync_ended(&mut self, _now: Instant, _in_transit: &InTransit) {}

    /// The write just issued, of `bytes`, does not begin where the one before it ended.
    fn stream_begun(&mut self, _bytes: Bytes) {}

    /// How many bytes of writes may be in transit; a form that counts requests says no number.
    fn in_transit_limit(&self, _now: Instant, _in_transit: &InTransit) -> Bytes {
        Bytes(u64::MAX)
    }

    /// How large a write should be at most.
    fn write_bytes(&self, _now: Instant, _in_transit: &InTransit) -> Bytes {
        Bytes(u64::MAX)
    }

    /// The goal for a percentile of reads, of forms that have one.
    fn goal(&self) -> Option<Goal> {
        None
    }

    /// Whether writes of a small fsync are held back as others are. The kernels know no difference; for a goal they are like
    /// reads: a caller waits, and they are small.
    fn holds_small_fsyncs_back(&self) -> bool {
        true
    }
}

/// What other settings came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retuned {
    /// What was learnt is kept.
    AsBefore,
    /// It begins anew, and knows nothing of the device.
    Anew,
}

/// The form that the options name.
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

    /// A goal that stays keeps what it has learnt.
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
