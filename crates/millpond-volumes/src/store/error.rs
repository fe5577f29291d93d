//! Errors of stores.

use crate::format::Key;
use crate::layout::{OpenError, ReadError, SyncError, WriteError};
use std::time::Duration;

/// A failed call. No message contains a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL does not name a store, or that kind of store is not available.
    #[error("{0}")]
    Address(String),
    /// The page size is invalid.
    #[error("a store can't have pages of {0} bytes: their size is a power of two from 4096 to 1048576")]
    PageBytes(u32),
    /// Two writers could create the same object there, each believing that it alone did. No fence can be built on that.
    #[error(
        "{0} has no conditional PUT (If-None-Match: *) that works: it refuses one, or creates an object that is there already. \
         A second writer could not be kept out; use a store that has it"
    )]
    NoConditionalPut(String),
    /// A listing does not show all objects. A store that appears empty would be created anew beside its writer.
    #[error(
        "{0} does not list an object that is there, under the name that it has: its newest commit could not be found, and no \
         writer be kept out; use another prefix, or a store whose lists are complete"
    )]
    Lists(String),
    /// The store can't be opened for writing.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store can't be opened for reading.
    #[error(transparent)]
    Reader(#[from] ReadError),
    /// The changes were not committed.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// A change was rejected.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Only part of a write was accepted. The file contains that part, and ends with it if that made it longer.
    #[error("only the first {written} of {bytes} bytes were accepted: {why}")]
    Short {
        /// Bytes accepted.
        written: u64,
        /// Bytes requested.
        bytes: u64,
        /// Why no more were accepted.
        why: Box<Error>,
    },
    /// There is no file with this name.
    #[error("there is no file {0}")]
    NoFile(String),
    /// A page could not be read.
    #[error("page {page} of {file} can't be read: {key}: {why}")]
    Read {
        /// The file's name.
        file: String,
        /// The page.
        page: u64,
        /// The object that contains it.
        key: Key,
        /// The store's error, or what is wrong with the data it returned.
        why: String,
    },
    /// A file was opened as of a commit that was superseded and then deleted, since no pin kept it.
    #[error(
        "{file} is open as of commit {commit}, which was superseded and is deleted by now: open it again, and it is as of a \
         newer one"
    )]
    Deleted {
        /// The file's name.
        file: String,
        /// The commit.
        commit: u64,
    },
    /// A file of a reader can't be changed.
    #[error("{0} was opened by a reader, which can't change it: open the store for writing")]
    ReadOnly(String),
    /// The disk tier's file can't be used: [`StoreOptions::disk_tier`](crate::StoreOptions::disk_tier).
    #[error("{0}")]
    DiskTier(String),
    /// The store did not answer in time.
    #[error("no success within {0:?}: {1}; the next call tries again")]
    TimedOut(Duration, String),
    /// The system provides no thread for a store, or no memory file for one of its files.
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
