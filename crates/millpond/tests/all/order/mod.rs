//! Pages that wait for a log, pages that stay as they are while they are written, and pages that are checked.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod callback;
mod check;
mod crashes;
mod log;
mod stable;

use crate::support::{Kind, Place};
use millpond::{File, OpenOptions, PageCache};
use millpond_testing::Faulty;
use std::path::PathBuf;
use std::sync::Arc;

const PAGE: usize = 4096;

/// A cache over a device with faults, and a folder in memory.
struct World {
    folder: tempfile::TempDir,
    faulty: Arc<Faulty>,
    cache: PageCache,
}

impl World {
    fn new(memory: u64) -> World {
        let faulty = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let cache = PageCache::builder()
            .memory(memory)
            .device(faulty.clone())
            .calibrate(false);
        World {
            folder: Place::Memory.folder(),
            cache: cache.build().unwrap(),
            faulty,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("pages")
    }

    fn open(&self, options: OpenOptions, pages: u64) -> File {
        let file = self.cache.open(self.path(), options.create(true)).unwrap();
        file.set_len(pages * PAGE as u64).unwrap();
        file
    }

    /// The file's content on the device, a byte for each page.
    fn on_device(&self) -> Vec<u8> {
        let bytes = std::fs::read(self.path()).unwrap();
        bytes.chunks(PAGE).map(|page| page[0]).collect()
    }
}

fn change(file: &File, page: u64, value: u8, order: u64) {
    let mut guard = file.page_mut(page).unwrap();
    guard.fill(value);
    guard.set_order(order).unwrap();
}

fn plain() -> OpenOptions {
    OpenOptions::new()
}
