//! What wakes the threads that serve faults: a fault, memory that others wait for, the end.

use super::Regions;
use crate::sys::uffd::{Ear, Userfault};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const THREADS_MIN: usize = 4;
const THREADS_MAX: usize = 8;

/// What wakes a handler.
pub(crate) struct Bell {
    pub(crate) ear: Ear,
    /// It has faults that wait for memory.
    pub(crate) waits: AtomicBool,
}

/// As many bells as there will be handlers.
///
/// # Errors
/// If the process has too many descriptors.
pub(super) fn bells(uffd: &Userfault) -> io::Result<Vec<Bell>> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let count = (2 * processors).clamp(THREADS_MIN, THREADS_MAX);
    let bell = |_| {
        Ok(Bell {
            ear: Ear::new(uffd)?,
            waits: AtomicBool::new(false),
        })
    };
    (0..count).map(bell).collect()
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

    /// Handlers are to look whether they should end.
    pub(crate) fn wake_handlers(&self) {
        self.bells.iter().for_each(|bell| bell.ear.ring());
    }
}
