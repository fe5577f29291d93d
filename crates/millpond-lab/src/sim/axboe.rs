//! The workload of seed 001 as scripts: somebody writes file after file and then syncs, somebody reads at random.

use super::draw::Draw;
use super::process::{Done, Op, Script};
use millpond_core::units::{FileId, Instant, Nanos};
use std::cell::RefCell;
use std::rc::Rc;

/// What the scripts of a run have seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Reads that the device served: when each ended, and how long it took.
    pub missed: Vec<(Instant, Nanos)>,
    /// Reads that were served from memory.
    pub hits: u64,
    /// Writers that have not synced everything yet.
    pub writers: u32,
    /// When the last write returned.
    pub written: Instant,
    /// When the last sync returned.
    pub synced: Instant,
    /// Writes: when each returned, and its pages.
    pub writes: Vec<(Instant, u32)>,
}

/// Shared by the scripts of a run.
pub type Shared = Rc<RefCell<Seen>>;

/// Writes its files one after the other, then waits until all writers have, and syncs its own.
pub struct Writer {
    files: Vec<FileId>,
    pages: u64,
    /// Pages of a write.
    step: u32,
    at: (usize, u64),
    seen: Shared,
}

impl Writer {
    /// A writer of `files`, each of `pages` pages, in writes of `step` pages.
    pub fn new(files: Vec<FileId>, pages: u64, step: u32, seen: Shared) -> Writer {
        seen.borrow_mut().writers += 1;
        Writer {
            files,
            pages,
            step,
            at: (0, 0),
            seen,
        }
    }
}

impl Script for Writer {
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op {
        if let Some(Done {
            op: Op::Write { pages, .. },
            ended,
            ..
        }) = done
        {
            let mut seen = self.seen.borrow_mut();
            seen.writes.push((*ended, *pages));
            seen.written = now;
        }
        let (n, first) = self.at;
        if n < self.files.len() {
            let pages = u64::from(self.step).min(self.pages - first);
            self.at = if first + pages == self.pages {
                (n + 1, 0)
            } else {
                (n, first + pages)
            };
            return Op::Write {
                file: self.files[n],
                first,
                pages: pages as u32,
            };
        }
        let synced = n - self.files.len();
        if synced < self.files.len() {
            self.at.0 += 1;
            return Op::Sync {
                file: self.files[synced],
            };
        }
        let mut seen = self.seen.borrow_mut();
        seen.writers -= 1;
        seen.synced = now;
        Op::Exit
    }
}

/// Reads one page after the other, anywhere in its file, until all writers have ended or `until` has come.
pub struct Reader {
    file: FileId,
    pages: u64,
    draw: Draw,
    until: Instant,
    seen: Shared,
}

impl Reader {
    /// A reader of `file`, which has `pages` pages.
    pub fn new(file: FileId, pages: u64, seed: u64, until: Instant, seen: Shared) -> Reader {
        Reader {
            file,
            pages,
            draw: Draw(seed),
            until,
            seen,
        }
    }
}

impl Script for Reader {
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op {
        let mut seen = self.seen.borrow_mut();
        if let Some(done) = done
            && let Op::Read { .. } = done.op
        {
            if done.missed > 0 {
                seen.missed.push((done.ended, done.ended.since(done.began)));
            } else {
                seen.hits += 1;
            }
        }
        if now >= self.until || (seen.writers == 0 && self.until == Instant::NEVER) {
            return Op::Exit;
        }
        Op::Read {
            file: self.file,
            first: self.draw.below(self.pages),
            pages: 1,
        }
    }
}
