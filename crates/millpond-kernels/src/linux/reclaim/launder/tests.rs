//! Each system by the smallest example.

use super::*;
use crate::linux::reclaim::System;

const DIRTY: Met = Met {
    kind: PageKind::File,
    is_dirty: true,
    is_writing: false,
    is_tagged: false,
    has_slot: false,
    reference: Reference::Reclaim,
};

const CLEAN: Met = Met {
    is_dirty: false,
    ..DIRTY
};

const ANON: Met = Met {
    kind: PageKind::Anonymous,
    is_dirty: false,
    ..DIRTY
};

const WRITING: Met = Met {
    is_writing: true,
    is_dirty: false,
    ..DIRTY
};

fn scan(caller: Caller, priority: u32) -> Scan {
    Scan {
        caller,
        priority,
        may_write: true,
        congested: false,
        node_dirty: false,
        node_writeback: false,
    }
}

fn rules(system: System) -> LinuxRules {
    system.rules().unwrap()
}

fn decide(system: System, met: &Met, caller: Caller, priority: u32) -> Verdict {
    at_cold_end(&rules(system), met, &scan(caller, priority))
}

#[test]
fn vanilla_asks_for_every_dirty_page_whoever_meets_it() {
    for priority in 0..=12 {
        for caller in [Caller::Kswapd, Caller::Direct] {
            assert_eq!(
                decide(System::Linux3_0, &DIRTY, caller, priority),
                Verdict::PageOut
            );
        }
    }
}

#[test]
fn patch_1_takes_file_pages_from_who_allocates_and_leaves_anonymous_ones() {
    let system = System::NoDirectWb;
    assert_eq!(
        decide(system, &DIRTY, Caller::Direct, 0),
        keep(Kept::NotAllowed),
        "counted as skipped"
    );
    assert_eq!(decide(system, &DIRTY, Caller::Kswapd, 12), Verdict::PageOut);
    assert_eq!(decide(system, &ANON, Caller::Direct, 12), Verdict::PageOut);
}

#[test]
fn patch_2_lets_kswapd_write_file_pages_from_priority_9_down() {
    for priority in 0..=12 {
        let may = decide(System::LessKswapdWb, &DIRTY, Caller::Kswapd, priority) == Verdict::PageOut;
        assert_eq!(may, priority <= 9, "priority {priority}");
    }
    assert_eq!(
        decide(System::LessKswapdWb, &ANON, Caller::Kswapd, 12),
        Verdict::PageOut
    );
}

#[test]
fn patch_1_counts_before_anything_else_is_asked() {
    // The check comes before "free only if clean": a page used once is skipped, not kept for its use.
    let used_once = Met {
        reference: Reference::ReclaimClean,
        ..DIRTY
    };
    assert_eq!(
        decide(System::NoDirectWb, &used_once, Caller::Direct, 12),
        keep(Kept::NotAllowed)
    );
    assert_eq!(
        decide(System::Linux3_0, &used_once, Caller::Kswapd, 12),
        keep(Kept::UsedOnce)
    );
}

#[test]
fn patch_4_tags_where_patch_3_skips_and_patch_5_flags_the_file() {
    let tagged = |flag_file| Verdict::Keep {
        why: Kept::NotAllowed,
        tag: true,
        activate: false,
        flag_file,
    };
    let kswapd = |system| decide(system, &DIRTY, Caller::Kswapd, 12);
    assert_eq!(kswapd(System::Throttle), keep(Kept::NotAllowed));
    assert_eq!(kswapd(System::Immediate), tagged(false));
    assert_eq!(kswapd(System::PrioInode), tagged(true));
}

#[test]
fn as_posted_patches_4_and_5_lose_the_page() {
    let kswapd = |system| decide(system, &DIRTY, Caller::Kswapd, 12);
    assert_eq!(
        kswapd(System::ImmediateLeakV1),
        Verdict::Leak { flag_file: false }
    );
    assert_eq!(kswapd(System::PrioInodeLeakV1), Verdict::Leak { flag_file: true });
}

#[test]
fn the_second_version_never_writes_a_file_page() {
    for priority in 0..=12 {
        let verdict = decide(System::Version2, &DIRTY, Caller::Kswapd, priority);
        assert_ne!(verdict, Verdict::PageOut, "priority {priority}");
    }
}

