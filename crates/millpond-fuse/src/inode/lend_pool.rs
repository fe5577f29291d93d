//! Which pages are lent to the kernel, of all files, and which of them are taken back first (2Q).
//!
//! ```text
//!   lent for the first time ──► new ──► taken back ──► taken ──► not asked for: forgotten
//!                                └───────────┬───────────┘
//!                                            └ asked for again: used ──► used ──► taken back
//! ```
//!
//! Hits in lent pages are not seen, so a page's use is found by taking it back: it was used if it is asked for again before
//! twice as many others were lent as can be. A new page is taken back once an eighth of the share was lent after it, even
//! while there is room: when a scan comes, it is too late to find out what was used. What a stream reads once pushes nothing
//! out of `used`. Where more is used than can be lent, one used chunk in eight gets into `used` (bimodal insertion): the
//! others stay there, and a loop that is longer finds a part of itself lent.
//!
//! How much is lent follows [`LendShare`]. As much as that is set aside in the budget when it is needed, in steps of an eighth:
//! a step costs the cache milliseconds. It is lent when the cache's frames have left it.

use super::Inode;
use super::lend_share::{self, LendShare, WHOLE};
use super::lent::{CHUNK_BYTES, Cleared, NewlyLent, Turn};
use millpond::PageCache;
use millpond::internal::{apply_rules, leaving_bytes, memory_bytes, recent_refaults, set_lent_bytes};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

const PAGE_BYTES: u64 = 4096;

/// Of the share, one part of so many is for new chunks, if there are enough used ones.
const NEW_SHARE: usize = 8;

/// Of chunks that are used and have no room among the others that are, one of so many gets it.
const ADMITTED: usize = 8;

/// The budget is divided anew by so large a part of the most that may be lent.
const STEP: u32 = WHOLE / 8;

/// Of the share, one part of so many is for what the kernel reads meanwhile, and for the tables.
const HEADROOM: u64 = 8;

/// The lender looks again after so long while frames leave, nothing can be taken back, or the budget changes.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// So often, when the budget may be about to change: it is asked for before it does.
const LOOKS_AFTER_CHANGE: u32 = 20;

/// The lender looks at refaults after so many requests.
const REQUESTS_A_LOOK: usize = 512;

/// A thread that answers the kernel waits no longer for others that take back: those may wait for an answer.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// Nor for a step of the budget.
const STEP_WAIT_MAX: Duration = Duration::from_millis(5);

/// What may be lent of a budget of so many bytes at most. Takes no lock.
type Most = Box<dyn Fn(u64) -> u64 + Send + Sync>;

/// The part of the budget that is set aside for what is lent.
pub(crate) struct LendRoom {
    most: Most,
    /// In parts of the most.
    set_aside: AtomicU32,
    bell: Bell,
}

/// Wakes the lender.
#[derive(Default)]
struct Bell {
    state: Mutex<BellState>,
    rung: Condvar,
}

#[derive(Default)]
struct BellState {
    is_rung: bool,
    is_ended: bool,
    /// Looks that are due without a ring.
    looks: u32,
}

/// Pages that are lent.
pub(crate) struct LendPool {
    cache: PageCache,
    room: Arc<LendRoom>,
    share: Mutex<LendShare>,
    /// What that says, in parts of the most.
    share_parts: AtomicU32,
    /// How many bytes of what is set aside the cache's frames have left.
    vacated: AtomicU64,
    /// Below zero for a moment: what is lent may be taken back before it is counted.
    pages: AtomicI64,
    /// Pages lent so far that were not known to be used.
    first_lent: AtomicU64,
    /// Pages that were asked for soon after they were taken back, since the last look.
    refaults: AtomicU64,
    /// The cache's, at the last look.
    cache_refaults: AtomicU64,
    requests: AtomicUsize,
    queues: Mutex<Queues>,
    /// Something was taken back, or there is more room.
    back: Condvar,
    helpers: AtomicUsize,
}

#[derive(Default)]
struct Queues {
    new: VecDeque<Entry>,
    used: VecDeque<Entry>,
    taken: VecDeque<(Entry, u64)>,
    /// Pages of those that were taken.
    taken_pages: u64,
    /// Chunks in `new` and `used` of files that the kernel has forgotten.
    gone: usize,
    /// Chunks that were found to be used.
    found_used: usize,
}

