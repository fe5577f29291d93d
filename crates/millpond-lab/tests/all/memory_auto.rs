//! A cache that follows the host, in a real control group, which a child of this test enters: others take memory, and
//! give it back.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::support::{in_the_child, run_in_group};
use millpond::history::By;
use millpond::{MemoryInForce, OpenOptions, PageCache};
use millpond_core::units::Bytes;
use std::time::{Duration, Instant};

const LIMIT: u64 = 256 << 20;
const MIN: u64 = 8 << 20;
const MAX: u64 = 128 << 20;

#[test]
fn a_budget_goes_down_when_its_group_is_short_and_comes_back() {
    run_in_group(Bytes(LIMIT), "memory_auto::the_child_follows_its_group");
}

/// Asks until it is so; a look takes a second, a minute is a very busy day.
fn until(
    cache: &PageCache,
    is_so: impl Fn(&MemoryInForce) -> bool,
    mut meanwhile: impl FnMut(),
) -> MemoryInForce {
    let begun = Instant::now();
    loop {
        let memory = cache.memory();
        if is_so(&memory) {
            println!("after {:.1} s: {memory:?}", begun.elapsed().as_secs_f64());
            return memory;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{memory:?}");
        meanwhile();
        std::thread::yield_now();
    }
}

/// Not a test: what the child does.
#[test]
fn the_child_follows_its_group() {
    in_the_child(|_| follow());
}

#[test]
fn a_new_cache_leaves_its_group_to_others_until_it_holds_something() {
    run_in_group(Bytes(LIMIT), "memory_auto::the_child_bursts_beside_a_new_cache");
}

/// Not a test: what the child does. It was killed here: the cache had taken 224 MiB, empty as it was.
#[test]
fn the_child_bursts_beside_a_new_cache() {
    in_the_child(|_| {
        let cache = PageCache::builder().memory_auto(MIN, LIMIT).build().unwrap();
        // Touched, so that the group holds it.
        let mut others = vec![0_u8; LIMIT as usize * 5 / 8];
        others.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        assert!(std::hint::black_box(&others).len() > cache.memory().bytes.0 as usize);
    });
}

#[test]
fn a_mild_neighbour_kills_nobody() {
    run_in_group(Bytes(2 * LIMIT), "memory_auto::the_child_has_a_mild_neighbour");
}

/// Not a test: what the child does. A program took 80 MiB a second, up to 176, beside a cache that had filled a group of
/// 512 MiB; of that only 64 MiB were free, and the cache looked once a second. The kernel killed it.
#[test]
fn the_child_has_a_mild_neighbour() {
    const NEIGHBOUR: usize = 176 << 20;
    const STEP: usize = 4 << 20;
    in_the_child(|_| {
        let limit = 2 * LIMIT;
        let cache = PageCache::builder().memory_auto(MIN, limit).build().unwrap();
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let file = cache.open(folder.path().join("pond"), OpenOptions::new().create(true));
        let file = file.unwrap();
        // A hole: the disk is not what this is about.
        file.set_len(limit).unwrap();
        let mut at = 0;
        let fill = || {
            drop(file.page(at % (limit / 4096)).unwrap());
            at += 1;
        };
        let full = |memory: &MemoryInForce| {
            let why = memory.why.as_deref().unwrap_or_default();
            why.starts_with("no room for more") && memory.bytes.0 > limit / 2
                || why.ends_with("free in the machine") && why.starts_with("short")
        };
        let before = until(&cache, full, fill);
        if before.bytes.0 < limit / 2 {
            return println!("skipped: the machine itself is short");
        }
        // What the neighbour does in its own time.
        let mut neighbour = vec![0_u8; NEIGHBOUR];
        let began = Instant::now();
        for (n, part) in (0..).zip(neighbour.chunks_mut(STEP)) {
            let due = Duration::from_millis(n * 1000 * STEP as u64 / (80 << 20));
            while began.elapsed() < due {
                drop(file.page(at % (limit / 4096)).unwrap());
                at += 1;
            }
            part.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        }
        let after = cache.memory();
        println!("{before:?}, {after:?}");
        assert!(std::hint::black_box(&neighbour).len() == NEIGHBOUR && after.bytes < before.bytes);
        file.close().unwrap();
    });
}

fn follow() {
    let cache = PageCache::builder().memory_auto(MIN, MAX).build().unwrap();
    assert_eq!(cache.memory().bytes, Bytes(MIN), "a new one");
    let machine_is_short = |memory: &MemoryInForce| {
        memory
            .why
            .as_ref()
            .is_some_and(|why| why.ends_with("free in the machine"))
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pond");
    let file = cache.open(path, OpenOptions::new().create(true)).unwrap();
    let page = |n: u64| [(n % 251) as u8; 4096];
    let pages = MAX / 4096 * 5 / 4;
    (0..pages).for_each(|n| file.write_at(&page(n), n * 4096).unwrap());
    file.sync_data().unwrap();
    // It grows as it is filled.
    let mut at = 0;
    let fill = || {
        assert_eq!(file.page(at % pages).unwrap()[..], page(at % pages));
        at += 1;
    };
    let grown = |memory: &MemoryInForce| memory.bytes == Bytes(MAX) || machine_is_short(memory);
    if until(&cache, grown, fill).bytes < Bytes(MAX) {
        return println!("skipped: the machine itself is short");
    }
    (0..pages).for_each(|n| drop(file.page(n).unwrap()));

    // Others take all but 8 MiB of what the budget leaves. Touched, so that the group holds it.
    let mut others = vec![0_u8; (LIMIT - MAX - (8 << 20)) as usize];
    let took = Instant::now();
    others.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    let short = until(&cache, |memory| memory.bytes < Bytes(MAX), || {});
    println!(
        "lowered {:.1} s after others had taken their memory",
        took.elapsed().as_secs_f64()
    );
    let why = short.why.unwrap();
    assert!(short.bytes >= Bytes(MIN), "{}", short.bytes);
    let limits = cache.inspect_limits();
    let told = &limits[0].derived.setting;
    assert!(told.starts_with("auto:8M..128M, now "), "{told}");
    assert!(
        why.contains("the control group") || why.contains("the machine"),
        "{why}"
    );
    assert_eq!(cache.history().changes.back().unwrap().by, By::Host);
    // All is there, although less of it is in memory.
    assert!((0..pages).all(|n| file.page(n).unwrap()[..] == page(n)));

    // They give it back: it rises, as the cache is used.
    drop(std::hint::black_box(others));
    let low = cache.memory().bytes;
    let mut at = 0;
    let read = || {
        assert_eq!(file.page(at % pages).unwrap()[..], page(at % pages));
        at += 1;
    };
    let rises = |memory: &MemoryInForce| memory.bytes > low || machine_is_short(memory);
    until(&cache, rises, read);

    // What the user says by hand holds, and auto again follows.
    let set = |value| cache.set(&[("memory", value)]).unwrap();
    set("32M");
    assert_eq!(
        (cache.memory().bytes, cache.memory().auto),
        (Bytes(32 << 20), None)
    );
    set("auto:8M..16M");
    assert_eq!(cache.memory().bytes, Bytes(16 << 20));
    until(&cache, |memory| memory.why.is_some(), || {});
    file.close().unwrap();
}
