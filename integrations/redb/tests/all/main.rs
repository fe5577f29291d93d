//! redb on Millpond: its tables, its file, what a crash leaves, and errors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod support;

use millpond::PageCache;
use millpond_redb::MillpondBackend;
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use redb::{Database, ReadableDatabase, ReadableTableMetadata};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use support::{ROWS, cache, content, database};

#[test]
fn a_database_larger_than_the_budget_holds_what_was_put_in_and_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let cache = cache();
    let mut database = database(&cache, &path);
    let mut random = fastrand::Rng::with_seed(7);
    let mut model = BTreeMap::new();
    for _ in 0..12 {
        let transaction = database.begin_write().unwrap();
        {
            let mut rows = transaction.open_table(ROWS).unwrap();
            for _ in 0..300 {
                let key = random.u64(..1500);
                if random.u8(..4) == 0 {
                    let removed = rows.remove(key).unwrap().map(|row| row.value().to_vec());
                    assert_eq!(removed, model.remove(&key));
                } else {
                    let row = vec![random.u8(..); random.usize(1..6000)];
                    rows.insert(key, row.as_slice()).unwrap();
                    model.insert(key, row);
                }
            }
        }
        transaction.commit().unwrap();
    }
    let rows = database.begin_read().unwrap().open_table(ROWS).unwrap();
    assert_eq!(rows.len().unwrap(), model.len() as u64);
    let (from, to) = (400, 900);
    let found: Vec<_> = rows
        .range(from..to)
        .unwrap()
        .map(|row| row.unwrap().0.value())
        .collect();
    assert_eq!(
        found,
        model.range(from..to).map(|(key, _)| *key).collect::<Vec<_>>()
    );
    drop(rows);
    assert_eq!(content(&database), model);
    assert!(
        fs::metadata(&path).unwrap().len() > support::BUDGET,
        "all of it would fit"
    );
    assert!(database.check_integrity().unwrap());
}

#[test]
fn what_millpond_has_written_redb_opens_by_itself_and_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    for year in 0..4 {
        let database = match year % 2 {
            0 => database(&cache(), &path),
            _ => Database::create(&path).unwrap(),
        };
        assert_eq!(content(&database).len(), year as usize);
        support::put(&database, year, &[7; 5000]);
    }
}

#[test]
fn a_database_that_is_open_is_not_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let cache = cache();
    let open = database(&cache, &path);
    support::put(&open, 1, b"row");
    for cache in [&cache, &support::cache()] {
        let again = MillpondBackend::open(cache, &path).unwrap_err();
        assert!(again.to_string().contains("rows"), "{again}");
    }
    Database::create(&path).unwrap_err();
    drop(open);
    assert_eq!(content(&Database::create(&path).unwrap()).len(), 1);
    assert_eq!(content(&database(&cache, &path)).len(), 1);
}

#[test]
fn a_commit_says_that_the_disk_has_failed_and_earlier_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let device = Arc::new(Faulty::new(millpond::device::best(), 1));
    let cache = PageCache::builder()
        .memory(support::BUDGET)
        .device(device.clone());
    let faulty = database(&cache.build().unwrap(), &path);
    support::put(&faulty, 1, b"safe");
    device.add(FaultRule::always(FaultTarget::Syncs, Fault::Fail(5)));
    let transaction = faulty.begin_write().unwrap();
    transaction
        .open_table(ROWS)
        .unwrap()
        .insert(2, &b"lost"[..])
        .unwrap();
    let error = transaction.commit().unwrap_err();
    assert!(error.to_string().contains("rows"), "{error}");
    drop(faulty);
    let rows = content(&database(&support::cache(), &path));
    assert_eq!(rows.get(&1).map(Vec::as_slice), Some(&b"safe"[..]));
}

#[test]
fn a_closed_database_is_opened_again_beside_a_read_transaction_of_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let cache = cache();
    let first = database(&cache, &path);
    support::put(&first, 1, b"row");
    let reading = first.begin_read().unwrap().open_table(ROWS).unwrap();
    first.close().unwrap();
    assert_eq!(content(&database(&cache, &path)).len(), 1);
    drop(reading);
}
