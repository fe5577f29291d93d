//! What every limit of a cache is, and why: the formula with its numbers, the setting, and when that was set.

use crate::settings::Limit;
use millpond_core::manager::{DerivedValue, FRAMES_MAX, FRAMES_MIN};
use millpond_core::units::{Bytes, Instant, PageSize};
use std::time::Duration;

/// The inputs of the number of frames. The core gets only the number; here is the reason.
pub(crate) struct MemoryFacts {
    pub(crate) memory: Bytes,
    /// For the device's queues and requests, and what the program has set aside.
    pub(crate) transfers: Bytes,
    /// For copies of pages that must stay as they are while they are written.
    pub(crate) copies: Bytes,
    /// For regions, with this number of frames.
    pub(crate) regions: Bytes,
    pub(crate) metadata_bytes_per_frame: u64,
    /// The budget's setting, in words.
    pub(crate) setting: String,
}

/// The limits of the core's values at `now`. `memory` is asked with the number of frames.
pub(crate) fn limits(
    mut values: Vec<DerivedValue>,
    page_size: PageSize,
    now: Instant,
    memory: impl FnOnce(u64) -> MemoryFacts,
) -> Vec<Limit> {
    if let Some(frames) = values.iter_mut().find(|value| value.name == "frames") {
        let facts = memory(frames.pages.0);
        let (copies, regions, metadata) = (facts.copies.0, facts.regions.0, facts.metadata_bytes_per_frame);
        frames.formula = format!(
            "({} B - {} B for transfers - {copies} B for copies - {regions} B for regions) / ({} + {metadata}) B, {} to {}",
            facts.memory.0,
            facts.transfers.0,
            page_size.bytes(),
            FRAMES_MIN.0,
            FRAMES_MAX.0
        );
        frames.inputs = vec![
            ("memory_bytes", facts.memory.0),
            ("transfers_bytes", facts.transfers.0),
            ("copies_bytes", copies),
            ("regions_bytes", regions),
            ("page_bytes", page_size.bytes()),
            ("metadata_bytes_per_frame", metadata),
        ];
        frames.setting = facts.setting;
    }
    let limits = values.into_iter().map(|derived| Limit {
        bytes: derived.pages.to_bytes(page_size),
        set_ago: Duration::from_nanos(now.since(derived.set_at).0),
        derived,
    });
    limits.collect()
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
