//! A Millpond region in virtual time: its own manager, tasks each on its own processor, swap and files on modeled
//! disks.
//!
//! ```text
//!   tasks ── touch ──► soft fault · first touch · swap-in ──► Manager::step ◄── the background reclaimer
//!                                                                │
//!                                                disks ◄── swap-in, swap-out, reads of files
//! ```
//!
//! It runs the same scripts as the simulated historical kernels, so results can be compared. The touching task serves
//! its own faults. Their cost was measured with the engine (docs/experiments/regions.md).

mod disk;
mod frames;

use crate::disk::{ModelParameterError, ModelParameters};
use crate::swap::Swap;
use crate::task::{Op, Script};
use disk::{Disk, Transfer};
use frames::{At, Frames, REGION};
use millpond_core::event::{Effect, Effects, Event, Intent, Waiters};
use millpond_core::manager::Manager;
use millpond_core::options::{OptionError, Options};
use millpond_core::units::{FileId, Instant, Nanos, PageCount, PageIndex, PageKey};
use std::collections::BTreeSet;

const FILE: FileId = FileId(1);

/// What a page's way costs a processor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RegionCosts {
    /// A page that comes back from its frame: two wake-ups and the move.
    pub fault_soft: Nanos,
    /// A first touch or a swap-in, besides the reading.
    pub fault: Nanos,
    /// A page that reclaim looks at.
    pub scan_page: Nanos,
}

impl Default for RegionCosts {
    fn default() -> RegionCosts {
        RegionCosts {
            fault_soft: Nanos(9_000),
            fault: Nanos(15_000),
            scan_page: Nanos(200),
        }
    }
}

/// The machine.
#[derive(Clone, Debug)]
pub struct RegionOptions {
    /// Millpond's options.
    pub options: Options,
    /// Frames of the pool.
    pub frames: PageCount,
    /// Pages of the region.
    pub pages: u64,
    /// Pages of the file.
    pub file_pages: u64,
    /// Slots of swap.
    pub slots: u64,
    /// The device of swap.
    pub swap: Swap,
    /// The device of files.
    pub files: ModelParameters,
    /// Costs.
    pub costs: RegionCosts,
}

/// Why there is no machine.
#[derive(Debug)]
pub enum RegionError {
    /// An option.
    Option(OptionError),
    /// A disk.
    Disk(ModelParameterError),
}

impl std::fmt::Display for RegionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RegionError::Option(error) => error.fmt(f),
            RegionError::Disk(error) => error.fmt(f),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    Nothing,
    /// For this page to be read or written.
    Page(usize),
    Memory,
}

struct Task {
    script: Box<dyn Script>,
    op: Op,
    done: u64,
    at: Instant,
    wait: Wait,
    is_over: bool,
}

/// The machine.
pub struct Region {
    now: Instant,
    manager: Manager,
    frames: Frames,
    effects: Effects,
    tasks: Vec<Task>,
    swap: Disk,
    files: Disk,
    costs: RegionCosts,
    /// When the reclaimer goes on.
    reclaim_at: Instant,
    tick_at: Instant,
    /// The last of the file, and all of the region.
    marks: BTreeSet<(FileId, PageIndex)>,
    file_reads: u64,
    soft_faults: u64,
}

impl Region {
    /// A machine with nothing in memory.
    ///
    /// # Errors
    /// If an option or a disk can't be.
    pub fn new(options: RegionOptions) -> Result<Region, RegionError> {
        let manager = Manager::new(options.options, options.frames).map_err(RegionError::Option)?;
        let frames = Frames::new(
            options.frames.0 as usize,
            options.pages as usize,
            options.file_pages as usize,
        );
        let mut region = Region {
            now: Instant(0),
            manager,
            frames,
            effects: Effects::default(),
            tasks: Vec::new(),
            swap: Disk::new(&options.swap)?,
            files: Disk::new(&Swap::Disk(options.files))?,
            costs: options.costs,
            reclaim_at: Instant::NEVER,
            tick_at: Instant::NEVER,
            marks: BTreeSet::new(),
            file_reads: 0,
            soft_faults: 0,
        };
        region.step(disk::swap_added(PageCount(options.slots)));
        let pages = PageCount(options.pages);
        region.step(Event::RegionOpened { file: REGION, pages });
        region.step(disk::opened(FILE, PageCount(options.file_pages)));
        Ok(region)
    }

