//! A thread that needs frames asks the core for them, and waits while there are none.

use super::waits::FrameWait;
use super::{Engine, StepAnswer};
use crate::error::Result;
use crate::files::FileInner;
use crate::frames::table::Load;
use crate::observe::explain::Wait;
use crate::sys::clock::Patience;
use millpond_core::event::{Event, Intent};
use millpond_core::frame::FrameTable;
use millpond_core::units::{PageIndex, PageKey};
use std::ops::Range;
use std::time::Duration;

/// A call that waits for a frame asks again after this time at most.
const ASKS_EVERY: Duration = Duration::from_millis(250);

/// Returns how long a call that has `waited` for a frame waits before it asks again, given the core's bound `at_most`. The
/// bound exists because the drop of a guard is not announced. Each request looks through all of memory, which took 20 to
/// 40 % of a processor at one request each 4 ms. So a wait may last a quarter longer than needed, by a quarter of a second at
/// most.
pub(crate) fn until_asking(at_most: Duration, waited: Duration) -> Duration {
    at_most.max((waited / 4).min(ASKS_EVERY))
}

/// The most pages that one fault asks for: 1 MiB of 4 KiB pages, which is one read of the device.
pub(crate) const PAGES_MAX: u64 = 256;

/// Which pages a fault may bring in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// The pages of the file as it is when this fault has its turn. A thread that cuts the file stores the new length
    /// before it takes the core lock to discard the pages behind it, so none comes back afterwards.
    Inside,
    /// Any page, if the file has at least this many bytes. Pages on their way out are not overwritten
    /// ([`Hole`](crate::files)).
    Within(u64),
    /// Any page: the caller is making the file longer.
    Beyond,
}

/// The outcome of a call for frames that the caller fills.
pub(crate) enum Granted {
    /// One frame for each page from the first on, up to the next one in memory.
    Frames(Vec<Load>),
    /// The first page is in memory by now, or on its way.
    There,
    /// There is no frame, and the caller must not wait.
    NoFrame,
    /// The first page is not within reach.
    Outside,
}

/// A thread that needs frames for pages of a file.
#[derive(Clone, Copy)]
pub(crate) struct PageFaults<'a> {
    engine: &'a Engine,
    file: &'a FileInner,
}

