//! What a writer reports: errors, outcomes, figures.

use super::Ticket;
use crate::format::op::FileNo;
use crate::layout::loaded::{LoadError, at};
use crate::layout::requests::Refusal;
use crate::layout::state::Place;
use bytes::Bytes;

/// Another writer has the store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("another writer has taken the store over: {owner}, as epoch {epoch}, {}", at(.at_unix_ms))]
pub struct Fence {
    /// Its epoch; 0 if unknown.
    pub epoch: u32,
    /// Its host and process.
    pub owner: String,
    /// When it made the commit that shows this, in milliseconds since 1970 by its clock; 0 if unknown.
    pub at_unix_ms: u64,
}

/// Why a store can't be opened for writing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The previous writer has not closed it, and may still be running.
    #[error(
        "the store is open: {owner} has not closed it, and has made its last commit {}; if that is gone, or is to be kept \
         from writing, take it over with StoreOptions::take_over(true)",
        at(.at_unix_ms)
    )]
    Held {
        /// Its host and process.
        owner: String,
        /// When it made its last commit, in milliseconds since 1970 by its clock.
        at_unix_ms: u64,
        /// Its epoch.
        epoch: u32,
    },
    /// The store has another page size.
    #[error(
        "the store has pages of {0} bytes and can't be opened with others: say none, and they are the store's"
    )]
    PageSize(u32),
    /// The store can't be read.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Why a sync failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SyncError {
    /// The store did not answer, or refused. The written data is held and retried. Whether this commit is in the store
    /// will be determined later.
    #[error("the store can't be written: {0}; data that is not stored yet is kept and retried")]
    Store(String),
    /// The store has no room. The written data is held and retried.
    #[error("the store has no room: {0}; data that is not stored yet is kept and retried")]
    NoRoom(String),
    /// Another writer has the store. Permanent.
    #[error(transparent)]
    Fenced(#[from] Fence),
}

impl SyncError {
    pub(super) fn of(refusal: Option<Refusal>, why: &str) -> SyncError {
        match refusal {
            Some(Refusal::Room) => SyncError::NoRoom(why.to_owned()),
            Some(Refusal::Access) | None => SyncError::Store(why.to_owned()),
        }
    }
}

/// Why a change was rejected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WriteError {
    /// The limit on held bytes is reached. [`Told::Room`] reports when there is space again.
    #[error("too much data is waiting to be stored; wait until there is room")]
    Full,
    /// The file or snapshot does not exist.
    #[error("there is no {0}")]
    Absent(String),
    /// The name already exists.
    #[error("there is {0} already")]
    Exists(String),
    /// The name is invalid: empty, or longer than 4096 bytes.
    #[error("a name has 1 to 4096 bytes, not {0}")]
    Name(usize),
    /// The length exceeds the maximum.
    #[error("a file has less than 2^64 bytes")]
    TooLong,
    /// The store is not open, or is being closed.
    #[error("the store is not open")]
    Closed,
    /// Another writer has the store. Permanent.
    #[error(transparent)]
    Fenced(#[from] Fence),
}

/// Reports of a writer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// Opening for writing has succeeded or failed.
    Opened(Result<(), OpenError>),
    /// A sync has ended.
    Synced(Ticket, Result<(), SyncError>),
    /// There is space for writes again.
    Room,
    /// Another writer has the store. Reported once.
    Fenced(Fence),
}

/// The location of a page's newest bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Uncommitted {
    /// In memory, on the way to the store.
    Held(Bytes),
    /// In the store.
    At(Place),
    /// Nowhere: the page is zeros.
    Zeros,
}

/// A page that was written and is in no commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The file's number.
    pub file: FileNo,
    /// Its name; empty if the file was removed.
    pub name: String,
    /// The page.
    pub page: u64,
    /// Its bytes, or the chunk that contains them, which the other writer deletes after a grace.
    pub bytes: Uncommitted,
}

/// Sizes in bytes, and counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Pages that belong to files.
    pub live_bytes: u64,
    /// All objects: pages, live and dead, commits and checkpoints.
    pub stored_bytes: u64,
    /// Checkpoints, including those of snapshots.
    pub checkpoint_bytes: u64,
    /// Objects to be deleted after their grace, or when no reader needs them.
    pub garbage_objects: u64,
    /// Written but in no commit.
    pub uncommitted_bytes: u64,
    /// The newest commit.
    pub commit: u64,
    /// Commits since the newest checkpoint: opening reads the head of each.
    pub commits_since_checkpoint: u64,
    /// How often storing the due checkpoint has failed; 0 if it succeeded, or none is due.
    /// [`Writer::trouble`](super::Writer::trouble) has the reason.
    pub checkpoint_failures: u32,
    /// How often listing or deleting unneeded objects has failed since it last succeeded.
    pub deletion_failures: u32,
    /// Pages in the map.
    pub pages: u64,
    /// Bytes of pages rewritten to get rid of dead ones.
    pub cleaned_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_about_another_writer_says_host_process_and_time() {
        let owner = String::from("process 12 on a-host");
        let held = OpenError::Held {
            owner: owner.clone(),
            at_unix_ms: 1_700_000_000_123,
            epoch: 3,
        };
        let said = held.to_string();
        assert!(
            said.contains("process 12 on a-host") && said.contains(" at 2023-11-14 22:13:20 UTC"),
            "{said}"
        );
        let fence = |at_unix_ms| Fence {
            epoch: 3,
            owner: owner.clone(),
            at_unix_ms,
        };
        let said = fence(1_700_000_000_123).to_string();
        assert!(
            said.ends_with("process 12 on a-host, as epoch 3, at 2023-11-14 22:13:20 UTC"),
            "{said}"
        );
        for unknown in [0, u64::MAX] {
            let said = fence(unknown).to_string();
            assert!(said.ends_with("at a time that is not known"), "{said}");
        }
    }
}
