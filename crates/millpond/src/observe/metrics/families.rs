//! The metrics and their names.

use super::Facts;
use super::text::{Family, Kind, Text};
use crate::device::{DeviceFigures, device_name};
use crate::observe::stats::Stats;
use Kind::{Counter, Gauge, Summary};
use millpond_core::io::Reason;
use millpond_core::units::{Nanos, PageCount, PageSize};

/// Nanoseconds in the base unit.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Everything, at this moment.
pub(super) fn text(facts: &Facts) -> String {
    let stats = &facts.stats;
    let mut text = Text::default();
    let mut labels = vec![("version", env!("CARGO_PKG_VERSION"))];
    labels.extend(facts.name.as_deref().map(|name| ("name", name)));
    text.family(
        "millpond_build_info",
        Gauge,
        "1; the version is a label, and the cache's name if it has one.",
    )
    .sample("", &labels, 1.0);
    let age = facts.age.as_secs_f64();
    text.one(
        "millpond_uptime_seconds",
        Gauge,
        "Time since the cache was made.",
        age,
    );
    let budget = facts.memory.0 as f64;
    text.one(
        "millpond_memory_budget_bytes",
        Gauge,
        "The budget: frames, metadata and transfers.",
        budget,
    );
    memory(stats, facts.page_size, &mut text);
    reads_and_transit(stats, &facts.devices, &mut text);
    plain_counters(stats, &mut text);
    super::reuse::families(stats, &mut text);
    by_reason(stats, &mut text);
    waits(stats, &mut text);
    devices(&facts.devices, &mut text);
    super::stores::families(&facts.stores, &mut text);
    text.into_string()
}

fn memory(stats: &Stats, page: PageSize, text: &mut Text) {
    let now = &stats.occupancy;
    let limits = &stats.derived.dirty;
    for (name, help, pages) in [
        ("frames", "Memory of the pool.", now.frames),
        ("free", "Frames that hold nothing.", now.free),
        (
            "active",
            "Pages on the active list, used more than once.",
            now.active,
        ),
        (
            "inactive",
            "Pages on the inactive list, whose cold end supplies the victims.",
            now.inactive,
        ),
        ("dirty", "Pages with changes that the device lacks.", now.dirty),
        ("writeback", "Pages being written.", now.writing),
        (
            "failed",
            "Pages that the device refused and has not taken since.",
            now.failed,
        ),
        (
            "dirty_background_threshold",
            "Background writeback starts above this much dirty memory.",
            limits.background,
        ),
        (
            "dirty_threshold",
            "Writers block at this much dirty memory.",
            limits.hard,
        ),
        ("swap_used", "Swap that holds pages of regions.", stats.swap_used),
        ("swap_total", "Size of swap.", stats.swap_total),
    ] {
        let pages: PageCount = pages;
        let name = format!("millpond_{name}_bytes");
        text.one(&name, Gauge, help, pages.to_bytes(page).0 as f64);
    }
    text.one(
        "millpond_metadata_bytes",
        Gauge,
        "Metadata of frames and dirty pages, including copies of pages.",
        stats.metadata.0 as f64,
    );
    text.one(
        "millpond_lent_bytes",
        Gauge,
        "Pages of a mount's files in the kernel's page cache, at most.",
        stats.lent.0 as f64,
    );
}

/// A summary's samples: its quantiles, all of them together, and how many there were.
fn summary(
    family: &mut Family<'_>,
    labels: &[(&str, &str)],
    quantiles: [(&str, Option<Nanos>); 2],
    (sum, count): (u64, u64),
) {
    for (quantile, value) in quantiles {
        // The format's word for "there were none".
        let value = value.map_or(f64::NAN, |Nanos(ns)| seconds(ns));
        family.sample("", &[labels, &[("quantile", quantile)]].concat(), value);
    }
    family.sample("_sum", labels, seconds(sum));
    family.sample("_count", labels, count as f64);
}

