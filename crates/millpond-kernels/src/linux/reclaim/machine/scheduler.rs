//! One processor, its threads, and the order in which things happen.
//!
//! ```text
//!   threads: kswapd · flusher · tasks         each step does a little and says what it cost the processor
//!   events:  the disk's completions · time-outs
//! ```
//!
//! The thread that runs goes on until it waits, gives way, or another runnable one has had 3 ms less than it (a fair
//! scheduler with its usual granularity on one processor). A thread that wakes has credit for at most as much. When none
//! can run, time jumps to the next event.

use super::block::{Block, Request};
use super::counters::Counters;
use super::files::Files;
use super::kswapd::Kswapd;
use super::memory::{
    ACTIVE_ANON, ACTIVE_FILE, ANONYMOUS, DIRTY, INACTIVE_ANON, INACTIVE_FILE, LEAKED, LOADING, MAPPED, Mark,
    Memory, TAGGED, WRITING, YOUNG,
};
use super::options::MachineOptions;
use super::task::{Task, TaskScript};
use super::writeback::Flusher;
use crate::linux::reclaim::congestion::WAIT_MAX;
use crate::linux::reclaim::launder::{LINUX_3_0, LinuxRules};
use millpond_core::page::PageKind;
use millpond_core::reclaim::trace::{Caller, Trace};
use millpond_core::swap::SwapSlots;
use millpond_core::units::{Instant, Nanos, PageSize};
use millpond_sim::disk::ModelParameterError;

pub(super) const KSWAPD: usize = 0;
pub(super) const FLUSHER: usize = 1;
pub(super) const TASKS: usize = 2;

/// CFS' latency of 6 ms by two threads.
const SLICE: u64 = 3_000_000;

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// Nothing: it can run.
    Nothing,
    /// A place in the disk's queue.
    Request,
    /// `congestion_wait` since then.
    Congestion(Instant),
    /// `wait_iff_congested` that sleeps, since then.
    Conditional(Instant),
    /// A page that is being read.
    Page(u32),
    /// The file system's log.
    Log,
    /// Tagged pages' writes to end (3.11 and later).
    WritesEnd(Instant),
    /// A time, or to be woken.
    Time,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) wait: Wait,
    wake_at: Instant,
    used: u64,
    /// Processor time.
    pub(super) cpu: Nanos,
    waits_since: Instant,
}

impl Thread {
    /// What it waits for, and since when.
    pub(super) fn waits(&self) -> (Wait, Instant) {
        (self.wait, self.waits_since)
    }
}

/// The result of a thread's step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It took this long and goes on.
    Ran(Nanos),
    /// It waits: the thread has been put to sleep.
    Waits(Nanos),
    /// Its work is done.
    Done(Nanos),
}

impl Step {
    pub(super) fn cost(self) -> Nanos {
        match self {
            Step::Ran(cost) | Step::Waits(cost) | Step::Done(cost) => cost,
        }
    }
}

/// The machine.
pub struct Machine {
    pub(super) options: MachineOptions,
    pub(super) rules: LinuxRules,
    pub(super) now: Instant,
    pub(super) memory: Memory,
    pub(super) files: Files,
    pub(super) block: Block,
    pub(super) swap: SwapSlots,
    pub(super) anonymous: Vec<super::anon::Anonymous>,
    /// The anonymous page of each slot.
    pub(super) slot_pages: Vec<u32>,
    pub(super) counters: Counters,
    pub(super) trace: Trace,
    pub(super) threads: Vec<Thread>,
    pub(super) kswapd: Kswapd,
    pub(super) flusher: Flusher,
    pub(super) tasks: Vec<Task>,
    /// Dirty pages of files that are not being written.
    pub(super) dirty: u64,
    /// Pages of files being written.
    pub(super) writing: u64,
    /// Tagged pages whose write has ended.
    pub(super) tagged_written: u64,
    finished: Vec<Request>,
    running: usize,
    next_place: u64,
}

/// The start of files on the disk; swap is at the disk's start.
const FILES_FROM: u64 = 20 << 30;

impl Machine {
    /// The machine after boot: its files in use and no anonymous pages in memory.
    ///
    /// # Errors
    /// If the disk can't be.
    pub fn new(options: MachineOptions) -> Result<Machine, ModelParameterError> {
        let rules = options.system.rules().unwrap_or(LINUX_3_0);
        let mut machine = Machine {
            options,
            rules,
            now: Instant(0),
            memory: Memory::new(&options),
            files: Files::default(),
            block: Block::new(&options)?,
            swap: SwapSlots::new(options.swap.to_pages(PageSize::KIB_4)),
            anonymous: Vec::new(),
            slot_pages: vec![super::memory::NONE; options.swap.to_pages(PageSize::KIB_4).0 as usize],
            counters: Counters::default(),
            trace: Trace::new(),
            threads: Vec::new(),
            kswapd: Kswapd::default(),
            flusher: Flusher::default(),
            tasks: Vec::new(),
            dirty: 0,
            writing: 0,
            tagged_written: 0,
            finished: Vec::new(),
            running: KSWAPD,
            next_place: FILES_FROM,
        };
        machine.add_thread(Wait::Time);
        machine.add_thread(Wait::Time);
        machine.bring_in_files_in_use();
        Ok(machine)
    }

