//! Policies of replacement beside one another: misses on recorded traces, and the gap that each leaves between LRU and the
//! optimum.
//!
//! ```text
//!   traces × sizes of memory × models ──► misses ──► gaps ──► mean, interval, median, worst against LRU
//! ```
//!
//! All are exact counts of models ([`millpond_sim::policy`]): no disk, no time, no read-ahead. Every use of a page is one that needs
//! its content, whether it reads or writes, as simulators of caches count it.

mod charts;
mod gaps;
mod report;

pub use super::Options;
use super::{Experiment, check, parallel};
use crate::error::{LabError, Result};
use crate::machine;
use crate::replay;
use crate::report::Report;
use crate::watch::Watch;
use millpond_sim::policy::{Model, Use, synthetic};
use millpond_sim::traces::{Format, Options as TraceOptions};
use std::fs;
use std::path::{Path, PathBuf};

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "policies",
    post: "none: eleven policies of 1966 to 2026, Millpond's among them",
    numbers_of_the_post: "This experiment comes from no post.",
    tables: &[],
    shows: "misses on recorded traces: how much of LRU's gap to the optimum each policy of replacement leaves",
    variants: &[
        "clock",
        "two-lists",
        "arc",
        "lirs",
        "s3-fifo",
        "sieve",
        "clock2q+",
        "w-tinylfu",
        "millpond-rule",
    ],
    workloads: &synthetic::NAMES,
    run,
};

/// Memory that is tried unless told otherwise, in percent of a trace's different pages.
const SIZES: [f64; 3] = [1.0, 10.0, 25.0];

/// A trace in memory.
struct Load {
    name: String,
    uses: Vec<Use>,
    pages: u64,
}

/// A trace, a size of memory, and the misses of all.
#[derive(Clone, Debug)]
struct Pair {
    trace: usize,
    percent: f64,
    frames: u64,
    uses: u64,
    opt: u64,
    lru: u64,
    /// In the order of the models.
    misses: Vec<u64>,
}

fn models(options: &Options) -> Result<Vec<Model>> {
    check::names("policy", &options.variants, EXPERIMENT.variants)?;
    let names = match options.variants.is_empty() {
        true => EXPERIMENT
            .variants
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        false => options.variants.clone(),
    };
    names.iter().map(|name| Ok(name.parse()?)).collect()
}

fn sizes(options: &Options) -> Result<Vec<f64>> {
    let mut sizes = match options.sizes.is_empty() {
        true => SIZES.to_vec(),
        false => options.sizes.clone(),
    };
    if let Some(wrong) = sizes.iter().find(|&&size| !(size > 0.0 && size <= 100.0)) {
        return check::bad(
            "--sizes",
            wrong,
            "a size is above 0 and at most 100, in percent of the pages of a trace",
            "give some, as 0.3,1,10,60",
        );
    }
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    Ok(sizes)
}

fn loads(options: &Options) -> Result<Vec<Load>> {
    check::names("workload", &options.workloads, EXPERIMENT.workloads)?;
    let scale = options.scale.unwrap_or(1.0);
    check::scale(scale, 0.01..=10_000.0, "", "1 makes loads of 10,000 pages")?;
    let mut loads = Vec::new();
    for path in files(&options.traces)? {
        let mut uses = replay::Load::read(&path, &TraceOptions::default())?.order;
        uses.iter_mut().for_each(|(_, is_needed)| *is_needed = true);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        loads.push(Load::new(&name, uses));
    }
    let synthetic: Vec<&str> = match options.traces.is_empty() && options.workloads.is_empty() {
        true => synthetic::NAMES.to_vec(),
        false => options.workloads.iter().map(String::as_str).collect(),
    };
    for name in synthetic {
        let uses = synthetic::load(name, scale, options.seed);
        loads.extend(uses.map(|uses| Load::new(name, uses)));
    }
    loads.retain(|load| load.pages > 0);
    match loads.is_empty() {
        false => Ok(loads),
        true => check::bad(
            "--traces",
            shown(&options.traces),
            "there is no trace with a use of a page",
            "give files or folders of them; docs/TRACES.md has the formats",
        ),
    }
}

fn shown(paths: &[PathBuf]) -> String {
    let all: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    all.join(",")
}

/// The traces that are named, and those of folders that are named, in the order of their names. A folder's files that no trace
/// has the name of are left out.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed = |e| LabError::path("cannot read", path, e);
        let entries: Vec<PathBuf> = fs::read_dir(path)
            .map_err(failed)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<_>>()
            .map_err(failed)?;
        let mut traces: Vec<PathBuf> = entries.into_iter().filter(|path| is_trace(path)).collect();
        traces.sort();
        files.extend(traces);
    }
    Ok(files)
}

fn is_trace(path: &Path) -> bool {
    let is_recording = path.extension().is_some_and(|end| end == "trace");
    path.is_file() && (is_recording || Format::of_name(path).is_some())
}

impl Load {
    fn new(name: &str, uses: Vec<Use>) -> Load {
        Load {
            name: name.into(),
            pages: uses
                .iter()
                .map(|&(page, _)| u64::from(page) + 1)
                .max()
                .unwrap_or(0),
            uses,
        }
    }

