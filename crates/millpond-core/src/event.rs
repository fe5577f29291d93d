//! What the world tells the core, and what the core asks of the world.
//!
//! ```text
//!   world ── Event, now, &mut FrameTable ──► Manager::step ── Effects ──► world
//! ```
//!
//! Waiting is a value ([`Effect::Wait`], [`Effect::Pause`], [`Effects::next_tick`]), never a sleep. The same
//! events at the same times give the same effects, bit for bit.

use crate::admission::DeviceHints;
use crate::dirty::DirtierId;
use crate::io::{IoError, IoId, Reason};
use crate::options::Options;
use crate::readahead::Pattern;
use crate::reclaim::stall::WaitReason;
use crate::swap::SlotNo;
use crate::units::{Bytes, DeviceNo, FileId, FrameNo, Instant, Nanos, PageCount, PageIndex};
use crate::writeback::SyncTicket;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

/// What a faulting thread is about to do with the pages that it lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// Use their content: they are read from the device.
    Read,
    /// Overwrite them whole: they are granted without being read.
    Overwrite,
    /// Nothing yet; a user expects to need them. Read in the background; dropped when memory is short.
    Prefetch,
}

/// What happened in the world.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A device is to be used under this number, the next one or one that no open file is on; or more is known of it. What was
    /// learnt of it is forgotten. There is a device 0 from the start, of which nothing is known.
    DeviceFound {
        /// The number.
        device: DeviceNo,
        /// What is known of it.
        hints: DeviceHints,
    },
    /// A file is to be cached under this number. `pages` is its length, rounded up.
    Opened {
        /// The number, not in use.
        file: FileId,
        /// Pages up to the end of the file: read-ahead stops there.
        pages: PageCount,
        /// Where it is: 0, or a device that was found before.
        device: DeviceNo,
    },
    /// There is a swap file of so many slots: from 0, or behind those of the last one and a number of none. Before
    /// the first region.
    SwapAdded {
        /// How many.
        slots: PageCount,
        /// The one with the highest is filled first; those of the same take turns.
        priority: i16,
        /// Where it is.
        device: DeviceNo,
    },
    /// Anonymous memory is to be kept under this number: pages that no file has. None of them was touched yet. All
    /// regions together have no more pages than there are slots.
    RegionOpened {
        /// The number, not in use.
        file: FileId,
        /// How many pages.
        pages: PageCount,
    },
    /// Pages of regions, clean as far as the core knows and not offered for writing, differ from their slots.
    Changed {
        /// The frames.
        frames: &'a [FrameNo],
    },
    /// Pages of a region that are not in memory are no more: their slots are free, and they are as if never touched.
    Forgotten {
        /// The region.
        file: FileId,
        /// Which.
        pages: Range<u64>,
    },
    /// The file's length has changed.
    Resized {
        /// The file.
        file: FileId,
        /// Its length, rounded up to pages.
        pages: PageCount,
    },
    /// The file's number is free again. Its pages were discarded before.
    Closed {
        /// The file.
        file: FileId,
    },
    /// The user says how the file will be used.
    Advised {
        /// The file.
        file: FileId,
        /// How.
        pattern: Pattern,
    },
    /// A thread needs pages that are not in the table; all of `first..first + count` are missing.
    /// Answered by [`Effect::Read`] or [`Effect::Grant`] for a prefix of them, or by [`Effect::Wait`].
    Fault {
        /// The file.
        file: FileId,
        /// The first missing page.
        first: PageIndex,
        /// How many, at least 1.
        count: u32,
        /// What for.
        intent: Intent,
    },
    /// A reader has come to the page that [`Effect::MarkReadAhead`] named: time to read on.
    ReadAheadDue {
        /// The file.
        file: FileId,
        /// The page that was marked.
        at: PageIndex,
    },
    /// A reader waits for a page that is being read. If it was read ahead of a reader it is now as if the reader had asked
    /// for it.
    Awaited {
        /// The file.
        file: FileId,
        /// The page.
        page: PageIndex,
    },
    /// A transfer that reads has ended. After an error the driver has already taken its pages out of the table.
    ReadDone {
        /// Which.
        io: IoId,
        /// How.
        result: Result<(), IoError>,
    },
    /// A transfer that writes has ended.
    WriteDone {
        /// Which.
        io: IoId,
        /// How.
        result: Result<(), IoError>,
    },
    /// Pages went from clean (or being written) to dirty. Answered by [`Effect::Pause`] if the dirtier must wait
    /// before it dirties more.
    Dirtied {
        /// The file.
        file: FileId,
        /// The page in the first frame; the others follow it in the file.
        first: PageIndex,
        /// The frames.
        frames: &'a [FrameNo],
        /// Who.
        dirtier: DirtierId,
    },
    /// A dirtier that was paused, or is about to change pages without being told, asks whether it may go on. Answered by
    /// [`Effect::Pause`], or not.
    Resume {
        /// Who.
        dirtier: DirtierId,
    },
    /// Everything that is dirty in the file now must become durable. Answered by [`Effect::Synced`], later, and perhaps by
    /// [`Effect::SyncLogBlocked`] before.
    Sync {
        /// The file.
        file: FileId,
        /// How the answer is named.
        ticket: SyncTicket,
    },
    /// No caller waits for the answer to a [`Event::Sync`] any more: there will be none, or there was one.
    SyncGivenUp {
        /// The file.
        file: FileId,
        /// Which.
        ticket: SyncTicket,
    },
    /// A caller needs room: one of the file's pages that can't be written is tried at once.
    Retry {
        /// The file.
        file: FileId,
    },
    /// The device's part of a small fsync begins or has ended.
    DeviceSync {
        /// The file.
        file: FileId,
        /// Which of both.
        begun: bool,
    },
    /// Pages may be written now that could not be before
    /// ([`BeginWrite::LogBlocked`](crate::frame::BeginWrite::LogBlocked)). Those that are not log-blocked are passed over.
    Released {
        /// The file.
        file: FileId,
        /// The pages.
        pages: &'a [PageIndex],
    },
    /// Pages are no more, and the driver has taken them out of the table: their frames are free.
    Discarded {
        /// The file.
        file: FileId,
        /// The pages and their frames, none of them loading or being written.
        pages: &'a [(PageIndex, FrameNo)],
    },
    /// The background reclaimer has time for a batch. Answered by [`Effect::ReclaimMore`] if another is wanted.
    Reclaim,
    /// The time that [`Effects::next_tick`] named has come, or any other time.
    Tick,
    /// The user has changed options; they were checked before.
    Retuned(Box<Options>),
    /// The budget has changed: so many frames from now on, numbered from 0.
    MemoryChanged {
        /// The number of frames that the pool shall have.
        frames: PageCount,
    },
}

