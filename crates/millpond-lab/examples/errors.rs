//! The cost of a file that can't be written for another file of the same cache, and what becomes of it once it can.
//!
//! ```text
//! cargo run --release -p millpond-lab --example errors [DIR] [disk|ssd|reader|writer ...]
//! ```
//!
//! File B has a writer that overwrites it as fast as it can and a reader of random pages, for a few seconds;
//! or only one of them, which then shares the disk with A only. Beside them file A is idle; or is written, 64
//! KiB every 2 ms; or is written in the same way and the device refuses every write of it with EIO. Runs are
//! interleaved, each on a new cache of 64 MiB. After each of the last kind the fault ends, no thread does
//! anything, and A must come to be on the device as it was accepted. `ssd` puts the service times of a
//! modelled disk around the file. Needs about 0.7 GiB in DIR.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints tables"
)]

use millpond::device;
use millpond::device::{Access, DeviceFile};
use millpond::{Advice, File, OpenOptions, PageCache};
use millpond_lab::measure::latency::Latencies;
use millpond_sim::disk::{Model, SsdParameters};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty, Modelled};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
const SECONDS: Duration = Duration::from_secs(4);
const PAGE: u64 = 4096;
const MEMORY: u64 = 64 << 20;
/// B: half of it is overwritten, the other read.
const WELL_BYTES: u64 = 512 << 20;
const SICK_BYTES: u64 = 64 << 20;
/// The size and interval of A's writes.
const SICK_PART: u64 = 64 << 10;
const SICK_EVERY: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
    Nothing,
    Writes,
    Refused,
}

impl Beside {
    const ALL: [Beside; 3] = [Beside::Nothing, Beside::Writes, Beside::Refused];

    fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "A is idle",
            Beside::Writes => "A is written",
            Beside::Refused => "A is written, EIO",
        }
    }
}

/// The threads that use B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Users {
    Both,
    Reader,
    Writer,
}

impl Users {
    const ALL: [(Users, &str); 3] = [
        (Users::Both, "writer and reader"),
        (Users::Reader, "reader"),
        (Users::Writer, "writer"),
    ];
}

