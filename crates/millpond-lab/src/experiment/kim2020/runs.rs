//! All runs of a plan, as many at a time as there are processors.

use super::loads::{CHUNK, Copier, Ebizzy, Load, Zipf, script};
use super::machines::{Which, machine};
use super::optimum::{Misses, misses};
use super::options::{Plan, Variant};
use super::published::throughput;
use crate::error::{LabError, Result};
use crate::experiment::Watch;
use crate::measure::process;
use crate::outcome::{Outcome, Setting};
use crate::sim::draw::Draw;
use crate::sim::era55::{Counters, Era55Options, Machine, Op, Ops};
use crate::target::Proceed;
use millpond_core::lru::anon::AnonRung;
use millpond_core::memory::watermark::{WatermarkRule, Watermarks};
use millpond_core::page::PageKind;
use millpond_core::units::{Nanos, PageSize, Ratio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How often ebizzy fills memory from swap before anything is counted, and after: by what comes back at least. It takes
/// more records the fewer come back.
const FILLS_WARM: f64 = 3.0;
const FILLS: f64 = 3.0;
/// Records for each chunk, at least and at most.
const RECORDS_MIN: f64 = 2.0;
const RECORDS_MAX: f64 = 60.0;

/// A run's result.
pub(super) struct Run {
    pub(super) load: Load,
    /// `None`: what no policy can be better than.
    pub(super) variant: Option<Variant>,
    pub(super) outcome: Outcome,
}

/// Performs all runs; the results are in the plan's order.
pub(super) fn perform(plan: &Plan, watch: &mut dyn Watch) -> Result<Vec<Run>> {
    let mut jobs: Vec<(Load, Option<Variant>)> = Vec::new();
    for &load in &plan.loads {
        jobs.extend(plan.rows(&load).map(|variant| (load, Some(variant))));
        jobs.push((load, None));
    }
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut results: Vec<Option<Result<Run>>> = jobs.iter().map(|_| None).collect();
    let mut done = 0;
    std::thread::scope(|scope| {
        let (sender, news) = channel();
        for _ in 0..process::processors().clamp(1, jobs.len().max(1)) {
            let (sender, next, stop, jobs) = (sender.clone(), &next, &stop, &jobs);
            scope.spawn(move || {
                loop {
                    let n = next.fetch_add(1, Relaxed);
                    let Some(&(load, variant)) = jobs.get(n).filter(|_| !stop.load(Relaxed)) else {
                        break;
                    };
                    let outcome = match variant {
                        Some(variant) => run(plan, load, variant, stop),
                        None => Ok(bounds(plan, load)),
                    };
                    let result = outcome.map(|outcome| Run {
                        load,
                        variant,
                        outcome,
                    });
                    if sender.send((n, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut step = String::new();
        loop {
            match news.recv_timeout(Duration::from_millis(100)) {
                Ok((n, result)) => {
                    done += 1;
                    step = jobs[n].0.name();
                    stop.fetch_or(result.is_err(), Relaxed);
                    results[n] = Some(result);
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            }
            let share = f64::from(done) / jobs.len() as f64;
            let detail = format!("{done} of {} runs done", jobs.len());
            if watch.at(share, &step, &detail) == Proceed::Stop {
                stop.store(true, Relaxed);
            }
        }
    });
    let results = results
        .into_iter()
        .map(|result| result.unwrap_or(Err(LabError::Interrupted)));
    results.collect()
}

/// A run under way.
struct On {
    machine: Machine,
}

impl On {
    fn new(plan: &Plan, load: Load, variant: Variant) -> Result<On> {
        let machine =
            Machine::new(machine(plan.which, &load, variant.rung)).map_err(|e| LabError::RunFailed {
                row: format!("{} on {}", load.name(), variant.name),
                why: e.to_string(),
            })?;
        Ok(On { machine })
    }

    fn finish(&mut self, stop: &AtomicBool) -> Result<()> {
        while !self.machine.run(100_000) {
            if stop.load(Relaxed) {
                return Err(LabError::Interrupted);
            }
        }
        Ok(())
    }
}

fn run(plan: &Plan, load: Load, variant: Variant, stop: &AtomicBool) -> Result<Outcome> {
    let mut on = On::new(plan, load, variant)?;
    let mut outcome = Outcome::default();
    let (from, before) = match load {
        Load::Ebizzy(cell) => {
            let before = warm_up(&mut on, plan, cell, stop)?;
            let from = on.machine.now();
            let records = copiers(&mut on.machine, plan, cell, FILLS, 1);
            on.finish(stop)?;
            let took = on.machine.now().since(from);
            outcome.push("records_per_s", "1/s", records as f64 / seconds(took));
            let ins = on.machine.counters().since(&before).pswpin;
            outcome.push("swap_ins_per_record_pages", "1", ins as f64 / records as f64);
            (from, before)
        }
        _ => {
            let script = script(load, plan.rounds());
            script.add_pages(&mut on.machine);
            on.machine.add_task(script.set_up());
            on.finish(stop)?;
            let (from, before) = (on.machine.now(), *on.machine.counters());
            on.machine.add_task(script.rounds());
            on.finish(stop)?;
            (from, before)
        }
    };
    let counted = on.machine.counters().since(&before);
    push(&mut outcome, &counted);
    let took = on.machine.now().since(from);
    outcome.push("elapsed_seconds", "s", seconds(took));
    outcome.settings = settings(&machine(plan.which, &load, variant.rung));
    Ok(outcome)
}

fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e9
}

fn push(outcome: &mut Outcome, counted: &Counters) {
    let [file, anonymous] = PageKind::ALL.map(|kind| kind as usize);
    for (name, value) in [
        ("swap_ins_pages", counted.pswpin),
        ("swap_outs_pages", counted.pswpout),
        ("file_reads_pages", counted.file_reads),
        ("workingset_refault_anon", counted.workingset_refault[anonymous]),
        ("workingset_activate_anon", counted.workingset_activate[anonymous]),
        ("workingset_restore_anon", counted.workingset_restore[anonymous]),
        ("workingset_refault_file", counted.workingset_refault[file]),
        ("workingset_activate_file", counted.workingset_activate[file]),
        ("pgactivate", counted.pgactivate),
        ("pgdeactivate", counted.pgdeactivate),
        ("pgscan", counted.pgscan),
    ] {
        outcome.push(name, "1", value as f64);
    }
}

fn settings(machine: &Era55Options) -> Vec<Setting> {
    let size = crate::quantity::size;
    vec![
        Setting::new("rules", machine.rung.name()),
        Setting::new("memory", size(machine.memory)),
        Setting::new("of it for the load", size(machine.usable)),
        Setting::new(
            "swap",
            format!("{}, {}", size(machine.swap_size), machine.swap.name()),
        ),
        Setting::new("swappiness", machine.swappiness),
        Setting::new("page-cluster", machine.page_cluster),
    ]
}

/// What a record costs a processor while all is in memory: the post's own row of 512M says it for the skew and threads.
fn record_cost(cell: Ebizzy) -> Nanos {
    let threads = if cell.threads == 1 { 1 } else { 8 };
    let skew = (cell.skew_tenths / 2 * 2 + 1).clamp(1, 13);
    let per_s = throughput(512, skew, threads).map_or(7_000.0, |[base, _]| base);
    Nanos((f64::from(threads) / per_s * 1e9) as u64)
}

/// Records of each thread.
fn records(plan: &Plan, cell: Ebizzy, zipf: &Zipf, fills: f64) -> u64 {
    let chunks = (cell.mb * 2) as f64;
    let room = frames_in_use(plan.which, &Load::Ebizzy(cell)) / CHUNK;
    let missing = 1.0 - zipf.share_of(room);
    let records = fills * room as f64 / missing.max(1e-9);
    let records = records.clamp(chunks * RECORDS_MIN, chunks * RECORDS_MAX);
    ((records * plan.scale) as u64 / u64::from(cell.threads)).max(1)
}

fn zipf(plan: &Plan, cell: Ebizzy) -> Arc<Zipf> {
    Arc::new(Zipf::new(cell.mb * 2, cell.skew_tenths, plan.seed))
}

fn draw(plan: &Plan, phase: u64, thread: u32) -> Draw {
    Draw(plan.seed.wrapping_mul(1_000_003) ^ (phase << 32) ^ u64::from(thread))
}

/// Allocates, and copies until the lists are those of a machine that has done this for a while.
fn warm_up(on: &mut On, plan: &Plan, cell: Ebizzy, stop: &AtomicBool) -> Result<Counters> {
    let pages = cell.mb * 256;
    on.machine
        .add_pages(PageKind::Anonymous, pages + u64::from(cell.threads) * CHUNK);
    let allocate = Op::Touch {
        first: 0,
        pages,
        write: true,
        each: Nanos(100),
    };
    on.machine.add_task(Box::new(Ops::new(vec![allocate])));
    on.finish(stop)?;
    copiers(&mut on.machine, plan, cell, FILLS_WARM, 0);
    on.finish(stop)?;
    Ok(*on.machine.counters())
}

/// Adds the threads; answers how many records they copy together.
fn copiers(machine: &mut Machine, plan: &Plan, cell: Ebizzy, fills: f64, phase: u64) -> u64 {
    let zipf = zipf(plan, cell);
    let each = records(plan, cell, &zipf, fills);
    let cost = Nanos(record_cost(cell).0.saturating_sub(CHUNK * 400) / CHUNK);
    for thread in 0..cell.threads {
        machine.add_task(Box::new(Copier {
            zipf: zipf.clone(),
            draw: draw(plan, phase, thread),
            records: each,
            to: (cell.mb * 256) as u32 + thread * CHUNK as u32,
            each: cost,
        }));
    }
    each * u64::from(cell.threads)
}

/// Frames that hold something: all but those that reclaim keeps free.
pub(super) fn frames_in_use(which: Which, load: &Load) -> u64 {
    let machine = machine(which, load, AnonRung::Linux5_5);
    let scale = Ratio { num: 10, den: 10_000 };
    let memory = machine.memory.to_pages(PageSize::KIB_4);
    let marks = Watermarks::of(WatermarkRule::Linux46 { scale }, memory, PageSize::KIB_4);
    machine.usable.to_pages(PageSize::KIB_4).0 - marks.low.0
}

/// What no policy can be better than on this load, and what least recently used comes to.
fn bounds(plan: &Plan, load: Load) -> Outcome {
    let frames = frames_in_use(plan.which, &load);
    let mut outcome = Outcome::default();
    let Misses { optimum, lru } = match load {
        Load::Ebizzy(cell) => {
            let (chunks, from) = chunks_drawn(plan, cell);
            let room = (frames / CHUNK).saturating_sub(cell.threads.into()).max(1);
            let counted = (chunks.len() - from) as f64;
            let misses = misses(&chunks, from, room);
            for (name, chunks) in [("optimum", misses.optimum), ("lru", misses.lru)] {
                let pages = (chunks * CHUNK) as f64 / counted;
                outcome.push(&format!("swap_ins_per_record_{name}_pages"), "1", pages);
            }
            let popular = zipf(plan, cell).share_of(room);
            outcome.push(
                "swap_ins_per_record_most_popular_kept_pages",
                "1",
                (1.0 - popular) * CHUNK as f64,
            );
            Misses {
                optimum: misses.optimum * CHUNK,
                lru: misses.lru * CHUNK,
            }
        }
        _ => {
            let (uses, from) = script(load, plan.rounds()).uses();
            misses(&uses, from, frames)
        }
    };
    outcome.push("misses_optimum_pages", "1", optimum as f64);
    outcome.push("misses_lru_pages", "1", lru as f64);
    outcome
}

/// All chunks in the order of their uses, threads in turn, and how many are before what is counted.
pub(super) fn chunks_drawn(plan: &Plan, cell: Ebizzy) -> (Vec<u32>, usize) {
    let zipf = zipf(plan, cell);
    let mut chunks: Vec<u32> = (0..(cell.mb * 2) as u32).collect();
    let mut from = 0;
    for (phase, fills) in [(0, FILLS_WARM), (1, FILLS)] {
        from = chunks.len();
        let mut draws: Vec<Draw> = (0..cell.threads)
            .map(|thread| draw(plan, phase, thread))
            .collect();
        for _ in 0..records(plan, cell, &zipf, fills) {
            chunks.extend(draws.iter_mut().map(|draw| zipf.draw(draw)));
        }
    }
    (chunks, from)
}
