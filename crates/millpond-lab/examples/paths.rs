//! The cost of hits, misses and streams, compared with the kernel's page cache and fio on the same file.
//!
//! ```text
//! cargo run --release -p millpond-lab --example paths [DIR] [hit|miss|stream|scan ...]
//! ```
//!
//! Needs about 5 GiB in DIR, and fio for the comparisons with the bare device. Runs are interleaved; medians with
//! the range of all runs behind them.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints tables"
)]

use millpond::{Advice, File, OpenOptions, PageCache};
use millpond_core::io::Reason;
use millpond_lab::measure::process::resident_peak_mib;
use millpond_sim::draw::Draw;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const RUNS: usize = 5;
const PAGE: u64 = 4096;
const SECONDS: Duration = Duration::from_secs(3);

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = match arguments.first() {
        Some(first) if Path::new(first).is_dir() => PathBuf::from(arguments.remove(0)),
        _ => std::env::temp_dir(),
    };
    let wants = |name: &str| arguments.is_empty() || arguments.iter().any(|a| a == name);
    let file = Scratch(dir.join(format!("millpond-paths-{}", std::process::id())));
    if wants("hit") {
        hit(&file.0);
    }
    if wants("miss") {
        miss(&file.0);
    }
    if wants("stream") {
        stream(&file.0);
    }
    if wants("scan") {
        scan(&file.0);
    }
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A file of `bytes`, written whole, past the page cache.
fn make(path: &Path, bytes: u64) {
    if std::fs::metadata(path).is_ok_and(|m| m.len() == bytes) {
        return;
    }
    let cache = PageCache::builder().memory(64 << 20).build().unwrap();
    let file = cache.open(path, OpenOptions::new().create(true)).unwrap();
    file.set_len(0).unwrap();
    let data: Vec<u8> = (0..1 << 20_u32).map(|n| (n >> 3) as u8).collect();
    for at in (0..bytes).step_by(data.len()) {
        file.write_at(&data, at).unwrap();
    }
    file.close().unwrap();
}

fn row(name: &str, unit: &str, mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    println!(
        "| {name} | {median:.1} {unit} | {:.1} to {:.1} |",
        values[0],
        values[values.len() - 1]
    );
    median
}

fn resident() {
    println!(
        "| resident, peak | {:.0} MiB of 512 + 32 | |",
        resident_peak_mib().unwrap_or(0.0)
    );
}

fn head(title: &str) {
    println!("\n### {title}\n\n| what | median of {RUNS} | range |\n|---|---|---|");
}

