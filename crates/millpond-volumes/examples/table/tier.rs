//! A reader in a cache that is smaller than what it reads, with a disk tier and without.

use crate::measure::{Draw, MIB, PAGE, Result, content, row, spread};
use crate::store::options;
use millpond::{File, PageCache};
use millpond_volumes::{CacheReader, Requests, Store, TierUsage, Volumes};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

const BUDGET: u64 = 128 << 20;
const CALL: u64 = MIB;
const RANDOM: u64 = 500;

struct Opened {
    reader: CacheReader,
    file: File,
    before: (Requests, TierUsage),
}

fn open(url: &str, delay_ms: u64, tier: Option<(&str, u64)>) -> Result<Opened> {
    let volumes = Volumes::new(millpond::device::best())?;
    let builder = PageCache::builder().memory(BUDGET).page_size(PAGE);
    let cache = builder.device(volumes.clone()).build()?;
    let mut options = options(delay_ms);
    if let Some((path, mib)) = tier {
        options = options.disk_tier(path, NonZeroU64::new(mib * MIB).ok_or("no size")?);
    }
    let reader = volumes.reader(&cache, url, options)?;
    let file = reader.open("file")?;
    let before = (
        reader.reader().requests(),
        reader.reader().tier().unwrap_or_default(),
    );
    Ok(Opened { reader, file, before })
}

impl Opened {
    /// What that took since it was asked last.
    fn took(&mut self, what: &str, took: String) {
        let now = (
            self.reader.reader().requests(),
            self.reader.reader().tier().unwrap_or_default(),
        );
        let (requests, tier) = &self.before;
        row(
            what,
            format!(
                "{took}; {} GETs of {} MiB; tier: read {}, written {} MiB, {} pages skipped",
                now.0.gets - requests.gets,
                (now.0.get_bytes - requests.get_bytes) / MIB,
                (now.1.hit_bytes - tier.hit_bytes) / MIB,
                (now.1.written_bytes - tier.written_bytes) / MIB,
                now.1.skipped - tier.skipped,
            ),
        );
        self.before = now;
    }

    fn in_order(&mut self, what: &str, from: u64, to: u64) -> Result<()> {
        let mut call = vec![1; CALL as usize];
        let mut took = Duration::ZERO;
        for at in (from * MIB..to * MIB).step_by(call.len()) {
            let began = Instant::now();
            self.file.read_exact_at(&mut call, at)?;
            took += began.elapsed();
            if call[..PAGE as usize] != content(at / PAGE, 0) {
                return Err(format!("other bytes at {at}").into());
            }
        }
        let rate = (to - from) as f64 / took.as_secs_f64();
        self.took(what, format!("{rate:.0} MiB/s"));
        Ok(())
    }

    fn at_random(&mut self, what: &str, to: u64, seed: u64, times: u64) -> Result<()> {
        let (mut draw, mut page, mut took) = (Draw(seed), vec![1; PAGE as usize], Vec::new());
        for _ in 0..times {
            let n = draw.below(to * MIB / PAGE);
            let began = Instant::now();
            self.file.read_exact_at(&mut page, n * PAGE)?;
            took.push(began.elapsed());
        }
        self.took(what, spread(took));
        Ok(())
    }
}

pub(crate) fn table(url: &str, mib: u64, path: &str, delay_ms: u64) -> Result<()> {
    let url = &format!("{url}/tier-{delay_ms}ms-{}", std::process::id());
    println!("{url}: {mib} MiB through a cache of 128 MiB, {delay_ms} ms more a request");
    let store = Store::open(url, options(0))?;
    let file = store.create("file")?;
    for page in 0..mib * MIB / PAGE {
        file.write_at(&content(page, 0), page * PAGE)?;
    }
    store.close()?;
    for (what, tier) in [
        ("none", None),
        ("a tier for all of it", Some(mib * 5 / 4)),
        ("a tier for half of it", Some(mib / 2)),
    ] {
        println!(" {what}");
        let _ = std::fs::remove_file(path);
        let tier = tier.map(|mib| (path, mib));
        let mut opened = open(url, delay_ms, tier)?;
        opened.in_order("cold, in order", 0, mib)?;
        drop(opened);
        let mut opened = open(url, delay_ms, tier)?;
        opened.in_order("restarted, in order", 0, mib)?;
        drop(opened);
        let mut opened = open(url, delay_ms, tier)?;
        opened.at_random("restarted, pages at random", mib, 7, RANDOM)?;
        drop(opened);
        // A hot quarter, which memory has half of, beside a scan of the rest.
        let _ = std::fs::remove_file(path);
        let mut opened = open(url, delay_ms, tier)?;
        let hot = mib / 4;
        opened.in_order("a hot quarter", 0, hot)?;
        opened.in_order("  once more", 0, hot)?;
        opened.in_order("a scan of the rest", hot, mib)?;
        opened.at_random("the hot quarter again", hot, 13, RANDOM)?;
        drop(opened);
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}
