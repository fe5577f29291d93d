//! A machine in virtual time: processes, a page cache and a disk.

mod disk;
mod operations;

use super::checker::{Checker, PATIENCE};
use super::frames::SimFrames;
use super::process::{Op, Process, Script, State};
use millpond::device::model::{Model, ModelCompletion};
use millpond_core::event::{DirtierId, Effect, Effects, Event, IoError, IoId, SyncTicket, Waiters};
use millpond_core::manager::Manager;
use millpond_core::options::{OptionError, Options};
use millpond_core::units::{FileId, FrameNo, Instant, Nanos, PageCount, PageIndex, PageKey};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Processor time of the modelled machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A page found in memory and copied out, or copied in: 10 GB/s.
    pub copy: Nanos,
    /// A fault, without the device.
    pub fault: Nanos,
    /// A page that reclaim looks at.
    pub scan: Nanos,
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            copy: Nanos(400),
            fault: Nanos(1_000),
            scan: Nanos(200),
        }
    }
}

/// What goes wrong, in parts of 65536 of the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Reads that fail.
    pub read_errors: u32,
    /// Writes that fail.
    pub write_errors: u32,
}

/// What a world is made of.
#[derive(Debug)]
pub struct WorldOptions {
    /// The policy.
    pub options: Options,
    /// The pool.
    pub frames: PageCount,
    /// The disk.
    pub model: Model,
    /// The processor.
    pub costs: Costs,
    /// What goes wrong.
    pub faults: Faults,
    /// The seed of what goes wrong.
    pub seed: u64,
    /// Every so many steps all structures are checked; 0: never.
    pub validate_every: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Entry {
    /// The process's turn. The number tells a time-out that is over from one that is wanted.
    Process(usize, u64),
    Reclaim,
    Tick,
}

struct SimFile {
    /// Where its pages lie on the disk.
    start: u64,
    mark: Option<PageIndex>,
    pages: PageCount,
}

#[derive(Debug)]
struct Transfer {
    io: IoId,
    write: bool,
    key: PageKey,
    frames: Vec<FrameNo>,
    versions: Vec<u64>,
    /// Commands that have not ended.
    left: u32,
}

/// A machine in virtual time.
pub struct World {
    now: Instant,
    sequence: u64,
    queue: BinaryHeap<Reverse<(Instant, u64, Entry)>>,
    manager: Manager,
    effects: Effects,
    frames: SimFrames,
    model: Model,
    done: Vec<ModelCompletion>,
    files: Vec<SimFile>,
    disk_end: u64,
    processes: Vec<Process>,
    transfers: HashMap<u64, Transfer>,
    next_request: u64,
    next_ticket: u64,
    tick_at: Option<Instant>,
    costs: Costs,
    faults: Faults,
    random: u64,
    /// The truth.
    pub checker: Checker,
    /// Every event and its effects, where somebody wants them: for the twin test.
    pub journal: Option<Vec<String>>,
}

/// What the one who raised an event was told.
#[derive(Default)]
struct Told {
    wait: Option<Nanos>,
    pause: Option<Nanos>,
    granted: u32,
}

impl World {
    /// An idle machine.
    ///
    /// # Errors
    /// [`OptionError`] if an option or the number of frames is out of range.
    pub fn new(options: WorldOptions) -> Result<World, OptionError> {
        Ok(World {
            now: Instant(0),
            sequence: 0,
            queue: BinaryHeap::new(),
            manager: Manager::new(options.options, options.frames)?,
            effects: Effects::default(),
            frames: SimFrames::default(),
            model: options.model,
            done: Vec::new(),
            files: Vec::new(),
            disk_end: 0,
            processes: Vec::new(),
            transfers: HashMap::new(),
            next_request: 0,
            next_ticket: 0,
            tick_at: None,
            costs: options.costs,
            faults: options.faults,
            random: options.seed,
            checker: Checker::new(options.validate_every),
            journal: None,
        })
    }

