//! The report's first lines: each of the kernel's rows beside Millpond's, the simulator's variants beside none, one line
//! for each mixed load.

use super::WRITERS_ALONE;
use super::published::published;
use super::report::{BOTH, MAX, P99, P999, READER, SECONDS};
use crate::report::verdict::{Circumstances, Compared, judge, time, too_small, two_digits};
use crate::report::{Metric, RowName, lookup};
use crate::workload::axboe2016::Phase;
use crate::workload::axboe2016::phase::Actor;

/// The measured figures of an actor.
struct Of {
    /// Its slowest operation.
    max: &'static str,
    /// One in 1000, in 100, in 10: of the first for which there are enough.
    tails: [&'static str; 3],
    /// The number, in all and a second.
    count: &'static str,
    rate: &'static str,
    /// One of them, and its actor.
    what: &'static str,
    who: &'static str,
}

/// The number of operations that show a tail; the share of them that is no slower; and its name.
const TAILS: [(f64, f64, &str); 3] = [
    (3000.0, 0.999, "one in 1000"),
    (300.0, 0.99, "one in 100"),
    (30.0, 0.9, "one in 10"),
];

const READS: Of = Of {
    max: MAX,
    tails: [P999, P99, "reader_latency_p90_us"],
    count: "reader_misses",
    rate: "reader_reads_per_s",
    what: "read",
    who: "the reader got",
};
const SYNCS: Of = Of {
    max: "sync_max_us",
    tails: ["sync_p999_us", "sync_p99_us", "sync_p90_us"],
    count: "log_syncs",
    rate: "syncs_per_s",
    what: "sync",
    who: "the log did",
};

/// Two rows, or two workloads of one row.
#[derive(Clone, Copy)]
struct Side<'a> {
    row: &'a RowName,
    workload: &'static str,
}

/// The two sides of a comparison.
#[derive(Clone, Copy)]
struct Sides<'a> {
    before: Side<'a>,
    after: Side<'a>,
}

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
                let side = |row| Side {
                    row,
                    workload: phase.name(),
                };
                // with a reader they are in its line
                if phase.name() == WRITERS_ALONE && self.of(side(after), BOTH, SECONDS).is_some() {
                    continue;
                }
                let about = if phase.name() == BOTH { "" } else { phase.name() };
                let sides = format!(
                    "{from} -> {to}{}{about}",
                    if about.is_empty() { "" } else { ", " }
                );
                lines.extend(self.line(phase, side(before), side(after), &sides));
            }
        }
        lines
    }

    fn of(&self, side: Side, workload: &str, metric: &str) -> Option<&Metric> {
        lookup(self.metrics, side.row, workload, metric)
    }

    fn runs(&self, side: Side, metric: &str) -> &[f64] {
        self.of(side, side.workload, metric).map_or(&[], |m| &m.runs)
    }

    fn compared(&self, sides: Sides, what: &str, metric: &str) -> Compared {
        let [before, after] = [sides.before, sides.after].map(|side| self.runs(side, metric));
        Compared::new(what, time, before, after)
    }

    fn line(&self, phase: Phase, before: Side, after: Side, sides: &str) -> Option<String> {
        let pair = Sides { before, after };
        let took = self.compared(pair, "writers took", SECONDS).cost("as long");
        let compared = match phase.actor() {
            Some(Actor::Readers(..) | Actor::CachedReader) => return self.tail(&READS, pair, took, sides),
            Some(Actor::Log | Actor::Checkpoints) => return self.tail(&SYNCS, pair, took, sides),
            Some(Actor::Scan) => {
                let rate = self.compared(pair, "the scan got", "scan_mb_per_s");
                let rate = rate.higher().times("as many bytes a second");
                vec![rate, took]
            }
            None => vec![took],
        };
        Some(judge(&compared, &self.circumstances)?.between(sides))
    }

    /// The line of waits, or that they are too few to say.
    fn tail(&self, of: &Of, pair: Sides, took: Compared, sides: &str) -> Option<String> {
        let least = |metric: &str| {
            let both =
                [pair.before, pair.after].map(|side| self.of(side, side.workload, metric).map(|m| m.value));
            both.into_iter().flatten().reduce(f64::min)
        };
        let count = least(of.count)?;
        // a log alone has no writers
        let seconds = least(SECONDS).unwrap_or(f64::INFINITY);
        let enough = TAILS.iter().position(|(needed, ..)| count >= *needed);
        let (_, share, what) = TAILS[enough.unwrap_or(TAILS.len() - 1)];
        if let Some(verdict) = too_small(share, of.what, count, seconds, self.scale) {
            return Some(verdict.between(sides));
        }
        let metric = of.tails[enough.unwrap_or(0)];
        let mut compared = vec![
            self.compared(pair, &format!("slowest {}", of.what), of.max),
            self.compared(pair, what, metric),
        ];
        if enough != Some(0) {
            // few come from a reader that waits: how many is a part of it
            let many = if of.what == "read" {
                "as many reads"
            } else {
                "as many syncs"
            };
            compared.push(self.compared(pair, of.who, of.rate).higher().times(many));
        }
        compared.push(took);
        Some(judge(&compared, &self.circumstances)?.between(sides))
    }

    /// A row's reader beside writers and alone.
    fn alone(&self, row: &RowName) -> Option<String> {
        let side = |workload| Side { row, workload };
        let pair = Sides {
            before: side(READER),
            after: side(BOTH),
        };
        self.of(pair.before, READER, MAX)?;
        let beside = Compared::new("writers took", time, &[], &[]);
        let sides = format!("{}: reader alone -> beside writers", who(row));
        self.tail(&READS, pair, beside, &sides)
    }
}

/// The post's own line, by its own figures.
fn of_the_post() -> Option<String> {
    let of = |metric| Some((published("off", BOTH, metric)?, published("v3-10", BOTH, metric)?));
    let compared = |what, metric| {
        let (before, after) = of(metric)?;
        Some(Compared::new(what, time, &[before], &[after]))
    };
    let compared = [
        compared("slowest read", MAX)?,
        compared("one in 1000", P999)?,
        compared("writers took", SECONDS)?.cost("as long"),
    ];
    let exact = Circumstances::exact();
    let reads = of("reader_reads_per_s")?;
    Some(format!(
        "{} (Its reader got {} times as many reads.)",
        judge(&compared, &exact)?.between("The post of 2016, off -> v3 at 10 %"),
        two_digits(reads.1 / reads.0)
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
    use super::super::report::READS;
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
