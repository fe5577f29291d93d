//! Tables: picked out of metrics, and laid out as text.
//!
//! A cell has the median with its unit and, below it, the least and the greatest of the runs in that unit.

use super::{Cell, Metric, Report, RowName, Table, lookup};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};
use millpond::internal::quantity::number;
use std::ops::Range;

/// The width that text output keeps to, in characters.
pub const WIDTH: u16 = 120;
/// The label's column: two lines of this hold the kernel's variant.
const LABEL_WIDTH: u16 = 26;
/// The minimum width when other columns need space.
const LABEL_WIDTH_MIN: usize = 20;
/// Longer cells are sentences, which may be broken.
const CELL_WIDTH_MAX: usize = 40;

/// A column of a table: a metric in a workload, and its form.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its head.
    pub head: &'static str,
    /// The workload that it is from.
    pub workload: &'static str,
    /// The metric.
    pub metric: &'static str,
    /// The form of a value; `None`: with its unit.
    pub show: Option<fn(f64) -> String>,
}

impl Column {
    /// A column.
    pub const fn new(head: &'static str, workload: &'static str, metric: &'static str) -> Column {
        Column {
            head,
            workload,
            metric,
            show: None,
        }
    }

    /// The same with values in this form.
    #[must_use]
    pub const fn shown(self, show: fn(f64) -> String) -> Column {
        Column {
            show: Some(show),
            ..self
        }
    }

    /// Its metric of a row.
    pub fn of<'a>(&self, row: &RowName, metrics: &'a [Metric]) -> Option<&'a Metric> {
        lookup(metrics, row, self.workload, self.metric)
    }

    fn cell(&self, row: &RowName, metrics: &[Metric]) -> Cell {
        match (self.of(row, metrics), self.show) {
            (None, _) => Cell::default(),
            (Some(metric), None) => cell(metric),
            (Some(metric), Some(show)) => shown(metric, show(metric.value), show),
        }
    }
}

/// Columns of one workload: what each is headed, and its metric.
pub fn columns(workload: &'static str, columns: &[(&'static str, &'static str)]) -> Vec<Column> {
    let column = |&(head, metric): &(_, _)| Column::new(head, workload, metric);
    columns.iter().map(column).collect()
}

/// The columns that one of these rows has.
pub(crate) fn used(columns: &[Column], rows: &[RowName], metrics: &[Metric]) -> Vec<Column> {
    let is_used = |column: &&Column| rows.iter().any(|row| column.of(row, metrics).is_some());
    columns.iter().filter(is_used).copied().collect()
}

/// A table of these columns over these rows. Rows without any of the metrics are left out.
pub fn pick(title: &str, first: &str, columns: &[Column], rows: &[RowName], metrics: &[Metric]) -> Table {
    let heads = columns.iter().map(|column| column.head);
    let mut table = Table::new(title, [first].into_iter().chain(heads));
    for row in rows {
        let cells: Vec<Cell> = columns.iter().map(|column| column.cell(row, metrics)).collect();
        if cells.iter().any(|cell| !cell.value.is_empty()) {
            table.push(label(row, rows), cells);
        }
    }
    table
}

/// What a row is called: its variant, with the target where the variant does not say it, and with the device
/// where the rows differ in it.
pub fn label(row: &RowName, among: &[RowName]) -> String {
    let mut label = if row.variant.starts_with(&row.target) {
        row.variant.clone()
    } else {
        format!("{} {}", row.target, row.variant)
    };
    if among.iter().any(|other| other.device != row.device) {
        label += &format!(" ({})", row.device);
    }
    label
}

/// The appendices of that name as text.
pub fn appendices(report: &Report, name: &str) -> String {
    let named = report.appendices.iter().filter(|a| a.name == name);
    named
        .map(|a| format!("{}\n{}\n\n", a.title, a.text.trim_end()))
        .collect()
}

/// The cell that shows a metric.
pub fn cell(metric: &Metric) -> Cell {
    let (divisor, unit) = unit_for(metric);
    let show = |value: f64| number(value / divisor);
    let value = match unit {
        "" => show(metric.value),
        "%" => format!("{} %", show(metric.value)),
        _ => format!("{} {unit}", show(metric.value)),
    };
    shown(metric, value, show)
}

