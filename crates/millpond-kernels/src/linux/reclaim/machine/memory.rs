//! Frames, zones and lists as the kernels of the time had them.
//!
//! ```text
//!   zone 0: the first 16 MiB        free frames, watermarks, four lists
//!   zone 1: the rest                free frames, watermarks, four lists        (one zone since lists are a node's, 4.8)
//!                                   inactive and active, of anonymous and of file pages
//! ```
//!
//! A task that needs a frame takes it from the upper zone while that is above its mark, and then from the lower one, which
//! keeps a part for requests that can't use the upper (`lowmem_reserve`). The lower zone is small, so its lists turn over
//! faster than the device writes: that is where dirty pages meet reclaim.

use super::options::MachineOptions;
use crate::linux::balance::{ReclaimCost, ReclaimStat};
use crate::linux::reclaim::effort::{Carry, Sizes};
use millpond_core::list::Lists;
use millpond_core::memory::watermark::{WatermarkRule, Watermarks};
use millpond_core::page::PageKind;
use millpond_core::units::{FileId, FrameNo, PageCount, PageIndex, PageKey, PageSize};

/// A page of a file was used by `read` or `write`, or reclaim has seen it young.
pub(super) const REFERENCED: u8 = 1;
/// A mapping of it was used.
pub(super) const YOUNG: u8 = 2;
/// Its copy on the disk is older, or there is none.
pub(super) const DIRTY: u8 = 4;
/// It is on its way to the disk.
pub(super) const WRITING: u8 = 8;
/// It is the next victim when its write ends.
pub(super) const TAGGED: u8 = 16;
/// It is being read.
pub(super) const LOADING: u8 = 32;
/// It is off the lists until its write ends.
pub(super) const LEAKED: u8 = 64;
/// It is mapped.
pub(super) const MAPPED: u8 = 128;

/// No frame, or no list.
pub(super) const NONE: u32 = u32::MAX;
const NO_LIST: u8 = u8::MAX;
/// The owner of anonymous pages.
pub(super) const ANONYMOUS: u32 = u32::MAX;

/// The lists of a zone, in the order in which a scan visits them.
pub(super) const INACTIVE_ANON: usize = 0;
pub(super) const ACTIVE_ANON: usize = 1;
pub(super) const INACTIVE_FILE: usize = 2;
pub(super) const ACTIVE_FILE: usize = 3;

/// The content of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// A file's number, or [`ANONYMOUS`].
    pub(super) owner: u32,
    /// The page's number there.
    pub(super) index: u32,
    pub(super) flags: u8,
    list: u8,
}

impl Frame {
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn kind(&self) -> PageKind {
        match self.owner {
            ANONYMOUS => PageKind::Anonymous,
            _ => PageKind::File,
        }
    }

    pub(super) fn key(&self) -> PageKey {
        let file = match self.owner {
            ANONYMOUS => PageKey::FILES_MAX - 1,
            file => file,
        };
        PageKey::new(FileId(file), PageIndex(self.index.into()))
    }
}

/// A zone.
#[derive(Debug)]
pub(super) struct Zone {
    free: Vec<u32>,
    pub(super) managed: PageCount,
    pub(super) marks: Watermarks,
    /// Frames kept for requests that can't use a higher zone.
    pub(super) reserved: PageCount,
    pub(super) stat: ReclaimStat,
    pub(super) cost: ReclaimCost,
    pub(super) carry: Carry,
    /// `ZONE_CONGESTED`.
    pub(super) congested: bool,
    /// The node's flags since 3.11.
    pub(super) dirty: bool,
    pub(super) writeback: bool,
    /// Pages scanned since one was freed.
    pub(super) scanned_since_freed: u64,
    pub(super) hopeless: bool,
}

impl Zone {
    pub(super) fn free(&self) -> PageCount {
        PageCount(self.free.len() as u64)
    }

    /// Whether more than `mark` and the reserve are free.
    pub(super) fn is_above(&self, mark: PageCount) -> bool {
        self.free().0 > mark.0 + self.reserved.0
    }
}

