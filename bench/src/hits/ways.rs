//! The caches, each full of the same pages.

use super::slice::Slice;
use crate::content::{self, PAGE_BYTES, PAGE_WORDS};
use anyhow::{Context, Result};
use foldhash::fast::RandomState;
use millpond::internal::MappedFile;
use millpond::{File, OpenOptions, PageCache, SwapFile};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A way to a page.
pub(super) trait Way: Sync {
    fn name(&self) -> String;

    /// How it was set up, and its version.
    fn settings(&self) -> String;

    /// Gets page `page`, reads its word number `place`, and lets the page go. `None`: it was not in memory.
    fn word(&self, page: u64, place: usize) -> Option<u64>;
}

/// A page of a file, as the others' keys.
type Key = (u32, u64);

/// The file of all pages.
const FILE: u32 = 7;

/// Pages that are written or read at once while caches are filled: 1 MiB.
const FILL_PAGES: u64 = 256;

/// How many pages the others' caches may hold that are to hold `pages`: their hashes are drawn anew in each process and give
/// some shards more pages than others, and none may be too full. Twice is enough for thousands of pages and not for a few,
/// whose shards differ more.
fn room(pages: u64) -> u64 {
    (2 * pages).max(4096)
}

/// All of them, full of `pages` pages. Files that they need have no name in `dir` any more.
pub(super) fn all(dir: &Path, pages: u64) -> Result<Vec<Box<dyn Slice>>> {
    let kernel = kernel_file(dir, pages)?;
    let pond = Arc::new(Pond::new(dir, pages, false)?);
    let mut ways: Vec<Box<dyn Slice>> = vec![
        Box::new(Array::new(pages)),
        Box::new(Mapped::new(&kernel, pages)?),
        Box::new(Page(pond.clone())),
        Box::new(ReadAt(pond)),
    ];
    match Pond::new(dir, pages, true) {
        Ok(pond) => ways.push(Box::new(Page(Arc::new(pond)))),
        // Not every kernel lets a cache have regions. The others are no worse for it.
        Err(error) => crate::say(&format!("skipped: a cache with a swap file: {error:#}")),
    }
    ways.push(Box::new(QuickCache::new(pages)));
    ways.push(Box::new(Moka::new(pages)));
    ways.push(Box::new(Foyer::new(pages)));
    ways.push(Box::new(Pread(kernel)));
    Ok(ways)
}

/// A file of all pages, in the kernel's page cache.
fn kernel_file(dir: &Path, pages: u64) -> Result<fs::File> {
    let path = dir.join("kernel");
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(&path);
    let file = file.with_context(|| format!("can't make {}", path.display()))?;
    fs::remove_file(&path)?;
    each_mib(pages, |first, bytes| {
        Ok(file.write_all_at(bytes, first * PAGE_BYTES as u64)?)
    })?;
    file.sync_data()?;
    each_mib(pages, |first, bytes| {
        Ok(file.read_exact_at(bytes, first * PAGE_BYTES as u64)?)
    })?;
    Ok(file)
}

/// Calls `with` for all pages, some of them at a time: the first one's number, and what they hold.
fn each_mib(pages: u64, mut with: impl FnMut(u64, &mut [u8]) -> Result<()>) -> Result<()> {
    let mut buffer = vec![0; FILL_PAGES as usize * PAGE_BYTES];
    for first in (0..pages).step_by(FILL_PAGES as usize) {
        let count = FILL_PAGES.min(pages - first) as usize;
        let Some(bytes) = buffer.get_mut(..count * PAGE_BYTES) else {
            continue;
        };
        content::fill(bytes, first);
        with(first, bytes)?;
    }
    Ok(())
}

/// One page in memory of its own, as a program would keep it that has no page cache.
fn buffer(page: u64) -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    content::fill(&mut bytes, page);
    bytes
}

/// All pages in one array: what the loop and memory itself take.
struct Array(Vec<u8>);

