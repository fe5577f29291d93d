//! Pages of no-reuse files; numbers refer to the list in that file.

use super::*;

const KEPT: FileId = FileId(1);
const NO_REUSE: FileId = FileId(2);

/// Memory of so many pages, without bimodal insertion. Of both files nothing is known yet.
fn pond(memory: u64) -> Pond {
    let mut pond = Pond::millpond_small();
    pond.lru.set_memory(PageCount(memory));
    [KEPT, NO_REUSE]
        .into_iter()
        .for_each(|file| pond.lru.opened(file));
    pond
}

/// Of one file everything is used again, of the other one nothing.
fn tell_apart(pond: &mut Pond) {
    for _ in 0..200 {
        pond.lru.lruvec.refault_rates.evicted(NO_REUSE, PageCount(10_000));
        pond.lru.lruvec.refault_rates.refaulted(KEPT);
    }
    assert!(pond.lru.detect_no_reuse(NO_REUSE) && !pond.lru.detect_no_reuse(KEPT));
}

fn insert_no_reuse(pond: &mut Pond, pages: core::ops::Range<u32>) {
    for n in pages {
        pond.lru.insert_no_reuse(FrameNo(n), key(n), &mut pond.frames);
    }
}

#[test]
fn a_page_of_a_no_reuse_file_is_the_next_victim_after_its_window() {
    let mut pond = pond(20);
    pond.insert_all(0..4);
    tell_apart(&mut pond);
    insert_no_reuse(&mut pond, OTHER..OTHER + 2);
    assert_eq!(
        pond.list(List::NoReuse),
        [OTHER + 1],
        "1 % of 20 pages, and the newest"
    );
    assert_eq!(pond.list(List::Inactive)[0], OTHER);
}

#[test]
fn pages_of_a_background_task_are_victims_before_others_used_or_not() {
    let mut pond = pond(32);
    pond.insert_all(0..8);
    for n in OTHER..OTHER + 6 {
        pond.lru.insert_background(FrameNo(n), key(n), &mut pond.frames);
        pond.use_page(n);
    }
    assert_eq!(
        pond.list(List::NoReuse),
        [OTHER + 3, OTHER + 4, OTHER + 5],
        "a 16th of 32 pages, and the newest"
    );
    pond.isolate(3);
    let victims = pond.take_victims();
    assert!(
        victims.len() == 3 && victims.iter().all(|&n| n >= OTHER),
        "{victims:?}"
    );
}

/// It was a reuse: the page became active, and its file was taken for one that is used again.
#[test]
fn uses_in_the_window_of_a_no_reuse_page_are_one_burst() {
    let mut pond = pond(20);
    tell_apart(&mut pond);
    insert_no_reuse(&mut pond, OTHER..OTHER + 1);
    (0..3).for_each(|_| pond.use_page(OTHER));
    insert_no_reuse(&mut pond, OTHER + 1..OTHER + 2);
    pond.isolate(1);
    assert_eq!(pond.take_victims(), [OTHER]);
    assert!(pond.lru.detect_no_reuse(NO_REUSE));
}

/// Of other files half of what is missed may be let in at first.
#[test]
fn the_active_list_is_not_filled_with_a_no_reuse_file() {
    let mut pond = Pond::millpond(1000);
    [KEPT, NO_REUSE]
        .into_iter()
        .for_each(|file| pond.lru.opened(file));
    pond.insert_all(0..400);
    tell_apart(&mut pond);
    for n in OTHER..OTHER + 2_000 {
        pond.read(n, true);
    }
    let active = pond.list(List::Active);
    let of_it = active.iter().filter(|&&n| n >= OTHER).count();
    let late = active.iter().filter(|&&n| n >= OTHER + 1_500).count();
    assert!(late * 10 < 500, "{late} of the last 500 pages, {of_it} in all");
}

