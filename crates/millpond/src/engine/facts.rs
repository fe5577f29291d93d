//! What is known of a running cache: facts for those that show them (`observe`).

use super::driver::Engine;
use crate::device::Device;
use crate::files::FileInner;
use crate::observe::contents::{Contents, FileContents, Order, SLICE, Tally};
use crate::observe::explain::{self, Wait, WriteFigures};
use crate::observe::stats::Stats;
use millpond_core::frame::FrameTable;
use millpond_core::io::Reason;
use millpond_core::page::PageKind;
use millpond_core::units::{Bytes, FileId, FrameNo, PageCount, PageKey};
use std::sync::Arc;
use std::sync::atomic::Ordering;
#[cfg(any(feature = "control", feature = "metrics"))]
use std::time::Duration;

impl Engine {
    /// Since it was made.
    #[cfg(any(feature = "control", feature = "metrics"))]
    pub(crate) fn age(&self) -> Duration {
        Duration::from_nanos(self.clock.now().0)
    }

    /// Takes the core lock for a moment.
    pub(crate) fn stats(&self) -> Stats {
        let mut core = self.core();
        let table = self.table.locked(&mut core.token).metadata_bytes();
        let places = self.table.memory().metadata_bytes();
        let held = core
            .files
            .iter()
            .flatten()
            .filter_map(|file| file.writeback_rules.held.as_ref());
        let orders: u64 = held.map(|held| held.metadata_bytes()).sum();
        let copies = self.copies.get().map_or(0, |copies| copies.bytes() as u64);
        let (manager, now) = (&core.manager, self.clock.now());
        let (guard_wait, log_wait) = self.device.longest_waits();
        let (swap_used, swap_total) = manager.swap_slots().unwrap_or_default();
        let spaces = self.spaces.as_ref();
        Stats {
            counters: *manager.stats(),
            replacement: *manager.lru_statistics(),
            page_requests: self.requests.total(),
            reuse_of_files: manager.reuse_of_kind(PageKind::File),
            reuse_of_regions: manager.reuse_of_kind(PageKind::Anonymous),
            refault_costs: manager.refault_costs(),
            occupancy: manager.occupancy(now),
            pressure: manager.pressure(now),
            waiting: manager.waiting(now),
            read_p50: manager.read_p50(now),
            derived: *manager.derived(),
            metadata: Bytes(table + places + orders + copies + manager.metadata_bytes()),
            is_huge: self.is_huge,
            lent: Bytes(self.lent_bytes.load(Ordering::Relaxed)),
            swap_used,
            swap_total,
            swap_ahead_hits: spaces.map_or(0, |spaces| spaces.ahead_hits.load(Ordering::Relaxed)),
            region_tables: Bytes(spaces.map_or(0, |spaces| spaces.tables.count() << 12)),
            warnings: self.device.warnings(),
            guard_wait,
            log_wait,
            frame_waits: self.waits.frames.figures(),
            device: self.device.name().to_owned(),
        }
    }

    /// Waits for writes, by `wait_for`, and notes what explains it.
    pub(super) fn timed_writes<T>(&self, wait: Wait, wait_for: impl FnOnce() -> T) -> T {
        // A sync's writes go before all others: what others wait for is not what it waits for.
        let counts = |reason| wait != Wait::Writes || reason == Reason::Sync;
        let figures = || {
            let core = self.core();
            let now = self.clock.now();
            WriteFigures {
                held_back_ns: core.manager.held_back_ns(now, counts),
                blocked_ns: core.manager.sync_blocked_ns(now),
                pressure: core.manager.pressure(now),
            }
        };
        explain::timed_writes(wait, figures, wait_for)
    }

    /// What is in memory: the `count` files that are first in `order`. Takes the core lock for each 1024 frames that are
    /// looked at, and lets go of it in between.
    pub(crate) fn contents(&self, count: usize, order: Order, frames_max: u32) -> Contents {
        let frames = self.core().manager.frames_known();
        let slices = frames.div_ceil(SLICE);
        let stride = slices.div_ceil((frames_max / SLICE).max(1)).max(1);
        let mut tally = Tally::new(frames);
        for slice in (0..slices).step_by(stride as usize) {
            let mut core = self.core();
            // The pool may have got smaller.
            let known = core.manager.frames_known();
            let first = slice * SLICE;
            let end = (first + SLICE).min(frames).min(known);
            for frame in (first..end).map(FrameNo) {
                let Some(look) = core.manager.look(frame) else {
                    continue;
                };
                let key = self.table.locked(&mut core.token).key(frame);
                // Given to a page that is not in the table before this step is over.
                if key == PageKey::NONE {
                    continue;
                }
                let is_anonymous = core.manager.is_anonymous(key.file());
                tally.add(key.file(), is_anonymous, look, stride.into());
            }
            tally.looked_at(end.saturating_sub(first));
            // A waiting thread goes first.
            core.unlock_fair();
        }
        self.add_open_files(&mut tally);
        let picked = tally.pick(count, order);
        let files: Vec<Option<Arc<FileInner>>> = {
            let core = self.core();
            let of = |file: &FileId| core.files.get(file.0 as usize).cloned().flatten();
            picked.iter().map(|(file, _)| of(file)).collect()
        };
        let describe = |((file, contents), inner): ((FileId, FileContents), Option<Arc<FileInner>>)| {
            let Some(inner) = inner else {
                // If it was closed meanwhile, what it had is not a region's.
                return tally.is_anonymous(file).then_some(contents);
            };
            let len = inner.len();
            let pages = PageCount(len.div_ceil(self.page_size.bytes()));
            let missing = pages.saturating_sub(contents.pages.resident());
            Some(FileContents {
                path: Some(
                    inner
                        .device()
                        .present_path()
                        .unwrap_or_else(|| inner.path.clone()),
                ),
                device: Some(inner.device().identity().device),
                len,
                requests: inner.requests.total(),
                reuse: contents
                    .reuse
                    .of_what_is_missing(missing, PageCount(frames.into())),
                ..contents
            })
        };
        let files = picked.into_iter().zip(files).filter_map(describe).collect();
        tally.contents(files)
    }

    /// Looks at each open file, a slice at a time as well.
    fn add_open_files(&self, tally: &mut Tally) {
        let known = self.core().files.len().max(tally.files());
        for first in (0..known).step_by(SLICE as usize) {
            let core = self.core();
            for at in first..known.min(first + SLICE as usize) {
                let file = FileId(at as u32);
                if tally.is_anonymous(file) || core.files.get(at).is_some_and(Option::is_some) {
                    tally.open(file, core.manager.reuse_of(file));
                }
            }
            core.unlock_fair();
        }
    }
}
