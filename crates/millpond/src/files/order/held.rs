//! The pages of a file that wait for its log, and for which record.
//!
//! ```text
//!   set_order ──► orders: page → record ── the flusher meets the page, which is not durable ──► listed: (record, page)
//!                                                                                                │ the log has come
//!                                          the flusher may meet it again ◄───────────────────────┘
//! ```
//!
//! A map beside the frames, because few pages have an order at a time and a frame's metadata has no room for one. A page
//! is in it while it is dirty and its record was not durable when its order was set; it leaves when its write begins,
//! or when it is thrown away. B-tree, because it gives its memory back as pages leave and runs of pages lie close
//! together. Pages that were to be written are listed by their record as well, so that a log that advances costs no look
//! at those for which it has not come far enough.

use super::Log;
use millpond_core::units::PageIndex;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of the map for a page: leaves of 11 keys and values, 280 bytes, are at least half full, and what is above them
/// is a tenth of that.
const PAGE_ORDER_BYTES: u64 = 51;

/// The same for the list, with leaves of 192 bytes.
const PAGE_LISTED_BYTES: u64 = 35;

/// Bytes of both a frame: the dirty limit allows one frame in five by default.
pub(crate) const FRAME_ORDER_BYTES: u64 = (PAGE_ORDER_BYTES + PAGE_LISTED_BYTES).div_ceil(5);

/// What a page waits for.
#[derive(Clone, Copy)]
struct Order {
    newest: u64,
    /// The record that was asked for when the page was to be written the last time; 0 if it was not yet.
    asked: u64,
}

#[derive(Default)]
struct Orders {
    pages: BTreeMap<u64, Order>,
    /// Pages that the core holds until their log has come, by the record that was asked for.
    listed: BTreeSet<(u64, u64)>,
}

/// The pages of a file that depend on a log.
pub(crate) struct Held {
    pub(crate) log: Arc<Log>,
    /// Until the file is closed.
    holder: Mutex<Option<Holder>>,
    orders: Mutex<Orders>,
}

/// A file that has the log.
struct Holder(Arc<Log>);

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Held {
    pub(crate) fn new(log: Arc<Log>) -> Held {
        log.enter();
        Held {
            holder: Mutex::new(Some(Holder(log.clone()))),
            log,
            orders: Mutex::default(),
        }
    }

    /// The file is closed: it requests nothing more. May wait for a call of the log's callback.
    pub(crate) fn closed(&self) {
        let holder = self.holder.lock().take();
        drop(holder);
    }

    /// The page, which the caller owns, depends on record `n`, and on what it depended on before.
    pub(crate) fn raise(&self, page: u64, n: u64) {
        if n > self.log.durable() {
            let mut orders = self.orders.lock();
            let order = orders.pages.entry(page).or_insert(Order { newest: n, asked: 0 });
            order.newest = n.max(order.newest);
        }
    }

    /// Whether the page waits for its log. For a page that no thread is changing at this moment.
    pub(crate) fn awaits(&self, page: PageIndex) -> bool {
        let newest = self.orders.lock().pages.get(&page.0).map(|order| order.newest);
        newest.is_some_and(|n| !self.log.is_durable(n))
    }

    /// Of a page that is to be written and awaits its log: whether the log has come as far as was asked for the last
    /// time, and the page has moved on meanwhile. It might do so for ever.
    pub(crate) fn has_moved_on(&self, page: PageIndex) -> bool {
        let order = self.orders.lock().pages.get(&page.0).copied();
        let has_moved_on =
            |order: Order| (1..order.newest).contains(&order.asked) && self.log.durable() >= order.asked;
        order.is_some_and(has_moved_on) && self.log.can_flush()
    }

    /// The page, which was to be written and awaits its log, is not looked at before [`Held::released`]. Which record it
    /// waits for, and whether it is the only one; `None` if it has none.
    pub(crate) fn list(&self, page: PageIndex) -> Option<(u64, bool)> {
        let mut orders = self.orders.lock();
        let order = orders.pages.get_mut(&page.0)?;
        let (before, n) = (std::mem::replace(&mut order.asked, order.newest), order.newest);
        orders.listed.remove(&(before, page.0));
        orders.listed.insert((n, page.0));
        Some((n, orders.listed.len() == 1))
    }

    /// Takes up to `max` of the listed pages off the list whose log has come, by their records. The thread
    /// that advances the log from now on announces it if any is left.
    pub(crate) fn released(&self, max: usize) -> Vec<PageIndex> {
        let mut released = Vec::new();
        let mut orders = self.orders.lock();
        while let Some(&(n, page)) = orders.listed.first()
            && released.len() < max
            && self.log.is_durable(n)
        {
            orders.listed.pop_first();
            released.push(PageIndex(page));
        }
        released
    }

    /// The last record that a listed page waits for.
    pub(crate) fn last_listed(&self) -> Option<u64> {
        self.orders.lock().listed.last().map(|&(n, _)| n)
    }

    /// The page's present content needs no order any longer: it is being written, or has been dropped.
    pub(crate) fn forget(&self, page: PageIndex) {
        let mut orders = self.orders.lock();
        if let Some(order) = orders.pages.remove(&page.0) {
            orders.listed.remove(&(order.asked, page.0));
        }
    }

    /// Bytes that the map and the list hold, about.
    pub(crate) fn metadata_bytes(&self) -> u64 {
        let orders = self.orders.lock();
        orders.pages.len() as u64 * PAGE_ORDER_BYTES + orders.listed.len() as u64 * PAGE_LISTED_BYTES
    }

    /// The last record that a page waits for. Looks at them all.
    pub(crate) fn last_record(&self) -> Option<u64> {
        let last = self
            .orders
            .lock()
            .pages
            .values()
            .map(|order| order.newest)
            .max()?;
        (!self.log.is_durable(last)).then_some(last)
    }

    /// The pages that wait. Looks at them all.
    pub(crate) fn pages(&self) -> Vec<u64> {
        let durable = self.log.durable();
        let orders = self.orders.lock();
        let waiting = orders.pages.iter().filter(|(_, order)| order.newest > durable);
        waiting.map(|(&page, _)| page).collect()
    }
}
