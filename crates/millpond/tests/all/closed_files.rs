//! Closed files whose pages stay in memory, without a descriptor, for as long as they are the file's.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Draw, Place, bounded, seeds, until};
use millpond::{OpenOptions, PageCache};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PAGE: usize = 4096;

fn cache(closed_files: usize) -> PageCache {
    let builder = PageCache::builder().memory(4 << 20).closed_files(closed_files);
    builder.calibrate(false).build().unwrap()
}

/// A file of some pages of `byte` whose times are not those of a change that may come next, on any kernel.
fn file(folder: &Path, name: &str, byte: u8) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, vec![byte; 5 * PAGE + 100]).unwrap();
    settle(&path);
    path
}

fn settle(path: &Path) {
    until("its times are old", || {
        let about = fs::metadata(path).unwrap();
        let changed = UNIX_EPOCH + Duration::new(about.ctime() as u64, about.ctime_nsec() as u32);
        SystemTime::now()
            .duration_since(changed)
            .is_ok_and(|age| age > Duration::from_millis(50))
    });
}

fn content(cache: &PageCache, path: &Path) -> Vec<u8> {
    let file = cache.open(path, OpenOptions::new()).unwrap();
    let mut bytes = vec![0; 1 << 20];
    let read = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(read);
    bytes
}

fn misses(cache: &PageCache) -> u64 {
    cache.stats().counters.page_misses
}

fn pages(cache: &PageCache) -> u64 {
    let occupancy = cache.stats().occupancy;
    occupancy.active.0 + occupancy.inactive.0
}

/// Descriptors of this process that are of the file.
fn descriptors(path: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    links
        .filter(|link| fs::read_link(link.as_ref().unwrap().path()).is_ok_and(|to| to == path))
        .count()
}

#[test]
fn a_closed_file_keeps_its_pages_and_no_descriptor() {
    let folder = Place::Disk.folder();
    let path = fs::canonicalize(folder.path()).unwrap();
    let path = file(&path, "data", 7);
    let cache = cache(8);
    let first = content(&cache, &path);
    assert_eq!((first.len(), descriptors(&path)), (5 * PAGE + 100, 0));
    let read = misses(&cache);
    assert_eq!(content(&cache, &path), first);
    assert_eq!(misses(&cache), read, "it was read again");
    assert!(pages(&cache) >= 6);
}

#[test]
fn without_the_option_a_closed_file_leaves_memory() {
    let folder = Place::Disk.folder();
    let path = file(folder.path(), "data", 7);
    let cache = cache(0);
    content(&cache, &path);
    assert_eq!(pages(&cache), 0);
}

#[test]
fn written_files_stay_and_can_be_written_again() {
    let folder = Place::Disk.folder();
    let path = file(folder.path(), "data", 7);
    let cache = cache(8);
    for byte in 1..20_u8 {
        let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
        let mut before = [0];
        file.read_at(&mut before, 5000).unwrap();
        assert_eq!(before[0], if byte == 1 { 7 } else { byte - 1 });
        file.write_at(&[byte; PAGE], 5000).unwrap();
        drop(file);
        assert_eq!(
            fs::read(&path).unwrap()[5000],
            byte,
            "it is written when it is closed"
        );
        assert_eq!(content(&cache, &path)[5000 + PAGE - 1], byte);
    }
}

#[test]
fn a_file_that_others_change_or_replace_is_read_anew() {
    let folder = Place::Disk.folder();
    let path = file(folder.path(), "data", 1);
    let cache = cache(8);
    assert_eq!(content(&cache, &path)[0], 1);
    // In place, with the same length and the same modification time.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let other = fs::File::options().write(true).open(&path).unwrap();
    other.write_all_at(&[2; 100], 0).unwrap();
    other.set_modified(modified).unwrap();
    assert_eq!(
        content(&cache, &path)[..101],
        [[2; 100].as_slice(), &[1]].concat()
    );
    // Another file under its name, perhaps with its number.
    fs::remove_file(&path).unwrap();
    file(folder.path(), "data", 3);
    assert_eq!(content(&cache, &path)[0], 3);
    other.write_all_at(&[4; 100], 0).unwrap();
    assert_eq!(content(&cache, &path)[0], 3);
    // Shorter.
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(10)
        .unwrap();
    assert_eq!(content(&cache, &path), [3; 10]);
}

#[test]
fn of_too_many_the_one_closed_first_leaves_memory() {
    let folder = Place::Disk.folder();
    let paths: Vec<_> = (0..6).map(|n| file(folder.path(), &n.to_string(), n)).collect();
    let cache = cache(4);
    for path in paths.iter().chain(&paths[4..]).chain(&paths[2..3]) {
        content(&cache, path);
    }
    let read = misses(&cache);
    for path in &paths[2..] {
        content(&cache, path);
    }
    assert_eq!(misses(&cache), read);
    assert_eq!(pages(&cache), 4 * 6);
    content(&cache, &paths[0]);
    assert_eq!(misses(&cache), read + 6);
}

#[test]
fn pages_of_closed_files_go_when_memory_is_needed() {
    let folder = Place::Disk.folder();
    let cache = cache(10_000);
    let many: Vec<_> = (0..400_u16)
        .map(|n| {
            let path = folder.path().join(n.to_string());
            fs::write(&path, vec![n as u8; 5 * PAGE]).unwrap();
            path
        })
        .collect();
    settle(many.last().unwrap());
    for round in 0..3 {
        for (n, path) in many.iter().enumerate() {
            assert_eq!(content(&cache, path), vec![n as u8; 5 * PAGE], "round {round}");
        }
    }
    cache.set_memory(2 << 20).unwrap();
    assert_eq!(content(&cache, &many[5]), vec![5; 5 * PAGE]);
}

/// `MILLPOND_CLOSED=n` plays this many histories.
#[test]
fn files_that_are_opened_closed_and_changed_by_two_are_what_was_written_last() {
    bounded(|| seeds("MILLPOND_CLOSED", 20).for_each(play));
}

/// Files that this cache and another program change in turn, each while the other has them closed.
fn play(seed: u64) {
    const FILES: u64 = 6;
    let folder = Place::Disk.folder();
    let cache = cache(3);
    let mut draw = Draw(seed);
    let mut expected = vec![Vec::new(); FILES as usize];
    for step in 0..300_u32 {
        let n = draw.below(FILES) as usize;
        let path = folder.path().join(n.to_string());
        let (at, byte) = (draw.below(40_000) as usize, step as u8);
        let bytes = vec![byte; 1 + draw.below(9000) as usize];
        let put = |file: &mut Vec<u8>| {
            file.resize(file.len().max(at + bytes.len()), 0);
            file[at..at + bytes.len()].copy_from_slice(&bytes);
        };
        match draw.below(8) {
            0..=2 => {
                let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
                file.write_at(&bytes, at as u64).unwrap();
                put(&mut expected[n]);
            }
            3 => {
                let other = fs::File::options()
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .open(&path)
                    .unwrap();
                other.write_all_at(&bytes, at as u64).unwrap();
                put(&mut expected[n]);
            }
            4 => {
                let _ = fs::remove_file(&path);
                fs::write(&path, &bytes).unwrap();
                expected[n] = bytes;
            }
            _ if path.exists() => {
                let whole = content(&cache, &path);
                assert!(whole == expected[n], "seed {seed}, step {step}, file {n}");
            }
            _ => {}
        }
    }
}