#[test]
fn linux_4_11_writes_what_it_meets_again_while_the_node_is_dirty() {
    let rules = rules(System::Linux4_11);
    let verdict = |is_tagged, node_dirty| {
        let met = Met { is_tagged, ..DIRTY };
        let scan = Scan {
            node_dirty,
            ..scan(Caller::Kswapd, 12)
        };
        at_cold_end(&rules, &met, &scan)
    };
    assert_eq!(verdict(true, true), Verdict::PageOut);
    for (is_tagged, node_dirty) in [(false, true), (true, false)] {
        let Verdict::Keep { tag, activate, .. } = verdict(is_tagged, node_dirty) else {
            panic!("written with tagged {is_tagged}, node dirty {node_dirty}");
        };
        assert!(tag && activate);
    }
}

#[test]
fn linux_7_never_writes_file_pages_and_activates_what_is_unclean() {
    for priority in 0..=12 {
        for met in [DIRTY, WRITING] {
            let Verdict::Keep { tag, activate, .. } =
                decide(System::Linux7_0, &met, Caller::Kswapd, priority)
            else {
                panic!("{met:?} at {priority}");
            };
            assert!(tag && activate);
        }
    }
    assert_eq!(
        decide(System::Linux7_0, &ANON, Caller::Kswapd, 12),
        Verdict::PageOut
    );
}

#[test]
fn a_page_being_written_stays_and_is_tagged_only_since_3_11() {
    for system in [System::Linux3_0, System::PrioInode, System::Linux3_2] {
        assert_eq!(decide(system, &WRITING, Caller::Kswapd, 12), keep(Kept::Writing));
    }
    let met = Met {
        is_tagged: true,
        ..WRITING
    };
    let again = Scan {
        node_writeback: true,
        ..scan(Caller::Kswapd, 12)
    };
    let why = |scan: &Scan| match at_cold_end(&rules(System::Linux7_0), &met, scan) {
        Verdict::Keep { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(&again), Kept::WritingMetAgain);
    let direct = Scan {
        caller: Caller::Direct,
        ..again
    };
    assert_eq!(why(&direct), Kept::Writing);
}

#[test]
fn clean_pages_are_freed_and_used_ones_are_not_on_every_system() {
    for system in System::ALL.into_iter().filter(|&r| r != System::Millpond) {
        assert_eq!(decide(system, &CLEAN, Caller::Direct, 12), Verdict::Free);
        let met = |reference| Met { reference, ..CLEAN };
        let on = |reference| decide(system, &met(reference), Caller::Kswapd, 12);
        assert_eq!(on(Reference::Activate), Verdict::Activate);
        assert_eq!(on(Reference::Keep), keep(Kept::InUse));
        assert_eq!(on(Reference::ReclaimClean), Verdict::Free, "{system:?}");
    }
}

#[test]
fn an_anonymous_page_is_written_once_and_freed_while_its_slot_holds_it() {
    let in_swap = Met {
        has_slot: true,
        ..ANON
    };
    assert_eq!(
        decide(System::Linux3_0, &ANON, Caller::Direct, 12),
        Verdict::PageOut
    );
    assert_eq!(
        decide(System::Linux3_0, &in_swap, Caller::Direct, 12),
        Verdict::Free
    );
}

#[test]
fn a_congested_queue_and_a_ban_on_writes_keep_the_page() {
    let rules = rules(System::Linux3_0);
    let congested = Scan {
        congested: true,
        ..scan(Caller::Direct, 12)
    };
    let banned = Scan {
        may_write: false,
        ..scan(Caller::Direct, 12)
    };
    assert_eq!(at_cold_end(&rules, &DIRTY, &congested), keep(Kept::Congested));
    assert_eq!(at_cold_end(&rules, &DIRTY, &banned), keep(Kept::NoWrites));
}

#[test]
fn a_dirty_page_that_may_not_be_written_is_skipped_or_tagged_in_the_trace() {
    let kept = |tag| Verdict::Keep {
        why: Kept::NotAllowed,
        tag,
        activate: false,
        flag_file: false,
    };
    assert_eq!(kept(false).outcome(), Outcome::Skipped);
    assert_eq!(kept(true).outcome(), Outcome::Tagged);
}
