//! One budget for frames, metadata and what input and output need.

use crate::error::{Error, Result};
use millpond_core::manager::{FRAMES_MAX, FRAMES_MIN};
use millpond_core::units::{Bytes, PageCount, PageSize};

/// Metadata of the engine and of the core for one frame: at most so much.
///
/// The table 26 bytes (16 of word and key, 4 of chain, up to 6 of heads, guesses and rounding), replacement 28 (8 links,
/// 4 state, 16 shadow), phase 3, free frames a bit, dirty index 26 for a run of 64 pages of which at least one is dirty:
/// that is 26 bytes for a lone dirty page, of which the limit allows one frame in five by default.
pub(crate) const FRAME_METADATA_BYTES: u64 = 63;

/// What the device's queues, requests and their memory vectors take, and the tables of transfers and files.
pub(crate) const IO_BYTES: Bytes = Bytes::from_kib(512);

/// How many frames fit into `memory`.
///
/// # Errors
/// [`Error::BudgetTooSmall`], [`Error::Option`] if it is larger than a pool can be.
pub(crate) fn frames(memory: Bytes, page_size: PageSize) -> Result<PageCount> {
    let frame = page_size.bytes() + FRAME_METADATA_BYTES;
    let frames = PageCount(memory.0.saturating_sub(IO_BYTES.0) / frame);
    if frames < FRAMES_MIN {
        let min = IO_BYTES.0 + FRAMES_MIN.0 * frame;
        return Err(Error::BudgetTooSmall {
            given: memory.0,
            min,
            page_size: page_size.bytes(),
        });
    }
    Ok(frames.min(FRAMES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_metadata_fit_into_the_budget() {
        for mib in [1, 64, 512, 4096] {
            let memory = Bytes::from_mib(mib);
            let frames = frames(memory, PageSize::KIB_4).unwrap().0;
            assert!(frames * (4096 + FRAME_METADATA_BYTES) + IO_BYTES.0 <= memory.0);
            assert!((frames + 1) * (4096 + FRAME_METADATA_BYTES) + IO_BYTES.0 > memory.0);
        }
    }

    #[test]
    fn a_budget_that_is_too_small_says_how_much_is_needed() {
        let error = frames(Bytes(100_000), PageSize::KIB_4).unwrap_err().to_string();
        assert_eq!(
            error,
            "a budget of 100000 bytes is too small: at least 790464 bytes are needed with pages of 4096 bytes"
        );
        assert!(frames(Bytes(790_464), PageSize::KIB_4).is_ok());
    }
}
