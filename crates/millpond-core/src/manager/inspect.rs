//! Every derived value with what it is derived from, so that it can be done again by hand.
//!
//! Seed 004: a limit had become 0, and it took a debugger on the running kernel to see it. Here each value says its formula
//! with the numbers in it, the setting, and when that was set to something else last.

use super::Manager;
use crate::dirty::limits::{BURST, DirtyLimit, DirtyableMemory, HARD_MIN, HARD_PAGES_MIN};
use crate::options::Options;
use crate::units::{Bytes, Instant, PageCount, Ratio};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A derived value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DerivedValue {
    /// What it is called in options and statistics: `dirty.hard`.
    pub name: &'static str,
    /// In pages.
    pub pages: PageCount,
    /// How it is found, with the numbers: `20 % of 100000 dirtyable, 256 to 93750`.
    pub formula: String,
    /// What was set, as it was given.
    pub setting: String,
    /// When that was set to something else last; the beginning, if it never was.
    pub set_at: Instant,
}

/// When each setting got the value that it has.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct SetAt {
    hard: Instant,
    background: Instant,
    failed: Instant,
    reserve: Instant,
    watermarks: Instant,
    memory: Instant,
}

impl SetAt {
    /// The options have become others.
    pub(super) fn retuned(&mut self, now: Instant, old: &Options, new: &Options) {
        for (at, is_other) in [
            (&mut self.hard, old.dirty.hard != new.dirty.hard),
            (&mut self.background, old.dirty.background != new.dirty.background),
            (&mut self.failed, old.dirty.failed != new.dirty.failed),
            (&mut self.reserve, old.reserve != new.reserve),
            (&mut self.watermarks, old.watermarks != new.watermarks),
        ] {
            if is_other {
                *at = now;
            }
        }
    }

