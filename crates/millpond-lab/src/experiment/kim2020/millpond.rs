//! Millpond's own manager on these loads, in virtual time: a region with what the kernels' load can have as its budget.

use super::machines::machine;
use super::options::Plan;
use super::runs::{draws, finish_by, frames_in_use, record_cost, seconds};
use crate::error::Result;
use crate::outcome::{Outcome, Setting};
use crate::workload::kim2020::draws::Draws;
use crate::workload::kim2020::loads::{CHUNK, Copier, Load, script};
use millpond_core::options::Options;
use millpond_core::readahead::ReadAheadOptions;
use millpond_core::units::{Bytes, Nanos, PageCount};
use millpond_kernels::linux::anon::System;
use millpond_sim::region::{Region, RegionCosts, RegionOptions};
use millpond_sim::task::{Op, Ops};
use std::sync::atomic::AtomicBool;

/// The metadata of a frame and of a region's page, in bytes: the engine's tables and the manager's.
const FRAME_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 16;

/// A run's counters up to a point.
#[derive(Clone, Copy)]
struct Counted {
    swap_ins: u64,
    swap_outs: u64,
    file_reads: u64,
    soft_faults: u64,
    read_ahead: u64,
    wasted_ahead: u64,
    activated: u64,
}

impl Counted {
    fn of(region: &Region) -> Counted {
        let stats = region.manager().stats();
        Counted {
            swap_ins: stats.pswpin,
            swap_outs: stats.pswpout,
            file_reads: region.file_reads(),
            soft_faults: region.soft_faults(),
            read_ahead: stats.swap_ra,
            wasted_ahead: region.wasted_ahead(),
            activated: region.manager().lru_statistics().workingset_activate_file,
        }
    }
}

/// Runs a load.
///
/// # Errors
/// [`Interrupted`](crate::LabError::Interrupted).
pub(super) fn run(plan: &Plan, load: Load, options: &Options, stop: &AtomicBool) -> Result<Outcome> {
    // The kernels' rows swap in page by page, too: this compares rules, not read-ahead.
    let options = Options {
        readahead: ReadAheadOptions {
            max: Bytes(0),
            ..options.readahead
        },
        ..options.clone()
    };
    run_as_it_is(plan, load, &options, stop)
}

/// The same with read-ahead as the options have it.
fn run_as_it_is(plan: &Plan, load: Load, options: &Options, stop: &AtomicBool) -> Result<Outcome> {
    // Memory and disks are those of the kernels' machine, whatever its rules.
    let machine = machine(&load, System::Linux5_5);
    let (pages, file_pages, copies) = match load {
        Load::Ebizzy(cell) => (cell.mb * 256, 0, u64::from(cell.threads) * CHUNK),
        _ => {
            let [pages, file_pages] = script(load, plan.rounds()).pages;
            (pages, file_pages, 0)
        }
    };
    let budget = frames_in_use(&load) - copies;
    let frames = (budget * 4096 - pages * PAGE_BYTES) / (4096 + FRAME_BYTES);
    let mut region = Region::new(RegionOptions {
        options: options.clone(),
        frames: PageCount(frames),
        pages,
        file_pages,
        slots: 2 * pages,
        swap: machine.swap,
        files: machine.files,
        costs: RegionCosts::default(),
    })
    .map_err(|e| super::runs::failed(load, "millpond", &e))?;
    let mut outcome = Outcome::default();
    let (from, before) = match load {
        Load::Ebizzy(cell) => {
            let draws = draws(plan, cell);
            let allocate = Op::Touch {
                first: 0,
                pages,
                write: true,
                each: Nanos(100),
            };
            region.add_task(Box::new(Ops::new(vec![allocate])));
            finish_by(|steps| region.run(steps), stop)?;
            copiers(
                &mut region,
                &draws,
                crate::workload::kim2020::draws::FILLS_WARM,
                0,
            );
            finish_by(|steps| region.run(steps), stop)?;
            let (from, before) = (region.now(), Counted::of(&region));
            let records = copiers(&mut region, &draws, crate::workload::kim2020::draws::FILLS, 1);
            finish_by(|steps| region.run(steps), stop)?;
            let took = seconds(region.now().since(from));
            outcome.push("records_per_s", "1/s", records as f64 / took);
            let ins = Counted::of(&region).swap_ins - before.swap_ins;
            outcome.push("swap_ins_per_record_pages", "1", ins as f64 / records as f64);
            (from, before)
        }
        _ => {
            let script = script(load, plan.rounds());
            region.add_task(script.set_up());
            finish_by(|steps| region.run(steps), stop)?;
            let (from, before) = (region.now(), Counted::of(&region));
            region.add_task(script.rounds());
            finish_by(|steps| region.run(steps), stop)?;
            (from, before)
        }
    };
    let after = Counted::of(&region);
    outcome.counts(&[
        ("swap_ins_pages", after.swap_ins - before.swap_ins),
        ("swap_outs_pages", after.swap_outs - before.swap_outs),
        ("file_reads_pages", after.file_reads - before.file_reads),
        ("read_ahead_pages", after.read_ahead - before.read_ahead),
        (
            "read_ahead_wasted_pages",
            after.wasted_ahead - before.wasted_ahead,
        ),
        ("soft_faults", after.soft_faults - before.soft_faults),
        ("workingset_activate_anon", after.activated - before.activated),
    ]);
    outcome.push("elapsed_seconds", "s", seconds(region.now().since(from)));
    outcome.settings = vec![
        Setting::new("frames", frames),
        Setting::new("swap", machine.swap.name()),
        Setting::new("replacement", format_args!("{:?}", options.replacement)),
    ];
    Ok(outcome)
}

