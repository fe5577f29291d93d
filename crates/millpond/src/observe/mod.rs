//! What a cache shows of itself: figures, contents, limits and their reasons, events, traces.

pub mod contents;
pub(crate) mod events;
pub mod explain;
pub(crate) mod figures;
pub mod history;
#[cfg(feature = "metrics")]
pub(crate) mod http;
pub(crate) mod inspect;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
pub(crate) mod record;
pub mod stats;
#[cfg(feature = "trace")]
pub(crate) mod trace;
#[cfg(not(feature = "trace"))]
#[path = "trace/off.rs"]
pub(crate) mod trace;