/// The cell of a metric with this text of its median, and both ends of its runs in that form.
fn shown(metric: &Metric, value: String, show: impl Fn(f64) -> String) -> Cell {
    let (least, greatest) = metric
        .runs
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, greatest), &v| {
            (least.min(v), greatest.max(v))
        });
    let spread = match metric.runs.len() {
        0 | 1 => String::new(),
        _ => format!("{}..{}", show(least), show(greatest)),
    };
    Cell { value, spread }
}

/// What to divide a metric by, and what the unit is called then. Chosen by the median, for the spread as well.
fn unit_for(metric: &Metric) -> (f64, &str) {
    match (metric.unit.as_str(), metric.value) {
        ("us", us) if us >= 999_500.0 => (1e6, "s"),
        ("us", us) if us >= 999.5 => (1e3, "ms"),
        ("MiB", mib) if mib >= 1023.5 => (1024.0, "GiB"),
        // for rates and counts the column's head is enough
        ("1/s" | "1", _) => (1.0, ""),
        (unit, _) => (1.0, unit),
    }
}

/// The report as text, in lines of at most [`WIDTH`]: answers, tables, notes.
pub fn text(report: &Report) -> String {
    text_within(report, WIDTH)
}

/// The same in lines of at most `width`, which is 80 or more.
pub fn text_within(report: &Report, width: u16) -> String {
    answers(report, width) + &body(report, width)
}

