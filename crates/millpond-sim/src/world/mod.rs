//! A machine in virtual time: processes, a page cache and a disk.

mod disk;
mod effects;
mod files;
mod guards;
mod look;
mod operations;
mod waits;

use super::checker::{Checker, PATIENCE};
use super::faults::{Coverage, Faults, Seen};
use super::frames::SimFrames;
use super::process::{Op, Process, Script, State};
use crate::disk::{Model, ModelCompletion};
use crate::draw::Draw;
use disk::Request;
use millpond_core::admission::{Configured, DeviceHints, Form};
use millpond_core::dirty::DirtierId;
use millpond_core::event::{Effects, Event};
use millpond_core::manager::Manager;
use millpond_core::options::{OptionError, Options};
use millpond_core::units::{Bytes, DeviceNo, Instant, Nanos, PageCount, PageIndex};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Processor time of the modeled machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A page found in memory and copied out, or copied in: 10 GB/s.
    pub copy: Nanos,
    /// A fault, without the device.
    pub fault: Nanos,
    /// A page that reclaim looks at.
    pub scan: Nanos,
    /// A sync, without the device: 27 us is what one of a page takes on files in memory.
    pub sync: Nanos,
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            copy: Nanos(400),
            fault: Nanos(1_000),
            scan: Nanos(200),
            sync: Nanos(27_000),
        }
    }
}

/// The setup of a world.
#[derive(Debug)]
pub struct WorldOptions {
    /// The policy.
    pub options: Options,
    /// The options that it can be exchanged for, by number ([`Op::Retune`]).
    pub alternatives: Vec<Options>,
    /// The pool.
    pub frames: PageCount,
    /// The first disk.
    pub model: Model,
    /// The processor.
    pub costs: Costs,
    /// The faults.
    pub faults: Faults,
    /// The seed of what goes wrong.
    pub seed: u64,
    /// The number of steps between two checks of all structures; 0: never.
    pub validate_every: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Entry {
    /// The process's turn. The number distinguishes an expired time-out from a wanted one.
    Process(usize, u64),
    Reclaim,
    Tick,
    /// The disk's answer to a request, late.
    Answer(u64),
}

struct SimFile {
    /// Its disk, and the location of its pages there.
    device: DeviceNo,
    start: u64,
    mark: Option<PageIndex>,
    pages: PageCount,
    /// A sync has failed: so does every other until the file is opened again.
    latched: bool,
    /// The process that closes it and opens it again.
    closing: Option<usize>,
}

/// A disk, and where the last of its files ends.
struct SimDisk {
    model: Model,
    end: u64,
}

/// A machine in virtual time. `A` is the form by which its manager admits writes.
pub struct World<A: Form = Configured> {
    now: Instant,
    sequence: u64,
    queue: BinaryHeap<Reverse<(Instant, u64, Entry)>>,
    manager: Manager<A>,
    effects: Effects,
    frames: SimFrames,
    /// By number.
    disks: Vec<SimDisk>,
    done: Vec<ModelCompletion>,
    files: Vec<SimFile>,
    processes: Vec<Process>,
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    next_ticket: u64,
    tick_at: Option<Instant>,
    costs: Costs,
    alternatives: Vec<Options>,
    faults: Faults,
    coverage: Coverage,
    random: Draw,
    /// Until when the slow disk is at work, and until when it is stuck.
    slow_until: Instant,
    stuck_until: Instant,
    /// A clock that stands still while the disk is stuck.
    patience: Nanos,
    turns: u64,
    /// The process whose operation raises the present event.
    asker: Option<usize>,
    digest: u64,
    held_max: u64,
    /// It does not matter how long a call takes.
    is_patient: bool,
    /// The truth.
    pub checker: Checker,
}

impl World {
    /// An idle machine.
    ///
    /// # Errors
    /// [`OptionError`] if an option or the number of frames is out of range.
    pub fn new(options: WorldOptions) -> Result<World, OptionError> {
        let form = Configured::new(options.options.admission);
        World::with_admission(options, form)
    }
}

impl<A: Form> World<A> {
    /// An idle machine whose writes `form` admits.
    ///
    /// # Errors
    /// As [`World::new`].
    pub fn with_admission(options: WorldOptions, form: A) -> Result<World<A>, OptionError> {
        for alternative in &options.alternatives {
            alternative.check()?;
        }
        let mut world = World {
            now: Instant(0),
            sequence: 0,
            queue: BinaryHeap::new(),
            manager: Manager::with_admission(options.options, options.frames, form)?,
            effects: Effects::default(),
            frames: SimFrames::default(),
            disks: Vec::new(),
            done: Vec::new(),
            files: Vec::new(),
            processes: Vec::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            next_ticket: 0,
            tick_at: None,
            costs: options.costs,
            alternatives: options.alternatives,
            faults: options.faults,
            coverage: Coverage::default(),
            random: Draw(options.seed),
            slow_until: Instant(0),
            stuck_until: Instant(0),
            patience: Nanos::ZERO,
            turns: 0,
            asker: None,
            digest: 0,
            held_max: 0,
            is_patient: false,
            checker: Checker::new(options.frames, options.validate_every),
        };
        world.add_disk(options.model, None);
        Ok(world)
    }

