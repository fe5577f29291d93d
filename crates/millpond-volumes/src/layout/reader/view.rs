//! The state that a reader reads.

use crate::layout::loaded::{LastWriter, Loaded};
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
    pub(super) last_writer: Option<LastWriter>,
    pub(super) salvaged: Option<Salvaged>,
}

impl View {
    /// `None`: nothing was ever committed.
    pub(super) fn of(loaded: Loaded) -> Option<View> {
        Some(View {
            page_bytes: loaded.page_bytes?,
            state: loaded.state,
            number: loaded.number,
            checksum: loaded.checksum,
            fresh: loaded.asked,
            last_writer: loaded.last_writer,
            salvaged: loaded.salvaged,
        })
    }

    /// The commit that its state is of.
    pub(super) fn commit(&self) -> u64 {
        self.salvaged
            .as_ref()
            .map_or(self.number, |salvaged| salvaged.commit)
    }
}
