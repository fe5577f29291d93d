//! A running cache: the engine, and all that can be changed while it runs.

use super::budget::{Budget, Rules};
use super::calibration::{Calibrating, Calibrations};
use super::follow::Follower;
use super::remeasure::Remeasure;
use crate::engine::driver::Engine;
use crate::engine::threads::Threads;
use crate::host::Notices;
use crate::observe::history::History;
#[cfg(feature = "trace")]
use crate::observe::trace::Recordings;
use parking_lot::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};

/// The state shared by the control socket and users' handles.
pub(crate) struct Cache {
    pub(crate) engine: Arc<Engine>,
    /// Whether the read latency goal is still the one for an unknown device.
    pub(crate) calibrating: Mutex<Calibrations>,
    pub(crate) notices: Notices,
    pub(crate) memory_beyond_limit: bool,
    pub(crate) budget: Mutex<Budget>,
    /// Its size in bytes, for callers that must not wait for its lock.
    pub(crate) memory_bytes: AtomicU64,
    /// Taken after the budget.
    pub(crate) rules: Mutex<Rules>,
    pub(crate) follower: Follower,
    /// Measures devices again.
    pub(crate) remeasure: Remeasure,
    /// For threads that the cache starts later.
    pub(crate) me: Weak<Cache>,
    pub(crate) history: Mutex<History>,
    #[cfg(feature = "trace")]
    pub(crate) recordings: Mutex<Recordings>,
    pub(crate) name: OnceLock<String>,
    /// They end with it.
    _threads: Threads,
}

impl Cache {
    pub(crate) fn new(
        engine: Arc<Engine>,
        threads: Threads,
        calibrating: Calibrating,
        notices: Notices,
        budget: Budget,
        memory_beyond_limit: bool,
    ) -> Arc<Cache> {
        Arc::new_cyclic(|me| Cache {
            engine,
            calibrating: Mutex::new(Calibrations::new(calibrating)),
            notices,
            memory_beyond_limit,
            memory_bytes: AtomicU64::new(budget.memory.0),
            budget: Mutex::new(budget),
            rules: Mutex::default(),
            follower: Follower::default(),
            remeasure: Remeasure::default(),
            me: me.clone(),
            history: Mutex::default(),
            #[cfg(feature = "trace")]
            recordings: Mutex::default(),
            name: OnceLock::new(),
            _threads: threads,
        })
    }
}
