//! Writing: into locked pages, up to 32 at a time; the device gets them later.

use super::File;
use super::pieces::{Gathered, Source};
use crate::engine::driver::{Dirtying, Granted, Reach};
use crate::error::{Error, Result};
use crate::files::LEN_MAX;
use crate::frames::own::Waits;
use crate::frames::table::{ExclusivePin, Lookup, Table};
use crate::memory::buffers;
use crate::observe::explain::{self, Call};
use crate::sys::arena::Arena;
use millpond_core::units::{FrameNo, PageIndex};
use parking_lot::MutexGuard;
use std::io::IoSlice;
use std::ops::Range;

/// Pages that a write holds at a time. Few enough that a pool of the least size has frames left for others.
const WRITE_PAGES_MAX: usize = 32;

/// What a part of a write came to.
struct Written {
    bytes: usize,
    /// Whether to pause before more is written.
    pauses: bool,
    /// The file became shorter meanwhile than the write would leave it, or a hole is being made there.
    is_cut: bool,
}

impl File {
    /// Writes all of `buf` at byte `offset`; the file grows if it ends before. The bytes are in memory when this
    /// returns and reach the device in the background, or at a sync.
    ///
    /// Pauses, at most for as long as the device needs to take what others and this thread have dirtied beyond the
    /// limits. Each page changes at once for all readers, but a write of several pages is no transaction.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::OutOfRange`] beyond what a file can have, [`Error::TooLong`] beyond what the file system
    /// has or this process may write, [`Error::FixedLength`] beyond the end of a block device; [`Error::Write`] if more of this file can't be written than
    /// the option `dirty.failed` allows, or if dirty pages fill their limit and, after two seconds without any write,
    /// another file is found that can't be written; [`Error::Read`] if a page
    /// of which only a part is overwritten can't be read; [`Error::NoFrames`], [`Error::Poisoned`]. What came before the
    /// failed page is written.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.write_pieces(buf, offset)
    }

    /// Writes all of `bufs`, one after the other, at byte `offset`, as [`File::write_at`] writes one buffer of their length:
    /// each page changes at once, however many buffers are in it, and nothing larger is atomic.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.write_pieces(&Gathered::new(bufs), offset)
    }

    fn write_pieces<S: Source + ?Sized>(&self, buf: &S, offset: u64) -> Result<()> {
        self.check_writable()?;
        let end = self.check_end(offset, buf.len())?;
        self.check_within_limit(end)?;
        let _noted = self.begin(offset, buf.len(), true)?;
        if buf.len() == 0 {
            return Ok(());
        }
        self.engine()
            .check_guards(&self.inner, self.pages_of(offset..end), Waits::ForAll)?;
        // Writes inside the file run beside one another. One that goes up to its end, or beyond, excludes whoever else
        // changes the length.
        let mut resize = (end >= self.len()).then(|| self.lock_length(Call::Write(buf.len())));
        self.write_all(buf, offset, &mut resize, Dirtying::Asked)
    }

    /// As [`File::write_at`], for bytes whose writer was told already that they are written, and has nobody to be told
    /// otherwise: what a kernel's cache writes back. A file that can't be written takes them all the same, for as long as
    /// memory has room beside what can't be written and what reads need. When there is none the device is asked once more,
    /// and waited for, for two seconds without any write or the option `alloc_timeout`, whichever is less.
    ///
    /// # Errors
    /// [`Error::Lost`] if they can't be kept after all. Cached pages that have room are as [`File::write_at`] leaves them.
    /// The same error is logged, and given by [`PageCache::take_lost`](crate::PageCache::take_lost). [`Error::ReadOnly`],
    /// [`Error::OutOfRange`], [`Error::FixedLength`], [`Error::Poisoned`] as of [`File::write_at`].
    pub fn write_promised(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.check_writable()?;
        self.check_end(offset, buf.len())?;
        let _noted = self.begin(offset, buf.len(), true)?;
        let (mut done, mut lost) = (0, Ok(()));
        while done < buf.len() {
            // Few at a time, so that those which could not be kept can be named.
            let at = offset + done as u64;
            let len = buffers::part(at, buf.len() - done, self.engine().page_size.bytes());
            let end = at + len as u64;
            let mut resize = (end >= self.len()).then(|| self.lock_length(Call::Write(buf.len())));
            let part = &buf[done..done + len];
            match self.write_all(part, at, &mut resize, Dirtying::Promised) {
                Ok(()) => {}
                Err(error @ (Error::Poisoned { .. } | Error::Forked | Error::FixedLength { .. })) => {
                    return Err(error);
                }
                // There is no room for the rest either.
                Err(error @ (Error::NoFrames { .. } | Error::Write { .. })) => {
                    let end = offset + buf.len() as u64;
                    return Err(self.cache.lost(&self.inner, (at, end), error.errno()));
                }
                Err(refused) => {
                    let error = self.cache.lost(&self.inner, (at, end), refused.errno());
                    lost = lost.and(Err(error));
                }
            }
            done += len;
        }
        lost
    }

    /// Writes all of `buf` at the end of the file, wherever that is when it is this call's turn: the offset of its first
    /// byte. Appends of any threads and handles go one after the other, each of them whole.
    ///
    /// # Errors
    /// As [`File::write_at`]; the file may then be longer by a part of `buf`, from its start on.
    pub fn append(&self, buf: &[u8]) -> Result<u64> {
        self.check_writable()?;
        self.engine().poison.check()?;
        let mut resize = Some(self.lock_length(Call::Write(buf.len())));
        let offset = self.len();
        self.check_end(offset, buf.len())?;
        let _noted = self.begin(offset, buf.len(), true)?;
        let pages = self.pages_of(offset..offset + buf.len() as u64);
        self.engine().check_guards(&self.inner, pages, Waits::ForAll)?;
        self.write_all(buf, offset, &mut resize, Dirtying::Asked)?;
        Ok(offset)
    }

    fn pages_of(&self, bytes: Range<u64>) -> Range<u64> {
        let size = self.engine().page_size.bytes();
        bytes.start / size..bytes.end.div_ceil(size)
    }

    /// Where `len` bytes from `offset` on end.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    fn check_end(&self, offset: u64, len: usize) -> Result<u64> {
        let end = offset.checked_add(len as u64).filter(|&end| end <= LEN_MAX);
        end.ok_or_else(|| Error::OutOfRange {
            path: self.inner.path.clone(),
            what: "offset",
            given: offset,
            max: Some(LEN_MAX.saturating_sub(len as u64)),
        })
    }

    /// Writes all of `buf`. `resize` is there if it goes up to the end of the file, or beyond; and afterwards, if it had to
    /// be.
    pub(super) fn write_all<'a, S: Source + ?Sized>(
        &'a self,
        buf: &S,
        offset: u64,
        resize: &mut Option<MutexGuard<'a, ()>>,
        why: Dirtying,
    ) -> Result<()> {
        // A region is touched with no page in hand (`memory/buffers.rs`).
        let is_apart = buf.is_in_region();
        let (mut own, mut done) = (Vec::new(), 0);
        while done < buf.len() {
            let accepted = self.engine().accept(&self.inner, why, WRITE_PAGES_MAX);
            let most = accepted.inspect_err(|_| self.leave_room(resize.is_some()))?;
            if resize.is_some() && done == 0 {
                self.make_room_for(offset + buf.len() as u64)?;
            }
            let (left, at) = (buf.len() - done, offset + done as u64);
            let of_call = (buf.len(), at, resize.is_some(), most);
            let some = if is_apart {
                own.resize(buffers::part(at, left, self.engine().page_size.bytes()), 0);
                buf.get(done, &mut own);
                self.write_some((&own[..], 0), own.len(), of_call)
            } else {
                self.write_some((buf, done), left, of_call)
            };
            let some = some.inspect_err(|_| self.leave_room(resize.is_some()))?;
            done += some.bytes;
            if some.pauses {
                explain::waits_in(Call::Write(buf.len()));
                match self.engine().pause(&self.inner) {
                    // They are in memory, which is all that was promised.
                    Err(_) if why == Dirtying::Promised => self.engine().poison.check()?,
                    paused => paused.inspect_err(|_| self.leave_room(resize.is_some()))?,
                }
            }
            if some.is_cut {
                // What came before may be gone again: the whole write comes after the cut.
                (*resize, done) = (Some(self.lock_length(Call::Write(buf.len()))), 0);
            }
        }
        Ok(())
    }

    /// Writes `len` bytes of `buf` from its byte `skip` on, in up to `most` pages, [`WRITE_PAGES_MAX`] or fewer. `at_end`: the
    /// caller keeps others from changing the length, and may change it; else all of it is inside the file, unless somebody
    /// cuts that. `call`: how many bytes its caller has in all.
    fn write_some<S: Source + ?Sized>(
        &self,
        (buf, skip): (&S, usize),
        len: usize,
        (call, offset, at_end, most): (usize, u64, bool, usize),
    ) -> Result<Written> {
        let shift = self.engine().page_size.shift();
        let size = 1_u64 << shift;
        let (first, end) = (offset >> shift, offset + len as u64);
        let last = ((end - 1) >> shift).min(first + most as u64 - 1);
        let reach = if at_end { Reach::Beyond } else { Reach::Within(end) };
        let mut pins: Vec<ExclusivePin<&Table<Arena>>> = Vec::with_capacity(most);
        let mut page = first;
        let mut is_cut = false;
        while page <= last {
            let key = self.key(page);
            let start = page << shift;
            // The part of the page that is written, and of the buffer.
            let (from, to) = (start.max(offset), (start + size).min(end));
            let source = skip + (from - offset) as usize;
            let in_page = (from - start) as usize..(to - start) as usize;
            // With pages in hand it waits for nobody: a reader of this page may want to read one of those next.
            let locked = if pins.is_empty() {
                self.lock(key, Call::Write(call))
            } else {
                self.engine().table.try_lock(key)
            };
            match locked {
                Lookup::Found(mut pin) => {
                    // After the page is ours: whoever cuts or punches stores that first and then waits for the page.
                    is_cut = !at_end && (self.inner.len() < end || self.inner.hole.takes(page, &mut pin));
                    if !is_cut {
                        buf.get(source, &mut pin[in_page]);
                        page += 1;
                    }
                    pins.push(pin);
                    if is_cut {
                        break;
                    }
                }
                Lookup::Loading(_) | Lookup::Busy(_) if !pins.is_empty() => break,
                Lookup::Loading(frame) | Lookup::Busy(frame) => {
                    self.wait_loading(frame, key, Call::Write(call));
                    self.engine().poison.check()?;
                }
                Lookup::Absent if self.needs_old(start, &in_page, at_end) => {
                    if !pins.is_empty() {
                        break;
                    }
                    explain::waits_in(Call::Write(call));
                    is_cut = !self.bring(page, reach)?;
                    if is_cut {
                        break;
                    }
                }
                Lookup::Absent => {
                    let count = self.overwritten(page, last, end, at_end);
                    // With pages in hand it must not wait for memory: their owner could be what memory waits for.
                    let may_wait = pins.is_empty();
                    explain::waits_in(Call::Write(call));
                    let granted = self
                        .engine()
                        .grant(&self.inner, page..page + count, reach, may_wait)?;
                    let loads = match granted {
                        Granted::Frames(loads) => loads,
                        Granted::There => continue,
                        // The next part asks again, with nothing in hand, before it waits: what came free meanwhile was
                        // announced already.
                        Granted::NoFrame => break,
                        Granted::Outside => {
                            is_cut = true;
                            break;
                        }
                    };
                    for mut load in loads {
                        let start = page << shift;
                        let (from, to) = (start.max(offset), (start + size).min(end));
                        let bytes = self.engine().table.load_bytes(&mut load);
                        let in_page = (from - start) as usize..(to - start) as usize;
                        bytes[..in_page.start].fill(0);
                        bytes[in_page.end..].fill(0);
                        buf.get(skip + (from - offset) as usize, &mut bytes[in_page]);
                        let mut pin = self.engine().table.finish_load_exclusive(load);
                        is_cut |= !at_end && self.inner.hole.takes(page, &mut pin);
                        pins.push(pin);
                        page += 1;
                    }
                    if is_cut {
                        break;
                    }
                }
            }
        }
        let bytes = ((page << shift).min(end).max(offset) - offset) as usize;
        if at_end && bytes > 0 {
            self.grow_to(offset + bytes as u64);
        }
        let pauses = self.report_dirty(first, &pins);
        drop(pins);
        Ok(Written {
            bytes,
            pauses,
            is_cut,
        })
    }

    /// Whether a page that starts at `start` has bytes that the write of `in_page` leaves as they are. Only the caller
    /// who keeps others from changing the length, `at_end`, knows where in the page the file ends.
    fn needs_old(&self, start: u64, in_page: &Range<usize>, at_end: bool) -> bool {
        let size = self.engine().page_size.bytes();
        let old = if at_end {
            self.len().saturating_sub(start).min(size) as usize
        } else {
            size as usize
        };
        old > 0 && (in_page.start > 0 || in_page.end < old)
    }

    /// How many pages from `page` to `last` a write up to byte `end` overwrites whole.
    fn overwritten(&self, page: u64, last: u64, end: u64, at_end: bool) -> u64 {
        let shift = self.engine().page_size.shift();
        let whole = (end >> shift).saturating_sub(page);
        // The last one counts if nothing of the file is behind the write.
        let covers_last = at_end && self.len() <= end;
        let pages = if covers_last {
            last - page + 1
        } else {
            whole.min(last - page + 1)
        };
        pages.max(1)
    }

    /// Tells the core which of the pages from `first` on, which the caller owns, went from clean to dirty. Whether the
    /// caller has to pause.
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
                pauses |= self.engine().dirtied(self.inner.id, PageIndex(start), &run);
                run.clear();
            }
        }
        pauses
    }
}
