//! The machine: tasks on a processor each, the background reclaimer, swap and files, in the order of virtual time.
//!
//! ```text
//!   tasks ── touch ──► fault ──► memory ◄── reclaim ◄── kswapd · direct reclaim
//!                        │                    │
//!                        └── reads ── disks ──┴ writes
//! ```
//!
//! The earliest thread goes on until it waits or another is earlier. There is no random number here: the same
//! scripts give the same figures.

use super::counters::Counters;
use super::disk::{Disk, Transfer};
use super::fault::Ahead;
use super::memory::{DEAD, DIRTY, LOADING, Memory, NONE, TAGGED, WRITING};
use super::options::MachineOptions;
use super::reclaim::Kswapd;
use super::slots::Slots;
use crate::linux::anon::shadow::Lengths;
use millpond_core::memory::watermark::{WatermarkRule, Watermarks};
use millpond_core::page::PageKind;
use millpond_core::units::{Instant, Nanos, PageSize, Ratio};
use millpond_sim::disk::ModelParameterError;
use millpond_sim::swap::Swap;
use millpond_sim::task::{Op, Ops, Script};

/// The location of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) frame: u32,
    pub(super) slot: u32,
    /// Of a page of a file; an anonymous one has it in its slot.
    pub(super) shadow: u64,
    pub(super) is_file: bool,
}

/// What a task waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    Nothing,
    /// The page in this frame to be read.
    Frame(u32),
    /// A free frame.
    Memory,
}

pub(super) struct Task {
    script: Box<dyn Script>,
    pub(super) op: Op,
    /// Pages of the operation that are done.
    pub(super) done: u64,
    pub(super) at: Instant,
    pub(super) wait: Wait,
    pub(super) ahead: Ahead,
    is_over: bool,
}

/// The machine.
pub struct Machine {
    pub(super) options: MachineOptions,
    pub(super) now: Instant,
    pub(super) memory: Memory,
    pub(super) marks: Watermarks,
    pub(super) pages: Vec<Page>,
    pub(super) slots: Slots,
    pub(super) swap: Option<Disk>,
    pub(super) files: Disk,
    pub(super) kswapd: Kswapd,
    /// Activations by shadows at the end of the last run of reclaim, by kind.
    pub(super) activations_seen: [u64; 2],
    /// Pages whose write is to be asked for at the end of a batch: slot, frame.
    pub(super) plug: Vec<(u32, u32)>,
    pub(super) batch: Vec<u32>,
    /// The time until which a task may go on alone.
    pub(super) horizon: Instant,
    tasks: Vec<Task>,
    finished: Vec<Transfer>,
}

impl Machine {
    /// A machine with nothing in memory.
    ///
    /// # Errors
    /// If a disk can't be.
    pub fn new(options: MachineOptions) -> Result<Machine, ModelParameterError> {
        let frames = options.usable.to_pages(PageSize::KIB_4);
        let scale = Ratio { num: 10, den: 10_000 };
        let memory = options.memory.to_pages(PageSize::KIB_4);
        Ok(Machine {
            now: Instant(0),
            memory: Memory::new(options.system.rules(), frames.0 as u32),
            marks: Watermarks::of(WatermarkRule::Linux46 { scale }, memory, PageSize::KIB_4),
            pages: Vec::new(),
            slots: Slots::new(options.swap_size.to_pages(PageSize::KIB_4)),
            swap: match &options.swap {
                Swap::Memory(_) => None,
                Swap::Disk(model) => Some(Disk::new(model)?),
            },
            files: Disk::new(&options.files)?,
            kswapd: Kswapd::default(),
            activations_seen: [0; 2],
            plug: Vec::new(),
            batch: Vec::new(),
            horizon: Instant(0),
            tasks: Vec::new(),
            finished: Vec::new(),
            options,
        })
    }

    /// Adds this many pages, of a file or anonymous; returns the number of the first.
    pub fn add_pages(&mut self, kind: PageKind, pages: u64) -> u32 {
        let first = self.pages.len() as u32;
        let page = Page {
            frame: NONE,
            slot: NONE,
            shadow: 0,
            is_file: kind == PageKind::File,
        };
        self.pages.resize(self.pages.len() + pages as usize, page);
        first
    }

    /// A task that does what `script` says from now on, on a processor of its own.
    pub fn add_task(&mut self, script: Box<dyn Script>) {
        let at = self.now;
        self.tasks.push(Task {
            script,
            op: Op::Drop { first: 0, pages: 0 },
            done: 0,
            at,
            wait: Wait::Nothing,
            ahead: Ahead::default(),
            is_over: false,
        });
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.memory.counters
    }

    /// The lengths of the lists.
    pub fn lengths(&self) -> Lengths {
        self.memory.lengths()
    }

    /// How many of these pages are in memory.
    pub fn resident(&self, first: u32, pages: u64) -> u64 {
        let range = first as usize..first as usize + pages as usize;
        let pages = self.pages[range].iter();
        pages.filter(|page| page.frame != NONE).count() as u64
    }

    /// Checks the lists, and that frames and pages point at each other.
    ///
    /// # Panics
    /// If something does not agree.
    pub fn validate(&mut self) {
        self.memory.validate();
        for number in 0..self.pages.len() {
            let Page { frame, slot, .. } = self.pages[number];
            if frame != NONE {
                assert_eq!(self.memory.frame(frame).page, number as u32, "frame {frame}");
            }
            if slot != NONE {
                assert_eq!(self.slots.page(slot), number as u32, "slot {slot}");
            }
        }
    }

