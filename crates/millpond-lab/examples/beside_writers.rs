//! Where the time of a read beside writers goes: the processor, waiting for one, the device, Millpond itself.
//!
//! ```text
//! cargo run --release -p millpond-lab --example beside_writers [DIR [SECONDS [ROUNDS [ONLY]]]]
//! ```
//!
//! One reader reads pages of 4 KiB at random, and half of them, by chance, go past Millpond: a `pread` of the same file
//! with direct I/O. Both kinds meet the same device and the same writers. Of each read: how long it took; of that, what its
//! thread ran, and what it was ready to run and had no processor (`/proc/thread-self/schedstat`). The rest is the device
//! and its interrupt. Takes 2 GiB in DIR.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints tables"
)]

use millpond::{Advice, OpenOptions, PageCache};
use millpond_sim::draw::Draw;
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const MEMORY: u64 = 512 << 20;
const READ_FILE: u64 = 1 << 30;
/// As in the experiment `axboe2016`.
const FILE: u64 = 100 << 20;
/// Nanoseconds in which no device answers.
const HIT_MAX: u64 = 5_000;
const O_DIRECT: i32 = 0o40000;

/// The load beside the reader.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Beside {
    /// Nothing.
    Nothing,
    /// As many computing threads as processors.
    Computing,
    /// A writer of new files.
    Writer,
}

impl Beside {
    const ALL: [Beside; 3] = [Beside::Nothing, Beside::Computing, Beside::Writer];

    fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "alone",
            Beside::Computing => "beside two threads that compute",
            Beside::Writer => "beside a writer of new files",
        }
    }
}

/// For a read, in nanoseconds.
#[derive(Clone, Copy)]
struct Read {
    took: u64,
    ran: u64,
    ready: u64,
}

struct Meter {
    schedstat: File,
}

impl Meter {
    fn new() -> Meter {
        Meter {
            schedstat: File::open("/proc/thread-self/schedstat").unwrap(),
        }
    }

    fn now(&self) -> (u64, u64) {
        let mut text = [0; 64];
        let len = self.schedstat.read_at(&mut text, 0).unwrap();
        let text = std::str::from_utf8(&text[..len]).unwrap();
        let ready = text.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
        let ran = clock_gettime(ClockId::ThreadCPUTime);
        (ran.tv_sec as u64 * 1_000_000_000 + ran.tv_nsec as u64, ready)
    }

