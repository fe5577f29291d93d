//! Reclaim: its victims, the callers that wait for it, and a pool that changes size.

use super::*;
use crate::lru::{LinuxOptions, List, Replacement};
use crate::page::PageKind;
use crate::readahead::Pattern;
use crate::reclaim::trace::{Caller, Outcome};

#[test]
fn reclaim_takes_clean_pages_and_never_writes() {
    let mut w = World::new(quiet(), 256);
    for page in 0..2_000 {
        w.read(page);
    }
    assert!(w.manager.stats().pgsteal() > 1_000);
    assert!(w.writes.is_empty());
    assert!(w.manager.occupancy(w.now).free >= w.manager.derived().watermarks.low);
}

#[test]
fn dirty_pages_at_the_cold_end_are_tagged_and_flagged_when_nothing_else_is_left() {
    let mut options = quiet();
    options.dirty.background = DirtyLimit::Share(Ratio::percent(90));
    options.dirty.hard = DirtyLimit::Share(Ratio::percent(93));
    let mut w = World::new(options, 256);
    for page in 0..200 {
        w.write(page);
    }
    assert!(w.writes.is_empty(), "below the background limit");
    // What is clean is in use.
    for page in 1_000..1_060 {
        w.read(page);
        w.frames
            .pinned
            .extend(w.frames.lookup(PageKey::new(FILE, PageIndex(page))));
    }
    assert!(w.manager.stats().nr_vmscan_immediate_reclaim > 0);
    assert!(w.manager.stats().flusher_flagged_pages > 0);
    assert!(!w.writes.is_empty(), "the flusher was told");
    assert!(w.manager.stats().io_requests[Reason::Reclaim as usize] > 0);
    assert_eq!(w.manager.stats().nr_vmscan_write, 0);
    // Every outcome is in the trace, of both scanners.
    let traced = |outcome| {
        let callers = [Caller::Kswapd, Caller::Direct];
        let of = |caller| w.manager.trace().count(caller, PageKind::File, outcome);
        callers.into_iter().map(of).sum::<u64>()
    };
    let tagged = traced(Outcome::Tagged) + traced(Outcome::KeptWriting);
    assert_eq!(tagged, w.manager.stats().nr_vmscan_immediate_reclaim);
    assert_eq!(traced(Outcome::Freed), w.manager.stats().pgsteal());
    assert_eq!(traced(Outcome::WriteStarted) + traced(Outcome::WriteRefused), 0);
}

/// The inactive list of a writer of a large file was shorter than its limit on dirty pages, so it was all dirty while the
/// active list was clean. Reclaim was in trouble all the time, and 17 % of the writes' rate went into pages written out of
/// turn.
#[test]
fn while_the_pool_has_clean_pages_a_dirty_inactive_list_causes_no_writes() {
    let mut options = quiet();
    options.dirty.background = DirtyLimit::Share(Ratio::percent(25));
    options.dirty.hard = DirtyLimit::Share(Ratio::percent(50));
    let mut w = World::new(options, 512);
    for page in 0..3_000 {
        w.write(page);
        // A writer that is to wait waits.
        if core::mem::take(&mut w.paused) {
            w.finish_writes(Ok(()));
        }
    }
    let stats = w.manager.stats();
    assert!(stats.pgsteal() > 500, "{} pages freed", stats.pgsteal());
    assert_eq!(stats.flusher_flagged_pages, 0);
    assert_eq!(stats.io_requests[Reason::Reclaim as usize], 0);
}

#[test]
fn neighbours_come_with_a_page_only_into_frames_that_are_free_and_not_of_a_file_read_at_random() {
    let mut options = quiet();
    options.readahead = Options::default().readahead;
    let mut w = World::new(options, 256);
    w.read(1);
    assert!(w.manager.may_read_around(FILE, PageCount(32)));
    for page in (4..3_000).step_by(3) {
        w.read(page);
    }
    let (free, marks) = (w.manager.occupancy(w.now).free, w.manager.derived().watermarks);
    let spare = free.saturating_sub(marks.high);
    assert!(!w.manager.may_read_around(FILE, spare + PageCount(1)));
    let pattern = Pattern::Random;
    w.step(Event::Advised { file: FILE, pattern });
    assert!(!w.manager.may_read_around(FILE, PageCount(0)));
}

