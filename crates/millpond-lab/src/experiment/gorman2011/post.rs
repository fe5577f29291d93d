//! The post's four tables in its layout, FS-Mark or MICRO, vmstat, vmscan and congestion_wait, and its own figures: both
//! in `post.txt`.
//!
//! Its words, orders and roundings, so that both can be laid side by side. What is not modelled has a dash.

use super::{EXPERIMENT, FS_MARK, MICRO};
use crate::report::{Appendix, Metric, RowName, lookup};

/// The name that `--table` takes.
pub(super) const NAME: &str = "post";

/// The tables of `post.txt`: titles with rows.
fn sections() -> impl Iterator<Item = (&'static str, Vec<Row>)> {
    let sections = include_str!("post.txt").split("\n# ").skip(1);
    sections.map(|section| {
        let (title, rows) = section.trim_end().split_once('\n').unwrap_or_default();
        (title, rows.lines().map(Row::parse).collect())
    })
}

/// A row of a table: its name in the post and here, how a value is written, and the post's figures of both loads.
struct Row {
    label: &'static str,
    metric: &'static str,
    form: &'static str,
    fs_mark: &'static str,
    micro: &'static str,
}

impl Row {
    fn parse(line: &'static str) -> Row {
        let mut fields = line.split('|').map(str::trim);
        let mut next = || fields.next().unwrap_or_default();
        Row {
            label: next(),
            metric: next(),
            form: next(),
            fs_mark: next(),
            micro: next(),
        }
    }

    fn show(&self, value: Option<f64>) -> String {
        let Some(value) = value else {
            return "-".into();
        };
        let digits = |text: &str| text.parse().unwrap_or(0);
        match self.form.split_at_checked(1) {
            Some((".", text)) => format!("{value:.0$}", digits(text)),
            Some(("%", text)) => format!("{value:.0$}%", digits(text)),
            Some(("m", _)) => format!("{value:.0}ms"),
            _ => format!("{value:.0}"),
        }
    }
}

/// The post's columns, as systems.
pub(super) const COLUMNS: [&str; 6] = [
    "vanilla",
    "nodirectwb",
    "lesskswapdwb",
    "throttle",
    "immediate",
    "prioinode",
];

/// The post's value of a metric in a load's column.
pub(super) fn published(workload: &str, column: &str, metric: &str) -> Option<f64> {
    let column = COLUMNS.iter().position(|&name| name == column)?;
    let row = sections()
        .flat_map(|(_, rows)| rows)
        .find(|row| row.metric == metric)?;
    let figures = match workload {
        FS_MARK => row.fs_mark,
        MICRO => row.micro,
        _ => return None,
    };
    figures.split_whitespace().nth(column)?.parse().ok()
}

const LABEL: usize = 38;
const COLUMN: usize = 13;
const COLUMNS_MAX: usize = 6;

/// A column's value of a metric.
type Numbers<'a> = &'a dyn Fn(&str, &str) -> Option<f64>;

/// The post's row of one of its systems.
pub(super) fn row(system: &str) -> RowName {
    RowName::new("post", "hdd", format!("post, 2011: {system}"))
}

/// The post's figures of a load on those of its systems that are among `systems`.
pub(super) fn metrics(workload: &str, systems: &[&str]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for column in COLUMNS.into_iter().filter(|column| systems.contains(column)) {
        let row = row(column);
        let all = sections().flat_map(|(_, rows)| rows).map(|row| row.metric);
        for metric in all.filter(|metric| !metric.is_empty()) {
            let unit = match metric.rsplit_once('_') {
                Some((_, "percent")) => "%",
                Some((_, "seconds")) => "s",
                _ => "1",
            };
            let value = published(workload, column, metric);
            let of = |value| Metric::exact(EXPERIMENT.name, workload, &row, metric, unit, value);
            metrics.extend(value.map(of));
        }
    }
    metrics
}

