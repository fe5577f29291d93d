//! Tables and sentences of the experiment.

use super::gaps::{self, Mean};
use super::{EXPERIMENT, Load, Options, Pair, charts};
use crate::report::{Metric, Report, RowName, Table, median};
use millpond::internal::quantity::{number, number_tick};
use millpond_sim::policy::Model;

/// A policy with its result over all pairs.
pub(super) struct Judged {
    pub(super) model: Model,
    /// Its place among the models.
    pub(super) n: usize,
    /// The gap left; `None` if no pair has one.
    pub(super) gap: Option<Mean>,
    median: Option<f64>,
    /// The most misses against LRU's, and the pair that has them.
    worst: Option<(f64, usize)>,
}

pub(super) fn report(
    options: &Options,
    models: &[Model],
    sizes: &[f64],
    loads: &[Load],
    pairs: &[Pair],
) -> Report {
    let judged = judge(models, pairs, options.seed);
    let with_gap = pairs.iter().filter(|pair| pair.has_gap()).count();
    let mut report = Report {
        title: "policies: how much of LRU's gap to the optimum each leaves".into(),
        intro: vec![about(sizes, loads, pairs, with_gap)],
        answers: answers(&judged, pairs, loads, options.seed),
        tables: vec![
            summary(&judged, pairs, loads),
            by_size(&judged, sizes, pairs),
            by_pair(models, pairs, loads),
        ],
        charts: charts::charts(&judged, models, sizes, loads, pairs),
        definitions: DEFINITIONS.to_vec(),
        metrics: metrics(&judged, models, pairs, loads),
        ..Report::default()
    };
    if with_gap < pairs.len() {
        report.notes.push(format!(
            "{} of {} pairs are left out of the gaps: the optimum gains less than 0.5 % of the uses on LRU there. They count in \
             the worst.",
            pairs.len() - with_gap,
            pairs.len()
        ));
    }
    report
}

fn judge(models: &[Model], pairs: &[Pair], seed: u64) -> Vec<Judged> {
    let mut judged: Vec<Judged> = models
        .iter()
        .enumerate()
        .map(|(n, &model)| {
            let gaps = gaps_of(n, pairs);
            let values: Vec<f64> = gaps.iter().map(|&(_, gap)| gap).collect();
            let of_lru = pairs.iter().enumerate();
            Judged {
                model,
                n,
                gap: gaps::mean(&gaps, seed),
                median: median(&values),
                worst: of_lru
                    .map(|(at, pair)| (pair.of_lru(pair.misses[n]), at))
                    .max_by(|a, b| a.0.total_cmp(&b.0)),
            }
        })
        .collect();
    let value = |judged: &Judged| judged.gap.map_or(f64::MAX, |mean| mean.value);
    judged.sort_by(|a, b| value(a).total_cmp(&value(b)));
    judged
}

/// The gap left of model `n` in each pair that has one, with the pair's trace.
fn gaps_of(n: usize, pairs: &[Pair]) -> Vec<(usize, f64)> {
    let with_gap = pairs.iter().filter(|pair| pair.has_gap());
    with_gap
        .map(|pair| (pair.trace, pair.gap_left(pair.misses[n])))
        .collect()
}

fn about(sizes: &[f64], loads: &[Load], pairs: &[Pair], with_gap: usize) -> String {
    let uses: u64 = loads.iter().map(|load| load.uses.len() as u64).sum();
    let sizes: Vec<String> = sizes.iter().map(|&size| percent(size)).collect();
    format!(
        "{} of {} with memory for {} of the pages, {} pairs, {with_gap} of them with a gap between LRU and the optimum. One \
         page in at a time, nothing read ahead; every use counts as a read.",
        plural(uses as usize, "use"),
        plural(loads.len(), "trace"),
        sizes.join(", "),
        pairs.len()
    )
}

fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn percent(size: f64) -> String {
    format!("{} %", number_tick(size))
}

fn interval(mean: &Mean) -> String {
    mean.interval
        .map_or(String::new(), |(low, high)| format!("{low:.3}..{high:.3}"))
}

fn in_words(mean: &Mean) -> String {
    match mean.interval {
        Some((low, high)) => format!("{:.3} ({low:.3} to {high:.3})", mean.value),
        None => format!("{:.3}", mean.value),
    }
}

fn place(pair: &Pair, loads: &[Load]) -> String {
    format!("{} at {}", loads[pair.trace].name, percent(pair.percent))
}

fn answers(judged: &[Judged], pairs: &[Pair], loads: &[Load], seed: u64) -> Vec<String> {
    let Some(own) = judged.iter().find(|judged| judged.model == Model::Millpond) else {
        return Vec::new();
    };
    let mut answers = Vec::new();
    let other = judged.iter().find(|judged| judged.model != Model::Millpond);
    if let Some(gap) = &own.gap {
        answers.push(format!(
            "Millpond leaves {} of LRU's gap to the optimum.",
            in_words(gap)
        ));
    }
    if let Some((other, gap)) = other.and_then(|other| Some((other, other.gap.as_ref()?))) {
        // Of the same pairs, so that what is hard for both says nothing.
        let apart: Vec<(usize, f64)> = gaps_of(own.n, pairs)
            .into_iter()
            .zip(gaps_of(other.n, pairs))
            .map(|((trace, own), (_, other))| (trace, own - other))
            .collect();
        if let Some(apart) = gaps::mean(&apart, seed) {
            let shown = match apart.interval {
                Some((_, high)) if high < 0.0 => "Millpond leaves less",
                Some((low, _)) if low > 0.0 => "Millpond leaves more",
                Some(_) => "Not shown to be different",
                None => "One trace has no interval",
            };
            answers.push(format!(
                "{shown}: the best of the others is {} with {}; Millpond less that is {}.",
                other.model.title(),
                in_words(gap),
                in_words(&apart)
            ));
        }
    }
    if let Some((times, at)) = own.worst {
        answers.push(format!(
            "At worst Millpond misses {times:.3} times as often as LRU: {}.",
            place(&pairs[at], loads)
        ));
    }
    answers
}