fn reads_and_transit(stats: &Stats, devices: &[DeviceFigures], text: &mut Text) {
    let pressure = &stats.pressure;
    let mut family = text.family(
        "millpond_read_latency_seconds",
        Summary,
        "Reads that a caller waited for. Quantiles cover the last 1 to 2 s and are at most a quarter too high.",
    );
    let waited = devices.iter().fold((0, 0), |(sum, count), device| {
        (sum + device.waited_read_time.0, count + device.waited_reads)
    });
    let quantiles = [("0.5", stats.read_p50), ("0.99", pressure.read_p99)];
    summary(&mut family, &[], quantiles, waited);
    let mut goal = text.family(
        "millpond_read_latency_goal_seconds",
        Gauge,
        "Target p99 read latency while writing; missing without a goal.",
    );
    if let Some(Nanos(ns)) = pressure.read_goal {
        goal.sample("", &[], seconds(ns));
    }
    text.one(
        "millpond_writes_in_transit_bytes",
        Gauge,
        "Bytes of writes in transit to the busiest device.",
        pressure.in_transit.0 as f64,
    );
    let mut limit = text.family(
        "millpond_writes_in_transit_limit_bytes",
        Gauge,
        "The limit for writes in transit; missing without a limit in bytes.",
    );
    if let Some(bytes) = pressure.in_transit_limit {
        limit.sample("", &[], bytes.0 as f64);
    }
}

/// Counters of the replacement that the kernel has as well.
fn replacement(stats: &Stats) -> [(&'static str, &'static str, u64); 8] {
    let lru = &stats.replacement;
    [
        (
            "pgactivate",
            "Pages that moved from the inactive to the active list.",
            lru.pgactivate,
        ),
        (
            "pgdeactivate",
            "Pages that moved from the active to the inactive list.",
            lru.pgdeactivate,
        ),
        ("pgrefill", "Pages looked at on the active list.", lru.pgrefill),
        (
            "pgrotated",
            "Pages moved to the cold end after their write ended.",
            lru.pgrotated,
        ),
        (
            "workingset_refault_file",
            "Missing pages, of files and regions, that had left a shadow.",
            lru.workingset_refault_file,
        ),
        (
            "workingset_activate_file",
            "Of those, pages that came back soon enough to become active.",
            lru.workingset_activate_file,
        ),
        (
            "workingset_restore_file",
            "Of those, pages that had been active.",
            lru.workingset_restore_file,
        ),
        (
            "swap_ra_hit",
            "Pages of regions that were read ahead and then touched.",
            stats.swap_ahead_hits,
        ),
    ]
}

/// Counters that Linux has under the same name in `/proc/vmstat`; others of the core have no `vmstat` in theirs.
const KERNEL: [&str; 21] = [
    "pgmajfault",
    "pgalloc",
    "pgfree",
    "pgscan_kswapd",
    "pgscan_direct",
    "pgsteal_kswapd",
    "pgsteal_direct",
    "allocstall",
    "pageoutrun",
    "nr_vmscan_immediate_reclaim",
    "nr_dirtied",
    "nr_written",
    "pswpin",
    "pswpout",
    "pglazyfreed",
    "swap_ra",
    "pgactivate",
    "pgdeactivate",
    "pgrefill",
    "pgrotated",
    "swap_ra_hit",
];

fn name_of(counter: &str) -> String {
    let is_kernels = KERNEL.contains(&counter) || counter.starts_with("workingset_");
    match (is_kernels, counter.strip_suffix("_ns")) {
        (true, _) => format!("millpond_vmstat_{counter}_total"),
        (false, Some(time)) => format!("millpond_{time}_seconds_total"),
        (false, None) => format!("millpond_{counter}_total"),
    }
}

