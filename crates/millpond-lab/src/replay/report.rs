//! The report of a replay: a table for each memory, two curves, and the sentence that says how much memory it needs.

use super::{Load, Point, Policy, Ran, ReplayOptions};
use crate::machine;
use crate::report::{Axis, Cell, Chart, Line, Metric, Report, RowName, Scale, Table};
use millpond::internal::quantity::{micros, micros_tick, number, number_tick, size};
use millpond_core::units::Bytes;
use millpond_sim::policy::Model;

/// Bytes read within this share of the fewest are no worse.
const NEAR: f64 = 0.05;

pub(super) fn report(load: &Load, options: &ReplayOptions, points: &[Point]) -> Report {
    let mut report = Report {
        title: format!("How much memory does {} need?", load.name),
        intro: vec![about(load, options)],
        command: options.command.clone(),
        tables: vec![table(load, options, points)],
        charts: charts(load, options, points),
        notes: load.notes.clone(),
        definitions: DEFINITIONS.to_vec(),
        machine: machine::describe(None),
        metrics: metrics(load, options, points),
        ..Report::default()
    };
    for (n, policy) in options.policies.iter().enumerate() {
        report.answers.extend(needs(load, *policy, points, n));
    }
    report.answers.extend(optimum(load, options, points));
    if points.len() < 2 {
        let nothing = "One size of memory can't be compared: several, such as --memory 256M,512M,1G, show which is enough.";
        report.answers.push(nothing.into());
    }
    if let Some((memory, missed)) = load.recorded {
        report.answers.push(format!(
            "The recorded cache, of {}, missed {} meanwhile.",
            size(Bytes(memory)),
            load.bytes(missed)
        ));
    }
    report
}

fn about(load: &Load, options: &ReplayOptions) -> String {
    format!(
        "{} uses of pages of {}, {} of them different, by {}, replayed in virtual time on a modelled disk ({}).",
        load.uses,
        load.bytes(1),
        load.bytes(load.distinct),
        match load.threads.len() {
            1 => "one thread".into(),
            threads => format!("{threads} threads"),
        },
        options.device
    )
}

/// The least memory that is as good as the most, as a sentence. By what is read from the disk: a policy that reads ahead can
/// miss little and read all.
fn needs(load: &Load, policy: Policy, points: &[Point], n: usize) -> Option<String> {
    if points.len() < 2 {
        // There is nothing to compare it with.
        return None;
    }
    let near = |read: u64| read as f64 + NEAR * (read as f64).max(load.uses as f64 * 0.01);
    let fewest = points.iter().map(|point| point.runs[n].read()).min()?;
    let is_near = |point: &&Point| point.runs[n].read() as f64 <= near(fewest);
    let enough = points.iter().find(is_near)?;
    let (last, name, memory) = (points.last()?, policy.name(), size(enough.bytes));
    let missed = number(ratio(load, &enough.runs[n]));
    let read = load.bytes(enough.runs[n].read());
    Some(if fewest as f64 <= near(load.first) {
        format!(
            "{name}: {memory} is enough: {missed} % of uses miss, about as many as are the first use of their page; {read} are read."
        )
    } else if enough.bytes == last.bytes {
        format!(
            "{name}: {memory} is the largest that was tried and reads least ({read}, and {missed} % of uses miss); more may help still."
        )
    } else {
        format!(
            "{name}: {memory} is enough: {missed} % of uses miss and {read} are read; more, up to {}, gains next to nothing.",
            size(last.bytes)
        )
    })
}

/// What the optimum leaves to gain, where it is comparable: beside the rule alone, which reads nothing ahead either. At the
/// recorded size, or else the one in the middle.
fn optimum(load: &Load, options: &ReplayOptions, points: &[Point]) -> Option<String> {
    let place = |model| {
        let policies = options.policies.iter();
        policies
            .clone()
            .position(|&policy| policy == Policy::Count(model))
    };
    let (opt, rule) = (place(Model::Opt)?, place(Model::Millpond)?);
    let point = points
        .iter()
        .find(|point| Some(point.bytes) == load.recorded_memory);
    let point = point.or_else(|| points.get(points.len() / 2))?;
    let missed = |n: usize| number(ratio(load, &point.runs[n]));
    Some(format!(
        "Without read-ahead, with {}: {} % of uses miss, and with the optimum {} %.",
        size(point.bytes),
        missed(rule),
        missed(opt)
    ))
}

fn ratio(load: &Load, ran: &Ran) -> f64 {
    100.0 * ran.misses as f64 / load.uses as f64
}

fn is_run(policy: Policy) -> bool {
    !matches!(policy, Policy::Count(_))
}

