//! Random writes and reads of a region that is larger than the budget, checked word by word by several threads.
//!
//! `cargo run --release -p millpond --example region_words -- [region MiB] [budget MiB] [threads] [seconds] [swap file]
//! [in-thread]`
//!
//! Each thread works on a part of its own: a random page, or the 64 pages after it one after the other.

use millpond::{Faults, PageCache, RegionOptions, SwapFile};
use std::time::{Duration, Instant};

fn word(n: usize, times: u32) -> u64 {
    (n as u64 ^ u64::from(times) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, otherwise: u64| args.get(n).map_or(Ok(otherwise), |a| a.parse());
    let (region, memory) = (number(0, 256)? << 20, number(1, 64)? << 20);
    let (threads, seconds) = (number(2, 4)? as usize, number(3, 10)?);
    let swap = args.get(4).map_or("/var/tmp/millpond-words.swap", String::as_str);
    let swap = SwapFile::new(swap, region * 2).unlinked(true);
    let cache = PageCache::builder().memory(memory).swap(swap).build()?;
    let faults = match args.get(5).map(String::as_str) {
        Some("in-thread") => Faults::InThread,
        _ => Faults::Handlers,
    };
    let mut region = cache.region_with(region as usize, &RegionOptions::new().faults(faults))?;
    let words = region.as_mut_slice_of::<u64>();
    let part = words.len().div_ceil(threads);
    let began = Instant::now();
    let checked: u64 = std::thread::scope(|scope| {
        let worker = |(n, words): (usize, &mut [u64])| -> u64 {
            let mut random = n as u64 + 1;
            let mut times = vec![0_u32; words.len() / 512 + 1];
            let mut checked = 0;
            // A page is written as a whole; single words of it are read.
            while began.elapsed() < Duration::from_secs(seconds) {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let at = ((u128::from(random) * words.len() as u128) >> 64) as usize;
                let run = if random >> 9 & 31 == 0 { 64 } else { 1 };
                for page in (at / 512..times.len()).take(run) {
                    let at = (page * 512 + at % 512).min(words.len() - 1);
                    let is = |at, times| if times == 0 { 0 } else { word(at, times) };
                    assert_eq!(words[at], is(at, times[at / 512]), "thread {n}, word {at}");
                    checked += 1;
                    if random >> 8 & 1 == 0 {
                        times[page] += 1;
                        let end = words.len().min(page * 512 + 512);
                        (page * 512..end).for_each(|at| words[at] = word(at, times[page]));
                    }
                }
            }
            for (at, &found) in words.iter().enumerate() {
                let times = times[at / 512];
                assert_eq!(
                    found,
                    if times == 0 { 0 } else { word(at, times) },
                    "thread {n}, word {at}, at the end"
                );
                checked += 1;
            }
            checked
        };
        let mut handles = Vec::new();
        for (n, words) in words.chunks_mut(part).enumerate() {
            handles.push(scope.spawn(move || worker((n, words))));
        }
        handles.into_iter().map(|h| h.join().unwrap_or(0)).sum()
    });
    eprintln!(
        "{checked} words checked in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    eprint!("{}", cache.stats());
    Ok(())
}
