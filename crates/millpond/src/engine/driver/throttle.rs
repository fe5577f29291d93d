//! A thread that makes pages dirty: it reports them, and pauses while too much is dirty.

use super::{Core, Engine, StepAnswer};
use crate::error::{Error, Result};
use crate::files::FileInner;
use crate::files::order;
use crate::observe::explain::Wait;
use crate::sys::clock::Patience;
use millpond_core::dirty::DirtierId;
use millpond_core::event::Event;
use millpond_core::units::{FrameNo, Nanos, PageIndex};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// One call may take one part in this many of the room left beside unwritable pages: others look at the same time.
const SHARE: u64 = 8;

/// How soon a thread that finds no room looks again: little compared with the seconds until the next try.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How soon a thread that has requested a try of a page checks whether it was made, since nothing announces it.
const TRY: Duration = Duration::from_millis(1);

/// What to report about pages for which there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dirtying {
    /// An error, to the thread that changes the pages.
    Asked,
    /// Nothing: their writer was told long ago that they are written, so refusing them would lose them.
    Promised,
}

/// How long a dirtier waits while nothing is written and some file is known to be unwritable. Rare: dirtiers don't wait for
/// unwritable pages, unless these leave no room in memory.
const PATIENCE_WITH_ERRORS: Duration = Duration::from_secs(2);

/// A thread that makes pages of a file dirty.
#[derive(Clone, Copy)]
pub(crate) struct Dirtier<'a> {
    engine: &'a Engine,
    file: &'a FileInner,
}

