//! The memory budget: conversions, reservations, and the value in force.

use super::PageCache;
use crate::control::budget::OneRule;
use crate::control::follow::MemoryInForce;
use crate::engine::budget::{FRAME_METADATA_BYTES, IO_BYTES, Reserved, frames};
use crate::error::Result;
use millpond_core::units::{Bytes, PageCount, PageSize};

impl PageCache {
    /// Returns the number of pages that fit into a budget of `memory`, for a cache with neither regions nor files that
    /// need copies.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`](crate::Error::BudgetTooSmall).
    pub fn pages_in(memory: Bytes, page_size: PageSize) -> Result<PageCount> {
        frames(memory, page_size, Reserved::default())
    }

    /// Returns the budget that `pages` pages need: the reverse of [`PageCache::pages_in`].
    pub fn memory_for(pages: PageCount, page_size: PageSize) -> Bytes {
        let frame = page_size.bytes() + FRAME_METADATA_BYTES;
        Bytes(pages.0.saturating_mul(frame).saturating_add(IO_BYTES.0))
    }
}

/// A part of the cache's budget that is reserved for the program's own memory until this is dropped. Keeps the cache
/// alive.
#[derive(Debug)]
pub struct SetAside {
    cache: PageCache,
    what: What,
}

#[derive(Debug)]
enum What {
    Bytes(u64),
    Rule(OneRule),
}

impl SetAside {
    /// Returns the number of bytes reserved from the budget in force.
    pub fn bytes(&self) -> u64 {
        match &self.what {
            What::Bytes(bytes) => *bytes,
            What::Rule(rule) => rule.bytes(self.cache.memory().bytes),
        }
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        let handle = &self.cache.handle;
        if !handle.engine.call_flags.is_of_another() {
            // More frames than before: that can fail only for want of memory, and then the pool stays as it is.
            let _ = match &self.what {
                What::Bytes(bytes) => handle.set_aside_for_program(-(*bytes as i64)),
                What::Rule(rule) => handle.drop_rule(rule),
            };
        }
    }
}

impl PageCache {
    /// Reserves `bytes` of the budget for memory that the program uses besides the cache, such as I/O buffers of a
    /// layer below. The number of pages that the cache may hold shrinks at once; the memory becomes free as pages are
    /// evicted.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`](crate::Error::BudgetTooSmall) if too few pages would remain; nothing changes then.
    pub fn set_aside(&self, bytes: u64) -> Result<SetAside> {
        self.handle.engine.call_flags.check()?;
        self.handle
            .set_aside_for_program(i64::try_from(bytes).unwrap_or(i64::MAX))?;
        Ok(SetAside {
            cache: self.clone(),
            what: What::Bytes(bytes),
        })
    }

    /// Reserves the part of the budget that `rule` computes: it maps the budget in bytes to the bytes to reserve. The
    /// rule is applied at once and whenever the budget changes, so buffers that can shrink with the budget do not
    /// prevent a smaller one.
    ///
    /// `rule` must be fast, deterministic, and must not use the cache. It may also be called for budgets that are then
    /// not adopted.
    ///
    /// # Errors
    /// As [`set_aside`](Self::set_aside).
    pub fn set_aside_by(&self, rule: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Result<SetAside> {
        self.handle.engine.call_flags.check()?;
        let rule = self.handle.set_aside_by_rule(rule)?;
        Ok(SetAside {
            cache: self.clone(),
            what: What::Rule(rule),
        })
    }

    /// Returns the budget in force, and the reason for it if the host decides
    /// ([`Builder::memory_auto`](crate::Builder::memory_auto), `set("memory", "auto:256M..4G")`). Takes two locks
    /// briefly, and allocates.
    pub fn memory(&self) -> MemoryInForce {
        self.handle.memory_in_force()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn memory_set_aside_is_taken_from_the_pages_and_given_back() {
        let cache = PageCache::builder().memory(8 << 20).build().unwrap();
        let frames = || cache.stats().occupancy.frames.0;
        let all = frames();
        let set_aside = cache.set_aside(4 << 20).unwrap();
        let taken = (4 << 20) / (4096 + FRAME_METADATA_BYTES);
        assert!(
            (taken..=taken + 1).contains(&(all - frames())),
            "{} of {all}",
            frames()
        );
        let too_much = cache.set_aside(4 << 20);
        assert!(
            matches!(too_much, Err(Error::BudgetTooSmall { .. })),
            "{too_much:?}"
        );
        assert_eq!((cache.memory().bytes, all - frames() > 0), (Bytes(8 << 20), true));
        drop(set_aside);
        assert_eq!(frames(), all);
    }

    #[test]
    fn memory_set_aside_by_a_rule_follows_the_budget() {
        let cache = PageCache::builder().memory(8 << 20).build().unwrap();
        let frames = || cache.stats().occupancy.frames;
        let set_aside = cache.set_aside_by(|memory| memory / 2).unwrap();
        let pages_in = |mib: u64| PageCache::pages_in(Bytes(mib << 20), PageSize::KIB_4).unwrap();
        assert_eq!((set_aside.bytes(), frames()), (4 << 20, pages_in(4)));
        // Less than what was set aside at first.
        cache.set_memory(2 << 20).unwrap();
        assert_eq!((set_aside.bytes(), frames()), (1 << 20, pages_in(1)));
        cache.set_memory(32 << 20).unwrap();
        assert_eq!((set_aside.bytes(), frames()), (16 << 20, pages_in(16)));
        let too_much = cache.set_aside_by(|memory| memory);
        assert!(
            matches!(too_much, Err(Error::BudgetTooSmall { .. })),
            "{too_much:?}"
        );
        assert_eq!(frames(), pages_in(16));
        drop(set_aside);
        assert_eq!(frames(), pages_in(32));
    }
}
