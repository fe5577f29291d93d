//! The memory of a transfer: ranges of one owner, in file order.
//!
//! ```text
//!   file     offset ├────────────────────────────┤
//!   memory   [frame 7][frame 8]   [frame 3]   [frame 12]      contiguous neighbours become one range
//! ```
//!
//! A [`Segments`] holds its owner, so the memory stays mapped until the transfer completes, even if all other owners
//! drop it. Ranges are checked against the owner when they are added. The owner must prevent concurrent use of the same
//! bytes; see [`Memory`].

use parking_lot::Mutex;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Memory that a device may transfer to and from.
///
/// # Safety
/// An implementation promises that
/// - `range` is always the same, readable and writable, and stays mapped until the value is dropped;
/// - a reference into the range exists only while no transfer of those bytes can be under way: the bytes of a
///   read change at any time until it is completed, those of a write are read at any time until then.
pub unsafe trait Memory: Send + Sync + fmt::Debug {
    /// Returns the whole memory.
    fn range(&self) -> NonNull<[u8]>;
}

/// Lists for the ranges of requests that have more than one, set aside: taken by a [`Segments`], and back when that is
/// dropped, wherever the request has ended. None is freed: there are as many as requests were ever under way at once.
pub(crate) struct Ranges {
    lists: Mutex<Vec<Vec<libc::iovec>>>,
    /// The room of a new list.
    ranges: usize,
}

// SAFETY: the lists are empty, so there is no pointer in them.
unsafe impl Send for Ranges {}
// SAFETY: as for Send.
unsafe impl Sync for Ranges {}

impl Ranges {
    /// `lists` lists with room for `ranges` ranges each.
    pub(crate) fn new(lists: usize, ranges: usize) -> Arc<Ranges> {
        Arc::new(Ranges {
            lists: Mutex::new((0..lists).map(|_| Vec::with_capacity(ranges)).collect()),
            ranges,
        })
    }

    fn take(&self) -> Vec<libc::iovec> {
        let spare = self.lists.lock().pop();
        spare.unwrap_or_else(|| Vec::with_capacity(self.ranges))
    }

    fn give_back(&self, mut list: Vec<libc::iovec>) {
        list.clear();
        self.lists.lock().push(list);
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        if let Some(spare) = &self.spare
            && self.many.capacity() > 0
        {
            spare.give_back(std::mem::take(&mut self.many));
        }
    }
}

/// Ranges of a [`Memory`], in file order. One range needs no allocation.
#[derive(Clone)]
pub struct Segments {
    memory: Arc<dyn Memory>,
    /// The only range, while `many` is empty.
    one: libc::iovec,
    /// All ranges, if there is more than one.
    many: Vec<libc::iovec>,
    /// Where its list comes from and goes back to.
    spare: Option<Arc<Ranges>>,
    bytes: usize,
    address_bits: usize,
    inner_length_bits: usize,
}

// SAFETY: the pointers point into `memory`, which is Send and Sync and owned; nothing here reads or writes
// through them but system calls, under the promise of `Memory`.
unsafe impl Send for Segments {}
// SAFETY: as for Send; `&Segments` only copies pointers out.
unsafe impl Sync for Segments {}

impl Segments {
    /// Creates an empty list of ranges.
    pub fn new(memory: Arc<dyn Memory>) -> Segments {
        let one = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        Segments {
            memory,
            one,
            many: Vec::new(),
            spare: None,
            bytes: 0,
            address_bits: 0,
            inner_length_bits: 0,
        }
    }

    /// No ranges yet; a list of them would be one of `spare`.
    pub(crate) fn set_aside(memory: Arc<dyn Memory>, spare: &Arc<Ranges>) -> Segments {
        let mut segments = Segments::new(memory);
        segments.spare = Some(spare.clone());
        segments
    }

    /// Creates a list of one range: `len` bytes of `memory` from `start`.
    ///
    /// # Panics
    /// As [`push`](Segments::push).
    pub fn of(memory: Arc<dyn Memory>, start: usize, len: usize) -> Segments {
        let mut segments = Segments::new(memory);
        segments.push(start, len);
        segments
    }

