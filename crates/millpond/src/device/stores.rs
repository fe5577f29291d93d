//! Figures of the stores beneath a device: services with requests, latencies and commits of their own, unknown to the
//! cache. The cache passes the figures on by name and unit, to `stat`, `top` and metrics.

use millpond_core::units::{Bytes, Nanos};

/// The figures of one store, the most important first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreFigures {
    /// The store's name, for people. It must not contain secrets: metrics show it to all their readers.
    pub name: String,
    /// The store's figures.
    pub figures: Vec<StoreFigure>,
}

/// One figure of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreFigure {
    /// The name: lower-case words joined by `_`, without the unit. Metrics turn `garbage` into
    /// `millpond_store_garbage_bytes`.
    pub name: &'static str,
    /// The description, one sentence.
    pub about: &'static str,
    /// The value.
    pub value: StoreValue,
}

/// The value of a figure, with its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreValue {
    /// A count of events; monotonic.
    Total(u64),
    /// A count of bytes; monotonic.
    TotalBytes(Bytes),
    /// A count of completed operations and their total time; both monotonic.
    Timed(u64, Nanos),
    /// A current number.
    Number(u64),
    /// A current number of bytes.
    Bytes(Bytes),
    /// A current duration.
    Time(Nanos),
}
