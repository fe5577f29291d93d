//! Files in memory at addresses that never change: which pages a mapping has, and which files have one.
//!
//! ```text
//!   mapping   │   │ 1 │   │ 3 │ …     copies, each with a mark in its frame's word: twin of the frame's, or the only one
//!                   ▲ │       ▲
//!           COPY    │ ▼ COPY, MADV_DONTNEED
//!   arena     │ 7 │ 1 │ … │           the file's frames, under the file's own key
//! ```
//!
//! All mappings of a file in a cache are parts of one range of addresses, so they are coherent, as memory is. A page's state
//! is a word of [`Pages`](super::Pages): `Absent` (the mapping has no copy), `Mapped` (it has one), `Busy` (a thread has it in
//! hand), `Poisoned` (a touch is `SIGBUS`). A mapped page is *double* if the frame has memory as well, and *open* if it is not
//! write-protected; then the frame's content is old. Pages move between these states in `engine/driver/mapped.rs`, `open.rs`,
//! `call_back.rs` and `unmap.rs`.
//!
//! # Why nothing is lost and no byte is stale
//!
//! - MAPPED refuses `Claim` and `Evict`: the frame stays, and its bytes with it. EXCLUSIVE refuses pins, so a pin
//!   implies memory in the arena.
//! - Out → double copies under a pin, so there is no writer. Double → in needs a page without pins, then a check of all
//!   hazards, as in `Claim` (H2).
//! - The page becomes DIRTY, and the core learns of it, before it is writable (S4). So a sync that begins after a store
//!   knows of the page.
//! - `UFFDIO_MOVE` refuses a page of a device's transfer (`EBUSY`); it stays open. Writing it in place would lose what
//!   the device stores afterwards. A moved page is only in the frame, so no thread changes it while it is written.
//! - A page may be opened while its write is in transit: the device reads the frame's memory, threads write the
//!   mapping's. It leaves after that write has ended.
//! - Bytes past the end of the file are zeroed when an open page leaves. While a file grows, its last page stays out,
//!   and a store there waits.
//! - A truncation stores the length, then takes pages out and waits for pins. A fault checks the length once it has the
//!   pin and `Busy`.
//!
//! # Why no thread waits for itself
//!
//! - The holder of a `Busy` page waits for the core lock at most. The holder of the core lock takes pages by try.
//! - A handler holds nothing while it reads or waits for a load, nor a store while it waits for space among dirty pages.
//!   A page held by a `PageMut` is left for later; only a thread that holds one and touches that page waits for itself.
//! - A writer that waits for readers sets WANTED. A fault yields to it at most four times: the faulting thread may hold
//!   the pin itself.

use super::covered::Covered;
use super::{SpaceInner, States};
use crate::error::Result;
use crate::files::FileInner;
use crate::sys::addresses::RegionMemory;
use millpond_core::units::FileId;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a page is marked that could not be read, or that is behind the end of its file. Meanwhile each thread that waits
/// for it gets its signal; the first touch afterwards tries again.
pub(crate) const MARKED: Duration = Duration::from_secs(1);

/// Makes the budget pay for more blocks of page states. If it refuses, nothing has changed.
pub(crate) type PaysStates = Box<dyn Fn(u64) -> Result<()> + Send + Sync>;

/// A file that is mapped.
pub(crate) struct MappedFile {
    pub(crate) file: Arc<FileInner>,
    /// Its addresses, and the states of its pages.
    pub(crate) space: SpaceInner,
    /// Held shared by each thread that serves a fault. The end of the last mapping waits for these before the file may be
    /// closed.
    pub(crate) serving: RwLock<()>,
    /// Pages whose touch is `SIGBUS`.
    pub(crate) marked: Mutex<BTreeSet<u64>>,
    /// Whether it was reported that stores wait because too much can't be written.
    pub(crate) stores_wait: AtomicBool,
    /// The parts that mappings have covered.
    pub(crate) covered: Mutex<Covered>,
    /// The blocks of page states that the budget pays for.
    pub(crate) states: States,
    /// Makes the budget pay for this many more blocks of states.
    pub(crate) pays_states: PaysStates,
}

impl MappedFile {
    /// Returns a mapped file without a page at these addresses, which are whole pages.
    ///
    /// # Errors
    /// If the system gives no addresses for its tables.
    pub(crate) fn new(
        file: Arc<FileInner>,
        memory: Arc<RegionMemory>,
        pays_states: PaysStates,
    ) -> io::Result<MappedFile> {
        let pages = memory.page_count();
        Ok(MappedFile {
            space: SpaceInner::new(file.id, memory, pages)?,
            file,
            serving: RwLock::default(),
            marked: Mutex::default(),
            stores_wait: AtomicBool::new(false),
            covered: Mutex::default(),
            states: States::new(pages)?,
            pays_states,
        })
    }
}

struct Entry {
    mapped: Arc<MappedFile>,
    mappings: u64,
}

/// The files of a cache that are mapped.
#[derive(Default)]
pub(crate) struct MappedFiles {
    /// By number. A holder takes no other lock.
    list: RwLock<Vec<Option<Entry>>>,
    /// Held while a mapping is made or ends.
    pub(crate) making: Mutex<()>,
}

impl MappedFiles {
    /// Returns the file with this number, if it is mapped.
    pub(crate) fn of(&self, file: FileId) -> Option<Arc<MappedFile>> {
        let list = self.list.read();
        Some(list.get(file.0 as usize)?.as_ref()?.mapped.clone())
    }

    /// Returns the file at this address, and the page.
    pub(crate) fn at(&self, address: usize) -> Option<(Arc<MappedFile>, u64)> {
        let list = self.list.read();
        let found = list
            .iter()
            .flatten()
            .find_map(|entry| Some((&entry.mapped, entry.mapped.space.memory.page_at(address)?)));
        found.map(|(mapped, page)| (mapped.clone(), page))
    }

    /// Returns whether any file is mapped: its memory must not be used after the cache is poisoned.
    pub(crate) fn any(&self) -> bool {
        self.list.read().iter().any(Option::is_some)
    }

    /// Adds a mapping of the file.
    pub(crate) fn add(&self, mapped: &Arc<MappedFile>) {
        let mut list = self.list.write();
        let at = mapped.file.id.0 as usize;
        if at >= list.len() {
            list.resize_with(at + 1, || None);
        }
        let entry = list[at].get_or_insert_with(|| Entry {
            mapped: mapped.clone(),
            mappings: 0,
        });
        entry.mappings += 1;
    }

    /// Removes a mapping of the file. Returns whether it was the last; then [`MappedFiles::remove`] must follow.
    pub(crate) fn subtract(&self, file: FileId) -> bool {
        let mut list = self.list.write();
        let entry = list[file.0 as usize].as_mut();
        entry.is_some_and(|entry| {
            entry.mappings -= 1;
            entry.mappings == 0
        })
    }

    /// Removes the file, which is no longer mapped.
    pub(crate) fn remove(&self, file: FileId) {
        self.list.write()[file.0 as usize] = None;
    }
}