fn summary(judged: &[Judged], pairs: &[Pair], loads: &[Load]) -> Table {
    let three = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
    let head = ["policy", "mean", "95 %", "median", "worst of LRU", "where"];
    let mut table = Table::new("The gap left, over all pairs", head);
    for judged in judged {
        let worst = judged.worst;
        let cells = [
            three(judged.gap.map(|gap| gap.value)),
            judged.gap.as_ref().map_or(String::new(), interval),
            three(judged.median),
            three(worst.map(|(times, _)| times)),
            worst.map_or(String::new(), |(_, at)| place(&pairs[at], loads)),
        ];
        table.push(judged.model.title(), cells);
    }
    table
}

/// The mean gap of model `n` at one size.
pub(super) fn mean_at(n: usize, percent: f64, pairs: &[Pair]) -> Option<f64> {
    let at: Vec<Pair> = pairs
        .iter()
        .filter(|pair| pair.percent == percent)
        .cloned()
        .collect();
    let gaps = gaps_of(n, &at);
    (!gaps.is_empty()).then(|| gaps.iter().map(|&(_, gap)| gap).sum::<f64>() / gaps.len() as f64)
}

fn by_size(judged: &[Judged], sizes: &[f64], pairs: &[Pair]) -> Table {
    let head = sizes.iter().map(|&size| percent(size));
    let head = ["policy".to_owned()].into_iter().chain(head);
    let mut table = Table::new("The mean gap left, by size of memory", head);
    for judged in judged {
        let cell =
            |&size: &f64| mean_at(judged.n, size, pairs).map_or(String::new(), |gap| format!("{gap:.3}"));
        table.push(judged.model.title(), sizes.iter().map(cell));
    }
    table
}

fn by_pair(models: &[Model], pairs: &[Pair], loads: &[Load]) -> Table {
    let ratio = |misses: u64, pair: &Pair| number(100.0 * misses as f64 / pair.uses as f64);
    let head = ["trace", "pages", "OPT %", "LRU %"].into_iter();
    let mut table = Table::new(
        "The gap left, pair by pair; misses of OPT and LRU in percent of the uses",
        head.chain(models.iter().map(|model| model.title())),
    );
    for pair in pairs {
        let bounds = [
            pair.frames.to_string(),
            ratio(pair.opt, pair),
            ratio(pair.lru, pair),
        ];
        let gap = |&misses: &u64| {
            let gap = pair.has_gap().then(|| format!("{:.2}", pair.gap_left(misses)));
            gap.unwrap_or("-".into())
        };
        let label = format!("{} {}", loads[pair.trace].name, percent(pair.percent));
        table.push(label, bounds.into_iter().chain(pair.misses.iter().map(gap)));
    }
    table
}

fn metrics(judged: &[Judged], models: &[Model], pairs: &[Pair], loads: &[Load]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    let mut push = |workload: &str, variant: String, metric: &str, unit: &str, value: f64| {
        let row = RowName::new("model", "", variant);
        metrics.push(Metric::exact(
            EXPERIMENT.name,
            workload,
            &row,
            metric,
            unit,
            value,
        ));
    };
    for judged in judged {
        let name = judged.model.name();
        if let Some(gap) = &judged.gap {
            push("all", name.into(), "gap_left_mean", "", gap.value);
            if let Some((low, high)) = gap.interval {
                push("all", name.into(), "gap_left_mean_low", "", low);
                push("all", name.into(), "gap_left_mean_high", "", high);
            }
        }
        if let Some(median) = judged.median {
            push("all", name.into(), "gap_left_median", "", median);
        }
        if let Some((times, _)) = judged.worst {
            push("all", name.into(), "misses_of_lru_worst", "", times);
        }
    }
    for pair in pairs {
        let bounds = [(Model::Opt, pair.opt), (Model::Lru, pair.lru)];
        let all = bounds
            .into_iter()
            .chain(models.iter().copied().zip(pair.misses.iter().copied()));
        for (model, misses) in all {
            let variant = format!(
                "{} memory={}",
                model.name(),
                percent(pair.percent).replace(' ', "")
            );
            let workload = &loads[pair.trace].name;
            push(workload, variant.clone(), "misses_pages", "pages", misses as f64);
            let ratio = 100.0 * misses as f64 / pair.uses as f64;
            push(workload, variant.clone(), "miss_ratio_percent", "%", ratio);
            if pair.has_gap() {
                push(workload, variant, "gap_left", "", pair.gap_left(misses));
            }
        }
    }
    metrics
}

const DEFINITIONS: [(&str, &str); 4] = [
    (
        "gap left",
        "(misses - OPT) / (LRU - OPT): 0 is the optimum that knows the future, 1 is LRU, more is worse than LRU.",
    ),
    (
        "95 %",
        "The interval of the mean by the bootstrap: the same number of traces is drawn with replacement, all sizes of a \
         trace together, 10,000 times; 95 of 100 means are within. It says nothing about kinds of load that are not among the traces.",
    ),
    (
        "worst of LRU",
        "The largest ratio of misses to LRU's over all pairs, including those without a gap.",
    ),
    (
        "two lists",
        "Active and inactive lists with refault detection, as in Linux 5.5; Millpond is its own replacement rule alone, as \
         in its core, with all pages in one file.",
    ),
];
