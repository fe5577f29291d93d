//! The post's four tables in its layout: FS-Mark or MICRO, vmstat, vmscan and congestion_wait.
//!
//! Its words, orders and roundings, so that both can be laid side by side. What is not modelled has a dash.

use super::published::{COLUMNS, published};
use super::{FS_MARK, MICRO};
use crate::report::Appendix;

/// The name that `--table` takes.
pub(super) const NAME: &str = "post";

#[derive(Clone, Copy)]
enum Show {
    Count,
    Fixed(usize),
    Percent(usize),
    Millis,
}

type Row = (&'static str, &'static str, Show);

use Show::{Count, Fixed, Millis, Percent};

const DURATION: &[Row] = &[
    (
        "User/Sys Time Running Test (seconds)",
        "user_sys_seconds",
        Fixed(2),
    ),
    ("Total Elapsed Time (seconds)", "elapsed_seconds", Fixed(2)),
];

const VMSTAT: &[Row] = &[
    ("Page Ins", "pgpgin_kib", Count),
    ("Page Outs", "pgpgout_kib", Count),
    ("Swap Ins", "pswpin", Count),
    ("Swap Outs", "pswpout", Count),
    ("Direct pages scanned", "pgscan_direct", Count),
    ("Kswapd pages scanned", "pgscan_kswapd", Count),
    ("Kswapd pages reclaimed", "pgsteal_kswapd", Count),
    ("Direct pages reclaimed", "pgsteal_direct", Count),
    ("Kswapd efficiency", "kswapd_efficiency_percent", Percent(0)),
    ("Kswapd velocity", "kswapd_velocity_per_s", Fixed(3)),
    ("Direct efficiency", "direct_efficiency_percent", Percent(0)),
    ("Direct velocity", "direct_velocity_per_s", Fixed(3)),
    ("Percentage direct scans", "direct_scans_percent", Percent(0)),
    ("Page writes by reclaim", "nr_vmscan_write", Count),
    ("Page writes skipped", "nr_vmscan_write_skip", Count),
    ("Page reclaim invalidate", "nr_vmscan_immediate_reclaim", Count),
    ("Page reclaim throttled", "nr_vmscan_throttled", Count),
    ("Slabs scanned", "slabs_scanned", Count),
    ("Direct inode steals", "direct_inode_steals", Count),
    ("Kswapd inode steals", "kswapd_inode_steals", Count),
    ("Kswapd skipped wait", "kswapd_skip_congestion_wait", Count),
    ("Compaction stalls", "compaction_stalls", Count),
    ("Compaction success", "compaction_success", Count),
    ("Compaction failures", "compaction_failures", Count),
    ("Compaction pages moved", "compaction_pages_moved", Count),
    ("Compaction move failure", "compaction_move_failure", Count),
];

const VMSCAN: &[Row] = &[
    ("Direct reclaims", "direct_reclaims", Count),
    ("Direct reclaim pages scanned", "pgscan_direct", Count),
    ("Direct reclaim pages reclaimed", "pgsteal_direct", Count),
    ("Direct reclaim write file async I/O", "direct_write_file", Count),
    ("Direct reclaim write anon async I/O", "direct_write_anon", Count),
    ("Direct reclaim write file sync I/O", "write_sync", Count),
    ("Direct reclaim write anon sync I/O", "write_sync", Count),
    ("Wake kswapd requests", "kswapd_wake_requests", Count),
    ("Kswapd wakeups", "kswapd_wakeups", Count),
    ("Kswapd pages scanned", "pgscan_kswapd", Count),
    ("Kswapd pages reclaimed", "pgsteal_kswapd", Count),
    ("Kswapd reclaim write file async I/O", "kswapd_write_file", Count),
    ("Kswapd reclaim write anon async I/O", "kswapd_write_anon", Count),
    ("Kswapd reclaim write file sync I/O", "write_sync", Count),
    ("Kswapd reclaim write anon sync I/O", "write_sync", Count),
    (
        "Time stalled direct reclaim (seconds)",
        "direct_stall_seconds",
        Fixed(2),
    ),
    ("Time kswapd awake (seconds)", "kswapd_awake_seconds", Fixed(2)),
    ("", "", Count),
    ("Total pages scanned", "pgscan", Count),
    ("Total pages reclaimed", "pgsteal", Count),
    (
        "%age total pages scanned/reclaimed",
        "reclaimed_percent",
        Percent(2),
    ),
    ("%age total pages scanned/written", "written_percent", Percent(2)),
    (
        "%age  file pages scanned/written",
        "file_written_percent",
        Percent(2),
    ),
    (
        "Percentage Time Spent Direct Reclaim",
        "direct_time_percent",
        Percent(2),
    ),
    ("Percentage Time kswapd Awake", "kswapd_awake_percent", Percent(2)),
];

