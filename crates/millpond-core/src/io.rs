//! Transfers: their names, reasons and errors, and those in progress.

use crate::units::{DeviceNo, FileId, FrameNo, Instant, PageIndex};
use alloc::vec::Vec;

/// Names a transfer between its start and its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IoId(pub u32);

/// The device's error, as an operating system error number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IoError(pub i32);

/// Why a transfer is made. Every request carries its reason through engine, simulator, statistics and reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Reason {
    /// A caller waits for the page.
    Fault,
    /// A sequential reader is expected to need the page soon, or a user advised so.
    ReadAhead,
    /// The page has been dirty for long, or many pages are dirty.
    Background,
    /// A dirtier waits for pages to become clean.
    DirtierBlocked,
    /// Reclaim met the page at the cold end, or a caller waits for a frame.
    Reclaim,
    /// A caller waits for the page to be durable.
    Sync,
    /// A page of anonymous memory is written to the swap file.
    Swap,
}

impl Reason {
    /// The number of reasons.
    pub const COUNT: usize = 7;
    /// All reasons, in order.
    pub const ALL: [Reason; Reason::COUNT] = [
        Reason::Fault,
        Reason::ReadAhead,
        Reason::Background,
        Reason::DirtierBlocked,
        Reason::Reclaim,
        Reason::Sync,
        Reason::Swap,
    ];

    /// Whether a transfer for this reason reads.
    #[inline]
    pub fn is_read(self) -> bool {
        matches!(self, Reason::Fault | Reason::ReadAhead)
    }

    /// The name in statistics and reports.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Fault => "fault",
            Reason::ReadAhead => "readahead",
            Reason::Background => "background",
            Reason::DirtierBlocked => "dirtier_blocked",
            Reason::Reclaim => "reclaim",
            Reason::Sync => "sync",
            Reason::Swap => "swap",
        }
    }
}

/// One transfer.
#[derive(Clone, Debug)]
pub struct Io {
    /// Why.
    pub reason: Reason,
    /// Where.
    pub device: DeviceNo,
    /// The file.
    pub file: FileId,
    /// The page of the first frame.
    pub first: PageIndex,
    /// The frames, of pages that follow one another.
    pub frames: Vec<FrameNo>,
    /// When it was issued.
    pub issued_at: Instant,
    /// A caller waits for just this write: it is a part of a small fsync.
    pub small_fsync: bool,
    /// Since when a caller waits for this read, which was made ahead of a reader.
    pub awaited: Option<Instant>,
}

/// Transfers for which memory is reserved from the start, and for whose lists there is once they were that many: more than
/// any queue has.
const RESERVED: usize = 1024;
/// Of those, transfers that may be as large as any: what the admission lets through at a time, several times over.
const LARGE: usize = 64;

/// All transfers that have been issued and have not ended. Their frame lists are reused: in the steady state
/// nothing is allocated.
#[derive(Clone, Debug)]
pub struct IoTable {
    slots: Vec<Option<Io>>,
    empty: Vec<u32>,
    /// Lists of frames for the next transfers.
    mempool: Vec<Vec<FrameNo>>,
}

impl IoTable {
    /// An empty table, with memory for some transfers of up to `frames` frames each.
    pub fn new(frames: usize) -> IoTable {
        IoTable {
            slots: Vec::with_capacity(RESERVED),
            empty: Vec::with_capacity(RESERVED),
            mempool: {
                let mut mempool = Vec::with_capacity(RESERVED);
                mempool.extend((0..LARGE).map(|_| Vec::with_capacity(frames)));
                mempool
            },
        }
    }

    /// A list to fill with the frames of the next transfer.
    pub fn frame_list(&mut self) -> Vec<FrameNo> {
        self.mempool.pop().unwrap_or_default()
    }

    /// Enters a transfer.
    pub fn start(&mut self, io: Io) -> IoId {
        if let Some(slot) = self.empty.pop() {
            self.slots[slot as usize] = Some(io);
            return IoId(slot);
        }
        self.slots.push(Some(io));
        IoId(self.slots.len() as u32 - 1)
    }

    /// The read ahead that brings the page.
    pub fn read_ahead_of(&mut self, file: FileId, page: PageIndex) -> Option<&mut Io> {
        self.slots.iter_mut().flatten().find(|io| {
            let pages = io.first.0..io.first.0 + io.frames.len() as u64;
            io.reason == Reason::ReadAhead && io.file == file && pages.contains(&page.0)
        })
    }

    /// Takes out a transfer that has ended.
    ///
    /// # Panics
    /// If there is none of this name: the driver reported an end twice.
    pub fn end(&mut self, id: IoId) -> Io {
        let io = self.slots.get_mut(id.0 as usize).and_then(Option::take);
        self.empty.push(id.0);
        io.unwrap_or_else(|| panic!("{id:?} is not in transit"))
    }

    /// Gives back the list of a transfer that was taken out.
    pub fn recycle(&mut self, mut frames: Vec<FrameNo>) {
        frames.clear();
        if self.mempool.len() < RESERVED {
            self.mempool.push(frames);
        }
    }

    /// The frames of a transfer in transit.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn frames(&self, id: IoId) -> &[FrameNo] {
        let io = self.slots.get(id.0 as usize).and_then(Option::as_ref);
        &io.unwrap_or_else(|| panic!("{id:?} is not in transit")).frames
    }

    /// The transfers in transit.
    pub fn iter(&self) -> impl Iterator<Item = (IoId, &Io)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(n, io)| Some((IoId(n as u32), io.as_ref()?)))
    }

    /// Bytes that the table holds.
    pub fn metadata_bytes(&self) -> u64 {
        let lists = self.mempool.iter().chain(self.iter().map(|(_, io)| &io.frames));
        let frames: usize = lists.map(Vec::capacity).sum();
        (self.slots.capacity() * size_of::<Option<Io>>() + frames * size_of::<FrameNo>()) as u64
    }
}
