//! Counters of a store's requests.

use super::clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Requests since a store was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Requests {
    /// Objects put.
    pub puts: u64,
    /// Bytes of these objects.
    pub put_bytes: u64,
    /// Reads of objects or parts of them.
    pub gets: u64,
    /// Bytes read.
    pub get_bytes: u64,
    /// List requests, of up to 1000 names each.
    pub lists: u64,
    /// Objects deleted.
    pub deletes: u64,
    /// Requests without an answer, or refused.
    pub failed: u64,
    /// Total time of puts in nanoseconds.
    pub put_nanos: u64,
    /// Total time of reads in nanoseconds.
    pub get_nanos: u64,
    /// Total time of all requests in nanoseconds.
    pub nanos: u64,
    /// The longest request in nanoseconds.
    pub nanos_max: u64,
}

#[derive(Default, Debug)]
pub(super) struct Counters {
    pub(super) puts: AtomicU64,
    pub(super) put_bytes: AtomicU64,
    pub(super) gets: AtomicU64,
    pub(super) get_bytes: AtomicU64,
    pub(super) lists: AtomicU64,
    pub(super) deletes: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Of uploads that are there, and of all that was read.
    pub(super) done_bytes: AtomicU64,
    pub(super) put_nanos: AtomicU64,
    pub(super) get_nanos: AtomicU64,
    pub(super) nanos: AtomicU64,
    pub(super) nanos_max: AtomicU64,
}

impl Counters {
    pub(super) fn requests(&self) -> Requests {
        Requests {
            puts: self.puts.load(Relaxed),
            put_bytes: self.put_bytes.load(Relaxed),
            gets: self.gets.load(Relaxed),
            get_bytes: self.get_bytes.load(Relaxed),
            lists: self.lists.load(Relaxed),
            deletes: self.deletes.load(Relaxed),
            failed: self.failed.load(Relaxed),
            put_nanos: self.put_nanos.load(Relaxed),
            get_nanos: self.get_nanos.load(Relaxed),
            nanos: self.nanos.load(Relaxed),
            nanos_max: self.nanos_max.load(Relaxed),
        }
    }

    /// Counts the time until it is dropped.
    pub(super) fn timed<'a>(&'a self, of_its_kind: Option<&'a AtomicU64>) -> Timed<'a> {
        Timed {
            began: clock::awake(),
            of_its_kind,
            counters: self,
        }
    }
}

/// A request under way, also one that its caller gives up.
pub(super) struct Timed<'a> {
    began: Duration,
    of_its_kind: Option<&'a AtomicU64>,
    counters: &'a Counters,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let nanos = clock::awake().saturating_sub(self.began).as_nanos() as u64;
        if let Some(of_its_kind) = self.of_its_kind {
            of_its_kind.fetch_add(nanos, Relaxed);
        }
        self.counters.nanos.fetch_add(nanos, Relaxed);
        self.counters.nanos_max.fetch_max(nanos, Relaxed);
    }
}
