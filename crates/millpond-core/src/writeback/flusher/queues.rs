//! Files in the order in which their pages are written, per device, so that a device that accepts no writes does not
//! delay another. Linux has a flusher for each device for the same reason (`bdi_writeback`).

use super::OrderKey;
use crate::units::FileId;
use alloc::collections::{BTreeSet, VecDeque};

/// The files of one device that have something to write.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub(super) passes: VecDeque<FileId>,
    pub(super) reclaim_flagged: VecDeque<FileId>,
    pub(super) retry_ready: VecDeque<FileId>,
    /// Files with dirty pages, by [`OrderKey`].
    pub(super) order: BTreeSet<(OrderKey, FileId)>,
    pub(super) write_behind: VecDeque<FileId>,
}

impl Queues {
    /// The file is dropped.
    pub(super) fn close(&mut self, file: FileId) {
        for queue in [
            &mut self.reclaim_flagged,
            &mut self.passes,
            &mut self.retry_ready,
            &mut self.write_behind,
        ] {
            queue.retain(|&other| other != file);
        }
    }

    /// # Panics
    /// If a queue keeps a file.
    pub(super) fn assert_empty(&self) {
        let queues = [
            &self.reclaim_flagged,
            &self.passes,
            &self.retry_ready,
            &self.write_behind,
        ];
        assert!(
            queues.iter().all(|queue| queue.is_empty()),
            "reclaim-flagged, passes, retry-ready, write-behind: {queues:?}"
        );
    }
}
