//! Making room: kswapd, and a task that needs a frame when there is hardly one (`balance_pgdat`, `do_try_to_free_pages`,
//! `shrink_lruvec` and `shrink_page_list` of 5.5).
//!
//! ```text
//!   below low ─► kswapd: priority 12 … 1 until above high    below min ─► the allocating task: 12 … 0 until 32 are free
//!                  └─ a pass: of each list its quota, 32 pages of each list at a time
//!                       inactive: in use? active · else to its slot, and free when that is written
//!                       active: to the inactive list, if that is short or the active one is challenged
//! ```

use super::memory::{DIRTY, LOADING, NONE, TAGGED, UNMAPPED, WRITING, list_of};
use super::scheduler::Machine;
use crate::linux::anon::SwapInCost;
use crate::linux::anon::shadow::shadow_nodes_max;
use crate::linux::anon::split::Facts;
use crate::linux::balance::inactive_is_low;
use crate::linux::reclaim::effort::BATCH_PAGES;
use crate::linux::reference::Reference;
use millpond_core::page::PageKind;
use millpond_core::reclaim::launder::PRIORITY_DEFAULT;
use millpond_core::units::{Instant, Nanos};
use millpond_sim::swap::Swap;

/// Requests that are on their way to swap before reclaim waits for them: the queue of a disk (`nr_requests`).
const WRITES_MAX: u32 = 128;
/// How long kswapd rests when a whole run has freed nothing.
const REST: Nanos = Nanos::from_millis(1);

/// The lists in the order in which a pass goes through them.
const LISTS: [(PageKind, bool); 4] = [
    (PageKind::Anonymous, false),
    (PageKind::Anonymous, true),
    (PageKind::File, false),
    (PageKind::File, true),
];

/// A pass over the lists.
#[derive(Debug)]
pub(super) struct Pass {
    left: [u64; 4],
    targets: [u64; 4],
    may_deactivate: [bool; 2],
    goal: u64,
    freed: u64,
    scanned: u64,
    is_adjusted: bool,
}

#[derive(Debug, Default)]
pub(super) struct Kswapd {
    /// When it goes on; `None`: it sleeps.
    at: Option<Instant>,
    priority: u32,
    pass: Option<Pass>,
    freed_in_run: u64,
}

impl Kswapd {
    /// When it goes on.
    pub(super) fn next(&self) -> Instant {
        self.at.unwrap_or(Instant::NEVER)
    }
}

impl Machine {
    /// A frame for a page; the caller may have to reclaim. `None`: there is none.
    pub(super) fn frame_for(&mut self, page: u32, flags: u16) -> Option<u32> {
        if self.memory.free() <= self.marks.low.0 && self.kswapd.at.is_none() {
            self.kswapd.at = Some(self.now);
            self.kswapd.priority = PRIORITY_DEFAULT;
            self.kswapd.freed_in_run = 0;
            self.horizon = self.horizon.min(self.now);
        }
        if self.memory.free() <= self.marks.min.0 {
            self.direct_reclaim();
        }
        self.memory.take(page, flags)
    }

    fn direct_reclaim(&mut self) {
        self.memory.counters.direct_reclaims += 1;
        let mut freed = 0;
        for priority in (0..=PRIORITY_DEFAULT).rev() {
            let mut pass = self.begin_pass(priority, BATCH_PAGES, false);
            while self.round(&mut pass, false) {}
            freed += pass.freed;
            if freed >= BATCH_PAGES {
                break;
            }
        }
        self.end_of_run();
    }

    fn end_of_run(&mut self) {
        self.activations_seen = self.memory.counters.workingset_activate;
    }

    pub(super) fn kswapd_step(&mut self) {
        if let Some(mut pass) = self.kswapd.pass.take() {
            if self.round(&mut pass, true) {
                self.kswapd.pass = Some(pass);
            } else {
                self.pass_of_kswapd_ended(&pass);
            }
            self.kswapd.at = self.kswapd.at.max(Some(self.now));
            return;
        }
        if self.memory.free() > self.marks.high.0 {
            self.kswapd.at = None;
            self.end_of_run();
            return;
        }
        if let Some(swap) = &self.swap
            && swap.writes() >= WRITES_MAX
        {
            self.kswapd.at = Some(swap.next());
            return;
        }
        self.age_active();
        let goal = self.marks.high.0.max(BATCH_PAGES);
        self.kswapd.pass = Some(self.begin_pass(self.kswapd.priority, goal, true));
        self.spend(Nanos(500));
        self.kswapd.at = Some(self.now);
    }

    fn pass_of_kswapd_ended(&mut self, pass: &Pass) {
        self.kswapd.freed_in_run += pass.freed;
        if pass.scanned < pass.goal || pass.freed == 0 {
            self.kswapd.priority -= 1;
        }
        if self.kswapd.priority == 0 {
            self.kswapd.priority = PRIORITY_DEFAULT;
            self.end_of_run();
            if std::mem::take(&mut self.kswapd.freed_in_run) == 0 {
                self.kswapd.at = Some(self.now + REST);
            }
        }
    }