/// The result of a run.
#[derive(Clone, Debug)]
struct Run {
    writer_mib_s: f64,
    reads_s: f64,
    p50_us: f64,
    p99_us: f64,
    refused: u64,
    failed_pages: u64,
    recovered_s: f64,
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = match arguments.first() {
        Some(first) if Path::new(first).is_dir() => PathBuf::from(arguments.remove(0)),
        _ => std::env::temp_dir(),
    };
    let scratch = Scratch(dir.join(format!("millpond-errors-{}", std::process::id())));
    std::fs::create_dir(&scratch.0).unwrap();
    make(&scratch.0.join("well"), WELL_BYTES);
    let is_asked = |name: &str| arguments.iter().any(|a| a == name);
    let (asks_kind, asks_user) = (
        is_asked("disk") || is_asked("ssd"),
        is_asked("reader") || is_asked("writer"),
    );
    for (kind, (users, name)) in ["disk", "ssd"]
        .into_iter()
        .flat_map(|kind| Users::ALL.map(|u| (kind, u)))
    {
        let both = users == Users::Both;
        if asks_kind && !is_asked(kind) || asks_user == both || !both && !is_asked(name) {
            continue;
        }
        let mut runs: Vec<(Beside, Vec<Run>)> = Beside::ALL.map(|beside| (beside, Vec::new())).into();
        for round in 0..ROUNDS {
            // Each round begins with another one.
            for n in 0..Beside::ALL.len() {
                let (beside, runs) = &mut runs[(round + n) % Beside::ALL.len()];
                runs.push(run(&scratch.0, (kind, users), *beside, (round * 3 + n) as u64));
            }
        }
        print(&format!("{kind}, {name}"), users, &runs);
    }
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file of `bytes`, written whole, past the page cache.
fn make(path: &Path, bytes: u64) {
    let cache = PageCache::builder().memory(MEMORY).build().unwrap();
    let file = cache.open(path, OpenOptions::new().create(true)).unwrap();
    let data: Vec<u8> = (0..1 << 20_u32).map(|n| (n >> 3) as u8).collect();
    for at in (0..bytes).step_by(data.len()) {
        file.write_at(&data, at).unwrap();
    }
    file.close().unwrap();
}

fn run(dir: &Path, (kind, users): (&str, Users), beside: Beside, seed: u64) -> Run {
    let mut inner = device::best();
    if kind == "ssd" {
        let model = Model::ssd(SsdParameters::default()).unwrap();
        inner = Arc::new(Modelled::new(inner, model).unwrap());
    }
    let faulty = Arc::new(Faulty::new(inner, seed));
    let builder = PageCache::builder().memory(MEMORY).device(faulty.clone());
    let cache = builder
        .read_latency_goal(Duration::from_millis(2))
        .build()
        .unwrap();
    let sick_path = dir.join(format!("sick-{seed}"));
    let well = cache
        .open(dir.join("well"), OpenOptions::new().write(true))
        .unwrap();
    well.advise(Advice::Random).unwrap();
    let sick = cache.open(&sick_path, OpenOptions::new().create(true)).unwrap();
    sick.set_len(SICK_BYTES).unwrap();
    sick.sync_data().unwrap();
    if beside == Beside::Refused {
        let identity = DeviceFile::open(&sick_path, Access::Read).unwrap().identity();
        faulty.add(FaultRule {
            file: Some(identity),
            ..FaultRule::always(FaultTarget::Writes, Fault::Fail(5))
        });
    }
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let (latencies, (written, wrote_for), (versions, refused)) = thread::scope(|scope| {
        let (stop, well, sick) = (&stop, &well, &sick);
        let reader = (users != Users::Writer).then(|| scope.spawn(move || read(well, seed, stop)));
        let writer = (users != Users::Reader).then(|| scope.spawn(move || write(well, stop)));
        let other = scope.spawn(move || write_sick(sick, beside, seed, stop));
        thread::sleep(SECONDS);
        stop.store(true, Ordering::Relaxed);
        (
            reader.map_or_else(Latencies::new, |thread| thread.join().unwrap()),
            writer.map_or((0, SECONDS), |thread| thread.join().unwrap()),
            other.join().unwrap(),
        )
    });
    let failed_pages = cache.stats().occupancy.failed.0;
    let recovered_s = recover(&cache, &faulty, &sick_path, &versions);
    drop(sick);
    assert!(cache.take_lost().is_empty());
    std::fs::remove_file(&sick_path).unwrap();
    Run {
        writer_mib_s: (written >> 20) as f64 / wrote_for.as_secs_f64(),
        reads_s: latencies.count() as f64 / began.elapsed().as_secs_f64().min(SECONDS.as_secs_f64()),
        p50_us: latencies.percentile_us(0.5).unwrap_or(0.0),
        p99_us: latencies.percentile_us(0.99).unwrap_or(0.0),
        refused,
        failed_pages,
        recovered_s,
    }
}

fn read(file: &File, seed: u64, stop: &AtomicBool) -> Latencies {
    let (mut random, mut latencies) = (fastrand::Rng::with_seed(seed), Latencies::new());
    let pages = WELL_BYTES / PAGE / 2;
    while !stop.load(Ordering::Relaxed) {
        let page = pages + random.u64(0..pages);
        let began = Instant::now();
        drop(file.page(page).unwrap());
        latencies.record(began.elapsed());
    }
    latencies
}

/// Bytes that were written, and how long that took with their sync.
fn write(file: &File, stop: &AtomicBool) -> (u64, Duration) {
    let (data, began) = (vec![3; 1 << 20], Instant::now());
    let mut written = 0;
    while !stop.load(Ordering::Relaxed) {
        file.write_at(&data, written % (WELL_BYTES / 2)).unwrap();
        written += data.len() as u64;
    }
    file.sync_data().unwrap();
    (written, began.elapsed())
}

/// The version of each page that was accepted last, and how many writes were refused.
fn write_sick(file: &File, beside: Beside, seed: u64, stop: &AtomicBool) -> (Vec<u64>, u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut versions = vec![0; (SICK_BYTES / PAGE) as usize];
    let (mut refused, mut version) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        if beside != Beside::Nothing {
            version += 1;
            let data: Vec<u8> = (0..SICK_PART / 8)
                .flat_map(|_| u64::to_le_bytes(version))
                .collect();
            let part = random.u64(0..SICK_BYTES / SICK_PART);
            if file.write_at(&data, part * SICK_PART).is_ok() {
                let pages = (SICK_PART / PAGE) as usize;
                versions[part as usize * pages..][..pages].fill(version);
            } else {
                refused += 1;
            }
        }
        thread::sleep(SICK_EVERY);
    }
    (versions, refused)
}