    /// Adds `len` bytes of the memory from `start`. If they directly follow the last range, that range grows.
    ///
    /// # Panics
    /// Panics if they do not all lie inside the memory.
    pub fn push(&mut self, start: usize, len: usize) {
        let range = self.memory.range();
        assert!(
            start.checked_add(len).is_some_and(|end| end <= range.len()),
            "{len} bytes from {start} are not inside the memory, which has {} bytes",
            range.len()
        );
        if len == 0 {
            return;
        }
        let base = range.cast::<u8>().as_ptr().wrapping_add(start).cast::<c_void>();
        let added = libc::iovec {
            iov_base: base,
            iov_len: len,
        };
        let first = self.bytes == 0;
        self.bytes += len;
        if first {
            self.one = added;
        } else {
            let last = self.many.last_mut().unwrap_or(&mut self.one);
            if last.iov_base.wrapping_byte_add(last.iov_len) == base {
                last.iov_len += len;
                return;
            }
            self.inner_length_bits |= last.iov_len;
            if self.many.is_empty() {
                if let Some(spare) = &self.spare {
                    self.many = spare.take();
                }
                self.many.push(self.one);
            }
            self.many.push(added);
        }
        self.address_bits |= base.addr();
    }

    /// Returns the total number of bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of ranges, after joining adjacent ones.
    pub fn ranges(&self) -> usize {
        self.iovecs().len()
    }

    /// Returns the ranges truncated to the first `bytes`.
    pub fn prefix(&self, bytes: usize) -> Segments {
        let mut prefix = Segments::new(self.memory.clone());
        let base = self.memory.range().cast::<u8>().as_ptr().addr();
        let mut left = bytes;
        for iovec in self.iovecs() {
            let len = iovec.iov_len.min(left);
            prefix.push(iovec.iov_base.addr() - base, len);
            left -= len;
        }
        prefix
    }

    /// Copies `bytes` into the memory, from byte `at` of the ranges on, for devices that do not leave this to the
    /// system. Like a system call, it allows concurrent access to the same bytes. Runs at memory speed.
    ///
    /// # Panics
    /// If they are not all inside.
    pub fn put(&self, at: usize, bytes: &[u8]) {
        self.check_inside(at, bytes.len());
        let mut left = bytes;
        for range in self.rest(at) {
            let (here, rest) = left.split_at(range.iov_len.min(left.len()));
            store(range.iov_base.cast(), here);
            left = rest;
            if left.is_empty() {
                break;
            }
        }
    }

    /// Copies bytes out of the memory, from byte `at` of the ranges on. See [`put`](Segments::put).
    ///
    /// # Panics
    /// If they are not all inside.
    pub fn take(&self, at: usize, bytes: &mut [u8]) {
        self.check_inside(at, bytes.len());
        let mut left = bytes;
        for range in self.rest(at) {
            let (here, rest) = left.split_at_mut(range.iov_len.min(left.len()));
            load(range.iov_base.cast(), here);
            left = rest;
            if left.is_empty() {
                break;
            }
        }
    }

    fn check_inside(&self, at: usize, len: usize) {
        assert!(
            at.checked_add(len).is_some_and(|end| end <= self.bytes),
            "{len} bytes from {at} are not inside the transfer, which has {} bytes",
            self.bytes
        );
    }

    /// Whether every range starts at a multiple of `address` and every one but the last has a length that is a
    /// multiple of `length`, both powers of two.
    #[inline]
    pub(crate) fn is_aligned(&self, address: usize, length: usize) -> bool {
        self.address_bits & (address - 1) == 0 && self.inner_length_bits & (length - 1) == 0
    }

    pub(crate) fn iovecs(&self) -> &[libc::iovec] {
        match (self.bytes, self.many.is_empty()) {
            (0, _) => &[],
            (_, true) => slice::from_ref(&self.one),
            (_, false) => &self.many,
        }
    }

