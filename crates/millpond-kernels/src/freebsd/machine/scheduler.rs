//! The order in which threads act: readers, the daemon, the laundry thread, the disk.

use super::counters::{Counters, Noted};
use super::daemon::Daemon;
use super::disk::{Disk, For, Request};
use super::memory::{CACHE, INACTIVE, Memory, READING, WRITING};
use super::modern::Modern;
use super::options::MachineOptions;
use super::reader::Reader;
use crate::freebsd::LaundryRule;
use crate::freebsd::targets::Targets;
use millpond_core::reclaim::trace::Trace;
use millpond_core::units::{Instant, Nanos, PageSize};
use millpond_sim::disk::{ModelParameterError, ModelStatistics};
use millpond_sim::draw::Draw;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Entry {
    Reader(u32),
    /// The daemon's turn; the number distinguishes a sleep that is over from one that was cut short.
    Daemon(u64),
    Laundry,
}

/// The machine.
pub struct Machine {
    pub(super) options: MachineOptions,
    pub(super) targets: Targets,
    pub(super) now: Instant,
    queue: BinaryHeap<Reverse<(Instant, u64, Entry)>>,
    sequence: u64,
    pub(super) memory: Memory,
    pub(super) disk: Disk,
    ended: Vec<Request>,
    pub(super) daemon: Daemon,
    pub(super) modern: Modern,
    pub(super) readers: Vec<Reader>,
    pub(super) spool: u32,
    pub(super) history: u32,
    /// Readers that wait for memory.
    pub(super) short: VecDeque<u32>,
    /// Readers that wait for a page, and its frame.
    pub(super) page_waiters: Vec<(u32, u32)>,
    pub(super) draw: Draw,
    pub(super) counters: Counters,
    pub(super) noted: Noted,
    pub(super) trace: Trace,
    turns: u64,
}

impl Machine {
    /// The machine, its readers about to think for the first time.
    ///
    /// # Errors
    /// If the disk can't be.
    pub fn new(options: MachineOptions) -> Result<Machine, ModelParameterError> {
        let pages = options.memory.to_pages(PageSize::KIB_4);
        let targets = Targets::of(pages, 1);
        let mut memory = Memory::new(&options);
        let news = options.news;
        let history = memory.add_object(news.history_pages.into(), true);
        let spool = memory.add_object(news.spool.to_pages(PageSize::KIB_4).0, true);
        let mut machine = Machine {
            options,
            targets,
            now: Instant(0),
            queue: BinaryHeap::new(),
            sequence: 0,
            memory,
            disk: Disk::new(options.disk)?,
            ended: Vec::new(),
            daemon: Daemon::default(),
            modern: Modern::new(&options, &targets),
            readers: Vec::new(),
            spool,
            history,
            short: VecDeque::new(),
            page_waiters: Vec::new(),
            draw: Draw(options.seed),
            counters: Counters::default(),
            noted: Noted::default(),
            trace: Trace::new(),
            turns: 0,
        };
        for n in 0..news.readers {
            let own = machine.memory.add_object(news.own_pages.into(), false);
            machine.readers.push(Reader::new(own));
            let wait = machine.think();
            machine.enqueue(wait, Entry::Reader(n));
        }
        if machine.is_modern() {
            machine.enqueue(Nanos::from_millis(100), Entry::Laundry);
        }
        Ok(machine)
    }

    pub(super) fn is_modern(&self) -> bool {
        self.options.rules.laundry == LaundryRule::Queue
    }

