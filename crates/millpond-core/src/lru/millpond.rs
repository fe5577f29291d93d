//! Millpond's replacement: two lists, lazy promotion, and admission to the active list by a probe.
//!
//! ```text
//!   new ─► window ─► inactive ── cold end: used? ── no ─► victim
//!             │        ▲  ▲            │ yes
//!        drawn│        │  └─ no room ──┼─────────── a recent refault
//!             ▼        │no count left  ▼                 │
//!       room? probe ───┼────────────► active ◄── room? probe
//! ```
//!
//! 1. A new page stays in its *correlated-reference window* for 1 % of memory in insertions. Uses during that time form
//!    one burst with the use that brought it in, and are dropped when the page moves on to the inactive list. A page
//!    that was read ahead has had its first use if it was used by then, or if accesses are not tracked.
//! 2. While the inactive list is longer than its target, the scan works at its cold end: used pages become active, the
//!    others are victims. Otherwise it works at the cold end of the active list: a page pays one of its *usage count*
//!    for another lap, or is demoted to the warm end of the inactive list. After 32 active pages without a victim the
//!    next victim always comes from the inactive list.
//!    A page of a region whose accesses were not tracked ([`FrameTable::tracks_accesses`]) gets a lap in which they
//!    are: a page not known to be used is not known to be unused. Such a lap shows at most one use, so its accessed bit
//!    weighs four, up to a usage count of eight. From a count of five the scan skips the page, because sampling costs an
//!    unmapping and a soft fault. Its neighbors are sampled with it (`sampling_batch`).
//! 3. A *recent refault*, of a page missed within memory's size in evictions, belongs on the active list. It gets there
//!    if the inactive list is above its target (then there is room), or else by an *admission probe*. The probe checks
//!    up to two pages at the active cold end. Each of them pays one of its usage count; the first with none left is
//!    demoted, and the refaulted page takes its place. If there is none, the refaulted page starts inactive. It enters
//!    with a usage count of one, so that it is not the next to leave. The probe is short: in a loop of up to 4/3 of
//!    memory, two checks per refault do not reach any page twice in a lap, so a page used once a lap stays.
//! 4. *Bimodal insertion*: a *share* of the pages without a recent shadow moves from the window to the active list,
//!    with a usage count of zero, where there is room or a probe of one page makes it. In a loop longer than memory
//!    this makes a part of the loop stay: pages used once a lap are kept, where a plain list would hold nothing long
//!    enough. The share follows the outcomes: a drawn page used before its demotion raises it, one demoted unused
//!    lowers it. It is never below a 32nd. A hash of the key decides whether a page is drawn, and changes each time
//!    that as many pages were missed as memory holds. So no loop can stay in step with it, and there are always new
//!    pages to learn from. Neighbors are drawn in rows, and a row moves the share as one page. Memory touched for the
//!    first time is not drawn: it was not missed.
//! 5. The target is between nothing and all of memory. It moves at a *ghost hit*, the refault of a page that a list
//!    longer by 5 % of memory would have kept: up if the page had never been active, down if it had. Both ghost lists
//!    have the same length, so both steps are equal (ARC weighs its steps by the lengths). A step is an eighth of the
//!    square root of memory, at least one page. Uninformative hits then move the target by 3 % of memory while memory
//!    is replaced once, whatever its size, because `n` random steps up and down lead `sqrt(n)` steps away.
//! 6. Pages of a *no-reuse file*, of which almost none are used again while other files' pages are (`refault_rate`),
//!    spend their window on a separate list that ends at the cold end of the inactive list. They are the next victims
//!    (`no_reuse`).
//! 7. Of file pages and region pages, those that cost more to refault stay longer (`cost`).
//!
//! Decision 0002 compares this with other rules from the literature; the probes are new.

mod bimodal;
mod cost;
mod no_reuse;
mod options;
mod sampling_batch;

#[cfg(test)]
pub(super) use bimodal::SHARE_ALL;
pub use options::{MillpondOptions, RANGES};

