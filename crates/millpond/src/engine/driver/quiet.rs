//! Pages that memory and the device give up together: they are left alone while the device is asked.
//!
//! ```text
//!   a hole is made: no thread changes one of the pages, no write of one begins
//!     │ threads that had one in hand let go, writes that had begun end
//!     │        └─ a guard, which is kept: no hole any more until it is dropped, then again
//!     ▼
//!   the device is asked ─┬─ yes: they leave memory
//!                        └─ no: all is as it was
//! ```
//!
//! So until the device has agreed, readers see a page's content in memory and nothing older: the device's content is not read
//! before, nor written afterwards. Pages that are open in a mapping stay open: stores until they leave are lost with them.
//! The hole is not kept during a wait for a guard, since the guard's thread may want another of the pages, or memory.

use super::{Engine, Holders};
use crate::error::Result;
use crate::files::{FileInner, Making};
use crate::frames::state::State;
use crate::frames::wait::SLOW_AFTER;
use millpond_core::units::{FrameNo, PageKey};
use std::ops::Range;
use std::thread::yield_now;
use std::time::Instant;

/// A page that a thread has in hand for longer than a call would.
pub(crate) struct InChange {
    key: PageKey,
    frame: FrameNo,
}

/// Keeps pages of a file unchanged for a while.
#[derive(Clone, Copy)]
pub(crate) struct Quiet<'a> {
    engine: &'a Engine,
    file: &'a FileInner,
}

impl<'a> Quiet<'a> {
    pub(crate) fn of(engine: &'a Engine, file: &'a FileInner) -> Quiet<'a> {
        Quiet { engine, file }
    }

    /// Keeps threads from changing the pages, and the pages from being written, until the answer is dropped. The caller keeps
    /// others from changing the length, and holds none of these pages.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned). The inner error: a thread keeps one of the pages; try again after
    /// [`Quiet::wait_changed`], with no page in hand.
    pub(crate) fn try_quiet(self, pages: Range<u64>) -> Result<std::result::Result<Making<'a>, InChange>> {
        let Quiet { engine, file } = self;
        let hole = file.hole.make(&pages);
        let mut in_change = None;
        Holders::of(engine, file).each_held(pages, |held| {
            for &(key, frame) in held.iter() {
                if in_change.is_some() {
                    break;
                }
                if !self.lets_go(key, frame)? {
                    in_change = Some(InChange { key, frame });
                }
                engine.table.wait_written(frame, key);
            }
            engine.call_flags.check()
        })?;
        Ok(match in_change {
            None => Ok(hole),
            Some(in_change) => Err(in_change),
        })
    }

    /// As [`Quiet::try_quiet`], but waits for guards. The caller holds no page.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned).
    pub(crate) fn quiet(self, pages: Range<u64>) -> Result<Making<'a>> {
        loop {
            match self.try_quiet(pages.clone())? {
                Ok(hole) => return Ok(hole),
                Err(in_change) => self.wait_changed(&in_change),
            }
        }
    }

    /// Keeps the pages from being written until the answer is dropped. A thread that has one in hand may keep it. The caller
    /// keeps others from changing the length.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned).
    pub(crate) fn unwritten(self, pages: Range<u64>) -> Result<Making<'a>> {
        let Quiet { engine, file } = self;
        let hole = file.hole.make(&pages);
        Holders::of(engine, file).each_held(pages, |held| {
            for &(key, frame) in held.iter() {
                engine.table.wait_written(frame, key);
            }
            engine.call_flags.check()
        })?;
        Ok(hole)
    }

    /// Waits until the thread that had the page in hand has released it.
    pub(crate) fn wait_changed(self, in_change: &InChange) {
        let Quiet { engine, file } = self;
        let &InChange { key, frame } = in_change;
        engine.watched(file, key.index().0, |slow| {
            engine.table.wait_changed(frame, key, slow)
        });
    }

    /// Waits a moment for a thread that has had the page in hand since before the hole was made, or took it in vain since.
    /// `false`: the thread keeps it.
    fn lets_go(self, key: PageKey, frame: FrameNo) -> Result<bool> {
        let engine = self.engine;
        // A thread fills or reads it. Neither holds anything that others wait for.
        if engine.table.word(frame).state() == State::Loading {
            engine.table.wait_loading(frame, key);
        }
        let began = Instant::now();
        while engine.table.is_in_change(frame, key) {
            engine.call_flags.check()?;
            if began.elapsed() >= SLOW_AFTER {
                return Ok(false);
            }
            yield_now();
        }
        Ok(true)
    }
}
