//! Mapped files: what is touched is what the file has, whatever is in memory and whatever other threads do.
//!
//! Here and not beside the others, because to touch a mapping needs what is allowed in `sys` only.
//!
//! | file | what |
//! |---|---|
//! | `mod` | what is read, how much is in memory, and how a mapping begins and ends |
//! | `coherent` | words of many threads: mappings beside reads, writes, guards, cuts, eviction |
//! | `dropped` | pages that are in swap, or that the program has had the kernel drop |
//! | `pinned` | pages that a device has, a pipe, or the program's lock |
//! | `signals` | pages that can't be had |
//! | `written` | what is stored in mappings |
//! | `words` | the same by many threads and devices, beside all that takes pages out |
//! | `speed` | what a touch costs, for a quiet machine |

mod coherent;
mod dropped;
mod pinned;
mod signals;
mod sparse;
mod speed;
mod words;
mod written;

use crate::sys::mapping::is_resident;
use crate::{Advice, Builder, Error, Faults, File, MapAdvice, MapOptions, Mapping, OpenOptions, PageCache};
use millpond_core::frame::FrameTable;
use millpond_core::units::{PageIndex, PageKey};
use std::path::Path;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// A cache whose files can be mapped; `None`, and said why, where there can be none.
fn cache_with(memory: u64, with: impl FnOnce(Builder) -> Builder) -> Option<PageCache> {
    match with(PageCache::builder().memory(memory).mappings(true)).build() {
        Ok(cache) => Some(cache),
        Err(why @ Error::Setup { .. }) => {
            println!("skipped: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn cache(memory: u64) -> Option<PageCache> {
    cache_with(memory, |builder| builder)
}

fn byte(page: usize) -> u8 {
    (page * 7 + page / 256 + 1) as u8
}

/// A file of so many pages and a few bytes, each page full of its byte.
fn file_of(path: &Path, pages: usize) {
    let mut bytes: Vec<u8> = (0..pages * PAGE).map(|at| byte(at / PAGE)).collect();
    bytes.extend([byte(pages); 100]);
    std::fs::write(path, bytes).unwrap();
}

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().write(true)).unwrap()
}

/// The byte at this place, by a touch.
fn touch(mapping: &Mapping, at: usize) -> u8 {
    assert!(at < mapping.len());
    // SAFETY: inside the mapping; a volatile read of a byte is good whatever other threads do.
    unsafe { mapping.as_ptr().wrapping_add(at).read_volatile() }
}

/// Whether a mapping has the page and its frame does not.
fn is_alone(file: &File, page: u64) -> bool {
    let engine = &file.cache.engine;
    let mut core = engine.core();
    let key = PageKey::new(file.inner.id, PageIndex(page));
    let frame = engine.table.locked(&mut core.token).lookup(key);
    frame.is_some_and(|frame| engine.table.word(frame).is_mapped_alone())
}

/// What a call that does not wait gives in the end: the cache's own threads may be at the page when it is first asked.
fn once_free<T>(mut tried: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(had) = tried() {
            return had;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it is never free");
        std::thread::yield_now();
    }
}

/// Whether system calls on mapped pages that are absent, or that they write and are protected, fail.
fn misses_system_calls(cache: &PageCache, faults: Faults) -> bool {
    faults == Faults::InThread || cache.notices().contains(&crate::Notice::NoKernelFaults)
}

const BOTH: [Faults; 2] = [Faults::Handlers, Faults::InThread];

#[test]
fn a_file_eight_times_the_budget_is_read_as_it_is_in_any_order_by_several_threads() {
    let folder = folder();
    let path = folder.path().join("data");
    const PAGES: usize = 4096;
    file_of(&path, PAGES);
    let Some(cache) = cache(2 << 20) else { return };
    let file = open(&cache, &path);
    for faults in BOTH {
        let mapping = file.map(.., &MapOptions::new().faults(faults)).unwrap();
        assert_eq!(mapping.len(), PAGES * PAGE + 100);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let mapping = &mapping;
                scope.spawn(move || {
                    for n in 0..2 * PAGES {
                        let page = match thread {
                            0 => n % (PAGES + 1),
                            1 => PAGES - n % (PAGES + 1),
                            _ => (n * 2_654_435_761 + thread * 97) % (PAGES + 1),
                        };
                        let at = page * PAGE + (n * 31) % 100;
                        assert_eq!(touch(mapping, at), byte(page), "page {page}, {faults:?}");
                    }
                });
            }
        });
        // SAFETY: no thread changes the file meanwhile.
        let all = unsafe { mapping.as_slice() };
        assert!(all.iter().enumerate().all(|(at, &is)| is == byte(at / PAGE)));
        // Behind the end of the file in its last page: zeros.
        let last = file.map(.., &MapOptions::new().faults(faults)).unwrap();
        // SAFETY: the page is mapped as a whole.
        let behind = unsafe { last.as_ptr().wrapping_add(last.len()).read_volatile() };
        assert_eq!(behind, 0);
    }
}