#[derive(Clone)]
struct Entry {
    inode: Weak<Inode>,
    chunk: u64,
    /// What [`LendPool::first_lent`] was when it was queued.
    queued_at: u64,
}

/// A chunk whose turn it is.
pub(crate) struct Victim {
    pub(crate) inode: Arc<Inode>,
    pub(crate) bytes: Range<u64>,
    chunk: u64,
}

impl LendRoom {
    pub(crate) fn new(most: impl Fn(u64) -> u64 + Send + Sync + 'static) -> LendRoom {
        LendRoom {
            most: Box::new(most),
            set_aside: AtomicU32::new(STEP),
            bell: Bell::default(),
        }
    }

    /// What is to be set aside of a budget, which may be about to be the budget.
    pub(crate) fn rule(&self, budget: u64) -> u64 {
        self.bell.ring(LOOKS_AFTER_CHANGE);
        self.bytes(self.set_aside.load(Ordering::Relaxed), budget)
    }

    fn bytes(&self, parts: u32, budget: u64) -> u64 {
        lend_share::part_of((self.most)(budget), parts)
    }
}

impl Bell {
    fn ring(&self, looks: u32) {
        let mut state = self.state.lock();
        state.looks = state.looks.max(looks);
        if !std::mem::replace(&mut state.is_rung, true) {
            self.rung.notify_one();
        }
    }

    /// Waits until it is rung, or for `at_most`. False at the end.
    fn wait(&self, at_most: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        let at_most = at_most.or((state.looks > 0).then_some(LOOK_EVERY));
        if !state.is_rung && !state.is_ended {
            match at_most {
                Some(time) => drop(self.rung.wait_for(&mut state, time)),
                None => self.rung.wait(&mut state),
            }
        }
        state.is_rung = false;
        state.looks = state.looks.saturating_sub(1);
        !state.is_ended
    }

    fn end(&self) {
        self.state.lock().is_ended = true;
        self.rung.notify_all();
    }
}

impl LendPool {
    /// `room` is what is set aside of the cache's budget already.
    pub(crate) fn new(cache: PageCache, room: Arc<LendRoom>) -> LendPool {
        let share = LendShare::default();
        let vacated = room.bytes(STEP, memory_bytes(&cache));
        LendPool {
            share_parts: AtomicU32::new(share.parts()),
            share: Mutex::new(share),
            cache,
            room,
            vacated: AtomicU64::new(vacated),
            pages: AtomicI64::new(0),
            first_lent: AtomicU64::new(0),
            refaults: AtomicU64::new(0),
            cache_refaults: AtomicU64::new(0),
            requests: AtomicUsize::new(0),
            queues: Mutex::default(),
            back: Condvar::new(),
            helpers: AtomicUsize::new(0),
        }
    }

    /// How many bytes are lent at most.
    pub(crate) fn bytes(&self) -> u64 {
        self.pages.load(Ordering::Relaxed).max(0) as u64 * PAGE_BYTES
    }

    fn most(&self) -> u64 {
        (self.room.most)(memory_bytes(&self.cache))
    }

    /// The memory that there is for what is lent.
    fn share(&self) -> u64 {
        let parts = self.share_parts.load(Ordering::Relaxed);
        let parts = parts.min(self.room.set_aside.load(Ordering::Relaxed));
        let share = lend_share::part_of(self.most(), parts);
        share.min(self.vacated.load(Ordering::Relaxed))
    }

    pub(crate) fn is_over(&self) -> bool {
        let share = self.share();
        self.bytes() > share - share / HEADROOM
    }

    /// Whether one more used chunk fits beside the part of new ones.
    fn has_room(&self, queues: &Queues) -> bool {
        let share = self.share();
        (queues.used.len() as u64 + 1) * CHUNK_BYTES <= share - share / HEADROOM - share / NEW_SHARE as u64
    }

    /// Pages of the file are about to be lent.
    pub(crate) fn lend(&self, inode: &Arc<Inode>, range: &Range<u64>, is_read: bool) {
        let mut newly = Vec::new();
        let lent = inode.lent.lend(range, is_read, |new| newly.push(new));
        if !newly.is_empty() {
            let queues = &mut *self.queues.lock();
            for NewlyLent { chunk, is_used } in newly {
                let entry = self.entry(inode, chunk);
                let is_used = is_used && (self.has_room(queues) || queues.admit());
                queues.of(is_used).push_back(entry);
            }
        }
        if lent.refaults > 0 {
            self.refaults.fetch_add(lent.refaults, Ordering::Relaxed);
        }
        if lent.pages > 0 {
            let first = lent.pages.saturating_sub(lent.refaults);
            self.first_lent.fetch_add(first, Ordering::Relaxed);
            self.pages.fetch_add(lent.pages as i64, Ordering::Relaxed);
            set_lent_bytes(&self.cache, self.bytes());
        }
    }

