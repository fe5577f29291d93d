//! Axboe 2016: 50 files of 100 MB are written and synced while another file is read.
//!
//! ```text
//!   reader and writers      the post's case: how long do reads wait, how much do the writers lose
//!   reader alone            what the device can do; the same reads, nothing beside them
//!   writers alone           the post's third measurement: without a reader nothing may be lost
//!   by --workload           the same writers beside others: a reader that thinks, several, one of cached data, a log
//!                           that is synced record by record, a scan
//! ```
//!
//! Each row does all three, in runs that are interleaved. On real files the sizes are the post's unless that
//! would take longer than about two minutes on this disk: then all of them shrink alike, and the report
//! says so. A simulator always gets the post's sizes, unless `--scale` says otherwise.

mod answer;
mod bound;
mod charts;
pub mod demo;
mod files;
mod frontier;
mod mixed_loads;
mod options;
mod post;
mod reasons;
mod report;

/// The workload that has no reader.
pub const WRITERS_ALONE: &str = Phase::WritersAlone.name();

pub use super::Options;
use super::check::space;
use super::{Experiment, moving, perform, rows};
use crate::backend::{self, Backend, Driver, Row, RowRequest};
use crate::error::{LabError, Result};
use crate::machine;
use crate::measure::others::Others;
use crate::outcome::Setting;
use crate::report::{REASONS, Report};
use crate::scratch;
use crate::setup::Device;
use crate::watch::Watch;
use crate::workload::axboe2016::Phase;
use millpond::internal::ScratchDir;
use millpond::internal::quantity;
use millpond_core::units::{Bytes, PageSize};
use millpond_worlds::worlds::axboe2016;
use options::{Sizes, backends, check, choose_sizes, job, phases};
use std::path::Path;
use std::time::{Duration, Instant};

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "axboe2016",
    post: "Jens Axboe, \"Make background writeback not suck\" v3, March 2016",
    numbers_of_the_post: "The post's tables are of its writers beside its reader: `--workload writers-and-reader` runs them.",
    tables: &[REASONS],
    shows: "50 files are written and synced beside one reader: read latency, read rate, the writers' time",
    variants: &[
        "off", "v2", "v3-10", "v3-15", "v3-50", "v3-100", "latency", "bytes", "goal",
    ],
    workloads: &NAMES,
    run,
};

const NAMES: [&str; Phase::ALL.len()] = {
    let mut names = [""; Phase::ALL.len()];
    let mut n = 0;
    while n < names.len() {
        names[n] = Phase::ALL[n].name();
        n += 1;
    }
    names
};

/// When the sizes are ours to choose, no round begins that would end later than this after the start: a disk
/// that has slowed down costs a run and does not take more than three minutes.
const SECONDS_MAX: u64 = 160;

/// Runs the experiment and returns its report.
///
/// # Errors
/// Options out of range, before anything is done; a target that was named and cannot run; a run that failed;
/// [`LabError::Interrupted`]. Whatever it made on disk is removed either way.
pub fn run(options: &Options, watch: &mut dyn Watch) -> Result<Report> {
    let began = Instant::now();
    check(options)?;
    let backends = backends(options)?;
    let mut scratch = None;
    if backends
        .iter()
        .any(|kind| matches!(kind.driver, Driver::Files(_)))
    {
        scratch = Some(scratch::create(&options.dir)?);
    }
    let machine = machine::describe(scratch.as_ref().map(ScratchDir::path));
    let dir = scratch.as_ref().map_or(options.dir.as_path(), ScratchDir::path);
    let Prepared {
        real,
        simulated,
        sizes,
        rate,
        mut notes,
    } = prepare(options, &backends, dir, watch)?;
    let simulated_sizes = options::sizes(options, options.scale.unwrap_or(1.0));
    let mut jobs = Vec::new();
    for phase in phases(options) {
        jobs.extend(real.iter().map(|row| job(options, row, phase, &sizes, rate)));
        // a simulator's speed is not known before; it is quick
        jobs.extend(
            simulated
                .iter()
                .map(|row| job(options, row, phase, &simulated_sizes, 1e9)),
        );
    }
    let until = options
        .scale
        .is_none()
        .then(|| began + Duration::from_secs(SECONDS_MAX));
    let results = perform(&options.program, &jobs, until, 0.05, watch, &files::Around)?;
    let runs = results.iter().map(|runs| runs.outcomes.len()).max().unwrap_or(0);
    if !real.is_empty() && runs < options.runs as usize {
        notes.push(format!(
            "There was time for {runs} of {} runs; a smaller --scale has time for all.",
            options.runs
        ));
    }
    let is_in_memory = real.iter().any(Row::is_in_place) && machine::is_in_memory(dir);
    let doubt = is_in_memory.then(|| "the files are in memory and no disk takes part".to_owned());
    drop(scratch);

    let mut report = report::report(&real, &simulated, &results, [&sizes, &simulated_sizes], doubt);
    report.command = options.command.clone();
    if !simulated.is_empty()
        && phases(options).contains(&Phase::WritersAndReader)
        && is_of_page(options, &simulated_sizes)
    {
        let run = moving::Run {
            steps: &[],
            seed: options.seed,
            scale: simulated_sizes.scale,
            at: None,
        };
        report.notes.extend(moving::note(EXPERIMENT.name, &run));
    }
    notes.append(&mut report.notes);
    report.notes = notes;
    report.machine = machine;
    report.machine.push(Setting::new(
        "written",
        format_args!("{} files of {}", sizes.files, quantity::size(sizes.file)),
    ));
    report.machine.push(Setting::new(
        "read",
        format_args!("a file of {}", quantity::size(sizes.read_file)),
    ));
    report.machine.push(Setting::new("writers", options.writers));
    report.machine.push(Setting::new("seed", options.seed));
    Ok(report)
}