fn table(load: &Load, options: &ReplayOptions, points: &[Point]) -> Table {
    let heads = [
        "memory",
        "policy",
        "missed",
        "of uses",
        "read ahead",
        "read",
        "stalled",
        "longest",
        "written",
        "took",
    ];
    let mut table = Table::new("Each memory and policy", heads);
    for point in points {
        for (policy, ran) in options.policies.iter().zip(&point.runs) {
            let time = |ns: u64| micros(ns as f64 / 1e3);
            let mut cells = vec![
                Cell::from(policy.name().to_string()),
                Cell::from(load.bytes(ran.misses)),
                Cell::from(format!("{} %", number(ratio(load, ran)))),
            ];
            if is_run(*policy) {
                cells.extend(
                    [
                        load.bytes(ran.read_ahead),
                        load.bytes(ran.read()),
                        time(ran.stalled.0),
                        time(ran.stalled_max.0),
                        size(ran.written),
                        time(ran.took.0),
                    ]
                    .map(Cell::from),
                );
            } else {
                cells.extend([Cell::default(), Cell::from(load.bytes(ran.read()))]);
                cells.extend((0..4).map(|_| Cell::default()));
            }
            table.push(size(point.bytes), cells);
        }
    }
    table
}

/// The name of a size of memory below a plot.
fn mebibytes(mib: f64) -> String {
    size(Bytes((mib * f64::from(1 << 20)) as u64))
}

fn charts(load: &Load, options: &ReplayOptions, points: &[Point]) -> Vec<Chart> {
    let memory = || Axis::new("memory", Scale::Log, mebibytes);
    let lines = |value: &dyn Fn(&Ran) -> f64, counts_too: bool| -> Vec<Line> {
        let policies = options.policies.iter().enumerate();
        policies
            .filter(|(_, policy)| counts_too || is_run(**policy))
            .map(|(n, policy)| Line {
                name: policy.name().into(),
                look: n,
                is_reference: !is_run(*policy),
                labels: Vec::new(),
                points: points
                    .iter()
                    .map(|point| {
                        let mib = point.bytes.0 as f64 / f64::from(1 << 20);
                        (mib, Some(value(&point.runs[n])))
                    })
                    .collect(),
            })
            .collect()
    };
    vec![
        Chart {
            title: "Pages read against memory".into(),
            caption: format!(
                "Pages read from the disk for each 100 uses: what missed and what was read ahead. No memory helps \
                 against the first use of a page ({} % of them). Where a line turns flat, more memory is of no use to this load.",
                number(100.0 * load.first as f64 / load.uses as f64)
            ),
            x: memory(),
            y: Axis::new("pages read, % of uses", Scale::Linear, number_tick),
            lines: lines(&|ran| 100.0 * ran.read() as f64 / load.uses as f64, true),
        },
        Chart {
            title: "Time that calls waited, against memory".into(),
            caption:
                "All threads together: for pages to be read, for memory, for the dirty limit, for syncs."
                    .into(),
            x: memory(),
            y: Axis::new("time stalled", Scale::Linear, micros_tick),
            lines: lines(&|ran| ran.stalled.0 as f64 / 1e3, false),
        },
    ]
}

fn metrics(load: &Load, options: &ReplayOptions, points: &[Point]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for point in points {
        for (policy, ran) in options.policies.iter().zip(&point.runs) {
            let variant = format!("{} memory={}", policy.name(), point.bytes.0);
            let row = RowName::new("sim", options.device.to_string(), variant);
            let mut push = |metric: &str, unit: &str, value: f64| {
                metrics.push(Metric::exact("replay", &load.name, &row, metric, unit, value));
            };
            push("memory_bytes", "bytes", point.bytes.0 as f64);
            push("frames_pages", "pages", point.frames.0 as f64);
            push("misses_pages", "pages", ran.misses as f64);
            push("miss_ratio_percent", "%", ratio(load, ran));
            push(
                "read_bytes",
                "bytes",
                (ran.read() * load.page_size.bytes()) as f64,
            );
            if is_run(*policy) {
                push("read_ahead_pages", "pages", ran.read_ahead as f64);
                push("stalled_us", "us", ran.stalled.0 as f64 / 1e3);
                push("stalled_max_us", "us", ran.stalled_max.0 as f64 / 1e3);
                push("written_bytes", "bytes", ran.written.0 as f64);
                push("took_us", "us", ran.took.0 as f64 / 1e3);
            }
        }
    }
    metrics
}

const DEFINITIONS: [(&str, &str); 8] = [
    (
        "missed",
        "Bytes of pages whose content a call needed and that were not in memory. A page that is overwritten whole needs \
             nothing read, and one that was read ahead is there, or on its way: neither is a miss.",
    ),
    (
        "of uses",
        "Missed pages for each use of a page; a call that reads four pages uses four.",
    ),
    (
        "read",
        "Bytes read from the disk: what missed, and what was read ahead, whether a call used it or not. By it memory \
             is enough or not.",
    ),
    (
        "stalled",
        "The time calls took beyond the processor time of calls that find everything in memory, all threads together.",
    ),
    ("longest", "The longest of these waits."),
    (
        "written",
        "Bytes written to the disk when the last call ended, without those still dirty then.",
    ),
    ("took", "Virtual time from the first call to the end of the last."),
    (
        "opt, lru, arc …",
        "Counts by models that take one page at a time and read nothing ahead; opt is the optimum that knows the future, \
             millpond-rule Millpond's replacement alone, which is what stands beside opt: a policy that reads ahead can miss less \
             than the optimum does.",
    ),
];
