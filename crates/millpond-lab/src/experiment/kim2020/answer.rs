//! The report's first lines: Linux 5.5 beside the series and beside Millpond, one for each load, with the post's own where it
//! has one; on real memory the kernel's swap beside a region of the engine.

use super::options::Plan;
use super::published::{SEVEN_STEPS, SIZES, SKEWS, THREADS, throughput};
use crate::report::verdict::{Circumstances, Compared, Verdict, judge, two_digits};
use crate::report::{Metric, RowName, lookup};
use crate::workload::kim2020::loads::Load;
use crate::workload::kim2020::{TOY_DETECT, TOY_PROTECT};

type Of<'a> = &'a dyn Fn(&str, &str, &str) -> Option<f64>;

/// Detection learns in the first rounds: with fewer than these the cost is mostly that of learning.
const ROUNDS_MIN: u64 = 10;

/// The comparisons: before, after, and their title. The last is used only where the first does not run.
const PAIRS: [(&str, &str, &str); 3] = [
    ("base", "detect", "Linux 5.5 -> with the series"),
    ("base", "millpond", "Linux 5.5 -> Millpond"),
    ("linux-5.8", "linux-5.9", "Linux 5.8 -> 5.9, which has the series"),
];

const EXACT: Circumstances = Circumstances::exact();

/// For one of the post's examples.
pub(super) fn of_toy(toy: &str, metrics: &[Metric]) -> Option<String> {
    let (metric, what, before, after) = match toy {
        TOY_PROTECT => (
            "hot_in_memory_pages",
            "hot pages in memory at the end",
            "base",
            "protect",
        ),
        TOY_DETECT => (
            "swap_ins_round_8_pages",
            "pages swapped in by the last round",
            "protect",
            "detect",
        ),
        _ => return None,
    };
    let of = |variant| {
        let is_it = |m: &&Metric| m.workload == toy && m.variant == variant && m.metric == metric;
        metrics.iter().find(is_it).map(|m| m.value)
    };
    let compared = Compared::new(what, count, of(before).as_slice(), of(after).as_slice());
    let compared = if toy == TOY_PROTECT {
        compared.higher()
    } else {
        compared
    };
    let verdict = judge(&[compared], &EXACT)?;
    Some(verdict.between(&format!("{toy}: {before} -> {after}")))
}

/// For the loads. `of`: a metric of a workload and variant.
pub(super) fn of_virtual_time(plan: &Plan, of: Of<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for load in plan.loads.iter().filter(|load| !matches!(load, Load::Ebizzy(_))) {
        let workload = load.name();
        for (before, after, sides) in pairs(plan) {
            let ins = |variant| of(&workload, variant, "swap_ins_pages");
            let compared = Compared::new("swapped in", pages, ins(before).as_slice(), ins(after).as_slice());
            let Some(verdict) = judge(&[compared], &EXACT) else {
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
        if workload == "hot-cold" && of(&workload, "base", "swap_ins_pages").is_some() {
            lines.extend(of_the_posts_steps());
        }
    }
    for threads in THREADS {
        lines.extend(of_ebizzy(plan, threads, of));
    }
    lines
}

fn pairs(plan: &Plan) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let has_base = plan.variants.iter().any(|variant| variant.name == "base");
    PAIRS
        .into_iter()
        .filter(move |(before, ..)| has_base == (*before == "base"))
}

fn of_the_posts_steps() -> Option<String> {
    let [[before, _], [after, _]] = SEVEN_STEPS;
    let verdict = judge(&[Compared::new("swapped in", pages, &[before], &[after])], &EXACT)?;
    Some(verdict.between("hot-cold, the post of 2020: Linux 5.5 -> with the series"))
}

/// For all cells of the grid with this number of threads: the change of throughput in their geometric mean.
fn of_ebizzy(plan: &Plan, threads: u32, of: Of<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut posted = Vec::new();
    for (before, after, sides) in pairs(plan) {
        let mut ratios = Vec::new();
        for load in &plan.loads {
            let Load::Ebizzy(cell) = load else { continue };
            if cell.threads != threads {
                continue;
            }
            let rate = |variant| of(&load.name(), variant, "records_per_s");
            if let (Some(before), Some(after)) = (rate(before), rate(after)) {
                ratios.push(after / before);
            }
            if before == "base"
                && after == "detect"
                && SIZES.contains(&cell.mb)
                && SKEWS.contains(&cell.skew_tenths)
            {
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
    let compared = Compared::new("on the mean of these cells it did", two_digits, &[1.0], after);
    let verdict = judge(&[compared.higher().times("as many records a second")], &EXACT)?;
    Some(verdict.between(&format!("{sides}, cells: {}", ratios.len())))
}

/// For a load on real memory: the kernel as shipped beside the engine.
pub(super) fn of_real_memory(load: &str, names: &[RowName], metrics: &[Metric]) -> Option<String> {
    let find = |target: &str| names.iter().find(|name| name.target == target);
    let (kernel, engine) = (find("kernel")?, find("engine")?);
    let compared = |what, metric, show: fn(f64) -> String| {
        let [before, after] =
            [kernel, engine].map(|row| lookup(metrics, row, load, metric).map_or(&[][..], |m| &m.runs));
        Compared::new(what, show, before, after)
    };
    let compared = [
        compared("swapped in", "swap_ins_pages", pages),
        compared("it took", "elapsed_seconds", two_digits).times("as long"),
    ];
    let verdict = judge(&compared, &Circumstances::default())?;
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

    fn plan(scale: f64) -> Plan {
        let asked = Options {
            workloads: vec!["hot-cold".into(), "ebizzy-2048-0.7-1".into()],
            scale: Some(scale),
            ..Options::default()
        };
        options::plan(&asked, true).unwrap()
    }

    fn numbers(workload: &str, variant: &str, metric: &str) -> Option<f64> {
        match (workload, variant, metric) {
            ("hot-cold", "base", "swap_ins_pages") => Some(800_000.0),
            ("hot-cold", "detect", "swap_ins_pages") => Some(680_000.0),
            (_, "base", "records_per_s") => Some(100.0),
            (_, "detect", "records_per_s") => Some(110.0),
            _ => None,
        }
    }

    #[test]
    fn each_load_has_its_line_beside_the_posts() {
        assert_eq!(
            of_virtual_time(&plan(1.0), &numbers),
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
        assert_eq!(
            of_virtual_time(&plan(0.1), &numbers)[0],
            "hot-cold: Linux 5.5 -> with the series: no verdict at --scale 0.1: 2 rounds. What comes back is learnt in the first \
             ones, and 10 are needed: --scale 0.5 shows it."
        );
    }
}