#[test]
fn a_touch_of_a_record_reads_all_of_it() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 256);
    for faults in BOTH {
        let Some(cache) = cache(8 << 20) else { return };
        let file = open(&cache, &path);
        let mapping = file.map(.., &MapOptions::new().faults(faults)).unwrap();
        let there = || (0..256).filter(|page| mapping.is_resident(page * PAGE));
        let advice = MapAdvice::As(Advice::Records(16 * PAGE as u64));
        mapping.advise(.., advice).unwrap();
        assert_eq!(touch(&mapping, 37 * PAGE), byte(37));
        assert_eq!(
            there().collect::<Vec<_>>(),
            (32..48).collect::<Vec<_>>(),
            "{faults:?}"
        );
        mapping.advise(.., MapAdvice::As(Advice::Random)).unwrap();
        assert_eq!(touch(&mapping, 100 * PAGE), byte(100));
        assert_eq!(there().count(), 17, "{faults:?}");
    }
}

#[test]
fn all_mappings_of_a_file_show_it_at_the_same_addresses_and_begin_at_any_byte() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    let Some(cache) = cache(4 << 20) else { return };
    let file = open(&cache, &path);
    let whole = file.map(.., &MapOptions::new()).unwrap();
    let other = open(&cache, &path);
    let part = other.map(5000..=9000, &MapOptions::new()).unwrap();
    assert_eq!(part.as_ptr(), whole.as_ptr().wrapping_add(5000));
    assert_eq!((part.len(), touch(&part, 4000)), (4001, byte(2)));
    assert_eq!(part.try_read(3000..3001, |bytes| bytes[0]).unwrap(), byte(1));
    let mut bytes = [0; 10];
    assert_eq!(part.copy_to(&mut bytes, 3997).unwrap(), 4);
    // The addresses outlive the first mapping, the file's handles, and the cache's.
    drop((whole, file, other, cache));
    assert_eq!(touch(&part, 0), byte(1));
    assert_eq!(part.file().path(), path);
}

#[test]
fn impossible_mappings_are_refused_with_the_reason() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    let plain = PageCache::builder().memory(2 << 20).build().unwrap();
    let error = open(&plain, &path).map(.., &MapOptions::new()).unwrap_err();
    assert!(error.to_string().contains("Builder::mappings"), "{error}");
    drop(plain);
    let Some(cache) = cache(4 << 20) else { return };
    assert!(matches!(cache.region(4096), Err(Error::NoSwap)));
    let file = open(&cache, &path);
    let options = MapOptions::new().room(1 << 20);
    let out = |range: std::ops::Range<u64>| {
        let error = file.map(range, &options).unwrap_err();
        assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    };
    out(5..5);
    let first = file.map(.., &options).unwrap();
    out(0..(4 << 20));
    let other = file
        .map(.., &options.clone().faults(Faults::InThread))
        .unwrap_err();
    assert!(other.to_string().contains("already mapped"), "{other}");
    assert!(first.try_read(0..usize::MAX, |_| ()).is_err());
    assert!(first.prefetch(..first.len() + 1).is_err());
    drop(first);
    drop(file.map(0..(4 << 20), &options).unwrap());
    let page_size = PageCache::builder()
        .memory(4 << 20)
        .page_size(8192)
        .mappings(true);
    let error = page_size.build().unwrap_err();
    assert!(error.to_string().contains("page_size can't be 8192"), "{error}");
}

