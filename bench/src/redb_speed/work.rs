//! What one run does.

use super::{Run, Store};
use anyhow::{Context, Result, ensure};
use millpond::{OpenOptions, PageCache};
use millpond_redb::MillpondBackend;
use redb::{
    AccessGuard, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition,
};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// The bulk writer goes round in a file of this length, and writes this much at a time.
const BULK_BYTES: u64 = 2 << 30;
const BULK_WRITE: usize = 1 << 20;

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
        "gets beside\nbulk, a ms",
        "p50,\nus",
        "p99,\nms",
        "p99.9,\nms",
        "bulk,\nMB/s",
        "commits\nbeside bulk",
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
    let bulk = run.path.with_file_name("bulk");
    let (database, bulk) = match run.store {
        Store::Own => (builder.create(&run.path)?, Bulk::Own(fs::File::create(bulk)?)),
        Store::Millpond(bytes) => {
            let cache = PageCache::builder().memory(bytes).build()?;
            let bulk = cache.open(bulk, OpenOptions::new().create(true))?;
            let backend = MillpondBackend::open(&cache, &run.path)?;
            (builder.create_with_backend(backend)?, Bulk::Millpond(bulk))
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
    let rows = database.begin_read()?.open_table(ROWS)?;
    let reading = || latencies(run, |random| get(&rows, skewed(random)));
    let (latencies, written) = beside_bulk(&bulk, reading)?;
    drop(rows);
    let (commits, _) = beside_bulk(&bulk, || commit(&database, run))?;
    speeds.extend(latencies);
    speeds.extend([written, commits]);
    drop((database, bulk));
    let file_mib = fs::metadata(&run.path)?.len() as f64 / (1 << 20) as f64;
    Ok(Done { speeds, file_mib })
}

/// A file that somebody else writes as fast as it goes, through the same cache or the kernel's.
enum Bulk {
    Own(fs::File),
    Millpond(millpond::File),
}

impl Bulk {
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Bulk::Own(file) => file.write_all_at(bytes, at),
            Bulk::Millpond(file) => Ok(file.write_at(bytes, at)?),
        }
    }
}

/// Does `what` while the bulk is written, and says how many MB of that there were a second.
fn beside_bulk<T>(bulk: &Bulk, what: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<f64> {
            let (began, mut written, bytes) = (Instant::now(), 0, vec![0x5a; BULK_WRITE]);
            while !is_over.load(Ordering::Relaxed) {
                bulk.write(written % BULK_BYTES, &bytes)?;
                written += BULK_WRITE as u64;
            }
            Ok(written as f64 / 1e6 / began.elapsed().as_secs_f64())
        });
        // Until what may be dirty is dirty.
        thread::sleep(Duration::from_secs(1));
        let done = what();
        is_over.store(true, Ordering::Relaxed);
        let rate = writer
            .join()
            .unwrap_or_else(|_| Err(anyhow::anyhow!("the bulk writer has died")))?;
        Ok((done?, rate))
    })
}

/// Reads for twice as long as the others: how many a ms, the median in microseconds, and the tail in milliseconds.
fn latencies(run: &Run, mut read: impl FnMut(&mut fastrand::Rng) -> Result<u64>) -> Result<Vec<f64>> {
    let mut random = fastrand::Rng::with_seed(run.rows);
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < Duration::from_millis(2 * run.read_ms) {
        let begins = Instant::now();
        read(&mut random)?;
        took.push(begins.elapsed().as_secs_f64());
    }
    let rate = per_ms(took.len() as u64, began);
    took.sort_by(f64::total_cmp);
    let last = took.len().saturating_sub(1);
    let at = |part: f64| {
        took.get((last as f64 * part) as usize)
            .copied()
            .unwrap_or(f64::NAN)
    };
    Ok(vec![rate, at(0.5) * 1e6, at(0.99) * 1e3, at(0.999) * 1e3])
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