/// Nanoseconds for one operation when `threads` threads do `count` each at the same time.
fn per_operation(threads: usize, count: u64, operation: impl Fn(u64) + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let took: Vec<Duration> = std::thread::scope(|scope| {
        let spawn = |n| {
            let (operation, barrier) = (&operation, &barrier);
            scope.spawn(move || {
                let mut draw = Draw(n as u64 * 7919 + 1);
                // The random numbers are drawn before, so that only the operation is measured.
                let picks: Vec<u64> = (0..1 << 16).map(|_| draw.below(1 << 40)).collect();
                // Warm what the runs of other kinds have pushed out.
                for i in 0..count / 8 {
                    operation(picks[i as usize & 0xffff].wrapping_add(i >> 16));
                }
                barrier.wait();
                let began = Instant::now();
                for i in 0..count {
                    operation(picks[i as usize & 0xffff].wrapping_add(i >> 16));
                }
                began.elapsed()
            })
        };
        let all: Vec<_> = (0..threads).map(spawn).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    took.iter().max().unwrap().as_nanos() as f64 / count as f64
}

fn hit(path: &Path) {
    make(path, 1 << 30);
    let cache = PageCache::builder().memory(1400 << 20).build().unwrap();
    let file = cache.open(path, OpenOptions::new()).unwrap();
    let plain = std::fs::File::open(path).unwrap();
    let mut buf = vec![0; 1 << 20];
    for at in (0..1 << 30).step_by(buf.len()) {
        file.read_at(&mut buf, at).unwrap();
        plain.read_exact_at(&mut buf, at).unwrap();
    }
    println!("frames in huge pages: {}", cache.stats().is_huge);
    for (name, bytes) in [("16 MiB", 16_u64 << 20), ("1 GiB", 1 << 30)] {
        let pages = bytes / PAGE; // a power of two
        let count = 4_000_000;
        let (mut one, mut two, mut touch, mut copy, mut pread) = (vec![], vec![], vec![], vec![], vec![]);
        // What a pin costs at least: one look at 16 bytes of a table, each begun when the one before has ended.
        let cells: Vec<[AtomicU64; 2]> = (0..pages).map(|_| Default::default()).collect();
        let mut floor = vec![];
        let last = AtomicU64::new(0);
        let look = |n: u64| {
            let at = (n ^ last.load(Ordering::Relaxed)) & (pages - 1);
            last.store(cells[at as usize][1].load(Ordering::Acquire), Ordering::Relaxed);
        };
        let pin = |n: u64| drop(black_box(file.page(n & (pages - 1)).unwrap()));
        for round in 0..RUNS {
            floor.push(per_operation(1, count, look));
            // Each comes first as often as the other: what ran before has filled the caches with its own.
            if round % 2 == 0 {
                one.push(per_operation(1, count, pin));
                two.push(per_operation(2, count, pin));
            } else {
                two.push(per_operation(2, count, pin));
                one.push(per_operation(1, count, pin));
            }
            touch.push(per_operation(1, count, |n| {
                black_box(file.page(n & (pages - 1)).unwrap()[8]);
            }));
            let mut buf = [0; PAGE as usize];
            let cell = std::sync::Mutex::new(&mut buf);
            copy.push(per_operation(1, count / 8, |n| {
                let mut buf = cell.lock().unwrap();
                file.read_at(*buf, (n & (pages - 1)) * PAGE).unwrap();
            }));
            pread.push(per_operation(1, count / 8, |n| {
                let mut buf = cell.lock().unwrap();
                plain.read_exact_at(*buf, (n & (pages - 1)) * PAGE).unwrap();
            }));
        }
        head(&format!("Hits, random pages of {name}"));
        row("one look into a table of as many entries", "ns", floor);
        let one = row("`page()` and drop", "ns", one);
        let two = row("`page()` and drop, two threads on the same pages", "ns", two);
        println!(
            "| throughput of two threads | {:.2} times one | |",
            2.0 * one / two
        );
        row("`page()`, one byte of it, drop", "ns", touch);
        let copy = row("`read_at` of 4 KiB", "ns", copy);
        let pread = row("`pread` of 4 KiB from the kernel's cache", "ns", pread);
        println!(
            "| `pread` against `read_at` | {:.2} times as long | |",
            pread / copy
        );
    }
    drop(cache);
}

/// Runs fio on the file; what it reports in terse field `field`.
fn fio(path: &Path, arguments: &[&str], field: usize) -> Option<f64> {
    let out = Command::new("fio")
        // Its buffers in huge pages, as Millpond's frames are: of scattered ones the block layer makes more requests.
        .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        .args([
            "--name=x",
            "--direct=1",
            "--ioengine=io_uring",
            "--output-format=terse",
            "--time_based",
            "--runtime=3",
        ])
        .arg(format!("--filename={}", path.display()))
        .args(arguments)
        .output()
        .ok()?;
    String::from_utf8_lossy(&out.stdout)
        .split(';')
        .nth(field)?
        .parse()
        .ok()
}

/// Reads a second of random single pages by one thread that asks for `ahead` of them before it needs them.
fn prefetched(file: &File, pages: u64, ahead: u64, seed: u64) -> f64 {
    let (mut asking, mut reading) = (Draw(seed), Draw(seed));
    for _ in 0..ahead {
        file.prefetch(asking.below(pages) * PAGE, PAGE).unwrap();
    }
    let began = Instant::now();
    let mut reads = 0;
    while began.elapsed() < SECONDS {
        for _ in 0..64 {
            file.prefetch(asking.below(pages) * PAGE, PAGE).unwrap();
            black_box(file.page(reading.below(pages)).unwrap()[0]);
            reads += 1;
        }
    }
    reads as f64 / began.elapsed().as_secs_f64()
}

/// The same by `threads` threads that read one page at a time.
fn threaded(file: &File, pages: u64, threads: u64, seed: u64) -> f64 {
    let began = Instant::now();
    let reads: u64 = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|n| {
                scope.spawn(move || {
                    let (mut draw, mut reads) = (Draw(seed + n * 77), 0);
                    while began.elapsed() < SECONDS {
                        for _ in 0..16 {
                            black_box(file.page(draw.below(pages)).unwrap()[0]);
                            reads += 1;
                        }
                    }
                    reads
                })
            })
            .collect();
        all.into_iter().map(|t| t.join().unwrap()).sum()
    });
    reads as f64 / began.elapsed().as_secs_f64()
}

/// Read requests to the device so far.
fn device_reads(cache: &PageCache) -> f64 {
    let requests = cache.stats().counters.io_requests;
    Reason::ALL
        .iter()
        .filter(|r| r.is_read())
        .map(|&r| requests[r as usize] as f64)
        .sum()
}

