//! Log-blocked pages: when the flusher visits them, which syncs wait for them, when they are written.

use super::*;

const FILE: FileId = FileId(0);

/// Holds everything that is to be written now; how many pages that is.
fn hold_all(f: &mut Flusher, now: Instant, over: bool) -> u64 {
    let mut held = 0;
    while let Some(job) = f.job(DeviceNo(0), now, over, false, WRITE_MAX) {
        f.block_on_log(job.file, job.first);
        f.validate();
        held += 1;
        assert!(held < 10_000, "it does not end");
    }
    held
}

#[test]
fn a_page_that_is_log_blocked_is_met_again_when_it_is_released_and_not_before() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(0), 100, WRITE_MAX);
    assert_eq!(hold_all(&mut f, at(1), true), 100);
    f.tick(at(2));
    assert!(!f.flag(FILE, PageIndex(0)), "reclaim's question changes nothing");
    // Nor does word that it has changed, which may come late.
    f.dirtied(at(3), FILE, PageIndex(7), 1, WRITE_MAX);
    assert_eq!((hold_all(&mut f, at(3), true), f.dirty()), (0, PageCount(100)));
    f.released(FILE, &[PageIndex(7), PageIndex(8), PageIndex(200)]);
    assert_eq!(drain(&mut f, at(4), true), [(0, Reason::Background, 7, 2)]);
    f.discarded(FILE, PageIndex(50));
    f.validate();
    assert_eq!(f.dirty(), PageCount(97));
}

#[test]
fn a_sync_waits_for_pages_that_are_held_and_needs_no_tick_for_them() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(0), 2, WRITE_MAX);
    hold_all(&mut f, at(1), true);
    f.dirtied(at(1), FILE, PageIndex(2), 2, WRITE_MAX);
    f.sync(FILE, SyncTicket(1));
    assert_eq!(hold_all(&mut f, at(2), false), 2, "those that were not held");
    assert!(!f.pass_needs_tick());
    let mut ended = Vec::new();
    f.ended(FILE, |e| ended.push(e.ticket.0));
    assert_eq!(ended, []);
    f.discarded(FILE, PageIndex(3));
    f.released(FILE, &[PageIndex(0), PageIndex(1), PageIndex(2)]);
    assert_eq!(drain(&mut f, at(3), false), [(0, Reason::Sync, 0, 3)]);
    f.write_done(at(4), FILE, IoId(0), run(PageIndex(0), 3), Ok(()));
    f.ended(FILE, |e| ended.push(e.ticket.0));
    assert_eq!(ended, [1]);
    assert_eq!(f.job(DeviceNo(0), at(50_000), false, false, WRITE_MAX), None);
    f.assert_idle();
}

#[test]
fn a_page_that_cannot_be_written_may_be_held_as_well() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(3), 1, WRITE_MAX);
    let job = f.job(DeviceNo(0), at(0), true, false, WRITE_MAX).unwrap();
    f.issued(&job, IoId(0), 1);
    f.write_done(at(0), FILE, IoId(0), run(PageIndex(3), 1), Err(IoError(5)));
    f.sync(FILE, SyncTicket(1));
    assert_eq!(hold_all(&mut f, at(1), false), 1);
    assert_eq!((f.in_backoff(), f.failed()), (PageCount(0), PageCount(1)));
    f.tick(at(40_000));
    assert_eq!(f.job(DeviceNo(0), at(40_000), true, false, WRITE_MAX), None);
    f.released(FILE, &[PageIndex(3)]);
    assert_eq!(drain(&mut f, at(40_001), false).len(), 1);
    f.write_done(at(40_002), FILE, IoId(0), run(PageIndex(3), 1), Ok(()));
    f.ended(FILE, |_| {});
    assert_eq!(f.job(DeviceNo(0), at(50_000), false, false, WRITE_MAX), None);
    f.assert_idle();
}

/// It was as old again before it left: the age of its file began anew when it had been passed over.
#[test]
fn a_page_of_30_seconds_that_was_held_leaves_as_soon_as_it_may() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(5), 1, WRITE_MAX);
    assert_eq!(hold_all(&mut f, at(30_000), false), 1);
    f.dirtied(at(30_400), FILE, PageIndex(6), 1, WRITE_MAX);
    f.released(FILE, &[PageIndex(5)]);
    let job = f
        .job(DeviceNo(0), at(30_500), false, false, WRITE_MAX)
        .expect("it is due");
    assert_eq!(job.first, PageIndex(5));
    // It is being changed at this moment.
    f.passed_over(&job, 1);
    assert_eq!(f.job(DeviceNo(0), at(30_500), false, false, WRITE_MAX), None);
    f.tick(at(30_600));
    let left = drain(&mut f, at(30_600), false);
    assert_eq!(left, [(0, Reason::Background, 5, 1)], "the other is young");
    assert_eq!(f.dirty(), PageCount(1));
}

/// Its pages were looked for as long as they were dirty, though no caller waited for them; and the next caller had to wait
/// for those before its own could begin.
#[test]
fn a_request_that_is_given_up_leaves_nothing_to_do() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(0), 2, WRITE_MAX);
    f.sync(FILE, SyncTicket(1));
    f.sync(FILE, SyncTicket(2));
    f.block_on_log(FILE, PageIndex(0));
    // In other hands.
    while let Some(job) = f.job(DeviceNo(0), at(1), false, false, WRITE_MAX) {
        f.passed_over(&job, 1);
    }
    assert!(f.pass_needs_tick());
    f.sync_given_up(FILE, SyncTicket(1));
    f.validate();
    let mut ended = Vec::new();
    f.ended(FILE, |e| ended.push(e.ticket.0));
    assert_eq!(
        f.job(DeviceNo(0), at(2), false, false, WRITE_MAX)
            .map(|job| job.first),
        Some(PageIndex(1))
    );
    f.sync_given_up(FILE, SyncTicket(2));
    f.validate();
    assert_eq!(
        (
            f.job(DeviceNo(0), at(2), false, false, WRITE_MAX),
            f.pass_needs_tick()
        ),
        (None, false)
    );
    f.ended(FILE, |e| ended.push(e.ticket.0));
    assert_eq!(ended, [], "no caller waits for an answer");
    f.discarded(FILE, PageIndex(0));
    f.discarded(FILE, PageIndex(1));
    f.assert_idle();
}
