//! The post's two examples, step by step: what is on both lists.

use millpond_kernels::linux::anon::machine::{Lists, Toy};
use millpond_kernels::linux::anon::{AnonRules, Counters, Entry, ShadowAge};

/// Pages of the examples' memory, and of each set of pages in them.
pub(super) const FRAMES: u32 = 100;
const SET: u32 = 50;

/// The purposes of pages: hot (h), will be hot (wh), used once (uo).
fn name(page: u32) -> &'static str {
    match page / SET {
        0 => "h",
        1 => "wh",
        _ => "uo",
    }
}

/// A list as the post writes it: `50(h)`, or more than one such with the warm end first.
pub(super) fn contents(pages: &[u32]) -> String {
    if pages.is_empty() {
        return "0".into();
    }
    let runs = pages.chunk_by(|a, b| name(*a) == name(*b));
    let runs: Vec<String> = runs
        .map(|run| format!("{}({})", run.len(), name(run[0])))
        .collect();
    runs.join(" ")
}

/// A step of an example.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) what: String,
    pub(super) lists: Lists,
    /// Pages that this step swapped in.
    pub(super) swap_ins: u64,
}

impl Step {
    /// In the post's form: active | inactive.
    pub(super) fn line(&self) -> String {
        format!(
            "{} | {}",
            contents(&self.lists.active),
            contents(&self.lists.inactive)
        )
    }
}

struct Play {
    toy: Toy,
    steps: Vec<Step>,
}

impl Play {
    fn new(rules: AnonRules, frames: u32, challenges: bool) -> Play {
        let mut toy = Toy::new(rules, frames, challenges);
        (0..SET).for_each(|page| toy.make_active(page));
        let mut play = Play {
            toy,
            steps: Vec::new(),
        };
        play.step("50 hot pages on the active list", 0..0);
        play
    }

    fn step(&mut self, what: &str, pages: std::ops::Range<u32>) {
        let swap_ins = pages.map(|page| u64::from(self.toy.use_page(page))).sum();
        self.steps.push(Step {
            what: what.into(),
            lists: self.toy.lists(),
            swap_ins,
        });
    }
}

/// The first example: 50 hot pages, then twice 50 pages used once.
pub(super) fn protection(rules: AnonRules) -> Vec<Step> {
    let mut play = Play::new(rules, FRAMES, false);
    play.step("50 new pages, used once", 2 * SET..3 * SET);
    play.step("another 50 new pages, used once", 3 * SET..4 * SET);
    play.steps
}

/// The second: 50 pages that will be hot come back each round, between 50 that are used once.
pub(super) fn detection(rules: AnonRules, frames: u32, challenges: bool, rounds: u32) -> Vec<Step> {
    let mut play = Play::new(rules, frames, challenges);
    play.step("50 new pages, which will be hot", SET..2 * SET);
    for round in 0..rounds {
        let first = (2 + round) * SET;
        play.step("another 50 new pages, used once", first..first + SET);
        play.step("the 50 pages that will be hot", SET..2 * SET);
    }
    play.steps
}

/// Swap-ins of the second example, round by round.
pub(super) fn swap_ins(steps: &[Step]) -> Vec<u64> {
    steps[2..]
        .chunks(2)
        .map(|round| round.iter().map(|step| step.swap_ins).sum())
        .collect()
}

/// Hot pages that are in memory after a step.
pub(super) fn hot(step: &Step) -> usize {
    let pages = step.lists.active.iter().chain(&step.lists.inactive);
    pages.filter(|page| **page < SET).count()
}

/// Why the first example ends as it does.
pub(super) fn why_protection(rules: AnonRules) -> &'static str {
    match rules.entry {
        Entry::Active => {
            "new pages start on the active list, push the hot ones off it with the first 50 and out of memory with the next"
        }
        Entry::Inactive => {
            "new pages start on the inactive list and push out one another; the hot ones stay active"
        }
    }
}

