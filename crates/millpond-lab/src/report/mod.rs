//! Reports: the same content as a text table, as JSON lines and as an HTML page.
//!
//! Nothing here knows an experiment. A report is rows of metrics (a median and every run's value), tables
//! that pick some of them, charts, sentences. Experiments fill it in; the renderers escape and lay out.

mod bars;
pub mod html;
pub mod json;
mod names;
pub mod svg;
pub mod table;
pub mod verdict;

use crate::outcome::{Outcome, Setting};
use millpond::internal::quantity::number_tick;
use serde::{Deserialize, Serialize};
use table::Column;

/// One metric of one row over all runs: one JSON line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The experiment: `axboe2016`.
    pub experiment: String,
    /// The workload: `writers-and-reader`.
    pub workload: String,
    /// The target: `kernel`.
    pub target: String,
    /// The device: `real`, `hdd`, `sata-ssd`, `nvme,channels=8`.
    pub device: String,
    /// The variant: `goal`, `kernel mq-deadline wbt=75000us`.
    pub variant: String,
    /// A stable name that ends in its unit: `reader_latency_p99_us`.
    pub metric: String,
    /// The unit.
    pub unit: String,
    /// The median of `runs`.
    pub value: f64,
    /// Every run's value, in the order of the runs.
    pub runs: Vec<f64>,
}

/// The subject of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowName {
    /// The target.
    pub target: String,
    /// The device.
    pub device: String,
    /// The variant as shown.
    pub variant: String,
}

impl RowName {
    /// A row.
    pub fn new(target: &str, device: impl Into<String>, variant: impl Into<String>) -> RowName {
        RowName {
            target: target.into(),
            device: device.into(),
            variant: variant.into(),
        }
    }
}

impl Metric {
    /// What one run says that would say the same again.
    pub fn exact(
        experiment: &str,
        workload: &str,
        row: &RowName,
        metric: &str,
        unit: &str,
        value: f64,
    ) -> Metric {
        Metric {
            experiment: experiment.into(),
            workload: workload.into(),
            target: row.target.clone(),
            device: row.device.clone(),
            variant: row.variant.clone(),
            metric: metric.into(),
            unit: unit.into(),
            value,
            runs: vec![value],
        }
    }
}

/// A report.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The headline.
    pub title: String,
    /// The question and the method, in a paragraph or two.
    pub intro: Vec<String>,
    /// The command that gives this report again.
    pub command: String,
    /// The answer: a line for each comparison, as [`verdict`] makes them, and for each bound or cause beside it. First of all in
    /// text and page.
    pub answers: Vec<String>,
    /// A drawing beneath the answer, as SVG that brings its own style.
    pub picture: Option<String>,
    /// Warnings, in sentences.
    pub notes: Vec<String>,
    /// Tables, the main one first.
    pub tables: Vec<Table>,
    /// Charts.
    pub charts: Vec<Chart>,
    /// Definitions: (word, meaning).
    pub definitions: Vec<(&'static str, &'static str)>,
    /// The machine.
    pub machine: Vec<Setting>,
    /// The settings of each row.
    pub settings: Vec<(String, Vec<Setting>)>,
    /// Printed only on request.
    pub appendices: Vec<Appendix>,
    /// Every metric.
    pub metrics: Vec<Metric>,
}

/// The name of the appendices that say why something was done, or what it waited for.
pub(crate) const REASONS: &str = "reasons";

/// Finished text that a page folds away and the text output has on request.
#[derive(Clone, Debug)]
pub struct Appendix {
    /// The name that requests it; several may have one name.
    pub name: &'static str,
    /// Its headline.
    pub title: String,
    /// Lines, laid out for a fixed width.
    pub text: String,
}