fn miss(path: &Path) {
    const FILE: u64 = 4 << 30;
    const MEMORY: u64 = 512 << 20;
    make(path, FILE);
    let (mut bare, mut one, mut one_device, mut many, mut many_device) =
        (vec![], vec![], vec![], vec![], vec![]);
    for run in 0..RUNS as u64 {
        if let Some(iops) = fio(
            path,
            &["--rw=randread", "--bs=4k", "--iodepth=32", "--norandommap"],
            7,
        ) {
            bare.push(iops);
        }
        let cache = PageCache::builder().memory(MEMORY).build().unwrap();
        let file = cache.open(path, OpenOptions::new()).unwrap();
        file.advise(Advice::Random).unwrap();
        // Fill the pool, so that every miss evicts and no frame is used for the first time.
        while cache.stats().counters.pgsteal() < 10_000 {
            prefetched(&file, FILE / PAGE, 32, run + 100);
        }
        let before = device_reads(&cache);
        one.push(prefetched(&file, FILE / PAGE, 32, run));
        let between = device_reads(&cache);
        many.push(threaded(&file, FILE / PAGE, 32, run));
        one_device.push((between - before) / SECONDS.as_secs_f64());
        many_device.push((device_reads(&cache) - between) / SECONDS.as_secs_f64());
    }
    head("Misses: random 4 KiB of 4 GiB through 512 MiB, 32 outstanding");
    let bare = (!bare.is_empty()).then(|| row("fio, io_uring, O_DIRECT", "reads/s", bare));
    row("32 threads, a page at a time: pages", "pages/s", many);
    let many = row("the same: reads of the device", "reads/s", many_device);
    row("one thread that prefetches 32 ahead: pages", "pages/s", one);
    let one = row("the same: reads of the device", "reads/s", one_device);
    if let Some(bare) = bare {
        println!(
            "| reads of the device against fio | {:.0} % and {:.0} % | |",
            many / bare * 100.0,
            one / bare * 100.0
        );
    }
    resident();
}

fn stream(path: &Path) {
    const FILE: u64 = 4 << 30;
    make(path, FILE);
    let mib_s = |began: Instant| (FILE >> 20) as f64 / began.elapsed().as_secs_f64();
    let (mut bare_read, mut bare_write, mut read, mut write) = (vec![], vec![], vec![], vec![]);
    let mut buf = vec![7; 1 << 20];
    for _ in 0..RUNS {
        let sequential = ["--bs=1m", "--iodepth=8"];
        if let Some(kib) = fio(path, &[&["--rw=read"], &sequential[..]].concat(), 6) {
            bare_read.push(kib / 1024.0);
        }
        let cache = PageCache::builder().memory(512 << 20).build().unwrap();
        let file = cache.open(path, OpenOptions::new().write(true)).unwrap();
        let began = Instant::now();
        for at in (0..FILE).step_by(buf.len()) {
            file.read_at(&mut buf, at).unwrap();
        }
        read.push(mib_s(began));
        if let Some(kib) = fio(path, &[&["--rw=write"], &sequential[..]].concat(), 47) {
            bare_write.push(kib / 1024.0);
        }
        let began = Instant::now();
        for at in (0..FILE).step_by(buf.len()) {
            file.write_at(&buf, at).unwrap();
        }
        file.sync_data().unwrap();
        write.push(mib_s(began));
    }
    head("Streams: 4 GiB in calls of 1 MiB through 512 MiB");
    let have_fio = !bare_read.is_empty() && !bare_write.is_empty();
    let bare = have_fio.then(|| {
        let read = row("fio reads, io_uring, O_DIRECT, 8 x 1 MiB", "MiB/s", bare_read);
        (read, row("fio overwrites, the same", "MiB/s", bare_write))
    });
    let read = row("`read_at`, sequential", "MiB/s", read);
    let write = row("`write_at`, sequential overwrite, sync included", "MiB/s", write);
    if let Some((bare_read, bare_write)) = bare {
        println!(
            "| against fio | {:.0} % and {:.0} % | |",
            read / bare_read * 100.0,
            write / bare_write * 100.0
        );
    }
    resident();
}

fn scan(path: &Path) {
    const MEMORY: u64 = 512 << 20;
    const FILE: u64 = 4 * MEMORY;
    const HOT: u64 = MEMORY / 2 / PAGE;
    make(path, FILE + MEMORY / 2);
    let mut ratios = vec![];
    for run in 0..RUNS as u64 {
        let cache = PageCache::builder().memory(MEMORY).build().unwrap();
        let file = cache.open(path, OpenOptions::new()).unwrap();
        let mut draw = Draw(run + 1);
        // The hot set follows the scanned part. It is used a few times before the scan.
        let hot_at = |n: u64| FILE + n * PAGE;
        let mut buf = vec![0; PAGE as usize];
        for n in 0..4 * HOT {
            file.read_at(&mut buf, hot_at((n * 7919) % HOT)).unwrap();
        }
        let (mut hits, mut reads) = (0_u64, 0_u64);
        let mut chunk = vec![0; 1 << 18];
        for at in (0..FILE).step_by(chunk.len()) {
            file.read_at(&mut chunk, at).unwrap();
            // As many hot pages as the scan has just read.
            for _ in 0..chunk.len() as u64 / PAGE {
                let offset = hot_at(draw.below(HOT));
                hits += u64::from(file.is_resident(offset));
                reads += 1;
                file.read_at(&mut buf, offset).unwrap();
            }
        }
        ratios.push(hits as f64 / reads as f64 * 100.0);
    }
    head("A scan of 2 GiB beside a hot set of 256 MiB, in 512 MiB");
    row("hits of the hot set", "%", ratios);
    resident();
}
