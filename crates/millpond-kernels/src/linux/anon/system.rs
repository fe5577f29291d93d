//! The systems of Kim 2020: Linux 5.5, the series patch by patch, as it was posted, and what became of it.
//!
//! ```text
//!   linux-5.5 ─► +1 ratio ─► +2 protect ─► +3 counters ─► +4 slots ─► +5 root ─► +6 no group ─► +7 detect ─► +8 ratio back
//!                                                                                      ┌─ +9 new pages are rotated ◄─┘
//!   linux-5.8 ─► linux-5.8+protect ─► linux-5.9 ─► linux-7.0          linux-5.5+anon ◄─┘   linux-5.5+anon-as-posted
//! ```
//!
//! Each patch stands on those before it. 5.8 has the cost model that made patch 9 unnecessary; the series' seventh version,
//! which landed in 5.9, was measured against it. Linux 5.1, on which the post's second experiment ran, has the rules of 5.5
//! as far as they are here.

use super::{AnonRules, Balance, Counters, Entry, ShadowAge, ShadowBound, SwapInCost};

/// A system, or a number of patches of the series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// Linux 5.5, on which the series stands.
    Linux5_5,
    /// The first patches, 1 to 9 of them, with the index of patch 3 repaired.
    Patch(u8),
    /// All nine as posted: patch 3 compares with the wrong list.
    AsPosted,
    /// Linux 5.8: the cost model, and pages still start active.
    Linux5_8,
    /// The seventh version's first two patches upon that.
    Linux5_8Protect,
    /// Linux 5.9: the seventh version.
    Linux5_9,
    /// Linux 7.0: costs count rotations, and pages that are read ahead are not taken for used ones.
    Linux7_0,
}

/// Each with its name for users.
const NAMES: [(System, &str); 15] = [
    (System::Linux5_5, "linux-5.5"),
    (System::Patch(1), "linux-5.5+1"),
    (System::Patch(2), "linux-5.5+2"),
    (System::Patch(3), "linux-5.5+3"),
    (System::Patch(4), "linux-5.5+4"),
    (System::Patch(5), "linux-5.5+5"),
    (System::Patch(6), "linux-5.5+6"),
    (System::Patch(7), "linux-5.5+7"),
    (System::Patch(8), "linux-5.5+8"),
    (System::Patch(9), "linux-5.5+anon"),
    (System::AsPosted, "linux-5.5+anon-as-posted"),
    (System::Linux5_8, "linux-5.8"),
    (System::Linux5_8Protect, "linux-5.8+protect"),
    (System::Linux5_9, "linux-5.9"),
    (System::Linux7_0, "linux-7.0"),
];

/// Linux 5.5.
const LINUX_5_5: AnonRules = AnonRules {
    lists_equal: false,
    entry: Entry::Active,
    any_use_rescues: true,
    use_survives_deactivation: false,
    counters: Counters::Files,
    slots_hold_shadows: false,
    shadow_bound: ShadowBound::RootGroup,
    groupless_is_forgotten: false,
    detects: false,
    new_counts_as_rotated: false,
    read_ahead_activates: true,
    shadow_age: ShadowAge::After,
    balance: Balance::Rotated,
    swap_in_cost: SwapInCost::Every,
};

impl System {
    /// All of them, from the oldest.
    pub fn all() -> impl Iterator<Item = System> {
        NAMES.into_iter().map(|(system, _)| system)
    }

