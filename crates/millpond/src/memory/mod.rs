//! Memory whose pages come when they are touched: regions, whose pages come from swap, and mapped files.
//!
//! ```text
//!   a thread touches a page ──► not there: the kernel stops it, and tells a handler
//!                                  handler: a frame, its content, copied in ──► the thread goes on
//!   memory is short ──► reclaim moves pages out ──► equal to their slots: gone; else written, then gone
//! ```
//!
//! | file | what |
//! |---|---|
//! | `mod` | a space: a region, or all mappings of a file; and which of them a cache has |
//! | `pages` | where each page is, and which thread may move it |
//! | `bells` | the threads that serve faults (`engine/handlers.rs`): how many, and what wakes them |
//! | `options` | whether they serve faults, or the touching thread itself (`engine/in_thread.rs`) |
//! | `write_protect` | whether a page that is read comes write-protected |
//! | `double_resident` | which pages are in two places |
//! | `swap` | the swap file |
//! | `tables` | the kernel's page tables |
//! | `mapped` | the files that are mapped, and where their pages are |
//! | `states` | how much memory that takes |
//! | `buffers` | whether a call's buffer lies in a region |
//!
//! What a fault does is in `engine/driver/touch.rs`, how pages leave in `unmap.rs` there, and the exchange of pages in
//! `sys/arena/exchange.rs`. Which page leaves is the core's affair (`manager/anonymous.rs`): the same lists, shadows and
//! budget as of files.

mod bells;
pub(crate) mod buffers;
pub(crate) mod covered;
mod double_resident;
pub(crate) mod mapped;
mod options;
mod pages;
mod states;
pub(crate) mod swap;
mod tables;
mod write_protect;

use crate::device::DeviceFile;
pub(crate) use bells::{Bell, Handlers};
pub(crate) use double_resident::{DoubleResident, DoubleResidentBytes};
pub use options::{Faults, MapOptions, RegionOptions};
pub(crate) use pages::{Ahead, At, Pages, Residence};
pub(crate) use states::{AT_FIRST, States};
use swap::SwapArea;
pub use swap::SwapFile;
pub(crate) use tables::{AllTables, Tables};

use crate::files::FileInner;
use crate::frames::event_count::EventCount;
use crate::sys::addresses::RegionMemory;
use crate::sys::arena::exchange::{Exchange, InHand};
use crate::sys::uffd::Access;
use mapped::{MappedFile, MappedFiles};
use millpond_core::readahead::fault_around::FaultAround;
use millpond_core::swap::SlotNo;
use millpond_core::units::{FileId, FrameNo, PageCount, PageIndex, PageKey};
use parking_lot::{Mutex, RwLock};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use write_protect::WriteProtect;
use xxhash_rust::xxh3::xxh3_64;

/// The cost of a region's page besides its frame: 4 bytes of state, 8 of checksum, 4 of slot.
pub(crate) const PAGE_BYTES: u64 = 16;

/// Bits for the pages of a table.
const TABLE_WORDS: usize = (tables::PAGES / 64) as usize;

/// The state of a space that a cache's threads share.
pub(crate) struct SpaceInner {
    pub(crate) id: FileId,
    pub(crate) memory: Arc<RegionMemory>,
    pub(crate) pages: Pages,
    pub(crate) tables: Tables,
    pub(crate) write_protect: WriteProtect,
    /// The walks through it.
    pub(crate) around: Mutex<FaultAround>,
    /// It is being dropped: a fault that is read late, of a page that is there since, must bring nothing
    /// back.
    pub(crate) closed: AtomicBool,
    /// Announces, where threads serve their faults themselves, that a page which some wait for can be taken again.
    pub(crate) settled: EventCount,
}

impl SpaceInner {
    /// A space of `count` pages, none of which is in memory.
    ///
    /// # Errors
    /// If the system gives no addresses for its tables.
    pub(crate) fn new(id: FileId, memory: Arc<RegionMemory>, count: usize) -> io::Result<SpaceInner> {
        Ok(SpaceInner {
            id,
            memory,
            pages: Pages::new(count)?,
            tables: Tables::new(count)?,
            write_protect: WriteProtect::default(),
            around: Mutex::default(),
            closed: AtomicBool::new(false),
            settled: EventCount::default(),
        })
    }
}

