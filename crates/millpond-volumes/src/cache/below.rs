//! What is below a file of a cache: a file of a store's writer, or one of a reader, as of a commit.

use crate::store::{Error, FileVersion, HeldFile, StoreFile};
use bytes::Bytes;
use std::ops::Range;

#[derive(Debug)]
pub(super) enum Below {
    /// It can be changed.
    Written(StoreFile),
    /// It stays as it is.
    Held(HeldFile),
}

impl Below {
    pub(super) fn len(&self) -> Result<u64, Error> {
        match self {
            Below::Written(file) => file.len(),
            Below::Held(file) => Ok(file.len()),
        }
    }

    pub(super) fn page_bytes(&self) -> u64 {
        match self {
            Below::Written(file) => file.page_bytes(),
            Below::Held(file) => file.page_bytes(),
        }
    }

    /// Whether it is this version.
    pub(super) fn is(&self, version: &FileVersion) -> bool {
        match self {
            Below::Written(_) => false,
            Below::Held(file) => file.is(version),
        }
    }

    /// Whether these bytes are where `other` has them.
    pub(super) fn has_kept(&self, other: &Below, bytes: Range<u64>) -> bool {
        match (self, other) {
            (Below::Held(file), Below::Held(other)) => file.has_kept(other, bytes),
            _ => false,
        }
    }

    /// Whether another opening of the name would have the same.
    pub(super) fn is_current(&self) -> bool {
        match self {
            Below::Written(_) => true,
            Below::Held(file) => file.is_current(),
        }
    }

    pub(super) fn read_with(
        &self,
        offset: u64,
        len: u64,
        put: impl FnMut(usize, &[u8]),
    ) -> Result<usize, Error> {
        match self {
            Below::Written(file) => file.read_with(offset, len, put),
            Below::Held(file) => file.read_with(offset, len, put),
        }
    }

    fn written(&self, shown: &str) -> Result<&StoreFile, Error> {
        match self {
            Below::Written(file) => Ok(file),
            Below::Held(_) => Err(Error::ReadOnly(shown.to_owned())),
        }
    }

    pub(super) fn write_bytes(&self, bytes: &Bytes, offset: u64, shown: &str) -> Result<(), Error> {
        self.written(shown)?.write_bytes(bytes, offset)
    }

    pub(super) fn set_len(&self, len: u64, shown: &str) -> Result<(), Error> {
        self.written(shown)?.set_len(len)
    }

    pub(super) fn punch(&self, range: Range<u64>, shown: &str) -> Result<(), Error> {
        self.written(shown)?.punch(range)
    }

    /// What stays as it is, is there.
    pub(super) fn sync_data(&self) -> Result<(), Error> {
        match self {
            Below::Written(file) => file.sync_data(),
            Below::Held(_) => Ok(()),
        }
    }
}
