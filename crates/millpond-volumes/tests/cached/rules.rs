//! Checks of pages and the order of a log, on files of a store.

use crate::{Folder, PAGE, cache, elsewhere, options, pattern};
use millpond::{Error, LogOrder, OpenOptions, PageCheck};
use millpond_volumes::{Store, StoreReader};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// The sum of the others in the last byte.
struct Sum;

fn sum(bytes: &[u8]) -> u8 {
    bytes[..bytes.len() - 1]
        .iter()
        .fold(1, |sum, byte| sum.wrapping_mul(3).wrapping_add(*byte))
}

impl PageCheck for Sum {
    fn before_write(&self, _: u64, bytes: &mut [u8]) {
        *bytes.last_mut().unwrap() = sum(bytes);
    }

    fn after_read(&self, page: u64, bytes: &[u8]) -> Result<(), String> {
        let is_new = bytes.iter().all(|byte| *byte == 0);
        match is_new || bytes[bytes.len() - 1] == sum(bytes) {
            true => Ok(()),
            false => Err(format!("page {page} has another sum")),
        }
    }
}

#[test]
fn pages_of_a_store_are_stamped_when_they_are_written_and_checked_when_they_are_read() {
    let folder = Folder::new();
    for url in ["memory://checked", &folder.url] {
        let checked = || OpenOptions::new().check(Arc::new(Sum));
        let (cache, volumes) = cache();
        let store = volumes.store(&cache, url, options()).unwrap();
        let file = store.create_with("a", checked()).unwrap();
        // More than the budget, so that pages leave it and come back.
        let mut model = pattern(12 << 20);
        file.write_at(&model, 0).unwrap();
        for page in model.chunks_mut(PAGE) {
            page[PAGE - 1] = sum(page);
        }
        let mut found = vec![0; PAGE];
        for at in (0..model.len()).step_by(64 << 10) {
            file.read_at(&mut found, at as u64).unwrap();
            assert!(found[..PAGE - 1] == model[at..at + PAGE - 1], "byte {at}");
        }
        file.close().unwrap();
        store.close().unwrap();
        assert!(elsewhere(url, "a") == model, "{url}");

        // A page that is whole for the store, and was not stamped.
        let plain = Store::open(url, options()).unwrap();
        let bytes = [9; PAGE];
        plain
            .open_file("a")
            .unwrap()
            .write_at(&bytes, 5 * PAGE as u64)
            .unwrap();
        plain.close().unwrap();
        let (cache, volumes) = self::cache();
        let store = volumes.store(&cache, url, options()).unwrap();
        let file = store.open_with("a", checked()).unwrap();
        let error = file.page(5).unwrap_err();
        assert!(matches!(error, Error::Check { .. }), "{error}");
        assert!(error.to_string().contains("page 5 has another sum"), "{error}");
        assert_eq!(file.page(6).unwrap()[..], model[6 * PAGE..7 * PAGE]);
        // All handles of a file have its check.
        assert!(store.open_with("a", checked()).is_err(), "another check");
        assert!(store.open("a").unwrap().page(5).is_err());
    }
}

#[test]
fn no_page_is_in_a_commit_before_the_log_record_that_it_depends_on_is_durable() {
    let folder = Folder::new();
    for url in ["memory://ordered", &folder.url] {
        let (cache, volumes) = cache();
        let store = volumes.store(&cache, url, options()).unwrap();
        let order = LogOrder::new();
        let pages = store
            .create_with("pages", OpenOptions::new().log(&order))
            .unwrap();
        pages.set_len(2 * PAGE as u64).unwrap();
        let other = store.create("other").unwrap();
        let mut page = pages.page_mut(1).unwrap();
        page[0] = b'P';
        page.set_order(20).unwrap();
        drop(page);
        // A commit of all of the store, as far as it is there.
        other.write_at(b"other", 0).unwrap();
        other.sync_data().unwrap();
        assert_eq!(elsewhere(url, "other"), b"other");
        assert!(elsewhere(url, "pages").iter().all(|byte| *byte == 0));
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| pages.sync_data());
            other.write_at(b"OTHER", 0).unwrap();
            other.sync_data().unwrap();
            assert_eq!(elsewhere(url, "pages").get(PAGE), Some(&0));
            assert!(!syncing.is_finished());
            order.advance(20);
            syncing.join().unwrap().unwrap();
        });
        assert_eq!(elsewhere(url, "pages")[PAGE], b'P');
    }
}

/// The log is a file of the same store: its record is in a commit before that of the page.
#[test]
fn a_log_that_is_a_file_of_the_store_is_there_before_the_pages_that_depend_on_it() {
    let url = "memory://log-in-store";
    let (cache, volumes) = cache();
    let store = volumes.store(&cache, url, options()).unwrap();
    let log = store.create("log").unwrap();
    let reader = StoreReader::open(url, options()).unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let order = {
        let (log, asked, seen) = (store.open("log").unwrap(), asked.clone(), seen.clone());
        LogOrder::with_flush(move |record| {
            asked.fetch_add(1, SeqCst);
            log.sync_data()
                .map_err(|error| std::io::Error::other(error.to_string()))?;
            reader.poll().map_err(std::io::Error::other)?;
            let pages = reader.open_file("pages").and_then(|file| {
                let mut page = vec![0; PAGE];
                file.read_at(&mut page, 0)?;
                Ok(page[0])
            });
            seen.lock().unwrap().push((record, pages.unwrap_or(0)));
            Ok(record)
        })
        .unwrap()
    };
    let pages = store
        .create_with("pages", OpenOptions::new().log(&order))
        .unwrap();
    pages.set_len(PAGE as u64).unwrap();
    for record in 1..=3u8 {
        log.append(&[record; 10]).unwrap();
        let mut page = pages.page_mut(0).unwrap();
        page[0] = record;
        page.set_order(u64::from(record)).unwrap();
        drop(page);
        pages.sync_data().unwrap();
        assert_eq!(elsewhere(url, "pages")[0], record);
        assert_eq!(elsewhere(url, "log").len(), 10 * usize::from(record));
    }
    assert_eq!(asked.load(SeqCst), 3);
    assert_eq!(
        *seen.lock().unwrap(),
        [(1, 0), (2, 1), (3, 2)],
        "the page was not there before its record"
    );
}