fn plain_counters(stats: &Stats, text: &mut Text) {
    let about = millpond_core::stats::Stats::ABOUT;
    stats.counters.for_each(|counter, reason, value| {
        if reason.is_some() {
            return;
        }
        let help = about.iter().find(|(name, _)| *name == counter);
        let help = help.map_or("", |(_, help)| help).replace("Nanoseconds", "Time");
        let is_time = counter.ends_with("_ns");
        let value = if is_time { seconds(value) } else { value as f64 };
        text.one(&name_of(counter), Counter, &help, value);
    });
    for (counter, help, value) in replacement(stats) {
        text.one(&name_of(counter), Counter, help, value as f64);
    }
    text.one(
        "millpond_bimodal_activations_total",
        Counter,
        "Missing pages without a shadow that bimodal insertion put on the active list.",
        stats.replacement.bimodal_activate_file as f64,
    );
    text.one(
        "millpond_no_reuse_pages_total",
        Counter,
        "Pages of no-reuse files, admitted for the correlated-reference window only.",
        stats.replacement.no_reuse_file as f64,
    );
    text.one(
        "millpond_scan_balance_rotations_total",
        Counter,
        "Would-be victims that stayed for a lap because pages of their kind (file or region) cost more to refault.",
        stats.replacement.scan_balance_rotated as f64,
    );
    text.one(
        "millpond_warnings_total",
        Counter,
        "Warnings: a long wait for a device, log or guard, or a lost page.",
        stats.warnings as f64,
    );
    text.one(
        "millpond_guard_wait_seconds",
        Gauge,
        "The longest current wait for a page that another call or guard holds.",
        stats.guard_wait.as_secs_f64(),
    );
    text.one(
        "millpond_log_wait_seconds",
        Gauge,
        "The longest current wait for a file's log.",
        stats.log_wait.as_secs_f64(),
    );
}

fn by_reason(stats: &Stats, text: &mut Text) {
    type Counts = [u64; Reason::COUNT];
    let c = &stats.counters;
    // Reads never wait for admission: no samples of them.
    let families: [(&str, Kind, &str, &Counts, bool, bool); 7] = [
        (
            "millpond_io_requests_total",
            Counter,
            "Transfers issued, by reason.",
            &c.io_requests,
            false,
            true,
        ),
        (
            "millpond_io_bytes_total",
            Counter,
            "Bytes of these transfers.",
            &c.io_bytes,
            false,
            true,
        ),
        (
            "millpond_io_seconds_total",
            Counter,
            "Total time from issue to completion of ended transfers.",
            &c.io_ns,
            true,
            true,
        ),
        (
            "millpond_io_longest_seconds",
            Gauge,
            "The longest transfer since the cache was made.",
            &c.io_ns_max,
            true,
            true,
        ),
        (
            "millpond_admission_waits_total",
            Counter,
            "Times admission held back the next write, by the reason for the write.",
            &c.admission_waits,
            false,
            false,
        ),
        (
            "millpond_admission_wait_seconds_total",
            Counter,
            "Total time that admission held back writes.",
            &c.admission_wait_ns,
            true,
            false,
        ),
        (
            "millpond_admission_wait_longest_seconds",
            Gauge,
            "The longest hold by admission since the cache was made.",
            &c.admission_wait_ns_max,
            true,
            false,
        ),
    ];
    for (name, kind, help, counts, is_time, has_reads) in families {
        let mut family = text.family(name, kind, help);
        for reason in Reason::ALL.into_iter().filter(|r| has_reads || !r.is_read()) {
            let value = counts[reason as usize];
            let value = if is_time { seconds(value) } else { value as f64 };
            family.sample("", &[("reason", reason.name())], value);
        }
    }
}

fn waits(stats: &Stats, text: &mut Text) {
    let (waits, waiting) = (&stats.frame_waits, &stats.waiting);
    for (name, kind, help, value) in [
        (
            "millpond_frame_waits_total",
            Counter,
            "Calls that waited for a free frame.",
            waits.count as f64,
        ),
        (
            "millpond_frame_wait_seconds_total",
            Counter,
            "Total time that calls waited for a free frame.",
            waits.total.as_secs_f64(),
        ),
        (
            "millpond_frame_wait_longest_seconds",
            Gauge,
            "The longest wait for a free frame since the cache was made.",
            waits.longest.as_secs_f64(),
        ),
        (
            "millpond_direct_reclaim_seconds_total",
            Counter,
            "Time that calls spent reclaiming frames for themselves.",
            waits.reclaiming.as_secs_f64(),
        ),
        (
            "millpond_dirtiers_blocked",
            Gauge,
            "Threads paused because too much memory is dirty.",
            waiting.dirtiers_blocked as f64,
        ),
        (
            "millpond_admission_held_back",
            Gauge,
            "1 while the next write is held back by admission.",
            f64::from(u8::from(waiting.held_back.is_some())),
        ),
    ] {
        text.one(name, kind, help, value);
    }
}

