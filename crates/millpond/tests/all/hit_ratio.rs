//! The definition of a hit, and the files for which memory is too small.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use millpond::contents::{FileContents, More, Order};
use millpond::{File, OpenOptions, PageCache};
use std::path::Path;

const PAGE: usize = 4096;

/// A file of this many pages that the cache has not read yet.
fn file(cache: &PageCache, path: &Path, pages: usize) -> File {
    std::fs::write(path, vec![1; pages * PAGE]).unwrap();
    cache.open(path, OpenOptions::new().write(true)).unwrap()
}

fn counts(cache: &PageCache) -> (u64, u64) {
    let stats = cache.stats();
    (stats.page_requests, stats.counters.page_misses)
}

#[test]
fn each_page_whose_content_a_call_needs_is_asked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = PageCache::builder().memory(8 << 20).build().unwrap();
    let file = file(&cache, &folder.path().join("file"), 8);
    assert_eq!(cache.stats().hit_ratio(), None);
    let mut seen = (0, 0);
    let mut grown = |what: &str, requests: u64, misses: u64| {
        let now = counts(&cache);
        assert_eq!((now.0 - seen.0, now.1 - seen.1), (requests, misses), "{what}");
        seen = now;
    };
    file.read_at(&mut vec![0; 8 * PAGE], 0).unwrap();
    grown("a read of what is not there", 8, 8);
    assert_eq!(cache.stats().hit_ratio(), Some(0.0));
    file.read_at(&mut vec![0; 3 * PAGE], 100).unwrap();
    grown("a read of parts of four pages", 4, 0);
    drop(file.page(2).unwrap());
    drop(file.try_page(2).unwrap().unwrap());
    drop(file.try_page_owned(2).unwrap().unwrap());
    grown("pages lent", 3, 0);
    drop(file.page_mut(2).unwrap());
    grown("a page lent for changing", 1, 0);
    file.write_at(&[2; 10], 0).unwrap();
    grown("a write of a part of a page", 1, 0);
    file.write_at(&[2; 2 * PAGE], 0).unwrap();
    grown("pages that are overwritten whole", 0, 0);
    file.write_at(&[2; 2 * PAGE], 100 * PAGE as u64).unwrap();
    grown("new pages", 0, 0);
    let ratio = cache.stats().hit_ratio().unwrap();
    assert!((ratio - 9.0 / 17.0).abs() < 1e-9, "{ratio}");
    let files = cache.contents(1, Order::Resident).files;
    assert_eq!((files[0].requests, files[0].hit_ratio()), (17, Some(ratio)));
}

#[test]
fn pages_read_ahead_of_a_scan_are_no_hits() {
    let folder = tempfile::tempdir().unwrap();
    let cache = PageCache::builder().memory(8 << 20).build().unwrap();
    let file = file(&cache, &folder.path().join("file"), 512);
    let mut page = [0; PAGE];
    for n in 0..512 {
        file.read_at(&mut page, n * PAGE as u64).unwrap();
    }
    assert!(cache.stats().counters.readahead_pages > 400);
    assert_eq!(
        (counts(&cache), cache.stats().hit_ratio()),
        ((512, 512), Some(0.0))
    );
}

#[test]
fn threads_that_have_ended_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let cache = PageCache::builder().memory(8 << 20).build().unwrap();
    let file = file(&cache, &folder.path().join("file"), 8);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|n| drop(file.page(n % 8).unwrap())));
        }
    });
    // One request in 256 is counted of a file that has many.
    let of_file = cache.contents(1, Order::Resident).files[0].requests;
    assert!(of_file.abs_diff(40_000) < 4_000, "{of_file}");
    assert_eq!(counts(&cache).0, of_file);
}

/// The question that `contents`, `top` and `stat --files` answer.
#[test]
fn a_file_that_loops_beyond_memory_is_told_from_a_small_one_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let cache = PageCache::builder().memory(4 << 20).build().unwrap();
    let looped = file(&cache, &folder.path().join("looped"), 1400);
    let hot = file(&cache, &folder.path().join("hot"), 50);
    for n in 0..10 * 1400 {
        drop(looped.page(n % 1400).unwrap());
        drop(hot.page(n * 7 % 50).unwrap());
    }
    let files = cache.contents(2, Order::Refaults).files;
    let of = |file: &File| -> &FileContents {
        let is_it = |contents: &&FileContents| contents.path.as_deref() == Some(file.path());
        files.iter().find(is_it).unwrap()
    };
    let (looped, hot) = (of(&looped), of(&hot));
    assert!(hot.hit_ratio().unwrap() > 0.97, "{hot:?}");
    assert!(looped.hit_ratio().unwrap() < 0.8, "{looped:?}");
    assert!(
        looped.reuse.refaults > 20 * hot.reuse.refaults,
        "{looped:?} {hot:?}"
    );
    // Of the 1450 pages about 890 are in memory.
    let More::Pages(more) = looped.reuse.more else {
        panic!("{looped:?}");
    };
    assert!((100..=800).contains(&more.0), "{looped:?}");
    assert!(
        looped.reuse.refault_age() > looped.reuse.eviction_age,
        "{looped:?}"
    );
}