use super::lists::{List, Past};
use super::rule::{LruVec, RefaultCosts, Rule};
use super::workingset::Distance;
use super::{Refault, Scanned, share_at};
use crate::frame::FrameTable;
use crate::mutation::{self, Mutation};
use crate::page::PageKind;
use crate::range::{self, OutOfRange};
use crate::units::{Bytes, FileId, FrameNo, Nanos, PageCount, PageKey};
use alloc::vec::Vec;
use bimodal::Bimodal;
use cost::Cost;
use no_reuse::Sorting;

/// Active pages after which the scan takes a victim from the inactive list even if that is below its target: it bounds
/// the work for a victim when all that is active was used lately. A batch of Linux; from 8 pages on the miss ratios of
/// the traces of decision 0002 are the same as without a bound.
const VAIN_MAX: u32 = 32;

/// Parts of a page in which the target is counted.
const PARTS: u64 = 256;
/// A step of the target is the square root of memory divided by this; from 2 to 16 the traces do not tell it apart.
const STEP_DIVISOR: u64 = 8;

/// The rule, and what it remembers besides the lists.
#[derive(Clone, Debug)]
pub(super) struct Millpond {
    options: MillpondOptions,
    /// The inactive list's length aimed at, in 256ths of a page.
    pub(super) target: u64,
    /// Active pages that the scan looked at since its last victim.
    vain: u32,
    /// Active pages that sampling batches looked at beyond the share of the probes that began them.
    looked_ahead: u64,
    /// Pages on lists when the last batch of the scan had taken its victims.
    after_scan: u64,
    pub(super) bimodal: Bimodal,
    sorting: Sorting,
    pub(super) cost: Cost,
}

/// Rule 5: a step of the target, in parts of a page.
fn target_step(memory: PageCount) -> u64 {
    // The root of memory in 256ths of 256ths of a page is in 256ths of a page.
    ((memory.0 * PARTS * PARTS).isqrt() / STEP_DIVISOR).max(PARTS)
}

impl Rule for Millpond {
    type Options = MillpondOptions;

    const UNUSED_LISTS: &[List] = &[];

    fn new(options: MillpondOptions, memory: PageCount) -> Millpond {
        Millpond {
            options,
            target: memory.0 * PARTS * u64::from(options.inactive_start_per_mille) / 1000,
            vain: 0,
            looked_ahead: 0,
            after_scan: u64::MAX,
            bimodal: Bimodal::new(),
            sorting: Sorting::default(),
            cost: Cost::default(),
        }
    }

    fn check(options: &MillpondOptions) -> Result<(), OutOfRange> {
        // No range depends on the size of a page.
        range::check(RANGES, options, Bytes(0))
    }

    /// Rule 5, and whether the refault is recent, for rule 3.
    fn refault(&mut self, lruvec: &mut LruVec, distance: &Distance, file: FileId) -> bool {
        if u64::from(distance.of_class) <= self.options.ghost_window.of(lruvec.memory.0) {
            let most = self.options.scan_balance_max_per_mille;
            self.cost.ghost_hit(lruvec.kind(file), most.into());
            let (target, step) = (self.target, target_step(lruvec.memory));
            self.target = if distance.workingset && !mutation::is(Mutation::TargetOnlyRises) {
                target.saturating_sub(step)
            } else {
                (target + step).min(lruvec.memory.0 * PARTS)
            };
        }
        u64::from(distance.pages) <= lruvec.memory.0
    }

    fn insert(
        &mut self,
        lruvec: &mut LruVec,
        (frame, key): (FrameNo, PageKey),
        refault: Refault,
        first_use: bool,
        frames: &mut impl FrameTable,
    ) {
        if refault.recent && (self.has_room(lruvec) || self.probe(lruvec, self.options.probe_pages, frames)) {
            lruvec.pages.admit(frame, List::Active, first_use, 1);
            lruvec.statistics.workingset_activate_file += 1;
            lruvec.statistics.workingset_restore_file += u64::from(refault.workingset);
            return;
        }
        lruvec.pages.admit(frame, List::Window, first_use, 0);
        if !refault.recent && !refault.begins {
            self.bimodal.draw(lruvec, (frame, key), self.bimodal.share);
        }
        self.end_window(lruvec, frames);
    }

