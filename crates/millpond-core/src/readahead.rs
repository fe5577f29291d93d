//! Read-ahead for sequential readers.
//!
//! ```text
//!   pages read so far          window n             window n+1
//!   ─────────────────────────►|═════════════════════|─────────────────────
//!                              ▲ mark: when a reader comes here, n+1 is read
//! ```
//!
//! A miss right after the last page of a known stream continues it. A miss at the start of a file, or right after the
//! previous miss, opens one. The window doubles each time up to the maximum. The mark at its start keeps one window in
//! transit while the reader works on the previous one (as in Linux's on-demand read-ahead). A miss anywhere else is
//! random and reads only what was asked for.
//!
//! Two consecutive misses may already be a whole record: a 12 KiB blob in a database has three pages. Where useless
//! read-ahead would displace pages, the first window in the middle of a file is four times the request (as in Linux's
//! `get_init_ra_size`) and grows fourfold up to the window for the start of a file. Until then the mark is at its end:
//! a reader has to use all of it before more is read. Where frames are free, read-ahead displaces no page, and
//! neighboring records are brought in too.
//!
//! Each file has up to [`STREAMS_MAX`] streams, so that several sequential readers don't reset one another.
//!
//! Read-ahead of a region also learns how far readers go from a new position, and reads that much at once ([`walks`]).

pub mod fault_around;
pub mod walks;

use crate::units::{Bytes, PageCount, PageIndex, PageSize};
use alloc::vec::Vec;
use walks::{UnderWay, Walk};

/// How a user expects to use a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pattern {
    /// Detect it: read ahead when reads turn out to be sequential.
    #[default]
    Normal,
    /// Never read ahead.
    Random,
    /// Read ahead with the largest window immediately.
    Sequential,
}

/// The settings of read-ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadAheadOptions {
    /// The largest window, unless the device asks for a larger one. 0 turns read-ahead off. Default 2 MiB: on a device
    /// with 1 ms of latency and 1 GB/s, two windows in transit are enough for its full bandwidth.
    pub max: Bytes,
    /// The first window of a stream from the start of a file, and the largest window of a young stream in its middle.
    /// Default 128 KiB, Linux's default for the maximum.
    pub start: Bytes,
}

impl Default for ReadAheadOptions {
    fn default() -> Self {
        ReadAheadOptions {
            max: Bytes::from_mib(2),
            start: Bytes::from_kib(128),
        }
    }
}

impl ReadAheadOptions {
    /// The same settings with another maximum, and the first window scaled in proportion. Stays off if it is off.
    pub(crate) fn up_to(self, max: Bytes) -> ReadAheadOptions {
        match self.max {
            Bytes(0) => self,
            Bytes(before) => ReadAheadOptions {
                start: Bytes((u128::from(self.start.0) * u128::from(max.0) / u128::from(before)) as u64),
                max,
            },
        }
    }
}

/// A stream in the middle of a file starts with this many times the request, and grows by this factor up to
/// [`ReadAheadOptions::start`]. Linux's values (`get_init_ra_size`, `get_next_ra_size`).
const YOUNG_GROWTH: u64 = 4;

/// How many sequential readers of a file read-ahead can distinguish.
pub const STREAMS_MAX: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The page after the last one read or asked for.
    end: PageIndex,
    /// The previous window, in pages.
    window: u64,
    /// The page whose use requests the next window.
    mark: Option<PageIndex>,
    /// How far the reader has come.
    walk: Walk,
}

/// Pages to read ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The first page.
    pub first: PageIndex,
    /// The number of pages.
    pub count: PageCount,
    /// The page whose use requests the next window.
    pub mark: PageIndex,
    /// This is all that the reader is expected to use: read nothing beyond it before the reader gets there.
    pub is_whole: bool,
}

/// The streams of one file.
#[derive(Clone, Debug)]
pub struct ReadAhead {
    streams_max: usize,
    /// Whether it learns how far readers go.
    learns: bool,
    /// Most recently used first.
    streams: Vec<Stream>,
    under_way: UnderWay,
    pattern: Pattern,
    /// Windows of as many pages or more end at its multiples.
    transfer: u64,
}

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        ReadAhead {
            transfer: 1,
            streams_max: STREAMS_MAX,
            learns: false,
            streams: Vec::new(),
            under_way: UnderWay::default(),
            pattern: Pattern::default(),
        }
    }
}

impl ReadAhead {
    /// Distinguishes up to `streams_max` streams, and learns how far readers go.
    pub fn that_learns(streams_max: usize) -> ReadAhead {
        ReadAhead {
            streams_max,
            learns: true,
            ..ReadAhead::default()
        }
    }

    /// The user has advised how the file is used.
    pub fn advise(&mut self, pattern: Pattern) {
        self.pattern = pattern;
        self.streams.clear();
    }

