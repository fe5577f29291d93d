//! The experiment's options, checked into a plan.

use super::{EXPERIMENT, FS_MARK, MICRO};
use crate::error::{LabError, Result};
use crate::sim::era::{EraOptions, Load, MICRO_PAGES};
use millpond_core::reclaim::ladder::Rung;
use millpond_core::reclaim::launder::filesystem::FileSystem;

/// The rungs' names, in their order.
pub(super) const VARIANTS: [&str; Rung::ALL.len()] = {
    let mut names = [""; Rung::ALL.len()];
    let mut n = 0;
    while n < names.len() {
        names[n] = Rung::ALL[n].name();
        n += 1;
    }
    names
};

/// The post's rounds of fs_mark.
const ROUNDS: f64 = 25.0;
/// Fewer say nothing: in the first, memory is only being filled.
const ROUNDS_MIN: u32 = 2;

/// What a user can choose. Ranges are checked by [`run`](super::run).
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Targets by name; `None` and `sim` are the same.
    pub on: Option<Vec<String>>,
    /// Rungs; none is all of them.
    pub variants: Vec<String>,
    /// Workloads; none is both.
    pub workloads: Vec<String>,
    /// How the file system answers reclaim: xfs, ext3, ext4, btrfs. Empty: xfs, the post's.
    pub filesystem: String,
    /// What the amount of data is multiplied by, 0.08 to 4; memory stays. `None`: 1.
    pub scale: Option<f64>,
    /// The seed of the company's habits.
    pub seed: u64,
    /// The command line, for the report.
    pub command: String,
}

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) rungs: Vec<Rung>,
    pub(super) loads: Vec<(&'static str, Load)>,
    pub(super) filesystem: FileSystem,
    pub(super) scale: f64,
    pub(super) seed: u64,
}

impl Plan {
    /// The machine of a rung.
    pub(super) fn machine(&self, rung: Rung) -> EraOptions {
        EraOptions {
            filesystem: self.filesystem,
            seed: self.seed,
            ..EraOptions::new(rung)
        }
    }
}

impl Options {
    pub(super) fn plan(&self) -> Result<Plan> {
        if let Some(target) = self.on.iter().flatten().find(|name| *name != "sim") {
            crate::target::find(target)?;
            return Err(LabError::Unavailable {
                target: target.clone(),
                why: "gorman2011 runs in virtual time only: --on sim".into(),
            });
        }
        let unknown = |what, value: &str, allowed: String| LabError::UnknownName {
            what,
            value: value.into(),
            allowed,
        };
        let rung = |name: &String| {
            Rung::from_name(name).ok_or_else(|| unknown("variant", name, EXPERIMENT.variants.join(", ")))
        };
        let mut rungs = self.variants.iter().map(rung).collect::<Result<Vec<_>>>()?;
        if rungs.is_empty() {
            rungs = Rung::ALL.to_vec();
        }
        let filesystem = match self.filesystem.as_str() {
            "" => FileSystem::Xfs,
            name => FileSystem::from_name(name).ok_or_else(|| {
                let names: Vec<_> = FileSystem::ALL.iter().map(|f| f.name()).collect();
                unknown("file system", name, names.join(", "))
            })?,
        };
        let scale = self.scale.unwrap_or(1.0);
        if !(0.08..=4.0).contains(&scale) {
            return Err(LabError::BadValue {
                option: "--scale",
                value: scale.to_string(),
                allowed: "allowed is 0.08 to 4".into(),
                instead: "1 has the post's amount of data; 0.08 is two rounds of fs_mark".into(),
            });
        }
        if let Some(name) = self
            .workloads
            .iter()
            .find(|w| ![FS_MARK, MICRO].contains(&w.as_str()))
        {
            return Err(unknown("workload", name, EXPERIMENT.workloads.join(", ")));
        }
        let has = |name: &str| self.workloads.is_empty() || self.workloads.iter().any(|w| w == name);
        let mut loads = Vec::new();
        if has(FS_MARK) {
            let rounds = ((ROUNDS * scale).round() as u32).max(ROUNDS_MIN);
            loads.push((FS_MARK, Load::FsMark { rounds }));
        }
        if has(MICRO) {
            let pages = (MICRO_PAGES as f64 * scale) as u64;
            loads.push((MICRO, Load::Micro { pages }));
        }
        Ok(Plan {
            rungs,
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
        let table: [(Change, &str, u8); 6] = [
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
                |o| o.on = Some(vec!["kernel".into()]),
                "target `kernel` cannot run: gorman2011 runs in virtual time only",
                3,
            ),
            (|o| o.on = Some(vec!["moon".into()]), "unknown target `moon`", 2),
        ];
        for (change, expected, code) in table {
            let mut options = Options::default();
            change(&mut options);
            let error = options.plan().unwrap_err();
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