    /// The name that users write.
    pub fn name(self) -> &'static str {
        let named = NAMES.into_iter().find(|&(system, _)| system == self);
        named.map_or("linux-5.5+?", |(_, name)| name)
    }

    /// The system of that name.
    pub fn from_name(name: &str) -> Option<System> {
        NAMES
            .into_iter()
            .find(|&(_, known)| known == name)
            .map(|(system, _)| system)
    }

    /// Its rules.
    ///
    /// # Panics
    /// If it is of a patch that is none of the nine.
    pub const fn rules(self) -> AnonRules {
        let linux_5_8 = AnonRules {
            balance: Balance::CostOfPages,
            shadow_bound: ShadowBound::Node,
            ..LINUX_5_5
        };
        let linux_5_9 = AnonRules {
            entry: Entry::Inactive,
            any_use_rescues: false,
            counters: Counters::Shared,
            groupless_is_forgotten: true,
            slots_hold_shadows: true,
            detects: true,
            shadow_age: ShadowAge::Before,
            swap_in_cost: SwapInCost::Restored,
            ..linux_5_8
        };
        match self {
            System::Linux5_5 => LINUX_5_5,
            System::Patch(patch) => {
                assert!(patch >= 1 && patch <= 9, "the series has patches 1 to 9");
                first_patches(patch)
            }
            System::AsPosted => AnonRules {
                counters: Counters::ByKindWrongList,
                ..first_patches(9)
            },
            System::Linux5_8 => linux_5_8,
            System::Linux5_8Protect => AnonRules {
                lists_equal: true,
                entry: Entry::Inactive,
                any_use_rescues: false,
                ..linux_5_8
            },
            System::Linux5_9 => linux_5_9,
            System::Linux7_0 => AnonRules {
                balance: Balance::CostOfIo,
                read_ahead_activates: false,
                ..linux_5_9
            },
        }
    }
}

/// The first patches on 5.5, this many.
const fn first_patches(patches: u8) -> AnonRules {
    let mut rules = LINUX_5_5;
    rules.lists_equal = patches >= 1 && patches < 8;
    if patches >= 2 {
        rules.entry = Entry::Inactive;
        rules.any_use_rescues = false;
        rules.use_survives_deactivation = true;
    }
    if patches >= 3 {
        rules.counters = Counters::ByKind;
    }
    rules.slots_hold_shadows = patches >= 4;
    if patches >= 5 {
        rules.shadow_bound = ShadowBound::Node;
    }
    rules.groupless_is_forgotten = patches >= 6;
    rules.detects = patches >= 7;
    rules.new_counts_as_rotated = patches >= 9;
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of differences; changes of one patch count once.
    fn differences(a: AnonRules, b: AnonRules) -> u32 {
        let protects = |r: &AnonRules| (r.entry, r.any_use_rescues, r.use_survives_deactivation);
        u32::from(a.lists_equal != b.lists_equal)
            + u32::from(protects(&a) != protects(&b))
            + u32::from(a.counters != b.counters)
            + u32::from(a.slots_hold_shadows != b.slots_hold_shadows)
            + u32::from(a.shadow_bound != b.shadow_bound)
            + u32::from(a.groupless_is_forgotten != b.groupless_is_forgotten)
            + u32::from(a.detects != b.detects)
            + u32::from(a.new_counts_as_rotated != b.new_counts_as_rotated)
            + u32::from(a.shadow_age != b.shadow_age)
            + u32::from((a.balance, a.swap_in_cost) != (b.balance, b.swap_in_cost))
    }

    #[test]
    fn each_patch_changes_one_thing_of_what_it_stands_on() {
        let mut before = System::Linux5_5;
        for patch in 1..=9 {
            let system = System::Patch(patch);
            assert_eq!(differences(before.rules(), system.rules()), 1, "patch {patch}");
            before = system;
        }
        assert_eq!(differences(before.rules(), System::AsPosted.rules()), 1);
    }

    #[test]
    fn the_cost_model_is_older_than_protection_and_protection_older_than_detection() {
        let [base, protect, detect] =
            [System::Linux5_8, System::Linux5_8Protect, System::Linux5_9].map(System::rules);
        assert_eq!(base.balance, detect.balance);
        assert_eq!((base.entry, protect.entry), (Entry::Active, Entry::Inactive));
        assert!(!protect.detects && detect.detects);
        assert!(!detect.lists_equal && !detect.use_survives_deactivation && !detect.new_counts_as_rotated);
    }

    #[test]
    fn systems_are_found_by_name() {
        for system in System::all() {
            assert_eq!(System::from_name(system.name()), Some(system));
        }
        assert_eq!(System::from_name("linux-5.5+10"), None);
    }
}
