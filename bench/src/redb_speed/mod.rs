//! redb on Millpond beside redb on its own file, at equal memory.
//!
//! ```text
//!                     the memory that all of it has: a memory group
//!   own file    [ redb's cache            | kernel's page cache            ]
//!   Millpond    [ redb's cache | Millpond's budget: pages, buffers, tables ]
//! ```
//!
//! Every run is a process of its own in a memory group of its own, with a new database: it loads rows in random order, reads
//! them, scans, and commits. The runs of all rows are interleaved. Without a memory group (it takes root, or a delegated
//! group) the kernel's page cache is not limited, and the table says that it is no comparison at equal memory.

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
    /// What redb's cache and the file's cache have together, in bytes.
    pub memory: u64,
    /// Rows that are loaded: keys of 8 bytes, values of 150.
    pub rows: u64,
    /// How long each kind of reading takes, in milliseconds.
    pub read_ms: u64,
    /// Durable commits of one row.
    pub commits: u64,
    /// Runs of each variant.
    pub rounds: usize,
}

/// Where the database is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Store {
    /// redb's own back end, through the kernel's page cache.
    Own,
    /// A Millpond cache of so many bytes.
    Millpond(u64),
}

/// A run, as its process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    store: Store,
    redb_cache: u64,
    rows: u64,
    read_ms: u64,
    commits: u64,
    path: PathBuf,
    group: Option<Entry>,
}

/// A line of the table.
struct Variant {
    name: String,
    store: Store,
    redb_cache: u64,
}

fn variants(memory: u64) -> Vec<Variant> {
    let mib = |bytes: u64| bytes >> 20;
    let own = |redb_cache: u64| Variant {
        name: format!("own file, redb {}", mib(redb_cache)),
        store: Store::Own,
        redb_cache,
    };
    let millpond = |redb_cache: u64| Variant {
        name: format!("Millpond {}, redb {}", mib(memory - redb_cache), mib(redb_cache)),
        store: Store::Millpond(memory - redb_cache),
        redb_cache,
    };
    vec![
        own(memory * 3 / 4),
        own(memory / 8),
        millpond(memory / 8),
        millpond(memory / 2),
    ]
}

/// Runs all variants, with files in `dir`, and returns the table.
///
/// # Errors
/// If a run fails, or finds a row that is not as it should be.
pub fn measure(plan: &Plan, dir: &Path, progress: &mut dyn FnMut(String)) -> Result<String> {
    let variants = variants(plan.memory);
    let mut done: Vec<Vec<(Done, Option<f64>)>> = variants.iter().map(|_| Vec::new()).collect();
    let mut told = String::new();
    for round in 0..plan.rounds {
        for turn in 0..variants.len() {
            let n = (round + turn) % variants.len();
            let (Some(variant), Some(done)) = (variants.get(n), done.get_mut(n)) else {
                continue;
            };
            progress(format!(
                "round {} of {}: {}",
                round + 1,
                plan.rounds,
                variant.name
            ));
            let place = Place::new(dir, plan.memory)?;
            told = place.told(plan.memory);
            let run = Run {
                store: variant.store,
                redb_cache: variant.redb_cache,
                rows: plan.rows,
                read_ms: plan.read_ms,
                commits: plan.commits,
                path: place.file("rows"),
                group: place.entry(),
            };
            done.push((in_child("redb-run", &run)?, place.peak_mib()));
        }
    }
    let mut text = String::new();
    let heads = Done::KINDS.iter().copied().chain(["file,\nMiB", "peak,\nMiB"]);
    let mut rows = Rows::new("caches, MiB", heads);
    for (variant, done) in variants.iter().zip(&done) {
        let kinds = (0..Done::KINDS.len()).map(|kind| {
            let figures = done.iter().filter_map(|(done, _)| done.speeds.get(kind).copied());
            Spread::of(figures.collect())
        });
        let file = Spread::of(done.iter().map(|(done, _)| done.file_mib).collect());
        let peak = Spread::of(done.iter().filter_map(|(_, peak)| *peak).collect());
        let cells: Vec<_> = kinds.chain([file, peak]).collect();
        rows.add(&variant.name, &cells);
    }
    writeln!(text, "{}", rows.text())?;
    writeln!(text, "{told}")?;
    Ok(text)
}
