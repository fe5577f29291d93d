//! Finds the file for which memory is too small.

use super::*;
use crate::page::PageKind;
use crate::reuse::{More, ReuseFigures};

const FRAMES: u64 = 512;
const HOT: FileId = FileId(1);
const HOT_PAGES: u64 = 40;
/// From one access to the next.
const TURN: Nanos = Nanos::from_millis(1);

/// A file of so many pages that is read from start to end again and again, and beside it a small one at random.
fn loop_and_hot(loop_pages: u64, laps: u64) -> (World, [ReuseFigures; 2]) {
    let mut w = World::new(quiet(), FRAMES);
    for (file, pages) in [(FILE, loop_pages), (HOT, HOT_PAGES)] {
        let pages = PageCount(pages);
        w.step(match file {
            FILE => Event::Resized { file, pages },
            _ => Event::Opened {
                file,
                pages,
                device: DeviceNo(0),
            },
        });
    }
    for n in 0..laps * loop_pages {
        access(&mut w, FILE, n % loop_pages);
        access(&mut w, HOT, n * 7 % HOT_PAGES);
    }
    let figures = [FILE, HOT].map(|file| w.manager.reuse_of(file));
    (w, figures)
}

fn access(w: &mut World, file: FileId, page: u64) {
    w.now = w.now + TURN;
    let first = PageIndex(page);
    match w.frames.lookup(PageKey::new(file, first)) {
        Some(frame) => {
            let uses = w.frames.uses.entry(frame).or_default();
            *uses = (*uses + 1).min(3);
        }
        None => {
            w.step(Event::Fault {
                file,
                first,
                count: 1,
                intent: Intent::Read,
            });
            w.finish_reads();
        }
    }
}

#[test]
fn a_loop_beyond_memory_and_a_hot_file_are_told_apart() {
    let (w, [looped, hot]) = loop_and_hot(700, 12);
    assert!(hot.misses < 2 * HOT_PAGES && hot.refaults < HOT_PAGES, "{hot:?}");
    assert_eq!(hot.refaults_forgotten, 0);
    assert!(
        looped.refaults * 4 > looped.misses * 3,
        "most of it comes back: {looped:?}"
    );
    assert!(
        looped.refaults_kept_by_double * 4 > looped.refaults * 3,
        "{looped:?}"
    );
    // A lap is 700 pages, and memory of more than 200 pages more would hold both files.
    let rest = PageCount(700 + HOT_PAGES - FRAMES + 30);
    let more = looped.of_what_is_missing(rest, PageCount(FRAMES)).more;
    assert_eq!(more, More::Pages(rest));
    let all = w.manager.reuse_of_kind(PageKind::File);
    assert_eq!(all.misses, looped.misses + hot.misses);
    assert_eq!(all.refaults, looped.refaults + hot.refaults);
    assert_eq!(all.misses, w.manager.stats().page_misses);
    assert_eq!(
        w.manager.reuse_of_kind(PageKind::Anonymous),
        ReuseFigures::default()
    );
}

#[test]
fn a_page_of_a_loop_is_evicted_younger_than_it_comes_back() {
    let (_, [looped, _]) = loop_and_hot(1000, 6);
    let ms = |span: Option<Nanos>| span.unwrap_or_default().0 / 1_000_000;
    let (evicted, refault) = (ms(looped.eviction_age), ms(looped.refault_age()));
    // A lap takes 2000 ms and a few us of each miss, and a page is away for a lap at most.
    assert!(evicted * 2 < refault && refault < 2300, "{looped:?}");
}

#[test]
fn with_enough_memory_nothing_is_evicted_and_no_more_is_asked_for() {
    let (_, [looped, hot]) = loop_and_hot(400, 12);
    assert_eq!((looped.misses, looped.evicted, looped.more), (400, 0, More::None));
    assert_eq!((hot.misses, hot.eviction_age, hot.away), (HOT_PAGES, None, None));
}

#[test]
fn a_loop_that_memory_of_twice_the_size_would_not_hold_is_noticed_by_what_is_read_twice() {
    let (_, [looped, hot]) = loop_and_hot(4000, 3);
    assert!(looped.refaults_forgotten > 4000, "{looped:?}");
    assert!(looped.refaults < looped.misses / 10, "{looped:?}");
    assert_eq!(hot.refaults_forgotten, 0);
}

#[test]
fn a_file_that_is_read_once_is_evicted_and_asks_for_nothing() {
    let (_, [once, _]) = loop_and_hot(4000, 1);
    assert!(once.evicted > 3000);
    assert_eq!(
        (once.refaults, once.refaults_forgotten, once.more),
        (0, 0, More::None)
    );
}
