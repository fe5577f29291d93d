//! Work left for after the core lock is released: requests to the device, wake-ups, and everything that calls the program.
//!
//! The outbox is filled under the lock and emptied after the unlock, in a fixed order ([`Outbox::empty`]): pages are copied,
//! warnings given, lost pages marked, checksums taken, logs asked; then the device gets its requests, threads wake, and
//! pages of regions leave. Dropping the outbox does the work, so no way out of a call can skip it. If a panic under the lock
//! drops it, it does nothing: the cache is poisoned, and half a step is nothing to act upon.

use super::mempool::{Batch, Marked};
use super::writes::WritePin;
use super::{CallBack, Engine};
use crate::device::{Device, Op, Request, Warning};
use crate::files::FileInner;
use crate::files::order::Log;
use crate::host::hook;
use crate::memory::{At, SpaceInner};
use crate::observe::events;
use crate::sys::copies::{self, Slot};
use millpond_core::io::Reason;
use millpond_core::units::PageIndex;
use std::io;
use std::sync::Arc;
use std::thread::panicking;

/// A write whose pages must be copied first.
pub(super) struct Copying {
    pub(super) file: Arc<FileInner>,
    pub(super) token: u64,
    pub(super) reason: Reason,
    pub(super) first: PageIndex,
    /// Up to the end of the file.
    pub(super) bytes: usize,
    pub(super) pages: Vec<(WritePin, Slot)>,
}

impl Copying {
    /// Copies the pages, lets the file's check stamp the copies, and releases the pages.
    fn copy(self, engine: &Engine) -> (Arc<FileInner>, Request) {
        let Copying {
            file,
            token,
            reason,
            first,
            bytes,
            pages,
        } = self;
        let mut slots = Vec::with_capacity(pages.len());
        for (n, (pin, mut slot)) in pages.into_iter().enumerate() {
            slot.bytes().copy_from_slice(&pin);
            drop(pin);
            if let Some(check) = &file.writeback_rules.check {
                let _poisons = engine.poison_on_panic("page check");
                let (page, bytes) = (first.after(n as u64).0, slot.bytes());
                hook::inside(engine, || check.before_write(page, bytes));
            }
            slots.push(slot);
        }
        let request = Request {
            token,
            op: Op::Write,
            reason: Some(reason),
            file: file.device(),
            offset: engine.offset(first),
            segments: copies::segments(slots, bytes),
        };
        (file, request)
    }
}

/// The work left by one step, or by several.
pub(crate) struct Outbox<'a> {
    engine: &'a Engine,
    /// Whether the thread was panicking before. Then the work of its unwinding is done completely.
    was_panicking: bool,
    requests: Option<Batch>,
    /// Writes whose pages must be copied first.
    pub(super) copying: Vec<Copying>,
    /// Logs that must become durable up to a record, because pages wait for it.
    pub(super) asks: Vec<(Arc<Log>, u64)>,
    /// Pages of regions whose next use must be seen, and those to be written, with their frames: their checksums are taken
    /// first.
    marked: Marked,
    /// Given after the unlock, because the receiver may use the cache.
    pub(super) warnings: Vec<Warning>,
    /// Lost pages of regions, and why. They stay in our hands until the warning is given.
    pub(super) lost: Vec<(Arc<SpaceInner>, u64, String)>,
    /// Failed writes: the file, the first page, the number of pages, and why.
    pub(super) failed: Vec<(Arc<FileInner>, PageIndex, usize, io::Error)>,
    pub(super) wake_memory: bool,
    pub(super) wake_dirtiers: bool,
    pub(super) wake_syncs: bool,
    pub(super) wake_background: bool,
}

impl Engine {
    /// Returns an empty outbox.
    pub(crate) fn outbox(&self) -> Outbox<'_> {
        Outbox {
            engine: self,
            was_panicking: panicking(),
            requests: None,
            copying: Vec::new(),
            asks: Vec::new(),
            marked: Marked::default(),
            warnings: Vec::new(),
            lost: Vec::new(),
            failed: Vec::new(),
            wake_memory: false,
            wake_dirtiers: false,
            wake_syncs: false,
            wake_background: false,
        }
    }
}