fn devices(devices: &[DeviceFigures], text: &mut Text) {
    // Two numbers may have one name: a device that was taken out and another that came.
    let mut names: Vec<String> = devices.iter().map(|d| device_name(d.device)).collect();
    for n in 1..names.len() {
        if names[..n].contains(&names[n]) {
            names[n] = format!("{} ({})", names[n], devices[n].device);
        }
    }
    type Value = fn(&DeviceFigures) -> f64;
    let families: [(&str, Kind, &str, Value); 11] = [
        ("reads_total", Counter, "Reads that have ended.", |d| {
            d.reads as f64
        }),
        (
            "read_bytes_total",
            Counter,
            "Bytes that these reads asked for.",
            |d| d.read_bytes as f64,
        ),
        ("writes_total", Counter, "Writes that have ended.", |d| {
            d.writes as f64
        }),
        ("written_bytes_total", Counter, "Bytes of these writes.", |d| {
            d.write_bytes as f64
        }),
        (
            "write_seconds_total",
            Counter,
            "Total time of these writes.",
            |d| seconds(d.write_time.0),
        ),
        ("syncs_total", Counter, "Syncs that have ended.", |d| {
            d.syncs as f64
        }),
        ("sync_seconds_total", Counter, "Total time of these syncs.", |d| {
            seconds(d.sync_time.0)
        }),
        ("errors_total", Counter, "Failed reads, writes and syncs.", |d| {
            d.errors as f64
        }),
        ("reads_in_transit", Gauge, "Reads under way.", |d| {
            d.reads_in_transit as f64
        }),
        ("writes_in_transit", Gauge, "Writes under way.", |d| {
            d.writes_in_transit as f64
        }),
        (
            "writes_in_transit_bytes",
            Gauge,
            "Bytes of writes in transit.",
            |d| d.write_bytes_in_transit as f64,
        ),
    ];
    for (name, kind, help, value) in families {
        let mut family = text.family(&format!("millpond_device_{name}"), kind, help);
        for (name, device) in names.iter().zip(devices) {
            family.sample("", &[("device", name)], value(device));
        }
    }
    type Limit = fn(&DeviceFigures) -> Option<f64>;
    let limits: [(&str, &str, Limit); 2] = [
        (
            "read_goal_seconds",
            "Target p99 read latency of the device while writing.",
            |d| d.read_goal.map(|goal| seconds(goal.0)),
        ),
        (
            "writes_in_transit_limit_bytes",
            "The limit for writes in transit.",
            |d| d.write_bytes_in_transit_limit.map(|limit| limit.0 as f64),
        ),
    ];
    for (name, help, limit) in limits {
        let mut family = text.family(&format!("millpond_device_{name}"), Gauge, help);
        for (name, device) in names.iter().zip(devices) {
            if let Some(value) = limit(device) {
                family.sample("", &[("device", name)], value);
            }
        }
    }
    let help = "Page reads that a caller needed at once. Quantiles cover the last 1 to 2 s and are at most a quarter too high.";
    let mut family = text.family("millpond_device_waited_read_seconds", Summary, help);
    for (name, device) in names.iter().zip(devices) {
        let quantiles = [("0.5", device.read_p50), ("0.99", device.read_p99)];
        let waited = (device.waited_read_time.0, device.waited_reads);
        summary(&mut family, &[("device", name)], quantiles, waited);
    }
}