    /// Adds a disk: files can be on it from now on. With a `goal` for reads of its own if that is not the options'.
    pub fn add_disk(&mut self, model: Model, goal: Option<Nanos>) -> DeviceNo {
        let device = DeviceNo(self.disks.len() as u32);
        let hints = DeviceHints {
            rotational: Some(model.facts().rotational),
            goal,
            ..DeviceHints::default()
        };
        self.disks.push(SimDisk { model, end: 0 });
        self.step(Event::DeviceFound { device, hints });
        device
    }

    /// The device reports these facts, before its first file is there.
    pub fn device_says(&mut self, device: DeviceNo, hints: DeviceHints) {
        self.step(Event::DeviceFound { device, hints });
    }

    /// Adds a process, which begins at once.
    pub fn add_process(&mut self, script: Box<dyn Script>) {
        self.processes.push(Process::new(script, self.now));
        self.enqueue(self.now, Entry::Process(self.processes.len() - 1, 0));
    }

    /// From now on a call may take any time: for loads that may be too much for their disk.
    pub fn wait_for_ever(&mut self) {
        self.is_patient = true;
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The policy.
    pub fn manager(&self) -> &Manager<A> {
        &self.manager
    }

    /// The first disk.
    pub fn model(&self) -> &Model {
        &self.disks[0].model
    }

    /// The frames.
    pub fn frames(&self) -> &SimFrames {
        &self.frames
    }

    /// The faults so far, and their consequences.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Counts what the driver of the world has met.
    pub(super) fn count(&mut self, what: Seen) {
        self.coverage.count(what);
    }

    /// Until when the disk is stuck.
    pub fn stuck_until(&self) -> Instant {
        self.stuck_until
    }

    /// The most guards that were held at a time.
    pub fn held_max(&self) -> u64 {
        self.held_max
    }

    /// A number that two worlds share only if everything happened in them in the same way at the same times.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// From now on nothing fails. Requests stuck at this moment are still answered late.
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
            let next = self.next_event();
            assert!(
                next.is_some(),
                "no progress at {:?}: {}",
                self.now,
                self.describe()
            );
            if !self.turn(next, until) {
                return;
            }
        }
    }

    /// Goes on until nothing is left to happen, or `until` has come. Whether nothing is left.
    pub fn settle(&mut self, until: Instant) -> bool {
        loop {
            let next = self.next_event();
            if next.is_none() || !self.turn(next, until) {
                return next.is_none();
            }
        }
    }

    /// When something happens next; `None`: nothing is left to happen.
    pub fn next_event(&self) -> Option<Instant> {
        let queued = self.queue.peek().map(|Reverse((at, ..))| *at);
        self.disk_event().into_iter().chain(queued).min()
    }

    /// When a disk is done with something.
    fn disk_event(&self) -> Option<Instant> {
        self.disks.iter().filter_map(|disk| disk.model.next_event()).min()
    }

