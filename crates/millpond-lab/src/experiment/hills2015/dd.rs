//! `dd` on the post's machine, in virtual time: at boot, and after each touch of the ratio.

use crate::report::{Cell, Metric, Table, TableRow};
use millpond::internal::quantity::number;
use millpond_kernels::linux::dirty::device::DeviceRatios;
use millpond_kernels::linux::dirty::dirtiers::{self, DirtiersOptions};
use millpond_kernels::linux::dirty::limits::{Caller, KernelLimit, KernelVersion};
use millpond_kernels::linux::dirty::touch::{Touch, TouchRules, Touched, post_zones_at_boot};
use millpond_kernels::linux::dirty::zone::POST_ZONES;

/// What the post's disk took.
const DEVICE_BYTES_PER_S: u64 = 150_000_000;
/// So long it has been writing before: what may be dirty is filled at the speed of memory.
const LEAD: u64 = 10;
/// Each part takes so long.
const SECONDS: u64 = 5;
/// What is set at the start of each part but the first.
const SET: [u32; 3] = [20, 21, 20];

/// Rules, the variant's name, and ticks a second.
const CASES: [(TouchRules, &str, u64); 5] = [
    (TouchRules::LINUX_4_0, "bug404", 100),
    (TouchRules::LINUX_4_0, "bug404", 250),
    (TouchRules::LINUX_4_0, "bug404", 1000),
    (TouchRules::REPAIRED, "fixed", 250),
    (TouchRules::MILLPOND, "millpond", 250),
];

/// What was set last.
pub(super) const PARTS: [&str; 4] = ["boot", "20 again", "21", "20 once more"];
/// About what the post has of its machine in each, in MB/s.
pub(super) const POST: [f64; 4] = [150.0, 150.0, 5.0, 5.0];

/// The metric of a part.
pub(super) fn metric_of(part: &str) -> String {
    format!("{}_mb_per_s", part.replace(' ', "_"))
}

/// The rates of one case, in MB/s, in the order of time.
fn rates(rules: TouchRules, hz: u64) -> Vec<f64> {
    let mut machine = Touched::boot(rules, post_zones_at_boot());
    (2..=8).for_each(|n| machine.touch(Touch::Processors(n)));
    machine.touch(Touch::Memory(POST_ZONES.to_vec()));
    let touches = SET.iter().zip(1..).map(|(&percent, part)| {
        let touch = Touch::Hard(KernelLimit::Percent(percent), Caller::default());
        (LEAD + SECONDS * part, touch)
    });
    let dirtied = dirtiers::run(
        machine,
        &DirtiersOptions {
            hz,
            tasks: 1,
            device_bytes_per_s: DEVICE_BYTES_PER_S,
            version: KernelVersion::Linux4,
            ratios: DeviceRatios::default(),
            seconds: LEAD + SECONDS * (SET.len() as u64 + 1),
            touches: touches.collect(),
        },
    );
    let step = SECONDS as usize;
    let from = |n: usize| LEAD as usize + n * step;
    (0..=SET.len())
        .map(|n| dirtied.mb_per_s(from(n), from(n + 1)))
        .collect()
}

/// The table, a metric for each cell, and what it means.
pub(super) fn table() -> (Table, Vec<Metric>, Vec<String>) {
    let (mut rows, mut metrics, mut slow) = (Vec::new(), Vec::new(), None);
    for (rules, name, hz) in CASES {
        let rates = rates(rules, hz);
        if (name, hz) == ("bug404", 1000) {
            slow = Some((rates[0], rates[3]));
        }
        for (part, &rate) in PARTS.iter().zip(&rates) {
            metrics.push(Metric {
                experiment: super::EXPERIMENT.name.into(),
                workload: super::DD.into(),
                target: "sim".into(),
                device: "the post's machine".into(),
                variant: format!("{name} hz={hz}"),
                metric: metric_of(part),
                unit: "MB/s".into(),
                value: rate,
                runs: vec![rate],
            });
        }
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
    let verdict = slow.map(|(before, after)| {
        format!(
            "On the post's machine a touch of dirty_ratio takes a writer from {} to {} MB/s (1000 Hz), and setting it back does not help: the hard limit has become 0, so each page costs a tick. With each zone clamped by itself, or Millpond's rule, it stays at the disk's rate.",
            number(before),
            number(after)
        )
    });
    (table, metrics, verdict.into_iter().collect())
}
