//! Figures for Prometheus: the text format 0.0.4, at `/metrics` of an address that the builder gives.
//!
//! ```text
//!   GET /metrics ──► Stats, devices ──► families: name, HELP, TYPE, samples ──► text
//! ```
//!
//! Names follow the conventions: base units (seconds, bytes), `_total` on counters, labels for what is of one
//! kind. What the kernel counts too has the kernel's name, as `millpond_vmstat_pgscan_direct_total`. There is
//! no file in it, and no path but that of a mount, as its cache's name, and the address of a store: a user that
//! may read it learns how much is done, not with what. An answer costs what [`PageCache::stats`] costs, a moment of the core's lock,
//! and is not made more often than it is asked for; it never looks at frames.
//!
//! [`PageCache::stats`]: crate::PageCache::stats

mod families;
mod stores;
mod text;

use crate::device::{DeviceFigures, StoreFigures};
use crate::error::{Error, Result};
use crate::observe::http::{Answer, Asked, Server};
use crate::observe::stats::Stats;
use millpond_core::units::{Bytes, PageSize};
use std::net::SocketAddr;
use std::time::Duration;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const INDEX: &str =
    "<!doctype html><title>Millpond</title><p>A page cache. <a href=\"/metrics\">/metrics</a></p>\n";

/// The facts about a cache.
pub(crate) struct Facts {
    pub(crate) stats: Stats,
    pub(crate) devices: Vec<DeviceFigures>,
    pub(crate) stores: Vec<StoreFigures>,
    pub(crate) name: Option<String>,
    pub(crate) age: Duration,
    pub(crate) memory: Bytes,
    pub(crate) page_size: PageSize,
}

/// Listens, and answers until the server is dropped.
///
/// # Errors
/// [`Error::Metrics`].
pub(crate) fn start(address: SocketAddr, facts: impl Fn() -> Facts + Send + 'static) -> Result<Server> {
    let answer = move |asked: &Asked<'_>| match asked.path {
        "/metrics" => Answer::ok(CONTENT_TYPE, families::text(&facts())),
        "/" => Answer::ok("text/html; charset=utf-8", INDEX),
        _ => Answer::refused(404, "only /metrics is served"),
    };
    Server::start(address, "millpond-metrics", answer).map_err(|source| Error::Metrics { address, source })
}
