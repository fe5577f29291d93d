//! The figures of a cache: each is declared once, with its name, unit, description and reader.
//!
//! ```text
//!   a row here, or a counter of the core ──► Figure ──┬─► Stats as text, and so C: one line each
//!                                                     ├─► metrics: name, HELP, TYPE, samples
//!                                                     ├─► the socket's `stat` and `devices`, and so `millpond stat` and `top`
//!                                                     └─► Stats::figure, by name
//! ```
//!
//! Python shows a choice of them, which has its own list: `FIGURES` in the Python crate's `pond.rs`.

use super::stats::Stats;
#[cfg(any(feature = "control", feature = "metrics"))]
use crate::device::DeviceFigures;
use millpond_core::io::Reason;
#[cfg(any(feature = "control", feature = "metrics"))]
use millpond_core::reuse::ReuseFigures;
use millpond_core::stats::Counter;
use millpond_core::units::Nanos;
use std::time::Duration;

/// What a figure is in, and how it moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Events or pages; only grows.
    Total,
    /// Only grows.
    TotalBytes,
    /// Nanoseconds; only grows.
    TotalTime,
    /// The longest of many times, in nanoseconds.
    Longest,
    /// A number at this moment.
    Number,
    Pages,
    Bytes,
    /// Nanoseconds.
    Time,
}

impl Unit {
    /// How the names of such fields end.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Unit::Total | Unit::Number | Unit::Pages => "",
            Unit::TotalBytes | Unit::Bytes => "_bytes",
            Unit::TotalTime | Unit::Time => "_ns",
            Unit::Longest => "_ns_max",
        }
    }

    /// Whether it is of the time since the cache was made, and not of this moment.
    #[cfg(any(feature = "control", feature = "metrics"))]
    pub(crate) fn counts(self) -> bool {
        matches!(
            self,
            Unit::Total | Unit::TotalBytes | Unit::TotalTime | Unit::Longest
        )
    }
}

/// A figure that is read from an `S`.
pub(crate) struct Row<S> {
    /// Without its unit.
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// One sentence.
    pub(crate) about: &'static str,
    /// `None`: there is none at this moment.
    pub(crate) read: fn(&S) -> Option<u64>,
}

#[cfg(feature = "control")]
impl<S> Row<S> {
    /// The name of its field.
    pub(crate) fn field(&self) -> String {
        format!("{}{}", self.name, self.unit.ending())
    }
}

const fn row<S>(name: &'static str, unit: Unit, about: &'static str, read: fn(&S) -> Option<u64>) -> Row<S> {
    Row {
        name,
        unit,
        about,
        read,
    }
}

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn nanos(time: Option<Nanos>) -> Option<u64> {
    time.map(|Nanos(ns)| ns)
}

