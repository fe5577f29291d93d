//! Input and output of the core: what the driver reports, and what the core asks for.
//!
//! ```text
//!   world ── Event, now, &mut FrameTable ──► Manager::step ── Effects ──► world
//! ```
//!
//! Waiting is a value ([`Effect::Wait`], [`Effect::Pause`], [`Effects::next_tick`]), never a sleep. The same events at
//! the same times give the same effects, bit for bit.

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

/// What a faulting thread is about to do with the missing pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// Use their content. They are read from the device.
    Read,
    /// Overwrite them completely. They are granted without a read.
    Overwrite,
    /// Nothing yet: a user expects to need them. They are read in the background, or dropped when memory is short.
    Prefetch,
    /// Use their content, for a background task: as a prefetch, with what follows if the task reads sequentially. The
    /// pages leave memory before others.
    Background,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A device takes this number, which is the next unused one or one with no open file; or more is known about the
    /// device. The core forgets what it learned about it. Device 0 exists from the start, with nothing known about it.
    DeviceFound {
        /// The device number.
        device: DeviceNo,
        /// What is known about it.
        hints: DeviceHints,
    },
    /// The cache opens a file under this number.
    Opened {
        /// The file number, not in use.
        file: FileId,
        /// File length in pages, rounded up. Read-ahead stops there.
        pages: PageCount,
        /// The file's device: 0, or one from an earlier [`Event::DeviceFound`].
        device: DeviceNo,
    },
    /// A swap file of `slots` slots is added. Its slots are numbered from 0, or after those of the previous swap file
    /// with one number left unused between them. Must come before the first region.
    SwapAdded {
        /// The number of slots.
        slots: PageCount,
        /// The swap file with the highest priority is filled first. Files of equal priority take turns.
        priority: i16,
        /// The swap file's device.
        device: DeviceNo,
    },
    /// A region of anonymous memory opens under this number. None of its pages has been touched. All regions together
    /// have no more pages than there are slots.
    RegionOpened {
        /// The file number, not in use.
        file: FileId,
        /// The region's size.
        pages: PageCount,
    },
    /// Pages of regions differ from their slots. The core had taken them for clean and had not offered them for
    /// writing.
    Changed {
        /// The frames.
        frames: &'a [FrameNo],
    },
    /// Pages of a region that are not in memory are discarded. Their slots are free, and the pages count as never
    /// touched.
    Forgotten {
        /// The region.
        file: FileId,
        /// The pages.
        pages: Range<u64>,
    },
    /// The length of the file has changed.
    Resized {
        /// The file.
        file: FileId,
        /// The new length, rounded up to pages.
        pages: PageCount,
    },
    /// The file's number is free again. Its pages were discarded earlier.
    Closed {
        /// The file.
        file: FileId,
    },
    /// The user has advised how the file will be used.
    Advised {
        /// The file.
        file: FileId,
        /// The access pattern.
        pattern: Pattern,
    },
    /// A thread needs pages that are not in the table; all of `first..first + count` are missing. Answered by
    /// [`Effect::Read`] or [`Effect::Grant`] for a prefix of them, or by [`Effect::Wait`].
    Fault {
        /// The file.
        file: FileId,
        /// The first missing page.
        first: PageIndex,
        /// The number of pages, at least 1.
        count: u32,
        /// Why the thread needs them.
        intent: Intent,
    },
    /// A reader has reached the page of [`Effect::MarkReadAhead`]: it is time to read further ahead.
    ReadAheadDue {
        /// The file.
        file: FileId,
        /// The marked page.
        at: PageIndex,
    },
    /// A reader waits for a page that is being read. If that page was read ahead, it counts from here on as if the
    /// reader had asked for it.
    Awaited {
        /// The file.
        file: FileId,
        /// The page.
        page: PageIndex,
    },
    /// A read has ended. After an error the driver has already removed its pages from the table.
    ReadDone {
        /// The transfer.
        io: IoId,
        /// Its result.
        result: Result<(), IoError>,
    },
    /// A write has ended.
    WriteDone {
        /// The transfer.
        io: IoId,
        /// Its result.
        result: Result<(), IoError>,
    },
    /// Pages went from clean (or being written) to dirty. Answered by [`Effect::Pause`] if the dirtier must wait before
    /// it dirties more.
    Dirtied {
        /// The file.
        file: FileId,
        /// The page in the first frame. The others follow it in the file.
        first: PageIndex,
        /// The frames.
        frames: &'a [FrameNo],
        /// The dirtier.
        dirtier: DirtierId,
    },
    /// A dirtier asks whether it may continue, either after a pause or before it changes pages without reporting each
    /// change. Answered by [`Effect::Pause`] if it must wait.
    Resume {
        /// The dirtier.
        dirtier: DirtierId,
    },
    /// All pages of the file that are dirty at this moment must become durable. Answered later by [`Effect::Synced`],
    /// possibly after [`Effect::SyncLogBlocked`].
    Sync {
        /// The file.
        file: FileId,
        /// Identifies the answer.
        ticket: SyncTicket,
    },
    /// No caller waits for this [`Event::Sync`] now. No answer follows, unless it was already given.
    SyncGivenUp {
        /// The file.
        file: FileId,
        /// The sync.
        ticket: SyncTicket,
    },
    /// A caller needs memory: retry one of the file's unwritable pages immediately.
    Retry {
        /// The file.
        file: FileId,
    },
    /// The device's part of a small fsync has begun or ended.
    DeviceSync {
        /// The file.
        file: FileId,
        /// True when it begins, false when it ends.
        begun: bool,
    },
    /// Log-blocked pages may now be written ([`BeginWrite::LogBlocked`](crate::frame::BeginWrite::LogBlocked)). Pages
    /// that are not log-blocked are skipped.
    Released {
        /// The file.
        file: FileId,
        /// The pages.
        pages: &'a [PageIndex],
    },
    /// Pages are discarded. The driver has removed them from the table, so their frames are free.
    Discarded {
        /// The file.
        file: FileId,
        /// The pages and their frames. None of them is being read or written.
        pages: &'a [(PageIndex, FrameNo)],
    },
    /// The background reclaimer can run a batch. Answered by [`Effect::ReclaimMore`] if another one is wanted.
    Reclaim,
    /// The time of [`Effects::next_tick`] has come. Harmless at any other time.
    Tick,
    /// The user has changed options. The driver has checked them.
    Retuned(Box<Options>),
    /// The memory budget has changed. The pool has this many frames, numbered from 0.
    MemoryChanged {
        /// The new number of frames.
        frames: PageCount,
    },
}

