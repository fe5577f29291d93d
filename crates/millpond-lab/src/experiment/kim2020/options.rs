//! The experiment's options, checked into a plan.

use super::EXPERIMENT;
use super::published::{SIZES, SKEWS, THREADS};
use crate::error::Result;
use crate::experiment::{Options, check};
use crate::workload::kim2020::loads::{Ebizzy, Load, ROUNDS};
use crate::workload::kim2020::{TOY_DETECT, TOY_PROTECT};
use millpond_kernels::linux::anon::System;

/// A row: a kernel, under the name that users write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) rules: Rules,
}

/// The rules of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rules {
    Linux(System),
    Millpond,
}

/// Millpond's own.
const MILLPOND: Variant = Variant {
    name: "millpond",
    rules: Rules::Millpond,
};

/// The three that the post compares, on 5.5; all others are called as their systems.
const OF_THE_POST: [Variant; 3] = [
    Variant {
        name: "base",
        rules: Rules::Linux(System::Linux5_5),
    },
    Variant {
        name: "protect",
        rules: Rules::Linux(System::Patch(2)),
    },
    Variant {
        name: "detect",
        rules: Rules::Linux(System::Patch(9)),
    },
];

/// Later kernels that run by default on loads with rounds.
const LATER: [System; 4] = [
    System::AsPosted,
    System::Linux5_8,
    System::Linux5_9,
    System::Linux7_0,
];

/// Cells of engine and kernel unless some are named: 1.25 times memory and more.
const OVERCOMMITTED_MB: u64 = 1280;

/// All names.
pub(super) const VARIANTS: [&str; 19] = [
    "base",
    "protect",
    "detect",
    "linux-5.5",
    "linux-5.5+1",
    "linux-5.5+2",
    "linux-5.5+3",
    "linux-5.5+4",
    "linux-5.5+5",
    "linux-5.5+6",
    "linux-5.5+7",
    "linux-5.5+8",
    "linux-5.5+anon",
    "linux-5.5+anon-as-posted",
    "linux-5.8",
    "linux-5.8+protect",
    "linux-5.9",
    "linux-7.0",
    "millpond",
];

/// The plan of the runs.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) toys: Vec<&'static str>,
    pub(super) loads: Vec<Load>,
    /// For every load.
    pub(super) variants: Vec<Variant>,
    /// For loads with rounds only.
    pub(super) later: Vec<Variant>,
    pub(super) scale: f64,
    pub(super) seed: u64,
}

impl Plan {
    /// The rows of a load.
    pub(super) fn rows(&self, load: &Load) -> impl Iterator<Item = Variant> + '_ {
        let has_later = !matches!(load, Load::Ebizzy(_));
        let later = self.later.iter().filter(move |_| has_later);
        self.variants.iter().chain(later).copied()
    }

    /// Rounds of loads that have them: the post's 20.
    pub(super) fn rounds(&self) -> u64 {
        ((20.0 * self.scale).round() as u64).max(2)
    }
}

fn of_system(system: System) -> Variant {
    Variant {
        name: system.name(),
        rules: Rules::Linux(system),
    }
}

/// The post's cells of ebizzy.
fn grid() -> Vec<Load> {
    let mut cells = Vec::new();
    for threads in THREADS {
        for mb in SIZES {
            cells.extend(SKEWS.map(|skew_tenths| {
                Load::Ebizzy(Ebizzy {
                    mb,
                    skew_tenths,
                    threads,
                })
            }));
        }
    }
    cells
}

/// Checks what is only for engine and kernel.
pub(super) fn check_real(options: &Options) -> Result<()> {
    check::runs(options.runs)?;
    if !(1..=16).contains(&options.shrink) {
        return check::bad(
            "shrink",
            options.shrink,
            "must be 1 to 16",
            "1 has the post's sizes in the traces, and a quarter of them in ebizzy",
        );
    }
    Ok(())
}

