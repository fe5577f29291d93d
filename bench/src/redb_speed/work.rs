//! What one run does.

use super::{Run, Store};
use crate::redb_backend::MillpondBackend;
use anyhow::{Context, Result, ensure};
use millpond::PageCache;
use redb::{
    AccessGuard, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition,
};
use serde::{Deserialize, Serialize};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

const ROWS: TableDefinition<u64, &[u8]> = TableDefinition::new("rows");

/// Bytes of a row. A leaf of 4 KiB has 24 of them when it is full.
const ROW_BYTES: usize = 150;

/// Rows of a transaction while loading.
const BATCH: u64 = 20_000;

/// Rows of a short scan.
const SCAN_ROWS: usize = 100;

/// Threads of the column that has several.
const THREADS: u64 = 4;

/// Of the skewed reads, so many of ten go to [`HOT_PART`] of the rows.
const HOT_READS: u64 = 8;

/// One row in so many is hot.
const HOT_PART: u64 = 10;

/// What a run has done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// Of each of [`Done::KINDS`], in its unit.
    pub speeds: Vec<f64>,
    /// The length of the file at the end, in MiB.
    pub file_mib: f64,
}

impl Done {
    /// What was measured.
    pub const KINDS: &[&str] = &[
        "load,\nrows/ms",
        "get,\nrows/ms",
        "get, 8 of 10\nof a tenth",
        "that on\n4 threads",
        "scans of\n100 rows",
        "scan\nof all",
        "commits\na second",
    ];
}

/// Does all of it.
///
/// # Errors
/// If redb gives one, or a row is not as it should be.
pub fn run(run: &Run) -> Result<Done> {
    if let Some(group) = &run.group {
        group.enter()?;
    }
    let mut builder = Database::builder();
    builder.set_cache_size(run.redb_cache as usize);
    let database = match run.store {
        Store::Own => builder.create(&run.path)?,
        Store::Millpond(bytes) => {
            let cache = PageCache::builder().memory(bytes).build()?;
            builder.create_with_backend(MillpondBackend::open(&cache, &run.path)?)?
        }
    };
    let mut speeds = vec![load(&database, run.rows)?];
    let rows = database.begin_read()?.open_table(ROWS)?;
    ensure!(rows.len()? == run.rows, "{} rows are there", rows.len()?);
    let all = run.rows;
    let any = move |random: &mut fastrand::Rng| random.u64(..all);
    let skewed = move |random: &mut fastrand::Rng| match random.u64(..10) < HOT_READS {
        true => random.u64(..all / HOT_PART) * HOT_PART,
        false => random.u64(..all),
    };
    speeds.push(for_a_while(run, |random| get(&rows, any(random)))?);
    speeds.push(for_a_while(run, |random| get(&rows, skewed(random)))?);
    speeds.push(on_threads(run, |random| get(&rows, skewed(random)))?);
    speeds.push(for_a_while(run, |random| scan(&rows, any(random)))?);
    speeds.push(scan_all(&rows, run)?);
    drop(rows);
    speeds.push(commit(&database, run)?);
    drop(database);
    let file_mib = fs::metadata(&run.path)?.len() as f64 / (1 << 20) as f64;
    Ok(Done { speeds, file_mib })
}

/// The key of row `n`: rows come in another order than they lie in.
fn key(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn row(key: u64) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    let words = row.chunks_mut(8).zip(key..);
    words.for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()[..place.len()]));
    row
}

fn per_ms(count: u64, began: Instant) -> f64 {
    count as f64 / began.elapsed().as_secs_f64() / 1000.0
}

fn load(database: &Database, rows: u64) -> Result<f64> {
    let began = Instant::now();
    for first in (0..rows).step_by(BATCH as usize) {
        let transaction = database.begin_write()?;
        let mut table = transaction.open_table(ROWS)?;
        for n in first..rows.min(first + BATCH) {
            table.insert(key(n), &row(key(n))[..])?;
        }
        drop(table);
        transaction.commit()?;
    }
    Ok(per_ms(rows, began))
}

type Table = ReadOnlyTable<u64, &'static [u8]>;

/// A key and what it has.
type Row<'a> = (AccessGuard<'a, u64>, AccessGuard<'a, &'static [u8]>);

/// Reads row `n`. How many rows that were.
fn get(rows: &Table, n: u64) -> Result<u64> {
    let found = rows.get(key(n))?.context("a row is gone")?;
    ensure!(found.value() == row(key(n)), "row {n} is not as it should be");
    Ok(1)
}

/// Reads the rows from row `n` on, in the order of keys.
fn scan(rows: &Table, n: u64) -> Result<u64> {
    all_right(rows.range(key(n)..)?.take(SCAN_ROWS))
}

fn scan_all(rows: &Table, run: &Run) -> Result<f64> {
    let began = Instant::now();
    let count = all_right(rows.iter()?)?;
    ensure!(count == run.rows, "a scan has found {count} rows");
    Ok(per_ms(count, began))
}

/// How many rows these are, each of which is as it should be.
fn all_right<'a>(
    rows: impl Iterator<Item = std::result::Result<Row<'a>, redb::StorageError>>,
) -> Result<u64> {
    let mut count = 0;
    for found in rows {
        let (key, found) = found?;
        let n = key.value();
        ensure!(found.value() == row(n), "row {n} is not as it should be");
        count += 1;
    }
    Ok(count)
}

/// Twice as long as is measured: the caches get to know the load first.
fn for_a_while(run: &Run, mut read: impl FnMut(&mut fastrand::Rng) -> Result<u64>) -> Result<f64> {
    let mut random = fastrand::Rng::with_seed(run.rows);
    let mut counted = 0.0;
    for _ in 0..2 {
        let (began, mut count) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_millis(run.read_ms) {
            for _ in 0..16 {
                count += read(&mut random)?;
            }
        }
        counted = per_ms(count, began);
    }
    Ok(counted)
}

fn on_threads(run: &Run, read: impl Fn(&mut fastrand::Rng) -> Result<u64> + Sync) -> Result<f64> {
    let (began, read) = (Instant::now(), &read);
    let counts: Vec<Result<u64>> = thread::scope(|scope| {
        let thread = |n| {
            move || {
                let (mut random, mut count) = (fastrand::Rng::with_seed(n), 0);
                while began.elapsed() < Duration::from_millis(run.read_ms) {
                    count += read(&mut random)?;
                }
                Ok(count)
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(thread(n))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|count| count.unwrap_or_else(|_| Err(anyhow::anyhow!("a thread has died"))))
            .collect()
    });
    let count = counts.into_iter().sum::<Result<u64>>()?;
    Ok(per_ms(count, began))
}

/// One row in each transaction, which is durable when it has returned.
fn commit(database: &Database, run: &Run) -> Result<f64> {
    let mut random = fastrand::Rng::with_seed(1);
    let began = Instant::now();
    for _ in 0..run.commits {
        let key = key(random.u64(..run.rows));
        let transaction = database.begin_write()?;
        transaction.open_table(ROWS)?.insert(key, &row(key)[..])?;
        transaction.commit()?;
    }
    Ok(per_ms(run.commits, began) * 1000.0)
}
