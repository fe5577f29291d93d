//! What one run does.

use super::{Cache, Run};
use crate::content::{self, PAGE_BYTES};
use crate::hits::disk_reads;
use anyhow::{Context, Result, ensure};
use foldhash::fast::RandomState;
use millpond::{OpenOptions, PageCache};
use rustix::fs::{Advice, OFlags, fadvise};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The file is so many times as large as the memory.
const FILE_TIMES: u64 = 4;

const THREADS: u64 = 4;

/// Of eight parts of the others' memory so many are pages: they count no entries, tables and pages that are on their way in or
/// out, and with all of it for pages moka was killed for want of memory. Millpond's budget has these in it.
const PAGES_OF_8: u64 = 7;

/// Pages that a thread has drawn before it begins; it reads them over and over, from another place each time.
const DRAWN: usize = 1 << 20;

/// No disk takes longer to fill a cache twice.
const FILL_MAX: Duration = Duration::from_secs(120);

/// What a run has done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// Reads that did not go to the disk.
    pub hits_percent: f64,
    /// Of all threads together.
    pub reads_per_ms: f64,
}

fn pages(run: &Run) -> u64 {
    run.memory * FILE_TIMES / PAGE_BYTES as u64
}

/// Makes the file that a run reads; outside of its group. Nothing of it stays in the kernel's page cache.
pub(super) fn make_file(run: &Run) -> Result<()> {
    let mut file = File::create_new(&run.path)?;
    let mut bytes = vec![0; 256 * PAGE_BYTES];
    for first in (0..pages(run)).step_by(256) {
        content::fill(&mut bytes, first);
        file.write_all(&bytes)?;
    }
    file.sync_all()?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

/// A page as it must lie in memory for a read past the page cache.
#[repr(align(4096))]
struct Aligned([u8; PAGE_BYTES]);

/// The file, past the page cache.
struct Direct(File);

impl Direct {
    fn open(run: &Run) -> Result<Direct> {
        let flags = OFlags::DIRECT.bits() as i32;
        let file = fs::OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&run.path);
        Ok(Direct(file.context(
            "needs a file system with O_DIRECT: --dir says where",
        )?))
    }

    fn page(&self, page: u64) -> Option<[u8; PAGE_BYTES]> {
        let mut bytes = Aligned([0; PAGE_BYTES]);
        self.0
            .read_exact_at(&mut bytes.0, page * PAGE_BYTES as u64)
            .ok()?;
        Some(bytes.0)
    }
}

/// Does it.
///
/// # Errors
/// If the file can't be read, or a word is not what it should be.
pub fn run(run: &Run) -> Result<Done> {
    if let Some(group) = &run.group {
        group.enter()?;
    }
    let capacity = run.memory / PAGE_BYTES as u64 * PAGES_OF_8 / 8;
    let hash = RandomState::default();
    match run.cache {
        Cache::Millpond => {
            let cache = PageCache::builder().memory(run.memory).build()?;
            let file = cache.open(&run.path, OpenOptions::new())?;
            read(run, |page, place| {
                Some(content::read(&file.page(page).ok()?, place))
            })
        }
        Cache::QuickCache => {
            let (direct, unit) = (Direct::open(run)?, quick_cache::UnitWeighter);
            let lifecycle = quick_cache::sync::DefaultLifecycle::default();
            let cache = quick_cache::sync::Cache::with(capacity as usize, capacity, unit, hash, lifecycle);
            read(run, |page, place| {
                let load = || direct.page(page).map(Arc::new).ok_or(());
                let found = cache.get_or_insert_with(&page, load).ok()?;
                Some(content::read(&found[..], place))
            })
        }
        Cache::Moka => {
            let direct = Direct::open(run)?;
            let builder = moka::sync::Cache::builder().max_capacity(capacity);
            let cache = builder.build_with_hasher(hash);
            read(run, |page, place| {
                let found = cache.optionally_get_with(page, || direct.page(page).map(Arc::new))?;
                Some(content::read(&found[..], place))
            })
        }
        Cache::Foyer => {
            let direct = Direct::open(run)?;
            let builder = foyer_memory::CacheBuilder::new(capacity as usize)
                .with_eviction_config(foyer_memory::S3FifoConfig::default())
                .with_hash_builder(hash);
            let cache: foyer_memory::Cache<u64, Box<[u8; PAGE_BYTES]>, RandomState> = builder.build();
            // Its single flight is for async programs: here two threads may read the same page at once.
            read(run, |page, place| {
                let found = match cache.get(&page) {
                    Some(found) => found,
                    None => cache.insert(page, Box::new(direct.page(page)?)),
                };
                Some(content::read(&found[..], place))
            })
        }
        Cache::Kernel => {
            let file = File::open(&run.path)?;
            fadvise(&file, 0, None, Advice::Random)?;
            read(run, |page, place| {
                let mut bytes = [0; 8];
                let at = page * PAGE_BYTES as u64 + place as u64 * 8;
                file.read_exact_at(&mut bytes, at).ok()?;
                Some(u64::from_le_bytes(bytes))
            })
        }
    }
}

