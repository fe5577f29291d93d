//! The same memory under Millpond's own rule: the core's `Lru` with frames that hold nothing but names.

use super::{FRAMES, Memory};
use millpond_core::frame::{ACCESSES_MAX, BeginWrite, FrameTable};
use millpond_core::lru::{List, Lru, MillpondOptions, Replacement};
use millpond_core::units::{FileId, FrameNo, PageCount, PageIndex, PageKey};
use millpond_kernels::linux::anon::machine::Lists;
use std::ops::Range;

/// Frames by number, with the page in each and its uses since the scan looked.
#[derive(Debug)]
struct Frames(Vec<(PageKey, u8)>);

fn key(page: u32) -> PageKey {
    PageKey::new(FileId(0), PageIndex(page.into()))
}

impl FrameTable for Frames {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.0[frame.index()].0
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        let frame = self.0.iter().position(|&(held, _)| held == key)?;
        Some(FrameNo(frame as u32))
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        std::mem::take(&mut self.0[frame.index()].1)
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        for frame in frames {
            self.0[frame.index()] = (PageKey::NONE, 0);
        }
    }

    fn begin_write(&mut self, _: FrameNo) -> BeginWrite {
        // Nothing is dirty here.
        BeginWrite::Busy
    }
}

/// Millpond's rule.
#[derive(Debug)]
pub struct OwnRule {
    lru: Lru,
    frames: Frames,
    free: Vec<FrameNo>,
    was_here: Vec<u32>,
}

impl OwnRule {
    /// With a hundred free frames.
    pub fn new() -> OwnRule {
        let frames = PageCount(FRAMES.into());
        OwnRule {
            lru: Lru::new(Replacement::Millpond(MillpondOptions::default()), frames),
            frames: Frames(vec![(PageKey::NONE, 0); FRAMES as usize]),
            free: (0..FRAMES).rev().map(FrameNo).collect(),
            was_here: Vec::new(),
        }
    }

    fn free_frame(&mut self) -> FrameNo {
        loop {
            if let Some(frame) = self.free.pop() {
                return frame;
            }
            let mut victims = Vec::new();
            self.lru.isolate(0, 1, &mut self.frames, &mut victims);
            for &frame in &victims {
                self.lru.evicted(frame, self.frames.key(frame));
            }
            self.frames.evict(&mut victims);
            self.free.append(&mut victims);
        }
    }
}

impl Default for OwnRule {
    fn default() -> OwnRule {
        OwnRule::new()
    }
}

impl Memory for OwnRule {
    fn make_hot(&mut self, pages: Range<u32>) {
        // each once, and again when its correlated-reference window is over
        for _ in 0..2 {
            for page in pages.clone() {
                self.use_page(page);
            }
        }
    }

    fn use_page(&mut self, page: u32) -> bool {
        let key = key(page);
        if let Some(frame) = self.frames.lookup(key) {
            let uses = &mut self.frames.0[frame.index()].1;
            *uses = (*uses + 1).min(ACCESSES_MAX);
            return false;
        }
        let refault = self.lru.refault(key);
        let frame = self.free_frame();
        self.frames.0[frame.index()] = (key, 0);
        self.lru.insert(frame, key, refault, true, &mut self.frames);
        let was_here = self.was_here.contains(&page);
        if !was_here {
            self.was_here.push(page);
        }
        was_here
    }

    fn lists(&self) -> Lists {
        let list = |lists: &[List]| {
            let frames = lists.iter().flat_map(|&list| self.lru.iter_from_cold(list));
            let mut pages: Vec<u32> = frames
                .map(|frame| self.frames.key(frame).index().0 as u32)
                .collect();
            pages.reverse();
            pages
        };
        Lists {
            active: list(&[List::Active]),
            inactive: list(&[List::NoReuse, List::Inactive, List::Window]),
        }
    }

    fn why_in(&self, is_active: bool, is_back: bool) -> String {
        match (is_active, is_back) {
            (true, true) => "It came back soon after it had left: its shadow says that it would have stayed with a little more memory, so it is active at once.",
            (true, false) => "It was drawn: of pages that nothing is known of a share goes to the active list, so that a part of a loop longer than memory stays.",
            (false, true) => "It came back, but after too long for its shadow: it starts as a new page.",
            (false, false) => "New pages start on the inactive list: a use after a while makes them active.",
        }
        .into()
    }

    fn why_moved(&self, was_active: bool, is_active: Option<bool>) -> String {
        match (was_active, is_active) {
            (true, Some(_)) => "The inactive list was below its target, and this page at the active list's cold end had no uses left: each round takes one.",
            (false, Some(_)) => "It had been used since it came in when the scan met it at the cold end; or it was drawn: of pages that nothing is known of a share goes to the active list, so that a part of a loop longer than memory stays.",
            (_, None) => "Memory was full; it was at the cold end and had not been used since it came in, or only while hardly a page came in behind it: such uses count as one with the first.",
        }
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Example, SET, Toys};
    use super::*;
    use crate::world::World;
    use millpond_core::units::Instant;

    #[test]
    fn pages_that_were_used_again_stay_while_twice_as_many_are_used_once() {
        let mut toys = Toys::new(OwnRule::new(), Example::Protection);
        toys.run(Instant(1_000_000_000));
        let figures = toys.figures();
        let hot = figures.iter().find(|figure| figure.name == "hot_pages_in_memory");
        let hot = hot.map_or(0.0, |figure| figure.value);
        assert!(hot >= 0.9 * f64::from(SET), "{hot}");
    }
}
