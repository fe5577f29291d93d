//! Pages of mapped files that are written: opened by the first write, shut (`unmap.rs`) when the frame is to have them.
//!
//! ```text
//!   a write of a protected page ─► room for a dirty page? ─► in hand ─► EXCLUSIVE, DIRTY ─► Dirtied ─► open
//!                                     no: the thread waits                                             │ written, without us
//!   the flusher, a reader, a scan ─► in hand ─► the frame's old memory goes ─► MOVE to the frame ─► out, dirty
//! ```
//!
//! An open page is like one that a thread has locked for changing, for as long as the mapping has it. It leaves the mapping by
//! `UFFDIO_MOVE` only, which the kernel refuses while a device may write into the page: so no byte is lost that a thread or
//! a device has put there, and what the flusher writes is a page that nobody changes.

use super::touch::Try;
use super::{Dirtier, Dirtying, Doubles, Engine, Fault, Wait};
use crate::device::Warning;
use crate::memory::At;
use crate::memory::mapped::MappedFile;
use crate::sys::signals::end_if_told;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How soon a thread that may not write a page now looks again: next to nothing beside the seconds until the next try of a
/// disk that is full.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Pages of a mapped file that threads begin to write.
#[derive(Clone, Copy)]
pub(crate) struct Opening<'a> {
    engine: &'a Engine,
    mapped: &'a Arc<MappedFile>,
}

impl<'a> Opening<'a> {
    pub(crate) fn of(engine: &'a Engine, mapped: &'a Arc<MappedFile>) -> Opening<'a> {
        Opening { engine, mapped }
    }

    /// Whether a page of the file may be opened now. `may_wait`: waits for that a while, as the calling thread is the one that
    /// writes it.
    pub(super) fn may_open(self, may_wait: bool) -> bool {
        let Opening { engine, mapped } = self;
        let file = &mapped.file;
        self.tell_of_stores();
        if !may_wait {
            return Dirtier::of(engine, file).may_dirty().unwrap_or(false);
        }
        let seen = engine.waits.dirtiers.events.count();
        let accepted = Dirtier::of(engine, file).accept(Dirtying::Asked, 1);
        let may = accepted
            .and_then(|_| Dirtier::of(engine, file).throttle())
            .is_ok();
        if !may {
            end_if_told();
            // It is told by nothing but its wait: a store has no error. A sync has.
            engine.waits.dirtiers.events.wait(seen, LOOK_AGAIN);
        }
        may
    }

    /// Warns if stores wait because too much of the file can't be written, and was not said yet.
    fn tell_of_stores(self) {
        let Opening { engine, mapped } = self;
        let refused = Dirtier::of(engine, &mapped.file).check_accepts();
        let waits = &mapped.stores_wait;
        if waits.load(Ordering::Relaxed) == refused.is_err()
            || waits.swap(refused.is_err(), Ordering::Relaxed)
        {
            return;
        }
        if let Err(why) = refused {
            let (path, why) = (mapped.file.path.clone(), why.to_string());
            engine.device.warn_soon(Warning::StoresWait { path, why });
        }
    }

    /// The word of a page that we hold says that threads may write it. `false`: not now.
    pub(super) fn open_word(self, page: u64, frame: FrameNo) -> bool {
        let Opening { engine, mapped } = self;
        // After no other thread can use it: a thread that punches, or makes the file longer, stores that first and then looks
        // for the page.
        let opened = engine.table.open(frame, || mapped.file.may_open(page));
        if opened == Some(true) && !mutation::is(Mutation::OpenedPageIsUnknown) {
            Dirtier::of(engine, &mapped.file).dirtied(PageIndex(page), &[frame]);
        }
        opened.is_some()
    }

    /// A thread writes a write-protected page, which we hold.
    pub(super) fn open_page(self, page: u64, may_wait: bool) -> Try {
        let Opening { engine, mapped } = self;
        let space = &mapped.space;
        let frame = engine.frame_of(space, page);
        if !self.open_word(page, frame) {
            engine.spaces().settle(space, page, At::Mapped);
            if !may_wait {
                return Try::Over(Fault::Later(Wait::Page));
            }
            let key = PageKey::new(mapped.file.id, PageIndex(page));
            engine.watched(&mapped.file, page, |slow| {
                engine.table.wait_unpinned(frame, key, slow);
            });
            if !mapped.file.may_open(page) {
                mapped.file.wait_openable(page);
            }
            return Try::Again;
        }
        let residence = space.pages.residence(page);
        space.pages.note_residence(page, residence.opened());
        // If the kernel can't now the thread comes again.
        engine.spaces().exchange.open(&space.memory, page);
        engine.spaces().settle(space, page, At::Mapped);
        Doubles::of(engine).enqueue(space, page, false);
        Try::Over(Fault::Served)
    }
}
