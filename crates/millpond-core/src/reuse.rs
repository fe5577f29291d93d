//! Whether memory is large enough, and for which file: the age of pages when they are evicted, and when they are
//! refaulted.
//!
//! ```text
//!   came in ─────── in memory ───────► evicted ─────── away ───────► refault
//!      └───────── eviction age ───────────┘                             │
//!      └───────────────────────── refault age ──────────────────────────┘
//!                                         └── refault distance: pages evicted meanwhile
//! ```
//!
//! 1. *Eviction age* (CacheLib's term): how long a page was in memory. A sample of at most 1024 frames remembers when
//!    each page came. Hits don't reach this module, so the age counts from the page's arrival, not its last use.
//! 2. *Refault age*: the same when the page is missed, including the time away. A shadow has a position in the order of
//!    evictions (`lru::workingset`). 128 timestamped marks in that order, spanning two memories of evictions, convert
//!    the position to a time.
//! 3. *Refault distance*: how many more pages of memory would have kept the page (derived as in Linux's
//!    `mm/workingset.c`). Each file has counts of its last distances, by eighths of memory, which tell how much more
//!    memory would have kept nine in ten of them. That is an upper bound, since more memory also evicts less. The part
//!    of the file that is not in memory is another upper bound.
//! 4. Shadows last for about one memory of evictions; half of those that old are gone. A page that comes back later
//!    leaves only one trace: more pages of the file are read than it has. The excess is a lower bound.
//!
//! This takes 100 bytes per file and 9 KiB for everything else. An event costs about ten instructions.

use crate::units::{FrameNo, Instant, Nanos, PageCount};
use alloc::vec::Vec;

/// The most frames that remember when their page came: about a hundred for a file with a tenth of memory.
const SAMPLED_MAX: u64 = 1024;

/// Marks in the order of evictions.
const MARKS: u64 = 128;

/// Marks per memory of evictions. They span two memories of evictions, and so more than shadows.
const MARKS_A_MEMORY: u64 = 64;

/// The parts of memory in which distances are counted.
const PARTS: usize = 8;

/// Counts of distances are halved at this number, which makes shares of them accurate to about 1 %.
const DISTANCES_MAX: u32 = 4096;

/// The current age is a mean over about this many pages.
const AGES: i64 = 128;

/// A frame whose page came before arrivals were recorded.
const UNKNOWN: Instant = Instant(u64::MAX);

/// When pages came, and when evicted pages left, over all files.
#[derive(Clone, Debug)]
pub struct Turnover {
    /// When the page came, for each frame whose number is a multiple of `1 << shift`.
    came: Vec<Instant>,
    shift: u32,
    /// Evictions since memory last changed size.
    evictions: u64,
    /// The times at which their number reached the last multiples of `step`.
    marks: [Instant; MARKS as usize],
    step: u64,
}

impl Turnover {
    /// No page has come or left.
    pub fn new(frames: PageCount) -> Turnover {
        let mut turnover = Turnover {
            came: Vec::new(),
            shift: 0,
            evictions: 0,
            marks: [Instant(0); MARKS as usize],
            step: 1,
        };
        turnover.resized(frames, PageCount(0), Instant(0));
        turnover
    }

    /// Memory changes to `frames` pages, in frames below `known`. The order of evictions is forgotten, because
    /// distances are measured differently now.
    pub fn resized(&mut self, frames: PageCount, known: PageCount, now: Instant) {
        let known = known.max(frames).0;
        let shift = known.div_ceil(SAMPLED_MAX).next_power_of_two().ilog2();
        let sampled = (known.div_ceil(1 << shift)) as usize;
        if shift != self.shift || sampled != self.came.len() {
            self.came.clear();
            self.came.resize(sampled, UNKNOWN);
            self.shift = shift;
        }
        self.step = frames.0.div_ceil(MARKS_A_MEMORY).max(1);
        self.evictions = 0;
        self.marks[0] = now;
    }

    /// A page enters the frame.
    #[inline]
    pub fn came(&mut self, frame: FrameNo, now: Instant) {
        if let Some(at) = self.sampled(frame) {
            self.came[at] = now;
        }
    }

