//! What a hit costs: a page of 4 KiB that is in memory is got, eight of its bytes are read, and it is let go.
//!
//! ```text
//!   round 1   array  mmap  Millpond  read_at  …      each a slice of some milliseconds,
//!   round 2   mmap   Millpond  read_at  …  array     after a warm-up that is not measured
//! ```
//!
//! All caches are full at the same time, and every round measures each of them, beginning with another one, so what
//! the machine does besides falls on all alike. Pages are drawn at random, others for
//! each. Every word that is read is compared with what the page holds, every page that a cache does not have is counted,
//! and the process must not have read from a disk meanwhile: a run with one of these fails. A slice in which the kernel gave
//! the processor to something else, or in which the threads did not run at the same time, is measured again.

mod slice;
mod ways;

use crate::content::PAGE_BYTES;
use crate::figures::Spread;
use crate::table::Rows;
use anyhow::{Context, Result, ensure};
use slice::{Next, Slice};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// How often a slice is tried, if the processor is given to something else meanwhile.
const ATTEMPTS: u64 = 8;

/// So many hits tell about how long one takes.
const FIRST_HITS: u64 = 20_000;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sizes of the sets of pages, in bytes.
    pub sizes: Vec<u64>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Slices of each cache and column.
    pub rounds: usize,
    /// How long a slice takes, about, in milliseconds.
    pub slice_ms: u64,
}

/// What one column is about.
struct Column {
    bytes: u64,
    threads: usize,
    next: Next,
}

/// Measures all caches, in files in `dir`, and returns the tables.
///
/// # Errors
/// If a cache does not have a page, has wrong bytes in it, or a disk was read; if the system gives no file or memory.
pub fn run(plan: &Plan, dir: &Path, progress: &mut dyn FnMut(String)) -> Result<String> {
    let mut text = String::new();
    let mut measured: Vec<(Column, Vec<Option<Spread>>)> = Vec::new();
    let mut settings = Vec::new();
    for &bytes in &plan.sizes {
        progress(format!("filling all caches with {} MiB", bytes >> 20));
        let pages = bytes / PAGE_BYTES as u64;
        let ways = ways::all(dir, pages)?;
        for next in Next::ALL {
            for &threads in &plan.threads {
                progress(format!(
                    "{} MiB, {threads} threads, {}",
                    bytes >> 20,
                    next.title()
                ));
                let column = Column { bytes, threads, next };
                let cells = measure(plan, &ways, &column, pages)?;
                measured.push((column, cells));
            }
        }
        settings = ways.iter().map(|way| (way.name(), way.settings())).collect();
    }
    for next in Next::ALL {
        let columns: Vec<_> = measured
            .iter()
            .filter(|(column, _)| column.next == next)
            .collect();
        let heads: Vec<String> = columns.iter().map(|(column, _)| head(column)).collect();
        let mut rows = Rows::new("", heads.iter().map(String::as_str));
        for (row, (name, _)) in settings.iter().enumerate() {
            let cells = columns.iter().map(|(_, cells)| cells.get(row).copied().flatten());
            let cells: Vec<_> = cells.collect();
            rows.add(name, &cells);
        }
        writeln!(
            text,
            "ns a hit takes on its thread; {}\n{}",
            next.title(),
            rows.text()
        )?;
    }
    for (name, settings) in settings {
        writeln!(text, "{name}: {settings}")?;
    }
    Ok(text)
}

fn head(column: &Column) -> String {
    let size = match column.bytes {
        bytes if bytes >= 1 << 30 => format!("{} GiB", bytes >> 30),
        bytes => format!("{} MiB", bytes >> 20),
    };
    match column.threads {
        1 => format!("{size}, 1 thread"),
        threads => format!("{size}, {threads} threads"),
    }
}

/// One column: a cell for each way.
fn measure(plan: &Plan, ways: &[Box<dyn Slice>], column: &Column, pages: u64) -> Result<Vec<Option<Spread>>> {
    // So many hits fill a slice: from a first one, which also makes the pages known to the processor's tables.
    let mut hits = Vec::new();
    for way in ways {
        let first = |_| {
            way.run(pages, FIRST_HITS, 1, column.threads, column.next)
                .ns_per_hit
        };
        let ns = (0..3).map(first).fold(f64::INFINITY, f64::min).max(1.0);
        hits.push(((plan.slice_ms * 1_000_000) as f64 / ns) as u64 + 1);
    }
    // What fits the processor's caches must be in them, also if it was another cache's turn before.
    let warm_up = |hits: u64| {
        if column.bytes <= 64 << 20 {
            (2 * pages).max(hits / 2)
        } else {
            hits / 2
        }
    };
    let mut figures = vec![Vec::new(); ways.len()];
    for round in 0..plan.rounds {
        for turn in 0..ways.len() {
            let n = (round + turn) % ways.len();
            let (Some(way), Some(&hits), Some(figures)) = (ways.get(n), hits.get(n), figures.get_mut(n))
            else {
                continue;
            };
            for attempt in 0..ATTEMPTS {
                // Others for each: two ways to the same memory come behind one another.
                let seed = (round as u64) << 16 | attempt << 12 | (n as u64) << 4;
                way.run(pages, warm_up(hits), seed, column.threads, column.next);
                let before = disk_reads()?;
                let measured = way.run(pages, hits, seed + 1, column.threads, column.next);
                let (name, misses) = (way.name(), measured.misses);
                ensure!(misses == 0, "{name}: {misses} pages of {hits} were not there");
                ensure!(measured.wrong == 0, "{name}: words are not what they should be");
                let read = disk_reads()? - before;
                ensure!(
                    read == 0,
                    "{name}: {read} bytes were read from a disk, so some were no hits"
                );
                if !measured.disturbed {
                    figures.push(measured.ns_per_hit);
                    break;
                }
            }
        }
    }
    Ok(figures.into_iter().map(Spread::of).collect())
}

/// Bytes that this process has caused to be read from disks.
pub(crate) fn disk_reads() -> Result<u64> {
    let io = fs::read_to_string("/proc/self/io").context("/proc/self/io tells what was read from disks")?;
    let field = io.lines().find_map(|line| line.strip_prefix("read_bytes:"));
    let bytes = field.and_then(|field| field.trim().parse().ok());
    bytes.context("/proc/self/io has no read_bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cache_has_its_pages_and_the_right_bytes_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            sizes: vec![256 << 10],
            threads: vec![1, 2],
            rounds: 1,
            slice_ms: 1,
        };
        let text = run(&plan, folder.path(), &mut |_| {}).unwrap();
        for name in [
            "array",
            "mmap",
            "Millpond, page",
            "Millpond, read_at",
            "quick_cache",
            "moka",
            "foyer",
            "pread",
        ] {
            assert!(text.contains(name), "{name}: {text}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn a_page_that_is_not_there_and_one_with_wrong_bytes_are_noticed() {
        let odd = ways::test::Odd;
        let found = odd.run(8, 1000, 1, 2, Next::Drawn);
        assert!(found.misses > 0 && found.wrong != 0, "{found:?}");
    }
}
