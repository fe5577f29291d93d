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

use super::driver::{Engine, MappedFaults, RegionFaults};
use crate::memory::RegionInner;
use crate::memory::mapped::MappedFile;
use crate::sys::sigbus;
use crate::sys::uffd::Access;
use parking_lot::RwLock;
use std::io;
use std::sync::{Arc, Weak};

struct Served {
    region: Arc<RegionInner>,
    engine: Weak<Engine>,
}

/// The regions of this process whose faults are served in their threads.
static SERVED: RwLock<Vec<Served>> = RwLock::new(Vec::new());

/// Makes the signal ours.
///
/// # Errors
/// The system's.
pub(crate) fn prepare() -> io::Result<()> {
    sigbus::install(serve)
}

struct ServedFile {
    mapped: Arc<MappedFile>,
    engine: Weak<Engine>,
}

/// The mapped files of this process whose faults are.
static SERVED_FILES: RwLock<Vec<ServedFile>> = RwLock::new(Vec::new());

/// As [`enter`], for a mapped file.
pub(crate) fn enter_mapped(mapped: &Arc<MappedFile>, engine: &Arc<Engine>) {
    let (mapped, engine) = (mapped.clone(), Arc::downgrade(engine));
    SERVED_FILES.write().push(ServedFile { mapped, engine });
}

/// As [`remove`], for a mapped file.
pub(crate) fn remove_mapped(mapped: &Arc<MappedFile>) {
    SERVED_FILES
        .write()
        .retain(|served| !Arc::ptr_eq(&served.mapped, mapped));
}

/// Serves the region's faults in the threads that touch it, from now on.
pub(crate) fn enter(region: &Arc<RegionInner>, engine: &Arc<Engine>) {
    let (region, engine) = (region.clone(), Arc::downgrade(engine));
    SERVED.write().push(Served { region, engine });
}

/// The region is no more, or was none of these.
pub(crate) fn remove(region: &Arc<RegionInner>) {
    SERVED
        .write()
        .retain(|served| !Arc::ptr_eq(&served.region, region));
}

fn serve(address: usize, access: Access) -> bool {
    let found = SERVED.read().iter().find_map(|served| {
        let page = served.region.memory.page_at(address)?;
        Some((served.region.clone(), served.engine.upgrade()?, page))
    });
    let Some((region, engine, page)) = found else {
        return serve_file(address, access);
    };
    let _poisons = engine.poison_on_panic("fault in a thread");
    RegionFaults::of(&engine, &region).region_touched(page, access)
}

fn serve_file(address: usize, access: Access) -> bool {
    let found = SERVED_FILES.read().iter().find_map(|served| {
        let page = served.mapped.space.memory.page_at(address)?;
        Some((served.mapped.clone(), served.engine.upgrade()?, page))
    });
    let Some((mapped, engine, page)) = found else {
        return false;
    };
    let _poisons = engine.poison_on_panic("fault in a thread");
    MappedFaults::of(&engine, &mapped).mapped_touched(page, access)
}
