//! The report's first lines: Linux 5.5 beside the series and beside Millpond, one for each load, with the post's own where it
//! has one; on real memory the kernel's swap beside a region of the engine.

use super::options::Plan;
use super::published::{self, THREADS, throughput};
use super::runs::row;
use crate::report::verdict::{Circumstances, Figure, Side, Verdict, compare, judge, two_digits};
use crate::report::{Metric, RowName, lookup};
use crate::workload::kim2020::loads::Load;
use crate::workload::kim2020::{TOY_DETECT, TOY_PROTECT};

const SWAPPED_IN: Figure = Figure::new("swapped in", "swap_ins_pages", pages);

/// Detection learns in the first rounds: with fewer than these the cost is mostly that of learning.
const ROUNDS_MIN: u64 = 10;

/// The comparisons: before, after, and their title. The last is used only where the first does not run.
const PAIRS: [(&str, &str, &str); 3] = [
    ("base", "detect", "Linux 5.5 -> with the series"),
    ("base", "millpond", "Linux 5.5 -> Millpond"),
    ("linux-5.8", "linux-5.9", "Linux 5.8 -> 5.9, which has the series"),
];

const EXACT: Circumstances = Circumstances::exact();

/// The verdict on two variants in virtual time.
fn verdict(metrics: &[Metric], load: &Load, pair: [&str; 2], figure: Figure) -> Option<Verdict> {
    verdict_of(
        metrics,
        &load.name(),
        pair.map(|variant| row(load, variant)),
        figure,
    )
}

fn verdict_of(metrics: &[Metric], workload: &str, rows: [RowName; 2], figure: Figure) -> Option<Verdict> {
    let sides = rows.each_ref().map(|row| Side { row, workload });
    compare(metrics, sides, &[figure], &EXACT)
}

/// For one of the post's examples.
pub(super) fn of_toy(toy: &str, metrics: &[Metric]) -> Option<String> {
    let (figure, pair) = match toy {
        TOY_PROTECT => (
            Figure::new("hot pages in memory at the end", "hot_in_memory_pages", count).higher(),
            ["base", "protect"],
        ),
        TOY_DETECT => (
            Figure::new(
                "pages swapped in by the last round",
                "swap_ins_round_8_pages",
                count,
            ),
            ["protect", "detect"],
        ),
        _ => return None,
    };
    // in memory, as the loads with rounds
    let rows = pair.map(|variant| row(&Load::HotCold, variant));
    let verdict = verdict_of(metrics, toy, rows, figure)?;
    Some(verdict.between(&format!("{toy}: {} -> {}", pair[0], pair[1])))
}

/// For the loads. `metrics`: the post's among them.
pub(super) fn of_virtual_time(plan: &Plan, metrics: &[Metric]) -> Vec<String> {
    let mut lines = Vec::new();
    for load in plan.loads.iter().filter(|load| !matches!(load, Load::Ebizzy(_))) {
        let workload = load.name();
        for (before, after, sides) in pairs(plan) {
            let Some(verdict) = verdict(metrics, load, [before, after], SWAPPED_IN) else {
                continue;
            };
            let rounds = plan.rounds();
            let verdict = match rounds < ROUNDS_MIN {
                true => Verdict::none(
                    plan.scale,
                    &format!(
                        "{rounds} rounds. What comes back is learnt in the first ones, and {ROUNDS_MIN} are needed"
                    ),
                    plan.scale * ROUNDS_MIN as f64 / rounds as f64,
                ),
                false => verdict,
            };
            lines.push(verdict.between(&format!("{workload}: {sides}")));
        }
        if *load == Load::HotCold
            && lookup(metrics, &row(load, "base"), &workload, "swap_ins_pages").is_some()
        {
            let posted = verdict_of(
                metrics,
                &workload,
                ["base", "detect"].map(published::row),
                SWAPPED_IN,
            );
            let sides = "hot-cold, the post of 2020: Linux 5.5 -> with the series";
            lines.extend(posted.map(|verdict| verdict.between(sides)));
        }
    }
    for threads in THREADS {
        lines.extend(of_ebizzy(plan, threads, metrics));
    }
    lines
}

fn pairs(plan: &Plan) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let has_base = plan.variants.iter().any(|variant| variant.name == "base");
    PAIRS
        .into_iter()
        .filter(move |(before, ..)| has_base == (*before == "base"))
}