    /// Adds a file of `pages` pages, which lies behind those before it on the disk.
    pub fn add_file(&mut self, pages: PageCount) -> FileId {
        let file = FileId(self.files.len() as u32);
        self.files.push(SimFile {
            start: self.disk_end,
            mark: None,
            pages,
        });
        self.disk_end += pages.to_bytes(self.manager.options().page_size).0;
        self.step(Event::Opened { file, pages });
        file
    }

    /// Adds a process, which begins at once.
    pub fn add_process(&mut self, script: Box<dyn Script>) {
        let process = Process {
            script,
            state: State::Ready,
            op: Op::Sleep(Nanos::ZERO),
            began: self.now,
            at: 0,
            missed: 0,
            result: Ok(()),
            owed: Nanos::ZERO,
            wait_number: 0,
        };
        self.processes.push(process);
        self.enqueue(self.now, Entry::Process(self.processes.len() - 1, 0));
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The policy.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// The disk.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The frames.
    pub fn frames(&self) -> &SimFrames {
        &self.frames
    }

    /// From now on nothing fails.
    pub fn heal(&mut self) {
        self.faults = Faults::default();
    }

    /// Whether all processes have ended.
    pub fn is_over(&self) -> bool {
        self.processes.iter().all(|p| p.state == State::Exited)
    }

    /// Goes on until all processes have ended or `until` has come.
    ///
    /// # Panics
    /// If nothing can happen any more though a process waits, or one waits for too long: a deadlock.
    pub fn run(&mut self, until: Instant) {
        while !self.is_over() {
            let queued = self.queue.peek().map(|Reverse((at, ..))| *at);
            let disk = self.model.next_event();
            let Some(at) = [queued, disk].into_iter().flatten().min() else {
                panic!("no progress at {:?}: {}", self.now, self.describe());
            };
            if at > until {
                self.now = until;
                return;
            }
            self.now = at.max(self.now);
            // What the disk has done by now comes before what wants to be done now.
            if disk.is_some_and(|d| d <= self.now) {
                self.disk_has_news();
            } else if let Some(Reverse((_, _, entry))) = self.queue.pop() {
                self.run_entry(entry);
            }
        }
    }

    fn describe(&self) -> String {
        let processes: Vec<_> = self
            .processes
            .iter()
            .map(|p| format!("{:?} in {:?} since {:?}", p.op, p.state, p.began))
            .collect();
        format!("{processes:?}, {:?}", self.manager.occupancy(self.now))
    }

    fn run_entry(&mut self, entry: Entry) {
        match entry {
            Entry::Process(pid, number) => {
                let process = &self.processes[pid];
                if process.wait_number != number || process.state == State::Exited {
                    return;
                }
                assert!(
                    self.now.since(process.began) < PATIENCE || matches!(process.op, Op::Sleep(_)),
                    "process {pid} makes no progress: {}",
                    self.describe()
                );
                let resume = process.state == State::Dirtiers;
                self.processes[pid].state = State::Ready;
                if resume {
                    let told = self.step(Event::Resume {
                        dirtier: DirtierId(pid as u32),
                    });
                    if let Some(at_most) = told.pause {
                        return self.wait(pid, State::Dirtiers, Some(at_most));
                    }
                }
                self.carry_on(pid);
            }
            Entry::Reclaim => {
                let before = self.manager.stats().pgscan();
                let more = self.step_reclaim();
                let scanned = self.manager.stats().pgscan() - before;
                if more {
                    self.enqueue(
                        self.now + Nanos(self.costs.scan.0 * scanned.max(1)),
                        Entry::Reclaim,
                    );
                }
            }
            Entry::Tick => {
                if self.tick_at == Some(self.now) {
                    self.tick_at = None;
                    self.step(Event::Tick);
                }
            }
        }
    }

    fn enqueue(&mut self, at: Instant, entry: Entry) {
        self.sequence += 1;
        self.queue.push(Reverse((at, self.sequence, entry)));
    }

    fn wait(&mut self, pid: usize, state: State, at_most: Option<Nanos>) {
        let process = &mut self.processes[pid];
        process.state = state;
        process.wait_number += 1;
        let number = process.wait_number;
        if let Some(at_most) = at_most {
            self.enqueue(self.now + at_most, Entry::Process(pid, number));
        }
    }

    /// Wakes the processes that wait for this, in the order of their numbers.
    fn wake(&mut self, waits: impl Fn(State) -> bool) {
        for pid in 0..self.processes.len() {
            if waits(self.processes[pid].state) {
                self.processes[pid].wait_number += 1;
                let number = self.processes[pid].wait_number;
                self.enqueue(self.now, Entry::Process(pid, number));
            }
        }
    }

    /// One batch of background reclaim; whether another is wanted.
    fn step_reclaim(&mut self) -> bool {
        let told = self.step_and_look(Event::Reclaim, |effect| *effect == Effect::ReclaimMore);
        told.1
    }

    fn step(&mut self, event: Event<'_>) -> Told {
        self.step_and_look(event, |_| false).0
    }

    fn step_and_look(&mut self, event: Event<'_>, look: impl Fn(&Effect) -> bool) -> (Told, bool) {
        let mut effects = std::mem::take(&mut self.effects);
        if let Some(journal) = &mut self.journal {
            journal.push(format!("{event:?}"));
        }
        self.manager.step(self.now, event, &mut self.frames, &mut effects);
        let mut told = Told::default();
        for effect in &effects.list {
            if let Some(journal) = &mut self.journal {
                journal.push(format!("  {effect:?}"));
            }
            self.carry_out(effect, &effects, &mut told);
        }
        let found = effects.list.iter().any(look);
        if let Some(at) = effects.next_tick
            && self.tick_at.is_none_or(|t| at < t)
        {
            let at = at.max(self.now);
            self.tick_at = Some(at);
            self.enqueue(at, Entry::Tick);
        }
        self.effects = effects;
        self.checker.after_step(self.now, &self.manager, &mut self.frames);
        (told, found)
    }

    fn carry_out(&mut self, effect: &Effect, effects: &Effects, told: &mut Told) {
        match effect {
            Effect::Read {
                io,
                file,
                first,
                frames,
                ..
            } => {
                let frames = effects.frames(frames).to_vec();
                for (n, &frame) in frames.iter().enumerate() {
                    self.frames
                        .enter(PageKey::new(*file, first.after(n as u64)), frame, true);
                }
                told.granted += frames.len() as u32;
                self.transfer(*io, false, PageKey::new(*file, *first), frames);
            }
            Effect::Grant { file, first, frames } => {
                for (n, &frame) in effects.frames(frames).iter().enumerate() {
                    let key = PageKey::new(*file, first.after(n as u64));
                    self.frames.enter(key, frame, false);
                    // Owned by the process that asked, which is about to fill it.
                    self.frames.frame(frame).pins = 1;
                    told.granted += 1;
                }
            }
            Effect::Write {
                io,
                file,
                first,
                frames,
                ..
            } => {
                let frames = effects.frames(frames).to_vec();
                self.transfer(*io, true, PageKey::new(*file, *first), frames);
            }
            Effect::Wait { at_most, .. } => told.wait = Some(*at_most),
            Effect::Pause { at_most, .. } => told.pause = Some(*at_most),
            Effect::Wake(Waiters::Memory) => self.wake(|s| s == State::Memory),
            Effect::Wake(Waiters::Dirtiers) => self.wake(|s| s == State::Dirtiers),
            Effect::Synced { ticket, result } => self.synced(*ticket, *result),
            Effect::MarkReadAhead { file, at } => self.files[file.0 as usize].mark = Some(*at),
            Effect::WakeReclaimer => self.enqueue(self.now, Entry::Reclaim),
            Effect::ReclaimMore | Effect::Withdraw { .. } => {}
        }
    }

    fn wake_one(&mut self, pid: usize) {
        self.processes[pid].wait_number += 1;
        let number = self.processes[pid].wait_number;
        self.enqueue(self.now, Entry::Process(pid, number));
    }

    fn synced(&mut self, ticket: SyncTicket, result: Result<(), IoError>) {
        self.checker.sync_ended(ticket, result.is_ok());
        for pid in 0..self.processes.len() {
            if self.processes[pid].state == State::Ticket(ticket) {
                self.processes[pid].result = result;
                self.processes[pid].at = 1;
                self.wake_one(pid);
            }
        }
    }
}