/// Else what was never read of a file in use is read page by page for as long as memory is full.
#[test]
fn neighbours_come_down_to_the_low_mark_while_pages_of_a_file_that_does_not_come_back_are_sorted_out() {
    const SPOOL: FileId = FileId(1);
    let mut options = quiet();
    options.readahead = Options::default().readahead;
    let mut w = World::new(options, 1024);
    let pages = PageCount(100_000);
    w.step(Event::Opened {
        file: SPOOL,
        pages,
        device: DeviceNo(0),
    });
    // Every third page, so that nothing is read ahead.
    let kept = |n: u64| 3 * n;
    (0..100).for_each(|n| w.read(kept(n)));
    let may = |w: &World| {
        let (free, marks) = (w.manager.occupancy(w.now).free, w.manager.derived().watermarks);
        assert!(free > marks.low && marks.low < marks.high, "{free:?}, {marks:?}");
        [marks.low, marks.high].map(|mark| {
            let spare = free.saturating_sub(mark);
            let fits = w.manager.may_read_around(FILE, spare);
            fits && !w.manager.may_read_around(FILE, spare + PageCount(1))
        })
    };
    assert_eq!(may(&w), [false, true]);
    let mut page = 0;
    while !w.manager.lru.is_sorting_out_no_reuse() {
        page += 3;
        assert!(page < 30_000, "the spool was never found to pass");
        for n in 0..100 {
            if let Some(frame) = w.frames.lookup(PageKey::new(FILE, PageIndex(kept(n)))) {
                w.frames.uses.insert(frame, 1);
            }
        }
        w.step(Event::Fault {
            file: SPOOL,
            first: PageIndex(page),
            count: 1,
            intent: Intent::Read,
        });
        w.finish_reads();
    }
    assert_eq!(may(&w), [true, false]);
}

#[test]
fn with_nothing_but_dirty_pages_an_allocation_waits_for_a_write_and_then_succeeds() {
    let mut options = quiet();
    options.dirty.hard = DirtyLimit::Share(Ratio::percent(100));
    options.dirty.background = DirtyLimit::Share(Ratio::percent(99));
    let mut w = World::new(options, 64);
    let mut page = 0;
    while w.waits.is_empty() {
        w.fault(page, 1, Intent::Overwrite);
        let Some(frame) = w.frames.lookup(PageKey::new(FILE, PageIndex(page))) else {
            break;
        };
        w.frames.dirty.insert(frame);
        w.step(Event::Dirtied {
            file: FILE,
            first: PageIndex(page),
            frames: &[frame],
            dirtier: DIRTIER,
        });
        page += 1;
        assert!(page < 100);
    }
    assert_eq!(w.waits, [WaitReason::Writeback]);
    assert_eq!(
        w.manager.occupancy(w.now).free,
        w.manager.derived().reserve,
        "the reserve was not touched"
    );
    assert!(!w.writes.is_empty(), "what is in the way is being written");
    let requests = w.manager.stats().io_requests;
    assert!(requests[Reason::Reclaim as usize] > 0, "for callers that wait");
    w.finish_writes(Ok(()));
    w.fault(page, 1, Intent::Overwrite);
    assert_eq!(w.waits.len(), 1, "no second wait");
}

