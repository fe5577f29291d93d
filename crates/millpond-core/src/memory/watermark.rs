//! Watermarks: when background reclaim wakes, when it sleeps, and when an allocator must help.
//!
//! ```text
//!   free frames
//!   ──────────── high   background reclaim sleeps
//!   ──────────── low    background reclaim wakes
//!   ──────────── min    an allocation reclaims for itself ("direct")
//!   ──────────── reserve: for I/O only (see `reserve`)
//! ```
//!
//! Linux derives `min` from the square root of memory, and the gaps from `min` (up to 4.5) or from a share of memory
//! (`watermark_scale_factor`, since 4.6). Both are pure functions of memory here.

use crate::formula::Formula;
use crate::units::{Bytes, PageCount, PageSize, Ratio, isqrt};
use alloc::format;

/// The three watermarks, in frames. `min < low < high` always holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// Below this, an allocation reclaims for itself.
    pub min: PageCount,
    /// Below this, background reclaim wakes.
    pub low: PageCount,
    /// Background reclaim works until this much is free.
    pub high: PageCount,
}

/// How the gaps between the watermarks are derived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatermarkRule {
    /// Linux 2.6 to 4.5: `low = min + min/4`, `high = min + min/2`.
    Linux3,
    /// Linux 4.6 and later: both gaps are the larger of `min/4` and this share of memory
    /// (`watermark_scale_factor`, default 10 of 10,000).
    Linux46 {
        /// The share of memory.
        scale: Ratio,
    },
    /// Millpond: as in Linux 4.6, but `min` is also the share of memory instead of depending on a machine's page tables
    /// and network cards. Each wake-up of the reclaimer then frees enough to be worth it.
    Millpond {
        /// The share of memory for `min` and for each gap.
        scale: Ratio,
    },
}

/// `min_free_kbytes` before it is clamped to the whole: the square root of 16 times memory in KiB, between 128 KiB and
/// `cap` (64 MiB up to Linux 5.x).
fn min_free_kib(memory_kib: u64, cap_kib: u64) -> u64 {
    isqrt(memory_kib * 16).clamp(128, cap_kib)
}

/// `min_free_kbytes` of a pool of `frames` frames.
fn linux_min_free_kib(frames: PageCount, page_size: PageSize) -> u64 {
    min_free_kib(frames.to_bytes(page_size).0 >> 10, 65_536)
}

impl Watermarks {
    /// The watermarks of a pool of `frames` frames.
    pub fn of(rule: WatermarkRule, frames: PageCount, page_size: PageSize) -> Watermarks {
        let [min, low, high] = formulas(rule, frames, page_size).map(|formula| formula.pages());
        Watermarks { min, low, high }
    }
}

/// The formulas of `min`, `low` and `high`.
pub(crate) fn formulas(rule: WatermarkRule, frames: PageCount, page_size: PageSize) -> [Formula; 3] {
    let (all, kib) = (frames.0, frames.to_bytes(page_size).0 >> 10);
    let linux_kib = linux_min_free_kib(frames, page_size);
    let linux = Bytes::from_kib(linux_kib).to_pages(page_size).0;
    let linux_min = || {
        let root = format!("the root of 16 * {kib} KiB is {linux_kib} KiB; 128 to 65536");
        Formula::new(linux, format!("{linux} pages ({root})"))
    };
    let (min, gap_low, gap_high) = match rule {
        WatermarkRule::Linux3 => {
            let (quarter, half) = (linux / 4, linux / 2);
            (
                linux_min(),
                Formula::new(quarter, format!("1/4 of {linux}")),
                Formula::new(half - quarter, format!("1/2 - 1/4 of {linux}")),
            )
        }
        WatermarkRule::Linux46 { scale } => {
            let share = Formula::share(scale, all, "frames");
            let text = format!("the larger of 1/4 of {linux} and {}", share.text());
            let gap = Formula::new((linux / 4).max(share.value()), text);
            (linux_min(), gap.clone(), gap)
        }
        WatermarkRule::Millpond { scale } => {
            let gap = Formula::share(scale, all, "frames");
            (gap.clone(), gap.clone(), gap)
        }
    };
    // A tiny pool must still have frames to hand out: never more than an eighth of it below `min`.
    let min = min.within((1, ""), (all / 8, format!("1/8 of {all} frames")));
    let sixteenth = || ((all / 16).max(1), format!("1/16 of {all} frames"));
    let low = gap_low.above("watermarks.min", (1, ""), sixteenth(), &min);
    let high = gap_high.above("watermarks.low", (1, ""), sixteenth(), &low);
    [min, low, high].map(|formula| formula.from(&[("frames", all)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed from Linux's formulas for one zone of 4 KiB pages: MiB, min, low and high of 3.x, of 4.6.
    #[test]
    fn watermarks_are_those_of_linux() {
        for (mib, min, low3, high3, low46, high46) in [
            (256, 512, 640, 768, 640, 768),
            (512, 724, 905, 1086, 905, 1086),
            (1024, 1024, 1280, 1536, 1286, 1548),
            (4096, 2048, 2560, 3072, 3096, 4144),
            (16384, 4096, 5120, 6144, 8290, 12484),
        ] {
            let frames = Bytes::from_mib(mib).to_pages(PageSize::KIB_4);
            let of = |rule| {
                let w = Watermarks::of(rule, frames, PageSize::KIB_4);
                (w.min.0, w.low.0, w.high.0)
            };
            assert_eq!(of(WatermarkRule::Linux3), (min, low3, high3), "3.x at {mib} MiB");
            let scale = Ratio { num: 10, den: 10_000 };
            assert_eq!(
                of(WatermarkRule::Linux46 { scale }),
                (min, low46, high46),
                "4.6 at {mib} MiB"
            );
        }
    }

    #[test]
    fn watermarks_keep_their_order_in_any_pool() {
        for frames in (1..200).chain([1 << 12, 1 << 20, 1 << 28]) {
            for rule in [
                WatermarkRule::Linux3,
                WatermarkRule::Millpond {
                    scale: Ratio::per_mille(10),
                },
            ] {
                let w = Watermarks::of(rule, PageCount(frames), PageSize::KIB_4);
                assert!(w.min < w.low && w.low < w.high, "{frames} frames: {w:?}");
            }
        }
    }
}
