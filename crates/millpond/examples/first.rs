//! The first twenty lines: a file in a cache of 64 MiB is written, changed in place, made durable and read.

use millpond::{OpenOptions, PageCache};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join("millpond-first");
    let cache = PageCache::builder().memory(64 << 20).build()?; // one budget: pages, metadata, transfers
    let file = cache.open(&path, OpenOptions::new().create(true))?;

    file.write_at(&[7; 1_000_000], 0)?; // in memory; goes to the disk in the background
    file.page_mut(3)?[..5].copy_from_slice(b"pond!"); // page 3, changed where it is
    file.sync_data()?; // on the disk, or an error; what could not be written is still in memory

    let page = file.page(3)?; // pinned for reading: no copy, no lock
    assert_eq!(&page[..5], b"pond!");
    drop(page); // others may change it again, and it may leave memory

    eprintln!("{} pages were written", cache.stats().counters.nr_written);
    file.close()?; // says whether all is durable; dropping the file cannot
    Ok(std::fs::remove_file(path)?)
}