#[test]
fn a_reclaimer_that_comes_late_wakes_earlier_the_next_time_and_its_time_is_counted() {
    let mut w = World::new(quiet(), 1024);
    let marks = w.manager.derived().watermarks;
    let high = |w: &mut World| {
        w.reclaimer_is_away = false;
        w.step(Event::Reclaim);
        w.manager.occupancy(w.now).free.0
    };
    let mut page = 0;
    let mut read_until = |w: &mut World, free: u64| {
        w.reclaimer_is_away = true;
        while w.manager.occupancy(w.now).free.0 > free {
            w.read(page);
            page += 1;
        }
    };
    // Half of the way down from where it is woken is soon enough.
    read_until(&mut w, (marks.min.0 + marks.low.0).div_ceil(2));
    assert_eq!(w.manager.stats().kswapd_wakeups, 1);
    let woken_at = w.manager.reclaimer.woken_at;
    let soon = high(&mut w);
    assert!(
        (marks.high.0..marks.high.0 + 32).contains(&soon),
        "{soon} free of {marks:?}"
    );
    assert_eq!(w.manager.stats().kswapd_awake_ns, w.now.since(woken_at).0);
    read_until(&mut w, marks.min.0 + 1);
    assert_eq!(w.manager.stats().allocstall, 0);
    assert_eq!(w.manager.stats().kswapd_wakeups, 2);
    let boosted = high(&mut w);
    assert!(
        boosted >= marks.high.0 + 4 * (marks.high.0 - marks.low.0),
        "{boosted} free of {marks:?}"
    );
    // Far above the mark at which it was woken before.
    read_until(&mut w, marks.low.0 + 2 * (marks.high.0 - marks.low.0));
    assert_eq!(w.manager.stats().kswapd_wakeups, 3);
}

#[test]
fn memory_shrinks_and_grows_while_pages_are_in_it() {
    let mut w = World::new(quiet(), 1024);
    for page in 0..1_024 {
        w.read(page);
    }
    w.step(Event::MemoryChanged {
        frames: PageCount(256),
    });
    let held = w.frames.map.len() as u64;
    assert!(held <= 256, "{held} pages are left");
    w.step(Event::MemoryChanged {
        frames: PageCount(2048),
    });
    for page in 2_000..4_000 {
        w.read(page);
    }
    assert!(w.frames.map.len() > 1_900);
}

/// A caller that held the pages of one list starved all others: the scan went round that list and never came to the clean pages
/// of the other. 72 guards of 165 frames were enough for allocations to fail after 30 s. Found by the worlds under memory pressure.
#[test]
fn pages_in_use_do_not_hide_clean_ones_from_reclaim() {
    for replacement in [quiet().replacement, Replacement::Linux(LinuxOptions::default())] {
        let mut w = World::new(
            Options {
                replacement,
                ..quiet()
            },
            256,
        );
        // A hot half that fills the active list, and others that pass by.
        for round in 0..40 {
            for page in 0..100 {
                w.read(page);
                let frame = w.frame(page);
                w.frames.uses.insert(frame, 3);
            }
            (0..20).for_each(|n| w.read(1_000 + round * 20 + n));
        }
        let lru = &w.manager.lru;
        let inactive = lru
            .iter_from_cold(List::Inactive)
            .chain(lru.iter_from_cold(List::Window));
        w.frames.pinned = inactive.collect();
        let active = lru.active().0;
        assert!(active > 50, "{active} active pages with {replacement:?}");
        for page in 0..active - 8 {
            w.read(5_000 + page);
            assert_eq!(w.waits, [], "at page {page} of {active} with {replacement:?}");
            let frame = w.frames.lookup(PageKey::new(FILE, PageIndex(5_000 + page)));
            w.frames.pinned.extend(frame);
        }
    }
}

/// The reclaimer had gone to sleep when all pages were held, and when they were let go it was not woken: the cache stayed
/// over its budget until a caller asked for memory.
#[test]
fn a_pool_gets_its_new_size_though_nobody_does_anything_any_more() {
    let mut w = World::new(quiet(), 256);
    (0..200).for_each(|page| w.read(page));
    w.frames.pinned = w.frames.map.values().copied().collect();
    w.step(Event::MemoryChanged {
        frames: PageCount(64),
    });
    let pool = |w: &World| 256 - w.manager.pool.free.withdrawn().0;
    assert!(pool(&w) >= 200, "all pages are held");
    w.frames.pinned.clear();
    for _ in 0..1_000 {
        let Some(at) = w.effects.next_tick else { break };
        w.now = w.now.max(at);
        w.step(Event::Tick);
    }
    assert_eq!(pool(&w), 64);
}
