//! What the numbers say, in plain sentences, computed from the medians. Where the runs of two rows overlap
//! the sentence says so: then no difference is shown.

use super::published::published;
use super::report::{BOTH, MAX, P99, READER, READS, SECONDS, WRITERS};
use crate::report::words::{overlap, percent_more, times};
use crate::report::{Metric, RowName, lookup};
use millpond::internal::quantity::{self, micros, number};

/// The variant of Millpond that sentences speak of, if it is among the rows: the default first.
const OURS: [&str; 3] = ["goal", "latency", "bytes"];

/// The owner of the numbers, in a sentence: "the kernel", "Millpond".
pub(super) fn who(row: &RowName) -> String {
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

/// A row's reader or writers, in a sentence.
fn whose(row: &RowName, what: &str) -> String {
    let who = who(row);
    match who.contains([' ', '(']) && who != "the kernel" {
        true => format!("the {what} of {who}"),
        false => format!("{who}'s {what}"),
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
pub(super) fn ours(rows: &[RowName]) -> Option<&RowName> {
    let engine = || rows.iter().filter(|row| row.target == "engine");
    OURS.iter()
        .find_map(|&variant| engine().find(|row| row.variant == variant))
        .or_else(|| engine().next())
}

/// The answer for this machine: what readers and writers met on each row, Millpond's beside the others'.
pub(super) fn of_this_machine(rows: &[RowName], metrics: &[Metric]) -> Vec<String> {
    let of = |row: &RowName, workload: &str, metric: &str| lookup(metrics, row, workload, metric);
    let mut sentences = Vec::new();
    let ours = ours(rows);
    let others: Vec<&RowName> = rows.iter().filter(|row| row.target != "engine").collect();
    for other in &others {
        let (Some(max), Some(p99)) = (of(other, BOTH, MAX), of(other, BOTH, P99)) else {
            continue;
        };
        let waited = |max: &Metric, p99: &Metric| {
            format!(
                "up to {} (one read in a hundred {} or longer)",
                micros(max.value),
                micros(p99.value)
            )
        };
        let reader = whose(other, "reader");
        let mut sentence = format!("Beside the writers, {reader} waited {}", waited(max, p99));
        if let Some(us) = ours
            && let (Some(our_max), Some(our_p99)) = (of(us, BOTH, MAX), of(us, BOTH, P99))
        {
            sentence += &format!("; {} {}", whose(us, "reader"), waited(our_max, our_p99));
            if overlap(max, our_max) && overlap(p99, our_p99) {
                sentence += ". Their runs overlap: no difference is shown";
            }
            sentence += ".";
            if let (Some(reads), Some(our_reads)) = (of(other, BOTH, READS), of(us, BOTH, READS)) {
                sentence += &format!(
                    " {} served {} as many reads",
                    who(us),
                    times(our_reads.value, reads.value)
                );
                sentence += if overlap(reads, our_reads) {
                    " (runs overlap)"
                } else {
                    ""
                };
                if let (Some(took), Some(we_took)) = (of(other, BOTH, SECONDS), of(us, BOTH, SECONDS)) {
                    sentence += &format!(
                        "; its writers took {} as long ({} instead of {}{})",
                        times(we_took.value, took.value),
                        quantity::seconds(we_took.value),
                        quantity::seconds(took.value),
                        if overlap(took, we_took) {
                            "; runs overlap"
                        } else {
                            ""
                        },
                    );
                }
                sentence += ".";
            }
        } else {
            sentence += ".";
        }
        sentences.push(sentence);
    }
    for row in ours.into_iter().chain(others) {
        sentences.extend(against_alone(row, &of));
    }
    sentences
}

/// What reader and writers cost each other on one row.
fn against_alone<'a>(
    row: &RowName,
    of: &impl Fn(&RowName, &str, &str) -> Option<&'a Metric>,
) -> Option<String> {
    let mut parts = Vec::new();
    if let (Some(alone), Some(both)) = (of(row, READER, P99), of(row, BOTH, P99)) {
        parts.push(format!(
            "the writers made the reader's p99 {} what it is alone ({})",
            times(both.value, alone.value),
            micros(alone.value)
        ));
    }
    if let (Some(alone), Some(both)) = (of(row, WRITERS, SECONDS), of(row, BOTH, SECONDS)) {
        let apart = if overlap(alone, both) {
            ", runs overlap"
        } else {
            ""
        };
        parts.push(format!(
            "the reader made the writers take {} as long as alone ({}{apart})",
            times(both.value, alone.value),
            quantity::seconds(alone.value)
        ));
    } else if let (None, Some(alone)) = (of(row, BOTH, SECONDS), of(row, WRITERS, SECONDS)) {
        let rate = of(row, WRITERS, "writers_mb_per_s")
            .map_or_else(String::new, |m| format!(", {} MB/s", number(m.value)));
        parts.push(format!(
            "the writers took {}{rate}",
            quantity::seconds(alone.value)
        ));
    }
    (!parts.is_empty()).then(|| format!("With {}, {}.", who(row), parts.join("; ")))
}

/// The answer for the post's machine: what the variants gain over `off`, beside what the post reports.
pub(super) fn of_virtual_time(rows: &[RowName], metrics: &[Metric]) -> Vec<String> {
    let Some(off) = rows.iter().find(|row| row.variant == "off") else {
        return Vec::new();
    };
    let of = |row: &RowName, metric: &str| lookup(metrics, row, BOTH, metric).map(|m| m.value);
    let gains = |new: &dyn Fn(&str) -> Option<f64>, old: &dyn Fn(&str) -> Option<f64>| {
        Some(format!(
            "{} as many reads, a p99 of {} instead of {}, writers that took {} time",
            times(new(READS)?, old(READS)?),
            micros(new(P99)?),
            micros(old(P99)?),
            percent_more(new(SECONDS)?, old(SECONDS)?),
        ))
    };
    let mut sentences = Vec::new();
    let shown = |row: &&RowName| row.variant == "v3-10" || OURS[0] == row.variant;
    for row in rows.iter().filter(shown) {
        let Some(gained) = gains(&|m| of(row, m), &|m| of(off, m)) else {
            continue;
        };
        let mut sentence = format!("In virtual time, `{}` against `off`: {gained}.", row.variant);
        let post = gains(&|m| published(&row.variant, BOTH, m), &|m| {
            published("off", BOTH, m)
        });
        if let Some(post) = post {
            sentence += &format!(" The post: {post}.");
        }
        sentences.push(sentence);
    }
    sentences
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::EXPERIMENT;
    use super::*;

    pub(crate) fn row(target: &str, variant: &str) -> RowName {
        RowName {
            target: target.into(),
            device: "real".into(),
            variant: variant.into(),
        }
    }

    pub(crate) fn metric(row: &RowName, workload: &str, metric: &str, runs: &[f64]) -> Metric {
        Metric {
            experiment: EXPERIMENT.name.into(),
            workload: workload.into(),
            target: row.target.clone(),
            device: row.device.clone(),
            variant: row.variant.clone(),
            metric: metric.into(),
            unit: "us".into(),
            value: crate::report::median(runs).unwrap(),
            runs: runs.into(),
        }
    }

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

    #[test]
    fn the_verdict_compares_millpond_with_the_kernel_in_plain_words() {
        let (kernel, engine) = (row("kernel", "kernel bfq"), row("engine", "goal"));
        let mut metrics = both(
            &kernel,
            &[181e3, 179e3, 190e3],
            &[90e3, 91e3, 92e3],
            &[19.0, 19.5, 20.0],
            &[20.0, 20.1, 20.2],
        );
        metrics.extend(both(
            &engine,
            &[9e3, 8e3, 11e3],
            &[4e3, 4e3, 4e3],
            &[60.0, 61.0, 62.0],
            &[20.7, 20.8, 20.6],
        ));
        let sentences = of_this_machine(&[kernel, engine], &metrics);
        assert_eq!(
            sentences,
            [
                "Beside the writers, the kernel's reader waited up to 181 ms (one read in a hundred 91.0 ms or longer); \
              Millpond's reader up to 9.00 ms (one read in a hundred 4.00 ms or longer). Millpond served 3.1 times as many reads; \
              its writers took 1.03 times as long (20.7 s instead of 20.1 s)."
            ]
        );
    }

    #[test]
    fn a_difference_within_the_spread_is_called_none() {
        let (kernel, engine) = (row("kernel", "kernel"), row("engine", "goal"));
        let mut metrics = both(&kernel, &[10e3, 30e3], &[4e3, 9e3], &[20.0, 30.0], &[5.0, 6.0]);
        metrics.extend(both(
            &engine,
            &[12e3, 14e3],
            &[5e3, 6e3],
            &[22.0, 23.0],
            &[5.5, 7.0],
        ));
        let sentence = of_this_machine(&[kernel, engine], &metrics).remove(0);
        assert!(sentence.contains("no difference is shown"), "{sentence}");
        assert_eq!(sentence.matches("runs overlap").count(), 3, "{sentence}");
    }

    #[test]
    fn the_kernel_alone_is_compared_with_itself() {
        let kernel = row("kernel", "kernel none memory=512M");
        let mut metrics = both(&kernel, &[181e3], &[90e3], &[19.0], &[20.0]);
        metrics.push(metric(&kernel, READER, P99, &[10e3]));
        metrics.push(metric(&kernel, WRITERS, SECONDS, &[18.0]));
        let sentences = of_this_machine(&[kernel], &metrics);
        assert_eq!(
            sentences,
            [
                "Beside the writers, the reader of the kernel within 512M waited up to 181 ms (one read in a hundred 90.0 ms or longer).",
                "With the kernel within 512M, the writers made the reader's p99 9.0 times what it is alone (10.0 ms); the reader made the \
                 writers take 1.11 times as long as alone (18.0 s).",
            ]
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

    #[test]
    fn without_a_reader_only_the_writers_are_spoken_of() {
        let kernel = row("kernel", "kernel");
        let metrics = [
            metric(&kernel, WRITERS, SECONDS, &[18.0]),
            metric(&kernel, WRITERS, "writers_mb_per_s", &[291.0]),
        ];
        assert_eq!(
            of_this_machine(&[kernel], &metrics),
            ["With the kernel, the writers took 18.0 s, 291 MB/s."]
        );
        assert_eq!(of_this_machine(&[row("kernel", "kernel")], &[]), [""; 0]);
    }

    #[test]
    fn the_simulator_stands_beside_the_post() {
        let rows = ["off", "v3-10"].map(|variant| row("sim", variant));
        let mut metrics = both(&rows[0], &[650e3], &[250e3], &[130.0], &[66.0]);
        metrics.extend(both(&rows[1], &[400e3], &[500.0], &[4550.0], &[89.1]));
        assert_eq!(
            of_virtual_time(&rows, &metrics),
            [
                "In virtual time, `v3-10` against `off`: 35 times as many reads, a p99 of 500 us instead of 250 ms, writers that took \
              35% more time. The post: 35 times as many reads, a p99 of 454 us instead of 255 ms, writers that took 35% more time."
            ]
        );
    }
}
