//! Millpond's rule; numbers refer to the list in its file.

use super::*;

pub(super) fn options() -> MillpondOptions {
    MillpondOptions::default()
}

/// Memory of 100 pages: 10 may be inactive, 2 are in their window at a time. Pages 0..90 are active, page 0 is next.
pub(super) fn pond_with_active() -> Pond {
    pond_with_active_by(options())
}

pub(super) fn pond_with_active_by(options: MillpondOptions) -> Pond {
    let mut pond = Pond::new(Replacement::Millpond(options), 100);
    pond.insert_all(9_000..9_020);
    (0..90).for_each(|n| pond.insert_active(n));
    for _ in 0..10 {
        pond.evict_one();
    }
    (0..90).for_each(|n| pond.lru.lruvec.pages.page(FrameNo(n)).usage_count = 0);
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
        pond.insert_as(n, Refault::NEW.of_new_memory(), false);
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
fn a_refaulted_page_becomes_active_if_one_of_two_is_demoted() {
    let mut pond = pond_with_active();
    pond.use_page(0);
    pond.insert_as(500, recent(), true);
    assert_eq!(pond.lru.list_of(FrameNo(500)), Some(List::Active));
    assert_eq!(
        pond.list(List::Inactive).last(),
        Some(&1),
        "the usage count of 1 was 0"
    );
    assert_eq!(pond.list(List::Active)[88..], [0, 500]);

    (2..4).for_each(|n| pond.use_page(n));
    pond.lru.remove(FrameNo(1));
    pond.insert_as(501, recent(), true);
    assert_eq!(pond.lru.list_of(FrameNo(501)), Some(List::Window));
    assert_eq!(pond.list(List::Active)[88..], [2, 3]);
}

/// Probes there too, the pages that come back of a loop of 7/5 of memory turned the active list over and kept nothing.
#[test]
fn where_there_is_room_it_enters_and_no_page_is_demoted() {
    let mut pond = pond_with_active();
    (0..90).for_each(|n| pond.use_page(n));
    // What the scan has freed is no room: the inactive pages that fill it are the next scan's victims.
    pond.insert_as(500, recent(), true);
    assert_eq!(pond.lru.list_of(FrameNo(500)), Some(List::Window));
    // 88 active pages leave 12 of the 100 that the scan left, two above the target.
    pond.lru.remove(FrameNo(88));
    pond.lru.remove(FrameNo(89));
    // Page 2 is the next, and not used.
    pond.frames.uses[2] = 0;
    pond.insert_as(501, recent(), true);
    assert_eq!(pond.lru.list_of(FrameNo(501)), Some(List::Active));
    assert_eq!(pond.list(List::Active)[0], 2);
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
    assert_eq!(
        target(&pond),
        Some(103),
        "the root of 1000 is 31.6: a step is 3.95 pages"
    );
    let _ = pond.lru.refault(key(0));
    assert_eq!(target(&pond), Some(103));

    pond.lru.lruvec.pages.page(first).past = Past::Demoted;
    assert_eq!(pond.evict_one(), first.0);
    let _ = pond.lru.refault(key(first.0));
    assert_eq!(target(&pond), Some(100));
}

/// A page is evicted and refaulted at once, so many times.
fn ghost_hits(pond: &mut Pond, hits: u32, was_active: bool) {
    for _ in 0..hits {
        pond.insert(7);
        pond.lru.lruvec.pages.page(FrameNo(7)).past = if was_active { Past::Demoted } else { Past::New };
        pond.lru.rotate_to_cold(FrameNo(7));
        assert_eq!(pond.evict_one(), 7);
        let _ = pond.lru.refault(key(7));
        pond.lru.validate();
    }
}

#[test]
fn the_target_stays_within_memory() {
    let mut pond = Pond::millpond(1_000);
    pond.insert_all(0..2);
    for (was_active, target) in [(false, 1_000), (true, 0)] {
        ghost_hits(&mut pond, 500, was_active);
        assert_eq!(pond.lru.inactive_target(), Some(PageCount(target)));
    }
}

/// Steps of a thousandth of memory crossed the whole range in a read of 1 MiB that came again, at 64 GiB.
#[test]
fn a_read_of_a_mib_that_comes_again_does_not_move_the_target_far_in_4_or_64_gib() {
    for memory in [1_000_000, 16_000_000] {
        let mut pond = Pond::millpond(memory);
        pond.insert_all(0..2);
        let target = |pond: &Pond| pond.lru.inactive_target().map_or(0, |t| t.0);
        let before = target(&pond);
        ghost_hits(&mut pond, 256, false);
        let moved = target(&pond) - before;
        assert!(moved > 256, "{moved} of {memory}: a page each at least");
        assert!(moved * 20 < memory, "{moved} of {memory}");
        ghost_hits(&mut pond, 256, true);
        assert_eq!(target(&pond), before, "as far back");
    }
}

#[test]
fn memory_of_another_size_keeps_the_target_as_a_share() {
    let mut pond = Pond::millpond(1_000);
    pond.lru.resize(PageCount(5_000));
    assert_eq!(pond.lru.inactive_target(), Some(PageCount(500)));
    pond.lru.resize(PageCount(1_000));
    assert_eq!(pond.lru.inactive_target(), Some(PageCount(100)));
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
        inactive_start_per_mille: 1001,
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

/// It was moved into its region with its neighbors when one of them was touched. Without this the reuse of it passed for
/// its first use, and it went.
#[test]
fn a_page_that_was_read_ahead_and_is_where_uses_are_not_seen_has_had_its_first_use() {
    let mut pond = Pond::millpond_small();
    pond.frames.unseen.push(FrameNo(0));
    for n in 0..2 {
        pond.insert_as(n, Refault::NEW.of_new_memory(), false);
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