    /// Windows of `transfer` pages or more end at its multiples, so that they are whole transfers of a device.
    pub fn end_at_multiples_of(&mut self, transfer: PageCount) {
        self.transfer = transfer.0.max(1);
    }

    /// Whether to read only what is requested.
    pub fn is_off(&self, options: &ReadAheadOptions) -> bool {
        options.max == Bytes(0) || self.pattern == Pattern::Random
    }

    /// A reader missed pages `first..first + count` of a file of `pages` pages, and reads them itself. Returns what to
    /// read beyond them, if anything. `is_free`: frames are free, so reading displaces no page.
    pub fn missed(
        &mut self,
        first: PageIndex,
        count: u64,
        pages: PageCount,
        options: &ReadAheadOptions,
        page_size: PageSize,
        is_free: bool,
    ) -> Option<Window> {
        let max = options.max.to_pages(page_size).0;
        if max == 0 || self.is_off(options) {
            return None;
        }
        let end = first.after(count);
        // A reader that overtook its window (the pages were dropped, or came too late) is still the same stream.
        let learns = self.learns;
        let known = self.streams.iter().position(|s| {
            let is_near = first <= s.end && s.end.0 <= end.0.max(first.0 + s.window) && s.window > 0;
            // A reader that comes to a page that this stream has left starts anew.
            is_near && !(learns && first < s.walk.reached)
        });
        let adjacent = self.streams.iter().position(|s| s.end == first);
        let start = options.start.to_pages(page_size).0.clamp(1, max);
        let (at, window) = match known.or(adjacent) {
            Some(at) => (
                Some(at),
                match self.streams[at].window {
                    0 if learns || is_free => start,
                    // How far its reader goes is open.
                    0 => (count * YOUNG_GROWTH).min(start),
                    window => grown(window, start),
                },
            ),
            None if first.0 == 0 || self.pattern == Pattern::Sequential || count > start => (None, start),
            None => (None, 0),
        };
        let whole = match (at, window) {
            (None, 0) => self.expected(first),
            _ => None,
        };
        let (window, is_whole) = match whole {
            Some(length) if length <= walks::WINDOWS_MAX * max => (length.saturating_sub(count), true),
            Some(_) => (max, false),
            None => (window, false),
        };
        let window = if self.pattern == Pattern::Sequential {
            max
        } else if is_whole {
            window
        } else {
            window.min(max)
        };
        let before = at.map(|at| self.streams.remove(at));
        let walk = Walk::until(before.map_or(first, |stream| stream.walk.first.min(first)), end);
        self.streams.truncate(self.streams_max - 1);
        self.streams.insert(
            0,
            Stream {
                end,
                window,
                mark: None,
                walk,
            },
        );
        match window {
            0 => None,
            _ => self.extend(0, pages, start, is_whole),
        }
    }

    /// A reader reached the mark at `at`. Returns the next window of its stream.
    pub fn due(
        &mut self,
        at: PageIndex,
        pages: PageCount,
        options: &ReadAheadOptions,
        page_size: PageSize,
    ) -> Option<Window> {
        let max = options.max.to_pages(page_size).0;
        self.proven(at);
        let stream = self.streams.iter().position(|s| s.mark == Some(at))?;
        if max == 0 {
            return None;
        }
        let start = options.start.to_pages(page_size).0.clamp(1, max);
        let mut moved = self.streams.remove(stream);
        moved.walk.reached = moved.walk.reached.max(at.after(1));
        self.streams.insert(
            0,
            Stream {
                window: grown(moved.window, start).min(max),
                mark: None,
                ..moved
            },
        );
        self.extend(0, pages, start, false)
    }

    /// The next window of stream `at`, cut at the end of the file, and where a transfer ends. A window smaller than
    /// `start` has its mark at its end.
    fn extend(&mut self, at: usize, pages: PageCount, start: u64, is_whole: bool) -> Option<Window> {
        let transfer = self.transfer;
        let stream = &mut self.streams[at];
        let first = stream.end;
        let window = match stream.window {
            window if window < transfer || is_whole => window,
            window => window - (first.0 + window) % transfer,
        };
        let count = window.min(pages.0.saturating_sub(first.0));
        if count == 0 {
            return None;
        }
        let is_young = stream.window < start;
        let mark = if is_young { first.after(count - 1) } else { first };
        stream.mark = (!is_whole).then_some(mark);
        stream.end = first.after(count);
        Some(Window {
            first,
            count: PageCount(count),
            mark,
            is_whole,
        })
    }
}

