//! When a write may go to the device.
//!
//! Decides whether the next write goes now, when to ask again if not, and how large a write should be. The inputs are
//! what is in transit ([`InTransit`]) and how long reads and writes take. Known as admission control; in Linux
//! `blk-wbt`. Reads are always admitted immediately. What is limited is the amount of writing ahead of them in the
//! device's queue.
//!
//! | form | what may be in transit | from |
//! |---|---|---|
//! | `Off` | as much as the device's queue takes | Axboe 2016's "base" |
//! | `Bytes` | bytes between a high and a low water mark; reads count and never wait; [`bytes`] | Dillon 2000 |
//! | `Goal` | what a goal for read latency leaves, the default; [`goal`] | Millpond |
//!
//! ```text
//!   flusher ── job ──► admit ──► Verdict::Go ──► issued ──► completed
//!                        ▲            │              │          │
//!                        └─ Wait ◄────┘              └► InTransit ◄┘
//! ```
//!
//! Some devices serve reads equally fast whatever is written beside them. They say so
//! ([`DeviceHints::in_transit_max`]), and a limit in bytes then replaces any form.
//!
//! These forms are [`Configured`], chosen by the options. A driver may supply its own: [`Form`] is all that the manager
//! needs. The laboratory supplies the kernels' forms this way (`millpond-kernels`); no cache can be set to one of them.

pub mod bytes;
mod class;
mod form;
pub mod goal;
mod in_transit;
mod waits;

use crate::io::Reason;
use crate::mutation::{self, Mutation};
use crate::units::{Bytes, Instant};
use bytes::BytesOptions;
use goal::{Goal, GoalOptions};

pub use class::{DeviceClass, DeviceHints};
pub use form::{Configured, Form, Retuned};
pub use in_transit::InTransit;

/// The form of admission and its settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmissionOptions {
    /// No limit but the device's queue.
    Off,
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
    /// Not before some transfer ends, or until this time.
    Wait(Option<Instant>),
}

impl Verdict {
    /// [`Verdict::Go`], or a wait until some transfer ends.
    pub fn go_if(may_go: bool) -> Verdict {
        if may_go { Verdict::Go } else { Verdict::Wait(None) }
    }

    /// Whether the write must wait.
    pub fn is_wait(self) -> bool {
        self != Verdict::Go
    }
}

/// The admission of one device.
#[derive(Clone, Debug)]
pub struct Admission<F: Form = Configured> {
    in_transit: InTransit,
    form: F,
    hints: DeviceHints,
    /// The setting for the largest single write, unless the device has its own.
    write_bytes_max: Bytes,
}

impl Admission {
    /// Nothing in transit, and the form chosen by `options`.
    pub fn new(options: AdmissionOptions, write_bytes_max: Bytes) -> Admission {
        Admission::with_form(Configured::new(options), write_bytes_max)
    }
}

impl<F: Form> Admission<F> {
    /// Nothing in transit, and the caller's form.
    pub fn with_form(form: F, write_bytes_max: Bytes) -> Admission<F> {
        Admission {
            in_transit: InTransit::default(),
            form,
            hints: DeviceHints::default(),
            write_bytes_max,
        }
    }

    /// What is known about the device. The form starts over with it; the counts of what is in transit stay.
    pub fn found(&mut self, hints: DeviceHints) {
        self.hints = hints;
        self.form.found(hints);
    }

    /// What is known about the device.
    pub fn hints(&self) -> &DeviceHints {
        &self.hints
    }

    /// The form, unless the device has a limit in bytes instead.
    fn form_in_force(&self) -> Option<&F> {
        self.hints.in_transit_max.is_none().then_some(&self.form)
    }

    /// The kind of device, for forms that distinguish them.
    pub fn class(&self) -> Option<DeviceClass> {
        self.form_in_force()?.class()
    }

    /// The form.
    pub fn form(&self) -> &F {
        &self.form
    }

