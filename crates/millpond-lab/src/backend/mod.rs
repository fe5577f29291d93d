//! Back ends: what a workload runs on. Users call them targets.
//!
//! To add one, write a [`Backend`] and add it to [`BACKENDS`]:
//!
//! * one with real files gives [`Driver::Files`], a function that opens its [`Storage`]. Each run calls it in a fresh
//!   process, within that run's memory group if it has one;
//! * a simulator gives [`Driver::InProcess`], a function that performs a whole run in virtual time.
//!
//! Either way the result is an [`Outcome`] with the metric names of the experiment, and everything else
//! (interleaving, tables, JSON, reports) follows.

pub mod bare;
pub mod engine;
mod goal_variant;
pub mod kernel;
pub mod kernel_limits;
mod kernel_rows;
mod millpond_rows;
pub mod paced;
pub(crate) mod reasons;
pub mod sim;
mod sim_hills;

pub use goal_variant::GoalVariant;

use crate::error::{LabError, Result};
use crate::outcome::Outcome;
use crate::program::Program;
use crate::setup::{Device, Setup};
use crate::storage::Storage;
use crate::testbed;
use crate::watch::Proceed;
use crate::workload::{Progress, Workload};
use millpond_core::units::{Bytes, Nanos};
use std::path::Path;

/// Every back end of this build, in the order in which tables list them: the baseline first.
pub const BACKENDS: &[Backend] = &[kernel::KIND, bare::KIND, engine::KIND, sim::KIND, paced::KIND];

/// A back end.
pub struct Backend {
    /// The name that `--on` takes.
    pub name: &'static str,
    /// One line for `lab list`.
    pub about: &'static str,
    /// The rows that this target contributes to an experiment.
    pub rows: fn(&RowRequest) -> Result<Rows>,
    /// How a run is made.
    pub driver: Driver,
}

/// How a run is made.
#[derive(Clone, Copy)]
pub enum Driver {
    /// On real files, in a child process.
    Files(fn(&Setup) -> Result<Box<dyn Storage>>),
    /// In virtual time, by a call. The function reports its progress now and then, and gives up with
    /// [`LabError::Interrupted`] when it is told to.
    InProcess(Simulate),
}

/// A whole run of a workload in virtual time.
pub type Simulate = fn(&Setup, &Workload, &mut dyn FnMut(Progress) -> Proceed) -> Result<Outcome>;

/// What a target needs to know when an experiment is planned.
pub struct RowRequest<'a> {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The variants that were asked for; none means the target's own choice. All are known to the experiment.
    pub variants: &'a [String],
    /// The kernel's configurations: at least one on a modelled disk; on a real one in addition to the present one.
    pub kernel_variants: &'a [testbed::Configuration],
    /// Starts processes of the laboratory's own.
    pub program: &'a Program,
    /// The device that was asked for.
    pub device: Device,
    /// Where files will be, on real devices.
    pub dir: &'a Path,
    /// The memory that a target may use.
    pub memory: Bytes,
    /// The read latency that variants which have a goal aim at; `None` leaves it to them.
    pub read_latency_goal: Option<Nanos>,
    /// The seed of everything random.
    pub seed: u64,
}

impl RowRequest<'_> {
    /// A row of that name with what was asked for, outside a memory group and a testbed.
    pub(crate) fn row(&self, target: &str, label: &str) -> Row {
        Row {
            label: label.into(),
            setup: Setup {
                target: target.into(),
                variant: label.into(),
                device: self.device,
                dir: self.dir.to_owned(),
                memory: self.memory,
                read_latency_goal: self.read_latency_goal,
                seed: self.seed,
            },
            in_memory_group: false,
            testbed: None,
            is_deterministic: false,
            device_bytes_per_s: None,
        }
    }
}

/// A target's answer: its rows, and what the user should know about those it left out.
#[derive(Default)]
pub struct Rows {
    /// The rows, baseline first.
    pub rows: Vec<Row>,
    /// Sentences for the report.
    pub notes: Vec<String>,
}

/// A row of the tables: a target in one variant on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The variant as reports and JSON show it: `kernel mq-deadline wbt=2000us`, `goal`.
    pub label: String,
    /// The setup that the target is opened with.
    pub setup: Setup,
    /// Put the run's process into a memory group of [`Setup::memory`].
    pub in_memory_group: bool,
    /// How the kernel is set up for each run. On a modelled disk the run has its files in a testbed of its own, and not in
    /// [`Setup::dir`].
    pub testbed: Option<testbed::Configuration>,
    /// Repeating the run would give the same numbers, so one run is enough.
    pub is_deterministic: bool,
    /// The device's write rate in bytes a second, if known without measuring.
    pub device_bytes_per_s: Option<f64>,
}

impl Row {
    /// Whether its files are in [`Setup::dir`], and not on a modelled disk below the kernel.
    pub fn is_in_place(&self) -> bool {
        self.testbed.is_none() || self.setup.device == Device::Real
    }
}

/// The kind of that name.
///
/// # Errors
/// [`LabError::UnknownName`] with the names there are.
pub fn find(name: &str) -> Result<&'static Backend> {
    if let Some(kind) = BACKENDS.iter().find(|kind| kind.name == name) {
        return Ok(kind);
    }
    let all = BACKENDS.iter().map(|kind| kind.name);
    Err(LabError::UnknownName {
        what: "target",
        value: name.into(),
        allowed: names(all),
    })
}

fn names(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_hears_the_right_ones() {
        for kind in BACKENDS {
            assert!(find(kind.name).is_ok());
        }
        let error = find("kernal").err().map(|e| e.to_string()).unwrap();
        assert!(error.contains("`kernal`") && error.contains("kernel"), "{error}");
    }
}
