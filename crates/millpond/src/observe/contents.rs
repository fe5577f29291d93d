//! The contents of memory: pages by state, and the files with the most pages.
//!
//! Answers the question *whose pages are these?*, for a person or once a second. [`PageCache::contents`] returns it,
//! and `millpond top` displays it. [`PageCache::stats`] reports how full the cache is as a whole, at lower cost.
//!
//! ```
//! use millpond::contents::Order;
//! # let cache = millpond::PageCache::builder().build()?;
//! let contents = cache.contents(10, Order::Dirty);
//! for file in &contents.files {
//!     let (pages, dirty) = (file.pages.resident().0, file.pages.unsaved().0);
//!     println!("{:?}: {pages} pages, {dirty} of them dirty", file.path);
//! }
//! # Ok::<(), millpond::Error>(())
//! ```
//!
//! [`PageCache::contents`]: crate::PageCache::contents
//! [`PageCache::stats`]: crate::PageCache::stats
//!
//! # How it is counted
//!
//! ```text
//!   frames  |----|----|----|----|----| …     a slice at a time under the core lock, which is let go of in between
//!                ▲ 1024 of them                more than 2^20 frames: every second, third … slice, counted so often
//! ```
//!
//! The cache keeps no page counts per file, so hits and faults pay nothing; the caller pays with a scan of the frames.
//! The cost is bounded by the number of frames scanned, not by the size of the pool: at most 2^20, which is 4 GiB in
//! pages of 4 KiB. In addition, the call visits each open file, in batches of the same size. Slices are scanned one
//! after the other, so the result is not a snapshot: a page that moves meanwhile may be missed or counted twice.

use crate::observe::stats::hit_ratio;
use millpond_core::manager::FrameLook;
use millpond_core::page::Phase;
pub use millpond_core::reuse::{More, ReuseFigures};
use millpond_core::units::{FileId, PageCount};
use std::cmp::Reverse;
use std::path::PathBuf;

/// The frames scanned per hold of the core lock: four times those of the largest transfer.
pub(crate) const SLICE: u32 = 1024;

/// The maximum number of frames scanned per call.
pub(crate) const FRAMES_MAX: u32 = 1 << 20;

/// The sort key of files, in descending order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Order {
    /// Pages in memory.
    #[default]
    Resident,
    /// Dirty pages, including those changed while being written.
    Dirty,
    /// Dirty pages on their second chance.
    Tagged,
    /// Refaults since the file was opened: missing pages that had been in memory before.
    Refaults,
}

impl Order {
    /// All of them.
    pub const ALL: [Order; 4] = [Order::Resident, Order::Dirty, Order::Tagged, Order::Refaults];

    /// Returns the name used in commands.
    pub fn name(self) -> &'static str {
        match self {
            Order::Resident => "resident",
            Order::Dirty => "dirty",
            Order::Tagged => "tagged",
            Order::Refaults => "refaults",
        }
    }
}

/// Pages by state. Every page is in exactly one of the first six states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Pages {
    /// Clean, on the active list.
    pub clean_active: PageCount,
    /// Clean, on another list or held by a thread.
    pub clean_inactive: PageCount,
    /// Dirty, and not being written.
    pub dirty: PageCount,
    /// Being written, unchanged since the write began.
    pub writing: PageCount,
    /// Being written, and changed since the write began.
    pub redirtied: PageCount,
    /// Being read or created.
    pub loading: PageCount,
    /// Of all pages, the dirty ones to which reclaim gave a second chance.
    pub tagged: PageCount,
}

impl Pages {
    fn add(&mut self, look: FrameLook, times: u64) {
        let counts = match (look.phase, look.is_active) {
            (Phase::Clean, true) => &mut self.clean_active,
            (Phase::Clean | Phase::Free, _) => &mut self.clean_inactive,
            (Phase::Dirty, _) => &mut self.dirty,
            (Phase::Writing, _) => &mut self.writing,
            (Phase::Redirtied, _) => &mut self.redirtied,
            (Phase::Loading, _) => &mut self.loading,
        };
        *counts += PageCount(times);
        if look.is_tagged {
            self.tagged += PageCount(times);
        }
    }

    fn add_all(&mut self, other: &Pages) {
        self.clean_active += other.clean_active;
        self.clean_inactive += other.clean_inactive;
        self.dirty += other.dirty;
        self.writing += other.writing;
        self.redirtied += other.redirtied;
        self.loading += other.loading;
        self.tagged += other.tagged;
    }

