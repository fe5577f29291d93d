//! The experiment's options, checked into a plan.

use super::real::SCALE;
use super::{EXPERIMENT, FS_MARK, MICRO};
use crate::backend::{self, Backend};
use crate::error::Result;
use crate::experiment::check;
use crate::program::Program;
use crate::setup::Device;
use crate::testbed;
use millpond_core::units::Bytes;
use millpond_kernels::linux::reclaim::System;
use millpond_kernels::linux::reclaim::filesystem::FileSystem;
use millpond_kernels::linux::reclaim::machine::{Load, MICRO_PAGES, MachineOptions};
use std::path::PathBuf;

/// The systems' names, in their order.
pub(super) const VARIANTS: [&str; System::ALL.len()] = {
    let mut names = [""; System::ALL.len()];
    let mut n = 0;
    while n < names.len() {
        names[n] = System::ALL[n].name();
        n += 1;
    }
    names
};

/// The post's rounds of fs_mark.
const ROUNDS: f64 = 25.0;
/// Fewer say nothing: in the first, memory is only being filled.
const ROUNDS_MIN: u32 = 2;

/// The user's options. Ranges are checked by [`run`](super::run).
#[derive(Clone, Debug)]
pub struct Options {
    /// Targets by name; `None` and `sim` are the same.
    pub on: Option<Vec<String>>,
    /// The device of engine and kernel.
    pub device: Device,
    /// How the kernel is set up on a modelled disk; none is as most machines are.
    pub kernel_variants: Vec<String>,
    /// Where their files go on a real device.
    pub dir: PathBuf,
    /// The memory of engine and kernel, 16 MiB or more. Less if there is little data (`scale`).
    pub memory: Bytes,
    /// Threads that write fs_mark's files there. The post: 1.
    pub threads: u32,
    /// Runs of each of their rows: 1 to 100.
    pub runs: u32,
    /// Systems; none is all of them.
    pub variants: Vec<String>,
    /// Workloads; none is both.
    pub workloads: Vec<String>,
    /// How the file system answers reclaim: xfs, ext3, ext4, btrfs. Empty: xfs, the post's.
    pub filesystem: String,
    /// What the amount of data is multiplied by: 0.08 to 4 in virtual time, where memory stays, and `None` is 1; 0.001 to 4
    /// on real files, where 1 is 40 times the memory in fs_mark, and `None` is 0.25.
    pub scale: Option<f64>,
    /// The seed of the background tasks' habits.
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
            device: Device::Real,
            kernel_variants: Vec::new(),
            dir: "/var/tmp".into(),
            memory: Bytes::from_mib(512),
            threads: 1,
            runs: 3,
            variants: Vec::new(),
            workloads: Vec::new(),
            filesystem: String::new(),
            scale: None,
            seed: 1,
            program: Program::this(&["lab", "worker"]),
            command: String::new(),
        }
    }
}

/// The plan of the runs in virtual time.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) systems: Vec<System>,
    pub(super) loads: Vec<(&'static str, Load)>,
    pub(super) filesystem: FileSystem,
    pub(super) scale: f64,
    pub(super) seed: u64,
}

impl Plan {
    /// The machine of a system.
    pub(super) fn machine(&self, system: System) -> MachineOptions {
        MachineOptions {
            filesystem: self.filesystem,
            seed: self.seed,
            ..MachineOptions::new(system)
        }
    }
}