/// A table of finished text.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its headline.
    pub title: String,
    /// The names of its columns, the label's column first.
    pub head: Vec<String>,
    /// Its rows.
    pub rows: Vec<TableRow>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new<S: Into<String>>(title: impl Into<String>, head: impl IntoIterator<Item = S>) -> Table {
        Table {
            title: title.into(),
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn push<C: Into<Cell>>(
        &mut self,
        label: impl Into<String>,
        cells: impl IntoIterator<Item = C>,
    ) {
        self.rows.push(TableRow {
            label: label.into(),
            cells: cells.into_iter().map(Into::into).collect(),
        });
    }
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct TableRow {
    /// The subject of the row.
    pub label: String,
    /// One for each column but the first.
    pub cells: Vec<Cell>,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The value with its unit; empty where there is none.
    pub value: String,
    /// Least and greatest of the runs, `9.63..12.5`; empty for a single run.
    pub spread: String,
}

impl From<String> for Cell {
    /// A text, or a value without a spread.
    fn from(value: String) -> Cell {
        Cell {
            value,
            spread: String::new(),
        }
    }
}

/// A chart: lines, or bars where the horizontal axis is of names ([`Scale::Each`]).
#[derive(Clone, Debug)]
pub struct Chart {
    /// Its headline.
    pub title: String,
    /// What it shows, in a sentence or two.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, in the order of the tables' rows.
    pub lines: Vec<Line>,
}

/// An axis of a chart.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its quantity, with the unit.
    pub label: String,
    /// The distribution of values over it.
    pub scale: Scale,
    /// The form of a value.
    pub show: fn(f64) -> String,
}

/// The distribution of values over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// Each power of ten takes the same room. Values must be above zero; others are left out.
    Log,
    /// Shares from 0 to 1 such that 90 %, 99 %, 99.9 % … are equally far apart.
    Tail,
    /// Things in an order, at 0, 1, 2 …: bars, with the names of the lines' points below them.
    Each,
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its look: lines of the same number look alike in all charts of a report.
    pub look: usize,
    /// Something to compare the others with: dashed and thin, a bar without a filling.
    pub is_reference: bool,
    /// The points' names; with them the points are dots, which only a reference's line connects. None: a plain line.
    /// Below bars they are the names on the axis.
    pub labels: Vec<String>,
    /// Its points.
    pub points: Points,
}

/// Points (x, y) of a line; `None` is a gap.
pub type Points = Vec<(f64, Option<f64>)>;

impl Chart {
    /// Bars of these columns, one beside the other, over the variant of each row that has one of them. Colours begin with
    /// that of number `look`; a row of a post (target `post`) is a row like any other.
    pub(crate) fn of_rows(
        [title, caption]: [&str; 2],
        y: Axis,
        look: usize,
        columns: &[Column],
        rows: &[RowName],
        metrics: &[Metric],
    ) -> Option<Chart> {
        let has_any = |row: &&RowName| columns.iter().any(|column| column.of(row, metrics).is_some());
        let rows: Vec<&RowName> = rows.iter().filter(has_any).collect();
        let names: Vec<&str> = rows.iter().map(|row| row.variant.as_str()).collect();
        let lines = columns.iter().enumerate().map(|(n, column)| {
            Line::bars(column.head, look + n, &names, |at| {
                Some(column.of(rows[at], metrics)?.value)
            })
        });
        Chart::of_bars(
            [title, caption],
            Axis::new("", Scale::Each, number_tick),
            y,
            lines,
        )
    }

    /// Bars of these rows, one beside the other, over the head of each column that one of them has.
    pub(crate) fn of_columns(
        [title, caption]: [&str; 2],
        x: &str,
        y: Axis,
        columns: &[Column],
        rows: &[RowName],
        metrics: &[Metric],
    ) -> Option<Chart> {
        let columns = table::used(columns, rows, metrics);
        let names: Vec<&str> = columns.iter().map(|column| column.head).collect();
        let lines = rows.iter().enumerate().map(|(n, row)| {
            Line::bars(table::label(row, rows), n, &names, |at| {
                Some(columns[at].of(row, metrics)?.value)
            })
        });
        Chart::of_bars([title, caption], Axis::new(x, Scale::Each, number_tick), y, lines)
    }

    /// `None` if no line has a point.
    fn of_bars(
        [title, caption]: [&str; 2],
        x: Axis,
        y: Axis,
        lines: impl Iterator<Item = Line>,
    ) -> Option<Chart> {
        let lines: Vec<Line> = lines.filter(Line::has_points).collect();
        (!lines.is_empty()).then(|| Chart {
            title: title.into(),
            caption: caption.into(),
            x,
            y,
            lines,
        })
    }
}

