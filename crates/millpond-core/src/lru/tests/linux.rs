//! Linux's rule.

use super::*;

#[test]
fn a_page_used_once_goes_and_a_page_used_twice_becomes_active() {
    let mut pond = Pond::linux(LINUX, 100);
    pond.insert_all(0..4);
    pond.use_page(1);
    let scanned = pond.isolate(32);
    assert_eq!(pond.take_victims(), [0, 2, 3]);
    assert_eq!(pond.list(List::Active), [1]);
    assert_eq!((scanned.scanned, scanned.activated), (4, 1));
    assert_eq!(pond.lru.isolated(), PageCount(3));
}

#[test]
fn a_page_read_ahead_needs_two_uses_like_any_other() {
    let mut pond = Pond::linux(LINUX, 100);
    for n in 0..2 {
        pond.insert_as(n, Refault::NEW, false);
    }
    pond.use_page(0);
    (0..2).for_each(|_| pond.use_page(1));
    pond.isolate(32);
    assert_eq!(pond.take_victims(), [0]);
    assert_eq!(pond.list(List::Active), [1]);
}

#[test]
fn a_put_back_page_needs_two_more_uses() {
    let mut pond = Pond::linux(LINUX, 100);
    pond.insert_all(0..1);
    pond.isolate(32);
    let [page] = pond.take_victims()[..] else {
        panic!("one victim");
    };
    pond.lru.put_back(FrameNo(page), PutBack::WarmInactive);
    pond.use_page(0);
    pond.isolate(32);
    assert_eq!(pond.take_victims(), [0]);
}

#[test]
fn immediate_promotion_moves_at_the_second_use_and_ages_shadows_then() {
    let mut pond = Pond::linux(
        LinuxOptions {
            promotion: Promotion::Immediate,
            ..LINUX
        },
        100,
    );
    pond.insert_all(0..3);
    pond.frames.uses.fill(0);
    assert_eq!(pond.evict_one(), 0);
    pond.lru.mark_accessed(FrameNo(1));
    assert_eq!(pond.list(List::Active), [1]);
    pond.lru.mark_accessed(FrameNo(1));
    assert_eq!(
        pond.lru.refault(key(0)).distance(),
        Some(PageCount(1)),
        "one activation"
    );
}

#[test]
fn lazy_promotion_takes_no_notice_of_a_hit_that_is_told() {
    let mut pond = Pond::linux(LINUX, 100);
    pond.insert_all(0..1);
    pond.lru.mark_accessed(FrameNo(0));
    assert_eq!(pond.list(List::Inactive), [0]);
}

#[test]
fn the_active_list_is_shortened_while_it_is_longer_than_the_inactive_one() {
    let mut pond = Pond::linux(LINUX, 100);
    (0..6).for_each(|n| pond.insert_active(n));
    pond.insert_all(6..12);
    assert_eq!(pond.isolate(1).deactivated, 0, "6 and 6: not low");
    assert_eq!(pond.isolate(1).deactivated, 1, "5 and 6");
    assert_eq!(pond.list(List::Active), [1, 2, 3, 4, 5]);
    assert_eq!(
        pond.list(List::Inactive).last(),
        Some(&0),
        "deactivated pages are warm"
    );
}

#[test]
fn uses_save_no_active_page_but_one_more_brings_it_back() {
    let mut pond = Pond::linux(LINUX, 100);
    (0..3).for_each(|n| pond.insert_active(n));
    pond.use_page(0);
    assert_eq!(pond.isolate(32).deactivated, 3);
    pond.use_page(0);
    pond.use_page(1);
    pond.isolate(32);
    assert_eq!(pond.list(List::Active), [0]);
    assert_eq!(pond.take_victims(), [1, 2]);
}

#[test]
fn a_pass_looks_at_size_shifted_by_its_priority() {
    let mut pond = Pond::linux(LINUX, 10_000);
    pond.insert_all(0..4096);
    let quotas = [12, 10, 5, 0].map(|priority| pond.lru.quota(priority).0);
    assert_eq!(quotas, [1, 4, 128, 4096]);
    let mut scanned = |priority| {
        let scanned = pond
            .lru
            .isolate(priority, 32, &mut pond.frames, &mut pond.victims);
        scanned.scanned
    };
    assert_eq!([12, 10, 5].map(&mut scanned), [1, 3, 32]);
}

