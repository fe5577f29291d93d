//! Decides whether pages that are read in are write-protected.
//!
//! A page that is write-protected leaves without a move, and costs a fault more when it is written. A program that writes
//! most of what it has just read pays that for nothing: if of [`WINDOW`] pages more than a quarter were opened
//! again, the next [`REST`] times as many come as they do for a write, and then it is tried again.

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of pages between two decisions.
const WINDOW: u32 = 256;
/// Windows without.
const REST: u32 = 15;

/// What a region's threads did with write-protected pages.
#[derive(Default)]
pub(crate) struct WriteProtect {
    came: AtomicU32,
    opened: AtomicU32,
    rest: AtomicU32,
}

impl WriteProtect {
    /// A page comes to be read. Decides whether it is to be write-protected.
    pub(crate) fn decide(&self) -> bool {
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
    pub(crate) fn note_written(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_writes_what_it_reads_gets_writable_pages_in_all_but_one_window_of_sixteen() {
        let rule = WriteProtect::default();
        let come = |writes: u32| {
            let one = |n| {
                let is_protected = rule.decide();
                if is_protected && n % 16 < writes {
                    rule.note_written();
                }
                u32::from(is_protected)
            };
            (0..64 * WINDOW).map(one).sum::<u32>() / WINDOW
        };
        assert_eq!(come(0), 64);
        assert_eq!(come(4), 64, "a quarter is no reason yet");
        assert_eq!(come(16), 4);
    }
}
