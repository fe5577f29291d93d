//! Numbers that cannot be confused.
//!
//! An index, a count and a size are different types, and so are a point in time and a span. All conversions between
//! them are in this file.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// The number of a page frame in a cache's arena, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNo(pub u32);

impl FrameNo {
    /// The frame's place in an array of frames.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for FrameNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "f{}", self.0)
    }
}

/// A device that files of a cache are on, or its swap. The driver chooses it, from 0 on without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeviceNo(pub u32);

impl fmt::Debug for DeviceNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device{}", self.0)
    }
}

impl DeviceNo {
    /// As an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A file known to a cache. The driver chooses it; below [`PageKey::FILES_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file{}", self.0)
    }
}

/// The number of a page in its file, from 0: byte offset divided by the page size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PageIndex(pub u64);

impl fmt::Debug for PageIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

impl PageIndex {
    /// The page `count` pages further on.
    #[inline]
    pub fn after(self, count: u64) -> PageIndex {
        PageIndex(self.0 + count)
    }
}

/// A page of a file, packed so that it fits one atomic word: 24 bits of file, 40 bits of page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey(u64);

impl PageKey {
    /// How many files a cache can know at a time: 2^24, less one, which means "no page".
    pub const FILES_MAX: u32 = (1 << 24) - 1;
    /// How many pages a file can have: 2^40 (4 PiB of 4 KiB pages).
    pub const PAGES_MAX: u64 = 1 << 40;
    /// No page at all.
    pub const NONE: PageKey = PageKey(u64::MAX);

    /// The key of page `index` of `file`.
    ///
    /// # Panics
    /// If either is out of range: the code that opens files and takes offsets checks that first.
    #[inline]
    pub fn new(file: FileId, index: PageIndex) -> PageKey {
        assert!(
            file.0 < Self::FILES_MAX,
            "file {} is not below {}",
            file.0,
            Self::FILES_MAX
        );
        assert!(
            index.0 < Self::PAGES_MAX,
            "page {} is not below {}",
            index.0,
            Self::PAGES_MAX
        );
        PageKey(u64::from(file.0) << 40 | index.0)
    }

    /// The file.
    #[inline]
    pub fn file(self) -> FileId {
        FileId((self.0 >> 40) as u32)
    }

    /// The page's number in the file.
    #[inline]
    pub fn index(self) -> PageIndex {
        PageIndex(self.0 & (Self::PAGES_MAX - 1))
    }

    /// The packed form, for an atomic word.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The key whose packed form `bits` is.
    #[inline]
    pub fn from_bits(bits: u64) -> PageKey {
        PageKey(bits)
    }
}

impl fmt::Debug for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == PageKey::NONE {
            f.write_str("-")
        } else {
            write!(f, "{:?}:{:?}", self.file(), self.index())
        }
    }
}

