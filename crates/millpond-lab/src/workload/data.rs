//! Recognisable data: each 4 KiB page names its file and its index.
//!
//! A page is a piece of one random block of 1 MiB (which no device compresses away) with a stamp of 16 bytes
//! at its head: the file's number and the page's. So a reader can check each page it gets for the price of
//! two comparisons, and what was written can be checked in full afterwards.

/// Everything is read, written and checked in pages of 4 KiB, the unit of the posts' readers.
pub const PAGE: usize = 4096;
/// The random block that pages are cut from.
const BLOCK: usize = 1 << 20;
/// The largest single write.
pub const WRITE_MAX: usize = 1 << 20;

/// A buffer that starts on a page boundary, as reading with `O_DIRECT` demands.
pub struct AlignedBuf {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    /// `len` zero bytes.
    pub fn new(len: usize) -> AlignedBuf {
        let bytes = vec![0; len + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE);
        assert!(
            start < PAGE,
            "the allocation at {:p} cannot be aligned",
            bytes.as_ptr()
        );
        AlignedBuf { bytes, start, len }
    }
}

impl std::ops::Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }
}

impl std::ops::DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

/// The content of all files of one run. 2 MiB.
pub struct Content {
    /// The random block twice, so that any stretch of up to [`WRITE_MAX`] bytes is one slice.
    twice: AlignedBuf,
}

impl Content {
    /// The content that `seed` stands for.
    pub fn new(seed: u64) -> Content {
        let mut twice = AlignedBuf::new(BLOCK + WRITE_MAX);
        let (block, copy) = twice.split_at_mut(BLOCK);
        fastrand::Rng::with_seed(seed).fill(block);
        copy.copy_from_slice(&block[..WRITE_MAX]);
        Content { twice }
    }

    /// The bytes of `file` from `offset` on. Both in whole pages, `len` at most [`WRITE_MAX`].
    ///
    /// # Panics
    /// If not.
    pub fn slice(&mut self, file: u64, offset: u64, len: usize) -> &[u8] {
        assert!(
            offset.is_multiple_of(PAGE as u64) && len.is_multiple_of(PAGE) && len <= WRITE_MAX,
            "{len} bytes at {offset} are not whole pages up to {WRITE_MAX}"
        );
        let bytes = &mut self.twice[(offset % BLOCK as u64) as usize..][..len];
        for (n, page) in bytes.chunks_exact_mut(PAGE).enumerate() {
            page[..16].copy_from_slice(&stamp_of(file, offset / PAGE as u64 + n as u64));
        }
        bytes
    }

    /// Whether `page` is page `index` of `file` to the last byte.
    pub fn is_page(&mut self, file: u64, index: u64, page: &[u8]) -> bool {
        self.slice(file, index * PAGE as u64, PAGE) == page
    }
}

/// Whether `page` claims to be page `index` of `file`.
#[inline]
pub fn is_stamped(file: u64, index: u64, page: &[u8]) -> bool {
    page.len() >= 16 && page[..16] == stamp_of(file, index)
}

#[inline]
fn stamp_of(file: u64, index: u64) -> [u8; 16] {
    // both as little-endian words; files count from 1, so that no stamp is all zeros
    ((u128::from(index) << 64) | u128::from(file + 1)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_same_however_it_is_cut() {
        let mut content = Content::new(7);
        let long = content.slice(3, 960 << 10, 128 << 10).to_vec();
        for n in 0..32 {
            let index = (960 << 10) / PAGE as u64 + n;
            let page = &long[n as usize * PAGE..][..PAGE];
            assert!(content.is_page(3, index, page), "page {index}");
            assert!(is_stamped(3, index, page));
        }
    }

    #[test]
    fn a_page_of_another_place_file_or_seed_is_not_taken_for_it() {
        let mut content = Content::new(7);
        let page = content.slice(3, 0, PAGE).to_vec();
        assert!(!is_stamped(3, 256, &page));
        assert!(!is_stamped(4, 0, &page));
        assert!(!is_stamped(0, 0, &[0; PAGE]));
        assert!(!Content::new(8).is_page(3, 0, &page));
        let mut torn = page;
        torn[4095] ^= 1;
        assert!(!content.is_page(3, 0, &torn));
    }

    #[test]
    fn buffers_start_on_a_page() {
        for len in [PAGE, 3 * PAGE, 1 << 20] {
            let buf = AlignedBuf::new(len);
            assert_eq!(buf.as_ptr() as usize % PAGE, 0);
            assert_eq!(buf.len(), len);
        }
    }
}
