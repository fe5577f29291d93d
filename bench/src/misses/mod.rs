//! Reads of a file four times as large as the memory, of which some pages are read much more often than others.
//!
//! Every run is a process in a memory group of its own (see `child`), where four threads read pages that are drawn by Zipf's
//! law. The other caches read what they miss past the kernel's page cache, as Millpond does, so that no page is in memory
//! twice; the kernel's page cache has the same memory. How many pages were not in memory is counted the same way for all: by
//! what the kernel says that the process has read from the disk.

mod work;

use crate::child::{Place, in_child};
use crate::figures::Spread;
use crate::group::Entry;
use crate::table::Rows;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub use work::{Done, run};

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What each cache has, in bytes. The file is four times as large.
    pub memory: u64,
    /// How long is read, in milliseconds, after as many reads that missed as fill the cache twice.
    pub read_ms: u64,
    /// Runs of each cache.
    pub rounds: usize,
}

/// The caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Cache {
    /// A page guard.
    Millpond,
    /// With `Arc<[u8; 4096]>`, as `Moka`.
    QuickCache,
    /// Its default, TinyLFU.
    Moka,
    /// S3-FIFO.
    Foyer,
    /// `pread` of eight bytes, told that reads are random.
    Kernel,
}

impl Cache {
    const ALL: [Cache; 5] = [
        Cache::Millpond,
        Cache::QuickCache,
        Cache::Moka,
        Cache::Foyer,
        Cache::Kernel,
    ];

    fn name(self) -> &'static str {
        match self {
            Cache::Millpond => "Millpond, page",
            Cache::QuickCache => "quick_cache 0.7, direct reads",
            Cache::Moka => "moka 0.12, direct reads",
            Cache::Foyer => "foyer-memory 0.22, direct reads",
            Cache::Kernel => "pread, kernel's page cache",
        }
    }
}

/// A run, as its process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    cache: Cache,
    memory: u64,
    exponent: f64,
    read_ms: u64,
    path: PathBuf,
    group: Option<Entry>,
}

/// Exponents of Zipf's law: how unequal pages are.
const EXPONENTS: [f64; 2] = [0.8, 1.0];

/// Runs all caches, with files in `dir`, and returns the table.
///
/// # Errors
/// If a run fails, or reads a word that is not as it should be.
pub fn measure(plan: &Plan, dir: &Path, progress: &mut dyn FnMut(String)) -> Result<String> {
    let count = Cache::ALL.len() * EXPONENTS.len();
    let mut done: Vec<Vec<(Done, Option<f64>)>> = vec![Vec::new(); count];
    let mut told = String::new();
    for round in 0..plan.rounds {
        for turn in 0..count {
            let n = (round + turn) % count;
            let (cache, exponent) = (
                Cache::ALL.get(n / EXPONENTS.len()),
                EXPONENTS.get(n % EXPONENTS.len()),
            );
            let (Some(&cache), Some(&exponent), Some(done)) = (cache, exponent, done.get_mut(n)) else {
                continue;
            };
            let name = cache.name();
            progress(format!(
                "round {} of {}: {name}, {exponent}",
                round + 1,
                plan.rounds
            ));
            let place = Place::new(dir, plan.memory)?;
            told = place.told(plan.memory);
            let run = Run {
                cache,
                memory: plan.memory,
                exponent,
                read_ms: plan.read_ms,
                path: place.file("pages"),
                group: place.entry(),
            };
            work::make_file(&run)?;
            done.push((in_child("misses-run", &run)?, place.peak_mib()));
        }
    }
    let heads = EXPONENTS.iter().flat_map(|exponent| {
        [
            format!("Zipf {exponent:.1},\nhits, %"),
            format!("Zipf {exponent:.1},\nreads/ms"),
        ]
    });
    let heads: Vec<_> = heads.chain(["peak,\nMiB".to_owned()]).collect();
    let mut rows = Rows::new("", heads.iter().map(String::as_str));
    for (cache, done) in Cache::ALL.iter().zip(done.chunks(EXPONENTS.len())) {
        let figures = done.iter().flat_map(|done| {
            let hits = done.iter().map(|(done, _)| done.hits_percent).collect();
            let reads = done.iter().map(|(done, _)| done.reads_per_ms).collect();
            [Spread::of(hits), Spread::of(reads)]
        });
        let peak = done.iter().flatten().filter_map(|(_, peak)| *peak).collect();
        let cells: Vec<_> = figures.chain([Spread::of(peak)]).collect();
        rows.add(cache.name(), &cells);
    }
    let mut text = rows.text();
    writeln!(text, "\n{told}")?;
    Ok(text)
}
