//! Every derived value with what it is derived from, so that it can be done again by hand.
//!
//! Seed 004: a limit had become 0, and it took a debugger on the running kernel to see it. Here each value says its formula
//! with the numbers in it, the setting, and when that was set to something else last.

use super::Manager;
use crate::dirty::limits::{BURST, DirtyLimit, DirtyableMemory, HARD_MIN, HARD_PAGES_MIN};
use crate::memory::watermark::{WatermarkRule, linux_min_free_kib};
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
    /// What goes into it, in pages unless the name says otherwise, in the order of the formula.
    pub inputs: Vec<(&'static str, u64)>,
    /// What was set, as it was given.
    pub setting: String,
    /// The settings that have a say in it, directly or by way of its inputs, the nearest first.
    pub settings: Vec<&'static str>,
    /// When one of them was set to something else last; the beginning, if none ever was.
    pub set_at: Instant,
    /// Which of them that was; `None`, if none ever was.
    pub set_last: Option<&'static str>,
}

/// What a limit can depend on, as users set it.
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
            Watermarks => "watermarks",
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

impl Manager {
    /// Every value that is derived from options and memory, and how. The same for all who ask.
    pub fn inspect(&self) -> Vec<DerivedValue> {
        let mut values = self.inspect_memory();
        values.extend(self.inspect_dirty());
        values
    }

