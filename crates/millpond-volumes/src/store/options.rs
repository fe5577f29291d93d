//! How a store is opened.

use super::error::Error;
use crate::layout::{At, Pinning, WriterOptions};
use std::time::Duration;

/// How a store is opened. The defaults are meant for S3.
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
}

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
        }
    }
}

impl StoreOptions {
    /// The defaults.
    pub fn new() -> StoreOptions {
        StoreOptions::default()
    }

    /// Takes the store from a writer that has not closed it, which is fenced from then on. Without it such a store is
    /// refused.
    pub fn take_over(mut self, yes: bool) -> StoreOptions {
        self.layout.take_over = yes;
        self
    }

    /// Bytes of a page, a power of two from 4 KiB to 1 MiB, for the life of a store. Unless they are said they are the store's,
    /// and 64 KiB in a new one. A store is refused with others than its own; what none can have is an [`Error::PageBytes`] of
    /// [`Store::open`](super::Store::open).
    pub fn page_bytes(mut self, bytes: u32) -> StoreOptions {
        self.layout.page_bytes = Some(bytes);
        self
    }

    /// How long what was superseded stays, in whole milliseconds: 15 minutes unless the first opening says otherwise, 1 second
    /// at least. A writer or a reader that was away for longer begins anew. A store keeps the grace that it was made with,
    /// for all that open it without saying one, and is refused with another.
    ///
    /// # Panics
    /// If it is shorter.
    pub fn grace(mut self, grace: Duration) -> StoreOptions {
        assert!(grace >= Duration::from_secs(1), "a grace of {grace:?}");
        self.layout.grace = Some(Duration::from_millis(grace.as_millis() as u64));
        self
    }

    /// The most that is held until it is in the store: 40 MiB unless it is said, 8 MiB at least.
    ///
    /// # Panics
    /// If it is less.
    pub fn held_bytes(mut self, bytes: u64) -> StoreOptions {
        assert!(bytes >= 8 << 20, "{bytes} bytes held at most: 8 MiB at least");
        self.layout.held_bytes = bytes;
        self
    }

    /// # Errors
    /// If no store can be made with them.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Some(bytes) = self.layout.page_bytes else {
            return Ok(());
        };
        match bytes.is_power_of_two() && (4 << 10..=1 << 20).contains(&bytes) {
            true => Ok(()),
            false => Err(Error::PageBytes(bytes)),
        }
    }

    /// What it is now.
    pub(crate) fn held(&self) -> u64 {
        self.layout.held_bytes
    }

    /// Chunks in transit at most: 8 unless it is said.
    ///
    /// # Panics
    /// If it is 0.
    pub fn in_transit(mut self, chunks: usize) -> StoreOptions {
        assert!(chunks > 0, "no chunk in transit");
        self.layout.in_transit = chunks;
        self
    }

    /// The address of an S3 server that is not Amazon's.
    pub fn endpoint(mut self, url: impl Into<String>) -> StoreOptions {
        self.endpoint = Some(url.into());
        self
    }

    /// After so long an attempt at a request is given up, and no other is begun: 10 seconds unless it is said. A request fails
    /// after three times as long whatever was attempted.
    pub fn request_timeout(mut self, timeout: Duration) -> StoreOptions {
        self.request_timeout = timeout;
        self
    }

    /// A request of which an attempt failed is attempted again so often, within [`StoreOptions::request_timeout`]: 3 times
    /// unless it is said.
    pub fn retries(mut self, retries: usize) -> StoreOptions {
        self.retries = retries;
        self
    }

    /// Opening, and a sync in which nothing reaches the store, return an error after this time: 60 seconds by default. A sync goes
    /// on for longer while its bytes arrive, however slowly. Most failures are reported sooner.
    pub fn sync_timeout(mut self, timeout: Duration) -> StoreOptions {
        self.sync_timeout = timeout;
        self
    }

    /// How often a reader looks for newer commits: each second unless it is said.
    pub fn poll(mut self, poll: Duration) -> StoreOptions {
        self.poll = poll;
        self
    }

    /// Each request takes so much longer: what a store would be like that is further away.
    pub fn delay(mut self, delay: Duration) -> StoreOptions {
        self.delay = delay;
        self
    }

    /// Opens a store whose newest commit is not whole, for a flipped bit or for what was lost, as of the newest commit that is.
    /// Without it such a store is refused. What is behind that commit is left out; a writer goes on from there, and deletes
    /// it after a grace. `salvaged` of what was opened says which commit that is.
    pub fn salvage(mut self, yes: bool) -> StoreOptions {
        self.layout.salvage = yes;
        self
    }

    /// Whether a reader puts a pin, an object of its own that keeps what it reads from being deleted: if it may, unless it is
    /// said. One that has none may find that what it reads was deleted, a grace after that was superseded, and begins anew at
    /// the newest commit then. It needs the rights to list and to read, and no other.
    pub fn pinning(mut self, pinning: Pinning) -> StoreOptions {
        self.pinning = pinning;
        self
    }

    /// A reader reads this snapshot.
    pub fn snapshot(mut self, name: impl Into<String>) -> StoreOptions {
        self.at = At::Snapshot(name.into());
        self
    }
}