/// Those of a cache, beside the counters of its core. With the name that Linux has for such a number of pages, if it has one.
#[rustfmt::skip]
const CACHE: &[(Option<&str>, Row<Stats>)] = {
    use Unit::{Bytes, Longest, Number, Pages, Time, Total, TotalTime};
    &[
        (Some("nr_frames"), row("frames", Pages, "Memory of the pool.", |s| Some(s.occupancy.frames.0))),
        (Some("nr_free_pages"), row("free", Pages, "Frames that hold nothing.", |s| Some(s.occupancy.free.0))),
        (Some("nr_active_file"), row("active", Pages, "Pages on the active list, used more than once.",
            |s| Some(s.occupancy.active.0))),
        (Some("nr_inactive_file"), row("inactive", Pages,
            "Pages on the inactive list, whose cold end supplies the victims.", |s| Some(s.occupancy.inactive.0))),
        (Some("nr_dirty"), row("dirty", Pages, "Pages with changes that the device lacks.",
            |s| Some(s.occupancy.dirty.0))),
        (Some("nr_writeback"), row("writing", Pages, "Pages being written.", |s| Some(s.occupancy.writing.0))),
        (Some("nr_failed"), row("failed", Pages, "Pages that the device refused and has not taken since.",
            |s| Some(s.occupancy.failed.0))),
        (Some("nr_dirty_threshold"), row("dirty_hard", Pages, "Writers block at this much dirty memory.",
            |s| Some(s.derived.dirty.hard.0))),
        (Some("nr_dirty_background_threshold"), row("dirty_background", Pages,
            "Background writeback starts above this much dirty memory.", |s| Some(s.derived.dirty.background.0))),
        (None, row("in_transit_writes", Bytes, "Bytes of writes in transit to the busiest device.",
            |s| Some(s.pressure.in_transit.0))),
        (None, row("in_transit_limit", Bytes, "The limit for writes in transit, if it is in bytes.",
            |s| s.pressure.in_transit_limit.map(|limit| limit.0))),
        (None, row("read_p50", Time, "The median of the reads that a caller waited for, in the last 1 to 2 s.",
            |s| nanos(s.read_p50))),
        (None, row("read_p99", Time, "What 99 % of those reads took at most, or a quarter less.",
            |s| nanos(s.pressure.read_p99))),
        (None, row("read_goal", Time, "Target p99 read latency while writing, if there is one.",
            |s| nanos(s.pressure.read_goal))),
        (None, row("read_file", Time, "What the read of a missing page of a file takes, as reclaim weighs it.",
            |s| Some(s.refault_costs.file.0))),
        (None, row("read_region", Time, "What the read of a missing page of a region takes, as reclaim weighs it.",
            |s| Some(s.refault_costs.region.0))),
        (None, row("dirtiers_blocked", Number, "Threads paused because too much memory is dirty.",
            |s| Some(s.occupancy.dirtiers_blocked))),
        (None, row("admission_held_back", Number, "1 while the next write is held back by admission.",
            |s| Some(s.waiting.held_back.is_some().into()))),
        (None, row("metadata", Bytes, "Metadata of frames and dirty pages, including copies of pages.",
            |s| Some(s.metadata.0))),
        (None, row("lent", Bytes, "Pages of a mount's files in the kernel's page cache, at most.",
            |s| Some(s.lent.0))),
        (Some("swap_used_pages"), row("swap_used", Pages, "Swap that holds pages of regions.",
            |s| Some(s.swap_used.0))),
        (Some("swap_total_pages"), row("swap_total", Pages, "Size of swap.", |s| Some(s.swap_total.0))),
        (None, row("guard_wait", Time, "The longest current wait for a page that another call or guard holds.",
            |s| Some(ns(s.guard_wait)))),
        (None, row("log_wait", Time, "The longest current wait for a file's log.", |s| Some(ns(s.log_wait)))),
        (None, row("warnings", Total, "Warnings: a long wait for a device, log or guard, or a lost page.",
            |s| Some(s.warnings))),
        (None, row("page_requests", Total, "Pages of files that calls asked for, in memory or not.",
            |s| Some(s.page_requests))),
        (Some("swap_ra_hit"), row("swap_ra_hit", Total, "Pages of regions that were read ahead and then touched.",
            |s| Some(s.swap_ahead_hits))),
        (None, row("frame_waits", Total, "Calls that waited for a free frame.", |s| Some(s.frame_waits.count))),
        (None, row("frame_wait", TotalTime, "Total time that calls waited for a free frame.",
            |s| Some(ns(s.frame_waits.total)))),
        (None, row("frame_wait", Longest, "The longest wait for a free frame since the cache was made.",
            |s| Some(ns(s.frame_waits.longest)))),
        (None, row("frame_wait_clean", Longest, "Of such waits, the longest time with clean pages in memory.",
            |s| Some(ns(s.frame_waits.longest_with_clean)))),
        (None, row("direct_reclaim", TotalTime, "Time that calls spent reclaiming frames for themselves.",
            |s| Some(ns(s.frame_waits.reclaiming)))),
    ]
};

/// How pages leave memory and come back: of files, of regions, of one file.
#[rustfmt::skip]
#[cfg(any(feature = "control", feature = "metrics"))]
pub(crate) const REUSE: &[Row<ReuseFigures>] = {
    use Unit::{Time, Total};
    &[
        row("misses", Total, "Pages that had to be read.", |r| Some(r.misses)),
        row("evicted", Total, "Pages that were evicted.", |r| Some(r.evicted)),
        row("refaults", Total, "Missing pages that had been in memory and left a shadow.", |r| Some(r.refaults)),
        row("refaults_kept_by_double", Total, "Of those, pages that twice the memory would have kept.",
            |r| Some(r.refaults_kept_by_double)),
        row("refaults_forgotten", Total, "Lower bound for misses of pages evicted too long ago to be remembered.",
            |r| Some(r.refaults_forgotten)),
        row("eviction_age", Time, "How long recently evicted pages were in memory.", |r| nanos(r.eviction_age)),
        row("away", Time, "How long pages that came back recently were away.", |r| nanos(r.away)),
    ]
};

