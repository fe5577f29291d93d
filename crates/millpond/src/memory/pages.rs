//! Where each page of a space is, and which thread may move it.
//!
//! ```text
//!           fault                               sampled ─►
//!   Absent ─────► (read, or zeros) ───► Mapped ◄──────────────► Cached ◄───────► Writing
//!      ▲                │                  │    ◄─ soft fault     │     written
//!      │                └──► Poisoned      └──────────┬───────────┘
//!      └──────────────────────────────────────────────┘ evicted, forgotten
//! ```
//!
//! `Mapped`: in the region, where the program reads and writes it. `Cached`: in the frame's place in the
//! arena, equal to what the program wrote last; touched again it comes back without a read, and that soft
//! fault is what counts as a use. `Busy`: on the way between two of these; it belongs to the thread that took
//! it with [`Pages::take`] and to no other. A fault that meets `Busy` or `Writing` leaves a mark, and the
//! thread that ends that state wakes it: no thread waits while it holds anything.
//!
//! A page that is `Mapped` may be *double-resident*: its frame's place has memory as well (`driver/double_resident.rs`).
//! If it is *write-protected* in the region, both are equal.
//!
//! A page has 4 bytes for this and 8 for the checksum of what was last written to its slot.

use crate::sys::mapping::kernel_page;
use crate::sys::reserved::Reserved;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The location of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum At {
    /// Of a region: in its slot of the swap file, or never touched. Of a file: not in its mappings.
    Absent = 0,
    /// In the region.
    Mapped = 1,
    /// In its frame's slot in the arena.
    Cached = 2,
    /// Moving between two of them.
    Busy = 3,
    /// In its frame's slot, from which a device reads it.
    Writing = 4,
    /// Lost: its slot could not be read.
    Poisoned = 5,
}

/// A thread has touched the page meanwhile.
const WANTED: u32 = 1 << 7;
/// It was read ahead, and no thread has touched it since.
const AHEAD: u32 = 1 << 6;
/// The first touch asks for more read-ahead.
const MARK: u32 = 1 << 5;
/// Its content is of no use unless it is touched.
const LAZY: u32 = 1 << 4;
/// Its frame's place in the arena has memory while it is in the region.
const DOUBLE: u32 = 1 << 3;
/// No thread can write it in the region without a fault.
const PROTECTED: u32 = 1 << 8;
/// Its slot holds the same: no thread could write it since it was read from there, or written there.
const SAME: u32 = 1 << 9;
/// Flags valid while the page is `Busy`, `Cached` or `Writing`, which only its holder changes.
const KEPT: u32 = AHEAD | MARK | LAZY;
/// Flags valid while it is `Busy` or `Mapped`.
const KEPT_MAPPED: u32 = DOUBLE | PROTECTED;
/// Flags valid while it is `Busy`.
const KEPT_BUSY: u32 = KEPT | KEPT_MAPPED | SAME;

/// The outcome of a page's read-ahead, at its first touch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Ahead {
    pub(crate) was_read: bool,
    pub(crate) is_mark: bool,
}

/// The further properties of a page in its region.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Residence {
    /// Its frame's place has memory as well.
    pub(crate) is_double: bool,
    /// A write of it is a fault first; so that memory, if there is any, is equal.
    pub(crate) is_protected: bool,
}

impl Residence {
    /// A page that was copied into its region.
    pub(crate) fn double(is_protected: bool) -> Residence {
        let is_double = true;
        Residence {
            is_double,
            is_protected,
        }
    }

    /// The page without its frame's memory.
    pub(crate) fn single(self) -> Residence {
        let is_double = false;
        Residence { is_double, ..self }
    }

    /// The page when it can be written.
    pub(crate) fn opened(self) -> Residence {
        let is_protected = false;
        Residence { is_protected, ..self }
    }
}

fn at(word: u32) -> At {
    match word & !(WANTED | KEPT_BUSY) {
        0 => At::Absent,
        1 => At::Mapped,
        2 => At::Cached,
        3 => At::Busy,
        4 => At::Writing,
        5 => At::Poisoned,
        _ => panic!("page state {word:#x}"),
    }
}

