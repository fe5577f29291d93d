//! How a cache ends: with its last handle and its last file. In a forked child it does not.

use super::{Handle, Inner};
use crate::device::Device;
use std::sync::atomic::Ordering;

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.poison.is_of_another() {
            // In a forked child nothing ends: the threads are the parent's, and so is the socket.
            std::mem::forget(self.inner.clone());
            #[cfg(feature = "control")]
            std::mem::forget(self.control.take());
            #[cfg(feature = "metrics")]
            std::mem::forget(self.metrics.take());
            return;
        }
        // First of all: they work with the rest.
        #[cfg(feature = "control")]
        drop(self.control.take());
        #[cfg(feature = "metrics")]
        drop(self.metrics.take());
        self.follower.stop();
        #[cfg(feature = "trace")]
        self.record_stop(None);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.device.wake();
        if let Some(thread) = self.thread.lock().take() {
            // It has poisoned the cache if it has panicked; there is nobody left to tell.
            let _ = thread.join();
        }
        if let Some(regions) = &self.shared.regions {
            regions.wake_handlers();
        }
        for handler in self.handlers.lock().drain(..) {
            let _ = handler.join();
        }
    }
}
