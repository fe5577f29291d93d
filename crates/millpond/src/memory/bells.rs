//! What wakes the threads that serve faults: a fault, memory that others wait for, the end.

use super::Regions;
use crate::sys::uffd::{Ear, Userfault};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// As many reads of mapped files are under way at a time as there are handlers, or a little more: they are idle but for that.
const THREADS: usize = 8;

/// What wakes a handler.
pub(crate) struct Bell {
    pub(crate) ear: Ear,
    /// It has faults that wait for memory.
    pub(crate) waits: AtomicBool,
    /// It has stores to mapped files that wait for room among dirty pages, or for threads that use the page.
    pub(crate) defers: AtomicBool,
}

/// As many bells as there will be handlers.
///
/// # Errors
/// If the process has too many descriptors.
pub(super) fn bells(uffd: &Userfault) -> io::Result<Vec<Bell>> {
    let bell = |_| {
        Ok(Bell {
            ear: Ear::new(uffd)?,
            waits: AtomicBool::new(false),
            defers: AtomicBool::new(false),
        })
    };
    (0..THREADS).map(bell).collect()
}

impl Regions {
    /// Memory may be there for faults that wait for it.
    pub(crate) fn memory_came(&self) {
        for bell in &self.bells {
            if bell.waits.load(Ordering::SeqCst) {
                bell.ear.ring();
            }
        }
    }

    /// There may be room for stores that wait for it.
    pub(crate) fn dirtiers_may(&self) {
        let waiting = self
            .bells
            .iter()
            .filter(|bell| bell.defers.load(Ordering::Relaxed));
        waiting.for_each(|bell| bell.ear.ring());
    }

    /// Handlers are to look whether they should end.
    pub(crate) fn wake_handlers(&self) {
        self.bells.iter().for_each(|bell| bell.ear.ring());
    }
}
