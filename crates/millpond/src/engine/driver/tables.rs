//! Page tables of regions that are empty and go (`memory/tables.rs`).

use super::Engine;
use crate::memory::{At, RegionInner, Tables};

/// Bits for the pages of a table.
const WORDS: usize = (crate::memory::TABLE_PAGES / 64) as usize;

impl Engine {
    /// Gives the table back if there are too many, none of its pages is there, and no other thread has one in hand. The
    /// caller has the core lock: without it no thread takes a page that is nowhere.
    pub(super) fn free_table(&self, region: &RegionInner, table: u64) {
        let (regions, pages) = (self.regions(), &region.pages);
        if !regions.tables.are_many() || !region.tables.is_there(table) {
            return;
        }
        let all = Tables::pages(table, pages.len());
        let is_away = |page| matches!(pages.at(page), At::Absent | At::Cached);
        if !all.clone().all(is_away) {
            return;
        }
        let (mut out, mut held) = ([0_u64; WORDS], all.start);
        let bit = |page: u64| (((page - all.start) / 64) as usize, 1 << (page % 64));
        while held < all.end {
            match pages.take(held, &[At::Absent, At::Cached]) {
                Some(At::Cached) => out[bit(held).0] |= bit(held).1,
                Some(_) => {}
                None => break,
            }
            held += 1;
        }
        if held == all.end {
            regions.exchange.drop_table(&region.memory, table);
            region.tables.gone(table..table + 1, &regions.tables);
        }
        for page in all.start..held {
            let was = match out[bit(page).0] & bit(page).1 {
                0 => At::Absent,
                _ => At::Cached,
            };
            self.settle(region, page, was);
        }
    }
}
