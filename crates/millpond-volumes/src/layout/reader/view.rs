//! The state that a reader reads.

use crate::layout::salvage::Salvaged;
use crate::layout::state::State;
use std::time::Duration;

/// What is read.
#[derive(Default, Debug)]
pub(super) struct View {
    pub(super) state: State,
    pub(super) page_bytes: u32,
    pub(super) number: u64,
    pub(super) checksum: u64,
    /// When nothing newer than `number` was there.
    pub(super) fresh: Duration,
    pub(super) salvaged: Option<Salvaged>,
}

impl View {
    /// The commit that its state is of.
    pub(super) fn commit(&self) -> u64 {
        self.salvaged
            .as_ref()
            .map_or(self.number, |salvaged| salvaged.commit)
    }
}
