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

use super::lists::{List, Past};
use super::no_reuse::Sorting;
use super::options::{MillpondOptions, Replacement};
use super::workingset::{Distance, mix};
use super::{Lru, Refault, Scanned, offered};
use crate::frame::FrameTable;
use crate::mutation::{self, Mutation};
use crate::units::{FileId, FrameNo, PageCount, PageIndex, PageKey};
use alloc::vec::Vec;

/// Active pages after which the scan takes a victim from the inactive list even if that is below its target: it bounds
/// the work for a victim when all that is active was used lately. A batch of Linux; from 8 pages on the miss ratios of
/// the traces of decision 0002 are the same as without a bound.
const VAIN_MAX: u32 = 32;

/// Bimodal insertion takes so many pages in a row, a power of two: one in this many of memory's, and at most. Neighboring
/// pages of a file then stay or go together, and so do their frames. One page in four, each on its own, left memory full of
/// holes of one frame, and a write of 1 MiB had 90 ranges of memory instead of one (see `memory::free`).
const BIMODAL_ROW_SHARE: u64 = 2048;
const BIMODAL_ROW_MAX: u64 = 64;

/// All pages without a recent shadow, as a share: what 16 bits of a hash can say.
pub(super) const SHARE_ALL: u32 = 1 << 16;
/// The share of them that bimodal insertion draws at first: nothing is known, so half.
const SHARE_START: u32 = SHARE_ALL / 2;
/// The least, the share of bimodal insertion in the field (BIP of DIP): with few drawn little is learned, and the active list
/// does not get rid of what is no longer used.
pub(super) const SHARE_MIN: u32 = SHARE_ALL / 32;
/// How far one row moves the share. From a 16th to a 256th the traces do not tell it apart.
const SHARE_STEP: u32 = SHARE_ALL / 64;

/// Parts of a page in which the target is counted.
const PARTS: u64 = 256;
/// A step of the target is the square root of memory divided by this; from 2 to 16 the traces do not tell it apart.
const STEP_DIVISOR: u64 = 8;

/// What the rule remembers besides the lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    /// The inactive list's length aimed at, in 256ths of a page. No meaning by another rule.
    pub(super) target: u64,
    /// Of 2^16 pages without a recent shadow bimodal insertion draws so many.
    pub(super) share: u32,
    /// Pages that were missed and had no recent shadow, so far.
    without_recent_shadow: u64,
    /// Active pages that the scan looked at since its last victim.
    vain: u32,
    /// Active pages that sampling batches looked at beyond the share of the probes that began them.
    looked_ahead: u64,
    /// Pages on lists when the last batch of the scan had taken its victims.
    pub(super) after_scan: u64,
    pub(super) sorting: Sorting,
}

impl State {
    pub(super) fn new(replacement: &Replacement, memory: PageCount) -> State {
        State {
            target: match replacement {
                Replacement::Linux(_) => 0,
                Replacement::Millpond(options) => {
                    memory.0 * PARTS * u64::from(options.inactive_start_per_mille) / 1000
                }
            },
            share: SHARE_START,
            without_recent_shadow: 0,
            vain: 0,
            looked_ahead: 0,
            after_scan: u64::MAX,
            sorting: Sorting::default(),
        }
    }

    /// Memory has another size: the target is the same share of it, and what the last scan left says nothing about what the
    /// next one leaves.
    pub(super) fn resized(&mut self, before: PageCount, now: PageCount) {
        let scaled = u128::from(self.target) * u128::from(now.0) / u128::from(before.0.max(1));
        self.target = (scaled as u64).min(now.0 * PARTS);
        self.after_scan = u64::MAX;
    }

    pub(super) fn inactive_target(&self) -> PageCount {
        PageCount(self.target / PARTS)
    }

    /// A page that bimodal insertion put on the active list was used there, or is demoted unused.
    fn judge(&mut self, is_used: bool, memory: PageCount) {
        // A row is drawn as one, and is likely to be used as one: it says no more than a page.
        let step = SHARE_STEP >> bimodal_row(memory).ilog2();
        self.share = match is_used {
            true => self.share + step,
            false => self.share.saturating_sub(step),
        }
        .clamp(SHARE_MIN, SHARE_ALL);
    }

