//! The post's tables: fio's block of percentiles, the writers' times with and without the reader, and vmstat's lines;
//! the post's own beside ours.
//!
//! fio counts all reads, hits too, and so does this; the report's main table has those that missed.

use super::EXPERIMENT;
use super::report::{BOTH, MAX, READS, SECONDS, WRITERS};
use crate::disk_model::DiskModel;
use crate::measure::latency::FIO_PERCENTILES;
use crate::outcome::Outcome;
use crate::report::table::label;
use crate::report::{Appendix, Metric, RowName, Runs, lookup};

/// The name that `--table` takes.
pub(super) const NAME: &str = "post";

/// The post's figures of a variant.
struct Block {
    /// KB read, KB/s, reads a second, milliseconds.
    read: [f64; 4],
    /// Least, greatest, mean, standard deviation, in microseconds.
    clat: [f64; 4],
    /// In microseconds, by [`FIO_PERCENTILES`].
    percentiles: Vec<f64>,
    /// Seconds: elapsed, and of the system; with the reader and without.
    writers: [Option<f64>; 2],
    system: [Option<f64>; 2],
    /// Blocks of 1 KiB read and written a second, interrupts, context switches.
    vmstat: Vec<[Option<f64>; 4]>,
}

/// The post's output: without its patches, and with them at 10 %.
fn published() -> [(&'static str, Block); 2] {
    let lines = |lines: [[f64; 4]; 3]| lines.map(|line| line.map(Some)).to_vec();
    [
        (
            "off",
            Block {
                read: [35_580.0, 550_868.0 / 1024.0, 134.0, 66_139.0],
                clat: [40.0, 654_204.0, 7_432.37, 43_872.83],
                percentiles: vec![
                    41.0, 41.0, 41.0, 42.0, 42.0, 42.0, 43.0, 52.0, 59.0, 65.0, 87.0, 1_192.0, 254_976.0,
                    358_400.0, 444_416.0, 468_992.0, 651_264.0,
                ],
                writers: [Some(66.304), None],
                system: [Some(12.210), None],
                vmstat: lines([
                    [384.0, 73_728.0, 571.0, 558.0],
                    [384.0, 73_728.0, 548.0, 545.0],
                    [388.0, 73_728.0, 575.0, 763.0],
                ]),
            },
        ),
        (
            "v3-10",
            Block {
                read: [1_024.0 * 1_024.0, 18_640.0, 4_660.0, 56_254.0],
                clat: [39.0, 408_400.0, 212.05, 2_982.44],
                percentiles: vec![
                    40.0, 41.0, 41.0, 41.0, 42.0, 42.0, 42.0, 42.0, 43.0, 45.0, 56.0, 60.0, 454.0, 8_768.0,
                    36_608.0, 43_264.0, 69_120.0,
                ],
                writers: [Some(89.384), Some(66.919)],
                system: [Some(10.810), Some(10.900)],
                vmstat: lines([
                    [20_636.0, 45_056.0, 5_593.0, 10_833.0],
                    [16_416.0, 46_080.0, 4_484.0, 8_666.0],
                    [16_960.0, 47_104.0, 5_183.0, 8_936.0],
                ]),
            },
        ),
    ]
}

/// The post's row of a variant, on its rotating disk.
pub(super) fn row(variant: &str) -> RowName {
    RowName::new(
        "post",
        DiskModel::hdd().to_string(),
        format!("post, 2016: {variant}"),
    )
}

/// The post's figures that have a counterpart here, by these rows. Its percentiles are over all reads, and most of those came
/// out of read-ahead: how the two rows relate compares, not their reads with random ones.
pub(super) fn metrics() -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (variant, block) in published() {
        let row = row(variant);
        let mut push = |workload, metric: &str, unit, value| {
            metrics.push(Metric::exact(
                EXPERIMENT.name,
                workload,
                &row,
                metric,
                unit,
                value,
            ));
        };
        push(BOTH, READS, "1/s", block.read[2]);
        push(BOTH, MAX, "us", block.clat[1]);
        push(BOTH, "reader_latency_mean_us", "us", block.clat[2]);
        for ((_, name), us) in FIO_PERCENTILES.iter().zip(block.percentiles) {
            push(BOTH, &format!("reader_latency_{name}_us"), "us", us);
        }
        for (workload, seconds) in [BOTH, WRITERS].into_iter().zip(block.writers) {
            if let Some(seconds) = seconds {
                push(workload, SECONDS, "s", seconds);
            }
        }
    }
    metrics
}

