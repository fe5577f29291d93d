//! The cache's one thread: takes in completions, reclaims in the background, sends ticks.

use crate::device::{Completion, Device};
use crate::engine::driver::{CoreGuard, Engine, until};
use crate::sys::threads;
use millpond_core::event::Event;
use millpond_core::units::PageCount;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Completions for which there is memory from the start: twice what a ring has under way.
const COMPLETIONS: usize = 512;

/// Batches of reclaim between two looks at the device.
const RECLAIM_BATCHES: u32 = 8;

/// When all of memory is in guards and clean there is nothing to be had, and a thread that wants a frame
/// wakes reclaim all the same. So reclaim rests for so many times as long as it took to find that out, as a
/// dropped guard is not announced. A thread that waits for a frame meanwhile reclaims for itself.
const RESTS: u32 = 50;
const RESTS_MAX: Duration = Duration::from_secs(1);

/// Starts it.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn start(engine: Arc<Engine>) -> std::io::Result<std::thread::JoinHandle<()>> {
    let cache = Arc::downgrade(&engine);
    engine.device.if_the_hook_panics(move || {
        if let Some(engine) = cache.upgrade() {
            engine.poison("its hook for warnings has panicked; the message is on standard error".into());
            engine.device.wake();
        }
    });
    threads::spawn("millpond", move || {
        let _poisons = engine.poison_on_panic("background thread");
        run(&engine);
    })
}

fn run(engine: &Engine) {
    // No more can be completed at a time than a device has under way.
    let mut done: Vec<Completion> = Vec::with_capacity(COMPLETIONS);
    let mut unchecked = Vec::new();
    let mut reclaimer = Reclaimer::default();
    while !engine.stopping.load(Ordering::Acquire) && !engine.call_flags.is_poisoned() {
        #[cfg(test)]
        engine
            .allocations
            .store(crate::sys::counted::allocations(), Ordering::SeqCst);
        let tick = until(engine.clock.now(), engine.tick_at.load(Ordering::Relaxed));
        let timeout = match reclaimer.due() {
            None => tick,
            Some(due) => Some(tick.map_or(due, |tick| tick.min(due))),
        };
        if let Err(error) = engine.device.wait(&mut done, timeout) {
            return engine.poison(format!("the device reports no completions any more: {error}"));
        }
        let mut outbox = engine.outbox();
        if !done.is_empty() {
            let mut core = CoreGuard::lock(outbox);
            for Completion { token, result } in done.drain(..) {
                unchecked.extend(core.completed(token, result));
                // A batch may be all that the device had in transit: a miss waits for one of them at most.
                core.bump();
            }
            outbox = core.unlock();
        }
        for read in unchecked.drain(..) {
            outbox = read.check(engine, outbox);
        }
        let is_time = engine.clock.now().0 >= engine.tick_at.load(Ordering::Relaxed);
        if is_time {
            let mut core = CoreGuard::lock(outbox);
            core.step(Event::Tick);
            outbox = core.unlock();
        }
        drop(outbox);
        // The flag first: what comes later is announced again.
        if engine.log_moved.swap(false, Ordering::SeqCst) {
            while !engine.release() {}
        }
        reclaimer.is_wanted |= engine.reclaim_wanted.swap(false, Ordering::Relaxed);
        if reclaimer.due() == Some(Duration::ZERO) {
            reclaimer.work(engine);
        }
    }
}

/// What reclaim in the background is at.
#[derive(Default)]
struct Reclaimer {
    is_wanted: bool,
    /// The run that is under way.
    run: Option<Run>,
    /// It looked at all of memory, and nothing could be had.
    rests_until: Option<Instant>,
}

struct Run {
    took: Duration,
    /// Whether something left memory, or is on its way.
    is_of_use: bool,
}

impl Reclaimer {
    /// In how long it has something to do.
    fn due(&self) -> Option<Duration> {
        let is_due = self.run.is_some() || self.is_wanted;
        let rests = |until: Instant| until.saturating_duration_since(Instant::now());
        is_due.then(|| self.rests_until.map_or(Duration::ZERO, rests))
    }

