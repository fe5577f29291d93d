//! The settings of a writer.

use std::time::Duration;

/// The default grace of a new store.
pub(super) const GRACE: Duration = Duration::from_secs(15 * 60);

/// The default page size of a new store in bytes.
pub(super) const PAGE_BYTES: u32 = 64 << 10;

/// The settings of a writer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriterOptions {
    /// Page size in bytes. A store keeps the size of its first commit. `None`: the store's size, or 64 KiB for a new
    /// one.
    pub page_bytes: Option<u32>,
    /// The most bytes in a chunk.
    pub chunk_bytes: u64,
    /// A sync of at most this many bytes carries its pages in the commit: one request, one round trip.
    pub inline_bytes: u64,
    /// The most chunks of writes in transit; one of cleaning comes on top.
    pub in_transit: usize,
    /// Bytes held until they are in the store. Writes beyond this wait. While cleaning has work it uses three chunks of
    /// them, at most half.
    pub held_bytes: u64,
    /// How long superseded objects are kept for readers and writers that do not know yet. A store keeps the grace of
    /// its first commit. `None`: the store's grace, or 15 minutes for a new one.
    pub grace: Option<Duration>,
    /// A sync that has waited this long reports failing requests. It reports a refusal immediately.
    pub patience: Duration,
    /// A checkpoint is made after this many commits, or later if the map is large.
    pub checkpoint_commits: u64,
    /// Chunks are cleaned when those with live pages hold more than this percentage of the live bytes, plus a chunk.
    pub stored_percent_max: u64,
    /// Random, one for each writer.
    pub nonce: u128,
    /// The wall clock at time zero, in milliseconds since 1970. For people.
    pub unix_ms_at_zero: u64,
    /// Host and process. For people.
    pub owner: String,
    /// Take the store from a writer that has not closed it.
    pub take_over: bool,
    /// If the newest commit is incomplete, open the store as of the newest complete one.
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
