//! The workload of Axboe 2016 as scripts: one process writes file after file and then syncs, another reads at random.
//! For the alternatives to that reader see `workload/axboe2016/phase.rs`.

use crate::draw::Draw;
use crate::process::{Done, Op, Script};
use millpond_core::units::{FileId, Instant, Nanos};
use std::cell::RefCell;
use std::rc::Rc;

/// The observations of a run's scripts.
#[derive(Debug, Default)]
pub struct Seen {
    /// Reads that the device served: when each ended, and how long it took.
    pub missed: Vec<(Instant, Nanos)>,
    /// Reads that were served from memory: when each ended.
    pub hits: Vec<Instant>,
    /// Records of the log: when the sync of each ended, how long that took, and how long the write before it.
    pub synced_records: Vec<(Instant, Nanos, Nanos)>,
    /// Reads of the scan: when each ended, how long it took, and its pages.
    pub scanned: Vec<(Instant, Nanos, u32)>,
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

/// Whether the writers' company is to end: all writers have ended, or `until` has come.
fn is_over(now: Instant, until: Instant, seen: &Shared) -> bool {
    now >= until || (seen.borrow().writers == 0 && until == Instant::NEVER)
}

/// Reads one page after the other, anywhere in its file, until all writers have ended or `until` has come.
pub struct Reader {
    file: FileId,
    pages: u64,
    draw: Draw,
    until: Instant,
    seen: Shared,
    think: Nanos,
    /// Pages that are read often, and how many of them have been read to fill memory with them.
    hot: u64,
    warmed: u64,
    /// One read in this many is anywhere, if there are hot pages.
    cold_every: u64,
    has_thought: bool,
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
            think: Nanos::ZERO,
            hot: 0,
            warmed: 0,
            cold_every: 1,
            has_thought: false,
        }
    }

    /// Does something else for this long after each read.
    #[must_use]
    pub fn thinking(mut self, think: Nanos) -> Reader {
        self.think = think;
        self
    }

    /// Reads the first `hot` pages once, which is not noted, and then mostly those: one read of `cold_every` is anywhere.
    #[must_use]
    pub fn caching(mut self, hot: u64, cold_every: u64) -> Reader {
        (self.hot, self.cold_every) = (hot, cold_every);
        self
    }
}

impl Script for Reader {
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op {
        if self.warmed < self.hot {
            let first = self.warmed;
            let pages = WARM_PAGES.min(self.hot - first) as u32;
            self.warmed += u64::from(pages);
            return Op::Read {
                file: self.file,
                first,
                pages,
            };
        }
        let mut seen = self.seen.borrow_mut();
        if let Some(done) = done
            && let Op::Read { pages: 1, .. } = done.op
        {
            if done.missed > 0 {
                seen.missed.push((done.ended, done.ended.since(done.began)));
            } else {
                seen.hits.push(done.ended);
            }
        }
        drop(seen);
        if is_over(now, self.until, &self.seen) {
            return Op::Exit;
        }
        if self.think > Nanos::ZERO && !std::mem::replace(&mut self.has_thought, true) {
            return Op::Sleep(self.think);
        }
        self.has_thought = false;
        let is_hot = self.hot > 0 && self.draw.below(self.cold_every) > 0;
        Op::Read {
            file: self.file,
            first: self.draw.below(if is_hot { self.hot } else { self.pages }),
            pages: 1,
        }
    }
}

/// Pages of a read that fills memory with what is read often.
const WARM_PAGES: u64 = 64;

/// Appends records of one page or more to its file and syncs each before the next, from the start again at the end.
pub struct Log {
    file: FileId,
    pages: u64,
    record_pages_max: u64,
    at: u64,
    draw: Draw,
    until: Instant,
    /// The duration of the write of the record being synced.
    appended: Nanos,
    seen: Shared,
}

impl Log {
    /// A log in `file`, which has `pages` pages, of records of up to `record_pages_max` pages.
    pub fn new(
        (file, pages): (FileId, u64),
        record_pages_max: u64,
        seed: u64,
        until: Instant,
        seen: Shared,
    ) -> Log {
        Log {
            file,
            pages,
            record_pages_max,
            at: 0,
            draw: Draw(seed),
            until,
            appended: Nanos::ZERO,
            seen,
        }
    }
}