    /// Runs until all tasks have ended, or `steps` steps; answers whether they have.
    ///
    /// # Panics
    /// If nothing can ever happen again: a deadlock of the model.
    pub fn run(&mut self, steps: u32) -> bool {
        for _ in 0..steps {
            let disk = self.next_disk_event();
            let task = self.earliest_task();
            let task_at = task.map_or(Instant::NEVER, |task| self.tasks[task].at);
            if self.tasks.iter().all(|task| task.is_over) {
                self.tasks.clear();
                return true;
            }
            let kswapd_at = self.kswapd.next();
            let first = disk.min(task_at).min(kswapd_at);
            assert!(first < Instant::NEVER, "nobody runs and nothing will happen");
            self.now = first;
            if disk == first {
                self.deliver();
            } else if kswapd_at == first {
                self.kswapd_step();
                self.wake_for_memory();
            } else if let Some(task) = task {
                self.horizon = disk.min(kswapd_at).min(self.second_task(task));
                self.task_step(task);
            }
        }
        false
    }

    fn next_disk_event(&self) -> Instant {
        let swap = self.swap.as_ref().map_or(Instant::NEVER, Disk::next);
        swap.min(self.files.next())
    }

    fn earliest_task(&self) -> Option<usize> {
        let tasks = self.tasks.iter().enumerate();
        let runnable = tasks.filter(|(_, task)| !task.is_over && task.wait == Wait::Nothing);
        Some(runnable.min_by_key(|(number, task)| (task.at, *number))?.0)
    }

    fn second_task(&self, but: usize) -> Instant {
        let others = self.tasks.iter().enumerate().filter(|&(n, _)| n != but);
        let runnable = others.filter(|(_, task)| !task.is_over && task.wait == Wait::Nothing);
        runnable.map(|(_, task)| task.at).min().unwrap_or(Instant::NEVER)
    }

    /// Time passes for the thread that runs.
    pub(super) fn spend(&mut self, cost: Nanos) {
        self.now = self.now + cost;
    }

    fn task_step(&mut self, number: usize) {
        let mut task = std::mem::replace(&mut self.tasks[number], Task::nobody());
        loop {
            if task.done == task.op.pages() {
                if let Op::Copy { to, pages, .. } = task.op {
                    self.drop_pages(to, pages);
                }
                task.op = task.script.next(self.now);
                task.done = 0;
                if let Op::Drop { first, pages } = task.op {
                    self.drop_pages(first, pages);
                    task.done = pages;
                }
                if matches!(task.op, Op::End) {
                    task.is_over = true;
                    break;
                }
                task.at = self.now;
                if self.now > self.horizon {
                    break;
                }
                continue;
            }
            if let Err(wait) = self.page_of(&mut task) {
                task.wait = wait;
                break;
            }
            task.done += 1;
            if self.now > self.horizon {
                break;
            }
        }
        task.at = self.now;
        self.tasks[number] = task;
    }

    /// The next page of a task's operation.
    fn page_of(&mut self, task: &mut Task) -> Result<(), Wait> {
        let at = task.done as u32;
        let each = match task.op {
            Op::Touch {
                first, write, each, ..
            } => {
                self.touch(first + at, write, &mut task.ahead)?;
                each
            }
            Op::Copy { from, to, each, .. } => {
                self.touch(from + at, false, &mut task.ahead)?;
                self.touch(to + at, true, &mut task.ahead)?;
                each
            }
            Op::ReadFile { first, each, pages } => {
                self.read_file(first + at, first + pages as u32)?;
                each
            }
            Op::Activate { first, .. } => {
                self.make_active(first + at);
                Nanos::ZERO
            }
            Op::Drop { .. } | Op::End => Nanos::ZERO,
        };
        self.spend(each);
        Ok(())
    }

    /// Delivers the disks' completions.
    fn deliver(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        if let Some(swap) = &mut self.swap {
            swap.advance(self.now, &mut finished);
        }
        self.files.advance(self.now, &mut finished);
        for transfer in finished.drain(..) {
            for frame in transfer.frames {
                self.arrived(frame, transfer.is_write);
            }
        }
        self.finished = finished;
        self.wake_for_memory();
    }

    /// A transfer of this frame's page has ended.
    fn arrived(&mut self, frame: u32, was_write: bool) {
        let flags = self.memory.frame(frame).flags;
        if flags & DEAD != 0 {
            self.memory.give(frame);
            return;
        }
        if was_write {
            self.memory.frame(frame).flags &= !(WRITING | TAGGED);
            if flags & TAGGED != 0 && flags & DIRTY == 0 && self.memory.is_on_list(frame) {
                self.memory.rotate_to_cold(frame);
            }
            return;
        }
        self.memory.frame(frame).flags &= !LOADING;
        let now = self.now;
        for task in &mut self.tasks {
            if task.wait == Wait::Frame(frame) {
                (task.wait, task.at) = (Wait::Nothing, now);
            }
        }
    }

    /// Lets tasks try again that found no frame.
    fn wake_for_memory(&mut self) {
        if self.memory.free() == 0 {
            return;
        }
        let now = self.now;
        for task in &mut self.tasks {
            if task.wait == Wait::Memory {
                (task.wait, task.at) = (Wait::Nothing, now.max(task.at));
            }
        }
    }
}

impl Task {
    fn nobody() -> Task {
        Task {
            script: Box::new(Ops::new(Vec::new())),
            op: Op::End,
            done: 0,
            at: Instant::NEVER,
            wait: Wait::Nothing,
            ahead: Ahead::default(),
            is_over: true,
        }
    }
}
