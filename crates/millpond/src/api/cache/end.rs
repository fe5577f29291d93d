//! How a cache ends: with its last handle and its last file. In a forked child it does not.

use super::Handle;

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.poison.is_of_another() {
            // In a forked child nothing ends: the threads are the parent's, and so is the socket.
            std::mem::forget(self.cache.clone());
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