    /// All of them.
    pub fn resident(&self) -> PageCount {
        self.clean_active + self.clean_inactive + self.unclean() + self.loading
    }

    /// Returns the number of pages that are not on the device.
    pub fn unsaved(&self) -> PageCount {
        self.dirty + self.redirtied
    }

    fn unclean(&self) -> PageCount {
        self.dirty + self.writing + self.redirtied
    }
}

/// A file and its pages in memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileContents {
    /// The path by which it was first opened, or, of a file that was opened as a descriptor, where it is now; `None` for a
    /// region.
    pub path: Option<PathBuf>,
    /// The device that holds it ([`FileIdentity::device`](crate::device::FileIdentity::device)).
    pub device: Option<u64>,
    /// Its length in bytes; zero for a region.
    pub len: u64,
    /// Its pages.
    pub pages: Pages,
    /// The pages that calls have requested since it was opened, as
    /// [`page_requests`](crate::stats::Stats::page_requests): exact up to 8192, then to within a few percent; zero for
    /// a region.
    pub requests: u64,
    /// The evictions and refaults of its pages since it was opened, which show whether memory is too small for it.
    pub reuse: ReuseFigures,
}

impl FileContents {
    /// Returns the share of requested pages that memory served, as
    /// [`Stats::hit_ratio`](crate::stats::Stats::hit_ratio). `None` for a region, and if no page was requested.
    pub fn hit_ratio(&self) -> Option<f64> {
        hit_ratio(self.requests, self.reuse.misses)
    }
}

/// The contents of memory. The module documentation describes cost and accuracy.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Contents {
    /// The number of frames scanned, out of `frames`. If not all were scanned, page counts are extrapolated.
    pub frames_scanned: PageCount,
    /// The number of frames.
    pub frames: PageCount,
    /// Pages of files.
    pub of_files: Pages,
    /// Pages of regions.
    pub anonymous: Pages,
    /// The number of open files and regions.
    pub files_open: u64,
    /// The first files in the requested order.
    pub files: Vec<FileContents>,
}

/// The state of a file between two slices.
#[derive(Clone, Copy, Default)]
struct Counted {
    pages: Pages,
    is_anonymous: bool,
}

/// The scan of frames and files, in progress.
pub(crate) struct Tally {
    contents: Contents,
    /// Indexed by the file's number.
    files: Vec<Counted>,
    /// The open files and regions, with the reuse of their pages.
    open: Vec<(FileId, ReuseFigures)>,
}