    /// Rule 2, one page after the other. Which list is looked at is decided anew for each page.
    fn isolate(
        &mut self,
        lruvec: &mut LruVec,
        priority: u32,
        batch: u64,
        frames: &mut impl FrameTable,
        victims: &mut Vec<FrameNo>,
    ) -> Scanned {
        let mut scanned = Scanned::default();
        let most = share_at(priority, self.offered(lruvec)).min(batch);
        while scanned.scanned < most {
            match lruvec.pages.cold(List::Active) {
                Some(frame) if self.is_active_next(lruvec) => {
                    if scanned.refilled >= most {
                        break;
                    }
                    let before = scanned.refilled;
                    self.rotate_or_demote(lruvec, frame, frames, &mut scanned);
                    self.vain += (scanned.refilled - before) as u32;
                }
                _ => {
                    if !self.scan_inactive(lruvec, frames, victims, &mut scanned) {
                        break;
                    }
                }
            }
        }
        self.after_scan = lruvec.inactive().0 + lruvec.active().0;
        scanned
    }

    /// All pages: the inactive list may be short.
    fn offered(&self, lruvec: &LruVec) -> u64 {
        lruvec.inactive().0 + lruvec.active().0
    }

    /// Memory has another size: the target is the same share of it, and what the last scan left says nothing about what the
    /// next one leaves.
    fn resized(&mut self, before: PageCount, now: PageCount) {
        let scaled = u128::from(self.target) * u128::from(now.0) / u128::from(before.0.max(1));
        self.target = (scaled as u64).min(now.0 * PARTS);
        self.after_scan = u64::MAX;
    }

    fn inactive_target(&self) -> Option<PageCount> {
        Some(PageCount(self.target / PARTS))
    }

    fn detect_no_reuse(&mut self, lruvec: &mut LruVec, file: FileId) -> bool {
        self.sorting.detect(lruvec, file)
    }

    fn insert_no_reuse(
        &mut self,
        lruvec: &mut LruVec,
        (frame, key): (FrameNo, PageKey),
        frames: &mut impl FrameTable,
    ) {
        lruvec.statistics.no_reuse_file += 1;
        lruvec.pages.admit(frame, List::NoReuse, true, 0);
        self.bimodal.draw(lruvec, (frame, key), bimodal::SHARE_MIN);
        let window_max = self.options.window.of(lruvec.memory.0) + 1;
        self.end_no_reuse_window(lruvec, window_max, frames);
    }

    fn insert_background(
        &mut self,
        lruvec: &mut LruVec,
        (frame, _): (FrameNo, PageKey),
        frames: &mut impl FrameTable,
    ) {
        lruvec.pages.admit(frame, List::NoReuse, false, 0);
        let window_max = lruvec.memory.0 / no_reuse::BACKGROUND_SHARE + 1;
        self.end_no_reuse_window(lruvec, window_max, frames);
    }

    fn is_sorting_out_no_reuse(&self) -> bool {
        self.sorting.is_at_it()
    }

    fn read_took(&mut self, kind: PageKind, took: Nanos) {
        let most = self.options.scan_balance_max_per_mille;
        self.cost.read_took(kind, took, most.into());
    }

    fn refault_costs(&self) -> RefaultCosts {
        self.cost.known()
    }

    fn validate(&self, lruvec: &LruVec) {
        let (target, memory) = (self.target, lruvec.memory);
        assert!(target <= memory.0 * PARTS, "target {target} of {memory:?}");
        self.bimodal.validate();
    }
}