    /// A task that does what `script` says from now on, on a processor of its own.
    pub fn add_task(&mut self, script: Box<dyn Script>) {
        self.tasks.push(Task {
            script,
            op: Op::Drop { first: 0, pages: 0 },
            done: 0,
            at: self.now,
            wait: Wait::Nothing,
            is_over: false,
        });
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The manager, for its counters.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Pages read from files.
    pub fn file_reads(&self) -> u64 {
        self.file_reads
    }

    /// Pages that were read ahead and left without being touched.
    pub fn wasted_ahead(&self) -> u64 {
        self.frames.wasted
    }

    /// Pages that came back from their frames.
    pub fn soft_faults(&self) -> u64 {
        self.soft_faults
    }

    /// Runs until all tasks have ended, or `steps` steps; answers whether they have.
    ///
    /// # Panics
    /// If nothing can ever happen again: a bug of the machine or the manager.
    pub fn run(&mut self, steps: u32) -> bool {
        for _ in 0..steps {
            if self.tasks.iter().all(|task| task.is_over) {
                self.tasks.clear();
                return true;
            }
            let ready = |task: &Task| match task.wait {
                _ if task.is_over => Instant::NEVER,
                Wait::Page(_) => Instant::NEVER,
                Wait::Nothing | Wait::Memory => task.at,
            };
            let tasks = self.tasks.iter().enumerate().map(|(n, task)| (ready(task), n));
            let (task_at, task) = tasks.min().unwrap_or((Instant::NEVER, 0));
            let disk_at = self.swap.next().min(self.files.next());
            let first = task_at.min(disk_at).min(self.reclaim_at).min(self.tick_at);
            assert!(first < Instant::NEVER, "no task runs and nothing will happen");
            self.now = self.now.max(first);
            if disk_at == first {
                self.deliver();
            } else if self.reclaim_at == first {
                self.reclaim();
            } else if self.tick_at == first {
                self.tick_at = Instant::NEVER;
                self.step(Event::Tick);
            } else {
                self.tasks[task].wait = Wait::Nothing;
                let horizon = disk_at.min(self.reclaim_at).min(self.tick_at);
                self.task(task, horizon);
            }
        }
        false
    }

    fn reclaim(&mut self) {
        let before = self.manager.stats().pgscan();
        self.reclaim_at = Instant::NEVER;
        let more = self.step(Event::Reclaim).reclaim_more;
        let scanned = self.manager.stats().pgscan() - before;
        if more {
            let cost = Nanos(self.costs.scan_page.0 * scanned.max(1));
            self.reclaim_at = self.reclaim_at.min(self.now + cost);
        }
    }

    fn deliver(&mut self) {
        let mut ended = self.swap.advance(self.now);
        ended.append(&mut self.files.advance(self.now));
        for Transfer { io, is_write, frames } in ended {
            for &frame in &frames {
                let number = self.frames.number_of(frame);
                let page = &mut self.frames.pages[number];
                let is_wanted = self.tasks.iter().any(|task| task.wait == Wait::Page(number));
                page.ahead = !is_write && !is_wanted;
                page.at = match is_write || !is_wanted && number < self.frames.of_region {
                    true => At::Cached,
                    false => At::Mapped,
                };
                for task in self
                    .tasks
                    .iter_mut()
                    .filter(|task| task.wait == Wait::Page(number))
                {
                    (task.wait, task.at) = (Wait::Nothing, self.now);
                }
            }
            let result = Ok(());
            self.step(match is_write {
                true => Event::WriteDone { io, result },
                false => Event::ReadDone { io, result },
            });
        }
    }

    /// One step of the manager, with all that follows of it.
    fn step(&mut self, event: Event<'_>) -> Told {
        let mut effects = std::mem::take(&mut self.effects);
        self.manager.step(self.now, event, &mut self.frames, &mut effects);
        let mut told = Told::default();
        for effect in &effects.list {
            self.carry_out(effect, &effects, &mut told);
        }
        if let Some(at) = effects.next_tick {
            self.tick_at = self.tick_at.min(at.max(self.now));
        }
        self.effects = effects;
        self.frames.sample();
        let changed = std::mem::take(&mut self.frames.changed);
        if !changed.is_empty() {
            self.step(Event::Changed { frames: &changed });
        }
        told
    }

    fn carry_out(&mut self, effect: &Effect, effects: &Effects, told: &mut Told) {
        match effect {
            Effect::Grant { file, first, frames } => {
                for (n, &frame) in effects.frames(frames).iter().enumerate() {
                    self.frames
                        .enter(PageKey::new(*file, first.after(n as u64)), frame, At::Mapped);
                }
            }
            Effect::SwapIn {
                io,
                file,
                page,
                slot,
                frames,
                ..
            } => {
                let frames = effects.frames(frames).to_vec();
                for (n, &frame) in frames.iter().enumerate() {
                    let key = PageKey::new(*file, page.after(n as u64));
                    self.frames.enter(key, frame, At::Loading);
                }
                let transfer = Transfer {
                    io: *io,
                    is_write: false,
                    frames,
                };
                self.swap.submit(self.now, u64::from(slot.0) + 1, transfer);
            }
            Effect::SwapOut { io, first, frames } => {
                let transfer = Transfer {
                    io: *io,
                    is_write: true,
                    frames: effects.frames(frames).to_vec(),
                };
                self.swap.submit(self.now, u64::from(first.0) + 1, transfer);
            }
            Effect::Read {
                io,
                file,
                first,
                frames,
                ..
            } => {
                let frames = effects.frames(frames).to_vec();
                for (n, &frame) in frames.iter().enumerate() {
                    let key = PageKey::new(*file, first.after(n as u64));
                    self.frames.enter(key, frame, At::Loading);
                }
                self.file_reads += frames.len() as u64;
                let transfer = Transfer {
                    io: *io,
                    is_write: false,
                    frames,
                };
                self.files.submit(self.now, first.0, transfer);
            }
            Effect::Wait { at_most, .. } => told.wait = Some(*at_most),
            Effect::Wake(Waiters::Memory) => {
                let waiting = self.tasks.iter_mut().filter(|task| task.wait == Wait::Memory);
                waiting.for_each(|task| task.at = self.now);
            }
            Effect::MarkReadAhead { file, at } => {
                self.marks.retain(|mark| mark.0 == REGION || mark.0 != *file);
                self.marks.insert((*file, *at));
            }
            Effect::WakeReclaimer => self.reclaim_at = self.now,
            Effect::ReclaimMore => told.reclaim_more = true,
            Effect::Pause { .. }
            | Effect::Wake(Waiters::Dirtiers)
            | Effect::Synced { .. }
            | Effect::SyncLogBlocked { .. }
            | Effect::Withdraw { .. } => {}
            Effect::Write { .. } => unreachable!("no task changes the file"),
        }
    }

    fn task(&mut self, number: usize, horizon: Instant) {
        let others = self.tasks.iter().enumerate().filter(|(n, _)| *n != number);
        let running = others.filter(|(_, task)| !task.is_over && !matches!(task.wait, Wait::Page(_)));
        let horizon = running
            .map(|(_, task)| task.at)
            .min()
            .unwrap_or(Instant::NEVER)
            .min(horizon);
        loop {
            let task = &mut self.tasks[number];
            let (op, done) = (task.op, task.done);
            if done == pages_of(&op) {
                task.op = task.script.next(self.now);
                task.done = 0;
                if matches!(task.op, Op::End) {
                    task.is_over = true;
                    break;
                }
                continue;
            }
            let waits = match op {
                Op::Touch {
                    first, write, each, ..
                } => self.touch(u64::from(first) + done, write, each),
                // Memory of the task's own, outside the region, takes the copy.
                Op::Copy { from, each, .. } => self.touch(u64::from(from) + done, false, each),
                Op::ReadFile { first, each, .. } => self.read(u64::from(first) + done, each),
                // By touching them, which a region learns of if it asks.
                Op::Activate { first, .. } => self.touch(u64::from(first) + done, false, Nanos::ZERO),
                Op::Drop { .. } | Op::End => Ok(()),
            };
            let task = &mut self.tasks[number];
            task.at = self.now;
            match waits {
                Ok(()) => task.done += 1,
                Err((wait, at_most)) => {
                    (task.wait, task.at) = (wait, self.now + at_most);
                    break;
                }
            }
            if self.now
                >= horizon
                    .min(self.swap.next())
                    .min(self.reclaim_at)
                    .min(self.tick_at)
            {
                break;
            }
        }
        self.tasks[number].at = self.now.max(self.tasks[number].at);
    }

    fn touch(&mut self, page: u64, write: bool, each: Nanos) -> Result<(), (Wait, Nanos)> {
        let number = page as usize;
        match self.frames.pages[number].at {
            At::Mapped => {}
            At::Cached => {
                let marks = &self.marks;
                let is_mark = |page: usize| marks.contains(&(REGION, PageIndex(page as u64)));
                self.frames.move_in(number, is_mark);
                self.soft_faults += 1;
                self.now = self.now + self.costs.fault_soft;
                self.reached(REGION, PageIndex(page));
            }
            At::Loading | At::Writing => return Err((Wait::Page(number), Nanos::ZERO)),
            At::Absent => {
                let waits = self.fault(REGION, PageIndex(page), number);
                self.now = self.now + self.costs.fault;
                // A page that was never touched is there now; one that is read is there when it was.
                if self.frames.pages[number].at != At::Mapped {
                    return Err(waits);
                }
                self.frames.pages[number].differs = true;
            }
        }
        self.frames.pages[number].differs |= write;
        self.now = self.now + each;
        Ok(())
    }

    fn fault(&mut self, file: FileId, first: PageIndex, number: usize) -> (Wait, Nanos) {
        let event = Event::Fault {
            file,
            first,
            count: 1,
            intent: Intent::Read,
        };
        match self.step(event).wait {
            Some(at_most) => (Wait::Memory, at_most),
            None => (Wait::Page(number), Nanos::ZERO),
        }
    }

    fn read(&mut self, number: u64, each: Nanos) -> Result<(), (Wait, Nanos)> {
        let number = number as usize;
        let page = self.frames.key_of(number).index();
        match self.frames.pages[number].at {
            At::Mapped | At::Cached => {}
            At::Loading | At::Writing => return Err((Wait::Page(number), Nanos::ZERO)),
            At::Absent => return Err(self.fault(FILE, page, number)),
        }
        self.frames.note_use(number);
        self.reached(FILE, page);
        self.now = self.now + each;
        Ok(())
    }

    /// A task has come to the page, which may be the one that asks for more to be read ahead.
    fn reached(&mut self, file: FileId, at: PageIndex) {
        if self.marks.remove(&(file, at)) {
            self.step(Event::ReadAheadDue { file, at });
        }
    }
}

/// The next step of the task that raised an event.
#[derive(Default)]
struct Told {
    wait: Option<Nanos>,
    reclaim_more: bool,
}

fn pages_of(op: &Op) -> u64 {
    match *op {
        Op::Touch { pages, .. }
        | Op::Copy { pages, .. }
        | Op::ReadFile { pages, .. }
        | Op::Activate { pages, .. } => pages,
        Op::Drop { .. } | Op::End => 0,
    }
}
