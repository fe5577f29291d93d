//! Reads as a picture has them: how many in each tenth of a second took how long, so that each read has its place in it
//! and none is lost in a mean.
//!
//! A class of latencies is a twentieth of a decade: 12 % wide, less than a dot of any screen.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Classes to a power of ten.
const CLASSES_PER_DECADE: f64 = 20.0;
/// From 1 us to 100 s; faster or slower values count as the first or the last.
const CLASSES: usize = 160;

/// The counts by class: (class, count), without empty ones.
pub type Counts = Vec<(u8, u32)>;

/// The class of a latency.
fn class_of(latency: Duration) -> usize {
    let us = latency.as_nanos() as f64 / 1e3;
    // What is below 1 us has a negative logarithm, which becomes 0.
    ((us.log10() * CLASSES_PER_DECADE) as usize).min(CLASSES - 1)
}

/// The middle of a class, in microseconds.
pub fn class_us(class: u8) -> f64 {
    10_f64.powf((f64::from(class) + 0.5) / CLASSES_PER_DECADE)
}

/// The bounds of a class, in microseconds.
pub fn bounds_us(class: u8) -> [f64; 2] {
    [0.0, 1.0].map(|to| 10_f64.powf((f64::from(class) + to) / CLASSES_PER_DECADE))
}

/// The latency that a `share` (0 to 1) of these did not exceed, in microseconds, to the width of a class.
pub fn percentile_us(counts: &Counts, share: f64) -> Option<f64> {
    let mut sorted = counts.clone();
    sorted.sort_unstable();
    let all: u64 = sorted.iter().map(|&(_, count)| u64::from(count)).sum();
    let rank = ((share * all as f64).ceil() as u64).max(1);
    let mut seen = 0;
    let found = sorted.iter().find(|&&(_, count)| {
        seen += u64::from(count);
        seen >= rank
    });
    found.map(|&(class, _)| class_us(class))
}

/// What has been since it was last taken. Adding takes a few tens of nanoseconds and no lock.
#[derive(Debug)]
pub(crate) struct Recent(Vec<AtomicU32>);

impl Recent {
    pub(crate) fn new() -> Recent {
        Recent((0..CLASSES).map(|_| AtomicU32::new(0)).collect())
    }

    pub(crate) fn add(&self, latency: Duration) {
        self.0[class_of(latency)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Counts {
        let classes = self.0.iter().enumerate();
        let counts = classes.map(|(class, count)| (class as u8, count.swap(0, Ordering::Relaxed)));
        counts.filter(|&(_, count)| count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_is_in_one_class_near_its_latency() {
        let recent = Recent::new();
        for us in [0.5, 1.0, 45.0, 45.2, 9630.0, 3.6e9] {
            recent.add(Duration::from_nanos((us * 1e3) as u64));
        }
        let counts = recent.take();
        assert_eq!(counts.iter().map(|c| c.1).sum::<u32>(), 6);
        assert!(recent.take().is_empty(), "they are taken once");
        for (us, found) in
            [(1.0, 0.0), (45.0, 0.4), (9630.0, 0.8)].map(|(us, share)| (us, percentile_us(&counts, share)))
        {
            let found = found.unwrap();
            assert!((found / us).ln().abs() < 0.12, "{us}: {found}");
        }
        assert_eq!(percentile_us(&Vec::new(), 0.5), None);
    }
}
