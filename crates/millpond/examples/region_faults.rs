//! What a fault of a region costs here, with the floor beside it.
//!
//! `cargo run --release -p millpond --example region_faults -- [region MiB] [budget MiB] [swap file]`; with `kernel` for the
//! budget the same memory is the kernel's own, which swaps if its memory group is small enough.
//!
//! Each line is one case: a page touched once, in random order, by one thread; p50 and p99 of the single touches, with
//! two readings of the clock in them, and processor time of the whole process for each. The last cases are eight threads.

use millpond::{PageCache, SwapFile};
use std::time::Instant;

const PAGE: usize = 4096;

/// Nanoseconds of processor time of all threads so far.
fn processor_ns() -> u64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    tasks.flatten().filter_map(of).sum()
}

fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn shuffled(count: usize) -> Vec<usize> {
    let (mut order, mut state): (Vec<usize>, u64) = ((0..count).collect(), 1);
    for n in (1..count).rev() {
        order.swap(n, random(&mut state) as usize % (n + 1));
    }
    order
}

fn report(case: &str, mut took: Vec<u64>, cpu_ns: u64, seconds: f64) {
    took.sort_unstable();
    let at = |share: usize| took[(took.len() - 1) * share / 1000] as f64 / 1000.0;
    let cpu = cpu_ns as f64 / 1000.0 / took.len() as f64;
    eprintln!(
        "{case:34} {:8} touches  p50 {:7.2} us  p99 {:8.2} us  p99.9 {:8.2} us  cpu {cpu:6.2} us  {:8.0}/s",
        took.len(),
        at(500),
        at(990),
        at(999),
        took.len() as f64 / seconds
    );
}

/// Touches pages one by one.
fn touch(case: &str, memory: &mut [u8], pages: &[usize], writes: bool) {
    let (cpu, began) = (processor_ns(), Instant::now());
    let mut took = Vec::with_capacity(pages.len());
    for &page in pages {
        let at = Instant::now();
        let byte = &mut memory[page * PAGE];
        if writes {
            *byte = byte.wrapping_add(1);
        } else {
            std::hint::black_box(*byte);
        }
        took.push(at.elapsed().as_nanos() as u64);
    }
    report(case, took, processor_ns() - cpu, began.elapsed().as_secs_f64());
}

/// The same by several threads, each in a part of its own.
fn touch_together(case: &str, memory: &mut [u8], threads: usize, writes: bool) {
    let part = memory.len() / threads / PAGE * PAGE;
    let (cpu, began) = (processor_ns(), Instant::now());
    let took: Vec<u64> = std::thread::scope(|scope| {
        let work = |(n, memory): (usize, &mut [u8])| {
            let (mut state, pages) = (n as u64 + 1, memory.len() / PAGE);
            let mut took = Vec::new();
            while began.elapsed().as_secs() < 3 {
                let page = random(&mut state) as usize % pages;
                let at = Instant::now();
                let byte = &mut memory[page * PAGE];
                if writes {
                    *byte = byte.wrapping_add(1);
                } else {
                    std::hint::black_box(*byte);
                }
                took.push(at.elapsed().as_nanos() as u64);
            }
            took
        };
        let parts = memory.chunks_mut(part).take(threads).enumerate();
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_default())
            .collect()
    });
    report(case, took, processor_ns() - cpu, began.elapsed().as_secs_f64());
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let len = args.first().map_or(Ok(512), |a| a.parse::<usize>())? << 20;
    let order = shuffled(len / PAGE);
    if args.get(1).is_some_and(|a| a == "kernel") {
        let mut memory = vec![0_u8; len];
        touch("kernel: first touch", &mut memory, &order, true);
        touch_together("kernel: read, 1 thread, 3 s", &mut memory, 1, false);
        touch_together("kernel: write, 8 threads, 3 s", &mut memory, 8, true);
        touch_together("kernel: read, 8 threads, 3 s", &mut memory, 8, false);
        return Ok(());
    }
    let budget = args.get(1).map_or(Ok(128), |a| a.parse::<u64>())? << 20;
    let path = args
        .get(2)
        .map_or("/var/tmp/millpond-faults.swap", String::as_str);
    let swap = SwapFile::new(path, 2 * len as u64).unlinked(true);
    let cache = PageCache::builder().memory(budget).swap(swap).build()?;

    let small = budget as usize / 4;
    let some = shuffled(small / PAGE);
    let mut plain = vec![0_u8; small];
    touch("kernel: first touch", &mut plain, &some, true);
    touch("a page that is there", &mut plain, &some, true);
    drop(plain);
    let mut region = cache.region(len)?;
    touch("region: first touch", region.as_mut_slice(), &some, true);
    // They have been moved out since, to see whether they are used: each touch brings one back.
    touch("region: soft fault", region.as_mut_slice(), &some, true);
    touch(
        "region: a page that is there",
        region.as_mut_slice(),
        &some[..64],
        true,
    );
    touch(
        "region: all, first touch beyond",
        region.as_mut_slice(),
        &order,
        true,
    );
    let before = cache.stats().counters.pswpin;
    touch_together("region: read, 1 thread, 3 s", region.as_mut_slice(), 1, false);
    eprintln!("  {} swap-ins", cache.stats().counters.pswpin - before);
    let before = cache.stats().counters.pswpin;
    touch_together("region: write, 8 threads, 3 s", region.as_mut_slice(), 8, true);
    eprintln!("  {} swap-ins", cache.stats().counters.pswpin - before);
    let before = cache.stats().counters.pswpin;
    touch_together("region: read, 8 threads, 3 s", region.as_mut_slice(), 8, false);
    eprintln!("  {} swap-ins", cache.stats().counters.pswpin - before);
    Ok(())
}
