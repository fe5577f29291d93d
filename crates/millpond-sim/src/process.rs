//! Processes of a simulated world: a script decides what a process does next, and the world carries it out.

use millpond_core::io::IoError;
use millpond_core::readahead::Pattern;
use millpond_core::units::{FileId, FrameNo, Instant, Nanos, PageCount};
use millpond_core::writeback::SyncTicket;

/// A process's action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Reads pages `first..first + pages`.
    Read {
        /// The file.
        file: FileId,
        /// The first page.
        first: u64,
        /// The number of pages.
        pages: u32,
    },
    /// Overwrites pages `first..first + pages`.
    Write {
        /// The file.
        file: FileId,
        /// The first page.
        first: u64,
        /// The number of pages.
        pages: u32,
    },
    /// Starts to read pages `first..first + pages` and does not wait for them.
    Prefetch {
        /// The file.
        file: FileId,
        /// The first page.
        first: u64,
        /// The number of pages.
        pages: u32,
    },
    /// Takes guards of pages `first..first + pages`, one after the other, holds them all for a while and drops them.
    Guard {
        /// The file.
        file: FileId,
        /// The first page.
        first: u64,
        /// The number of pages.
        pages: u32,
        /// Whether to change the pages, which are dirty from then on; else only to read them.
        change: bool,
        /// How long, from when it has the last.
        span: Nanos,
    },
    /// Waits until all that is dirty in the file is durable.
    Sync {
        /// The file.
        file: FileId,
    },
    /// Drops the pages of a file from `first` on, as a truncation does.
    Truncate {
        /// The file.
        file: FileId,
        /// The first page that is gone.
        first: u64,
    },
    /// Closes the file and opens it again, when no other process uses it.
    Reopen {
        /// The file.
        file: FileId,
    },
    /// Says how the file will be used.
    Advise {
        /// The file.
        file: FileId,
        /// How.
        pattern: Pattern,
    },
    /// Changes the budget.
    SetMemory {
        /// The new number of frames.
        frames: PageCount,
    },
    /// Sets other options.
    Retune {
        /// Those of this number among the world's.
        number: usize,
    },
    /// Does something else for a while.
    Sleep(Nanos),
    /// Ends.
    Exit,
}

impl Op {
    /// The file that it is about.
    pub(super) fn file(&self) -> Option<FileId> {
        match *self {
            Op::Read { file, .. }
            | Op::Write { file, .. }
            | Op::Prefetch { file, .. }
            | Op::Guard { file, .. }
            | Op::Sync { file }
            | Op::Truncate { file, .. }
            | Op::Reopen { file }
            | Op::Advise { file, .. } => Some(file),
            Op::SetMemory { .. } | Op::Retune { .. } | Op::Sleep(_) | Op::Exit => None,
        }
    }
}

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The device refused a transfer.
    Device(IoError),
    /// No frame could be had, or no page written, for too long.
    NoFrames,
    /// The device could not make the file durable, now or earlier.
    Sync,
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The action.
    pub op: Op,
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
    /// How many pages were not in memory.
    pub missed: u32,
    /// Its result.
    pub result: Result<(), Failure>,
}

/// A process's next action, given its last one.
pub trait Script {
    /// The next operation. `done` is the one before, `None` at the start.
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op;
}

/// What a process waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Its turn, which is in the queue.
    Ready,
    /// The content of a page.
    Page(FrameNo),
    /// A frame.
    Memory,
    /// Fewer dirty pages.
    Dirtiers,
    /// A file's writes.
    Ticket(SyncTicket),
    /// The device's own cache.
    Flush(u64),
    /// States that it checks again after a while: guards of others, transfers of pages that go, a file being closed.
    Others,
    /// Nothing: it has ended.
    Exited,
}

pub(super) struct Process {
    pub(super) script: Box<dyn Script>,
    pub(super) state: State,
    pub(super) op: Op,
    /// The number of its operation.
    pub(super) number: u64,
    /// Whether the operation has passed the gate of its file.
    pub(super) entered: bool,
    pub(super) began: Instant,
    /// Start time, by the clock that stops while the device is stuck.
    pub(super) began_patience: Nanos,
    /// Pages of the operation that are done, or how far it is.
    pub(super) at: u32,
    pub(super) missed: u32,
    pub(super) result: Result<(), Failure>,
    /// Processor time that the operation has cost so far and that has not passed yet.
    pub(super) owed: Nanos,
    /// Distinguishes a time-out that is still wanted from one that is over.
    pub(super) wait_number: u64,
    /// Since when it has been waiting for a frame.
    pub(super) short_since: Option<Instant>,
    /// Since when it has been paused while no page was written, and how many had been.
    pub(super) paused_since: Option<(u64, Instant)>,
    /// It has given up a pause: it asks before it dirties more.
    pub(super) must_ask: bool,
    /// The request for durability that it waits for.
    pub(super) ticket: Option<SyncTicket>,
    /// Whether that is a small fsync, so the manager must know of its flush too.
    pub(super) is_brief: bool,
    /// Pages that it holds.
    pub(super) guards: Vec<FrameNo>,
    /// The page that it has asked the disk for and holds from the moment on at which it was there.
    pub(super) own_page: Option<FrameNo>,
}

impl Process {
    pub(super) fn new(script: Box<dyn Script>, now: Instant) -> Process {
        Process {
            script,
            state: State::Ready,
            op: Op::Sleep(Nanos::ZERO),
            number: 0,
            entered: false,
            began: now,
            began_patience: Nanos::ZERO,
            at: 0,
            missed: 0,
            result: Ok(()),
            owed: Nanos::ZERO,
            wait_number: 0,
            short_since: None,
            paused_since: None,
            must_ask: false,
            ticket: None,
            is_brief: false,
            guards: Vec::new(),
            own_page: None,
        }
    }
}