/// Adds the threads; answers how many records they copy together.
fn copiers(region: &mut Region, draws: &Draws, fills: f64, phase: u64) -> u64 {
    let (cell, each) = (draws.cell, draws.records(fills));
    let cost = Nanos(record_cost(cell).0 / CHUNK);
    for thread in 0..cell.threads {
        region.add_task(Box::new(Copier {
            zipf: draws.zipf.clone(),
            draw: draws.of(phase, thread),
            records: each,
            to: 0,
            each: cost,
        }));
    }
    each * u64::from(cell.threads)
}

#[cfg(test)]
mod tests {
    use super::super::{Options as Chosen, options};
    use super::*;
    use millpond_core::lru::{MillpondOptions, Replacement};
    use millpond_core::units::Ratio;

    fn plan(load: &str, scale: f64) -> Plan {
        let chosen = Chosen {
            scale: Some(scale),
            workloads: vec![load.into()],
            ..Chosen::default()
        };
        options::plan(&chosen, true).unwrap()
    }

    /// The engine swapped in a third more on the moving window than this machine had said, and more than the kernel: of a
    /// page that was read ahead its first use was not seen, so that its next one passed for the first.
    #[test]
    fn reading_ahead_costs_few_swap_ins() {
        let plan = plan("moving-window", 1.0);
        let stop = AtomicBool::new(false);
        let mut all = [Vec::new(), Vec::new()];
        // Of one run small things change a tenth: which round admits it.
        for more in 0..5 {
            let options = with(Options::default(), |own| own.inactive_start_per_mille += more);
            let without = run(&plan, plan.loads[0], &options, &stop).unwrap();
            let with = run_as_it_is(&plan, plan.loads[0], &options, &stop).unwrap();
            let ins = [&without, &with].map(|outcome| outcome.value("swap_ins_pages").unwrap());
            let ahead = with.value("read_ahead_pages").unwrap();
            assert!(ahead > ins[1] * 0.9, "{ahead} of {}", ins[1]);
            all[0].push(ins[0]);
            all[1].push(ins[1]);
        }
        all.iter_mut().for_each(|ins| ins.sort_by(f64::total_cmp));
        println!("page by page {:?}, as it is {:?}", all[0], all[1]);
        let [without, with] = [&all[0], &all[1]].map(|ins| ins[2]);
        assert!(with < without * 1.1, "{with}, page by page {without}");
    }

    /// The choice of pages for the active list decides how often a new hot set is lost before it stays.
    #[test]
    fn the_hot_set_changes_and_a_quarter_of_the_gap_remains() {
        let (kernel, optimum) = (737_166.0, 440_396.0);
        let plan = plan("phase-change", 1.0);
        for start in [80, 100, 120] {
            let options = with(Options::default(), |own| own.inactive_start_per_mille = start);
            let way = |run: fn(&Plan, Load, &Options, &AtomicBool) -> Result<Outcome>| {
                let outcome = run(&plan, plan.loads[0], &options, &AtomicBool::new(false)).unwrap();
                (kernel - outcome.value("swap_ins_pages").unwrap()) / (kernel - optimum)
            };
            let (by_page, ahead) = (way(run), way(run_as_it_is));
            println!("from {start}: {by_page:.2} of the way, with read-ahead {ahead:.2}");
            assert!(
                by_page >= 0.25 && ahead >= 0.25,
                "from {start}: {by_page}, {ahead} of the way"
            );
        }
    }