    fn time(&self, read: impl FnOnce()) -> Read {
        let (ran, ready) = self.now();
        let began = Instant::now();
        read();
        let took = began.elapsed().as_nanos() as u64;
        let (ran_then, ready_then) = self.now();
        Read {
            took,
            ran: ran_then - ran,
            ready: ready_then - ready,
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds: f64 = arguments.next().map_or(2.0, |text| text.parse().unwrap());
    let rounds: usize = arguments.next().map_or(5, |text| text.parse().unwrap());
    let only = arguments.next().unwrap_or_default();
    let dir = dir.join(format!("millpond-beside-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let mut seen: BTreeMap<(Beside, bool), Vec<Vec<Read>>> = BTreeMap::new();
    let mut rates = Vec::new();
    for round in 0..rounds {
        for beside in Beside::ALL
            .into_iter()
            .filter(|beside| beside.name().contains(&only))
        {
            let (reads, rate) = run(&dir, beside, Duration::from_secs_f64(seconds), round as u64);
            for (way, reads) in reads.into_iter().enumerate() {
                seen.entry((beside, way == 0)).or_default().push(reads);
            }
            if beside == Beside::Writer {
                rates.push(rate);
            }
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
    rates.sort_by(f64::total_cmp);
    if !rates.is_empty() {
        println!(
            "written: {:.0} MiB/s ({:.0}..{:.0})",
            rates[rates.len() / 2],
            rates[0],
            rates[rates.len() - 1]
        );
    }
    println!("| reads | | p50 us | p99 | median read: ran | ready | device | over time, p50 |");
    println!("|---|---|---|---|---|---|---|---|");
    for ((beside, is_raw), rounds) in seen {
        let way = if is_raw { "pread" } else { "Millpond" };
        let median = |of: &dyn Fn(&[Read]) -> f64| {
            let mut all: Vec<f64> = rounds.iter().map(|reads| of(reads)).collect();
            all.sort_by(f64::total_cmp);
            format!(
                "{:.1} ({:.1}..{:.1})",
                all[all.len() / 2],
                all[0],
                all[all.len() - 1]
            )
        };
        println!(
            "| {} | {way} | {} | {} | {} | {} | {} | {} |",
            beside.name(),
            median(&|reads| quantile(reads, 0.5, |read| read.took)),
            median(&|reads| quantile(reads, 0.99, |read| read.took)),
            median(&|reads| around_median(reads, |read| read.ran)),
            median(&|reads| around_median(reads, |read| read.ready)),
            median(&|reads| around_median(reads, |read| read.took.saturating_sub(read.ran + read.ready))),
            median(&over_time),
        );
    }
}

fn quantile(reads: &[Read], share: f64, of: impl Fn(&Read) -> u64) -> f64 {
    let mut all: Vec<u64> = reads.iter().map(of).collect();
    all.sort_unstable();
    all[(all.len() as f64 * share) as usize] as f64 / 1e3
}

/// The mean over those that took about as long as the median: parts of medians don't add up, these do.
fn around_median(reads: &[Read], of: impl Fn(&Read) -> u64) -> f64 {
    let mut all = reads.to_vec();
    all.sort_by_key(|read| read.took);
    let middle = &all[all.len() * 45 / 100..all.len() * 55 / 100 + 1];
    middle.iter().map(of).sum::<u64>() as f64 / middle.len() as f64 / 1e3
}

/// The mean latency of a read under way at a random moment.
fn over_time(reads: &[Read]) -> f64 {
    let mut all: Vec<u64> = reads.iter().map(|read| read.took).collect();
    all.sort_unstable();
    let mut left = all.iter().sum::<u64>() / 2;
    let under_way = all.iter().find(|&&took| {
        let is_it = took >= left;
        left = left.saturating_sub(took);
        is_it
    });
    *under_way.unwrap() as f64 / 1e3
}

/// The reads past Millpond and through it, and MiB written a second.
fn run(dir: &Path, beside: Beside, length: Duration, seed: u64) -> ([Vec<Read>; 2], f64) {
    let path = dir.join("read");
    let cache = PageCache::builder().memory(MEMORY).build().unwrap();
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    let data: Vec<u8> = (0..1 << 20_u32).map(|n| (n >> 3) as u8).collect();
    if file.len() < READ_FILE {
        for at in (0..READ_FILE).step_by(data.len()) {
            file.write_at(&data, at).unwrap();
        }
        file.sync_all().unwrap();
    }
    file.advise(Advice::Random).unwrap();
    let raw = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(O_DIRECT)
        .open(&path)
        .unwrap();
    let mut reads = [Vec::new(), Vec::new()];
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let rate = std::thread::scope(|scope| {
        let is_over = &is_over;
        match beside {
            Beside::Nothing => {}
            Beside::Computing => {
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !is_over.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                }
            }
            Beside::Writer => {
                scope.spawn(|| {
                    write(&cache, dir, &data, is_over, &written);
                });
            }
        }
        let mut draw = Draw(seed + 1);
        let meter = Meter::new();
        let (mut buf, mut aligned) = (vec![0; PAGE], vec![0_u8; 2 * PAGE]);
        let shift = aligned.as_ptr().align_offset(PAGE);
        let began = Instant::now();
        let mut begun = None;
        while began.elapsed() < length {
            let at = draw.below(READ_FILE / PAGE as u64) * PAGE as u64;
            // By chance: what the one does to the writers' turns meets both.
            let is_raw = draw.one_in(2);
            let read = meter.time(|| match is_raw {
                true => raw.read_exact_at(&mut aligned[shift..shift + PAGE], at).unwrap(),
                false => drop(file.read_at(&mut buf, at).unwrap()),
            });
            // The controller and the writer have settled, and it was no hit.
            if began.elapsed() > length / 5 && read.took > HIT_MAX {
                begun.get_or_insert((Instant::now(), written.load(Ordering::Relaxed)));
                reads[usize::from(!is_raw)].push(read);
            }
        }
        let (since, before) = begun.unwrap();
        is_over.store(true, Ordering::Relaxed);
        (written.load(Ordering::Relaxed) - before) as f64 / f64::from(1 << 20) / since.elapsed().as_secs_f64()
    });
    file.close().unwrap();
    (reads, rate)
}

fn write(cache: &PageCache, dir: &Path, data: &[u8], is_over: &AtomicBool, written: &AtomicU64) {
    // Kept open, as their pages are still on their way.
    let mut files = VecDeque::new();
    for n in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        if files.len() == 8 {
            files.pop_front();
        }
        let path = dir.join(format!("written-{}", n % 16));
        let _ = std::fs::remove_file(&path);
        let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
        for at in (0..FILE).step_by(data.len()) {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            file.write_at(data, at).unwrap();
            written.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        files.push_back(file);
    }
}