/// The columns' names; long ones take two lines.
fn heads(columns: &[&str], label: usize, width: usize) -> String {
    let cut = |name: &str| match name.split_once('-') {
        Some((first, rest)) if name.len() >= width => (first.to_owned(), rest.to_owned()),
        _ => (String::new(), name.to_owned()),
    };
    let (first, second): (Vec<_>, Vec<_>) = columns.iter().map(|name| cut(name)).unzip();
    let line = |names: &[String]| {
        let cells: String = names.iter().map(|name| format!("{name:>width$}")).collect();
        format!("{:label$}{cells}", "").trim_end().to_owned() + "\n"
    };
    if first.iter().all(String::is_empty) {
        return line(&second);
    }
    line(&first) + &line(&second)
}

fn table(title: &str, rows: &[Row], columns: &[&str], numbers: Numbers<'_>) -> String {
    let mut text = format!("{title}\n");
    for row in rows {
        let cells: String = columns
            .iter()
            .filter(|_| !row.metric.is_empty())
            .map(|column| format!("{:>COLUMN$}", row.show(numbers(column, row.metric))))
            .collect();
        text += format!("{:LABEL$}{cells}", row.label).trim_end();
        text.push('\n');
    }
    text
}

/// The gain over the first column, measured by this one, as the post has it.
fn gain(value: f64, base: f64, more_is_better: bool) -> f64 {
    let gain = if more_is_better {
        value - base
    } else {
        base - value
    };
    if value.abs() > 0.0 {
        return 100.0 * gain / value;
    }
    0.0
}

fn fs_mark(rows: &[Row], columns: &[&str], base: &str, numbers: Numbers<'_>) -> String {
    const LABEL: usize = 15;
    const WIDTH: usize = 17;
    let mut text = format!("FS-Mark\n{}", heads(columns, LABEL, WIDTH));
    for row in rows {
        let more_is_better = row.form == "more";
        let base = numbers(base, row.metric);
        let cells: String = columns
            .iter()
            .map(|column| {
                let digits = if more_is_better { 2 } else { 0 };
                let cell = match (numbers(column, row.metric), base) {
                    (Some(value), Some(base)) => {
                        format!("{value:.digits$} ({:.2}%)", gain(value, base, more_is_better))
                    }
                    (Some(value), None) => format!("{value:.digits$}"),
                    _ => "-".into(),
                };
                format!("{cell:>WIDTH$}")
            })
            .collect();
        text += format!("{:LABEL$}{cells}", row.label).trim_end();
        text.push('\n');
    }
    text
}

/// The tables of a load; gains are those over the column `base`.
pub(super) fn tables(workload: &str, columns: &[&str], base: &str, numbers: Numbers<'_>) -> String {
    let mut sections = sections();
    let first = match sections.next() {
        Some((_, rows)) if workload == FS_MARK => fs_mark(&rows, columns, base, numbers) + "\n",
        _ => "MICRO\n\n".into(),
    };
    let heads = heads(columns, LABEL, COLUMN);
    let sections: Vec<String> = sections
        .map(|(title, rows)| table(title, &rows, columns, numbers))
        .collect();
    first + &heads + &sections.join("\n")
}

/// The tables of a load with a column for each of these rows, six at a time.
pub(super) fn appendices(
    title: &str,
    workload: &'static str,
    columns: &[(String, &RowName)],
    metrics: &[Metric],
) -> Vec<Appendix> {
    let value = |column: &str, metric: &str| {
        let (_, row) = columns.iter().find(|(name, _)| name == column)?;
        lookup(metrics, row, workload, metric).map(|m| m.value)
    };
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let base = names.iter().find(|&&name| name == COLUMNS[0]).or(names.first());
    let appendix = |columns: &[&str]| Appendix {
        name: NAME,
        title: title.into(),
        text: tables(workload, columns, base.copied().unwrap_or_default(), &value),
    };
    names.chunks(COLUMNS_MAX).map(appendix).collect()
}

/// The title of the post's own tables of a load.
pub(super) fn title(workload: &str) -> String {
    format!("{workload}, as posted in July 2011 (Gorman)")
}

