//! How many calls for tasks of tokio may wait at a time (`async_file.rs`).

use std::sync::Arc;
use tokio::sync::Semaphore;

/// Reads that wait at a time: what a fast device is busy with. The runtime has 512 threads for this at most, if it was not
/// told otherwise.
const READS_MAX: usize = 64;

/// Writes that wait at a time, and syncs: more of them make no device faster.
const WRITES_MAX: usize = 32;

/// How many calls of each kind may wait at a time.
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
