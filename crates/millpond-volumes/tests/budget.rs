//! What a store has in memory, and its disk tier, is within the budget of its cache. Alone in its process, whose memory it
//! looks at.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    missing_docs,
    reason = "a test fails by panicking, and says what it skips"
)]

use millpond::{PageCache, device};
use millpond_volumes::{StoreOptions, TierUsage, Volumes};
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const BUDGET: u64 = 256 * MIB;
const FILE: u64 = 96 * MIB;
/// Beside the budget: stacks of threads, what the allocator keeps, the map of the store, code that was not used before.
const BESIDE: u64 = 36 * MIB;

fn memory(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// One after the other: it is the process' memory.
#[test]
fn a_cache_with_a_store_takes_no_more_memory_than_its_budget() {
    for tier in [None, NonZeroU64::new(16 * MIB)] {
        if std::fs::write("/proc/self/clear_refs", "5").is_err() {
            eprintln!("skipped: the peak of a process' memory can't be reset here");
            return;
        }
        has_its_budget(tier);
    }
}

fn has_its_budget(tier: Option<NonZeroU64>) {
    let temp = tempfile::tempdir().unwrap();
    let volumes = Volumes::new(device::best()).unwrap();
    let builder = PageCache::builder().memory(BUDGET).page_size(64 << 10);
    let cache = builder.device(volumes.clone()).build().unwrap();
    let frames_alone = cache.stats().occupancy.frames;
    let url = format!("file://{}/store", temp.path().display());
    let path = temp.path().join("tier");
    // Slow enough for all to be full that can be. Smaller pages are more for the tables and the queue of a tier.
    let options = StoreOptions::new().delay(Duration::from_millis(20));
    let options = match tier {
        Some(bytes) => options.disk_tier(&path, bytes).page_bytes(16 << 10),
        None => options,
    };
    let store = volumes.store(&cache, &url, options).unwrap();
    let left = cache.stats().occupancy.frames;
    assert!(left < frames_alone, "{left:?} of {frames_alone:?} frames");
    let before = memory("VmRSS:");
    let (old, new) = (store.create("old").unwrap(), store.create("new").unwrap());
    let block = &block()[..];
    for at in (0..FILE).step_by(block.len()) {
        old.write_at(block, at).unwrap();
    }
    old.sync_data().unwrap();
    let is_written = AtomicBool::new(false);
    // Its tier is full, and read.
    let is_used = |usage: TierUsage| usage.hits > 0 && usage.evicted + usage.refused > 0;
    let is_used = || store.store().tier().is_none_or(is_used);
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (old, is_written, is_used, block) = (&old, &is_written, &is_used, &block);
            scope.spawn(move || {
                let mut found = vec![0; MIB as usize];
                let mut at = reader * FILE / 4;
                while !is_written.load(Relaxed) || !is_used() {
                    old.read_at(&mut found, at % FILE).unwrap();
                    assert!(found == *block, "{at}");
                    if tier.is_some() {
                        // Memory has it: the next read is to be the tier's, or the store's.
                        old.invalidate(at % FILE..at % FILE + MIB).unwrap();
                    }
                    at += MIB;
                }
            });
        }
        for at in (0..BUDGET + 2 * 32 * MIB).step_by(block.len()) {
            new.write_at(block, at).unwrap();
        }
        new.sync_data().unwrap();
        is_written.store(true, Relaxed);
    });
    let peak = memory("VmHWM:");
    let used = store.store().tier();
    eprintln!("tier: {used:?}");
    if let Some(used) = used {
        assert_eq!(used.given_up, None);
        let about = std::fs::metadata(&path).unwrap();
        assert!(about.blocks() * 512 <= used.bytes + MIB && about.len() <= used.bytes);
    }
    eprintln!(
        "{} MiB at most, {} before, of {}",
        peak / MIB,
        before / MIB,
        BUDGET / MIB
    );
    assert!(peak <= BUDGET + BESIDE, "{peak} bytes of {BUDGET}");
    drop((old, new));
    drop(store);
    assert_eq!(cache.stats().occupancy.frames, frames_alone, "it is given back");
}

fn block() -> Vec<u8> {
    (0..MIB).map(|n| ((n * n) >> 7) as u8).collect()
}
