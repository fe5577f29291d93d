//! Bimodal insertion: rule 4 of Millpond's replacement.

use super::millpond::pond_with_active;
use super::*;
use crate::lru::millpond::SHARE_ALL;

/// Which of the pages are drawn if they are missed and have no shadow.
fn draws(pond: &mut Pond, pages: core::ops::Range<u32>) -> Vec<u32> {
    let mut drawn = Vec::new();
    for n in pages {
        pond.insert_as(n, Refault::NEW, true);
        if pond.lru.lruvec.pages.page(FrameNo(n)).past == Past::Drawn {
            drawn.push(n);
        }
        pond.lru.remove(FrameNo(n));
    }
    drawn
}

#[test]
fn of_pages_without_a_shadow_a_share_is_drawn_and_others_when_memory_was_replaced() {
    let mut pond = Pond::millpond(2_000);
    pond.insert_all(6_000..6_010);
    pond.lru.millpond_mut().target = 0;
    let half = draws(&mut pond, 1_000..2_000);
    assert!((400..600).contains(&half.len()), "{}", half.len());
    assert_eq!(draws(&mut pond, 1_000..2_000), half, "drawn by their keys");
    pond.lru.millpond_mut().bimodal.share /= 8;
    let few = draws(&mut pond, 1_000..2_000);
    assert!((30..100).contains(&few.len()), "{}", few.len());
    assert!(
        few.iter().any(|n| !half.contains(n)),
        "2000 pages were missed since"
    );
}

#[test]
fn memory_that_begins_is_not_missed_and_not_drawn() {
    let mut pond = Pond::millpond(1_000);
    pond.insert_all(2_000..2_200);
    assert_eq!(pond.lru.statistics().bimodal_activate_file, 0);
}

#[test]
fn neighbouring_pages_are_drawn_in_rows() {
    // 200,000 pages of memory have rows of 64.
    let mut pond = Pond::millpond(200_000);
    pond.insert_all(0..10);
    pond.lru.millpond_mut().target = 0;
    let drawn = draws(&mut pond, 1_024..6_144);
    let rows: std::collections::BTreeSet<u32> = drawn.iter().map(|n| n / 64).collect();
    assert_eq!(drawn.len(), rows.len() * 64);
    assert!((10..70).contains(&rows.len()), "{} of 80 rows", rows.len());
}

/// A drawn page whose window ends next: the window holds a page and the one after it.
fn drawn_at_the_end_of_its_window(pond: &mut Pond, n: u32, first_use: bool) {
    pond.lru.millpond_mut().bimodal.share = SHARE_ALL;
    pond.insert_as(n, Refault::NEW, first_use);
    pond.lru.millpond_mut().bimodal.share = 0;
    pond.insert_as(8_000, Refault::NEW, true);
}

#[test]
fn a_drawn_page_becomes_active_when_its_window_ends_and_its_burst_is_dropped() {
    let mut pond = pond_with_active();
    drawn_at_the_end_of_its_window(&mut pond, 500, true);
    pond.use_page(500);
    assert_eq!(pond.lru.list_of(FrameNo(500)), Some(List::Window));
    pond.insert_as(8_001, Refault::NEW, true);
    assert_eq!(pond.list(List::Active)[89..], [500]);
    assert_eq!(pond.list(List::Inactive).last(), Some(&0), "the probe demoted it");
    assert_eq!(pond.frames.uses[500], 0);
}

#[test]
fn a_drawn_page_that_was_read_ahead_and_not_used_stays_inactive() {
    let mut pond = pond_with_active();
    drawn_at_the_end_of_its_window(&mut pond, 500, false);
    pond.insert_as(8_001, Refault::NEW, true);
    assert_eq!(pond.list(List::Inactive).last(), Some(&500));
    assert_eq!(pond.list(List::Active).len(), 90);
}

#[test]
fn what_is_used_there_raises_the_share_and_what_is_demoted_unused_lowers_it() {
    for is_used in [true, false] {
        let mut pond = pond_with_active();
        drawn_at_the_end_of_its_window(&mut pond, 500, true);
        pond.insert_as(8_001, Refault::NEW, true);
        let before = SHARE_ALL / 2;
        pond.lru.millpond_mut().bimodal.share = before;
        if is_used {
            pond.use_page(500);
        }
        // Once round the active list.
        for _ in 0..200 {
            pond.isolate(1);
        }
        let share = pond.lru.millpond().bimodal.share;
        assert!(if is_used { share > before } else { share < before }, "{share}");
    }
}

#[test]
fn the_share_falls_where_nothing_is_used_again_and_recovers() {
    let mut pond = Pond::millpond(500);
    let share = |pond: &Pond| f64::from(pond.lru.millpond().bimodal.share) / 65_536.0;
    for n in 0..3_000 {
        pond.read(n, true);
    }
    assert!(share(&pond) < 0.05, "a scan: {}", share(&pond));
    assert!(share(&pond) > 0.0, "but not to nothing");
    // A loop of four memories, all of which is used again if it stays.
    for n in 0..200_000 {
        pond.read(4_000 + n % 2_000, true);
    }
    assert!(share(&pond) > 0.02, "a loop: {}", share(&pond));
}

#[test]
fn bimodal_insertion_probes_one_page() {
    for is_used in [true, false] {
        let mut pond = pond_with_active();
        if is_used {
            pond.use_page(0);
        }
        drawn_at_the_end_of_its_window(&mut pond, 500, true);
        pond.insert_as(8_001, Refault::NEW, true);
        let list = if is_used { List::Inactive } else { List::Active };
        assert_eq!(pond.lru.list_of(FrameNo(500)), Some(list));
    }
}

/// Else a single row of 64 that was not used took the share from half to the least.
#[test]
fn a_row_moves_the_share_as_one_page_does() {
    let moved = |memory, pages| {
        let mut pond = Pond::millpond(memory);
        let before = pond.lru.millpond().bimodal.share;
        for n in 0..pages {
            pond.insert_active(n);
            pond.lru.lruvec.pages.page(FrameNo(n)).past = Past::Bimodal;
            let Configured::Millpond(rule) = &mut pond.lru.rule else {
                panic!()
            };
            rule.bimodal.judge(&mut pond.lru.lruvec, FrameNo(n), false);
        }
        before - pond.lru.millpond().bimodal.share
    };
    assert_eq!(moved(200_000, 64), moved(1_000, 1));
}
