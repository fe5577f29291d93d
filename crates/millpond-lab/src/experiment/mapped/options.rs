//! The experiment's options, checked into a plan.

use super::{EXPERIMENT, LOADS, Plan};
use crate::backend::Backend;
use crate::error::{LabError, Result};
use crate::experiment::check;
use crate::program::Program;
use crate::setup::Device;
use crate::workload::mapped::{NORMAL, RECORD};
use millpond_core::units::Bytes;
use std::path::PathBuf;

/// The measured time at scale 1: a p99.9 of 20,000 accesses a second has 20 beyond it.
const MEASURED_MS: f64 = 1000.0;
/// Less says nothing.
const MEASURED_MS_MIN: f64 = 100.0;
/// The scale unless one is given: two minutes for three runs of all there is.
const SCALE: f64 = 0.125;
/// The engine's own least, with mappings.
pub(super) const MEMORY_MIN: Bytes = Bytes::from_mib(16);

/// The user's options. Ranges are checked by [`run`](super::run).
#[derive(Clone, Debug)]
pub struct Options {
    /// Targets by name: kernel, engine. `None` is those that can run here.
    pub on: Option<Vec<String>>,
    /// Rows; none is all but the kernel with the disk's own read-ahead.
    pub variants: Vec<String>,
    /// Loads; none is all.
    pub workloads: Vec<String>,
    /// The device: the real one.
    pub device: Device,
    /// Where files go.
    pub dir: PathBuf,
    /// The memory of each row.
    pub memory: Bytes,
    /// Runs of each row: 1 to 100.
    pub runs: u32,
    /// The factor on memory, file and times: 0.001 to 4. `None` is 0.125.
    pub scale: Option<f64>,
    /// The seed of everything random.
    pub seed: u64,
    /// Starts a run's process.
    pub program: Program,
    /// The command line, for the report.
    pub command: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            on: None,
            variants: Vec::new(),
            workloads: Vec::new(),
            device: Device::Real,
            dir: "/var/tmp".into(),
            memory: Bytes::from_mib(512),
            runs: 3,
            scale: None,
            seed: 1,
            program: Program::this(&["lab", "worker"]),
            command: String::new(),
        }
    }
}

impl Options {
    /// The plan of the runs.
    ///
    /// # Errors
    /// `LabError::BadValue`, `LabError::UnknownName`.
    pub(super) fn plan(&self) -> Result<Plan> {
        check::names("variant", &self.variants, EXPERIMENT.variants)?;
        check::names("workload", &self.workloads, EXPERIMENT.workloads)?;
        check::runs(self.runs)?;
        let scale = self.scale.unwrap_or(SCALE);
        check::scale(
            scale,
            0.001..=4.0,
            "",
            "1 has --memory as it is, and a file of four times that",
        )?;
        check::memory(
            self.memory,
            MEMORY_MIN..=Bytes::from_mib(1 << 16),
            "1G is large enough for what is promised",
        )?;
        if self.device != Device::Real {
            return check::bad(
                "--device",
                self.device,
                "a mapping of the kernel's needs a real disk",
                "leave it out, and give --dir",
            );
        }
        let memory = (self.memory.0 as f64 * scale) as u64 / RECORD * RECORD;
        let has = |name: &str| check::takes_part(&self.workloads, name);
        Ok(Plan {
            memory: Bytes(memory.max(MEMORY_MIN.0)),
            measured_ms: (MEASURED_MS * scale).max(MEASURED_MS_MIN) as u64,
            loads: LOADS.into_iter().filter(|(name, _)| has(name)).collect(),
        })
    }

    /// Whether a row was requested.
    pub(super) fn has_row(&self, name: &str) -> bool {
        check::takes_part(&self.variants, name) && (name != NORMAL || !self.variants.is_empty())
    }

    /// Kernel and engine, if they were named.
    pub(super) fn backends(&self) -> Result<Vec<&'static Backend>> {
        let named = match &self.on {
            None => vec!["kernel".into(), "engine".into()],
            Some(named) => named.clone(),
        };
        let kinds = check::backends(&named)?;
        match kinds
            .iter()
            .find(|kind| !["kernel", "engine"].contains(&kind.name))
        {
            None => Ok(kinds),
            Some(kind) => Err(LabError::Unavailable {
                target: kind.name.into(),
                why: "it has no addresses; kernel and engine have".into(),
            }),
        }
    }

    /// Whether the targets were named, so that one that can't run is an error.
    pub(super) fn is_named(&self) -> bool {
        self.on.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_value_is_named_with_what_is_allowed() {
        type Change = fn(&mut Options);
        let table: [(Change, &str); 6] = [
            (
                |o| o.variants = vec!["mmap".into()],
                "unknown variant `mmap`; allowed: random,",
            ),
            (
                |o| o.workloads = vec!["none".into()],
                "unknown workload `none`; allowed: uniform-1,",
            ),
            (|o| o.scale = Some(5.0), "--scale 5: allowed is 0.001 to 4"),
            (
                |o| o.memory = Bytes::from_mib(8),
                "--memory 8M: allowed is 16M to 64G",
            ),
            (
                |o| o.device = "hdd".parse().unwrap(),
                "--device hdd: a mapping of the kernel's",
            ),
            (
                |o| o.on = Some(vec!["sim".into()]),
                "target `sim` cannot run: it has no addresses",
            ),
        ];
        for (change, expected) in table {
            let mut options = Options::default();
            change(&mut options);
            let error = super::super::run(&options, &mut ()).err().unwrap();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }

    #[test]
    fn memory_and_time_shrink_alike_and_the_hot_set_has_a_quarter() {
        let plan = |scale| {
            let options = Options {
                scale: Some(scale),
                ..Options::default()
            };
            options.plan().unwrap()
        };
        let full = plan(1.0);
        assert_eq!((full.memory, full.measured_ms), (Bytes::from_mib(512), 1000));
        assert_eq!(full.loads.len(), 13);
        assert_eq!(
            full.memory_of(crate::workload::mapped::Load::HotBesideScan),
            Bytes::from_mib(128)
        );
        let least = plan(0.001);
        assert_eq!((least.memory, least.measured_ms), (Bytes::from_mib(16), 100));
    }
}
