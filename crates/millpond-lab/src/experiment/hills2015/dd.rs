//! `dd` on the post's machine, in virtual time: at boot, and after each touch of the ratio.

use crate::report::{Cell, Metric, RowName, Table, TableRow};
use millpond::internal::quantity::number;
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

/// The last setting.
pub(super) const PARTS: [&str; 4] = ["boot", "20 again", "21", "20 once more"];
/// About what the post has of its machine in each, in MB/s.
pub(super) const POST: [f64; 4] = [150.0, 150.0, 5.0, 5.0];

/// The metric of a part.
pub(super) fn metric_of(part: &str) -> String {
    format!("{}_mb_per_s", part.replace(' ', "_"))
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

/// The table, and a metric for each cell.
pub(super) fn table() -> (Table, Vec<Metric>) {
    let (mut rows, mut metrics) = (Vec::new(), Vec::new());
    for (rules, name, hz) in CASES {
        let rates = rates(rules, hz);
        let row = RowName::new("sim", "the post's machine", format!("{name} hz={hz}"));
        metrics.extend(PARTS.iter().zip(&rates).map(|(part, &rate)| {
            Metric::exact(
                super::EXPERIMENT.name,
                super::DD,
                &row,
                &metric_of(part),
                "MB/s",
                rate,
            )
        }));
        let cell = |rate: f64| Cell::from(number(rate));
        rows.push(TableRow {
            label: format!("{name}, {hz} Hz"),
            cells: rates.into_iter().map(cell).collect(),
        });
    }
    let post = POST.map(|value| Cell::from(format!("about {value}")));
    rows.push(TableRow {
        label: "the post".into(),
        cells: post.into(),
    });
    let head = ["dirty_ratio"].into_iter().chain(PARTS).map(Into::into).collect();
    let table = Table {
        title: "dd on the post's machine, virtual time, MB/s".into(),
        head,
        rows,
        is_wide: false,
    };
    (table, metrics)
}
