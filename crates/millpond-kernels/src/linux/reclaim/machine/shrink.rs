//! One pass over the lists of a zone, in batches of 32 (`shrink_zone`, `shrink_inactive_list`, `shrink_page_list`).
//!
//! ```text
//!   quota of each list ──► 32 pages off the cold end ──► each: decide (core's rules) ──► free · put back · write
//!                                                                │
//!   after the batch: throttled? zone congested? flushers woken? ◄┘
//! ```
//!
//! A pass can be interrupted at two places: between batches, where others run, and where a write finds the disk's queue
//! full. The pages of the batch then stay off their lists, as they do in the kernel.

use super::memory::{
    ACTIVE_ANON, ACTIVE_FILE, ANONYMOUS, DIRTY, INACTIVE_ANON, INACTIVE_FILE, LEAKED, MAPPED, REFERENCED,
    TAGGED, WRITING, YOUNG,
};
use super::scheduler::{KSWAPD, Machine, Step, Wait};
use super::writeback::Run;
use crate::linux::balance::{SWAPPINESS_DEFAULT, Shares, inactive_is_low};
use crate::linux::reclaim::System;
use crate::linux::reclaim::batch::{self, Batch};
use crate::linux::reclaim::congestion::{WAIT_MAX, Wait as Congested, wait_iff_congested};
use crate::linux::reclaim::effort::{BATCH_PAGES, quota};
use crate::linux::reclaim::filesystem::Answer;
use crate::linux::reclaim::launder::{Met, Scan, Tag, Throttle, Verdict, at_cold_end};
use crate::linux::reference::{self, Bits, Reference};
use millpond_core::page::PageKind;
use millpond_core::reclaim::launder::PRIORITY_DEFAULT;
use millpond_core::reclaim::trace::{Caller, Outcome};
use millpond_core::units::{Instant, Nanos};

/// A pass under way.
#[derive(Debug)]
pub(super) struct Shrink {
    pub(super) caller: Caller,
    thread: usize,
    pub(super) zone: usize,
    priority: u32,
    /// Pages still to be scanned, by list.
    quota: [u64; 4],
    next: usize,
    /// Pages scanned, and freed.
    pub(super) scanned: u64,
    pub(super) freed: u64,
    /// Enough, at a priority below the first.
    goal: u64,
    list: usize,
    batch: Vec<u32>,
    at: usize,
    seen: Batch,
    flagged: u64,
    run: Option<Run>,
    /// The file system's log has been written for the write to come.
    logged: bool,
}

/// The location of the file system's log.
const LOG_AT: u64 = 18 << 30;

const KIND_OF: [PageKind; 4] = [
    PageKind::Anonymous,
    PageKind::Anonymous,
    PageKind::File,
    PageKind::File,
];

impl Machine {
    /// The division of a zone's scan (`get_scan_count`).
    fn shares(&mut self, zone: usize, priority: u32) -> Shares {
        let sizes = self.memory.sizes(zone);
        let by_cost = self.options.system == System::Linux7_0;
        let zone = &mut self.memory.zones[zone];
        let (file, anonymous) = (sizes.of(PageKind::File), sizes.of(PageKind::Anonymous));
        if self.swap.is_full() {
            return Shares::FILE_ONLY;
        }
        if file + zone.free().0 <= zone.marks.high.0 {
            return Shares::ANONYMOUS_ONLY;
        }
        if by_cost {
            let trims = sizes.file[0] >> priority != 0 && !inactive_is_low(sizes.file[0], sizes.file[1], 1);
            return match trims {
                true => Shares::FILE_ONLY,
                false => zone.cost.shares(SWAPPINESS_DEFAULT),
            };
        }
        zone.stat.shares([file, anonymous], SWAPPINESS_DEFAULT)
    }

    /// A pass over a zone begins.
    pub(super) fn begin_shrink(
        &mut self,
        (caller, thread): (Caller, usize),
        zone: usize,
        priority: u32,
        goal: u64,
    ) -> Shrink {
        let shares = self.shares(zone, priority);
        let sizes = self.memory.sizes(zone);
        let can_swap = !self.swap.is_full();
        let carry = &mut self.memory.zones[zone].carry;
        let quota = quota(&sizes, &shares, (caller, priority), can_swap, carry);
        Shrink {
            caller,
            thread,
            zone,
            priority,
            quota: [
                quota.anonymous[0],
                quota.anonymous[1],
                quota.file[0],
                quota.file[1],
            ],
            next: 0,
            scanned: 0,
            freed: 0,
            goal,
            list: INACTIVE_FILE,
            batch: Vec::with_capacity(BATCH_PAGES as usize),
            at: 0,
            seen: Batch::default(),
            flagged: 0,
            run: None,
            logged: false,
        }
    }

