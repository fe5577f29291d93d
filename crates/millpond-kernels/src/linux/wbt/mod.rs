//! Writeback throttling in the block layer: what Axboe posted in 2016, and `blk-wbt` that came of it.
//!
//! What it decides: how many requests of writes may be in flight beside reads; [`Wbt`] is a form of admission that Millpond's
//! manager can be given in virtual time. A cache can't be set to one: its own forms count bytes.
//!
//! | | limit | by |
//! |---|---|---|
//! | [`posted`], v2 | four requests | the reason of the write |
//! | [`posted`], v3 | a share of the queue | the reason, and whether others have read within 100 ms |
//! | [`merged`], 4.10 to 7.0 | steps up and down | the fastest read of each window |

mod gate;
pub mod merged;
pub mod posted;

use merged::{Merged, MergedOptions};
use millpond_core::admission::{Form, InTransit, Verdict};
use millpond_core::io::Reason;
use millpond_core::units::{Bytes, Instant};
use posted::{Posted, PostedOptions};

/// Linux' throttle, in one of its forms.
#[derive(Clone, Debug)]
pub enum Wbt {
    /// As posted.
    Posted(Posted),
    /// As merged.
    Merged(Box<Merged>),
}

impl Wbt {
    /// The posted form with these settings.
    pub fn posted(options: PostedOptions) -> Wbt {
        Wbt::Posted(Posted::new(options))
    }

    /// The merged form with these settings.
    pub fn merged(options: MergedOptions) -> Wbt {
        Wbt::Merged(Box::new(Merged::new(options)))
    }
}

impl Form for Wbt {
    fn admit(&mut self, now: Instant, reason: Reason, _bytes: Bytes, in_transit: &InTransit) -> Verdict {
        match self {
            Wbt::Posted(wbt) => wbt.admit(now, reason, in_transit),
            Wbt::Merged(wbt) => wbt.admit(now, reason, in_transit),
        }
    }

    fn issued(&mut self, now: Instant, reason: Reason, _bytes: Bytes, _in_transit: &InTransit) {
        match self {
            Wbt::Merged(wbt) if reason.is_read() => wbt.read_issued(now),
            _ => {}
        }
    }

    fn completed(
        &mut self,
        now: Instant,
        reason: Reason,
        _bytes: Bytes,
        issued_at: Instant,
        in_transit: &InTransit,
    ) {
        match self {
            Wbt::Posted(wbt) if !reason.is_read() => wbt.write_done(now, in_transit),
            Wbt::Posted(_) => {}
            Wbt::Merged(wbt) if reason.is_read() => wbt.read_done(now, issued_at, in_transit),
            Wbt::Merged(wbt) => wbt.write_done(now, reason, in_transit),
        }
    }
}