impl Array {
    fn new(pages: u64) -> Array {
        let mut bytes = vec![0; pages as usize * PAGE_BYTES];
        content::fill(&mut bytes, 0);
        Array(bytes)
    }
}

impl Way for Array {
    fn name(&self) -> String {
        "array in memory".into()
    }

    fn settings(&self) -> String {
        "no cache: the loop, the random number and the access to memory".into()
    }

    #[inline]
    fn word(&self, page: u64, place: usize) -> Option<u64> {
        Some(content::read(&self.0, page as usize * PAGE_WORDS + place))
    }
}

struct Mapped(MappedFile);

impl Mapped {
    fn new(file: &fs::File, pages: u64) -> Result<Mapped> {
        let mapped = MappedFile::new(file, pages * PAGE_BYTES as u64)?;
        // The first touch of a page is a fault, which maps its neighbours as well.
        (0..pages).for_each(|page| {
            mapped.load(page * PAGE_BYTES as u64);
        });
        Ok(Mapped(mapped))
    }
}

impl Way for Mapped {
    fn name(&self) -> String {
        "mmap".into()
    }

    fn settings(&self) -> String {
        "a file in the kernel's page cache, all of it mapped and touched before; pages of 4 KiB".into()
    }

    #[inline]
    fn word(&self, page: u64, place: usize) -> Option<u64> {
        let at = page * PAGE_BYTES as u64 + place as u64 * 8;
        Some(u64::from_le(self.0.load(at)))
    }
}

struct Pread(fs::File);

impl Way for Pread {
    fn name(&self) -> String {
        "pread".into()
    }

    fn settings(&self) -> String {
        "eight bytes of a file in the kernel's page cache".into()
    }

    #[inline]
    fn word(&self, page: u64, place: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        let at = page * PAGE_BYTES as u64 + place as u64 * 8;
        self.0.read_exact_at(&mut bytes, at).ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}

/// A file in a cache of Millpond's.
struct Pond {
    cache: PageCache,
    file: File,
    swaps: bool,
}

impl Pond {
    fn new(dir: &Path, pages: u64, swaps: bool) -> Result<Pond> {
        let bytes = pages * PAGE_BYTES as u64;
        let memory = bytes + bytes / 8 + (32 << 20);
        let mut builder = PageCache::builder().memory(memory);
        if swaps {
            builder = builder.swap(SwapFile::new(dir, 16 << 20).unlinked(true));
        }
        let cache = builder.build()?;
        let path = dir.join("pond");
        let file = cache.open(&path, OpenOptions::new().create(true))?;
        each_mib(pages, |first, bytes| {
            Ok(file.write_at(bytes, first * PAGE_BYTES as u64)?)
        })?;
        file.close()?;
        // As in a cache that has been used for a while: read from the disk, not just written.
        let file = cache.open(&path, OpenOptions::new())?;
        fs::remove_file(&path)?;
        each_mib(pages, |first, bytes| {
            file.read_at(bytes, first * PAGE_BYTES as u64)?;
            Ok(())
        })?;
        Ok(Pond { cache, file, swaps })
    }

    fn settings(&self) -> String {
        let frames = match self.cache.stats().is_huge {
            true => "frames in huge pages",
            false => "frames in small pages",
        };
        match self.swaps {
            true => format!("{frames}, as regions need them"),
            false => frames.into(),
        }
    }
}

struct Page(Arc<Pond>);

impl Way for Page {
    fn name(&self) -> String {
        match self.0.swaps {
            true => "Millpond with swap, page".into(),
            false => "Millpond, page".into(),
        }
    }

    fn settings(&self) -> String {
        format!("`File::page`, a guard; {}", self.0.settings())
    }

    #[inline]
    fn word(&self, page: u64, place: usize) -> Option<u64> {
        let page = self.0.file.page(page).ok()?;
        Some(content::read(&page, place))
    }
}

struct ReadAt(Arc<Pond>);

impl Way for ReadAt {
    fn name(&self) -> String {
        "Millpond, read_at".into()
    }

