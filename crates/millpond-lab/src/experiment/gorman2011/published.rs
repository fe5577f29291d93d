//! The post's output, by metric: the six columns of both loads.

/// The post's columns, as systems.
pub(super) const COLUMNS: [&str; 6] = [
    "vanilla",
    "nodirectwb",
    "lesskswapdwb",
    "throttle",
    "immediate",
    "prioinode",
];

type Row = (&'static str, [f64; 6]);

const FS_MARK: &[Row] = &[
    ("files_per_s_min", [5.30, 5.10, 5.40, 5.70, 5.80, 5.70]),
    ("files_per_s_mean", [6.93, 6.96, 7.11, 7.52, 7.44, 7.48]),
    ("files_per_s_stddev", [0.89, 0.99, 0.85, 1.02, 1.08, 1.00]),
    ("files_per_s_max", [8.10, 8.60, 8.20, 9.50, 9.00, 9.10]),
    (
        "overhead_us_min",
        [6623.0, 6417.0, 6035.0, 6354.0, 6213.0, 6491.0],
    ),
    (
        "overhead_us_mean",
        [29678.24, 40053.96, 18278.56, 16365.20, 11987.40, 15606.36],
    ),
    (
        "overhead_us_stddev",
        [68727.49, 116258.18, 34121.42, 28963.27, 17221.33, 26231.50],
    ),
    (
        "overhead_us_max",
        [339993.0, 588147.0, 148281.0, 140568.0, 77836.0, 124728.0],
    ),
    ("user_sys_seconds", [34.97, 35.31, 31.16, 30.47, 29.85, 29.66]),
    (
        "elapsed_seconds",
        [567.08, 566.84, 551.75, 525.81, 534.91, 526.32],
    ),
    (
        "pgpgin_kib",
        [189840.0, 196608.0, 189864.0, 128120.0, 126148.0, 151888.0],
    ),
    (
        "pgpgout_kib",
        [
            38439897.0, 38420872.0, 38422937.0, 38395008.0, 38367766.0, 38396612.0,
        ],
    ),
    ("pswpin", [19468.0, 20555.0, 20024.0, 4933.0, 3799.0, 4588.0]),
    ("pswpout", [10019.0, 10388.0, 10353.0, 4737.0, 3617.0, 4084.0]),
    (
        "pgscan_direct",
        [4865170.0, 4903030.0, 1359813.0, 408460.0, 101716.0, 199483.0],
    ),
    (
        "pgscan_kswapd",
        [
            8202014.0, 8146467.0, 16980235.0, 19428420.0, 14269907.0, 14103872.0,
        ],
    ),
    (
        "pgsteal_kswapd",
        [4700400.0, 4665093.0, 8205753.0, 9143997.0, 9449722.0, 9358347.0],
    ),
    (
        "pgsteal_direct",
        [4864514.0, 4901411.0, 1359368.0, 407711.0, 100520.0, 198323.0],
    ),
    ("kswapd_efficiency_percent", [57.0, 57.0, 48.0, 47.0, 66.0, 66.0]),
    (
        "kswapd_velocity_per_s",
        [14463.592, 14371.722, 30775.233, 36949.506, 26677.211, 26797.142],
    ),
    ("direct_efficiency_percent", [99.0, 99.0, 99.0, 99.0, 98.0, 99.0]),
    (
        "direct_velocity_per_s",
        [8579.336, 8649.760, 2464.546, 776.821, 190.155, 379.015],
    ),
    ("direct_scans_percent", [37.0, 37.0, 7.0, 2.0, 0.0, 1.0]),
    (
        "nr_vmscan_write",
        [14511.0, 14721.0, 10387.0, 4819.0, 3617.0, 4084.0],
    ),
    (
        "nr_vmscan_write_skip",
        [0.0, 30.0, 2300502.0, 2774735.0, 0.0, 0.0],
    ),
    (
        "nr_vmscan_immediate_reclaim",
        [0.0, 0.0, 0.0, 0.0, 5155.0, 3509.0],
    ),
    ("nr_vmscan_throttled", [0.0, 0.0, 0.0, 65112.0, 190.0, 190.0]),
    (
        "slabs_scanned",
        [16512.0, 17920.0, 18048.0, 17536.0, 16640.0, 17408.0],
    ),
    ("direct_inode_steals", [0.0; 6]),
    (
        "kswapd_inode_steals",
        [5180.0, 5318.0, 5177.0, 5178.0, 5179.0, 5193.0],
    ),
    ("kswapd_skip_congestion_wait", [131.0, 0.0, 4.0, 44.0, 0.0, 0.0]),
    ("compaction_stalls", [2.0, 2.0, 0.0, 0.0, 5.0, 1.0]),
    ("compaction_success", [2.0, 2.0, 0.0, 0.0, 2.0, 1.0]),
    ("compaction_failures", [0.0, 0.0, 0.0, 0.0, 3.0, 0.0]),
    ("compaction_pages_moved", [0.0, 0.0, 0.0, 0.0, 1049.0, 0.0]),
    ("compaction_move_failure", [0.0, 0.0, 0.0, 0.0, 96.0, 0.0]),
    (
        "direct_reclaims",
        [89145.0, 89785.0, 24921.0, 7546.0, 1954.0, 3747.0],
    ),
    ("direct_write_file", [0.0; 6]),
    ("direct_write_anon", [0.0, 0.0, 0.0, 3.0, 1.0, 0.0]),
    ("write_sync", [0.0; 6]),
    (
        "kswapd_wake_requests",
        [11152.0, 11021.0, 21223.0, 24029.0, 26797.0, 26672.0],
    ),
    ("kswapd_wakeups", [421.0, 397.0, 761.0, 778.0, 776.0, 742.0]),
    ("kswapd_write_file", [4483.0, 4286.0, 0.0, 1.0, 0.0, 0.0]),
    (
        "kswapd_write_anon",
        [10027.0, 10435.0, 10387.0, 4815.0, 3616.0, 4084.0],
    ),
    ("direct_stall_seconds", [0.26, 0.25, 0.08, 0.05, 0.04, 0.08]),
    (
        "kswapd_awake_seconds",
        [493.26, 494.05, 430.09, 420.52, 428.55, 428.81],
    ),
    (
        "pgscan",
        [
            13067184.0, 13049497.0, 18340048.0, 19836880.0, 14371623.0, 14303355.0,
        ],
    ),
    (
        "pgsteal",
        [9564914.0, 9566504.0, 9565121.0, 9551708.0, 9550242.0, 9556670.0],
    ),
    ("reclaimed_percent", [73.20, 73.31, 52.15, 48.15, 66.45, 66.81]),
    ("written_percent", [0.11, 0.11, 0.06, 0.02, 0.03, 0.03]),
    ("file_written_percent", [0.03, 0.03, 0.0, 0.0, 0.0, 0.0]),
    ("direct_time_percent", [0.74, 0.70, 0.26, 0.16, 0.13, 0.27]),
    ("kswapd_awake_percent", [86.98, 87.16, 77.95, 79.98, 80.12, 81.47]),
    ("direct_congest_number", [0.0; 6]),
    ("direct_congest_ms", [0.0; 6]),
    ("direct_congest_full", [0.0; 6]),
    ("direct_conditional_number", [0.0, 1.0, 0.0, 56.0, 8.0, 0.0]),
    ("direct_conditional_ms", [0.0; 6]),
    ("direct_conditional_full", [0.0; 6]),
    ("kswapd_congest_number", [4.0, 0.0, 1.0, 0.0, 6.0, 0.0]),
    ("kswapd_congest_ms", [400.0, 0.0, 100.0, 0.0, 501.0, 0.0]),
    ("kswapd_congest_full", [4.0, 0.0, 1.0, 0.0, 5.0, 0.0]),
    (
        "kswapd_conditional_number",
        [0.0, 0.0, 0.0, 65056.0, 189.0, 190.0],
    ),
    ("kswapd_conditional_ms", [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]),
    ("kswapd_conditional_full", [0.0; 6]),
];

const MICRO: &[Row] = &[
    ("user_sys_seconds", [6.95, 7.2, 6.84, 6.33, 5.97, 6.13]),
    ("elapsed_seconds", [56.34, 65.04, 66.53, 63.24, 52.48, 63.00]),
    (
        "pgpgin_kib",
        [46928.0, 50660.0, 48504.0, 42888.0, 42648.0, 43036.0],
    ),
    (
        "pgpgout_kib",
        [4990816.0, 4994987.0, 4987572.0, 4999242.0, 4981324.0, 4990627.0],
    ),
    ("pswpin", [2573.0, 3234.0, 2470.0, 1396.0, 1352.0, 1297.0]),
    ("pswpout", [2316.0, 2578.0, 2360.0, 937.0, 912.0, 873.0]),
    (
        "pgscan_direct",
        [1834430.0, 2016994.0, 1623675.0, 1843754.0, 1922668.0, 1941916.0],
    ),
    (
        "pgscan_kswapd",
        [1399007.0, 1272637.0, 1842874.0, 1810867.0, 1425366.0, 1426536.0],
    ),
    (
        "pgsteal_kswapd",
        [637708.0, 657418.0, 860512.0, 884531.0, 906608.0, 927206.0],
    ),
    (
        "pgsteal_direct",
        [536567.0, 517876.0, 314115.0, 289472.0, 272265.0, 252361.0],
    ),
    ("kswapd_efficiency_percent", [45.0, 51.0, 46.0, 48.0, 63.0, 64.0]),
    (
        "kswapd_velocity_per_s",
        [24831.505, 19566.990, 27699.895, 28634.836, 27160.175, 22643.429],
    ),
    ("direct_efficiency_percent", [29.0, 25.0, 19.0, 15.0, 14.0, 12.0]),
    (
        "direct_velocity_per_s",
        [32559.993, 31011.593, 24405.156, 29154.870, 36636.204, 30824.063],
    ),
    ("direct_scans_percent", [56.0, 61.0, 46.0, 50.0, 57.0, 57.0]),
    ("nr_vmscan_write", [2706.0, 2910.0, 2416.0, 969.0, 912.0, 873.0]),
    (
        "nr_vmscan_write_skip",
        [0.0, 12640.0, 148339.0, 166844.0, 0.0, 0.0],
    ),
    ("nr_vmscan_immediate_reclaim", [0.0, 0.0, 0.0, 0.0, 12.0, 58.0]),
    ("nr_vmscan_throttled", [0.0, 0.0, 0.0, 4788.0, 7.0, 9.0]),
    ("slabs_scanned", [4096.0, 5248.0, 5120.0, 6656.0, 4480.0, 16768.0]),
    (
        "direct_inode_steals",
        [531.0, 1189.0, 348.0, 1166.0, 700.0, 3783.0],
    ),
    ("kswapd_inode_steals", [164.0, 0.0, 349.0, 0.0, 0.0, 9.0]),
    (
        "kswapd_skip_congestion_wait",
        [78.0, 35.0, 74.0, 51.0, 14.0, 10.0],
    ),
    ("compaction_stalls", [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
    ("compaction_success", [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
    ("compaction_failures", [0.0; 6]),
    ("compaction_pages_moved", [0.0; 6]),
    ("compaction_move_failure", [0.0; 6]),
    (
        "direct_reclaims",
        [9823.0, 9477.0, 5737.0, 5347.0, 5078.0, 4720.0],
    ),
    ("direct_write_file", [0.0; 6]),
    ("direct_write_anon", [0.0, 0.0, 0.0, 0.0, 16.0, 0.0]),
    ("write_sync", [0.0; 6]),
    (
        "kswapd_wake_requests",
        [1636.0, 1692.0, 2177.0, 2403.0, 2707.0, 2757.0],
    ),
    ("kswapd_wakeups", [28.0, 29.0, 30.0, 34.0, 15.0, 23.0]),
    ("kswapd_write_file", [380.0, 332.0, 56.0, 32.0, 0.0, 0.0]),
    ("kswapd_write_anon", [2326.0, 2578.0, 2360.0, 937.0, 896.0, 873.0]),
    ("direct_stall_seconds", [2.06, 2.10, 1.62, 2.65, 2.25, 1.86]),
    ("kswapd_awake_seconds", [49.44, 56.39, 54.31, 55.45, 47.00, 56.74]),
    (
        "pgscan",
        [3233437.0, 3289631.0, 3466549.0, 3654621.0, 3348034.0, 3368452.0],
    ),
    (
        "pgsteal",
        [1174275.0, 1175294.0, 1174627.0, 1174003.0, 1178873.0, 1179567.0],
    ),
    ("reclaimed_percent", [36.32, 35.73, 33.88, 32.12, 35.21, 35.02]),
    ("written_percent", [0.08, 0.09, 0.07, 0.03, 0.03, 0.03]),
    ("file_written_percent", [0.01, 0.01, 0.0, 0.0, 0.0, 0.0]),
    ("direct_time_percent", [22.86, 22.58, 19.15, 29.51, 27.37, 23.28]),
    ("kswapd_awake_percent", [87.75, 86.70, 81.63, 87.68, 89.56, 90.06]),
    ("direct_congest_number", [0.0; 6]),
    ("direct_congest_ms", [0.0; 6]),
    ("direct_congest_full", [0.0; 6]),
    (
        "direct_conditional_number",
        [768.0, 793.0, 704.0, 1359.0, 608.0, 674.0],
    ),
    ("direct_conditional_ms", [0.0; 6]),
    ("direct_conditional_full", [0.0; 6]),
    ("kswapd_congest_number", [41.0, 22.0, 58.0, 43.0, 78.0, 92.0]),
    (
        "kswapd_congest_ms",
        [2937.0, 2200.0, 4543.0, 4300.0, 7800.0, 9200.0],
    ),
    ("kswapd_congest_full", [29.0, 22.0, 45.0, 43.0, 78.0, 92.0]),
    ("kswapd_conditional_number", [0.0, 0.0, 0.0, 4284.0, 4.0, 9.0]),
    ("kswapd_conditional_ms", [0.0; 6]),
    ("kswapd_conditional_full", [0.0; 6]),
];

/// The post's value of a metric in a load's column.
pub(super) fn published(workload: &str, column: &str, metric: &str) -> Option<f64> {
    let rows = match workload {
        super::FS_MARK => FS_MARK,
        super::MICRO => MICRO,
        _ => return None,
    };
    let column = COLUMNS.iter().position(|&name| name == column)?;
    let row = rows.iter().find(|(name, _)| *name == metric)?;
    Some(row.1[column])
}

#[cfg(test)]
mod tests {
    use super::super::{FS_MARK, MICRO};
    use super::*;

    /// The post's own percentages follow from its counts, on every column: nothing was mistyped.
    #[test]
    fn the_posts_percentages_follow_from_its_counts() {
        for workload in [FS_MARK, MICRO] {
            for column in COLUMNS {
                let of = |metric| published(workload, column, metric).unwrap();
                let percent = |part: f64, whole: f64| (100.0 * part / whole).floor();
                let about = |metric, value: f64, digits: f64| {
                    let posted = of(metric);
                    assert!(
                        (posted - value).abs() <= digits,
                        "{workload} {column} {metric}: {posted} and {value}"
                    );
                };
                let (scan, direct) = (of("pgscan_kswapd"), of("pgscan_direct"));
                about(
                    "kswapd_efficiency_percent",
                    percent(of("pgsteal_kswapd"), scan),
                    0.0,
                );
                about(
                    "direct_efficiency_percent",
                    percent(of("pgsteal_direct"), direct),
                    0.0,
                );
                about("direct_scans_percent", percent(direct, scan + direct), 0.0);
                about("kswapd_velocity_per_s", scan / of("elapsed_seconds"), 0.001);
                about("direct_velocity_per_s", direct / of("elapsed_seconds"), 0.001);
                about("pgscan", scan + direct, 0.0);
                about("pgsteal", of("pgsteal_kswapd") + of("pgsteal_direct"), 0.0);
                about("reclaimed_percent", 100.0 * of("pgsteal") / of("pgscan"), 0.006);
                let writes = of("kswapd_write_file") + of("kswapd_write_anon") + of("direct_write_anon");
                about("nr_vmscan_write", writes, 1.0);
                let stall = of("direct_stall_seconds");
                about(
                    "direct_time_percent",
                    100.0 * stall / (stall + of("user_sys_seconds")),
                    0.006,
                );
                let awake = 100.0 * of("kswapd_awake_seconds") / of("elapsed_seconds");
                about("kswapd_awake_percent", awake, 0.006);
            }
        }
    }
}
