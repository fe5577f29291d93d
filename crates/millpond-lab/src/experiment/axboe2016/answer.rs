//! The report's first lines: each of the kernel's rows beside Millpond's, the simulator's variants beside none, one line
//! for each mixed load.

use super::WRITERS_ALONE;
use super::post;
use super::report::{BOTH, MAX, P99, P999, READER, READS, SECONDS};
use crate::report::verdict::{Circumstances, Figure, Side, compare, time, too_small, two_digits};
use crate::report::{Metric, RowName, lookup};
use crate::workload::axboe2016::Phase;
use crate::workload::axboe2016::phase::Actor;

/// The measured figures of an actor.
struct Of {
    /// Its slowest operation.
    slowest: Figure,
    /// One in 1000, in 100, in 10: of the first for which there are enough.
    tails: [Figure; 3],
    /// The metric of their number.
    count: &'static str,
    /// Those a second.
    rate: Figure,
    /// One of them.
    what: &'static str,
}

/// The number of operations that show a tail, and the share of them that is no slower.
const TAILS: [(f64, f64); 3] = [(3000.0, 0.999), (300.0, 0.99), (30.0, 0.9)];

const fn tails(metrics: [&'static str; 3]) -> [Figure; 3] {
    [
        Figure::new("one in 1000", metrics[0], time),
        Figure::new("one in 100", metrics[1], time),
        Figure::new("one in 10", metrics[2], time),
    ]
}

const OF_READS: Of = Of {
    slowest: Figure::new("slowest read", MAX, time),
    tails: tails([P999, P99, "reader_latency_p90_us"]),
    count: "reader_misses",
    rate: Figure::new("the reader got", READS, two_digits)
        .higher()
        .times("as many reads"),
    what: "read",
};
const OF_SYNCS: Of = Of {
    slowest: Figure::new("slowest sync", "sync_max_us", time),
    tails: tails(["sync_p999_us", "sync_p99_us", "sync_p90_us"]),
    count: "log_syncs",
    rate: Figure::new("the log did", "syncs_per_s", two_digits)
        .higher()
        .times("as many syncs"),
    what: "sync",
};
const SCANNED: Figure = Figure::new("the scan got", "scan_mb_per_s", two_digits)
    .higher()
    .times("as many bytes a second");
const TOOK: Figure = Figure::new("writers took", SECONDS, two_digits).cost("as long");

/// The inputs of the lines.
pub(super) struct Answers<'a> {
    pub(super) metrics: &'a [Metric],
    /// Of the sizes that were run.
    pub(super) scale: f64,
    pub(super) circumstances: Circumstances,
}

