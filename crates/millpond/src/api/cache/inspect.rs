//! The limits of a cache, and why they are what they are.

use super::PageCache;
use crate::settings::Limit;
use millpond_core::manager::GoalInForce;

impl PageCache {
    /// Every limit that is derived from options and memory, in the order in which one follows from another. They depend on
    /// the last settings and on memory now, and on nothing else. Takes the core's lock for a moment; allocates.
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

    /// The goal for read latency that is aimed at now, and why, if the form of admission has one: what was set, or more if
    /// the device needs that by itself.
    pub fn inspect_goal(&self) -> Option<GoalInForce> {
        self.handle.inspect_goal()
    }
}
