//! Whether pages that come to be read are shut.
//!
//! A write-protected page leaves without a move, and costs one more fault when it is written. A program that
//! writes most of what it has just read pays that for nothing: if of [`WINDOW`] pages more than a quarter
//! were opened again, the next [`REST`] times as many come as they do for a write, and then it is tried
//! again.

use std::sync::atomic::{AtomicU32, Ordering};

/// Pages after which it is decided anew.
const WINDOW: u32 = 256;
/// Windows without.
const REST: u32 = 15;

/// What a region's threads did with pages that were shut.
#[derive(Default)]
pub(crate) struct Shut {
    came: AtomicU32,
    opened: AtomicU32,
    rest: AtomicU32,
}

impl Shut {
    /// A page comes to be read. Whether it is to be shut.
    pub(crate) fn is_next(&self) -> bool {
        let came = self.came.fetch_add(1, Ordering::Relaxed);
        if came % WINDOW == WINDOW - 1 {
            let opened = self.opened.swap(0, Ordering::Relaxed);
            // Another thread that comes meanwhile gets one as before.
            let rest = match self.rest.load(Ordering::Relaxed) {
                0 if opened > WINDOW / 4 => REST,
                rest => rest.saturating_sub(1),
            };
            self.rest.store(rest, Ordering::Relaxed);
        }
        self.rest.load(Ordering::Relaxed) == 0
    }

    /// One was written after all.
    pub(crate) fn opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_what_it_reads_gets_pages_that_are_open_but_for_one_window_in_sixteen() {
        let shut = Shut::default();
        let come = |writes: u32| {
            let one = |n| {
                let is_shut = shut.is_next();
                if is_shut && n % 16 < writes {
                    shut.opened();
                }
                u32::from(is_shut)
            };
            (0..64 * WINDOW).map(one).sum::<u32>() / WINDOW
        };
        assert_eq!(come(0), 64);
        assert_eq!(come(4), 64, "a quarter is no reason yet");
        assert_eq!(come(16), 4);
    }
}
