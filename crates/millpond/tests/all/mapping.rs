//! Mapped files on disks that fail. What needs a touch of the memory itself is in `src/sys/mapped_tests`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Kind, bounded, linger, skip, until};
use millpond::{Error, Faults, File, MapOptions, OpenOptions, PageCache};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Says to a test that it is the child, and where the file is.
const CHILD: &str = "MILLPOND_MAPPING_CHILD";

#[test]
fn a_read_that_fails_is_an_error_of_try_read_and_copy_to_and_the_next_asks_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, [7; 1 << 20]).unwrap();
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let built = PageCache::builder()
        .memory(2 << 20)
        .device(device.clone())
        .mappings(true)
        .build();
    let cache = match built {
        Ok(cache) => cache,
        Err(why @ Error::Setup { .. }) => return skip(why),
        Err(why) => panic!("{why}"),
    };
    let file = cache.open(&path, OpenOptions::new()).unwrap();
    let mapping = file.map(.., &MapOptions::new()).unwrap();
    assert_eq!(mapping.try_read(5..6, |bytes| bytes[0]).unwrap(), 7);
    device.add(FaultRule::always(FaultTarget::Reads, Fault::Fail(libc::EIO)));
    // What is in memory is there all the same.
    assert_eq!(mapping.try_read(..4096, |bytes| bytes[9]).unwrap(), 7);
    for at in [100 * 4096, 200 * 4096 + 5] {
        let error = mapping.try_read(at..at + 5000, |_| ()).unwrap_err();
        let page = (at / 4096 * 4096) as u64;
        assert!(
            matches!(error, Error::Read { offset, .. } if offset == page),
            "{error}"
        );
        let error = mapping.copy_to(&mut [0; 10], at).unwrap_err();
        assert!(matches!(error, Error::Read { .. }), "{error}");
        assert!(!mapping.is_resident(at));
    }
    device.clear();
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    assert_eq!(
        mapping.try_read(100 * 4096..103 * 4096, sum).unwrap(),
        7 * 3 * 4096
    );
    assert_eq!(mapping.copy_to(&mut [0; 10], (1 << 20) - 4).unwrap(), 4);
}

/// A megabyte that can be written, on a device that can be told to fail; `None`, and said why, where no file can be mapped.
fn on_faulty(folder: &std::path::Path) -> Option<(Arc<Faulty>, PageCache, File)> {
    let path = folder.join("data");
    std::fs::write(&path, [7; 1 << 20]).unwrap();
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let built = PageCache::builder()
        .memory(2 << 20)
        .device(device.clone())
        .mappings(true)
        .build();
    let cache = match built {
        Ok(cache) => cache,
        Err(why @ Error::Setup { .. }) => {
            skip(why);
            return None;
        }
        Err(why) => panic!("{why}"),
    };
    let file = cache.open(path, OpenOptions::new().write(true)).unwrap();
    Some((device, cache, file))
}

const WORDS: usize = 4096 / 8;

#[test]
fn a_full_disk_is_an_error_of_sync_and_close_and_what_was_stored_stays() {
    for faults in [Faults::Handlers, Faults::InThread] {
        for errno in [libc::ENOSPC, libc::EIO] {
            let folder = tempfile::tempdir().unwrap();
            let Some((device, cache, file)) = on_faulty(folder.path()) else {
                return;
            };
            let options = MapOptions::new().faults(faults).writable(true);
            let mapping = file.map(.., &options).unwrap();
            device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(errno)));
            let store = |mapping: &millpond::Mapping, more: u64| {
                (0..5).for_each(|n| mapping.words()[n * WORDS].store(n as u64 + more, Ordering::Relaxed));
            };
            store(&mapping, 100);
            let error = mapping.sync(..).unwrap_err();
            assert!(
                matches!(error, Error::Write { .. }) && error.errno() == errno,
                "{error}"
            );
            // Stored again, and read by a call.
            store(&mapping, 200);
            assert_eq!(file.page(4).unwrap()[0], 204);
            let failed = mapping.close().unwrap_err();
            assert_eq!(failed.error.errno(), errno);
            let mapping = failed.mapping;
            assert_eq!(mapping.words()[3 * WORDS].load(Ordering::Relaxed), 203);
            device.clear();
            // A write that had begun before may still fail.
            until("a sync", || mapping.sync(..).is_ok());
            let on_device = std::fs::read(file.path()).unwrap();
            (0..5).for_each(|n| assert_eq!(on_device[n * 4096], 200 + n as u8));
            // What is given up is what the device has.
            device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(errno)));
            store(&mapping, 300);
            assert!(mapping.sync(1..2).is_err());
            until("all are given up", || {
                file.discard_unwritten().unwrap();
                !file.is_unwritten().unwrap()
            });
            assert_eq!(mapping.words()[2 * WORDS].load(Ordering::Relaxed) & 255, 202);
            // Whatever a last write still says, the handle keeps what is stored.
            store(&mapping, 300);
            let kept = Error::from(mapping.close().unwrap_err());
            assert!(matches!(kept, Error::Write { is_kept: true, .. }), "{kept}");
            device.clear();
            file.sync_data().unwrap();
            let mapping = file.map(.., &options).unwrap();
            drop(file);
            device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(errno)));
            store(&mapping, 400);
            let lost = Error::from(mapping.close().unwrap_err());
            assert!(matches!(lost, Error::Write { is_kept: false, .. }), "{lost}");
            assert_eq!(cache.take_lost().len(), 1);
        }
    }
}

