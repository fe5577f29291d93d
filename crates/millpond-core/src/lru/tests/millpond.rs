//! Millpond's rule, by the numbers of its file's list.

use super::*;

pub(super) fn options() -> MillpondOptions {
    MillpondOptions::default()
}

/// Memory of 100 pages: 10 may be inactive, 2 are in their window at a time. Pages 0..90 are active, page 0 is next.
fn pond_with_active() -> Pond {
    pond_with_active_by(options())
}

pub(super) fn pond_with_active_by(options: MillpondOptions) -> Pond {
    let mut pond = Pond::new(Replacement::Millpond(options), 100);
    pond.insert_all(9_000..9_020);
    (0..90).for_each(|n| pond.insert_active(n));
    for _ in 0..10 {
        pond.evict_one();
    }
    (0..90).for_each(|n| pond.lru.pages.page(FrameNo(n)).usage_count = 0);
    assert_eq!((pond.lru.active().0, pond.lru.inactive().0), (90, 10));
    pond
}

pub(super) fn recent() -> Refault {
    Refault {
        recent: true,
        ..Refault::NEW
    }
}

#[test]
fn uses_in_the_window_are_one_burst() {
    let mut pond = Pond::millpond(100);
    pond.insert_all(0..2);
    assert_eq!(
        pond.list(List::Window),
        [0, 1],
        "1 % of 100 pages, and the newest"
    );
    (0..3).for_each(|_| pond.use_page(0));
    pond.insert(2);
    assert_eq!(pond.list(List::Inactive), [0]);
    pond.isolate(1);
    assert_eq!(pond.take_victims(), [0]);
}

#[test]
fn one_use_after_that_makes_a_page_active() {
    let mut pond = Pond::millpond(100);
    pond.insert_all(0..4);
    pond.use_page(1);
    let scanned = pond.isolate(2);
    assert_eq!((scanned.scanned, scanned.activated), (2, 1));
    assert_eq!(pond.list(List::Active), [1]);
    assert_eq!(pond.take_victims(), [0]);
}

#[test]
fn pages_in_their_window_go_when_there_is_nothing_else() {
    let mut pond = Pond::millpond(100);
    pond.insert_all(0..2);
    pond.use_page(0);
    pond.isolate(32);
    assert_eq!(pond.take_victims(), [0, 1], "a burst saves no page");
}

#[test]
fn the_first_use_of_a_page_read_ahead_is_no_reuse() {
    let mut pond = Pond::millpond_small();
    for n in 0..9 {
        pond.lru.insert(FrameNo(n), Refault::NEW, false, &mut pond.frames);
    }
    assert_eq!(pond.list(List::Window), [8]);
    // 0 is never used, 1 once, 2 and 3 twice.
    for n in [1, 2, 2, 3, 3] {
        pond.use_page(n);
    }
    let scanned = pond.isolate(4);
    assert_eq!(pond.take_victims(), [0, 1]);
    assert_eq!((scanned.activated, scanned.rotated), (0, 2));
    assert_eq!(pond.list(List::Inactive), [4, 5, 6, 7, 2, 3]);
    pond.isolate(4);
    assert_eq!(pond.take_victims(), [4, 5, 6, 7]);
    pond.use_page(2);
    pond.isolate(1);
    assert_eq!(pond.list(List::Active), [2]);
    pond.insert(9);
    pond.isolate(1);
    assert_eq!(pond.take_victims(), [3]);
}

#[test]
fn victims_are_inactive_above_the_target_and_else_the_active_list_is_looked_at() {
    let mut pond = pond_with_active();
    assert_eq!(pond.lru.inactive_target(), Some(PageCount(10)));
    let scanned = pond.isolate(1);
    assert_eq!(
        (scanned.refilled, scanned.deactivated),
        (1, 1),
        "10 are not above 10"
    );
    assert_eq!(pond.lru.list_of(FrameNo(0)), Some(List::Inactive));
    assert_eq!(scanned.scanned, 1, "11 are");
    assert_eq!(pond.take_victims(), [9_010]);
}

#[test]
fn each_lap_costs_an_active_page_one_of_its_usage_count() {
    let mut pond = pond_with_active();
    (1..90).for_each(|n| pond.lru.remove(FrameNo(n)));
    (0..3).for_each(|_| pond.use_page(0));
    let laps = (0..4).map(|_| {
        let scanned = pond.isolate(1);
        (scanned.rotated, scanned.deactivated)
    });
    assert_eq!(laps.collect::<Vec<_>>(), [(1, 0), (1, 0), (1, 0), (0, 1)]);
}

