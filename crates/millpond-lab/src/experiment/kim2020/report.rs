//! The experiment's report: the examples, loads with rounds, the grid beside the post's.

use super::grid::{self, Grid, GridRow};
use super::options::{Plan, Rules, Variant};
use super::published::{self, THREADS, throughput};
use super::runs::{BOUNDS, row};
use super::toys::{self, Step};
use super::{EXPERIMENT, answer};
use crate::outcome::{Outcome, Setting};
use crate::report::table::{columns, pick};
use crate::report::{Appendix, Axis, Chart, Metric, Report, Runs, Scale, Table, lookup};
use crate::workload::kim2020::TOY_PROTECT;
use crate::workload::kim2020::loads::{Ebizzy, Load, ROUNDS};
use millpond::internal::quantity::number_tick;

/// The name that `--table` takes: each page of the examples' lists.
pub(super) const TABLE: &str = "lists";

/// Rounds of the second example.
const TOY_ROUNDS: u32 = 8;

const COLUMNS: [(&str, &str); 6] = [
    ("swap ins", "swap_ins_pages"),
    ("swap outs", "swap_outs_pages"),
    ("file reads", "file_reads_pages"),
    ("activated on return", "workingset_activate_anon"),
    ("optimum", "misses_optimum_pages"),
    ("LRU", "misses_lru_pages"),
];

/// A report without rows.
pub(super) fn empty() -> Report {
    Report {
        title: "kim2020: more anonymous memory than RAM".into(),
        intro: vec![
            "Anonymous pages that are used again, beside pages that are not: which of them go to swap, and how many come back?"
                .into(),
            format!("After {}.", EXPERIMENT.post),
        ],
        definitions: DEFINITIONS.to_vec(),
        ..Report::default()
    }
}

/// The chart of a load with rounds.
const SHOWN: [(&str, &str); 3] = [
    ("swapped in", "swap_ins_pages"),
    ("optimum", "misses_optimum_pages"),
    ("LRU", "misses_lru_pages"),
];

fn millions(pages: f64) -> String {
    number_tick(pages / 1e6)
}

pub(super) fn report(plan: &Plan, results: &[Runs]) -> Report {
    let mut report = empty();
    report.metrics = crate::report::metrics(results, EXPERIMENT.name);
    for &toy in &plan.toys {
        add_toy(&mut report, plan, toy);
    }
    let mut metrics = published::metrics();
    metrics.extend_from_slice(&report.metrics);
    let mut rows = Vec::new();
    for &(name, load) in ROUNDS.iter().filter(|(_, load)| plan.loads.contains(load)) {
        let own = plan.rows(&load).map(|variant| row(&load, variant.name));
        rows = own.chain([row(&load, BOUNDS)]).collect();
        // of all rounds
        let of_post = ["base", "detect"].map(published::row).into_iter();
        let of_post = of_post.filter(|_| plan.scale == 1.0 && load == Load::HotCold);
        let shown: Vec<_> = of_post.chain(rows.iter().cloned()).collect();
        let title = format!("{name} ({} rounds, in virtual time)", plan.rounds());
        let heads = columns(name, &COLUMNS);
        report.tables.push(pick(&title, "", &heads, &shown, &metrics));
        report.charts.extend(Chart::of_rows(
            [
                &format!("What was swapped in: {name} (in virtual time)"),
                "Over all rounds. No policy can be better than the optimum; LRU is one list by last use.",
            ],
            Axis::new("million pages", Scale::Linear, millions),
            0,
            &columns(name, &SHOWN),
            &shown,
            &metrics,
        ));
    }
    for threads in THREADS {
        if let Some(grid) = Grid::with_threads(threads, &plan.loads) {
            report
                .tables
                .extend(throughput_tables(plan, &metrics, threads, &grid));
        }
    }
    report.answers.extend(answer::of_virtual_time(plan, &metrics));
    add_notes(&mut report, plan);
    report.add_rows(&rows, results);
    report.machine = vec![Setting::new("scale", plan.scale), Setting::new("seed", plan.seed)];
    report
}

