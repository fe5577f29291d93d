//! Pages of mapped files of which a touch is `SIGBUS`: they can't be read, or the file ends before them.
//!
//! ```text
//!   can't be read ─► a warning ─► marked (UFFDIO_POISON), for a second ─► asked again
//!   behind the end ─────────────► marked ─► the file grows over it, or a thread has it in memory: the mark goes
//! ```

use super::touch::Try;
use super::{Engine, Fault, Wait};
use crate::device::Warning;
use crate::error::Error;
use crate::frames::state::State;
use crate::memory::At;
use crate::memory::mapped::MappedFile;
use millpond_core::frame::FrameTable;
use millpond_core::units::{PageIndex, PageKey};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::yield_now;
use std::time::Duration;

/// Pages of a mapped file of which a touch is `SIGBUS`.
#[derive(Clone, Copy)]
pub(crate) struct Marks<'a> {
    engine: &'a Engine,
    mapped: &'a Arc<MappedFile>,
}

impl<'a> Marks<'a> {
    pub(crate) fn of(engine: &'a Engine, mapped: &'a Arc<MappedFile>) -> Marks<'a> {
        Marks { engine, mapped }
    }

    /// A page that was touched can't be had. The warning is out before the thread gets its signal.
    pub(super) fn touch_failed(self, page: u64, why: &Error) -> Try {
        let Marks { engine, mapped } = self;
        // Not while a fault of the file is served: the hook may drop its last mapping.
        engine.device.warn(Warning::Unreadable {
            path: mapped.file.path.clone(),
            offset: engine.offset(PageIndex(page)),
            why: why.to_string(),
        });
        let _serving = mapped.serving.read();
        match mapped.space.closed.load(Ordering::Relaxed) {
            true => Try::Again,
            false => self.refuse_touch(page, false),
        }
    }

    /// No frame came free for a page that was touched, for as long as a thread waits at most.
    pub(super) fn give_up_touch(self, page: u64, waited: Duration) -> Fault {
        let engine = self.engine;
        match self.touch_failed(page, &engine.no_frames(waited)) {
            Try::Over(fault) => fault,
            _ => Fault::Later(Wait::Page),
        }
    }

    /// A touch of the page is a signal: it can't be read, or the file ends before it.
    pub(super) fn refuse_touch(self, page: u64, is_outside: bool) -> Try {
        let Marks { engine, mapped } = self;
        let space = &mapped.space;
        if space.memory.signals() {
            return Try::Over(Fault::Refused);
        }
        if space.pages.take(page, &[At::Absent]).is_none() {
            return Try::Again;
        }
        // In one order with a thread that has pinned it and looks for a mark then.
        fence(Ordering::SeqCst);
        if self.has_resident(PageKey::new(mapped.file.id, PageIndex(page))) {
            engine.spaces().settle(space, page, At::Absent);
            return Try::Again;
        }
        mapped.marked.lock().insert(page);
        let is_marked = engine.spaces().exchange.poison(&space.memory, page).is_ok();
        let to = if is_marked { At::Poisoned } else { At::Absent };
        engine.spaces().settle(space, page, to);
        engine.spaces().exchange.wake(&space.memory, page);
        // It may have become longer before the page was noted.
        if is_outside && page < mapped.file.len().div_ceil(engine.page_size.bytes()) {
            engine.spaces().unmark(mapped, page);
        }
        Try::Over(Fault::Refused)
    }

    /// Whether the page is in memory: under the lock, for without it one that is there may be missed (X1).
    fn has_resident(self, key: PageKey) -> bool {
        let engine = self.engine;
        let mut core = engine.core();
        let found = engine.table.locked(&mut core.token).lookup(key);
        found.is_some_and(|frame| engine.table.word(frame).state() == State::Resident)
    }

    /// A touch of the page, which the caller has pinned, is no signal, whatever became of the touches before.
    pub(super) fn unmark_pinned(self, page: u64) {
        let Marks { engine, mapped } = self;
        fence(Ordering::SeqCst);
        loop {
            engine.spaces().unmark(mapped, page);
            // A thread that marked it at that moment had it in hand, and has let go of it since or will.
            if !matches!(mapped.space.pages.at(page), At::Busy | At::Poisoned) {
                return;
            }
            yield_now();
        }
    }
}
