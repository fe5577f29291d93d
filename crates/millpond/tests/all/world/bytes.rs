//! Content, drawn and compared.

use super::Draw;

pub(super) fn content(len: usize, seed: u8) -> Vec<u8> {
    let mut draw = Draw(u64::from(seed) << 32 | len as u64);
    let mut bytes = vec![0; len];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&draw.bits().to_le_bytes()[..part.len()]);
    }
    bytes
}

pub(super) fn same(expected: &[u8], seen: &[u8], what: &str) {
    if expected == seen {
        return;
    }
    let at = expected.iter().zip(seen).position(|(a, b)| a != b);
    let (left, right) = (expected.len(), seen.len());
    match at {
        Some(at) => panic!(
            "{what}: byte {at} (page {} of 4 KiB) of {left} is {} and should be {}",
            at / 4096,
            seen[at],
            expected[at]
        ),
        None => panic!("{what}: {right} bytes instead of {left}"),
    }
}
