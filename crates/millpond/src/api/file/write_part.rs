//! A part of a write. It locks and fills its pages one by one, up to the maximum per part, and keeps all of them locked
//! until it ends.
//!
//! ```text
//!   the next page ─► in memory: lock it, fill it ──────────────────┐
//!                 ├► missing, overwritten whole: a frame, fill it ─┼─► the page after it
//!                 ├► missing, some of it stays: read it, again     │
//!                 └► on its way or in use: wait, again             │
//!   the last page, or one for which it would have to wait ◄────────┘
//!        └─► the file grows, dirty pages are reported, all pages are unlocked
//! ```
//!
//! It waits only while it has no page locked, because whatever it waits for may itself wait for one of those pages.

use super::File;
use super::pieces::Source;
use crate::engine::driver::{CallBack, Granted, PageFaults, Reach};
use crate::error::Result;
use crate::files::Shrunk;
use crate::frames::table::{ExclusivePin, Lookup, Table};
use crate::observe::explain::{self, Call};
use crate::sys::arena::Arena;
use millpond_core::units::{FrameNo, PageIndex};
use std::ops::Range;

/// The target of a part of a write.
#[derive(Clone, Copy)]
pub(super) struct Target {
    /// The offset of its first byte in the file.
    pub(super) offset: u64,
    /// The caller holds the length lock and may change the length. Otherwise the part lies inside the file unless
    /// another thread truncates it.
    pub(super) at_end: bool,
    /// The maximum number of pages locked at a time.
    pub(super) pages_max: usize,
    /// The call that this part belongs to.
    pub(super) call: Call,
}

/// The result of a part of a write.
pub(super) struct Written {
    /// The number of bytes written. Smaller than requested if they span more pages than may be locked, or if the part
    /// would have had to wait.
    pub(super) bytes: usize,
    /// Whether the caller must pause before writing more.
    pub(super) pauses: bool,
    /// Whether the file was truncated below the end of the write, or a hole is being punched there.
    pub(super) is_cut: bool,
}

/// The next step of a part.
enum Next {
    /// Continue with the next page, or retry the same one.
    GoOn,
    /// End the part with the pages locked so far.
    Ends,
    /// The file was truncated below it.
    IsCut,
}

/// A part in progress.
struct Part<'a, S: ?Sized> {
    file: &'a File,
    buf: &'a S,
    /// The byte of `buf` that goes to the start of the target.
    skip: usize,
    target: Target,
    /// Its end in the file.
    end: u64,
    /// The page that is next.
    page: u64,
    /// The last one.
    last: u64,
    /// The locked pages, from the first of the part on.
    pins: Vec<ExclusivePin<&'a Table<Arena>>>,
}

impl File {
    /// Writes `bytes` of `buf`, or a prefix of them.
    pub(super) fn write_part<S: Source + ?Sized>(
        &self,
        buf: &S,
        bytes: Range<usize>,
        target: Target,
    ) -> Result<Written> {
        let shift = self.engine().page_size.shift();
        let first = target.offset >> shift;
        let end = target.offset + bytes.len() as u64;
        let mut part = Part {
            file: self,
            buf,
            skip: bytes.start,
            target,
            end,
            page: first,
            last: ((end - 1) >> shift).min(first + target.pages_max as u64 - 1),
            pins: Vec::with_capacity(target.pages_max),
        };
        if part.last > part.page {
            // At once, where each would be called back alone.
            CallBack::of(self.engine()).call_back(&self.inner, part.page..part.last + 1, true);
        }
        let mut next = Next::GoOn;
        while matches!(next, Next::GoOn) && part.page <= part.last {
            next = part.write_next()?;
        }
        let written = (part.page << shift).min(end).max(target.offset) - target.offset;
        let pauses = self.report_dirty(first, &part.pins);
        // A sync that begins once the length shows these bytes finds their pages dirty.
        if target.at_end && written > 0 {
            self.grow_to(target.offset + written);
        }
        drop(part);
        Ok(Written {
            bytes: written as usize,
            pauses,
            is_cut: matches!(next, Next::IsCut),
        })
    }

    /// Reports to the core which of the pages from `first` on, which the caller owns, went from clean to dirty. Returns
    /// whether the caller must pause.
    fn report_dirty(&self, first: u64, pins: &[ExclusivePin<&Table<Arena>>]) -> bool {
        let mut pauses = false;
        let mut run: Vec<FrameNo> = Vec::with_capacity(pins.len());
        for (n, pin) in pins.iter().enumerate() {
            if pin.first_dirty() {
                run.push(pin.frame());
            }
            let is_end = n + 1 == pins.len() || !pins[n + 1].first_dirty();
            if is_end && !run.is_empty() {
                let start = first + (n as u64 + 1) - run.len() as u64;
                pauses |= self.dirtier().dirtied(PageIndex(start), &run);
                run.clear();
            }
        }
        pauses
    }
}

