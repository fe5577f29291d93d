//! Which pages are lent to the kernel, of all files, and which of them are taken back first.
//!
//! ```text
//!   lent for the first time ──► new ──► taken back ──► taken ──► not asked for: forgotten
//!                                └───────────┬───────────┘
//!                                            └ asked for again: used ──► used ──► taken back
//! ```
//!
//! Hits in lent pages are not seen, so a page's use is found by taking it back: it was used if it is asked for again before
//! as many others were taken. What a stream reads once goes through `new`, which has an eighth of the pool while `used` has
//! some, and pushes nothing out of `used`.

use super::Inode;
use super::lent::{NewlyLent, Turn};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

const PAGE_BYTES: u64 = 4096;

/// While there are more used chunks, one of so many is new.
const NEW_SHARE: usize = 8;

/// The budget may have become smaller after so long.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A thread that answers the kernel waits no longer for others that take back: those may wait for an answer.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// The part of the budget that is now for what is lent. Takes no lock.
pub(crate) type ShareNow = Box<dyn Fn() -> u64 + Send + Sync>;

/// Gets how many bytes are lent.
pub(crate) type Report = Box<dyn Fn(u64) + Send + Sync>;

/// Pages that are lent.
pub(crate) struct LendPool {
    share: ShareNow,
    report: Report,
    /// Below zero for a moment: what is lent may be taken back before it is counted.
    pages: AtomicI64,
    queues: Mutex<Queues>,
    /// More is lent than may be, or it ends.
    over: Condvar,
    /// Something was taken back.
    back: Condvar,
    helpers: AtomicUsize,
}

#[derive(Default)]
struct Queues {
    new: VecDeque<Entry>,
    used: VecDeque<Entry>,
    taken: VecDeque<Entry>,
    is_ended: bool,
}

#[derive(Clone)]
struct Entry {
    inode: Weak<Inode>,
    chunk: u64,
}

/// A chunk whose turn it is.
pub(crate) struct Victim {
    pub(crate) inode: Arc<Inode>,
    pub(crate) bytes: Range<u64>,
    chunk: u64,
}

impl LendPool {
    pub(crate) fn new(share: ShareNow, report: Report) -> LendPool {
        LendPool {
            share,
            report,
            pages: AtomicI64::new(0),
            queues: Mutex::default(),
            over: Condvar::new(),
            back: Condvar::new(),
            helpers: AtomicUsize::new(0),
        }
    }

    /// How many bytes are lent at most.
    pub(crate) fn bytes(&self) -> u64 {
        self.pages.load(Ordering::Relaxed).max(0) as u64 * PAGE_BYTES
    }

    fn is_over(&self) -> bool {
        self.bytes() > self.limit()
    }

    /// More than this is taken back. The rest of the share is for what the kernel reads meanwhile, and for the tables.
    fn limit(&self) -> u64 {
        let share = (self.share)();
        share - share / 8
    }

    /// Pages of the file are about to be lent.
    pub(crate) fn lend(&self, inode: &Arc<Inode>, range: &Range<u64>, is_read: bool) {
        let mut newly = Vec::new();
        let pages = inode.lent.lend(range, is_read, |new| newly.push(new));
        if !newly.is_empty() {
            let queues = &mut *self.queues.lock();
            for NewlyLent { chunk, is_used } in newly {
                let entry = Entry {
                    inode: Arc::downgrade(inode),
                    chunk,
                };
                queues.of(is_used).push_back(entry);
            }
        }
        if pages > 0 {
            self.pages.fetch_add(pages as i64, Ordering::Relaxed);
            (self.report)(self.bytes());
        }
    }

    /// The process that served before has lent these pages of the file.
    pub(crate) fn go_on_from(&self, inode: &Arc<Inode>, lent: &[(u64, u16)]) {
        let pages = inode.lent.go_on_from(lent);
        let entries = lent.iter().map(|&(chunk, _)| Entry {
            inode: Arc::downgrade(inode),
            chunk,
        });
        self.queues.lock().new.extend(entries);
        self.pages.fetch_add(pages as i64, Ordering::Relaxed);
        (self.report)(self.bytes());
    }

    /// Pages are no more with the kernel.
    pub(crate) fn forget(&self, pages: u64) {
        self.pages.fetch_sub(pages as i64, Ordering::Relaxed);
        (self.report)(self.bytes());
    }

    /// A chunk to be taken back, if more is lent than may be. The caller gives it to [`taken`](Self::taken).
    pub(crate) fn victim(&self) -> Option<Victim> {
        if !self.is_over() {
            return None;
        }
        let queues = &mut *self.queues.lock();
        // Each once at most: all may be busy.
        for _ in 0..queues.new.len() + queues.used.len() {
            let is_used = queues.new.len() * NEW_SHARE <= queues.used.len();
            let Some(entry) = queues.of(is_used).pop_front() else {
                continue;
            };
            let Some(inode) = entry.inode.upgrade() else {
                continue;
            };
            match inode.lent.begin_take(entry.chunk, is_used) {
                Turn::Take(bytes) => {
                    return Some(Victim {
                        inode,
                        bytes,
                        chunk: entry.chunk,
                    });
                }
                Turn::Used => queues.used.push_back(entry),
                Turn::Busy => queues.of(is_used).push_back(entry),
                Turn::Gone => {}
            }
        }
        None
    }

    /// The kernel has dropped it.
    pub(crate) fn taken(&self, victim: &Victim) {
        let back = victim.inode.lent.end_take(victim.chunk);
        self.forget(back.pages);
        self.back.notify_all();
        let entry = Entry {
            inode: Arc::downgrade(&victim.inode),
            chunk: victim.chunk,
        };
        let forgotten = {
            let queues = &mut *self.queues.lock();
            if back.is_lent {
                queues.used.push_back(entry);
                return;
            }
            queues.taken.push_back(entry);
            let is_old = queues.taken.len() > queues.new.len() + queues.used.len() + 1;
            is_old.then(|| queues.taken.pop_front()).flatten()
        };
        if let Some(old) = forgotten
            && let Some(inode) = old.inode.upgrade()
        {
            inode.lent.forget_taken(old.chunk);
        }
    }

    /// Calls `work` if more is lent than may be and fewer than `helpers_max` threads do that. Otherwise another thread is told;
    /// that is waited for a moment if the share is used up.
    pub(crate) fn help(&self, helpers_max: usize, work: impl FnOnce()) {
        if !self.is_over() {
            return;
        }
        if self.helpers.fetch_add(1, Ordering::Relaxed) < helpers_max {
            work();
        } else {
            self.over.notify_one();
            let mut queues = self.queues.lock();
            let until = Instant::now() + WAIT_MAX;
            let is_full = || self.bytes() > (self.share)();
            while is_full() && !self.back.wait_until(&mut queues, until).timed_out() {}
        }
        self.helpers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits until more is lent than may be. False at the end. `is_stuck`: nothing could be taken back just now.
    pub(crate) fn wait_until_over(&self, is_stuck: bool) -> bool {
        let mut queues = self.queues.lock();
        if is_stuck && !queues.is_ended {
            self.over.wait_for(&mut queues, LOOK_EVERY);
        }
        while !queues.is_ended {
            if self.is_over() {
                return true;
            }
            self.over.wait_for(&mut queues, LOOK_EVERY);
        }
        false
    }

    pub(crate) fn end(&self) {
        self.queues.lock().is_ended = true;
        self.over.notify_all();
    }
}

impl Queues {
    fn of(&mut self, is_used: bool) -> &mut VecDeque<Entry> {
        match is_used {
            true => &mut self.used,
            false => &mut self.new,
        }
    }
}