impl<'a> PageFaults<'a> {
    pub(crate) fn of(engine: &'a Engine, file: &'a FileInner) -> PageFaults<'a> {
        PageFaults { engine, file }
    }

    /// Asks for frames for missing pages that the caller overwrites.
    ///
    /// # Errors
    /// [`Error::NoFrames`] with `may_wait` if none came free, [`Error::Poisoned`].
    pub(crate) fn grant(self, pages: Range<u64>, reach: Reach, may_wait: bool) -> Result<Granted> {
        let Some(answer) = self.fault(pages, (Intent::Overwrite, reach), may_wait)? else {
            return Ok(Granted::Outside);
        };
        Ok(if !answer.granted.is_empty() {
            Granted::Frames(answer.granted)
        } else if answer.wait.is_some() {
            Granted::NoFrame
        } else {
            Granted::There
        })
    }

    /// Asks for frames for the first missing pages, up to the next one in memory and [`PAGES_MAX`]. With `may_wait`, waits
    /// for a frame. An answer without frames means that the first page is there, or on its way. `None`: it is not within
    /// `reach`.
    ///
    /// # Errors
    /// [`Error::NoFrames`], [`Error::Poisoned`].
    pub(super) fn fault(
        self,
        pages: Range<u64>,
        (intent, reach): (Intent, Reach),
        may_wait: bool,
    ) -> Result<Option<StepAnswer>> {
        let PageFaults { engine, file } = self;
        let first = PageIndex(pages.start);
        let count = (pages.end - pages.start).min(PAGES_MAX);
        let (mut patience, mut slept) = (Patience::new(), Duration::ZERO);
        let mut wait = FrameWait::new(&engine.waits.frames, &engine.clock);
        loop {
            engine.call_flags.check()?;
            let seen = engine.waits.frames.events.count();
            let mut answer = StepAnswer::default();
            // Without the lock: a thread that cleans memory needs it.
            answer.room.reserve(count as usize);
            let has_reclaimed;
            {
                let mut core = engine.core();
                let within = match reach {
                    Reach::Inside => file
                        .len()
                        .div_ceil(engine.page_size.bytes())
                        .saturating_sub(first.0),
                    Reach::Within(bytes) if file.len() < bytes => 0,
                    // A page on its way out is not made anew. This is under the lock, so the thread that makes the hole finds
                    // those that were granted before.
                    Reach::Within(_) if intent == Intent::Overwrite => file.hole.pages_before(first.0),
                    Reach::Within(_) | Reach::Beyond => u64::MAX,
                };
                if within == 0 {
                    wait.ends();
                    return Ok(None);
                }
                let missing = {
                    let table = engine.table.locked(&mut core.token);
                    let is_missing = |n: &u64| table.lookup(PageKey::new(file.id, first.after(*n))).is_none();
                    let wanted = 0..count.min(within);
                    wanted.take_while(is_missing).count() as u32
                };
                if missing == 0 {
                    wait.ends();
                    return Ok(Some(answer));
                }
                let event = Event::Fault {
                    file: file.id,
                    first,
                    count: missing,
                    intent,
                };
                let stalls = core.manager.stats().allocstall;
                let stepped = engine.clock.now();
                core.step_into(event, &mut answer);
                has_reclaimed = core.manager.stats().allocstall > stalls;
                if has_reclaimed {
                    let took = engine.clock.now().since(stepped);
                    engine.waits.frames.reclaimed(took);
                }
                match answer.wait.is_some() && may_wait {
                    true => wait.waits(core.manager.clean()),
                    false => wait.ends(),
                }
            }
            if has_reclaimed && may_wait {
                // The cache's thread was woken long ago. If it only waits for a processor, it can have this one.
                std::thread::yield_now();
            }
            let Some(at_most) = answer.wait else {
                return Ok(Some(answer));
            };
            if !may_wait {
                return Ok(Some(answer));
            }
            engine.look();
            patience.slept(slept);
            let waited = patience.waited();
            if waited > engine.patience() {
                wait.ends();
                return Err(engine.no_frames(waited));
            }
            slept = until_asking(Duration::from_nanos(at_most.0), waited);
            engine.timed_writes(Wait::Frame, || engine.waits.frames.events.wait(seen, slept));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Error, OpenOptions, PageCache};

    /// All of memory used to be looked through twice each 4 ms.
    #[test]
    fn who_waits_for_a_frame_while_guards_have_them_all_asks_now_and_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, [7; 1 << 20]).unwrap();
        let cache = PageCache::builder().memory(800 << 10).build().unwrap();
        let file = cache.open(&path, OpenOptions::new()).unwrap();
        cache.set(&[("alloc_timeout", "10ms")]).unwrap();
        let mut guards = Vec::new();
        while let Ok(guard) = file.page(guards.len() as u64) {
            guards.push(guard);
        }
        cache.set(&[("alloc_timeout", "2s")]).unwrap();
        let before = cache.stats().counters;
        let error = file.page(guards.len() as u64).unwrap_err();
        assert!(matches!(error, Error::NoFrames { .. }), "{error}");
        let after = cache.stats().counters;
        // Some 25 each; there were 400 and more.
        let asked = after.allocstall - before.allocstall;
        let woken = after.kswapd_wakeups - before.kswapd_wakeups;
        assert!(asked < 100 && woken < 100, "{asked} times, {woken} times");
    }

    #[test]
    fn who_holds_all_frames_and_wants_one_more_is_told_so_and_gets_it_after_letting_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, [7; 1 << 20]).unwrap();
        let cache = PageCache::builder().memory(800 << 10).build().unwrap();
        cache.set(&[("alloc_timeout", "3s")]).unwrap();
        let file = cache.open(&path, OpenOptions::new()).unwrap();
        let mut guards = Vec::new();
        let error = loop {
            match file.page(guards.len() as u64) {
                Ok(guard) => guards.push(guard),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::NoFrames { .. }), "{error}");
        let wanted = guards.len() as u64;
        assert!(guards.iter().all(|guard| guard[4095] == 7));
        let error = file.read_at(&mut [0; 10], wanted << 12).unwrap_err();
        assert!(matches!(error, Error::NoFrames { .. }), "{error}");
        // All of them are clean pages, and in use.
        let waits = cache.stats().frame_waits;
        assert!(waits.count >= 2, "{waits:?}");
        let second = std::time::Duration::from_secs(1);
        assert!(waits.longest_with_clean > second && waits.longest >= waits.longest_with_clean);
        assert!(waits.total > 2 * second);
        guards.truncate(guards.len() / 2);
        assert_eq!(file.page(wanted).unwrap()[0], 7);
    }
}
