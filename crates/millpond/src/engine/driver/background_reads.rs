//! Reads by background tasks, which leave the device to callers that wait for it.
//!
//! ```text
//!   missing ─► does a caller wait for the device? ── no ──► read it, with what follows ─► wait for the page
//!                 │ yes                               ▲
//!                 └─ until none does, at most as long ┘
//!                    as the last such read took
//! ```
//!
//! So if callers wait all the time, a background task has half of the device's time. With less, it would hold up the work
//! that depends on it: writers of a database pause while its compaction lags behind.
//!
//! For the core these reads are read-ahead: no caller waits for them, unless another reader comes to such a page.

use super::fault::Reach;
use super::{Engine, PageFaults};
use crate::error::Result;
use crate::files::FileInner;
use crate::frames::table::Lookup;
use crate::observe::explain::{self, Wait};
use millpond_core::event::Intent;
use millpond_core::units::{PageIndex, PageKey};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait, however long the last read took, so that a device that stalled once is not left alone as long again.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// How often a background task checks whether callers still wait: the time of some reads of a flash disk.
const LOOK_EVERY: Duration = Duration::from_micros(250);

/// The state of background reads.
#[derive(Default)]
pub(crate) struct BackgroundReads {
    /// The longest wait of the next read, in nanoseconds.
    wait_max_ns: AtomicU64,
}

impl BackgroundReads {
    /// Lets the device read the first missing pages, up to the next one in memory, and waits for the first. It may still be
    /// missing afterwards: no frame was free, or the device failed.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned).
    pub(crate) fn read(&self, engine: &Engine, file: &FileInner, pages: Range<u64>) -> Result<()> {
        explain::timed(Wait::Read, || self.leave_device_to_callers(engine, file));
        let key = PageKey::new(file.id, PageIndex(pages.start));
        let began = Instant::now();
        let answer = PageFaults::of(engine, file).fault(pages, (Intent::Background, Reach::Inside), false)?;
        if answer.is_some_and(|answer| answer.ahead > 0) {
            if let Lookup::Loading(frame) = engine.table.try_pin(key, false) {
                explain::timed(Wait::Read, || engine.table.wait_loading(frame, key));
            }
            let took = began.elapsed().min(WAIT_MAX);
            self.wait_max_ns.store(took.as_nanos() as u64, Ordering::Relaxed);
        }
        engine.call_flags.check()
    }

    fn leave_device_to_callers(&self, engine: &Engine, file: &FileInner) {
        let most = Duration::from_nanos(self.wait_max_ns.load(Ordering::Relaxed));
        let began = Instant::now();
        while began.elapsed() < most && engine.core().manager.is_device_awaited(file.id) {
            thread::sleep(LOOK_EVERY.min(most));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{OpenOptions, PageCache};
    use std::sync::atomic::Ordering;

    const PAGE: usize = 4096;

    fn cache_of(pages: usize) -> (tempfile::TempDir, PageCache, crate::File) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; pages * PAGE]).unwrap();
        let cache = PageCache::builder().memory(8 << 20).build().unwrap();
        let file = cache.open(&path, OpenOptions::new()).unwrap();
        (folder, cache, file)
    }

    #[test]
    fn a_background_read_leaves_the_device_to_a_caller_that_waits_for_it() {
        let (_folder, _cache, file) = cache_of(2000);
        let background = file.background();
        background.read_at(&mut [0; PAGE], 0).unwrap();
        let engine = file.engine();
        let waits = &engine.background_reads.wait_max_ns;
        assert!(waits.load(Ordering::Relaxed) > 0, "as long as that took");
        waits.store(u64::MAX, Ordering::Relaxed);
        // A caller that has asked the device and has no answer yet.
        let pages = 1500..1501;
        let asked = (millpond_core::event::Intent::Read, super::Reach::Inside);
        let answer = super::PageFaults::of(engine, &file.inner)
            .fault(pages, asked, true)
            .unwrap()
            .unwrap();
        let far = 1000;
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| background.read_at(&mut [0; PAGE], far * PAGE as u64));
            std::thread::sleep(super::LOOK_EVERY * 40);
            let is_read = file.is_resident(far * PAGE as u64);
            super::super::Reads::of(engine, &file.inner)
                .read(
                    answer.own.unwrap(),
                    |_, _| {},
                    (false, crate::files::Shrunk::Refused),
                )
                .unwrap();
            reading.join().unwrap().unwrap();
            assert!(!is_read);
        });
        assert!(file.is_resident(far * PAGE as u64));
    }
}