impl Axis {
    /// An axis.
    pub fn new(label: &str, scale: Scale, show: fn(f64) -> String) -> Axis {
        Axis {
            label: label.into(),
            scale,
            show,
        }
    }
}

impl Line {
    /// A plain line.
    pub fn new(name: impl Into<String>, look: usize, points: Points) -> Line {
        Line {
            name: name.into(),
            look,
            is_reference: false,
            labels: Vec::new(),
            points,
        }
    }

    /// A bar over each of these names, as high as `value` says of its place among them.
    pub fn bars(
        name: impl Into<String>,
        look: usize,
        names: &[&str],
        value: impl Fn(usize) -> Option<f64>,
    ) -> Line {
        let points = (0..names.len()).map(|n| (n as f64, value(n)));
        Line {
            labels: names.iter().map(|&name| name.into()).collect(),
            ..Line::new(name, look, points.collect())
        }
    }

    /// The same as something to compare the others with.
    #[must_use]
    pub fn reference(self) -> Line {
        Line {
            is_reference: true,
            ..self
        }
    }

    /// Whether it has a point.
    pub fn has_points(&self) -> bool {
        self.points.iter().any(|point| point.1.is_some())
    }
}

/// The outcomes of one row and workload, one for each run.
pub struct Runs {
    /// The row.
    pub row: RowName,
    /// The workload.
    pub workload: String,
    /// One for each run, in their order.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Adds what the first run of each row says of itself: its settings, and its warnings, each once.
    pub(crate) fn add_rows(&mut self, names: &[RowName], results: &[Runs]) {
        for name in names {
            let own = || results.iter().filter(|runs| runs.row == *name);
            let label = table::label(name, names);
            let first = own().flat_map(|runs| &runs.outcomes).next();
            if let Some(outcome) = first.filter(|outcome| !outcome.settings.is_empty()) {
                self.settings.push((label.clone(), outcome.settings.clone()));
            }
            let outcomes = own().flat_map(|runs| &runs.outcomes);
            for warning in outcomes.flat_map(|outcome| &outcome.warnings) {
                let note = format!("{label}: {warning}");
                let note = format!("{}.", note.trim_end_matches('.'));
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
        }
    }

    /// Adds what the slowest calls of each row's first run waited for, if the target reports it.
    pub(crate) fn add_slowest(&mut self, names: &[RowName], results: &[Runs]) {
        let mut text = String::new();
        for runs in results {
            let who = format!("{}, {}", table::label(&runs.row, names), runs.workload);
            for sentence in runs
                .outcomes
                .first()
                .iter()
                .flat_map(|outcome| &outcome.explanations)
            {
                text += &table::wrap(&format!("{who}: {sentence}."), "  ", table::WIDTH);
            }
        }
        if !text.is_empty() {
            self.appendices.push(Appendix {
                name: REASONS,
                title: "What the slowest calls waited for, in the first run".into(),
                text,
            });
        }
    }

    /// Calls rows of tables, lines of charts and settings by other names.
    pub(crate) fn rename(&mut self, names: &[(&str, &str)]) {
        let rename = |name: &mut String| {
            let found = names.iter().find(|(from, _)| {
                name.strip_prefix(from)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
            });
            if let Some((_, to)) = found {
                *name = (*to).into();
            }
        };
        let rows = self.tables.iter_mut().flat_map(|table| &mut table.rows);
        rows.for_each(|row| rename(&mut row.label));
        let lines = self.charts.iter_mut().flat_map(|chart| &mut chart.lines);
        lines.for_each(|line| rename(&mut line.name));
        self.settings.iter_mut().for_each(|(name, _)| rename(name));
    }
}

/// The metrics of all runs of an experiment.
pub fn metrics(results: &[Runs], experiment: &str) -> Vec<Metric> {
    results.iter().flat_map(|runs| runs.metrics(experiment)).collect()
}

impl Runs {
    /// A row that ran once, in virtual time.
    pub fn single(row: RowName, workload: impl Into<String>, outcome: Outcome) -> Runs {
        Runs {
            row,
            workload: workload.into(),
            outcomes: vec![outcome],
        }
    }