/// Which waiters to wake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiters {
    /// Callers that got [`Effect::Wait`].
    Memory,
    /// Callers that got [`Effect::Pause`].
    Dirtiers,
}

/// Why a dirtier pauses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseReason {
    /// Pages that are dirty or being written.
    pub unclean: PageCount,
    /// The dirtier waits until no more than this many are.
    pub until: PageCount,
    /// Bytes of writes in transit to the device.
    pub in_transit: Bytes,
}

/// What the core asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Read the pages from `first` on into the frames, which enter the table as loading. Answer with
    /// [`Event::ReadDone`].
    Read {
        /// Names the transfer.
        io: IoId,
        /// Why. For [`Reason::Fault`] the caller that raised [`Event::Fault`] does the read itself.
        reason: Reason,
        /// The file.
        file: FileId,
        /// The page for the first frame.
        first: PageIndex,
        /// A range of [`Effects::frames`].
        frames: Range<u32>,
    },
    /// Read consecutive pages of a region from consecutive slots into the frames, which enter the table as loading.
    /// Answer with [`Event::ReadDone`].
    SwapIn {
        /// Names the transfer.
        io: IoId,
        /// Why. For [`Reason::Fault`] the caller that raised [`Event::Fault`] does the read itself, or has it done.
        reason: Reason,
        /// The region.
        file: FileId,
        /// The first page. The only one for [`Reason::Fault`].
        page: PageIndex,
        /// The slot of the first page.
        slot: SlotNo,
        /// A range of [`Effects::frames`].
        frames: Range<u32>,
    },
    /// Write pages of regions, whose writeback marks are set, to the slots from `first` on. Answer with
    /// [`Event::WriteDone`].
    SwapOut {
        /// Names the transfer.
        io: IoId,
        /// The slot for the first frame.
        first: SlotNo,
        /// A range of [`Effects::frames`].
        frames: Range<u32>,
    },
    /// The frames enter the table for the pages from `first` on. The caller that raised the event owns and fills them.
    Grant {
        /// The file.
        file: FileId,
        /// The page for the first frame.
        first: PageIndex,
        /// A range of [`Effects::frames`].
        frames: Range<u32>,
    },
    /// Write the pages from `first` on, whose writeback marks are set. Answer with [`Event::WriteDone`].
    Write {
        /// Names the transfer.
        io: IoId,
        /// Why.
        reason: Reason,
        /// The file.
        file: FileId,
        /// The page in the first frame.
        first: PageIndex,
        /// A range of [`Effects::frames`].
        frames: Range<u32>,
    },
    /// To the caller that raised the event: no frame is available. Ask again when [`Waiters::Memory`] are woken, or
    /// after `at_most`.
    Wait {
        /// Why.
        reason: WaitReason,
        /// The longest sleep.
        at_most: Nanos,
    },
    /// To the dirtier that raised the event: send [`Event::Resume`] when [`Waiters::Dirtiers`] are woken, or after
    /// `at_most`. A driver with threads asks once more before its first sleep, because the wake-up may already have
    /// come.
    Pause {
        /// Why.
        reason: PauseReason,
        /// The longest sleep.
        at_most: Nanos,
    },
    /// Wake all of these waiters.
    Wake(Waiters),
    /// A sync has ended: either every page that was dirty at its start was written, or this error stopped it. The
    /// device's own cache still has to be flushed.
    Synced {
        /// The sync.
        ticket: SyncTicket,
        /// Its result.
        result: Result<(), IoError>,
        /// It covered only a few pages, like the fsync of a log. The driver should report the device's part of it
        /// through [`Event::DeviceSync`], so that other writes give way to it.
        small_fsync: bool,
    },
    /// A sync now waits only for log-blocked pages. It ends when they are released and written, or with
    /// [`Event::SyncGivenUp`].
    SyncLogBlocked {
        /// The sync.
        ticket: SyncTicket,
    },
    /// Send [`Event::ReadAheadDue`] when a reader reaches this page. Replaces the previous mark of a file. A region can
    /// have several marks, each valid as long as its page is in memory.
    MarkReadAhead {
        /// The file.
        file: FileId,
        /// The page.
        at: PageIndex,
    },
    /// The background reclaimer should wake: send [`Event::Reclaim`].
    WakeReclaimer,
    /// To the background reclaimer: run another batch.
    ReclaimMore,
    /// The frame left the pool. Its memory can go back to the system.
    Withdraw {
        /// The frame.
        frame: FrameNo,
    },
}

/// The effects of one step. Reuse one value for all steps; it then allocates nothing in steady state.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// The effects, in the order to carry them out.
    pub list: Vec<Effect>,
    /// The frames to which the effects refer by range.
    pub frames: Vec<FrameNo>,
    /// Latest time for the next [`Event::Tick`], if one is needed.
    pub next_tick: Option<Instant>,
}

impl Effects {
    /// Empties it for the next step.
    pub fn clear(&mut self) {
        self.list.clear();
        self.frames.clear();
        self.next_tick = None;
    }

    /// The frames in an effect's range.
    #[inline]
    pub fn frames(&self, range: &Range<u32>) -> &[FrameNo] {
        &self.frames[range.start as usize..range.end as usize]
    }

    /// Asks for a tick at or before `at`.
    #[inline]
    pub fn tick_at(&mut self, at: Instant) {
        self.next_tick = Some(self.next_tick.map_or(at, |t| t.min(at)));
    }

    /// Appends frames and returns their range.
    pub(crate) fn add_frames(&mut self, frames: impl IntoIterator<Item = FrameNo>) -> Range<u32> {
        let start = self.frames.len() as u32;
        self.frames.extend(frames);
        start..self.frames.len() as u32
    }
}
