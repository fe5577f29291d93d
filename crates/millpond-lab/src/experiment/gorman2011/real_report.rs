//! What the runs on real files say: a table for each load, sentences against what is asked of the engine, the post's
//! tables, and what the slowest calls have waited for.

use super::real::Measured;
use super::{EXPERIMENT, FS_MARK, MICRO, answer, post, trace};
use crate::backend::engine::MAPPING;
use crate::report::table::{columns, label, pick};
use crate::report::{Appendix, Metric, Report, RowName, lookup};
use crate::setup::Device;
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
pub(super) fn add(report: &mut Report, measured: &Measured) {
    let metrics: Vec<Metric> = crate::report::metrics(&measured.results, EXPERIMENT.name);
    let names = &measured.names;
    for (load, what) in &measured.loads {
        let of_load = match *load {
            FS_MARK => FS_MARK_COLUMNS,
            _ => MICRO_COLUMNS,
        };
        let columns = columns(load, of_load);
        let title = format!(
            "{load} on {} of memory: {}",
            size(measured.sizes.memory),
            measured.sizes.description(what)
        );
        report.tables.push(pick(&title, "", &columns, names, &metrics));
        report.answers.extend(answer::of_real_files(
            load,
            names,
            &metrics,
            missed(load, names, &metrics),
        ));
        report.verdict.extend(verdict(load, names, &metrics));
        report.appendices.push(posts(load, names, &metrics));
        if !report
            .appendices
            .iter()
            .any(|appendix| appendix.title == post::title(load))
        {
            report.appendices.push(post::of_the_post(load));
        }
    }
    report.notes.extend(measured.notes.iter().cloned());
    report.notes.extend(notes(measured));
    for name in names {
        let own: Vec<_> = measured.results.iter().filter(|runs| runs.row == *name).collect();
        if let Some(outcome) = own.first().and_then(|runs| runs.outcomes.first()) {
            report
                .settings
                .push((label(name, names), outcome.settings.clone()));
        }
        for runs in own {
            let explained: Vec<&str> = runs
                .outcomes
                .iter()
                .flat_map(|outcome| &outcome.explanations)
                .map(String::as_str)
                .collect();
            if !explained.is_empty() {
                report.appendices.push(Appendix {
                    name: trace::NAME,
                    title: format!("The slowest calls of {}: {}", runs.workload, label(name, names)),
                    text: explained.join("\n"),
                });
            }
        }
        for outcome in measured
            .results
            .iter()
            .filter(|r| r.row == *name)
            .flat_map(|r| &r.outcomes)
        {
            for warning in &outcome.warnings {
                let note = format!("{}: {warning}", label(name, names));
                if !report.notes.contains(&note) {
                    report.notes.push(note);
                }
            }
        }
    }
    report.machine.extend(measured.machine.iter().cloned());
    report.metrics.extend(metrics);
    report.definitions.extend(DEFINITIONS);
}

/// A bound that the engine is asked to keep, in its worst run.
struct Asked {
    is_met: bool,
    /// The engine's figure, and the bound.
    did: String,
    /// The same in short, for the verdict.
    short: String,
}

impl Asked {
    fn said(&self) -> String {
        format!("{} {}", if self.is_met { "" } else { " MISSED:" }, self.did)
    }
}

