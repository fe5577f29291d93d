//! All runs of a plan, as many at a time as there are processors; each takes a second or two.

use super::options::{Plan, Variant, WARM_UP};
use super::{BUDGETS, DEADLOCK, IN_TRANSIT, NEWS, measures, millpond};
use crate::error::{LabError, Result};
use crate::experiment::parallel::{self, Reporter};
use crate::outcome::{Outcome, Setting};
use crate::report::{RowName, Runs};
use crate::watch::Watch;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::options::Options;
use millpond_core::units::{Instant, Nanos};
use millpond_kernels::freebsd::ALL_OUT;
use millpond_kernels::freebsd::System;
use millpond_kernels::freebsd::machine::{self as freebsd, MachineOptions, StreamOptions};

/// A row in virtual time.
pub(super) fn row(variant: &str) -> RowName {
    RowName::new("sim", "hdd", variant)
}

/// The rows of `in-transit`.
const LIMITS: [(&str, bool); 2] = [("no-limit", false), ("high-1M-low-512K", true)];
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

    fn run(&self, plan: &Plan, at: &mut dyn FnMut(f64) -> bool) -> Result<Runs> {
        let (variant, workload) = self.title();
        let outcome = self.outcome(plan, at).map_err(|why| LabError::RunFailed {
            row: format!("{workload} on {variant}"),
            why,
        })?;
        let outcome = outcome.ok_or(LabError::Interrupted)?;
        Ok(Runs::single(row(&variant), workload, outcome))
    }

    /// `None` if `at` said to stop.
    fn outcome(&self, plan: &Plan, at: &mut dyn FnMut(f64) -> bool) -> Result<Option<Outcome>, String> {
        match *self {
            Job::News(variant) => news(plan, variant, None, at),
            Job::Budget(system, clusters) => news(plan, Variant::FreeBsd(system), Some(clusters), at),
            Job::Stream(_, is_limited) => {
                let marks = is_limited.then(BytesOptions::default);
                let ran = freebsd::stream(StreamOptions::new(marks, plan.seed), STREAM);
                Ok(Some(measures::of_stream(&ran.map_err(|e| e.to_string())?)))
            }
            Job::Deadlock(system, reserve) => {
                let ran = freebsd::stuck(system, reserve, plan.seed, DEADLOCK_UNTIL);
                Ok(Some(measures::of_stuck(&ran.map_err(|e| e.to_string())?)))
            }
        }
    }
}

/// The news under a rule, in which a scan may write this many clusters; `None`: the rule's own number.
fn news(
    plan: &Plan,
    variant: Variant,
    clusters: Option<u32>,
    at: &mut dyn FnMut(f64) -> bool,
) -> Result<Option<Outcome>, String> {
    let system = match variant {
        Variant::FreeBsd(system) => system,
        Variant::Millpond | Variant::MillpondNoSync => System::FreeBsdPatches,
    };
    let mut options = MachineOptions {
        seed: plan.seed,
        ..MachineOptions::new(system)
    };
    options.rules.clusters_max = clusters.unwrap_or(options.rules.clusters_max);
    let outcome = match variant {
        Variant::FreeBsd(_) => {
            let ran = freebsd::run(options, (WARM_UP, plan.length), at).map_err(|e| e.to_string())?;
            ran.map(|ran| measures::of_bsd(&ran))
        }
        Variant::Millpond => millpond::run(&options, &Options::default(), plan.length, at)?,
        Variant::MillpondNoSync => millpond::run(&options, &millpond::no_sync(), plan.length, at)?,
    };
    Ok(outcome.map(|outcome| Outcome {
        settings: settings(&options, variant),
        ..outcome
    }))
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
pub(super) fn perform(plan: &Plan, watch: &mut dyn Watch) -> Result<Vec<Runs>> {
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
    let title = |job: &Job| {
        let (row, workload) = job.title();
        format!("{workload} on {row}")
    };
    let run = |job: &Job, reporter: &Reporter<'_, Runs>| job.run(plan, &mut |share| reporter.at(share));
    parallel::perform(&jobs, title, run, watch)
}
