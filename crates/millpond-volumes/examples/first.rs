//! A file of a store, written and read: `first` for a folder, `first s3://bucket/prefix` for a bucket.

#![allow(clippy::print_stdout, reason = "it is a program")]

use millpond_volumes::{Error, Store, StoreOptions, StoreReader};

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1);
    let url = url.as_deref().unwrap_or("file:///var/tmp/first-store");

    let store = Store::open(url, StoreOptions::new())?;
    let file = store.open_file("a/file").or_else(|_| store.create("a/file"))?;
    file.write_at(b"pond", 0)?;
    file.sync_data()?; // in the store, or an error

    let reader = StoreReader::open(url, StoreOptions::new())?; // as well on another machine
    let mut bytes = [0; 4];
    reader.open_file("a/file")?.read_at(&mut bytes, 0)?;
    println!(
        "{}, as of commit {}, {:?} old",
        String::from_utf8_lossy(&bytes),
        reader.commit(),
        reader.age()
    );
    store.close() // the next writer need not take over
}
