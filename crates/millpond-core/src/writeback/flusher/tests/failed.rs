//! Pages whose write failed: retried alone, after a delay, at a sync; counted separately.

use super::*;

const FILE: FileId = FileId(0);
const NO_SPACE: IoError = IoError(28);

/// A device that refuses the pages `bad`: does everything that may be written now, and says in which writes.
fn serve(f: &mut Flusher, now: Instant, over: bool, bad: impl Fn(u64) -> bool) -> Vec<(u64, u64, bool)> {
    let mut all = Vec::new();
    while let Some(job) = f.job(DeviceNo(0), now, over, false, WRITE_MAX) {
        let count = f.contiguous(&job, 256);
        let io = IoId(all.len() as u32);
        f.issued(&job, io, count);
        let pages = job.first.0..job.first.0 + count;
        let result = if pages.clone().any(&bad) {
            Err(NO_SPACE)
        } else {
            Ok(())
        };
        f.write_done(now, job.file, io, run(job.first, count), result);
        f.validate();
        all.push((pages.start, count, result.is_ok()));
        assert!(all.len() < 10_000, "it does not end");
    }
    all
}

fn sync(f: &mut Flusher, now: Instant, bad: impl Fn(u64) -> bool) -> Result<(), IoError> {
    f.sync(FILE, SyncTicket(1));
    serve(f, now, false, bad);
    let mut ended = Vec::new();
    f.ended(FILE, |e| ended.push(e.result));
    assert_eq!(ended.len(), 1);
    ended[0]
}

/// One page that could not be written kept its 255 neighbors, which are written with it, in memory as well.
#[test]
fn the_neighbours_of_a_bad_page_are_written() {
    for bad in [0, 100, 255] {
        let mut f = flusher();
        f.dirtied(at(0), FILE, PageIndex(0), 256, WRITE_MAX);
        let writes = serve(&mut f, at(1), true, |page| page == bad);
        assert_eq!(
            (f.dirty(), f.failed(), f.in_backoff()),
            (PageCount(1), PageCount(1), PageCount(1))
        );
        assert!(f.failed_pages(FILE).eq([PageIndex(bad)]));
        assert!(
            writes.len() <= 32,
            "a search by halves, not page by page: {writes:?}"
        );
        assert_eq!(f.failing(FILE), Some((PageCount(1), NO_SPACE)));
    }
}

/// A writer that changes a page in transit says so when it has changed it; the write may have failed before. The page
/// was then counted twice, and after it was written once it was still to be written, in a frame that had gone.
#[test]
fn a_change_that_is_told_after_the_write_has_failed_is_counted_once() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(3), 1, WRITE_MAX);
    serve(&mut f, at(1), true, |_| true);
    f.dirtied(at(2), FILE, PageIndex(3), 1, WRITE_MAX);
    f.validate();
    assert_eq!((f.dirty(), f.in_backoff()), (PageCount(1), PageCount(1)));
    assert_eq!(sync(&mut f, at(3), |_| false), Ok(()));
    f.assert_idle();
    f.close(FILE);
}

#[test]
fn a_sync_writes_all_that_can_be_written_and_says_what_can_not() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(0), 300, WRITE_MAX);
    assert_eq!(sync(&mut f, at(1), |page| page % 100 == 7), Err(NO_SPACE));
    assert_eq!(f.dirty(), PageCount(3));
    // Again, at once, and again an error.
    assert_eq!(sync(&mut f, at(2), |page| page == 107), Err(NO_SPACE));
    assert_eq!(f.dirty(), PageCount(1));
    assert_eq!(sync(&mut f, at(3), |_| false), Ok(()));
    assert_eq!((f.dirty(), f.failing(FILE)), (PageCount(0), None));
    f.assert_idle();
}

#[test]
fn one_page_is_tried_after_1_2_4_and_at_last_every_30_seconds() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(0), 600, WRITE_MAX);
    serve(&mut f, at(0), true, |_| true);
    assert_eq!(f.in_backoff(), PageCount(600));
    let mut tries = Vec::new();
    for second in 1..=130 {
        f.tick(at(second * 1_000 - 1));
        assert_eq!(serve(&mut f, at(second * 1_000 - 1), true, |_| true), []);
        f.tick(at(second * 1_000));
        // Below every limit, and the file is young.
        for write in serve(&mut f, at(second * 1_000), false, |_| true) {
            tries.push((second, write));
        }
    }
    let expected = [1, 3, 7, 15, 31, 61, 91, 121];
    let expected: Vec<_> = (0..)
        .zip(expected)
        .map(|(page, second)| (second, (page, 1, false)))
        .collect();
    assert_eq!(tries, expected, "each time another one");
}

#[test]
fn when_there_is_room_again_all_is_written_with_the_first_try_that_succeeds() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(0), 600, WRITE_MAX);
    serve(&mut f, at(0), true, |_| true);
    f.tick(at(1_000));
    let writes = serve(&mut f, at(1_000), false, |_| false);
    assert_eq!(f.dirty(), PageCount(0));
    assert!(writes.len() <= 13, "twice as many together each time: {writes:?}");
    f.assert_idle();
}

