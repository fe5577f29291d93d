//! The cost of a recording for a call whose page is in memory: `cargo run --release -p millpond --example record_cost`.
//!
//! Each figure is the least of nine rounds of 200,000 calls on one thread, so that what else the machine does counts
//! little: nanoseconds a call. `off, again` says how far two figures of the same thing are apart.
#![allow(clippy::print_stdout, reason = "it prints its figures")]

use millpond::{File, OpenOptions, PageCache};
use std::time::Instant;

const CALLS: u64 = 200_000;
const PAGES: u64 = 1024;

fn least(mut round: impl FnMut()) -> f64 {
    let time = |_| {
        let began = Instant::now();
        round();
        began.elapsed().as_nanos() as f64 / CALLS as f64
    };
    (0..9).map(time).fold(f64::INFINITY, f64::min)
}

fn figures(name: &str, file: &File) -> Result<(), millpond::Error> {
    let mut failed = Ok(());
    let page = least(|| {
        for n in 0..CALLS {
            failed = file.page(n * 7 % PAGES).map(|page| {
                std::hint::black_box(page[0]);
            });
        }
    });
    failed?;
    let mut buffer = vec![0; 4096];
    let mut failed = Ok(0);
    let read = least(|| {
        for n in 0..CALLS {
            failed = file.read_at(&mut buffer, n * 7 % PAGES * 4096);
        }
    });
    failed?;
    println!("{name:>12}: page {page:6.1} ns, read_at of 4 KiB {read:6.1} ns");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("millpond-record-cost-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let cache = PageCache::builder().memory(64 << 20).build()?;
    let file = cache.open(folder.join("data"), OpenOptions::new().create(true))?;
    file.write_at(&vec![1; (PAGES * 4096) as usize], 0)?;
    file.sync_data()?;
    figures("off", &file)?;
    let recording = cache.record(folder.join("trace"))?;
    figures("on", &file)?;
    let recorded = recording.stop()?;
    figures("off, again", &file)?;
    println!(
        "recorded {} calls in {} bytes, {:.2} a call; {} lost",
        recorded.accesses,
        recorded.bytes,
        recorded.bytes as f64 / recorded.accesses as f64,
        recorded.lost
    );
    file.close()?;
    Ok(std::fs::remove_dir_all(&folder)?)
}
