//! The first lines: a file in a cache of 64 MiB is written, changed in place, made durable and read.

#![allow(clippy::print_stdout, reason = "it says what it did")]

use millpond::{OpenOptions, PageCache};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join("first.pond");
    let cache = PageCache::builder().memory(64 << 20).build()?; // one budget: pages, metadata, transfers
    let file = cache.open(&path, OpenOptions::new().create(true))?;

    file.write_at(&[7; 1_000_000], 0)?; // in memory; reaches the disk in the background
    file.page_mut(3)?[..5].copy_from_slice(b"pond!"); // page 3, changed in place
    file.sync_data()?; // on the disk, or an error: what was not written stays in memory

    let page = file.page(3)?; // pinned while it is read: no copy, no lock
    println!("page 3 begins with {:?}", str::from_utf8(&page[..5])?);
    drop(page); // before anything else of the file: keep guards short
    println!("{} bytes are durable in {}", file.len(), path.display());
    file.close()?; // says whether all is durable; dropping the file can't
    Ok(std::fs::remove_file(path)?)
}