/// Whom a wake-up is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiters {
    /// Those that were told [`Effect::Wait`].
    Memory,
    /// Those that were told [`Effect::Pause`].
    Dirtiers,
}

/// Why a dirtier pauses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseReason {
    /// Pages dirty or being written.
    pub unclean: PageCount,
    /// Until no more than this many are.
    pub until: PageCount,
    /// Bytes of writes in transit to the device.
    pub in_transit: Bytes,
}

/// What the core asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Read the pages from `first` on into the frames, which enter the table as loading, and answer
    /// [`Event::ReadDone`].
    Read {
        /// The transfer's name.
        io: IoId,
        /// Why; the one who raised [`Event::Fault`] does a read for [`Reason::Fault`] itself.
        reason: Reason,
        /// The file.
        file: FileId,
        /// The page for the first frame.
        first: PageIndex,
        /// Which of [`Effects::frames`].
        frames: Range<u32>,
    },
    /// Read pages of a region that follow one another from their slots, which do so as well, into the frames, which enter
    /// the table as loading, and answer [`Event::ReadDone`].
    SwapIn {
        /// The transfer's name.
        io: IoId,
        /// Why; the one who raised [`Event::Fault`] does a read for [`Reason::Fault`] itself, or has it done.
        reason: Reason,
        /// The region.
        file: FileId,
        /// The first page. One alone for [`Reason::Fault`].
        page: PageIndex,
        /// Where it is.
        slot: SlotNo,
        /// Which of [`Effects::frames`].
        frames: Range<u32>,
    },
    /// Write the pages of regions, whose writeback marks are set, to the slots from `first` on, and answer
    /// [`Event::WriteDone`].
    SwapOut {
        /// The transfer's name.
        io: IoId,
        /// The slot for the first frame.
        first: SlotNo,
        /// Which of [`Effects::frames`].
        frames: Range<u32>,
    },
    /// The frames enter the table for the pages from `first` on, owned by the caller that raised the event, which fills them.
    Grant {
        /// The file.
        file: FileId,
        /// The page for the first frame.
        first: PageIndex,
        /// Which of [`Effects::frames`].
        frames: Range<u32>,
    },
    /// Write the pages from `first` on, whose writeback marks are set, and answer [`Event::WriteDone`].
    Write {
        /// The transfer's name.
        io: IoId,
        /// Why.
        reason: Reason,
        /// The file.
        file: FileId,
        /// The page in the first frame.
        first: PageIndex,
        /// Which of [`Effects::frames`].
        frames: Range<u32>,
    },
    /// To the one who raised the event: no frame can be had. Ask again when [`Waiters::Memory`] are woken, or
    /// after `at_most`.
    Wait {
        /// Why.
        reason: WaitReason,
        /// The longest sleep.
        at_most: Nanos,
    },
    /// To the dirtier who raised the event: send [`Event::Resume`] when [`Waiters::Dirtiers`] are woken, or
    /// after `at_most`. A driver with threads asks once more before the first sleep, as the wake-up may have come already.
    Pause {
        /// Why.
        reason: PauseReason,
        /// The longest sleep.
        at_most: Nanos,
    },
    /// Wake all who wait for this.
    Wake(Waiters),
    /// A request for durability has ended: everything that was dirty then was written, or this error
    /// stopped it. The device's own cache still has to be flushed.
    Synced {
        /// Which.
        ticket: SyncTicket,
        /// How.
        result: Result<(), IoError>,
        /// It was a matter of few pages, as of a log: the device's part of it should be told of by
        /// [`Event::DeviceSync`], for others to give way to it.
        small_fsync: bool,
    },
    /// A request for durability waits for nothing any more but log-blocked pages: it ends when they are released and
    /// written, or with [`Event::SyncGivenUp`].
    SyncLogBlocked {
        /// Which.
        ticket: SyncTicket,
    },
    /// Send [`Event::ReadAheadDue`] when a reader comes to this page of the file. Replaces the file's last mark; of a
    /// region's each counts, as long as its page is in memory.
    MarkReadAhead {
        /// The file.
        file: FileId,
        /// The page.
        at: PageIndex,
    },
    /// The background reclaimer is wanted: send [`Event::Reclaim`].
    WakeReclaimer,
    /// To the background reclaimer: another batch is wanted.
    ReclaimMore,
    /// The frame left the pool: its memory can go back to the system.
    Withdraw {
        /// The frame.
        frame: FrameNo,
    },
}

/// The effects of one step. Reuse one value for all steps: it then allocates nothing in the steady state.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// In the order in which they are to be carried out.
    pub list: Vec<Effect>,
    /// The frames that the effects name by range.
    pub frames: Vec<FrameNo>,
    /// When to send [`Event::Tick`] at the latest, if at all.
    pub next_tick: Option<Instant>,
}

impl Effects {
    /// Empties it for the next step.
    pub fn clear(&mut self) {
        self.list.clear();
        self.frames.clear();
        self.next_tick = None;
    }

    /// The frames of a range that an effect names.
    #[inline]
    pub fn frames(&self, range: &Range<u32>) -> &[FrameNo] {
        &self.frames[range.start as usize..range.end as usize]
    }

    /// Asks for a tick at `at` or before.
    #[inline]
    pub fn tick_at(&mut self, at: Instant) {
        self.next_tick = Some(self.next_tick.map_or(at, |t| t.min(at)));
    }

    /// Appends frames and returns the range that names them.
    pub(crate) fn add_frames(&mut self, frames: impl IntoIterator<Item = FrameNo>) -> Range<u32> {
        let start = self.frames.len() as u32;
        self.frames.extend(frames);
        start..self.frames.len() as u32
    }
}
