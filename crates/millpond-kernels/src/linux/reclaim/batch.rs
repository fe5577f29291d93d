//! The consequences of a batch of pages from the cold end: which thread waits, which is woken.
//!
//! ```text
//!   patch 3      dirty >= taken >> (12 - priority), and any      wait if the device is congested, a tenth of a second
//!   3.2          the same with pages being written
//!   3.11 …       all of it dirty and none being written          wake the flushers; the node is "dirty" (to 6.x)
//!                all of it being written                         the node is "writeback"
//!                met again among those                           sleep until writes end
//!                all dirty ones congested                        the node is "congested"
//! ```
//!
//! At priority 12 the whole batch must be unclean, at 11 half of it, …, from 6 down any page is enough.

use super::launder::{LinuxRules, Throttle};
use millpond_core::reclaim::launder::PRIORITY_DEFAULT;
use millpond_core::reclaim::trace::Caller;

/// The composition of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// Pages taken off the list.
    pub taken: u64,
    /// Dirty ones; since 3.11 those being written count too.
    pub dirty: u64,
    /// Dirty ones that are not being written.
    pub dirty_unqueued: u64,
    /// Pages being written.
    pub writing: u64,
    /// To 3.10: dirty pages kept because the device's queue was full. Later: tagged pages being written.
    pub congested: u64,
    /// Tagged pages being written, met while the node was full of such.
    pub met_again: u64,
}

/// The consequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AfterBatch {
    /// Counted as throttled: `wait_iff_congested` for a tenth of a second.
    pub throttled: bool,
    /// The zone counts as congested from now on.
    pub zone_congested: bool,
    /// The node counts as full of dirty pages from now on.
    pub node_dirty: bool,
    /// The node counts as full of pages being written from now on.
    pub node_writeback: bool,
    /// The flushers are to be woken, for this many pages.
    pub flushers_woken_pages: u64,
    /// The scan sleeps until writes end, a tenth of a second at most.
    pub sleeps_for_writeback: bool,
}

/// Whether this many of `taken` are enough to wait, at this priority.
pub fn is_enough(unclean: u64, taken: u64, priority: u32) -> bool {
    unclean > 0 && unclean >= taken >> PRIORITY_DEFAULT.saturating_sub(priority)
}

/// Decides. `node_writeback`: the node's flag before.
pub fn after(rules: &LinuxRules, batch: &Batch, caller: Caller, priority: u32) -> AfterBatch {
    let mut after = AfterBatch {
        zone_congested: batch.dirty > 0 && batch.dirty == batch.congested,
        ..AfterBatch::default()
    };
    match rules.throttle {
        Throttle::Off => {}
        Throttle::Dirty => after.throttled = is_enough(batch.dirty, batch.taken, priority),
        Throttle::Writeback => after.throttled = is_enough(batch.writing, batch.taken, priority),
        Throttle::NodeFlags => {
            if batch.taken > 0 && batch.dirty_unqueued == batch.taken {
                after.flushers_woken_pages = batch.taken;
                after.node_dirty = caller == Caller::Kswapd;
            }
            if caller == Caller::Kswapd {
                after.node_writeback = batch.writing > 0 && batch.writing == batch.taken;
                after.sleeps_for_writeback = batch.met_again > 0;
            }
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::reclaim::System;

    fn rules(system: System) -> LinuxRules {
        system.rules().unwrap()
    }

    #[test]
    fn the_gate_of_patch_3_halves_with_each_priority() {
        let least = |priority| (0..=32).find(|&dirty| is_enough(dirty, 32, priority)).unwrap();
        let gates = [12, 11, 10, 9, 8, 7, 6, 5, 0].map(least);
        assert_eq!(gates, [32, 16, 8, 4, 2, 1, 1, 1, 1]);
    }

    #[test]
    fn the_series_waits_for_dirty_pages_and_3_2_for_pages_being_written() {
        let dirty = Batch {
            taken: 32,
            dirty: 32,
            dirty_unqueued: 32,
            ..Batch::default()
        };
        let writing = Batch {
            taken: 32,
            writing: 32,
            ..Batch::default()
        };
        let waits = |system, batch| after(&rules(system), batch, Caller::Kswapd, 12).throttled;
        for (system, expected) in [
            (System::LessKswapdWb, [false, false]),
            (System::Throttle, [true, false]),
            (System::PrioInode, [true, false]),
            (System::Linux3_2, [false, true]),
            (System::Linux7_0, [false, false]),
        ] {
            assert_eq!(
                [waits(system, &dirty), waits(system, &writing)],
                expected,
                "{system:?}"
            );
        }
    }

    #[test]
    fn only_dirty_pages_that_nobody_writes_wake_the_flushers() {
        let mut batch = Batch {
            taken: 32,
            dirty: 32,
            dirty_unqueued: 32,
            ..Batch::default()
        };
        let after_7 = |batch: &Batch, caller| after(&rules(System::Linux7_0), batch, caller, 12);
        assert_eq!(after_7(&batch, Caller::Direct).flushers_woken_pages, 32);
        assert!(!after_7(&batch, Caller::Direct).node_dirty);
        assert!(after_7(&batch, Caller::Kswapd).node_dirty);
        batch.dirty_unqueued = 31;
        assert_eq!(after_7(&batch, Caller::Kswapd).flushers_woken_pages, 0);
    }

    #[test]
    fn kswapd_sleeps_when_it_meets_again_what_is_being_written() {
        let batch = Batch {
            taken: 32,
            writing: 32,
            met_again: 1,
            ..Batch::default()
        };
        let kswapd = after(&rules(System::Linux7_0), &batch, Caller::Kswapd, 12);
        assert!(kswapd.sleeps_for_writeback && kswapd.node_writeback);
        let direct = after(&rules(System::Linux7_0), &batch, Caller::Direct, 12);
        assert!(!direct.sleeps_for_writeback && !direct.node_writeback);
    }

    #[test]
    fn a_zone_is_congested_when_every_dirty_page_was_refused_by_a_full_queue() {
        let after_3 = |dirty, congested| {
            let batch = Batch {
                taken: 32,
                dirty,
                congested,
                ..Batch::default()
            };
            after(&rules(System::Linux3_0), &batch, Caller::Direct, 12).zone_congested
        };
        assert!(after_3(5, 5) && !after_3(5, 4) && !after_3(0, 0));
    }
}
