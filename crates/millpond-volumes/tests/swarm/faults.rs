//! What goes wrong in a world, and what it has seen.

use crate::draw::Draw;
use std::time::Duration;

/// Each `one in` of requests; 0: none.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Faults {
    pub(crate) lost: u64,
    pub(crate) late: u64,
    pub(crate) answer_lost: u64,
    pub(crate) twice: u64,
    pub(crate) slow: u64,
    pub(crate) sleeps: u64,
    pub(crate) killed: u64,
    pub(crate) outage: (Duration, Duration),
}

impl Faults {
    pub(crate) fn draw(draw: &mut Draw) -> Faults {
        let mut rate = |most: u64| match draw.one_in(2) {
            true => 0,
            false => 4 << draw.below(most),
        };
        let (lost, late, answer_lost, twice, slow) = (rate(6), rate(6), rate(6), rate(6), rate(6));
        let (sleeps, killed) = (rate(6) * 4, rate(6) * 4);
        let from = Duration::from_secs(draw.below(400));
        let until = from + Duration::from_secs(draw.below(200));
        let outage = if draw.one_in(3) {
            (from, until)
        } else {
            (Duration::ZERO, Duration::ZERO)
        };
        Faults {
            lost,
            late,
            answer_lost,
            twice,
            slow,
            sleeps,
            killed,
            outage,
        }
    }
}

/// What a world has seen.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) commits: u64,
    pub(crate) bogus: u64,
    pub(crate) synced: u64,
    pub(crate) failed: u64,
    pub(crate) moved: u64,
    pub(crate) writers: u64,
    pub(crate) steps: u64,
}