#[test]
fn after_32_active_pages_in_vain_an_inactive_one_goes() {
    let mut pond = pond_with_active();
    (0..90).for_each(|n| pond.use_page(n));
    let scanned = pond.isolate(32);
    assert_eq!((scanned.refilled, scanned.rotated), (32, 32));
    assert_eq!(pond.take_victims(), [9_010]);
    assert_eq!(scanned.scanned, 1, "and then it looks at the active list again");
}

#[test]
fn a_refaulted_page_becomes_active_if_one_of_four_is_demoted() {
    let mut pond = pond_with_active();
    (0..3).for_each(|n| pond.use_page(n));
    pond.lru.insert(FrameNo(500), recent(), true, &mut pond.frames);
    assert_eq!(pond.lru.list_of(FrameNo(500)), Some(List::Active));
    assert_eq!(
        pond.list(List::Inactive).last(),
        Some(&3),
        "the usage count of 3 was 0"
    );
    assert_eq!(pond.list(List::Active)[86..], [0, 1, 2, 500]);

    (4..8).for_each(|n| pond.use_page(n));
    pond.lru.remove(FrameNo(3));
    pond.lru.insert(FrameNo(501), recent(), true, &mut pond.frames);
    assert_eq!(pond.lru.list_of(FrameNo(501)), Some(List::Window));
    assert_eq!(pond.list(List::Active)[86..], [4, 5, 6, 7]);
}

#[test]
fn where_there_is_room_it_becomes_active_without_a_probe() {
    let mut pond = pond_with_active();
    for n in 0..90 {
        pond.use_page(n);
    }
    let mut insert_recent = |n| {
        let before = pond.lru.statistics().pgrefill;
        pond.lru.insert(FrameNo(n), recent(), true, &mut pond.frames);
        let probed = pond.lru.statistics().pgrefill - before;
        pond.lru.remove(FrameNo(probed as u32));
        (pond.lru.list_of(FrameNo(n)), probed)
    };
    // What the scan has freed is no room: the inactive pages that fill it are the next scan's victims.
    assert_eq!(insert_recent(500), (Some(List::Window), 4));
    // Page 4 was removed: 89 active pages leave 11 of the 100 that the scan left, one above the target.
    assert_eq!(insert_recent(501), (Some(List::Active), 0));
}

#[test]
fn of_pages_without_a_shadow_one_in_32_is_activated_and_one_in_4_while_little_is_active() {
    let bimodal = |pond: &mut Pond| {
        let before = pond.lru.statistics().bimodal_activate_file;
        pond.insert_all(1_000..1_064);
        pond.lru.statistics().bimodal_activate_file - before
    };
    assert_eq!(bimodal(&mut pond_with_active()), 2);
    let mut pond = Pond::millpond(1_000);
    pond.insert_all(2_000..2_200);
    assert_eq!(bimodal(&mut pond), 16);
}

#[test]
fn memory_that_begins_is_activated_no_more_often_while_little_is_active() {
    let mut pond = Pond::millpond(1_000);
    for n in 2_000..2_200 {
        let begins = Refault::NEW.of_new_memory();
        pond.lru.insert(FrameNo(n), begins, true, &mut pond.frames);
    }
    let before = pond.lru.statistics().bimodal_activate_file;
    assert!((1..=200 / 32).contains(&before), "{before} of 200");
    pond.insert_all(3_000..3_064);
    assert_eq!(pond.lru.statistics().bimodal_activate_file - before, 16);
}

#[test]
fn while_the_inactive_list_is_long_pages_are_activated_as_if_little_were_active() {
    for (percent, bimodal) in [(0, 2), (150, 16), (1000, 2)] {
        let mut pond = pond_with_active();
        let options = MillpondOptions {
            admit_inactive_percent: percent,
            ..options()
        };
        pond.lru.replacement = Replacement::Millpond(options);
        // 64 of 100 are active, and 36 inactive, where 10 are aimed at.
        (0..26).for_each(|n| pond.lru.remove(FrameNo(n)));
        pond.insert_all(700..726);
        let before = pond.lru.statistics().bimodal_activate_file;
        pond.insert_all(1_000..1_064);
        let count = pond.lru.statistics().bimodal_activate_file - before;
        assert_eq!(count, bimodal, "{percent} %");
    }
}

