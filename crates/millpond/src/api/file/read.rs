//! Reading: pages in memory are copied without a lock, what is missing is read by the thread that wants it.

use super::File;
use super::pieces::{Scattered, Sink};
#[cfg(feature = "tokio")]
use crate::engine::driver::PAGES_MAX;
use crate::engine::driver::{Missing, Reach};
use crate::error::Result;
use crate::files::Shrunk;
use crate::frames::own::Waits;
use crate::frames::table::Lookup;
use crate::memory::buffers;
use crate::observe::explain::{self, Call};
use crate::observe::trace::What;
use millpond_core::event::Event;
use millpond_core::units::PageIndex;
use std::io::IoSliceMut;
use std::sync::atomic::Ordering;

/// What a caller wants to read.
const REFUSED: (Reach, Shrunk) = (Reach::Inside, Shrunk::Refused);

impl File {
    /// Reads into `buf` from byte `offset` on, as far as the file goes: the number of bytes read, less than asked for
    /// only at the end of the file.
    ///
    /// Pages that are in memory are copied without a lock. What is missing is read by the calling thread, pages
    /// that follow one another with one request; after sequential reads more is read ahead.
    ///
    /// # Errors
    /// [`Error::Read`] if the device can't, [`Error::Check`] if the file's check refuses a page; `buf` is then undefined.
    /// [`Error::NoFrames`], [`Error::Poisoned`].
    ///
    /// [`Error::Read`]: crate::Error::Read
    /// [`Error::Check`]: crate::Error::Check
    /// [`Error::NoFrames`]: crate::Error::NoFrames
    /// [`Error::Poisoned`]: crate::Error::Poisoned
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.read_pieces(buf, offset)
    }

    /// Reads into `bufs`, one after the other, from byte `offset` on, as [`File::read_at`] into one buffer of their length:
    /// how many bytes, less only at the end of the file. Each page is read at once, into however many buffers.
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

    /// The same into a region, which is touched with nothing in hand (`memory/buffers.rs`).
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

    /// The same into memory that needs nothing of a cache to be touched.
    fn read_into<S: Sink + ?Sized>(&self, buf: &mut S, offset: u64, call: Call) -> Result<usize> {
        let inside = |wanted: usize| (wanted as u64).min(self.len().saturating_sub(offset)) as usize;
        let mut wanted = inside(buf.len());
        let shift = self.engine().page_size.shift();
        let size = 1_usize << shift;
        let mut done = 0;
        if wanted > 0 {
            let pages = offset >> shift..((offset + wanted as u64 - 1) >> shift) + 1;
            self.engine()
                .check_guards(&self.inner, pages, Waits::ForWriters)?;
        }
        while done < wanted {
            let at = offset + done as u64;
            let (page, from) = (at >> shift, (at & (size as u64 - 1)) as usize);
            let n = (size - from).min(wanted - done);
            match self.pin(self.key(page), call) {
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

    /// Tells the core if a reader has come to the page that asks for more read-ahead.
    #[inline]
    pub(super) fn passed(&self, page: u64) {
        let mark = &self.inner.readahead_mark;
        if mark.load(Ordering::Relaxed) == page
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

    /// Reads the missing pages from `page` up to `last`, a run of them, and copies what of them is in the request that
    /// began at `offset`. How many bytes that was, 0 if the page is there by now; `None` if the file ends before it by now.
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
        let missing = self
            .engine()
            .read_missing(&self.inner, page..last + 1, REFUSED, copy)?;
        self.missed(pages);
        Ok(match missing {
            Missing::Read(()) => Some(copied),
            Missing::There | Missing::NoFrame(_) => Some(0),
            Missing::Outside => None,
        })
    }

    /// Reads the missing pages from `page` up to `last`, a run of them, and pins the first.
    ///
    /// # Errors
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if the file ends before it by now; those of reading.
    #[cfg(feature = "tokio")]
    pub(crate) fn page_of_run(&self, page: u64, last: u64) -> Result<crate::OwnedPageRef> {
        let count = (last - page + 1).min(PAGES_MAX);
        explain::waits_in(Call::Read((count * self.page_size()) as usize));
        self.engine()
            .read_missing(&self.inner, page..last + 1, REFUSED, |_, _| {})?;
        self.page_owned(page)
    }

    /// Reads a page that is missing. `false`: it is not within `reach` by now.
    pub(super) fn bring(&self, page: u64, reach: Reach, shrunk: Shrunk) -> Result<bool> {
        let missing = self
            .engine()
            .read_missing(&self.inner, page..page + 1, (reach, shrunk), |_, _| {})?;
        Ok(!matches!(missing, Missing::Outside))
    }

    /// Starts to read what of the `len` bytes from `offset` on is not in memory, and does not wait for it. Dropped
    /// silently where memory is short, and where half of it has been asked for: more would only push out what came
    /// before. A later read finds out about errors.
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
            match self.engine().prefetch(&self.inner, some)? {
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