    /// Continues a pass: one batch, or as much as the disk's queue allows.
    pub(super) fn shrink(&mut self, pass: &mut Shrink) -> Step {
        if let Some(run) = &mut pass.run {
            let step = self.write_run(pass.thread, run);
            if let Step::Done(cost) = step {
                pass.run = None;
                return Step::Ran(cost);
            }
            return step;
        }
        if pass.at < pass.batch.len() {
            return self.go_on_with_batch(pass);
        }
        let left = pass.quota;
        let enough = pass.next == 0 && pass.freed >= pass.goal && pass.priority < PRIORITY_DEFAULT;
        if left[INACTIVE_ANON] + left[INACTIVE_FILE] + left[ACTIVE_FILE] == 0 || enough {
            return Step::Done(self.age_anonymous(pass.zone));
        }
        let list = pass.next;
        pass.next = (list + 1) % 4;
        let pages = left[list].min(BATCH_PAGES);
        pass.quota[list] -= pages;
        match list {
            _ if pages == 0 => Step::Ran(Nanos::ZERO),
            ACTIVE_ANON | ACTIVE_FILE => {
                let (inactive, active) = (
                    self.memory.len(pass.zone, list - 1),
                    self.memory.len(pass.zone, list),
                );
                Step::Ran(match inactive_is_low(inactive, active, 1) {
                    true => self.shrink_active(pass.zone, list, pages),
                    false => Nanos::ZERO,
                })
            }
            _ => {
                self.isolate(pass, list, pages);
                self.go_on_with_batch(pass)
            }
        }
    }

    /// Deactivates a batch of anonymous pages if too few are inactive.
    pub(super) fn age_anonymous(&mut self, zone: usize) -> Nanos {
        let len = |list| self.memory.len(zone, list);
        if inactive_is_low(len(INACTIVE_ANON), len(ACTIVE_ANON), 1) && !self.swap.is_full() {
            self.shrink_active(zone, ACTIVE_ANON, BATCH_PAGES)
        } else {
            Nanos::ZERO
        }
    }

    /// `shrink_active_list`: whatever is at the cold end becomes inactive, but mapped file pages in use (programs) go round.
    fn shrink_active(&mut self, zone: usize, list: usize, pages: u64) -> Nanos {
        let kind = KIND_OF[list];
        let (mut taken, mut used) = (0, 0);
        for _ in 0..pages {
            let Some(frame) = self.memory.pop_cold(zone, list) else {
                break;
            };
            taken += 1;
            let page = self.memory.frame(frame);
            let was_used = page.has(YOUNG);
            page.flags &= !YOUNG;
            used += u64::from(was_used);
            if was_used && kind == PageKind::File {
                self.memory.push_warm(frame, list);
            } else {
                self.memory.push_warm(frame, list - 1);
            }
        }
        let stat = &mut self.memory.zones[zone].stat;
        stat.scanned(kind, taken);
        stat.rotated(kind, used);
        Nanos(taken * self.options.costs.scan_mapped_page.0)
    }

    fn isolate(&mut self, pass: &mut Shrink, list: usize, pages: u64) {
        (pass.list, pass.at, pass.seen, pass.flagged) = (list, 0, Batch::default(), 0);
        pass.batch.clear();
        while (pass.batch.len() as u64) < pages {
            match self.memory.pop_cold(pass.zone, list) {
                Some(frame) => pass.batch.push(frame),
                None => break,
            }
        }
        let taken = pass.batch.len() as u64;
        pass.scanned += taken;
        pass.seen.taken = taken;
        let zone = &mut self.memory.zones[pass.zone];
        zone.stat.scanned(KIND_OF[list], taken);
        zone.scanned_since_freed += taken;
        match pass.caller {
            Caller::Kswapd => self.counters.pgscan_kswapd += taken,
            Caller::Direct => self.counters.pgscan_direct += taken,
        }
    }

    fn go_on_with_batch(&mut self, pass: &mut Shrink) -> Step {
        let mut cost = 0;
        while pass.at < pass.batch.len() {
            let frame = pass.batch[pass.at];
            let costs = &self.options.costs;
            cost += match self.memory.frame(frame).has(MAPPED) {
                true => costs.scan_mapped_page.0,
                false => costs.scan_page.0,
            };
            if !self.meet(pass, frame) {
                return Step::Waits(Nanos(cost));
            }
            pass.at += 1;
            if pass.run.is_some() {
                return Step::Ran(Nanos(cost));
            }
        }
        self.after_batch(pass, Nanos(cost))
    }

