//! Numbers by which the kernel knows what is open.

use fuser::{Errno, FileHandle};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number by which the kernel knows something that is open.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    open: Mutex<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Handles<T> {
    pub(crate) fn new() -> Handles<T> {
        Handles {
            open: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    pub(crate) fn put(&self, what: T) -> FileHandle {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.open).insert(handle, Arc::new(what));
        FileHandle(handle)
    }

    pub(crate) fn get(&self, handle: FileHandle) -> Result<Arc<T>, Errno> {
        lock(&self.open).get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    pub(crate) fn remove(&self, handle: FileHandle) {
        let removed = lock(&self.open).remove(&handle.0);
        // Not under the lock: the last handle of a file closes it.
        drop(removed);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
