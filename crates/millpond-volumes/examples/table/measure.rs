//! The measurements, the same of whatever is measured.

use millpond_volumes::Requests;
use std::time::{Duration, Instant};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

pub(crate) const PAGE: u64 = 64 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// A file that is measured.
pub(crate) trait Target {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()>;
    fn sync(&self) -> Result<()>;

    /// Lets go of what is cached here; false: nothing is.
    fn forget(&self) -> Result<bool>;

    /// Requests up to now, if they are counted here.
    fn requests(&self) -> Requests {
        Requests::default()
    }
}

pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

pub(crate) fn content(page: u64, version: u64) -> Vec<u8> {
    let mut draw = Draw(page << 20 ^ version);
    let word = draw.below(u64::MAX).to_le_bytes();
    word.repeat(PAGE as usize / 8)
}

/// A line of this process' status, in MiB.
pub(crate) fn status_mib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

pub(crate) fn row(what: &str, value: String) {
    println!("  {what:<46} {value}");
}

pub(crate) fn ms(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1e3)
}

pub(crate) fn rate(mib: u64, took: Duration) -> String {
    format!("{:.0} MB/s", (mib * MIB) as f64 / 1e6 / took.as_secs_f64())
}

pub(crate) fn spread(mut took: Vec<Duration>) -> String {
    took.sort();
    let at = |share: usize| took[(took.len() * share / 100).min(took.len() - 1)].as_secs_f64() * 1e3;
    format!("p50 {:.2} ms, p99 {:.2} ms", at(50), at(99))
}

/// How often something is done that takes a request.
pub(crate) fn times(delay_ms: u64) -> u64 {
    if delay_ms > 0 { 100 } else { 500 }
}

fn requested(before: Requests, after: Requests) {
    let (puts, gets) = (after.puts - before.puts, after.gets - before.gets);
    if puts + gets > 0 {
        row("  puts, gets", format!("{puts}, {gets}"));
    }
}

pub(crate) fn write(target: &impl Target, mib: u64) -> Result<()> {
    let block: Vec<u8> = (0..64).flat_map(|page| content(page, 0)).collect();
    let (before, began) = (target.requests(), Instant::now());
    for at in (0..mib * MIB).step_by(block.len()) {
        target.write_at(&block, at)?;
    }
    target.sync()?;
    row("sequential write, one sync", rate(mib, began.elapsed()));
    requested(before, target.requests());
    Ok(())
}

pub(crate) fn read(target: &impl Target, mib: u64) -> Result<()> {
    target.forget()?;
    // Its memory is there before the clock runs.
    let mut buffer = vec![1; (32 * MIB) as usize];
    let (before, began) = (target.requests(), Instant::now());
    for at in (0..mib * MIB).step_by(buffer.len()) {
        target.read_at(&mut buffer, at)?;
    }
    row("sequential read, 32 MiB a call", rate(mib, began.elapsed()));
    requested(before, target.requests());
    Ok(())
}

/// Pages at random, all of them different; then the same again.
pub(crate) fn random(target: &impl Target, mib: u64, times: u64) -> Result<()> {
    let is_cached = target.forget()?;
    let pages = mib * MIB / PAGE;
    let mut buffer = vec![1; PAGE as usize];
    for what in ["random read of a page", "  the same again, from the cache"] {
        let (mut draw, mut took) = (Draw(7), Vec::new());
        let mut seen = std::collections::BTreeSet::new();
        while (took.len() as u64) < times.min(pages / 2) {
            let page = draw.below(pages);
            if seen.insert(page) {
                let began = Instant::now();
                target.read_at(&mut buffer, page * PAGE)?;
                took.push(began.elapsed());
            }
        }
        row(what, spread(took));
        if !is_cached {
            break;
        }
    }
    Ok(())
}

pub(crate) fn sync(target: &impl Target, mib: u64, ones: u64, many: u64) -> Result<()> {
    let (mut draw, pages) = (Draw(11), mib * MIB / PAGE);
    // A writer that was still for half a grace, which is 3 seconds here, asks whether it is the newest.
    target.sync()?;
    for (what, count, times) in [
        ("one page and sync", 1, ones),
        ("64 random pages and sync", 64, many),
    ] {
        let mut took = Vec::new();
        for version in 0..times {
            let chosen: Vec<(u64, Vec<u8>)> = (0..count)
                .map(|_| draw.below(pages))
                .map(|page| (page, content(page, version)))
                .collect();
            let began = Instant::now();
            for (page, bytes) in &chosen {
                target.write_at(bytes, page * PAGE)?;
            }
            target.sync()?;
            took.push(began.elapsed());
        }
        row(what, spread(took));
    }
    Ok(())
}

/// Overwrites twice what there is, at random, with a sync each 8 MiB; returns the bytes.
pub(crate) fn overwrite(target: &impl Target, mib: u64) -> Result<u64> {
    let (mut draw, pages) = (Draw(13), mib * MIB / PAGE);
    let before = target.requests();
    for n in 0..2 * pages {
        let page = draw.below(pages);
        target.write_at(&content(page, n), page * PAGE)?;
        if n % 128 == 127 {
            target.sync()?;
        }
    }
    target.sync()?;
    let put = target.requests().put_bytes - before.put_bytes;
    let overwritten = 2 * pages * PAGE;
    row(
        "random overwrite, a sync each 8 MiB: put, a byte",
        format!("{:.2}", put as f64 / overwritten as f64),
    );
    Ok(overwritten)
}