/// The bounds for the engine's reclaim; none if a figure is missing.
fn asked(load: &str, engine: &RowName, metrics: &[Metric]) -> Vec<Asked> {
    let of = |metric: &str, pick: fn(f64, f64) -> f64| {
        let runs = &lookup(metrics, engine, load, metric)?.runs;
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
    vec![
        Asked {
            is_met: written == 0.0,
            did: format!("reclaim wrote {} file pages (asked: 0)", number(written)),
            short: format!("reclaim wrote {} file pages (asked: 0)", number(written)),
        },
        Asked {
            is_met: foreground <= FOREGROUND_PERCENT_MAX,
            did: format!(
                "callers that needed a frame did {} % of the scanning (at most {FOREGROUND_PERCENT_MAX})",
                number(foreground)
            ),
            short: format!(
                "direct scans {} % (at most {FOREGROUND_PERCENT_MAX})",
                number(foreground)
            ),
        },
        Asked {
            is_met: freed >= FREED_PERCENT_MIN,
            did: format!(
                "{} % of the scanned pages were freed (at least {FREED_PERCENT_MIN:.0})",
                number(freed)
            ),
            short: format!(
                "freed of scanned {} % (at least {FREED_PERCENT_MIN:.0})",
                number(freed)
            ),
        },
        Asked {
            is_met: wait <= WAIT_US_MAX,
            did: format!(
                "the longest wait for a frame while clean pages were in memory was {} (at most {})",
                micros(wait),
                micros(WAIT_US_MAX)
            ),
            short: format!(
                "wait for a frame {} (at most {})",
                micros(wait),
                micros(WAIT_US_MAX)
            ),
        },
    ]
}

/// The bounds that the engine has missed.
fn missed(load: &str, names: &[RowName], metrics: &[Metric]) -> Vec<String> {
    let engine = names.iter().find(|name| name.target == "engine");
    let asked = engine.map_or_else(Vec::new, |engine| asked(load, engine, metrics));
    let missed = asked.into_iter().filter(|asked| !asked.is_met);
    missed.map(|asked| asked.short).collect()
}

/// The engine's bounds, and the comparison with the kernel.
fn verdict(load: &str, names: &[RowName], metrics: &[Metric]) -> Vec<String> {
    let mut sentences = Vec::new();
    let find = |target: &str| names.iter().find(|name| name.target == target);
    let Some(engine) = find("engine") else {
        return sentences;
    };
    let of = |row: &RowName, metric: &str| lookup(metrics, row, load, metric).map(|m| m.value);
    let asked = asked(load, engine, metrics);
    if !asked.is_empty() {
        let parts: Vec<String> = asked.iter().map(Asked::said).collect();
        sentences.push(format!("{load}, the engine's worst run:{}.", parts.join(";")));
    }
    for kernel in names.iter().filter(|name| name.target == "kernel") {
        if let (Some(ours), Some(theirs)) = (of(engine, "mb_per_s"), of(kernel, "mb_per_s")) {
            sentences.push(format!(
                "{load}: {} MB/s with everything synced, {:.0} % of the {} MB/s of {}.",
                number(ours),
                100.0 * ours / theirs,
                number(theirs),
                kernel.variant
            ));
        }
        if let (MICRO, Some(ours), Some(theirs)) =
            (load, of(engine, "touch_max_us"), of(kernel, "touch_max_us"))
        {
            sentences.push(format!(
                "{load}: the worst touch of a page took {}, {} with {}.",
                micros(ours),
                micros(theirs),
                kernel.variant
            ));
        }
    }
    sentences
}

/// The post's tables with a column for each row.
fn posts(load: &'static str, names: &[RowName], metrics: &[Metric]) -> Appendix {
    let of_target = |target: &str| names.iter().filter(|name| name.target == target).count();
    let mut legend = String::new();
    let columns: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(n, name)| match of_target(&name.target) {
            1 => name.target.clone(),
            _ => {
                let before = names[..n].iter().filter(|other| other.target == name.target);
                let column = format!("{} {}", name.target, before.count() + 1);
                legend += &format!("{column}: {}\n", name.variant);
                column
            }
        })
        .collect();
    let heads: Vec<&str> = columns.iter().map(String::as_str).collect();
    let value = |column: &str, metric: &str| {
        let n = columns.iter().position(|name| name == column)?;
        lookup(metrics, &names[n], load, metric).map(|m| m.value)
    };
    Appendix {
        name: post::NAME,
        title: format!("{load}, on real files (medians)"),
        text: legend + &post::tables(load, &heads, heads[0], &value),
    }
}

fn notes(measured: &Measured) -> Vec<String> {
    let mut notes = Vec::new();
    let kernel = measured.rows.iter().find(|row| row.setup.target == "kernel");
    if let Some(kernel) = kernel {
        notes.push(
            "The kernel's reclaim is that of a memory group: a caller that needs a page scans, and there is no kswapd for it. Its \
             counters are the machine's, so what others scan at the time is among them; its stalls are those of \
             /proc/pressure/memory."
                .into(),
        );
        if kernel.setup.device == Device::Real {
            notes.push(
                "On a real device the kernel has its own limits on dirty pages; in groups of the first version they are \
                 shares of the whole machine."
                    .into(),
            );
        }
    }
    if measured.rows.iter().any(|row| row.setup.variant == MAPPING) {
        notes.push(
            "In the engine's row `mapping` micro writes through a mapping, as on the kernel; in the other it appends pages by \
             calls."
                .into(),
        );
    }
    if measured.rows.iter().any(|row| row.setup.target == "engine") {
        notes.push(
            "In the engine closing a file's last handle writes it, so the files of twice the memory stay open behind the \
             writer; the kernel closes each at once."
                .into(),
        );
    }
    notes
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
