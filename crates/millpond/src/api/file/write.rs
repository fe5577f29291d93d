//! Writing: in parts of up to 32 pages ([`super::write_part`]), with pauses between them; the device gets them later.

use super::File;
use super::pieces::{Gathered, Source};
use super::write_part::Target;
use crate::engine::driver::Dirtying;
use crate::error::{Error, Result};
use crate::files::LEN_MAX;
use crate::frames::own::Waits;
use crate::memory::buffers;
use crate::observe::explain::{self, Call, Wait};
use parking_lot::MutexGuard;
use std::io::IoSlice;
use std::ops::Range;

/// Pages that a write holds at a time. Few enough that a pool of the least size has frames left for others.
const WRITE_PAGES_MAX: usize = 32;

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
    /// of which only a part is overwritten can't be read; [`Error::OwnGuard`], with nothing written, if the calling thread has
    /// a guard of one of the pages; [`Error::NoFrames`], [`Error::Poisoned`]. What came before the failed page is written.
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

    /// As [`File::write_at`], and never makes the file longer.
    ///
    /// # Errors
    /// As [`File::write_at`]; [`Error::OutOfRange`] if the file ends before the last byte. If it is cut meanwhile, bytes before
    /// its end may be written.
    pub(crate) fn write_inside(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.check_writable()?;
        let end = self.check_end(offset, buf.len())?;
        self.check_within_limit(end)?;
        let _noted = self.begin(offset, buf.len(), true)?;
        let pages = self.pages_of(offset..end);
        self.engine().check_guards(&self.inner, pages, Waits::ForAll)?;
        let mut resize = (end >= self.len()).then(|| self.lock_length(Call::Write(buf.len())));
        self.check_inside(end)?;
        self.write_all(buf, offset, &mut resize, Dirtying::Asked, false)
    }

    /// # Errors
    /// [`Error::OutOfRange`] if the file ends before byte `end`.
    fn check_inside(&self, end: u64) -> Result<()> {
        let len = self.len();
        match end <= len {
            true => Ok(()),
            false => Err(Error::OutOfRange {
                path: self.inner.path.clone(),
                what: "end of bytes",
                given: end,
                max: Some(len),
            }),
        }
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
        // Writes inside the file run beside one another. One that goes up to its end, or beyond, excludes every other
        // change of the length.
        let mut resize = (end >= self.len()).then(|| self.lock_length(Call::Write(buf.len())));
        self.write_all(buf, offset, &mut resize, Dirtying::Asked, true)
    }

    /// As [`File::write_at`], for bytes whose writer was told already that they are written and can't be told
    /// otherwise: what a kernel's cache writes back. A file that can't be written takes them all the same, for as long as
    /// memory has room beside what can't be written and what reads need. When there is none the device is asked once more,
    /// and waited for, for two seconds without any write or the option `alloc_timeout`, whichever is less.
    ///
    /// # Errors
    /// [`Error::Lost`] if they can't be kept after all. Cached pages that have room are as [`File::write_at`] leaves them.
    /// The same error is logged, and given by [`PageCache::take_lost`](crate::PageCache::take_lost). [`Error::ReadOnly`],
    /// [`Error::OutOfRange`], [`Error::FixedLength`], [`Error::OwnGuard`], [`Error::Poisoned`] as of [`File::write_at`].
    pub fn write_promised(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.check_writable()?;
        let end = self.check_end(offset, buf.len())?;
        let _noted = self.begin(offset, buf.len(), true)?;
        self.engine()
            .check_guards(&self.inner, self.pages_of(offset..end), Waits::ForAll)?;
        let (mut done, mut lost) = (0, Ok(()));
        while done < buf.len() {
            // Few at a time, so that those which could not be kept can be named.
            let at = offset + done as u64;
            let len = buffers::part(at, buf.len() - done, self.engine().page_size.bytes());
            let end = at + len as u64;
            let mut resize = (end >= self.len()).then(|| self.lock_length(Call::Write(buf.len())));
            let part = &buf[done..done + len];
            match self.write_all(part, at, &mut resize, Dirtying::Promised, true) {
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
    /// As [`File::write_at`]; the file may then be longer by a part of `buf`, from its start on. [`Error::OwnGuard`] if the file
    /// ends inside a page of which the calling thread has a guard: drop it before, or copy what is needed.
    pub fn append(&self, buf: &[u8]) -> Result<u64> {
        self.check_writable()?;
        self.engine().call_flags.check()?;
        let mut resize = Some(self.lock_length(Call::Write(buf.len())));
        let offset = self.len();
        self.check_end(offset, buf.len())?;
        let _noted = self.begin(offset, buf.len(), true)?;
        let pages = self.pages_of(offset..offset + buf.len() as u64);
        self.engine().check_guards(&self.inner, pages, Waits::ForAll)?;
        self.write_all(buf, offset, &mut resize, Dirtying::Asked, true)?;
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
    /// be. If the file is cut meanwhile it becomes longer again only if that `may_grow` it.
    pub(super) fn write_all<'a, S: Source + ?Sized>(
        &'a self,
        buf: &S,
        offset: u64,
        resize: &mut Option<MutexGuard<'a, ()>>,
        why: Dirtying,
        may_grow: bool,
    ) -> Result<()> {
        // A region is touched with no page in hand (`memory/buffers.rs`).
        let is_apart = buf.is_in_region();
        let (mut own, mut done) = (Vec::new(), 0);
        let mut tail = None;
        while done < buf.len() {
            let accepted = self.engine().accept(&self.inner, why, WRITE_PAGES_MAX);
            let most = accepted.inspect_err(|_| self.leave_room(resize.is_some()))?;
            if resize.is_some() && done == 0 && tail.is_none() {
                tail = self.make_room_for(offset + buf.len() as u64)?;
            }
            let (left, at) = (buf.len() - done, offset + done as u64);
            let target = Target {
                offset: at,
                at_end: resize.is_some(),
                pages_max: most,
                call: Call::Write(buf.len()),
            };
            let some = if is_apart {
                own.resize(buffers::part(at, left, self.engine().page_size.bytes()), 0);
                buf.get(done, &mut own);
                self.write_part(&own[..], 0..own.len(), target)
            } else {
                self.write_part(buf, done..buf.len(), target)
            };
            let some = some.inspect_err(|_| self.leave_room(resize.is_some()))?;
            done += some.bytes;
            if done > 0 {
                tail = None;
            }
            if some.pauses {
                explain::waits_in(Call::Write(buf.len()));
                match self.engine().pause(&self.inner) {
                    // They are in memory, which is all that was promised.
                    Err(_) if why == Dirtying::Promised => self.engine().call_flags.check()?,
                    paused => paused.inspect_err(|_| self.leave_room(resize.is_some()))?,
                }
            }
            if some.is_cut {
                explain::waits_in(Call::Write(buf.len()));
                let page = (offset + done as u64) >> self.engine().page_size.shift();
                explain::timed(Wait::Busy, || self.inner.hole.wait(page));
                // What came before may be gone again: the whole write comes after the cut, or the hole.
                done = 0;
                let end = offset + buf.len() as u64;
                if self.len() < end {
                    *resize = Some(self.lock_length(Call::Write(buf.len())));
                }
                if !may_grow {
                    self.check_inside(end)?;
                }
            }
        }
        Ok(())
    }
}
