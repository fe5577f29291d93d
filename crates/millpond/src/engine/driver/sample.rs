//! Pages of regions and mappings that a scan has met leave them, neighbours together, so that their next use is seen.

use super::leave::{RUN_MAX, in_hands};
use super::mempool::Marked;
use super::{CallBack, Doubles, Engine};
use crate::memory::{At, RegionInner};
use crate::sys::arena::exchange::InHand;
use millpond_core::units::FrameNo;

/// Pages of one region in runs of such as follow one another, `RUN_MAX` at most.
fn in_runs(pages: &[(u64, FrameNo)]) -> impl Iterator<Item = &[(u64, FrameNo)]> {
    let runs = pages.chunk_by(|a, b| b.0 == a.0 + 1);
    runs.flat_map(|run| run.chunks(RUN_MAX))
}

/// The pages of such a run, as [`in_hands`].
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

    /// Takes pages that were met by a scan out of their regions, so that their next use is seen, as soon as there is a batch.
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
            // They may be of a region of this number that was there before.
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
