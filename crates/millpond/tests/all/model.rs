//! The engine against a naive model: a vector of bytes for each file.
//!
//! Operations are drawn with indexes into what exists at that moment (`world.rs`), so that shrinking keeps them
//! meaningful. After every operation all files are read through the cache and compared; after a sync, and after a file's
//! last handle is gone, with what the file system has.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints where it was"
)]

use crate::support::{Kind, Place, bounded, number};
use crate::world::Op::*;
use crate::world::{At, Op, World};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn at() -> impl Strategy<Value = At> {
    prop_oneof![
        4 => any::<u16>().prop_map(At::Share),
        3 => any::<u16>().prop_map(At::PageOf),
        2 => (0..9_000_u16).prop_map(At::Tail),
        1 => Just(At::Tail(0)),
        2 => ((0..9_000_u16), (0..40_u8)).prop_map(|(bytes, pages)| At::Beyond(bytes, pages)),
    ]
}

fn len() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0_u32),
        1..100_u32,
        Just(4096),
        1..20_000_u32,
        Just(65_536),
        20_000..400_000_u32
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let handle = any::<u8>;
    prop_oneof![
        6 => (handle(), at(), len()).prop_map(|(handle, at, len)| Read { handle, at, len }),
        20 => (handle(), at(), len(), any::<u8>())
            .prop_map(|(handle, at, len, seed)| Write { handle, at, len, seed }),
        4 => (handle(), any::<u16>()).prop_map(|(handle, page)| Page { handle, page }),
        8 => (handle(), any::<u16>(), any::<u16>(), any::<u8>())
            .prop_map(|(handle, page, from, seed)| PageMut { handle, page, from, seed }),
        3 => (handle(), any::<[u16; 3]>(), any::<u8>())
            .prop_map(|(handle, pages, seed)| Guards { handle, pages, seed }),
        3 => (handle(), len(), any::<u8>()).prop_map(|(handle, len, seed)| Append { handle, len, seed }),
        4 => (handle(), any::<u16>(), any::<u16>(), any::<u8>())
            .prop_map(|(handle, page, from, seed)| Grow { handle, page, from, seed }),
        8 => (handle(), at(), any::<bool>())
            .prop_map(|(handle, at, is_refused)| SetLen { handle, at, is_refused }),
        6 => (handle(), at(), len(), any::<bool>())
            .prop_map(|(handle, at, len, is_refused)| Punch { handle, at, len, is_refused }),
        3 => (handle(), at(), len(), any::<bool>())
            .prop_map(|(handle, at, len, is_refused)| Allocate { handle, at, len, is_refused }),
        3 => (handle(), at(), len()).prop_map(|(handle, at, len)| Invalidate { handle, at, len }),
        4 => handle().prop_map(|handle| Sync { handle }),
        1 => Just(SyncAll),
        3 => (any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(file, write, other_name)| Open { file, write, other_name }),
        3 => handle().prop_map(|handle| Close { handle }),
        3 => (handle(), at(), len()).prop_map(|(handle, at, len)| Prefetch { handle, at, len }),
        2 => (handle(), any::<u8>()).prop_map(|(handle, advice)| Advise { handle, advice }),
        3 => (handle(), any::<bool>()).prop_map(|(handle, write)| Map { handle, write }),
        1 => any::<u8>().prop_map(|mapping| Unmap { mapping }),
        6 => (any::<u8>(), at(), len()).prop_map(|(mapping, at, len)| ReadMapped { mapping, at, len }),
        10 => (any::<u8>(), at(), len(), any::<u8>())
            .prop_map(|(mapping, at, len, seed)| Store { mapping, at, len, seed }),
        1 => any::<u8>().prop_map(|mapping| SyncMapped { mapping }),
        2 => (any::<u8>(), at(), len()).prop_map(|(mapping, at, len)| DontNeed { mapping, at, len }),
        2 => any::<u8>().prop_map(|eighths| SetMemory { eighths }),
        2 => any::<u8>().prop_map(|preset| SetOptions { preset }),
        1 => (any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(page_shift, preset, eighths)| NewCache { page_shift, preset, eighths }),
    ]
}

fn run(kind: Kind, place: Place, files: usize, page_shift: u8, preset: u8, ops: &[Op]) {
    let folder = place.folder();
    let Some(mut world) = World::new(kind, folder.path(), files, page_shift, preset) else {
        return;
    };
    for (n, &op) in ops.iter().enumerate() {
        let step = std::panic::AssertUnwindSafe(|| {
            world.apply(op);
            world.check();
        });
        if let Err(panic) = std::panic::catch_unwind(step) {
            println!("operation {n} of {}: {op:?}", ops.len());
            std::panic::resume_unwind(panic);
        }
    }
    world.end();
}

/// `MILLPOND_CASES=n` runs n cases on each device and place.
fn cases() -> u32 {
    number("MILLPOND_CASES").unwrap_or(24) as u32
}

fn property(kind: Kind, place: Place) {
    let config = Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let world = (1..=3_usize, 0..5_u8, 0..3_u8);
    let ops = proptest::collection::vec(op(), 1..60);
    let result = TestRunner::new(config).run(&(world, ops), |((files, page_shift, preset), ops)| {
        bounded(move || run(kind, place, files, page_shift, preset, &ops));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{kind:?} on {place:?}: {failure}");
    }
}

#[test]
fn files_are_as_the_model_says_by_the_ring_on_disk() {
    property(Kind::Ring, Place::Disk);
}

#[test]
fn files_are_as_the_model_says_by_the_ring_in_memory() {
    property(Kind::Ring, Place::Memory);
}

#[test]
fn files_are_as_the_model_says_by_threads_on_disk() {
    property(Kind::Pool, Place::Disk);
}

#[test]
fn files_are_as_the_model_says_by_threads_in_memory() {
    property(Kind::Pool, Place::Memory);
}
