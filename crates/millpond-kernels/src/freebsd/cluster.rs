//! The neighbours written with a page (`vm_pageout_clean`): one seek for up to 16 pages.
//!
//! ```text
//!   window of 16, aligned    │ · · d d P d · d d · │      P: the page, d: dirty, on the same queue, not busy
//!   written                        └─────┘               first backwards to the window's edge, then forwards
//! ```
//!
//! A run ends at the first neighbour that is none. Neighbours inherit the lap and the activity of the page.

use core::ops::Range;

/// The pages of an object that are written with page `at`: at most `pages_max`, within the window of that size that `at` is
/// in. `is_candidate`: whether a page of the object may be written now; it is not asked about `at`.
pub fn around(at: u64, pages_max: u64, mut is_candidate: impl FnMut(u64) -> bool) -> Range<u64> {
    let from = at - at % pages_max.max(1);
    let first = (from..at).rev().take_while(|&page| is_candidate(page)).last();
    let last = (at + 1..from + pages_max.max(1))
        .take_while(|&page| is_candidate(page))
        .last();
    first.unwrap_or(at)..last.unwrap_or(at) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_neighbours_within_its_window_is_written_at_once() {
        let dirty = [18, 19, 21, 23, 24];
        assert_eq!(around(20, 16, |page| dirty.contains(&page)), 18..22);
        assert_eq!(around(20, 16, |_| true), 16..32);
        assert_eq!(around(16, 16, |_| true), 16..32);
        assert_eq!(around(31, 16, |_| false), 31..32);
        assert_eq!(around(7, 1, |_| true), 7..8);
    }
}
