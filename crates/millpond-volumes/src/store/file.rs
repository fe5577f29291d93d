//! Files of a store's writer.

use super::error::Error;
use super::pages::{self, PageError};
use super::writer::Inner;
use crate::format::op::FileNo;
use crate::layout::{Place, Uncommitted, WriteError};
use bytes::{Bytes, BytesMut};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// A file open for reading and writing.
#[derive(Debug)]
pub struct StoreFile {
    store: Arc<Inner>,
    file: FileNo,
    name: String,
    page_bytes: u64,
    /// Held during a write: one that changes part of a page first reads the rest.
    writing: Mutex<()>,
}

/// What a call has found for each page that it needs.
pub(super) enum Found {
    Here(Bytes),
    At(Place),
    Zeros,
}

/// The content of the parts of a page that were never written, or were cut off.
static ZEROS: [u8; 4096] = [0; 4096];

/// Fills `out`, which starts at `offset`, from pages.
pub(super) fn fill(
    out: &mut [u8],
    offset: u64,
    page_bytes: u64,
    found: Vec<(u64, Found)>,
    read: impl FnMut(&[(u64, Place)]) -> Vec<Result<Bytes, PageError>>,
) -> Result<(), PageError> {
    let range = offset..offset + out.len() as u64;
    let put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    pieces(range, page_bytes, found, read, put)
}

/// All bytes of a range, in pieces: the position in the range, and the bytes.
pub(super) fn pieces(
    range: Range<u64>,
    page_bytes: u64,
    found: Vec<(u64, Found)>,
    mut read: impl FnMut(&[(u64, Place)]) -> Vec<Result<Bytes, PageError>>,
    mut put: impl FnMut(usize, &[u8]),
) -> Result<(), PageError> {
    let wanted: Vec<(u64, Place)> = found
        .iter()
        .filter_map(|(page, found)| match found {
            Found::At(place) => Some((*page, *place)),
            _ => None,
        })
        .collect();
    let mut read = read(&wanted).into_iter();
    for (page, found) in found {
        let bytes = match found {
            Found::Here(bytes) => bytes,
            Found::Zeros => Bytes::new(),
            Found::At(place) => match read.next() {
                Some(result) => result?,
                None => {
                    let (key, why) = (place.object.key(), String::from("the store is being closed"));
                    return Err(PageError {
                        page,
                        key,
                        is_absent: false,
                        is_damaged: false,
                        why,
                    });
                }
            },
        };
        // The part of the page that is wanted, and is there.
        let begins = page * page_bytes;
        let from = range.start.saturating_sub(begins) as usize;
        let mut at = begins.saturating_sub(range.start) as usize;
        let end = ((begins + page_bytes).min(range.end) - range.start) as usize;
        let len = bytes.len().saturating_sub(from).min(end - at);
        put(at, &bytes[from.min(bytes.len())..][..len]);
        at += len;
        while at < end {
            let zeros = &ZEROS[..ZEROS.len().min(end - at)];
            put(at, zeros);
            at += zeros.len();
        }
    }
    Ok(())
}

pub(super) fn failed(file: &str, error: PageError) -> Error {
    Error::Read {
        file: file.to_owned(),
        page: error.page,
        key: error.key,
        why: error.why,
    }
}

impl StoreFile {
    pub(super) fn new(store: Arc<Inner>, file: FileNo, name: &str) -> StoreFile {
        StoreFile {
            page_bytes: u64::from(store.page_bytes()),
            store,
            file,
            name: name.to_owned(),
            writing: Mutex::new(()),
        }
    }

    pub(crate) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Its length in bytes.
    ///
    /// # Errors
    /// If it was removed.
    pub fn len(&self) -> Result<u64, Error> {
        let file = self.file;
        let len = self
            .store
            .driver
            .with(|side| side.writer.state().files.get(&file).map(|file| file.bytes));
        len.ok_or_else(|| Error::NoFile(self.name.clone()))
    }

