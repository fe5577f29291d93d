//! Files that zstd has packed.

use millpond::internal::quantity::size;
use millpond_core::units::Bytes;
use ruzstd::decoding::StreamingDecoder;
use std::io::Read;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Frames that hold nothing to unpack have this, with any last four bits, and then their length.
const SKIPPABLE: u32 = 0x184d_2a50;

/// Whether a file is compressed.
pub(super) fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) || skippable(bytes).is_some()
}

/// The length of the skippable frame that bytes begin with.
fn skippable(bytes: &[u8]) -> Option<usize> {
    let (head, _) = bytes.split_first_chunk::<8>()?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    (word(0) & !0xf == SKIPPABLE).then(|| 8 + word(4) as usize)
}

/// The content of the frames, one after the other; at most `most` bytes.
pub(super) fn unpack(mut packed: &[u8], most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while !packed.is_empty() {
        if let Some(len) = skippable(packed) {
            packed = packed
                .get(len..)
                .ok_or("it is compressed with zstd, and cut off")?;
            continue;
        }
        let torn = |why: &dyn std::fmt::Display| {
            format!("it is compressed with zstd, and can't be decompressed: {why}")
        };
        let mut decoder = StreamingDecoder::new(packed).map_err(|e| torn(&e))?;
        let left = most.saturating_sub(bytes.len() as u64) + 1;
        (&mut decoder)
            .take(left)
            .read_to_end(&mut bytes)
            .map_err(|e| torn(&e))?;
        if bytes.len() as u64 > most {
            return Err(format!(
                "decompressed it is longer than {}, the most that memory here holds",
                size(Bytes(most))
            ));
        }
        packed = decoder.into_inner();
    }
    Ok(bytes)
}
