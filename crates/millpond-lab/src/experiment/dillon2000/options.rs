//! The experiment's options, checked into a plan.

use super::EXPERIMENT;
use crate::error::{LabError, Result};
use millpond_core::reclaim::freebsd::System;
use millpond_core::units::Nanos;

/// Who runs the news.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Variant {
    /// A system of the post, or the one that became of it.
    FreeBsd(System),
    /// Millpond's own manager.
    Millpond,
    /// The same where the history may be dirty for as long as it likes, as it is for the others (`MAP_NOSYNC`).
    MillpondNoSync,
}

/// Millpond's rows, behind those of the systems.
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

/// What a user can choose. Ranges are checked by [`run`](super::run).
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Targets by name; `None` and `sim` are the same.
    pub on: Option<Vec<String>>,
    /// Rules, or systems; none is all of them.
    pub variants: Vec<String>,
    /// Workloads; none is all of them.
    pub workloads: Vec<String>,
    /// What the length of the news, ten minutes, is multiplied by, 0.1 to 100. `None`: 1.
    pub scale: Option<f64>,
    /// The seed of everything random.
    pub seed: u64,
    /// The command line, for the report.
    pub command: String,
}

/// The news begin to be measured after this, when memory is full and queues have their lengths.
pub(super) const WARM_UP: Nanos = Nanos::from_secs(300);
const LENGTH_S: f64 = 600.0;

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) variants: Vec<Variant>,
    workloads: Vec<String>,
    /// Of the news, without what is not measured.
    pub(super) length: Nanos,
    pub(super) scale: f64,
    pub(super) seed: u64,
}

impl Plan {
    pub(super) fn has(&self, workload: &str) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|name| name == workload)
    }

    /// The systems among the variants.
    pub(super) fn systems(&self) -> impl Iterator<Item = System> + '_ {
        self.variants.iter().filter_map(|variant| match variant {
            Variant::FreeBsd(system) => Some(*system),
            Variant::Millpond | Variant::MillpondNoSync => None,
        })
    }
}

impl Options {
    pub(super) fn plan(&self) -> Result<Plan> {
        if let Some(target) = self.on.iter().flatten().find(|name| *name != "sim") {
            crate::target::find(target)?;
            return Err(LabError::Unavailable {
                target: target.clone(),
                why: "dillon2000 runs in virtual time only: --on sim".into(),
            });
        }
        let unknown = |what, value: &str, allowed: String| LabError::UnknownName {
            what,
            value: value.into(),
            allowed,
        };
        let variant = |name: &String| {
            Variant::from_name(name).ok_or_else(|| unknown("variant", name, VARIANTS.join(", ")))
        };
        let mut variants = self.variants.iter().map(variant).collect::<Result<Vec<_>>>()?;
        if variants.is_empty() {
            variants = Variant::all();
        }
        let is_known = |name: &&String| EXPERIMENT.workloads.contains(&name.as_str());
        if let Some(name) = self.workloads.iter().find(|name| !is_known(name)) {
            return Err(unknown("workload", name, EXPERIMENT.workloads.join(", ")));
        }
        let scale = self.scale.unwrap_or(1.0);
        if !(0.1..=100.0).contains(&scale) {
            return Err(LabError::BadValue {
                option: "--scale",
                value: scale.to_string(),
                allowed: "allowed is 0.1 to 100".into(),
                instead: "1 is ten minutes of news".into(),
            });
        }
        Ok(Plan {
            variants,
            workloads: self.workloads.clone(),
            length: Nanos::from_secs((LENGTH_S * scale).round() as u64),
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
        let table: [(Change, &str, u8); 4] = [
            (
                |o| o.variants = vec!["three-laps".into()],
                "unknown variant `three-laps`; allowed: limited-order, clean-first, queue-order, two-laps, modern, millpond, \
                 millpond-nosync",
                2,
            ),
            (
                |o| o.workloads = vec!["mail".into()],
                "unknown workload `mail`; allowed: news, budgets, in-transit, deadlock",
                2,
            ),
            (|o| o.scale = Some(0.0), "--scale 0: allowed is 0.1 to 100", 2),
            (
                |o| o.on = Some(vec!["engine".into()]),
                "target `engine` cannot run: dillon2000 runs in virtual time only",
                3,
            ),
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
    fn a_system_is_found_by_its_rule_and_by_its_name() {
        let options = Options {
            variants: vec!["freebsd-stable".into(), "queue-order".into()],
            ..Options::default()
        };
        let plan = options.plan().unwrap();
        assert_eq!(plan.variants[0], plan.variants[1]);
        assert_eq!(plan.length, Nanos::from_secs(600));
    }
}