/// The answers alone, followed by an empty line.
pub fn answers(report: &Report, width: u16) -> String {
    let mut text: String = report.answers.iter().map(|line| wrap(line, "", width)).collect();
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// All but the answers.
pub fn body(report: &Report, width: u16) -> String {
    let mut text = String::new();
    for table in report.tables.iter().filter(|t| !t.rows.is_empty()) {
        let gap = if text.is_empty() { "" } else { "\n" };
        text += &format!("{gap}{}{}\n", wrap(&table.title, "", width), layout(table, width));
    }
    if !report.notes.is_empty() {
        text.push('\n');
    }
    for note in &report.notes {
        text += &wrap(note, "note: ", width);
    }
    text
}

/// The table in columns, without its title; in parts one below the other where not all of its columns have room.
pub(crate) fn layout(table: &Table, width: u16) -> String {
    let parts: Vec<String> = parts(table, width)
        .into_iter()
        .map(|columns| part(table, columns, width))
        .collect();
    parts.join("\n\n")
}

/// The groups of columns side by side. The label's column is in each part and gives way to the others.
fn parts(table: &Table, width: u16) -> Vec<Range<usize>> {
    let longest = |texts: &mut dyn Iterator<Item = &str>| texts.map(|t| t.chars().count()).max().unwrap_or(0);
    let label = longest(&mut table.rows.iter().map(|row| row.label.as_str()));
    let label = (label + 1).min(LABEL_WIDTH_MIN);
    let (mut parts, mut first, mut used) = (Vec::new(), 0, label);
    for n in 0..table.head.len().saturating_sub(1) {
        let cells = table.rows.iter().filter_map(|row| row.cells.get(n));
        let texts = cells.flat_map(|cell| [cell.value.as_str(), cell.spread.as_str()]);
        // heads may be broken between words
        let own = longest(&mut texts.chain(table.head[n + 1].split(' '))).min(CELL_WIDTH_MAX) + 1;
        if used + own > usize::from(width) && n > first {
            parts.push(first..n);
            (first, used) = (n, label);
        }
        used += own;
    }
    parts.push(first..table.head.len().saturating_sub(1));
    parts
}

fn part(table: &Table, columns: Range<usize>, width: u16) -> String {
    let mut out = comfy_table::Table::new();
    let heads = table.head.iter().skip(columns.start + 1).take(columns.len());
    out.load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_header(table.head.iter().take(1).chain(heads));
    for row in &table.rows {
        let mut cells = vec![row.label.clone()];
        let own = row.cells.iter().skip(columns.start).take(columns.len());
        cells.extend(own.map(|cell| match (cell.value.as_str(), cell.spread.as_str()) {
            ("", _) => "-".to_owned(),
            (value, "") => value.to_owned(),
            (value, spread) => format!("{value}\n{spread}"),
        }));
        out.add_row(cells);
    }
    for (n, column) in out.column_iter_mut().enumerate() {
        if n == 0 {
            column.set_padding((0, 1));
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(LABEL_WIDTH)));
        } else {
            column.set_padding((1, 0));
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    out.trim_fmt()
}

/// `sentence` in lines of at most `width`, the further ones indented to the length of `first`.
pub fn wrap(sentence: &str, first: &str, width: u16) -> String {
    let indent = " ".repeat(first.len());
    let mut text = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in sentence.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > usize::from(width) {
            text += line.trim_end();
            text.push('\n');
            line = indent.clone();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    text += line.trim_end();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::runs;

    const COLUMNS: [Column; 8] = [Column::new("p99.9", "writers-and-reader", "m_us"); 8];

    fn table() -> Table {
        let kernel = runs(
            "kernel",
            "kernel mq-deadline wbt=75000us memory=512M",
            "m_us",
            &[181_000.0, 1_186_432.0, 99.0],
        );
        let engine = runs("engine", "goal", "m_us", &[9.0]);
        let silent = runs("sim", "off", "other", &[1.0]);
        let rows = [&kernel, &engine, &silent].map(|r| r.row.clone());
        let metrics: Vec<_> = [kernel, engine, silent]
            .iter()
            .flat_map(|r| r.metrics("axboe2016"))
            .collect();
        pick("Beside each other", "target", &COLUMNS, &rows, &metrics)
    }

    #[test]
    fn the_spread_has_the_medians_unit() {
        let table = table();
        assert_eq!(table.rows.len(), 2, "a row with none of the metrics is left out");
        let cell = &table.rows[0].cells[0];
        assert_eq!(
            (cell.value.as_str(), cell.spread.as_str()),
            ("181 ms", "0.0990..1186")
        );
        assert_eq!(table.rows[1].label, "engine goal");
        assert_eq!(
            table.rows[1].cells[0],
            Cell {
                value: "9.00 us".into(),
                spread: String::new()
            }
        );
    }

    #[test]
    fn text_fits_120_columns_with_eight_columns_of_long_numbers() {
        let report = Report {
            tables: vec![table()],
            answers: vec!["word ".repeat(100)],
            notes: vec!["a note that is rather long ".repeat(20)],
            ..Report::default()
        };
        let text = text(&report);
        for line in text.lines() {
            assert!(
                line.chars().count() <= usize::from(WIDTH),
                "{} wide: {line}",
                line.len()
            );
            assert_eq!(line.trim_end(), line);
        }
        assert!(text.contains("181 ms") && text.contains("0.0990..1186"), "{text}");
        assert!(!text.contains("..\n"), "a spread was broken: {text}");
    }

    #[test]
    fn on_a_narrow_terminal_the_columns_stand_in_parts_below_each_other() {
        let report = Report {
            answers: vec!["an answer ".repeat(20)],
            tables: vec![table()],
            ..Report::default()
        };
        let text = text_within(&report, 80);
        assert!(text.starts_with("an answer"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text.matches("181 ms").count(), 8, "{text}");
        assert_eq!(
            text.matches("engine goal").count(),
            2,
            "the label is in each part: {text}"
        );
    }

    #[test]
    fn rates_have_no_unit_and_devices_show_where_they_differ() {
        let mut metric = runs("kernel", "kernel", "reader_reads_per_s", &[182.4])
            .metrics("x")
            .remove(0);
        metric.unit = "1/s".into();
        assert_eq!(cell(&metric).value, "182");
        metric.unit = "MiB".into();
        metric.value = 5120.0;
        assert_eq!(cell(&metric).value, "5.00 GiB");
        let real = runs("kernel", "kernel", "m", &[]).row;
        let mut hdd = real.clone();
        hdd.device = "hdd".into();
        assert_eq!(label(&real, std::slice::from_ref(&real)), "kernel");
        assert_eq!(label(&real, &[real.clone(), hdd]), "kernel (real)");
    }
}
