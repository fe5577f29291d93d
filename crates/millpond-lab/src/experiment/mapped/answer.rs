//! The report's first lines: for each load the kernel's row that suits it beside Millpond's mapping.

use super::{HOT_SET, WRITERS};
use crate::report::verdict::{Circumstances, Figure, Side, compare, time, two_digits};
use crate::report::{Metric, RowName};
use crate::workload::mapped::{IN_THREAD, MAPPING, NORMAL_128K, RANDOM};

const RATE: Figure = Figure::new("it made", "accesses_per_s", two_digits)
    .higher()
    .times("as many accesses");
const PROCESSOR: Figure =
    Figure::new("an access took", "processor_per_access_us", time).cost("as much processor");

const OF_HOT_SET: [Figure; 3] = [
    Figure::new("hot pages in memory", "hot_hits_percent", percent).higher(),
    RATE,
    PROCESSOR,
];
const OF_WRITERS: [Figure; 3] = [
    Figure::new("one in 1000", "access_p999_us", time),
    RATE,
    Figure::new("writers wrote", "writers_mb_per_s", two_digits)
        .higher()
        .cost("as much"),
];
const OF_OTHERS: [Figure; 3] = [RATE, Figure::new("one in 100", "access_p99_us", time), PROCESSOR];

/// Loads that read-ahead serves better.
const AHEAD: [&str; 5] = ["records", "sequential", HOT_SET, "vectors", "weights"];

/// A line for each of Millpond's mappings.
pub(super) fn of(load: &'static str, names: &[RowName], metrics: &[Metric]) -> Vec<String> {
    let kernel = if AHEAD.contains(&load) {
        NORMAL_128K
    } else {
        RANDOM
    };
    let find = |variant: &str| names.iter().find(|row| row.variant == variant);
    let Some(before) = find(kernel) else {
        return Vec::new();
    };
    let rows = [MAPPING, IN_THREAD].into_iter().filter_map(find);
    let figures = match load {
        HOT_SET => &OF_HOT_SET,
        WRITERS => &OF_WRITERS,
        _ => &OF_OTHERS,
    };
    let lines = rows.filter_map(|after| {
        let pair = [before, after].map(|row| Side { row, workload: load });
        let verdict = compare(metrics, pair, figures, &Circumstances::default())?;
        let sides = format!("{load}: the kernel ({kernel}) -> Millpond ({})", after.variant);
        Some(verdict.between(&sides))
    });
    lines.collect()
}

fn percent(percent: f64) -> String {
    format!("{percent:.2} %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::runs;

    #[test]
    fn a_load_stands_beside_the_kernel_with_the_advice_that_suits_it() {
        let of_row = |target, variant, values: &[f64]| {
            let mut own = runs(target, variant, "accesses_per_s", values);
            own.workload = "uniform-1".into();
            own
        };
        let (kernel, engine) = (
            of_row("kernel", RANDOM, &[20_000.0, 21_000.0]),
            of_row("engine", MAPPING, &[10_000.0, 11_000.0]),
        );
        let names = [kernel.row.clone(), engine.row.clone()];
        let metrics: Vec<Metric> = [kernel, engine]
            .iter()
            .flat_map(|runs| runs.metrics("mapped"))
            .collect();
        assert_eq!(
            of("uniform-1", &names, &metrics),
            [
                "uniform-1: the kernel (random) -> Millpond (mapping): worse. It made 0.51 times as many accesses."
            ]
        );
        assert!(of("records", &names, &metrics).is_empty());
    }
}
