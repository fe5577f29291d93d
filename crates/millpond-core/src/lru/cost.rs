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

use super::Lru;
use super::lists::List;
use super::options::{MillpondOptions, Replacement};
use crate::frame::FrameTable;
use crate::page::PageKind;
use crate::units::{FileId, FrameNo, Nanos};

/// The mean read latencies cover about this many recent reads.
const READS: u64 = 32;
/// How far a ghost hit moves the balance, per mille, when the kinds' reads take as long.
const STEP_PER_MILLE: i64 = 4;
/// Would-be victims of one kind in a row after which there is nothing to balance: memory divided by this.
const ALONE_SHARE: u64 = 8;

/// The current refault cost of each kind, and which kind it favors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RefaultCosts {
    /// Mean latency of file reads that a caller waited for, over about the last 32. Zero before the first.
    pub file: Nanos,
    /// The same for reads of regions, from swap.
    pub region: Nanos,
    /// The scan balance: this many of 1000 would-be victims of regions stay for a lap; if negative, of files.
    pub scan_balance_per_mille: i32,
}

/// What is known of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Cost {
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
    fn ghost_hit(&mut self, kind: PageKind, most: i64) {
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
}

impl Lru {
    /// A caller has waited this long for a read of a page of this kind.
    pub fn read_took(&mut self, kind: PageKind, took: Nanos) {
        let Replacement::Millpond(options) = self.replacement else {
            return;
        };
        let mean = &mut self.cost.reads[kind as usize];
        let took = took.0.max(1);
        *mean = match *mean {
            0 => took,
            mean => (mean - mean / READS + took / READS).max(1),
        };
        self.cost.bound(options.scan_balance_max_per_mille.into());
    }

    /// The current refault costs, and which kind of page they favor.
    pub fn refault_costs(&self) -> RefaultCosts {
        let [file, region] = self.cost.reads.map(Nanos);
        RefaultCosts {
            file,
            region,
            scan_balance_per_mille: self.cost.balance as i32,
        }
    }

    /// The kind favored by the measured refault costs, and how many of 1000 of its would-be victims stay for another
    /// lap; `None` if neither is favored.
    pub(super) fn scan_balance(&self) -> Option<(PageKind, u32)> {
        let kind = match self.cost.balance {
            0 => return None,
            1.. => PageKind::Anonymous,
            _ => PageKind::File,
        };
        Some((kind, self.cost.balance.unsigned_abs() as u32))
    }

    /// A page was refaulted that a little longer list would have kept.
    pub(super) fn ghost_hit(&mut self, options: &MillpondOptions, file: FileId) {
        let kind = self.kind(file);
        self.cost
            .ghost_hit(kind, options.scan_balance_max_per_mille.into());
    }

    /// Sends a page at the cold end of a list, which would be a victim or be demoted, round once more if it costs more than
    /// others to refault. Whether it did.
    pub(super) fn rotate_for_its_cost(
        &mut self,
        frame: FrameNo,
        list: List,
        frames: &impl FrameTable,
    ) -> bool {
        let Some((favoured, share)) = self.scan_balance() else {
            return false;
        };
        let kind = self.kind(frames.key(frame).file());
        let (last, in_a_row) = &mut self.cost.alone;
        *in_a_row = if *last == Some(kind) { *in_a_row + 1 } else { 1 };
        *last = Some(kind);
        if kind != favoured || *in_a_row > self.memory.0 / ALONE_SHARE {
            return false;
        }
        self.cost.deficit += i64::from(share);
        if self.cost.deficit < 1000 {
            return false;
        }
        self.cost.deficit -= 1000;
        self.statistics.scan_balance_rotated += 1;
        self.pages.move_to_warm(frame, list, list);
        true
    }

    /// What was opened as a file is one; everything else is a region.
    fn kind(&self, file: FileId) -> PageKind {
        if self.refault_rates.is_file(file) {
            PageKind::File
        } else {
            PageKind::Anonymous
        }
    }
}
