//! Where each page of a region is, and who may move it.
//!
//! ```text
//!           fault                              sampled ─►
//!   Nowhere ─────► (read, or zeros) ───► In ◄──────────────► Out ◄───────► Writing
//!      ▲                │                 │   ◄─ soft fault   │  written
//!      │                └──► Poisoned     └────────┬──────────┘
//!      └───────────────────────────────────────────┘ evicted, forgotten
//! ```
//!
//! `In`: in the region, where the program reads and writes it. `Out`: in the frame's place in the arena, equal to what the
//! program wrote last; touched again it comes back without a read, and that soft fault is what counts as a use. `Held`:
//! on the way between two of these, in the hands of whoever took it with [`Pages::take`] and of nobody else. A fault that
//! meets `Held` or `Writing` leaves a mark, and whoever ends that state wakes it: nobody waits with anything in hand.
//!
//! A page has 4 bytes for this and 8 for the checksum of what was last written to its slot.

use crate::sys::reserved::Reserved;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum At {
    /// In its slot of the swap file, or never touched.
    Nowhere = 0,
    /// In the region.
    In = 1,
    /// In its frame's place in the arena.
    Out = 2,
    /// On its way between two of them.
    Held = 3,
    /// In its frame's place, from which a device reads it.
    Writing = 4,
    /// Lost: its slot could not be read.
    Poisoned = 5,
}

/// Somebody has touched the page meanwhile.
const WANTED: u32 = 1 << 7;

fn at(word: u32) -> At {
    match word & !WANTED {
        0 => At::Nowhere,
        1 => At::In,
        2 => At::Out,
        3 => At::Held,
        4 => At::Writing,
        5 => At::Poisoned,
        _ => panic!("page state {word:#x}"),
    }
}

/// The pages of a region.
pub(crate) struct Pages {
    states: Reserved<AtomicU32>,
    sums: Reserved<AtomicU64>,
}

impl Pages {
    pub(crate) fn new(count: usize) -> io::Result<Pages> {
        Ok(Pages {
            states: Reserved::new(count)?,
            sums: Reserved::new(count)?,
        })
    }

    pub(crate) fn len(&self) -> u64 {
        self.states.len() as u64
    }

    pub(crate) fn at(&self, page: u64) -> At {
        at(self.states[page as usize].load(Ordering::Acquire))
    }

    /// Makes the caller the only one to move the page, if it is where one of `from` says. Where it was.
    pub(crate) fn take(&self, page: u64, from: &[At]) -> Option<At> {
        let word = &self.states[page as usize];
        let mut now = word.load(Ordering::Acquire);
        while from.contains(&at(now)) {
            let held = At::Held as u32 | now & WANTED;
            match word.compare_exchange_weak(now, held, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(at(now)),
                Err(other) => now = other,
            }
        }
        None
    }

    /// Ends a state that only the caller may end. Whether somebody has touched the page meanwhile, who must be woken
    /// unless putting the page where it is did so.
    #[must_use]
    pub(crate) fn put(&self, page: u64, to: At) -> bool {
        let before = self.states[page as usize].swap(to as u32, Ordering::AcqRel);
        debug_assert!(
            !matches!(at(before), At::In | At::Out),
            "page {page} was {:?} and nobody's",
            at(before)
        );
        before & WANTED != 0
    }

    /// Leaves word that the page was touched, for whoever has it. `false`: nobody has.
    pub(crate) fn want(&self, page: u64) -> bool {
        let word = &self.states[page as usize];
        let mut now = word.load(Ordering::Acquire);
        while matches!(at(now), At::Held | At::Writing) {
            match word.compare_exchange_weak(now, now | WANTED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// The checksum of what was last written to the page's slot.
    pub(crate) fn sum(&self, page: u64) -> u64 {
        self.sums[page as usize].load(Ordering::Acquire)
    }

    pub(crate) fn set_sum(&self, page: u64, sum: u64) {
        self.sums[page as usize].store(sum, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_in_one_pair_of_hands_and_a_fault_meanwhile_is_not_forgotten() {
        let pages = Pages::new(3).unwrap();
        assert_eq!(pages.take(1, &[At::In, At::Out]), None);
        assert_eq!(pages.take(1, &[At::Nowhere]), Some(At::Nowhere));
        assert_eq!(pages.take(1, &[At::Nowhere, At::In, At::Out]), None);
        assert!(pages.want(1));
        assert!(pages.put(1, At::In), "somebody has touched it");
        assert!(!pages.want(1), "nobody has it in hand");
        assert_eq!(pages.take(1, &[At::In]), Some(At::In));
        assert!(!pages.put(1, At::Out));
        assert_eq!((pages.at(0), pages.at(1)), (At::Nowhere, At::Out));
    }
}
