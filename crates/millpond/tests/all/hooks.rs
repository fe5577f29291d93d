//! What a program gives the cache to be called, and what that may do: a log's callback, a recorder, a check of pages. Where
//! it would wait for itself it is told so.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Place, bounded, until};
use millpond::internal::{Recorder, Step};
use millpond::{Advice, Error, LogOrder, OpenOptions, PageCache, PageCheck};
use std::sync::{Arc, Mutex, OnceLock};

const PAGE: u64 = 4096;

type Late<T> = Arc<OnceLock<T>>;

/// Each of these waited for the callback, which was waiting for it.
#[test]
fn a_logs_callback_that_syncs_or_drops_a_file_of_its_log_does_not_wait_for_itself() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let file: Arc<Mutex<Option<millpond::File>>> = Arc::default();
        let said: Late<Error> = Arc::default();
        let (own, synced) = (file.clone(), said.clone());
        let flush = move |n| {
            if let Some(file) = own.lock().unwrap().take() {
                synced.set(file.sync_data().unwrap_err()).unwrap();
                // The last handle: its page waits for this very call.
                drop(file);
            }
            Ok(n)
        };
        let log = LogOrder::with_flush(flush).unwrap();
        let options = OpenOptions::new().create(true).log(&log);
        let only = cache.open(&path, options).unwrap();
        only.set_len(PAGE).unwrap();
        let mut page = only.page_mut(0).unwrap();
        page.fill(9);
        page.set_order(7).unwrap();
        drop(page);
        *file.lock().unwrap() = Some(only);
        // Another file of the log asks for it.
        let options = OpenOptions::new().create(true).log(&log);
        let other = cache.open(folder.path().join("other"), options).unwrap();
        other.set_len(PAGE).unwrap();
        other.page_mut(0).unwrap().set_order(7).unwrap();
        other.sync_data().unwrap();
        let said = said.get().unwrap();
        assert!(matches!(said, Error::Log { .. }), "{said}");
        assert!(said.to_string().contains("would wait for itself"), "{said}");
        // Waits for the end of the first one.
        let again = cache.open(&path, OpenOptions::new()).unwrap();
        assert_eq!(again.page(0).unwrap()[..], [9; PAGE as usize]);
        assert!(cache.take_lost().is_empty());
    });
}

#[derive(Debug)]
struct Uses(Late<PageCache>);

impl Recorder for Uses {
    fn step(&mut self, _: Step<'_>) {
        if let Some(cache) = self.0.get() {
            cache.stats();
        }
    }
}

struct Reads(Late<PageCache>);

impl PageCheck for Reads {
    fn before_write(&self, _: u64, _: &mut [u8]) {
        if let Some(cache) = self.0.get() {
            cache.stats();
        }
    }

    fn after_read(&self, _: u64, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// Under the lock that the call wants, so that the thread waited for itself and all others for it.
#[test]
fn a_recorder_or_a_check_that_uses_its_own_cache_poisons_it_and_hangs_nobody() {
    for by_check in [false, true] {
        bounded(move || {
            let folder = Place::Disk.folder();
            let late: Late<PageCache> = Arc::default();
            let builder = PageCache::builder().memory(2 << 20);
            let builder = match by_check {
                true => builder,
                false => builder.recorder(Uses(late.clone())),
            };
            let cache = builder.build().unwrap();
            let options = OpenOptions::new().create(true);
            let options = match by_check {
                true => options.check(Arc::new(Reads(late.clone()))),
                false => options,
            };
            let file = cache.open(folder.path().join("data"), options).unwrap();
            assert!(late.set(cache.clone()).is_ok());
            let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                file.write_at(&[1; PAGE as usize], 0)?;
                file.sync_data()
            }));
            assert!(!matches!(used, Ok(Ok(()))), "{used:?}");
            until("the cache is poisoned", || {
                matches!(file.advise(Advice::Normal), Err(Error::Poisoned { .. }))
            });
        });
    }
}