#[test]
fn a_caller_that_needs_room_has_one_failed_page_tried_at_once() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(0), 600, WRITE_MAX);
    serve(&mut f, at(0), true, |_| true);
    for page in 0..3 {
        f.retry(at(10), FILE);
        assert_eq!(serve(&mut f, at(10), false, |_| true), [(page, 1, false)]);
    }
    f.retry(at(20), FILE);
    serve(&mut f, at(20), false, |_| false);
    assert_eq!(f.dirty(), PageCount(0));
    f.retry(at(30), FILE);
    f.assert_idle();
    // Who asks may have chosen it before it was closed.
    f.close(FILE);
    f.retry(at(40), FILE);
}

/// Every fresh page next to a bad one was held back with it for as long as the bad one stayed bad.
#[test]
fn pages_dirtied_after_a_failure_are_written_in_turn() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(5), 1, WRITE_MAX);
    serve(&mut f, at(0), true, |_| true);
    f.dirtied(at(1), FILE, PageIndex(0), 5, WRITE_MAX);
    f.dirtied(at(1), FILE, PageIndex(6), 5, WRITE_MAX);
    assert_eq!(
        serve(&mut f, at(2), true, |page| page == 5),
        [(0, 5, true), (6, 5, true)],
        "without the bad page"
    );
    assert_eq!(sync(&mut f, at(3), |page| page == 5), Err(NO_SPACE));
    assert_eq!(f.dirty(), PageCount(1));
}

#[test]
fn a_page_that_is_changed_while_its_write_fails_is_in_backoff_once() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(5), 1, WRITE_MAX);
    let job = f.job(DeviceNo(0), at(0), true, false, WRITE_MAX).unwrap();
    f.issued(&job, IoId(0), 1);
    f.dirtied(at(0), FILE, PageIndex(5), 1, WRITE_MAX);
    f.write_done(at(1), FILE, IoId(0), run(PageIndex(5), 1), Err(NO_SPACE));
    f.validate();
    assert_eq!((f.dirty(), f.in_backoff()), (PageCount(1), PageCount(1)));
    assert_eq!(f.job(DeviceNo(0), at(1), true, false, WRITE_MAX), None);
}

#[test]
fn pages_that_are_given_up_are_no_longer_an_error() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(0), 3, WRITE_MAX);
    serve(&mut f, at(0), true, |_| true);
    for page in 0..3 {
        assert!(f.failing(FILE).is_some());
        f.discarded(FILE, PageIndex(page));
        f.validate();
    }
    assert_eq!(f.failing(FILE), None);
    assert_eq!(sync(&mut f, at(1), |_| true), Ok(()));
}

/// Of a write of many pages that fails it is not known which are bad: they all counted as pages that can't be written, and
/// a file with a single bad page was refused further writes.
#[test]
fn only_pages_that_were_refused_alone_count_as_pages_that_cannot_be_written() {
    let mut f = flusher();
    f.dirtied(at(0), FILE, PageIndex(0), 256, WRITE_MAX);
    let job = f.job(DeviceNo(0), at(0), true, false, WRITE_MAX).unwrap();
    f.issued(&job, IoId(0), 256);
    f.write_done(at(0), FILE, IoId(0), run(PageIndex(0), 256), Err(NO_SPACE));
    f.validate();
    assert_eq!(
        (f.failed(), f.dirty(), f.failing(FILE)),
        (PageCount(0), PageCount(256), None)
    );
    serve(&mut f, at(0), true, |page| page == 9);
    assert_eq!((f.failed(), f.dirty()), (PageCount(1), PageCount(1)));
    // It counts while it is tried again.
    f.sync(FILE, SyncTicket(1));
    let job = f.job(DeviceNo(0), at(0), true, false, WRITE_MAX).unwrap();
    f.issued(&job, IoId(0), 1);
    assert_eq!(
        (f.failed(), f.dirty(), f.in_backoff()),
        (PageCount(1), PageCount(0), PageCount(0))
    );
}

/// Each page in a run of its own, the worst case. A page that had failed alone was in three sets, one inside the other, and
/// those of a request that goes on were not counted.
#[test]
fn a_page_that_lies_alone_costs_26_bytes_and_as_much_in_a_sync_and_while_it_is_tried_again() {
    const PAGES: u64 = 1000;
    let mut f = flusher();
    let empty = f.metadata_bytes();
    let per_page = |f: &Flusher| {
        f.validate();
        (f.metadata_bytes() - empty) as f64 / PAGES as f64
    };
    for n in 0..PAGES {
        f.dirtied(at(0), FILE, PageIndex(64 * n), 1, WRITE_MAX);
    }
    assert_eq!(per_page(&f), 26.0, "dirty");
    serve(&mut f, at(0), true, |_| true);
    assert_eq!((f.in_backoff(), f.failed()), (PageCount(PAGES), PageCount(PAGES)));
    assert_eq!(per_page(&f), 26.0, "failed");
    f.sync(FILE, SyncTicket(1));
    assert_eq!(per_page(&f), 52.0, "failed, in a sync");
    let job = f.job(DeviceNo(0), at(1), false, false, WRITE_MAX).unwrap();
    f.issued(&job, IoId(0), 1);
    f.write_done(at(1), FILE, IoId(0), run(job.first, 1), Ok(()));
    assert_eq!(per_page(&f), 78.0 * 0.999, "tried again, in a sync");
    f.sync_given_up(FILE, SyncTicket(1));
    assert_eq!(per_page(&f), 52.0 * 0.999, "tried again");
    serve(&mut f, at(1), true, |_| false);
    assert_eq!(per_page(&f), 0.0, "written");
}
