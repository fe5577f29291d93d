//! Kim 2020's examples: memory for a hundred pages, so that each can be seen.
//!
//! ```text
//!   0 to 49    h    hot: proved to be needed before the example begins
//!   50 to 99   wh   will be hot: come back each round
//!   from 100   uo   used once, and never again
//! ```
//!
//! A use takes a millisecond of the example's time; the examples themselves have none.

use crate::world::{Figure, Note, World};
use millpond_core::units::Instant;
use millpond_kernels::linux::anon::machine::{Lists, Toy};
use millpond_kernels::linux::anon::{AnonRules, Counters, Entry, ShadowAge, System};
use millpond_sim::look::{Look, Shade, Strip, ThreadLook};
use std::ops::Range;

mod own_rule;

pub use own_rule::OwnRule;

/// Pages of memory, and of each set of pages.
pub const FRAMES: u32 = 100;
/// Pages of a set.
pub const SET: u32 = 50;
/// Rounds of the second example.
pub const ROUNDS: u32 = 8;
/// The kernel of the example's time.
const USE_NS: u64 = 1_000_000;

/// The example.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Example {
    /// 50 hot pages, then twice 50 that are used once.
    Protection,
    /// 50 pages that will be hot come back each round, between 50 that are used once.
    Detection,
}

impl Example {
    /// The pages that are used, one after the other.
    fn uses(self) -> Vec<u32> {
        match self {
            Example::Protection => (2 * SET..4 * SET).collect(),
            Example::Detection => {
                let mut uses: Vec<u32> = (SET..2 * SET).collect();
                for round in 0..ROUNDS {
                    let first = (2 + round) * SET;
                    uses.extend(first..first + SET);
                    uses.extend(SET..2 * SET);
                }
                uses
            }
        }
    }
}

/// The keeper of the pages.
pub trait Memory {
    /// Brings in pages that then prove to be needed.
    fn make_hot(&mut self, pages: Range<u32>);
    /// Uses a page; whether it had to be swapped in.
    fn use_page(&mut self, page: u32) -> bool;
    /// Both lists, from the warm end.
    fn lists(&self) -> Lists;
    /// Why a page came to its list after its use; `is_back`: it had been swapped out.
    fn why_in(&self, is_active: bool, is_back: bool) -> String;
    /// Why a page went from one list to the other, or out.
    fn why_moved(&self, was_active: bool, is_active: Option<bool>) -> String;
}

/// Linux' examples.
pub struct Linux {
    toy: Toy,
    rules: AnonRules,
}

impl Linux {
    /// Under the rules of a system.
    pub fn new(system: System) -> Linux {
        let rules = system.rules();
        Linux {
            toy: Toy::new(rules, FRAMES, false),
            rules,
        }
    }
}

impl Memory for Linux {
    fn make_hot(&mut self, pages: Range<u32>) {
        pages.for_each(|page| self.toy.make_active(page));
    }

    fn use_page(&mut self, page: u32) -> bool {
        self.toy.use_page(page)
    }

    fn lists(&self) -> Lists {
        self.toy.lists()
    }

    fn why_in(&self, is_active: bool, is_back: bool) -> String {
        let rules = &self.rules;
        match (is_active, is_back) {
            (true, _) if rules.entry == Entry::Active => "New anonymous pages, and those that come back, start on the active list here.".into(),
            (true, true) => "It came back after no more evictions than there are active pages (its refault distance): it would have stayed with a little more memory, so it is active at once.".into(),
            (true, false) => "It started active.".into(),
            (false, false) => "New anonymous pages start on the inactive list here: a second use makes them active.".into(),
            (false, true) if !rules.detects => "It came back, but nothing remembers that it was here before: it starts as a new page.".into(),
            (false, true) if rules.counters == Counters::ByKindWrongList => "It came back, and was compared with the active list of files, which is empty (the mistake of the posted patch): it starts as a new page.".into(),
            (false, true) if rules.shadow_age == ShadowAge::Before => "It came back, but its shadow keeps the age before its own eviction: it counts as away for one eviction more than there are active pages, and starts as a new page.".into(),
            (false, true) => "It came back after more evictions than there are active pages: it starts as a new page.".into(),
        }
    }

    fn why_moved(&self, was_active: bool, is_active: Option<bool>) -> String {
        match (was_active, is_active) {
            (true, Some(_)) => "The inactive list was shorter than the active one, so the coldest active page went there; it was not asked whether the page is hot.".into(),
            (false, Some(_)) => "It was used a second time while it was on the inactive list.".into(),
            (_, None) => "Memory was full, and it was at the cold end of the inactive list and not used again: to swap.".into(),
        }
    }
}

/// An example under way.
pub struct Toys<M: Memory> {
    memory: M,
    uses: Vec<u32>,
    done: usize,
    now: u64,
    swap_ins: u64,
    round_swap_ins: Vec<u64>,
    log: Vec<Note>,
    /// For each page that was ever in memory: its present list, if it is on one.
    places: Vec<Option<Option<bool>>>,
}

fn set(page: u32) -> &'static str {
    match page / SET {
        0 => "hot",
        1 => "will be hot",
        _ => "used once",
    }
}

