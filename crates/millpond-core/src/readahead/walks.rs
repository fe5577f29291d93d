//! How far readers go from a new position, and reading that much at once.
//!
//! ```text
//!   walks that were seen   4 ████████  100 ... 128 ...          how far each was proven to go
//!   expected               what 5 of 8 of the last 16 that have ended reached, up to the next power of two
//!   next fault at p        p ═════════════════════════╪══════════════════╡   read in one go
//!                                                     ▲ half             ▲ last: their uses are the proof
//! ```
//!
//! Work on records (Kim 2020's ebizzy copies chunks of 512 KiB) starts at an unpredictable position and has a
//! predictable length. Doubling windows relearn the length for each record, wait once per window, and read beyond the
//! end. Here the first fault of a record reads all of it, and nothing after it. A record of which less than half is
//! used counts against the expectation, which falls until nothing is read ahead of random faults. Linux does something
//! similar for a fault's neighbors (`swapin_nr_pages`, 4.14), from the uses of pages read around before, up to
//! `page-cluster`.

use super::ReadAhead;
use crate::units::PageIndex;
use alloc::vec::Vec;

/// A record of up to this many windows is read at once; a longer one is a stream, whose next window is requested in
/// time.
pub const WINDOWS_MAX: u64 = 2;

/// Walks that must have been seen before anything is expected.
const WALKS_MIN: usize = 8;

/// The number of walks whose length counts: the last ones that are not under way.
const WALKS_MAX: usize = 16;

/// Proofs that are remembered to know how many walks are under way.
const PROOFS_MAX: usize = 32;

/// The share of the walks seen that went less far than expected.
const SHORTER_OF_8: usize = 3;

/// Records that begin at the same place modulo this many pages, a power of two, are distinguished from the middles of
/// others: the longest record read at once with windows of 256 KiB and pages of 4 KiB.
const RECORD_MAX: u64 = 128;

/// One in this many of the walks seen must have begun at the same place for records to begin there. Records of a
/// quarter of [`RECORD_MAX`] begin at four places; chance would need four of 16 walks to agree on one of 128.
const SAME_PLACE_1_OF: usize = 4;

/// Shorter ones are not worth it: two faults and the first window of a stream read as much.
const EXPECTED_MIN: u64 = 8;

/// How far a reader has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    pub(super) first: PageIndex,
    /// Behind the last page that it is proven to have used.
    pub(super) reached: PageIndex,
    /// Pages whose use proves that it came this far: of the previous window and the last one.
    proofs: [Option<(PageIndex, PageIndex)>; 4],
    /// Nothing of what it was expected to use had to be read: how far it goes can't be seen.
    is_unseen: bool,
}

impl Walk {
    pub(super) fn until(first: PageIndex, reached: PageIndex) -> Walk {
        Walk {
            first,
            reached,
            proofs: [None; 4],
            is_unseen: false,
        }
    }
}

/// The positions, in the line of walks, of the last walks proven to go on. Where several threads go through records at
/// a time, the latest walks are under way, and how far they have come means nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct UnderWay {
    stood: [u8; PROOFS_MAX],
    next: usize,
}

impl UnderWay {
    fn note(&mut self, stood: usize) {
        self.stood[self.next % PROOFS_MAX] = stood.min(u8::MAX.into()) as u8;
        self.next += 1;
    }

    /// How many earlier walks count as under way when another begins: at most one proven walk in eight stood further
    /// back, which may be a page that was read long ago and is used only now.
    fn walks(&self) -> usize {
        let mut stood = self.stood;
        stood.sort_unstable();
        stood[PROOFS_MAX - 1 - PROOFS_MAX / 8].into()
    }
}

impl ReadAhead {
    /// How many pages from `first` on a reader that comes there is expected to use, if known: a record, or the rest of
    /// one that was in memory up to there.
    pub(super) fn expected(&self, first: PageIndex) -> Option<u64> {
        if !self.learns {
            return None;
        }
        let seen = self.streams.iter().skip(self.under_way.walks());
        let seen = seen.take(WALKS_MAX).map(|stream| &stream.walk);
        let mut seen: Vec<(u64, u64)> = seen
            .filter(|walk| !walk.is_unseen)
            .map(|walk| (walk.first.0 % RECORD_MAX, walk.reached.0 - walk.first.0))
            .collect();
        if seen.len() < WALKS_MIN {
            return None;
        }
        seen.sort_unstable();
        let places = seen.chunk_by(|one, other| one.0 == other.0);
        let most = places.max_by_key(|walks| walks.len()).unwrap_or_default();
        let place = (most.len() * SAME_PLACE_1_OF >= seen.len()).then(|| most[0].0);
        let length = |walks: &[(u64, u64)]| {
            let mut lengths: Vec<u64> = walks.iter().map(|walk| walk.1).collect();
            lengths.sort_unstable();
            let length = lengths[lengths.len() * SHORTER_OF_8 / 8];
            (length >= EXPECTED_MIN).then(|| length.next_power_of_two())
        };
        let Some(place) = place else {
            return length(&seen);
        };
        let length = length(most)?;
        let into = (first.0 % RECORD_MAX + RECORD_MAX - place) % RECORD_MAX;
        Some(length - if length <= RECORD_MAX { into % length } else { 0 })
    }

