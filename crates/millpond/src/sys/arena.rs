//! The memory of the frames.
//!
//! ```text
//!   reserved address space:  │ 2 MiB │ 2 MiB │ 2 MiB │ … nothing behind it … │
//!                            └── frames 0 1 2 … ──────┘ end of what is committed
//! ```
//!
//! One range of addresses is reserved for as many frames as there may ever be, so frame `n` is always at
//! `n` times the page size. Memory is put behind it from the front as the cache grows, and taken away
//! from the end as it shrinks; both while other frames are pinned. Touching memory that is not committed
//! is a fault, not a silent zero, but for one page of the kernel's behind what is: a C program that a page is lent to may
//! read a little beyond its end, as SQLite does in a corrupt database ([`Arena::behind`]).
//!
//! With exchange of pages with regions it is different: a frame is in one of a somewhat larger number of
//! places, or in none (`places.rs`). As the cache shrinks, a frame gives its memory back, wherever that is,
//! and keeps its place.
//!
//! - Huge pages: asked for, because random reads over 1 GiB cost three to four times as much with small
//!   ones. A kernel without them, or with them switched off, leaves small pages; [`Arena::huge_pages`] has its answer.
//! - Core dumps leave out the frames: they are copies of files, and may be most of the machine's memory.
//! - A forked child does not get them: it has none of the threads that would keep them right, its copy
//!   would cost the parent a page fault for each page changed, and a page copied while the device writes
//!   into it loses the write. A child that touches a page faults.
//!
//! Slices come only from a value that proves a right to them: a pin (shared), an exclusive pin or a load
//! token (both exclusive). The device gets addresses of pages under writeback. `table.rs` makes these
//! values and states why they exclude each other (T1 to T4 there).

pub(crate) mod exchange;
pub(crate) mod pinned;
pub(crate) mod places;

use crate::frames::table::{ExclusivePin, Holder, Load, Memory, SharedPin, Table, Vacated};
use crate::sys::drops::Drops;
use crate::sys::mapping::{Advice, HUGE_PAGE, Mapping, kernel_page};
use crate::sys::refusal::explained;
use crate::sys::uffd::Userfault;
use millpond_core::units::{Bytes, FrameNo, PageSize};
use places::{Places, Stale};
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// The memory of a cache's frames.
pub(crate) struct Arena {
    mapping: Mapping,
    page_size: PageSize,
    frames_max: u32,
    /// The kernel's answer to the request for huge pages; `None`: there was no request.
    huge_pages: Option<io::Result<()>>,
    /// If pages are exchanged with regions one by one: no huge pages then.
    places: Option<Places>,
    /// Commits memory where there is none, if pages are exchanged.
    filler: OnceLock<Arc<Userfault>>,
}