/// Reads pages with `word` on some threads for a while.
fn read(run: &Run, word: impl Fn(u64, usize) -> Option<u64> + Sync) -> Result<Done> {
    let zipf = Zipf::new(pages(run), run.exponent);
    let (word, zipf) = (&word, &zipf);
    let (over, reads, failed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (over, reads, failed) = (&over, &reads, &failed);
    let measured = thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                let drawn: Vec<u32> = (0..DRAWN).map(|_| zipf.draw(&mut random)).collect();
                while !over.load(Ordering::Relaxed) {
                    let from = random.usize(..DRAWN - 64);
                    for &page in drawn.iter().skip(from).take(64) {
                        let page = u64::from(page);
                        let place = page as usize % content::PAGE_WORDS;
                        if word(page, place) != Some(content::word(page)) {
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    reads.fetch_add(64, Ordering::Relaxed);
                }
            });
        }
        // Until every cache is full, and has had to choose as often again.
        let (began, from) = (Instant::now(), disk_reads().unwrap_or_default());
        while disk_reads().is_ok_and(|read| read - from < 2 * run.memory) && began.elapsed() < FILL_MAX {
            thread::sleep(Duration::from_millis(20));
        }
        let before = (reads.load(Ordering::Relaxed), disk_reads());
        thread::sleep(Duration::from_millis(run.read_ms));
        let after = (reads.load(Ordering::Relaxed), disk_reads());
        over.store(true, Ordering::Relaxed);
        Ok::<_, anyhow::Error>((after.0 - before.0, after.1? - before.1?))
    });
    let (reads, bytes) = measured?;
    let failed = failed.load(Ordering::Relaxed);
    ensure!(failed == 0, "{failed} reads gave nothing or not what they should");
    let missed = bytes as f64 / PAGE_BYTES as f64;
    Ok(Done {
        hits_percent: 100.0 * (1.0 - missed / reads.max(1) as f64),
        reads_per_ms: reads as f64 / run.read_ms as f64,
    })
}

/// Pages by Zipf's law, in another order than they lie in.
struct Zipf {
    /// How likely the first n pages are together.
    sums: Vec<f64>,
}

impl Zipf {
    fn new(pages: u64, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=pages).map(|n| {
            sum += (n as f64).powf(-exponent);
            sum
        });
        Zipf { sums: sums.collect() }
    }

    fn draw(&self, random: &mut fastrand::Rng) -> u32 {
        let at = random.f64() * self.sums.last().copied().unwrap_or_default();
        let rank = self.sums.partition_point(|&sum| sum < at) as u64;
        // An odd factor less than the size, which is a power of two or has no such divisor: all pages, each once.
        (rank * 40_503 % self.sums.len() as u64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_thousand_pages_is_drawn_as_often_as_zipf_says() {
        let zipf = Zipf::new(1024, 1.0);
        let mut random = fastrand::Rng::with_seed(3);
        let mut counts = vec![0_u32; 1024];
        (0..100_000).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
        let harmonic: f64 = (1..=1024).map(|n| 1.0 / f64::from(n)).sum();
        let first = f64::from(counts[0]) / 100_000.0;
        assert!((first * harmonic - 1.0).abs() < 0.05, "{first}");
        assert!(counts.iter().all(|&count| count < counts[0] + 1));
    }
}
