//! What a writer is told when it is made.

use std::time::Duration;

/// The grace of a store that was made without another.
pub(super) const GRACE: Duration = Duration::from_secs(15 * 60);

/// How a writer goes about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriterOptions {
    /// Bytes of a page. A store keeps those of its first commit.
    pub page_bytes: u32,
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
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            page_bytes: 64 << 10,
            chunk_bytes: 4 << 20,
            inline_bytes: 4 << 20,
            in_transit: 8,
            held_bytes: 40 << 20,
            grace: None,
            checkpoint_commits: 64,
            stored_percent_max: 150,
            nonce: 0,
            unix_ms_at_zero: 0,
            owner: String::new(),
            take_over: false,
        }
    }
}
