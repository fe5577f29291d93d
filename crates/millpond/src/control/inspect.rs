//! The facts behind a cache's limits, for `observe/inspect.rs`.

use super::cache::Cache;
use crate::engine::budget::{FRAME_METADATA_BYTES, IO_BYTES};
use crate::observe::inspect::{MemoryFacts, limits};
use crate::settings::Limit;
use millpond_core::manager::GoalInForce;
use millpond_core::units::Bytes;

impl Cache {
    pub(crate) fn inspect_goal(&self) -> Option<GoalInForce> {
        self.engine.core().manager.inspect_goal()
    }

    pub(crate) fn inspect_limits(&self) -> Vec<Limit> {
        let engine = &self.engine;
        let budget = self.budget.lock();
        let (values, page_size) = (engine.core().manager.inspect(), engine.page_size);
        let now = engine.clock.now();
        let reserved = self.reserved(&budget);
        limits(values, page_size, now, |frames| MemoryFacts {
            memory: budget.memory,
            transfers: Bytes(IO_BYTES.0 + reserved.program_bytes),
            copies: reserved.copies.to_bytes(page_size),
            regions: Bytes(
                reserved.region_bytes + (reserved.doubles.frame * frames).min(reserved.doubles.most),
            ),
            metadata_bytes_per_frame: FRAME_METADATA_BYTES + reserved.frame_bytes + reserved.place_bytes,
            setting: self.memory_told(&budget),
        })
    }
}
