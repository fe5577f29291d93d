//! The calls of `std::os::unix::fs::FileExt` that transfer a whole buffer or fail, and the trait itself.

use super::File;
use crate::error::{Error, Result};
use std::io;
use std::os::unix::fs::FileExt;

impl File {
    /// Reads exactly `buf.len()` bytes from byte `offset` on.
    ///
    /// # Errors
    /// [`Error::EndOfFile`] if the file ends too early; otherwise as [`File::read_at`]. After an error the contents of
    /// `buf` are undefined.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let read = self.read_at(buf, offset)?;
        self.check_all(read, buf.len(), offset)
    }

    /// Checks that a read returned all the bytes it wanted; it returns fewer only at the end of the file.
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

    /// Same as [`File::write_at`], which writes all of `buf` or fails, under the name that `std` uses.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.write_at(buf, offset)
    }
}

/// For code that is generic over this trait. The calls have the file's own semantics; each error contains an [`Error`].
impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(File::read_at(self, buf, offset)?)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        Ok(File::read_exact_at(self, buf, offset)?)
    }

    /// Writes all of `buf`.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        File::write_at(self, buf, offset)?;
        Ok(buf.len())
    }
}
