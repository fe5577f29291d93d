//! The experiment's options, checked into a plan.

use super::{BUDGETS, DEADLOCK, EXPERIMENT, IN_TRANSIT, NEWS, SATURATED};
use crate::error::{LabError, Result};
use crate::experiment::{Options, check};
use millpond_core::units::{Bytes, Nanos};
use millpond_kernels::freebsd::System;

/// A row of the news.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Variant {
    /// A system of the post, or the one that became of it.
    FreeBsd(System),
    /// Millpond's own manager.
    Millpond,
    /// The same where the history may be dirty for as long as it likes, as it is for the others (`MAP_NOSYNC`).
    MillpondNoSync,
}

/// Millpond's rows, after those of the systems.
const OURS: [(&str, Variant); 2] = [
    ("millpond", Variant::Millpond),
    ("millpond-nosync", Variant::MillpondNoSync),
];
const COUNT: usize = System::ALL.len() + OURS.len();

/// The variants' names, in their order.
pub(super) const VARIANTS: [&str; COUNT] = {
    let mut names = [""; COUNT];
    let mut n = 0;
    while n < COUNT {
        names[n] = match n.checked_sub(System::ALL.len()) {
            None => System::ALL[n].variant(),
            Some(ours) => OURS[ours].0,
        };
        n += 1;
    }
    names
};

impl Variant {
    fn all() -> Vec<Variant> {
        let systems = System::ALL.into_iter().map(Variant::FreeBsd);
        systems.chain(OURS.map(|(_, variant)| variant)).collect()
    }

    fn from_name(name: &str) -> Option<Variant> {
        let ours = OURS.into_iter().find(|(own, _)| *own == name);
        ours.map(|(_, variant)| variant)
            .or_else(|| System::from_name(name).map(Variant::FreeBsd))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Variant::FreeBsd(system) => system.variant(),
            Variant::Millpond => OURS[0].0,
            Variant::MillpondNoSync => OURS[1].0,
        }
    }
}

/// The news begin to be measured after this, when memory is full and queues have their lengths.
pub(super) const WARM_UP: Nanos = Nanos::from_secs(300);
const LENGTH_S: f64 = 600.0;

/// The plan of the runs.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) variants: Vec<Variant>,
    workloads: Vec<String>,
    /// Of the news, without the unmeasured part.
    pub(super) length: Nanos,
    pub(super) scale: f64,
    pub(super) seed: u64,
}

impl Plan {
    pub(super) fn has(&self, workload: &str) -> bool {
        check::takes_part(&self.workloads, workload)
    }

    /// The systems among the variants.
    pub(super) fn systems(&self) -> impl Iterator<Item = System> + '_ {
        self.variants.iter().filter_map(|variant| match variant {
            Variant::FreeBsd(system) => Some(*system),
            Variant::Millpond | Variant::MillpondNoSync => None,
        })
    }
}

/// Checks the scale, and what is only for engine and kernel if there are any (`is_real`).
///
/// # Errors
/// [`LabError::BadValue`]; [`LabError::Unavailable`] if no target has any of the workloads.
pub(super) fn check(options: &Options, is_simulated: bool, is_real: bool) -> Result<()> {
    let scale = options.scale.unwrap_or(1.0);
    if is_simulated {
        check::scale(scale, 0.1..=100.0, "", "1 is ten minutes of news")?;
    }
    if is_real {
        check::scale(scale, 0.005..=1.0, " on real files", "1 has the post's memory")?;
    }
    check::runs(options.runs)?;
    check::memory(
        options.memory,
        Bytes::from_mib(256)..=Bytes::from_mib(1 << 14),
        "the post has 512M, of which 128M are the readers' own",
    )?;
    let has_any = |workloads: &[&str]| workloads.iter().any(|workload| options.has(workload));
    if is_simulated && !has_any(&[NEWS, BUDGETS, IN_TRANSIT, DEADLOCK]) {
        return Err(LabError::Unavailable {
            target: "sim".into(),
            why: format!("{SATURATED} is for real files: --on engine,kernel"),
        });
    }
    if is_real && !has_any(&[NEWS, SATURATED]) {
        return Err(LabError::Unavailable {
            target: options.on.iter().flatten().cloned().collect::<Vec<_>>().join(","),
            why: format!("on real files there are {NEWS} and {SATURATED}"),
        });
    }
    options.kernel_configurations().map(drop)
}

/// # Errors
/// [`LabError::UnknownName`].
pub(super) fn plan(options: &Options) -> Result<Plan> {
    let variant = |name: &String| {
        Variant::from_name(name).ok_or_else(|| check::unknown("variant", name, VARIANTS.join(", ")))
    };
    let mut variants = options.variants.iter().map(variant).collect::<Result<Vec<_>>>()?;
    if variants.is_empty() {
        variants = Variant::all();
    }
    check::names("workload", &options.workloads, EXPERIMENT.workloads)?;
    let scale = options.scale.unwrap_or(1.0);
    Ok(Plan {
        variants,
        workloads: options.workloads.clone(),
        length: Nanos::from_secs((LENGTH_S * scale).round() as u64),
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
                    |o| o.variants = vec!["three-laps".into()],
                    "unknown variant `three-laps`; allowed: limited-order, clean-first, queue-order, two-laps, modern, millpond, \
                 millpond-nosync",
                    2,
                ),
                (
                    |o| o.workloads = vec!["mail".into()],
                    "unknown workload `mail`; allowed: news, saturated, budgets, in-transit, deadlock",
                    2,
                ),
                (|o| o.scale = Some(0.0), "--scale 0: must be 0.1 to 100", 2),
                (
                    |o| (o.on, o.scale) = (Some(vec!["engine".into()]), Some(2.0)),
                    "--scale 2: must be 0.005 to 1 on real files",
                    2,
                ),
                (|o| o.runs = 0, "--runs 0: must be 1 to 100", 2),
                (
                    |o| o.workloads = vec!["saturated".into()],
                    "target `sim` cannot run: saturated is for real files",
                    3,
                ),
                (
                    |o| (o.on, o.workloads) = (Some(vec!["engine".into()]), vec!["budgets".into()]),
                    "target `engine` cannot run: on real files there are news and saturated",
                    3,
                ),
            ],
        );
    }

    #[test]
    fn a_system_is_found_by_its_rule_and_by_its_name() {
        let options = Options {
            variants: vec!["freebsd-stable".into(), "queue-order".into()],
            ..Options::default()
        };
        let plan = super::plan(&options).unwrap();
        assert_eq!(plan.variants[0], plan.variants[1]);
        assert_eq!(plan.length, Nanos::from_secs(600));
    }
}