impl Answers<'_> {
    /// Of rows on real files: Millpond beside each of the kernel's. A row that has none to stand beside is held against its
    /// own reader without writers.
    pub(super) fn of_this_machine(&self, rows: &[RowName]) -> Vec<String> {
        let ours = ours(rows);
        let others: Vec<&RowName> = rows.iter().filter(|row| row.target != "engine").collect();
        match ours {
            Some(ours) if !others.is_empty() => {
                let pairs = others.iter().map(|other| (*other, ours, who(other), who(ours)));
                self.pairs(pairs.collect())
            }
            _ => rows.iter().filter_map(|row| self.alone(row)).collect(),
        }
    }

    /// Of rows in virtual time: the post's variant and Millpond's beside none, and what the post says of its own.
    pub(super) fn of_virtual_time(&self, rows: &[RowName]) -> Vec<String> {
        let find = |variant| rows.iter().find(|row| row.variant == variant);
        let Some(off) = find("off") else {
            if let (Some(latency), Some(goal)) = (find("latency"), find("goal")) {
                let name = "Linux' throttling of writeback, simulated";
                return self.pairs(vec![(latency, goal, name.into(), "Millpond".into())]);
            }
            return rows.iter().filter_map(|row| self.alone(row)).collect();
        };
        // Each is Millpond's cache: only its admission is the post's.
        let pairs = [
            ("v3-10", "the same with the post's v3 at 10 %"),
            ("goal", "Millpond"),
        ];
        let pairs = pairs.into_iter().filter_map(|(variant, name)| {
            Some((
                off,
                find(variant)?,
                "Millpond's cache without admission, simulated".into(),
                name.into(),
            ))
        });
        let mut lines = self.pairs(pairs.collect());
        if find("v3-10").is_some() && !lines.is_empty() {
            lines.extend(of_the_post());
        }
        lines
    }

    fn pairs(&self, pairs: Vec<(&RowName, &RowName, String, String)>) -> Vec<String> {
        let mut lines = Vec::new();
        for (before, after, from, to) in pairs {
            for phase in Phase::ALL.into_iter().filter(|phase| phase.name() != READER) {
                let pair = [before, after].map(|row| Side {
                    row,
                    workload: phase.name(),
                });
                // with a reader they are in its line
                if phase.name() == WRITERS_ALONE && self.of(after, BOTH, SECONDS).is_some() {
                    continue;
                }
                let about = if phase.name() == BOTH { "" } else { phase.name() };
                let sides = format!(
                    "{from} -> {to}{}{about}",
                    if about.is_empty() { "" } else { ", " }
                );
                lines.extend(self.line(phase, pair, &sides));
            }
        }
        lines
    }

    fn of(&self, row: &RowName, workload: &str, metric: &str) -> Option<f64> {
        lookup(self.metrics, row, workload, metric).map(|m| m.value)
    }

    fn compare(&self, pair: [Side<'_>; 2], figures: &[Figure], sides: &str) -> Option<String> {
        Some(compare(self.metrics, pair, figures, &self.circumstances)?.between(sides))
    }

    fn line(&self, phase: Phase, pair: [Side<'_>; 2], sides: &str) -> Option<String> {
        match phase.actor() {
            Some(Actor::Readers(..) | Actor::CachedReader) => self.tail(&OF_READS, pair, sides),
            Some(Actor::Log | Actor::Checkpoints) => self.tail(&OF_SYNCS, pair, sides),
            Some(Actor::Scan) => self.compare(pair, &[SCANNED, TOOK], sides),
            None => self.compare(pair, &[TOOK], sides),
        }
    }

    /// The line of waits, or that they are too few to say.
    fn tail(&self, of: &Of, pair: [Side<'_>; 2], sides: &str) -> Option<String> {
        let least = |metric: &str| {
            let both = pair.map(|side| self.of(side.row, side.workload, metric));
            both.into_iter().flatten().reduce(f64::min)
        };
        let count = least(of.count)?;
        // a log alone has no writers
        let seconds = least(SECONDS).unwrap_or(f64::INFINITY);
        let enough = TAILS.iter().position(|(needed, _)| count >= *needed);
        let enough = enough.unwrap_or(TAILS.len() - 1);
        if let Some(verdict) = too_small(TAILS[enough].1, of.what, count, seconds, self.scale) {
            return Some(verdict.between(sides));
        }
        let mut figures = vec![of.slowest, of.tails[enough]];
        if enough > 0 {
            // few come from a reader that waits: how many is a part of it
            figures.push(of.rate);
        }
        figures.push(TOOK);
        self.compare(pair, &figures, sides)
    }

    /// A row's reader beside writers and alone.
    fn alone(&self, row: &RowName) -> Option<String> {
        let pair = [READER, BOTH].map(|workload| Side { row, workload });
        self.of(row, READER, MAX)?;
        let sides = format!("{}: reader alone -> beside writers", who(row));
        self.tail(&OF_READS, pair, &sides)
    }
}

/// The post's own line, by its own figures.
fn of_the_post() -> Option<String> {
    let metrics = post::metrics();
    let rows = ["off", "v3-10"].map(post::row);
    let pair = rows.each_ref().map(|row| Side { row, workload: BOTH });
    let figures = [OF_READS.slowest, OF_READS.tails[0], TOOK];
    let verdict = compare(&metrics, pair, &figures, &Circumstances::exact())?;
    let [before, after] = rows.map(|row| lookup(&metrics, &row, BOTH, READS).map(|m| m.value));
    Some(format!(
        "{} (Its reader got {} times as many reads.)",
        verdict.between("The post of 2016, off -> v3 at 10 %"),
        two_digits(after? / before?)
    ))
}

/// The variant of Millpond that lines speak of, if it is among the rows: the default first.
const OURS: [&str; 3] = ["goal", "latency", "bytes"];

/// The owner of the numbers, in a sentence: "the kernel", "Millpond".
fn who(row: &RowName) -> String {
    if row.target == "kernel" && row.device != "real" {
        let variant = row.variant.split(" memory=").next().unwrap_or_default();
        return format!("the kernel with {}", variant.trim_start_matches("kernel "));
    }
    let variant = row.variant.split(" memory=").next().unwrap_or_default();
    let kernel = match variant.strip_prefix("kernel tuned ") {
        Some(settings) => format!("the kernel tuned ({settings})"),
        None => "the kernel".into(),
    };
    match (row.target.as_str(), memory_of(row)) {
        ("kernel", Some(memory)) => format!("{kernel} within {memory}"),
        ("kernel", None) => kernel,
        ("engine", _) => "Millpond".into(),
        _ => format!("{} {}", row.target, row.variant),
    }
}

/// The limit in a kernel row's variant, if it has one, with the version of its memory group.
fn memory_of(row: &RowName) -> Option<String> {
    let (_, limit) = row.variant.split_once("memory=")?;
    Some(match limit.split_once(" group=v") {
        Some((memory, version)) => format!("{memory} (a memory group of version {version})"),
        None => limit.into(),
    })
}

/// The row that speaks for Millpond.
fn ours(rows: &[RowName]) -> Option<&RowName> {
    let engine = || rows.iter().filter(|row| row.target == "engine");
    OURS.iter()
        .find_map(|&variant| engine().find(|row| row.variant == variant))
        .or_else(|| engine().next())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::tests::{metric, row};

    pub(crate) fn both(
        row: &RowName,
        max: &[f64],
        p99: &[f64],
        reads: &[f64],
        seconds: &[f64],
    ) -> Vec<Metric> {
        let table = [(MAX, max), (P99, p99), (READS, reads), (SECONDS, seconds)];
        table.map(|(name, runs)| metric(row, BOTH, name, runs)).into()
    }

    fn answers(metrics: &[Metric], scale: f64) -> Answers<'_> {
        Answers {
            metrics,
            scale,
            circumstances: Circumstances::default(),
        }
    }

    fn waits(row: &RowName, max: f64, p999: f64, reads: f64, seconds: f64) -> Vec<Metric> {
        let mut metrics = both(
            row,
            &[max, 1.1 * max],
            &[p999 / 2.0],
            &[reads / seconds],
            &[seconds, 1.01 * seconds],
        );
        metrics.push(metric(row, BOTH, P999, &[p999, 1.1 * p999]));
        metrics.push(metric(row, BOTH, "reader_misses", &[reads]));
        metrics
    }

    #[test]
    fn each_row_of_the_kernels_has_its_line() {
        let kernels = ["kernel none", "kernel none memory=512M"].map(|variant| row("kernel", variant));
        let engine = row("engine", "goal");
        let mut metrics = waits(&kernels[0], 46e3, 20e3, 9e3, 20.0);
        metrics.extend(waits(&kernels[1], 52e3, 36e3, 500.0, 20.0));
        metrics.extend(waits(&engine, 5e3, 1.7e3, 9e3, 19.0));
        let [all, limited] = kernels;
        assert_eq!(
            answers(&metrics, 1.0).of_this_machine(&[all, limited, engine]),
            [
                "The kernel -> Millpond: better. Slowest read 48 ms -> 5.2 ms, one in 1000 21 ms -> 1.8 ms; writers took 0.95 \
                 times as long.",
                // of 500 reads the thousandth is the luck of one
                "The kernel within 512M -> Millpond: better. Slowest read 55 ms -> 5.2 ms, one in 100 18 ms -> 850 us, the \
                 reader got 19 times as many reads; writers took 0.95 times as long.",
            ]
        );
    }

    #[test]
    fn a_scale_that_shows_no_tail_has_no_verdict_and_names_one_that_does() {
        let (kernel, engine) = (row("kernel", "kernel none"), row("engine", "goal"));
        let mut metrics = waits(&kernel, 46e3, 20e3, 100.0, 0.2);
        metrics.extend(waits(&engine, 5e3, 1.7e3, 100.0, 0.2));
        assert_eq!(
            answers(&metrics, 0.02).of_this_machine(&[kernel, engine]),
            [
                "The kernel -> Millpond: no verdict at --scale 0.02: the writers took 0.20 s. A tail needs 1 s: --scale 0.1 shows it."
            ]
        );
    }

    #[test]
    fn a_row_alone_is_held_against_its_reader_alone() {
        let kernel = row("kernel", "kernel none");
        let mut metrics = waits(&kernel, 46e3, 20e3, 5e3, 20.0);
        for (name, values) in [
            (MAX, [1e3, 1.1e3]),
            (P999, [500.0, 510.0]),
            ("reader_misses", [5e3, 5e3]),
        ] {
            metrics.push(metric(&kernel, READER, name, &values));
        }
        assert_eq!(
            answers(&metrics, 1.0).of_this_machine(std::slice::from_ref(&kernel)),
            [
                "The kernel: reader alone -> beside writers: worse. Slowest read 1.1 ms -> 48 ms, one in 1000 505 us -> 21 ms."
            ]
        );
    }

    #[test]
    fn the_demo_s_final_comparison_has_a_line_without_a_row_without_limits() {
        let rows = ["latency", "goal"].map(|variant| row("sim", variant));
        let mut metrics = waits(&rows[0], 46e3, 20e3, 9e3, 20.0);
        metrics.extend(waits(&rows[1], 5e3, 1.7e3, 9e3, 20.0));
        let lines = answers(&metrics, 1.0).of_virtual_time(&rows);
        assert!(
            lines.len() == 1
                && lines[0].starts_with("Linux' throttling of writeback, simulated -> Millpond: better."),
            "{lines:?}"
        );
    }

    #[test]
    fn the_post_has_a_line_of_its_own() {
        assert_eq!(
            of_the_post().unwrap(),
            "The post of 2016, off -> v3 at 10 %: better, at a cost. Slowest read 654 ms -> 408 ms, one in 1000 444 ms -> 37 ms; \
             writers took 1.35 times as long. (Its reader got 35 times as many reads.)"
        );
    }

    #[test]
    fn a_kernels_row_names_its_settings_and_its_memory_groups_version() {
        for (variant, name) in [
            ("kernel none wbt=off", "the kernel"),
            (
                "kernel none memory=512M group=v1",
                "the kernel within 512M (a memory group of version 1)",
            ),
            (
                "kernel tuned none wbt=2000us dirty=32M memory=512M group=v2",
                "the kernel tuned (none wbt=2000us dirty=32M) within 512M (a memory group of version 2)",
            ),
        ] {
            assert_eq!(who(&row("kernel", variant)), name);
        }
    }
}
