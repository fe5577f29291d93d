//! The budget: as many frames as it has room for, besides what some files need.
//!
//! Copies of pages and the map of pages that wait for a log cost nothing before the first file that needs them is opened.
//! Then the pool becomes smaller by as much, as if the budget had: at once in number, and in memory as pages leave.
//!
//! Memory set aside for the program is a number of bytes, or a rule that is asked with each budget: buffers that can
//! shrink with the budget don't stand in its way.

use super::cache::Cache;
use crate::engine::budget::{self, Reserved};
use crate::error::Result;
use crate::files::order::FRAME_ORDER_BYTES;
use crate::files::{StablePages, WritebackRules};
use crate::observe::history::By;
use crate::settings::{Memory, MemoryRange};
use crate::sys::copies::Copies;
use millpond_core::units::{Bytes, PageCount};
use std::fmt;
use std::sync::Arc;

/// The memory set aside, in bytes, in a budget of this many.
type Rule = dyn Fn(u64) -> u64 + Send + Sync;

/// The program's rules, each in force until it is removed.
#[derive(Default)]
pub(crate) struct Rules {
    rules: Vec<Arc<Rule>>,
}

/// One of them.
#[derive(Clone)]
pub(crate) struct OneRule(Arc<Rule>);

impl fmt::Debug for OneRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneRule")
    }
}

impl OneRule {
    pub(crate) fn bytes(&self, memory: Bytes) -> u64 {
        (self.0)(memory.0)
    }
}

/// The cache's total memory, and the part that is not for frames.
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

    /// Sets memory aside as `rule` says, now and with each budget that comes.
    ///
    /// # Errors
    /// As [`PageCache::set_memory`]; then nothing changes.
    pub(crate) fn set_aside_by_rule(
        &self,
        rule: impl Fn(u64) -> u64 + Send + Sync + 'static,
    ) -> Result<OneRule> {
        let rule: Arc<Rule> = Arc::new(rule);
        let mut budget = self.budget.lock();
        self.rules.lock().rules.push(rule.clone());
        let rule = OneRule(rule);
        let now = *budget;
        match self.apply(By::Program, &mut budget, Some(now), None) {
            Ok(_) => Ok(rule),
            Err(error) => {
                self.forget(&rule);
                Err(error)
            }
        }
    }

    /// Gives back what was set aside by the rule.
    pub(crate) fn drop_rule(&self, rule: &OneRule) -> Result<()> {
        let mut budget = self.budget.lock();
        self.forget(rule);
        let now = *budget;
        self.apply(By::Program, &mut budget, Some(now), None).map(drop)
    }

    /// Asks the rules again, unless the budget is being changed. Whether that has worked.
    pub(crate) fn apply_rules(&self) -> bool {
        let Some(mut budget) = self.budget.try_lock() else {
            return false;
        };
        let now = *budget;
        self.apply(By::Lending, &mut budget, Some(now), None).is_ok()
    }

    fn forget(&self, rule: &OneRule) {
        let rules = &mut self.rules.lock().rules;
        rules.retain(|known| !Arc::ptr_eq(known, &rule.0));
    }

    /// The memory set aside in a budget, including that by rules.
    pub(crate) fn reserved(&self, budget: &Budget) -> Reserved {
        let rules = self.rules.lock().rules.clone();
        let by_rules = rules.iter().map(|rule| rule(budget.memory.0));
        let fixed = budget.reserved.program_bytes;
        Reserved {
            program_bytes: by_rules.fold(fixed, u64::saturating_add),
            ..budget.reserved
        }
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

    /// Sets memory aside for what the file needs besides its pages, if no earlier file needed that.
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
