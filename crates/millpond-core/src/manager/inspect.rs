//! Every derived value with its inputs, so that it can be recomputed by hand.
//!
//! Hills 2015: finding that a limit had become 0 took a debugger on the running kernel. Here each value carries its
//! formula with the numbers, the setting, and when that setting last changed.

use super::{Manager, Occupancy};
use crate::admission::Form;
use crate::admission::goal::{Goal, UNLOADED_P95S};
use crate::dirty::limits::{BURST, DirtyLimit, DirtyableMemory, HARD_MIN, HARD_PAGES_MIN};
use crate::memory::watermark::{WatermarkRule, linux_min_free_kib};
use crate::options::Options;
use crate::units::{Bytes, Instant, Nanos, PageCount, Ratio};
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

fn ratio(share: Ratio) -> String {
    match share.den {
        100 => format!("{} %", share.num),
        _ => format!("{}/{}", share.num, share.den),
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
            in_transit_limit: self.busiest().admission.in_transit_limit(now),
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
        } = self.busiest().admission.goal()?;
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

    fn derived_value(
        &self,
        name: &'static str,
        pages: PageCount,
        formula: String,
        inputs: &[(&'static str, u64)],
        setting: String,
        knobs: &[Knob],
    ) -> DerivedValue {
        let (set_at, set_last) = self.set_at.last(knobs);
        DerivedValue {
            name,
            pages,
            formula,
            inputs: inputs.to_vec(),
            setting,
            settings: knobs.iter().map(|knob| knob.name()).collect(),
            set_at,
            set_last,
        }
    }

    fn dirtyable(&self) -> PageCount {
        DirtyableMemory {
            frames: self.derived.frames,
            reserve: self.derived.reserve,
            page_size: self.options.page_size,
        }
        .pages()
    }

    /// Frames, water marks, the reserve.
    fn inspect_memory(&self) -> Vec<DerivedValue> {
        let (options, d) = (&self.options, &self.derived);
        let (frames, page, w) = (d.frames.0, options.page_size, &d.watermarks);
        let linux_kib = linux_min_free_kib(d.frames, page);
        let linux = Bytes::from_kib(linux_kib).to_pages(page).0;
        let (min, low_gap, high_gap) = match options.watermarks {
            WatermarkRule::Linux3 => (None, format!("1/4 of {linux}"), format!("1/2 - 1/4 of {linux}")),
            WatermarkRule::Linux46 { scale } => {
                let gap = format!(
                    "the larger of 1/4 of {linux} and {} of {frames} frames",
                    ratio(scale)
                );
                (None, gap.clone(), gap)
            }
            WatermarkRule::Millpond { scale } => {
                let gap = format!("{} of {frames} frames", ratio(scale));
                (Some(gap.clone()), gap.clone(), gap)
            }
        };
        let min = min.unwrap_or_else(|| {
            let kib = d.frames.to_bytes(page).0 >> 10;
            format!("{linux} pages (the root of 16 * {kib} KiB is {linux_kib} KiB; 128 to 65536)")
        });
        let (eighth, sixteenth) = (frames / 8, (frames / 16).max(1));
        let marks = [Watermarks, Memory];
        let set = rule(options.watermarks);
        Vec::from([
            self.derived_value(
                "frames",
                d.frames,
                format!("{frames} frames of {}", Bytes(page.bytes())),
                &[],
                format!("{}", d.frames.to_bytes(page)),
                &[Memory],
            ),
            self.derived_value(
                "watermarks.min",
                w.min,
                format!("{min}, 1 to {eighth} (1/8 of {frames} frames)"),
                &[("frames", frames)],
                set.clone(),
                &marks,
            ),
            self.derived_value(
                "watermarks.low",
                w.low,
                format!(
                    "{} (watermarks.min) + {low_gap}, 1 to {sixteenth} (1/16 of {frames} frames)",
                    w.min.0
                ),
                &[("watermarks.min", w.min.0), ("frames", frames)],
                set.clone(),
                &marks,
            ),
            self.derived_value(
                "watermarks.high",
                w.high,
                format!(
                    "{} (watermarks.low) + {high_gap}, 1 to {sixteenth} (1/16 of {frames} frames)",
                    w.low.0
                ),
                &[("watermarks.low", w.low.0), ("frames", frames)],
                set,
                &marks,
            ),
            self.derived_value(
                "reserve",
                d.reserve,
                format!(
                    "{} of {frames} frames, 1 to {} (watermarks.min)",
                    ratio(options.reserve),
                    w.min.0
                ),
                &[("frames", frames), ("watermarks.min", w.min.0)],
                ratio(options.reserve),
                &[Reserve, Watermarks, Memory],
            ),
            self.derived_value(
                "dirtyable",
                self.dirtyable(),
                format!(
                    "{frames} frames - {} reserve, {} at least",
                    d.reserve.0,
                    frames / 16
                ),
                &[("frames", frames), ("reserve", d.reserve.0)],
                ratio(options.reserve),
                &[Reserve, Watermarks, Memory],
            ),
        ])
    }

    /// Limits on dirty pages.
    fn inspect_dirty(&self) -> Vec<DerivedValue> {
        let (options, dirty, page) = (&self.options, &self.derived.dirty, self.options.page_size);
        let dirtyable = self.dirtyable().0;
        let of = |limit: DirtyLimit| match limit {
            DirtyLimit::Share(share) => format!("{} of {dirtyable} dirtyable", ratio(share)),
            DirtyLimit::Size(Bytes(bytes)) => format!("{bytes} B / {} B, rounded up", page.bytes()),
        };
        let ceiling = dirty.ceiling.0;
        let least = HARD_MIN
            .to_pages(page)
            .0
            .max(HARD_PAGES_MIN)
            .min(ceiling / 2)
            .max(2);
        let why = match least {
            _ if Bytes(least << page.shift()) == HARD_MIN => format!("{HARD_MIN}"),
            HARD_PAGES_MIN => "at least".into(),
            _ => "half of dirty.ceiling".into(),
        };
        let (hard, background) = (limit(options.dirty.hard), limit(options.dirty.background));
        Vec::from([
            self.derived_value(
                "dirty.ceiling",
                dirty.ceiling,
                format!("{dirtyable} dirtyable - 1/16 of them, 2 at least"),
                &[("dirtyable", dirtyable)],
                ratio(options.reserve),
                &[Reserve, Watermarks, Memory],
            ),
            self.derived_value(
                "dirty.hard",
                dirty.hard,
                format!(
                    "{}, {least} ({why}) to {ceiling} (dirty.ceiling)",
                    of(options.dirty.hard)
                ),
                &[
                    ("dirtyable", dirtyable),
                    ("floor", least),
                    ("dirty.ceiling", ceiling),
                ],
                hard.clone(),
                &[Hard, Reserve, Watermarks, Memory],
            ),
            self.derived_value(
                "dirty.background",
                dirty.background,
                format!(
                    "{}, 1 to {} (dirty.hard - 1)",
                    of(options.dirty.background),
                    dirty.hard.0 - 1
                ),
                &[("dirtyable", dirtyable), ("dirty.hard", dirty.hard.0)],
                background.clone(),
                &[Background, Hard, Reserve, Watermarks, Memory],
            ),
            self.derived_value(
                "dirty.free_run",
                dirty.free_run,
                format!("({} + {}) / 2", dirty.background.0, dirty.hard.0),
                &[
                    ("dirty.background", dirty.background.0),
                    ("dirty.hard", dirty.hard.0),
                ],
                format!("{background}, {hard}"),
                &[Background, Hard, Reserve, Watermarks, Memory],
            ),
            self.derived_value(
                "dirty.failed",
                dirty.failed,
                format!(
                    "{} of {} (dirty.hard), 1 at least",
                    ratio(options.dirty.failed),
                    dirty.hard.0
                ),
                &[("dirty.hard", dirty.hard.0)],
                ratio(options.dirty.failed),
                &[Failed, Hard, Reserve, Watermarks, Memory],
            ),
            self.derived_value(
                "dirty.burst",
                dirty.burst,
                format!("{BURST} / {} B, 1 to {} (dirty.hard)", page.bytes(), dirty.hard.0),
                &[("dirty.hard", dirty.hard.0)],
                hard,
                &[Hard, Reserve, Watermarks, Memory],
            ),
        ])
    }
}

#[cfg(test)]
mod tests;
