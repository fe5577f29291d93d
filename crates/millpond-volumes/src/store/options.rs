//! The options for opening a store.

use super::error::Error;
use crate::layout::{At, Pinning, WriterOptions};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

/// How to open a store. The defaults suit S3.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub(super) layout: WriterOptions,
    pub(super) endpoint: Option<String>,
    pub(super) request_timeout: Duration,
    pub(super) retries: usize,
    pub(super) sync_timeout: Duration,
    pub(super) poll: Duration,
    pub(super) at: At,
    pub(super) pinning: Pinning,
    pub(super) delay: Duration,
    pub(super) disk_tier: Option<(PathBuf, NonZeroU64)>,
    pub(super) tier_queue_bytes: u64,
    pub(super) nearby_bytes: u64,
}

/// Eight requests of 4 MiB: those of one call.
const TIER_QUEUE_BYTES: u64 = 32 << 20;

/// As long as the largest object of pages.
const NEARBY_BYTES: u64 = 4 << 20;

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            layout: WriterOptions::default(),
            endpoint: None,
            request_timeout: Duration::from_secs(10),
            retries: 3,
            sync_timeout: Duration::from_secs(60),
            poll: Duration::from_secs(1),
            at: At::Newest,
            pinning: Pinning::IfAllowed,
            delay: Duration::ZERO,
            disk_tier: None,
            tier_queue_bytes: TIER_QUEUE_BYTES,
            nearby_bytes: NEARBY_BYTES,
        }
    }
}

impl StoreOptions {
    /// The defaults.
    pub fn new() -> StoreOptions {
        StoreOptions::default()
    }

    /// Takes the store from a writer that has not closed it, and fences that writer. Without this, opening such a store
    /// fails.
    pub fn take_over(mut self, yes: bool) -> StoreOptions {
        self.layout.take_over = yes;
        self
    }

    /// Page size in bytes, a power of two from 4 KiB to 1 MiB, fixed for the life of a store. Default: the store's own,
    /// or 64 KiB for a new store. Opening a store with a different size fails. For an invalid size
    /// [`Store::open`](super::Store::open) returns [`Error::PageBytes`].
    pub fn page_bytes(mut self, bytes: u32) -> StoreOptions {
        self.layout.page_bytes = Some(bytes);
        self
    }

    /// How long superseded objects are kept, in whole milliseconds, at least 1 second. A writer or reader that was away
    /// for longer starts over. A store keeps the grace it was created with, 15 minutes by default: without this option
    /// it applies to every opener, and opening with a different one fails.
    ///
    /// # Panics
    /// If it is less than 1 second.
    pub fn grace(mut self, grace: Duration) -> StoreOptions {
        assert!(grace >= Duration::from_secs(1), "a grace of {grace:?}");
        self.layout.grace = Some(Duration::from_millis(grace.as_millis() as u64));
        self
    }

    /// The most bytes held in memory until they are in the store. Default 40 MiB, at least 8 MiB.
    ///
    /// # Panics
    /// If it is less than 8 MiB.
    pub fn held_bytes(mut self, bytes: u64) -> StoreOptions {
        assert!(bytes >= 8 << 20, "{bytes} bytes held at most: 8 MiB at least");
        self.layout.held_bytes = bytes;
        self
    }

    /// # Errors
    /// If these options don't allow a store.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Some(bytes) = self.layout.page_bytes else {
            return Ok(());
        };
        match bytes.is_power_of_two() && (4 << 10..=1 << 20).contains(&bytes) {
            true => Ok(()),
            false => Err(Error::PageBytes(bytes)),
        }
    }

    /// The current value.
    pub(crate) fn held(&self) -> u64 {
        self.layout.held_bytes
    }

    /// The most chunks in transit. Default 8.
    ///
    /// # Panics
    /// If it is 0.
    pub fn in_transit(mut self, chunks: usize) -> StoreOptions {
        assert!(chunks > 0, "no chunk in transit");
        self.layout.in_transit = chunks;
        self
    }

    /// The address of an S3 server other than Amazon's.
    pub fn endpoint(mut self, url: impl Into<String>) -> StoreOptions {
        self.endpoint = Some(url.into());
        self
    }

    /// How long one attempt at a request may take, and after which no further attempt starts. Default 10 seconds. A
    /// request fails after three times as long in any case.
    pub fn request_timeout(mut self, timeout: Duration) -> StoreOptions {
        self.request_timeout = timeout;
        self
    }

    /// How often a request is retried within [`StoreOptions::request_timeout`]. Default 3.
    pub fn retries(mut self, retries: usize) -> StoreOptions {
        self.retries = retries;
        self
    }

    /// Opening, and a sync of which nothing reaches the store, return an error after this time. Default 60 seconds. A
    /// sync continues for longer while its bytes arrive, however slowly. Most failures are reported sooner.
    pub fn sync_timeout(mut self, timeout: Duration) -> StoreOptions {
        self.sync_timeout = timeout;
        self
    }

    /// How often a reader looks for newer commits. Default 1 second.
    pub fn poll(mut self, poll: Duration) -> StoreOptions {
        self.poll = poll;
        self
    }

    /// Adds this delay to every request, to simulate a more distant store.
    pub fn delay(mut self, delay: Duration) -> StoreOptions {
        self.delay = delay;
        self
    }

    /// Keeps fetched pages in a file on a local disk, a *disk tier*, even after the process has ended. The file has `bytes`,
    /// at least 16 MiB. It is made if there is none, gets all its disk space when it is opened, and belongs to one store and
    /// one process at a time. Only its user may read it.
    ///
    /// While it has empty slots, each fetched page gets one; after that, pages that are used again do. A disk that fails is
    /// given up and fails no read: [`StoreReader::tier`](super::StoreReader::tier). Memory: 33 bytes for each page that fits,
    /// and 32 MiB for pages queued for the disk. In a cache, that is part of its budget, and the queue is at most as large
    /// as the reads in transit.
    ///
    /// Opening reads 4 KiB for each 512 pages of the file.
    pub fn disk_tier(mut self, path: impl Into<PathBuf>, bytes: NonZeroU64) -> StoreOptions {
        self.disk_tier = Some((path.into(), bytes));
        self
    }

    /// How much memory pages queued for a disk tier may take.
    pub(crate) fn tier_queue_bytes(mut self, bytes: u64) -> StoreOptions {
        self.tier_queue_bytes = bytes;
        self
    }

    /// So much of what is read beside small pages is kept.
    pub(crate) fn nearby_bytes(mut self, bytes: u64) -> StoreOptions {
        self.nearby_bytes = bytes;
        self
    }

    /// Opens a store whose newest commit is incomplete, because of a flipped bit or lost objects, as of the newest
    /// complete commit. Without this, opening such a store fails. Everything after that commit is left out; a writer
    /// continues from there and deletes the rest after a grace. `salvaged` of the opened store tells which commit that
    /// is.
    pub fn salvage(mut self, yes: bool) -> StoreOptions {
        self.layout.salvage = yes;
        self
    }

    /// Whether a reader puts a pin, an object of its own that keeps what it reads from being deleted. By default it
    /// does if it may. Without a pin, objects can be deleted under the reader a grace after they were superseded; the
    /// reader then starts over at the newest commit. It needs only the rights to list and read.
    pub fn pinning(mut self, pinning: Pinning) -> StoreOptions {
        self.pinning = pinning;
        self
    }

    /// Makes a reader read this snapshot.
    pub fn snapshot(mut self, name: impl Into<String>) -> StoreOptions {
        self.at = At::Snapshot(name.into());
        self
    }
}
