//! What every limit of a cache is, and why: the formula with its numbers, the setting, and when that was set.

use crate::api::cache::{Inner, PageCache};
use crate::control::settings::Limit;
use crate::engine::budget::{FRAME_METADATA_BYTES, IO_BYTES};
use millpond_core::manager::{FRAMES_MAX, FRAMES_MIN, GoalInForce};
use std::time::Duration;

impl PageCache {
    /// Every limit that is derived from options and memory, in the order in which one follows from another. They depend on
    /// the last settings and on memory now, and on nothing else. Takes the core's lock for a moment; allocates.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cache = millpond::PageCache::builder().memory(64 << 20).build()?;
    /// for limit in cache.inspect_limits() {
    ///     println!("{limit}"); // dirty.hard 3230 pages (12920 KiB) = 20 % of 15946 dirtyable, 256 (1 MiB) to 14950 (dirty.ceiling); 20 % set 0.0 s ago
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

impl Inner {
    #[cfg(any(feature = "control", feature = "metrics"))]
    pub(crate) fn age(&self) -> Duration {
        Duration::from_nanos(self.shared.clock.now().0)
    }

    pub(crate) fn inspect_goal(&self) -> Option<GoalInForce> {
        self.shared.core().manager.inspect_goal()
    }

    pub(crate) fn inspect_limits(&self) -> Vec<Limit> {
        let shared = &self.shared;
        let budget = self.budget.lock();
        let (mut values, page_size) = (shared.core().manager.inspect(), shared.page_size);
        let now = shared.clock.now();
        let setting = self.memory_told(&budget);
        // The core is told how many frames there are; here is why.
        if let Some(frames) = values.iter_mut().find(|value| value.name == "frames") {
            let copies = budget.aside.copies.to_bytes(page_size).0;
            let memory = budget.memory;
            let metadata = FRAME_METADATA_BYTES + budget.aside.frame_bytes + budget.aside.place_bytes;
            let twins = budget.aside.twins;
            let regions = budget.aside.region_bytes + (twins.frame * frames.pages.0).min(twins.most);
            frames.formula = format!(
                "({} B - {} B for transfers - {copies} B for copies - {regions} B for regions) / ({} + {metadata}) B, {} to {}",
                memory.0,
                IO_BYTES.0,
                page_size.bytes(),
                FRAMES_MIN.0,
                FRAMES_MAX.0
            );
            frames.inputs = vec![
                ("memory_bytes", memory.0),
                ("transfers_bytes", IO_BYTES.0),
                ("copies_bytes", copies),
                ("regions_bytes", regions),
                ("page_bytes", page_size.bytes()),
                ("metadata_bytes_per_frame", metadata),
            ];
            frames.setting = setting;
        }
        let limits = values.into_iter().map(|derived| Limit {
            bytes: derived.pages.to_bytes(page_size),
            set_ago: Duration::from_nanos(now.since(derived.set_at).0),
            derived,
        });
        limits.collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::PageCache;
    use millpond_core::dirty::limits::DirtyLimit;
    use millpond_core::units::Bytes;

    #[test]
    fn a_limit_that_was_set_says_so_and_what_became_of_it() {
        let cache = PageCache::builder().memory(64 << 20).build().unwrap();
        let hard = |cache: &PageCache| {
            let limits = cache.inspect_limits();
            limits
                .into_iter()
                .find(|limit| limit.derived.name == "dirty.hard")
                .unwrap()
        };
        let before = hard(&cache);
        assert_eq!(before.derived.setting, "20 %");
        let mut options = cache.options();
        options.dirty.hard = DirtyLimit::Size(Bytes(1));
        cache.set_options(options).unwrap();
        let after = hard(&cache);
        assert_eq!(
            (after.bytes, after.derived.setting.as_str()),
            (Bytes::from_mib(1), "1 B")
        );
        assert!(after.derived.set_at > before.derived.set_at);
        let text = after.to_string();
        assert!(
            text.starts_with("dirty.hard 256 pages (1 MiB) = 1 B / 4096 B, rounded up, 256 (1 MiB) to "),
            "{text}"
        );
    }
}
