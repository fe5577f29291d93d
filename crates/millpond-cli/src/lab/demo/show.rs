//! The state of the runs so far, for the screen.

use millpond_lab::experiment::axboe2016::demo::{Plan, Side, Told};
use millpond_lab::measure::heat::{Counts, percentile_us};
use millpond_lab::measure::others::Others;
use millpond_lab::workload::{Live, Progress};
use std::time::{Duration, Instant};

/// A run is assumed to last at least this many tenths of a second before it is over.
const STEPS_MIN: usize = 15;

pub(super) struct Show {
    pub(super) began: Instant,
    /// The step before the first run.
    pub(super) preparing: Option<(String, String)>,
    pub(super) plan: Option<Plan>,
    /// What other programs use on a busy machine.
    pub(super) others: Option<Others>,
    pub(super) halves: [Half; 2],
    /// The present run: its round, its side, its step.
    pub(super) now: Option<(u32, Side, String)>,
    pub(super) is_stopping: bool,
}

/// The state of a side.
#[derive(Default)]
pub(super) struct Half {
    /// The reads of each round, in each tenth of a second.
    pub(super) rounds: Vec<Vec<Counts>>,
    /// The slowest read of the finished rounds, and of the present one.
    slowest_us: f64,
    pub(super) live: Live,
    /// Whether a run is under way.
    is_open: bool,
}

impl Half {
    pub(super) fn slowest_us(&self) -> Option<f64> {
        let slowest = self.slowest_us.max(self.live.slowest_us);
        (slowest > 0.0).then_some(slowest)
    }

    /// All reads of all rounds, by latency.
    pub(super) fn all(&self) -> Counts {
        let mut sums = vec![0; 256];
        for &(class, count) in self.rounds.iter().flatten().flatten() {
            sums[usize::from(class)] += count;
        }
        let sums = sums.into_iter().enumerate();
        sums.filter(|&(_, sum)| sum > 0)
            .map(|(class, sum)| (class as u8, sum))
            .collect()
    }

    /// The number of reads, and the latencies that these shares of them did not exceed.
    pub(super) fn reads(&self, shares: [f64; 2]) -> (u64, [Option<f64>; 2]) {
        let all = self.all();
        let count = all.iter().map(|&(_, count)| u64::from(count)).sum();
        (count, shares.map(|share| percentile_us(&all, share)))
    }

    fn live(&mut self, live: Live) {
        if !self.is_open {
            self.rounds.push(Vec::new());
            self.is_open = true;
        } else if live.number <= self.live.number {
            return;
        }
        if let Some(round) = self.rounds.last_mut() {
            round.extend(live.reads.iter().cloned());
        }
        self.live = live;
    }
}

impl Show {
    pub(super) fn new() -> Show {
        Show {
            began: Instant::now(),
            preparing: None,
            plan: None,
            others: None,
            halves: Default::default(),
            now: None,
            is_stopping: false,
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn told(&mut self, told: Told) {
        match told {
            Told::Busy(others) => self.others = Some(others),
            Told::Preparing(step, detail) => self.preparing = Some((step, detail)),
            Told::Planned(plan) => {
                self.preparing = None;
                self.plan = Some(*plan);
                self.halves = Default::default();
            }
            Told::Running(round, side, Progress { doing, live, .. }) => {
                if let Some(live) = live {
                    self.halves[side as usize].live(live);
                }
                self.now = Some((round, side, doing));
            }
            Told::Ended(side, round) => {
                let half = &mut self.halves[side as usize];
                if half.is_open {
                    half.rounds.pop();
                }
                half.slowest_us = half.slowest_us.max(round.figures.slowest_us);
                half.live.in_transit = None;
                half.live.written = half.live.total;
                half.rounds.push(round.reads);
                half.is_open = false;
                self.now = None;
            }
        }
    }

    /// The length of the axis in tenths of a second: for all rounds of the side that takes longer. Rounds to come are
    /// assumed to take as long as the longest so far.
    pub(super) fn steps(&self) -> usize {
        let planned = self.plan.as_ref().map_or(1, |plan| plan.rounds as usize);
        let longest = self
            .halves
            .iter()
            .flat_map(|half| &half.rounds)
            .map(Vec::len)
            .max();
        let longest = longest.unwrap_or(0).max(STEPS_MIN);
        let of = |half: &Half| {
            let over = half.rounds.len() - usize::from(half.is_open);
            let steps: usize = half.rounds[..over].iter().map(Vec::len).sum();
            steps + longest * planned.saturating_sub(over)
        };
        self.halves.iter().map(of).max().unwrap_or(1)
    }
}