/// The post's own tables of a load.
pub(super) fn of_the_post(workload: &'static str) -> Appendix {
    Appendix {
        name: NAME,
        title: title(workload),
        text: tables(workload, &COLUMNS, COLUMNS[0], &|column, metric| {
            published(workload, column, metric)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_posts_own_lines_come_out_as_it_has_them() {
        let numbers = |column: &str, metric: &str| published(FS_MARK, column, metric);
        let text = tables(FS_MARK, &COLUMNS, COLUMNS[0], &numbers);
        for words in [
            "Files/s mean 6.93 (0.00%) 6.96 (0.43%) 7.11 (2.53%) 7.52 (7.85%)",
            "Overhead mean 29678 (0.00%) 40054 (-25.90%) 18279 (62.37%) 16365 (81.35%) 11987 (147.58%) 15606 (90.17%)",
            "Kswapd efficiency 57% 57% 48% 47% 66% 66%",
            "Kswapd velocity 14463.592 14371.722 30775.233 36949.506 26677.211 26797.142",
            "Kswapd reclaim write file async I/O 4483 4286 0 1 0 0",
            "%age total pages scanned/reclaimed 73.20% 73.31% 52.15% 48.15% 66.45% 66.81%",
            "KSwapd time congest waited 400ms 0ms 100ms 0ms 501ms 0ms",
        ] {
            let has = |line: &str| {
                line.split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
                    .starts_with(words)
            };
            assert!(text.lines().any(has), "{words} is not in\n{text}");
        }
        for line in text.lines() {
            assert!(line.len() <= 120, "{} wide: {line}", line.len());
        }
    }

    #[test]
    fn unmodelled_figures_have_a_dash_and_long_names_two_lines() {
        let text = tables(MICRO, &["immediate-leak-v1"], COLUMNS[0], &|_, _| None);
        assert!(
            text.contains("immediate\n") && text.contains("leak-v1\n"),
            "{text}"
        );
        assert!(
            text.lines()
                .any(|line| line.starts_with("Slabs scanned") && line.ends_with('-')),
            "{text}"
        );
    }

    /// The post's own percentages follow from its counts, on every column: nothing was mistyped.
    #[test]
    fn the_posts_percentages_follow_from_its_counts() {
        for workload in [FS_MARK, MICRO] {
            for column in COLUMNS {
                let of = |metric| published(workload, column, metric).unwrap();
                let percent = |part: f64, whole: f64| (100.0 * part / whole).floor();
                let about = |metric, value: f64, digits: f64| {
                    let posted = of(metric);
                    assert!(
                        (posted - value).abs() <= digits,
                        "{workload} {column} {metric}: {posted} and {value}"
                    );
                };
                let (scan, direct) = (of("pgscan_kswapd"), of("pgscan_direct"));
                about(
                    "kswapd_efficiency_percent",
                    percent(of("pgsteal_kswapd"), scan),
                    0.0,
                );
                about(
                    "direct_efficiency_percent",
                    percent(of("pgsteal_direct"), direct),
                    0.0,
                );
                about("direct_scans_percent", percent(direct, scan + direct), 0.0);
                about("kswapd_velocity_per_s", scan / of("elapsed_seconds"), 0.001);
                about("direct_velocity_per_s", direct / of("elapsed_seconds"), 0.001);
                about("pgscan", scan + direct, 0.0);
                about("pgsteal", of("pgsteal_kswapd") + of("pgsteal_direct"), 0.0);
                about("reclaimed_percent", 100.0 * of("pgsteal") / of("pgscan"), 0.006);
                let writes = of("kswapd_write_file") + of("kswapd_write_anon") + of("direct_write_anon");
                about("nr_vmscan_write", writes, 1.0);
                let stall = of("direct_stall_seconds");
                about(
                    "direct_time_percent",
                    100.0 * stall / (stall + of("user_sys_seconds")),
                    0.006,
                );
                let awake = 100.0 * of("kswapd_awake_seconds") / of("elapsed_seconds");
                about("kswapd_awake_percent", awake, 0.006);
            }
        }
    }
}