    /// `age_active_anon`, and the end of a pass.
    fn age_active(&mut self) {
        let kind = PageKind::Anonymous;
        let lengths = self.memory.lengths();
        let (inactive, active) = (lengths.inactive[kind as usize], lengths.active[kind as usize]);
        let ratio = self.memory.rules.ratio(kind, inactive, active);
        if inactive_is_low(inactive, active, ratio) {
            self.deactivate(kind, BATCH_PAGES);
        }
    }

    fn deactivate(&mut self, kind: PageKind, pages: u64) {
        for _ in 0..pages {
            if !self.memory.deactivate_coldest(kind) {
                break;
            }
            self.spend(self.options.costs.scan_page);
        }
    }

    fn begin_pass(&mut self, priority: u32, goal: u64, is_kswapd: bool) -> Pass {
        let lengths = self.memory.lengths();
        let rules = self.memory.rules;
        let may_deactivate = PageKind::ALL.map(|kind| {
            let number = kind as usize;
            let activations = self.memory.counters.workingset_activate[number];
            let challenged = activations != self.activations_seen[number];
            rules.may_deactivate(kind, lengths.inactive[number], lengths.active[number], challenged)
        });
        let facts = Facts {
            priority,
            swappiness: self.options.swappiness,
            swap_has_room: self.slots.has_room(),
            lengths,
            free: self.memory.free(),
            high: self.marks.high.0,
            may_deactivate,
        };
        let split = self.memory.costs.split(&rules, &facts);
        let targets = LISTS.map(|(kind, is_active)| {
            let lengths = if is_active {
                &lengths.active
            } else {
                &lengths.inactive
            };
            split.of(kind, lengths[kind as usize], priority)
        });
        let root = self.options.root_group_pages.unwrap_or(lengths.all());
        let nodes_max = shadow_nodes_max(&rules, lengths.all(), root);
        self.memory.counters.shadows_dropped += self.slots.shrink(nodes_max);
        Pass {
            left: targets,
            targets,
            may_deactivate,
            goal,
            freed: 0,
            scanned: 0,
            is_adjusted: !is_kswapd && priority == PRIORITY_DEFAULT,
        }
    }

    /// 32 pages of each list at most. `false`: the pass is over.
    fn round(&mut self, pass: &mut Pass, is_kswapd: bool) -> bool {
        let [inactive_anonymous, _, inactive_file, active_file] = pass.left;
        if inactive_anonymous + inactive_file + active_file == 0 {
            self.age_active();
            return false;
        }
        for (n, (kind, is_active)) in LISTS.into_iter().enumerate() {
            let pages = pass.left[n].min(BATCH_PAGES);
            pass.left[n] -= pages;
            if pages == 0 {
                continue;
            }
            if is_active {
                if pass.may_deactivate[kind as usize] {
                    self.deactivate(kind, pages);
                }
            } else {
                pass.scanned += pages;
                pass.freed += self.shrink_inactive(kind, pages, is_kswapd);
            }
        }
        if pass.freed >= pass.goal && !pass.is_adjusted && !adjust(pass) {
            self.age_active();
            return false;
        }
        true
    }

    /// Answers how many pages it freed.
    fn shrink_inactive(&mut self, kind: PageKind, pages: u64, is_kswapd: bool) -> u64 {
        let mut batch = std::mem::take(&mut self.batch);
        batch.extend((0..pages).map_while(|_| self.memory.pop_cold(kind, false)));
        self.memory.costs.stat.scanned(kind, batch.len() as u64);
        self.memory.counters.pgscan += batch.len() as u64;
        self.spend(Nanos(self.options.costs.scan_page.0 * batch.len() as u64));
        let (mut freed, mut io) = (0, 0);
        for &frame in &batch {
            let flags = self.memory.frame(frame).flags;
            if flags & LOADING != 0 {
                self.memory.push_warm(frame, kind, false);
                continue;
            }
            if flags & WRITING != 0 {
                self.memory.frame(frame).flags |= TAGGED;
                self.memory.push_warm(frame, kind, true);
                self.memory.costs.stat.rotated(kind, 1);
                continue;
            }
            match self.memory.meet(frame) {
                Reference::Activate => {
                    self.memory.promote(frame);
                    if kind == PageKind::Anonymous && self.slots.is_half_full() {
                        let number = self.memory.frame(frame).page;
                        self.give_slot(number);
                    }
                }
                Reference::Keep => self.memory.push_warm(frame, kind, false),
                Reference::Reclaim | Reference::ReclaimClean => match kind {
                    PageKind::File => {
                        self.evict_file(frame);
                        freed += 1;
                    }
                    PageKind::Anonymous => match self.page_out(frame, is_kswapd) {
                        PagedOut::Free => freed += 1,
                        PagedOut::Writing => io += 1,
                        PagedOut::Kept => {}
                    },
                },
            }
        }
        batch.clear();
        self.batch = batch;
        self.unplug();
        let rules = self.memory.rules;
        let synchronous = matches!(self.options.swap, Swap::Memory(_));
        let lru_pages = self.memory.lengths().all();
        if io > 0 && !synchronous {
            self.memory.costs.note(&rules, kind, io, 0, lru_pages);
        }
        self.memory.counters.pgsteal[kind as usize] += freed;
        freed
    }