    pub(super) fn validate(&self, memory: PageCount) {
        let (target, share) = (self.target, self.share);
        assert!(target <= memory.0 * PARTS, "target {target} of {memory:?}");
        assert!(share <= SHARE_ALL, "share {share}");
    }
}

/// Rule 5: a step of the target, in parts of a page.
fn target_step(memory: PageCount) -> u64 {
    // The root of memory in 256ths of 256ths of a page is in 256ths of a page.
    ((memory.0 * PARTS * PARTS).isqrt() / STEP_DIVISOR).max(PARTS)
}

/// Pages that bimodal insertion takes in a row.
fn bimodal_row(memory: PageCount) -> u64 {
    (memory.0 / BIMODAL_ROW_SHARE).clamp(1, BIMODAL_ROW_MAX)
}

/// Rule 4: what the key draws of 2^16, in this epoch. Pages of a row draw alike.
fn draw(key: PageKey, memory: PageCount, epoch: u64) -> u32 {
    let row = PageIndex(key.index().0 >> bimodal_row(memory).ilog2());
    // The table of shadows takes the upper bits.
    u32::from(mix(PageKey::new(key.file(), row).to_bits() ^ mix(epoch)) as u16)
}

impl Lru {
    /// Rule 5, and whether the refault is recent, for rule 3.
    pub(super) fn millpond_refault(
        &mut self,
        options: &MillpondOptions,
        distance: &Distance,
        file: FileId,
    ) -> bool {
        if u64::from(distance.of_class) <= options.ghost_window.of(self.memory.0) {
            self.ghost_hit(options, file);
            let (target, step) = (self.millpond.target, target_step(self.memory));
            self.millpond.target = if distance.workingset && !mutation::is(Mutation::TargetOnlyRises) {
                target.saturating_sub(step)
            } else {
                (target + step).min(self.memory.0 * PARTS)
            };
        }
        u64::from(distance.pages) <= self.memory.0
    }

    pub(super) fn millpond_insert(
        &mut self,
        options: &MillpondOptions,
        (frame, key): (FrameNo, PageKey),
        refault: Refault,
        first_use: bool,
        frames: &mut impl FrameTable,
    ) {
        if refault.recent && (self.has_room() || self.probe(options, options.probe_pages, frames)) {
            self.pages.admit(frame, List::Active, first_use, 1);
            self.statistics.workingset_activate_file += 1;
            self.statistics.workingset_restore_file += u64::from(refault.workingset);
            return;
        }
        self.pages.admit(frame, List::Window, first_use, 0);
        if !refault.recent && !refault.begins {
            self.draw_bimodal((frame, key), self.millpond.share);
        }
        self.end_window(options, frames);
    }

    /// Rule 4, bimodal insertion: draws a share of the pages without a recent shadow. They enter the active list when their
    /// window ends.
    pub(super) fn draw_bimodal(&mut self, (frame, key): (FrameNo, PageKey), share: u32) {
        let epoch = self.millpond.without_recent_shadow / self.memory.0.max(1);
        self.millpond.without_recent_shadow += 1;
        if draw(key, self.memory, epoch) < share {
            self.pages.page(frame).past = Past::Drawn;
        }
    }

    /// Rule 4: a page that was drawn and used goes on from its window to the active list if there is room, or if a probe of
    /// one page makes it. Whether it did.
    pub(super) fn admit_bimodal(
        &mut self,
        options: &MillpondOptions,
        (frame, window): (FrameNo, List),
        frames: &mut impl FrameTable,
    ) -> bool {
        let page = self.pages.page(frame);
        let is_admitted =
            page.past == Past::Drawn && page.touched && (self.has_room() || self.probe(options, 1, frames));
        if is_admitted {
            self.pages.page(frame).past = Past::Bimodal;
            self.pages.move_to_warm(frame, window, List::Active);
            self.statistics.bimodal_activate_file += 1;
        }
        is_admitted
    }

