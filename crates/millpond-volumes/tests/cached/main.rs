//! What a cache has beyond reading and writing, on files of stores: mappings, checks, logs; and what is told and left when the
//! store fails; and files of a reader. Pages of the cache and of the store have 4 KiB where nothing else is said.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test says what it skips")]

mod failing;
mod handles;
mod mapping;
mod readers;
mod rules;

use millpond::{Error, PageCache, device};
use millpond_volumes::{CacheStore, StoreOptions, StoreReader, Volumes};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAGE: usize = 4096;

fn options() -> StoreOptions {
    StoreOptions::new().page_bytes(PAGE as u32)
}

fn cache_of(memory: u64) -> (PageCache, Arc<Volumes>) {
    let volumes = Volumes::new(device::best()).unwrap();
    let built = PageCache::builder().memory(memory).device(volumes.clone());
    (built.build().unwrap(), volumes)
}

fn cache() -> (PageCache, Arc<Volumes>) {
    cache_of(16 << 20)
}

/// One whose files can be mapped; `None`, and said why: not here.
fn mapping_cache() -> Option<(PageCache, Arc<Volumes>)> {
    let volumes = Volumes::new(device::best()).unwrap();
    let built = PageCache::builder()
        .memory(16 << 20)
        .mappings(true)
        .device(volumes.clone());
    match built.build() {
        Ok(cache) => Some((cache, volumes)),
        Err(why @ Error::Setup { .. }) => {
            println!("skipped: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 8 * 31 + at / PAGE) as u8).collect()
}

/// What another process would see of a file.
fn elsewhere(url: &str, name: &str) -> Vec<u8> {
    let reader = StoreReader::open(url, options()).unwrap();
    let file = reader.open_file(name).unwrap();
    let mut found = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut found, 0).unwrap();
    found
}

/// A store in a folder, which can be kept from taking commits, or chunks.
struct Folder {
    temp: tempfile::TempDir,
    url: String,
}

impl Folder {
    fn new() -> Folder {
        let temp = tempfile::tempdir().unwrap();
        let url = format!("file://{}", temp.path().display());
        Folder { temp, url }
    }

    fn path(&self) -> &Path {
        self.temp.path()
    }

    fn open(&self, volumes: &Arc<Volumes>, cache: &PageCache) -> CacheStore {
        volumes.store(cache, &self.url, options()).unwrap()
    }

    /// With a sync that tries again what fails for five seconds, half of its time.
    fn open_impatient(&self, volumes: &Arc<Volumes>, cache: &PageCache) -> CacheStore {
        let impatient = options().sync_timeout(std::time::Duration::from_secs(10));
        volumes.store(cache, &self.url, impatient).unwrap()
    }

    fn away(&self) -> PathBuf {
        self.path().join("away")
    }

    /// No commit can be made.
    fn fails(&self) {
        let commits = self.path().join("m");
        std::fs::rename(&commits, self.away()).unwrap();
        std::fs::write(&commits, b"no folder").unwrap();
    }

    fn works(&self) {
        let commits = self.path().join("m");
        std::fs::remove_file(&commits).unwrap();
        std::fs::rename(self.away(), &commits).unwrap();
    }

    /// Changes a bit in the middle of each chunk.
    fn damage(&self) {
        for chunk in std::fs::read_dir(self.path().join("c")).unwrap() {
            let chunk = chunk.unwrap().path();
            let mut bytes = std::fs::read(&chunk).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&chunk, bytes).unwrap();
        }
    }
}