    /// The process that served before has lent these pages of the file.
    pub(crate) fn go_on_from(&self, inode: &Arc<Inode>, lent: &[(u64, u16)]) {
        let pages = inode.lent.go_on_from(lent);
        let entries = lent.iter().map(|&(chunk, _)| self.entry(inode, chunk));
        self.queues.lock().new.extend(entries);
        self.pages.fetch_add(pages as i64, Ordering::Relaxed);
        set_lent_bytes(&self.cache, self.bytes());
    }

    /// The kernel has forgotten a file.
    pub(crate) fn forget(&self, cleared: Cleared) {
        self.taken_back(cleared.pages);
        let queues = &mut *self.queues.lock();
        queues.gone += cleared.queued;
        queues.drop_gone();
    }

    fn taken_back(&self, pages: u64) {
        self.pages.fetch_sub(pages as i64, Ordering::Relaxed);
        set_lent_bytes(&self.cache, self.bytes());
    }

    fn entry(&self, inode: &Arc<Inode>, chunk: u64) -> Entry {
        Entry {
            inode: Arc::downgrade(inode),
            chunk,
            queued_at: self.first_lent.load(Ordering::Relaxed),
        }
    }

    /// Whether a new chunk has been lent for long enough to find out whether it is used.
    fn is_new_due(&self, queues: &Queues) -> bool {
        let share = lend_share::part_of(self.most(), self.share_parts.load(Ordering::Relaxed));
        let window = share / PAGE_BYTES / NEW_SHARE as u64;
        let first_lent = self.first_lent.load(Ordering::Relaxed);
        let oldest = queues.new.front();
        oldest.is_some_and(|entry| first_lent.saturating_sub(entry.queued_at) > window)
    }

