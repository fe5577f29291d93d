//! The budget: so many frames as it has room for, beside what some files need.
//!
//! Copies of pages and the map of pages that wait for a log cost nothing before the first file that needs them is opened.
//! Then the pool becomes smaller by as much, as if the budget had: at once in number, and in memory as pages leave.

use super::Handle;
use crate::budget::{self, Aside};
use crate::error::{Error, Result};
use crate::file::{Keeping, StablePages};
use crate::order::FRAME_ORDER_BYTES;
use crate::sys::copies::Copies;
use millpond_core::event::Event;
use millpond_core::options::OptionError;
use millpond_core::units::{Bytes, PageCount};

/// What the cache may have in all, and what of it is not for frames.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    pub(super) memory: Bytes,
    pub(super) aside: Aside,
}

impl Handle {
    /// Makes the pool as large as the budget allows.
    ///
    /// # Errors
    /// As [`PageCache::set_memory`]; then nothing changes.
    pub(super) fn apply(&self, budget: Budget) -> Result<()> {
        let shared = &self.shared;
        let frames = budget::frames(budget.memory, shared.page_size, budget.aside)?;
        let frames_max = crate::table::Memory::frames_max(shared.table.memory());
        if frames.0 > u64::from(frames_max) {
            let max = PageCount(u64::from(frames_max)).to_bytes(shared.page_size);
            let (value, allowed) = (budget.memory.to_string(), format!("up to {max}"));
            return Err(OptionError {
                option: "memory",
                value,
                allowed,
            }
            .into());
        }
        let mut deferred = crate::driver::Deferred::default();
        {
            let mut core = shared.core();
            let mut table = shared.table.locked(&mut core.turn);
            if frames.0 as u32 > table.frames() {
                table.grow(frames.0 as u32).map_err(|source| Error::Setup {
                    what: "growing the pool",
                    source,
                })?;
            }
            shared.step(&mut core, Event::MemoryChanged { frames }, &mut deferred);
        }
        shared.finish(&mut deferred);
        Ok(())
    }

    /// Sets memory aside for what the file needs beside its pages, if no file before it needed that.
    ///
    /// # Errors
    /// As [`PageCache::set_memory`]; then nothing changes.
    pub(super) fn set_aside(&self, keeping: &Keeping) -> Result<()> {
        let mut budget = self.budget.lock();
        let page_size = self.shared.page_size;
        let mut aside = budget.aside;
        if keeping.stable == StablePages::Copy && aside.copies == PageCount(0) {
            aside.copies = budget::copies(budget.memory, page_size);
        }
        if keeping.held.is_some() {
            aside.frame_bytes = FRAME_ORDER_BYTES;
        }
        if aside != budget.aside {
            self.apply(Budget { aside, ..*budget })?;
            budget.aside = aside;
        }
        if aside.copies > PageCount(0) {
            let copies = || Copies::new(aside.copies.0 as u32, page_size.bytes() as usize);
            self.shared.copies.get_or_init(copies);
        }
        Ok(())
    }
}
