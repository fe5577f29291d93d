//! What the flusher knows about one file: its dirty pages, its sequential writer, its syncs.

use crate::dirty::index::PageSet;
use crate::io::{IoError, IoId};
use crate::mutation::{self, Mutation};
use crate::units::{DeviceNo, Instant, Nanos, PageCount, PageIndex};
use crate::writeback::SyncTicket;
use alloc::vec::Vec;

/// One pass of writing everything that was dirty when it began. Requests that arrive meanwhile wait for
/// the next pass, so a racing dirtier cannot keep a pass from ending, and many requests share one.
#[derive(Clone, Debug, Default)]
pub(super) struct SyncPass {
    pub(super) tickets: Vec<SyncTicket>,
    /// It has [`SMALL_FSYNC_MAX`](crate::writeback::SMALL_FSYNC_MAX) at most: it goes before others, and others wait for it.
    pub(super) small_fsync: bool,
    /// Pages that still have to be issued.
    pub(super) todo: PageSet,
    /// Pages that have to be issued as soon as they may be: some of [`FileWork::log_blocked`].
    pub(super) log_blocked: PageSet,
    /// Whether the waiting callers know that nothing else is left.
    pub(super) log_blocked_told: bool,
    /// Transfers that have to end.
    pub(super) waiting: Vec<IoId>,
    pub(super) error: Option<IoError>,
    /// The position of the search in `todo`.
    pub(super) cursor: PageIndex,
    /// Whether a page was issued since the search last began at the start.
    pub(super) progress: bool,
}

/// Runs that a sequential writer has filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteBehind {
    /// Where the next sequential write begins.
    pub(super) next: PageIndex,
    /// Pages from here to `until` may leave.
    pub(super) from: PageIndex,
    pub(super) until: PageIndex,
}

/// A file's place among those with dirty pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct OrderKey {
    /// When its first dirty page became dirty, or when it last had its slice.
    pub(super) since: Instant,
    /// Tells apart what happened at the same time.
    pub(super) number: u64,
}

/// A file some of whose pages could not be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failing {
    /// The device's last answer.
    pub(super) error: IoError,
    /// When the next page is tried, if no caller asks for durability before.
    pub(super) until: Instant,
    pub(super) span: Nanos,
    /// The next page to try is the first in backoff from here on.
    pub(super) probe: PageIndex,
    /// How many suspect pages one write takes.
    pub(super) together: u64,
}

#[derive(Clone, Debug)]
pub(super) struct FileWork {
    /// Where it is.
    pub(super) device: DeviceNo,
    /// Pages that are dirty and may be written, whether or not an older content is being written.
    pub(super) dirty: PageSet,
    /// Pages that are dirty and may not be written before the driver says so.
    pub(super) log_blocked: PageSet,
    /// Pages that are dirty and were held when they were to be written: next.
    pub(super) retry_ready: PageSet,
    /// Pages that are dirty and left alone for a while, because the device has refused them alone.
    pub(super) backoff: PageSet,
    /// Pages that it has refused alone and not taken since, and that are tried again: in one of the sets above, or being
    /// written.
    pub(super) retried: PageSet,
    /// The same for pages whose last write failed together with others.
    pub(super) suspect: PageSet,
    /// While there are pages in backoff, retried or suspect pages.
    pub(super) failing: Option<Failing>,
    /// Its place in the order, while it has dirty pages that are not in backoff.
    pub(super) order_key: OrderKey,
    /// Whatever its age: some of its pages have failed and are to be tried again.
    pub(super) hurry: bool,
    /// Those of the dirty pages that reclaim wants to be clean.
    pub(super) reclaim_flagged: PageSet,
    /// Whether the file is in the flusher's queue of files with such pages.
    pub(super) reclaim_flagged_queued: bool,
    /// The position of the search in `reclaim_flagged`, and whether it is worthwhile to begin at the start again.
    pub(super) reclaim_flagged_from: PageIndex,
    pub(super) reclaim_flagged_progress: bool,
    pub(super) cursor: PageIndex,
    pub(super) slice_left: u64,
    /// Whether a page was issued since `cursor` last began at the start.
    pub(super) progress: bool,
    pub(super) in_transit: Vec<IoId>,
    /// Pages of those transfers.
    pub(super) in_transit_pages: PageCount,
    pub(super) pass: Option<SyncPass>,
    pub(super) next_tickets: Vec<SyncTicket>,
    /// Whether the file is in the flusher's queue of passes.
    pub(super) pass_queued: bool,
    pub(super) write_behind: WriteBehind,
    pub(super) write_behind_queued: bool,
    /// The position of the search in `retry_ready`.
    pub(super) retry_ready_from: PageIndex,
    pub(super) retry_ready_queued: bool,
}