/// What a device does.
#[rustfmt::skip]
#[cfg(any(feature = "control", feature = "metrics"))]
pub(crate) const DEVICE: &[Row<DeviceFigures>] = {
    use Unit::{Bytes, Number, Time, Total, TotalBytes, TotalTime};
    &[
        row("reads", Total, "Reads that have ended.", |d| Some(d.reads)),
        row("read", TotalBytes, "Bytes that these reads asked for.", |d| Some(d.read_bytes)),
        row("waited_reads", Total, "Page reads that a caller needed at once.", |d| Some(d.waited_reads)),
        row("waited_read", TotalTime, "Total time of those reads.", |d| Some(d.waited_read_time.0)),
        row("writes", Total, "Writes that have ended.", |d| Some(d.writes)),
        row("write", TotalBytes, "Bytes of these writes.", |d| Some(d.write_bytes)),
        row("write", TotalTime, "Total time of these writes.", |d| Some(d.write_time.0)),
        row("syncs", Total, "Syncs that have ended.", |d| Some(d.syncs)),
        row("sync", TotalTime, "Total time of these syncs.", |d| Some(d.sync_time.0)),
        row("errors", Total, "Failed reads, writes and syncs.", |d| Some(d.errors)),
        row("reads_in_transit", Number, "Reads under way.", |d| Some(d.reads_in_transit)),
        row("writes_in_transit", Number, "Writes under way.", |d| Some(d.writes_in_transit)),
        row("writes_in_transit", Bytes, "Bytes of writes in transit.", |d| Some(d.write_bytes_in_transit)),
        row("writes_in_transit_limit", Bytes, "The limit for writes in transit, if it is in bytes.",
            |d| d.write_bytes_in_transit_limit.map(|limit| limit.0)),
        row("read_p50", Time, "The median of the reads that a caller needed at once, in the last 1 to 2 s.",
            |d| nanos(d.read_p50)),
        row("read_p99", Time, "What 99 % of those reads took at most, or a quarter less.", |d| nanos(d.read_p99)),
        row("read_goal", Time, "Target p99 read latency of the device while writing, if there is one.", |d| nanos(d.read_goal)),
    ]
};

/// A figure of a cache.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    /// Without its unit.
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    #[cfg_attr(not(feature = "metrics"), allow(dead_code))]
    pub(crate) about: &'static str,
    /// The name that Linux has for it, or one like those.
    pub(crate) linux: Option<&'static str>,
    /// Of which transfers, if it is counted by reason.
    pub(crate) reason: Option<Reason>,
    /// `None`: there is none at this moment.
    pub(crate) value: Option<u64>,
}

impl Figure {
    fn of_core(counter: &'static Counter, reason: Option<Reason>, value: u64) -> Figure {
        use Unit::{Longest, Total, TotalBytes, TotalTime};
        let units = [Longest, TotalBytes, TotalTime];
        let ends = |unit: Unit| Some((counter.name.strip_suffix(unit.ending())?, unit));
        let (name, unit) = units.into_iter().find_map(ends).unwrap_or((counter.name, Total));
        Figure {
            name,
            unit,
            about: counter.about.trim(),
            linux: counter.is_linux.then_some(counter.name),
            reason,
            value: Some(value),
        }
    }

    /// The name of its field.
    pub(crate) fn field(&self) -> String {
        let (name, ending) = (self.name, self.unit.ending());
        match self.reason {
            None => format!("{name}{ending}"),
            Some(reason) => format!("{name}{ending}_{}", reason.name()),
        }
    }

    /// Its name in a text as `/proc/vmstat`.
    pub(crate) fn line(&self) -> String {
        self.linux.map_or_else(|| self.field(), str::to_owned)
    }
}

/// Calls `f` for every figure of the cache itself: those by reason one reason after the other.
pub(crate) fn each(stats: &Stats, mut f: impl FnMut(Figure)) {
    for (linux, row) in CACHE {
        f(Figure {
            name: row.name,
            unit: row.unit,
            about: row.about,
            linux: *linux,
            reason: None,
            value: (row.read)(stats),
        });
    }
    let mut counter = |counter, reason, value| f(Figure::of_core(counter, reason, value));
    stats.counters.for_each(&mut counter);
    stats.replacement.for_each(&mut counter);
}

#[cfg(test)]
mod tests {
    use crate::PageCache;
    use std::collections::BTreeSet;

    #[test]
    fn each_figure_has_a_name_of_its_own_and_says_what_it_is() {
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let (mut lines, mut fields) = (BTreeSet::new(), BTreeSet::new());
        super::each(&cache.stats(), |figure| {
            assert!(lines.insert(figure.line()), "{} is there twice", figure.line());
            assert!(fields.insert(figure.field()), "{} is there twice", figure.field());
            assert!(
                figure.about.ends_with('.'),
                "{}: {}",
                figure.field(),
                figure.about
            );
        });
        for field in [
            "frames",
            "read_p50_ns",
            "io_ns_max_sync",
            "frame_wait_ns_max",
            "pgactivate",
        ] {
            assert!(fields.contains(field), "{field} is not in {fields:?}");
        }
    }
}
