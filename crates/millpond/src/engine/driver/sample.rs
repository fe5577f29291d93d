//! Takes pages that a scan has met out of their regions and mappings, neighbours together, so that their next use is seen.

use super::leave::{RUN_MAX, in_hands};
use super::mempool::Marked;
use super::{CallBack, Doubles, Engine};
use crate::memory::{At, RegionInner};
use crate::sys::arena::exchange::InHand;
use millpond_core::units::FrameNo;

/// Splits pages of one region into runs of consecutive pages, `RUN_MAX` at most.
fn in_runs(pages: &[(u64, FrameNo)]) -> impl Iterator<Item = &[(u64, FrameNo)]> {
    let runs = pages.chunk_by(|a, b| b.0 == a.0 + 1);
    runs.flat_map(|run| run.chunks(RUN_MAX))
}

/// Returns the pages of such a run, as [`in_hands`].
fn of_region<'a>(region: &'a RegionInner, run: &'a [(u64, FrameNo)]) -> [InHand<'a>; RUN_MAX] {
    let memory = &region.memory;
    in_hands(run, |&(page, frame)| InHand { memory, page, frame })
}

/// Pages that a scan has met.
#[derive(Clone, Copy)]
pub(super) struct Sampling<'a> {
    engine: &'a Engine,
}

impl<'a> Sampling<'a> {
    pub(super) fn of(engine: &'a Engine) -> Sampling<'a> {
        Sampling { engine }
    }

    /// Takes pages that a scan has met out of their regions, as soon as there is a batch, so that their next use is seen.
    pub(super) fn sample_marked(self, marked: &mut Marked) {
        let engine = self.engine;
        let Marked { sampled, held, .. } = marked;
        if sampled.is_empty() {
            return;
        }
        engine.regions().doubles.enqueue_sampled(sampled);
        sampled.sort_unstable_by_key(|key| key.to_bits());
        for keys in sampled.chunk_by(|a, b| a.file() == b.file()) {
            if CallBack::of(engine).sample_mapped(keys) {
                continue;
            }
            let Some(region) = engine.regions().of(keys[0].file()) else {
                continue;
            };
            // They may be of an earlier region with the same number.
            let pages = keys.iter().map(|key| key.index().0);
            let pages = pages.filter(|&page| page < region.pages.len());
            let taken = pages.filter(|&page| region.pages.take(page, &[At::Mapped]).is_some());
            held.clear();
            held.extend(taken.map(|page| (page, engine.frame_of(&region, page))));
            for run in in_runs(held) {
                let exchange = &engine.regions().exchange;
                exchange.put_together(&of_region(&region, run)[..run.len()]);
            }
            Doubles::of(engine).make_doubles(&region, held);
            Doubles::of(engine).drop_one_copy(&region, held);
            for run in in_runs(held) {
                engine
                    .regions()
                    .move_out(&region, &of_region(&region, run)[..run.len()]);
            }
        }
        sampled.clear();
    }
}
