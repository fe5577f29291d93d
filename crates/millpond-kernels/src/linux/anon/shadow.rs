//! The memory of an evicted page, and whether it was away only briefly.
//!
//! ```text
//!   evicted     age += 1, and its shadow keeps the age: after that (to 5.8), or before (5.9)
//!   activated   age += 1
//!   comes back  distance = age - shadow's: the pages more that memory would have needed to keep it
//!               at most as many as it could have displaced?  active at once, and age += 1
//! ```
//!
//! A distance equal to the list is short enough. Kim 2020's detection toy stands on exactly that edge: with the age
//! of after the eviction its page is 50 away from a list of 50, with that of before it is 51 away if room was made first,
//! and is never promoted. The shadow of an anonymous page is in the slot of its swap file, and goes when the slot is given
//! back.

use super::{AnonRules, Counters, ShadowAge, ShadowBound};
use millpond_core::page::PageKind;

/// Bits of an age in a shadow. A distance is a difference of ages, so a wrap is only wrong for a page that is away
/// for 2^40 evictions.
const AGE_BITS: u32 = 40;
const AGE_MASK: u64 = (1 << AGE_BITS) - 1;
const WORKINGSET: u64 = 1 << AGE_BITS;
const IS_SHADOW: u64 = 1 << (AGE_BITS + 1);

/// Slots of a node of the index that holds shadows (`XA_CHUNK_SIZE`).
pub const NODE_SLOTS: u64 = 64;

/// The trace of an evicted page; never zero, so zero can mean none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shadow(u64);

impl Shadow {
    fn new(age: u64, workingset: bool) -> Shadow {
        Shadow(age & AGE_MASK | if workingset { WORKINGSET } else { 0 } | IS_SHADOW)
    }

    /// Whether the page had been active.
    pub fn workingset(self) -> bool {
        self.0 & WORKINGSET != 0
    }

    /// For a slot.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Out of a slot; `None`: there is none.
    pub fn from_bits(bits: u64) -> Option<Shadow> {
        (bits & IS_SHADOW != 0).then_some(Shadow(bits))
    }
}

/// The lengths of the four lists, by [`PageKind`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lengths {
    /// Inactive pages.
    pub inactive: [u64; 2],
    /// Active pages.
    pub active: [u64; 2],
}

impl Lengths {
    /// Both lists of a kind.
    pub fn of(&self, kind: PageKind) -> u64 {
        self.inactive[kind as usize] + self.active[kind as usize]
    }

    /// All four.
    pub fn all(&self) -> u64 {
        PageKind::ALL.map(|kind| self.of(kind)).iter().sum()
    }
}

/// The verdict of a shadow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refault {
    /// Evictions and activations since, in pages.
    pub distance: u64,
    /// It was short: the page is active at once, and challenges what is active.
    pub activate: bool,
    /// It had been active: `WORKINGSET_RESTORE`.
    pub restore: bool,
}

/// The counters of evictions and activations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ages {
    ages: [u64; 2],
}

impl Ages {
    /// Counters that stand shortly before `age`: for tests of their wrap.
    pub fn starting_at(age: u64) -> Ages {
        Ages { ages: [age; 2] }
    }

    fn of(&mut self, rules: &AnonRules, kind: PageKind) -> &mut u64 {
        match rules.counters {
            Counters::Shared => &mut self.ages[0],
            _ => &mut self.ages[kind as usize],
        }
    }

    /// A page is evicted: returns its shadow, if these rules keep one.
    pub fn evicted(&mut self, rules: &AnonRules, kind: PageKind, workingset: bool) -> Option<Shadow> {
        if !rules.leaves_shadow(kind) {
            return None;
        }
        let age = self.of(rules, kind);
        let before = *age;
        *age = age.wrapping_add(1);
        let kept = match rules.shadow_age {
            ShadowAge::After => *age,
            ShadowAge::Before => before,
        };
        Some(Shadow::new(kept, workingset))
    }

    /// Pages became active. What does not detect does not count.
    pub fn activated(&mut self, rules: &AnonRules, kind: PageKind, pages: u64) {
        if rules.leaves_shadow(kind) {
            let age = self.of(rules, kind);
            *age = age.wrapping_add(pages);
        }
    }

    /// A page comes back. To be asked before room is made for it where the rules are those before 5.9.
    pub fn refault(
        &mut self,
        rules: &AnonRules,
        kind: PageKind,
        shadow: Shadow,
        lengths: &Lengths,
        swap_has_room: bool,
    ) -> Refault {
        let distance = self.of(rules, kind).wrapping_sub(shadow.0) & AGE_MASK;
        let activate = distance <= reach(rules, kind, lengths, swap_has_room);
        if activate {
            self.activated(rules, kind, 1);
        }
        Refault {
            distance,
            activate,
            restore: activate && shadow.workingset(),
        }
    }
}

/// How many pages a returning one could have displaced: a longer distance shows that it would not have stayed anyhow.
pub fn reach(rules: &AnonRules, kind: PageKind, lengths: &Lengths, swap_has_room: bool) -> u64 {
    let [file, anonymous] = PageKind::ALL.map(|kind| kind as usize);
    match (rules.counters, kind) {
        (Counters::Files | Counters::ByKind, kind) => lengths.active[kind as usize],
        (Counters::ByKindWrongList, PageKind::Anonymous) => lengths.active[file],
        // What the memory behind the last list's length says; in the runs of the laboratory nothing.
        (Counters::ByKindWrongList, PageKind::File) => 0,
        (Counters::Shared, kind) => {
            let mut reach = lengths.active[file];
            if kind == PageKind::Anonymous {
                reach += lengths.inactive[file];
            }
            if swap_has_room {
                reach += lengths.active[anonymous];
                if kind == PageKind::File {
                    reach += lengths.inactive[anonymous];
                }
            }
            reach
        }
    }
}