impl FileWork {
    pub(super) fn new(device: DeviceNo) -> FileWork {
        let zero = PageIndex(0);
        FileWork {
            device,
            dirty: PageSet::default(),
            log_blocked: PageSet::default(),
            retry_ready: PageSet::default(),
            backoff: PageSet::default(),
            retried: PageSet::default(),
            suspect: PageSet::default(),
            failing: None,
            order_key: OrderKey {
                since: Instant(0),
                number: 0,
            },
            hurry: false,
            reclaim_flagged: PageSet::default(),
            reclaim_flagged_queued: false,
            reclaim_flagged_from: zero,
            reclaim_flagged_progress: false,
            cursor: zero,
            slice_left: 0,
            progress: false,
            in_transit: Vec::new(),
            in_transit_pages: PageCount(0),
            pass: None,
            next_tickets: Vec::new(),
            pass_queued: false,
            write_behind: WriteBehind {
                next: zero,
                from: zero,
                until: zero,
            },
            write_behind_queued: false,
            retry_ready_from: zero,
            retry_ready_queued: false,
        }
    }

    /// Pages whose last content the device may not have. One that has changed while it is written counts twice.
    pub(super) fn unwritten(&self) -> PageCount {
        let sets = [&self.dirty, &self.log_blocked, &self.retry_ready, &self.backoff];
        PageCount(sets.map(PageSet::len).iter().sum()) + self.in_transit_pages
    }

    /// Whether nothing of it must be written, and no caller waits for it.
    pub(super) fn is_idle(&self) -> bool {
        let has_callers = self.pass.is_some() || !self.next_tickets.is_empty();
        !has_callers && self.in_transit.is_empty() && self.unwritten() == PageCount(0)
    }

    /// Bytes that the sets of pages hold, about.
    pub(super) fn metadata_bytes(&self) -> u64 {
        let own = [
            &self.dirty,
            &self.log_blocked,
            &self.retry_ready,
            &self.backoff,
            &self.retried,
            &self.suspect,
            &self.reclaim_flagged,
        ];
        let pass = self.pass.iter().flat_map(|pass| [&pass.todo, &pass.log_blocked]);
        own.into_iter().chain(pass).map(PageSet::metadata_bytes).sum()
    }

    /// Begins a pass for the tickets that wait, if none is under way. Whether one is.
    /// `small_fsync_max`: the number of pages up to which it is a small fsync.
    pub(super) fn begin_pass(&mut self, small_fsync_max: PageCount) -> bool {
        if self.pass.is_none() && !self.next_tickets.is_empty() {
            let mut todo = self.dirty.clone();
            todo.merge(&self.backoff);
            todo.merge(&self.retry_ready);
            self.pass = Some(SyncPass {
                tickets: core::mem::take(&mut self.next_tickets),
                small_fsync: todo.len() <= small_fsync_max.0,
                todo,
                log_blocked: self.log_blocked.clone(),
                waiting: self.in_transit.clone(),
                progress: true,
                ..SyncPass::default()
            });
            if mutation::is(Mutation::SyncBeforeWrites) {
                self.pass
                    .iter_mut()
                    .for_each(|pass| (pass.todo, pass.log_blocked) = Default::default());
            }
            if mutation::is(Mutation::SyncForgetsTransit) {
                self.pass.iter_mut().for_each(|pass| pass.waiting.clear());
            }
        }
        self.pass.is_some()
    }

    /// Takes out the pass if nothing is left to do for it.
    pub(super) fn end_pass(&mut self) -> Option<SyncPass> {
        self.pass
            .take_if(|pass| pass.todo.is_empty() && pass.log_blocked.is_empty() && pass.waiting.is_empty())
    }

    /// Notes that `count` pages from `first` on were dirtied, and where runs of `run` pages are full. Whether one may leave.
    pub(super) fn note_sequential(&mut self, first: PageIndex, count: u64, run: u64) -> bool {
        let behind = &mut self.write_behind;
        if first != behind.next {
            behind.from = first;
        }
        behind.next = first.after(count);
        // The writer that dirtied these pages still holds them; a run is complete when the writer has moved past it.
        behind.until = PageIndex(first.0 / run * run);
        behind.until > behind.from
    }
}
