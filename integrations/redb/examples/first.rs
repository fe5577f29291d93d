//! A redb database in a Millpond cache of 64 MiB: `cargo run --manifest-path integrations/redb/Cargo.toml --example first`.

use millpond::PageCache;
use millpond_redb::MillpondBackend;
use redb::{Database, ReadableDatabase, TableDefinition};

const PONDS: TableDefinition<&str, u64> = TableDefinition::new("ponds");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join("millpond-redb");
    let cache = PageCache::builder().memory(64 << 20).build()?; // may have other files and databases as well
    let backend = MillpondBackend::open(&cache, &path)?;
    let database = Database::builder()
        .set_cache_size(8 << 20) // redb's own cache can be small
        .create_with_backend(backend)?;

    let transaction = database.begin_write()?;
    transaction.open_table(PONDS)?.insert("mill", 1786)?;
    transaction.commit()?; // durable, or an error

    let ponds = database.begin_read()?.open_table(PONDS)?;
    let year = ponds.get("mill")?.map(|year| year.value());
    assert_eq!(year, Some(1786));
    eprintln!("{} pages were written", cache.stats().counters.nr_written);

    drop((ponds, database));
    Ok(std::fs::remove_file(path)?)
}
