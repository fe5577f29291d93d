//! The scripts of Hills 2015's experiment on Millpond: one process writes a file like `dd bs=1M`, and another changes
//! settings all the time.

use crate::process::{Done, Op, Script};
use millpond_core::units::{FileId, Instant, Nanos};
use std::cell::RefCell;
use std::rc::Rc;

/// The observations of a run's writers.
#[derive(Debug, Default)]
pub struct Seen {
    /// Writers that have not synced yet.
    pub writers: u32,
    /// The duration of each write, of all writers.
    pub writes: Vec<Nanos>,
    /// Pages written, by writer.
    pub pages: Vec<u64>,
    /// Pages written by each when the first of them had written all.
    pub pages_at_first: Vec<u64>,
    /// When the last sync returned.
    pub synced: Instant,
    /// The number of touches of a setting.
    pub touched: u64,
}

/// Shared by the scripts of a run.
pub type Shared = Rc<RefCell<Seen>>;

/// Pages of a write: 1 MiB.
const WRITE_PAGES: u64 = 256;

/// Writes its file from the start to the end, then syncs it.
pub struct Dd {
    file: FileId,
    number: usize,
    pages: u64,
    at: u64,
    seen: Shared,
}

impl Dd {
    /// A writer of `pages` pages of `file`.
    pub fn new(file: FileId, pages: u64, seen: Shared) -> Dd {
        let mut all = seen.borrow_mut();
        all.writers += 1;
        all.pages.push(0);
        let number = all.pages.len() - 1;
        drop(all);
        Dd {
            file,
            number,
            pages,
            at: 0,
            seen,
        }
    }
}

impl Script for Dd {
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op {
        let mut seen = self.seen.borrow_mut();
        match done.map(|done| done.op) {
            Some(Op::Write { pages, .. }) => {
                let took = done.map_or(Nanos::ZERO, |done| done.ended.since(done.began));
                seen.writes.push(took);
                seen.pages[self.number] += u64::from(pages);
                if self.at >= self.pages && seen.pages_at_first.is_empty() {
                    seen.pages_at_first = seen.pages.clone();
                }
            }
            Some(Op::Sync { .. }) => {
                seen.synced = now;
                seen.writers -= 1;
                return Op::Exit;
            }
            _ => {}
        }
        if self.at >= self.pages {
            return Op::Sync { file: self.file };
        }
        let (file, first) = (self.file, self.at);
        let pages = WRITE_PAGES.min(self.pages - first);
        self.at += pages;
        Op::Write {
            file,
            first,
            pages: pages as u32,
        }
    }
}

/// Sets the world's alternative options in turn until all writers have ended, and the last ones at the end.
pub struct Tuner {
    alternatives: usize,
    every: Nanos,
    next: usize,
    ended: bool,
    seen: Shared,
}

impl Tuner {
    /// For a world with this many `alternatives`, one each `every`.
    pub fn new(alternatives: usize, every: Nanos, seen: Shared) -> Tuner {
        Tuner {
            alternatives,
            every,
            next: 0,
            ended: false,
            seen,
        }
    }
}

impl Script for Tuner {
    fn next(&mut self, _: Instant, done: Option<&Done>) -> Op {
        if let Some(Op::Retune { .. }) = done.map(|done| done.op) {
            self.seen.borrow_mut().touched += 1;
            return if self.ended {
                Op::Exit
            } else {
                Op::Sleep(self.every)
            };
        }
        self.ended = self.seen.borrow().writers == 0;
        self.next += 1;
        let number = match self.ended {
            true => self.alternatives - 1,
            false => self.next % self.alternatives,
        };
        Op::Retune { number }
    }
}