    /// With one or two numbers of Millpond's own rule changed.
    fn with(mut options: Options, change: impl FnOnce(&mut MillpondOptions)) -> Options {
        if let Replacement::Millpond(own) = &mut options.replacement {
            change(own);
        }
        options
    }

    /// `runs` of a load, in which the inactive list begins with 100, 101 and so on per mille of memory, the fewest first.
    fn swap_ins(
        load: &str,
        (runs, scale): (u32, f64),
        with_read_ahead: bool,
        change: impl Fn(&mut MillpondOptions),
    ) -> Vec<f64> {
        let (plan, stop) = (plan(load, scale), AtomicBool::new(false));
        let ins = |more: u32| {
            let options = with(Options::default(), |own| {
                change(own);
                own.inactive_start_per_mille += more;
            });
            let run = if with_read_ahead { run_as_it_is } else { run };
            let outcome = run(&plan, plan.loads[0], &options, &stop).unwrap();
            let of_record = outcome.value("swap_ins_per_record_pages");
            of_record.or(outcome.value("swap_ins_pages")).unwrap()
        };
        let mut all: Vec<f64> = (0..runs).map(ins).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// What a lap with a use is worth to a page of a region, to how many, and from how many on its accessed bit is not sampled.
    fn saves(own: &mut MillpondOptions, (use_, most, believed): (u8, u8, u8)) {
        (
            own.accessed_bit_weight,
            own.region_usage_count_max,
            own.skip_scan_threshold,
        ) = (use_, most, believed);
    }

    /// Each number of [`MillpondOptions::default`] in turn as it is for files, or another one.
    #[test]
    #[ignore = "a study: prints a table, takes minutes"]
    fn numbers_of_the_rule_with_read_ahead_and_without() {
        let loads = [
            "moving-window",
            "hot-cold",
            "phase-change",
            "stationary",
            "memory-scan",
        ];
        let grid = [
            "ebizzy-1280-0.3-1",
            "ebizzy-1280-0.9-1",
            "ebizzy-1536-0.7-1",
            "ebizzy-2048-1.3-1",
            "ebizzy-1280-0.7-8",
        ];
        type Change = fn(&mut MillpondOptions);
        let rules: [(&str, Change); 14] = [
            ("as it is", |_| ()),
            ("probe of 1", |own| own.probe_pages = 1),
            ("probe of 16", |own| own.probe_pages = 16),
            ("inactive from 2 %", |own| own.inactive_start_per_mille = 20),
            ("inactive from 20 %", |own| own.inactive_start_per_mille = 200),
            ("ghost window 2 %", |own| own.ghost_window = Ratio::percent(2)),
            ("ghost window 10 %", |own| own.ghost_window = Ratio::percent(10)),
            ("no window", |own| own.window = Ratio::percent(0)),
            ("usage count of files to 1", |own| own.usage_count_max = 1),
            ("a use for a lap, to 3, none believed", |own| {
                saves(own, (1, 3, 16))
            }),
            ("2, to 3, believed from 2", |own| saves(own, (2, 3, 2))),
            ("4, to 6, from 4", |own| saves(own, (4, 6, 4))),
            ("5, to 10, from 7", |own| saves(own, (5, 10, 7))),
            ("8, to 15, from 12", |own| saves(own, (8, 15, 12))),
        ];
        for with_read_ahead in [false, true] {
            println!("read-ahead: {with_read_ahead}");
            println!("| rule | {} | {} |", loads.join(" | "), grid.join(" | "));
            for (name, change) in rules {
                let ins = |load, runs, scale| swap_ins(load, (runs, scale), with_read_ahead, change);
                let mut cells = Vec::new();
                for load in loads {
                    let all = ins(load, 9, 1.0);
                    let [least, median, most] = [0, 4, 8].map(|n: usize| all[n] / 1000.0);
                    cells.push(format!("{median:.0}, {least:.0} to {most:.0}"));
                }
                for load in grid {
                    cells.push(format!("{:.2}", ins(load, 3, 0.5)[1]));
                }
                println!("| {name} | {} |", cells.join(" | "));
            }
        }
    }
}
