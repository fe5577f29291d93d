//! Files in memory at addresses that never change: which pages a mapping has, and which files have one.
//!
//! ```text
//!   mapping   │   │ 1 │   │ 3 │ …     copies, each with a mark in its frame's word: twin of the frame's, or the only one
//!                   ▲ │       ▲
//!           COPY    │ ▼ COPY, MADV_DONTNEED
//!   arena     │ 7 │ 1 │ … │           the file's frames, under the file's own key
//! ```
//!
//! All mappings of a file in a cache are parts of one range of addresses, so they are coherent as memory is. A page's state
//! is a word of [`Pages`](super::Pages): `Absent` (the mapping has no copy), `Mapped` (it has one, *double* if the frame has
//! memory as well, *open* if it is not write-protected, and then what the frame has is old), `Busy` (in a thread's hands), `Poisoned` (a touch is `SIGBUS`). What moves between them is in
//! `engine/driver/mapped.rs`, `open.rs`, `call_back.rs` and `unmap.rs`; why that is right is decision 0016.

use super::covered::Covered;
use super::{RegionInner, States};
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

/// How long a page that could not be read, or that is behind the end of its file, is marked: each thread that waits for it
/// gets its signal meanwhile, and the touch after that asks again.
pub(crate) const MARKED: Duration = Duration::from_secs(1);

/// Refused, nothing has changed.
pub(crate) type PaysStates = Box<dyn Fn(u64) -> Result<()> + Send + Sync>;

/// A file that is mapped.
pub(crate) struct MappedFile {
    pub(crate) file: Arc<FileInner>,
    /// Its addresses, and where its pages are.
    pub(crate) space: RegionInner,
    /// Held shared by a thread that serves a fault: the last mapping waits for these before the file may be closed.
    pub(crate) serving: RwLock<()>,
    /// Pages whose touch is `SIGBUS`.
    pub(crate) marked: Mutex<BTreeSet<u64>>,
    /// Stores wait because too much can't be written, and that has been reported.
    pub(crate) stores_wait: AtomicBool,
    /// The parts that mappings have had.
    pub(crate) covered: Mutex<Covered>,
    /// The states of its pages, paid for by the budget.
    pub(crate) states: States,
    /// Has the budget pay for this many more blocks of states.
    pub(crate) pays_states: PaysStates,
}

impl MappedFile {
    /// A file that has no page in these addresses, which are whole pages.
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
            space: RegionInner::new(file.id, memory, pages)?,
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
    /// Held while a file's first mapping is made, or its last one ends.
    pub(crate) making: Mutex<()>,
}

impl MappedFiles {
    /// The file of this number, if it is mapped.
    pub(crate) fn of(&self, file: FileId) -> Option<Arc<MappedFile>> {
        let list = self.list.read();
        Some(list.get(file.0 as usize)?.as_ref()?.mapped.clone())
    }

    /// The file that has this address, and the page there.
    pub(crate) fn at(&self, address: usize) -> Option<(Arc<MappedFile>, u64)> {
        let list = self.list.read();
        let found = list
            .iter()
            .flatten()
            .find_map(|entry| Some((&entry.mapped, entry.mapped.space.memory.page_at(address)?)));
        found.map(|(mapped, page)| (mapped.clone(), page))
    }

    /// Whether there is any mapped file: its memory must not be used after the cache is poisoned.
    pub(crate) fn any(&self) -> bool {
        self.list.read().iter().any(Option::is_some)
    }

    /// One more mapping of the file.
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

    /// One less. Whether it was the last, which [`MappedFiles::remove`] is due for.
    pub(crate) fn subtract(&self, file: FileId) -> bool {
        let mut list = self.list.write();
        let entry = list[file.0 as usize].as_mut();
        entry.is_some_and(|entry| {
            entry.mappings -= 1;
            entry.mappings == 0
        })
    }

    /// The file is no longer mapped.
    pub(crate) fn remove(&self, file: FileId) {
        self.list.write()[file.0 as usize] = None;
    }
}