/// The watermark that a request for a frame respects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    Low,
    Min,
}

/// All frames.
#[derive(Debug)]
pub(super) struct Memory {
    frames: Vec<Frame>,
    lists: Lists<8>,
    pub(super) zones: Vec<Zone>,
    /// The first frame of the upper zone.
    upper_from: u32,
}

/// `lowmem_reserve_ratio` of the lowest zones.
const RESERVE_RATIO: u64 = 256;

impl Memory {
    pub(super) fn new(options: &MachineOptions) -> Memory {
        let pages = |bytes: millpond_core::units::Bytes| bytes.to_pages(PageSize::KIB_4).0;
        let all = pages(options.memory);
        let lower = match options.system.lists_by_zone() {
            true => pages(options.low_zone),
            false => 0,
        };
        let upper = all - lower - options.kernel.0;
        let rule = options.system.watermarks();
        let whole = Watermarks::of(rule, PageCount(all), PageSize::KIB_4);
        let zone = |frames: std::ops::Range<u64>, reserved| {
            let managed = PageCount(frames.end - frames.start);
            Zone {
                // the lowest frame is taken first
                free: frames.rev().map(|n| n as u32).collect(),
                managed,
                marks: share(rule, &whole, managed.0, lower + upper),
                reserved: PageCount(reserved),
                stat: ReclaimStat::default(),
                cost: ReclaimCost::default(),
                carry: Carry::default(),
                congested: false,
                dirty: false,
                writeback: false,
                scanned_since_freed: 0,
                hopeless: false,
            }
        };
        let mut zones = Vec::new();
        if lower > 0 {
            zones.push(zone(0..lower, upper / RESERVE_RATIO));
        }
        zones.push(zone(lower..lower + upper, 0));
        let empty = Frame {
            owner: 0,
            index: 0,
            flags: 0,
            list: NO_LIST,
        };
        Memory {
            frames: vec![empty; (lower + upper) as usize],
            lists: Lists::new((lower + upper) as usize),
            zones,
            upper_from: lower as u32,
        }
    }

    pub(super) fn zone_of(&self, frame: u32) -> usize {
        usize::from(self.zones.len() > 1 && frame >= self.upper_from)
    }

    pub(super) fn frame(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames[frame as usize]
    }

    /// Takes a frame for a page, from the highest zone that is above its mark.
    pub(super) fn take(&mut self, mark: Mark, owner: u32, index: u32, flags: u8) -> Option<u32> {
        let zone = self.zones.iter_mut().rev().find(|zone| {
            zone.is_above(match mark {
                Mark::Low => zone.marks.low,
                Mark::Min => zone.marks.min,
            })
        })?;
        let frame = zone.free.pop()?;
        self.frames[frame as usize] = Frame {
            owner,
            index,
            flags,
            list: NO_LIST,
        };
        Some(frame)
    }

    /// Gives a frame back that is on no list.
    pub(super) fn give(&mut self, frame: u32) {
        debug_assert_eq!(self.frames[frame as usize].list, NO_LIST);
        let zone = self.zone_of(frame);
        self.zones[zone].free.push(frame);
        self.zones[zone].scanned_since_freed = 0;
        self.zones[zone].hopeless = false;
    }

    /// The page's list in its zone.
    pub(super) fn list_of(&self, frame: u32) -> Option<usize> {
        let list = self.frames[frame as usize].list;
        (list != NO_LIST).then_some(usize::from(list))
    }

    pub(super) fn push_warm(&mut self, frame: u32, list: usize) {
        self.frames[frame as usize].list = list as u8;
        self.lists
            .push_warm(self.zone_of(frame) * 4 + list, FrameNo(frame));
    }

    pub(super) fn push_cold(&mut self, frame: u32, list: usize) {
        self.frames[frame as usize].list = list as u8;
        self.lists
            .push_cold(self.zone_of(frame) * 4 + list, FrameNo(frame));
    }