    /// Decides about a page, and does it. `false`: the write has to wait for the disk's queue, and the page is as it was.
    fn meet(&mut self, pass: &mut Shrink, number: u32) -> bool {
        let frame = *self.memory.frame(number);
        let kind = frame.kind();
        let zone = &self.memory.zones[pass.zone];
        let scan = Scan {
            caller: pass.caller,
            priority: pass.priority,
            may_write: true,
            // kswapd may wait for a place in the queue, so it never finds it too full
            congested: pass.caller == Caller::Direct && self.block.is_congested(),
            node_dirty: zone.dirty,
            node_writeback: zone.writeback,
        };
        let is_writing = frame.has(WRITING);
        let mut reference = Reference::Reclaim;
        let mut flags = frame.flags;
        if !is_writing {
            let bits = Bits {
                young: u8::from(frame.has(YOUNG)),
                referenced: frame.has(REFERENCED),
                executable: false,
            };
            let referenced;
            let rescues = self.options.system.any_use_rescues_anonymous();
            (reference, referenced) = reference::check(kind, bits, rescues);
            flags = flags & !(YOUNG | REFERENCED) | if referenced { REFERENCED } else { 0 };
        }
        let has_slot = kind == PageKind::Anonymous && self.anonymous[frame.index as usize].slot.is_some();
        let met = Met {
            kind,
            is_dirty: frame.has(DIRTY),
            is_writing,
            is_tagged: frame.has(TAGGED),
            has_slot,
            reference,
        };
        let verdict = at_cold_end(&self.rules, &met, &scan);
        let mut outcome = verdict.outcome();
        if verdict == Verdict::PageOut {
            outcome = match kind {
                PageKind::File => match self.page_out_file(pass, number) {
                    Some(outcome) => outcome,
                    None => return false,
                },
                PageKind::Anonymous => match self.page_out_anonymous(pass, number) {
                    Some(outcome) => outcome,
                    None => return false,
                },
            };
        } else {
            self.memory.frame(number).flags = flags;
        }
        self.note(pass, &met, verdict, outcome);
        let (now, priority) = (self.now, pass.priority);
        self.trace
            .note(pass.caller, kind, outcome, || (now, frame.key(), priority));
        self.apply(pass, number, verdict);
        true
    }

    /// Counts what the batch consists of: where it is met that counts, which differs since 3.11.
    fn note(&mut self, pass: &mut Shrink, met: &Met, verdict: Verdict, outcome: Outcome) {
        let seen = &mut pass.seen;
        seen.writing += u64::from(met.is_writing);
        if self.rules.throttle == Throttle::NodeFlags {
            seen.dirty += u64::from(met.is_dirty || met.is_writing);
            seen.dirty_unqueued += u64::from(met.is_dirty && !met.is_writing);
            seen.congested += u64::from(met.is_writing && met.is_tagged);
            seen.met_again += u64::from(outcome == Outcome::KeptWritingAgain);
        } else if !met.is_writing && (met.is_dirty || verdict == Verdict::PageOut) {
            let is_reclaimable = !matches!(outcome, Outcome::Activated | Outcome::KeptInUse);
            seen.dirty += u64::from(is_reclaimable);
            seen.congested += u64::from(outcome == Outcome::KeptCongested);
        }
        match outcome {
            Outcome::Skipped => self.counters.nr_vmscan_write_skip += 1,
            Outcome::Tagged | Outcome::Leaked => self.counters.nr_vmscan_immediate_reclaim += 1,
            Outcome::WriteStarted | Outcome::WriteRefused => {
                self.counters.writes[pass.caller as usize][met.kind as usize] += 1;
            }
            _ => {}
        }
    }

    /// Puts the page where the verdict says.
    fn apply(&mut self, pass: &mut Shrink, number: u32, verdict: Verdict) {
        let frame = *self.memory.frame(number);
        let mut flag = |machine: &mut Machine, flags: bool| {
            if flags {
                pass.flagged += 1;
                machine.files.flag(frame.owner);
            }
        };
        match verdict {
            Verdict::Free => {
                match frame.owner {
                    ANONYMOUS => self.anonymous[frame.index as usize].frame = super::memory::NONE,
                    file => {
                        self.files.forget_frame(file, frame.index);
                    }
                }
                self.memory.give(number);
                pass.freed += 1;
                match pass.caller {
                    Caller::Kswapd => self.counters.pgsteal_kswapd += 1,
                    Caller::Direct => self.counters.pgsteal_direct += 1,
                }
            }
            Verdict::Activate => {
                self.memory.push_warm(number, pass.list | 1);
                self.memory.zones[pass.zone].stat.rotated(frame.kind(), 1);
            }
            Verdict::Keep {
                tag,
                activate,
                flag_file,
                ..
            } => {
                flag(self, flag_file);
                if tag {
                    self.memory.frame(number).flags |= TAGGED;
                }
                self.memory
                    .push_warm(number, if activate { pass.list | 1 } else { pass.list });
            }
            Verdict::Leak { flag_file } => {
                debug_assert_eq!(self.rules.tag, Tag::LeakV1);
                flag(self, flag_file);
                self.memory.frame(number).flags |= LEAKED | TAGGED;
            }
            Verdict::PageOut => self.memory.push_warm(number, pass.list),
        }
    }