    /// Bytes of the ranges that a call of at most `ranges_max` ranges can have after the first `skip` bytes.
    pub(crate) fn bytes_within(&self, skip: usize, ranges_max: usize) -> usize {
        if self.many.len() <= ranges_max {
            return self.bytes - skip;
        }
        self.rest(skip).take(ranges_max).map(|iovec| iovec.iov_len).sum()
    }

    /// The `len` bytes after the first `skip`, as ranges. `scratch` is used unless that is all there is.
    pub(crate) fn window<'a>(
        &'a self,
        skip: usize,
        len: usize,
        scratch: &'a mut Vec<libc::iovec>,
    ) -> &'a [libc::iovec] {
        debug_assert!(
            skip + len <= self.bytes,
            "{len} bytes after {skip} of {}",
            self.bytes
        );
        if skip == 0 && len == self.bytes {
            return self.iovecs();
        }
        let mut left = len;
        scratch.clear();
        scratch.extend(self.rest(skip).map_while(|mut iovec| {
            iovec.iov_len = iovec.iov_len.min(left);
            left -= iovec.iov_len;
            (iovec.iov_len > 0).then_some(iovec)
        }));
        scratch
    }

    fn rest(&self, mut skip: usize) -> impl Iterator<Item = libc::iovec> + '_ {
        self.iovecs().iter().filter_map(move |iovec| {
            let passed = skip.min(iovec.iov_len);
            skip -= passed;
            let iov_base = iovec.iov_base.wrapping_byte_add(passed);
            (passed < iovec.iov_len).then_some(libc::iovec {
                iov_base,
                iov_len: iovec.iov_len - passed,
            })
        })
    }
}

/// Bytes in front of the first multiple of 8 at or behind `at`, of `len`.
fn before_words(at: *mut u8, len: usize) -> usize {
    (at.addr().wrapping_neg() % 8).min(len)
}

/// Atomic, as the same bytes may be a part of another transfer that a thread does: what is there then is some of both.
fn store(to: *mut u8, bytes: &[u8]) {
    let (head, rest) = bytes.split_at(before_words(to, bytes.len()));
    let (words, tail) = rest.as_chunks::<8>();
    let byte = |n: usize, byte: u8| {
        let at = to.wrapping_add(n);
        // SAFETY: inside a range of `Segments`, so mapped and writable for as long as that has its memory (`Memory`); no
        // reference to it exists while a transfer can be under way, and transfers are atomic or the system's.
        unsafe { AtomicU8::from_ptr(at) }.store(byte, Relaxed);
    };
    head.iter().enumerate().for_each(|(n, &b)| byte(n, b));
    let aligned = to.wrapping_add(head.len()).cast::<u64>();
    for (n, word) in words.iter().enumerate() {
        let at = aligned.wrapping_add(n);
        // SAFETY: as above, and a multiple of 8.
        unsafe { AtomicU64::from_ptr(at) }.store(u64::from_ne_bytes(*word), Relaxed);
    }
    let behind = bytes.len() - tail.len();
    tail.iter().enumerate().for_each(|(n, &b)| byte(behind + n, b));
}