impl<'a> Dirtier<'a> {
    pub(crate) fn of(engine: &'a Engine, file: &'a FileInner) -> Dirtier<'a> {
        Dirtier { engine, file }
    }

    /// Reports pages of the caller that went from clean to dirty. Returns whether the caller must pause afterwards.
    pub(crate) fn dirtied(self, first: PageIndex, frames: &[FrameNo]) -> bool {
        let Dirtier { engine, file } = self;
        let event = Event::Dirtied {
            file: file.id,
            first,
            frames,
            dirtier: dirtier(),
        };
        engine.core().step(event).pause.is_some()
    }

    /// Pauses a dirtier that was told to, until it may go on. A log's callback never pauses, because dirty pages may wait for
    /// it.
    ///
    /// # Errors
    /// `Error::Write` or `Error::Log` if too much of this file can't be written, or after a while without any write of
    /// another;
    /// `Error::NoFrames` if nothing is written for long, because guards are held; `Error::Poisoned`.
    pub(crate) fn pause(self) -> Result<()> {
        let engine = self.engine;
        engine.timed_writes(Wait::DirtyLimit, || self.pause_until_told())
    }

    fn pause_until_told(self) -> Result<()> {
        let Dirtier { engine, file } = self;
        let mut progress = (self.written_pages(), Patience::new());
        let calls = file.writeback_rules.log_calls();
        loop {
            engine.call_flags.check()?;
            self.check_accepts()?;
            file.writeback_rules.check_log(&file.path, calls)?;
            if order::is_callback() {
                return Ok(());
            }
            // Ask before sleeping: the only wake-up may have come between the answer and this line. Also, the thread has since
            // released its pages, which may be the only ones that can be written.
            let seen = engine.waits.dirtiers.events.count();
            let Some(at_most) = self.resume() else {
                return Ok(());
            };
            let at_most = Duration::from_nanos(at_most.0);
            engine.waits.dirtiers.events.wait(seen, at_most);
            let written = self.written_pages();
            if written != progress.0 {
                progress = (written, Patience::new());
                continue;
            }
            engine.look();
            progress.1.slept(at_most);
            let (stuck, patience) = (progress.1.waited(), engine.patience());
            if stuck > patience.min(PATIENCE_WITH_ERRORS) {
                self.check_none_fails()?;
            }
            if stuck > patience {
                return self.check_none_is_late().and(Err(self.too_dirty(stuck)));
            }
        }
    }

    /// Returns how many of `most` pages of the file may become dirty. Waits, for a bounded time, while unwritable pages leave
    /// no room. Promised pages may take all the room, and make the device try once more.
    ///
    /// # Errors
    /// As [`Dirtier::pause`]; for promised pages no `Error::Write` of this file as long as there is room.
    pub(crate) fn accept(self, why: Dirtying, most: usize) -> Result<usize> {
        let engine = self.engine;
        if why == Dirtying::Asked {
            self.check_accepts()?;
        }
        match engine.waits.dirtiers.failing.load(Ordering::Relaxed) {
            true => engine.timed_writes(Wait::DirtyLimit, || self.wait_for_room(why, most)),
            false => Ok(most),
        }
    }

    fn wait_for_room(self, why: Dirtying, most: usize) -> Result<usize> {
        let engine = self.engine;
        let mut own = Patience::new();
        let mut has_asked = why == Dirtying::Asked;
        loop {
            engine.call_flags.check()?;
            let left = self.room();
            if left > 0 {
                engine.waits.dirtiers.has_room();
                return Ok(most.min((left / SHARE).max(1) as usize));
            }
            if why == Dirtying::Asked {
                self.check_accepts()?;
            }
            if order::is_callback() {
                // Dirty pages may wait for it.
                return Ok(1);
            }
            engine.look();
            own.slept(LOOK_AGAIN);
            let (waited, patience) = (own.waited(), engine.patience());
            let full_for = engine.waits.dirtiers.full_for(self.written_pages(), LOOK_AGAIN);
            if has_asked && full_for > patience.min(PATIENCE_WITH_ERRORS) || waited > patience {
                self.check_none_fails()?;
                return self.check_none_is_late().and(Err(self.too_dirty(waited)));
            }
            if why == Dirtying::Promised {
                // The page's own next try may be half a minute away.
                self.try_failed();
                if !std::mem::replace(&mut has_asked, true) {
                    continue;
                }
            }
            let seen = engine.waits.dirtiers.events.count();
            engine.waits.dirtiers.events.wait(seen, LOOK_AGAIN);
        }
    }

    /// Returns how many pages may become dirty beside the unwritable ones.
    fn room(self) -> u64 {
        let Dirtier { engine, file } = self;
        let core = engine.core();
        let left = core.manager.left(file.id);
        // Under the lock, where it is set as well.
        engine
            .waits
            .dirtiers
            .failing
            .store(left.is_some(), Ordering::Relaxed);
        left.map_or(u64::MAX, |left| left.0)
    }

    /// Returns whether a page of the file may become dirty now, without [waiting for room](Dirtier::accept) or
    /// [pausing](Dirtier::throttle).
    ///
    /// # Errors
    /// `Error::Write` if too much of this file can't be written.
    pub(crate) fn may_dirty(self) -> Result<bool> {
        let engine = self.engine;
        self.check_accepts()?;
        let has_room = !engine.waits.dirtiers.failing.load(Ordering::Relaxed) || self.room() > 0;
        Ok(
            has_room
                && (!engine.waits.dirtiers.throttling.load(Ordering::Relaxed) || self.resume().is_none()),
        )
    }

    /// Makes the device try a refused page again, of this file or another, and waits for the result.
    fn try_failed(self) {
        let Dirtier { engine, file } = self;
        let tried = |core: &Core| core.manager.stats().nr_written + core.manager.stats().nr_write_failed;
        let before = {
            let mut core = engine.core();
            let fails = |id| core.manager.failing(id).is_some();
            let mut others = core.files.iter().flatten().map(|file| file.id);
            let failing = fails(file.id).then_some(file.id);
            let Some(failing) = failing.or_else(|| others.find(|&id| fails(id))) else {
                return;
            };
            let before = tried(&core);
            // Under the same lock: the file may be closed right after it.
            core.step(Event::Retry { file: failing });
            before
        };
        let began = std::time::Instant::now();
        while tried(&engine.core()) == before && began.elapsed() < LOOK_AGAIN {
            let seen = engine.waits.dirtiers.events.count();
            engine.waits.dirtiers.events.wait(seen, TRY);
        }
    }

    /// Checks that the file may be changed, which ends when too many of its pages are unwritable. Asks the core only if a
    /// write of the file has failed.
    ///
    /// # Errors
    /// `Error::Write` with the device's last error.
    pub(crate) fn check_accepts(self) -> Result<()> {
        let Dirtier { engine, file } = self;
        if !file.failing.load(Ordering::Relaxed) {
            return Ok(());
        }
        let core = engine.core();
        // Under the lock, where it is set as well.
        let is_failing = core.manager.failing(file.id).is_some();
        file.failing.store(is_failing, Ordering::Relaxed);
        match core.manager.refuses(file.id) {
            None => Ok(()),
            Some(error) => Err(file.write_refused(error)),
        }
    }

    /// # Errors
    /// `Error::Write` or `Error::Log` of the first file that can't be written, if there is one.
    fn check_none_fails(self) -> Result<()> {
        let engine = self.engine;
        let core = engine.core();
        core.files.iter().flatten().try_for_each(|file| {
            let failing = core.manager.failing(file.id);
            failing.map_or(Ok(()), |(_, error)| Err(file.write_refused(error)))?;
            file.writeback_rules.check_log(&file.path, 0)
        })
    }

    /// # Errors
    /// `Error::Log` of the first file whose pages wait for their log, if there is one.
    fn check_none_is_late(self) -> Result<()> {
        let engine = self.engine;
        let files: Vec<_> = engine.core().files.iter().flatten().cloned().collect();
        let mut files = files.iter();
        files.try_for_each(|file| file.writeback_rules.check_late(&file.path))
    }

    /// Returns the number of pages written since the cache was made.
    fn written_pages(self) -> u64 {
        let engine = self.engine;
        engine.core().manager.stats().nr_written
    }

    /// Asks whether a dirtier may go on. If not, returns the longest time to wait before asking again.
    fn resume(self) -> Option<Nanos> {
        let engine = self.engine;
        let mut core = engine.core();
        let StepAnswer { pause, .. } = core.step(Event::Resume { dirtier: dirtier() });
        if pause.is_none() {
            engine.waits.dirtiers.throttling.store(false, Ordering::Relaxed);
        }
        pause
    }

    /// Returns the error of a dirtier that waited too long at the limit.
    fn too_dirty(self, waited: Duration) -> Error {
        let engine = self.engine;
        let core = engine.core();
        let derived = core.manager.derived();
        Error::NoFrames {
            frames: derived.frames.0,
            waited,
            dirty: Some((core.manager.dirty().0, derived.dirty.hard.0)),
        }
    }

    /// Called before a guard makes a page dirty: pauses if dirtiers must.
    ///
    /// # Errors
    /// As [`Dirtier::pause`].
    pub(crate) fn throttle(self) -> Result<()> {
        let engine = self.engine;
        match engine.waits.dirtiers.throttling.load(Ordering::Relaxed) {
            true => self.pause(),
            false => Ok(()),
        }
    }
}

