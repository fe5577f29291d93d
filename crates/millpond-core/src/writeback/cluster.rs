//! Neighboring dirty pages are written together.
//!
//! On a rotating disk a write of 4 MiB takes 80 ms, one of 4 KiB 4 ms (Kara, on Gorman 2011): most of the cost of a
//! small write is positioning. Clusters end at multiples of the largest write. The next one starts there, so streams
//! stay aligned whatever was written before.

use crate::units::PageIndex;

/// How many of `contiguous` pages from `first` on one write takes, when the largest takes `max` pages.
pub fn length(first: PageIndex, contiguous: u64, max: u64) -> u64 {
    let max = max.max(1);
    let boundary = (first.0 / max + 1) * max;
    contiguous.min(boundary - first.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_end_at_multiples_of_the_largest_write() {
        assert_eq!(length(PageIndex(0), 1000, 256), 256);
        assert_eq!(length(PageIndex(250), 1000, 256), 6);
        assert_eq!(length(PageIndex(256), 10, 256), 10);
        assert_eq!(length(PageIndex(3), 5, 0), 1);
    }
}