impl Arena {
    /// Reserves addresses for `memory_max` bytes of pages; no memory yet.
    ///
    /// # Errors
    /// If the process may not have as much address space, if the kernel's own pages are larger than the
    /// cache's (aarch64 with 64 KiB pages), or if that would be 2^32 pages or more (8/9 of that if pages are exchanged).
    pub(crate) fn new(memory_max: Bytes, page_size: PageSize, exchanged: bool) -> io::Result<Arena> {
        let bytes = usize::try_from(memory_max.0).map_err(io::Error::other)?;
        if (page_size.bytes() as usize) < kernel_page() {
            let message = format!(
                "pages of {} bytes are smaller than the kernel's of {}; choose a page size of at least that",
                page_size.bytes(),
                kernel_page()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let frames = memory_max.to_pages(page_size).0;
        let most = match exchanged {
            true => places::FRAMES_MAX,
            false => u32::MAX - 1,
        };
        let Some(frames_max) = u32::try_from(frames).ok().filter(|n| (1..=most).contains(n)) else {
            let message = format!("{frames} pages of memory at most; must be 1 to {most}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let places = exchanged.then(|| Places::new(frames_max)).transpose()?;
        // Two pages behind the last frame: one that may be read, and one that is never committed, so that an access beyond
        // faults, and the kernel does not join the arena with a neighbour of the same kind.
        let bytes = match exchanged {
            true => (places::born_at(frames_max) as usize) << page_size.shift(),
            false => bytes,
        };
        let mapping = Mapping::new(bytes + 2 * kernel_page(), false)?;
        for advice in [Advice::DoNotDump, Advice::DoNotFork] {
            let advised = mapping.advise(0..mapping.len(), advice);
            advised.map_err(|error| explained("madvise", error))?;
        }
        // SAFETY: there is nothing in it yet, and no reference.
        if !unsafe { mapping.discard(0..kernel_page()) } {
            let refused = io::Error::last_os_error();
            return Err(explained("madvise (MADV_DONTNEED)", refused));
        }
        let huge_pages = match exchanged {
            // A page of a huge one can be moved only after that is split, and it can be split only while no
            // part of it is in transit.
            true => {
                let advised = mapping.advise(0..mapping.len(), Advice::SmallPages);
                advised.map_err(|error| explained("madvise", error))?;
                // Pages are moved only if both sides are locked or neither is, and no region is locked
                // (`exchange.rs`).
                mapping.unlock();
                None
            }
            false => Some(mapping.advise(0..mapping.len(), Advice::HugePages)),
        };
        Ok(Arena {
            mapping,
            page_size,
            frames_max,
            huge_pages,
            places,
            filler: OnceLock::new(),
        })
    }

    /// What the kernel answered when it was asked for huge pages; `None` if it was not, because pages are
    /// exchanged. It answers the same if they are switched off, and if memory is short or fragmented it may
    /// still give small ones; `/proc/self/smaps` has the kernel's count.
    pub(crate) fn huge_pages(&self) -> Option<&io::Result<()>> {
        self.huge_pages.as_ref()
    }

    /// How much of the arena is in huge pages at this moment, as `/proc/self/smaps` has it. Takes
    /// milliseconds.
    ///
    /// # Errors
    /// If /proc cannot be read.
    #[cfg(test)]
    pub(crate) fn huge_bytes(&self) -> io::Result<Bytes> {
        let smaps = std::fs::read_to_string("/proc/self/smaps")?;
        let start = self.mapping.start().addr().get();
        let ours = start..start + self.mapping.len();
        let (mut inside, mut kib) = (false, 0);
        for line in smaps.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(first) = words.next() else { continue };
            if let Some((low, _)) = first.split_once('-') {
                inside = usize::from_str_radix(low, 16).is_ok_and(|low| ours.contains(&low));
            } else if inside && first == "AnonHugePages:" {
                kib += words.next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
            }
        }
        Ok(Bytes::from_kib(kib))
    }

    /// Frames in a huge page. Memory that grows and shrinks by multiples of this stays in huge pages.
    #[cfg(test)]
    pub(crate) fn frames_per_huge_page(&self) -> u32 {
        (HUGE_PAGE >> self.page_size.shift()) as u32
    }

    /// Touches the memory behind committed frames, so that the first user of one doesn't wait for the kernel
    /// to clear a huge page (5.5 ms where that was measured, in a virtual machine). Takes as long as that for
    /// each.
    pub(crate) fn populate(&self, frames: Range<u32>) {
        for row in places::rows(frames) {
            let start = self.bytes(&row).start;
            let end = start + self.at(row.len() as u32);
            // A kernel before 5.14 can't; then the first touch pays.
            if self.mapping.advise(start..end, Advice::Populate).is_err() {
                return;
            }
        }
    }

    /// Frames that no thread knows of give their memory back.
    pub(super) fn unpopulate(&self, frames: Range<u32>) {
        // SAFETY: no thread has been told of them (`Exchange::add_frames`), so none has a right to their
        // bytes.
        unsafe { self.mapping.discard(self.bytes(&frames)) };
    }

    /// The bytes of these frames, with what lies between them; of exchanged frames, where they were born.
    fn bytes(&self, frames: &Range<u32>) -> Range<usize> {
        assert!(
            frames.start <= frames.end && frames.end <= self.frames_max,
            "frames {frames:?} of at most {}",
            self.frames_max
        );
        let at = |frame| match self.places {
            None => self.at(frame),
            Some(_) => self.at(places::born_at(frame)),
        };
        at(frames.start)..at(frames.end)
    }

    /// The same bytes, one page of the kernel's further on. What is committed is so one page further than its frames, so
    /// that each frame has readable memory behind it: the next frame, or zeros that no memory is behind.
    fn behind(&self, frames: &Range<u32>) -> Range<usize> {
        let Range { start, end } = self.bytes(frames);
        start + kernel_page()..end + kernel_page()
    }

    /// Bytes that are held to know where frames are.
    pub(crate) fn metadata_bytes(&self) -> u64 {
        self.places.as_ref().map_or(0, Places::metadata_bytes)
    }

    /// The address at which new frames begin, and the number of bytes to their end.
    pub(super) fn birthplace(&self, frames: &Range<u32>) -> (usize, usize) {
        let bytes = self.bytes(frames);
        (self.mapping.start().addr().get() + bytes.start, bytes.len())
    }

    /// Where frames are, if pages are exchanged.
    ///
    /// # Panics
    /// If they are not.
    fn places(&self) -> &Places {
        self.places.as_ref().expect("pages are exchanged with regions")
    }

    /// Pages are exchanged by this from now on.
    pub(super) fn exchange_by(&self, uffd: &Arc<Userfault>) {
        let _ = self.filler.set(uffd.clone());
    }

    /// The program may have locked it: that ends here.
    pub(super) fn unlock(&self) {
        self.mapping.unlock();
    }

    /// The program may have had it merged: that ends here.
    pub(super) fn unmerge(&self) {
        self.mapping.unmerge();
    }

    /// Memory that a program has seen is given back, and fresh memory takes its place: its frames are free,
    /// and the core lock is held.
    fn refresh(&self, stale: Option<Stale>) {
        let (Some(mut stale), Some(filler)) = (stale, self.filler.get()) else {
            return;
        };
        let (start, page) = (self.mapping.start().addr().get(), kernel_page());
        let mut drops = Drops::new();
        for &place in stale.runs().flatten() {
            // SAFETY: the place is one of a free frame, so there is no reference to its memory.
            unsafe { drops.push(start + self.at(place)) };
        }
        drop(drops);
        for run in stale.runs() {
            filler.fill(start + self.at(run[0]), run.len() * page);
        }
    }

    /// Of free frames that are about to be used, those without memory get some, because the budget had become smaller or because
    /// they are used for the first time: a device may be the first to touch it, and that is not always seen.
    fn fill_given_back(&self, places: &Places, frames: &[FrameNo]) {
        let Some(filler) = self.filler.get() else { return };
        let start = self.mapping.start().addr().get();
        let places = places.take_given_back(frames);
        for run in places.chunk_by(|a, b| *b == a + 1) {
            filler.fill(start + self.at(run[0]), run.len() * kernel_page());
        }
    }

    /// A slot's distance from the arena's start.
    #[inline]
    fn at(&self, place: u32) -> usize {
        (place as usize) << self.page_size.shift()
    }

    /// The distance of a frame's memory from the arena's start.
    ///
    /// # Panics
    /// If it has none, because its page is in a region.
    #[inline]
    pub(crate) fn offset(&self, frame: FrameNo) -> usize {
        assert!(
            frame.0 < self.frames_max,
            "{frame:?} of at most {}",
            self.frames_max
        );
        match &self.places {
            None => self.at(frame.0),
            Some(places) => match places.of(frame) {
                Some(place) => self.at(place),
                None => panic!("{frame:?} has no memory in the arena"),
            },
        }
    }

    /// The address of a frame's memory.
    ///
    /// # Panics
    /// As [`Arena::offset`].
    pub(super) fn address(&self, frame: FrameNo) -> usize {
        self.mapping.start().addr().get() + self.offset(frame)
    }

    /// The same, for a caller that has a right to its bytes.
    pub(super) fn pointer(&self, frame: FrameNo) -> NonNull<u8> {
        self.frame(frame)
    }

    /// A frame gives its memory back: it is free and the core lock is held, or its page is the caller's
    /// and has its content elsewhere.
    pub(super) fn empty(&self, frame: FrameNo) {
        let start = self.offset(frame);
        // SAFETY: no other thread has a right to the frame, and the caller has no reference to it.
        unsafe { self.mapping.discard(start..start + self.len()) };
    }

    #[inline]
    fn frame(&self, frame: FrameNo) -> NonNull<u8> {
        // SAFETY: below `frames_max` frames, or their places, and the mapping is that long (`new`). A place
        // changes only while no thread has a right to the frame's bytes (`places.rs`).
        unsafe { self.mapping.start().add(self.offset(frame)) }
    }

    #[inline]
    fn len(&self) -> usize {
        self.page_size.bytes() as usize
    }
}

impl Memory for Arena {
    fn frames_max(&self) -> u32 {
        self.frames_max
    }

    fn commit(&self, frames: Range<u32>) -> io::Result<()> {
        let Range { start, end } = self.bytes(&frames);
        let end = match self.places {
            None => self.behind(&frames).end,
            // Frames that are exchanged have no neighbours that stay.
            Some(_) => end,
        };
        self.mapping.protect(start..end, true)
    }

    fn granted(&self, frames: &[FrameNo], behind: impl FnOnce() -> Option<FrameNo>) {
        if let Some(places) = &self.places {
            self.fill_given_back(places, frames);
            self.refresh(places.granted(frames, behind()));
        }
    }

    fn freed(&self, vacated: &Vacated) {
        if let Some(places) = &self.places {
            let frames = vacated.frames().clone().map(FrameNo);
            frames.for_each(|frame| self.refresh(places.freed(frame)));
        }
    }

    fn discard(&self, vacated: Vacated) {
        let Some(places) = &self.places else {
            let bytes = self.bytes(vacated.frames());
            if matches!(self.huge_pages, Some(Ok(()))) {
                // The kernel would make huge pages of what is left of them, and the memory would be back
                // (`khugepaged`, which by default fills in up to 511 of 512 pages).
                let block = bytes.start / HUGE_PAGE * HUGE_PAGE..bytes.end.next_multiple_of(HUGE_PAGE);
                let block = block.start..block.end.min(self.mapping.len());
                // Refused where a process has too many mappings.
                let _ = self.mapping.advise(block, Advice::SmallPages);
            }
            // SAFETY: as in `withdraw`; the frames stay accessible and read as zeros.
            unsafe { self.mapping.discard(bytes) };
            return;
        };
        for frame in vacated.frames().clone().map(FrameNo) {
            places.given_back(frame);
            self.empty(frame);
        }
    }

    fn withdraw(&self, vacated: Vacated) {
        assert!(self.places.is_none(), "frames that are exchanged stay");
        let bytes = self.bytes(vacated.frames());
        // SAFETY: no frame of `Vacated` holds a page, so there is neither a pin nor a token for any of
        // them: T4.
        unsafe { self.mapping.discard(bytes.clone()) };
        // Without it a stray access would read zeros instead of faulting; the memory is gone in any case.
        let _ = self.mapping.protect(self.behind(vacated.frames()), false);
    }
}

impl<H: Holder<Memory = Arena>> Deref for SharedPin<H> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let arena = self.table().memory();
        // SAFETY: the page is pinned in the table that owns this arena for as long as `self` lives, so
        // the frame is committed, loaded, and no thread has it exclusively: T1.
        unsafe { std::slice::from_raw_parts(arena.frame(self.frame()).as_ptr(), arena.len()) }
    }
}

impl<H: Holder<Memory = Arena>> Deref for ExclusivePin<H> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let arena = self.table().memory();
        // SAFETY: the page belongs to `self` alone in the table that owns this arena, and is committed
        // and loaded: T2.
        unsafe { std::slice::from_raw_parts(arena.frame(self.frame()).as_ptr(), arena.len()) }
    }
}

