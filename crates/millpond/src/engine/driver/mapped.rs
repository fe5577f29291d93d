//! Pages of mapped files that come.
//!
//! ```text
//!   pinned ─► in hand ─► MAPPED ─► copied in ─► a twin of the frame's ─┬─ used before: the frame's memory goes, 32 at a time
//!     ▲ read, if it is missing                                         └─ else: the mapping's goes, and its next use is seen
//! ```
//!
//! What is waited for is waited for with nothing in hand. What is written is in `open.rs`, how pages leave in `unmap.rs` and
//! `call_back.rs`, why no store and no thread is lost in `memory/mapped.rs`.

use super::touch::{StoodBack, Try};
use super::{
    By, CallBack, Doubles, Engine, Fault, Holders, MappedStates, Marks, Missing, Opening, Reads, Wait,
};
use crate::error::{Error, Result};
use crate::files::{FileInner, Shrunk};
use crate::frames::own::Waits;
use crate::frames::table::{Lookup, SharedPin, Table};
use crate::memory::mapped::MappedFile;
use crate::memory::{At, Residence};
use crate::sys::arena::Arena;
use crate::sys::arena::exchange::InHand;
use crate::sys::clock::Patience;
use crate::sys::uffd::Access;
use millpond_core::event::Event;
use millpond_core::units::{PageIndex, PageKey};
use parking_lot::{Mutex, MutexGuard};
use std::ops::Range;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::yield_now;
use std::time::Duration;

/// A thread that waits for another's turn to be over sleeps for so long at a time.
const LOCK_SLEEP: Duration = Duration::from_secs(1);

/// A page that is wanted.
enum Wanted<'a> {
    Pinned(SharedPin<&'a Table<Arena>>),
    /// A thread changes it.
    Busy,
    /// It is in the mapping by now.
    Mapped,
    /// No frame can be had, and the caller must not wait.
    NoFrame(Duration),
    /// The file ends before it.
    Outside,
}

/// What a thread that wants a page may wait for.
#[derive(Clone, Copy)]
struct May {
    /// A thread that changes it.
    wait_for_writers: bool,
    wait_for_frames: bool,
    /// It lets a writer that waits go first.
    is_polite: bool,
}

/// What has become of a page that was to be copied into a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// It is there, to be read.
    Protected,
    /// And to be written.
    Open,
    /// The system has no memory for it.
    Not,
}

/// Faults of a mapped file, served.
#[derive(Clone, Copy)]
pub(crate) struct MappedFaults<'a> {
    engine: &'a Engine,
    mapped: &'a Arc<MappedFile>,
}

