//! Checks for tests and simulators: recomputes every counter, and finds leftover state.

use super::Manager;
use crate::admission::Form;
use crate::frame::FrameTable;
use crate::units::{Bytes, PageCount};
use alloc::vec::Vec;

impl<A: Form> Manager<A> {
    /// Recomputes every counter and checks every structure.
    ///
    /// # Panics
    /// If one is wrong; the message says which.
    pub fn validate<F: FrameTable>(&self, frames: &F) {
        self.lru.validate();
        self.flusher.validate();
        let (mut writing, mut dirty) = (0, 0);
        for (frame, state) in self.pool.validate() {
            let key = frames.key(frame);
            assert_eq!(
                frames.lookup(key),
                Some(frame),
                "{key:?} is in {frame:?}, {state:?}"
            );
            writing += u64::from(state.phase().is_writing());
            dirty += u64::from(state.phase().is_dirty());
        }
        let swap = (self.swap.writing(), self.swap.dirty());
        assert_eq!(writing, (self.writing + swap.0).0, "pages being written");
        assert_eq!(dirty, (self.flusher.dirty() + swap.1).0, "dirty pages");
        self.validate_swap(frames);
        let in_writes: u64 = self
            .ios
            .iter()
            .filter(|(_, io)| !io.reason.is_read())
            .map(|(_, io)| io.frames.len() as u64)
            .sum();
        assert_eq!(
            in_writes,
            (self.writing + swap.0).0,
            "frames of writes in transit"
        );
    }

    /// For when no caller waits for anything: checks that nothing is dirty or in transit, and that all queues are
    /// empty.
    ///
    /// # Panics
    /// If something is left; the message says what.
    pub fn assert_idle(&self) {
        let transfers: Vec<_> = self.ios.iter().collect();
        assert!(transfers.is_empty(), "in transit: {transfers:?}");
        assert_eq!(self.writing, PageCount(0), "pages being written");
        assert!(self.blocked.is_empty(), "paused: {:?}", self.blocked);
        for device in self.devices.iter() {
            let in_transit = device.admission.in_transit().all();
            assert_eq!(in_transit, Bytes(0), "bytes in transit");
        }
        self.flusher.assert_idle();
    }
}