    /// Plays the next event, at `next`; `false` if that is after `until`.
    fn turn(&mut self, next: Option<Instant>, until: Instant) -> bool {
        let at = next.unwrap_or(until).max(self.now);
        let now = at.min(until);
        let stuck = self.stuck_until.min(now).since(self.now);
        self.patience = self.patience + Nanos(now.since(self.now).0 - stuck.0);
        self.now = now;
        if at > until {
            return false;
        }
        self.turns += 1;
        if self.turns.is_multiple_of(1024) {
            (0..self.processes.len()).for_each(|pid| self.check_progress(pid));
        }
        // What the disk has finished comes before new requests.
        if self.disk_event().is_some_and(|at| at <= self.now) {
            self.disk_has_news();
        } else if let Some(Reverse((_, _, entry))) = self.queue.pop() {
            self.run_entry(entry);
        }
        true
    }

    /// The state of each process.
    pub fn describe(&self) -> String {
        let processes: Vec<_> = self
            .processes
            .iter()
            .map(|p| format!("{:?} in {:?} since {:?}", p.op, p.state, p.began))
            .collect();
        format!(
            "{:?}: {processes:?}, {} requests at the disk, which is stuck until {:?}, {:?}",
            self.now,
            self.requests.len(),
            self.stuck_until,
            self.manager.occupancy(self.now)
        )
    }

    /// When all is at rest: nothing is dirty, nothing is on its way, no process waits, and the pool has its size.
    ///
    /// # Panics
    /// If something is left.
    pub fn assert_idle(&self) {
        let occupancy = self.manager.occupancy(self.now);
        let (frames, none) = (occupancy.frames, PageCount(0));
        let is_idle = occupancy.dirty == none
            && occupancy.writing == none
            && occupancy.in_transit_writes == Bytes(0)
            && occupancy.dirtiers_blocked == 0
            && self.requests.is_empty();
        assert!(is_idle, "at rest with something left: {}", self.describe());
        assert_eq!(
            self.checker.pool(),
            frames,
            "the pool never got its size: {occupancy:?}"
        );
        self.manager.assert_idle();
    }

    /// No process waits for longer than [`PATIENCE`]. One that waits for guards waits as long as their holders get on, page
    /// by page.
    fn check_progress(&mut self, pid: usize) {
        let is_held = self.processes.iter().any(|p| !p.guards.is_empty());
        let process = &mut self.processes[pid];
        if is_held && matches!(process.state, State::Others | State::Ticket(_)) {
            process.began_patience = self.patience;
            return;
        }
        // A slow disk may have to take all of memory in single pages, and reads between them.
        let pages = self.checker.pool().0 * 8;
        let patience = PATIENCE + Nanos(self.faults.slow.0 * pages);
        let waited = self.patience.0 - process.began_patience.0;
        assert!(
            self.is_patient
                || process.state == State::Exited
                || matches!(process.op, Op::Sleep(_))
                || waited < patience.0,
            "process {pid} makes no progress: {}",
            self.describe()
        );
    }

    fn run_entry(&mut self, entry: Entry) {
        match entry {
            Entry::Process(pid, number) => {
                let process = &self.processes[pid];
                if process.wait_number != number || process.state == State::Exited {
                    return;
                }
                self.check_progress(pid);
                let resume = self.processes[pid].state == State::Dirtiers;
                self.processes[pid].state = State::Ready;
                if resume {
                    let told = self.step(Event::Resume {
                        dirtier: DirtierId(pid as u32),
                    });
                    match told.pause {
                        Some(at_most) if self.pause(pid, at_most) => return,
                        _ => self.processes[pid].paused_since = None,
                    }
                }
                self.carry_on(pid);
            }
            Entry::Reclaim => {
                let before = self.manager.stats().pgscan();
                let more = self.step(Event::Reclaim).reclaim_more;
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
            Entry::Answer(id) => self.answer(id),
        }
    }

    fn enqueue(&mut self, at: Instant, entry: Entry) {
        self.sequence += 1;
        self.queue.push(Reverse((at, self.sequence, entry)));
    }
}
