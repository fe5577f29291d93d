//! The experiment's charts: the mean gap of each policy, the same by size of memory, and each trace's misses.

use super::report::{Judged, mean_at};
use super::{Load, Pair};
use crate::report::{Axis, Chart, Line, Scale};
use millpond::internal::quantity::number_tick;
use millpond_sim::policy::Model;

/// One look for a model in all charts.
fn look(model: Model) -> usize {
    Model::ALL.iter().position(|&other| other == model).unwrap_or(0)
}

pub(super) fn charts(
    judged: &[Judged],
    models: &[Model],
    sizes: &[f64],
    loads: &[Load],
    pairs: &[Pair],
) -> Vec<Chart> {
    let mut charts = vec![means(judged)];
    if sizes.len() > 1 {
        charts.push(by_size(judged, sizes, pairs));
        charts.extend(
            loads
                .iter()
                .enumerate()
                .map(|(n, load)| of_trace(n, load, models, pairs)),
        );
    }
    charts
}

fn means(judged: &[Judged]) -> Chart {
    let names: Vec<&str> = judged.iter().map(|judged| judged.model.title()).collect();
    let bars = |name: &str, look, of: &dyn Fn(&Judged) -> Option<f64>| {
        Line::bars(name, look, &names, |at| of(&judged[at]))
    };
    let end = |judged: &Judged, of: fn((f64, f64)) -> f64| judged.gap.and_then(|gap| gap.interval).map(of);
    Chart {
        title: "The gap left, in the mean of all pairs".into(),
        caption: "0 is the optimum, 1 is LRU. Beside the mean the ends of its interval, by trace.".into(),
        x: Axis::new("", Scale::Each, number_tick),
        y: Axis::new("of LRU's gap to the optimum", Scale::Linear, number_tick),
        lines: vec![
            bars("low end of 95 %", 2, &|judged| end(judged, |ends| ends.0)),
            bars("mean", 1, &|judged| judged.gap.map(|gap| gap.value)),
            bars("high end of 95 %", 0, &|judged| end(judged, |ends| ends.1)),
        ],
    }
}

fn by_size(judged: &[Judged], sizes: &[f64], pairs: &[Pair]) -> Chart {
    let lines = judged.iter().map(|judged| {
        let points = sizes.iter().map(|&size| (size, mean_at(judged.n, size, pairs)));
        Line::new(judged.model.title(), look(judged.model), points.collect())
    });
    Chart {
        title: "The gap left, by size of memory".into(),
        caption: "The mean over all traces that have a gap at that size.".into(),
        x: Axis::new("memory, % of the pages", Scale::Log, number_tick),
        y: Axis::new("of LRU's gap to the optimum", Scale::Linear, number_tick),
        lines: lines.collect(),
    }
}

fn of_trace(trace: usize, load: &Load, models: &[Model], pairs: &[Pair]) -> Chart {
    let own: Vec<&Pair> = pairs.iter().filter(|pair| pair.trace == trace).collect();
    let line = |model: Model, misses: &dyn Fn(&Pair) -> u64| Line {
        name: model.title().into(),
        look: look(model),
        is_reference: matches!(model, Model::Opt | Model::Lru),
        labels: Vec::new(),
        points: own
            .iter()
            .map(|pair| (pair.percent, Some(100.0 * misses(pair) as f64 / pair.uses as f64)))
            .collect(),
    };
    let mut lines = vec![
        line(Model::Opt, &|pair| pair.opt),
        line(Model::Lru, &|pair| pair.lru),
    ];
    lines.extend(
        models
            .iter()
            .enumerate()
            .map(|(n, &model)| line(model, &|pair| pair.misses[n])),
    );
    Chart {
        title: format!("Misses of {}", load.name),
        caption: format!(
            "{} uses of {} pages. Dashed: LRU and the optimum.",
            load.uses.len(),
            load.pages
        ),
        x: Axis::new("memory, % of the pages", Scale::Log, number_tick),
        y: Axis::new("% of uses that miss", Scale::Linear, number_tick),
        lines,
    }
}