fn add_notes(report: &mut Report, plan: &Plan) {
    let has_ebizzy = plan.loads.iter().any(|load| matches!(load, Load::Ebizzy(_)));
    if has_ebizzy {
        report.notes.push(
            "What a record costs in memory is taken from the post's rows of 512M, so these rows agree by construction; the disk is \
             chosen to fit the rows of 768M to 1536M before the series."
                .into(),
        );
    }
    if plan.scale != 1.0 {
        report.notes.push(format!(
            "{} times the rounds and records: counts are not the post's.",
            plan.scale
        ));
    }
}

fn variants(plan: &Plan) -> Vec<Variant> {
    plan.variants.iter().chain(&plan.later).copied().collect()
}

fn add_toy(report: &mut Report, plan: &Plan, toy: &'static str) {
    let title = format!("{toy}: active | inactive, 100 pages; h hot, wh will be hot, uo used once");
    let mut table = Table::new(title, [""]);
    // A reason, and the rows that have it.
    let mut whys: Vec<(&str, Vec<&str>)> = Vec::new();
    for variant in variants(plan) {
        // The examples are about Linux' lists: Millpond's rule has no such sizes.
        let Rules::Linux(system) = variant.rules else {
            continue;
        };
        let rules = system.rules();
        let steps = match toy {
            TOY_PROTECT => toys::protection(rules),
            _ => toys::detection(rules, toys::FRAMES, false, TOY_ROUNDS),
        };
        let mut outcome = Outcome::default();
        let ins: u64 = steps.iter().map(|step| step.swap_ins).sum();
        outcome.push("swap_ins_pages", "1", ins as f64);
        let why = match toy {
            TOY_PROTECT => toys::why_protection(rules),
            _ => toys::why_detection(rules),
        };
        match whys.iter_mut().find(|(other, _)| *other == why) {
            Some((_, names)) => names.push(variant.name),
            None => whys.push((why, vec![variant.name])),
        }
        if let Some(last) = steps.last() {
            outcome.push("hot_in_memory_pages", "1", toys::hot(last) as f64);
        }
        let cells: Vec<(String, String)> = match toy {
            TOY_PROTECT => steps
                .iter()
                .map(|step| (step.what.clone(), step.line()))
                .collect(),
            _ => {
                let by_round = toys::swap_ins(&steps);
                for (round, &ins) in by_round.iter().enumerate() {
                    outcome.push(&format!("swap_ins_round_{}_pages", round + 1), "1", ins as f64);
                }
                let by_round: Vec<String> = by_round.iter().map(u64::to_string).collect();
                vec![
                    ("after the first round".into(), steps[3].line()),
                    (
                        "at the end".into(),
                        steps.last().map_or_else(String::new, Step::line),
                    ),
                    ("swap ins by round".into(), by_round.join(" ")),
                ]
            }
        };
        if table.rows.is_empty() {
            table.head.extend(cells.iter().map(|(head, _)| head.clone()));
        }
        table.push(variant.name, cells.into_iter().map(|(_, value)| value));
        report.appendices.push(lists(toy, variant, &steps));
        // in memory, as the loads with rounds
        let runs = Runs::single(row(&Load::HotCold, variant.name), toy, outcome);
        report.metrics.extend(runs.metrics(EXPERIMENT.name));
    }
    report.answers.extend(answer::of_toy(toy, &report.metrics));
    report.answers.extend(
        whys.iter()
            .map(|(why, names)| format!("{toy}, {}: {why}.", names.join(", "))),
    );
    report.tables.push(table);
}