/// The same in the other direction.
fn load(from: *mut u8, bytes: &mut [u8]) {
    let len = bytes.len();
    let (head, rest) = bytes.split_at_mut(before_words(from, len));
    let aligned = from.wrapping_add(head.len()).cast::<u64>();
    let (words, tail) = rest.as_chunks_mut::<8>();
    let byte = |n: usize| {
        let at = from.wrapping_add(n);
        // SAFETY: as in `store`, and readable.
        unsafe { AtomicU8::from_ptr(at) }.load(Relaxed)
    };
    head.iter_mut().enumerate().for_each(|(n, b)| *b = byte(n));
    for (n, word) in words.iter_mut().enumerate() {
        let at = aligned.wrapping_add(n);
        // SAFETY: as in `store`, readable, and a multiple of 8.
        *word = unsafe { AtomicU64::from_ptr(at) }.load(Relaxed).to_ne_bytes();
    }
    let behind = len - tail.len();
    tail.iter_mut()
        .enumerate()
        .for_each(|(n, b)| *b = byte(behind + n));
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {} ranges", self.bytes, self.ranges())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::buffer::Buffer;

    const PAGE: usize = 4096;

    fn pages(buffer: &Arc<Buffer>, starts: &[usize]) -> Segments {
        let mut segments = Segments::new(buffer.clone());
        starts.iter().for_each(|start| segments.push(start * PAGE, PAGE));
        segments
    }

    fn lengths(iovecs: &[libc::iovec]) -> Vec<usize> {
        iovecs.iter().map(|iovec| iovec.iov_len).collect()
    }

    #[test]
    fn neighbours_in_memory_become_one_range() {
        let buffer = Buffer::new(16 * PAGE);
        let segments = pages(&buffer, &[3, 4, 5, 9, 2, 3]);
        assert_eq!(lengths(segments.iovecs()), [3 * PAGE, PAGE, 2 * PAGE]);
        assert_eq!(segments.bytes(), 6 * PAGE);
        assert_eq!(pages(&buffer, &[]).ranges(), 0);
    }

    #[test]
    fn window_cuts_both_ends() {
        let buffer = Buffer::new(16 * PAGE);
        let segments = pages(&buffer, &[0, 2, 4]);
        let mut scratch = Vec::new();
        assert_eq!(
            lengths(segments.window(100, 2 * PAGE, &mut scratch)),
            [PAGE - 100, PAGE, 100]
        );
        assert_eq!(lengths(segments.window(PAGE, PAGE, &mut scratch)), [PAGE]);
        assert_eq!(lengths(segments.window(0, 3 * PAGE, &mut scratch)), [PAGE; 3]);
        assert_eq!(segments.bytes_within(100, 2), 2 * PAGE - 100);
        assert_eq!(segments.bytes_within(100, 3), 3 * PAGE - 100);
        assert_eq!(lengths(segments.prefix(PAGE + 1).iovecs()), [PAGE, 1]);
    }

    #[test]
    fn bytes_are_put_across_ranges_and_odd_ends_and_taken_again() {
        let mut buffer = Buffer::new(16 * PAGE);
        let mut segments = pages(&buffer, &[3, 9]);
        segments.push(12 * PAGE + 3, 21);
        let bytes: Vec<u8> = (0..segments.bytes() - 8).map(|n| n as u8 % 251).collect();
        segments.put(5, &bytes);
        let mut found = vec![0xff; segments.bytes()];
        segments.take(0, &mut found);
        assert!(found[5..][..bytes.len()] == bytes);
        assert_eq!(
            (&found[..5], &found[5 + bytes.len()..]),
            (&[0; 5][..], &[0; 3][..])
        );
        drop(segments);
        let all = Buffer::bytes(&mut buffer).unwrap();
        assert!(all[9 * PAGE..10 * PAGE] == bytes[PAGE - 5..2 * PAGE - 5]);
        assert_eq!(
            all.iter().filter(|&&b| b != 0).count(),
            bytes.iter().filter(|&&b| b != 0).count()
        );
    }

    #[test]
    #[should_panic(expected = "2 bytes from 4095 are not inside the transfer, which has 4096 bytes")]
    fn bytes_past_a_transfer_are_not_reached() {
        pages(&Buffer::new(16 * PAGE), &[2]).put(PAGE - 1, &[1; 2]);
    }

    #[test]
    fn only_the_last_length_may_be_odd() {
        let buffer = Buffer::new(16 * PAGE);
        let mut segments = pages(&buffer, &[0, 2]);
        segments.push(4 * PAGE, 100);
        assert!(segments.is_aligned(512, 512));
        segments.push(8 * PAGE, PAGE);
        assert!(!segments.is_aligned(512, 512));
        assert!(!Segments::of(buffer.clone(), 8, PAGE).is_aligned(512, 512));
        assert!(Segments::of(buffer, 8, PAGE).is_aligned(4, 512));
    }

    #[test]
    #[should_panic(expected = "4096 bytes from 61441 are not inside the memory, which has 65536 bytes")]
    fn range_outside_the_memory_is_refused() {
        pages(&Buffer::new(16 * PAGE), &[]).push(15 * PAGE + 1, PAGE);
    }
}
