//! Checks for tests and simulators: recomputes every counter, and finds leftover state.

use super::{FREE, Manager};
use crate::admission::Form;
use crate::frame::FrameTable;
use crate::page::Phase;
use crate::units::{Bytes, FrameNo, PageCount};
use alloc::vec::Vec;

impl<A: Form> Manager<A> {
    /// Recomputes every counter and checks every structure.
    ///
    /// # Panics
    /// If one is wrong; the message says which.
    pub fn validate<F: FrameTable>(&self, frames: &F) {
        self.lru.validate();
        self.flusher.validate();
        self.free.validate();
        let mut free = alloc::vec![false; self.states.len()];
        for frame in self.free.iter() {
            assert!(
                !core::mem::replace(&mut free[frame.index()], true),
                "{frame:?} is free twice"
            );
            assert_eq!(self.states[frame.index()], FREE, "{frame:?} is free");
        }
        let (mut held, mut writing, mut dirty, mut clean) = (0, 0, 0, 0);
        for (n, state) in self.states.iter().enumerate() {
            let frame = FrameNo(n as u32);
            if state.phase == Phase::Free {
                continue;
            }
            let key = frames.key(frame);
            assert_eq!(
                frames.lookup(key),
                Some(frame),
                "{key:?} is in {frame:?}, {state:?}"
            );
            held += 1;
            writing += u64::from(state.phase.is_writing());
            dirty += u64::from(state.phase.is_dirty());
            clean += u64::from(state.phase == Phase::Clean);
        }
        assert_eq!(clean, self.clean.0, "clean pages");
        let swap = (self.swap.writing(), self.swap.dirty());
        assert_eq!(writing, (self.writing + swap.0).0, "pages being written");
        assert_eq!(dirty, (self.flusher.dirty() + swap.1).0, "dirty pages");
        self.validate_swap(frames);
        assert_eq!(
            held + self.free.len().0 + self.free.withdrawn().0,
            self.states.len() as u64,
            "every frame is held, free or withdrawn"
        );
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
        for device in &self.devices {
            let in_transit = device.admission.in_transit().all();
            assert_eq!(in_transit, Bytes(0), "bytes in transit");
        }
        self.flusher.assert_idle();
    }
}