/// Why the second does.
pub(super) fn why_detection(rules: AnonRules) -> &'static str {
    match rules {
        AnonRules {
            entry: Entry::Active, ..
        } => {
            "new pages start active and push the hot ones out in the first round; the 50 that will be hot then fit beside 50 \
             that are used once, and the example does not ask for the hot ones again"
        }
        AnonRules { detects: false, .. } => {
            "new pages start on an inactive list of 50, where 50 that are used once push out the 50 that will be hot; nothing \
             remembers these, so they come back as new ones in every round"
        }
        AnonRules {
            counters: Counters::ByKindWrongList,
            ..
        } => {
            "a page that comes back is compared with the active list of files, which is empty: it counts as away for too long, \
             and starts as a new one in every round"
        }
        AnonRules {
            shadow_age: ShadowAge::Before,
            ..
        } => {
            "a shadow keeps the age before its page's own eviction, so each page counts as away for 51 evictions, one more than \
             there are active pages, and starts as a new one in every round"
        }
        _ => {
            "a page that comes back after no more evictions than there are active pages is made active, and a hot one makes room: \
             one page in the first round, twice as many in each that follows, all in the end"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_kernels::linux::anon::System;

    fn lines(steps: &[Step]) -> Vec<String> {
        steps.iter().map(Step::line).collect()
    }

    #[test]
    fn before_the_series_used_once_pages_push_out_hot_ones() {
        let steps = protection(System::Linux5_5.rules());
        assert_eq!(lines(&steps), ["50(h) | 0", "50(uo) | 50(h)", "50(uo) | 50(uo)"]);
        let second: Vec<u32> = (150..200).rev().collect();
        assert_eq!(steps[2].lists.active, second);
    }

    #[test]
    fn with_protection_hot_pages_stay() {
        for system in [
            System::Patch(2),
            System::Patch(9),
            System::Linux5_8Protect,
            System::Linux5_9,
        ] {
            let steps = protection(system.rules());
            assert_eq!(
                lines(&steps),
                ["50(h) | 0", "50(h) | 50(uo)", "50(h) | 50(uo)"],
                "{system:?}"
            );
            let (hot, second): (Vec<u32>, Vec<u32>) = ((0..50).rev().collect(), (150..200).rev().collect());
            assert_eq!(
                (&steps[2].lists.active, &steps[2].lists.inactive),
                (&hot, &second)
            );
        }
    }

    #[test]
    fn without_detection_the_second_example_thrashes_for_ever() {
        for system in [System::Patch(2), System::AsPosted] {
            let steps = detection(system.rules(), FRAMES, true, 6);
            assert_eq!(
                lines(&steps[..5]),
                [
                    "50(h) | 0",
                    "50(h) | 50(wh)",
                    "50(h) | 50(uo)",
                    "50(h) | 50(wh)",
                    "50(h) | 50(uo)"
                ]
            );
            assert_eq!(swap_ins(&steps), [50; 6], "{system:?}");
        }
    }

    #[test]
    fn with_detection_the_second_example_converges_by_the_published_arithmetic() {
        let rounds = |frames| swap_ins(&detection(System::Patch(9).rules(), frames, false, 8));
        assert_eq!(rounds(100), [50, 49, 47, 43, 35, 19, 0, 0]);
        assert_eq!(rounds(101), [50, 48, 44, 36, 20, 0, 0, 0]);
        assert_eq!(rounds(102), [50, 45, 38, 23, 0, 0, 0, 0]);
        assert_eq!(rounds(104), [50, 40, 28, 0, 0, 0, 0, 0]);
        assert_eq!(rounds(110), [50, 25, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn with_the_age_before_the_eviction_it_never_does() {
        let before = AnonRules {
            shadow_age: ShadowAge::Before,
            ..System::Patch(9).rules()
        };
        assert_eq!(swap_ins(&detection(before, FRAMES, false, 6)), [50; 6]);
    }

    /// A reason must be what the row did, for every kernel.
    #[test]
    fn reasons_say_what_happened() {
        for system in System::all() {
            let rules = system.rules();
            let stays = hot(protection(rules).last().unwrap()) == 50;
            assert_eq!(why_protection(rules).contains("stay"), stays, "{system:?}");
            let ins = swap_ins(&detection(rules, FRAMES, false, 8));
            let why = why_detection(rules);
            match ins[7] {
                0 if ins[0] == 0 => assert!(why.contains("start active"), "{system:?}: {why}"),
                0 => {
                    assert!(why.ends_with("all in the end"), "{system:?}: {why}");
                    let rescued: Vec<u64> = ins.windows(2).map(|pair| pair[0] - pair[1]).take(5).collect();
                    assert_eq!(rescued, [1, 2, 4, 8, 16], "{system:?}");
                }
                _ => {
                    assert_eq!(ins, [50; 8], "{system:?}");
                    assert!(why.ends_with("in every round"), "{system:?}: {why}");
                }
            }
        }
    }
}
