//! What reclaim has done during a run: the kernel's counters and Millpond's under the metric names of one table.
//!
//! Where Linux counts: `/proc/vmstat` has scans and frees twice. `pgscan_kswapd` and `pgscan_direct` leave out what is
//! scanned for the limit of a memory group, `pgscan_file` and `pgscan_anon` have everything. A group has no kswapd, so what
//! the second pair has beyond kswapd's share was scanned by direct reclaim. In the second version of groups the
//! group's own `memory.stat` says the same, and no other group's reclaim is in it.

use crate::outcome::{Measure, Outcome};
use millpond::internal::GroupVersion;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Whole percent, cut off, as the post has them.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    (100 * part / whole.max(1)) as f64
}

/// Least, mean, standard deviation and greatest.
pub(crate) fn spread(outcome: &mut Outcome, name: &str, unit: &str, values: &[f64]) {
    if values.is_empty() {
        return;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt();
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    let greatest = values.iter().copied().fold(f64::MIN, f64::max);
    for (what, value) in [
        ("min", least),
        ("mean", mean),
        ("stddev", deviation),
        ("max", greatest),
    ] {
        outcome.push(&format!("{name}_{what}"), unit, value);
    }
}

/// Pages scanned and freed: by background and by direct reclaim.
pub(crate) struct Scans {
    pub(crate) scan: [u64; 2],
    pub(crate) steal: [u64; 2],
}

impl Scans {
    /// The counts, and the shares and rates that the post derives from them.
    pub(crate) fn report(&self, elapsed: f64, outcome: &mut Outcome) {
        let ([kswapd, direct], [kswapd_freed, direct_freed]) = (self.scan, self.steal);
        let all = (kswapd + direct).max(1) as f64;
        let mut push = |name: &str, unit: &str, value: f64| outcome.push(name, unit, value);
        push("pgscan_direct", "1", direct as f64);
        push("pgscan_kswapd", "1", kswapd as f64);
        push("pgsteal_kswapd", "1", kswapd_freed as f64);
        push("pgsteal_direct", "1", direct_freed as f64);
        push("kswapd_efficiency_percent", "%", percent(kswapd_freed, kswapd));
        push("kswapd_velocity_per_s", "1/s", kswapd as f64 / elapsed);
        push("direct_efficiency_percent", "%", percent(direct_freed, direct));
        push("direct_velocity_per_s", "1/s", direct as f64 / elapsed);
        push("direct_scans_percent", "%", percent(direct, direct + kswapd));
        push("foreground_scan_share_percent", "%", 100.0 * direct as f64 / all);
        push("pgscan", "1", (kswapd + direct) as f64);
        push("pgsteal", "1", (kswapd_freed + direct_freed) as f64);
        let freed = (kswapd_freed + direct_freed) as f64;
        push("reclaimed_percent", "%", 100.0 * freed / all);
    }

    /// Those among `measures`.
    pub(crate) fn of(measures: &[Measure]) -> Scans {
        let of = |name: &str| {
            let found = measures.iter().find(|m| m.metric == name);
            found.map_or(0, |m| m.value.max(0.0) as u64)
        };
        Scans {
            scan: [of("pgscan_kswapd"), of("pgscan_direct")],
            steal: [of("pgsteal_kswapd"), of("pgsteal_direct")],
        }
    }
}

/// The growth between two samples, by name.
pub(crate) fn grown(before: &[Measure], after: &[Measure]) -> Vec<Measure> {
    let old = |metric: &str| {
        before
            .iter()
            .find(|m| m.metric == metric)
            .map_or(0.0, |m| m.value)
    };
    let grown = after.iter().map(|m| Measure {
        value: m.value - old(&m.metric),
        ..m.clone()
    });
    grown.collect()
}

/// A counter of the kernel's, and the metric that it is.
const PLAIN: [(&str, &str, &str); 11] = [
    ("pgpgin", "pgpgin_kib", "KiB"),
    ("pgpgout", "pgpgout_kib", "KiB"),
    ("pswpin", "pswpin", "1"),
    ("pswpout", "pswpout", "1"),
    ("nr_vmscan_immediate_reclaim", "nr_vmscan_immediate_reclaim", "1"),
    ("slabs_scanned", "slabs_scanned", "1"),
    ("pginodesteal", "direct_inode_steals", "1"),
    ("kswapd_inodesteal", "kswapd_inode_steals", "1"),
    ("compact_stall", "compaction_stalls", "1"),
    ("compact_success", "compaction_success", "1"),
    ("compact_fail", "compaction_failures", "1"),
];

/// The kernel's counters now. Empty where `/proc/vmstat` can't be read.
pub(crate) fn of_kernel() -> Vec<Measure> {
    let machine = counters(Path::new("/proc/vmstat"));
    let groups = millpond::internal::control_groups().into_iter();
    let own = groups.filter(|group| group.version == GroupVersion::Two);
    let group: HashMap<_, _> = own
        .map(|group| counters(&group.path.join("memory.stat")))
        .find(|stat| stat.contains_key("pgscan_direct"))
        .unwrap_or_default();
    let mut measures = measures(&machine, &group);
    measures.extend(stalled().map(|us| Measure {
        metric: "direct_stall_seconds".into(),
        unit: "s".into(),
        value: us / 1e6,
    }));
    measures
}

fn measures(machine: &HashMap<String, u64>, group: &HashMap<String, u64>) -> Vec<Measure> {
    let mut measures = Vec::new();
    let mut push = |metric: &str, unit: &str, value: u64| {
        measures.push(Measure {
            metric: metric.into(),
            unit: unit.into(),
            value: value as f64,
        });
    };
    for (name, metric, unit) in PLAIN {
        if let Some(&value) = machine.get(name) {
            push(metric, unit, value);
        }
    }
    for what in ["pgscan", "pgsteal"] {
        let of = |counters: &HashMap<String, u64>, who: &str| counters.get(&format!("{what}_{who}")).copied();
        let (kswapd, direct) = match (of(group, "kswapd"), of(group, "direct")) {
            (Some(kswapd), Some(direct)) => (Some(kswapd), Some(direct)),
            _ => {
                let kswapd = of(machine, "kswapd");
                let all = of(machine, "file").zip(of(machine, "anon"));
                let others = [of(machine, "khugepaged"), of(machine, "proactive")];
                let others = kswapd.unwrap_or(0) + others.into_iter().flatten().sum::<u64>();
                (
                    kswapd,
                    all.map(|(file, anon)| (file + anon).saturating_sub(others)),
                )
            }
        };
        for (who, value) in [("kswapd", kswapd), ("direct", direct)] {
            if let Some(value) = value {
                push(&format!("{what}_{who}"), "1", value);
            }
        }
    }
    if let Some(&written) = machine.get("nr_vmscan_write") {
        push("nr_vmscan_write", "1", written);
        let to_swap = machine.get("pswpout").copied().unwrap_or(0);
        push(
            "file_pages_written_by_reclaim",
            "1",
            written.saturating_sub(to_swap),
        );
    }
    measures
}

/// Lines of a name and a number.
fn counters(path: &Path) -> HashMap<String, u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Microseconds in which a process of this machine waited for memory, its own reclaim included: `total` of the line
/// `some` of `/proc/pressure/memory`.
fn stalled() -> Option<f64> {
    let text = fs::read_to_string("/proc/pressure/memory").ok()?;
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(measures: &[Measure], metric: &str) -> Option<f64> {
        measures.iter().find(|m| m.metric == metric).map(|m| m.value)
    }

    fn table(counters: &[(&str, u64)]) -> HashMap<String, u64> {
        counters.iter().map(|&(name, n)| (name.to_owned(), n)).collect()
    }

    const MACHINE: [(&str, u64); 8] = [
        ("pgscan_kswapd", 100),
        ("pgscan_direct", 7),
        ("pgscan_khugepaged", 1),
        ("pgscan_file", 1000),
        ("pgscan_anon", 20),
        ("nr_vmscan_write", 12),
        ("pswpout", 5),
        ("pgpgout", 4096),
    ];

    #[test]
    fn scans_for_a_group_s_limit_count_for_the_caller_that_needed_a_page() {
        let seen = measures(&table(&MACHINE), &HashMap::new());
        assert_eq!(of(&seen, "pgscan_kswapd"), Some(100.0));
        assert_eq!(of(&seen, "pgscan_direct"), Some(919.0));
        assert_eq!(of(&seen, "pgsteal_direct"), None, "not counted is not zero");
        assert_eq!(of(&seen, "file_pages_written_by_reclaim"), Some(7.0));
        assert_eq!(of(&seen, "pgpgout_kib"), Some(4096.0));
    }

    #[test]
    fn a_group_that_counts_for_itself_is_believed() {
        let group = table(&[("pgscan_kswapd", 3), ("pgscan_direct", 40)]);
        let seen = measures(&table(&MACHINE), &group);
        assert_eq!(of(&seen, "pgscan_kswapd"), Some(3.0));
        assert_eq!(of(&seen, "pgscan_direct"), Some(40.0));
    }

    #[test]
    fn growth_of_the_counters_is_the_run_s() {
        let (before, mut after) = (table(&MACHINE), table(&MACHINE));
        after.insert("pgscan_file".into(), 1500);
        let none = HashMap::new();
        let seen = grown(&measures(&before, &none), &measures(&after, &none));
        let scans = Scans::of(&seen);
        assert_eq!(scans.scan, [0, 500]);
        let mut outcome = Outcome::default();
        scans.report(2.0, &mut outcome);
        assert_eq!(outcome.value("foreground_scan_share_percent"), Some(100.0));
        assert_eq!(outcome.value("direct_velocity_per_s"), Some(250.0));
    }

    #[test]
    fn this_machine_counts_its_reclaim() {
        let seen = of_kernel();
        for metric in [
            "pgscan_kswapd",
            "pgscan_direct",
            "pgsteal_direct",
            "nr_vmscan_write",
        ] {
            assert!(of(&seen, metric).is_some(), "{metric}: {seen:?}");
        }
    }
}
