//! One budget for frames, metadata and what input and output need.

use crate::error::{Error, Result};
use crate::memory::DoubleResidentBytes;
use crate::sys::arena::places::PLACE_BYTES;
use millpond_core::manager::{FRAMES_MAX, FRAMES_MIN};
use millpond_core::units::{Bytes, PageCount, PageSize};

/// Metadata of the engine and of the core for one frame, as they are counted.
///
/// The table 26 bytes (16 of word and key, 4 of chain, up to 6 of heads, guesses and rounding), replacement 28 (8 links,
/// 4 state, 16 shadow), phase 3, free frames a bit, dirty index 26 for a run of 64 pages of which at least one is dirty:
/// that is 26 bytes for a lone dirty page, whether it can be written or not, of which the limit allows one frame in five
/// by default: 62.3.
///
/// It can be more for a while, as long as all dirty pages lie alone: 26 bytes once more for each while a sync goes on that
/// has to write it, and 26 for each that had failed and is tried again; and pages that can't be written may be as many as
/// the limit says beside the others. All at once that is 83.1 bytes, or 0.5 % of the budget more than it says
/// (`failed::a_page_that_lies_alone_costs_26_bytes_and_as_much_in_a_sync_and_while_it_is_tried_again`). To set that
/// aside would cost every cache as much at all times.
pub(crate) const FRAME_METADATA_BYTES: u64 = 63;

/// What the device's queues, requests and their memory vectors take, and the tables of transfers and files.
pub(crate) const IO_BYTES: Bytes = Bytes::from_kib(512);

/// What is set aside for files with a log, a check or stable pages; nothing before the first of them is opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reserved {
    /// Copies of pages that are being written.
    pub(crate) copies: PageCount,
    /// For the map of pages that wait for a log, by the frame.
    pub(crate) frame_bytes: u64,
    /// For where each frame's memory is, if pages are exchanged with regions, by the frame.
    pub(crate) place_bytes: u64,
    /// For pages of regions that are in two places.
    pub(crate) doubles: DoubleResidentBytes,
    /// For what is known of the pages of regions, wherever they are, and for a map of slots.
    pub(crate) region_bytes: u64,
    /// For what the program has besides, and counts with the cache's.
    pub(crate) program_bytes: u64,
}

impl Reserved {
    /// What a cache sets aside by the frame that may have regions.
    pub(crate) fn with_regions(page_size: PageSize) -> Reserved {
        Reserved {
            place_bytes: PLACE_BYTES,
            doubles: DoubleResidentBytes::of(page_size.bytes()),
            ..Reserved::default()
        }
    }
}

/// The most that copies of pages take: what a fast device has in transit, by far.
const COPIES_MAX: Bytes = Bytes::from_mib(4);

/// What the tables of so many frames take, from the beginning on.
pub(crate) fn tables(frames: PageCount) -> Bytes {
    Bytes(frames.0 * FRAME_METADATA_BYTES)
}

/// How many copies of pages there are in `memory`: a sixteenth of it, at least so many that a small cache gets on.
pub(crate) fn copies(memory: Bytes, page_size: PageSize) -> PageCount {
    let most = COPIES_MAX.to_pages(page_size);
    Bytes(memory.0 / 16).to_pages(page_size).clamp(PageCount(8), most)
}

