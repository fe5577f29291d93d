//! The threads that serve faults: their number, and their wake-ups: by a fault, by memory that faults wait for, by the end.

use crate::sys::threads::{self, join_unless_lost};
use crate::sys::uffd::{Ear, Userfault};
use parking_lot::{Mutex, RwLock};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The most handlers. Each does at most one read of a mapped file at a time, and only waits for it.
const THREADS: usize = 8;

/// Wakes a handler.
pub(crate) struct Bell {
    pub(crate) ear: Ear,
    /// Whether the handler has faults that wait for memory.
    pub(crate) waits: AtomicBool,
    /// Whether it has stores to mapped files that wait for room among dirty pages, or for threads that use the page.
    pub(crate) defers: AtomicBool,
}

impl Bell {
    fn new(uffd: &Userfault) -> io::Result<Bell> {
        Ok(Bell {
            ear: Ear::new(uffd)?,
            waits: AtomicBool::new(false),
            defers: AtomicBool::new(false),
        })
    }
}

/// The handlers of a cache: one that stays, and others as long as they are needed.
#[derive(Default)]
pub(crate) struct Handlers {
    bells: RwLock<Vec<Arc<Bell>>>,
    threads: Mutex<Threads>,
    /// The number of handlers that wait for a fault.
    idle: AtomicUsize,
}

#[derive(Default)]
struct Threads {
    handles: Vec<JoinHandle<()>>,
    has_ended: bool,
    made: usize,
}

impl Handlers {
    /// Starts a handler that runs `run`, unless there are the most allowed, or the cache is closing.
    ///
    /// # Errors
    /// If the system refuses a thread, or the process has too many descriptors.
    pub(crate) fn add(
        &self,
        uffd: &Userfault,
        run: impl FnOnce(Arc<Bell>) + Send + 'static,
    ) -> io::Result<()> {
        let mut threads = self.threads.lock();
        if threads.has_ended || self.bells.read().len() >= THREADS {
            return Ok(());
        }
        let bell = Arc::new(Bell::new(uffd)?);
        let its = bell.clone();
        let handle = threads::spawn(&format!("millpond-fault{}", threads.made), move || run(its))?;
        threads.made += 1;
        threads.handles.retain(|handle| !handle.is_finished());
        threads.handles.push(handle);
        self.bells.write().push(bell);
        Ok(())
    }

    /// Notes that a handler waits for a fault.
    pub(crate) fn is_idle(&self) {
        self.idle.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that a handler no longer waits for a fault. Returns how many others do.
    pub(crate) fn is_busy(&self) -> usize {
        self.idle.fetch_sub(1, Ordering::SeqCst) - 1
    }

    /// Removes the bell of a handler that ends after a long idle time. `false`: this one must stay.
    pub(crate) fn may_end(&self, bell: &Arc<Bell>) -> bool {
        let mut bells = self.bells.write();
        let at = bells.iter().position(|one| Arc::ptr_eq(one, bell));
        match at {
            None | Some(0) => false,
            Some(at) => {
                bells.remove(at);
                true
            }
        }
    }

    fn ring_those(&self, is_meant: impl Fn(&Bell) -> bool) {
        for bell in self.bells.read().iter().filter(|bell| is_meant(bell)) {
            // A handler that can't be woken looks on its own, after a pause.
            let _ = bell.ear.ring();
        }
    }

    /// Ends all handlers and waits for them. None is added afterwards.
    pub(crate) fn end(&self) {
        let handles = {
            let mut threads = self.threads.lock();
            threads.has_ended = true;
            std::mem::take(&mut threads.handles)
        };
        let rung: Vec<_> = self.bells.read().iter().map(|bell| bell.ear.ring()).collect();
        let is_lost = rung.contains(&false);
        handles
            .into_iter()
            .for_each(|handle| join_unless_lost(handle, is_lost));
    }

    /// Wakes the handlers with faults that wait for memory.
    pub(crate) fn memory_came(&self) {
        self.ring_those(|bell| bell.waits.load(Ordering::SeqCst));
    }

    /// Wakes the handlers with stores that wait for room.
    pub(crate) fn dirtiers_may(&self) {
        self.ring_those(|bell| bell.defers.load(Ordering::Relaxed));
    }
}
