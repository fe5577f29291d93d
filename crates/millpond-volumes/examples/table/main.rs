//! What a store does on this machine, a request taking 0, 5 and 30 ms more:
//!
//! ```sh
//! cargo run --release --manifest-path crates/millpond-volumes/Cargo.toml --example table -- memory://table 1024
//! ```
//!
//! A URL, and how many MiB; on S3 with the server's address and credentials in the environment, as AWS' tools read them. With
//! `map` instead of a URL: what the map of 1, 10 and 100 GiB takes. With `cache` behind them: only what goes through a cache.

#![allow(clippy::print_stdout, reason = "that is what it is for")]

use millpond::{PageCache, device};
use millpond_volumes::format::op::Op;
use millpond_volumes::format::{Checkpoint, ObjectId, PageEntry};
use millpond_volumes::layout::State;
use millpond_volumes::{CacheError, CacheStore, Error, Store, StoreOptions, StoreReader, Volumes};
use std::time::{Duration, Instant};

const PAGE: u64 = 64 << 10;
const MIB: u64 = 1 << 20;
const BUDGET: u64 = 512 * MIB;

fn main() -> Result<(), CacheError> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| String::from("memory://table"));
    let mib = arguments.next().and_then(|mib| mib.parse().ok()).unwrap_or(1024);
    if url == "map" {
        [1, 10, 100].into_iter().for_each(map);
        return Ok(());
    }
    let is_whole = arguments.next().is_none_or(|what| what != "cache");
    for delay_ms in [0, 5, 30] {
        let url = format!("{url}/{delay_ms}ms-{}", std::process::id());
        println!("{url}: {mib} MiB in pages of 64 KiB, {delay_ms} ms more a request");
        if is_whole {
            table(&url, mib, &options(delay_ms), delay_ms > 0)?;
        }
        through_a_cache(&format!("{url}-cached"), mib, &options(delay_ms))?;
    }
    Ok(())
}