    /// Rule 4: what became of a page that bimodal insertion put on the active list, if this is one.
    pub(super) fn judge_bimodal(&mut self, frame: FrameNo, is_used: bool) {
        let page = self.pages.page(frame);
        if page.past == Past::Bimodal {
            page.past = Past::New;
            if !mutation::is(Mutation::BimodalShareIsFixed) {
                self.millpond.judge(is_used, self.memory);
            }
        }
    }

    /// Rule 3, the admission probe: demotes the first of so many pages at the active cold end without a second chance.
    /// Whether there was one.
    fn probe(&mut self, options: &MillpondOptions, pages: u32, frames: &mut impl FrameTable) -> bool {
        let (mut scanned, most) = (Scanned::default(), u64::from(pages));
        while scanned.refilled < most && scanned.deactivated == 0 {
            let Some(frame) = self.pages.cold(List::Active) else {
                break;
            };
            let left = most - scanned.refilled;
            if self.millpond.looked_ahead > 0 && self.is_batch(options, frame, frames) {
                // Earlier batches looked at more pages than their probes may: the next one waits until that is made up for.
                self.millpond.looked_ahead = self.millpond.looked_ahead.saturating_sub(left);
                break;
            }
            self.rotate_or_demote(options, frame, frames, &mut scanned);
        }
        self.millpond.looked_ahead += scanned.refilled.saturating_sub(most);
        self.statistics.pgrefill += scanned.refilled;
        self.statistics.pgdeactivate += scanned.deactivated;
        scanned.deactivated > 0
    }

    /// Whether a look at this page of the active list is one at its neighbors, too.
    fn is_batch(&mut self, options: &MillpondOptions, frame: FrameNo, frames: &impl FrameTable) -> bool {
        !frames.tracks_accesses(frame) && self.pages.page(frame).usage_count < options.skip_scan_threshold
    }

    /// Whether the active list can take a page and still leave the inactive one its target when the scan has done its
    /// work next. Right after the scan that is the case if the inactive list is above its target; until the next scan
    /// pages fill the memory that it freed, of which the active list must not take a part.
    fn has_room(&self) -> bool {
        let (inactive, active) = (self.inactive().0, self.active().0);
        let after_scan = self.millpond.after_scan.min(inactive + active);
        after_scan.saturating_sub(active) * PARTS > self.millpond.target
    }

    fn is_inactive_above_target(&self) -> bool {
        self.inactive().0 * PARTS > self.millpond.target
    }

    /// Rule 1: pages whose window has ended go on, without the uses of their burst. One insertion makes
    /// one page go on; a second one, if memory was made smaller, until that is worked off.
    fn end_window(&mut self, options: &MillpondOptions, frames: &mut impl FrameTable) {
        // A window ends once *more* insertions than its share have followed: hence one page more.
        let window_max = options.window.of(self.memory.0) + 1;
        for _ in 0..2 {
            if self.pages.len(List::Window) <= window_max {
                return;
            }
            let Some(frame) = self.pages.cold(List::Window) else {
                return;
            };
            // One that was read ahead and is in its region by now was touched there, or one beside it was.
            let is_unseen = !self.pages.page(frame).touched && !frames.tracks_accesses(frame);
            let used = frames.test_and_clear_accessed(frame) > 0;
            self.pages.page(frame).touched |= used || is_unseen;
            if !self.admit_bimodal(options, (frame, List::Window), frames) {
                self.pages.move_to_warm(frame, List::Window, List::Inactive);
            }
        }
    }

    /// Rule 2, one page after the other. Which list is looked at is decided anew for each page.
    pub(super) fn millpond_isolate(
        &mut self,
        options: &MillpondOptions,
        priority: u32,
        batch: u64,
        frames: &mut impl FrameTable,
        victims: &mut Vec<FrameNo>,
    ) -> Scanned {
        let mut scanned = Scanned::default();
        let most = offered(self.inactive().0 + self.active().0, priority).min(batch);
        while scanned.scanned < most {
            match self.pages.cold(List::Active) {
                Some(frame) if self.is_active_next() => {
                    if scanned.refilled >= most {
                        break;
                    }
                    let before = scanned.refilled;
                    self.rotate_or_demote(options, frame, frames, &mut scanned);
                    self.millpond.vain += (scanned.refilled - before) as u32;
                }
                _ => {
                    if !self.scan_inactive(frames, victims, &mut scanned) {
                        break;
                    }
                }
            }
        }
        self.millpond.after_scan = self.inactive().0 + self.active().0;
        scanned
    }

