//! The systems of Dillon 2000, and what distinguishes them.
//!
//! The post names its systems only; the sources of 4.1.1, 4.2 and of -stable in December 2000 could not be had. Where a
//! rule rests on the author's words, on a source of mid-2000 or of 2006, or on memory, it says so.

/// The treatment of a dirty page at the cold end of the inactive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaundryRule {
    /// In queue order, while a budget for the scan lasts; then it stays where it is.
    LimitedOrder,
    /// Not at all while clean ones are enough; else in a second look, with a budget.
    CleanFirst,
    /// In queue order, as if it were clean.
    QueueOrder,
    /// The first meeting marks a lap; the second one writes it, with a budget.
    TwoLaps,
    /// The scan never writes: it moves the page to a queue that a thread of its own cleans.
    Queue,
}

/// The differences between the systems.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeBsdRules {
    /// The treatment of a dirty page.
    pub laundry: LaundryRule,
    /// Clusters that a scan may write, `vm.max_page_launder`. By the author, in October 2000: 16 to 32 is best; fewer than
    /// 16 split runs, more than 32 hurt users, more than 64 must never wait in a queue.
    pub clusters_max: u32,
    /// Pages that are written together: 16, 64 KiB.
    pub cluster_pages: u32,
    /// Whether a written cluster counts as a freed page.
    pub laundered_counts: bool,
    /// Whether the rule that takes clean pages first writes at its first pass if a third of the queue would not be
    /// enough.
    /// So we remember 4.1.1 and 4.2; but on the post's machine they would then never skip a dirty page, which is all that
    /// the post says of them. No system here does it.
    pub trusts_third: bool,
    /// I/O may use the last frames, all else waits before that (rules R1 to R5 of Dillon 2000's second part).
    pub io_reserve: bool,
}

/// A system of the post, or the one that became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// FreeBSD 4.0, by a source of mid-2000.
    FreeBsd4_0,
    /// FreeBSD 4.1.1 and 4.2.
    FreeBsd4_2,
    /// FreeBSD -stable of December 2000.
    FreeBsdStable,
    /// The patches that the post is about; in FreeBSD from 4.3 to 11.
    FreeBsdPatches,
    /// FreeBSD 12 and 13 (2016 to 2019): a laundry queue, a controller.
    FreeBsd13,
}

/// Budget of a scan that may write all that it meets. 10,000 in the source of 2006, `maxlaunder`.
pub const ALL_OUT: u32 = 10_000;

/// 16 pages, `VM_MAX_PAGEOUT_CLUSTER`.
const CLUSTER_PAGES: u32 = 16;
/// `max_page_launder` of the source of mid-2000.
const CLUSTERS_MAX_2000: u32 = 100;
/// `vm_max_launder` since October 2000.
const CLUSTERS_MAX: u32 = 32;

impl System {
    /// All, from the oldest.
    pub const ALL: [System; 5] = [
        System::FreeBsd4_0,
        System::FreeBsd4_2,
        System::FreeBsdStable,
        System::FreeBsdPatches,
        System::FreeBsd13,
    ];

    /// The name of the system.
    pub const fn name(self) -> &'static str {
        match self {
            System::FreeBsd4_0 => "freebsd-4.0",
            System::FreeBsd4_2 => "freebsd-4.2",
            System::FreeBsdStable => "freebsd-stable",
            System::FreeBsdPatches => "freebsd-patches",
            System::FreeBsd13 => "freebsd-13",
        }
    }

    /// The name of its rule, which users write.
    pub const fn variant(self) -> &'static str {
        match self {
            System::FreeBsd4_0 => "limited-order",
            System::FreeBsd4_2 => "clean-first",
            System::FreeBsdStable => "queue-order",
            System::FreeBsdPatches => "two-laps",
            System::FreeBsd13 => "modern",
        }
    }

    /// The system of that name, or whose rule has that name.
    pub fn from_name(name: &str) -> Option<System> {
        let is_it = |system: &System| system.name() == name || system.variant() == name;
        System::ALL.into_iter().find(is_it)
    }

    /// Its rules.
    pub const fn rules(self) -> FreeBsdRules {
        let (laundry, clusters_max) = match self {
            System::FreeBsd4_0 => (LaundryRule::LimitedOrder, CLUSTERS_MAX_2000),
            System::FreeBsd4_2 => (LaundryRule::CleanFirst, CLUSTERS_MAX),
            // the post's "blew up": none
            System::FreeBsdStable => (LaundryRule::QueueOrder, ALL_OUT),
            System::FreeBsdPatches => (LaundryRule::TwoLaps, CLUSTERS_MAX),
            System::FreeBsd13 => (LaundryRule::Queue, CLUSTERS_MAX),
        };
        FreeBsdRules {
            laundry,
            clusters_max,
            cluster_pages: CLUSTER_PAGES,
            // the source of mid-2000 counts it in the budget only, that of 2006 in both
            laundered_counts: matches!(self, System::FreeBsdStable | System::FreeBsdPatches),
            trusts_third: false,
            io_reserve: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_found_by_their_name_and_by_their_rule() {
        for system in System::ALL {
            assert_eq!(System::from_name(system.name()), Some(system));
            assert_eq!(System::from_name(system.variant()), Some(system));
        }
        assert_eq!(System::from_name("freebsd-2.2"), None);
    }
}
