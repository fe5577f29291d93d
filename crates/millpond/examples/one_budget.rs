//! A file and a region in one budget, where a page of the one costs more to get back than a page of the other.
//!
//! `cargo run --release -p millpond --example one_budget -- [file] [swap's folder] [MiB] [seconds] [rounds]`
//!
//! One thread touches a page of either, in turns, some pages more often than others: both are as large as memory, which is
//! so many MiB. Each round does so with `replacement.scan_balance_max_per_mille=0` and with the default, as long as is said
//! before it measures and then again. `file` is overwritten where it exists, and removed where it does not; the two should
//! be on disks that are not equally fast, such as `disk.img` of `millpond slowdisk` and a real one.

#![allow(clippy::print_stdout, reason = "the table is what it is for")]

use millpond::{OpenOptions, PageCache, SwapFile};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;

/// The figures of a second: touches, and misses of the file and of the region.
struct Row {
    touches: f64,
    file: f64,
    region: f64,
    prices: millpond::stats::RefaultCosts,
}

struct Draw(u64);

impl Draw {
    /// A page: half of the draws are of an eighth of them.
    fn page(&mut self, pages: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let u = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        // Pages that are used alike do not lie together.
        ((u * u * u * pages as f64) as u64).wrapping_mul(7919) % pages
    }
}

fn run(
    files: &[PathBuf; 2],
    memory: u64,
    lean: Option<&str>,
    span: Duration,
) -> Result<Row, Box<dyn std::error::Error>> {
    let swap = SwapFile::new(&files[1], 2 * memory);
    let cache = PageCache::builder().memory(memory).swap(swap).build()?;
    if let Some(lean) = lean {
        cache.set(&[("replacement.scan_balance_max_per_mille", lean)])?;
    }
    let file = cache.open(&files[0], OpenOptions::new())?;
    let mut region = cache.region(memory as usize)?;
    region
        .as_mut_slice()
        .chunks_mut(PAGE as usize)
        .for_each(|page| page[0] = 1);
    let (mut draw, mut page, mut sum) = (Draw(88_172_645_463_325_252), [0; 8], 0_u64);
    let mut work = |span: Duration| -> millpond::Result<(u64, Duration)> {
        let (began, mut touches) = (Instant::now(), 0);
        while began.elapsed() < span {
            for _ in 0..16 {
                file.read_at(&mut page, draw.page(memory / PAGE) * PAGE)?;
                sum += u64::from(page[0])
                    + u64::from(region.as_slice()[(draw.page(memory / PAGE) * PAGE) as usize]);
                touches += 2;
            }
        }
        Ok((touches, began.elapsed()))
    };
    work(span)?;
    let before = cache.stats().counters;
    let (touches, took) = work(span)?;
    let after = cache.stats().counters;
    std::hint::black_box(sum);
    let a_second = |count: u64| count as f64 / took.as_secs_f64();
    let region_misses = after.pswpin - before.pswpin;
    Ok(Row {
        touches: a_second(touches),
        file: a_second(after.pgmajfault - before.pgmajfault - region_misses),
        region: a_second(region_misses),
        prices: cache.stats().refault_costs,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let own = format!("millpond-one-budget-{}", std::process::id());
    let file = args
        .next()
        .map_or_else(|| std::env::temp_dir().join(&own), PathBuf::from);
    let swap = args
        .next()
        .map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
        .join(own + ".swap");
    let mut number = |otherwise: u64| args.next().map_or(Ok(otherwise), |text| text.parse());
    let (memory, seconds, rounds) = (number(64)? << 20, number(10)?, number(3)?);
    let is_ours = !file.exists();
    let bytes = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&file)?;
    bytes.write_all_at(&vec![1; memory as usize], 0)?;
    bytes.sync_all()?;
    let files = [file, swap];
    println!(
        "round  what reads cost    touches/s  file misses/s  region misses/s  file read us  region read us  lean"
    );
    let done = (1..=rounds).try_for_each(|round| {
        for (name, lean) in [("does not matter", Some("0")), ("matters", None)] {
            let row = run(&files, memory, lean, Duration::from_secs(seconds))?;
            let Row {
                touches,
                file,
                region,
                prices,
            } = row;
            let us = |read: millpond::units::Nanos| read.0 as f64 / 1000.0;
            let (of_file, of_region, lean) =
                (us(prices.file), us(prices.region), prices.scan_balance_per_mille);
            print!("{round:>5}  {name:<16} {touches:>11.0} {file:>14.0} {region:>16.0}");
            println!(" {of_file:>13.0} {of_region:>15.0} {lean:>5}");
        }
        Ok(())
    });
    let _ = fs::remove_file(&files[1]);
    if is_ours {
        fs::remove_file(&files[0])?;
    }
    done
}
