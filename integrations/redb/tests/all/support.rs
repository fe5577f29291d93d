//! A small cache, and a database in it.

use millpond::PageCache;
use millpond_redb::MillpondBackend;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) const ROWS: TableDefinition<u64, &[u8]> = TableDefinition::new("rows");

pub(crate) const BUDGET: u64 = 2 << 20;

pub(crate) fn cache() -> PageCache {
    PageCache::builder().memory(BUDGET).build().unwrap()
}

/// The database at `path`, with next to no cache of redb's own.
pub(crate) fn database(cache: &PageCache, path: &Path) -> Database {
    let backend = MillpondBackend::open(cache, path).unwrap();
    let mut builder = Database::builder();
    builder
        .set_cache_size(64 << 10)
        .create_with_backend(backend)
        .unwrap()
}

pub(crate) fn put(database: &Database, key: u64, row: &[u8]) {
    let transaction = database.begin_write().unwrap();
    transaction.open_table(ROWS).unwrap().insert(key, row).unwrap();
    transaction.commit().unwrap();
}

/// All that is in it.
pub(crate) fn content(database: &Database) -> BTreeMap<u64, Vec<u8>> {
    let rows = match database.begin_read().unwrap().open_table(ROWS) {
        Ok(rows) => rows,
        Err(TableError::TableDoesNotExist(_)) => return BTreeMap::new(),
        Err(error) => panic!("{error}"),
    };
    let rows = rows.iter().unwrap().map(|row| row.unwrap());
    rows.map(|(key, row)| (key.value(), row.value().to_vec()))
        .collect()
}
