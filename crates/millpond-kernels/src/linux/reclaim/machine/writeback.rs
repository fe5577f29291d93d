//! The flusher of the time, and the tasks that write files back: slices of 1024 pages by file, in order of first change.
//!
//! ```text
//!   more than the background limit is dirty · a wish from reclaim · every 5 s what is older than 30 s
//!        └──► a slice of 1024 pages: files from the dispatch list, each from where its last write-back ended
//! ```
//!
//! Writes go into the block layer's queue until that is full, and then all wait there.

use super::memory::{DIRTY, WRITING};
use super::scheduler::{FLUSHER, Machine, Step, Wait};
use millpond_core::units::{Instant, Nanos};

/// `MAX_WRITEBACK_PAGES` of 3.0: 4 MiB.
pub(super) const SLICE_PAGES: u64 = 1024;
/// `dirty_writeback_centisecs`.
const PERIOD: Nanos = Nanos::from_secs(5);
/// `dirty_expire_centisecs`.
const EXPIRED: Nanos = Nanos::from_secs(30);
/// The cost of a request besides its pages.
const REQUEST: Nanos = Nanos(4_000);

/// Pages of a file to be written where they are dirty and consecutive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) file: u32,
    pub(super) next: u64,
    pub(super) end: u64,
}

/// A slice under way.
#[derive(Debug)]
pub(super) struct Slice {
    left: u64,
    pub(super) written: u64,
    expired: Option<Nanos>,
    file: Option<u32>,
    /// The dispatch list was filled for it.
    queued: bool,
    /// The file's write-back has gone round to its start.
    wrapped: bool,
}

impl Slice {
    pub(super) fn new(pages: u64, expired: Option<Nanos>) -> Slice {
        Slice {
            left: pages,
            written: 0,
            expired,
            file: None,
            queued: false,
            wrapped: false,
        }
    }
}

/// The flusher.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    slice: Option<Slice>,
    /// Pages that reclaim wants to be written.
    wished: u64,
    period_at: Instant,
    is_period: bool,
}

/// Limits of dirty pages: `global_dirty_limits`, by the ratios of 10 and 20 percent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) background: u64,
    pub(super) hard: u64,
}

impl Machine {
    pub(super) fn limits(&self) -> Limits {
        let dirtyable = self.memory.dirtyable();
        Limits {
            background: dirtyable / 10,
            hard: dirtyable / 5,
        }
    }

    /// Dirty pages of files, being written or not.
    pub(super) fn unclean(&self) -> u64 {
        self.dirty + self.writing
    }

    /// Reclaim wants pages written, or the background limit is exceeded (0).
    pub(super) fn wake_flusher(&mut self, pages: u64) {
        self.flusher.wished = (self.flusher.wished + pages).min(self.dirty);
        if self.threads[FLUSHER].wait == Wait::Time {
            self.wake(FLUSHER);
        }
    }

    /// Writes the next request of a run. `Done`: none is left.
    pub(super) fn write_run(&mut self, thread: usize, run: &mut Run) -> Step {
        let most = self.block.pages_max().min(run.end.saturating_sub(run.next));
        let found = self.files.run(run.file, run.next, most);
        let Some((first, pages)) = found.filter(|&(first, pages)| first == run.next && pages > 0) else {
            self.block.leave_line(thread);
            return Step::Done(Nanos::ZERO);
        };
        if !self.block.has_room(thread) {
            self.sleep(thread, Wait::Request, Instant::NEVER);
            return Step::Waits(Nanos::ZERO);
        }
        run.next = first + pages;
        Step::Ran(self.submit_pages(thread, run.file, first, pages))
    }

    /// Puts dirty pages of a file on their way to the disk.
    fn submit_pages(&mut self, thread: usize, file: u32, first: u64, pages: u64) -> Nanos {
        let mut frames = Vec::with_capacity(pages as usize);
        for page in first..first + pages {
            let number = self.files.frame(file, page);
            let frame = self.memory.frame(number);
            debug_assert!(frame.has(DIRTY) && !frame.has(WRITING));
            frame.flags = frame.flags & !DIRTY | WRITING;
            self.files.cleaned(file, page);
            frames.push(number);
        }
        self.dirty -= pages;
        self.writing += pages;
        let offset = self.files.file(file).offset + first * 4096;
        self.block.submit(self.now, thread, (true, false), offset, frames);
        REQUEST + Nanos(pages * self.options.costs.submit_page.0)
    }

    /// Goes on with a slice.
    pub(super) fn write_back(&mut self, thread: usize, slice: &mut Slice) -> Step {
        let Some(file) = slice.file else {
            if slice.left == 0 {
                return Step::Done(Nanos::ZERO);
            }
            slice.file = self.files.begin();
            slice.wrapped = false;
            if slice.file.is_none() {
                if slice.queued {
                    return Step::Done(Nanos::ZERO);
                }
                slice.queued = true;
                self.files.queue(self.now, slice.expired);
            }
            return Step::Ran(Nanos(1_000));
        };
        let cursor = self.files.file(file).cursor;
        let most = self.block.pages_max().min(slice.left);
        let run = match slice.left {
            0 => None,
            _ => self.files.run(file, cursor, most),
        };
        let Some((first, pages)) = run else {
            self.block.leave_line(thread);
            let state = self.files.file(file);
            if slice.left > 0 && state.dirty_pages > 0 && !slice.wrapped {
                (state.cursor, slice.wrapped) = (0, true);
                return Step::Ran(Nanos(500));
            }
            self.files.end(self.now, file, slice.left == 0);
            slice.file = None;
            return Step::Ran(Nanos(1_000));
        };
        if !self.block.has_room(thread) {
            self.sleep(thread, Wait::Request, Instant::NEVER);
            return Step::Waits(Nanos::ZERO);
        }
        self.files.file(file).cursor = first + pages;
        slice.left -= pages;
        slice.written += pages;
        Step::Ran(self.submit_pages(thread, file, first, pages))
    }

    pub(super) fn flusher_step(&mut self) -> Step {
        let Some(mut slice) = self.flusher.slice.take() else {
            return self.next_slice();
        };
        let step = self.write_back(FLUSHER, &mut slice);
        let Step::Done(cost) = step else {
            self.flusher.slice = Some(slice);
            return step;
        };
        self.flusher.wished = self.flusher.wished.saturating_sub(slice.written);
        if slice.written == 0 {
            // Nothing to do, or another thread holds it.
            (self.flusher.wished, self.flusher.is_period) = (0, false);
            let nap = match self.files.has_more() {
                true => Nanos::from_millis(10),
                false => Nanos::from_millis(100),
            };
            self.sleep(FLUSHER, Wait::Time, self.now + nap);
            return Step::Waits(cost);
        }
        if slice.left > 0 {
            self.flusher.is_period = false;
        }
        Step::Ran(cost)
    }

    fn next_slice(&mut self) -> Step {
        if self.now >= self.flusher.period_at {
            (self.flusher.period_at, self.flusher.is_period) = (self.now + PERIOD, true);
        }
        let is_over = self.dirty > self.limits().background;
        let slice = if self.flusher.wished > 0 {
            Slice::new(SLICE_PAGES.min(self.flusher.wished), None)
        } else if self.flusher.is_period {
            Slice::new(SLICE_PAGES, Some(EXPIRED))
        } else if is_over {
            Slice::new(SLICE_PAGES, None)
        } else {
            self.sleep(FLUSHER, Wait::Time, self.flusher.period_at);
            return Step::Waits(Nanos(500));
        };
        self.flusher.slice = Some(slice);
        Step::Ran(Nanos(500))
    }
}