#[test]
fn a_refaulted_page_probes_despite_room_if_it_is_to() {
    for despite_room in [false, true] {
        let mut pond = pond_with_active();
        let options = MillpondOptions {
            probe_always: despite_room,
            ..options()
        };
        pond.lru.replacement = Replacement::Millpond(options);
        pond.lru.remove(FrameNo(89));
        pond.insert(600);
        pond.lru.insert(FrameNo(500), recent(), true, &mut pond.frames);
        assert_eq!(pond.lru.list_of(FrameNo(500)), Some(List::Active));
        let demoted = pond.lru.list_of(FrameNo(0)) == Some(List::Inactive);
        assert_eq!(demoted, despite_room);
        // No page is demoted: there is room all the same.
        (0..10).for_each(|n| pond.use_page(n));
        (80..85).for_each(|n| pond.lru.remove(FrameNo(n)));
        pond.insert_all(601..606);
        pond.lru.insert(FrameNo(501), recent(), true, &mut pond.frames);
        assert_eq!(pond.lru.list_of(FrameNo(501)), Some(List::Active));
    }
}

#[test]
fn bimodal_insertion_probes_one_page() {
    let mut pond = pond_with_active();
    pond.use_page(0);
    let insert_bimodal = |pond: &mut Pond, n| {
        let options = MillpondOptions {
            admit_epsilon_one_in: 1,
            ..options()
        };
        pond.lru.replacement = Replacement::Millpond(options);
        pond.insert(n);
        pond.lru.list_of(FrameNo(n))
    };
    assert_eq!(insert_bimodal(&mut pond, 500), Some(List::Window));
    pond.lru.remove(FrameNo(500));
    assert_eq!(insert_bimodal(&mut pond, 501), Some(List::Active));
}

#[test]
fn the_target_grows_for_pages_never_active_and_shrinks_for_those_that_were() {
    let mut pond = Pond::millpond(1_000);
    pond.insert_all(0..900);
    (0..120).for_each(|_| {
        pond.evict_one();
    });
    let target = |pond: &Pond| pond.lru.inactive_target().map(|t| t.0);
    let Some(first) = pond.lru.iter_from_cold(List::Inactive).next() else {
        panic!("there are inactive pages");
    };
    assert_eq!(target(&pond), Some(100));
    // The last victim is refaulted at once; the first has more than 50 evictions of its class behind it.
    let last_gone = FrameNo(first.0 - 1);
    let _ = pond.lru.refault(key(last_gone.0));
    assert_eq!(target(&pond), Some(102));
    let _ = pond.lru.refault(key(0));
    assert_eq!(target(&pond), Some(102));

    pond.lru.pages.page(first).workingset = true;
    assert_eq!(pond.evict_one(), first.0);
    let _ = pond.lru.refault(key(first.0));
    assert_eq!(target(&pond), Some(100));
}

#[test]
fn the_target_stays_between_its_limits() {
    let mut pond = Pond::millpond(1_000);
    pond.insert_all(0..2);
    for workingset in [false, true] {
        for _ in 0..500 {
            pond.insert(7);
            pond.lru.pages.page(FrameNo(7)).workingset = workingset;
            pond.lru.rotate_to_cold(FrameNo(7));
            assert_eq!(pond.evict_one(), 7);
            let _ = pond.lru.refault(key(7));
            pond.lru.validate();
        }
        let target = if workingset { 20 } else { 500 };
        assert_eq!(pond.lru.inactive_target(), Some(PageCount(target)));
    }
}

#[test]
fn a_recent_refault_is_within_memorys_size_in_evictions() {
    let mut pond = Pond::millpond(100);
    let distance = |pond: &mut Pond, n| {
        let refault = pond.lru.refault(key(n));
        (refault.distance().map(|d| d.0), refault.is_recent())
    };
    pond.insert_all(0..110);
    (0..103).for_each(|_| {
        pond.evict_one();
    });
    let evicted: Vec<u32> = (0..110)
        .filter(|&n| pond.lru.list_of(FrameNo(n)).is_none())
        .collect();
    assert_eq!(distance(&mut pond, evicted[1]), (Some(101), false));
    assert_eq!(distance(&mut pond, evicted[2]), (Some(100), true));
    assert_eq!(
        distance(&mut pond, evicted[2]),
        (None, false),
        "its shadow is taken"
    );
}

#[test]
fn options_out_of_range_are_refused() {
    let wrong = MillpondOptions {
        inactive_max_per_mille: 901,
        ..options()
    };
    let refused = std::panic::catch_unwind(|| Lru::new(Replacement::Millpond(wrong), PageCount(8)));
    assert!(refused.is_err());
}