/// A point in time: nanoseconds since the driver's epoch. The core never reads a clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The end of time: "never".
    pub const NEVER: Instant = Instant(u64::MAX);

    /// The span since `earlier`, or zero if `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, span: Nanos) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}.{:06}ms", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// A span of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time.
    pub const ZERO: Nanos = Nanos(0);

    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Nanos {
        Nanos(n * 1_000)
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Nanos {
        Nanos(n * 1_000_000)
    }

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    #[inline]
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}us", self.0 / 1_000, self.0 % 1_000)
    }
}

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` KiB.
    pub const fn from_kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }

    /// `n` MiB.
    pub const fn from_mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }

    /// How many whole pages fit.
    #[inline]
    pub fn to_pages(self, page_size: PageSize) -> PageCount {
        PageCount(self.0 >> page_size.shift())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

/// As people write sizes: exact where that takes no more than four digits, else three of them, to the nearest.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let n = self.0;
        let is_exact = |shift: u32| n >= 1 << shift && n.is_multiple_of(1 << shift) && n >> shift < 10_000;
        if let Some((unit, shift)) = UNITS.into_iter().find(|&(_, shift)| is_exact(shift)) {
            return write!(f, "{} {unit}", n >> shift);
        }
        let large = UNITS.into_iter().find(|&(_, shift)| n >= 1 << shift);
        let Some((unit, shift)) = large.filter(|_| n > 99_999) else {
            return write!(f, "{n} B");
        };
        let in_parts = |parts: u128| (u128::from(n) * parts + (1 << (shift - 1))) >> shift;
        match (in_parts(100), in_parts(10)) {
            (n @ ..1000, _) => write!(f, "{}.{:02} {unit}", n / 100, n % 100),
            (_, n @ ..1000) => write!(f, "{}.{} {unit}", n / 10, n % 10),
            _ => write!(f, "{} {unit}", in_parts(1)),
        }
    }
}

/// A number of pages (or of frames, which are the same size).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PageCount(pub u64);

impl PageCount {
    /// The size of this many pages.
    #[inline]
    pub fn to_bytes(self, page_size: PageSize) -> Bytes {
        Bytes(self.0 << page_size.shift())
    }

    /// `self - other`, or zero.
    #[inline]
    pub fn saturating_sub(self, other: PageCount) -> PageCount {
        PageCount(self.0.saturating_sub(other.0))
    }
}

impl fmt::Debug for PageCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages", self.0)
    }
}

macro_rules! count_arithmetic {
    ($($t:ident)*) => {$(
        impl AddAssign for $t {
            #[inline]
            fn add_assign(&mut self, other: $t) { self.0 += other.0 }
        }
        impl SubAssign for $t {
            #[inline]
            fn sub_assign(&mut self, other: $t) { self.0 -= other.0 }
        }
        impl Sub for $t {
            type Output = $t;
            #[inline]
            fn sub(self, other: $t) -> $t { $t(self.0 - other.0) }
        }
    )*};
}
count_arithmetic!(Bytes PageCount);

impl Add for Bytes {
    type Output = Bytes;
    #[inline]
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl Add for PageCount {
    type Output = PageCount;
    #[inline]
    fn add(self, other: PageCount) -> PageCount {
        PageCount(self.0 + other.0)
    }
}

/// The size of a page: a power of two from 4 KiB to 64 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageSize(u8);

impl PageSize {
    /// 4 KiB, the smallest and the default.
    pub const KIB_4: PageSize = PageSize(12);
    /// 64 KiB, the largest.
    pub const KIB_64: PageSize = PageSize(16);

    /// The page size of `bytes` bytes, or `None` unless it is a power of two from 4 KiB to 64 KiB.
    pub fn from_bytes(bytes: u64) -> Option<PageSize> {
        let shift = bytes.trailing_zeros() as u8;
        (bytes.is_power_of_two() && (12..=16).contains(&shift)).then_some(PageSize(shift))
    }

    /// The size in bytes.
    #[inline]
    pub fn bytes(self) -> u64 {
        1 << self.0
    }

    /// The base-2 logarithm of the size.
    #[inline]
    pub fn shift(self) -> u32 {
        u32::from(self.0)
    }
}

/// A share without floating point: `num / den`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ratio {
    /// Numerator.
    pub num: u32,
    /// Denominator, not zero.
    pub den: u32,
}

impl Ratio {
    /// `n` percent.
    pub const fn percent(n: u32) -> Ratio {
        Ratio { num: n, den: 100 }
    }

    /// `n` per thousand.
    pub const fn per_mille(n: u32) -> Ratio {
        Ratio { num: n, den: 1000 }
    }

    /// This share of `whole`, rounded down.
    #[inline]
    pub fn of(self, whole: u64) -> u64 {
        (u128::from(whole) * u128::from(self.num) / u128::from(self.den)) as u64
    }
}

/// Integer square root, rounded down.
///
/// ```
/// assert_eq!(millpond_core::units::isqrt(110), 10);
/// ```
pub fn isqrt(n: u64) -> u64 {
    n.isqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_key_keeps_file_and_index() {
        let key = PageKey::new(FileId(0xabcde), PageIndex(0x12_3456_789a));
        assert_eq!(key.file(), FileId(0xabcde));
        assert_eq!(key.index(), PageIndex(0x12_3456_789a));
        assert_eq!(PageKey::from_bits(key.to_bits()), key);
    }

    #[test]
    fn sizes_are_written_as_people_write_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (4095, "4095 B"),
            (4 << 10, "4 KiB"),
            (1000 << 20, "1000 MiB"),
            (24_684_096 << 10, "23.5 GiB"),
            (10_485_759, "10.0 MiB"),
            (1 << 50, "1024 TiB"),
        ] {
            assert_eq!(alloc::format!("{}", Bytes(bytes)), text);
        }
    }

    #[test]
    fn page_size_takes_powers_of_two_from_4_to_64_kib() {
        let good: alloc::vec::Vec<_> = (0..20)
            .filter_map(|n| PageSize::from_bytes(1 << n))
            .map(|s| s.bytes())
            .collect();
        assert_eq!(good, [4096, 8192, 16384, 32768, 65536]);
        assert_eq!(PageSize::from_bytes(0), None);
        assert_eq!(PageSize::from_bytes(5000), None);
    }

    #[test]
    fn ratio_does_not_overflow() {
        assert_eq!(Ratio::percent(20).of(u64::MAX), u64::MAX / 5);
    }
}