/// Memory whose pages come when they are touched.
#[derive(Clone)]
pub(crate) enum Space {
    /// A region: from the swap file.
    Region(Arc<SpaceInner>),
    /// All mappings of a file: from the file.
    File(Arc<MappedFile>),
}

impl Space {
    /// Its addresses, and where its pages are.
    pub(crate) fn inner(&self) -> &SpaceInner {
        match self {
            Space::Region(region) => region,
            Space::File(mapped) => &mapped.space,
        }
    }

    pub(crate) fn region(&self) -> Option<&Arc<SpaceInner>> {
        match self {
            Space::Region(region) => Some(region),
            Space::File(_) => None,
        }
    }

    pub(crate) fn mapped(&self) -> Option<&Arc<MappedFile>> {
        match self {
            Space::Region(_) => None,
            Space::File(mapped) => Some(mapped),
        }
    }
}

/// The spaces of a cache, and what moves their pages.
pub(crate) struct Spaces {
    pub(crate) exchange: Exchange,
    swap: Vec<SwapArea>,
    /// By number.
    list: RwLock<Vec<Option<Arc<SpaceInner>>>>,
    pub(crate) handlers: Handlers,
    pub(crate) doubles: DoubleResident,
    pub(crate) mapped: MappedFiles,
    pub(crate) tables: AllTables,
    /// Pages that were read ahead and then moved into their regions.
    pub(crate) ahead_hits: AtomicU64,
    /// Whether it was reported that the system had no memory to bring a page.
    pub(crate) had_no_memory: AtomicBool,
}

impl Spaces {
    pub(crate) fn new(exchange: Exchange, swap: Vec<SwapArea>) -> io::Result<Spaces> {
        Ok(Spaces {
            exchange,
            swap,
            list: RwLock::default(),
            handlers: Handlers::default(),
            doubles: DoubleResident::new(),
            mapped: MappedFiles::default(),
            tables: AllTables::new(),
            ahead_hits: AtomicU64::new(0),
            had_no_memory: AtomicBool::new(false),
        })
    }

    /// A slot's location: its file, and its page there. The first page says what the file is.
    pub(crate) fn place(&self, slot: SlotNo) -> (Arc<FileInner>, PageIndex) {
        let at = self.swap.partition_point(|area| area.first <= slot) - 1;
        let area = &self.swap[at];
        (area.file.clone(), PageIndex(u64::from(slot.0 - area.first.0) + 1))
    }