/// What is in use for weeks is on the active list, and is never evicted or refaulted. It counted as not used again.
#[test]
fn a_use_that_is_seen_on_the_active_list_is_a_reuse_of_the_file() {
    let mut pond = pond(100);
    (0..50).for_each(|n| pond.insert_active(n));
    for _ in 0..200 {
        pond.lru.lruvec.refault_rates.evicted(NO_REUSE, PageCount(10_000));
    }
    assert!(
        !pond.lru.detect_no_reuse(NO_REUSE),
        "others are not known to be used"
    );
    for _ in 0..4 {
        (0..50).for_each(|n| pond.use_page(n));
        pond.isolate(50);
    }
    assert!(pond.lru.detect_no_reuse(NO_REUSE));
}

#[test]
fn what_is_there_of_a_file_when_it_is_found_out_goes_before_older_pages_of_others() {
    let mut pond = pond(100);
    for n in 0..20 {
        pond.insert(n);
        pond.insert(OTHER + n);
    }
    tell_apart(&mut pond);
    let inactive = pond.list(List::Inactive);
    while pond.lru.is_sorting_out_no_reuse() {
        pond.isolate(1);
    }
    let first = pond.take_victims();
    let of_the_file: Vec<u32> = inactive.iter().copied().filter(|&n| n >= OTHER).collect();
    assert_eq!(first, of_the_file);
    // The others are in their order, and leave it as ever.
    assert!(pond.lru.detect_no_reuse(NO_REUSE));
    pond.isolate(3);
    assert_eq!(pond.take_victims(), [0, 1, 2], "once in the life of a file");
}

#[test]
fn after_32_pages_that_went_round_one_goes() {
    let mut pond = pond(100);
    pond.insert_all(0..80);
    tell_apart(&mut pond);
    let scanned = pond.isolate(33);
    assert_eq!((scanned.scanned, scanned.rotated), (33, 32));
    assert_eq!(pond.take_victims(), [32]);
    assert_eq!(pond.isolate(32).rotated, 32, "and then again so many");
}

/// Misses among `often` pages that are read again and again in no order on `memory` pages, and of 2000 pages of another
/// file, `beside` of which are read in a row for each. Without `knows` nothing is remembered of files. The third number is
/// of pages of no-reuse files.
fn misses_beside((memory, often, beside): (u64, u32, u32), knows: bool) -> (u64, u64, u64) {
    let mut pond = Pond::millpond(memory);
    if knows {
        [FileId(1), FileId(2)]
            .into_iter()
            .for_each(|file| pond.lru.opened(file));
    }
    let (mut misses, mut other, mut random) = (0, 0, 1_u32);
    for n in 0..8_000_u32 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        misses += u64::from(pond.read((random >> 8) % often, true));
        for k in 0..beside {
            other += u64::from(pond.read(OTHER + (beside * n + k) % 2_000, true));
        }
    }
    pond.lru.validate();
    (misses, other, pond.lru.statistics().no_reuse_file)
}

#[test]
fn pages_of_a_file_that_does_not_come_back_leave_before_those_of_one_that_does() {
    for load in [(200, 190, 1), (100, 95, 2)] {
        let (before, other_before, none) = misses_beside(load, false);
        let (misses, other, passed) = misses_beside(load, true);
        assert_eq!(none, 0);
        assert!(passed > 5_000, "{load:?}: {passed}");
        assert!(
            misses * 10 < before * 9,
            "{load:?}: {misses} misses, {before} where files are not told apart"
        );
        assert!(
            misses + other < before + other_before,
            "{load:?}: {other}, {other_before}"
        );
    }
}

#[test]
fn telling_files_apart_costs_few_misses_where_it_is_of_no_use() {
    let loads = [
        (1000, 950, 4),
        (1000, 3000, 1),
        (500, 450, 2),
        (500, 700, 2),
        (200, 190, 4),
        (200, 400, 4),
    ];
    for load in loads {
        let [before, after] = [false, true].map(|knows| {
            let (misses, other, _) = misses_beside(load, knows);
            misses + other
        });
        assert!(after * 100 <= before * 103, "{load:?}: {after}, {before} before");
    }
}
