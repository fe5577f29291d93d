//! Regions: memory whose pages come and go, and the exchange of them with the arena.
//!
//! ```text
//!   region   │ 0 │   │   │ 3 │   │ …       what the program sees, at addresses that never change
//!              │ ▲       ▲
//!              ▼ │       │ UFFDIO_MOVE       a page of memory goes from one to the other
//!   arena    │   │ f │ g │   │ h │ …       frames, which the device reads and writes
//! ```
//!
//! The memory of a region's page is either in the region or in the arena, but for a few pages that have both.
//! Where in the arena it is, `places.rs` says. As much of the arena has memory as there are frames, less
//! those whose pages are in a region; so the budget that bounds the frames bounds the regions.
//!
//! Why safe code can't break memory with this: a frame of a region's page is known under a number that no file has, so
//! there are no pins of it and no slice but a load's and [`Exchange::bytes`]; and what is moved belongs to the one
//! holder of an [`InHand`], which is made by [`Pages::take`](crate::memory::Pages::take) or with a load. A region's own
//! slices stay right whatever happens here, as the content of its pages is what was written there last, always.
//!
//! A single page that a thread waits for is copied instead, and is double-resident for a while: to take it away in one place
//! all processors would have to forget its address at once, and of many pages they can at a time.
//!
//! A moved page that is pinned for a device is refused (`EBUSY`), so what a device writes into a region is not lost.
//!
//! The program may change its region by system calls, and nothing breaks. Pages of a locked region (`mlock`)
//! can't be moved to an arena that is not locked: the region is unlocked, and a warning says so. Read-only
//! pages (`mprotect`) can't be moved at all: they are copied, and are write-protected meanwhile. Pages that
//! are not readable either stay. Pages merged with equal ones (`MADV_MERGEABLE`, `PR_SET_MEMORY_MERGE`) count
//! as pinned: the kernel is told not to merge them.

mod locked;
mod mapped;
mod there;
mod wake;

use crate::frames::table::Table;
use crate::sys::addresses::RegionMemory;
use crate::sys::arena::Arena;
use crate::sys::arena::places::Places;
use crate::sys::drops::Drops;
use crate::sys::mapping::{HUGE_PAGE, kernel_page};
use crate::sys::own_memory::OwnMemory;
use crate::sys::uffd::{OnTouch, Userfault};
use millpond_core::units::FrameNo;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// How often a move that the kernel could not do at the moment is tried before something else is done: it is a page lock
/// or a pin of a transfer that has just ended, both gone within microseconds.
const MOVE_TRIES: u32 = 100_000;

/// After this many tries the page may be merged with others, which ends when the kernel is told so.
const UNMERGE_AT: u32 = 20;

/// The right to move a page between its region and its frame, and to read it in the frame.
#[derive(Clone, Copy)]
pub(crate) struct InHand<'a> {
    pub(crate) memory: &'a RegionMemory,
    pub(crate) page: u64,
    pub(crate) frame: FrameNo,
}

/// Why a page could not be moved out of its region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stuck {
    /// A device reads or writes it, a child of this process shares it, or the program has forbidden itself to read it.
    Pinned,
    /// It is not there: the program had the kernel drop it, of a mapped file.
    Gone,
}

/// Moves pages.
///
/// A page is moved by the userfaultfd of where it goes: the arena's, or the region's own if that is another.
pub(crate) struct Exchange {
    uffd: Arc<Userfault>,
    /// For regions whose threads get a signal; made with the first of them.
    signals: OnceLock<Userfault>,
    /// Pages can be write-protected.
    can_write_protect: AtomicBool,
    /// Locked memory of the program was unlocked, and that has not been reported yet.
    unlocked: AtomicBool,
    own_memory: OwnMemory,
    /// Frames get their memory when they are made, not at first use.
    populate: bool,
    table: Arc<Table<Arena>>,
}