impl Tally {
    /// Starts a scan of a pool with this many frames.
    pub(crate) fn new(frames: u32) -> Tally {
        Tally {
            contents: Contents {
                frames: PageCount(frames.into()),
                ..Contents::default()
            },
            files: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Counts a page of the file in a frame that stands for `times` frames.
    pub(crate) fn add(&mut self, file: FileId, is_anonymous: bool, look: FrameLook, times: u64) {
        let at = file.0 as usize;
        if at >= self.files.len() {
            self.files.resize(at + 1, Counted::default());
        }
        self.files[at].is_anonymous = is_anonymous;
        self.files[at].pages.add(look, times);
    }

    /// Counts further scanned frames.
    pub(crate) fn looked_at(&mut self, frames: u32) {
        self.contents.frames_scanned += PageCount(frames.into());
    }

    /// Files with a number below this may have pages.
    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns whether the file is a region with pages.
    pub(crate) fn is_anonymous(&self, file: FileId) -> bool {
        self.counted(file).is_anonymous
    }

    fn counted(&self, file: FileId) -> Counted {
        self.files.get(file.0 as usize).copied().unwrap_or_default()
    }

    /// Records that the file is open, with the reuse of its pages.
    pub(crate) fn open(&mut self, file: FileId, reuse: ReuseFigures) {
        self.open.push((file, reuse));
    }

    /// Returns the first `count` files in `order`, without what only the file itself knows.
    pub(crate) fn pick(&self, count: usize, order: Order) -> Vec<(FileId, FileContents)> {
        let described = |&(file, reuse): &(FileId, ReuseFigures)| {
            let contents = FileContents {
                path: None,
                device: None,
                len: 0,
                pages: self.counted(file).pages,
                requests: 0,
                reuse,
            };
            (file, contents)
        };
        let mut all: Vec<_> = self.open.iter().map(described).collect();
        // What is equal in this respect is ordered by what is in memory.
        all.sort_by_key(|(_, file)| {
            let first = match order {
                Order::Resident => file.pages.resident().0,
                Order::Dirty => file.pages.unsaved().0,
                Order::Tagged => file.pages.tagged.0,
                Order::Refaults => file.reuse.refaults,
            };
            Reverse((first, file.pages.resident().0))
        });
        all.truncate(count);
        all
    }

    /// Returns the result, with these files.
    pub(crate) fn contents(mut self, files: Vec<FileContents>) -> Contents {
        for file in &self.files {
            match file.is_anonymous {
                true => self.contents.anonymous.add_all(&file.pages),
                false => self.contents.of_files.add_all(&file.pages),
            }
        }
        self.contents.files_open = self.open.len() as u64;
        self.contents.files = files;
        self.contents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenOptions, PageCache};

    #[test]
    fn files_have_the_pages_that_they_have_and_come_in_the_order_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(4 << 20).build().unwrap();
        let open = |name: &str, pages: usize| {
            let file = cache
                .open(folder.path().join(name), OpenOptions::new().create(true))
                .unwrap();
            file.write_at(&vec![1; pages * 4096], 0).unwrap();
            file
        };
        let (clean, dirty) = (open("clean", 40), open("dirty", 7));
        clean.sync_data().unwrap();
        let contents = cache.contents(5, Order::Resident);
        let names: Vec<_> = contents
            .files
            .iter()
            .map(|file| file.path.clone().unwrap())
            .collect();
        assert_eq!(names, [clean.path(), dirty.path()]);
        assert_eq!(contents.files[0].pages.resident(), PageCount(40));
        assert_eq!(contents.files[1].pages.dirty, PageCount(7));
        assert_eq!(contents.of_files.resident(), PageCount(47));
        assert_eq!((contents.files_open, contents.files[1].len), (2, 7 * 4096));
        assert_eq!(contents.frames_scanned, contents.frames);
        let by_dirty = cache.contents(1, Order::Dirty);
        assert_eq!(by_dirty.files.len(), 1);
        assert_eq!(by_dirty.files[0].path.as_deref(), Some(dirty.path()));
    }

    #[test]
    fn of_a_pool_with_more_frames_than_may_be_looked_at_a_part_stands_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(32 << 20).build().unwrap();
        let file = cache
            .open(folder.path().join("file"), OpenOptions::new().create(true))
            .unwrap();
        file.write_at(&vec![1; 16 << 20], 0).unwrap();
        let engine = &cache.handle.engine;
        let contents = engine.contents(1, Order::Resident, 2 * SLICE);
        assert!(contents.frames_scanned.0 <= 2 * u64::from(SLICE), "{contents:?}");
        // Half of the frames are full, but which of them is not promised: within one slice, four times.
        let resident = contents.files[0].pages.resident().0;
        assert!(resident <= 8 * u64::from(SLICE), "{resident}");
        let whole = engine.contents(1, Order::Resident, FRAMES_MAX);
        assert_eq!(whole.files[0].pages.resident(), PageCount(4096));
    }

    #[test]
    fn a_page_that_was_in_memory_before_is_a_refault_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        // A third more than the pool has: each scan throws out what the next one wants.
        let paths = ["small", "large"].map(|name| folder.path().join(name));
        std::fs::write(&paths[0], vec![1; 4 * 4096]).unwrap();
        std::fs::write(&paths[1], vec![2; 2 << 20]).unwrap();
        let [small, large] = paths.map(|path| cache.open(path, OpenOptions::new()).unwrap());
        let mut page = [0; 4096];
        for _ in 0..4 {
            large.read_at(&mut vec![0; 2 << 20], 0).unwrap();
            small.read_at(&mut page, 0).unwrap();
        }
        let contents = cache.contents(9, Order::Refaults);
        assert_eq!(contents.files[0].path.as_deref(), Some(large.path()));
        let of_files: u64 = contents.files.iter().map(|file| file.reuse.refaults).sum();
        let all = cache.stats().replacement.workingset_refault_file;
        assert!(of_files == all && all > 0, "{all}: {contents:?}");
    }
}
