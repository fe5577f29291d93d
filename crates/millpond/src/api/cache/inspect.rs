//! The limits of a cache, and how they were derived.

use super::PageCache;
use crate::settings::Limit;
use millpond_core::manager::GoalInForce;

impl PageCache {
    /// Returns every limit that the cache derives from options and memory, each after those it depends on. The limits
    /// depend only on the current settings and the current memory. Takes the core's lock briefly, and allocates.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cache = millpond::PageCache::builder().memory(64 << 20).build()?;
    /// for limit in cache.inspect_limits() {
    ///     println!("{limit}"); // dirty.hard 3230 pages (12.6 MiB) = 20 % of 15946 dirtyable, 256 (1 MiB) to 14950 (dirty.ceiling); 20 % set 0.0 s ago
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn inspect_limits(&self) -> Vec<Limit> {
        self.handle.inspect_limits()
    }

    /// Returns the read latency goal in force and its origin, if the form of admission has one: the configured goal, or
    /// a higher one if the device needs that even without load.
    pub fn inspect_goal(&self) -> Option<GoalInForce> {
        self.handle.inspect_goal()
    }
}