/// One of the two memories of a page that is in its region and in its frame.
#[derive(Clone)]
pub(crate) enum Copy<'a> {
    /// That in the region, which is write-protected and so equal to the other: from now on the page is in its frame.
    InRegion(InHand<'a>),
    /// That in the frame.
    InFrame(InHand<'a>),
}

impl Exchange {
    /// Between this arena and regions. `populate`: frames get their memory when they are made, not at first use.
    ///
    /// # Errors
    /// If userfaultfd is refused or can't move pages, which the error explains.
    pub(crate) fn new(table: Arc<Table<Arena>>, populate: bool) -> io::Result<Exchange> {
        let uffd = Arc::new(Userfault::new(OnTouch::Sleeps)?);
        table.memory().exchange_by(&uffd);
        Ok(Exchange {
            uffd,
            signals: OnceLock::new(),
            can_write_protect: AtomicBool::new(true),
            unlocked: AtomicBool::new(false),
            own_memory: OwnMemory::open(),
            populate,
            table,
        })
    }

    /// The one that has the region.
    fn of(&self, memory: &RegionMemory) -> &Userfault {
        match memory.touch {
            OnTouch::Sleeps => &self.uffd,
            OnTouch::Signals => self.signals.get().unwrap_or(&self.uffd),
        }
    }

    /// The reader of faults.
    pub(crate) fn uffd(&self) -> &Userfault {
        &self.uffd
    }

    /// Sets the number of frames; the new ones may be exchanged from now on. If that fails there is none of the new
    /// ones yet, and the next call tries again.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn add_frames(&self, frames: u32) -> io::Result<()> {
        let new = self.places().frames()..frames;
        if new.is_empty() {
            return Ok(());
        }
        let arena = self.table.memory();
        if self.populate {
            arena.populate(new.clone());
        }
        let (start, len) = arena.birthplace(&new);
        match self.uffd.register(start, len) {
            Ok(()) => self.places().born(frames, self.populate),
            Err(error) => {
                arena.unpopulate(new);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The pages of a region may come and go from now on.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn add_region(&self, memory: &RegionMemory) -> io::Result<()> {
        if memory.touch == OnTouch::Signals && self.signals.get().is_none() {
            // If another thread was faster, this one is closed.
            let _ = self.signals.set(Userfault::new(OnTouch::Signals)?);
        }
        let (uffd, start, len) = (self.of(memory), memory.page(0), memory.mapping.len());
        match uffd.register_with_writes(start, len) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.can_write_protect.store(false, Ordering::Relaxed);
                uffd.register(start, len)
            }
            registered => registered,
        }
    }

    /// Puts zeros where a page of a region should be and is not: the program told the kernel, behind our
    /// back, to drop it, and it was not in its frame as well. The page is ours alone. Returns whether it was
    /// missing.
    pub(crate) fn restore(&self, memory: &RegionMemory, page: u64) -> bool {
        let uffd = self.of(memory);
        let was_missing = uffd.zero(memory.page(page), kernel_page()).is_ok();
        if !was_missing {
            uffd.wake(memory.page(page), kernel_page());
        }
        was_missing
    }

    /// Moves a page from its frame into its region, and wakes the threads that wait for it. `false`: the
    /// system has no memory for that, and the page is still in its frame.
    ///
    /// # Panics
    /// If there is no page in the frame, or one in the region.
    pub(crate) fn move_in(&self, page: &InHand<'_>) -> bool {
        let (to, from) = (page.memory.page(page.page), self.frame(page.frame));
        let mut was_locked = None;
        for n in 0..MOVE_TRIES {
            // SAFETY: the page is ours alone (`InHand`), and was in the arena only.
            let (_, moved) = unsafe { self.of(page.memory).move_pages(to, from, kernel_page()) };
            match moved.as_ref().map_err(io::Error::raw_os_error) {
                Ok(()) => {
                    self.unlocked
                        .fetch_or(was_locked == Some(true), Ordering::Relaxed);
                    self.vacate(std::slice::from_ref(page));
                    return true;
                }
                // A page lock, or a pin of a transfer that has just ended; or the kernel has no memory for
                // its own part.
                Err(Some(libc::EBUSY)) if n == UNMERGE_AT => self.unmerge(page.memory),
                Err(Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM)) => {}
                Err(Some(libc::EINVAL)) if was_locked.is_none() => {
                    was_locked = Some(self.unlock(page.memory))
                }
                Err(Some(libc::EINVAL)) => break,
                Err(Some(libc::EEXIST)) if self.has_moved(to, from) => {
                    self.vacate(std::slice::from_ref(page));
                    self.of(page.memory).wake(to, kernel_page());
                    return true;
                }
                Err(_) => panic!("moving {:?} to page {}: {moved:?}", page.frame, page.page),
            }
            if n > 10 {
                std::thread::yield_now();
            }
        }
        // Something else in the process pins the arena's page, or has made the region read-only: the content
        // is what matters. SAFETY: the page is ours alone, and no thread changes it.
        let copied = unsafe { self.of(page.memory).copy_page(to, from, false) };
        match copied.as_ref().map_err(io::Error::raw_os_error) {
            Ok(()) => {}
            Err(Some(libc::ENOMEM | libc::EAGAIN)) => return false,
            Err(_) => panic!("copying {:?} to page {}: {copied:?}", page.frame, page.page),
        }
        self.table.memory().empty(page.frame);
        self.vacate(std::slice::from_ref(page));
        true
    }

    /// Copies a page from its frame into its region, and wakes the waiting threads: no processor has to flush an address for
    /// that. `protect`: write-protects it. Returns whether it is write-protected; `None` if there is no memory for it.
    ///
    /// # Panics
    /// If there is a page in the region.
    pub(crate) fn copy_in(&self, page: &InHand<'_>, protect: bool) -> Option<bool> {
        let protect = protect && self.may_write_protect(page.memory);
        let (to, from) = (page.memory.page(page.page), self.frame(page.frame));
        // SAFETY: the page is in our hands alone (`InHand`), and is in the arena only; nobody changes it there.
        let copied = unsafe { self.of(page.memory).copy_page(to, from, protect) };
        match copied.as_ref().map_err(io::Error::raw_os_error) {
            Ok(()) => Some(protect),
            Err(Some(libc::EEXIST)) => panic!("copying {:?} to page {}: {copied:?}", page.frame, page.page),
            Err(_) => None,
        }
    }

    /// Pages are about to leave their region: those without a place in the arena get places that follow one
    /// another.
    pub(crate) fn put_together(&self, pages: &[InHand<'_>]) {
        let mut left = pages;
        while !left.is_empty() {
            left = &left[self.places().put_together(left.iter().map(|page| page.frame))..];
        }
    }

    /// The number of pages, from the first on, that are consecutive both in the region and in the arena.
    pub(crate) fn run(&self, pages: &[InHand<'_>]) -> usize {
        let place = |page: &InHand<'_>| self.places().of(page.frame);
        let follows = |pair: &&[InHand<'_>]| {
            let [a, b] = pair else { return false };
            b.page == a.page + 1 && place(a).is_some_and(|at| place(b) == Some(at + 1))
        };
        pages.len().min(1 + pages.windows(2).take_while(follows).count())
    }

    fn places(&self) -> &Places {
        self.table.memory().places()
    }

    /// The pages no longer have memory in the arena.
    fn vacate(&self, pages: &[InHand<'_>]) {
        self.places().vacate(pages.iter().map(|page| page.frame));
    }

    /// Gives back one of the two memories of pages that are in both places.
    pub(crate) fn drop_copies<'a>(&self, copies: impl Iterator<Item = Copy<'a>> + Clone) {
        let mut drops = Drops::new();
        for copy in copies.clone() {
            let address = match copy {
                Copy::InRegion(page) => page.memory.page(page.page),
                Copy::InFrame(page) => self.frame(page.frame),
            };
            // SAFETY: the page is ours alone (`InHand`). In the region it can't be written, and a thread that
            // touches it from now on waits, and gets the other memory, which is equal. There is no reference
            // to the memory in the frame.
            unsafe { drops.push(address) };
        }
        drop(drops);
        self.places().vacate(copies.filter_map(|copy| match copy {
            Copy::InRegion(_) => None,
            Copy::InFrame(page) => Some(page.frame),
        }));
    }

    /// A write-protected page can be written again, and a thread that waits to do so goes on. `false`: not yet.
    pub(crate) fn open(&self, memory: &RegionMemory, page: u64) -> bool {
        self.of(memory).open(memory.page(page), kernel_page())
    }

    /// Whether pages of the region may be write-protected: where faults in system calls are seen, or are known to fail.
    fn may_write_protect(&self, memory: &RegionMemory) -> bool {
        let is_seen = memory.is_of_file || memory.touch == OnTouch::Signals || self.uffd.sees_system_calls();
        is_seen && self.can_write_protect.load(Ordering::Relaxed)
    }

    /// Moves pages into their region, as far as they are a [`run`](Exchange::run), and wakes the threads that
    /// wait for them. Returns how many: at least the first, except as in [`Exchange::move_in`].
    ///
    /// # Panics
    /// As [`Exchange::move_in`].
    pub(crate) fn move_in_run(&self, pages: &[InHand<'_>]) -> usize {
        let Some(first) = pages.first() else { return 0 };
        let pages = &pages[..self.run(pages)];
        let (to, from) = (first.memory.page(first.page), self.frame(first.frame));
        // SAFETY: the pages are ours alone (`InHand`), and were in the arena only.
        let (moved, _) = unsafe {
            self.of(first.memory)
                .move_pages(to, from, pages.len() * kernel_page())
        };
        let mut moved = moved / kernel_page();
        // The page at which it stopped may be one that it has just moved.
        while let Some(next) = pages.get(moved)
            && self.has_moved(next.memory.page(next.page), self.frame(next.frame))
        {
            self.wake(next.memory, next.page);
            moved += 1;
        }
        if moved == 0 {
            return self.move_in(first).into();
        }
        self.vacate(&pages[..moved]);
        moved
    }

    /// Copies a page that can't be moved from its region into its frame, and gives the memory there back. Whether it could.
    pub(crate) fn copy_away(&self, page: &InHand<'_>) -> bool {
        let (uffd, at) = (self.of(page.memory), page.memory.page(page.page));
        if !self.can_write_protect.load(Ordering::Relaxed) || uffd.write_protect(at, kernel_page()).is_err() {
            return false;
        }
        let is_copied = self.copy_out(page);
        match is_copied {
            // SAFETY: the page is ours alone; it could not be written since it was copied, and a thread that
            // touches it waits.
            true => unsafe { Drops::new().push(at) },
            false => {
                uffd.open(at, kernel_page());
            }
        }
        is_copied
    }

    /// Moves pages that follow one another out of their region. Returns how many were moved; the next
    /// one is stuck.
    pub(crate) fn move_out(&self, pages: &[InHand<'_>]) -> (usize, Option<Stuck>) {
        let (mut done, mut tries, mut most) = (0, 0, pages.len());
        let (mut was_locked, mut was_unmerged) = (None, false);
        while let Some(page) = pages.get(done) {
            let rest = &pages[done..];
            let together = self.places().put_together(rest.iter().map(|page| page.frame));
            let count = together.min(most);
            let (to, from) = (self.frame(page.frame), page.memory.page(page.page));
            let len = count * kernel_page();
            // SAFETY: the pages are ours alone (`InHand`); a thread that uses the region touches what is not
            // there, and gets it back.
            let (moved, result) = unsafe { self.uffd.move_pages(to, from, len) };
            if moved > 0 {
                let moved = &rest[..moved / kernel_page()];
                self.places().seen(moved.iter().map(|page| page.frame));
                self.unlocked
                    .fetch_or(was_locked == Some(true), Ordering::Relaxed);
                (done, tries) = (done + moved.len(), 0);
                continue;
            }
            tries += 1;
            match result.as_ref().map_err(io::Error::raw_os_error) {
                // The kernel keeps memory apart that was made accessible at different times, and moves
                // nothing across.
                Err(Some(libc::EINVAL)) if count > 1 => most = 1,
                Err(Some(libc::EINVAL)) if was_locked.is_none() => {
                    was_locked = Some(self.unlock(page.memory))
                }
                Err(Some(libc::EINVAL)) if self.copy_away(page) => (done, tries) = (done + 1, 0),
                Err(Some(libc::EBUSY)) if !was_unmerged => {
                    was_unmerged = true;
                    self.unmerge(page.memory);
                }
                Err(Some(libc::EAGAIN)) if tries < MOVE_TRIES => {
                    if tries > 10 {
                        std::thread::yield_now();
                    }
                }
                Err(Some(libc::EEXIST)) if self.has_moved(to, from) => {
                    self.places().seen([page.frame].into_iter());
                    (done, tries) = (done + 1, 0);
                }
                // The whole process had its memory locked, and what was empty got memory.
                Err(Some(libc::EEXIST)) if tries < MOVE_TRIES && self.own_memory.has(from) => {
                    let mut drops = Drops::new();
                    // SAFETY: the page is in its region only and ours alone, so there is no reference to this
                    // memory.
                    unsafe { drops.push(to) };
                }
                // The program told the kernel, behind our back, to drop it: it reads as zeros.
                Err(Some(libc::ENOENT)) if !page.memory.is_of_file => {
                    self.fill(page.frame);
                    done += 1;
                }
                // It is gone, or pinned, or the kernel does not say why.
                why => {
                    self.vacate(std::slice::from_ref(page));
                    let is_gone = why == Err(Some(libc::ENOENT));
                    return (done, Some(if is_gone { Stuck::Gone } else { Stuck::Pinned }));
                }
            }
        }
        (done, None)
    }

    /// The bytes of a page that is in its frame.
    pub(crate) fn bytes<'a>(&'a self, page: &'a InHand<'_>) -> &'a [u8] {
        let start = self.table.memory().pointer(page.frame).as_ptr();
        // SAFETY: the frame's memory is in the arena, and ours alone for as long as `page` is borrowed; a device
        // may read it.
        unsafe { std::slice::from_raw_parts(start, kernel_page()) }
    }

    /// The pages of a region are gone, wherever they were; the frames of those that were in the region have
    /// zeros.
    pub(crate) fn discard(&self, memory: &RegionMemory, pages: Range<u64>, frames: &[FrameNo]) {
        let start = pages.start as usize * kernel_page();
        let end = pages.end as usize * kernel_page();
        // SAFETY: the caller has the region to itself, and knows that they read as zeros afterwards.
        unsafe { memory.mapping.discard(start..end) };
        self.refill(frames);
    }

    /// Free frames that have no memory get some: those that get places side by side with one system call.
    fn refill(&self, frames: &[FrameNo]) {
        let mut left = frames;
        while let [first, ..] = left {
            let count = self.places().put_together(left.iter().copied());
            self.uffd.fill(self.frame(*first), count * kernel_page());
            left = &left[count..];
        }
        for &frame in frames {
            self.table.memory().refresh(self.places().freed(frame));
        }
    }

    /// Has the kernel take back the table of pages that are all the caller's and not in the region.
    pub(crate) fn drop_table(&self, memory: &RegionMemory, table: u64) {
        let start = table as usize * HUGE_PAGE;
        // SAFETY: none of the pages is there, and none comes, so there is no content.
        unsafe { memory.mapping.discard(start..start + HUGE_PAGE) };
    }

    /// Puts zeros into a frame if it has no memory.
    pub(crate) fn fill(&self, frame: FrameNo) {
        self.places().put_together([frame].into_iter());
        self.uffd.fill(self.frame(frame), kernel_page());
    }

    /// Puts zeros where the arena has no memory, for the thread that waits there.
    pub(crate) fn fill_at(&self, address: usize) {
        // If it is there meanwhile, all is well; else the waiting thread comes again.
        if self.uffd.zero(address, kernel_page()).is_err() {
            self.uffd.wake(address, kernel_page());
        }
    }

    /// A thread that touches the page, which is not there, gets `SIGBUS`.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn poison(&self, memory: &RegionMemory, page: u64) -> io::Result<()> {
        self.of(memory).poison(memory.page(page), kernel_page())
    }

    fn frame(&self, frame: FrameNo) -> usize {
        self.table.memory().address(frame)
    }
}

#[cfg(test)]
mod tests;