/// The facts known when the runs begin.
struct Prepared {
    real: Vec<Row>,
    simulated: Vec<Row>,
    /// Of the files on real devices.
    sizes: Sizes,
    /// Bytes a second that the device under the files takes.
    rate: f64,
    notes: Vec<String>,
}

/// Finds the rows and the sizes, and makes the file that is read.
fn prepare(options: &Options, targets: &[&Backend], dir: &Path, watch: &mut dyn Watch) -> Result<Prepared> {
    let kernel_variants = options.kernel_configurations()?;
    let plan = |memory| {
        let request = RowRequest {
            variants: &options.variants,
            read_latency_goal: options.read_latency_goal,
            memory,
            ..options.request(EXPERIMENT.name, &kernel_variants, dir)
        };
        rows(targets, options.on.is_some(), &request)
    };
    let mut sizes = options::sizes(options, options.scale.unwrap_or(1.0));
    let backend::Rows { rows, mut notes } = plan(sizes.memory)?;
    let (mut real, simulated): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(is_real);
    if real.is_empty() && simulated.is_empty() {
        let names: Vec<_> = targets.iter().map(|kind| kind.name).collect();
        return Err(LabError::Unavailable {
            target: names.join(", "),
            why: match notes.is_empty() {
                true => format!("it has no rows on --device {}", options.device),
                false => notes.join(" "),
            },
        });
    }
    let mut rate = f64::INFINITY;
    // what is in testbeds asks nothing of the place
    let is_in_place = |rows: &[Row]| rows.iter().any(Row::is_in_place);
    if !real.is_empty() {
        if options.scale.is_none() {
            let mut free = None;
            if is_in_place(&real) {
                rate = files::write_rate(dir, watch)?;
                free = scratch::free_bytes(dir);
            }
            let full = sizes.memory;
            let note;
            (sizes, note) = choose_sizes(options, &real, rate, free);
            if sizes.memory != full {
                // rows say how much memory they have
                let backend::Rows { rows, notes: new } = plan(sizes.memory)?;
                real = rows.into_iter().filter(is_real).collect();
                notes = new;
            }
            notes.extend(note);
        }
        notes.extend(Others::look(dir).and_then(Others::note));
        if is_in_place(&real) {
            // A modelled disk takes its time whatever is beneath it.
            if real.iter().any(|row| row.setup.device == Device::Real) {
                notes.extend(warn_of_the_place(dir));
            }
            space(&options.dir, dir, sizes.needed())?;
            rate = files::make_read_file(dir, sizes.read_file.0, 0.04, watch)?;
        }
    }
    Ok(Prepared {
        real,
        simulated,
        sizes,
        rate,
        notes,
    })
}

fn is_real(row: &Row) -> bool {
    backend::find(&row.setup.target).is_ok_and(|kind| matches!(kind.driver, Driver::Files(_)))
}

/// How the files' location affects the numbers.
fn warn_of_the_place(dir: &Path) -> Option<String> {
    machine::is_in_memory(dir).then(|| {
        format!(
            "{} is in memory: no disk takes part, and nothing here can show what writing does to reading. Give --dir on a disk.",
            dir.parent().unwrap_or(dir).display()
        )
    })
}

/// Whether the page has runs of these sizes.
fn is_of_page(options: &Options, sizes: &Sizes) -> bool {
    let page = axboe2016::Sizes::scaled((sizes.scale * 1000.0).round() as u64, options.seed);
    let pages = |size: Bytes| size.to_pages(PageSize::KIB_4).0;
    options.writers == 1
        && options.read_latency_goal.is_none()
        && sizes.files == page.files
        && [sizes.file, sizes.read_file, sizes.memory].map(pages)
            == [page.file_pages, page.read_pages, page.frames]
}
