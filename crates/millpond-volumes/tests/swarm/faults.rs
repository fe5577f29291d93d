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
    /// Of answers that have an object: a bit flips on the way.
    pub(crate) flipped: u64,
    /// All requests of a sender share a link that takes so many bytes in a second; 0: any.
    pub(crate) link: u64,
    /// No writer lives for a grace.
    pub(crate) is_short: bool,
    /// When the store loses what it has: its newest commits, or all of them, or a bit of its newest commit or checkpoint.
    pub(crate) losses: [Option<(Duration, Loss)>; 2],
}

/// What a store loses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// As by a copy that was not made at one moment: the newest commits, and of what came with them some comes later.
    Newest(u64),
    /// All commits.
    All,
    /// A bit of the newest commit.
    CommitDamaged,
    /// A bit of the checkpoint that it names.
    CheckpointDamaged,
}

impl Faults {
    pub(crate) fn draw(draw: &mut Draw, chunk_bytes: u64) -> Faults {
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
        let flipped = if draw.one_in(3) { 64 } else { 0 };
        // Smaller chunks would leave it no time for commits and checkpoints.
        let link = match chunk_bytes {
            512 if draw.one_in(2) => chunk_bytes / 6,
            _ => 0,
        };
        let is_short = draw.one_in(5) && link == 0;
        let loses = draw.one_in(3);
        let losses = [(); 2].map(|()| {
            let at = Duration::from_secs(60 + draw.below(500));
            let loss = match draw.below(4) {
                0 => Loss::Newest(1 + draw.below(40)),
                1 => Loss::All,
                2 => Loss::CommitDamaged,
                _ => Loss::CheckpointDamaged,
            };
            loses.then_some((at, loss))
        });
        Faults {
            flipped,
            link,
            is_short,
            losses,
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
    pub(crate) losses: u64,
    pub(crate) salvaged: u64,
    pub(crate) refused: u64,
}
