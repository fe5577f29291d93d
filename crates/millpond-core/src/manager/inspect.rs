//! Every derived value with its inputs, so that it can be recomputed by hand.
//!
//! Hills 2015: finding that a limit had become 0 took a debugger on the running kernel. Here each value carries its
//! formula with the numbers, the setting, and when that setting last changed.

use super::derived::reserve;
use super::{Manager, Occupancy};
use crate::admission::Form;
use crate::admission::goal::{Goal, UNLOADED_P95S};
use crate::dirty::limits::{DirtyLimit, DirtyableMemory, Formulas};
use crate::formula::{Formula, ratio};
use crate::memory::watermark::{self, WatermarkRule};
use crate::options::Options;
use crate::units::{Bytes, Instant, Nanos, PageCount};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A derived value.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DerivedValue {
    /// Its name in options and statistics, such as `dirty.hard`.
    pub name: &'static str,
    /// In pages.
    pub pages: PageCount,
    /// The formula with its numbers: `20 % of 100000 dirtyable, 256 to 93750`.
    pub formula: String,
    /// The inputs in the order of the formula, in pages unless the name says otherwise.
    pub inputs: Vec<(&'static str, u64)>,
    /// The setting as given.
    pub setting: String,
    /// The settings that influence it, directly or through its inputs, nearest first.
    pub settings: Vec<&'static str>,
    /// When one of them last changed; the start if none ever did.
    pub set_at: Instant,
    /// Which of them that was; `None` if none ever changed.
    pub set_last: Option<&'static str>,
}

/// The read latency goal that writes are held back for. It changes with the device's performance.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GoalInForce {
    /// The goal in force.
    pub goal: Nanos,
    /// The formula with its numbers.
    pub formula: String,
    /// The setting.
    pub setting: Nanos,
    /// The p95 of reads while nothing was written; 0 before there were enough of them.
    pub unloaded_p95: Nanos,
}

/// The settings that a limit can depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Knob {
    Hard,
    Background,
    Failed,
    Reserve,
    Watermarks,
    Memory,
}

use Knob::{Background, Failed, Hard, Memory, Reserve, Watermarks};

impl Knob {
    const COUNT: usize = 6;

    fn name(self) -> &'static str {
        match self {
            Hard => "dirty.hard",
            Background => "dirty.background",
            Failed => "dirty.failed",
            Reserve => "reserve",
            Watermarks => "watermarks.scale",
            Memory => "memory",
        }
    }
}

/// When each setting got the value that it has.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct SetAt([Instant; Knob::COUNT]);

impl SetAt {
    /// The options have become others.
    pub(super) fn retuned(&mut self, now: Instant, old: &Options, new: &Options) {
        for (knob, is_other) in [
            (Hard, old.dirty.hard != new.dirty.hard),
            (Background, old.dirty.background != new.dirty.background),
            (Failed, old.dirty.failed != new.dirty.failed),
            (Reserve, old.reserve != new.reserve),
            (Watermarks, old.watermarks != new.watermarks),
        ] {
            if is_other {
                self.0[knob as usize] = now;
            }
        }
    }

    /// The budget has.
    pub(super) fn memory_changed(&mut self, now: Instant) {
        self.0[Memory as usize] = now;
    }

    /// Which of these was set last, and when.
    fn last(&self, knobs: &[Knob]) -> (Instant, Option<&'static str>) {
        let at = |knob: &Knob| self.0[*knob as usize];
        // Of several at a time the nearest.
        let latest = knobs.iter().rev().max_by_key(|knob| at(knob));
        let latest = latest.filter(|knob| at(knob) > Instant(0));
        (latest.map_or(Instant(0), at), latest.map(|knob| knob.name()))
    }
}

fn limit(limit: DirtyLimit) -> String {
    match limit {
        DirtyLimit::Share(share) => ratio(share),
        DirtyLimit::Size(bytes) => format!("{bytes}"),
    }
}

fn rule(rule: WatermarkRule) -> String {
    match rule {
        WatermarkRule::Linux3 => "linux-3".into(),
        WatermarkRule::Linux46 { scale } => format!("linux-4.6, scale {}", ratio(scale)),
        WatermarkRule::Millpond { scale } => format!("millpond, scale {}", ratio(scale)),
    }
}