impl<H: Holder<Memory = Arena>> DerefMut for ExclusivePin<H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let arena = self.table().memory();
        // SAFETY: the page belongs to `self` alone in the table that owns this arena, and is committed
        // and loaded: T2. The device may read it meanwhile (a page may change under writeback), which is
        // the kernel's doing, not ours.
        unsafe { std::slice::from_raw_parts_mut(arena.frame(self.frame()).as_ptr(), arena.len()) }
    }
}

impl Table<Arena> {
    /// The bytes of a page that is being loaded: what the frame's former page left there, until they are
    /// overwritten.
    #[inline]
    pub(crate) fn load_bytes<'a>(&'a self, load: &'a mut Load) -> &'a mut [u8] {
        let arena = self.memory();
        let frame = self.loading_frame(load);
        // SAFETY: the frame belongs to the holder of this one token, of which we have the only reference:
        // T3.
        unsafe { std::slice::from_raw_parts_mut(arena.frame(frame).as_ptr(), arena.len()) }
    }
}

impl std::fmt::Debug for Table<Arena> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table of at most {} frames", self.memory().frames_max)
    }
}

// SAFETY: the mapping is reserved once and unmapped with the arena, which the table owns. Requests name only
// frames that are loading, whose bytes are their load's (T3, and the load is held until the transfer has
// ended), or under writeback, which may be changed meanwhile by design: the page is then dirty again and
// written once more. Neither is free or being moved, so the frame's place stays the same meanwhile
// (`places.rs`).
unsafe impl crate::device::Memory for Table<Arena> {
    fn range(&self) -> NonNull<[u8]> {
        let arena = self.memory();
        NonNull::slice_from_raw_parts(arena.mapping.start(), arena.mapping.len())
    }
}

#[cfg(test)]
mod tests;