#[test]
fn changes_by_a_call_are_touched_at_once() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 30);
    let Some(cache) = cache(2 << 20) else { return };
    let file = open(&cache, &path);
    let mapping = file.map(.., &MapOptions::new()).unwrap();
    let all = |page: usize| [0, 1, PAGE / 2, PAGE - 1].map(|at| touch(&mapping, page * PAGE + at));
    for page in 0..30 {
        assert_eq!(all(page), [byte(page); 4]);
        // Touched twice, so that some are in the mapping alone.
        mapping
            .advise(page * PAGE..(page + 1) * PAGE, MapAdvice::DontNeed)
            .unwrap();
        assert_eq!(all(page), [byte(page); 4]);
    }
    file.write_at(&[200; 3 * PAGE], PAGE as u64).unwrap();
    assert_eq!([1, 2, 3].map(all), [[200; 4]; 3]);
    file.page_mut(5).unwrap().fill(201);
    once_free(|| file.try_page_mut(6).unwrap()).fill(202);
    assert_eq!([5, 6].map(all), [[201; 4], [202; 4]]);
    file.punch(8 * PAGE as u64, 2 * PAGE as u64).unwrap();
    assert_eq!([8, 9, 10].map(all), [[0; 4], [0; 4], [byte(10); 4]]);
    file.set_len(12 * PAGE as u64 + 5).unwrap();
    file.set_len(20 * PAGE as u64).unwrap();
    assert_eq!([12, 13].map(all), [[byte(12), byte(12), 0, 0], [0; 4]]);
    file.append(&[203; PAGE]).unwrap();
    assert_eq!(all(20), [203; 4]);
    // What others have changed is seen when it is invalidated.
    file.sync_data().unwrap();
    std::fs::write(&path, [204; 4 * PAGE]).unwrap();
    assert_eq!(all(1), [200; 4]);
    file.invalidate(..).unwrap();
    assert_eq!(all(1), [204; 4]);
}

#[test]
fn a_page_that_the_mapping_has_alone_is_read_by_calls_and_touched_again() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 1000);
    // Room for all pages, so that those that are touched again and again are in the mapping alone.
    let Some(cache) = cache(16 << 20) else { return };
    for faults in BOTH {
        let file = open(&cache, &path);
        let mapping = file.map(.., &MapOptions::new().faults(faults)).unwrap();
        for n in 0..4000 {
            touch(&mapping, n * 617 % 1000 * PAGE);
            if n % 500 == 499 && n < 3500 {
                mapping.advise(.., MapAdvice::DontNeed).unwrap();
            }
        }
        let alone: Vec<u64> = (0..1000).filter(|&page| is_alone(&file, page)).collect();
        assert!(
            alone.len() > 20,
            "{} of 1000 pages are in the mapping alone",
            alone.len()
        );
        for &page in &alone {
            let (at, byte) = (page as usize * PAGE, byte(page as usize));
            let mut bytes = [0; 2];
            match page % 4 {
                0 => assert_eq!(file.page(page).unwrap()[9], byte),
                1 => assert_eq!(once_free(|| file.try_page(page).unwrap())[9], byte),
                2 => assert_eq!(
                    mapping.copy_to(&mut bytes, at).map(|n| (n, bytes)).unwrap(),
                    (2, [byte; 2])
                ),
                _ => assert_eq!(mapping.try_read(at..at + 5, |bytes| bytes[4]).unwrap(), byte),
            }
            assert!(!is_alone(&file, page));
            assert_eq!(touch(&mapping, at + 1), byte);
        }
    }
}

