//! Buffers of read and write calls: one slice, or several in sequence (`preadv`, `pwritev`).
//!
//! A call with several buffers copies page by page, as with one, and makes the same promise for each page: a page that
//! spans two buffers is read and changed at one point in time.

use crate::memory::buffers;
use std::cell::Cell;
use std::io::{IoSlice, IoSliceMut};

/// The destination of a read.
pub(super) trait Sink {
    fn len(&self) -> usize;

    /// Whether a part of it lies in a region.
    fn is_in_region(&self) -> bool;

    /// Copies `bytes` to its bytes from `at` on.
    fn put(&mut self, at: usize, bytes: &[u8]);
}

/// The source of a write.
pub(super) trait Source {
    fn len(&self) -> usize;

    /// Whether a part of it lies in a region.
    fn is_in_region(&self) -> bool;

    /// Fills `to` with its bytes from `at` on.
    fn get(&self, at: usize, to: &mut [u8]);
}

impl Sink for [u8] {
    fn len(&self) -> usize {
        self.len()
    }

    fn is_in_region(&self) -> bool {
        buffers::are_in_region(self)
    }

    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Source for [u8] {
    fn len(&self) -> usize {
        self.len()
    }

    fn is_in_region(&self) -> bool {
        buffers::are_in_region(self)
    }

    #[inline]
    fn get(&self, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self[at..at + to.len()]);
    }
}

/// Where the last copy stopped: the piece, and the number of bytes before it. Calls go forward, so the next copy begins
/// there.
#[derive(Clone, Copy, Default)]
struct Place {
    piece: usize,
    start: usize,
}

impl Place {
    /// Returns the piece that holds byte `at`, given the lengths of the pieces.
    fn of(self, at: usize, len: impl Fn(usize) -> usize) -> Place {
        let mut place = if at < self.start { Place::default() } else { self };
        while at >= place.start + len(place.piece) {
            place.start += len(place.piece);
            place.piece += 1;
        }
        place
    }
}

/// The buffers of a vectored read.
pub(super) struct Scattered<'a, 'b> {
    pieces: &'a mut [IoSliceMut<'b>],
    len: usize,
    place: Place,
}

impl<'a, 'b> Scattered<'a, 'b> {
    pub(super) fn new(pieces: &'a mut [IoSliceMut<'b>]) -> Scattered<'a, 'b> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let place = Place::default();
        Scattered { pieces, len, place }
    }
}

impl Sink for Scattered<'_, '_> {
    fn len(&self) -> usize {
        self.len
    }

    fn is_in_region(&self) -> bool {
        self.pieces.iter().any(|piece| buffers::are_in_region(piece))
    }

    fn put(&mut self, mut at: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.place = self.place.of(at, |piece| self.pieces[piece].len());
            let left = &mut self.pieces[self.place.piece][at - self.place.start..];
            let some;
            (some, bytes) = bytes.split_at(left.len().min(bytes.len()));
            left[..some.len()].copy_from_slice(some);
            at += some.len();
        }
    }
}

/// The buffers of a vectored write.
pub(super) struct Gathered<'a> {
    pieces: &'a [IoSlice<'a>],
    len: usize,
    place: Cell<Place>,
}

impl<'a> Gathered<'a> {
    pub(super) fn new(pieces: &'a [IoSlice<'a>]) -> Gathered<'a> {
        // The same memory may be there any number of times.
        let lens = pieces.iter().map(|piece| piece.len());
        let len = lens.fold(0, usize::saturating_add);
        let place = Cell::default();
        Gathered { pieces, len, place }
    }
}

impl Source for Gathered<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn is_in_region(&self) -> bool {
        self.pieces.iter().any(|piece| buffers::are_in_region(piece))
    }

    fn get(&self, mut at: usize, mut to: &mut [u8]) {
        while !to.is_empty() {
            let place = self.place.get().of(at, |piece| self.pieces[piece].len());
            self.place.set(place);
            let left = &self.pieces[place.piece][at - place.start..];
            let some;
            (some, to) = to.split_at_mut(left.len().min(to.len()));
            some.copy_from_slice(&left[..some.len()]);
            at += some.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_buffer_wherever_they_are_cut_and_in_whichever_order_they_are_copied() {
        let bytes: Vec<u8> = (0..40).collect();
        for cuts in [[0, 0, 40], [1, 1, 39], [7, 20, 20], [13, 26, 40]] {
            let [a, b, c] = cuts;
            let parts = [&bytes[..a], &bytes[a..b], &bytes[b..c], &bytes[c..]];
            let pieces = parts.map(IoSlice::new);
            let gathered = Gathered::new(&pieces);
            assert_eq!(Source::len(&gathered), 40);
            let mut back = vec![0; 40];
            let (first, rest) = back.split_at_mut(a);
            let (second, rest) = rest.split_at_mut(b - a);
            let (third, fourth) = rest.split_at_mut(c - b);
            let mut pieces = [first, second, third, fourth].map(IoSliceMut::new);
            let mut scattered = Scattered::new(&mut pieces);
            // Forward, and once back.
            for range in [0..3, 3..20, 20..40, 5..25, 40..40] {
                let mut some = vec![0; range.len()];
                gathered.get(range.start, &mut some);
                assert_eq!(some, bytes[range.clone()], "{cuts:?}");
                scattered.put(range.start, &some);
            }
            assert_eq!(back, bytes, "{cuts:?}");
        }
    }
}
