//! What a device says of stores that it stands on: services with requests, latencies and commits of their own, of which a
//! cache knows nothing. It hands their figures on by name and unit, to `stat`, `top` and metrics.

use millpond_core::units::{Bytes, Nanos};

/// The figures of one store, those first that most will look for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreFigures {
    /// Which, for people. Has no secret in it: metrics show it to whatever may read them.
    pub name: String,
    /// What it says of itself.
    pub figures: Vec<StoreFigure>,
}

/// One figure of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreFigure {
    /// Lower-case words joined by `_`, without the unit: metrics make `millpond_store_garbage_bytes` of `garbage`.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// How much.
    pub value: StoreValue,
}

/// A figure's value, and what it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreValue {
    /// What has happened so far; it only grows.
    Total(u64),
    /// Bytes so far; they only grow.
    TotalBytes(Bytes),
    /// What has ended so far, and what it took all together; both only grow.
    Timed(u64, Nanos),
    /// How many there are now.
    Number(u64),
    /// How many bytes there are now.
    Bytes(Bytes),
    /// A time, as it is now.
    Time(Nanos),
}