#[test]
fn a_page_that_comes_back_within_the_active_lists_length_is_activated() {
    let come_back = |detection, evictions: u32| {
        let mut pond = Pond::linux(LinuxOptions { detection, ..LINUX }, 100);
        (100..110).for_each(|n| pond.insert_active(n));
        pond.insert_all(0..50);
        (0..=evictions).for_each(|_| {
            pond.evict_one();
        });
        pond.lru.refault(key(0))
    };
    use Detection::{Linux4_19, Linux5_9, Off};
    assert_eq!(come_back(Linux4_19, 10).distance(), Some(PageCount(10)));
    assert_eq!(come_back(Linux5_9, 10).distance(), Some(PageCount(11)));
    let recent = |detection, evictions| come_back(detection, evictions).is_recent();
    assert!(recent(Linux4_19, 10) && !recent(Linux4_19, 11));
    assert!(recent(Linux5_9, 9) && !recent(Linux5_9, 10));
    assert!(!recent(Off, 0));
}

#[test]
fn an_activation_by_refault_lets_the_active_list_shrink_once() {
    let mut pond = Pond::linux(LINUX, 100);
    (100..102).for_each(|n| pond.insert_active(n));
    pond.insert_all(0..20);
    assert_eq!(pond.isolate(1).deactivated, 0, "2 active, 19 inactive");
    pond.lru.evicted(FrameNo(0), key(0));
    assert!(pond.lru.refault(key(0)).is_recent());
    assert_eq!(pond.isolate(1).deactivated, 1);
    assert_eq!(pond.isolate(1).deactivated, 0);
}

#[test]
fn refaults_are_counted_under_the_kernels_names() {
    let mut pond = Pond::linux(LINUX, 100);
    (0..2).for_each(|n| pond.insert_active(n));
    // Both are deactivated, go, and are refaulted while one page is active.
    assert_eq!(pond.evict_one(), 0);
    assert_eq!(pond.evict_one(), 1);
    pond.insert_active(50);
    let _ = pond.lru.refault(key(1));
    let _ = pond.lru.refault(key(0));
    let _ = pond.lru.refault(key(7));
    let statistics = pond.lru.statistics();
    assert_eq!(statistics.workingset_refault_file, 2);
    assert_eq!(
        statistics.workingset_activate_file, 1,
        "0 is two away: its neighbour and that one's activation"
    );
    assert_eq!(statistics.workingset_restore_file, 1);
    assert_eq!(statistics.pgdeactivate, 2);
}

/// The detection toy of Kim 2020, played with file pages: 50 hot pages are active, then rounds of 50
/// pages used once and 50 pages that are used each time. How many of these are missing, round by round.
fn detection_toy(options: LinuxOptions, memory: u64, room_first: bool) -> [u32; 8] {
    let mut pond = Pond::linux(options, memory);
    (0..50).for_each(|n| pond.insert_active(n));
    (100..150).for_each(|n| {
        pond.read(n, false);
    });
    let mut used_once = 200..;
    core::array::from_fn(|_| {
        for n in used_once.by_ref().take(50) {
            pond.read(n, false);
        }
        (100..150)
            .map(|n| {
                if room_first && pond.lru.list_of(FrameNo(n)).is_none() {
                    pond.evict_one();
                }
                u32::from(pond.read(n, false))
            })
            .sum()
    })
}

#[test]
fn the_detection_toy_converges_as_published_for_each_size() {
    let options = LinuxOptions {
        refaults_deactivate: false,
        ..LINUX
    };
    assert_eq!(
        [100, 101, 102, 104, 110].map(|memory| detection_toy(options, memory, true)),
        [
            [50, 49, 47, 43, 35, 19, 0, 0],
            [50, 48, 44, 36, 20, 0, 0, 0],
            [50, 45, 38, 23, 0, 0, 0, 0],
            [50, 40, 28, 0, 0, 0, 0, 0],
            [50, 25, 0, 0, 0, 0, 0, 0]
        ]
    );
}

#[test]
fn the_detection_toy_never_converges_if_the_distance_is_one_page_longer() {
    let later = LinuxOptions {
        detection: Detection::Linux5_9,
        ..LINUX
    };
    assert_eq!(detection_toy(later, 100, true), [50; 8]);
    assert_eq!(
        detection_toy(later, 100, false),
        [50, 49, 47, 43, 35, 19, 0, 0],
        "asked before room is made"
    );
}