impl<'a> Outbox<'a> {
    pub(super) fn engine(&self) -> &'a Engine {
        self.engine
    }

    /// Adds a request for the device, in lists that were set aside.
    pub(super) fn submit(&mut self, file: Arc<FileInner>, request: Request) {
        let mempool = &self.engine.mempool;
        self.requests
            .get_or_insert_with(|| mempool.batch())
            .push(file, request);
    }

    /// Returns the lists for pages of regions, which were set aside.
    pub(super) fn marked(&mut self) -> &mut Marked {
        self.engine.mempool.lend(&mut self.marked);
        &mut self.marked
    }

    fn empty(&mut self) {
        let engine = self.engine;
        let _poisons = engine.poison_on_panic("device");
        for copying in std::mem::take(&mut self.copying) {
            let (file, request) = copying.copy(engine);
            self.submit(file, request);
        }
        let spaces = engine.spaces.as_ref();
        if spaces.is_some_and(|spaces| spaces.exchange.take_unlocked()) {
            engine.device.warn_soon(Warning::RegionUnlocked);
        }
        for warning in self.warnings.drain(..) {
            engine.device.warn(warning);
        }
        // A thread that has touched such a page may end the process, so the warning comes first.
        for (region, page, why) in self.lost.drain(..) {
            mark_lost(engine, &region, page, &why);
        }
        for (file, first, pages, error) in self.failed.drain(..) {
            events::write_failed(&file.path, first, pages, &error);
        }
        if let Some(spaces) = spaces {
            spaces.sum_up(&mut self.marked.written);
        }
        for (log, n) in self.asks.drain(..) {
            log.ask(n);
        }
        if let Some(batch) = self.requests.take() {
            hand_in(engine, batch);
        }
        if self.wake_memory {
            engine.waits.frames.events.notify_all();
            if let Some(spaces) = spaces {
                spaces.handlers.memory_came();
            }
        }
        if self.wake_dirtiers {
            engine.waits.dirtiers.events.notify_all();
            if let Some(spaces) = spaces {
                spaces.handlers.dirtiers_may();
            }
        }
        if self.wake_syncs {
            engine.waits.syncs.notify_all();
        }
        if self.wake_background {
            engine.device.wake();
        }
        if spaces.is_some() {
            CallBack::of(engine).sample_marked(&mut self.marked);
            engine.mempool.take_back(&mut self.marked);
        }
    }
}

/// Hands these requests to the device.
fn hand_in(engine: &Engine, mut batch: Batch) {
    for (file, request) in batch.files.drain(..).zip(&batch.requests) {
        let bytes = request.segments.bytes() as u64;
        // A write whose pages were all cut off has no bytes, and must not extend the file again.
        if request.op == Op::Write && bytes > 0 {
            file.make_room(&engine.device, request.offset + bytes);
        }
    }
    if let Err(error) = engine.device.submit(&mut batch.requests) {
        engine.poison(format!("the device takes no requests any more: {error}"));
    }
    engine.mempool.give_back(batch);
}

/// Marks a page of a region as lost, after the warning: from now on a touch of it is `SIGBUS`.
fn mark_lost(engine: &Engine, region: &SpaceInner, page: u64, why: &str) {
    let spaces = engine.spaces();
    if let Err(error) = spaces.exchange.poison(&region.memory, page) {
        // Any other content would be wrong data.
        engine.poison(format!(
            "page {page} of a region is lost ({why}) and can't be marked: {error}"
        ));
    }
    spaces.settle(region, page, At::Poisoned);
}

impl Drop for Outbox<'_> {
    fn drop(&mut self) {
        if self.was_panicking || !panicking() {
            self.empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::device::Warning;
    use crate::engine::driver::CoreGuard;
    use crate::{Error, PageCache};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Returns a cache, and the number of warnings that it has given.
    fn warned() -> (PageCache, Arc<AtomicU32>) {
        let given = Arc::new(AtomicU32::new(0));
        let counts = given.clone();
        let builder = PageCache::builder().memory(1 << 20);
        let builder = builder.on_warning(move |_| _ = counts.fetch_add(1, Ordering::Relaxed));
        (builder.build().unwrap(), given)
    }

    #[test]
    fn what_is_left_is_done_once_when_the_outbox_is_dropped_and_not_when_the_lock_is_let_go() {
        let (cache, given) = warned();
        let engine = &cache.handle.engine;
        let mut core = engine.core();
        core.outbox.warnings.push(Warning::RegionUnlocked);
        let mut core = CoreGuard::lock(core.unlock());
        core.outbox.warnings.push(Warning::RegionUnlocked);
        let outbox = core.unlock();
        assert_eq!(given.load(Ordering::Relaxed), 0);
        drop(outbox);
        assert_eq!(given.load(Ordering::Relaxed), 2);
        // No way out of a call skips it.
        let early = || -> Result<(), Error> {
            let mut core = engine.core();
            core.outbox.warnings.push(Warning::RegionUnlocked);
            engine.call_flags.check()
        };
        early().unwrap();
        assert_eq!(given.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_panic_under_the_lock_leaves_it_undone_and_one_from_before_does_not() {
        let (cache, given) = warned();
        let engine = &cache.handle.engine;
        struct Unwinds<'a>(&'a PageCache);
        impl Drop for Unwinds<'_> {
            fn drop(&mut self) {
                let mut core = self.0.handle.engine.core();
                core.outbox.warnings.push(Warning::RegionUnlocked);
            }
        }
        let before = catch_unwind(AssertUnwindSafe(|| {
            let _unwinds = Unwinds(&cache);
            panic!("a panic of the program's");
        }));
        assert!(before.is_err());
        assert_eq!(given.load(Ordering::Relaxed), 1);
        let under = catch_unwind(AssertUnwindSafe(|| {
            let mut core = engine.core();
            core.outbox.warnings.push(Warning::RegionUnlocked);
            panic!("a panic of ours");
        }));
        assert!(under.is_err());
        assert_eq!(given.load(Ordering::Relaxed), 1);
    }
}
