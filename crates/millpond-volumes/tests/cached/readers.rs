//! Files of a reader in a cache.

use millpond::{PageCache, device};
use millpond_volumes::format::Pin;
use millpond_volumes::{CacheReader, Pinning, Store, StoreOptions, Volumes};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn options() -> StoreOptions {
    StoreOptions::new().poll(Duration::from_millis(20))
}

fn cache(mib: u64) -> (Arc<Volumes>, PageCache) {
    let volumes = Volumes::new(device::best()).unwrap();
    let builder = PageCache::builder().memory(mib * MIB).page_size(64 << 10);
    let cache = builder.device(volumes.clone()).build().unwrap();
    (volumes, cache)
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is() {
        assert!(Instant::now() < deadline, "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn first_byte(file: &millpond::File) -> u8 {
    // From the store, and not what was read before.
    file.invalidate(..).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    byte[0]
}

fn with(reader: &CacheReader, store: &Store) {
    store.sync().unwrap();
    reader.reader().poll().unwrap();
}

#[test]
fn a_file_of_a_reader_stays_as_of_the_commit_at_which_it_was_opened() {
    let url = "memory://held-file";
    let store = Store::open(url, options()).unwrap();
    let written = store.create("a").unwrap();
    written.write_at(&[1; 200_000], 0).unwrap();
    store.sync().unwrap();
    let (volumes, cache) = cache(64);
    let reader = volumes.reader(&cache, url, options()).unwrap();
    let first = reader.open("a").unwrap();
    assert_eq!((first.len(), first_byte(&first)), (200_000, 1));
    written.write_at(&[2; 300_000], 0).unwrap();
    with(&reader, &store);
    let second = reader.open("a").unwrap();
    assert_eq!((second.len(), first_byte(&second)), (300_000, 2));
    assert_eq!((first.len(), first_byte(&first)), (200_000, 1));
    // What has not changed has one set of pages.
    store.create("b").unwrap();
    with(&reader, &store);
    let is_read_without_requests = || {
        let before = reader.reader().requests().gets;
        second.read_exact_at(&mut [0; 1], 0).unwrap();
        reader.open("a").unwrap().read_exact_at(&mut [0; 1], 0).unwrap();
        reader.reader().requests().gets == before
    };
    // The reader looks for commits once a second, which is a request too.
    assert!((0..20).any(|_| is_read_without_requests()));
    store.remove("a").unwrap();
    with(&reader, &store);
    assert!(
        reader
            .open("a")
            .unwrap_err()
            .to_string()
            .contains("there is no file a")
    );
    assert_eq!((first_byte(&first), first_byte(&second)), (1, 2));
    assert!(first.write_at(b"x", 0).is_err());
}

#[test]
fn pages_in_memory_that_a_new_version_has_kept_are_not_read_again() {
    const PAGE: usize = 64 << 10;
    const PAGES: usize = 20;
    let url = "memory://kept-pages";
    let seldom = StoreOptions::new()
        .page_bytes(PAGE as u32)
        .poll(Duration::from_secs(3600));
    let store = Store::open(url, seldom.clone()).unwrap();
    let written = store.create("a").unwrap();
    // Each in a commit of its own, so that each is a request.
    for page in 0..PAGES {
        written.write_at(&[1; PAGE], (page * PAGE) as u64).unwrap();
        store.sync().unwrap();
    }
    let (volumes, cache) = cache(64);
    let reader = volumes.reader(&cache, url, seldom).unwrap();
    let mut content = vec![0; PAGES * PAGE];
    let first = reader.open("a").unwrap();
    first.read_exact_at(&mut content, 0).unwrap();
    let mut expected = content.clone();
    let mut current = first.clone();
    for (change, page) in [(2, 3), (3, 17), (4, 3)] {
        written
            .write_at(&[change; PAGE / 2], (page * PAGE) as u64)
            .unwrap();
        expected[page * PAGE..][..PAGE / 2].fill(change);
        with(&reader, &store);
        let before = reader.reader().requests().gets;
        current = {
            let next = reader.open("a").unwrap();
            drop(current);
            next
        };
        current.read_exact_at(&mut content, 0).unwrap();
        assert!(content == expected, "version {change}");
        let gets = reader.reader().requests().gets - before;
        // The page that has changed, and what the reader asks for the next commit.
        assert!(gets <= 3, "{gets} requests for one page");
    }
    first.read_exact_at(&mut content, 0).unwrap();
    assert!(content.iter().all(|byte| *byte == 1));
    // Shorter, then longer by zeros: no page of before is longer than it should be.
    written.set_len((5 * PAGE + 10) as u64).unwrap();
    written.set_len((7 * PAGE) as u64).unwrap();
    expected.truncate(5 * PAGE + 10);
    expected.resize(7 * PAGE, 0);
    with(&reader, &store);
    reader
        .open("a")
        .unwrap()
        .read_exact_at(&mut content[..7 * PAGE], 0)
        .unwrap();
    assert!(content[..7 * PAGE] == expected);
}

#[test]
fn what_an_open_file_has_is_kept_by_the_readers_pin() {
    let temp = tempfile::tempdir().unwrap();
    let url = format!("file://{}/store", temp.path().display());
    let store = Store::open(&url, options().grace(Duration::from_secs(2))).unwrap();
    let written = store.create("a").unwrap();
    written.write_at(&[1; 10], 0).unwrap();
    store.sync().unwrap();
    let (volumes, cache) = cache(64);
    let reader = volumes.reader(&cache, &url, options()).unwrap();
    let held = reader.reader().commit();
    let file = reader.open("a").unwrap();
    let pin = || {
        let pins = std::fs::read_dir(temp.path().join("store/p")).unwrap();
        let read = |pin: std::io::Result<std::fs::DirEntry>| std::fs::read(pin.ok()?.path()).ok();
        pins.filter_map(read).find_map(|bytes| Pin::decode(&bytes).ok())
    };
    written.write_at(&[2; 10], 0).unwrap();
    with(&reader, &store);
    let newest = reader.reader().commit();
    assert!(newest > held);
    let before = pin().map_or(0, |pin| pin.beat);
    until("the pin is renewed", || {
        pin().is_some_and(|pin| pin.beat > before + 1)
    });
    assert_eq!(pin().map(|pin| pin.number), Some(held));
    assert_eq!(first_byte(&file), 1);
    file.close().unwrap();
    until("it goes on when nobody reads it", || {
        pin().is_some_and(|pin| pin.number >= newest)
    });
}

/// 512 calls of 128 KiB are 512 requests without a cache, and were 170 with one of 64 MiB.
#[test]
fn a_file_that_is_read_in_order_is_read_ahead_in_large_requests() {
    let url = "memory://read-ahead";
    let bytes = 64 * MIB;
    let store = Store::open(url, options()).unwrap();
    let written = store.create("a").unwrap();
    let content: Vec<u8> = (0..MIB).map(|n| ((n * 2_654_435_761) >> 9) as u8).collect();
    for at in (0..bytes).step_by(MIB as usize) {
        written.write_at(&content, at).unwrap();
    }
    store.close().unwrap();
    for budget in [256, 64] {
        let (volumes, cache) = cache(budget);
        let reader = volumes
            .reader(&cache, url, options().pinning(Pinning::Never))
            .unwrap();
        let file = reader.open("a").unwrap();
        let before = reader.reader().requests().gets;
        let mut call = vec![0; 128 << 10];
        for at in (0..bytes).step_by(call.len()) {
            file.read_exact_at(&mut call, at).unwrap();
            let from = (at % MIB) as usize;
            assert!(call == content[from..from + call.len()], "at {at}");
        }
        let gets = reader.reader().requests().gets - before;
        assert!(gets < 100, "{gets} requests with {budget} MiB");
    }
}
