//! What the runs on real files say: a table for each load, answers with the bounds that the engine missed, the post's
//! tables, and what the slowest calls have waited for.

use super::real::Ran;
use super::{EXPERIMENT, FS_MARK, answer, post};
use crate::backend::engine::MAPPING;
use crate::report::table::{columns, pick};
use crate::report::{Appendix, Metric, Report, RowName, lookup};
use millpond::internal::quantity::{micros, number, size};

/// The bounds for Millpond's reclaim: the largest percentage of scans by callers that need a frame, the smallest
/// percentage of scanned pages that are freed, and the longest wait for a frame while reclaim could have one.
const FOREGROUND_PERCENT_MAX: f64 = 0.1;
const FREED_PERCENT_MIN: f64 = 95.0;
const WAIT_US_MAX: f64 = 20_000.0;

const FS_MARK_COLUMNS: [(&str, &str); 8] = [
    ("files/s", "files_per_s_mean"),
    ("synced/s", "files_synced_per_s"),
    ("MB/s", "mb_per_s"),
    ("written by reclaim", "file_pages_written_by_reclaim"),
    ("foreground scans", "foreground_scan_share_percent"),
    ("freed of scanned", "reclaimed_percent"),
    ("longest write", "write_max_us"),
    ("frame wait", "frame_wait_max_us"),
];

const MICRO_COLUMNS: [(&str, &str); 8] = [
    ("MB/s", "mb_per_s"),
    ("elapsed", "elapsed_seconds"),
    ("written by reclaim", "file_pages_written_by_reclaim"),
    ("foreground scans", "foreground_scan_share_percent"),
    ("freed of scanned", "reclaimed_percent"),
    ("touch p99", "touch_p99_us"),
    ("worst touch", "touch_max_us"),
    ("frame wait", "frame_wait_max_us"),
];

/// Adds what was measured on real files to `report`.
pub(super) fn add(report: &mut Report, ran: &Ran) {
    let measured = &ran.measured;
    let metrics: Vec<Metric> = crate::report::metrics(&measured.results, EXPERIMENT.name);
    let names = &measured.names;
    for (load, what) in &ran.loads {
        let of_load = match *load {
            FS_MARK => FS_MARK_COLUMNS,
            _ => MICRO_COLUMNS,
        };
        let columns = columns(load, &of_load);
        let title = format!(
            "{load} on {} of memory: {}",
            size(ran.sizes.memory),
            ran.sizes.description(what)
        );
        report.tables.push(pick(&title, "", &columns, names, &metrics));
        let missed = missed(load, names, &metrics);
        report
            .answers
            .extend(answer::of_real_files(load, names, &metrics, missed));
        report.appendices.extend(posts(load, names, &metrics));
        let of_post = post::of_the_post(load);
        if !report.appendices.iter().any(|other| other.title == of_post.title) {
            report.appendices.push(of_post);
        }
    }
    report.add_slowest(names, &measured.results);
    report.notes.extend(notes(names));
    measured.add_to(report, metrics);
    report.definitions.extend(DEFINITIONS);
}

/// The bounds that the engine has missed in its worst run; none if a figure is missing.
fn missed(load: &str, names: &[RowName], metrics: &[Metric]) -> Vec<String> {
    let engine = names.iter().find(|name| name.target == "engine");
    let of = |metric: &str, pick: fn(f64, f64) -> f64| {
        let runs = &lookup(metrics, engine?, load, metric)?.runs;
        runs.iter().copied().reduce(pick)
    };
    let (Some(written), Some(foreground), Some(freed), Some(wait)) = (
        of("file_pages_written_by_reclaim", f64::max),
        of("foreground_scan_share_percent", f64::max),
        of("reclaimed_percent", f64::min),
        of("frame_wait_with_clean_max_us", f64::max),
    ) else {
        return Vec::new();
    };
    let [shown_written, shown_foreground, shown_freed] = [written, foreground, freed].map(number);
    let bounds = [
        (
            written > 0.0,
            format!("reclaim wrote {shown_written} file pages (asked: 0)"),
        ),
        (
            foreground > FOREGROUND_PERCENT_MAX,
            format!("direct scans {shown_foreground} % (at most {FOREGROUND_PERCENT_MAX})"),
        ),
        (
            freed < FREED_PERCENT_MIN,
            format!("freed of scanned {shown_freed} % (at least {FREED_PERCENT_MIN:.0})"),
        ),
        (
            wait > WAIT_US_MAX,
            format!(
                "wait for a frame with clean pages in memory {} (at most {})",
                micros(wait),
                micros(WAIT_US_MAX)
            ),
        ),
    ];
    let missed = bounds.into_iter().filter(|(is_missed, _)| *is_missed);
    missed.map(|(_, bound)| bound).collect()
}

/// The post's tables with a column for each row: called as its target, and with its number and a legend where a target has
/// several.
fn posts(load: &'static str, names: &[RowName], metrics: &[Metric]) -> Vec<Appendix> {
    let of_target =
        |names: &[RowName], target: &str| names.iter().filter(|name| name.target == target).count();
    let mut legend = String::new();
    let columns = names.iter().enumerate().map(|(n, name)| {
        let column = match of_target(names, &name.target) {
            1 => name.target.clone(),
            _ => {
                let column = format!("{} {}", name.target, of_target(&names[..n], &name.target) + 1);
                legend += &format!("{column}: {}\n", name.variant);
                column
            }
        };
        (column, name)
    });
    let columns: Vec<_> = columns.collect();
    let title = format!("{load}, on real files (medians)");
    let mut appendices = post::appendices(&title, load, &columns, metrics);
    if let Some(first) = appendices.first_mut() {
        first.text.insert_str(0, &legend);
    }
    appendices
}

fn notes(names: &[RowName]) -> Vec<String> {
    let is_among = |is: &dyn Fn(&RowName) -> bool| names.iter().any(is);
    let mut notes: Vec<&str> = Vec::new();
    if is_among(&|row| row.target == "kernel") {
        notes.push(
            "The kernel's reclaim is that of a memory group: a caller that needs a page scans, and there is no kswapd for it. Its \
             counters are the machine's, so what others scan at the time is among them; its stalls are those of \
             /proc/pressure/memory.",
        );
    }
    if is_among(&|row| row.target == "kernel" && row.device == "real") {
        notes.push(
            "On a real device the kernel has its own limits on dirty pages; in groups of the first version they are shares of the \
             whole machine.",
        );
    }
    if is_among(&|row| row.variant == MAPPING) {
        notes.push(
            "In the engine's row `mapping` micro writes through a mapping, as on the kernel; in the other it appends pages by \
             calls.",
        );
    }
    if is_among(&|row| row.target == "engine") {
        notes.push(
            "In the engine closing a file's last handle writes it, so the files of twice the memory stay open behind the \
             writer; the kernel closes each at once.",
        );
    }
    notes.into_iter().map(Into::into).collect()
}

const DEFINITIONS: [(&str, &str); 5] = [
    (
        "synced/s, MB/s",
        "All files, or bytes, divided by the time until everything is synced; files/s is that of the rounds, as in the post.",
    ),
    ("written by reclaim", "File pages that reclaim itself wrote."),
    (
        "foreground scans",
        "Of all pages that reclaim scanned, the share scanned by callers that needed a page.",
    ),
    (
        "freed of scanned",
        "Of all pages that reclaim scanned, the share that it freed.",
    ),
    (
        "frame wait",
        "The longest wait of a call for a frame; the kernel does not count it. Pauses because too much is dirty are \
             not among it, but are in the longest write and the worst touch.",
    ),
];