    /// The metrics of these runs, each with its median.
    pub fn metrics(&self, experiment: &str) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = Vec::new();
        for measure in self.outcomes.iter().flat_map(|outcome| &outcome.measures) {
            match metrics.iter_mut().find(|m| m.metric == measure.metric) {
                Some(metric) => metric.runs.push(measure.value),
                None => metrics.push(Metric {
                    experiment: experiment.into(),
                    workload: self.workload.clone(),
                    target: self.row.target.clone(),
                    device: self.row.device.clone(),
                    variant: self.row.variant.clone(),
                    metric: measure.metric.clone(),
                    unit: measure.unit.clone(),
                    value: 0.0,
                    runs: vec![measure.value],
                }),
            }
        }
        for metric in &mut metrics {
            metric.value = median(&metric.runs).unwrap_or_default();
        }
        metrics
    }

    /// The run whose `metric` is the median (the lower one of two): the one that a chart shows.
    pub fn typical(&self, metric: &str) -> Option<&Outcome> {
        let mut by_value: Vec<_> = self
            .outcomes
            .iter()
            .filter_map(|o| Some((o.value(metric)?, o)))
            .collect();
        by_value.sort_by(|a, b| a.0.total_cmp(&b.0));
        match by_value.len() {
            0 => self.outcomes.first(),
            n => Some(by_value[(n - 1) / 2].1),
        }
    }
}

/// The metric of a row in a workload.
pub fn lookup<'a>(metrics: &'a [Metric], row: &RowName, workload: &str, metric: &str) -> Option<&'a Metric> {
    metrics.iter().find(|m| {
        m.metric == metric
            && m.workload == workload
            && m.target == row.target
            && m.device == row.device
            && m.variant == row.variant
    })
}

/// The middle value, or the mean of the two in the middle; none of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[n / 2]),
        n => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(target: &str, variant: &str) -> RowName {
        RowName::new(target, "real", variant)
    }

    pub(crate) fn metric(row: &RowName, workload: &str, metric: &str, runs: &[f64]) -> Metric {
        Metric {
            runs: runs.into(),
            ..Metric::exact("axboe2016", workload, row, metric, "us", median(runs).unwrap())
        }
    }

    pub(crate) fn runs(target: &str, variant: &str, metric: &str, values: &[f64]) -> Runs {
        Runs {
            row: row(target, variant),
            workload: "writers-and-reader".into(),
            outcomes: values
                .iter()
                .map(|&value| {
                    let mut outcome = Outcome::default();
                    outcome.push(metric, "us", value);
                    outcome
                })
                .collect(),
        }
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }

    #[test]
    fn every_runs_value_is_kept_in_order() {
        let runs = runs("kernel", "kernel", "reader_latency_p99_us", &[30.0, 10.0, 20.0]);
        let metrics = runs.metrics("axboe2016");
        assert_eq!(metrics.len(), 1);
        assert_eq!(metrics[0].runs, [30.0, 10.0, 20.0]);
        assert_eq!(metrics[0].value, 20.0);
        assert!(lookup(&metrics, &runs.row, "writers-and-reader", "reader_latency_p99_us").is_some());
        assert!(lookup(&metrics, &runs.row, "reader-alone", "reader_latency_p99_us").is_none());
    }

    #[test]
    fn the_slowest_calls_stand_under_their_row_and_workload() {
        let mut runs = runs("engine", "goal", "m_us", &[1.0]);
        let names = [runs.row.clone()];
        let mut report = Report::default();
        report.add_slowest(&names, std::slice::from_ref(&runs));
        assert!(report.appendices.is_empty());
        runs.outcomes[0].explanations.push("sync waited 7.00 ms".into());
        report.add_slowest(&names, &[runs]);
        let text = "  engine goal, writers-and-reader: sync waited 7.00 ms.\n";
        assert_eq!(report.appendices[0].text, text);
    }

    #[test]
    fn a_chart_shows_the_run_in_the_middle() {
        let runs = runs("kernel", "kernel", "m_us", &[30.0, 10.0, 20.0, 40.0]);
        assert_eq!(runs.typical("m_us").and_then(|o| o.value("m_us")), Some(20.0));
    }
}