#[test]
fn pages_of_a_mapping_are_the_cache_s_and_leave_it_by_its_rules() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 2048);
    let Some(cache) = cache(2 << 20) else { return };
    let file = open(&cache, &path);
    let mapping = file.map(.., &MapOptions::new()).unwrap();
    assert!(!mapping.is_resident(0) && !mapping.is_resident(usize::MAX));
    assert_eq!(touch(&mapping, 0), byte(0));
    assert!(mapping.is_resident(0) && file.is_resident(0));
    let reads = || cache.stats().counters.pgmajfault;
    // A page that is there by a call is touched without a read, and the other way round.
    drop(file.page(1000).unwrap());
    let before = reads();
    assert_eq!(touch(&mapping, 1000 * PAGE), byte(1000));
    assert_eq!(file.page(0).unwrap()[1], byte(0));
    assert_eq!(reads(), before);
    mapping
        .advise(1000 * PAGE..1001 * PAGE, MapAdvice::DontNeed)
        .unwrap();
    assert_eq!(touch(&mapping, 1000 * PAGE), byte(1000));
    assert_eq!(reads(), before, "the cache still had it");
    // A few pages that are used again and again stay beside a pass over all.
    for n in 0..3 * 2048 {
        touch(&mapping, n % 2048 * PAGE);
        touch(&mapping, n % 50 * PAGE);
    }
    let frames = cache.stats().occupancy.frames.0;
    let resident = (0..2048).filter(|page| mapping.is_resident(page * PAGE)).count() as u64;
    assert!(resident <= frames, "{resident} of {frames}");
    let before = reads();
    (0..50).for_each(|page| assert_eq!(touch(&mapping, page * PAGE), byte(page)));
    assert!(reads() - before < 10, "{} were read again", reads() - before);
}

#[test]
fn a_budget_is_the_same_when_a_mapping_has_come_and_gone() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 4096);
    let Some(cache) = cache(4 << 20) else { return };
    let frames = || cache.stats().occupancy.frames;
    let before = frames();
    let file = open(&cache, &path);
    for _ in 0..3 {
        let mapping = file.map(.., &MapOptions::new()).unwrap();
        let taken = before.0 - frames().0;
        assert!((4..=5).contains(&taken), "{taken} frames for 4 bytes a page");
        for page in 0..4096 {
            touch(&mapping, page * PAGE);
        }
        drop(mapping);
        assert_eq!(frames(), before);
        cache.set_memory(3 << 20).unwrap();
        cache.set_memory(4 << 20).unwrap();
    }
    // Parts of it cost what they are.
    let part = file.map(2000 * PAGE as u64..2001 * PAGE as u64, &MapOptions::new());
    let more = file.map(2002 * PAGE as u64..2010 * PAGE as u64, &MapOptions::new());
    let taken = before.0 - frames().0;
    assert!((1..=2).contains(&taken), "{taken} frames for nine pages");
    assert_eq!(
        touch(&part.unwrap(), 0) ^ touch(&more.unwrap(), 5),
        byte(2000) ^ byte(2002)
    );
    assert_eq!(frames(), before);
}

/// A file and a mapping of it that has some of its pages alone, and which these are. With room for all.
fn some_alone(cache: &PageCache, path: &Path) -> (File, Mapping, Vec<u64>) {
    file_of(path, 200);
    let file = open(cache, path);
    let mapping = file.map(.., &MapOptions::new()).unwrap();
    for n in 0..1000 {
        touch(&mapping, n * 617 % 200 * PAGE);
        if n % 200 == 199 && n < 800 {
            mapping.advise(.., MapAdvice::DontNeed).unwrap();
        }
    }
    let alone: Vec<u64> = (0..200).filter(|&page| is_alone(&file, page)).collect();
    assert!(
        alone.len() > 20,
        "{} of 200 pages are in the mapping alone",
        alone.len()
    );
    (file, mapping, alone)
}

