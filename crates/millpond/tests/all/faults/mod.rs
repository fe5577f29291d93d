//! Devices that fail: which callers hear of it, what stays readable, and that no thread waits for
//! ever.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod budget;
mod given_up;
mod limit;
mod poison;
mod reads;
mod reasons;
mod syncs;
mod writes;

use crate::support::{Kind, Place};
use millpond::device::Device;
use millpond::{Error, File, OpenOptions, PageCache};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::path::Path;
use std::sync::Arc;

const PAGE: u64 = 4096;

fn faulty() -> Arc<Faulty> {
    Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1))
}

fn cache(device: Arc<dyn Device>) -> PageCache {
    PageCache::builder()
        .memory(2 << 20)
        .device(device)
        .build()
        .unwrap()
}

/// A file of `pages` pages, each full of its number, as nothing that the cache under test has written.
fn prepared(path: &Path, pages: u64) {
    let content: Vec<u8> = (0..pages).flat_map(|n| [n as u8; PAGE as usize]).collect();
    std::fs::write(path, content).unwrap();
}

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().create(true)).unwrap()
}

/// A cache over a device with faults, and a file of it.
struct World {
    file: File,
    cache: PageCache,
    device: Arc<Faulty>,
    folder: tempfile::TempDir,
}

impl World {
    /// The file has `pages` pages, each full of its number; with none of them it is made by the cache.
    fn new(pages: u64) -> World {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        if pages > 0 {
            prepared(&path, pages);
        }
        let device = faulty();
        let cache = cache(device.clone());
        World {
            file: open(&cache, &path),
            cache,
            device,
            folder,
        }
    }
}

fn rule(target: FaultTarget, pages: std::ops::Range<u64>, errno: i32) -> FaultRule {
    FaultRule {
        offsets: pages.start * PAGE..pages.end * PAGE,
        ..FaultRule::always(target, Fault::Fail(errno))
    }
}

fn is_write_error<T: std::fmt::Debug>(result: Result<T, Error>, errno: i32) {
    match result {
        Err(error @ Error::Write { .. }) => assert_eq!(error.errno(), errno),
        other => panic!("{other:?} instead of a write error"),
    }
}