    fn evict_file(&mut self, frame: u32) {
        let number = self.memory.frame(frame).page as usize;
        self.pages[number].shadow = self.memory.leave(frame);
        self.pages[number].frame = NONE;
    }

    fn evict_anonymous(&mut self, frame: u32, slot: u32) {
        let number = self.memory.frame(frame).page as usize;
        self.pages[number].frame = NONE;
        let shadow = self.memory.leave(frame);
        self.slots.left(slot, shadow);
    }

    /// A page that is not in use: it goes if its slot holds it, else it is written there first.
    fn page_out(&mut self, frame: u32, is_kswapd: bool) -> PagedOut {
        let number = self.memory.frame(frame).page;
        if self.pages[number as usize].slot == NONE {
            let Some(slot) = self.slots.take(number) else {
                self.memory.push_warm(frame, PageKind::Anonymous, true);
                return PagedOut::Kept;
            };
            self.pages[number as usize].slot = slot;
            self.memory.frame(frame).flags |= DIRTY;
        }
        let slot = self.pages[number as usize].slot;
        if self.memory.frame(frame).flags & DIRTY == 0 {
            self.evict_anonymous(frame, slot);
            return PagedOut::Free;
        }
        self.spend(self.options.costs.swap_page);
        if let Swap::Memory(each) = self.options.swap {
            self.spend(each);
            self.memory.counters.pswpout += 1;
            let lru_pages = self.memory.lengths().all();
            let rules = self.memory.rules;
            self.memory
                .costs
                .note(&rules, PageKind::Anonymous, 1, 0, lru_pages);
            self.evict_anonymous(frame, slot);
            return PagedOut::Free;
        }
        let writes = self.swap.as_ref().map_or(0, super::disk::Disk::writes);
        if writes >= WRITES_MAX && !is_kswapd {
            self.memory.push_warm(frame, PageKind::Anonymous, false);
            return PagedOut::Kept;
        }
        let page = self.memory.frame(frame);
        page.flags = page.flags & !DIRTY | WRITING | TAGGED | UNMAPPED;
        self.memory.push_warm(frame, PageKind::Anonymous, false);
        self.memory.counters.pswpout += 1;
        self.plug.push((slot, frame));
        PagedOut::Writing
    }

    /// The batch's writes go to the disk, those side by side at a time.
    fn unplug(&mut self) {
        if self.plug.is_empty() {
            return;
        }
        let mut plug = std::mem::take(&mut self.plug);
        plug.sort_unstable();
        let now = self.now;
        if let Some(swap) = &mut self.swap {
            for run in plug.chunk_by(|a, b| b.0 == a.0 + 1) {
                let frames: Vec<u32> = run.iter().map(|&(_, frame)| frame).collect();
                swap.submit(now, true, run[0].0.into(), &frames);
            }
            self.horizon = self.horizon.min(swap.next());
        }
        plug.clear();
        self.plug = plug;
    }

    /// A page was swapped in: in 5.8 each one is a cost.
    pub(super) fn note_swap_in(&mut self) {
        let rules = self.memory.rules;
        if rules.swap_in_cost == SwapInCost::Every {
            let lru_pages = self.memory.lengths().all();
            self.memory
                .costs
                .note(&rules, PageKind::Anonymous, 1, 0, lru_pages);
        }
    }
}

enum PagedOut {
    Free,
    Writing,
    Kept,
}

/// Enough is free: the kind of which less is left is left alone, the other is looked at in the same proportion. `false`:
/// nothing is left of one of them anyway.
fn adjust(pass: &mut Pass) -> bool {
    let left = |pass: &Pass, kind: PageKind| {
        let [inactive, active] = [false, true].map(|is_active| index(kind, is_active));
        pass.left[inactive] + pass.left[active]
    };
    let (file, anonymous) = (left(pass, PageKind::File), left(pass, PageKind::Anonymous));
    if file == 0 || anonymous == 0 {
        return false;
    }
    let (less, more, rest) = match file > anonymous {
        true => (PageKind::Anonymous, PageKind::File, anonymous),
        false => (PageKind::File, PageKind::Anonymous, file),
    };
    let target: u64 = [false, true]
        .map(|active| pass.targets[index(less, active)])
        .iter()
        .sum();
    let percent = rest * 100 / (target + 1);
    for is_active in [false, true] {
        pass.left[index(less, is_active)] = 0;
        let n = index(more, is_active);
        let scanned = pass.targets[n] - pass.left[n];
        pass.left[n] = (pass.targets[n] * (100 - percent) / 100).saturating_sub(scanned);
    }
    pass.is_adjusted = true;
    true
}

fn index(kind: PageKind, is_active: bool) -> usize {
    // anonymous lists are first here
    (list_of(kind, is_active) + 2) % 4
}