/// How many nodes with nothing but shadows may stay: an eighth of one a page, because one is taken to be an eighth full
/// (`count_shadow_nodes`). `node_pages`, `root_group_pages`: pages on the lists of all, and of the root group alone.
pub fn shadow_nodes_max(rules: &AnonRules, node_pages: u64, root_group_pages: u64) -> u64 {
    let pages = match rules.shadow_bound {
        ShadowBound::Node => node_pages,
        ShadowBound::RootGroup => root_group_pages,
    };
    pages / (NODE_SLOTS / 8)
}

#[cfg(test)]
mod tests {
    use super::super::System;
    use super::*;

    const ANON: PageKind = PageKind::Anonymous;

    fn lengths(file: [u64; 2], anonymous: [u64; 2]) -> Lengths {
        Lengths {
            inactive: [file[0], anonymous[0]],
            active: [file[1], anonymous[1]],
        }
    }

    fn evict(ages: &mut Ages, rules: &AnonRules, pages: u64) {
        for _ in 0..pages {
            let _ = ages.evicted(rules, ANON, false);
        }
    }

    #[test]
    fn a_page_that_was_away_as_long_as_the_active_list_comes_back_active() {
        let rules = System::Patch(9).rules();
        for (evictions, activate) in [(50, true), (51, false)] {
            let mut ages = Ages::default();
            let shadow = ages.evicted(&rules, ANON, false).unwrap();
            evict(&mut ages, &rules, evictions);
            let refault = ages.refault(&rules, ANON, shadow, &lengths([0; 2], [50, 50]), true);
            assert_eq!((refault.distance, refault.activate), (evictions, activate));
        }
    }

    #[test]
    fn the_age_before_the_eviction_makes_the_distance_one_longer() {
        let before = AnonRules {
            shadow_age: ShadowAge::Before,
            ..System::Patch(9).rules()
        };
        let mut ages = Ages::default();
        let shadow = ages.evicted(&before, ANON, false).unwrap();
        evict(&mut ages, &before, 50);
        let refault = ages.refault(&before, ANON, shadow, &lengths([0; 2], [50, 50]), true);
        assert_eq!((refault.distance, refault.activate), (51, false));
    }

    #[test]
    fn as_posted_anonymous_pages_are_compared_with_active_files() {
        let posted = System::AsPosted.rules();
        let few_files = lengths([1000, 3], [500, 400]);
        assert_eq!(reach(&posted, ANON, &few_files, true), 3);
        assert_eq!(reach(&posted, PageKind::File, &few_files, true), 0);
        let repaired = System::Patch(9).rules();
        assert_eq!(reach(&repaired, ANON, &few_files, true), 400);
        assert_eq!(reach(&repaired, PageKind::File, &few_files, true), 3);
    }

    #[test]
    fn since_5_9_all_that_could_be_displaced_counts_and_the_own_inactive_list_not() {
        let rules = System::Linux5_9.rules();
        let all = lengths([1000, 300], [20, 4]);
        assert_eq!(reach(&rules, ANON, &all, true), 300 + 1000 + 4);
        assert_eq!(reach(&rules, ANON, &all, false), 300 + 1000);
        assert_eq!(reach(&rules, PageKind::File, &all, true), 300 + 4 + 20);
        assert_eq!(reach(&rules, PageKind::File, &all, false), 300);
    }

    #[test]
    fn activations_age_shadows_as_evictions_do_and_kinds_share_an_age_since_5_9() {
        for (system, distance) in [(System::Patch(9), 3), (System::Linux5_9, 3 + 5 + 1)] {
            let rules = system.rules();
            let mut ages = Ages::default();
            let shadow = ages.evicted(&rules, ANON, true).unwrap();
            ages.activated(&rules, ANON, 3);
            ages.activated(&rules, PageKind::File, 5);
            let refault = ages.refault(&rules, ANON, shadow, &lengths([0; 2], [0, 100]), true);
            assert_eq!(
                (refault.distance, refault.restore),
                (distance, true),
                "{system:?}"
            );
        }
    }

    #[test]
    fn before_the_seventh_patch_nothing_is_left_behind() {
        for patch in 1..=6 {
            let rules = System::Patch(patch).rules();
            assert_eq!(Ages::default().evicted(&rules, ANON, true), None, "patch {patch}");
            assert!(Ages::default().evicted(&rules, PageKind::File, true).is_some());
        }
        assert!(
            Ages::default()
                .evicted(&System::Patch(7).rules(), ANON, true)
                .is_some()
        );
    }

    #[test]
    fn distances_survive_a_wrap_of_the_age() {
        let rules = System::Patch(9).rules();
        for start in [AGE_MASK - 1, u64::MAX - 1] {
            let mut ages = Ages::starting_at(start);
            let shadow = ages.evicted(&rules, ANON, false).unwrap();
            evict(&mut ages, &rules, 7);
            let kept = Shadow::from_bits(shadow.to_bits()).unwrap();
            let refault = ages.refault(&rules, ANON, kept, &lengths([0; 2], [0, 100]), true);
            assert_eq!(refault.distance, 7, "from {start}");
        }
        assert_eq!(Shadow::from_bits(0), None);
    }

    #[test]
    fn without_the_fifth_patch_a_machine_of_groups_keeps_few_shadows() {
        let max = |system: System| shadow_nodes_max(&system.rules(), 65_536, 800);
        assert_eq!((max(System::Patch(4)), max(System::Patch(5))), (100, 8192));
    }
}