    /// This percentage of its pages, rounded.
    fn frames(&self, percent: f64) -> u64 {
        ((self.pages as f64 * percent / 100.0).round() as u64).max(1)
    }
}

/// What is counted at a time.
struct Job<'a> {
    load: &'a Load,
    percent: f64,
    model: Model,
}

/// Runs the experiment and returns its report.
///
/// # Errors
/// Options out of range and traces that can't be read, before anything is counted; [`LabError::Interrupted`].
pub fn run(options: &Options, watch: &mut dyn Watch) -> Result<Report> {
    let (models, sizes) = (models(options)?, sizes(options)?);
    let loads = loads(options)?;
    let mut jobs = Vec::new();
    for load in &loads {
        for &percent in &sizes {
            let all = [Model::Opt, Model::Lru].into_iter().chain(models.iter().copied());
            jobs.extend(all.map(|model| Job { load, percent, model }));
        }
    }
    let title = |job: &Job<'_>| format!("{} by {}", job.load.name, job.model.title());
    let counts = parallel::perform(
        &jobs,
        title,
        |job, reporter| {
            let frames = job.load.frames(job.percent);
            job.model
                .misses(&job.load.uses, frames, &mut |share| match reporter.at(share) {
                    true => Ok(()),
                    false => Err(LabError::Interrupted),
                })
        },
        watch,
    )?;
    let pairs: Vec<Pair> = counts
        .chunks(models.len() + 2)
        .enumerate()
        .map(|(n, counts)| {
            let (trace, size) = (n / sizes.len(), n % sizes.len());
            Pair {
                trace,
                percent: sizes[size],
                frames: loads[trace].frames(sizes[size]),
                uses: loads[trace].uses.len() as u64,
                opt: counts[0],
                lru: counts[1],
                misses: counts[2..].to_vec(),
            }
        })
        .collect();
    let mut report = report::report(options, &models, &sizes, &loads, &pairs);
    report.command = options.command.clone();
    report.machine = machine::describe(None);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table;

    fn options() -> Options {
        Options {
            scale: Some(0.1),
            ..Options::default()
        }
    }

    #[test]
    fn a_report_has_every_policy_and_every_pair_and_says_the_same_twice() {
        let report = run(&options(), &mut ()).unwrap();
        let text = table::text_within(&report, 200);
        for model in Model::ALL {
            assert!(text.contains(model.title()), "{model:?}\n{text}");
        }
        for name in synthetic::NAMES {
            assert!(text.contains(name), "{name}\n{text}");
        }
        let again = run(&options(), &mut ()).unwrap();
        assert_eq!(report.metrics, again.metrics);
        assert_eq!(report.answers, again.answers);
        assert!(!report.answers.is_empty());
    }

    #[test]
    fn on_a_loop_lru_leaves_all_and_lirs_almost_nothing_of_the_gap() {
        let report = run(
            &Options {
                workloads: vec!["loop".into()],
                variants: vec!["lirs".into()],
                ..options()
            },
            &mut (),
        )
        .unwrap();
        let gap = report
            .metrics
            .iter()
            .find(|m| m.metric == "gap_left" && m.workload == "loop");
        assert!((0.0..0.1).contains(&gap.unwrap().value), "{gap:?}");
    }

    #[test]
    fn a_pair_without_a_gap_is_left_out_and_counted() {
        let report = run(
            &Options {
                workloads: vec!["turning-back".into()],
                sizes: vec![100.0],
                ..options()
            },
            &mut (),
        )
        .unwrap();
        assert!(
            report.notes.iter().any(|note| note.starts_with("1 of 1 pairs")),
            "{:?}",
            report.notes
        );
    }

    #[test]
    fn folders_are_read_in_order_and_only_what_is_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        for (name, pages) in [("b.u32", [1_u32, 2, 1]), ("a.u32", [7, 7, 9])] {
            let bytes: Vec<u8> = pages.iter().flat_map(|page| page.to_le_bytes()).collect();
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        fs::write(folder.path().join("README.md"), "no trace").unwrap();
        let loads = loads(&Options {
            traces: vec![folder.path().into()],
            ..options()
        })
        .unwrap();
        let names: Vec<&str> = loads.iter().map(|load| load.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(loads[0].uses, [(0, true), (0, true), (1, true)]);
    }

    #[test]
    fn bad_values_are_named_with_what_is_allowed() {
        type Change = fn(&mut Options);
        let table: [(Change, &str); 4] = [
            (|o| o.sizes = vec![0.0], "--sizes 0: a size is above 0"),
            (
                |o| o.variants = vec!["lru2".into()],
                "unknown policy `lru2`; allowed: clock",
            ),
            (
                |o| o.workloads = vec!["zipg".into()],
                "unknown workload `zipg`; allowed: zipf",
            ),
            (|o| o.traces = vec!["/none".into()], "cannot read /none"),
        ];
        for (change, expected) in table {
            let mut options = options();
            change(&mut options);
            let error = run(&options, &mut ()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}
