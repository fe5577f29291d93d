//! The same loads on real memory: the kernel's swap in a memory group beside a region of Millpond's engine, with the same
//! memory and the same kind of disk under swap.
//!
//! ```text
//!   kernel page-cluster=N   a memory group, and swap of its own: a file, or the modelled disk (root)
//!   engine millpond         a region within a budget of the same size
//!   engine in-thread        the same, and a thread serves its own faults
//!   bounds                  the same uses, page by page, in memory of that size
//! ```
//!
//! Traces have the post's sizes on its 280 MB. ebizzy has a quarter of the post's, on 256 MB: all of the post's machine,
//! of which its own kernel left 646 of 1024 MB.

use super::runs::BOUNDS;
use super::{Options, bounds};
use crate::backend::Backend;
use crate::error::{LabError, Result};
use crate::experiment::Measured;
use crate::machine;
use crate::memory_group::MemoryGroup;
use crate::outcome::Outcome;
use crate::report::{RowName, Runs};
use crate::scratch;
use crate::setup::{Device, Setup};
use crate::testbed::{SwapPlan, SwapTestbed};
use crate::watch::Proceed;
use crate::watch::Watch;
use crate::worker::{self, Request};
use crate::workload::kim2020::draws::Draws;
use crate::workload::kim2020::loads::{Ebizzy, Load, script};
use crate::workload::kim2020::{IN_THREAD, Work, rounds};
use crate::workload::{Progress, Workload};
use millpond::Faults;
use millpond::internal::ScratchDir;
use millpond_core::units::Bytes;

/// For the traces: the memory of the post's program.
const TRACE_MEMORY: Bytes = Bytes::from_mib(280);
/// For ebizzy: a quarter of the post's machine, and of its sizes.
const EBIZZY_MEMORY: Bytes = Bytes::from_mib(256);
const EBIZZY_SHRINK: u64 = 4;
/// Records and rounds unless a scale is given: those of the simulator.
const SCALE: f64 = 1.0;
/// The kernel's read-around as shipped, and the best of its settings where they were compared.
const PAGE_CLUSTERS: [u32; 2] = [3, 5];

/// How often a run is tried again that the kernel has killed. In a group of the first version of control groups it kills a
/// program whose swap is written more slowly than its pages are wanted (Linux 6.18: in `swap_cluster_readahead`, with all
/// of the group's pages under way), though there is swap left.
const KILLED_MAX: u32 = 5;

/// The server of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Server {
    Kernel(u32),
    Engine(Faults),
}

impl Server {
    fn row(self, device: Device) -> RowName {
        let (target, variant) = match self {
            Server::Kernel(order) => ("kernel", format!("page-cluster={order}")),
            Server::Engine(Faults::InThread) => ("engine", IN_THREAD.into()),
            Server::Engine(_) => ("engine", "millpond".into()),
        };
        RowName::new(target, device.to_string(), variant)
    }
}

/// A load with its memory.
#[derive(Clone, Debug)]
struct Job {
    load: Load,
    memory: Bytes,
    work: Work,
}

impl Job {
    fn new(load: Load, options: &Options) -> Job {
        let (memory, shrink) = match load {
            Load::Ebizzy(_) => (EBIZZY_MEMORY, EBIZZY_SHRINK),
            _ => (TRACE_MEMORY, 1),
        };
        let further = options.shrink.max(1);
        Job {
            load,
            memory: Bytes(memory.0 / further),
            work: Work {
                load: load.name(),
                shrink: shrink * further,
                scale: options.scale.unwrap_or(SCALE),
                seed: options.seed,
            },
        }
    }

    fn bounds(&self) -> Outcome {
        let (frames, work) = (self.memory.0 >> 12, &self.work);
        match self.load {
            Load::Ebizzy(cell) => {
                let cell: Ebizzy = cell.shrunk(work.shrink);
                bounds::of_draws(&Draws::new(cell, frames, work.scale, work.seed))
            }
            load => bounds::of_course(&script(load, rounds(work.scale)).shrunk(work.shrink), frames),
        }
    }
}

