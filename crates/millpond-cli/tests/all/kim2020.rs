//! kim2020 on real memory, as small as it can be: a region of the engine, and as root the kernel's swap.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use millpond_lab::LabError;
use millpond_lab::experiment::{Options, kim2020};
use millpond_lab::program::Program;
use millpond_lab::report::Report;
use millpond_lab::watch::Proceed;
use millpond_lab::watch::Watch;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn options(on: &str, workloads: &[&str]) -> (tempfile::TempDir, Options) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = Options {
        on: Some(vec![on.into()]),
        dir: dir.path().to_owned(),
        runs: 1,
        shrink: 8,
        scale: Some(0.1),
        workloads: workloads.iter().map(|name| name.to_string()).collect(),
        program: Program {
            path: env!("CARGO_BIN_EXE_millpond").into(),
            args: vec!["lab".into(), "worker".into()],
        },
        ..Options::default()
    };
    (dir, options)
}

/// The report; `None`, and said why, where the target can't run.
fn run(options: &Options, watch: &mut dyn Watch) -> Option<Report> {
    match kim2020::run(options, watch) {
        Ok(report) => Some(report),
        Err(error @ LabError::Unavailable { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(LabError::RunFailed { why, .. }) if why.contains("userfaultfd") => {
            println!("skipped: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// For each row of the target.
fn of_rows(report: &Report, target: &str, workload: &str, metric: &str) -> Vec<f64> {
    let metrics = report.metrics.iter();
    let own = metrics.filter(|m| m.target == target && m.workload == workload && m.metric == metric);
    own.map(|m| m.value).collect()
}

fn of(report: &Report, target: &str, workload: &str, metric: &str) -> f64 {
    of_rows(report, target, workload, metric)[0]
}

#[test]
fn a_region_of_the_engine_does_what_the_load_says_and_no_better_than_can_be() {
    let loads = ["hot-cold", "memory-scan", "ebizzy-2048-0.7-8"];
    let (dir, options) = options("engine", &loads);
    let Some(report) = run(&options, &mut ()) else {
        return;
    };
    for load in loads {
        let of_engine = |metric| of_rows(&report, "engine", load, metric);
        let (swap, files) = (of_engine("swap_ins_pages"), of_engine("file_reads_pages"));
        assert_eq!(
            swap.len(),
            2,
            "its own threads serve faults, or those that have them"
        );
        let least = of(&report, "bounds", load, "misses_optimum_pages");
        // Eight threads take other turns than the bound has them take.
        let least = if load.starts_with("ebizzy") {
            least * 0.9
        } else {
            least
        };
        for ins in swap.iter().zip(&files).map(|(swap, files)| swap + files) {
            assert!(ins >= least, "{load}: {ins} pages came back, and {least} must");
        }
    }
    assert!(
        report.answers.is_empty(),
        "nothing to compare with: {:?}",
        report.answers
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Settings that must be restored: swap, and the read-around of a page.
fn machine() -> (Vec<String>, String) {
    let swaps = fs::read_to_string("/proc/swaps").unwrap();
    let names = swaps.lines().filter_map(|line| line.split_whitespace().next());
    let cluster = fs::read_to_string("/proc/sys/vm/page-cluster").unwrap();
    (names.map(str::to_owned).collect(), cluster)
}

/// Serialises tests that change the machine's swap.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_kernels_swap_is_there_for_the_run_and_gone_afterwards() {
    let _turn = turn();
    let (dir, options) = options("kernel", &["hot-cold"]);
    let before = machine();
    let Some(report) = run(&options, &mut ()) else {
        assert_eq!(machine(), before);
        return;
    };
    let ins = of(&report, "kernel", "hot-cold", "swap_ins_pages");
    let least = of(&report, "bounds", "hot-cold", "misses_optimum_pages");
    assert!(ins >= least, "{ins} pages came back, and {least} must");
    assert_eq!(machine(), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A user who presses Ctrl-C while the load runs.
struct Impatient;

impl Watch for Impatient {
    fn at(&mut self, _: f64, _: &str, detail: &str) -> Proceed {
        match detail.starts_with("rounds") {
            true => Proceed::Stop,
            false => Proceed::Yes,
        }
    }
}

#[test]
fn a_run_that_is_stopped_leaves_no_swap_behind() {
    let _turn = turn();
    let (dir, mut options) = options("kernel", &["hot-cold"]);
    options.scale = Some(20.0);
    let before = machine();
    match kim2020::run(&options, &mut Impatient) {
        Err(LabError::Interrupted) => {}
        Err(error @ LabError::Unavailable { .. }) => println!("skipped: {error}"),
        other => panic!("{:?}", other.map(|report| report.answers)),
    }
    assert_eq!(machine(), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