    fn derived_value(
        &self,
        (name, pages): (&'static str, PageCount),
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
                ("frames", d.frames),
                format!("{frames} frames of {}", Bytes(page.bytes())),
                &[],
                format!("{}", d.frames.to_bytes(page)),
                &[Memory],
            ),
            self.derived_value(
                ("watermarks.min", w.min),
                format!("{min}, 1 to {eighth} (1/8 of {frames} frames)"),
                &[("frames", frames)],
                set.clone(),
                &marks,
            ),
            self.derived_value(
                ("watermarks.low", w.low),
                format!(
                    "{} (watermarks.min) + {low_gap}, 1 to {sixteenth} (1/16 of {frames} frames)",
                    w.min.0
                ),
                &[("watermarks.min", w.min.0), ("frames", frames)],
                set.clone(),
                &marks,
            ),
            self.derived_value(
                ("watermarks.high", w.high),
                format!(
                    "{} (watermarks.low) + {high_gap}, 1 to {sixteenth} (1/16 of {frames} frames)",
                    w.low.0
                ),
                &[("watermarks.low", w.low.0), ("frames", frames)],
                set,
                &marks,
            ),
            self.derived_value(
                ("reserve", d.reserve),
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
                ("dirtyable", self.dirtyable()),
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
                ("dirty.ceiling", dirty.ceiling),
                format!("{dirtyable} dirtyable - 1/16 of them, 2 at least"),
                &[("dirtyable", dirtyable)],
                ratio(options.reserve),
                &[Reserve, Watermarks, Memory],
            ),
            self.derived_value(
                ("dirty.hard", dirty.hard),
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
                ("dirty.background", dirty.background),
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
                ("dirty.free_run", dirty.free_run),
                format!("({} + {}) / 2", dirty.background.0, dirty.hard.0),
                &[
                    ("dirty.background", dirty.background.0),
                    ("dirty.hard", dirty.hard.0),
                ],
                format!("{background}, {hard}"),
                &[Background, Hard, Reserve, Watermarks, Memory],
            ),
            self.derived_value(
                ("dirty.failed", dirty.failed),
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
                ("dirty.burst", dirty.burst),
                format!("{BURST} / {} B, 1 to {} (dirty.hard)", page.bytes(), dirty.hard.0),
                &[("dirty.hard", dirty.hard.0)],
                hard,
                &[Hard, Reserve, Watermarks, Memory],
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
        assert_eq!(
            hard.formula,
            "20 % of 99610 dirtyable, 256 (1 MiB) to 93385 (dirty.ceiling)"
        );
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
        assert_eq!(
            one.formula,
            "1 B / 4096 B, rounded up, 256 (1 MiB) to 93385 (dirty.ceiling)"
        );
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
                set_last: Some("dirty.hard"),
                ..hard
            }
        );
    }

    #[test]
    fn a_value_follows_all_that_goes_into_it_and_what_did_not_change_is_not_stamped() {
        let mut manager = Manager::new(Options::default(), PageCount(100_000)).unwrap();
        let step = |manager: &mut Manager, ms: u64, event| {
            manager.step(
                Instant(ms),
                event,
                &mut Frames::default(),
                &mut Effects::default(),
            );
        };
        let since = |manager: &Manager, name: &str| {
            let value = manager.inspect().into_iter().find(|v| v.name == name).unwrap();
            (value.set_at.0, value.set_last)
        };
        let frames = PageCount(100_000);
        step(&mut manager, 3, Event::MemoryChanged { frames });
        let untouched: Vec<_> = manager.inspect().into_iter().map(|v| v.set_last).collect();
        assert!(untouched.iter().all(Option::is_none), "{untouched:?}");

        let mut options = manager.options().clone();
        options.reserve = Ratio::percent(1);
        step(&mut manager, 5, Event::Retuned(Box::new(options.clone())));
        for name in [
            "reserve",
            "dirtyable",
            "dirty.ceiling",
            "dirty.hard",
            "dirty.failed",
        ] {
            assert_eq!(since(&manager, name), (5, Some("reserve")), "{name}");
        }
        assert_eq!(since(&manager, "watermarks.min"), (0, None));

        options.watermarks = WatermarkRule::Linux3;
        options.dirty.background = DirtyLimit::Share(Ratio::percent(5));
        step(&mut manager, 7, Event::Retuned(Box::new(options)));
        for name in ["watermarks.high", "reserve", "dirty.hard"] {
            assert_eq!(since(&manager, name), (7, Some("watermarks")), "{name}");
        }
        // Two at once: the nearer one.
        assert_eq!(since(&manager, "dirty.background"), (7, Some("dirty.background")));

        let frames = PageCount(120_000);
        step(&mut manager, 9, Event::MemoryChanged { frames });
        let all: Vec<_> = manager.inspect().into_iter().map(|v| v.set_last).collect();
        assert!(all.iter().all(|last| *last == Some("memory")), "{all:?}");
    }

    /// What a reader of the formulas would do, for each of the rules for water marks and pools of all sizes.
    #[test]
    fn the_formulas_give_the_values() {
        let rules = [
            WatermarkRule::Linux3,
            WatermarkRule::Linux46 {
                scale: Ratio { num: 10, den: 10_000 },
            },
            WatermarkRule::Millpond {
                scale: Ratio::per_mille(8),
            },
        ];
        for (frames, watermarks) in [64, 500, 5_000, 99_999, 3_000_000]
            .into_iter()
            .flat_map(|frames| rules.map(|rule| (frames, rule)))
        {
            let mut options = Options {
                watermarks,
                ..Options::default()
            };
            for hard in [
                DirtyLimit::Share(Ratio::percent(20)),
                DirtyLimit::Size(Bytes(5_000_000)),
            ] {
                options.dirty.hard = hard;
                let manager = Manager::new(options.clone(), PageCount(frames)).unwrap();
                // How many frames there are is what the core was told.
                for value in &manager.inspect()[1..] {
                    let by_hand = by_hand(&value.formula);
                    assert_eq!(by_hand, value.pages.0, "{} = {}", value.name, value.formula);
                }
            }
        }
    }

    /// Does what a formula says. Words explain; numbers with `+`, `-`, `/` and `of` are what is reckoned.
    fn by_hand(formula: &str) -> u64 {
        let number = |text: &str| -> u64 {
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap_or_else(|_| panic!("{text} in {formula}"))
        };
        // Shares first: `20 % of 5`, `8/1000 of 5`.
        let share = |text: &str| -> u64 {
            let Some((share, whole)) = text.split_once(" of ") else {
                return number(text);
            };
            let parts = match share.split_once('/') {
                Some((num, den)) => (number(num), number(den)),
                None => (number(share), 100),
            };
            number(whole) * parts.0 / parts.1
        };
        let (value, bounds) = match formula.split_once(", ") {
            Some((value, bounds)) => (value, bounds),
            None => (formula, ""),
        };
        let value = if value.contains(" pages (") {
            number(value)
        } else if let Some(sum) = value.strip_suffix(" / 2") {
            let sum = sum.trim_matches(['(', ')']);
            sum.split(" + ").map(number).sum::<u64>() / 2
        } else if let Some((whole, part)) = value.split_once(" dirtyable - ") {
            number(whole) - number(whole) * number(&part[..1]) / number(&part[2..])
        } else if let Some((before, gap)) = value.split_once(" + ") {
            let gap = if let Some((one, other)) = gap
                .strip_prefix("the larger of ")
                .and_then(|g| g.split_once(" and "))
            {
                share(one).max(share(other))
            } else if let Some((_, rest)) = gap.split_once("1/2 - 1/4 of ") {
                number(rest) / 2 - number(rest) / 4
            } else {
                share(gap)
            };
            let (_, most) = bounds.split_once(" to ").unwrap();
            return number(before) + gap.clamp(1, number(most));
        } else if let Some((whole, less)) = value.split_once(" frames - ") {
            number(whole) - number(less)
        } else if let Some((bytes, page)) = value.split_once(" B / ") {
            number(bytes).div_ceil(number(page))
        } else if let Some((mib, page)) = value.split_once(" MiB / ") {
            (number(mib) << 20) / number(page)
        } else {
            share(value)
        };
        let bounds = bounds.trim_start_matches("rounded up, ");
        let bounds = bounds.rsplit(": ").next().unwrap_or(bounds);
        match bounds.split_once(" to ") {
            Some((least, most)) => value.clamp(number(least), number(most)),
            None if bounds.is_empty() => value,
            None => value.max(number(bounds)),
        }
    }
}