    /// Whether the scan looks at the active list next, if that has pages.
    fn is_active_next(&self) -> bool {
        !self.is_inactive_above_target() && (self.millpond.vain < VAIN_MAX || self.inactive().0 == 0)
    }

    /// One page at the cold end of the inactive list, or in its window if that is all there is: promoted, given
    /// another lap, or made a victim. `false`: both are empty.
    fn scan_inactive(
        &mut self,
        frames: &mut impl FrameTable,
        victims: &mut Vec<FrameNo>,
        scanned: &mut Scanned,
    ) -> bool {
        let (frame, from) = match self.pages.cold(List::Inactive) {
            Some(frame) => (frame, List::Inactive),
            None => match self.pages.cold(List::NoReuse) {
                Some(frame) => (frame, List::NoReuse),
                None => match self.pages.cold(List::Window) {
                    Some(frame) => (frame, List::Window),
                    None => return false,
                },
            },
        };
        scanned.scanned += 1;
        let page = self.pages.page(frame);
        let uses = page.usage_count + frames.test_and_clear_accessed(frame);
        let was_touched = page.touched || uses == 0;
        page.usage_count = 0;
        page.touched |= uses > 0;
        if from != List::Inactive || uses == 0 || (!was_touched && uses == 1) {
            // No use but a burst, or the first use of a page that was read ahead: not known to be used again.
            let mut stays = || {
                self.rotate_behind_no_reuse(frame, frames) || self.rotate_for_its_cost(frame, from, frames)
            };
            if from == List::Inactive && stays() {
                scanned.rotated += 1;
                return true;
            }
            self.pages.isolate(frame, from);
            victims.push(frame);
            self.millpond.vain = 0;
            self.millpond.sorting.found();
        } else if was_touched {
            self.refault_rates.refaulted(frames.key(frame).file());
            self.pages.move_to_warm(frame, List::Inactive, List::Active);
            scanned.activated += 1;
        } else {
            // Read ahead, and used more than once since: one burst or two uses, a lap will tell.
            self.pages.move_to_warm(frame, List::Inactive, List::Inactive);
            scanned.rotated += 1;
        }
        true
    }

    /// The page at the cold end of the active list goes round for one of its usage count, or is demoted.
    fn rotate_or_demote(
        &mut self,
        options: &MillpondOptions,
        frame: FrameNo,
        frames: &mut impl FrameTable,
        scanned: &mut Scanned,
    ) {
        let before = self.pages.page(frame).usage_count;
        let stays = if frames.tracks_accesses(frame) {
            let seen = frames.test_and_clear_accessed(frame);
            if seen > 0 {
                self.refault_rates.refaulted(frames.key(frame).file());
            }
            let page = self.pages.page(frame);
            // The usage count of a page of a region is not cut to what a file's may be.
            let uses = (before + seen).min(options.usage_count_max.max(before));
            page.usage_count = uses.saturating_sub(1);
            page.touched |= uses > 0;
            uses > 0
        } else if before >= options.skip_scan_threshold {
            self.pages.page(frame).usage_count -= 1;
            true
        } else {
            let looked = self.sample_batch(options, frame, frames);
            scanned.refilled += looked;
            scanned.rotated += looked;
            return;
        };
        scanned.refilled += 1;
        if stays {
            self.judge_bimodal(frame, true);
            self.pages.move_to_warm(frame, List::Active, List::Active);
            scanned.rotated += 1;
        } else if self.rotate_for_its_cost(frame, List::Active, frames) {
            scanned.rotated += 1;
        } else {
            self.judge_bimodal(frame, false);
            self.pages.page(frame).past = Past::Demoted;
            self.pages.move_to_warm(frame, List::Active, List::Inactive);
            scanned.deactivated += 1;
        }
    }
}
