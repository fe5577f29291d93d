//! What a page holds: one word, all over, that tells which page it is.

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Words of eight bytes in a page.
pub const PAGE_WORDS: usize = PAGE_BYTES / 8;

/// What every word of page `page` is.
#[inline]
pub fn word(page: u64) -> u64 {
    // An odd factor: different for different pages. 2^64 over the golden ratio, as in Fibonacci hashing.
    (page + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Fills `bytes`, a number of whole pages, with what pages from `first` on hold.
pub fn fill(bytes: &mut [u8], first: u64) {
    for (page, bytes) in (first..).zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
        let word = word(page).to_le_bytes();
        bytes
            .chunks_exact_mut(8)
            .for_each(|place| place.copy_from_slice(&word));
    }
}

/// Word number `word` of a page.
#[inline]
pub fn read(page: &[u8], word: usize) -> u64 {
    let at = word * 8;
    page.get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}
