//! The experiment's options, checked into a plan.

use super::real::SCALE;
use super::{EXPERIMENT, FS_MARK, MICRO};
use crate::error::Result;
use crate::experiment::{Options, check};
use millpond_core::units::Bytes;
use millpond_kernels::linux::reclaim::System;
use millpond_kernels::linux::reclaim::filesystem::FileSystem;
use millpond_kernels::linux::reclaim::machine::{Load, MICRO_PAGES, MachineOptions};

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

/// Checks what is only for engine and kernel.
///
/// # Errors
/// `LabError::BadValue`, `LabError::UnknownName`.
pub(super) fn check_real(options: &Options) -> Result<()> {
    check::runs(options.runs)?;
    if !(1..=64).contains(&options.writers) {
        return check::bad(
            "--writers",
            options.writers,
            "must be 1 to 64 threads",
            "the post has one",
        );
    }
    check::scale(
        options.scale.unwrap_or(SCALE),
        0.001..=4.0,
        " on real files",
        "1 writes 40 times the memory",
    )?;
    check::memory(
        options.memory,
        Bytes::from_mib(16)..=Bytes::from_mib(1 << 16),
        "the post has 512M",
    )?;
    options.kernel_configurations().map(drop)
}

/// The plan of the runs in virtual time.
///
/// # Errors
/// `LabError::BadValue`, `LabError::UnknownName`.
pub(super) fn plan(options: &Options) -> Result<Plan> {
    let system = |name: &String| {
        System::from_name(name).ok_or_else(|| check::unknown("variant", name, EXPERIMENT.variants.join(", ")))
    };
    let mut systems = options.variants.iter().map(system).collect::<Result<Vec<_>>>()?;
    if systems.is_empty() {
        systems = System::ALL.to_vec();
    }
    let filesystem = match options.filesystem.as_str() {
        "" => FileSystem::Xfs,
        name => FileSystem::from_name(name).ok_or_else(|| {
            let names: Vec<_> = FileSystem::ALL.iter().map(|f| f.name()).collect();
            check::unknown("file system", name, names.join(", "))
        })?,
    };
    let scale = options.scale.unwrap_or(1.0);
    check::scale(
        scale,
        0.08..=4.0,
        "",
        "1 has the post's amount of data; 0.08 is two rounds of fs_mark",
    )?;
    let mut loads = Vec::new();
    if options.has(FS_MARK) {
        let rounds = ((ROUNDS * scale).round() as u32).max(ROUNDS_MIN);
        loads.push((FS_MARK, Load::FsMark { rounds }));
    }
    if options.has(MICRO) {
        let pages = (MICRO_PAGES as f64 * scale) as u64;
        loads.push((MICRO, Load::Micro { pages }));
    }
    Ok(Plan {
        systems,
        loads,
        filesystem,
        scale,
        seed: options.seed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::check::tests::assert_refused;

    #[test]
    fn every_bad_value_is_named_with_what_is_allowed() {
        assert_refused(
            super::super::run,
            &[
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
                (|o| o.scale = Some(0.01), "--scale 0.01: must be 0.08 to 4", 2),
                (
                    |o| o.on = Some(vec!["paced".into()]),
                    "target `paced` cannot run: it has the load of axboe2016 only",
                    3,
                ),
                (|o| o.runs = 0, "--runs 0: must be 1 to 100", 2),
                (|o| o.writers = 65, "--writers 65: must be 1 to 64", 2),
                (
                    |o| o.memory = Bytes::from_mib(8),
                    "--memory 8M: must be 16M to 64G",
                    2,
                ),
                (|o| o.on = Some(vec!["moon".into()]), "unknown target `moon`", 2),
            ],
        );
    }

    #[test]
    fn the_scale_is_of_data_and_never_less_than_two_rounds() {
        let plan = |scale| {
            let options = Options {
                scale: Some(scale),
                ..Options::default()
            };
            super::plan(&options).unwrap().loads
        };
        assert_eq!(plan(1.0)[0].1, Load::FsMark { rounds: 25 });
        assert_eq!(plan(0.08)[0].1, Load::FsMark { rounds: 2 });
        assert_eq!(plan(0.5)[1].1, Load::Micro { pages: 623_500 });
    }
}
