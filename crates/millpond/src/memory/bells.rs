//! The threads that serve faults: how many there are, and what wakes them: a fault, memory that others wait for, the end.

use super::Regions;
use crate::sys::threads::{self, join_unless_lost};
use crate::sys::uffd::{Ear, Userfault};
use parking_lot::{Mutex, RwLock};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The number of reads of mapped files under way at a time: as many as handlers, or a little more, since these only
/// wait for them.
const THREADS: usize = 8;

/// What wakes a handler.
pub(crate) struct Bell {
    pub(crate) ear: Ear,
    /// It has faults that wait for memory.
    pub(crate) waits: AtomicBool,
    /// It has stores to mapped files that wait for room among dirty pages, or for threads that use the page.
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

/// The handlers of a cache: one that stays, and those that were needed a while ago.
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
    /// One more, unless there are as many as there may be, or they are at their end. `run` is what it does.
    ///
    /// # Errors
    /// If the system gives no thread, or the process has too many descriptors.
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

    /// The handler of this bell waits for a fault.
    pub(crate) fn is_idle(&self) {
        self.idle.fetch_add(1, Ordering::SeqCst);
    }

    /// It does no more. How many others do.
    pub(crate) fn is_busy(&self) -> usize {
        self.idle.fetch_sub(1, Ordering::SeqCst) - 1
    }

    /// The handler of this bell is about to end, as it was idle for long. `false`: it is the one that stays.
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
            // A handler that can't be woken comes on its own, after a pause.
            let _ = bell.ear.ring();
        }
    }

    /// They are to end, and have ended: none is added afterwards.
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
}

impl Regions {
    /// Memory may be there for faults that wait for it.
    pub(crate) fn memory_came(&self) {
        self.handlers.ring_those(|bell| bell.waits.load(Ordering::SeqCst));
    }

    /// There may be room for stores that wait for it.
    pub(crate) fn dirtiers_may(&self) {
        self.handlers
            .ring_those(|bell| bell.defers.load(Ordering::Relaxed));
    }
}
