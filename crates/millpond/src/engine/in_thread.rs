//! Faults that the touching thread serves itself.
//!
//! ```text
//!   handlers    touch ─► asleep ─► a handler wakes, serves ─► the thread wakes      two wake-ups, 7 to 16 us
//!   in thread   touch ─► SIGBUS ─► served where it is ─► back                       none
//! ```
//!
//! The price: a system call that touches a page which is not there fails with `EFAULT`, for there is no thread of the
//! program that could be interrupted. The signal's handler is the process's ([`sigbus`]), so the regions that want it are
//! in one list for all caches.
//!
//! The thread that serves takes the core lock, allocates and reads; it waits if another thread holds the
//! page, and if no frame can be had. All that is as for a call that reads a file: what is interrupted holds
//! no lock that these need.

use super::driver::{Engine, Touch};
use crate::memory::{Space, SpaceInner};
use crate::sys::sigbus;
use crate::sys::uffd::Access;
use parking_lot::RwLock;
use std::io;
use std::sync::{Arc, Weak};

struct Served {
    space: Space,
    engine: Weak<Engine>,
}

/// The memory of this process whose faults are served in their threads.
static SERVED: RwLock<Vec<Served>> = RwLock::new(Vec::new());

/// Makes the signal ours.
///
/// # Errors
/// The system's.
pub(crate) fn prepare() -> io::Result<()> {
    sigbus::install(serve)
}

/// Serves these faults in the threads that touch the memory, from now on.
pub(crate) fn enter(space: Space, engine: &Arc<Engine>) {
    let engine = Arc::downgrade(engine);
    SERVED.write().push(Served { space, engine });
}

/// The memory is no more, or was none of these.
pub(crate) fn remove(space: &SpaceInner) {
    SERVED
        .write()
        .retain(|served| !std::ptr::eq(served.space.inner(), space));
}

fn serve(address: usize, access: Access) -> bool {
    let found = SERVED.read().iter().find_map(|served| {
        let page = served.space.inner().memory.page_at(address)?;
        Some((served.space.clone(), served.engine.upgrade()?, page))
    });
    let Some((space, engine, page)) = found else {
        return false;
    };
    let _poisons = engine.poison_on_panic("fault in a thread");
    Touch::new((space, page), access).serve_in_thread(&engine)
}
