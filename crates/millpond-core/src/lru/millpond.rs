//! Millpond's own replacement: two lists, lazy promotion, and admission to the active list by a probe.
//!
//! ```text
//!   new ─► window ─► inactive ── cold end: used? ── no ─► victim
//!                     ▲   ▲            │ yes
//!        no count left│   │            ▼
//!    active cold end ─┘   └── no ─── active ◄── probe: room? a recent refault, or bimodal insertion
//! ```
//!
//! 1. A new page is in its *correlated-reference window* for 1 % of memory in insertions. Uses meanwhile are one burst with
//!    the use that brought it in, and are dropped when it goes on to the inactive list. A page that was read ahead has had
//!    its first use when it was used till then, or is where accesses are not tracked.
//! 2. While the inactive list is longer than its target, the scan looks at its cold end: used pages become active, the
//!    others are victims. Otherwise it looks at the cold end of the active list: a page goes round for one of its *usage
//!    count*, or is demoted to the warm end of the inactive list. After 32 active pages without a victim the next victim
//!    comes from the inactive list in any case.
//!    A page of a region whose accesses were not tracked ([`FrameTable::tracks_accesses`]) gets a lap in which they are: not
//!    known to be used is not known to be unused. Such a lap shows one use at most, so its accessed bit weighs four, up to a
//!    usage count of eight. From a count of five on the scan skips the page, as a look costs a move and a soft fault; its
//!    neighbours are looked at with it (`sampling_batch`).
//! 3. A *recent refault*, of a page missed within memory's size in evictions, belongs on the active list. It gets there if
//!    the inactive list is above its target (then there is room), or else by an *admission probe*: of up to four pages at
//!    the active cold end, each of which pays one of its usage count, the first with none is demoted, and the page takes its
//!    place. If there is none it starts inactive. It enters with a usage count of one, so that it is not the next to go. In
//!    a cache with regions it probes up to 16, where there is room as well: unused pages go sooner, and the room stays the
//!    inactive list's.
//! 4. *Bimodal insertion*: of pages without a shadow one in 32, so many in a row, enters the active list in the same way,
//!    after a probe of one page and with a usage count of none. It is one in four while less than half of memory is active,
//!    but not of memory touched for the first time, which cannot have been missed. In a loop longer than memory this is what
//!    makes a part of it stay: what is kept is used once a lap and keeps its place, where a list would hold nothing in time.
//!    In a cache with regions it is one in 37, and one in two while little is active or the inactive list is half as long
//!    again as its target.
//! 5. The target moves by 0.2 % of memory at a *ghost hit*, the refault of a page that a list 5 % of memory longer would have
//!    kept: up if it was evicted without having been active, down if it had been.
//! 6. Pages of a *no-reuse file*, next to none of which is used again while others' pages are (`refault_rate`), have their
//!    window on a list of their own, which ends at the cold end of the inactive list: they are the next victims (`no_reuse`).
//! 7. Of files' pages and regions' pages those that cost more to refault stay longer (`cost`).
//!
//! Decision 0002 compares it with the field's others; the probes are what is new.

use super::lists::List;
use super::no_reuse::Sorting;
use super::options::{MillpondOptions, Replacement};
use super::workingset::Distance;
use super::{Lru, Refault, Scanned, offered};
use crate::frame::FrameTable;
use crate::units::{FileId, FrameNo, PageCount};
use alloc::vec::Vec;

/// Active pages after which the scan takes a victim from the inactive list even if that is below its target: it bounds
/// the work for a victim when all that is active was used lately. A batch of Linux; from 8 pages on the miss ratios of
/// the traces of decision 0002 are the same as without a bound.
const VAIN_MAX: u32 = 32;

/// Bimodal insertion takes so many pages in a row, a power of two: one in this many of memory's, and at most. Neighbouring
/// pages of a file then stay or go together, and so do their frames. One page in four, each on its own, left memory full of
/// holes of one frame, and a write of 1 MiB had 90 ranges of memory instead of one (see `memory::free`).
const BIMODAL_ROW_SHARE: u64 = 2048;
const BIMODAL_ROW_MAX: u64 = 64;

/// How far an admission probe goes.
#[derive(Clone, Copy)]
struct Probe {
    /// It looks at so many pages of the active cold end at most.
    pages: u32,
    /// Also where there is room.
    always: bool,
}

impl Probe {
    /// One page, where there is no room.
    const ONE: Probe = Probe {
        pages: 1,
        always: false,
    };
}

/// What the rule remembers besides the lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    /// The inactive list's length aimed at, per mille of memory: a share, so that it means the same when memory is
    /// made larger or smaller. No meaning by another rule.
    target_per_mille: u32,
    /// Pages without a shadow, to count out those that bimodal insertion activates.
    without_shadow: u32,
    /// Active pages that the scan looked at since its last victim.
    vain: u32,
    /// Of those that probes look at, so many were looked at before their turn.
    looked_ahead: u64,
    /// Pages on lists when the last batch of the scan had taken its victims.
    after_scan: u64,
    pub(super) sorting: Sorting,
}

impl State {
    pub(super) fn new(replacement: &Replacement) -> State {
        State {
            target_per_mille: match replacement {
                Replacement::Linux(_) => 0,
                Replacement::Millpond(options) => options.inactive_start_per_mille,
            },
            without_shadow: 0,
            vain: 0,
            looked_ahead: 0,
            after_scan: u64::MAX,
            sorting: Sorting::default(),
        }
    }

    /// Memory has another size: what the last scan left says nothing about what the next one leaves.
    pub(super) fn resized(&mut self) {
        self.after_scan = u64::MAX;
    }

