//! A tiny append-only log, read back without copies: `cargo run --release -p millpond --example records`.
//!
//! A record is its length in four bytes and its bytes, and never crosses the end of a page: what has no room there begins the
//! next one. So a record that is read is a slice of a page in the cache, and an iterator over the log holds one page at a
//! time. `Bytes` makes slices of a page that live as long as they are wanted, whatever becomes of the iterator.
#![allow(clippy::print_stdout, reason = "it prints what it finds")]

use bytes::Bytes;
use millpond::{Error, File, OpenOptions, PageCache, Result};
use std::io::IoSlice;

const HEAD: usize = 4;

/// Records go to the end of the file, one writer at a time.
struct Log {
    file: File,
    end: u64,
}

impl Log {
    /// Where it begins. Durable after [`File::sync_data`].
    fn append(&mut self, record: &[u8]) -> Result<u64> {
        let (size, len) = (self.file.page_size(), (HEAD + record.len()) as u64);
        assert!(
            !record.is_empty() && len <= size,
            "a record has 1 to {} bytes",
            size - HEAD as u64
        );
        if self.end % size + len > size {
            self.end = self.end.next_multiple_of(size);
        }
        let (at, head) = (self.end, (record.len() as u32).to_le_bytes());
        // Both at once: no reader sees the length of a record that is not there.
        self.file
            .write_vectored_at(&[IoSlice::new(&head), IoSlice::new(record)], at)?;
        self.end += len;
        Ok(at)
    }

    /// The record that begins at `at`, copied.
    fn read(&self, at: u64) -> Result<Vec<u8>> {
        let mut head = [0; HEAD];
        self.file.read_exact_at(&mut head, at)?;
        let mut record = vec![0; u32::from_le_bytes(head) as usize];
        self.file.read_exact_at(&mut record, at + HEAD as u64)?;
        Ok(record)
    }

    /// All records from the first on, none of them copied. A kept record keeps its page from being changed:
    /// not one of the last page while the log is appended to.
    fn records(&self) -> Records {
        let (file, page) = (self.file.clone(), Bytes::new());
        Records { file, page, next: 0 }
    }
}

/// The rest of a page, and which comes next. It borrows nothing of the log.
struct Records {
    file: File,
    page: Bytes,
    next: u64,
}

impl Iterator for Records {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        loop {
            if let Some(head) = self.page.first_chunk::<HEAD>()
                && let len @ 1.. = u32::from_le_bytes(*head) as usize
            {
                let record = self.page.slice(HEAD..HEAD + len);
                self.page = self.page.slice(HEAD + len..);
                return Some(Ok(record));
            }
            match self.file.page_owned(self.next) {
                Ok(page) => self.page = Bytes::from_owner(page),
                Err(Error::OutOfRange { .. }) => return None,
                Err(error) => return Some(Err(error)),
            }
            self.next += 1;
        }
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join("millpond-records");
    let cache = PageCache::builder().memory(8 << 20).build()?;
    let file = cache.open(&path, OpenOptions::new().create(true).truncate(true))?;
    let mut log = Log { file, end: 0 };
    let places = (0..10_000).map(|n| log.append(format!("record {n}").as_bytes()));
    let places = places.collect::<Result<Vec<_>>>()?;
    log.file.sync_data()?;

    assert_eq!(log.read(places[1234])?, b"record 1234");
    let longest = log.records().try_fold(Bytes::new(), |longest, record| {
        let record = record?;
        Result::Ok(if record.len() > longest.len() {
            record
        } else {
            longest
        })
    })?;
    let count = log.records().count();
    log.file.close()?;
    // The file is open still: the page of this record keeps it.
    println!(
        "{count} records; the first of the longest is {:?}",
        str::from_utf8(&longest)?
    );
    Ok(std::fs::remove_file(path)?)
}