/// Performs all runs on `kinds`, interleaved.
///
/// # Errors
/// A target that can't run; a run that failed; [`LabError::Interrupted`]. What it made is removed either way.
pub(super) fn measure(
    options: &Options,
    kinds: &[&Backend],
    loads: &[Load],
    watch: &mut dyn Watch,
) -> Result<(Vec<Load>, Measured)> {
    let device = options.device;
    let scratch = scratch::create(&options.dir)?;
    let mut servers = Vec::new();
    for kind in kinds {
        match kind.name {
            "kernel" => servers.extend(PAGE_CLUSTERS.map(Server::Kernel)),
            _ => servers.extend([Faults::Handlers, Faults::InThread].map(Server::Engine)),
        }
    }
    let mut notes = Vec::new();
    let mut jobs: Vec<Job> = loads.iter().map(|&load| Job::new(load, options)).collect();
    if device != Device::Real {
        // The kernel's row would need a file system there as well.
        jobs.retain(|job| !matches!(job.load, Load::FileScan | Load::MemoryScan));
        if jobs.len() < loads.len() {
            notes.push("Loads with a file run on a real device only.".into());
        }
    }
    let none = |row: RowName, load: &Load| Runs {
        row,
        workload: load.name(),
        outcomes: Vec::new(),
    };
    let mut results: Vec<Runs> = jobs
        .iter()
        .flat_map(|job| servers.iter().map(|server| none(server.row(device), &job.load)))
        .collect();
    let all = options.runs as usize * results.len();
    for run in 0..options.runs as usize {
        for n in 0..results.len() {
            // each run starts with another row
            let at = (n + run) % results.len();
            let (job, server) = (&jobs[at / servers.len()], servers[at % servers.len()]);
            let title = format!("{}, {}", results[at].row.variant, results[at].workload);
            let step = format!("run {} of {}: {title}", run + 1, options.runs);
            let behind = (run * results.len() + n) as f64;
            let mut progress = |now: Progress| {
                let share = (behind + now.share) / all as f64;
                watch.at(share, &step, &format!("{}: {}", now.doing, now.detail))
            };
            let mut killed = 0;
            let outcome = loop {
                match perform(options, job, server, &title, device, &scratch, &mut progress) {
                    Err(error) if killed < KILLED_MAX && was_killed(&error) => killed += 1,
                    other => break other?,
                }
            };
            if killed > 0 {
                notes.push(format!(
                    "{title}: the kernel killed the program {killed} times for lack of memory before a run succeeded."
                ));
            }
            results[at].outcomes.push(outcome);
        }
    }
    let mut names: Vec<RowName> = servers.iter().map(|server| server.row(device)).collect();
    let bounds_name = RowName::new(BOUNDS, device.to_string(), BOUNDS);
    for job in &jobs {
        results.push(Runs {
            outcomes: vec![job.bounds()],
            ..none(bounds_name.clone(), &job.load)
        });
    }
    names.push(bounds_name);
    let measured = Measured {
        names,
        results,
        notes,
        machine: machine::describe(Some(scratch.path())),
    };
    Ok((jobs.iter().map(|job| job.load).collect(), measured))
}

fn perform(
    options: &Options,
    job: &Job,
    server: Server,
    title: &str,
    device: Device,
    scratch: &ScratchDir,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    let dir = fresh_dir(scratch)?;
    let setup = |target: &str| Setup {
        target: target.into(),
        variant: server.row(device).variant,
        device,
        dir: dir.clone(),
        memory: job.memory,
        read_latency_goal: None,
        seed: options.seed,
    };
    let workload = Workload::Kim2020(job.work.clone());
    let outcome = match server {
        Server::Engine(_) => {
            let request = Request {
                enter: None,
                setup: setup("engine"),
                workload,
            };
            worker::run(&options.program, &request, title, progress)
        }
        Server::Kernel(order) => {
            let plan = SwapPlan {
                model: match device {
                    Device::Real => None,
                    Device::Modelled(model) => Some(model),
                },
                dir: &dir,
                // with its first page, which says what it is
                size: Bytes((job.work.swap_pages()? + 1) << 12),
                page_cluster: Some(order),
            };
            if progress(Progress::default()) == Proceed::Stop {
                return Err(LabError::Interrupted);
            }
            let testbed = SwapTestbed::set_up(&options.program, &plan)?;
            let group = MemoryGroup::create(job.memory).map_err(|why| LabError::Unavailable {
                target: "kernel".into(),
                why,
            })?;
            testbed.begin()?;
            let request = Request {
                enter: Some(group.entry()),
                setup: setup("kernel"),
                workload,
            };
            let mut outcome = worker::run(&options.program, &request, title, progress)?;
            testbed.end(&mut outcome)?;
            drop(group);
            testbed.take_down()?;
            Ok(outcome)
        }
    };
    let removed = std::fs::remove_dir_all(&dir);
    let outcome = outcome?;
    removed.map_err(|e| LabError::path("cannot remove", &dir, e))?;
    Ok(outcome)
}

fn was_killed(error: &LabError) -> bool {
    matches!(error, LabError::RunFailed { why, .. } if why.contains("process was killed"))
}

fn fresh_dir(scratch: &ScratchDir) -> Result<std::path::PathBuf> {
    let dir = scratch.path().join("run");
    // what a run before has left because it failed goes with the folder
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir(&dir).map_err(|e| LabError::path("cannot create", &dir, e))?;
    Ok(dir)
}