/// How many frames fit into `memory`.
///
/// # Errors
/// [`Error::BudgetTooSmall`], [`Error::Option`] if it is larger than a pool can be.
pub(crate) fn frames(memory: Bytes, page_size: PageSize, reserved: Reserved) -> Result<PageCount> {
    let frame = page_size.bytes() + FRAME_METADATA_BYTES + reserved.frame_bytes + reserved.place_bytes;
    let other =
        IO_BYTES.0 + reserved.copies.to_bytes(page_size).0 + reserved.region_bytes + reserved.program_bytes;
    let room = memory.0.saturating_sub(other);
    // Second memories by the frame, or as many as there may be at most: whichever takes less.
    let by_frame = room / (frame + reserved.doubles.frame);
    let frames = PageCount(by_frame.max(room.saturating_sub(reserved.doubles.most) / frame));
    if frames < FRAMES_MIN {
        let min = other + FRAMES_MIN.0 * (frame + reserved.doubles.frame);
        return Err(Error::BudgetTooSmall {
            given: memory.0,
            min,
            page_size: page_size.bytes(),
        });
    }
    Ok(frames.min(FRAMES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageCache;

    /// [`crate::Builder::memory`] states it.
    #[test]
    fn the_least_budget_is_as_the_builder_says() {
        for (page_size, least) in [(PageSize::KIB_4, 772), (PageSize::KIB_64, 4612)] {
            let of = |bytes| frames(Bytes(bytes), page_size, Reserved::default());
            let Err(Error::BudgetTooSmall { min, .. }) = of(0) else {
                panic!("a budget of nothing is enough");
            };
            assert_eq!(min.div_ceil(1 << 10), least, "{min} bytes");
            assert!(of(least << 10).is_ok());
        }
    }

    #[test]
    fn frames_and_metadata_fit_into_the_budget() {
        for mib in [1, 64, 512, 4096] {
            let memory = Bytes::from_mib(mib);
            let frames = frames(memory, PageSize::KIB_4, Reserved::default()).unwrap().0;
            assert!(frames * (4096 + FRAME_METADATA_BYTES) + IO_BYTES.0 <= memory.0);
            assert!((frames + 1) * (4096 + FRAME_METADATA_BYTES) + IO_BYTES.0 > memory.0);
        }
    }

    #[test]
    fn a_budget_for_so_many_pages_holds_exactly_these() {
        for pages in [64, 65, 16_009, 1 << 20].map(PageCount) {
            let memory = PageCache::memory_for(pages, PageSize::KIB_4);
            assert_eq!(PageCache::pages_in(memory, PageSize::KIB_4).unwrap(), pages);
        }
    }

    #[test]
    fn what_is_set_aside_is_inside_the_budget() {
        for mib in [1, 64, 512] {
            let (memory, page) = (Bytes::from_mib(mib), PageSize::KIB_4);
            let copies = copies(memory, page);
            let reserved = Reserved {
                copies,
                frame_bytes: 8,
                ..Reserved::default()
            };
            let frames = frames(memory, page, reserved).unwrap().0;
            let all = frames * (4096 + FRAME_METADATA_BYTES + 8) + copies.0 * 4096 + IO_BYTES.0;
            assert!(all <= memory.0 && memory.0 - all < 4096 + FRAME_METADATA_BYTES + 8);
        }
        assert_eq!(copies(Bytes::from_mib(64), PageSize::KIB_4), PageCount(1024));
        assert_eq!(copies(Bytes::from_mib(1), PageSize::KIB_4), PageCount(16));
    }

    #[test]
    fn second_memories_of_pages_take_192_of_them_at_most() {
        let reserved = Reserved {
            doubles: DoubleResidentBytes::of(4096),
            ..Reserved::default()
        };
        for (mib, second) in [(8, 24), (60, 186), (64, 192), (4096, 192)] {
            let all = |reserved| frames(Bytes::from_mib(mib), PageSize::KIB_4, reserved).unwrap().0;
            let bytes = (all(Reserved::default()) - all(reserved)) * (4096 + FRAME_METADATA_BYTES);
            let is_near = bytes.abs_diff(second * 4096) <= 2 * (4096 + FRAME_METADATA_BYTES);
            assert!(is_near, "{mib} MiB: {bytes} bytes");
        }
    }

    #[test]
    fn a_budget_that_is_too_small_says_how_much_is_needed() {
        let error = frames(Bytes(100_000), PageSize::KIB_4, Reserved::default())
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "a budget of 97.7K is too small: at least 772K are needed with pages of 4K"
        );
        assert!(frames(Bytes(790_464), PageSize::KIB_4, Reserved::default()).is_ok());
    }
}