/// They waited until there was memory.
#[test]
fn calls_and_the_end_of_a_mapping_do_without_memory_for_a_copy() {
    let folder = folder();
    let path = folder.path().join("data");
    let Some(cache) = cache(2 << 20) else { return };
    let (file, mapping, alone) = some_alone(&cache, &path);
    let engine = &file.cache.engine;
    let is_short = &engine.spaces.as_ref().unwrap().exchange.uffd().is_short;
    is_short.store(true, std::sync::atomic::Ordering::Relaxed);
    let [read, pinned, locked, written, changed, cut] = *alone.last_chunk().unwrap();
    let (at, byte) = (|page: u64| page as usize * PAGE, |page: u64| byte(page as usize));
    let mut bytes = [0; PAGE];
    file.read_at(&mut bytes, at(read) as u64).unwrap();
    assert_eq!(bytes, [byte(read); PAGE]);
    assert_eq!(file.page(pinned).unwrap()[5], byte(pinned));
    assert_eq!(file.page_mut(locked).unwrap()[5], byte(locked));
    file.write_at(&[77], at(written) as u64).unwrap();
    file.write_at(&[78; PAGE], at(changed) as u64).unwrap();
    file.set_len(at(cut) as u64).unwrap();
    file.invalidate(at(alone[0]) as u64..=at(alone[0]) as u64)
        .unwrap();
    drop(mapping);
    is_short.store(false, std::sync::atomic::Ordering::Relaxed);
    let first = |page: u64| file.page(page).unwrap()[0];
    assert_eq!([written, changed, alone[0]].map(first), [77, 78, byte(alone[0])]);
    let mut core = engine.core();
    engine.table.locked(&mut core.token).validate();
}

#[test]
fn pages_of_a_mapping_alone_leave_memory_where_the_kernel_has_none_for_a_copy() {
    let folder = folder();
    let [path, other] = ["data", "other"].map(|name| folder.path().join(name));
    file_of(&other, 3000);
    let Some(cache) = cache(2 << 20) else { return };
    let (file, mapping, alone) = some_alone(&cache, &path);
    let count = || (0..200).filter(|&page| is_alone(&file, page)).count();
    let before = alone.len();
    let engine = &file.cache.engine;
    let is_short = &engine.spaces.as_ref().unwrap().exchange.uffd().is_short;
    is_short.store(true, std::sync::atomic::Ordering::Relaxed);
    let other = open(&cache, &other);
    let mut bytes = vec![0; PAGE];
    for n in 0..9000 {
        let page = n % 3000;
        other.read_at(&mut bytes, (page * PAGE) as u64).unwrap();
        assert!(bytes.iter().all(|&is| is == byte(page)));
    }
    is_short.store(false, std::sync::atomic::Ordering::Relaxed);
    assert!(count() < before, "all {before} are there still");
    (0..200).for_each(|page| assert_eq!(touch(&mapping, page * PAGE + 9), byte(page)));
    drop(mapping);
    let mut core = engine.core();
    engine.table.locked(&mut core.token).validate();
}

/// Pages of the arena that have memory.
fn resident(cache: &PageCache, frames: u32) -> usize {
    let arena = cache.handle.engine.table.memory();
    let (start, len) = arena.birthplace(&(0..frames));
    let pages = (start..start + len).step_by(PAGE);
    pages.filter(|&page| is_resident(page)).count()
}

/// What was given back was filled with zeros at once.
#[test]
fn a_smaller_budget_gives_memory_back_and_in_a_larger_one_all_of_it_can_be_used() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 3000);
    let Some(cache) = cache(16 << 20) else { return };
    let (file, frames) = (open(&cache, &path), cache.stats().occupancy.frames.0 as u32);
    let read = || {
        let mut bytes = vec![0; 3000 * PAGE];
        file.read_at(&mut bytes, 0).unwrap();
        let is_right = bytes
            .chunks(PAGE)
            .enumerate()
            .all(|(n, page)| page == [byte(n); PAGE]);
        assert!(is_right);
    };
    read();
    for _ in 0..2 {
        assert!(resident(&cache, frames) > 3000);
        cache.set_memory(2 << 20).unwrap();
        // It is given back as pages leave, by the cache's thread.
        let began = Instant::now();
        while resident(&cache, frames) > 700 {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{}",
                resident(&cache, frames)
            );
            std::thread::yield_now();
        }
        read();
        cache.set_memory(16 << 20).unwrap();
        read();
        // By threads that touch them, and by calls that change them.
        let mapping = file.map(.., &MapOptions::new()).unwrap();
        assert!((0..3000).all(|page| touch(&mapping, page * PAGE) == byte(page)));
        drop(mapping);
        (0..3000).for_each(|page| file.write_at(&[byte(page); 9], (page * PAGE) as u64).unwrap());
        file.sync_data().unwrap();
    }
}
