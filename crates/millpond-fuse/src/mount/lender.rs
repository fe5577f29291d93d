//! The thread that takes back what is lent to the kernel beyond its share, and divides the budget.

use crate::state::MountState;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The thread, until it is stopped. Dropping it leaves it running.
pub(super) struct LenderThread {
    thread: JoinHandle<()>,
    state: Arc<MountState>,
}

impl LenderThread {
    /// `None` if nothing is lent.
    pub(super) fn start(state: &Arc<MountState>) -> io::Result<Option<LenderThread>> {
        if state.lend_pool.is_none() {
            return Ok(None);
        }
        let thread = thread::Builder::new().name("millpond-lend".into());
        let lender = state.clone();
        let thread = thread.spawn(move || {
            let Some(pool) = &lender.lend_pool else { return };
            let mut soon = false;
            while pool.wait(soon) {
                let is_leaving = pool.divide();
                soon = !lender.take_back() || is_leaving;
            }
        })?;
        Ok(Some(LenderThread {
            thread,
            state: state.clone(),
        }))
    }

    /// Stops it, and waits until it has ended.
    pub(super) fn stop(self) {
        if let Some(pool) = &self.state.lend_pool {
            pool.end();
        }
        // It has panicked if this fails, and has said so.
        let _ = self.thread.join();
    }
}
