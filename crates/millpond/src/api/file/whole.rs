//! The calls of `std::os::unix::fs::FileExt`: all of a buffer or an error, and the trait itself for code that takes any file.

use super::File;
use crate::error::{Error, Result};
use std::io;
use std::os::unix::fs::FileExt;

impl File {
    /// Fills `buf` from byte `offset` on.
    ///
    /// # Errors
    /// [`Error::EndOfFile`] if the file ends before; otherwise as [`File::read_at`]. `buf` is undefined then.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let read = self.read_at(buf, offset)?;
        self.check_all(read, buf.len(), offset)
    }

    /// Whether a read has all that it wanted: it has less only where the file ends.
    ///
    /// # Errors
    /// [`Error::EndOfFile`].
    pub(crate) fn check_all(&self, read: usize, wanted: usize, offset: u64) -> Result<()> {
        if read == wanted {
            return Ok(());
        }
        Err(Error::EndOfFile {
            path: self.inner.path.clone(),
            offset,
            wanted: wanted as u64,
            len: self.len(),
        })
    }

    /// The same as [`File::write_at`], which writes all of `buf` or fails, by the name that it has in `std`.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.write_at(buf, offset)
    }
}

/// For code that takes whatever has this trait. The calls and what they promise are the file's own; in each error is an
/// [`Error`].
impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(File::read_at(self, buf, offset)?)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        Ok(File::read_exact_at(self, buf, offset)?)
    }

    /// All of `buf`.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        File::write_at(self, buf, offset)?;
        Ok(buf.len())
    }
}
