//! Limits on the calls of tokio tasks that may wait concurrently (`async_file.rs`).

use std::sync::Arc;
use tokio::sync::Semaphore;

/// Concurrent waiting reads: as many as keep a fast device busy. By default the runtime has at most 512 threads for
/// blocking calls.
const READS_MAX: usize = 64;

/// Concurrent waiting writes, and syncs: more of them make no device faster.
const WRITES_MAX: usize = 32;

/// The slots for waiting calls, by kind.
pub(crate) struct Places {
    pub(super) reads: Arc<Semaphore>,
    pub(super) writes: Arc<Semaphore>,
    pub(super) syncs: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Places {
        let places = |count| Arc::new(Semaphore::new(count));
        Places {
            reads: places(READS_MAX),
            writes: places(WRITES_MAX),
            syncs: places(WRITES_MAX),
        }
    }
}
