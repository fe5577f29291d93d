//! The meaning of the numbers, in plain sentences, with the post's for comparison.

use super::{DEADLOCK, IN_TRANSIT, NEWS};
use millpond::internal::quantity::{micros, number};

type Of<'a> = &'a dyn Fn(&str, &str, &str) -> Option<f64>;

/// The sentences. `of`: a workload's row's metric.
pub(super) fn of(of: Of<'_>) -> Vec<String> {
    [
        load(of),
        smoothness(of),
        writes(of),
        millpond(of),
        in_transit(of),
        deadlock(of),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn load(of: Of<'_>) -> Option<String> {
    let load = |row| of(NEWS, row, "load_mean");
    let (first, order, laps) = (load("clean-first")?, load("queue-order")?, load("two-laps")?);
    Some(format!(
        "Load: {} with clean pages first (the post: 1-2), {} in queue order (50-150), {} with two laps (1-2); queue order has {:.0} \
         times that of two laps.",
        number(first),
        number(order),
        number(laps),
        order / laps
    ))
}

fn smoothness(of: Of<'_>) -> Option<String> {
    let variation = |row| of(NEWS, row, "pageouts_variation");
    let (first, laps) = (variation("clean-first")?, variation("two-laps")?);
    Some(format!(
        "Pageouts vary by {:.0}% of their mean with clean pages first and by {:.0}% with two laps (the post: \"very inconsistent\" \
         and \"very consistent\").",
        100.0 * first,
        100.0 * laps
    ))
}

fn writes(of: Of<'_>) -> Option<String> {
    let pages = |row| of(NEWS, row, "pageouts_per_s");
    let (order, laps) = (pages("queue-order")?, pages("two-laps")?);
    let rescued = of(NEWS, "two-laps", "rescued_dirty_pages")?;
    Some(format!(
        "Two laps wrote {} pages a second where queue order wrote {}: {} dirty pages were in use again before their second meeting.",
        number(laps),
        number(order),
        number(rescued)
    ))
}

fn millpond(of: Of<'_>) -> Option<String> {
    let [ours, laps] = ["millpond", "two-laps"].map(|row| {
        let [articles, p99] =
            ["articles_per_s", "article_latency_p99_us"].map(|metric| of(NEWS, row, metric));
        articles.zip(p99)
    });
    let ((ours, our_p99), (laps, laps_p99)) = (ours?, laps?);
    Some(format!(
        "Millpond served {} articles a second with a p99 of {}, two laps {} with {}.",
        number(ours),
        micros(our_p99),
        number(laps),
        micros(laps_p99)
    ))
}

fn in_transit(of: Of<'_>) -> Option<String> {
    let value = |row, metric| of(IN_TRANSIT, row, metric);
    let [free, limited] = ["no-limit", "high-1M-low-512K"];
    let most = |row| Some(value(row, "in_transit_max_kib")? / 1024.0);
    let p99 = |row| value(row, "article_latency_p99_us").map(micros);
    Some(format!(
        "In transit were up to {:.1} MiB without a limit (the post: up to 8 MB) and {:.1} MiB with it; an article's p99 went from {} \
         to {}.",
        most(free)?,
        most(limited)?,
        p99(free)?,
        p99(limited)?
    ))
}

fn deadlock(of: Of<'_>) -> Option<String> {
    let stuck = |which| of(DEADLOCK, &format!("two-laps {which} reserve"), "deadlocks");
    let say = |deadlocks: f64| {
        if deadlocks > 0.0 {
            "stood still for good"
        } else {
            "went on"
        }
    };
    Some(format!(
        "With nothing but dirty pages the machine {} without the reserve for I/O and {} with it.",
        say(stuck("without")?),
        say(stuck("with")?)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_has_its_numbers() {
        let numbers = |_: &str, row: &str, metric: &str| match (row, metric) {
            ("queue-order", "load_mean") => Some(75.0),
            (_, "load_mean") => Some(2.5),
            ("two-laps without reserve", _) => Some(1.0),
            ("two-laps with reserve", _) => Some(0.0),
            _ => None,
        };
        let sentences = of(&numbers);
        assert_eq!(
            sentences[0],
            "Load: 2.50 with clean pages first (the post: 1-2), 75.0 in queue order (50-150), 2.50 with two laps (1-2); queue order \
             has 30 times that of two laps."
        );
        assert_eq!(
            sentences[1],
            "With nothing but dirty pages the machine stood still for good without the reserve for I/O and went on with it."
        );
        assert_eq!(sentences.len(), 2);
    }
}