/// Checks everything into a plan. Without rows in virtual time the device is none of its business.
pub(super) fn plan(options: &Options, is_simulated: bool) -> Result<Plan> {
    let device = options.device.to_string();
    if is_simulated && !["real", "sata-ssd"].contains(&device.as_str()) {
        return check::bad(
            "--device",
            device,
            "must be sata-ssd",
            "the post's machine has this disk in virtual time",
        );
    }
    let scale = options.scale.unwrap_or(1.0);
    check::scale(
        scale,
        0.05..=20.0,
        "",
        "1 has 20 rounds, and 6 records of ebizzy for each of its chunks",
    )?;
    let (mut toys, mut loads) = loads(options)?;
    if !is_simulated && options.workloads.is_empty() {
        // The toys are lists, not memory; and what fits into memory says nothing.
        toys.clear();
        loads.retain(|load| !matches!(load, Load::Ebizzy(cell) if cell.mb < OVERCOMMITTED_MB));
    }
    let named = options.variants.iter().map(|name| variant(name));
    let (variants, later) = match options.variants.is_empty() {
        false => (named.collect::<Result<_>>()?, Vec::new()),
        true => {
            let own = OF_THE_POST.into_iter().chain([MILLPOND]);
            (own.collect(), LATER.map(of_system).to_vec())
        }
    };
    Ok(Plan {
        toys,
        loads,
        variants,
        later,
        scale,
        seed: options.seed,
    })
}

fn loads(options: &Options) -> Result<(Vec<&'static str>, Vec<Load>)> {
    let toys = [TOY_PROTECT, TOY_DETECT];
    if options.workloads.is_empty() {
        let rounds = ROUNDS.iter().map(|&(_, load)| load);
        return Ok((toys.to_vec(), rounds.chain(grid()).collect()));
    }
    let (mut named_toys, mut loads) = (Vec::new(), Vec::new());
    for name in &options.workloads {
        if let Some(toy) = toys.into_iter().find(|toy| toy == name) {
            named_toys.push(toy);
        } else if let Some(load) = Load::from_name(name) {
            loads.push(load);
        } else if name == "ebizzy" {
            loads.extend(grid());
        } else {
            let allowed = format!(
                "{}; ebizzy is all cells of the grid",
                EXPERIMENT.workloads.join(", ")
            );
            return Err(check::unknown("workload", name, allowed));
        }
    }
    Ok((named_toys, loads))
}

fn variant(name: &str) -> Result<Variant> {
    let own = OF_THE_POST.into_iter().chain([MILLPOND]);
    let of_the_post = own.into_iter().find(|variant| variant.name == name);
    of_the_post
        .or_else(|| System::from_name(name).map(of_system))
        .ok_or_else(|| check::unknown("variant", name, VARIANTS.join(", ")))
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
                    "unknown variant `p6`; allowed: base, protect, detect",
                    2,
                ),
                (
                    |o| o.workloads = vec!["ebizzy-1-0.1-1".into()],
                    "unknown workload `ebizzy-1-0.1-1`; allowed: toy-protect, toy-detect, hot-cold",
                    2,
                ),
                (
                    |o| o.device = "hdd".parse().unwrap(),
                    "--device hdd: must be sata-ssd",
                    2,
                ),
                (|o| o.scale = Some(0.01), "--scale 0.01: must be 0.05 to 20", 2),
                (
                    |o| o.on = Some(vec!["paced".into()]),
                    "target `paced` cannot run: it has the load of axboe2016 only",
                    3,
                ),
                (
                    |o| (o.on, o.runs) = (Some(vec!["engine".into()]), 0),
                    "--runs 0: must be 1 to 100 runs",
                    2,
                ),
                (|o| o.on = Some(vec!["moon".into()]), "unknown target `moon`", 2),
            ],
        );
    }

    #[test]
    fn every_variants_name_is_one_and_every_system_has_one() {
        for name in VARIANTS {
            assert_eq!(variant(name).unwrap().name, name);
        }
        assert_eq!(VARIANTS.len(), System::all().count() + OF_THE_POST.len() + 1);
    }

    #[test]
    fn without_a_choice_the_whole_grid_runs_on_three_kernels_and_millpond_and_the_rest_on_seven() {
        let plan = super::plan(&Options::default(), true).unwrap();
        let cells = plan.loads.iter().filter(|load| matches!(load, Load::Ebizzy(_)));
        assert_eq!(cells.count(), 84);
        let rows = |load: Load| plan.rows(&load).count();
        assert_eq!((rows(Load::HotCold), rows(plan.loads[10])), (8, 4));
    }
}
