//! `dd` on the post's machine, in virtual time: at boot, and after each touch of the ratio.

use super::{DD, EXPERIMENT};
use crate::report::table::{Column, pick};
use crate::report::{Axis, Chart, Metric, RowName, Scale, Table};
use millpond::internal::quantity::{number, number_tick};
use millpond_kernels::linux::dirty::touch::TouchRules;
use millpond_worlds::worlds::hills2015;

/// The value that the ratio is set to and back from.
const TRIED: u32 = 21;

/// Rules, the variant's name, and ticks a second.
const CASES: [(TouchRules, &str, u64); 5] = [
    (TouchRules::LINUX_4_0, "bug404", 100),
    (TouchRules::LINUX_4_0, "bug404", 250),
    (TouchRules::LINUX_4_0, "bug404", 1000),
    (TouchRules::REPAIRED, "fixed", 250),
    (TouchRules::MILLPOND, "millpond", 250),
];

/// The last setting, its metric, and about what the post has of its machine then, in MB/s.
const PARTS: [(&str, &str, f64); 4] = [
    ("boot", BOOT, 150.0),
    ("20 again", "20_again_mb_per_s", 150.0),
    ("21", "21_mb_per_s", 5.0),
    ("20 once more", TOUCHED, 5.0),
];
pub(super) const BOOT: &str = "boot_mb_per_s";
pub(super) const TOUCHED: &str = "20_once_more_mb_per_s";

/// The row of a rule and its ticks a second.
pub(super) fn row(rule: &str, hz: u64) -> RowName {
    RowName::new("sim", "the post's machine", format!("{rule} hz={hz}"))
}

/// The post's row.
pub(super) fn row_of_the_post() -> RowName {
    RowName::new("post", "the post's machine", "post, 2015")
}

/// The rates of one case, in MB/s, in the order of time.
fn rates(rules: TouchRules, hz: u64) -> Vec<f64> {
    let mut dirtiers = hills2015::booted(rules, hz, TRIED);
    dirtiers.run(hills2015::LENGTH.0 - 1);
    let from = |n: usize| hills2015::LEAD_S as usize + n * hills2015::PART_S as usize;
    (0..PARTS.len())
        .map(|n| dirtiers.seen().mb_per_s(from(n), from(n + 1)))
        .collect()
}

fn rows() -> Vec<RowName> {
    let cases = CASES.iter().map(|&(_, rule, hz)| row(rule, hz));
    cases.chain([row_of_the_post()]).collect()
}

fn columns() -> [Column; PARTS.len()] {
    PARTS.map(|(part, metric, _)| Column::new(part, DD, metric).shown(number))
}

/// A metric of each rule and part, and the post's.
pub(super) fn metrics() -> Vec<Metric> {
    let cases = CASES.iter().map(|&(rules, _, hz)| rates(rules, hz));
    let all = cases.chain([PARTS.map(|(.., posted)| posted).to_vec()]);
    let of = |(row, rates): (RowName, Vec<f64>)| {
        let parts = PARTS.into_iter().zip(rates);
        parts
            .map(move |((_, metric, _), rate)| Metric::exact(EXPERIMENT.name, DD, &row, metric, "MB/s", rate))
    };
    rows().into_iter().zip(all).flat_map(of).collect()
}

/// A row for each rule and number of ticks, and the post's.
pub(super) fn table(metrics: &[Metric]) -> Table {
    let title = "dd on the post's machine, virtual time, MB/s";
    let mut table = pick(title, "dirty_ratio", &columns(), &rows(), metrics);
    for (row, (_, rule, hz)) in table.rows.iter_mut().zip(CASES) {
        row.label = format!("{rule}, {hz} Hz");
    }
    if let Some(post) = table.rows.last_mut() {
        post.label = "the post".into();
        for (cell, (.., posted)) in post.cells.iter_mut().zip(PARTS) {
            cell.value = format!("about {posted}");
        }
    }
    table
}

/// The rules at the post's number of ticks, or the least, beside the post.
pub(super) fn chart(metrics: &[Metric]) -> Option<Chart> {
    Chart::of_columns(
        [
            "dd on the post's machine, by what dirty_ratio was set to last",
            "At boot, set to the same 20 again, to 21, and back to 20. `fixed` clamps each zone separately.",
        ],
        "",
        Axis::new("MB/s", Scale::Linear, number_tick),
        &columns(),
        &rows()[2..],
        metrics,
    )
}
