//! Anonymous pages as Linux treats them: 5.5, Kim 2020's nine patches one by one, what landed in 5.9, and later.
//!
//! ```text
//!   5.5    new, swapped in ─► active ─► inactive ── any use since? ─► active, else swapped out: nothing is remembered
//!
//!   seed   new, swapped in ─► inactive ── second use? ─► active, else swapped out: its slot keeps a shadow
//!    002                        ▲                                                       │
//!                 swapped in: distance ≤ the active list? ─► active at once ◄───────────┘
//! ```
//!
//! Each patch is a field of [`AnonRules`], which a [`System`] has. What they decide is pure: [`shadow`] says how long a
//! page was away and whether that was short, [`split`] how a scan is divided between kinds, and
//! [`reference`](crate::linux::reference) whether the page at the cold end is in use. [`machine`] runs them. Millpond's own
//! rule for anonymous pages is not one of these.

pub mod machine;
pub mod shadow;
pub mod split;
mod system;

pub use system::System;

use millpond_core::page::PageKind;

/// The list that a page enters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// As if it had proved to be needed.
    Active,
    /// On probation.
    Inactive,
}

/// The counters of evictions and activations, and the list that a distance is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counters {
    /// For file pages only: 5.5.
    Files,
    /// For each kind; a distance is compared with the active list of its kind: patch 3, as repaired three days later.
    ByKind,
    /// Of each kind; but the index of the list is computed from a wrong constant, so that an anonymous page is compared
    /// with the active *file* list, and a file page with whatever stands behind the last list: patch 3 as posted.
    ByKindWrongList,
    /// One for both kinds; a distance is compared with all that the page could have displaced: 5.9.
    Shared,
}

/// The lists whose length bounds the number of shadows that a machine keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShadowBound {
    /// Those of the root group alone, on which few pages are when programs run in groups: before patch 5.
    RootGroup,
    /// Those of the node: patch 5.
    Node,
}

/// The age that an evicted page's shadow keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShadowAge {
    /// The age after its eviction was counted: 4.19 to 5.8, and so what Kim 2020 used.
    After,
    /// The age before: 5.9 and later. The same distance is one page longer.
    Before,
}

/// The division of a scan between the kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Balance {
    /// By pages scanned and rotated: to 5.7.
    Rotated,
    /// By the cost of taking pages, in pages: 5.8.
    CostOfPages,
    /// The same; a page of input or output counts as 32, a rotated one as 1: 7.0.
    CostOfIo,
}

/// The swapped-in pages that show that taking anonymous pages was costly. Unused with [`Balance::Rotated`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwapInCost {
    /// Every one: 5.8.
    Every,
    /// Those that had been active when they were evicted: 5.9.
    Restored,
}

/// A system's rules for anonymous pages. Each field names the patch of Kim 2020 that changes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnonRules {
    /// Patch 1, undone by 8: the active list may be no longer than the inactive one. Otherwise the ratio grows with the
    /// square root of memory ([`inactive_ratio`]).
    pub lists_equal: bool,
    /// Patch 2: where new pages and swapped-in ones start.
    pub entry: Entry,
    /// Patch 2: one use since it was met last makes an inactive page active.
    pub any_use_rescues: bool,
    /// Patch 2 as posted and in its second version: a page that is deactivated keeps the processor's mark of use and
    /// loses its own, so that a page used once long ago looks used. The third version follows the rule of mapped file
    /// pages.
    pub use_survives_deactivation: bool,
    /// Patch 3.
    pub counters: Counters,
    /// Patch 4: the slot of a swapped-out page can hold a shadow.
    pub slots_hold_shadows: bool,
    /// Patch 5.
    pub shadow_bound: ShadowBound,
    /// Patch 6: a page that belongs to no group, as one that was read ahead and never mapped, leaves no shadow.
    pub groupless_is_forgotten: bool,
    /// Patch 7: evicted anonymous pages leave shadows, and come back active if they were away shortly.
    pub detects: bool,
    /// Patch 9: a new page counts as rotated, as it did when it was put on the active list.
    pub new_counts_as_rotated: bool,
    /// Whether the shadow of a page read ahead makes it active like a requested one: as posted, and to 5.9.
    pub read_ahead_activates: bool,
    /// The age that shadows keep.
    pub shadow_age: ShadowAge,
    /// The division of scans.
    pub balance: Balance,
    /// The counted cost.
    pub swap_in_cost: SwapInCost,
}

impl AnonRules {
    /// Whether an evicted page of this kind leaves a shadow.
    pub fn leaves_shadow(&self, kind: PageKind) -> bool {
        match kind {
            PageKind::File => true,
            PageKind::Anonymous => {
                self.detects && self.slots_hold_shadows && self.counters != Counters::Files
            }
        }
    }

    /// How many times longer than the inactive list the active one of a kind may be.
    pub fn ratio(&self, kind: PageKind, inactive: u64, active: u64) -> u64 {
        match kind {
            PageKind::Anonymous if self.lists_equal => 1,
            _ => inactive_ratio(inactive + active),
        }
    }

    /// Whether an active page goes to the inactive list of its kind in this pass: the inactive list is short, or pages
    /// came back so soon since the last run of reclaim that the active ones are challenged. Before patch 3 only file
    /// pages are.
    pub fn may_deactivate(&self, kind: PageKind, inactive: u64, active: u64, challenged: bool) -> bool {
        let counts = kind == PageKind::File || self.counters != Counters::Files;
        (counts && challenged)
            || crate::linux::balance::inactive_is_low(inactive, active, self.ratio(kind, inactive, active))
    }
}

/// `inactive_list_is_low` since about 4.7, of pages of 4 KiB: 1 below a GiB, then the square root of ten times the GiB.
pub fn inactive_ratio(pages: u64) -> u64 {
    match pages >> 18 {
        0 => 1,
        gib => millpond_core::units::isqrt(10 * gib),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_the_lists_follows_the_kernels_table() {
        let sizes = [0, 1, 2, 4, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1024, 10240];
        let table = [1, 3, 4, 6, 8, 10, 12, 17, 25, 31, 35, 50, 71, 101, 320];
        assert_eq!(sizes.map(|gib: u64| inactive_ratio(gib << 18)), table);
    }

    #[test]
    fn the_first_patch_makes_the_lists_of_large_machines_equal_and_leaves_files_alone() {
        let gib_4 = 4 << 18;
        let patch_1 = System::Patch(1).rules();
        assert_eq!(System::Linux5_5.rules().ratio(PageKind::Anonymous, 0, gib_4), 6);
        assert_eq!(patch_1.ratio(PageKind::Anonymous, 0, gib_4), 1);
        assert_eq!(patch_1.ratio(PageKind::File, 0, gib_4), 6);
        assert_eq!(System::Patch(8).rules().ratio(PageKind::Anonymous, 0, gib_4), 6);
    }

    #[test]
    fn only_with_counters_for_both_kinds_can_anonymous_pages_be_challenged() {
        let may = |system: System, kind| system.rules().may_deactivate(kind, 100, 50, true);
        assert!(!may(System::Patch(2), PageKind::Anonymous));
        assert!(may(System::Patch(2), PageKind::File));
        assert!(may(System::Patch(3), PageKind::Anonymous));
        let unchallenged = System::Linux5_9.rules();
        assert!(!unchallenged.may_deactivate(PageKind::Anonymous, 50, 50, false));
        assert!(unchallenged.may_deactivate(PageKind::Anonymous, 49, 50, false));
    }
}
