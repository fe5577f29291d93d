//! Bytes of a mapping whose pages are pinned: they can't change, and come whenever they are touched.

use super::Arena;
use crate::frames::table::{SharedPin, Table};
use crate::sys::addresses::MappedBytes;
use crate::sys::mapping::kernel_page;
use millpond_core::units::{FileId, PageIndex, PageKey};
use std::ops::Range;

/// Lends the bytes `part` of `bytes`, which begin at byte `start` of the file, to `read`. `pins`: of all their pages.
///
/// # Panics
/// If one of them is missing.
pub(crate) fn lend<R>(
    (bytes, file, start): (&MappedBytes, FileId, u64),
    part: Range<usize>,
    pins: &[SharedPin<&Table<Arena>>],
    read: impl FnOnce(&[u8]) -> R,
) -> R {
    let page = |byte: usize| (start + byte as u64) / kernel_page() as u64;
    let pages = page(part.start)..page(part.end.max(part.start + 1) - 1) + 1;
    let keys = pages.map(|page| PageKey::new(file, PageIndex(page)));
    assert!(
        pins.iter().map(SharedPin::key).eq(keys),
        "pins of other pages than bytes {part:?} are of"
    );
    // SAFETY: each page is pinned for as long as `pins` is borrowed, so no thread changes it or takes its frame (T1), and
    // what the mapping has is equal to it or comes from it (T8).
    let part = unsafe { bytes.part(part) };
    read(part)
}