#[test]
fn stores_wait_while_too_much_cannot_be_written_reads_go_on_and_they_end_when_it_can() {
    for faults in [Faults::Handlers, Faults::InThread] {
        let folder = tempfile::tempdir().unwrap();
        let Some((device, cache, file)) = on_faulty(folder.path()) else {
            return;
        };
        let options = MapOptions::new().faults(faults).writable(true);
        let mapping = file.map(.., &options).unwrap();
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::ENOSPC)));
        let stored = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let storing = scope.spawn(|| {
                for page in 0..250 {
                    mapping.words()[page * WORDS].store(1, Ordering::Relaxed);
                    stored.fetch_add(1, Ordering::Relaxed);
                }
            });
            until("the file takes no more", || file.write_at(&[1], 0).is_err());
            until("it is told", || cache.stats().warnings == 1);
            (0..100).for_each(|_| std::thread::yield_now());
            assert!(!storing.is_finished());
            let some = stored.load(Ordering::Relaxed);
            assert!((5..200).contains(&some), "{some} of 250 pages are dirty");
            // The last page was not touched yet: it is read, and the words before are there.
            assert_eq!(mapping.words()[255 * WORDS].load(Ordering::Relaxed) & 255, 7);
            assert_eq!(mapping.words()[0].load(Ordering::Relaxed), 1);
            device.clear();
            storing.join().unwrap();
        });
        until("a sync", || mapping.sync(..).is_ok());
        let on_device = std::fs::read(file.path()).unwrap();
        assert!((0..250).all(|page| on_device[page * 4096] == 1));
    }
}

/// Data stored meanwhile was the file's as soon as it was longer.
#[test]
fn a_store_behind_the_end_of_a_file_that_is_becoming_longer_waits_until_it_is() {
    for faults in [Faults::Handlers, Faults::InThread] {
        let folder = tempfile::tempdir().unwrap();
        let Some((device, _cache, file)) = on_faulty(folder.path()) else {
            return;
        };
        file.set_len(4096 + 100).unwrap();
        let options = MapOptions::new().faults(faults).writable(true);
        let mapping = file.map(..4 * 4096, &options).unwrap();
        let word = |n: usize| &mapping.words()[WORDS + n];
        word(0).store(1, Ordering::Relaxed);
        word(100).store(1, Ordering::Relaxed);
        device.add(FaultRule::always(FaultTarget::Lengths, Fault::Hold));
        std::thread::scope(|scope| {
            let growing = scope.spawn(|| file.set_len(2 * 4096 + 100).unwrap());
            until("it is held", || device.held() > 0);
            let storing = scope.spawn(|| word(101).store(7, Ordering::Relaxed));
            // Long enough for it to be asleep; if not, the test sees nothing.
            std::thread::sleep(Duration::from_millis(50));
            let waits = !storing.is_finished();
            // It can be read meanwhile.
            let read = word(102).load(Ordering::Relaxed);
            device.clear();
            device.release().unwrap();
            assert_eq!((waits, read), (true, 0));
            storing.join().unwrap();
            growing.join().unwrap();
        });
        assert_eq!([0, 100, 101].map(|n| word(n).load(Ordering::Relaxed)), [1, 0, 7]);
    }
}