    /// The budget has.
    pub(super) fn memory_changed(&mut self, now: Instant) {
        self.memory = now;
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

impl Manager {
    /// Every value that is derived from options and memory, and how. The same for all who ask.
    pub fn inspect(&self) -> Vec<DerivedValue> {
        let (options, d, at) = (&self.options, &self.derived, &self.set_at);
        let (frames, page) = (d.frames.0, options.page_size);
        let dirty = &d.dirty;
        let dirtyable = DirtyableMemory {
            frames: d.frames,
            reserve: d.reserve,
            page_size: page,
        }
        .pages();
        let of = |limit: DirtyLimit| match limit {
            DirtyLimit::Share(share) => format!("{} of {} dirtyable", ratio(share), dirtyable.0),
            DirtyLimit::Size(Bytes(bytes)) => format!("{bytes} B / {} B, rounded up", page.bytes()),
        };
        let ceiling = (dirtyable.0 - dirtyable.0 / 16).max(2);
        let least = HARD_MIN
            .to_pages(page)
            .0
            .max(HARD_PAGES_MIN)
            .min(ceiling / 2)
            .max(2);
        let memory = format!("{}", d.frames.to_bytes(page));
        let value = |name, pages, formula, setting, set_at| DerivedValue {
            name,
            pages,
            formula,
            setting,
            set_at,
        };
        let rule = format!("{:?}", options.watermarks);
        let later = |setting: Instant| setting.max(at.memory);
        let free_run = format!("({} + {}) / 2", dirty.background.0, dirty.hard.0);
        let both = format!(
            "{}, {}",
            limit(options.dirty.background),
            limit(options.dirty.hard)
        );
        Vec::from([
            value(
                "memory",
                d.frames,
                format!("{} frames of {}", frames, Bytes(page.bytes())),
                memory.clone(),
                at.memory,
            ),
            value(
                "watermarks.min",
                d.watermarks.min,
                format!("by the rule, of {frames} frames; an eighth of them at most"),
                rule.clone(),
                later(at.watermarks),
            ),
            value(
                "watermarks.low",
                d.watermarks.low,
                format!("{} + gap by the rule", d.watermarks.min.0),
                rule.clone(),
                later(at.watermarks),
            ),
            value(
                "watermarks.high",
                d.watermarks.high,
                format!("{} + gap by the rule", d.watermarks.low.0),
                rule,
                later(at.watermarks),
            ),
            value(
                "reserve",
                d.reserve,
                format!(
                    "{} of {frames} frames, 1 to {} (watermarks.min)",
                    ratio(options.reserve),
                    d.watermarks.min.0
                ),
                ratio(options.reserve),
                later(at.reserve),
            ),
            value(
                "dirtyable",
                dirtyable,
                format!(
                    "{frames} frames - {} reserve, {} at least",
                    d.reserve.0,
                    frames / 16
                ),
                memory.clone(),
                later(at.reserve),
            ),
            value(
                "dirty.hard",
                dirty.hard,
                format!("{}, {least} to {ceiling}", of(options.dirty.hard)),
                limit(options.dirty.hard),
                later(at.hard),
            ),
            value(
                "dirty.background",
                dirty.background,
                format!(
                    "{}, 1 to {} (dirty.hard - 1)",
                    of(options.dirty.background),
                    dirty.hard.0 - 1
                ),
                limit(options.dirty.background),
                later(at.background),
            ),
            value(
                "dirty.free_run",
                dirty.free_run,
                free_run,
                both,
                later(at.background.max(at.hard)),
            ),
            value(
                "dirty.failed",
                dirty.failed,
                format!(
                    "{} of {} (dirty.hard), 1 at least",
                    ratio(options.dirty.failed),
                    dirty.hard.0
                ),
                ratio(options.dirty.failed),
                later(at.failed.max(at.hard)),
            ),
            value(
                "dirty.ceiling",
                dirty.ceiling,
                format!("15/16 of {} dirtyable", dirtyable.0),
                memory,
                at.memory,
            ),
            value(
                "dirty.burst",
                dirty.burst,
                format!("{BURST}, {} (dirty.hard) at most", dirty.hard.0),
                "none".into(),
                at.memory,
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Effects, Event};
    use crate::manager::tests::Frames;
    use alloc::boxed::Box;

    #[test]
    fn each_value_says_its_formula_its_setting_and_since_when() {
        let mut manager = Manager::new(Options::default(), PageCount(100_000)).unwrap();
        let at =
            |manager: &Manager, name: &str| manager.inspect().into_iter().find(|v| v.name == name).unwrap();
        let hard = at(&manager, "dirty.hard");
        assert_eq!(hard.formula, "20 % of 99610 dirtyable, 256 to 93385");
        assert_eq!(
            (hard.pages.0, hard.setting.as_str(), hard.set_at),
            (19_922, "20 %", Instant(0))
        );
        assert_eq!(
            at(&manager, "dirtyable").formula,
            "100000 frames - 390 reserve, 6250 at least"
        );
        let mut set = |ms: u64, limit| {
            let mut options = manager.options().clone();
            options.dirty.hard = limit;
            let event = Event::Retuned(Box::new(options));
            manager.step(
                Instant(ms),
                event,
                &mut Frames::default(),
                &mut Effects::default(),
            );
            at(&manager, "dirty.hard")
        };
        let one = set(7, DirtyLimit::Size(Bytes(1)));
        assert_eq!(one.formula, "1 B / 4096 B, rounded up, 256 to 93385");
        assert_eq!(
            (one.pages.0, one.setting.as_str(), one.set_at),
            (256, "1 B", Instant(7))
        );
        // The same once more is no change.
        assert_eq!(set(9, DirtyLimit::Size(Bytes(1))).set_at, Instant(7));
        assert_eq!(
            set(11, DirtyLimit::Share(Ratio::percent(20))),
            DerivedValue {
                set_at: Instant(11),
                ..hard
            }
        );
    }
}