impl<A: Form> Manager<A> {
    /// How full the pool is at `now`.
    pub fn occupancy(&self, now: Instant) -> Occupancy {
        Occupancy {
            frames: self.derived.frames,
            free: self.free(),
            active: self.lru.active(),
            inactive: self.lru.inactive(),
            dirty: self.dirty(),
            writing: self.writing,
            failed: self.flusher.failed(),
            dirtiers_blocked: self.blocked.len() as u64,
            in_transit_writes: (self.devices.iter())
                .map(|device| device.admission.in_transit().writes())
                .fold(Bytes(0), |sum, bytes| sum + bytes),
            in_transit_limit: self.devices.busiest().admission.in_transit_limit(now),
        }
    }

    /// Every value derived from options and memory, with its derivation. The same for every caller.
    pub fn inspect(&self) -> Vec<DerivedValue> {
        let mut values = self.inspect_memory();
        values.extend(self.inspect_dirty());
        values
    }

    /// The read latency goal of the busiest device, if the form of admission has one.
    pub fn inspect_goal(&self) -> Option<GoalInForce> {
        let Goal {
            in_force,
            setting,
            unloaded_p95,
        } = self.devices.busiest().admission.goal()?;
        let us = |span: Nanos| span.0.div_ceil(1_000);
        Some(GoalInForce {
            goal: in_force,
            formula: format!(
                "{UNLOADED_P95S} * {} us (unloaded p95 of the last reads), {} us \
                 (admission.read_latency) at least",
                us(unloaded_p95),
                us(setting)
            ),
            setting,
            unloaded_p95,
        })
    }

    /// Frames, water marks, the reserve.
    fn inspect_memory(&self) -> Vec<DerivedValue> {
        let (options, d) = (&self.options, &self.derived);
        let (frames, page) = (d.frames, options.page_size);
        let [min, low, high] = watermark::formulas(options.watermarks, frames, page);
        let of_page = format!("{} frames of {}", frames.0, Bytes(page.bytes()));
        let memory = Formula::new(frames.0, of_page);
        let (bytes, set) = (format!("{}", frames.to_bytes(page)), rule(options.watermarks));
        let (reserve, share) = (reserve(options, frames, d.watermarks.min), ratio(options.reserve));
        let marks = [Watermarks, Memory];
        Vec::from([
            self.derived_value("frames", &memory, &bytes, &[Memory]),
            self.derived_value("watermarks.min", &min, &set, &marks),
            self.derived_value("watermarks.low", &low, &set, &marks),
            self.derived_value("watermarks.high", &high, &set, &marks),
            self.derived_value("reserve", &reserve, &share, &[Reserve, Watermarks, Memory]),
        ])
    }

    /// Limits on dirty pages.
    fn inspect_dirty(&self) -> Vec<DerivedValue> {
        let options = &self.options;
        let memory = DirtyableMemory {
            frames: self.derived.frames,
            reserve: self.derived.reserve,
            page_size: options.page_size,
        };
        let f = Formulas::of(&memory, &options.dirty);
        let (reserve, failed) = (ratio(options.reserve), ratio(options.dirty.failed));
        let (hard, background) = (limit(options.dirty.hard), limit(options.dirty.background));
        let both = format!("{background}, {hard}");
        let of_memory = [Reserve, Watermarks, Memory];
        let of_hard = [Hard, Reserve, Watermarks, Memory];
        let of_both = [Background, Hard, Reserve, Watermarks, Memory];
        let of_failed = [Failed, Hard, Reserve, Watermarks, Memory];
        Vec::from([
            self.derived_value("dirtyable", &f.dirtyable, &reserve, &of_memory),
            self.derived_value("dirty.ceiling", &f.ceiling, &reserve, &of_memory),
            self.derived_value("dirty.hard", &f.hard, &hard, &of_hard),
            self.derived_value("dirty.background", &f.background, &background, &of_both),
            self.derived_value("dirty.free_run", &f.free_run, &both, &of_both),
            self.derived_value("dirty.failed", &f.failed, &failed, &of_failed),
            self.derived_value("dirty.burst", &f.burst, &hard, &of_hard),
        ])
    }

    fn derived_value(
        &self,
        name: &'static str,
        formula: &Formula,
        setting: &str,
        knobs: &[Knob],
    ) -> DerivedValue {
        let (set_at, set_last) = self.set_at.last(knobs);
        DerivedValue {
            name,
            pages: formula.pages(),
            formula: formula.text().into(),
            inputs: formula.inputs().to_vec(),
            setting: setting.into(),
            settings: knobs.iter().map(|knob| knob.name()).collect(),
            set_at,
            set_last,
        }
    }
}

#[cfg(test)]
mod tests;
