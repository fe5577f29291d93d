//! Processes of a simulated world: a script says what a process does next, the world carries it out.

use millpond_core::event::{IoError, SyncTicket};
use millpond_core::units::{FileId, FrameNo, Instant, Nanos};

/// What a process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Reads pages `first..first + pages`.
    Read {
        /// Of this file.
        file: FileId,
        /// From this page on.
        first: u64,
        /// So many.
        pages: u32,
    },
    /// Overwrites pages `first..first + pages`.
    Write {
        /// Of this file.
        file: FileId,
        /// From this page on.
        first: u64,
        /// So many.
        pages: u32,
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
        /// The first page that is no more.
        first: u64,
    },
    /// Does something else for a while.
    Sleep(Nanos),
    /// Ends.
    Exit,
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// What it was.
    pub op: Op,
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
    /// How many pages were not in memory.
    pub missed: u32,
    /// How it ended.
    pub result: Result<(), IoError>,
}

/// What a process wants next, given what it did last.
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
    /// Writes of pages that are to be dropped.
    Writeback,
    /// Nothing: it has ended.
    Exited,
}

pub(super) struct Process {
    pub(super) script: Box<dyn Script>,
    pub(super) state: State,
    pub(super) op: Op,
    pub(super) began: Instant,
    /// Pages of the operation that are done.
    pub(super) at: u32,
    pub(super) missed: u32,
    /// The page whose read this process itself asked for, so that it gets its error.
    pub(super) result: Result<(), IoError>,
    /// Processor time that the operation has cost so far and that has not passed yet.
    pub(super) owed: Nanos,
    /// Distinguishes a time-out that is still wanted from one that is over.
    pub(super) wait_number: u64,
}