    /// Asks the file system. `None`: it has to wait for the disk's queue.
    fn page_out_file(&mut self, pass: &mut Shrink, number: u32) -> Option<Outcome> {
        let frame = *self.memory.frame(number);
        // Every page of these workloads is new: its place is chosen when it is written.
        match self.options.filesystem.writepage(pass.caller, false) {
            Answer::Redirties => {
                self.memory.frame(number).flags &= !(YOUNG | REFERENCED);
                Some(Outcome::WriteRefused)
            }
            Answer::Writes { behind_pages_max } => {
                if self.options.reclaim_waits_for_log && !std::mem::replace(&mut pass.logged, true) {
                    self.block
                        .submit(self.now, pass.thread, (false, false), LOG_AT, Vec::new());
                    self.sleep(pass.thread, Wait::Log, Instant::NEVER);
                    return None;
                }
                pass.logged = false;
                if !self.block.has_room(pass.thread) {
                    self.sleep(pass.thread, Wait::Request, Instant::NEVER);
                    return None;
                }
                self.memory.frame(number).flags |= TAGGED;
                let run = Run {
                    file: frame.owner,
                    next: frame.index.into(),
                    end: u64::from(frame.index) + 1 + behind_pages_max,
                };
                pass.run = Some(run);
                Some(Outcome::WriteStarted)
            }
        }
    }

    /// Writes to swap. `None`: it has to wait for the disk's queue.
    fn page_out_anonymous(&mut self, pass: &mut Shrink, number: u32) -> Option<Outcome> {
        let page = self.memory.frame(number).index;
        let slot = match self.anonymous[page as usize].slot {
            Some(slot) => slot,
            None => {
                let Some(slot) = self.swap.take() else {
                    return Some(Outcome::KeptNoWrites);
                };
                self.anonymous[page as usize].slot = Some(slot);
                self.slot_pages[slot.0 as usize] = page;
                slot
            }
        };
        let offset = u64::from(slot.0) * 4096;
        if self.block.can_merge_swap(offset) {
            self.block.leave_line(pass.thread);
            self.block.merge_swap(number);
        } else if self.block.has_room(pass.thread) {
            self.block
                .submit(self.now, pass.thread, (true, true), offset, vec![number]);
        } else {
            self.sleep(pass.thread, Wait::Request, Instant::NEVER);
            return None;
        }
        let frame = self.memory.frame(number);
        frame.flags = frame.flags & !(DIRTY | YOUNG | REFERENCED) | WRITING | TAGGED;
        self.counters.pswpout += 1;
        let lru_pages = self.memory.dirtyable();
        self.memory.zones[pass.zone]
            .cost
            .add(PageKind::Anonymous, 1, lru_pages);
        Some(Outcome::WriteStarted)
    }

    /// The consequences of the batch: the rules' answer, carried out.
    fn after_batch(&mut self, pass: &mut Shrink, cost: Nanos) -> Step {
        // Another thread may now hold the page for whose write it stood in line.
        self.block.leave_line(pass.thread);
        let after = batch::after(&self.rules, &pass.seen, pass.caller, pass.priority);
        let zone = &mut self.memory.zones[pass.zone];
        zone.congested |= after.zone_congested;
        zone.dirty |= after.node_dirty;
        zone.writeback |= after.node_writeback;
        if after.flushers_woken_pages + pass.flagged > 0 {
            self.wake_flusher(after.flushers_woken_pages + pass.flagged);
        }
        if after.sleeps_for_writeback && pass.thread == KSWAPD {
            self.sleep(KSWAPD, Wait::WritesEnd(self.now), self.now + WAIT_MAX);
            return Step::Waits(cost);
        }
        if after.throttled {
            self.counters.nr_vmscan_throttled += 1;
            return self.wait_iff_congested(pass.caller, pass.thread, pass.zone, cost);
        }
        Step::Ran(cost)
    }

    /// `wait_iff_congested` for a tenth of a second.
    pub(super) fn wait_iff_congested(
        &mut self,
        caller: Caller,
        thread: usize,
        zone: usize,
        cost: Nanos,
    ) -> Step {
        self.counters.conditional[caller as usize].number += 1;
        let zone = self.memory.zones[zone].congested;
        match wait_iff_congested(self.block.is_congested(), zone) {
            // every step may be followed by another thread's: there is nothing to give way to
            Congested::Yields => Step::Ran(cost),
            Congested::Sleeps => {
                self.sleep_for_congestion(thread, Wait::Conditional(self.now));
                Step::Waits(cost)
            }
        }
    }
}