/// The fault ends; how long it takes until nothing is dirty. No call asks for that.
fn recover(cache: &PageCache, faulty: &Faulty, path: &Path, versions: &[u64]) -> f64 {
    faulty.clear();
    let began = Instant::now();
    while cache.stats().occupancy.failed.0 > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not recover");
        thread::sleep(Duration::from_millis(5));
    }
    let took = began.elapsed().as_secs_f64();
    // What has not failed leaves in its turn, up to 30 s later; this is not about that.
    cache.sync_all().unwrap();
    let on_device = std::fs::read(path).unwrap();
    for (page, &version) in versions.iter().enumerate() {
        let bytes = &on_device[page * PAGE as usize..][..PAGE as usize];
        let there = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(there >= version, "page {page} has version {there}, not {version}");
        assert!(
            bytes.chunks(8).all(|part| part == &bytes[..8]),
            "page {page} is torn"
        );
    }
    took
}

/// The median of the runs, with the least and the greatest.
fn cell(runs: &[Run], value: impl Fn(&Run) -> f64) -> (f64, String) {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    let digits = usize::from(median < 100.0);
    let range = (values[0], values[values.len() - 1]);
    (
        median,
        format!("{median:.digits$} ({:.digits$} to {:.digits$})", range.0, range.1),
    )
}

fn print(head: &str, users: Users, all: &[(Beside, Vec<Run>)]) {
    println!("\n### {head}, {ROUNDS} rounds of {} s\n", SECONDS.as_secs());
    type Column = (&'static str, fn(&Run) -> f64);
    let columns: [Column; 4] = [
        ("writer MiB/s", |r| r.writer_mib_s),
        ("reads/s", |r| r.reads_s),
        ("read p50 us", |r| r.p50_us),
        ("read p99 us", |r| r.p99_us),
    ];
    let columns = match users {
        Users::Both => &columns[..],
        Users::Reader => &columns[1..],
        Users::Writer => &columns[..1],
    };
    let heads: Vec<_> = columns.iter().map(|(head, _)| *head).collect();
    println!(
        "| B beside | {} |\n|---|{}",
        heads.join(" | "),
        "---|".repeat(heads.len())
    );
    for (beside, runs) in all {
        let cells: Vec<_> = columns.iter().map(|(_, value)| cell(runs, value).1).collect();
        println!("| {} | {} |", beside.name(), cells.join(" | "));
    }
    let sick = &all[all.len() - 1].1;
    for (beside, base) in &all[..all.len() - 1] {
        let more = columns.iter().map(|(_, value)| {
            // Of each round, as the disk's own speed changes from one to the next.
            let mut ratios: Vec<f64> = sick.iter().zip(base).map(|(s, b)| value(s) / value(b)).collect();
            ratios.sort_by(f64::total_cmp);
            format!("{:+.1} %", (ratios[ratios.len() / 2] - 1.0) * 100.0)
        });
        println!(
            "| EIO against \"{}\", median of the rounds | {} |",
            beside.name(),
            more.collect::<Vec<_>>().join(" | ")
        );
    }
    println!("\n| A with EIO | median (range) |\n|---|---|");
    println!(
        "| pages that could not be written at the end | {} |",
        cell(sick, |r| r.failed_pages as f64).1
    );
    println!("| writes refused | {} |", cell(sick, |r| r.refused as f64).1);
    println!(
        "| all of them on the device after the fault had ended, s | {} |",
        cell(sick, |r| r.recovered_s).1
    );
}
