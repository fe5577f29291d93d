//! Decides whether pages that are read in are write-protected.
//!
//! A write-protected page leaves without a move, but costs an extra fault when it is written. A program that writes most of
//! the pages that it has just read pays that for nothing. If more than a quarter of [`WINDOW`] pages were opened again, the
//! next [`REST`] times as many come unprotected, and then protection is tried again.

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of pages between two decisions.
const WINDOW: u32 = 256;
/// The number of windows without protection.
const REST: u32 = 15;

/// How a region's threads use write-protected pages.
#[derive(Default)]
pub(crate) struct WriteProtect {
    came: AtomicU32,
    opened: AtomicU32,
    rest: AtomicU32,
}

impl WriteProtect {
    /// Decides whether a page that comes for a read is write-protected.
    pub(crate) fn decide(&self) -> bool {
        let came = self.came.fetch_add(1, Ordering::Relaxed);
        if came % WINDOW == WINDOW - 1 {
            let opened = self.opened.swap(0, Ordering::Relaxed);
            // Another thread that comes meanwhile still gets a protected page.
            let rest = match self.rest.load(Ordering::Relaxed) {
                0 if opened > WINDOW / 4 => REST,
                rest => rest.saturating_sub(1),
            };
            self.rest.store(rest, Ordering::Relaxed);
        }
        self.rest.load(Ordering::Relaxed) == 0
    }

    /// Notes that a protected page was written after all.
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
