//! What can go wrong.

use crate::format::Key;
use crate::layout::{OpenError, ReadError, SyncError, WriteError};
use std::time::Duration;

/// A call that did not do what was asked. No message has a secret in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is none of a store, or a store of that kind can't be had.
    #[error("{0}")]
    Address(String),
    /// Pages of so many bytes can't be.
    #[error("pages of {0} bytes: a store's have 4096 to 1048576, a power of two")]
    PageBytes(u32),
    /// Two writers could create the same object there, each believing that it has: no fence can be made of that.
    #[error(
        "{0} has no conditional PUT (If-None-Match: *) that works: it refuses one, or creates an object that is there already. \
         A second writer could not be kept out; use a store that has it"
    )]
    NoConditionalPut(String),
    /// A list of it has not what is there. A store that seems to be empty would be made anew beside its writer.
    #[error(
        "{0} does not list an object that is there, under the name that it has: its newest commit could not be found, and no \
         writer be kept out; use another prefix, or a store whose lists are complete"
    )]
    Lists(String),
    /// It can't be opened for writing.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It can't be opened for reading.
    #[error(transparent)]
    Reader(#[from] ReadError),
    /// It was not committed.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// A change was not taken.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A part of a write was taken, and no more. The file has that part, and ends with it if it is longer by it.
    #[error("of {bytes} bytes the first {written} were taken: {why}")]
    Short {
        /// Bytes that were taken.
        written: u64,
        /// Bytes that were to be written.
        bytes: u64,
        /// Why it was no more.
        why: Box<Error>,
    },
    /// There is no file of that name.
    #[error("there is no file {0}")]
    NoFile(String),
    /// A page could not be read.
    #[error("page {page} of {file} can't be read: {key}: {why}")]
    Read {
        /// The file's name.
        file: String,
        /// Which page.
        page: u64,
        /// The object that has it.
        key: Key,
        /// What the store says, or what is wrong with what it gave.
        why: String,
    },
    /// The store has not answered in time.
    #[error("nothing came of it in {0:?}: {1}; it is tried again by the next call")]
    TimedOut(Duration, String),
    /// The system has no thread for a store, or no file in memory for one of its files.
    #[error("the system refuses what a store needs: {0}")]
    System(std::io::Error),
}

impl Error {
    /// Whether another writer has the store.
    pub fn is_fenced(&self) -> bool {
        match self {
            Error::Sync(SyncError::Fenced(_)) | Error::Write(WriteError::Fenced(_)) => true,
            Error::Short { why, .. } => why.is_fenced(),
            _ => false,
        }
    }
}