/// The word after a page has gone there. `None`: only a bug can ask for that. Nothing else changes where a page is.
fn after(word: u32, to: At) -> Option<u32> {
    let kept = match (at(word), to) {
        (At::Absent | At::Mapped | At::Cached | At::Poisoned, At::Busy) => WANTED | KEPT_BUSY,
        (At::Busy, At::Cached | At::Writing) | (At::Writing, At::Cached) => KEPT | SAME,
        (At::Busy, At::Mapped) if word & PROTECTED == 0 => KEPT_MAPPED,
        (At::Busy, At::Mapped) => KEPT_MAPPED | SAME,
        (At::Busy, At::Absent | At::Poisoned) => 0,
        _ => return None,
    };
    Some(to as u32 | word & kept)
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
            let held = after(now, At::Busy)?;
            match word.compare_exchange_weak(now, held, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(at(now)),
                Err(other) => now = other,
            }
        }
        None
    }

    /// The same for a page that is in its frame and can come back with another: its touch is not to ask for
    /// more, and its content is of use. Returns whether it was read ahead.
    pub(crate) fn take_with_another(&self, page: u64) -> Option<Ahead> {
        let word = self.states.get(page as usize)?;
        let now = word.load(Ordering::Acquire);
        if now & !(AHEAD | SAME) != At::Cached as u32 {
            return None;
        }
        let held = after(now, At::Busy)?;
        let taken = word.compare_exchange(now, held, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok().then_some(Ahead {
            was_read: now & AHEAD != 0,
            is_mark: false,
        })
    }

    /// Ends a state that only the caller may end. Returns whether a thread has touched the page meanwhile. It
    /// must be woken unless putting the page where it is did so.
    #[must_use]
    pub(crate) fn put(&self, page: u64, to: At) -> bool {
        let word = &self.states[page as usize];
        let now = word.load(Ordering::Acquire);
        let next = after(now, to);
        let next = next
            .unwrap_or_else(|| panic!("page {page} was {:?} and not held, on its way to {to:?}", at(now)));
        // A thread may have touched it since.
        let before = word.swap(next, Ordering::AcqRel);
        before & WANTED != 0
    }

    /// Notes that a page of ours was read ahead, or that its first touch asks for more.
    pub(crate) fn note_ahead(&self, page: u64, ahead: Ahead) {
        let bits = [(ahead.was_read, AHEAD), (ahead.is_mark, MARK)];
        let bits = bits.iter().filter(|(is_so, _)| *is_so).map(|(_, bit)| bit).sum();
        let word = &self.states[page as usize];
        if at(word.fetch_or(bits, Ordering::AcqRel)) != At::Busy {
            // It went before it was noted.
            word.fetch_and(!bits, Ordering::AcqRel);
        }
    }

    /// Notes that the content of a page of ours is of no use unless it is touched.
    pub(crate) fn note_lazy(&self, page: u64) {
        self.states[page as usize].fetch_or(LAZY, Ordering::AcqRel);
    }

    /// Whether that was noted for a page of ours, and no thread has touched it since.
    pub(crate) fn is_lazy(&self, page: u64) -> bool {
        self.states[page as usize].load(Ordering::Acquire) & (LAZY | WANTED) == LAZY
    }

    /// The properties of a page in our hands in its region, present or future.
    pub(crate) fn note_residence(&self, page: u64, residence: Residence) {
        let word = &self.states[page as usize];
        let bits = [(residence.is_double, DOUBLE), (residence.is_protected, PROTECTED)];
        let bits: u32 = bits.iter().filter(|(is_so, _)| *is_so).map(|(_, bit)| bit).sum();
        let gone = if residence.is_protected {
            KEPT_MAPPED
        } else {
            KEPT_MAPPED | SAME
        };
        word.fetch_and(!gone, Ordering::AcqRel);
        word.fetch_or(bits, Ordering::AcqRel);
    }

    /// Notes that the slot of a page of ours, or that was being written, holds the same.
    pub(crate) fn note_same(&self, page: u64) {
        self.states[page as usize].fetch_or(SAME, Ordering::AcqRel);
    }

    /// Notes that a page of ours may differ from its slot though no thread could write it.
    pub(crate) fn note_changed(&self, page: u64) {
        self.states[page as usize].fetch_and(!SAME, Ordering::AcqRel);
    }

    /// Whether a page of ours is known to be the same as its slot.
    pub(crate) fn is_same(&self, page: u64) -> bool {
        self.states[page as usize].load(Ordering::Acquire) & SAME != 0
    }

    /// The same as it is.
    pub(crate) fn residence(&self, page: u64) -> Residence {
        let word = self.states[page as usize].load(Ordering::Acquire);
        Residence {
            is_double: word & DOUBLE != 0,
            is_protected: word & PROTECTED != 0,
        }
    }

    /// The notes about a page of ours.
    pub(crate) fn ahead(&self, page: u64) -> Ahead {
        let word = self.states[page as usize].load(Ordering::Acquire);
        Ahead {
            was_read: word & AHEAD != 0,
            is_mark: word & MARK != 0,
        }
    }

    /// Marks the page as touched, for the thread that holds it. `false`: no thread does.
    pub(crate) fn want(&self, page: u64) -> bool {
        let word = &self.states[page as usize];
        let mut now = word.load(Ordering::Acquire);
        while matches!(at(now), At::Busy | At::Writing) {
            match word.compare_exchange_weak(now, now | WANTED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// Pages that the caller holds, all of a block of [`States`](super::States), are absent, and that takes no memory. Threads
    /// that have touched one meanwhile are forgotten. `first` is called while they are held. `false`: the kernel's pages
    /// are larger, and nothing was done.
    pub(crate) fn forget(&self, pages: &Range<u64>, first: impl FnOnce()) -> bool {
        let is_whole = kernel_page() as u64 <= 4 * (pages.end - pages.start);
        if is_whole {
            first();
            self.states.release(pages.start as usize..pages.end as usize);
        }
        is_whole
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
    fn a_page_goes_through_the_hands_of_one_thread() {
        use At::*;
        let all = [Absent, Mapped, Cached, Busy, Writing, Poisoned];
        let steps = all.iter().flat_map(|&from| all.iter().map(move |&to| (from, to)));
        let legal: Vec<_> = steps
            .filter(|&(from, to)| after(from as u32, to).is_some())
            .collect();
        let taken = [Absent, Mapped, Cached].map(|from| (from, Busy));
        let put = [Absent, Mapped, Cached, Writing, Poisoned].map(|to| (Busy, to));
        let ends = [(Writing, Cached), (Poisoned, Busy)];
        assert_eq!(legal, [&taken[..], &put, &ends].concat());
        // A touch is known until the page is put somewhere, and no other flag outlives what it is about.
        let every = WANTED | KEPT_BUSY;
        let kept = |from: At, to: At| after(from as u32 | every, to).map(|word| word & every);
        assert_eq!(kept(Mapped, Busy), Some(every));
        assert_eq!(kept(Busy, Mapped), Some(KEPT_MAPPED | SAME));
        assert_eq!(
            after(Busy as u32 | every & !PROTECTED, Mapped).map(|word| word & every),
            Some(DOUBLE)
        );
        assert_eq!([Cached, Writing].map(|to| kept(Busy, to)), [Some(KEPT | SAME); 2]);
        assert_eq!([Absent, Poisoned].map(|to| kept(Busy, to)), [Some(0); 2]);
    }

    #[test]
    fn pages_read_ahead_are_known_until_used_or_gone() {
        let (pages, both) = (
            Pages::new(2).unwrap(),
            Ahead {
                was_read: true,
                is_mark: true,
            },
        );
        for to in [At::Mapped, At::Absent] {
            assert!(pages.take(0, &[At::Absent, At::Mapped]).is_some());
            pages.note_ahead(0, both);
            assert!(!pages.put(0, At::Cached));
            assert_eq!(
                (pages.at(0), pages.take(0, &[At::Cached])),
                (At::Cached, Some(At::Cached))
            );
            assert_eq!(pages.ahead(0), both);
            assert_eq!([0, 7].map(|page| pages.take_with_another(page)), [None; 2]);
            assert!(!pages.put(0, to));
            assert_eq!((pages.at(0), pages.ahead(0)), (to, Ahead::default()));
        }
        pages.note_ahead(1, both);
        assert_eq!((pages.at(1), pages.ahead(1)), (At::Absent, Ahead::default()));
    }

    #[test]
    fn a_page_is_double_resident_until_it_leaves_its_region() {
        let pages = Pages::new(1).unwrap();
        let residence = |is_double, is_protected| Residence {
            is_double,
            is_protected,
        };
        assert!(pages.take(0, &[At::Absent]).is_some());
        pages.note_residence(0, residence(true, true));
        assert!(!pages.put(0, At::Mapped));
        assert_eq!(
            (pages.at(0), pages.residence(0)),
            (At::Mapped, residence(true, true))
        );
        assert_eq!(pages.take(0, &[At::Mapped]), Some(At::Mapped));
        pages.note_residence(0, residence(false, true));
        assert!(!pages.put(0, At::Mapped));
        assert_eq!(
            (pages.at(0), pages.residence(0)),
            (At::Mapped, residence(false, true))
        );
        assert_eq!(pages.take(0, &[At::Mapped]), Some(At::Mapped));
        assert!(!pages.put(0, At::Cached));
        assert_eq!(pages.residence(0), Residence::default());
        assert_eq!(pages.take_with_another(0), Some(Ahead::default()));
    }

    #[test]
    fn a_page_is_the_same_as_its_slot_until_it_can_be_written() {
        let pages = Pages::new(1).unwrap();
        let hold = |from| assert_eq!(pages.take(0, &[from]), Some(from));
        let residence = |is_protected| Residence {
            is_double: true,
            is_protected,
        };
        hold(At::Absent);
        pages.note_same(0);
        pages.note_residence(0, residence(true));
        // Write-protected in its region, then in its frame, and back again with another, where it is open.
        for (to, is_same) in [
            (At::Mapped, true),
            (At::Cached, true),
            (At::Mapped, false),
            (At::Cached, false),
        ] {
            assert!(!pages.put(0, to));
            assert_eq!(pages.is_same(0), is_same, "{to:?}");
            if is_same && to == At::Cached {
                assert_eq!(pages.take_with_another(0), Some(Ahead::default()));
            } else {
                hold(to);
            }
        }
        pages.note_same(0);
        pages.note_residence(0, residence(true));
        assert!(!pages.put(0, At::Mapped));
        hold(At::Mapped);
        pages.note_residence(0, residence(false));
        assert!(!pages.is_same(0), "it was opened");
    }

    #[test]
    fn only_a_cached_page_that_no_thread_waits_for_comes_with_another() {
        let pages = Pages::new(4).unwrap();
        let out = |page: u64, note: &dyn Fn()| {
            assert!(pages.take(page, &[At::Absent]).is_some());
            note();
            assert!(!pages.put(page, At::Cached));
        };
        let ahead = |was_read, is_mark| Ahead { was_read, is_mark };
        out(0, &|| {});
        out(1, &|| pages.note_ahead(1, ahead(true, false)));
        out(2, &|| pages.note_ahead(2, ahead(true, true)));
        out(3, &|| pages.note_lazy(3));
        let taken = [0, 1, 2, 3, 4].map(|page| pages.take_with_another(page).map(|ahead| ahead.was_read));
        assert_eq!(taken, [Some(false), Some(true), None, None, None]);
        assert_eq!(pages.take_with_another(0), None, "it is in hand");
        assert!(!pages.put(1, At::Cached));
        assert_eq!(
            pages.ahead(1),
            ahead(true, false),
            "kept if it does not come after all"
        );
    }

    #[test]
    fn a_page_is_in_one_pair_of_hands_and_a_fault_meanwhile_is_not_forgotten() {
        let pages = Pages::new(3).unwrap();
        assert_eq!(pages.take(1, &[At::Mapped, At::Cached]), None);
        assert_eq!(pages.take(1, &[At::Absent]), Some(At::Absent));
        assert_eq!(pages.take(1, &[At::Absent, At::Mapped, At::Cached]), None);
        assert!(pages.want(1));
        assert!(pages.put(1, At::Mapped), "somebody has touched it");
        assert!(!pages.want(1), "nobody has it in hand");
        assert_eq!(pages.take(1, &[At::Mapped]), Some(At::Mapped));
        assert!(!pages.put(1, At::Cached));
        assert_eq!((pages.at(0), pages.at(1)), (At::Absent, At::Cached));
    }
}