/// The post's tables of its own variants and of all rows that have a reader beside writers.
pub(super) fn appendices(rows: &[RowName], metrics: &[Metric], results: &[Runs]) -> Vec<Appendix> {
    let ours = rows.iter().filter_map(|row| {
        let of = |workload: &str, metric: &str| lookup(metrics, row, workload, metric).map(|m| m.value);
        let read = |metric: &str| of(BOTH, &format!("reader_all_{metric}"));
        let percentiles = FIO_PERCENTILES
            .iter()
            .map(|(_, name)| read(&format!("{name}_us")));
        let (reads, rate) = (of(BOTH, "reader_reads")?, of(BOTH, "reader_reads_per_s")?);
        let runs = results
            .iter()
            .find(|runs| runs.row == *row && runs.workload == BOTH);
        let block = Block {
            read: [reads * 4.0, rate * 4.0, rate, reads / rate * 1e3],
            clat: [
                read("min_us")?,
                read("max_us")?,
                read("mean_us")?,
                read("stdev_us")?,
            ],
            percentiles: percentiles.collect::<Option<_>>()?,
            writers: [BOTH, WRITERS].map(|workload| of(workload, SECONDS)),
            system: [BOTH, WRITERS].map(|workload| of(workload, "cpu_system_seconds")),
            vmstat: runs
                .and_then(|runs| runs.typical(SECONDS))
                .map(vmstat)
                .unwrap_or_default(),
        };
        Some((label(row, rows), block))
    });
    let ours: Vec<_> = ours.collect();
    if ours.is_empty() {
        return Vec::new();
    }
    let theirs = published().map(|(variant, block)| (row(variant).variant, block));
    let appendix = |(title, block): (String, Block)| Appendix {
        name: NAME,
        title,
        text: text(&block),
    };
    theirs.into_iter().chain(ours).map(appendix).collect()
}

/// Three seconds of the run, a quarter of it apart, as vmstat would have shown them.
fn vmstat(outcome: &Outcome) -> Vec<[Option<f64>; 4]> {
    let names = [
        ("device_read_mb_per_s", 1e6 / 1024.0),
        ("device_written_mb_per_s", 1e6 / 1024.0),
        ("machine_interrupts_per_s", 1.0),
        ("machine_context_switches_per_s", 1.0),
    ];
    let at = |quarter: usize, (name, factor): (&str, f64)| {
        let series = outcome.series(name)?;
        let a_second = (1.0 / series.step_s).round().max(1.0) as usize;
        let middle = series.values.len() * quarter / 4;
        let first = middle.saturating_sub(a_second / 2);
        let values: Vec<f64> = series.values[first..]
            .iter()
            .take(a_second)
            .copied()
            .flatten()
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64 * factor)
    };
    let lines = [1, 2, 3].map(|quarter| names.map(|name| at(quarter, name)));
    let is_told = |line: &[Option<f64>; 4]| line.iter().any(Option::is_some);
    lines.into_iter().filter(is_told).collect()
}

fn text(block: &Block) -> String {
    let [kb, rate, reads, ms] = block.read;
    let [min, max, avg, stdev] = block.clat;
    let mut text = format!("  read : io={kb:.0}KB, bw={rate:.0}KB/s, iops={reads:.0}, runt={ms:6.0}msec\n");
    text += &format!("    clat (usec): min={min:.0}, max={max:.0}, avg={avg:.2}, stdev={stdev:.2}\n");
    text += "    clat percentiles (usec):\n";
    let width = block
        .percentiles
        .iter()
        .map(|us| format!("{us:.0}").len())
        .max()
        .unwrap_or(0)
        .max(5);
    let all: Vec<String> = FIO_PERCENTILES
        .iter()
        .zip(&block.percentiles)
        .map(|(&(share, _), us)| format!("{:5.2}th=[{us:width$.0}]", share * 100.0))
        .collect();
    for (n, four) in all.chunks(4).enumerate() {
        let end = if (n + 1) * 4 < all.len() { "," } else { "" };
        text += &format!("     | {}{end}\n", four.join(", "));
    }
    for (what, n) in [("with the reader", 0), ("without", 1)] {
        if let Some(real) = block.writers[n] {
            text += &format!("  writers, {what}: real {}", minutes(real));
            if let Some(system) = block.system[n] {
                text += &format!(", sys {}", minutes(system));
            }
            text.push('\n');
        }
    }
    if !block.vmstat.is_empty() {
        text += "  vmstat:      bi       bo       in       cs\n";
    }
    for line in &block.vmstat {
        let cells = line.map(|cell| cell.map_or("       -".into(), |value| format!("{value:8.0}")));
        text += &format!("         {}\n", cells.join(" "));
    }
    text
}

