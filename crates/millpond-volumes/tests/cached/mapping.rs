//! Files of a store as memory.

use crate::{Folder, PAGE, cache, elsewhere, mapping_cache, options, pattern};
use millpond::{Error, Faults, MapOptions, Mapping};
use millpond_volumes::Store;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

const BOTH: [Faults; 2] = [Faults::Handlers, Faults::InThread];
const CHILD: &str = "MILLPOND_CACHED_CHILD";
const WORDS: usize = PAGE / 8;
const SIGBUS: i32 = 7;

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap())
}

/// Stores a word in each seventh page.
fn stores(mapping: &Mapping, model: &mut [u8], value: u64) {
    for at in (0..mapping.words().len()).step_by(7 * WORDS) {
        mapping.words()[at].store(value + at as u64, Relaxed);
        model[at * 8..at * 8 + 8].copy_from_slice(&(value + at as u64).to_le_bytes());
    }
}

/// A file three times as large as the budget, touched and stored to.
#[test]
fn a_file_of_a_store_is_memory_to_read_and_to_write_and_a_sync_of_it_a_commit() {
    for faults in BOTH {
        let folder = Folder::new();
        for url in [format!("memory://mapped-{faults:?}"), folder.url.clone()] {
            let Some((cache, volumes)) = mapping_cache() else {
                return;
            };
            let store = volumes.store(&cache, &url, options()).unwrap();
            let file = store.create("a").unwrap();
            let mut model = pattern(24 << 20);
            file.write_at(&model, 0).unwrap();
            let options = MapOptions::new().faults(faults);
            let mapping = file.map(.., &options.clone().writable(true)).unwrap();
            let words = mapping.words().iter().enumerate();
            for (at, found) in words.step_by(WORDS / 2) {
                assert_eq!(found.load(Relaxed), word(&model, at), "word {at}");
            }
            stores(&mapping, &mut model, 1_000_000);
            mapping.copy_from(b"by a call", 12_345).unwrap();
            model[12_345..12_354].copy_from_slice(b"by a call");
            mapping.sync(..).unwrap();
            assert!(elsewhere(&url, "a") == model, "{url}, {faults:?}");
            mapping.close().unwrap();

            let reading = file.map(.., &options).unwrap();
            for from in (0..model.len()).step_by(1 << 20) {
                let same = reading.try_read(from..from + PAGE, |bytes| bytes == &model[from..from + PAGE]);
                assert!(same.unwrap(), "byte {from}");
            }
            let mut found = vec![0; 100_000];
            assert_eq!(reading.copy_to(&mut found, 5 << 20).unwrap(), found.len());
            assert!(found == model[5 << 20..][..100_000]);
            drop((reading, file));
            store.close().unwrap();
        }
    }
}

#[test]
fn a_sync_of_a_mapping_that_fails_keeps_what_was_stored_and_the_next_has_it() {
    for faults in BOTH {
        let Some((cache, volumes)) = mapping_cache() else {
            return;
        };
        let folder = Folder::new();
        let store = folder.open_impatient(&volumes, &cache);
        let file = store.create("a").unwrap();
        let mut model = pattern(1 << 20);
        file.write_at(&model, 0).unwrap();
        file.sync_data().unwrap();
        let options = MapOptions::new().faults(faults).writable(true);
        let mapping = file.map(.., &options).unwrap();
        let before = model.clone();
        folder.fails();
        stores(&mapping, &mut model, 7);
        let error = mapping.sync(..).unwrap_err();
        assert!(matches!(error, Error::Sync { .. }), "{error}");
        let failed = mapping.close().unwrap_err();
        let mapping = failed.mapping;
        assert_eq!(mapping.words()[7 * WORDS].load(Relaxed), word(&model, 7 * WORDS));
        folder.works();
        assert!(elsewhere(&folder.url, "a") == before);
        mapping.sync(..).unwrap();
        assert!(elsewhere(&folder.url, "a") == model);
    }
}

