//! Dirtiers that pause, writes that end, and syncs that wait for them.

use super::*;

#[test]
fn a_dirtier_pauses_above_the_limit_and_is_woken_when_writes_end() {
    let mut w = World::new(quiet(), 1024);
    let mut page = 0;
    while !w.paused {
        w.write(page);
        page += 1;
        assert!(page < 1024);
    }
    let t = w.manager.derived().dirty;
    assert!(
        page > t.free_run.0 && page <= t.hard.0 + 1,
        "paused after {page} of {t:?}"
    );
    assert!(!w.writes.is_empty(), "background writeback runs");
    let mut woken = false;
    while let Some((io, ..)) = w.writes.pop() {
        w.step(Event::WriteDone { io, result: Ok(()) });
        woken |= w.effects.list.contains(&Effect::Wake(Waiters::Dirtiers));
    }
    assert!(woken);
    w.paused = false;
    w.step(Event::Resume { dirtier: DIRTIER });
    assert!(!w.paused);
}

/// Under a limit of one write call all that was dirty was in the dirtier's own hands when it was told to pause; nothing was
/// written then, nor later until the next tick: 1.3 MB/s on any disk.
#[test]
fn a_dirtier_that_has_all_dirty_pages_in_its_hands_asks_again_when_it_has_let_go() {
    let mut w = World::new(quiet(), 64);
    let mut page = 0;
    while !w.paused {
        // In its hands: pinned.
        w.frames.pinned.extend((0..64).map(FrameNo));
        w.write(page);
        page += 1;
    }
    assert!(w.writes.is_empty());
    let pause = w.effects.list.iter().find_map(|effect| match effect {
        Effect::Pause { at_most, .. } => Some(*at_most),
        _ => None,
    });
    assert_eq!(pause, Some(Nanos::ZERO));
    w.frames.pinned.clear();
    w.step(Event::Resume { dirtier: DIRTIER });
    assert!(!w.writes.is_empty());
}

/// The disk had written all before the dirtier came back, and waited a revolution for more: half of its rate.
#[test]
fn while_a_dirtier_waits_most_of_a_low_limit_is_on_its_way() {
    let mut options = quiet();
    options.dirty.hard = DirtyLimit::Size(Bytes::from_mib(1));
    options.dirty.background = DirtyLimit::Size(Bytes::from_mib(1));
    options.admission = AdmissionOptions::Off;
    let mut w = World::new(options, 1024);
    for page in 0.. {
        w.write(page);
        if w.paused {
            break;
        }
    }
    let lengths: Vec<_> = w.writes.iter().map(|(_, _, _, frames)| frames.len()).collect();
    assert_eq!(lengths, [64, 64, 64], "a quarter of the limit each");
    let (io, ..) = w.writes.remove(0);
    w.step(Event::WriteDone { io, result: Ok(()) });
    assert_eq!(
        w.writes.len(),
        3,
        "one has ended, and another has begun in the same step"
    );
}

/// A dirtier may not come back: it had dirtied its last page, or was told an error. It counted as one that waits for
/// ever, writes were made in its name, and each thread that ended so left an entry behind.
#[test]
fn a_dirtier_that_was_woken_waits_no_more_even_if_it_never_comes_back() {
    let mut w = World::new(quiet(), 1024);
    for page in 0.. {
        w.write(page);
        if w.paused {
            break;
        }
    }
    assert_eq!(w.manager.occupancy(w.now).dirtiers_blocked, 1);
    w.sync(1);
    w.finish_writes(Ok(()));
    assert_eq!(w.manager.unclean(), PageCount(0));
    assert_eq!(w.manager.occupancy(w.now).dirtiers_blocked, 0);
}

#[test]
fn a_failed_write_leaves_the_page_dirty_and_the_sync_reports_it() {
    let mut w = World::new(quiet(), 256);
    w.write(3);
    w.sync(1);
    w.finish_writes(Err(IoError(28)));
    assert_eq!(w.synced, [(1, Err(IoError(28)))]);
    assert_eq!(w.manager.occupancy(w.now).dirty, PageCount(1));
    w.sync(2);
    w.finish_writes(Ok(()));
    assert_eq!(w.synced[1], (2, Ok(())));
    assert_eq!(w.manager.occupancy(w.now).dirty, PageCount(0));
}

#[test]
fn a_page_in_other_hands_holds_up_a_sync_until_a_tick() {
    let mut w = World::new(quiet(), 256);
    w.held_from_a_sync(3);
    assert!(w.effects.next_tick.is_some());
    w.frames.pinned.clear();
    w.step(Event::Tick);
    w.finish_writes(Ok(()));
    assert_eq!(w.synced, [(1, Ok(()))]);
}

