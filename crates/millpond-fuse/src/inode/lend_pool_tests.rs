//! The kernel as a set of chunks: what is read and not in it is asked for, and lent.

use super::Inode;
use super::lend_pool::{LendPool, LendRoom};
use super::lent::CHUNK_BYTES;
use millpond::{OpenOptions, PageCache, SetAside};
use std::fs::File;
use std::sync::Arc;

/// A budget of 16 MiB, of which a half may be lent: 128 chunks.
const BUDGET: u64 = 16 << 20;

struct Kernel {
    pool: LendPool,
    cache: PageCache,
    inode: Arc<Inode>,
    folder: tempfile::TempDir,
    _set_aside: SetAside,
}

fn inode(folder: &tempfile::TempDir) -> Arc<Inode> {
    let fd: std::os::fd::OwnedFd = File::open(folder.path()).unwrap().into();
    let stat = rustix::fs::fstat(&fd).unwrap();
    Arc::new(Inode::new(2, &stat, fd, None))
}

impl Kernel {
    fn new() -> Kernel {
        let cache = PageCache::builder().memory(BUDGET).build().unwrap();
        let room = Arc::new(LendRoom::new(|budget| budget / 2));
        let rule = room.clone();
        let set_aside = cache.set_aside_by(move |budget| rule.rule(budget)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        Kernel {
            pool: LendPool::new(cache.clone(), room),
            cache,
            inode: inode(&folder),
            folder,
            _set_aside: set_aside,
        }
    }

    /// Reads a chunk; whether the kernel had it.
    fn read(&self, chunk: u64) -> bool {
        let range = chunk * CHUNK_BYTES..(chunk + 1) * CHUNK_BYTES;
        if self.inode.lent.overlaps(&range) {
            return true;
        }
        self.pool.lend(&self.inode, &range, true);
        self.inode.lent.end_read(&range);
        self.work();
        false
    }

    /// What the lender does.
    fn work(&self) {
        self.pool.divide();
        while let Some(victim) = self.pool.victim() {
            self.pool.taken(&victim);
        }
    }

    /// How many of them the kernel has.
    fn hits(&self, chunks: std::ops::Range<u64>) -> usize {
        chunks.filter(|&chunk| self.read(chunk)).count()
    }

    fn frames(&self) -> u64 {
        self.cache.stats().occupancy.frames.0
    }
}

#[test]
fn what_is_used_is_lent_in_full_up_to_half_of_the_budget_and_stays_under_a_scan() {
    let kernel = Kernel::new();
    let at_first = kernel.frames();
    for _ in 0..3 {
        kernel.hits(0..80);
    }
    assert_eq!(kernel.hits(0..80), 80);
    assert!(kernel.frames() < at_first - 1000, "{} frames", kernel.frames());
    // Some were never taken back, so nothing is known of their use.
    kernel.hits(1000..1100);
    kernel.hits(0..80);
    for n in 2..20 {
        kernel.hits(1000 * n..1000 * n + 50);
        assert_eq!(kernel.hits(0..80), 80, "after part {n} of a scan");
    }
    assert!(kernel.pool.bytes() <= BUDGET / 2);
}

#[test]
fn a_part_of_a_loop_that_is_longer_than_what_may_be_lent_stays_lent() {
    let kernel = Kernel::new();
    for _ in 0..8 {
        kernel.hits(0..160);
    }
    let hits = kernel.hits(0..160);
    assert!(hits >= 64, "{hits} of 160");
}

#[test]
fn a_working_set_that_fits_only_without_lent_pages_gets_their_memory() {
    let kernel = Kernel::new();
    for _ in 0..3 {
        kernel.hits(0..100);
    }
    let lent = kernel.pool.bytes();
    let path = kernel.folder.path().join("file");
    let file = kernel.cache.open(path, OpenOptions::new().create(true)).unwrap();
    file.set_len(12 << 20).unwrap();
    let misses = || kernel.cache.stats().counters.page_misses;
    let mut bytes = vec![0; 1 << 16];
    let mut read_once = || {
        let before = misses();
        for at in (0..12 << 20).step_by(1 << 16) {
            file.read_at(&mut bytes, at).unwrap();
            kernel.work();
        }
        misses() - before
    };
    let tries = (0..200).take_while(|_| read_once() > 0).count();
    assert!(
        tries < 200,
        "{} pages missing, {} bytes lent",
        read_once(),
        kernel.pool.bytes()
    );
    assert!(kernel.pool.bytes() < lent / 3 * 2);
}

#[test]
fn what_is_known_of_files_that_the_kernel_has_forgotten_is_dropped() {
    let mut kernel = Kernel::new();
    let mut known = Vec::new();
    for _ in 0..500 {
        kernel.inode = inode(&kernel.folder);
        known.push(kernel.inode.clone());
        assert!(!kernel.read(0));
        kernel.pool.forget(kernel.inode.lent.clear());
    }
    let kept = known.iter().filter(|inode| Arc::weak_count(inode) > 0).count();
    assert!(kept < 200, "{kept} of 500");
    assert_eq!(kernel.pool.bytes(), 0);
}

#[test]
fn what_was_used_before_a_scan_is_found_while_memory_is_plentiful_and_stays_under_it() {
    let kernel = Kernel::new();
    for _ in 0..3 {
        kernel.hits(0..40);
    }
    assert_eq!(kernel.hits(0..40), 40);
    kernel.hits(1000..1100);
    // Nothing was known of the newest eighth of the share.
    assert_eq!(kernel.hits(0..40), 32);
    kernel.hits(2000..5000);
    assert_eq!(kernel.hits(0..40), 40);
}
