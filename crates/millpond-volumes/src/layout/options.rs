//! What a writer is told when it is made.

use std::time::Duration;

/// The grace of a store that was made without another.
pub(super) const GRACE: Duration = Duration::from_secs(15 * 60);

/// Bytes of a page of a store that was made without others.
pub(super) const PAGE_BYTES: u32 = 64 << 10;

/// How a writer goes about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriterOptions {
    /// Bytes of a page. A store keeps those of its first commit; `None`: whichever these are, and 64 KiB in a new one.
    pub page_bytes: Option<u32>,
    /// Bytes of a chunk at most.
    pub chunk_bytes: u64,
    /// A sync of up to so many bytes carries its pages in the commit: one request, one round trip.
    pub inline_bytes: u64,
    /// Chunks of writes in transit at most; one of cleaning comes on top.
    pub in_transit: usize,
    /// Bytes that are held until they are in the store. A write beyond waits. Cleaning has three chunks of them, and half at
    /// most, while it has work.
    pub held_bytes: u64,
    /// How long what was superseded stays, for readers and writers that do not know yet. A store keeps that of its first
    /// commit; `None`: whichever that is, and 15 minutes in a new one.
    pub grace: Option<Duration>,
    /// A sync is told of requests that fail when it has waited for so long. What is refused it is told of at once.
    pub patience: Duration,
    /// A checkpoint is made after so many commits, or later if the map is large.
    pub checkpoint_commits: u64,
    /// Chunks are cleaned when those that have live pages hold more than this share, in percent, of these, and a chunk.
    pub stored_percent_max: u64,
    /// Drawn at random, once for each writer.
    pub nonce: u128,
    /// What time it was, in milliseconds since 1970, when the time was zero: for people.
    pub unix_ms_at_zero: u64,
    /// Host and process, for people.
    pub owner: String,
    /// Take the store from a writer that has not closed it.
    pub take_over: bool,
    /// Open it as of the newest commit that is whole, if the newest is not.
    pub salvage: bool,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            page_bytes: None,
            chunk_bytes: 4 << 20,
            inline_bytes: 4 << 20,
            in_transit: 8,
            held_bytes: 40 << 20,
            grace: None,
            patience: Duration::from_secs(30),
            checkpoint_commits: 64,
            stored_percent_max: 150,
            nonce: 0,
            unix_ms_at_zero: 0,
            owner: String::new(),
            take_over: false,
            salvage: false,
        }
    }
}