    pub(super) fn enqueue(&mut self, after: Nanos, entry: Entry) {
        self.sequence += 1;
        self.queue.push(Reverse((self.now + after, self.sequence, entry)));
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The notes over time.
    pub fn noted(&self) -> &Noted {
        &self.noted
    }

    /// The disk's activity since the beginning, or since [`Machine::reset_disk`].
    pub fn disk(&self) -> ModelStatistics {
        self.disk.model.statistics(self.now)
    }

    /// The disk counts anew.
    pub fn reset_disk(&mut self) {
        self.disk.model.reset_statistics(self.now);
    }

    /// Pages on the inactive, active, cache and laundry queue; and those of all that are dirty.
    pub fn pages(&self) -> [u64; 5] {
        let len = |queue| self.memory.queues.len(queue);
        [len(0), len(1), len(2), len(3), self.memory.dirty()]
    }

    /// Checks what must always hold.
    ///
    /// # Panics
    /// If it does not.
    pub fn validate(&self) {
        self.memory.validate();
    }

    /// Whether nothing can happen any more: all threads wait for memory, the disk has nothing to do, and the daemon has gone
    /// through all queues without changing anything, which it would do again and again.
    pub fn is_stuck(&self) -> bool {
        let all_wait = self.short.len() == self.readers.len();
        let is_fruitless = self.daemon.is_fruitless && self.modern.is_fruitless;
        all_wait && self.disk.is_idle() && is_fruitless && !self.targets_let_go()
    }

    fn targets_let_go(&self) -> bool {
        !self.targets.is_below_min(self.memory.available())
    }

    /// Free pages and instantly free ones.
    pub fn available(&self) -> u64 {
        self.memory.available().0
    }

    /// Events so far.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// The time of the next event; `None`: nothing will happen.
    pub fn next_event(&self) -> Option<Instant> {
        let queued = self.queue.peek().map(|Reverse((at, ..))| *at);
        [queued, self.disk.next_event()].into_iter().flatten().min()
    }

    /// The most bytes that were on their way at a time.
    pub fn in_transit_max(&self) -> u64 {
        self.disk.in_transit_max
    }

    /// Goes on until `until`.
    pub fn run(&mut self, until: Instant) {
        loop {
            let disk = self.disk.next_event();
            let Some(at) = self.next_event().filter(|&at| at <= until) else {
                break;
            };
            self.now = self.now.max(at);
            self.turns += 1;
            // what the disk has finished comes before new requests
            if disk.is_some_and(|disk| disk <= self.now) {
                self.disk_has_news();
            } else if let Some(Reverse((_, _, entry))) = self.queue.pop() {
                self.run_entry(entry);
            }
        }
        self.now = until;
        self.noted.until(until);
    }

    fn run_entry(&mut self, entry: Entry) {
        match entry {
            Entry::Reader(n) => self.reader_goes_on(n),
            Entry::Daemon(number) => self.daemon_turn(number),
            Entry::Laundry => self.laundry_cycle(),
        }
    }

    fn disk_has_news(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        self.disk.advance(self.now, &mut ended);
        for request in ended.drain(..) {
            match request.whose {
                For::Reader(n) => {
                    for &frame in &request.frames {
                        self.memory.frames[frame as usize].flags &= !READING;
                        self.wake_page(frame);
                    }
                    self.read_has_ended(n, &request.frames);
                }
                For::Laundry(is_swap) => self.write_has_ended(is_swap, &request),
            }
        }
        self.ended = ended;
    }

    fn write_has_ended(&mut self, is_swap: bool, request: &Request) {
        for &frame in &request.frames {
            self.memory.frames[frame as usize].flags &= !WRITING;
            self.wake_page(frame);
            self.has_been_written(frame);
        }
        for &frame in &request.own_frames {
            self.memory.give_frame(frame);
        }
        if is_swap {
            self.daemon.swap_writes -= 1;
            self.daemon_may_write();
            self.launder_pages();
        }
        self.wake_short();
    }

    /// A page whose write has ended. In a severe shortage I/O frees what it has (rule R4).
    fn has_been_written(&mut self, frame: u32) {
        let state = self.memory.frames[frame as usize];
        let is_unused = state.flags & super::memory::USED == 0 && state.flags & super::memory::DIRTY == 0;
        let is_severe = self.options.rules.io_reserve && self.targets.is_severe(self.memory.available());
        if is_unused && is_severe && (state.is_on(INACTIVE) || self.is_modern()) {
            self.memory.enqueue(frame, CACHE);
        } else if self.is_modern() {
            match is_unused {
                true => self.memory.enqueue_cold(frame, INACTIVE),
                false => self.memory.enqueue(frame, super::memory::ACTIVE),
            }
        }
    }

    /// Threads that wait for memory go on if there is enough.
    pub(super) fn wake_short(&mut self) {
        if self.short.is_empty() || self.targets.is_below_min(self.memory.available()) {
            return;
        }
        for n in std::mem::take(&mut self.short) {
            self.wake_reader(n);
        }
    }
}
