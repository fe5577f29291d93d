//! Samples accessed bits of neighboring pages of a region in a batch.
//!
//! ```text
//!   active, cold end ─► 5 │ 92 │ 6 │ 40 │ … 7 …          5 is to be looked at
//!                       └────────┴─────────┴─► 5 6 7     so are its neighbors, wherever they are: they go on in a row
//! ```
//!
//! To see whether a page of a region is used, it is unmapped, and its next use maps it again. Consecutive pages are
//! unmapped with one system call. Each call interrupts all processors running the process, which costs more than the
//! unmapping. Any other page between two of them on the list, or one of them with a higher usage count, splits their
//! row for good. So when the scan reaches an active page whose accesses are not tracked, it also examines up to 64
//! adjacent neighbors in the same state, and puts them together on the list. (MGLRU's look-around reads the accessed
//! bits of neighbors; here they are also moved.)
//!
//! Each counts as a scanned page, so the scan does not come round sooner.

use super::Millpond;
use crate::frame::FrameTable;
use crate::lru::lists::List;
use crate::lru::rule::LruVec;
use crate::units::{FrameNo, PageIndex, PageKey};

/// The most pages of a batch, from a multiple of it on: what is moved with one system call.
const BLOCK: u64 = 64;

impl Millpond {
    /// Looks at an active page of a region whose accesses are not tracked, and at its neighbors of which the same is true.
    /// All of them stay. How many there were.
    pub(super) fn sample_batch(
        &mut self,
        lruvec: &mut LruVec,
        frame: FrameNo,
        frames: &mut impl FrameTable,
    ) -> u64 {
        let key = frames.key(frame);
        let first = key.index().0 / BLOCK * BLOCK;
        let mut looked = 0;
        for page in first..first + BLOCK {
            let found = match page == key.index().0 {
                // Even if it was moved out meanwhile, so that the scan goes on.
                true => Some(frame),
                false => {
                    let other = frames.lookup(PageKey::new(key.file(), PageIndex(page)));
                    let is_active = |&other: &FrameNo| lruvec.pages.list_of(other) == Some(List::Active);
                    other
                        .filter(is_active)
                        .filter(|&other| !frames.tracks_accesses(other))
                }
            };
            let Some(found) = found else { continue };
            self.begin_lap(lruvec, found, frames);
            looked += 1;
        }
        looked
    }

    /// The usage count rises by what an accessed bit weighs if the page was used since it was looked at last; a lap without a
    /// use costs one. In the next lap a use will be seen.
    fn begin_lap(&mut self, lruvec: &mut LruVec, frame: FrameNo, frames: &mut impl FrameTable) {
        let is_used = frames.test_and_clear_accessed(frame) > 0;
        if is_used {
            // Not known to be used is not known to be unused: that is judged when its lap has passed.
            self.bimodal.judge(lruvec, frame, true);
        }
        let page = lruvec.pages.page(frame);
        page.touched |= is_used || page.usage_count > 0;
        page.usage_count = if is_used {
            (page.usage_count + self.options.accessed_bit_weight).min(self.options.region_usage_count_max)
        } else {
            page.usage_count.saturating_sub(1)
        };
        lruvec.pages.move_to_warm(frame, List::Active, List::Active);
    }
}