impl Script for Log {
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op {
        let took = done.map_or(Nanos::ZERO, |done| done.ended.since(done.began));
        match done.map(|done| done.op) {
            Some(Op::Write { .. }) => {
                self.appended = took;
                return Op::Sync { file: self.file };
            }
            Some(Op::Sync { .. }) => {
                let record = (now, took, self.appended);
                self.seen.borrow_mut().synced_records.push(record);
            }
            _ => {}
        }
        if is_over(now, self.until, &self.seen) {
            return Op::Exit;
        }
        let pages = 1 + self.draw.below(self.record_pages_max);
        if self.at + pages > self.pages {
            self.at = 0;
        }
        let first = self.at;
        self.at += pages;
        Op::Write {
            file: self.file,
            first,
            pages: pages as u32,
        }
    }
}

/// Appends a page to a log and syncs it, changes `batch` single pages anywhere in its file and syncs them, over and over.
pub struct Checkpoints {
    file: FileId,
    pages: u64,
    log: FileId,
    log_pages: u64,
    logged: u64,
    batch: u64,
    /// Pages of the present batch that are still to be written.
    left: u64,
    draw: Draw,
    until: Instant,
    /// When the first page of the batch was written.
    began: Instant,
    seen: Shared,
}

impl Checkpoints {
    /// Checkpoints of `batch` pages in `file` after a record in `log`, each with its number of pages.
    pub fn new(
        (file, pages): (FileId, u64),
        (log, log_pages): (FileId, u64),
        batch: u64,
        seed: u64,
        until: Instant,
        seen: Shared,
    ) -> Checkpoints {
        Checkpoints {
            file,
            pages,
            log,
            log_pages,
            logged: 0,
            batch,
            left: 0,
            draw: Draw(seed),
            until,
            began: Instant(0),
            seen,
        }
    }

    fn log(&mut self) -> Op {
        let first = self.logged % self.log_pages;
        self.logged += 1;
        Op::Write {
            file: self.log,
            first,
            pages: 1,
        }
    }

    fn change(&mut self) -> Op {
        self.left -= 1;
        Op::Write {
            file: self.file,
            first: self.draw.below(self.pages),
            pages: 1,
        }
    }
}

impl Script for Checkpoints {
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op {
        match done.map(|done| (done, done.op)) {
            Some((_, Op::Write { file, .. })) if file == self.log => Op::Sync { file },
            Some((_, Op::Write { .. })) if self.left > 0 => self.change(),
            Some((_, Op::Write { file, .. })) => Op::Sync { file },
            Some((_, Op::Sync { file })) if file == self.log => {
                (self.left, self.began) = (self.batch, now);
                self.change()
            }
            Some((done, Op::Sync { .. })) => {
                let took = done.ended.since(done.began);
                let record = (now, took, done.began.since(self.began));
                self.seen.borrow_mut().synced_records.push(record);
                match is_over(now, self.until, &self.seen) {
                    true => Op::Exit,
                    false => self.log(),
                }
            }
            _ => self.log(),
        }
    }
}

/// Reads its file from the start to the end, `step` pages at a time, and again.
pub struct Scan {
    file: FileId,
    pages: u64,
    step: u64,
    at: u64,
    until: Instant,
    seen: Shared,
}

impl Scan {
    /// A scan of `file`, which has `pages` pages.
    pub fn new(file: FileId, pages: u64, step: u64, until: Instant, seen: Shared) -> Scan {
        Scan {
            file,
            pages,
            step: step.min(pages),
            at: 0,
            until,
            seen,
        }
    }
}

impl Script for Scan {
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op {
        if let Some(done) = done
            && let Op::Read { pages, .. } = done.op
        {
            let read = (done.ended, done.ended.since(done.began), pages);
            self.seen.borrow_mut().scanned.push(read);
        }
        if is_over(now, self.until, &self.seen) {
            return Op::Exit;
        }
        if self.at + self.step > self.pages {
            self.at = 0;
        }
        let first = self.at;
        self.at += self.step;
        Op::Read {
            file: self.file,
            first,
            pages: self.step as u32,
        }
    }
}
