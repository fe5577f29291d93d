//! The scan balance between file pages and region pages in one memory: those that cost more to refault stay longer.
//!
//! ```text
//!   a ghost hit: a little more memory for its kind would have kept the page ──► the balance moves towards its kind, by what
//!                                                                               its reads cost
//!   a page of the favored kind would be a victim, or be demoted ──────────────► once more round its list, in `balance` of
//!                                                                               1000 cases
//! ```
//!
//! Linux asks its user how much dearer a read from swap is than one from a file (`swappiness`), and takes more from the
//! kind that refaulted less (5.8, `lru_note_cost`). Here the price is measured: the latency of reads that a caller
//! waits for. Only ghost hits count, because only they say something about the next page of memory (rule 5 of
//! `millpond`). The balance rests where ghost hits of both kinds cost the same per unit of time: the last page of
//! memory is then worth the same to each kind.
//!
//! A kind is favored only if its reads take at least twice as long, and by at most that factor. A page given another
//! lap loses its position, so at similar prices the order of use matters more. At the end of the balance's range the
//! factor is eight, and eight pages are scanned for a victim. If no page of the other kind was among as many would-be
//! victims as an eighth of memory, there is nothing to balance, and pages leave as usual.

use crate::frame::FrameTable;
use crate::lru::lists::List;
use crate::lru::rule::{LruVec, RefaultCosts};
use crate::page::PageKind;
use crate::units::{FrameNo, Nanos};

/// The mean read latencies cover about this many recent reads.
const READS: u64 = 32;
/// How far a ghost hit moves the balance, per mille, when the kinds' reads take as long.
const STEP_PER_MILLE: i64 = 4;
/// Would-be victims of one kind in a row after which there is nothing to balance: memory divided by this.
const ALONE_SHARE: u64 = 8;

/// What is known of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::lru) struct Cost {
    /// The mean of what a read takes, by [`PageKind`]; 0: none was made.
    reads: [u64; 2],
    /// Per mille; towards regions above 0, towards files below.
    balance: i64,
    /// Thousandths of a page that have yet to go round.
    deficit: i64,
    /// The kind of the last would-be victim, and how many of that kind there were in a row.
    alone: (Option<PageKind>, u64),
}

impl Cost {
    /// A caller has waited this long for a read of a page of this kind.
    pub(super) fn read_took(&mut self, kind: PageKind, took: Nanos, most: i64) {
        let mean = &mut self.reads[kind as usize];
        let took = took.0.max(1);
        *mean = match *mean {
            0 => took,
            mean => (mean - mean / READS + took / READS).max(1),
        };
        self.bound(most);
    }

    pub(super) fn known(&self) -> RefaultCosts {
        let [file, region] = self.reads.map(Nanos);
        RefaultCosts {
            file,
            region,
            scan_balance_per_mille: self.balance as i32,
        }
    }

    /// The kind favored by the measured refault costs, and how many of 1000 of its would-be victims stay for another
    /// lap; `None` if neither is favored.
    pub(in crate::lru) fn scan_balance(&self) -> Option<(PageKind, u32)> {
        let kind = match self.balance {
            0 => return None,
            1.. => PageKind::Anonymous,
            _ => PageKind::File,
        };
        Some((kind, self.balance.unsigned_abs() as u32))
    }

    /// A page was refaulted that a little longer list would have kept.
    pub(in crate::lru) fn ghost_hit(&mut self, kind: PageKind, most: i64) {
        let [file, anonymous] = self.reads;
        if file == 0 || anonymous == 0 {
            return;
        }
        let step = |reads: u64| {
            let share = u128::from(reads) * 2 * STEP_PER_MILLE as u128;
            (share / u128::from(file.saturating_add(anonymous))).max(1) as i64
        };
        self.balance += match kind {
            PageKind::File => -step(file),
            PageKind::Anonymous => step(anonymous),
        };
        self.bound(most);
    }

    /// Never towards the kind whose reads take less, and not beyond what the other one's price is worth.
    fn bound(&mut self, most: i64) {
        let [file, anonymous] = self.reads;
        let (cheap, dear) = (file.min(anonymous), file.max(anonymous));
        let worth = if cheap.saturating_mul(2) <= dear {
            1000 - (u128::from(cheap) * 1000 / u128::from(dear.max(1))) as i64
        } else {
            0
        };
        let worth = worth.min(most);
        self.balance = if file > anonymous {
            self.balance.clamp(-worth, 0)
        } else {
            self.balance.clamp(0, worth)
        };
    }

    /// Sends a page at the cold end of a list, which would be a victim or be demoted, round once more if it costs more than
    /// others to refault. Whether it did.
    pub(super) fn rotate(
        &mut self,
        lruvec: &mut LruVec,
        (frame, list): (FrameNo, List),
        frames: &impl FrameTable,
    ) -> bool {
        let Some((favoured, share)) = self.scan_balance() else {
            return false;
        };
        let kind = lruvec.kind(frames.key(frame).file());
        let (last, in_a_row) = &mut self.alone;
        *in_a_row = if *last == Some(kind) { *in_a_row + 1 } else { 1 };
        *last = Some(kind);
        if kind != favoured || *in_a_row > lruvec.memory.0 / ALONE_SHARE {
            return false;
        }
        self.deficit += i64::from(share);
        if self.deficit < 1000 {
            return false;
        }
        self.deficit -= 1000;
        lruvec.statistics.scan_balance_rotated += 1;
        lruvec.pages.move_to_warm(frame, list, list);
        true
    }
}