/// Every page on both lists, the warm end first.
fn lists(toy: &str, variant: Variant, steps: &[Step]) -> Appendix {
    let mut text = String::new();
    for (n, step) in steps.iter().enumerate() {
        text += &format!(
            "{}. {}: {}, {} swapped in\n",
            n + 1,
            step.what,
            step.line(),
            step.swap_ins
        );
        for (name, pages) in [
            ("active  ", &step.lists.active),
            ("inactive", &step.lists.inactive),
        ] {
            text += &format!("   {name} {}\n", ranges(pages));
        }
    }
    Appendix {
        name: TABLE,
        title: format!(
            "{toy} on {}: pages 0 to 49 are hot, 50 to 99 will be, others are used once",
            variant.name
        ),
        text,
    }
}

/// Pages in a row as `149..100`.
fn ranges(pages: &[u32]) -> String {
    if pages.is_empty() {
        return "-".into();
    }
    let step = |a: u32, b: u32| i64::from(b) - i64::from(a);
    let mut text: Vec<String> = Vec::new();
    let mut at = 0;
    while at < pages.len() {
        let mut end = at;
        while end + 1 < pages.len()
            && step(pages[end], pages[end + 1]).abs() == 1
            && (end == at || step(pages[end], pages[end + 1]) == step(pages[at], pages[at + 1]))
        {
            end += 1;
        }
        text.push(match end - at {
            0 => pages[at].to_string(),
            _ => format!("{}..{}", pages[at], pages[end]),
        });
        at = end + 1;
    }
    text.join(" ")
}

fn value(metrics: &[Metric], cell: Ebizzy, variant: &str, metric: &str) -> Option<f64> {
    let load = Load::Ebizzy(cell);
    lookup(metrics, &row(&load, variant), &load.name(), metric).map(|m| m.value)
}

fn change(before: f64, after: f64) -> String {
    format!("{:+.1} %", 100.0 * (after / before - 1.0))
}

fn throughput_tables(plan: &Plan, metrics: &[Metric], threads: u32, grid: &Grid) -> [Table; 2] {
    let of = |variant, metric| move |cell| value(metrics, cell, variant, metric);
    let (mut rates, mut ins) = (Vec::new(), Vec::new());
    for name in plan.variants.iter().map(|variant| variant.name) {
        rates.push(GridRow::of(name, of(name, "records_per_s")));
        ins.push(GridRow::of(name, of(name, "swap_ins_per_record_pages")));
    }
    ins.extend(grid::BOUNDS.map(|(bound, metric)| GridRow::of(bound, of(BOUNDS, metric))));
    let mut kernels = plan.variants.iter().filter(|v| v.rules != Rules::Millpond);
    if let (Some(&first), Some(&last)) = (kernels.next(), kernels.next_back()) {
        rates.push(GridRow::new(
            format!("{} / {}", last.name, first.name),
            move |cell| {
                let rate = |variant: Variant| value(metrics, cell, variant.name, "records_per_s");
                Some(change(rate(first)?, rate(last)?).into())
            },
        ));
    }
    let post = move |cell: Ebizzy| throughput(cell.mb, cell.skew_tenths, threads);
    rates.push(GridRow::of("post, before", move |cell| Some(post(cell)?[0])));
    rates.push(GridRow::of("post, after", move |cell| Some(post(cell)?[1])));
    rates.push(GridRow::new("post, change", move |cell| {
        let [before, after] = post(cell)?;
        Some(change(before, after).into())
    }));
    [
        grid.table("", "records a second by skew; the post's beside", &rates),
        grid.table("", "pages swapped in for a record", &ins),
    ]
}

const DEFINITIONS: [(&str, &str); 5] = [
    (
        "swap ins",
        "Pages read from swap, including those read ahead. In loads with rounds, of the rounds only.",
    ),
    (
        "activated on return",
        "Pages whose shadow showed that they were away only briefly.",
    ),
    (
        "optimum",
        "Pages that come back if the page whose next use is furthest away always leaves first: no policy can have fewer.",
    ),
    (
        "LRU",
        "The same if the least recently used page leaves first, with file pages and anonymous ones in one list.",
    ),
    (
        "most popular kept",
        "The fewest possible on average without knowing the future, because ebizzy draws each chunk independently.",
    ),
];
