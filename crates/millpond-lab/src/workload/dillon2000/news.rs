//! The metrics of a run of the news: on real files as in virtual time.

use crate::outcome::{Outcome, Series};
use millpond_core::units::Nanos;

/// Pageouts are counted over this many seconds, as `vmstat 5` does.
pub(crate) const BIN_S: usize = 5;

/// The notes of each second, in the measured part.
pub(crate) struct Seconds {
    /// Mean number of readers that waited.
    pub(crate) load: Vec<f64>,
    /// Pages written.
    pub(crate) pageouts: Vec<f64>,
}

/// Mean and coefficient of variation.
pub(crate) fn mean_and_variation(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt();
    (mean, (mean > 0.0).then(|| deviation / mean))
}

/// Means over this many seconds each.
fn binned(seconds: &[f64], bin: usize) -> Vec<f64> {
    let bins = seconds.chunks_exact(bin);
    bins.map(|values| values.iter().sum::<f64>() / bin as f64)
        .collect()
}

fn series(name: &str, unit: &str, values: &[f64], bin: usize) -> Series {
    Series {
        name: name.into(),
        unit: unit.into(),
        step_s: bin as f64,
        values: values.iter().map(|&value| Some(value)).collect(),
    }
}

/// The metrics of every row of the news.
pub(crate) fn news(seconds: &Seconds, mut latencies: Vec<Nanos>, busy_percent: Option<f64>) -> Outcome {
    let mut outcome = Outcome::default();
    // Each second of a run that has few.
    let bin = if seconds.load.len() < 2 * BIN_S { 1 } else { BIN_S };
    let (load, pageouts) = (binned(&seconds.load, bin), binned(&seconds.pageouts, bin));
    let (mean, variation) = mean_and_variation(&load);
    outcome.push("load_mean", "1", mean);
    outcome.push("load_max", "1", load.iter().copied().fold(0.0, f64::max));
    if let Some(variation) = variation {
        outcome.push("load_variation", "1", variation);
    }
    let length = seconds.load.len().max(1) as f64;
    outcome.push("articles_per_s", "1/s", latencies.len() as f64 / length);
    push_latencies("article_latency", &mut latencies, &mut outcome);
    let (mean, variation) = mean_and_variation(&pageouts);
    outcome.push("pageouts_per_s", "1/s", mean);
    if let Some(variation) = variation {
        outcome.push("pageouts_variation", "1", variation);
    }
    if let Some(busy) = busy_percent {
        outcome.push("disk_busy_percent", "%", busy);
    }
    outcome.series.push(series("load", "1", &load, bin));
    outcome
        .series
        .push(series("pageouts_per_s", "1/s", &pageouts, bin));
    outcome
}

/// Percentiles by nearest rank.
pub(crate) fn push_latencies(name: &str, latencies: &mut [Nanos], outcome: &mut Outcome) {
    latencies.sort_unstable();
    let Some(last) = latencies.len().checked_sub(1) else {
        return;
    };
    for (share, percentile) in [(0.5, "p50"), (0.99, "p99"), (1.0, "max")] {
        let rank = (share * latencies.len() as f64).ceil() as usize;
        let us = latencies[rank.clamp(1, last + 1) - 1].0 as f64 / 1e3;
        outcome.push(&format!("{name}_{percentile}_us"), "us", us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_deviation_by_mean_over_five_seconds() {
        let seconds = Seconds {
            load: vec![1.0; 20],
            pageouts: [10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 30.0].repeat(2),
        };
        let outcome = news(&seconds, vec![Nanos(3000), Nanos(1000)], Some(75.0));
        let of = |name| outcome.value(name).unwrap();
        assert_eq!((of("load_mean"), of("load_variation")), (1.0, 0.0));
        assert_eq!((of("pageouts_per_s"), of("pageouts_variation")), (4.0, 0.5));
        assert_eq!(
            (of("article_latency_p50_us"), of("article_latency_p99_us")),
            (1.0, 3.0)
        );
        assert_eq!(of("articles_per_s"), 0.1);
    }
}
