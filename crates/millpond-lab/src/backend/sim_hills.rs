//! Hills 2015's workload in virtual time: writers on a modelled disk, under any limits, with and without a hand that touches
//! them.

use super::millpond_rows;
use crate::error::{LabError, Result};
use crate::measure::latency::Latencies;
use crate::outcome::{Outcome, Setting};
use crate::setup::Setup;
use crate::storage::DirtyLimits;
use crate::watch::Proceed;
use crate::workload::Progress;
use crate::workload::hills2015::Hills2015;
use millpond_core::manager::Derived;
use millpond_core::options::Options;
use millpond_core::units::{Instant, Nanos, PageCount, PageSize};
use millpond_sim::scripts::hills2015::{Dd, Shared, Tuner};
use millpond_sim::{Costs, Faults, World, WorldOptions};
use std::io;
use std::time::Duration;

/// Virtual time between two reports of progress.
const SLICE: Nanos = Nanos::from_millis(500);
/// The number of limits set one after the other, then again from the first.
const ALTERNATIVES: u64 = 4096;

/// Performs `work` in virtual time.
///
/// # Errors
/// Options that can't be; [`LabError::Interrupted`].
pub(super) fn run(
    setup: &Setup,
    work: &Hills2015,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    let mut options = millpond_rows::options(setup)?;
    let with = |both: DirtyLimits| {
        let mut options = options.clone();
        (options.dirty.background, options.dirty.hard) = (both.background, both.hard);
        options
    };
    let mut alternatives: Vec<Options> = Vec::new();
    if work.storm_us.is_some() {
        alternatives.extend((0..ALTERNATIVES).map(|n| with(DirtyLimits::any(work.seed, n))));
        alternatives.push(with(DirtyLimits::LAST));
    }
    if let Some(hard) = work.hard {
        options = with(DirtyLimits::of_hard(hard));
    }
    let frames = setup.memory.to_pages(options.page_size);
    let count = alternatives.len();
    let last = alternatives.last().map(|last| Derived::of(last, frames));
    let mut world = World::new(WorldOptions {
        options,
        alternatives,
        frames,
        model: setup.device.model_or_hdd().model()?,
        costs: Costs::default(),
        faults: Faults::default(),
        seed: work.seed,
        validate_every: 0,
    })
    .map_err(|e| LabError::path("cannot simulate for", &setup.dir, io::Error::other(e.to_string())))?;
    let seen = Shared::default();
    let pages = work.bytes / u64::from(work.writers) / PageSize::KIB_4.bytes();
    for _ in 0..work.writers {
        let file = world.add_file(PageCount(pages));
        world.add_process(Box::new(Dd::new(file, pages, seen.clone())));
    }
    if let Some(us) = work.storm_us {
        world.add_process(Box::new(Tuner::new(count, Nanos::from_micros(us), seen.clone())));
    }
    while !world.is_over() {
        world.run(world.now() + SLICE);
        let written: u64 = seen.borrow().pages.iter().sum();
        let report = Progress {
            doing: "simulating".into(),
            share: 0.95 * written as f64 / (pages * u64::from(work.writers)) as f64,
            detail: format!("{:.0} s of virtual time", world.now().0 as f64 / 1e9),
            beat: world.now().0,
            live: None,
        };
        if progress(report) == Proceed::Stop {
            return Err(LabError::Interrupted);
        }
    }
    let seen = seen.borrow();
    let mut writes = Latencies::new();
    seen.writes
        .iter()
        .for_each(|took| writes.record(Duration::from_nanos(took.0)));
    let mut outcome = Outcome::default();
    let storm = last.map(|last| (seen.touched, Some(*world.manager().derived() == last)));
    work.report(
        &mut outcome,
        seen.synced.since(Instant(0)).0 as f64 / 1e9,
        &writes,
        storm,
    );
    let at_first = &seen.pages_at_first;
    if let (Some(least), Some(&most), true) = (at_first.iter().min(), at_first.iter().max(), work.writers > 1)
    {
        outcome.push(
            "writers_apart_percent",
            "%",
            (1.0 - *least as f64 / most as f64) * 100.0,
        );
    }
    outcome.settings = vec![
        Setting::new("disk", world.model().name()),
        Setting::new("memory frames", frames.0),
        Setting::new(
            "dirty background, hard",
            format_args!(
                "{:?}, {:?}",
                world.manager().derived().dirty.background,
                world.manager().derived().dirty.hard
            ),
        ),
    ];
    Ok(outcome)
}
