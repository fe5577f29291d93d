//! The experiment's report: the examples, loads with rounds, the grid beside the post's.

use super::grid::{self, Grid, GridRow};
use super::machines::Which;
use super::options::{Plan, Rules, Variant};
use super::published::{THREADS, swap_ins_v7, throughput};
use super::runs::Run;
use super::toys::{self, Step};
use super::{EXPERIMENT, answer, charts};
use crate::outcome::{Outcome, Setting};
use crate::report::table::{columns, pick};
use crate::report::{Appendix, Cell, Report, RowName, Runs, Table, TableRow};
use crate::workload::kim2020::TOY_PROTECT;
use crate::workload::kim2020::loads::{Ebizzy, Load};
use millpond::internal::quantity::number;

/// The name that `--table` takes: each page of the examples' lists.
pub(super) const TABLE: &str = "lists";

/// Rounds of the second example.
const TOY_ROUNDS: u32 = 8;

/// The row of what no policy can be better than.
pub(super) const BOUNDS: &str = "bounds";

fn row(run: &Run, which: Which) -> RowName {
    let device = match (which, run.load) {
        (Which::Post, Load::Ebizzy(_)) => "sata-ssd",
        _ => "ram",
    };
    RowName {
        target: "sim".into(),
        device: device.into(),
        variant: run.variant.map_or(BOUNDS, |variant| variant.name).into(),
    }
}

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

pub(super) fn report(plan: &Plan, results: &[Run]) -> Report {
    let single = |run: &Run| Runs::single(row(run, plan.which), run.load.name(), run.outcome.clone());
    let runs: Vec<Runs> = results.iter().map(single).collect();
    let mut report = empty();
    report.metrics = crate::report::metrics(&runs, EXPERIMENT.name);
    for &toy in &plan.toys {
        add_toy(&mut report, plan, toy);
    }
    let of_rounds = |run: &&Run| !matches!(run.load, Load::Ebizzy(_));
    let mut rows: Vec<RowName> = Vec::new();
    for run in results.iter().filter(of_rounds) {
        let name = row(run, plan.which);
        if !rows.contains(&name) {
            rows.push(name);
        }
    }
    for load in plan.loads.iter().filter(|load| !matches!(load, Load::Ebizzy(_))) {
        let workload: &'static str = crate::workload::kim2020::loads::ROUNDS
            .iter()
            .find(|(_, known)| known == load)
            .map_or("", |&(name, _)| name);
        let title = format!("{workload} ({} rounds, in virtual time)", plan.rounds());
        report.tables.push(pick(
            &title,
            "",
            &columns(workload, &COLUMNS),
            &rows,
            &report.metrics,
        ));
    }
    for threads in THREADS {
        let Some(grid) = Grid::with_threads(threads, &plan.loads) else {
            continue;
        };
        report.tables.extend(match plan.which {
            Which::Post => throughput_tables(plan, results, threads, &grid),
            Which::Version7 => vec![swap_ins_table(plan, results, threads, &grid)],
        });
    }
    let of = |workload: &str, variant: &str, metric: &str| {
        let run = results.iter().find(|run| {
            run.load.name() == workload && run.variant.map_or(BOUNDS, |variant| variant.name) == variant
        })?;
        run.outcome.value(metric)
    };
    report.answers.extend(answer::of_virtual_time(plan, &of));
    report.charts = charts::charts(plan, &of);
    add_notes(&mut report, plan);
    report.add_rows(&rows, &runs);
    report.machine = vec![Setting::new("scale", plan.scale), Setting::new("seed", plan.seed)];
    report
}

fn add_notes(report: &mut Report, plan: &Plan) {
    let has_ebizzy = plan.loads.iter().any(|load| matches!(load, Load::Ebizzy(_)));
    if has_ebizzy && plan.which == Which::Post {
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

pub(super) fn variants(plan: &Plan) -> Vec<Variant> {
    plan.variants.iter().chain(&plan.later).copied().collect()
}

fn add_toy(report: &mut Report, plan: &Plan, toy: &'static str) {
    let mut table = Table {
        title: format!("{toy}: active | inactive, 100 pages; h hot, wh will be hot, uo used once"),
        ..Table::default()
    };
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
        if table.head.is_empty() {
            table.head = std::iter::once(String::new())
                .chain(cells.iter().map(|(head, _)| head.clone()))
                .collect();
        }
        let cell = |(_, value): (String, String)| Cell {
            value,
            ..Cell::default()
        };
        table.rows.push(TableRow {
            label: variant.name.into(),
            cells: cells.into_iter().map(cell).collect(),
        });
        report.appendices.push(lists(toy, variant, &steps));
        let row = RowName {
            target: "sim".into(),
            device: "ram".into(),
            variant: variant.name.into(),
        };
        let runs = Runs::single(row, toy, outcome);
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

fn value(results: &[Run], cell: Ebizzy, variant: Option<Variant>, metric: &str) -> Option<f64> {
    let is_it = |run: &&Run| run.load == Load::Ebizzy(cell) && run.variant == variant;
    results.iter().find(is_it)?.outcome.value(metric)
}

fn change(before: f64, after: f64) -> String {
    format!("{:+.1} %", 100.0 * (after / before - 1.0))
}

fn throughput_tables(plan: &Plan, results: &[Run], threads: u32, grid: &Grid) -> Vec<Table> {
    let of = |variant, metric| move |cell| value(results, cell, variant, metric);
    let (mut rates, mut ins) = (Vec::new(), Vec::new());
    for &variant in &plan.variants {
        rates.push(GridRow::of(variant.name, of(Some(variant), "records_per_s")));
        ins.push(GridRow::of(
            variant.name,
            of(Some(variant), "swap_ins_per_record_pages"),
        ));
    }
    ins.extend(grid::BOUNDS.map(|(bound, metric)| GridRow::of(bound, of(None, metric))));
    let mut kernels = plan.variants.iter().filter(|v| v.rules != Rules::Millpond);
    if let (Some(&first), Some(&last)) = (kernels.next(), kernels.next_back()) {
        rates.push(GridRow::new(
            format!("{} / {}", last.name, first.name),
            move |cell| {
                let rate = |variant| value(results, cell, Some(variant), "records_per_s");
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
    vec![
        grid.table("", "records a second by skew; the post's beside", &rates),
        grid.table("", "pages swapped in for a record", &ins),
    ]
}

/// Swap-ins beside the seventh version's: its own number of records is not known, so both are shown against base.
fn swap_ins_table(plan: &Plan, results: &[Run], threads: u32, grid: &Grid) -> Table {
    let first = plan.variants[0];
    let rows = plan.variants.iter().enumerate().map(|(n, &variant)| {
        GridRow::new(variant.name, move |cell| {
            let ins = |variant| value(results, cell, Some(variant), "swap_ins_per_record_pages");
            let (own, first) = (ins(variant)?, ins(first)?);
            let published = swap_ins_v7(cell.mb, cell.skew_tenths, threads).filter(|row| n < row.len());
            let published =
                published.map_or_else(String::new, |row| format!(" ({})", change(row[0], row[n])));
            Some(format!("{} {}{published}", number(own), change(first, own)).into())
        })
    });
    let what = "swap ins: pages for a record, and against the first; version 7's in brackets";
    grid.table("", what, &rows.collect::<Vec<_>>())
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