    fn settings(&self) -> String {
        "`File::read_at` of eight bytes, in the same cache".into()
    }

    #[inline]
    fn word(&self, page: u64, place: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        let at = page * PAGE_BYTES as u64 + place as u64 * 8;
        self.0.file.read_at(&mut bytes, at).ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}

struct QuickCache(Quick);

type Quick = quick_cache::sync::Cache<Key, Arc<[u8; PAGE_BYTES]>, quick_cache::UnitWeighter, RandomState>;

impl QuickCache {
    fn new(pages: u64) -> QuickCache {
        let capacity = room(pages);
        let weighter = quick_cache::UnitWeighter;
        let lifecycle = quick_cache::sync::DefaultLifecycle::default();
        let cache = Quick::with(
            capacity as usize,
            capacity,
            weighter,
            RandomState::default(),
            lifecycle,
        );
        (0..pages).for_each(|page| cache.insert((FILE, page), Arc::new(buffer(page))));
        QuickCache(cache)
    }
}

impl Way for QuickCache {
    fn name(&self) -> String {
        "quick_cache 0.7".into()
    }

    fn settings(&self) -> String {
        "sync::Cache<(u32, u64), Arc<[u8; 4096]>>, foldhash".into()
    }

    #[inline]
    fn word(&self, page: u64, place: usize) -> Option<u64> {
        let page = self.0.get(&(FILE, page))?;
        Some(content::read(&page[..], place))
    }
}

struct Moka(moka::sync::Cache<Key, Arc<[u8; PAGE_BYTES]>, RandomState>);

impl Moka {
    fn new(pages: u64) -> Moka {
        let builder = moka::sync::Cache::builder().max_capacity(room(pages));
        let cache = builder.build_with_hasher(RandomState::default());
        (0..pages).for_each(|page| cache.insert((FILE, page), Arc::new(buffer(page))));
        cache.run_pending_tasks();
        Moka(cache)
    }
}

impl Way for Moka {
    fn name(&self) -> String {
        "moka 0.12".into()
    }

    fn settings(&self) -> String {
        "sync::Cache<(u32, u64), Arc<[u8; 4096]>>, foldhash instead of its default, which is slower".into()
    }

    #[inline]
    fn word(&self, page: u64, place: usize) -> Option<u64> {
        let page = self.0.get(&(FILE, page))?;
        Some(content::read(&page[..], place))
    }
}

struct Foyer(foyer_memory::Cache<Key, Box<[u8; PAGE_BYTES]>, RandomState>);

impl Foyer {
    fn new(pages: u64) -> Foyer {
        let builder = foyer_memory::CacheBuilder::new(room(pages) as usize)
            .with_eviction_config(foyer_memory::S3FifoConfig::default())
            .with_hash_builder(RandomState::default());
        let cache = builder.build();
        (0..pages).for_each(|page| {
            cache.insert((FILE, page), Box::new(buffer(page)));
        });
        Foyer(cache)
    }
}

impl Way for Foyer {
    fn name(&self) -> String {
        "foyer-memory 0.22".into()
    }

    fn settings(&self) -> String {
        "Cache<(u32, u64), Box<[u8; 4096]>>, 8 shards, foldhash, S3-FIFO instead of its default LRU, which is slower"
            .into()
    }

    #[inline]
    fn word(&self, page: u64, place: usize) -> Option<u64> {
        let page = self.0.get(&(FILE, page))?;
        Some(content::read(&page[..], place))
    }
}

#[cfg(test)]
pub(super) mod test {
    use super::Way;
    use crate::content;

    /// Has even pages only, and in every fourth one the wrong bytes.
    pub(in crate::hits) struct Odd;

    impl Way for Odd {
        fn name(&self) -> String {
            "odd".into()
        }

        fn settings(&self) -> String {
            String::new()
        }

        fn word(&self, page: u64, _: usize) -> Option<u64> {
            match page % 4 {
                0 => Some(content::word(page)),
                2 => Some(0),
                _ => None,
            }
        }
    }
}
