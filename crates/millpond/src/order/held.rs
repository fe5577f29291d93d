//! Which pages of a file wait for its log, and for which record.
//!
//! A map beside the frames, because few pages have an order at a time and a frame's metadata has no room for one. A page
//! is in it while it is dirty and its record was not durable when its order was set; it leaves when its write begins,
//! or when it is thrown away. B-tree, because it gives its memory back as pages leave and runs of pages lie close
//! together.

use super::Log;
use millpond_core::units::PageIndex;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of the map for a page: leaves of 11 keys and values, 280 bytes, are at least half full, and what is above them
/// is a tenth of that. The dirty limit allows one frame in five by default, so that is so much a frame.
pub(crate) const FRAME_ORDER_BYTES: u64 = 11;

/// What a page waits for.
#[derive(Clone, Copy)]
struct Order {
    newest: u64,
    /// The record that was asked for when the page was to be written first; 0 if it was not yet.
    asked: u64,
}

/// The pages of a file that depend on a log.
pub(crate) struct Held {
    pub(crate) log: Arc<Log>,
    orders: Mutex<BTreeMap<u64, Order>>,
}

impl Held {
    pub(crate) fn new(log: Arc<Log>) -> Held {
        Held {
            log,
            orders: Mutex::default(),
        }
    }

    /// The page, which the caller owns, depends on record `n`, and on what it depended on before.
    pub(crate) fn raise(&self, page: u64, n: u64) {
        if n > self.log.durable() {
            let mut orders = self.orders.lock();
            let order = orders.entry(page).or_insert(Order { newest: n, asked: 0 });
            order.newest = n.max(order.newest);
        }
    }

    /// The record that keeps the page from being written, if one does. For one that nobody is changing at this moment.
    pub(crate) fn awaits(&self, page: PageIndex) -> Option<u64> {
        let n = self.orders.lock().get(&page.0)?.newest;
        (!self.log.is_durable(n)).then_some(n)
    }

    /// The page was to be written, and awaits its log. Whether the log has come as far as was asked for the last time,
    /// and the page has moved on meanwhile: it might do so for ever.
    pub(crate) fn has_moved_on(&self, page: PageIndex) -> bool {
        let mut orders = self.orders.lock();
        let Some(order) = orders.get_mut(&page.0) else {
            return false;
        };
        let asked = std::mem::replace(&mut order.asked, order.newest);
        if asked == 0 {
            return false;
        }
        let has_moved_on = asked < order.newest && self.log.durable() >= asked;
        if !has_moved_on {
            order.asked = asked;
        }
        has_moved_on && self.log.can_flush()
    }

    /// The page's present content needs no order any more: it is being written, or it is no more.
    pub(crate) fn forget(&self, page: PageIndex) {
        self.orders.lock().remove(&page.0);
    }

    /// The last record that a page waits for. Looks at them all.
    pub(crate) fn last_record(&self) -> Option<u64> {
        let last = self.orders.lock().values().map(|order| order.newest).max()?;
        (!self.log.is_durable(last)).then_some(last)
    }

    /// The pages that wait. Looks at them all.
    pub(crate) fn pages(&self) -> Vec<u64> {
        let durable = self.log.durable();
        let orders = self.orders.lock();
        let waiting = orders.iter().filter(|(_, order)| order.newest > durable);
        waiting.map(|(&page, _)| page).collect()
    }
}
