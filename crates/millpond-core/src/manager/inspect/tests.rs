use super::*;
use crate::admission::AdmissionOptions;
use crate::event::{Effects, Event};
use crate::manager::step::StepContext;
use crate::manager::tests::Frames;
use crate::units::Ratio;
use alloc::boxed::Box;

#[test]
fn each_value_says_its_formula_its_setting_and_since_when() {
    let mut manager = Manager::new(Options::default(), PageCount(100_000)).unwrap();
    let at = |manager: &Manager, name: &str| manager.inspect().into_iter().find(|v| v.name == name).unwrap();
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
        assert_eq!(since(&manager, name), (7, Some("watermarks.scale")), "{name}");
    }
    // Two at once: the nearer one.
    assert_eq!(since(&manager, "dirty.background"), (7, Some("dirty.background")));

    let frames = PageCount(120_000);
    step(&mut manager, 9, Event::MemoryChanged { frames });
    let all: Vec<_> = manager.inspect().into_iter().map(|v| v.set_last).collect();
    assert!(all.iter().all(|last| *last == Some("memory")), "{all:?}");
}

#[test]
fn the_goal_says_what_was_set_and_what_the_device_needs() {
    let mut manager = Manager::new(Options::default(), PageCount(1_000)).unwrap();
    let goal = manager.inspect_goal().unwrap();
    assert_eq!(
        (goal.goal, goal.setting),
        (Nanos::from_millis(2), Nanos::from_millis(2))
    );
    assert_eq!(
        goal.formula,
        "3 * 0 us (unloaded p95 of the last reads), 2000 us (admission.read_latency) at least"
    );
    let options = Options {
        admission: AdmissionOptions::Off,
        ..Options::default()
    };
    manager.retune(
        options,
        &mut StepContext::new(Instant(0), &mut Effects::default()),
    );
    assert_eq!(manager.inspect_goal(), None);
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
