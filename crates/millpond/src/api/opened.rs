//! The state that a handle and its clones share until the last of them is dropped.

use super::handle::Handle;
use crate::device::DeviceFile;
use crate::files::FileInner;
use crate::frames::table::{Holder, Table};
use crate::sys::arena::Arena;
use crate::sys::threads;
#[cfg(feature = "tokio")]
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// An open file while it is in use: one of the handles that the cache counts.
pub(crate) struct Opened {
    pub(crate) inner: Arc<FileInner>,
    pub(crate) cache: Arc<Handle>,
    /// It was opened with `exclusive`: until it is dropped, no other handle is.
    is_exclusive: bool,
    /// Async tasks use it: a runtime's own thread does not wait for it to close.
    #[cfg(feature = "tokio")]
    pub(crate) in_tasks: std::sync::atomic::AtomicBool,
    /// The device file whose descriptor was lent. The file may have been reopened since, for writing.
    pub(super) lent: OnceLock<Arc<DeviceFile>>,
}

impl Opened {
    pub(crate) fn new(inner: Arc<FileInner>, cache: Arc<Handle>, is_exclusive: bool) -> Opened {
        if is_exclusive {
            inner.has_exclusive.store(true, Ordering::Release);
        }
        Opened {
            inner,
            cache,
            is_exclusive,
            #[cfg(feature = "tokio")]
            in_tasks: false.into(),
            lent: OnceLock::new(),
        }
    }
}

impl Holder for Arc<Opened> {
    type Memory = Arena;

    fn table(&self) -> &Table<Arena> {
        &self.cache.engine.table
    }

    fn gives_back(&self) -> bool {
        !self.cache.engine.call_flags.is_of_another()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let (cache, inner) = (self.cache.clone(), self.inner.clone());
        if cache.engine.call_flags.is_of_another() {
            // In a forked child nothing is done, nor closed.
            return std::mem::forget((cache, inner, self.lent.take()));
        }
        if self.is_exclusive {
            inner.has_exclusive.store(false, Ordering::Release);
        }
        let log = inner.writeback_rules.held.as_ref().map(|held| &held.log);
        if log.is_some_and(|log| log.is_own_callback()) {
            // What it may have to wait for is this thread.
            let (cache, inner) = (cache.clone(), inner.clone());
            if threads::spawn("millpond-close", move || cache.file_dropped(&inner)).is_ok() {
                return;
            }
        }
        #[cfg(feature = "tokio")]
        if self.in_tasks.load(Ordering::Relaxed) {
            return file_dropped(cache, inner);
        }
        cache.file_dropped(&inner);
    }
}

#[cfg(feature = "tokio")]
thread_local! {
    /// Whether this thread runs a call on the blocking pool.
    pub(super) static MAY_WAIT: Cell<bool> = const { Cell::new(false) };
}

/// Closing a file after its last owner, which waits for the device; happens when this is dropped.
#[cfg(feature = "tokio")]
struct Closing {
    cache: Arc<Handle>,
    inner: Arc<FileInner>,
}

#[cfg(feature = "tokio")]
impl Drop for Closing {
    fn drop(&mut self) {
        self.cache.file_dropped(&self.inner);
    }
}

/// Closes a file of async tasks after its last handle or guard. On a runtime's thread, that is left to the blocking
/// pool.
#[cfg(feature = "tokio")]
fn file_dropped(cache: Arc<Handle>, inner: Arc<FileInner>) {
    let closing = Closing { cache, inner };
    if !MAY_WAIT.get()
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        // Also if the runtime ends before: then the closure is dropped, and that does it.
        runtime.spawn_blocking(move || drop(closing));
    }
}