#[test]
fn a_takeover_is_an_error_of_a_mappings_sync_and_what_was_stored_can_be_had() {
    let Some((cache, volumes)) = mapping_cache() else {
        return;
    };
    let url = "memory://mapped-and-taken";
    let store = volumes.store(&cache, url, options()).unwrap();
    let file = store.create("a").unwrap();
    let mut model = pattern(1 << 20);
    file.write_at(&model, 0).unwrap();
    file.sync_data().unwrap();
    let mapping = file.map(.., &MapOptions::new().writable(true)).unwrap();
    let other = Store::open(url, options().take_over(true)).unwrap();
    for round in 0..2 {
        stores(&mapping, &mut model, 7 + round);
        let error = mapping.sync(..).unwrap_err();
        assert_eq!(error.errno(), rustix::io::Errno::STALE.raw_os_error(), "{error}");
    }
    let lost = store.take_lost().unwrap();
    for page in (0..model.len() / PAGE).step_by(7) {
        let at = (page * PAGE) as u64;
        let newest = lost.iter().rfind(|lost| lost.offset == at);
        let bytes = newest.and_then(|lost| lost.bytes.as_ref());
        assert!(
            bytes.is_some_and(|bytes| bytes[..] == model[page * PAGE..][..PAGE]),
            "page {page}"
        );
    }
    assert_eq!(other.fence(), None);
}

/// A store of which each chunk has a damaged page.
fn damaged() -> Folder {
    let folder = Folder::new();
    let (cache, volumes) = cache();
    let store = folder.open(&volumes, &cache);
    let file = store.create("a").unwrap();
    file.write_at(&pattern(12 << 20), 0).unwrap();
    file.close().unwrap();
    store.close().unwrap();
    folder.damage();
    folder
}

#[test]
fn a_page_of_a_mapping_that_is_damaged_in_the_store_is_an_error_of_try_read() {
    let Some((cache, volumes)) = mapping_cache() else {
        return;
    };
    let (folder, model) = (damaged(), pattern(12 << 20));
    let store = folder.open(&volumes, &cache);
    let file = store.open("a").unwrap();
    let mapping = file.map(.., &MapOptions::new()).unwrap();
    let mut bad = 0;
    for page in 0..model.len() / PAGE {
        let at = page * PAGE;
        match mapping.try_read(at..at + PAGE, |bytes| bytes == &model[at..at + PAGE]) {
            Ok(same) => assert!(same, "page {page}"),
            Err(error) => {
                assert!(
                    matches!(error, Error::Read { offset, .. } if offset == at as u64),
                    "{error}"
                );
                assert_eq!(error.errno(), rustix::io::Errno::IO.raw_os_error());
                let error = mapping.copy_to(&mut [0; 10], at).unwrap_err();
                assert!(matches!(error, Error::Read { .. }), "{error}");
                bad += 1;
            }
        }
    }
    let chunks = std::fs::read_dir(folder.path().join("c")).unwrap().count();
    assert_eq!(bad, chunks, "one page a chunk, and its neighbours are read");
}

#[test]
fn a_touch_of_a_page_that_is_damaged_in_the_store_is_a_signal_after_a_warning_that_says_why() {
    let name =
        "mapping::a_touch_of_a_page_that_is_damaged_in_the_store_is_a_signal_after_a_warning_that_says_why";
    if let Ok(said) = std::env::var(CHILD) {
        let (faults, url) = said.split_once(' ').unwrap();
        let (cache, volumes) = mapping_cache().unwrap();
        let store = volumes.store(&cache, url, options().take_over(true)).unwrap();
        let file = store.open("a").unwrap();
        let faults = BOTH[usize::from(faults == "InThread")];
        let options = MapOptions::new().faults(faults).writable(true);
        let mapping = file.map(.., &options).unwrap();
        let sum: u64 = mapping
            .words()
            .iter()
            .step_by(WORDS)
            .map(|word| word.load(Relaxed) & 1)
            .sum();
        panic!("all of it was read: {sum}");
    }
    if mapping_cache().is_none() {
        return;
    }
    let folder = damaged();
    for faults in BOTH {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, format!("{faults:?} {}", folder.url))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.signal(), Some(SIGBUS), "{faults:?}: {said}");
        assert!(
            said.contains("a thread that has touched byte "),
            "{faults:?}: {said}"
        );
    }
}
