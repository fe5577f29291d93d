//! The kernel's page tables for regions: 4 KiB for each 2 MiB of addresses in which a page has been.
//!
//! Tables stay after their pages have left, so a pass over a region of 20 GiB leaves 40 MiB of them, which no budget counts.
//! Linux frees a table if all of its 2 MiB are dropped at once while no page of it is present (6.14, x86-64). That takes 512
//! pages in hand and a system call, so it is done only while tables take more than their share of memory, and only where
//! the last page has just left. Scattered pages keep their tables: with one page in memory each, there can be as many tables
//! as frames.

use crate::sys::reserved::Reserved;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The number of pages of a table.
pub(crate) const PAGES: u64 = 512;

/// There may be one table per this many frames before empty ones are freed.
const SHARE: u64 = 32;

/// The tables of all regions.
pub(crate) struct AllTables {
    count: AtomicU64,
    /// Empty tables are freed above this number.
    most: AtomicU64,
    /// Whether the kernel can free them.
    can: bool,
}

impl AllTables {
    pub(crate) fn new() -> AllTables {
        AllTables {
            count: AtomicU64::new(0),
            most: AtomicU64::new(u64::MAX),
            can: cfg!(target_arch = "x86_64") && is_since(6, 14),
        }
    }

    /// Sets the number of frames.
    pub(crate) fn fit(&self, frames: u64) {
        self.most.store((frames / SHARE).max(1), Ordering::Relaxed);
    }

    /// Returns the number of tables, at most.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns whether empty tables should be freed.
    pub(crate) fn are_many(&self) -> bool {
        self.can && self.count() > self.most.load(Ordering::Relaxed)
    }
}

/// Returns whether this is Linux of that version or a later one.
fn is_since(major: u32, minor: u32) -> bool {
    let name = rustix::system::uname();
    let mut numbers = name
        .release()
        .to_str()
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|number| number.parse().ok());
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}

/// The tables of a region.
pub(crate) struct Tables {
    /// 1: a page of the table has been present since it was freed.
    there: Reserved<AtomicU32>,
}

impl Tables {
    pub(crate) fn new(pages: usize) -> io::Result<Tables> {
        let there = Reserved::new(pages.div_ceil(PAGES as usize))?;
        Ok(Tables { there })
    }

    /// Returns the table of a page.
    pub(crate) fn of(page: u64) -> u64 {
        page / PAGES
    }

    /// Returns the pages of a table in a region of `len` pages.
    pub(crate) fn pages(table: u64, len: u64) -> Range<u64> {
        table * PAGES..len.min((table + 1) * PAGES)
    }

    /// Notes that a page is in its region.
    #[inline]
    pub(crate) fn note(&self, page: u64, all: &AllTables) {
        let there = &self.there[Tables::of(page) as usize];
        if there.load(Ordering::Relaxed) == 0 && there.swap(1, Ordering::Relaxed) == 0 {
            all.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether the table may exist.
    pub(crate) fn is_there(&self, table: u64) -> bool {
        self.there[table as usize].load(Ordering::Relaxed) != 0
    }

    /// Notes that the tables which lie within these pages are freed.
    pub(crate) fn gone_with(&self, pages: &Range<u64>, all: &AllTables) {
        let (first, end) = (pages.start.div_ceil(PAGES), pages.end / PAGES);
        if first < end {
            self.gone(first..end, all);
        }
    }

    /// Notes that these tables are freed.
    pub(crate) fn gone(&self, tables: Range<u64>, all: &AllTables) {
        for there in &self.there[tables.start as usize..tables.end as usize] {
            if there.swap(0, Ordering::Relaxed) != 0 {
                all.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Notes that all tables are freed.
    pub(crate) fn all_gone(&self, all: &AllTables) {
        self.gone(0..self.there.len() as u64, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_counted_once_and_are_many_beyond_a_thirty_second_of_the_frames() {
        let (all, tables) = (AllTables::new(), Tables::new(2000).unwrap());
        all.fit(64);
        for page in [0, 511, 512, 1999] {
            tables.note(page, &all);
        }
        assert_eq!(all.count(), 3);
        assert_eq!(all.are_many(), all.can);
        tables.gone(0..1, &all);
        assert!(!all.are_many() && tables.is_there(3) && !tables.is_there(0));
        tables.all_gone(&all);
        assert_eq!(all.count(), 0);
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert!(is_since(2, 6) && is_since(4, 99) && !is_since(99, 0));
    }
}