impl<'a, S: Source + ?Sized> Part<'a, S> {
    /// Writes the next page, or the run of missing pages from there on, or waits for the page.
    fn write_next(&mut self) -> Result<Next> {
        let (engine, key) = (self.file.engine(), self.file.key(self.page));
        let has_pages = !self.pins.is_empty();
        let locked = if has_pages {
            self.file.try_lock(key)
        } else {
            self.file.lock(key, self.target.call)
        };
        match locked {
            Lookup::Found(pin) => {
                if self.needs_old() {
                    self.file.found();
                }
                Ok(self.fill_locked(pin))
            }
            Lookup::Loading(_) | Lookup::Busy(_) if has_pages => Ok(Next::Ends),
            Lookup::Loading(frame) | Lookup::Busy(frame) => {
                self.file.wait_loading(frame, key, self.target.call);
                engine.call_flags.check()?;
                Ok(Next::GoOn)
            }
            Lookup::Absent if !self.needs_old() => self.fill_missing(),
            Lookup::Absent if has_pages => Ok(Next::Ends),
            Lookup::Absent => {
                explain::waits_in(self.target.call);
                let is_inside = self.file.bring(self.page, self.reach(), Shrunk::Zeros)?;
                Ok(if is_inside { Next::GoOn } else { Next::IsCut })
            }
        }
    }

    /// Fills a page that was in memory.
    fn fill_locked(&mut self, mut pin: ExclusivePin<&'a Table<Arena>>) -> Next {
        let inner = &self.file.inner;
        // After the page is locked: a thread that cuts or punches stores that first and then waits for the page.
        let is_cut = !self.target.at_end && (inner.len() < self.end || inner.hole.has(self.page));
        if is_cut {
            self.pins.push(pin);
            return Next::IsCut;
        }
        let (in_page, source) = self.piece();
        self.buf.get(source, &mut pin[in_page]);
        self.pins.push(pin);
        self.page += 1;
        Next::GoOn
    }

    /// Fills missing pages from the next one on, all of whose bytes are overwritten.
    fn fill_missing(&mut self) -> Result<Next> {
        let engine = self.file.engine();
        explain::waits_in(self.target.call);
        // With pages in hand it must not wait for memory: their owner could be what memory waits for.
        let may_wait = self.pins.is_empty();
        let pages = self.page..self.page + self.overwritten();
        let loads = match PageFaults::of(engine, &self.file.inner).grant(pages, self.reach(), may_wait)? {
            Granted::Frames(loads) => loads,
            Granted::There => return Ok(Next::GoOn),
            // The next part asks again, with nothing in hand, before it waits: what came free meanwhile was announced
            // already.
            Granted::NoFrame => return Ok(Next::Ends),
            Granted::Outside => return Ok(Next::IsCut),
        };
        for mut load in loads {
            let (in_page, source) = self.piece();
            let bytes = engine.table.load_bytes(&mut load);
            bytes[..in_page.start].fill(0);
            bytes[in_page.end..].fill(0);
            self.buf.get(source, &mut bytes[in_page]);
            self.pins.push(engine.table.finish_load_exclusive(load));
            self.page += 1;
        }
        Ok(Next::GoOn)
    }

    /// Returns which bytes of the next page are written, and the position of the first one in the buffer.
    #[inline]
    fn piece(&self) -> (Range<usize>, usize) {
        let shift = self.file.engine().page_size.shift();
        let start = self.page << shift;
        let from = start.max(self.target.offset);
        let to = (start + (1 << shift)).min(self.end);
        let source = self.skip + (from - self.target.offset) as usize;
        ((from - start) as usize..(to - start) as usize, source)
    }

    /// Returns how far beyond the file's end a missing page may lie.
    fn reach(&self) -> Reach {
        if self.target.at_end {
            Reach::Beyond
        } else {
            Reach::Within(self.end)
        }
    }

    /// Returns whether the write leaves some bytes of the next page unchanged. Only a caller that holds the length lock
    /// knows where in the page the file ends.
    fn needs_old(&self) -> bool {
        let page_size = self.file.engine().page_size;
        let size = page_size.bytes();
        let old = if self.target.at_end {
            let start = self.page << page_size.shift();
            self.file.len().saturating_sub(start).min(size) as usize
        } else {
            size as usize
        };
        let (in_page, _) = self.piece();
        old > 0 && (in_page.start > 0 || in_page.end < old)
    }

    /// Returns the number of pages, from the next one on, that the write overwrites completely.
    fn overwritten(&self) -> u64 {
        let shift = self.file.engine().page_size.shift();
        let whole = (self.end >> shift).saturating_sub(self.page);
        let left = self.last - self.page + 1;
        // The last page counts if the file has nothing past the write.
        let covers_last = self.target.at_end && self.file.len() <= self.end;
        let pages = if covers_last { left } else { whole.min(left) };
        pages.max(1)
    }
}
