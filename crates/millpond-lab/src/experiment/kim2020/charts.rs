//! The experiment's charts: the pages that each kernel swapped in, a bar for each, beside the bound of every policy.

use super::options::Plan;
use super::published::SEVEN_STEPS;
use super::report::{BOUNDS, variants};
use crate::report::{Axis, Chart, Line, Scale};
use crate::workload::kim2020::loads::Load;
use millpond::internal::quantity::number_tick;

type Of<'a> = &'a dyn Fn(&str, &str, &str) -> Option<f64>;

/// Pages of a GiB.
const GIB: f64 = 262_144.0;

/// A chart for each load with rounds. `of`: a metric of a workload and variant.
pub(super) fn charts(plan: &Plan, of: Of<'_>) -> Vec<Chart> {
    let with_rounds = plan.loads.iter().filter(|load| !matches!(load, Load::Ebizzy(_)));
    with_rounds
        .filter_map(|load| chart(plan, &load.name(), of))
        .collect()
}

fn chart(plan: &Plan, workload: &str, of: Of<'_>) -> Option<Chart> {
    let bounds = [("LRU", "misses_lru_pages"), ("optimum", "misses_optimum_pages")];
    let names: Vec<&str> = variants(plan)
        .iter()
        .map(|variant| variant.name)
        .chain(bounds.map(|(name, _)| name))
        .collect();
    let gib = |pages: Option<f64>| pages.map(|pages| pages / GIB);
    let of_variant = |name: &str| gib(of(workload, name, "swap_ins_pages"));
    let of_bound = |name: &str| {
        let (_, metric) = bounds.iter().find(|(bound, _)| *bound == name)?;
        gib(of(workload, BOUNDS, metric))
    };
    let of_post = |name: &str| match name {
        "base" => gib(Some(SEVEN_STEPS[0][0])),
        "detect" => gib(Some(SEVEN_STEPS[1][0])),
        _ => None,
    };
    let mut lines = vec![
        Line::bars("swapped in", 0, &names, of_variant),
        Line::bars(
            "bounds: one list by last use, and the optimum",
            1,
            &names,
            of_bound,
        ),
    ];
    if workload == "hot-cold" && plan.scale == 1.0 {
        lines.insert(
            1,
            Line::bars("swapped in, the post", 0, &names, of_post).reference(),
        );
    }
    lines.retain(Line::has_points);
    (!lines.is_empty()).then(|| Chart {
        title: format!("What was swapped in: {workload} (in virtual time)"),
        caption: "Over all rounds. Dashed, where shown: the post's own figure. No policy can be better than the optimum.".into(),
        x: Axis::new("", Scale::Each, number_tick),
        y: Axis::new("GiB", Scale::Linear, number_tick),
        lines,
    })
}
