//! All runs of a plan, one after the other: each takes a second or two.

use super::options::{Plan, Variant, WARM_UP};
use super::{BUDGETS, DEADLOCK, IN_TRANSIT, NEWS, measures, millpond};
use crate::error::{LabError, Result};
use crate::outcome::{Outcome, Setting};
use crate::watch::Proceed;
use crate::watch::Watch;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::options::Options;
use millpond_core::units::{Instant, Nanos};
use millpond_kernels::freebsd::ALL_OUT;
use millpond_kernels::freebsd::System;
use millpond_kernels::freebsd::machine::{self as freebsd, MachineOptions, StreamOptions};

/// A run's result.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) row: String,
    pub(super) workload: &'static str,
    pub(super) outcome: Outcome,
}

/// The rows of `in-transit`.
pub(super) const LIMITS: [(&str, bool); 2] = [("no-limit", false), ("high-1M-low-512K", true)];
/// Its length.
const STREAM: Nanos = Nanos::from_secs(120);
/// A minute is time enough for many rounds.
const DEADLOCK_UNTIL: Instant = Instant(60_000_000_000);

/// The rows of `budgets`: rules and clusters of a scan.
const RULES: [System; 2] = [System::FreeBsdStable, System::FreeBsdPatches];
const CLUSTERS: [u32; 4] = [16, 32, 64, ALL_OUT];

enum Job {
    News(Variant),
    Budget(System, u32),
    Stream(&'static str, bool),
    Deadlock(System, bool),
}

impl Job {
    fn title(&self) -> (String, &'static str) {
        match self {
            Job::News(variant) => (variant.name().into(), NEWS),
            Job::Budget(system, ALL_OUT) => (format!("{} no budget", system.variant()), BUDGETS),
            Job::Budget(system, clusters) => (format!("{} budget {clusters}", system.variant()), BUDGETS),
            Job::Stream(name, _) => ((*name).into(), IN_TRANSIT),
            Job::Deadlock(system, true) => (format!("{} with reserve", system.variant()), DEADLOCK),
            Job::Deadlock(system, false) => (format!("{} without reserve", system.variant()), DEADLOCK),
        }
    }

    fn run(&self, plan: &Plan, at: &mut dyn FnMut(f64) -> bool) -> Result<Outcome> {
        let (row, workload) = self.title();
        let failed = |why: String| LabError::RunFailed {
            row: format!("{workload} on {row}"),
            why,
        };
        match *self {
            Job::News(variant) => {
                let system = match variant {
                    Variant::FreeBsd(system) => system,
                    Variant::Millpond | Variant::MillpondNoSync => System::FreeBsdPatches,
                };
                let options = MachineOptions {
                    seed: plan.seed,
                    ..MachineOptions::new(system)
                };
                let outcome = match variant {
                    Variant::FreeBsd(_) => {
                        let ran = freebsd::run(options, (WARM_UP, plan.length), at);
                        let ran = ran.map_err(|e| failed(e.to_string()))?;
                        ran.map(|ran| measures::of_bsd(&ran))
                    }
                    Variant::Millpond => {
                        millpond::run(&options, &Options::default(), plan.length, at).map_err(failed)?
                    }
                    Variant::MillpondNoSync => {
                        millpond::run(&options, &millpond::no_sync(), plan.length, at).map_err(failed)?
                    }
                };
                let mut outcome = outcome.ok_or(LabError::Interrupted)?;
                outcome.settings = settings(&options, variant);
                Ok(outcome)
            }
            Job::Budget(system, clusters_max) => {
                let mut options = MachineOptions {
                    seed: plan.seed,
                    ..MachineOptions::new(system)
                };
                options.rules.clusters_max = clusters_max;
                let ran =
                    freebsd::run(options, (WARM_UP, plan.length), at).map_err(|e| failed(e.to_string()))?;
                Ok(measures::of_bsd(&ran.ok_or(LabError::Interrupted)?))
            }
            Job::Stream(_, is_limited) => {
                let marks = is_limited.then(BytesOptions::default);
                let ran = freebsd::stream(StreamOptions::new(marks, plan.seed), STREAM);
                Ok(measures::of_stream(&ran.map_err(|e| failed(e.to_string()))?))
            }
            Job::Deadlock(system, reserve) => {
                let ran = freebsd::stuck(system, reserve, plan.seed, DEADLOCK_UNTIL);
                Ok(measures::of_stuck(&ran.map_err(|e| failed(e.to_string()))?))
            }
        }
    }
}

fn settings(options: &MachineOptions, variant: Variant) -> Vec<Setting> {
    let news = options.news;
    let mut settings = vec![
        Setting::new("memory", ::millpond::internal::quantity::size(options.memory)),
        Setting::new("readers", news.readers),
        Setting::new("article", format!("{} KiB", news.article_pages * 4)),
        Setting::new("article on the line", format!("{} ms", news.think.0 / 1_000_000)),
        Setting::new("history pages", news.history_pages),
    ];
    if let Variant::FreeBsd(system) = variant {
        settings.push(Setting::new("system", system.name()));
        settings.push(Setting::new("own pages of a reader", news.own_pages));
        settings.push(Setting::new("clusters of a scan", options.rules.clusters_max));
    }
    settings
}

/// Performs all runs, in the order of the report.
pub(super) fn perform(plan: &Plan, watch: &mut dyn Watch) -> Result<Vec<Run>> {
    let mut jobs = Vec::new();
    if plan.has(NEWS) {
        jobs.extend(plan.variants.iter().map(|&variant| Job::News(variant)));
    }
    if plan.has(BUDGETS) {
        let each = |system| CLUSTERS.map(|clusters| Job::Budget(system, clusters));
        jobs.extend(RULES.into_iter().flat_map(each));
    }
    if plan.has(IN_TRANSIT) {
        jobs.extend(LIMITS.map(|(name, is_limited)| Job::Stream(name, is_limited)));
    }
    if plan.has(DEADLOCK) {
        let each = |system| [false, true].map(|reserve| Job::Deadlock(system, reserve));
        jobs.extend(plan.systems().flat_map(each));
    }
    let mut results = Vec::new();
    for (n, job) in jobs.iter().enumerate() {
        let (row, workload) = job.title();
        let step = format!("{workload} on {row}");
        let mut at = |share: f64| {
            let share = (n as f64 + share) / jobs.len() as f64;
            watch.at(share, &step, "in virtual time") == Proceed::Yes
        };
        let outcome = job.run(plan, &mut at)?;
        results.push(Run {
            row,
            workload,
            outcome,
        });
    }
    Ok(results)
}