impl Millpond {
    /// Rule 4: a page that was drawn and used goes on from its window to the active list if there is room, or if a probe of
    /// one page makes it. Whether it did.
    fn admit_bimodal(
        &mut self,
        lruvec: &mut LruVec,
        (frame, window): (FrameNo, List),
        frames: &mut impl FrameTable,
    ) -> bool {
        let page = lruvec.pages.page(frame);
        let is_admitted = page.past == Past::Drawn
            && page.touched
            && (self.has_room(lruvec) || self.probe(lruvec, 1, frames));
        if is_admitted {
            lruvec.pages.page(frame).past = Past::Bimodal;
            lruvec.pages.move_to_warm(frame, window, List::Active);
            lruvec.statistics.bimodal_activate_file += 1;
        }
        is_admitted
    }

    /// Rule 3, the admission probe: demotes the first of so many pages at the active cold end without a second chance.
    /// Whether there was one.
    fn probe(&mut self, lruvec: &mut LruVec, pages: u32, frames: &mut impl FrameTable) -> bool {
        let (mut scanned, most) = (Scanned::default(), u64::from(pages));
        while scanned.refilled < most && scanned.deactivated == 0 {
            let Some(frame) = lruvec.pages.cold(List::Active) else {
                break;
            };
            let left = most - scanned.refilled;
            if self.looked_ahead > 0 && self.is_batch(lruvec, frame, frames) {
                // Earlier batches looked at more pages than their probes may: the next one waits until that is made up for.
                self.looked_ahead = self.looked_ahead.saturating_sub(left);
                break;
            }
            self.rotate_or_demote(lruvec, frame, frames, &mut scanned);
        }
        self.looked_ahead += scanned.refilled.saturating_sub(most);
        lruvec.statistics.pgrefill += scanned.refilled;
        lruvec.statistics.pgdeactivate += scanned.deactivated;
        scanned.deactivated > 0
    }

    /// Whether a look at this page of the active list is one at its neighbors, too.
    fn is_batch(&self, lruvec: &mut LruVec, frame: FrameNo, frames: &impl FrameTable) -> bool {
        !frames.tracks_accesses(frame)
            && lruvec.pages.page(frame).usage_count < self.options.skip_scan_threshold
    }

    /// Whether the active list can take a page and still leave the inactive one its target when the scan has done its
    /// work next. Right after the scan that is the case if the inactive list is above its target; until the next scan
    /// pages fill the memory that it freed, of which the active list must not take a part.
    fn has_room(&self, lruvec: &LruVec) -> bool {
        let (inactive, active) = (lruvec.inactive().0, lruvec.active().0);
        let after_scan = self.after_scan.min(inactive + active);
        after_scan.saturating_sub(active) * PARTS > self.target
    }

    fn is_inactive_above_target(&self, lruvec: &LruVec) -> bool {
        lruvec.inactive().0 * PARTS > self.target
    }

    /// Rule 1: pages whose window has ended go on, without the uses of their burst. One insertion makes
    /// one page go on; a second one, if memory was made smaller, until that is worked off.
    fn end_window(&mut self, lruvec: &mut LruVec, frames: &mut impl FrameTable) {
        // A window ends once *more* insertions than its share have followed: hence one page more.
        let window_max = self.options.window.of(lruvec.memory.0) + 1;
        for _ in 0..2 {
            if lruvec.pages.len(List::Window) <= window_max {
                return;
            }
            let Some(frame) = lruvec.pages.cold(List::Window) else {
                return;
            };
            // One that was read ahead and is in its region by now was touched there, or one beside it was.
            let is_unseen = !lruvec.pages.page(frame).touched && !frames.tracks_accesses(frame);
            let used = frames.test_and_clear_accessed(frame) > 0;
            lruvec.pages.page(frame).touched |= used || is_unseen;
            if !self.admit_bimodal(lruvec, (frame, List::Window), frames) {
                lruvec.pages.move_to_warm(frame, List::Window, List::Inactive);
            }
        }
    }