    /// Some batches.
    fn work(&mut self, engine: &Engine) {
        (self.is_wanted, self.rests_until) = (false, None);
        let run = self.run.get_or_insert(Run {
            took: Duration::ZERO,
            is_of_use: engine.spaces.is_some(),
        });
        let began = Instant::now();
        for _ in 0..RECLAIM_BATCHES {
            let answer;
            {
                let mut core = engine.core();
                let freed = core.manager.stats().pgsteal_kswapd;
                answer = core.step(Event::Reclaim);
                run.is_of_use |= core.manager.stats().pgsteal_kswapd > freed;
                if !answer.reclaim_more && !run.is_of_use {
                    run.is_of_use = core.manager.pressure(engine.clock.now()).unclean > PageCount(0);
                }
            }
            if !answer.reclaim_more {
                run.took += began.elapsed();
                if !run.is_of_use {
                    self.rests_until = Some(Instant::now() + (run.took * RESTS).min(RESTS_MAX));
                }
                self.run = None;
                return;
            }
        }
        run.took += began.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use crate::{OpenOptions, PageCache};
    use std::sync::atomic::Ordering;

    /// Reads, writes in the background and for a sync, reclaim: eight times as much as memory holds, then the same again.
    /// Before what transfers are made of was set aside, the second time took some 2000 allocations.
    #[test]
    fn cleaning_memory_needs_no_memory_that_is_not_there() {
        let folder = crate::scratch::folder();
        let cache = PageCache::builder().memory(8 << 20).build().unwrap();
        let file = cache
            .open(folder.path().join("data"), OpenOptions::new().create(true))
            .unwrap();
        let mut bytes = vec![7; 1 << 20];
        let mut counts = Vec::new();
        for _ in 0..2 {
            for _ in 0..4 {
                (0..16).for_each(|n| file.write_at(&bytes, n << 20).unwrap());
                file.sync_data().unwrap();
                for n in 0..16 {
                    file.read_at(&mut bytes, n << 20).unwrap();
                }
            }
            let written = cache.stats().counters.nr_written;
            let allocations = file.cache.engine.allocations.load(Ordering::SeqCst);
            counts.push((written, allocations));
        }
        let [(written_before, before), (written, after)] = counts[..] else {
            panic!()
        };
        assert!(written - written_before > 8192, "{counts:?}");
        // A table may still grow to a size that it never had; it keeps it then. One for each write would be thousands.
        assert!(
            after - before <= 200,
            "the cache's thread has allocated: {counts:?}"
        );
    }

    /// The same of a region: sampled, compared, written to swap. With lists of its own for each batch that left it was 65,369
    /// allocations for 14,263 pages.
    #[test]
    fn swapping_out_needs_no_memory_that_is_not_there() {
        let folder = crate::scratch::folder();
        let swap = crate::SwapFile::new(folder.path().join("swap"), 64 << 20);
        let cache = match PageCache::builder().memory(8 << 20).swap(swap).build() {
            Err(error @ crate::Error::Setup { .. }) => return std::println!("skipped: {error}"),
            cache => cache.unwrap(),
        };
        let mut region = cache.region(32 << 20).unwrap();
        let (mut counts, mut n) = (Vec::new(), 1_u64);
        for _ in 0..2 {
            for _ in 0..20_000 {
                // Any page of the region (the multiplier is Knuth's).
                n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                region.as_mut_slice()[(n >> 33) as usize % 8192 * 4096] ^= 1;
            }
            let written = cache.stats().counters.pswpout;
            let allocations = cache.handle.engine.allocations.load(Ordering::SeqCst);
            counts.push((written, allocations));
        }
        let [(written_before, before), (written, after)] = counts[..] else {
            panic!()
        };
        assert!(written - written_before > 8192, "{counts:?}");
        // Of writes in many pieces more than were set aside may be under way: up to 202 on a machine with other work. One for
        // each batch that leaves would be thousands.
        let (pages, allocations) = (written - written_before, after - before);
        assert!(
            allocations * 20 <= pages,
            "the cache's thread has allocated: {counts:?}"
        );
    }
}