/// Stores a number to a word of each page, syncs, says the number, and takes the next.
fn stores_and_syncs_until_it_is_killed(path: &str) {
    let cache = PageCache::builder()
        .memory(2 << 20)
        .mappings(true)
        .build()
        .unwrap();
    let file = cache.open(path, OpenOptions::new().write(true)).unwrap();
    let mapping = file.map(.., &MapOptions::new().writable(true)).unwrap();
    // In one piece: it may be killed between two, and the line would end in the middle.
    let tell = |line: &str| std::io::stderr().write_all(line.as_bytes()).unwrap();
    for n in 1_u64.. {
        for word in mapping.words().iter().step_by(WORDS) {
            word.store(n, Ordering::Relaxed);
        }
        mapping.sync(..).unwrap();
        tell(&format!("synced {n}\n"));
    }
}

#[test]
fn stores_synced_through_a_mapping_survive_a_kill_of_the_process() {
    if let Ok(path) = std::env::var(CHILD) {
        return stores_and_syncs_until_it_is_killed(&path);
    }
    let folder = tempfile::tempdir().unwrap();
    let Some((_device, cache, file)) = on_faulty(folder.path()) else {
        return;
    };
    let path = file.path().to_owned();
    drop((file, cache));
    for kill in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("mapping::stores_synced_through_a_mapping_survive_a_kill_of_the_process")
            .env(CHILD, &path)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (mut said, mut last) = (0, 0);
        for line in BufReader::new(child.stderr.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some(n) = line.strip_prefix("synced ") else {
                continue;
            };
            (said, last) = (said + 1, n.parse().unwrap());
            if said == 5 {
                std::thread::sleep(Duration::from_micros(700 * kill));
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(said >= 5, "it has ended by itself");
        let bytes = std::fs::read(&path).unwrap();
        for (page, bytes) in bytes.chunks(4096).enumerate() {
            let n = u64::from_ne_bytes(bytes[..8].try_into().unwrap());
            assert!(
                (last..=last + 1).contains(&n),
                "page {page} has {n} after sync {last}"
            );
        }
    }
}

/// It warned of memory that was not short, once a cache, so that a true warning would not have come.
#[test]
fn a_mapping_that_ends_while_a_device_reads_one_of_its_pages_waits_and_warns_of_nothing() {
    bounded(|| {
        let folder = tempfile::tempdir().unwrap();
        let Some((device, cache, file)) = on_faulty(folder.path()) else {
            return;
        };
        let mapping = file.map(.., &MapOptions::new().writable(true)).unwrap();
        mapping.words()[0].store(2, Ordering::Relaxed);
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        let other = file.clone();
        let syncing = std::thread::spawn(move || other.sync_data());
        until("the write of the page", || device.held() > 0);
        // The page is in two places from now on: what the device reads is the older one.
        mapping.words()[0].store(3, Ordering::Relaxed);
        let ending = std::thread::spawn(move || drop(mapping));
        linger(|| cache.stats().warnings > 0);
        device.clear();
        device.release().unwrap();
        ending.join().unwrap();
        syncing.join().unwrap().unwrap();
        assert_eq!(cache.stats().warnings, 0);
        file.sync_data().unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap()[0], 3);
    });
}

/// Each kept what it had while it waited for more, until none had a frame left, nor any other call: for 30 s, and then an error.
#[test]
fn threads_that_lend_the_most_there_may_be_all_get_it_and_other_calls_go_on() {
    const THREADS: usize = 8;
    bounded(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 8 << 20]).unwrap();
        let cache = match PageCache::builder().memory(3 << 20).mappings(true).build() {
            Err(why @ Error::Setup { .. }) => return skip(why),
            built => built.unwrap(),
        };
        let file = cache.open(&path, OpenOptions::new()).unwrap();
        let mapping = file.map(.., &MapOptions::new()).unwrap();
        let most = cache.stats().occupancy.frames.0 as usize / 4;
        let left = AtomicU64::new(THREADS as u64);
        std::thread::scope(|scope| {
            for n in 0..THREADS {
                let (mapping, left) = (&mapping, &left);
                scope.spawn(move || {
                    for round in 0..20 {
                        let page = (n * 211 + round * 97) % (2048 - most);
                        let bytes = page * 4096..(page + most) * 4096;
                        let sum = mapping.try_read(bytes, |bytes| {
                            bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>()
                        });
                        assert_eq!(sum.unwrap(), 7 * 4096 * most as u64);
                    }
                    left.fetch_sub(1, Ordering::SeqCst);
                });
            }
            let mut page = 0;
            while left.load(Ordering::SeqCst) > 0 {
                page = (page + 331) % 2048;
                assert_eq!(file.page(page).unwrap()[5], 7);
            }
        });
    });
}
