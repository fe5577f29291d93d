//! The budget: so many frames as it has room for, beside what some files need.
//!
//! Copies of pages and the map of pages that wait for a log cost nothing before the first file that needs them is opened.
//! Then the pool becomes smaller by as much, as if the budget had: at once in number, and in memory as pages leave.

use super::cache::Cache;
use crate::engine::budget::{self, Reserved};
use crate::error::Result;
use crate::files::order::FRAME_ORDER_BYTES;
use crate::files::{StablePages, WritebackRules};
use crate::observe::history::By;
use crate::settings::{Memory, MemoryRange};
use crate::sys::copies::Copies;
use millpond_core::units::{Bytes, PageCount};

/// What the cache may have in all, and what of it is not for frames.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) memory: Bytes,
    /// The host decides between these.
    pub(crate) auto: Option<MemoryRange>,
    pub(crate) reserved: Reserved,
}

impl Budget {
    /// As it was set.
    pub(crate) fn setting(&self) -> Memory {
        self.auto.map_or(Memory::Fixed(self.memory), Memory::Auto)
    }

    /// The same with another setting; where the host decides it begins with what is there.
    pub(crate) fn with(self, setting: Memory) -> Budget {
        let (memory, auto) = match setting {
            Memory::Fixed(memory) => (memory, None),
            Memory::Auto(range) => (range.clamp(self.memory), Some(range)),
        };
        Budget { memory, auto, ..self }
    }

    /// It is never less.
    fn least(&self) -> Bytes {
        self.auto.map_or(self.memory, |range| range.min)
    }
}

impl Cache {
    /// Sets memory aside for `bytes` more of what is known of regions' pages, or as much less.
    ///
    /// # Errors
    /// As [`PageCache::set_memory`]; then nothing changes.
    pub(crate) fn set_aside_for_regions(&self, bytes: i64) -> Result<()> {
        self.set_aside(By::Region, bytes, |reserved| &mut reserved.region_bytes)
    }

    /// The same for what the program has.
    ///
    /// # Errors
    /// As [`PageCache::set_memory`]; then nothing changes.
    pub(crate) fn set_aside_for_program(&self, bytes: i64) -> Result<()> {
        self.set_aside(By::Program, bytes, |reserved| &mut reserved.program_bytes)
    }

    fn set_aside(&self, by: By, bytes: i64, what: impl FnOnce(&mut Reserved) -> &mut u64) -> Result<()> {
        let mut budget = self.budget.lock();
        let mut reserved = budget.reserved;
        let what = what(&mut reserved);
        *what = what.saturating_add_signed(bytes);
        let with_it = Budget { reserved, ..*budget };
        self.apply(by, &mut budget, Some(with_it), None)?;
        Ok(())
    }

    /// Sets memory aside for what the file needs beside its pages, if no file before it needed that.
    ///
    /// # Errors
    /// As [`PageCache::set_memory`]; then nothing changes.
    pub(crate) fn reserve_for(&self, writeback_rules: &WritebackRules) -> Result<()> {
        let mut budget = self.budget.lock();
        let page_size = self.engine.page_size;
        let mut reserved = budget.reserved;
        if writeback_rules.stable == StablePages::Copy && reserved.copies == PageCount(0) {
            reserved.copies = budget::copies(budget.least(), page_size);
        }
        if writeback_rules.held.is_some() {
            reserved.frame_bytes = FRAME_ORDER_BYTES;
        }
        if reserved != budget.reserved {
            let with_it = Budget { reserved, ..*budget };
            self.apply(By::File, &mut budget, Some(with_it), None)?;
        }
        if reserved.copies > PageCount(0) {
            let copies = || Copies::new(reserved.copies.0 as u32, page_size.bytes() as usize);
            self.engine.copies.get_or_init(copies);
        }
        Ok(())
    }
}