const CONGESTION: &[Row] = &[
    ("Direct number congest     waited", "direct_congest_number", Count),
    ("Direct time   congest     waited", "direct_congest_ms", Millis),
    ("Direct full   congest     waited", "direct_congest_full", Count),
    (
        "Direct number conditional waited",
        "direct_conditional_number",
        Count,
    ),
    (
        "Direct time   conditional waited",
        "direct_conditional_ms",
        Millis,
    ),
    (
        "Direct full   conditional waited",
        "direct_conditional_full",
        Count,
    ),
    ("KSwapd number congest     waited", "kswapd_congest_number", Count),
    ("KSwapd time   congest     waited", "kswapd_congest_ms", Millis),
    ("KSwapd full   congest     waited", "kswapd_congest_full", Count),
    (
        "KSwapd number conditional waited",
        "kswapd_conditional_number",
        Count,
    ),
    (
        "KSwapd time   conditional waited",
        "kswapd_conditional_ms",
        Millis,
    ),
    (
        "KSwapd full   conditional waited",
        "kswapd_conditional_full",
        Count,
    ),
];

/// FS-Mark's rows: label, metric, and whether more is better.
const FS_MARK_ROWS: [(&str, &str, bool); 8] = [
    ("Files/s  min", "files_per_s_min", true),
    ("Files/s  mean", "files_per_s_mean", true),
    ("Files/s  stddev", "files_per_s_stddev", true),
    ("Files/s  max", "files_per_s_max", true),
    ("Overhead min", "overhead_us_min", false),
    ("Overhead mean", "overhead_us_mean", false),
    ("Overhead stddev", "overhead_us_stddev", false),
    ("Overhead max", "overhead_us_max", false),
];

const LABEL: usize = 38;
const COLUMN: usize = 13;
const COLUMNS_MAX: usize = 6;

fn show(value: Option<f64>, show: Show) -> String {
    let Some(value) = value else {
        return "-".into();
    };
    match show {
        Count => format!("{value:.0}"),
        Fixed(digits) => format!("{value:.digits$}"),
        Percent(digits) => format!("{value:.digits$}%"),
        Millis => format!("{value:.0}ms"),
    }
}

/// The owner of a table's numbers.
pub(super) trait Numbers {
    fn of(&self, column: &str, metric: &str) -> Option<f64>;
}

impl<F: Fn(&str, &str) -> Option<f64>> Numbers for F {
    fn of(&self, column: &str, metric: &str) -> Option<f64> {
        self(column, metric)
    }
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

fn table(title: &str, rows: &[Row], columns: &[&str], numbers: &dyn Numbers) -> String {
    let mut text = format!("{title}\n");
    for &(label, metric, how) in rows {
        let cells: String = columns
            .iter()
            .filter(|_| !metric.is_empty())
            .map(|column| format!("{:>COLUMN$}", show(numbers.of(column, metric), how)))
            .collect();
        text += format!("{label:LABEL$}{cells}").trim_end();
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

fn fs_mark(columns: &[&str], base: &str, numbers: &dyn Numbers) -> String {
    const LABEL: usize = 15;
    const WIDTH: usize = 17;
    let mut text = format!("FS-Mark\n{}", heads(columns, LABEL, WIDTH));
    for (label, metric, more_is_better) in FS_MARK_ROWS {
        let base = numbers.of(base, metric);
        let cells: String = columns
            .iter()
            .map(|column| {
                let digits = if more_is_better { 2 } else { 0 };
                let cell = match (numbers.of(column, metric), base) {
                    (Some(value), Some(base)) => {
                        format!("{value:.digits$} ({:.2}%)", gain(value, base, more_is_better))
                    }
                    (Some(value), None) => format!("{value:.digits$}"),
                    _ => "-".into(),
                };
                format!("{cell:>WIDTH$}")
            })
            .collect();
        text += format!("{label:LABEL$}{cells}").trim_end();
        text.push('\n');
    }
    text
}

/// The tables of a load; gains are those over the column `base`.
pub(super) fn tables(workload: &str, columns: &[&str], base: &str, numbers: &dyn Numbers) -> String {
    let first = match workload {
        FS_MARK => fs_mark(columns, base, numbers) + "\n",
        _ => "MICRO\n\n".into(),
    };
    let heads = heads(columns, LABEL, COLUMN);
    let sections = [
        ("MMTests Statistics: duration", DURATION),
        ("MMTests Statistics: vmstat", VMSTAT),
        ("FTrace Reclaim Statistics: vmscan", VMSCAN),
        ("FTrace Reclaim Statistics: congestion_wait", CONGESTION),
    ];
    let sections: Vec<String> = sections
        .iter()
        .map(|(title, rows)| table(title, rows, columns, numbers))
        .collect();
    first + &heads + &sections.join("\n")
}

/// The tables of a load: ours, six columns at a time, and the post's.
pub(super) fn appendices(
    workload: &'static str,
    systems: &[&str],
    ours: &dyn Fn(&str, &str) -> Option<f64>,
) -> Vec<Appendix> {
    let mut appendices: Vec<Appendix> = systems
        .chunks(COLUMNS_MAX)
        .map(|columns| Appendix {
            name: NAME,
            title: format!("{workload}, in virtual time"),
            text: tables(workload, columns, COLUMNS[0], &|column: &str, metric: &str| {
                ours(column, metric)
            }),
        })
        .collect();
    if matches!(workload, FS_MARK | MICRO) {
        appendices.push(of_the_post(workload));
    }
    appendices
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
        text: tables(workload, &COLUMNS, COLUMNS[0], &|column: &str, metric: &str| {
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
        let text = tables(MICRO, &["immediate-leak-v1"], COLUMNS[0], &|_: &str, _: &str| {
            None
        });
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
}