    pub(super) fn inactive_target(&self, memory: PageCount) -> PageCount {
        PageCount(memory.0 * u64::from(self.target_per_mille) / 1000)
    }

    pub(super) fn validate(&self, replacement: &Replacement) {
        if let Replacement::Millpond(options) = replacement {
            let range = options.inactive_min_per_mille..=options.inactive_max_per_mille;
            let target = self.target_per_mille;
            assert!(
                range.contains(&target),
                "target {target} per mille is not in {range:?}"
            );
        }
    }
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
            let (target, step) = (self.millpond.target_per_mille, options.inactive_step_per_mille);
            self.millpond.target_per_mille = if distance.workingset {
                target.saturating_sub(step).max(options.inactive_min_per_mille)
            } else {
                (target + step).min(options.inactive_max_per_mille)
            };
        }
        u64::from(distance.pages) <= self.memory.0
    }

    pub(super) fn millpond_insert(
        &mut self,
        options: &MillpondOptions,
        frame: FrameNo,
        refault: Refault,
        first_use: bool,
        frames: &mut impl FrameTable,
    ) {
        if refault.recent {
            let probe = Probe {
                pages: options.probe_pages,
                always: options.probe_always,
            };
            if self.probe_for_room(options, probe, frames) {
                self.pages.admit(frame, List::Active, first_use, 1);
                self.statistics.workingset_activate_file += 1;
                self.statistics.workingset_restore_file += u64::from(refault.workingset);
                return;
            }
        } else {
            let one_in = if !refault.begins && self.is_active_short(options) {
                options.admit_epsilon_one_in_when_short
            } else {
                options.admit_epsilon_one_in
            };
            if self.admit_bimodal(options, one_in, frame, first_use, frames) {
                return;
            }
        }
        self.pages.admit(frame, List::Window, first_use, 0);
        self.end_window(options, frames);
    }

    /// Rule 4, bimodal insertion: one in so many pages without a shadow is admitted to the active list. Whether it was.
    pub(super) fn admit_bimodal(
        &mut self,
        options: &MillpondOptions,
        one_in: u32,
        frame: FrameNo,
        first_use: bool,
        frames: &mut impl FrameTable,
    ) -> bool {
        self.millpond.without_shadow = self.millpond.without_shadow.wrapping_add(1);
        let in_a_row = (self.memory.0 / BIMODAL_ROW_SHARE).clamp(1, BIMODAL_ROW_MAX);
        let is_counted_out = (self.millpond.without_shadow >> in_a_row.ilog2()).is_multiple_of(one_in);
        let is_admitted = is_counted_out && self.probe_for_room(options, Probe::ONE, frames);
        if is_admitted {
            self.pages.admit(frame, List::Active, first_use, 0);
            self.statistics.bimodal_activate_file += 1;
        }
        is_admitted
    }

    /// Rule 3, the admission probe: demotes the first page at the active cold end without a second chance, if there is no
    /// room on the active list. Whether a page may enter it now.
    fn probe_for_room(
        &mut self,
        options: &MillpondOptions,
        probe: Probe,
        frames: &mut impl FrameTable,
    ) -> bool {
        let has_room = self.has_room();
        if has_room && !probe.always {
            return true;
        }
        let mut scanned = Scanned::default();
        // The pages of a sampling batch were looked at instead of those that this probe would have come to.
        let ahead = self.millpond.looked_ahead.min(probe.pages.into());
        let most = u64::from(probe.pages) - ahead;
        while scanned.refilled < most && scanned.deactivated == 0 {
            let Some(frame) = self.pages.cold(List::Active) else {
                break;
            };
            self.rotate_or_demote(options, frame, frames, &mut scanned);
        }
        self.millpond.looked_ahead =
            self.millpond.looked_ahead - ahead + scanned.refilled.saturating_sub(most);
        self.statistics.pgrefill += scanned.refilled;
        self.statistics.pgdeactivate += scanned.deactivated;
        has_room || scanned.deactivated > 0
    }

    /// Whether the active list can take a page and still leave the inactive one its target when the scan has done its
    /// work next. Right after the scan that is the case if the inactive list is above its target; until the next scan
    /// pages fill the memory that it freed, of which the active list must not take a part.
    fn has_room(&self) -> bool {
        let (inactive, active) = (self.inactive().0, self.active().0);
        let after_scan = self.millpond.after_scan.min(inactive + active);
        (after_scan.saturating_sub(active)) * 1000 > self.memory.0 * u64::from(self.millpond.target_per_mille)
    }

    /// Whether there is room for pages about which nothing is known: the active list is short of half of memory, or the
    /// inactive one longer than it need be by so much.
    fn is_active_short(&self, options: &MillpondOptions) -> bool {
        let (inactive, active) = (self.inactive().0, self.active().0);
        let aim = self.memory.0 * u64::from(self.millpond.target_per_mille);
        let long = u64::from(options.admit_inactive_percent);
        active * 2 < self.memory.0 || long > 0 && inactive * 100_000 > aim * long
    }

    fn is_inactive_above_target(&self) -> bool {
        self.inactive().0 * 1000 > self.memory.0 * u64::from(self.millpond.target_per_mille)
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
            self.pages.move_to_warm(frame, List::Window, List::Inactive);
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
            self.pages.move_to_warm(frame, List::Active, List::Active);
            scanned.rotated += 1;
        } else if self.rotate_for_its_cost(frame, List::Active, frames) {
            scanned.rotated += 1;
        } else {
            self.pages.page(frame).workingset = true;
            self.pages.move_to_warm(frame, List::Active, List::Inactive);
            scanned.deactivated += 1;
        }
    }
}