/// Returns the calling thread's identity as a dirtier.
fn dirtier() -> DirtierId {
    use std::cell::Cell;
    use std::sync::atomic::AtomicU32;
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static OWN: Cell<u32> = const { Cell::new(0) };
    }
    OWN.with(|own| {
        if own.get() == 0 {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        DirtierId(own.get())
    })
}

#[cfg(test)]
mod tests {
    use crate::{Error, OpenOptions, Options, PageCache};
    use millpond_core::units::Nanos;

    /// A thread with guards of more changed pages than may be dirty waits for itself. It used to wait forever.
    #[test]
    fn a_thread_that_holds_as_many_changed_pages_as_may_be_dirty_is_told_to_drop_some() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            alloc_timeout: Nanos::from_millis(50),
            ..Options::default()
        };
        let builder = PageCache::builder().memory(800 << 10).options(options);
        let cache = builder.build().unwrap();
        let file = cache
            .open(folder.path().join("data"), OpenOptions::new().create(true))
            .unwrap();
        file.set_len(1 << 20).unwrap();
        let mut guards = Vec::new();
        let error = loop {
            match file.page_mut(guards.len() as u64) {
                Ok(guard) => guards.push(guard),
                Err(error) => break error,
            }
        };
        // The error named frames, most of which were free.
        let Error::NoFrames {
            frames,
            dirty: Some((dirty, hard)),
            ..
        } = error
        else {
            panic!("{error}");
        };
        let said = format!("{dirty} pages are dirty, the limit (dirty.hard) is {hard}, ");
        assert!(error.to_string().starts_with(&said), "{error}");
        assert!(dirty >= guards.len() as u64 && hard < frames, "{error}");
        drop(guards);
        // As soon as some of them are written; each call waits 50 ms at most.
        assert!((0..600).any(|_| file.page_mut(100).is_ok()));
    }
}