    /// Whether the scan looks at the active list next, if that has pages.
    fn is_active_next(&self, lruvec: &LruVec) -> bool {
        !self.is_inactive_above_target(lruvec) && (self.vain < VAIN_MAX || lruvec.inactive().0 == 0)
    }

    /// One page at the cold end of the inactive list, or in its window if that is all there is: promoted, given
    /// another lap, or made a victim. `false`: both are empty.
    fn scan_inactive(
        &mut self,
        lruvec: &mut LruVec,
        frames: &mut impl FrameTable,
        victims: &mut Vec<FrameNo>,
        scanned: &mut Scanned,
    ) -> bool {
        let (frame, from) = match lruvec.pages.cold(List::Inactive) {
            Some(frame) => (frame, List::Inactive),
            None => match lruvec.pages.cold(List::NoReuse) {
                Some(frame) => (frame, List::NoReuse),
                None => match lruvec.pages.cold(List::Window) {
                    Some(frame) => (frame, List::Window),
                    None => return false,
                },
            },
        };
        scanned.scanned += 1;
        let page = lruvec.pages.page(frame);
        let uses = page.usage_count + frames.test_and_clear_accessed(frame);
        let was_touched = page.touched || uses == 0;
        page.usage_count = 0;
        page.touched |= uses > 0;
        if from != List::Inactive || uses == 0 || (!was_touched && uses == 1) {
            // No use but a burst, or the first use of a page that was read ahead: not known to be used again.
            let mut stays = || {
                self.sorting.rotate(lruvec, frame, frames) || self.cost.rotate(lruvec, (frame, from), frames)
            };
            if from == List::Inactive && stays() {
                scanned.rotated += 1;
                return true;
            }
            lruvec.pages.isolate(frame, from);
            victims.push(frame);
            self.vain = 0;
            self.sorting.found();
        } else if was_touched {
            lruvec.refault_rates.refaulted(frames.key(frame).file());
            lruvec.pages.move_to_warm(frame, List::Inactive, List::Active);
            scanned.activated += 1;
        } else {
            // Read ahead, and used more than once since: one burst or two uses, a lap will tell.
            lruvec.pages.move_to_warm(frame, List::Inactive, List::Inactive);
            scanned.rotated += 1;
        }
        true
    }

    /// The page at the cold end of the active list goes round for one of its usage count, or is demoted.
    fn rotate_or_demote(
        &mut self,
        lruvec: &mut LruVec,
        frame: FrameNo,
        frames: &mut impl FrameTable,
        scanned: &mut Scanned,
    ) {
        let before = lruvec.pages.page(frame).usage_count;
        let stays = if frames.tracks_accesses(frame) {
            let seen = frames.test_and_clear_accessed(frame);
            if seen > 0 {
                lruvec.refault_rates.refaulted(frames.key(frame).file());
            }
            let page = lruvec.pages.page(frame);
            // The usage count of a page of a region is not cut to what a file's may be.
            let uses = (before + seen).min(self.options.usage_count_max.max(before));
            page.usage_count = uses.saturating_sub(1);
            page.touched |= uses > 0;
            uses > 0
        } else if before >= self.options.skip_scan_threshold {
            lruvec.pages.page(frame).usage_count -= 1;
            true
        } else {
            let looked = self.sample_batch(lruvec, frame, frames);
            scanned.refilled += looked;
            scanned.rotated += looked;
            return;
        };
        scanned.refilled += 1;
        if stays {
            self.bimodal.judge(lruvec, frame, true);
            lruvec.pages.move_to_warm(frame, List::Active, List::Active);
            scanned.rotated += 1;
        } else if self.cost.rotate(lruvec, (frame, List::Active), frames) {
            scanned.rotated += 1;
        } else {
            self.bimodal.judge(lruvec, frame, false);
            lruvec.pages.page(frame).past = Past::Demoted;
            lruvec.pages.move_to_warm(frame, List::Active, List::Inactive);
            scanned.deactivated += 1;
        }
    }
}
