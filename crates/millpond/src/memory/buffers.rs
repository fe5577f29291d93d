//! Detects whether a call's buffer lies in a region of any cache of this process.
//!
//! A thread that touches a region may have to wait for a frame. If a call copies to or from a region while it holds pages of
//! a file, these can't leave meanwhile: a few such calls in a small pool would leave no frame for any of them. So these
//! calls copy through a buffer of their own, a part at a time, and hold no page while they touch the region.
//!
//! ```text
//!   ordinary buffer    page ──────────► buffer
//!   in a region        page ─► part ──► region      128 KiB at a time; pages are held for the first copy only
//! ```
//!
//! For an ordinary buffer the check costs two loads.

use crate::sys::addresses::RegionMemory;
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of bytes copied at a time, if a page is not larger: as much as a write holds in pages of 4 KiB.
const PART: usize = 128 << 10;

/// The bounds of all regions, which never shrink. An address between them is looked up.
static FIRST: AtomicUsize = AtomicUsize::new(usize::MAX);
static END: AtomicUsize = AtomicUsize::new(0);
static ALL: RwLock<Vec<Range<usize>>> = RwLock::new(Vec::new());

/// Adds a region, before any thread has its address.
pub(crate) fn enter(memory: &RegionMemory) {
    let addresses = memory.addresses();
    FIRST.fetch_min(addresses.start, Ordering::Relaxed);
    END.fetch_max(addresses.end, Ordering::Relaxed);
    ALL.write().push(addresses);
}

/// Removes a region.
pub(crate) fn remove(memory: &RegionMemory) {
    let addresses = memory.addresses();
    let mut all = ALL.write();
    if let Some(at) = all.iter().position(|region| *region == addresses) {
        all.swap_remove(at);
    }
}

/// Returns whether a part of the buffer lies in a region.
#[inline]
pub(crate) fn are_in_region(buf: &[u8]) -> bool {
    // A thread that has a slice of a region got it from the thread that entered it.
    let bytes = buf.as_ptr_range();
    let (start, end) = (bytes.start.addr(), bytes.end.addr());
    start < END.load(Ordering::Relaxed) && end > FIRST.load(Ordering::Relaxed) && is_in_one(start..end)
}

#[cold]
fn is_in_one(bytes: Range<usize>) -> bool {
    let all = ALL.read();
    all.iter()
        .any(|region| bytes.start < region.end && region.start < bytes.end)
}

/// Returns how many of `left` bytes from `offset` on to copy next: up to the end of a page, if there are more.
pub(crate) fn part(offset: u64, left: usize, page_size: u64) -> usize {
    let most = (PART as u64).max(page_size);
    let end = (offset + most) / page_size * page_size;
    left.min((end - offset) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_known_to_lie_in_a_region_of_whichever_cache() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let cache = |name| {
            let swap = crate::SwapFile::new(folder.path().join(name), 1 << 20);
            let built = crate::PageCache::builder().memory(2 << 20).swap(swap).build();
            built.inspect_err(|why| println!("skipped: {why}")).ok()
        };
        let (Some(one), Some(two)) = (cache("one"), cache("two")) else {
            return;
        };
        let regions = [&one, &two, &two].map(|cache| cache.region(100_000).unwrap());
        for region in &regions {
            let bytes = region.as_slice();
            assert!(
                [bytes, &bytes[..1], &bytes[99_999..]]
                    .into_iter()
                    .all(are_in_region)
            );
        }
        let ordinary = vec![0; 1 << 20];
        assert!(!are_in_region(&ordinary) && !are_in_region(&[]));
        let gone = regions[1].as_ptr().addr();
        drop(regions);
        assert!(!is_in_one(gone..gone + 1));
    }

    #[test]
    fn a_part_ends_where_a_page_does_unless_it_is_the_last() {
        assert_eq!(part(0, 1 << 20, 4096), PART);
        assert_eq!(part(100, 1 << 20, 4096), PART - 100);
        assert_eq!(part(4095, 1 << 20, 4096), PART - 4095);
        assert_eq!(part(100, 5000, 4096), 5000);
        assert_eq!(part(70, 1 << 22, 1 << 20), (1 << 20) - 70);
        assert_eq!(part((1 << 20) - 1, 1 << 22, 1 << 20), 1);
    }
}