    /// Of the window that was answered last, these pages are being read, in ascending order, if any had to be. Which of
    /// them to report the use of with [`due`](ReadAhead::due): up to three.
    pub fn reading(&mut self, pages: &[PageIndex]) -> [Option<PageIndex>; 3] {
        let Some(stream) = self.streams.first_mut() else {
            return [None; 3];
        };
        let (walk, is_whole) = (&mut stream.walk, stream.mark.is_none());
        let (Some(&first), Some(&last)) = (pages.first(), pages.last()) else {
            walk.is_unseen = is_whole;
            return [None; 3];
        };
        if !is_whole {
            stream.mark = Some(first);
        }
        let began = if is_whole { walk.first } else { first };
        let middle = (began.0 + stream.end.0) / 2;
        let half = pages.iter().copied().find(|page| page.0 >= middle);
        let half = half.filter(|&page| page < last);
        let [_, _, third, fourth] = walk.proofs;
        walk.proofs = [
            third,
            fourth,
            half.map(|page| (page, page.after(1))),
            Some((last, stream.end)),
        ];
        [stream.mark, half, Some(last)]
    }

    /// The page was used.
    pub(super) fn proven(&mut self, at: PageIndex) {
        // Who went there before has the same proof, but is not under way.
        let mut is_known = false;
        for (stood, stream) in self.streams.iter_mut().enumerate() {
            let walk = &mut stream.walk;
            for &(page, reached) in walk.proofs.iter().flatten() {
                if page == at {
                    walk.reached = walk.reached.max(reached);
                    if !is_known {
                        self.under_way.note(stood);
                    }
                    is_known = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readahead::{ReadAheadOptions, Window};
    use crate::units::{Bytes, PageCount, PageSize};

    const OPTIONS: ReadAheadOptions = ReadAheadOptions {
        max: Bytes::from_kib(256),
        start: Bytes::from_kib(128),
    };

    fn missed(ahead: &mut ReadAhead, page: u64) -> Option<Window> {
        let pages = PageCount(1 << 30);
        ahead.missed(PageIndex(page), 1, pages, &OPTIONS, PageSize::KIB_4, false)
    }

    /// A reader uses pages one after the other, none of which is in memory. Faults, windows, pages that were read and not
    /// used.
    fn walk(ahead: &mut ReadAhead, first: u64, length: u64) -> (u64, u64, u64) {
        let (mut faults, mut windows, mut end, mut marks) = (0, 0, first, alloc::vec::Vec::new());
        for page in first..first + length {
            let window = if page >= end {
                faults += 1;
                end = page + 1;
                missed(ahead, page)
            } else if marks.contains(&page) {
                ahead.due(PageIndex(page), PageCount(1 << 30), &OPTIONS, PageSize::KIB_4)
            } else {
                None
            };
            if let Some(window) = window {
                windows += 1;
                end = window.first.0 + window.count.0;
                let read: alloc::vec::Vec<_> = (window.first.0..end).map(PageIndex).collect();
                marks.extend(ahead.reading(&read).into_iter().flatten().map(|page| page.0));
            }
        }
        (faults, windows, end - (first + length))
    }

    #[test]
    fn a_record_is_read_at_its_first_fault_and_nothing_behind_it() {
        for length in [32, 64, 128] {
            let mut ahead = ReadAhead::that_learns(24);
            let first = walk(&mut ahead, 1000, length);
            assert!(first.0 == 2 && first.1 > 1, "{first:?}");
            for n in 2..20 {
                walk(&mut ahead, n * 1000, length);
            }
            for n in 20..40 {
                assert_eq!(walk(&mut ahead, n * 1000, length), (1, 1, 0), "{length}");
            }
        }
    }

    /// The rest of it was in memory, or is still on its way out: of the next record, which no reader has asked for, half was
    /// read as well.
    #[test]
    fn entering_the_middle_of_a_record_reads_its_rest() {
        for length in [32, 64, 128] {
            let mut ahead = ReadAhead::that_learns(24);
            for n in 1..20 {
                walk(&mut ahead, 7 + n * 1024, length);
            }
            assert_eq!(walk(&mut ahead, 7 + 100 * 1024 + 10, length - 10), (1, 1, 0));
            assert_eq!(walk(&mut ahead, 7 + 200 * 1024, length), (1, 1, 0));
        }
    }

    #[test]
    fn starts_of_records_are_learnt_though_most_readers_enter_in_the_middle() {
        let mut ahead = ReadAhead::that_learns(24);
        for n in 1..40 {
            let into = if n % 2 == 0 { 0 } else { n * 3 % 120 };
            walk(&mut ahead, n * 1024 + into, 128 - into);
        }
        assert_eq!(walk(&mut ahead, 100 * 1024 + 10, 118), (1, 1, 0));
        assert_eq!(walk(&mut ahead, 200 * 1024, 128), (1, 1, 0));
    }

    #[test]
    fn a_stream_goes_on_behind_a_record_and_a_long_one_has_its_next_window_in_time() {
        let mut ahead = ReadAhead::that_learns(24);
        for n in 1..20 {
            walk(&mut ahead, n * 1000, 900);
        }
        let (faults, windows, _) = walk(&mut ahead, 50_000, 900);
        assert_eq!(faults, 1);
        assert_eq!(windows, 16, "the largest from the first fault on");
    }

    #[test]
    fn readers_of_shorter_walks_get_less_read_ahead_until_none() {
        let mut ahead = ReadAhead::that_learns(24);
        for n in 1..20 {
            walk(&mut ahead, n * 1000, 128);
        }
        let wasted: u64 = (100..200).map(|n| walk(&mut ahead, n * 1000, 1).2).sum();
        assert!((127..=15 * 127).contains(&wasted), "{wasted}");
        assert_eq!(walk(&mut ahead, 300_000, 1), (1, 0, 0));
        for n in 400..440 {
            walk(&mut ahead, n * 1000, 70);
        }
        assert_eq!(walk(&mut ahead, 500_000, 70), (1, 1, 58), "the next power of two");
    }

    /// With eight threads half of the last sixteen walks were under way, and seemed to be as short as they had come: records
    /// were read in pieces and beyond their ends, a ninth of all that was read (ebizzy of 2048 MB).
    #[test]
    fn those_who_are_under_way_do_not_seem_to_be_short() {
        for (readers, in_step) in [
            (1, true),
            (2, true),
            (8, true),
            (8, false),
            (12, true),
            (12, false),
        ] {
            let mut ahead = ReadAhead::that_learns(24);
            let (mut faults, mut wasted) = (0, 0);
            // Of each its record, how far it has come in it, what was read of it, and where it is asked for more.
            let mut at: Vec<(u64, u64, u64, Vec<u64>)> = (0..readers)
                .map(|n| {
                    let into = if in_step { 0 } else { n * 128 / readers };
                    (n * 1024, into, 0, Vec::new())
                })
                .collect();
            for n in readers * 128..readers * 128 * 40 {
                let (record, page, end, marks) = &mut at[(n % readers) as usize];
                if *page == 128 {
                    let is_known = n > readers * 128 * 20;
                    wasted += if is_known {
                        end.saturating_sub(*record + 128)
                    } else {
                        0
                    };
                    (*record, *page, *end) = (n * 1024, 0, 0);
                    marks.clear();
                }
                let now = *record + *page;
                *page += 1;
                let window = if now >= *end {
                    faults += u64::from(n > readers * 128 * 20);
                    *end = now + 1;
                    missed(&mut ahead, now)
                } else if marks.contains(&now) {
                    ahead.due(PageIndex(now), PageCount(1 << 30), &OPTIONS, PageSize::KIB_4)
                } else {
                    None
                };
                if let Some(window) = window {
                    *end = window.first.0 + window.count.0;
                    let read: Vec<_> = (window.first.0..*end).map(PageIndex).collect();
                    marks.extend(ahead.reading(&read).into_iter().flatten().map(|page| page.0));
                }
            }
            let records = 20 * readers;
            assert!(
                faults <= records + readers,
                "{readers}: {faults} of {records} records"
            );
            assert!(wasted < 128, "{readers}: {wasted} of {records} records");
        }
    }

    /// The second reader is taken for the first, which has overtaken its window, and began behind it.
    #[test]
    fn a_reader_taken_for_a_stream_has_walked_only_its_own_way() {
        for mut ahead in [ReadAhead::default(), ReadAhead::that_learns(24)] {
            walk(&mut ahead, 0, 4);
            for n in 1..20 {
                missed(&mut ahead, n * 1000);
                missed(&mut ahead, n * 1000 + 1);
                missed(&mut ahead, n * 1000 - 20);
            }
            assert!(ahead.streams.iter().all(|s| s.walk.first <= s.walk.reached));
        }
    }

    #[test]
    fn pages_found_in_memory_teach_nothing() {
        let mut ahead = ReadAhead::that_learns(24);
        for n in 1..20 {
            walk(&mut ahead, n * 1000, 128);
        }
        for n in 20..60 {
            assert!(missed(&mut ahead, n * 1000).is_some());
            assert_eq!(ahead.reading(&[]), [None; 3]);
            walk(&mut ahead, n * 1000 + 200_000, 128);
        }
        assert_eq!(walk(&mut ahead, 900_000, 128), (1, 1, 0));
    }

    #[test]
    fn a_record_that_is_read_again_begins_anew() {
        let mut ahead = ReadAhead::that_learns(24);
        for n in 1..20 {
            walk(&mut ahead, n * 1000, 128);
        }
        for _ in 0..20 {
            assert_eq!(walk(&mut ahead, 50_000, 128), (1, 1, 0));
        }
    }
}