    /// Programs and libraries, clean and mapped, which are used all the time.
    fn bring_in_files_in_use(&mut self) {
        let pages = self.options.files_in_use.0;
        let file = self.add_file(pages);
        for page in 0..pages as u32 {
            if let Some(frame) = self.memory.take(Mark::Low, file, page, MAPPED | YOUNG) {
                self.files.set_frame(file, page, frame);
                self.memory.push_warm(frame, ACTIVE_FILE);
            }
        }
    }

    fn add_thread(&mut self, wait: Wait) {
        self.threads.push(Thread {
            wait,
            wake_at: Instant::NEVER,
            used: 0,
            cpu: Nanos::ZERO,
            waits_since: Instant(0),
        });
    }

    /// A task that does what `script` says. The run ends with the first one.
    pub fn add_task(&mut self, script: Box<dyn TaskScript>) {
        self.tasks.push(Task::new(script));
        self.add_thread(Wait::Nothing);
    }

    /// A file of `pages` pages, empty, behind the one before it.
    pub fn add_file(&mut self, pages: u64) -> u32 {
        let place = self.next_place;
        self.next_place += pages * 4096;
        self.files.add(pages, place)
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The counters. A direct reclaim or an awake kswapd counts its time when it ends.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Pages of files written to the disk so far, by any thread.
    pub fn file_pages_written(&self) -> u64 {
        self.counters.file_pages_written
    }

    /// Checks what every step must leave true: lists, their lengths, dirty pages.
    ///
    /// # Panics
    /// If something is not.
    pub fn validate(&self) {
        self.memory.validate();
        assert_eq!(self.files.dirty_pages(), self.dirty, "dirty pages of all files");
    }

    /// Reclaim's decisions.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Processor time of the tasks; of kswapd; of the flusher.
    pub fn cpu(&self) -> [Nanos; 3] {
        let tasks = self.threads[TASKS..].iter();
        [
            tasks.fold(Nanos::ZERO, |sum, thread| sum + thread.cpu),
            self.threads[KSWAPD].cpu,
            self.threads[FLUSHER].cpu,
        ]
    }

    /// Whether the first task has ended.
    pub fn is_over(&self) -> bool {
        self.tasks.first().is_none_or(|task| task.has_ended)
    }

    /// Runs this many steps, or to the end; returns whether the end has come.
    ///
    /// # Panics
    /// If nothing can ever happen again though the first task has not ended: a deadlock of the model.
    pub fn run(&mut self, steps: u32) -> bool {
        for _ in 0..steps {
            if self.is_over() {
                self.kswapd.note_awake(self.now, &mut self.counters);
                return true;
            }
            self.deliver();
            let Some(thread) = self.choose() else {
                let next = self.next_event();
                assert!(
                    next < Instant::NEVER,
                    "nobody runs and nothing will happen: {:?}",
                    self.threads
                );
                self.now = self.now.max(next);
                continue;
            };
            self.running = thread;
            let step = match thread {
                KSWAPD => self.kswapd_step(),
                FLUSHER => self.flusher_step(),
                task => self.task_step(task),
            };
            let cost = step.cost();
            self.now = self.now + cost;
            let thread = &mut self.threads[thread];
            (thread.used, thread.cpu) = (thread.used + cost.0, thread.cpu + cost);
        }
        false
    }

    fn least_used(&self, but: usize) -> Option<u64> {
        let others = self.threads.iter().enumerate().filter(|&(n, _)| n != but);
        let runnable = others.filter(|(_, thread)| thread.wait == Wait::Nothing);
        runnable.map(|(_, thread)| thread.used).min()
    }

    /// The thread that runs now.
    fn choose(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (n, thread) in self.threads.iter().enumerate() {
            if thread.wait == Wait::Nothing && best.is_none_or(|b| thread.used < self.threads[b].used) {
                best = Some(n);
            }
        }
        let best = best?;
        let running = &self.threads[self.running];
        let goes_on =
            running.wait == Wait::Nothing && running.used <= self.threads[best].used.saturating_add(SLICE);
        Some(if goes_on { self.running } else { best })
    }

    fn next_event(&self) -> Instant {
        let timers = self.threads.iter().map(|thread| thread.wake_at);
        timers
            .min()
            .unwrap_or(Instant::NEVER)
            .min(self.block.next_event())
    }

    /// Lets the disk and the time-outs have their say.
    fn deliver(&mut self) {
        if self.block.next_event() <= self.now {
            let mut finished = std::mem::take(&mut self.finished);
            let congestion_ended = self.block.advance(self.now, &mut finished);
            finished.drain(..).for_each(|request| self.finish(request));
            self.finished = finished;
            if congestion_ended {
                self.wake_where(|wait| matches!(wait, Wait::Congestion(_) | Wait::Conditional(_)));
            }
        }
        while let Some(first) = self.block.next_waiter() {
            match self.threads[first].wait {
                Wait::Request => self.wake(first),
                Wait::Nothing => {}
                // It waits for something else now: another thread writes the page that it meant to write.
                _ => {
                    self.block.leave_line(first);
                    continue;
                }
            }
            break;
        }
        for thread in 0..self.threads.len() {
            if self.threads[thread].wake_at <= self.now {
                self.wake(thread);
            }
        }
    }

    /// Puts a thread to sleep until it is woken or `until`.
    pub(super) fn sleep(&mut self, thread: usize, wait: Wait, until: Instant) {
        let thread = &mut self.threads[thread];
        (thread.wait, thread.wake_at, thread.waits_since) = (wait, until, self.now);
    }

    /// `congestion_wait` or `wait_iff_congested` for a tenth of a second.
    pub(super) fn sleep_for_congestion(&mut self, thread: usize, wait: Wait) {
        self.sleep(thread, wait, self.now + WAIT_MAX);
    }

    fn wake_where(&mut self, is_meant: impl Fn(Wait) -> bool) {
        for thread in 0..self.threads.len() {
            if is_meant(self.threads[thread].wait) {
                self.wake(thread);
            }
        }
    }

    /// Lets a thread run again, and counts how long it has waited.
    pub(super) fn wake(&mut self, number: usize) {
        let least = self.least_used(number).unwrap_or(0);
        let now = self.now;
        let thread = &mut self.threads[number];
        let wait = std::mem::replace(&mut thread.wait, Wait::Nothing);
        if wait == Wait::Nothing {
            return;
        }
        thread.wake_at = Instant::NEVER;
        thread.used = thread.used.max(least.saturating_sub(2 * SLICE));
        let took = now.since(thread.waits_since);
        let caller = if number == KSWAPD {
            Caller::Kswapd
        } else {
            Caller::Direct
        } as usize;
        let full = u64::from(took >= WAIT_MAX);
        let waits = match wait {
            Wait::Congestion(_) => &mut self.counters.congest[caller],
            Wait::Conditional(_) => &mut self.counters.conditional[caller],
            Wait::Request | Wait::Log if number == KSWAPD => &mut self.counters.kswapd_request_waits,
            _ => return,
        };
        waits.time = waits.time + took;
        waits.full += full;
        if matches!(wait, Wait::Request | Wait::Log) {
            waits.number += 1;
        }
    }

    /// The disk has finished a request.
    fn finish(&mut self, request: Request) {
        let kib = request.frames.len() as u64 * 4;
        if !request.is_write {
            if !request.is_swap {
                self.wake_where(|wait| wait == Wait::Log);
                return;
            }
            self.counters.pgpgin_kib += kib;
            for frame in request.frames {
                self.memory.frame(frame).flags &= !LOADING;
                self.wake_where(|wait| wait == Wait::Page(frame));
            }
            return;
        }
        self.counters.pgpgout_kib += kib;
        if !request.is_swap {
            self.writing -= request.frames.len() as u64;
            self.counters.file_pages_written += request.frames.len() as u64;
        }
        for frame in request.frames {
            self.write_ended(frame);
        }
    }

    fn write_ended(&mut self, number: u32) {
        let frame = self.memory.frame(number);
        let (owner, index, flags) = (frame.owner, frame.index, frame.flags);
        frame.flags &= !(WRITING | TAGGED | LEAKED);
        if flags & LEAKED != 0 {
            self.files.forget_frame(owner, index);
            self.memory.give(number);
            return;
        }
        if flags & TAGGED == 0 {
            return;
        }
        self.tagged_written += 1;
        if let Wait::WritesEnd(_) = self.threads[KSWAPD].wait
            && self.tagged_written.is_multiple_of(32)
        {
            self.wake(KSWAPD);
        }
        let kind = if owner == ANONYMOUS {
            (PageKind::Anonymous, INACTIVE_ANON)
        } else {
            (PageKind::File, INACTIVE_FILE)
        };
        let Some(list) = self.memory.list_of(number) else {
            return;
        };
        // Active pages stay where they are, unless it was the scan that put them there.
        let is_active = list == ACTIVE_ANON || list == ACTIVE_FILE;
        if flags & DIRTY == 0 && (!is_active || self.rules.unclean_activated) {
            self.memory.remove(number);
            self.memory.push_cold(number, kind.1);
        }
    }
}