impl<'a> MappedFaults<'a> {
    pub(crate) fn of(engine: &'a Engine, mapped: &'a Arc<MappedFile>) -> MappedFaults<'a> {
        MappedFaults { engine, mapped }
    }

    /// Brings a page that a thread has touched, or opens it. It is absent, or mapped and perhaps write-protected.
    pub(super) fn bring(self, page: u64, at: At, access: Access, by: By, stood_back: &mut StoodBack) -> Try {
        let MappedFaults { engine, mapped } = self;
        let (space, may_wait) = (&mapped.space, by == By::Thread);
        if space.closed.load(Ordering::Relaxed) {
            // It finds no mapping there soon.
            engine.spaces().exchange.wake(&space.memory, page);
            return Try::Over(Fault::Served);
        }
        let is_closed = at == At::Absent || space.pages.residence(page).is_protected;
        if access == Access::Write && is_closed && !Opening::of(engine, mapped).may_open(may_wait) {
            return match may_wait {
                true => Try::Again,
                false => Try::Over(Fault::Later(Wait::Page)),
            };
        }
        if at == At::Mapped {
            return match space.pages.take(page, &[At::Mapped]) {
                Some(_) => self.mapped_already(page, access, may_wait),
                None => Try::Again,
            };
        }
        MappedStates::of(engine, mapped).room_for_states(page);
        let may = May {
            wait_for_writers: may_wait,
            wait_for_frames: may_wait,
            is_polite: stood_back.again(),
        };
        let tried = self.map_page(page, access, may);
        if matches!(tried, Try::Again) {
            yield_now();
        }
        tried
    }

    /// The page, which we hold, is write-protected, or it came meanwhile; or the program has had the kernel drop it behind our
    /// back, and it comes anew.
    fn mapped_already(self, page: u64, access: Access, may_wait: bool) -> Try {
        let MappedFaults { engine, mapped } = self;
        let (space, exchange) = (&mapped.space, &engine.spaces().exchange);
        let Residence {
            is_double,
            is_protected,
        } = space.pages.residence(page);
        if access == Access::Write && is_protected {
            return Opening::of(engine, mapped).open_page(page, may_wait);
        }
        let mut to = At::Mapped;
        if !exchange.has(&space.memory, page) {
            let frame = engine.frame_of(space, page);
            let is_lost = match is_double && is_protected {
                true => {
                    engine.table.unmap(frame);
                    true
                }
                false => CallBack::of(engine).lose_copy(mapped, page, frame),
            };
            if is_lost {
                to = At::Absent;
            }
        } else if access == Access::Write {
            exchange.open(&space.memory, page);
        }
        engine.spaces().settle(space, page, to);
        exchange.wake(&space.memory, page);
        Try::Over(Fault::Served)
    }

    fn map_page(self, page: u64, access: Access, may: May) -> Try {
        let MappedFaults { engine, mapped } = self;
        let pin = match self.pin_for_mapping(&mapped.file, page, may) {
            Ok(Wanted::Pinned(pin)) => pin,
            Ok(Wanted::Mapped) => return Try::Again,
            Ok(Wanted::Busy) if may.is_polite => return Try::Again,
            Ok(Wanted::Busy) => return Try::Over(Fault::Later(Wait::Page)),
            Ok(Wanted::NoFrame(at_most)) => return Try::Over(Fault::Later(Wait::Frame(at_most))),
            Ok(Wanted::Outside) => return Marks::of(engine, mapped).refuse_touch(page, true),
            Err(error) => return Try::Failed(error),
        };
        let frame = pin.frame();
        let came = self.map_pinned(page, pin, access, may.is_polite);
        let uses = engine.table.word(frame).uses();
        match came {
            None => return Try::Again,
            Some(Came::Not) => self.stays_unmapped(page),
            Some(_) => {
                // A page that is touched once is not worth a memory of its own.
                Doubles::of(engine).enqueue(&mapped.space, page, uses < 2);
                if uses > 0 || mapped.file.record_of(page, engine.page_size.bytes()).is_some() {
                    self.map_around(page);
                }
            }
        }
        Try::Over(Fault::Served)
    }

    /// Copies a page that is pinned into the mapping, write-protected unless it is to be written and no other thread uses it.
    /// `None`: another thread has it in hand, or a writer goes first.
    fn map_pinned(
        self,
        page: u64,
        pin: SharedPin<&Table<Arena>>,
        access: Access,
        is_polite: bool,
    ) -> Option<Came> {
        let MappedFaults { engine, mapped } = self;
        let (space, frame) = (&mapped.space, pin.frame());
        space.pages.take(page, &[At::Absent])?;
        if space.closed.load(Ordering::Relaxed) || !engine.table.map(frame, is_polite) {
            engine.spaces().settle(space, page, At::Absent);
            return None;
        }
        // From here on no thread changes the page, and it does not leave.
        drop(pin);
        let memory = &*space.memory;
        let in_hand = InHand { memory, page, frame };
        let is_open = access == Access::Write && Opening::of(engine, mapped).open_word(page, frame);
        let came = match engine.spaces().exchange.copy_in(&in_hand, !is_open) {
            None => Came::Not,
            Some(_) if is_open => Came::Open,
            Some(_) => Came::Protected,
        };
        match came {
            Came::Not => {
                if is_open {
                    // It is dirty for nothing. A device may be reading what was in the frame before, which it still is.
                    engine.table.map_shared(frame);
                }
                engine.table.unmap(frame);
            }
            Came::Protected | Came::Open => {
                space.pages.note_residence(page, Residence::double(!is_open));
            }
        }
        let to = if came == Came::Not { At::Absent } else { At::Mapped };
        engine.spaces().settle(space, page, to);
        Some(came)
    }

    /// The system has no memory for the page. A thread that waits for it touches it again, and so on until there is some.
    fn stays_unmapped(self, page: u64) {
        let MappedFaults { engine, mapped } = self;
        engine.warn_no_memory(page);
        engine.spaces().exchange.wake(&mapped.space.memory, page);
    }

    /// Pages behind one come with it, as far as they are in memory and a reader was seen to go there, or they are of one record.
    fn map_around(self, page: u64) {
        let MappedFaults { engine, mapped } = self;
        let record = mapped.file.record_of(page, engine.page_size.bytes());
        let count = match record {
            Some(record) => record.end.saturating_sub(page),
            None => mapped.space.around.lock().touched(PageIndex(page)),
        };
        let count = count.min(1 + engine.spaces().doubles.together());
        let (space, end) = (&mapped.space, mapped.space.pages.len().min(page + count));
        let mut held = Vec::with_capacity((end - page) as usize);
        for page in page + 1..end {
            if space.pages.at(page) != At::Absent {
                continue;
            }
            let Some(pin) = engine.table.hit(PageKey::new(mapped.file.id, PageIndex(page))) else {
                break;
            };
            self.readahead_due(&mapped.file, page);
            if space.pages.take(page, &[At::Absent]).is_some() {
                let (memory, frame) = (&*space.memory, pin.frame());
                match !space.closed.load(Ordering::Relaxed) && engine.table.map(frame, true) {
                    true => held.push(InHand { memory, page, frame }),
                    false => engine.spaces().settle(space, page, At::Absent),
                }
            }
        }
        self.bring_around(&held);
    }

    /// Copies pages that we hold, and that no thread can change any more, into the mapping: those that follow one another in
    /// memory at once.
    fn bring_around(self, held: &[InHand<'_>]) {
        let MappedFaults { engine, mapped } = self;
        let (space, mut left) = (&mapped.space, held);
        let mut came = Vec::with_capacity(held.len());
        while let [first, ..] = left {
            let copied = engine.spaces().exchange.copy_in_run(left);
            for page in &left[..copied] {
                space.pages.note_residence(page.page, Residence::double(true));
                engine.spaces().settle(space, page.page, At::Mapped);
                came.push(page.page);
            }
            if copied == 0 {
                engine.table.unmap(first.frame);
                engine.spaces().settle(space, first.page, At::Absent);
            }
            left = &left[copied.max(1)..];
        }
        came.into_iter()
            .for_each(|page| Doubles::of(engine).enqueue(space, page, true));
    }

    fn pin_for_mapping(self, file: &'a FileInner, page: u64, may: May) -> Result<Wanted<'a>> {
        let engine = self.engine;
        let key = PageKey::new(file.id, PageIndex(page));
        loop {
            engine.call_flags.check()?;
            match engine.table.try_pin(key, may.is_polite) {
                Lookup::Found(pin) => {
                    self.readahead_due(file, page);
                    return Ok(Wanted::Pinned(pin));
                }
                Lookup::Loading(frame) => {
                    let (file, page) = (file.id, PageIndex(page));
                    engine.tell(Event::Awaited { file, page });
                    engine.table.wait_loading(frame, key);
                }
                Lookup::Busy(frame) if engine.table.word(frame).is_mapped() => return Ok(Wanted::Mapped),
                Lookup::Busy(frame) if may.wait_for_writers && engine.table.word(frame).is_exclusive() => {
                    Holders::of(engine, file).check_guards(page..page + 1, Waits::ForWriters)?;
                    if let Lookup::Found(pin) = engine.watched(file, page, |slow| engine.table.pin(key, slow))
                    {
                        return Ok(Wanted::Pinned(pin));
                    }
                }
                Lookup::Busy(_) => return Ok(Wanted::Busy),
                Lookup::Absent => {
                    if page >= file.len().div_ceil(engine.page_size.bytes()) {
                        return Ok(Wanted::Outside);
                    }
                    if Reads::of(engine, file).read_around(page)? {
                        continue;
                    }
                    match Reads::of(engine, file)
                        .pin_missing(page, (may.wait_for_frames, Shrunk::LeftOver))?
                    {
                        Missing::Read(pin) => return Ok(Wanted::Pinned(pin)),
                        Missing::There => {}
                        Missing::NoFrame(at_most) => return Ok(Wanted::NoFrame(at_most)),
                        Missing::Outside => return Ok(Wanted::Outside),
                    }
                }
            }
        }
    }

    /// Pins the pages, which are read if they are missing, so that a touch of them in the mapping needs nothing that could fail.
    ///
    /// It holds many while it waits for more, and others may do the same, until none has a frame left. So one thread of the
    /// cache at a time waits for frames with pins in its hands; the others let theirs go until it is their turn.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the file ends before one of them; those of reading; [`Error::NoFrames`].
    pub(crate) fn pin_together(self, pages: Range<u64>) -> Result<Vec<SharedPin<&'a Table<Arena>>>> {
        let engine = self.engine;
        let mut pins = Vec::with_capacity((pages.end - pages.start) as usize);
        let (mut turn, mut page) = (None, pages.start);
        while page < pages.end {
            let may_wait = turn.is_some() || pins.is_empty();
            if let Some(pin) = self.pin_mapped(page, may_wait)? {
                pins.push(pin);
                page += 1;
                continue;
            }
            turn = engine.gathering.try_lock();
            if turn.is_none() {
                pins.clear();
                page = pages.start;
                turn = Some(self.lock_in_time(&engine.gathering)?);
            }
        }
        Ok(pins)
    }

    /// Locks what a thread may hold that waits for frames.
    ///
    /// # Errors
    /// [`Error::NoFrames`].
    fn lock_in_time<T>(self, lock: &'a Mutex<T>) -> Result<MutexGuard<'a, T>> {
        let engine = self.engine;
        let mut patience = Patience::new();
        loop {
            let (waited, most) = (patience.waited(), engine.patience());
            if waited > most {
                return Err(engine.no_frames(waited));
            }
            let slept = (most - waited).clamp(Duration::from_millis(1), LOCK_SLEEP);
            if let Some(locked) = lock.try_lock_for(slept) {
                return Ok(locked);
            }
            patience.slept(slept);
        }
    }

    /// `None`: no frame can be had, and it must not wait for one.
    fn pin_mapped(self, page: u64, wait_for_frames: bool) -> Result<Option<SharedPin<&'a Table<Arena>>>> {
        let MappedFaults { engine, mapped } = self;
        // A thread that waits to change the page may wait for a pin that this one holds: it gives way once.
        let mut may = May {
            wait_for_writers: true,
            wait_for_frames,
            is_polite: true,
        };
        loop {
            match self.pin_for_mapping(&mapped.file, page, may)? {
                Wanted::Pinned(pin) => {
                    Marks::of(engine, mapped).unmark_pinned(page);
                    return Ok(Some(pin));
                }
                Wanted::NoFrame(_) if !wait_for_frames => return Ok(None),
                Wanted::Busy | Wanted::NoFrame(_) => yield_now(),
                Wanted::Mapped => CallBack::of(engine).call_one_back(&mapped.file, page, false),
                Wanted::Outside => {
                    let pages = mapped.file.len().div_ceil(engine.page_size.bytes());
                    return Err(Error::OutOfRange {
                        path: mapped.file.path.clone(),
                        what: "page",
                        given: page,
                        max: pages.checked_sub(1),
                    });
                }
            }
            may.is_polite = false;
        }
    }

    /// Tells the core if a reader has come to the page that asks for more read-ahead.
    fn readahead_due(self, file: &FileInner, page: u64) {
        let engine = self.engine;
        let mark = &file.readahead_mark;
        let is_it = mark.load(Ordering::Relaxed) == page;
        let swap = || mark.compare_exchange(page, u64::MAX, Ordering::Relaxed, Ordering::Relaxed);
        if is_it && swap().is_ok() {
            let (file, at) = (file.id, PageIndex(page));
            engine.tell(Event::ReadAheadDue { file, at });
        }
    }
}
