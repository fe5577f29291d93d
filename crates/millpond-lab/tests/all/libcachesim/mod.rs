//! The lab's models of policies compared with libCacheSim: an implementation by others, on the same pages.
//!
//! Needs a Python with `libcachesim`, by default `python3`; the variable `MILLPOND_PYTHON` names another. With
//! `MILLPOND_TRACES` it also takes the traces of that folder.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use millpond_sim::policy::{Model, Use, synthetic};
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/libcachesim/misses.py");

/// Policies that both define alike: every count is the same.
const SAME: [Model; 7] = [
    Model::Opt,
    Model::Lru,
    Model::Clock,
    Model::Arc,
    Model::S3Fifo,
    Model::Sieve,
    Model::Clock2QPlus,
];

struct Case {
    trace: PathBuf,
    model: Model,
    frames: u64,
    ours: u64,
    theirs: u64,
    uses: u64,
}

impl Case {
    /// The share of all uses by which ours misses more.
    fn apart(&self) -> f64 {
        (self.ours as f64 - self.theirs as f64) / self.uses as f64
    }

    fn name(&self) -> String {
        let trace = self.trace.file_stem().unwrap_or_default().to_string_lossy();
        format!("{trace} with {} pages by {}", self.frames, self.model.title())
    }
}

fn python() -> OsString {
    env::var_os("MILLPOND_PYTHON").unwrap_or_else(|| "python3".into())
}

/// Why there is nothing to compare with.
fn missing() -> Option<String> {
    let python = python();
    match Command::new(&python).args(["-c", "import libcachesim"]).output() {
        Err(error) => Some(format!("{}: {error}", python.display())),
        Ok(output) => (!output.status.success()).then(|| format!("{} lacks libcachesim", python.display())),
    }
}

/// The synthetic loads as files in `folder`, and the recorded ones that there are.
fn traces(folder: &Path) -> Vec<PathBuf> {
    let mut traces = Vec::new();
    for name in synthetic::NAMES {
        let path = folder.join(name).with_extension("u32");
        let uses = synthetic::load(name, 0.1, 3).unwrap();
        let bytes: Vec<u8> = uses.iter().flat_map(|(page, _)| page.to_le_bytes()).collect();
        fs::write(&path, bytes).unwrap();
        traces.push(path);
    }
    if let Some(folder) = env::var_os("MILLPOND_TRACES").filter(|folder| !folder.is_empty()) {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        traces.extend(files.filter(|path| path.extension().is_some_and(|end| end == "u32")));
    }
    traces.sort();
    traces
}

fn uses(trace: &Path) -> Vec<Use> {
    let bytes = fs::read(trace).unwrap();
    let (pages, _) = bytes.as_chunks::<4>();
    pages
        .iter()
        .map(|&page| (u32::from_le_bytes(page), true))
        .collect()
}

/// Memory of 1, 10 and 30 % of the pages. Below 20 pages libCacheSim's small queues take nothing in.
fn sizes(uses: &[Use]) -> Vec<u64> {
    let mut pages: Vec<_> = uses.to_vec();
    pages.sort_unstable();
    pages.dedup();
    [1, 10, 30]
        .map(|percent| (pages.len() as u64 * percent / 100).max(20))
        .to_vec()
}

fn cases(models: &[Model]) -> Vec<Case> {
    let folder = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    for trace in traces(folder.path()) {
        let uses = uses(&trace);
        for frames in sizes(&uses) {
            for &model in models {
                let ours: Result<u64, ()> = model.misses(&uses, frames, &mut |_| Ok(()));
                cases.push(Case {
                    trace: trace.clone(),
                    model,
                    frames,
                    ours: ours.unwrap(),
                    theirs: 0,
                    uses: uses.len() as u64,
                });
            }
        }
    }
    let mut asked = String::new();
    for case in &cases {
        let (trace, model) = (case.trace.display(), case.model.name());
        writeln!(asked, "{trace}\t{model}\t{}", case.frames).unwrap();
    }
    let mut child = Command::new(python())
        .args(["-B", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{SCRIPT}: {}\n{said}", output.status);
    writer.join().unwrap().unwrap();
    let counts: Vec<u64> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(counts.len(), cases.len(), "{said}");
    for (case, theirs) in cases.iter_mut().zip(counts) {
        case.theirs = theirs;
    }
    cases
}

#[test]
fn equal_definitions_miss_the_same_pages() {
    if let Some(why) = missing() {
        return println!("skipped: {why}");
    }
    let cases = cases(&SAME);
    let others: Vec<String> = cases
        .iter()
        .filter(|case| case.ours != case.theirs)
        .map(|case| format!("{}: {} here, {} there", case.name(), case.ours, case.theirs))
        .collect();
    assert!(
        others.is_empty(),
        "{} of {} counts differ:\n{}",
        others.len(),
        cases.len(),
        others.join("\n")
    );
    println!("{} counts are the same", cases.len());
}

/// LIRS: when a HIR page of memory that is not on the stack is used, theirs makes a LIR page a HIR page, the paper and ours
/// don't. It shows in a page in a thousand: the bound is five times that.
#[test]
fn lirs_is_as_near_as_the_one_rule_that_differs_allows() {
    if let Some(why) = missing() {
        return println!("skipped: {why}");
    }
    for case in cases(&[Model::Lirs]) {
        assert!(
            case.apart().abs() < 0.005,
            "{}: {} here, {} there",
            case.name(),
            case.ours,
            case.theirs
        );
    }
}

/// W-TinyLFU: theirs counts only uses that hit main or miss, and victims of the window once more; it has counters without a
/// limit, ten to a page, and halves them after 32 such uses for each page. Ours counts each use, as the paper does. Below 100 pages
/// their window is empty and takes nothing in. So the test only bounds the size of the difference.
#[test]
fn w_tinylfu_is_about_as_good_as_theirs() {
    if let Some(why) = missing() {
        return println!("skipped: {why}");
    }
    let apart: Vec<f64> = cases(&[Model::WTinyLfu])
        .iter()
        .filter(|case| case.frames >= 200)
        .map(Case::apart)
        .collect();
    let mean = apart.iter().sum::<f64>() / apart.len() as f64;
    assert!(mean.abs() < 0.03, "{mean:+.4} of uses in the mean: {apart:?}");
    assert!(apart.iter().all(|apart| apart.abs() < 0.25), "{apart:?}");
}
