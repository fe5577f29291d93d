//! Traces of others in files, which zstd may have packed. What is in them is read by [`millpond_sim::traces`].

mod zstd;

use crate::error::{LabError, Result};
use millpond::host;
use millpond::internal::quantity::size;
use millpond_core::units::Bytes;
use millpond_sim::traces::{BEGIN, Options, Requests, format_of, parse};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Longer files are not read, packed or not: they hold more requests than can be replayed.
const BYTES_MAX: u64 = 16 << 30;
/// The memory for each byte of a trace, at most: its request, and a use of a page.
const BYTES_FOR_BYTE: u64 = 8;

/// Reads a trace.
///
/// # Errors
/// [`LabError::Io`] if the file can't be read; [`LabError::BadValue`] if it is no trace, with the line or record that is wrong,
/// or too long for the memory that is free.
pub fn read(path: &Path, options: &Options) -> Result<Requests> {
    let failed = |e| LabError::path("cannot read", path, e);
    let bad = |why| LabError::BadValue {
        option: "the trace",
        value: path.display().to_string(),
        allowed: why,
        instead: "docs/TRACES.md describes the formats and --format".into(),
    };
    let mut file = File::open(path).map_err(failed)?;
    // First what it is: there are files without an end.
    let mut bytes = Vec::new();
    let mut begin = (&mut file).take(BEGIN as u64);
    begin.read_to_end(&mut bytes).map_err(failed)?;
    if !zstd::is_packed(&bytes) {
        format_of(path, &bytes, options).map_err(bad)?;
    }
    let most = host::memory_free().map_or(BYTES_MAX, |free| BYTES_MAX.min(free / BYTES_FOR_BYTE));
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    unpacked(bytes, most)
        .and_then(|bytes| parse(path, &bytes, options))
        .map_err(bad)
}

/// The bytes of a file, unpacked if they are packed; `most` at most.
fn unpacked(bytes: Vec<u8>, most: u64) -> Result<Vec<u8>, String> {
    let bytes = match zstd::is_packed(&bytes) {
        true => zstd::unpack(&bytes, most)?,
        false => bytes,
    };
    if bytes.len() as u64 > most {
        return Err(format!(
            "it is longer than {}, the most that memory here holds",
            size(Bytes(most))
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_testing::mutants::check;
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    #[test]
    fn packed_files_are_unpacked_and_not_beyond_what_there_is_memory_for() {
        // Once as a frame, and once as two frames after a skippable one.
        let raw: Vec<u8> = [7_u32, 3, 7].iter().flat_map(|page| page.to_le_bytes()).collect();
        let frame = raw_frame(&raw);
        assert_eq!(unpacked(frame.clone(), MOST), Ok(raw.clone()));
        let skippable = [
            &[0x5e, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9],
            &frame[..],
            &frame[..],
        ]
        .concat();
        assert_eq!(unpacked(skippable, MOST), Ok([&raw[..], &raw[..]].concat()));
        let torn = unpacked(frame[..frame.len() - 3].to_vec(), MOST).unwrap_err();
        assert!(
            torn.starts_with("it is compressed with zstd, and can't be decompressed: "),
            "{torn}"
        );
        let error = unpacked(frame, 11).unwrap_err();
        assert_eq!(
            error,
            "decompressed it is longer than 11 B, the most that memory here holds"
        );
    }

    /// A frame of zstd whose only block is not compressed: magic, one segment with a length of one byte, the block's head.
    fn raw_frame(content: &[u8]) -> Vec<u8> {
        let head = ((content.len() as u32) << 3 | 1).to_le_bytes();
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, content.len() as u8];
        frame.extend(&head[..3]);
        frame.extend(content);
        frame
    }

    const MOST: u64 = 1 << 20;

    /// Mutants of frames: raw, compressed, with what is skipped, and one after the other.
    #[test]
    fn mutants_of_packed_files_are_unpacked_or_refused_within_their_bound() {
        let pages: Vec<u8> = (0..4000_u32).flat_map(|n| (n * n % 61).to_le_bytes()).collect();
        let compressed = compress_to_vec(&pages[..], CompressionLevel::Fastest);
        let raw = raw_frame(b"7\n3\n7\n");
        let skipped = [0x5e, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9];
        // A window of 2^41 bytes, as its head says: exponent 31.
        let large_window = [0x28, 0xb5, 0x2f, 0xfd, 0, 31 << 3, 1, 0, 0];
        let samples = [
            compressed.clone(),
            raw.clone(),
            [&skipped[..], &raw[..], &compressed[..]].concat(),
            large_window.to_vec(),
        ];
        assert_eq!(unpacked(compressed, MOST), Ok(pages));
        check(
            "traces::tests::mutants_of_packed_files_are_unpacked_or_refused_within_their_bound",
            &samples,
            &[],
            |bytes| match unpacked(bytes.to_vec(), MOST) {
                Ok(unpacked) => assert!(unpacked.len() as u64 <= MOST, "{} bytes", unpacked.len()),
                Err(why) => assert!(why.len() > 10, "the error is {why:?}"),
            },
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_unpacked_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0_usize..300) {
            let mut packed = raw_frame(&bytes[..bytes.len().min(255)]);
            packed.truncate(cut.max(4));
            for bytes in [bytes, packed] {
                let _ = unpacked(bytes, MOST);
            }
        }
    }
}