/// The window that follows one of `window` pages.
fn grown(window: u64, start: u64) -> u64 {
    let most_while_young = start.max(window * 2);
    (window * YOUNG_GROWTH).min(most_while_young)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: PageCount = PageCount(10_000);

    fn missed(ra: &mut ReadAhead, first: u64, count: u64) -> Option<(u64, u64)> {
        let w = ra.missed(
            PageIndex(first),
            count,
            FILE,
            &ReadAheadOptions::default(),
            PageSize::KIB_4,
            false,
        )?;
        Some((w.first.0, w.count.0))
    }

    fn due(ra: &mut ReadAhead, at: u64) -> Option<(u64, u64)> {
        let w = ra.due(PageIndex(at), FILE, &ReadAheadOptions::default(), PageSize::KIB_4)?;
        Some((w.first.0, w.count.0))
    }

    #[test]
    fn windows_double_up_to_the_maximum_as_the_reader_comes_to_the_marks() {
        let mut ra = ReadAhead::default();
        assert_eq!(missed(&mut ra, 0, 1), Some((1, 32)));
        assert_eq!(due(&mut ra, 1), Some((33, 64)));
        assert_eq!(due(&mut ra, 33), Some((97, 128)));
        assert_eq!(due(&mut ra, 97), Some((225, 256)));
        assert_eq!(due(&mut ra, 225), Some((481, 512)));
        assert_eq!(due(&mut ra, 481), Some((993, 512)), "2 MiB are the most");
        assert_eq!(due(&mut ra, 481), None, "a mark counts once");
    }

    #[test]
    fn random_misses_read_nothing_ahead() {
        let mut ra = ReadAhead::default();
        for n in 1..500_u64 {
            assert_eq!(missed(&mut ra, n * 7919 % 10_000, 1), None, "miss {n}");
        }
    }

    #[test]
    fn a_miss_behind_the_miss_before_opens_a_stream_in_the_middle_of_a_file() {
        let mut ra = ReadAhead::default();
        assert_eq!(missed(&mut ra, 500, 1), None);
        assert_eq!(missed(&mut ra, 501, 1), Some((502, 4)));
        assert_eq!(
            due(&mut ra, 502),
            None,
            "all of a small window is to be used first"
        );
        assert_eq!(due(&mut ra, 505), Some((506, 16)));
        assert_eq!(due(&mut ra, 521), Some((522, 32)));
        assert_eq!(due(&mut ra, 522), Some((554, 64)));
    }

    #[test]
    fn with_free_frames_a_stream_opens_with_the_window_of_a_file_start() {
        let (mut ra, options) = (ReadAhead::default(), ReadAheadOptions::default());
        let mut missed = |first| ra.missed(PageIndex(first), 1, FILE, &options, PageSize::KIB_4, true);
        assert_eq!(missed(500), None);
        let window = missed(501).unwrap();
        assert_eq!((window.count, window.mark), (PageCount(32), PageIndex(502)));
    }

    #[test]
    fn larger_misses_in_a_row_open_larger_windows() {
        let mut ra = ReadAhead::default();
        assert_eq!(missed(&mut ra, 500, 4), None);
        assert_eq!(missed(&mut ra, 504, 4), Some((508, 16)));
        assert_eq!(missed(&mut ra, 900, 16), None);
        assert_eq!(missed(&mut ra, 916, 16), Some((932, 32)));
    }

    /// As blobs in a database are read at random. It was 34 pages for 3, and the disk was busy with unused data.
    #[test]
    fn records_at_random_places_are_read_without_much_that_no_one_uses() {
        let (mut ra, mut read) = (ReadAhead::default(), 0);
        let mut place = 7;
        for _ in 0..1000 {
            place = (place * 7919 + 13) % 9_000;
            for page in place..place + 2 {
                read += 1 + missed(&mut ra, page, 1).map_or(0, |(_, count)| count);
            }
            // The third is there, and no mark.
            read += due(&mut ra, place + 2).map_or(0, |(_, count)| count);
        }
        assert!(read <= 7 * 1000, "{read} pages for 3000");
    }

    #[test]
    fn four_interleaved_readers_keep_their_windows() {
        let mut ra = ReadAhead::default();
        let starts = [0_u64, 2_000, 4_000, 6_000];
        for start in starts {
            missed(&mut ra, start, 1);
            missed(&mut ra, start + 1, 1);
        }
        // Page 0 opened its stream at once and read pages 1 to 32; its second miss found it again.
        for start in &starts[1..] {
            assert_eq!(due(&mut ra, start + 5), Some((start + 6, 16)));
        }
    }

    #[test]
    fn advice_switches_it_off_or_opens_the_window_at_once() {
        let mut ra = ReadAhead::default();
        ra.advise(Pattern::Random);
        assert_eq!(missed(&mut ra, 0, 1), None);
        ra.advise(Pattern::Sequential);
        assert_eq!(missed(&mut ra, 700, 1), Some((701, 512)));
    }

    #[test]
    fn it_stops_at_the_end_of_the_file() {
        let mut ra = ReadAhead::default();
        ra.advise(Pattern::Sequential);
        assert_eq!(missed(&mut ra, 9_990, 1), Some((9_991, 9)));
        assert_eq!(due(&mut ra, 9_991), None);
    }
}