/// Each of them was asked for, each millisecond, beside a punch of a large range.
#[test]
fn a_run_of_pages_in_other_hands_is_passed_over_at_once() {
    // Of so many that none is written before the sync asks for it.
    let mut w = World::new(quiet(), 8192);
    (0..500).for_each(|page| w.write(page));
    w.frames.shut = 100..400;
    w.sync(1);
    w.finish_writes(Ok(()));
    assert!(w.frames.asked_of_shut < 10, "{}", w.frames.asked_of_shut);
    assert!(w.synced.is_empty() && w.effects.next_tick.is_some());
    w.frames.shut = 0..0;
    w.step(Event::Tick);
    w.finish_writes(Ok(()));
    assert_eq!(w.synced, [(1, Ok(()))]);
}

/// Without being told the sync would wait for the next write of the file. No test had noticed when it was not told.
#[test]
fn a_sync_ends_when_the_last_pages_that_it_waits_for_are_cut_off() {
    let mut w = World::new(quiet(), 256);
    let frame = w.held_from_a_sync(3);
    w.frames.pinned.clear();
    w.step(Event::Discarded {
        file: FILE,
        pages: &[(PageIndex(3), frame)],
    });
    assert_eq!(w.synced, [(1, Ok(()))]);
}

#[test]
fn contiguous_dirty_pages_leave_in_one_write_whatever_their_order() {
    let mut w = World::new(quiet(), 1024);
    for n in 0..100 {
        w.write(n * 37 % 100);
    }
    w.sync(1);
    let sizes: Vec<_> = w
        .writes
        .iter()
        .map(|(_, _, first, frames)| (first.0, frames.len()))
        .collect();
    assert_eq!(sizes, [(0, 100)]);
}

/// With one write in transit at a time: the first is the background's, and the next is begun while the dirtier waits.
#[test]
fn a_write_that_is_begun_while_a_dirtier_waits_says_so_and_what_it_waited_for_is_counted() {
    let mut options = quiet();
    options.flusher.write_max = Bytes::from_kib(64);
    options.admission = AdmissionOptions::Bytes(crate::admission::bytes::BytesOptions {
        high: Bytes::from_kib(4),
        low: Bytes(0),
    });
    let mut w = World::new(options, 1024);
    for page in 0.. {
        w.write(page);
        if w.paused {
            break;
        }
    }
    let background = w.manager.stats().io_requests[Reason::Background as usize];
    assert!(background > 0);
    let waited = w.manager.stats().admission_waits;
    assert_eq!(
        waited[Reason::Background as usize],
        1,
        "held back until the dirtier paused, and since then for its sake"
    );
    let before = w
        .manager
        .held_back_ns(w.now, |reason| reason == Reason::DirtierBlocked);
    w.now = w.now + Nanos::from_millis(3);
    let (io, ..) = w.writes.remove(0);
    w.step(Event::WriteDone { io, result: Ok(()) });
    let stats = *w.manager.stats();
    assert_eq!(stats.io_requests[Reason::Background as usize], background);
    assert_eq!(stats.io_requests[Reason::DirtierBlocked as usize], 1);
    let waited = w
        .manager
        .held_back_ns(w.now, |reason| reason == Reason::DirtierBlocked)
        - before;
    assert!(waited >= 3_000_000, "{waited}");
    assert!(stats.admission_wait_ns_max[Reason::DirtierBlocked as usize] >= 3_000_000);
    assert!(stats.io_ns_max[Reason::Background as usize] >= 3_000_000);
    // Until here it has waited: what goes out in the step that wakes it goes out for it, and what comes later does not.
    while !w.effects.list.contains(&Effect::Wake(Waiters::Dirtiers)) {
        let (io, ..) = w.writes.remove(0);
        w.step(Event::WriteDone { io, result: Ok(()) });
    }
    assert_eq!(w.manager.occupancy(w.now).dirtiers_blocked, 0);
    let requests = w.manager.stats().io_requests;
    assert_eq!(requests[Reason::Background as usize], background);
    let (io, ..) = w.writes.remove(0);
    w.step(Event::WriteDone { io, result: Ok(()) });
    let after = w.manager.stats().io_requests;
    assert_eq!(
        after[Reason::DirtierBlocked as usize],
        requests[Reason::DirtierBlocked as usize]
    );
    assert_eq!(after[Reason::Background as usize], background + 1);
    let pressure = w.manager.pressure(w.now);
    assert!(pressure.unclean > pressure.background, "{pressure}");
    assert_eq!(pressure.in_transit, Bytes::from_kib(64));
}
