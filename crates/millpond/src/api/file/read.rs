//! Reading: pages in memory are copied without a lock; the calling thread reads missing pages.

use super::File;
use super::pieces::{Scattered, Sink};
#[cfg(feature = "tokio")]
use crate::engine::driver::PAGES_MAX;
use crate::engine::driver::{Missing, Reach};
use crate::error::Result;
use crate::files::Shrunk;
use crate::frames::own::Waits;
use crate::frames::table::{Lookup, SharedPin, Table};
use crate::memory::buffers;
use crate::observe::explain::{self, Call};
use crate::observe::trace::What;
use crate::sys::arena::Arena;
use millpond_core::event::Event;
use millpond_core::units::{PageIndex, PageKey};
use std::io::IoSliceMut;
use std::sync::atomic::Ordering;

/// Reads reach only inside the file, and fail on pages that others have cut short.
const REFUSED: (Reach, Shrunk) = (Reach::Inside, Shrunk::Refused);

impl File {
    /// Reads into `buf` from byte `offset` on. Returns the number of bytes read, which is smaller than the buffer only
    /// at the end of the file.
    ///
    /// Pages in memory are copied without a lock. The calling thread reads missing pages, consecutive ones in one
    /// request. Sequential reads start read-ahead.
    ///
    /// # Errors
    /// [`Error::Read`] if the device fails to read; [`Error::Check`] if the file's check rejects a page;
    /// [`Error::OwnGuard`] if the calling thread holds a [`PageMut`](crate::PageMut) of one of the pages;
    /// [`Error::NoFrames`]; [`Error::Poisoned`]. After an error the contents of `buf` are undefined.
    ///
    /// [`Error::Read`]: crate::Error::Read
    /// [`Error::Check`]: crate::Error::Check
    /// [`Error::OwnGuard`]: crate::Error::OwnGuard
    /// [`Error::NoFrames`]: crate::Error::NoFrames
    /// [`Error::Poisoned`]: crate::Error::Poisoned
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.read_pieces(buf, offset)
    }

    /// Reads into `bufs` in order from byte `offset` on, as [`File::read_at`] reads into a single buffer. Returns the
    /// number of bytes read, which is smaller than the total length of `bufs` only at the end of the file. Each page is
    /// read at one point in time, even if it spans several buffers.
    ///
    /// # Errors
    /// As [`File::read_at`].
    ///
    /// ```
    /// use std::io::{IoSlice, IoSliceMut};
    /// # let folder = tempfile::tempdir()?;
    /// # let cache = millpond::PageCache::builder().memory(2 << 20).build()?;
    /// # let file = cache.open(folder.path().join("data"), millpond::OpenOptions::new().create(true))?;
    /// file.write_vectored_at(&[IoSlice::new(b"head"), IoSlice::new(b"and the rest")], 0)?;
    /// let (mut head, mut rest) = ([0; 4], [0; 100]);
    /// let n = file.read_vectored_at(&mut [IoSliceMut::new(&mut head), IoSliceMut::new(&mut rest)], 0)?;
    /// assert_eq!((&head, &rest[..n - 4]), (b"head", &b"and the rest"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        self.read_pieces(&mut Scattered::new(bufs), offset)
    }

    #[inline]
    fn read_pieces<S: Sink + ?Sized>(&self, buf: &mut S, offset: u64) -> Result<usize> {
        let _noted = self.begin(offset, buf.len(), false)?;
        match buf.is_in_region() {
            false => {
                let call = Call::Read(buf.len());
                self.read_into(buf, offset, call)
            }
            true => self.read_apart(buf, offset),
        }
    }

    /// Reads into a region, which must not be touched while this thread holds a page or a lock (`memory/buffers.rs`).
    #[cold]
    fn read_apart<S: Sink + ?Sized>(&self, buf: &mut S, offset: u64) -> Result<usize> {
        let (call, size) = (Call::Read(buf.len()), self.engine().page_size.bytes());
        let (mut own, mut done) = (Vec::new(), 0);
        while done < buf.len() {
            let at = offset + done as u64;
            if at >= self.len() {
                break;
            }
            let wanted = buffers::part(at, buf.len() - done, size);
            own.resize(wanted, 0);
            let read = self.read_into(&mut own[..], at, call)?;
            buf.put(done, &own[..read]);
            done += read;
            if read < wanted {
                break;
            }
        }
        Ok(done)
    }

    /// Reads into memory that can be touched without the cache.
    fn read_into<S: Sink + ?Sized>(&self, buf: &mut S, offset: u64, call: Call) -> Result<usize> {
        let inside = |wanted: usize| (wanted as u64).min(self.len().saturating_sub(offset)) as usize;
        let mut wanted = inside(buf.len());
        let shift = self.engine().page_size.shift();
        let size = 1_usize << shift;
        let (mut done, mut asked) = (0, None);
        if wanted > 0 {
            let pages = offset >> shift..((offset + wanted as u64 - 1) >> shift) + 1;
            self.holders().check_guards(pages, Waits::ForWriters)?;
        }
        while done < wanted {
            let at = offset + done as u64;
            let (page, from) = (at >> shift, (at & (size as u64 - 1)) as usize);
            let n = (size - from).min(wanted - done);
            match self.pin_to_read(self.key(page), call) {
                Lookup::Found(pin) => {
                    buf.put(done, &pin[from..from + n]);
                    drop(pin);
                    self.found();
                    self.passed(page);
                    done += n;
                }
                Lookup::Loading(frame) | Lookup::Busy(frame) => {
                    self.wait_loading(frame, self.key(page), call);
                    self.engine().call_flags.check()?;
                }
                // Once: if it is still missing then, the read below says why.
                Lookup::Absent if self.is_background && asked != Some(page) => {
                    asked = Some(page);
                    explain::waits_in(call);
                    let last = (offset + wanted as u64 - 1) >> shift;
                    let engine = self.engine();
                    engine
                        .background_reads
                        .read(engine, &self.inner, page..last + 1)?;
                }
                Lookup::Absent => {
                    let last = (offset + wanted as u64 - 1) >> shift;
                    match self.read_missing((page, last), (offset, wanted), buf, call)? {
                        Some(n) => done += n,
                        None => wanted = inside(wanted),
                    }
                }
            }
        }
        Ok(done)
    }

    /// As [`File::pin`]; of a background task it is no use of the page.
    #[inline]
    fn pin_to_read(&self, key: PageKey, call: Call) -> Lookup<SharedPin<&Table<Arena>>> {
        let unused = match self.is_background {
            true => self.engine().table.hit_unused(key),
            false => None,
        };
        unused.map_or_else(|| self.pin(key, call), Lookup::Found)
    }

    /// Notifies the core when a reader reaches the page that triggers more read-ahead.
    #[inline]
    pub(super) fn passed(&self, page: u64) {
        let mark = &self.inner.readahead_mark;
        if !self.is_background
            && mark.load(Ordering::Relaxed) == page
            && mark
                .compare_exchange(page, u64::MAX, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.engine().tell(Event::ReadAheadDue {
                file: self.inner.id,
                at: PageIndex(page),
            });
        }
    }

    /// Reads the run of missing pages from `page` up to `last`, and copies the part requested by the call that began at
    /// `offset`. Returns the number of bytes copied: 0 if the page has meanwhile been loaded, `None` if the file now
    /// ends before it.
    #[cold]
    fn read_missing<S: Sink + ?Sized>(
        &self,
        (page, last): (u64, u64),
        (offset, wanted): (u64, usize),
        buf: &mut S,
        call: Call,
    ) -> Result<Option<usize>> {
        explain::waits_in(call);
        let shift = self.engine().page_size.shift();
        let end = offset + wanted as u64;
        let (mut copied, mut pages) = (0, 0);
        let copy = |page: PageIndex, bytes: &[u8]| {
            let start = page.0 << shift;
            let (from, to) = (start.max(offset), (start + bytes.len() as u64).min(end));
            let source = &bytes[(from - start) as usize..(to - start) as usize];
            buf.put((from - offset) as usize, source);
            copied += source.len();
            pages += 1;
        };
        let missing = self.reads().read_missing(page..last + 1, REFUSED, copy)?;
        self.missed(pages);
        Ok(match missing {
            Missing::Read(()) => Some(copied),
            Missing::There | Missing::NoFrame(_) => Some(0),
            Missing::Outside => None,
        })
    }

    /// Reads the run of missing pages from `page` up to `last`, and pins the first.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if the file now ends before it; otherwise as a read.
    #[cfg(feature = "tokio")]
    pub(crate) fn page_of_run(&self, page: u64, last: u64) -> Result<crate::OwnedPageRef> {
        let count = (last - page + 1).min(PAGES_MAX);
        explain::waits_in(Call::Read((count * self.page_size()) as usize));
        self.reads().read_missing(page..last + 1, REFUSED, |_, _| {})?;
        self.page_owned(page)
    }

    /// Reads a missing page. Returns `false` if it no longer lies within `reach`.
    pub(super) fn bring(&self, page: u64, reach: Reach, shrunk: Shrunk) -> Result<bool> {
        let missing = self
            .reads()
            .read_missing(page..page + 1, (reach, shrunk), |_, _| {})?;
        Ok(!matches!(missing, Missing::Outside))
    }

    /// Starts reading those of the `len` bytes from `offset` on that are not in memory, and returns without waiting. A
    /// call requests at most half of the cache's frames, because more would evict what it has just read. It stops
    /// silently when memory is short. Read errors show up in a later read.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned).
    pub fn prefetch(&self, offset: u64, len: u64) -> Result<()> {
        self.engine().call_flags.check()?;
        let shift = self.engine().page_size.shift();
        let end = offset.saturating_add(len).min(self.len());
        if offset >= end {
            return Ok(());
        }
        let pages = (offset >> shift, ((end - 1) >> shift) - (offset >> shift) + 1);
        let _noted = self.engine().note(self.inner.id, pages, What::Prefetch);
        let mut left = self.engine().core().manager.derived().frames.0 / 2;
        let (mut page, last) = (offset >> shift, (end - 1) >> shift);
        while page <= last && left > 0 {
            let key = self.key(page);
            if !self.engine().table.lacks(key) {
                page += 1;
                continue;
            }
            let some = page..(last + 1).min(page + left);
            match self.reads().prefetch(some)? {
                // The file has become shorter.
                None => break,
                // No frame can be had.
                Some(0) if self.engine().table.lacks(key) => break,
                Some(reads) => {
                    page += reads;
                    left -= reads.min(left);
                }
            }
        }
        Ok(())
    }
}