    /// The page in the frame is evicted. Returns its age if the frame is sampled.
    #[inline]
    pub fn evicted(&mut self, frame: FrameNo, now: Instant) -> Option<Nanos> {
        self.evictions += 1;
        if self.evictions.is_multiple_of(self.step) {
            self.marks[(self.evictions / self.step % MARKS) as usize] = now;
        }
        let came = self.came[self.sampled(frame)?];
        (came != UNKNOWN).then(|| now.since(came))
    }

    /// How long a page evicted `distance` evictions ago has been away; `None` if that was before the first mark.
    pub fn away(&self, distance: PageCount, now: Instant) -> Option<Nanos> {
        let left = self.evictions.checked_sub(distance.0)?;
        let (mark, part) = (left / self.step, left % self.step);
        let last = self.evictions / self.step;
        if last - mark >= MARKS {
            return None;
        }
        let at = |mark: u64| self.marks[(mark % MARKS) as usize];
        // Between two marks evictions are taken to have been alike.
        let (end, evictions) = if mark == last {
            (now, (self.evictions % self.step).max(1))
        } else {
            (at(mark + 1), self.step)
        };
        let between = u128::from(end.since(at(mark)).0) * u128::from(part) / u128::from(evictions);
        Some(now.since(at(mark) + Nanos(between as u64)))
    }

    #[inline]
    fn sampled(&self, frame: FrameNo) -> Option<usize> {
        let at = frame.index() >> self.shift;
        (at << self.shift == frame.index() && at < self.came.len()).then_some(at)
    }

    /// Bytes used beyond the structure itself.
    pub fn metadata_bytes(&self) -> u64 {
        (self.came.capacity() * size_of::<Instant>()) as u64
    }
}

/// The current age of pages: a geometric mean of recent ages, so that a page that slept for an hour counts little.
#[derive(Clone, Copy, Debug, Default)]
struct Age {
    /// The mean of the base-2 logarithms, in units of 2^-16.
    log: i64,
    ages: i64,
}

impl Age {
    fn add(&mut self, age: Nanos) {
        let ns = age.0.max(1);
        let log = ns.ilog2();
        // Straight from one power to the next: an error of a sixteenth, of which `get` takes back its part.
        let fraction = (u128::from(ns) << 16 >> log) as i64 - (1 << 16);
        self.ages = (self.ages + 1).min(AGES);
        self.log += ((i64::from(log) << 16) + fraction - self.log) / self.ages;
    }

    fn get(&self) -> Option<Nanos> {
        let (log, fraction) = (self.log >> 16, self.log & 0xffff);
        let ns = ((1 << 16) + fraction as u128) << log >> 16;
        (self.ages > 0).then_some(Nanos(ns as u64))
    }
}

/// How pages of a file, or of all files of a kind, leave and come back.
#[derive(Clone, Debug, Default)]
pub struct Reuse {
    misses: u64,
    evicted: u64,
    refaults: u64,
    kept_by_double: u64,
    /// Pages that were in memory and left at the user's request. They may be missed once more.
    discarded: u64,
    /// Misses not explained by the number of pages, discards and refaults.
    forgotten: u64,
    eviction_age: Age,
    away: Age,
    /// The last refaults, by distance in eighths of memory. The last count covers all larger distances.
    distances: [u32; PARTS + 1],
}

impl Reuse {
    /// Pages of a file of `len` are read from the device, or from swap. Returns how many more than before must have
    /// been in memory too long ago to be remembered.
    pub fn missed(&mut self, pages: u64, len: PageCount) -> u64 {
        self.misses += pages;
        let excess = self.misses.saturating_sub(len.0 + self.discarded + self.refaults);
        let more = excess.saturating_sub(self.forgotten);
        self.forgotten += more;
        more
    }

    /// Pages of one of these files are read, and some of them had been forgotten.
    pub fn one_missed(&mut self, pages: u64, forgotten: u64) {
        self.misses += pages;
        self.forgotten += forgotten;
    }

    /// Pages have left without being evicted.
    pub fn discarded(&mut self, pages: u64) {
        self.discarded += pages;
    }