    /// A chunk to be taken back, if there is one. The caller gives it to [`taken`](Self::taken).
    pub(crate) fn victim(&self) -> Option<Victim> {
        let is_over = self.is_over();
        let queues = &mut *self.queues.lock();
        // Each once at most: all may be busy.
        for _ in 0..queues.new.len() + queues.used.len() {
            if !is_over && !self.is_new_due(queues) {
                return None;
            }
            let is_used = is_over && queues.new.len() * NEW_SHARE <= queues.used.len();
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
                Turn::Used if self.has_room(queues) || queues.admit() => queues.used.push_back(entry),
                Turn::Used => queues.new.push_front(entry),
                Turn::Busy => queues.of(is_used).push_back(entry),
                Turn::Gone => {}
            }
        }
        None
    }

    /// The kernel has dropped it.
    pub(crate) fn taken(&self, victim: &Victim) {
        let back = victim.inode.lent.end_take(victim.chunk);
        self.taken_back(back.pages);
        self.back.notify_all();
        let entry = self.entry(&victim.inode, victim.chunk);
        let most = self.most() / PAGE_BYTES;
        let queues = &mut *self.queues.lock();
        if back.is_lent {
            queues.used.push_back(entry);
            return;
        }
        queues.taken.push_back((entry, back.pages));
        queues.taken_pages += back.pages;
        let room = (2 * most).saturating_sub(self.bytes() / PAGE_BYTES);
        while queues.taken_pages > room.max(back.pages)
            && let Some((old, pages)) = queues.taken.pop_front()
        {
            queues.taken_pages -= pages;
            if let Some(inode) = old.inode.upgrade() {
                inode.lent.forget_taken(old.chunk);
            }
        }
    }

    /// To be called by a thread that has answered a request and has no other. If more is lent than may be, more of the budget is
    /// waited for if that is coming. Else `work` is called, unless `helpers_max` threads do that; then they are waited for if all
    /// is used up.
    pub(crate) fn help(&self, helpers_max: usize, work: impl FnOnce()) {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed);
        let wants_room = self.wants_room();
        if wants_room || requests.is_multiple_of(REQUESTS_A_LOOK) {
            self.room.bell.ring(0);
        }
        if wants_room && self.is_over() {
            self.wait_while(STEP_WAIT_MAX, || self.is_over() && self.wants_room());
        }
        let is_over = self.is_over();
        if !is_over && !self.is_new_due(&self.queues.lock()) {
            return;
        }
        if self.helpers.fetch_add(1, Ordering::Relaxed) < helpers_max {
            work();
        } else if is_over {
            self.room.bell.ring(0);
            self.wait_while(WAIT_MAX, || self.bytes() > self.share());
        }
        self.helpers.fetch_sub(1, Ordering::Relaxed);
    }

    fn wait_while(&self, at_most: Duration, is_full: impl Fn() -> bool) {
        let mut queues = self.queues.lock();
        let until = Instant::now() + at_most;
        while is_full() && !self.back.wait_until(&mut queues, until).timed_out() {}
    }

    /// In parts of the most, what is to be set aside: what is lent needs half a step more, and the share allows it.
    fn wanted(&self) -> u32 {
        let most = self.most().max(1);
        let needed = self.bytes() + lend_share::part_of(most, STEP) / 2;
        let needed = needed + needed / (HEADROOM - 1);
        let parts = u128::from(needed) * u128::from(WHOLE) / u128::from(most);
        let parts = parts.min(self.share_parts.load(Ordering::Relaxed).into()) as u32;
        parts.next_multiple_of(STEP).clamp(STEP, WHOLE)
    }

    fn wants_room(&self) -> bool {
        self.wanted() > self.room.set_aside.load(Ordering::Relaxed)
    }

    /// Adapts the share to what was refaulted, and what is set aside to the share. Returns whether it has to be called again
    /// soon.
    pub(crate) fn divide(&self) -> bool {
        let cache_refaults = recent_refaults(&self.cache);
        let before = self.cache_refaults.swap(cache_refaults, Ordering::Relaxed);
        let lent_refaults = self.refaults.swap(0, Ordering::Relaxed);
        let most = self.most() / PAGE_BYTES;
        let parts = self
            .share
            .lock()
            .adjust(lent_refaults, cache_refaults.saturating_sub(before), most);
        self.share_parts.store(parts, Ordering::Relaxed);
        let (wanted, now) = (self.wanted(), self.room.set_aside.load(Ordering::Relaxed));
        // Less only if the share is less, or by some steps: what is lent goes up and down.
        let is_less = parts.next_multiple_of(STEP) < now || wanted + 2 * STEP < now;
        let mut is_refused = false;
        if wanted > now || (wanted < now && is_less && !self.is_over()) {
            self.room.set_aside.store(wanted, Ordering::Relaxed);
            is_refused = !apply_rules(&self.cache);
            if is_refused {
                self.room.set_aside.store(now, Ordering::Relaxed);
            }
        }
        let parts = self.room.set_aside.load(Ordering::Relaxed);
        let leaving = leaving_bytes(&self.cache);
        let set_aside = self.room.bytes(parts, memory_bytes(&self.cache));
        self.vacated
            .store(set_aside.saturating_sub(leaving), Ordering::Relaxed);
        self.back.notify_all();
        leaving > 0 || is_refused
    }

    /// For the lender: waits until there may be something to do; `soon` for no longer than some milliseconds. False at the end.
    pub(crate) fn wait(&self, soon: bool) -> bool {
        self.room.bell.wait(soon.then_some(LOOK_EVERY))
    }

    pub(crate) fn end(&self) {
        self.room.bell.end();
    }
}

impl Queues {
    fn of(&mut self, is_used: bool) -> &mut VecDeque<Entry> {
        match is_used {
            true => &mut self.used,
            false => &mut self.new,
        }
    }

    /// Whether a chunk that was found to be used becomes one of those that are although the pool is full: while they have not
    /// their part of it, and from then on now and again.
    fn admit(&mut self) -> bool {
        self.found_used += 1;
        self.new.len() * NEW_SHARE / 2 > self.used.len() || self.found_used.is_multiple_of(ADMITTED)
    }

    /// Drops chunks of files that the kernel has forgotten, if they are half of all.
    fn drop_gone(&mut self) {
        if self.gone > 64.max((self.new.len() + self.used.len()) / 2) {
            let is_queued = |entry: &Entry| {
                let inode = entry.inode.upgrade();
                inode.is_some_and(|inode| inode.lent.is_queued(entry.chunk))
            };
            self.new.retain(is_queued);
            self.used.retain(is_queued);
            self.gone = 0;
        }
    }
}