fn options(delay_ms: u64) -> StoreOptions {
    StoreOptions::new()
        .delay(Duration::from_millis(delay_ms))
        .grace(Duration::from_secs(3))
        .take_over(true)
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn content(page: u64, version: u64) -> Vec<u8> {
    let mut draw = Draw(page << 20 ^ version);
    let word = draw.below(u64::MAX).to_le_bytes();
    word.repeat(PAGE as usize / 8)
}

/// What the system says of this process' memory.
fn memory_mib(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

fn peak_mib() -> u64 {
    memory_mib("VmHWM:")
}

fn resident_mib() -> u64 {
    memory_mib("VmRSS:")
}

fn row(what: &str, value: String) {
    println!("  {what:<46} {value}");
}

fn rate(mib: u64, took: Duration) -> String {
    format!("{:.0} MB/s", (mib * MIB) as f64 / 1e6 / took.as_secs_f64())
}

fn spread(mut took: Vec<Duration>) -> String {
    took.sort();
    let at = |share: usize| took[(took.len() * share / 100).min(took.len() - 1)].as_secs_f64() * 1e3;
    format!("p50 {:.2} ms, p99 {:.2} ms", at(50), at(99))
}

/// The same through a cache, which is empty before the reading.
fn through_a_cache(url: &str, mib: u64, options: &StoreOptions) -> Result<(), CacheError> {
    let before = resident_mib();
    // From here on the highest.
    let is_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let store = cached(url, options)?;
    let file = store.create("file")?;
    let block: Vec<u8> = (0..16).flat_map(|page| content(page, 0)).collect();
    let began = Instant::now();
    for at in (0..mib * MIB).step_by(block.len()) {
        file.write_at(&block, at)?;
    }
    file.sync_data()?;
    row(
        "a cache of 512 MiB: write, 1 MiB a call, a sync",
        rate(mib, began.elapsed()),
    );
    let puts = store.store().usage().requests.puts;
    row("  puts", puts.to_string());
    drop(file);
    store.close()?;
    drop(store);

    let store = cached(url, options)?;
    let file = store.open("file")?;
    let mut buffer = vec![0; MIB as usize];
    let before_reading = store.store().usage().requests.gets;
    let began = Instant::now();
    for at in (0..mib * MIB).step_by(buffer.len()) {
        file.read_at(&mut buffer, at)?;
    }
    row("  sequential read, 1 MiB a call", rate(mib, began.elapsed()));
    let usage = store.store().usage();
    row("  gets", (usage.requests.gets - before_reading).to_string());
    let stored = match url.starts_with("memory://") {
        true => usage.layout.stored_bytes / MIB,
        false => 0,
    };
    let peak = peak_mib().saturating_sub(before + stored);
    match is_reset {
        true => row("  peak memory, without a store in memory", format!("{peak} MiB")),
        false => row("  peak memory", String::from("unknown: it can't be reset here")),
    }
    Ok(())
}

fn cached(url: &str, options: &StoreOptions) -> Result<CacheStore, CacheError> {
    let volumes = Volumes::new(device::best()).map_err(Error::System)?;
    let builder = PageCache::builder().memory(BUDGET).page_size(PAGE);
    let cache = builder.device(volumes.clone()).build()?;
    volumes.store(&cache, url, options.clone())
}

fn table(url: &str, mib: u64, options: &StoreOptions, is_slow: bool) -> Result<(), Error> {
    let began = Instant::now();
    let store = Store::open(url, options.clone())?;
    row(
        "open, empty",
        format!("{:.1} ms", began.elapsed().as_secs_f64() * 1e3),
    );
    let file = store.create("file")?;
    let pages = mib * MIB / PAGE;

    let before = store.usage().requests;
    let block: Vec<u8> = (0..64).flat_map(|page| content(page, 0)).collect();
    let began = Instant::now();
    for at in (0..mib * MIB).step_by(block.len()) {
        file.write_at(&block, at)?;
    }
    store.sync()?;
    row("sequential write, one sync", rate(mib, began.elapsed()));
    let after = store.usage().requests;
    let put = (after.put_bytes - before.put_bytes) as f64 / (mib * MIB) as f64;
    row(
        "  puts, bytes put for each byte",
        format!("{}, {put:.3}", after.puts - before.puts),
    );

    let mut buffer = vec![0; (32 * MIB) as usize];
    let began = Instant::now();
    for at in (0..mib * MIB).step_by(buffer.len()) {
        file.read_at(&mut buffer, at)?;
    }
    row("sequential read, 32 MiB a call", rate(mib, began.elapsed()));
    row("  gets", format!("{}", store.usage().requests.gets - after.gets));

    let (mut draw, mut took) = (Draw(7), Vec::new());
    let times = if is_slow { 100 } else { 500 };
    for _ in 0..times {
        let began = Instant::now();
        file.read_at(&mut buffer[..PAGE as usize], draw.below(pages) * PAGE)?;
        took.push(began.elapsed());
    }
    row("random read of a page", spread(std::mem::take(&mut took)));

    for version in 0..times / 2 {
        let page = draw.below(pages);
        let bytes = content(page, version);
        let began = Instant::now();
        file.write_at(&bytes, page * PAGE)?;
        store.sync()?;
        took.push(began.elapsed());
    }
    row("one page and sync", spread(std::mem::take(&mut took)));

    for version in 0..20 {
        let chosen: Vec<(u64, Vec<u8>)> = (0..64)
            .map(|_| draw.below(pages))
            .map(|page| (page, content(page, version)))
            .collect();
        let began = Instant::now();
        for (page, bytes) in chosen {
            file.write_at(&bytes, page * PAGE)?;
        }
        store.sync()?;
        took.push(began.elapsed());
    }
    row("64 random pages and sync", spread(took));

    let before = store.usage().requests;
    let overwritten = 2 * pages;
    for n in 0..overwritten {
        let page = draw.below(pages);
        file.write_at(&content(page, n), page * PAGE)?;
        if n % 128 == 127 {
            store.sync()?;
        }
    }
    store.sync()?;
    let usage = store.usage();
    let put = (usage.requests.put_bytes - before.put_bytes) as f64 / (overwritten * PAGE) as f64;
    row(
        "random overwrite, a sync each 8 MiB: put, a byte",
        format!("{put:.2}"),
    );
    let stored = usage.layout.stored_bytes as f64 / usage.layout.live_bytes as f64;
    row("  stored with garbage, for a live byte", format!("{stored:.2}"));
    let began = Instant::now();
    let reader = StoreReader::open(url, options.clone())?;
    row(
        "open a reader",
        format!("{:.1} ms", began.elapsed().as_secs_f64() * 1e3),
    );
    drop(reader);
    row(
        "peak memory of the process",
        format!("{} MiB (a store in memory is in it)", peak_mib()),
    );
    store.close()
}

/// What the map of so many GiB takes.
fn map(gib: u64) {
    let entries = (0..gib << 14).map(|page| PageEntry {
        page,
        object: ObjectId::chunk(1, (page / 64) as u32),
        offset: (page % 64 * PAGE) as u32,
        bytes: PAGE as u32,
        kept: PAGE as u32,
        checksum: page,
    });
    let ops = vec![
        Op::Create {
            file: 0,
            name: String::from("file"),
        },
        Op::Length {
            file: 0,
            bytes: gib << 30,
        },
        Op::Pages {
            file: 0,
            entries: entries.collect(),
        },
    ];
    let checkpoint = Checkpoint {
        number: 1,
        epoch: 1,
        page_bytes: PAGE as u32,
        ops,
    };
    let began = Instant::now();
    let bytes = checkpoint.encode();
    let encoded = began.elapsed();
    drop(checkpoint);
    let began = Instant::now();
    let Ok(checkpoint) = Checkpoint::decode(&bytes) else {
        return;
    };
    let before = resident_mib();
    let Ok(state) = State::from_ops(&checkpoint.ops, PAGE as u32) else {
        return;
    };
    println!(
        "{gib} GiB: a checkpoint of {:.1} MB, written in {:.2} s, read in {:.2} s; the map takes {} MiB, {} objects",
        bytes.len() as f64 / 1e6,
        encoded.as_secs_f64(),
        began.elapsed().as_secs_f64(),
        resident_mib() - before,
        state.live.len()
    );
}