    /// Whether it has no bytes.
    ///
    /// # Errors
    /// As [`StoreFile::len`].
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Fills `buffer` from `offset` on; returns fewer bytes only at the end of the file. Sees every write that has
    /// returned. Adjacent pages that were written together take one request of up to 4 MiB; eight requests are in
    /// transit at a time.
    ///
    /// # Errors
    /// If a page can't be read, or is damaged.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        let len = buffer.len() as u64;
        let put = |at: usize, bytes: &[u8]| buffer[at..at + bytes.len()].copy_from_slice(bytes);
        self.read_with(offset, len, put)
    }

    /// The same for `len` bytes. `put` receives each piece, with its position, as soon as all of it has arrived.
    pub(crate) fn read_with(
        &self,
        offset: u64,
        len: u64,
        put: impl FnMut(usize, &[u8]),
    ) -> Result<usize, Error> {
        let len = self.len()?.saturating_sub(offset).min(len);
        if len > 0 {
            self.read_range(offset..offset + len, put)?;
        }
        Ok(len as usize)
    }

    fn read_pages(&self, out: &mut [u8], offset: u64) -> Result<(), Error> {
        let range = offset..offset + out.len() as u64;
        self.read_range(range, |at, bytes| {
            out[at..at + bytes.len()].copy_from_slice(bytes)
        })
    }

    fn read_range(&self, range: Range<u64>, put: impl FnMut(usize, &[u8])) -> Result<(), Error> {
        let page_bytes = self.page_bytes();
        let pages = range.start / page_bytes..range.end.div_ceil(page_bytes);
        let driver = &self.store.driver;
        let found = driver.with(|side| {
            let pages = pages.map(|page| match side.writer.page(self.file, page) {
                Uncommitted::Held(bytes) => (page, Found::Here(bytes)),
                Uncommitted::At(place) => (page, Found::At(place)),
                Uncommitted::Zeros => (page, Found::Zeros),
            });
            pages.collect()
        });
        let bytes = range.end - range.start;
        let read = |wanted: &[(u64, Place)]| pages::read(driver.handle(), driver.bucket(), wanted, bytes);
        pieces(range, page_bytes, found, read, put).map_err(|error| failed(&self.name, error))
    }

    /// Accepts bytes at `offset`, extending the file if necessary. They are in the store after a sync. Waits while the
    /// limit on held bytes is reached. A write to part of a page first reads the rest of it.
    ///
    /// # Errors
    /// If another writer has the store, or if there was no space for the time of a sync. The file is then unchanged,
    /// except after [`Error::Short`], which says how much was written.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.write_parts(bytes.len(), offset, |part| Bytes::copy_from_slice(&bytes[part]))
    }

    /// The same for bytes that are kept as they are, in one piece, until all of them are in the store.
    pub(crate) fn write_bytes(&self, bytes: &Bytes, offset: u64) -> Result<(), Error> {
        self.write_parts(bytes.len(), offset, |part| bytes.slice(part))
    }

    /// `part` returns a range of the `len` bytes.
    fn write_parts(
        &self,
        len: usize,
        offset: u64,
        part: impl Fn(Range<usize>) -> Bytes,
    ) -> Result<(), Error> {
        let bytes = len as u64;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let page_bytes = self.page_bytes();
        let end = offset.checked_add(bytes).ok_or(WriteError::TooLong)?;
        let len = self.len()?;
        let mut at = offset;
        while at < end {
            let page = at / page_bytes;
            let to = end.min((page * page_bytes).saturating_add(page_bytes));
            let part = part((at - offset) as usize..(to - offset) as usize);
            if let Err(why) = self.write_in_page(page, part, at, len) {
                return Err(match at - offset {
                    0 => why,
                    written => Error::Short {
                        written,
                        bytes,
                        why: Box::new(why),
                    },
                });
            }
            at = to;
        }
        Ok(())
    }

    /// Accepts bytes within one page of a file that was `len` long: all of them or none.
    fn write_in_page(&self, page: u64, part: Bytes, at: u64, len: u64) -> Result<(), Error> {
        let page_bytes = self.page_bytes();
        let begins = page * page_bytes;
        let to = at + part.len() as u64;
        // Up to the end that the file had, or to what is written now.
        let used = (len.min(begins.saturating_add(page_bytes)).saturating_sub(begins)).max(to - begins);
        let whole = at == begins && to - begins == used;
        let content = if whole {
            part
        } else {
            let mut content = BytesMut::zeroed(used as usize);
            self.read_pages(&mut content, begins)?;
            content[(at - begins) as usize..(to - begins) as usize].copy_from_slice(&part);
            content.freeze()
        };
        self.store.write(self.file, page, content, to)
    }

    /// Sets the file's length to `len`. Bytes past it are gone, new bytes are zero. In the store with the next sync.
    ///
    /// # Errors
    /// If another writer has the store.
    pub fn set_len(&self, len: u64) -> Result<(), Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self
            .store
            .driver
            .with(|side| side.writer.set_len(self.file, len))?)
    }

    /// Zeroes a range. In the store with the next sync.
    ///
    /// # Errors
    /// As [`StoreFile::write_at`].
    pub fn punch(&self, range: Range<u64>) -> Result<(), Error> {
        let page_bytes = self.page_bytes();
        let end = range.end.min(self.len()?);
        let start = range.start.min(end);
        let (first, last) = (start.div_ceil(page_bytes), end / page_bytes);
        if first >= last {
            return self.write_at(&vec![0; (end - start) as usize], start);
        }
        self.write_at(&vec![0; (first * page_bytes - start) as usize], start)?;
        self.write_at(&vec![0; (end - last * page_bytes) as usize], last * page_bytes)?;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self
            .store
            .driver
            .with(|side| side.writer.punch(self.file, first..last))?)
    }

    /// Commits all changes of all files of the store: [`Store::sync`](super::Store::sync).
    ///
    /// # Errors
    /// As [`Store::sync`](super::Store::sync).
    pub fn sync_data(&self) -> Result<(), Error> {
        self.store.sync(|side, now, ticket| side.writer.sync(now, ticket))
    }
}
