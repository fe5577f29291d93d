//! The gap left: how much of what the optimum gains on LRU a policy leaves, and how sure a mean of it is.
//!
//! ```text
//!   misses   OPT ├───────────┼──────────────┤ LRU        gap left = (misses - OPT) / (LRU - OPT)
//!                0           a policy       1            1 is as good as LRU, above is worse
//! ```
//!
//! Pairs of a trace and a size of memory depend on one another: those of a trace share its habits. So the interval is drawn
//! by trace, all of its sizes with it. It says how the mean would move with other traces of the same kind; it says nothing
//! of kinds that are not among them.

use super::Pair;

/// The optimum gains less than this share of all uses on LRU: there is next to nothing to divide by.
const GAP_MIN: f64 = 0.005;
/// The number of draws of traces.
const DRAWS: usize = 10_000;
/// The share of draws on either side of the interval.
const TAIL: f64 = 0.025;

/// A mean with the interval that 95 of 100 draws of traces stay in; without one if there is a single trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Mean {
    pub(super) value: f64,
    pub(super) interval: Option<(f64, f64)>,
}

impl Pair {
    /// Whether there is a significant gap.
    pub(super) fn has_gap(&self) -> bool {
        (self.lru as f64 - self.opt as f64) > GAP_MIN * self.uses as f64
    }

    /// The gap left with this number of misses.
    pub(super) fn gap_left(&self, misses: u64) -> f64 {
        (misses as f64 - self.opt as f64) / (self.lru as f64 - self.opt as f64)
    }

    /// Misses for each of LRU's.
    pub(super) fn of_lru(&self, misses: u64) -> f64 {
        misses as f64 / (self.lru as f64).max(1.0)
    }
}

/// The mean of `values`, each with the number of its trace; `None` of none.
pub(super) fn mean(values: &[(usize, f64)], seed: u64) -> Option<Mean> {
    if values.is_empty() {
        return None;
    }
    let mut traces: Vec<(usize, f64, f64)> = Vec::new();
    for &(trace, value) in values {
        match traces.iter_mut().find(|(of, ..)| *of == trace) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + value, *count + 1.0),
            None => traces.push((trace, value, 1.0)),
        }
    }
    let total = |drawn: &mut dyn Iterator<Item = usize>| {
        let (sum, count) = drawn.fold((0.0, 0.0), |(sum, count), n| {
            (sum + traces[n].1, count + traces[n].2)
        });
        sum / count
    };
    let value = total(&mut (0..traces.len()));
    if traces.len() == 1 {
        return Some(Mean {
            value,
            interval: None,
        });
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| total(&mut (0..traces.len()).map(|_| random.usize(..traces.len()))))
        .collect();
    means.sort_by(f64::total_cmp);
    let tail = (DRAWS as f64 * TAIL) as usize;
    Some(Mean {
        value,
        interval: Some((means[tail], means[DRAWS - 1 - tail])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(opt: u64, lru: u64) -> Pair {
        Pair {
            trace: 0,
            percent: 1.0,
            frames: 1,
            uses: 1000,
            opt,
            lru,
            misses: Vec::new(),
        }
    }

    #[test]
    fn the_gap_left_is_nothing_at_the_optimum_and_all_of_it_at_lru() {
        let pair = pair(100, 300);
        assert_eq!(
            [100, 200, 300, 340].map(|misses| pair.gap_left(misses)),
            [0.0, 0.5, 1.0, 1.2]
        );
        assert_eq!(pair.of_lru(330), 1.1);
    }

    #[test]
    fn no_gap_where_lru_is_the_optimum_or_nearly() {
        assert!(!pair(100, 100).has_gap());
        assert!(!pair(100, 105).has_gap());
        assert!(pair(100, 106).has_gap());
    }

    #[test]
    fn an_interval_holds_its_mean_and_comes_of_traces_not_of_pairs() {
        let of = |values: &[(usize, f64)]| mean(values, 1).unwrap();
        let two = of(&[(0, 0.0), (0, 0.2), (1, 1.0)]);
        assert!((two.value - 0.4).abs() < 1e-9);
        // With two traces one of them is often drawn twice.
        assert_eq!(two.interval, Some((0.1, 1.0)));
        let many: Vec<_> = (0..100).map(|n| (n, f64::from(n as u32 % 2))).collect();
        let (low, high) = of(&many).interval.unwrap();
        assert!(
            (0.38..0.42).contains(&low) && (0.58..0.62).contains(&high),
            "{low} {high}"
        );
        assert_eq!(mean(&many, 1), mean(&many, 1));
        assert_eq!(
            of(&[(3, 0.5)]),
            Mean {
                value: 0.5,
                interval: None
            }
        );
        assert_eq!(mean(&[], 1), None);
    }
}