/// For all cells of the grid with this number of threads: the change of throughput in their geometric mean.
fn of_ebizzy(plan: &Plan, threads: u32, metrics: &[Metric]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut posted = Vec::new();
    for (before, after, sides) in pairs(plan) {
        let mut ratios = Vec::new();
        for load in &plan.loads {
            let Load::Ebizzy(cell) = load else { continue };
            if cell.threads != threads {
                continue;
            }
            let rate = |variant| lookup(metrics, &row(load, variant), &load.name(), "records_per_s");
            if let (Some(before), Some(after)) = (rate(before), rate(after)) {
                ratios.push(after.value / before.value);
            }
            if before == "base" && after == "detect" {
                let ratio =
                    throughput(cell.mb, cell.skew_tenths, threads).map(|[before, after]| after / before);
                posted.extend(ratio);
            }
        }
        lines.extend(throughput_line(
            &ratios,
            &format!("ebizzy, {}: {sides}", of_threads(threads)),
        ));
    }
    if !lines.is_empty() {
        let sides = format!(
            "ebizzy, {}, the post of 2020: {}",
            of_threads(threads),
            PAIRS[0].2
        );
        lines.extend(throughput_line(&posted, &sides));
    }
    lines
}

fn of_threads(threads: u32) -> String {
    match threads {
        1 => "one thread".into(),
        _ => format!("{threads} threads"),
    }
}

fn throughput_line(ratios: &[f64], sides: &str) -> Option<String> {
    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    // an empty list has no mean
    let after: &[f64] = if ratios.is_empty() { &[] } else { &[mean.exp()] };
    let did = Figure::new("on the mean of these cells it did", "", two_digits).higher();
    let did = did.times("as many records a second");
    let verdict = judge(&[did.of(&[1.0], after)], &EXACT)?;
    Some(verdict.between(&format!("{sides}, cells: {}", ratios.len())))
}

/// For a load on real memory: the kernel as shipped beside the engine.
pub(super) fn of_real_memory(load: &str, names: &[RowName], metrics: &[Metric]) -> Option<String> {
    let find = |target: &str| names.iter().find(|name| name.target == target);
    let (kernel, engine) = (find("kernel")?, find("engine")?);
    let took = Figure::new("it took", "elapsed_seconds", two_digits).times("as long");
    let sides = [kernel, engine].map(|row| Side { row, workload: load });
    let verdict = compare(metrics, sides, &[SWAPPED_IN, took], &Circumstances::default())?;
    Some(verdict.between(&format!("{load}: the kernel ({}) -> Millpond", kernel.variant)))
}

fn count(value: f64) -> String {
    format!("{value:.0}")
}

/// Pages of 4 KiB as bytes, in which people think.
fn pages(pages: f64) -> String {
    millpond::internal::quantity::size(millpond_core::units::Bytes((pages * 4096.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::super::{Options, options};
    use super::*;
    use crate::report::tests::metric;

    fn plan(scale: f64) -> Plan {
        let asked = Options {
            workloads: vec!["hot-cold".into(), "ebizzy-2048-0.7-1".into()],
            scale: Some(scale),
            ..Options::default()
        };
        options::plan(&asked, true).unwrap()
    }

    fn numbers(plan: &Plan) -> Vec<Metric> {
        let mut metrics = published::metrics();
        for (load, name, [base, detect]) in [
            (&plan.loads[0], "swap_ins_pages", [800_000.0, 680_000.0]),
            (&plan.loads[1], "records_per_s", [100.0, 110.0]),
        ] {
            for (variant, value) in [("base", base), ("detect", detect)] {
                metrics.push(metric(&row(load, variant), &load.name(), name, &[value]));
            }
        }
        metrics
    }

    #[test]
    fn each_load_has_its_line_beside_the_posts() {
        let plan = plan(1.0);
        assert_eq!(
            of_virtual_time(&plan, &numbers(&plan)),
            [
                "hot-cold: Linux 5.5 -> with the series: better. Swapped in 3.05 GiB -> 2.59 GiB.",
                "hot-cold, the post of 2020: Linux 5.5 -> with the series: better. Swapped in 3.29 GiB -> 2.60 GiB.",
                "ebizzy, one thread: Linux 5.5 -> with the series, cells: 1: better. On the mean of these cells it did 1.10 times \
                 as many records a second.",
                "ebizzy, one thread, the post of 2020: Linux 5.5 -> with the series, cells: 1: better. On the mean of these cells \
                 it did 1.16 times as many records a second.",
            ]
        );
    }

    #[test]
    fn a_few_rounds_show_nothing() {
        let plan = plan(0.1);
        assert_eq!(
            of_virtual_time(&plan, &numbers(&plan))[0],
            "hot-cold: Linux 5.5 -> with the series: no verdict at --scale 0.1: 2 rounds. What comes back is learnt in the first \
             ones, and 10 are needed: --scale 0.5 shows it."
        );
    }
}