    /// Takes new settings. The counts of what is in transit stay.
    pub fn retune(&mut self, options: AdmissionOptions, write_bytes_max: Bytes) {
        self.write_bytes_max = write_bytes_max;
        if self.form.retune(options) == Retuned::Anew {
            self.form.found(self.hints);
        }
    }

    /// What is in transit.
    pub fn in_transit(&self) -> &InTransit {
        &self.in_transit
    }

    /// How many bytes of writes may be in transit now; the maximum if the form does not count bytes.
    pub fn in_transit_limit(&self, now: Instant) -> Bytes {
        let by_form = || self.form.in_transit_limit(now, &self.in_transit);
        self.hints.in_transit_max.unwrap_or_else(by_form)
    }

    /// The largest write: the device's limit, or else the setting.
    pub fn write_bytes_max(&self) -> Bytes {
        self.hints.transfer_max.unwrap_or(self.write_bytes_max)
    }

    /// How large a write should be.
    pub fn write_bytes(&self, now: Instant) -> Bytes {
        let max = self.write_bytes_max();
        match self.form_in_force() {
            Some(form) => form.write_bytes(now, &self.in_transit).min(max),
            None => max,
        }
    }

    /// The goal for reads, for forms with a goal for a percentile of them.
    pub fn goal(&self) -> Option<Goal> {
        self.form_in_force()?.goal()
    }

    /// Sets whether any dirtier sleeps until pages become clean.
    pub fn set_dirtiers_waiting(&mut self, now: Instant, wait: bool) {
        self.in_transit.set_dirtiers_waiting(now, wait);
    }

    /// Whether writes of a small fsync are held back like other writes.
    pub fn holds_small_fsyncs_back(&self) -> bool {
        self.form.holds_small_fsyncs_back()
    }

    /// A caller waits for a transfer that was not made for it alone, as for a read: the write of a small fsync, or what was
    /// read ahead.
    pub fn wait_begun(&mut self, now: Instant) {
        self.in_transit.waits.transfer_begun(now);
    }

    /// It has ended, and was made for `reason`.
    pub fn wait_ended(&mut self, now: Instant, reason: Reason, begun: Instant) {
        self.in_transit.waits.transfer_ended(now, begun);
        self.form.wait_ended(now, reason, begun, &self.in_transit);
    }

    /// The device's part of a small fsync has begun.
    pub fn device_sync_begun(&mut self, now: Instant) {
        self.in_transit.waits.sync_begun(now);
    }

    /// One has ended.
    pub fn device_sync_ended(&mut self, now: Instant) {
        self.in_transit.waits.sync_ended(now);
        self.form.device_sync_ended(now, &self.in_transit);
    }

    /// A write of `bytes` asks, for `reason`: whether it may be issued now.
    pub fn admit(&mut self, now: Instant, reason: Reason, bytes: Bytes) -> Verdict {
        match self.hints.in_transit_max {
            // One may always go.
            Some(limit) if !mutation::is(Mutation::DeviceLimitIsTheForms) => {
                let writes = self.in_transit.writes();
                Verdict::go_if(writes == Bytes(0) || writes + bytes <= limit)
            }
            _ => self.form.admit(now, reason, bytes, &self.in_transit),
        }
    }

    /// The write just issued, of `bytes`, does not begin where the one before it ended.
    pub fn stream_begun(&mut self, bytes: Bytes) {
        self.form.stream_begun(bytes);
    }

    /// A transfer was issued.
    pub fn issued(&mut self, now: Instant, reason: Reason, bytes: Bytes) {
        self.in_transit.issued(now, reason, bytes);
        if reason == Reason::Fault {
            self.in_transit.waits.transfer_begun(now);
        }
        self.form.issued(now, reason, bytes, &self.in_transit);
    }

    /// A transfer that was issued at `issued_at` has ended.
    pub fn completed(&mut self, now: Instant, reason: Reason, bytes: Bytes, issued_at: Instant) {
        self.in_transit.done(now, reason, bytes);
        if reason == Reason::Fault {
            self.in_transit.waits.transfer_ended(now, issued_at);
        }
        self.form
            .completed(now, reason, bytes, issued_at, &self.in_transit);
    }
}