    /// A page was evicted at this age, if known.
    pub fn evicted(&mut self, age: Option<Nanos>) {
        self.evicted += 1;
        if let Some(age) = age {
            self.eviction_age.add(age);
        }
    }

    /// A page comes back that was evicted `distance` evictions ago, in a memory of `frames`.
    pub fn refaulted(&mut self, distance: PageCount, frames: PageCount, away: Option<Nanos>) {
        self.refaults += 1;
        self.kept_by_double += u64::from(distance <= frames);
        if let Some(away) = away {
            self.away.add(away);
        }
        let part = distance.0.saturating_sub(1) * PARTS as u64 / frames.0.max(1);
        self.distances[part.min(PARTS as u64) as usize] += 1;
        if self.distances.iter().sum::<u32>() >= DISTANCES_MAX {
            self.distances.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// Memory has changed size. Distances are in parts of the old size, so they are dropped.
    pub fn resized(&mut self) {
        self.distances = [0; PARTS + 1];
    }

    /// The figures, in a memory of `frames`.
    pub fn figures(&self, frames: PageCount) -> ReuseFigures {
        ReuseFigures {
            misses: self.misses,
            evicted: self.evicted,
            refaults: self.refaults,
            refaults_kept_by_double: self.kept_by_double,
            refaults_forgotten: self.forgotten,
            eviction_age: self.eviction_age.get(),
            away: self.away.get(),
            more: self.more(frames),
        }
    }

    /// How much more memory would have kept nine in ten of the last refaults.
    fn more(&self, frames: PageCount) -> More {
        let all: u64 = self.distances.iter().map(|&count| u64::from(count)).sum();
        if all == 0 {
            return More::None;
        }
        let mut kept = 0;
        for (part, &count) in self.distances[..PARTS].iter().enumerate() {
            kept += u64::from(count);
            if kept * 10 >= all * 9 {
                return More::Pages(PageCount((frames.0 * (part as u64 + 1)).div_ceil(PARTS as u64)));
            }
        }
        More::AboveDouble
    }
}

/// Upper bound for how much more memory would have kept nine in ten of the pages that came back recently. More memory
/// would also have evicted fewer pages in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum More {
    /// None: no page came back.
    #[default]
    None,
    /// This many more pages, rounded up to an eighth of memory.
    Pages(PageCount),
    /// More than twice the memory, which is as far as shadows reach.
    AboveDouble,
}

/// How pages of a file, or of all files of a kind, leave and come back. Counters start when the file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ReuseFigures {
    /// Pages read from the device, or from swap, for a waiting caller or ahead.
    pub misses: u64,
    /// Pages evicted.
    pub evicted: u64,
    /// Missing pages that had been in memory and left a shadow, read again or overwritten.
    pub refaults: u64,
    /// Of these, pages that twice the memory would have kept.
    pub refaults_kept_by_double: u64,
    /// Lower bound for misses of pages evicted too long ago to be remembered: the misses beyond the number of pages in
    /// the file.
    pub refaults_forgotten: u64,
    /// How long recently evicted pages were in memory since their arrival: a geometric mean. `None` if no sampled frame
    /// held one.
    pub eviction_age: Option<Nanos>,
    /// How long pages that came back recently had been away: a geometric mean. `None` if there were none.
    pub away: Option<Nanos>,
    /// Upper bound for the additional memory that would have kept nine in ten of them.
    pub more: More,
}

impl ReuseFigures {
    /// Age of pages when they came back: age at eviction plus time away.
    pub fn refault_age(&self) -> Option<Nanos> {
        let away = self.away?;
        Some(self.eviction_age.unwrap_or_default() + away)
    }

    /// The same for a file with at most `rest` pages missing, in a memory of `frames`: with that much more memory all
    /// of it would be in memory.
    pub fn of_what_is_missing(self, rest: PageCount, frames: PageCount) -> ReuseFigures {
        let more = match self.more {
            _ if rest == PageCount(0) => More::None,
            More::Pages(pages) => More::Pages(pages.min(rest)),
            More::AboveDouble if rest <= frames => More::Pages(rest),
            other => other,
        };
        ReuseFigures { more, ..self }
    }
}

#[cfg(test)]
mod tests;
