//! Values derived from options and memory: water marks, the reserve, limits on dirty pages.
//!
//! A pure function, recomputed whenever an input changes: setting A, then B, then A gives exactly A.

use crate::dirty::limits::{DirtyableMemory, Thresholds, limits};
use crate::formula::Formula;
use crate::memory::watermark::Watermarks;
use crate::options::{OptionError, Options};
use crate::units::PageCount;
use alloc::format;

/// The smallest pool: a scan batch, a write and a fault fit together.
pub const FRAMES_MIN: PageCount = PageCount(64);
/// The largest pool.
pub const FRAMES_MAX: PageCount = PageCount(1 << 31);

/// The values derived from the options and from current memory, and from nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Derived {
    /// Frames of the pool.
    pub frames: PageCount,
    /// When reclaim wakes and sleeps.
    pub watermarks: Watermarks,
    /// Frames that only I/O may take.
    pub reserve: PageCount,
    /// Limits on dirty pages.
    pub dirty: Thresholds,
}

impl Derived {
    /// Derives the values for a pool of `frames` frames.
    pub fn of(options: &Options, frames: PageCount) -> Derived {
        let watermarks = Watermarks::of(options.watermarks, frames, options.page_size);
        let reserve = reserve(options, frames, watermarks.min).pages();
        let memory = DirtyableMemory {
            frames,
            reserve,
            page_size: options.page_size,
        };
        Derived {
            frames,
            watermarks,
            reserve,
            dirty: limits(&memory, &options.dirty),
        }
    }
}

/// The formula of the reserve.
pub(super) fn reserve(options: &Options, frames: PageCount, min: PageCount) -> Formula {
    Formula::share(options.reserve, frames.0, "frames")
        .within((1, ""), (min.0, "watermarks.min"))
        .from(&[("frames", frames.0), ("watermarks.min", min.0)])
}

/// Checks that a pool can have this many frames.
///
/// # Errors
/// [`OptionError`] with the range.
pub fn check_frames(frames: PageCount) -> Result<(), OptionError> {
    if frames < FRAMES_MIN || frames > FRAMES_MAX {
        return Err(OptionError {
            option: "memory",
            value: format!("{} frames", frames.0),
            allowed: format!("{} to {} frames", FRAMES_MIN.0, FRAMES_MAX.0),
        });
    }
    Ok(())
}