    /// Slots of each swap file, its priority, and the file, in order.
    pub(crate) fn swap_areas(&self) -> impl Iterator<Item = (PageCount, i16, Arc<DeviceFile>)> + '_ {
        let one = |area: &SwapArea| (area.slots, area.priority, area.file.device());
        self.swap.iter().map(one)
    }

    /// The cache has been made: its swap files stay.
    pub(crate) fn keep_swap(&self) {
        self.swap.iter().for_each(|area| area.claim.keep());
    }

    /// Whether system calls that touch an absent page fail.
    pub(crate) fn misses_system_calls(&self) -> bool {
        !self.exchange.uffd().sees_system_calls()
    }

    /// The region of this number.
    #[inline]
    pub(crate) fn of(&self, file: FileId) -> Option<Arc<SpaceInner>> {
        self.list.read().get(file.0 as usize)?.clone()
    }

    /// The region, or the mapped file, of this number.
    pub(crate) fn space(&self, file: FileId) -> Option<Space> {
        let mapped = || self.mapped.of(file).map(Space::File);
        self.of(file).map(Space::Region).or_else(mapped)
    }

    /// The page states of the region with this number.
    #[inline]
    pub(crate) fn pages_of<T>(&self, file: FileId, ask: impl FnOnce(&Pages) -> T) -> Option<T> {
        let list = self.list.read();
        Some(ask(&list.get(file.0 as usize)?.as_ref()?.pages))
    }

    /// What is at an address, and the page there.
    pub(crate) fn at(&self, address: usize) -> Option<(Space, u64)> {
        let list = self.list.read();
        let found = list
            .iter()
            .flatten()
            .find_map(|region| Some((region, region.memory.page_at(address)?)));
        match found {
            Some((region, page)) => Some((Space::Region(region.clone()), page)),
            None => {
                let (mapped, page) = self.mapped.at(address)?;
                Some((Space::File(mapped), page))
            }
        }
    }

    /// Whether there is any region: its memory must not be used after the cache is poisoned.
    pub(crate) fn any(&self) -> bool {
        self.mapped.any() || self.list.read().iter().any(Option::is_some)
    }

    pub(crate) fn enter(&self, region: Arc<SpaceInner>) {
        let mut list = self.list.write();
        let at = region.id.0 as usize;
        if at >= list.len() {
            list.resize(at + 1, None);
        }
        list[at] = Some(region);
    }

    pub(crate) fn remove(&self, file: FileId) {
        self.list.write()[file.0 as usize] = None;
    }

    /// A page that the caller has in hand becomes `to`, and is in its hands no more. A thread that has touched it meanwhile
    /// tries again.
    pub(crate) fn settle(&self, region: &SpaceInner, page: u64, to: At) {
        if matches!(to, At::Mapped | At::Poisoned) {
            region.tables.note(page, &self.tables);
        }
        if region.pages.put(page, to) {
            self.exchange.wake(&region.memory, page);
            region.settled.notify_all();
        }
    }

    /// Brings a page that the caller has in hand from its frame into its region, and wakes the threads that wait for it there.
    /// `false`: it can't be brought now, and stays out.
    pub(crate) fn bring(&self, region: &SpaceInner, page: &InHand<'_>, access: Access) -> bool {
        let protect = access == Access::Read && region.write_protect.decide();
        match self.exchange.copy_in(page, protect) {
            Some(is_protected) => {
                let residence = Residence::double(is_protected);
                region.pages.note_residence(page.page, residence);
                true
            }
            None => self.exchange.move_in(page),
        }
    }

    /// A touch of the page is no signal any more.
    pub(crate) fn unmark(&self, mapped: &MappedFile, page: u64) {
        let space = &mapped.space;
        if space.pages.take(page, &[At::Poisoned]).is_some() {
            mapped.marked.lock().remove(&page);
            self.exchange.discard(&space.memory, page..page + 1, &[]);
            self.settle(space, page, At::Absent);
        }
    }

    /// Takes the checksums of pages that are about to be written.
    pub(crate) fn sum_up(&self, written: &mut Vec<(PageKey, FrameNo)>) {
        for (key, frame) in written.drain(..) {
            if let Some(region) = self.of(key.file()) {
                let (memory, page) = (&*region.memory, key.index().0);
                let in_hand = InHand { memory, page, frame };
                region.pages.set_sum(page, xxh3_64(self.exchange.bytes(&in_hand)));
            }
        }
    }

    /// Gives the table back if there are too many, none of its pages is there, and no other thread has one in hand. The
    /// caller has the core lock: without it no thread takes a page that is nowhere.
    pub(crate) fn free_table(&self, region: &SpaceInner, table: u64) {
        let pages = &region.pages;
        if !self.tables.are_many() || !region.tables.is_there(table) {
            return;
        }
        let all = Tables::pages(table, pages.len());
        let is_away = |page| matches!(pages.at(page), At::Absent | At::Cached);
        if !all.clone().all(is_away) {
            return;
        }
        let (mut out, mut held) = ([0_u64; TABLE_WORDS], all.start);
        let bit = |page: u64| (((page - all.start) / 64) as usize, 1 << (page % 64));
        while held < all.end {
            match pages.take(held, &[At::Absent, At::Cached]) {
                Some(At::Cached) => out[bit(held).0] |= bit(held).1,
                Some(_) => {}
                None => break,
            }
            held += 1;
        }
        if held == all.end {
            self.exchange.drop_table(&region.memory, table);
            region.tables.gone(table..table + 1, &self.tables);
        }
        for page in all.start..held {
            let was = match out[bit(page).0] & bit(page).1 {
                0 => At::Absent,
                _ => At::Cached,
            };
            self.settle(region, page, was);
        }
    }
}
