//! The first things that a program does with a cache.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use millpond::{Error, OpenOptions, PageCache};

fn cache() -> PageCache {
    PageCache::builder().memory(4 << 20).build().unwrap()
}

#[test]
fn written_data_is_read_back_and_is_in_the_file_after_a_sync() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let cache = cache();
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    let data: Vec<u8> = (0..1_000_003_u32).map(|n| ((n * 31) >> 3) as u8).collect();
    file.write_at(&data, 17).unwrap();
    assert_eq!(file.len(), data.len() as u64 + 17);
    let mut back = vec![0; data.len()];
    assert_eq!(file.read_at(&mut back, 17).unwrap(), data.len());
    assert!(back == data);
    file.sync_data().unwrap();
    let on_disk = std::fs::read(&path).unwrap();
    assert_eq!(on_disk.len(), data.len() + 17);
    assert!(on_disk[17..] == data && on_disk[..17] == [0; 17]);
}

#[test]
fn a_file_larger_than_the_budget_is_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let cache = cache();
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    let page = |n: u64| [(n % 251) as u8; 4096];
    for n in 0..8192 {
        file.write_at(&page(n), n * 4096).unwrap();
    }
    for n in (0..8192).rev() {
        assert_eq!(file.page(n).unwrap()[..], page(n), "page {n}");
    }
    let mut buf = vec![0; 300_000];
    let mut at = 0;
    loop {
        let n = file.read_at(&mut buf, at).unwrap();
        if n == 0 {
            break;
        }
        for (i, byte) in buf[..n].iter().enumerate() {
            assert_eq!(*byte, ((at + i as u64) / 4096 % 251) as u8);
        }
        at += n as u64;
    }
    let stats = cache.stats();
    assert!(stats.counters.pgsteal() > 8192, "{:?}", stats.counters);
    assert!(stats.counters.readahead_pages > 1000, "{:?}", stats.counters);
    assert_eq!(stats.counters.nr_vmscan_write, 0);
    drop(file);
    assert!(cache.take_lost().is_empty());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 8192 * 4096);
}

#[test]
fn handles_of_one_file_share_its_pages_by_whatever_name() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let cache = cache();
    let first = cache.open(&one, OpenOptions::new().create(true)).unwrap();
    std::fs::hard_link(&one, &two).unwrap();
    let second = cache.open(&two, OpenOptions::new()).unwrap();
    first.write_at(b"seen at once", 0).unwrap();
    assert_eq!(&second.page(0).unwrap()[..], b"seen at once");
    assert!(matches!(second.write_at(b"x", 0), Err(Error::ReadOnly { .. })));
}

#[test]
fn truncation_drops_pages_and_growth_reads_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache();
    let file = cache
        .open(folder.path().join("data"), OpenOptions::new().create(true))
        .unwrap();
    file.write_at(&[9; 50_000], 0).unwrap();
    file.set_len(10_001).unwrap();
    file.set_len(60_000).unwrap();
    let mut back = vec![1; 60_000];
    assert_eq!(file.read_at(&mut back, 0).unwrap(), 60_000);
    assert!(back[..10_001] == [9; 10_001] && back[10_001..] == [0; 49_999]);
    file.sync_all().unwrap();
    let on_disk = std::fs::read(file.path()).unwrap();
    assert!(on_disk == back);
}

#[test]
fn memory_can_be_changed_while_it_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache();
    let file = cache
        .open(folder.path().join("data"), OpenOptions::new().create(true))
        .unwrap();
    for n in 0..4096_u64 {
        file.write_at(&[n as u8; 4096], n * 4096).unwrap();
    }
    for memory in [2 << 20, 16 << 20, 3 << 20] {
        cache.set_memory(memory).unwrap();
        for n in 0..4096_u64 {
            assert_eq!(file.page(n).unwrap()[0], n as u8);
        }
        let occupancy = cache.stats().occupancy;
        assert!(occupancy.frames.0 * 4096 < memory, "{occupancy:?}");
    }
}

#[test]
fn wrong_arguments_are_named_with_what_is_possible() {
    let folder = tempfile::tempdir().unwrap();
    let says = |builder: millpond::Builder| builder.build().unwrap_err().to_string();
    let builder = PageCache::builder;
    assert_eq!(
        says(builder().page_size(5000)),
        "option page_size can't be 5000 bytes: must be 4096, 8192, 16384, 32768 or 65536 bytes"
    );
    assert!(says(builder().memory(1000)).starts_with("a budget of 1000 bytes is too small: at least "));
    assert_eq!(
        says(builder().preset("irix")),
        "option preset can't be irix: must be millpond, linux-5 or dillon-2000"
    );
    let cache = cache();
    let directory = cache
        .open(folder.path(), OpenOptions::new())
        .unwrap_err()
        .to_string();
    assert!(directory.contains("is a directory"), "{directory}");
    let missing = cache
        .open(folder.path().join("none"), OpenOptions::new())
        .unwrap_err();
    assert_eq!(missing.errno(), libc::ENOENT);
    let file = cache
        .open(folder.path().join("data"), OpenOptions::new().create(true))
        .unwrap();
    let named = |error: millpond::Error| {
        error
            .to_string()
            .replace(&folder.path().display().to_string(), "")
    };
    assert_eq!(
        named(file.page(0).unwrap_err()),
        "page 0 of /data is out of range: the file is empty"
    );
    file.set_len(5000).unwrap();
    assert_eq!(
        named(file.page_mut(2).unwrap_err()),
        "page 2 of /data is out of range: must be 0 to 1"
    );
    assert!(file.write_at(&[1], u64::MAX).is_err());
    assert!(file.set_len(u64::MAX).is_err());
    assert_eq!(file.read_at(&mut [0; 10], u64::MAX).unwrap(), 0);
}

#[test]
fn options_are_held_against_the_page_size_of_the_cache_that_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let builder = PageCache::builder().memory(8 << 20).page_size(65_536);
    let cache = builder.build().unwrap();
    let file = cache
        .open(folder.path().join("data"), OpenOptions::new().create(true))
        .unwrap();
    let mut options = cache.options();
    // As they come from elsewhere: the page size in them does not count.
    options.page_size = millpond_core::units::PageSize::KIB_4;
    cache.set_options(options.clone()).unwrap();
    assert_eq!(cache.options().page_size.bytes(), 65_536);
    options.flusher.write_max = millpond_core::units::Bytes(4096);
    let error = cache.set_options(options.clone()).unwrap_err().to_string();
    assert_eq!(
        error,
        "option flusher.write_max can't be 4 KiB: must be 64 KiB to 16 MiB"
    );
    file.write_at(&[1; 1 << 20], 0).unwrap();
    file.sync_data().unwrap();
}