/// In the form of a shell's `time`.
fn minutes(seconds: f64) -> String {
    let minutes = (seconds / 60.0).floor();
    format!("{minutes:.0}m{:.3}s", seconds - minutes * 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Series;
    use crate::report::tests::{metric, row};

    /// The post's own arithmetic: what it says of the gain follows from its numbers.
    #[test]
    fn the_numbers_fit_each_other() {
        let metrics = metrics();
        let rows = ["off", "v3-10"].map(super::row);
        let ratio = |metric| {
            let [off, v3] = rows
                .each_ref()
                .map(|row| lookup(&metrics, row, BOTH, metric).unwrap().value);
            v3 / off
        };
        assert!((34.0..36.0).contains(&ratio(READS)));
        assert!((1.34..1.36).contains(&ratio(SECONDS)));
        assert!((500.0..600.0).contains(&(1.0 / ratio("reader_latency_p99_us"))));
        // 18640 KB/s in reads of 4 KiB
        assert_eq!(18_640 / 4, 4_660);
        // 550868 B/s likewise, which fio rounds down
        assert_eq!(550_868 / 4_096, 134);
        for (variant, block) in published() {
            assert!(block.percentiles.is_sorted(), "{variant}");
            assert_eq!(block.percentiles.len(), FIO_PERCENTILES.len());
        }
        assert_eq!(
            lookup(&metrics, &rows[1], WRITERS, SECONDS).unwrap().value,
            66.919
        );
    }

    #[test]
    fn the_layout_is_fios_and_vmstats() {
        let [(_, off), _] = published();
        let text = text(&off);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "  read : io=35580KB, bw=538KB/s, iops=134, runt= 66139msec"
        );
        assert_eq!(
            lines[3],
            "     |  1.00th=[    41],  5.00th=[    41], 10.00th=[    41], 20.00th=[    42],"
        );
        assert_eq!(
            lines[6],
            "     | 99.00th=[254976], 99.50th=[358400], 99.90th=[444416], 99.95th=[468992],"
        );
        assert_eq!(lines[7], "     | 99.99th=[651264]");
        assert_eq!(
            lines[8],
            "  writers, with the reader: real 1m6.304s, sys 0m12.210s"
        );
        assert_eq!(lines[10], "              384    73728      571      558");
    }

    #[test]
    fn a_row_without_a_percentile_has_no_block_and_one_with_all_has_its_seconds() {
        let row = row("sim", "goal");
        let rows = std::slice::from_ref(&row);
        let mut metrics = vec![
            metric(&row, BOTH, "reader_reads", &[1000.0]),
            metric(&row, BOTH, "reader_reads_per_s", &[100.0]),
        ];
        assert!(appendices(rows, &metrics, &[]).is_empty());
        for name in ["min", "max", "mean", "stdev"]
            .into_iter()
            .chain(FIO_PERCENTILES.map(|(_, name)| name))
        {
            metrics.push(metric(&row, BOTH, &format!("reader_all_{name}_us"), &[250.0]));
        }
        metrics.push(metric(&row, BOTH, SECONDS, &[20.0]));
        let mut outcome = Outcome::default();
        outcome.push(SECONDS, "s", 20.0);
        outcome.series.push(Series {
            name: "device_written_mb_per_s".into(),
            unit: "MB/s".into(),
            step_s: 0.5,
            values: (0..40).map(|n| Some(f64::from(n) * 1.024)).collect(),
        });
        let runs = Runs {
            row: row.clone(),
            workload: BOTH.into(),
            outcomes: vec![outcome],
        };
        let all = appendices(rows, &metrics, &[runs]);
        assert_eq!(all.len(), 3);
        let ours = &all[2];
        assert_eq!((ours.name, ours.title.as_str()), (NAME, "sim goal"));
        assert!(
            ours.text
                .contains("io=4000KB, bw=400KB/s, iops=100, runt= 10000msec"),
            "{}",
            ours.text
        );
        let bo: Vec<_> = ours
            .text
            .lines()
            .skip_while(|l| !l.contains("vmstat"))
            .skip(1)
            .collect();
        // seconds of the values 9 and 10, 19 and 20, 29 and 30
        assert_eq!(
            bo[0].split_whitespace().collect::<Vec<_>>(),
            ["-", "9500", "-", "-"]
        );
        assert_eq!(bo.len(), 3);
    }
}
