//! Writing: in parts of up to 32 pages ([`super::write_part`]), with pauses between them. The data reaches the device
//! later.

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

/// Pages that a write holds at a time. Few enough that a pool of the minimum size has frames left for other calls.
const WRITE_PAGES_MAX: usize = 32;

impl File {
    /// Writes all of `buf` at byte `offset`, extending the file if needed. When it returns, the bytes are in memory.
    /// They reach the device in the background or at a sync. This method hides that of `FileExt`, which returns the
    /// number of bytes: `FileExt::write_at(&file, buf, offset)`.
    ///
    /// The call may pause, at most for as long as the device needs to write what this thread and others have dirtied
    /// beyond the limits. Each page changes atomically for all readers; a write of several pages is not atomic as a
    /// whole.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::OutOfRange`] beyond the maximum length of a file; [`Error::TooLong`] beyond the
    /// limit of the file system or of this process; [`Error::FixedLength`] past the end of a block device;
    /// [`Error::Write`] if more of this file is unwritable than the option `dirty.failed` allows, or if dirty pages
    /// fill their limit and, after two seconds without a successful write, another file turns out to be unwritable;
    /// [`Error::Read`] if a partly overwritten page can't be read; [`Error::OwnGuard`], with nothing written, if the
    /// calling thread holds a guard of one of the pages; [`Error::NoFrames`]; [`Error::Poisoned`]. Bytes before the
    /// page that failed are written.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.write_pieces(buf, offset)
    }

    /// Writes all of `bufs` in order at byte `offset`, as [`File::write_at`] writes a single buffer. Each page changes
    /// atomically, even if it spans several buffers; nothing larger is atomic.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.write_pieces(&Gathered::new(bufs), offset)
    }

    /// As [`File::write_at`], but never extends the file.
    ///
    /// # Errors
    /// As [`File::write_at`]; [`Error::OutOfRange`] if the file ends before the last byte. If the file is truncated
    /// meanwhile, bytes before its new end may be written.
    pub(crate) fn write_inside(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.check_writable()?;
        let end = self.check_end(offset, buf.len())?;
        self.check_within_limit(end)?;
        let _noted = self.begin(offset, buf.len(), true)?;
        let pages = self.pages_of(offset..end);
        self.holders().check_guards(pages, Waits::ForAll)?;
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
        self.holders()
            .check_guards(self.pages_of(offset..end), Waits::ForAll)?;
        // Writes inside the file run beside one another. One that goes up to its end, or beyond, excludes every other
        // change of the length.
        let mut resize = (end >= self.len()).then(|| self.lock_length(Call::Write(buf.len())));
        self.write_all(buf, offset, &mut resize, Dirtying::Asked, true)
    }

    /// As [`File::write_at`], for bytes already acknowledged to their writer, as in writeback from the kernel's page
    /// cache. An unwritable file still accepts them while memory has room for more than unwritable pages and what reads
    /// need. When there is no room, the call tries the device again. It waits until two seconds, or the option
    /// `alloc_timeout` if that is less, have passed without a successful write.
    ///
    /// # Errors
    /// [`Error::Lost`] if the bytes can't be kept. Cached pages with room for them are as [`File::write_at`] leaves
    /// them. The same error is logged and returned by [`PageCache::take_lost`](crate::PageCache::take_lost).
    /// [`Error::ReadOnly`], [`Error::OutOfRange`], [`Error::FixedLength`], [`Error::OwnGuard`] and [`Error::Poisoned`]
    /// as for [`File::write_at`].
    pub fn write_promised(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.check_writable()?;
        let end = self.check_end(offset, buf.len())?;
        let _noted = self.begin(offset, buf.len(), true)?;
        self.holders()
            .check_guards(self.pages_of(offset..end), Waits::ForAll)?;
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

    /// Appends all of `buf` to the file. Returns the offset of its first byte. Concurrent appends by any threads and
    /// handles are serialized, and each is written contiguously.
    ///
    /// # Errors
    /// As [`File::write_at`]. After an error the file may have grown by a prefix of `buf`. [`Error::OwnGuard`] if the
    /// file ends inside a page of which the calling thread holds a guard: drop the guard first, or copy what you need.
    pub fn append(&self, buf: &[u8]) -> Result<u64> {
        self.check_writable()?;
        self.engine().call_flags.check()?;
        let mut resize = Some(self.lock_length(Call::Write(buf.len())));
        let offset = self.len();
        self.check_end(offset, buf.len())?;
        let _noted = self.begin(offset, buf.len(), true)?;
        let pages = self.pages_of(offset..offset + buf.len() as u64);
        self.holders().check_guards(pages, Waits::ForAll)?;
        self.write_all(buf, offset, &mut resize, Dirtying::Asked, true)?;
        Ok(offset)
    }

    fn pages_of(&self, bytes: Range<u64>) -> Range<u64> {
        let size = self.engine().page_size.bytes();
        bytes.start / size..bytes.end.div_ceil(size)
    }

    /// Returns the end of `len` bytes from `offset` on.
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

    /// Writes all of `buf`. The caller passes `resize` if the write reaches or passes the end of the file; the call
    /// sets it if it turns out to be needed. If the file is truncated meanwhile, the write extends it again only if it
    /// `may_grow`.
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
            let accepted = self.dirtier().accept(why, WRITE_PAGES_MAX);
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
                match self.dirtier().pause() {
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