impl<M: Memory> Toys<M> {
    /// With 50 hot pages in memory.
    pub fn new(mut memory: M, example: Example) -> Toys<M> {
        memory.make_hot(0..SET);
        let mut toys = Toys {
            memory,
            uses: example.uses(),
            done: 0,
            now: 0,
            swap_ins: 0,
            round_swap_ins: Vec::new(),
            log: Vec::new(),
            places: Vec::new(),
        };
        toys.places = toys.places_now();
        toys
    }

    /// The list of each page, by number.
    fn places_now(&self) -> Vec<Option<Option<bool>>> {
        let lists = self.memory.lists();
        let most = 2 + self.uses.iter().copied().max().unwrap_or(0).max(SET) as usize;
        let mut places: Vec<Option<Option<bool>>> = (0..most)
            .map(|page| self.places.get(page).copied().flatten().map(|_| None))
            .collect();
        for (list, is_active) in [(&lists.active, true), (&lists.inactive, false)] {
            for &page in list {
                places[page as usize] = Some(Some(is_active));
            }
        }
        places
    }

    fn step(&mut self) {
        let page = self.uses[self.done];
        self.done += 1;
        let at = self.done as u64 * USE_NS;
        let is_back = self.memory.use_page(page);
        self.swap_ins += u64::from(is_back);
        let round = (self.done - 1) / (2 * SET as usize);
        if self.round_swap_ins.len() <= round {
            self.round_swap_ins.resize(round + 1, 0);
        }
        self.round_swap_ins[round] += u64::from(is_back);
        let after = self.places_now();
        for (n, (before, after)) in self.places.iter().zip(&after).enumerate() {
            let (before, after) = (before.flatten(), after.flatten());
            if before == after {
                continue;
            }
            let (what, class, why) = match (before, after) {
                (None, Some(is_active)) => {
                    let what = match (is_active, is_back) {
                        (true, true) => "swapped in: active",
                        (false, true) => "swapped in: inactive",
                        (true, false) => "new: active",
                        (false, false) => "new: inactive",
                    };
                    let class = if is_active { "activated" } else { "kept" };
                    (what, class, self.memory.why_in(is_active, is_back))
                }
                (Some(was), Some(is_active)) => {
                    let (what, class) = match is_active {
                        true => ("to the active list", "activated"),
                        false => ("to the inactive list", "sent-round"),
                    };
                    (what, class, self.memory.why_moved(was, Some(is_active)))
                }
                (Some(was), None) => ("swapped out", "written", self.memory.why_moved(was, None)),
                (None, None) => continue,
            };
            self.log.push(Note {
                at,
                page: format!("page {n} ({})", set(n as u32)),
                what,
                class,
                why,
            });
        }
        self.places = after;
    }
}

impl<M: Memory> World for Toys<M> {
    fn run(&mut self, until: Instant) {
        while self.done < self.uses.len() && (self.done as u64 + 1) * USE_NS <= until.0 {
            self.step();
        }
        self.now = self.now.max(until.0);
    }

    fn run_to_note(&mut self, until: Instant) -> Instant {
        let before = self.notes();
        while self.done < self.uses.len() && (self.done as u64 + 1) * USE_NS <= until.0 {
            self.step();
            self.now = self.done as u64 * USE_NS;
            if self.notes() != before {
                return Instant(self.now);
            }
        }
        self.run(until);
        until
    }

    fn is_over(&self) -> bool {
        self.done == self.uses.len()
    }

    fn events(&self) -> u64 {
        self.done as u64
    }

    fn notes(&self) -> u64 {
        self.log.len() as u64
    }

    fn look(&self, parts: usize) -> Look {
        let lists = self.memory.lists();
        let shade = |page: &u32| match page / SET {
            0 => Shade::Used,
            1 => Shade::Tagged,
            _ => Shade::Clean,
        };
        let strip = |name, pages: &[u32]| {
            let from_cold = pages.iter().rev().map(shade);
            Strip::of(name, pages.len() as u64, parts, from_cold)
        };
        let out: Vec<u32> = (0..2 * SET)
            .filter(|&page| matches!(self.places.get(page as usize), Some(Some(None))))
            .collect();
        let does = if self.is_over() {
            "ended"
        } else {
            "using one page after the other"
        };
        Look {
            strips: vec![
                strip("active", &lists.active),
                strip("inactive", &lists.inactive),
                strip("in swap, of those that are or will be hot", &out),
            ],
            free: u64::from(FRAMES) - (lists.active.len() + lists.inactive.len()) as u64,
            frames: FRAMES.into(),
            threads: vec![ThreadLook {
                name: "the program".into(),
                count: 1,
                does,
                is_held_up: false,
                since: None,
            }],
            ..Look::default()
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let lists = self.memory.lists();
        let pages = || lists.active.iter().chain(&lists.inactive);
        let hot = pages().filter(|&&page| page < SET).count() as u64;
        let will = pages().filter(|&&page| (SET..2 * SET).contains(&page)).count() as u64;
        vec![
            Figure::count("swap_ins_pages", self.swap_ins),
            Figure::count(
                "swap_ins_of_round",
                self.round_swap_ins.last().copied().unwrap_or(0),
            ),
            Figure::count("hot_pages_in_memory", hot),
            Figure::count("will_be_hot_pages_in_memory", will),
            Figure::count("active_pages", lists.active.len() as u64),
            Figure::count("inactive_pages", lists.inactive.len() as u64),
        ]
    }

    fn log(&self, most: usize) -> Vec<Note> {
        self.log[self.log.len().saturating_sub(most)..].to_vec()
    }
}
