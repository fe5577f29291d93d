//! A file with a position, for code that reads and writes streams.

use crate::api::file::File;
use crate::api::guard::OwnedPageRef;
use std::borrow::Borrow;
use std::fmt;
use std::io::{self, BufRead, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};

/// A file in a cache with a position that advances: it implements [`Read`], [`BufRead`], [`Write`] and [`Seek`].
///
/// It has no buffer, because the cache is one. As [`BufRead`] it lends the page itself without a copy. Writes go to the
/// cache at once and are visible to all handles, so [`flush`](Write::flush) does nothing. They are durable after
/// [`File::sync_data`].
///
/// It wraps a `File`, a clone of one, a `&File` or an `Arc<File>`; each cursor has its own position. Between
/// [`fill_buf`](BufRead::fill_buf) and [`consume`](BufRead::consume), which `lines`, `read_until` and similar methods
/// call in pairs, the cursor holds a guard of the page; a thread that wants to change that page waits meanwhile.
///
/// ```
/// use millpond::FileCursor;
/// use std::io::{BufRead, Seek, Write};
/// # let folder = tempfile::tempdir()?;
/// # let cache = millpond::PageCache::builder().memory(2 << 20).build()?;
/// # let file = cache.open(folder.path().join("data"), millpond::OpenOptions::new().create(true))?;
/// let mut cursor = FileCursor::new(&file);
/// writeln!(cursor, "frog\nnewt")?;
/// cursor.rewind()?;
/// assert_eq!(cursor.lines().collect::<Result<Vec<_>, _>>()?, ["frog", "newt"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileCursor<F: Borrow<File> = File> {
    file: F,
    position: u64,
    page: Option<OwnedPageRef>,
}

impl<F: Borrow<File>> FileCursor<F> {
    /// Creates a cursor at the beginning of the file.
    pub fn new(file: F) -> FileCursor<F> {
        let (position, page) = (0, None);
        FileCursor { file, position, page }
    }

    /// Returns the wrapped file.
    pub fn get_ref(&self) -> &F {
        &self.file
    }

    /// Drops the cursor and returns the wrapped file.
    pub fn into_inner(self) -> F {
        self.file
    }

    /// Returns the offset of the next byte.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Sets the offset of the next byte, which may lie past the end of the file.
    pub fn set_position(&mut self, position: u64) {
        self.page = None;
        self.position = position;
    }

    fn file(&self) -> &File {
        self.file.borrow()
    }

    /// Advances the position by `bytes`. No page is held.
    fn moved(&mut self, bytes: usize) -> usize {
        self.position += bytes as u64;
        bytes
    }
}

impl<F: Borrow<File>> Read for FileCursor<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.page = None;
        let read = self.file().read_at(buf, self.position)?;
        Ok(self.moved(read))
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.page = None;
        let read = self.file().read_vectored_at(bufs, self.position)?;
        Ok(self.moved(read))
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        let before = buf.len();
        let left = self.file().len().saturating_sub(self.position);
        buf.try_reserve(usize::try_from(left).unwrap_or(usize::MAX))?;
        loop {
            let page = self.fill_buf()?;
            let len = page.len();
            if len == 0 {
                return Ok(buf.len() - before);
            }
            buf.extend_from_slice(page);
            self.consume(len);
        }
    }
}

impl<F: Borrow<File>> BufRead for FileCursor<F> {
    /// Returns the rest of the page at the position, in the cache itself.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let position = self.position;
        let size = self.file().page_size();
        if self.page.is_none() {
            if position >= self.file().len() {
                return Ok(&[]);
            }
            self.page = match self.file().page_owned(position / size) {
                Ok(page) => Some(page),
                // The file was cut meanwhile.
                Err(crate::Error::OutOfRange { .. }) => None,
                Err(error) => return Err(error.into()),
            };
        }
        let at = (position % size) as usize;
        if self.page.as_ref().is_some_and(|page| page.len() <= at) {
            // It was cut to before the position: the end, and no guard is kept for it.
            self.page = None;
        }
        let page = self.page.as_deref().unwrap_or_default();
        Ok(page.get(at..).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        // Not kept for the next time: the caller may want to write to it before.
        self.page = None;
        self.moved(amount);
    }
}

impl<F: Borrow<File>> Write for FileCursor<F> {
    /// Writes all of `buf`.
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.page = None;
        self.file().write_at(buf, self.position)?;
        Ok(self.moved(buf.len()))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.page = None;
        self.file().write_vectored_at(bufs, self.position)?;
        Ok(self.moved(bufs.iter().map(|buf| buf.len()).sum()))
    }

    /// Does nothing, because writes go to the cache at once. It is not a [`File::sync_data`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<F: Borrow<File>> Seek for FileCursor<F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.file().len().checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        let position = position.ok_or_else(|| {
            let said = format!("{to:?} is before the first byte of the file, or beyond what can be counted");
            io::Error::new(io::ErrorKind::InvalidInput, said)
        })?;
        self.set_position(position);
        Ok(position)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        Ok(self.position)
    }
}

impl<F: Borrow<File>> fmt::Debug for FileCursor<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileCursor({:?} at byte {})", self.file(), self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenOptions, PageCache};

    fn file() -> (tempfile::TempDir, File) {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let file = cache.open(folder.path().join("data"), OpenOptions::new().create(true));
        (folder, file.unwrap())
    }

    #[test]
    fn pages_read_are_the_pieces_written() {
        let (_folder, file) = file();
        let bytes: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
        let mut cursor = FileCursor::new(file.clone());
        for piece in bytes.chunks(777) {
            cursor.write_all(piece).unwrap();
        }
        assert_eq!(cursor.position(), 20_000);
        let mut back = vec![1, 2];
        cursor.seek(SeekFrom::Start(0)).unwrap();
        assert_eq!(cursor.read_to_end(&mut back).unwrap(), 20_000);
        assert!(back[2..] == bytes);
        assert_eq!(cursor.seek(SeekFrom::End(-5)).unwrap(), 19_995);
        let mut end = [0; 10];
        assert_eq!(cursor.read(&mut end).unwrap(), 5);
        assert_eq!(end[..5], bytes[19_995..]);
        assert_eq!(cursor.read(&mut end).unwrap(), 0);
        assert!(cursor.seek(SeekFrom::Current(-20_001)).is_err());
        assert_eq!(cursor.position(), 20_000);
    }

    #[test]
    fn it_lends_the_page_itself_and_holds_it_until_it_is_consumed() {
        let (_folder, file) = file();
        file.write_at(&[7; 10_000], 0).unwrap();
        let mut cursor = FileCursor::new(&file);
        cursor.set_position(4100);
        let lent = cursor.fill_buf().unwrap();
        assert_eq!((lent.len(), lent[0]), (8192 - 4100, 7));
        assert_eq!(lent.as_ptr(), file.page(1).unwrap()[4..].as_ptr());
        assert!(file.try_page_mut(1).unwrap().is_none());
        cursor.consume(1);
        assert!(file.try_page_mut(1).unwrap().is_some());
        // Past the end there is nothing, even if the file shrinks while the page is lent.
        cursor.set_position(9_999);
        assert_eq!(cursor.fill_buf().unwrap(), [7]);
        cursor.set_position(10_000);
        assert!(cursor.fill_buf().unwrap().is_empty());
    }

    #[test]
    fn errors_of_the_cursor_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, "text").unwrap();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let file = cache.open(path, OpenOptions::new()).unwrap();
        let error = FileCursor::new(file).write(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let inner = error.downcast::<crate::Error>().unwrap();
        assert_eq!(inner.errno(), libc::EBADF);
    }
}