    /// Takes the page off its list.
    pub(super) fn remove(&mut self, frame: u32) {
        if let Some(list) = self.list_of(frame) {
            self.frames[frame as usize].list = NO_LIST;
            self.lists.remove(self.zone_of(frame) * 4 + list, FrameNo(frame));
        }
    }

    pub(super) fn pop_cold(&mut self, zone: usize, list: usize) -> Option<u32> {
        let frame = self.lists.pop_cold(zone * 4 + list)?;
        self.frames[frame.index()].list = NO_LIST;
        Some(frame.0)
    }

    pub(super) fn len(&self, zone: usize, list: usize) -> u64 {
        self.lists.len(zone * 4 + list)
    }

    /// The flags of a list's pages, the next victim first.
    pub(super) fn flags_from_cold(&self, zone: usize, list: usize) -> impl Iterator<Item = u8> + '_ {
        let frames = self.lists.iter_from_cold(zone * 4 + list);
        frames.map(|frame| self.frames[frame.index()].flags)
    }

    /// The lengths of a zone's lists.
    pub(super) fn sizes(&self, zone: usize) -> Sizes {
        let len = |list| self.len(zone, list);
        Sizes {
            file: [len(INACTIVE_FILE), len(ACTIVE_FILE)],
            anonymous: [len(INACTIVE_ANON), len(ACTIVE_ANON)],
        }
    }

    /// Memory that may hold dirty pages: free frames and all pages on lists (`determine_dirtyable_memory` with swap).
    pub(super) fn dirtyable(&self) -> u64 {
        let zones = 0..self.zones.len();
        zones
            .map(|zone| self.zones[zone].free().0 + self.sizes(zone).reclaimable(true))
            .sum()
    }

    /// Re-derives list lengths and back links.
    pub(super) fn validate(&self) {
        self.lists.validate();
        for (n, frame) in self.frames.iter().enumerate() {
            assert!(
                frame.list == NO_LIST || (frame.list < 2) == (frame.owner == ANONYMOUS),
                "frame {n} is on the other kind's list: {frame:?}"
            );
        }
    }
}

/// A zone's share of the watermarks of all memory. `min` is divided by size; to 4.5 the gaps follow from it.
fn share(rule: WatermarkRule, whole: &Watermarks, managed: u64, of: u64) -> Watermarks {
    let part = |pages: u64| pages * managed / of;
    let min = part(whole.min.0).max(4);
    let (low, high) = match rule {
        WatermarkRule::Linux3 => (min + min / 4, min + min / 2),
        _ => (
            min + part(whole.low.0 - whole.min.0),
            min + part(whole.high.0 - whole.min.0),
        ),
    };
    Watermarks {
        min: PageCount(min),
        low: PageCount(low),
        high: PageCount(high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::reclaim::System;

    #[test]
    fn the_lower_zone_is_used_when_the_upper_one_is_low_and_keeps_a_part() {
        let mut memory = Memory::new(&MachineOptions::new(System::Linux3_0));
        let mut zones = Vec::new();
        while let Some(frame) = memory.take(Mark::Low, 0, 0, 0) {
            zones.push(memory.zone_of(frame));
        }
        let upper = zones.iter().filter(|&&zone| zone == 1).count() as u64;
        assert!(zones.is_sorted_by(|a, b| a >= b), "the upper one first");
        let [low, high] = &memory.zones[..] else {
            panic!("two zones");
        };
        assert_eq!(high.free(), high.marks.low);
        assert_eq!(upper, high.managed.0 - high.marks.low.0);
        assert_eq!(low.free(), low.marks.low + low.reserved);
        assert!((400..500).contains(&low.reserved.0), "{:?}", low.reserved);
        assert!(memory.take(Mark::Min, 0, 0, 0).is_some());
    }

    #[test]
    fn since_4_8_there_is_one_set_of_lists() {
        assert_eq!(Memory::new(&MachineOptions::new(System::Linux7_0)).zones.len(), 1);
    }
}