impl Options {
    /// The back ends that were named.
    pub(super) fn backends(&self) -> Result<Vec<&'static Backend>> {
        match &self.on {
            None => Ok(vec![backend::find("sim")?]),
            Some(named) => check::backends_without_pacing(named),
        }
    }

    /// Whether a load takes part.
    pub(super) fn has(&self, load: &str) -> bool {
        check::takes_part(&self.workloads, load)
    }

    /// # Errors
    /// `LabError::UnknownName`.
    pub(super) fn check_workloads(&self) -> Result<()> {
        check::names("workload", &self.workloads, EXPERIMENT.workloads)
    }

    /// The kernel's configurations.
    pub(super) fn kernel_configurations(&self) -> Result<Vec<testbed::Configuration>> {
        check::kernel_configurations(self.device, &self.kernel_variants)
    }

    /// Checks what is only for engine and kernel.
    ///
    /// # Errors
    /// `LabError::BadValue`, `LabError::UnknownName`.
    pub(super) fn check_real(&self) -> Result<()> {
        check::runs(self.runs)?;
        if !(1..=64).contains(&self.threads) {
            return check::bad(
                "--writers",
                self.threads,
                "allowed are 1 to 64 threads",
                "the post has one",
            );
        }
        check::scale(
            self.scale.unwrap_or(SCALE),
            0.001..=4.0,
            " on real files",
            "1 writes 40 times the memory",
        )?;
        check::memory(
            self.memory,
            Bytes::from_mib(16)..=Bytes::from_mib(1 << 16),
            "the post has 512M",
        )?;
        self.kernel_configurations().map(drop)
    }

    /// The plan of the runs in virtual time.
    ///
    /// # Errors
    /// `LabError::BadValue`, `LabError::UnknownName`.
    pub(super) fn plan(&self) -> Result<Plan> {
        let system = |name: &String| {
            System::from_name(name)
                .ok_or_else(|| check::unknown("variant", name, EXPERIMENT.variants.join(", ")))
        };
        let mut systems = self.variants.iter().map(system).collect::<Result<Vec<_>>>()?;
        if systems.is_empty() {
            systems = System::ALL.to_vec();
        }
        let filesystem = match self.filesystem.as_str() {
            "" => FileSystem::Xfs,
            name => FileSystem::from_name(name).ok_or_else(|| {
                let names: Vec<_> = FileSystem::ALL.iter().map(|f| f.name()).collect();
                check::unknown("file system", name, names.join(", "))
            })?,
        };
        let scale = self.scale.unwrap_or(1.0);
        check::scale(
            scale,
            0.08..=4.0,
            "",
            "1 has the post's amount of data; 0.08 is two rounds of fs_mark",
        )?;
        let mut loads = Vec::new();
        if self.has(FS_MARK) {
            let rounds = ((ROUNDS * scale).round() as u32).max(ROUNDS_MIN);
            loads.push((FS_MARK, Load::FsMark { rounds }));
        }
        if self.has(MICRO) {
            let pages = (MICRO_PAGES as f64 * scale) as u64;
            loads.push((MICRO, Load::Micro { pages }));
        }
        Ok(Plan {
            systems,
            loads,
            filesystem,
            scale,
            seed: self.seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_value_is_named_with_what_is_allowed() {
        type Change = fn(&mut Options);
        let table: [(Change, &str, u8); 9] = [
            (
                |o| o.variants = vec!["p6".into()],
                "unknown variant `p6`; allowed: vanilla, nodirectwb",
                2,
            ),
            (
                |o| o.workloads = vec!["dbench".into()],
                "unknown workload `dbench`; allowed: fs_mark, micro",
                2,
            ),
            (
                |o| o.filesystem = "jfs".into(),
                "unknown file system `jfs`; allowed: xfs, ext3, ext4, btrfs",
                2,
            ),
            (|o| o.scale = Some(0.01), "--scale 0.01: allowed is 0.08 to 4", 2),
            (
                |o| o.on = Some(vec!["paced".into()]),
                "target `paced` cannot run: it has the load of axboe2016 only",
                3,
            ),
            (|o| o.runs = 0, "--runs 0: allowed are 1 to 100", 2),
            (|o| o.threads = 65, "--writers 65: allowed are 1 to 64", 2),
            (
                |o| o.memory = Bytes::from_mib(8),
                "--memory 8M: allowed is 16M to 64G",
                2,
            ),
            (|o| o.on = Some(vec!["moon".into()]), "unknown target `moon`", 2),
        ];
        for (change, expected, code) in table {
            let mut options = Options::default();
            change(&mut options);
            let error = super::super::run(&options, &mut ()).err().unwrap();
            assert!(error.to_string().starts_with(expected), "{error}");
            assert_eq!(error.exit_code(), code);
        }
    }

    #[test]
    fn the_scale_is_of_data_and_never_less_than_two_rounds() {
        let plan = |scale| {
            let options = Options {
                scale: Some(scale),
                ..Options::default()
            };
            options.plan().unwrap().loads
        };
        assert_eq!(plan(1.0)[0].1, Load::FsMark { rounds: 25 });
        assert_eq!(plan(0.08)[0].1, Load::FsMark { rounds: 2 });
        assert_eq!(plan(0.5)[1].1, Load::Micro { pages: 623_500 });
    }
}