#[test]
fn with_a_window_of_nothing_only_the_newest_page_is_in_it() {
    let options = MillpondOptions {
        window: Ratio::percent(0),
        ..options()
    };
    let mut pond = Pond::new(Replacement::Millpond(options), 100);
    pond.insert_all(0..3);
    assert_eq!(pond.list(List::Window), [2]);
}

#[test]
fn an_active_page_whose_uses_nobody_saw_gets_a_lap_in_which_they_are() {
    let mut pond = pond_with_active();
    pond.frames.unseen.push(FrameNo(0));
    pond.lru.isolate(0, 1, &mut pond.frames, &mut pond.victims);
    assert_eq!(pond.list(List::Active).last(), Some(&0), "it goes round");
    for _ in 0..500 {
        pond.isolate(1);
    }
    assert!(
        !pond.list(List::Active).contains(&0),
        "and is demoted: no use was seen then"
    );
}

/// Laps that the page in frame 0 of a pond of active pages stays for, used in `used` laps before, and how often it was looked at
/// in those. It is in its region when a lap begins in which it was used, or not looked at in the one before.
fn laps_of_a_sampled_page(options: MillpondOptions, used: usize) -> (usize, usize) {
    let mut pond = pond_with_active_by(options);
    // Until it has gone round, or went.
    let lap = |pond: &mut Pond| {
        for is_last in [false, true] {
            let is_there = |active: &[u32]| active.contains(&0) && (active.last() == Some(&0)) != is_last;
            while is_there(&pond.list(List::Active)) {
                pond.frames.uses[1..90].fill(1);
                pond.isolate(1);
            }
        }
    };
    let mut looked = 0;
    for uses in core::iter::repeat_n(1, used).chain([0]) {
        pond.frames.unseen.push(FrameNo(0));
        pond.frames.uses[0] = uses;
        lap(&mut pond);
        looked += usize::from(uses > 0 && pond.frames.uses[0] == 0);
    }
    let mut left = 0;
    while pond.list(List::Active).contains(&0) {
        left += 1;
        lap(&mut pond);
    }
    (left, looked)
}

/// A lap shows one use of a page of a region, however often it was used. Spent at once, none ever counted: what was used in
/// lap after lap was demoted after the first lap without, as was what had been used once.
#[test]
fn the_usage_count_of_a_page_of_a_region_rises_in_each_lap_in_which_it_was_used() {
    let options = MillpondOptions {
        region_usage_count_max: 3,
        accessed_bit_weight: 1,
        skip_scan_threshold: 16,
        ..options()
    };
    for (used, laps_left) in [(0, 1), (1, 1), (2, 2), (3, 3), (9, 3)] {
        assert_eq!(laps_of_a_sampled_page(options, used), (laps_left, used));
    }
}

/// With four more for a lap with a use, and eight at most, it is looked at in two laps, and then in one of five.
#[test]
fn a_page_of_a_region_that_is_used_in_lap_after_lap_is_not_looked_at_in_each() {
    let options = MillpondOptions {
        region_usage_count_max: 8,
        accessed_bit_weight: 4,
        skip_scan_threshold: 5,
        ..options()
    };
    for (used, looked) in [(1, 1), (2, 2), (6, 2), (7, 3), (11, 3), (12, 4)] {
        assert_eq!(
            laps_of_a_sampled_page(options, used).1,
            looked,
            "used in {used} laps"
        );
    }
}

/// It was moved into its region with its neighbours when one of them was touched. Without this the reuse of it passed for
/// its first use, and it went.
#[test]
fn a_page_that_was_read_ahead_and_is_where_uses_are_not_seen_has_had_its_first_use() {
    let mut pond = Pond::millpond_small();
    pond.frames.unseen.push(FrameNo(0));
    for n in 0..2 {
        pond.lru.insert(FrameNo(n), Refault::NEW, false, &mut pond.frames);
    }
    pond.insert_all(2..20);
    assert!(
        pond.list(List::Inactive).starts_with(&[0, 1]),
        "their window has ended"
    );
    pond.frames.uses[0] = 1;
    pond.frames.uses[1] = 1;
    pond.lru.isolate(0, 2, &mut pond.frames, &mut pond.victims);
    assert_eq!(pond.list(List::Active), [0], "used again");
    assert_eq!(pond.victims[0], FrameNo(1), "used for the first time");
}
