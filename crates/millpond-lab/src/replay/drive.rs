//! A load in the simulator's world: a process for each thread, which thinks, calls, and waits for the call.

use super::{Load, Pace, Ran, ReplayOptions, Step};
use crate::error::{LabError, Result};
use millpond_core::io::Reason;
use millpond_core::options::Options;
use millpond_core::units::{Bytes, Instant, Nanos, PageCount};
use millpond_sim::{Costs, Done, Faults, Op, Script, World, WorldOptions};
use std::cell::RefCell;
use std::rc::Rc;

/// How often progress is reported, in virtual time.
const LOOK: Nanos = Nanos::from_millis(200);

/// The observations of a run's scripts.
#[derive(Default)]
struct Seen {
    calls: u64,
    stalled: Nanos,
    stalled_max: Nanos,
    ended: Instant,
}

/// One thread.
struct Replayed {
    steps: std::vec::IntoIter<Step>,
    /// The step after it has thought.
    next: Option<Op>,
    thinks: bool,
    copy: Nanos,
    seen: Rc<RefCell<Seen>>,
}

impl Script for Replayed {
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op {
        if let Some(done) = done.filter(|done| !matches!(done.op, Op::Sleep(_))) {
            let mut seen = self.seen.borrow_mut();
            // What a call takes in which every page is there.
            let work = Nanos(self.copy.0 * pages(&done.op));
            let stalled = Nanos(done.ended.since(done.began).0.saturating_sub(work.0));
            seen.calls += 1;
            seen.stalled = seen.stalled + stalled;
            seen.stalled_max = seen.stalled_max.max(stalled);
            seen.ended = now;
        }
        if let Some(op) = self.next.take() {
            return op;
        }
        match self.steps.next() {
            None => Op::Exit,
            Some(step) if self.thinks && step.think > Nanos::ZERO => {
                self.next = Some(step.op);
                Op::Sleep(step.think)
            }
            Some(step) => step.op,
        }
    }
}

fn pages(op: &Op) -> u64 {
    match *op {
        Op::Read { pages, .. } | Op::Write { pages, .. } | Op::Guard { pages, .. } => pages.into(),
        _ => 0,
    }
}

/// Replays `load` with `frames` frames; reports to `at` how much is done.
///
/// # Errors
/// Of `at`; [`LabError::BadValue`] if the options need more frames.
pub(super) fn run(
    load: &Load,
    policy: Options,
    frames: PageCount,
    options: &ReplayOptions,
    at: &mut dyn FnMut(f64) -> Result<()>,
) -> Result<Ran> {
    let costs = Costs::default();
    let world = WorldOptions {
        options: policy,
        alternatives: Vec::new(),
        frames,
        model: options.device.model()?,
        costs,
        faults: Faults::default(),
        seed: 1,
        validate_every: 0,
    };
    let mut world = World::new(world).map_err(|e| LabError::BadValue {
        option: "--memory",
        value: format!("{} pages", frames.0),
        allowed: e.to_string(),
        instead: "give more".into(),
    })?;
    world.wait_for_ever();
    for &pages in &load.files {
        world.add_file(PageCount(pages));
    }
    let seen = Rc::new(RefCell::new(Seen::default()));
    let calls: usize = load.threads.iter().map(Vec::len).sum();
    for steps in &load.threads {
        world.add_process(Box::new(Replayed {
            steps: steps.clone().into_iter(),
            next: None,
            thinks: options.pace == Pace::Recorded,
            copy: costs.copy,
            seen: seen.clone(),
        }));
    }
    let mut until = Instant(0);
    while !world.is_over() {
        until = until + LOOK;
        world.run(until);
        let done = seen.borrow().calls;
        at(done as f64 / calls.max(1) as f64)?;
    }
    let stats = world.manager().stats();
    let writes = Reason::ALL.into_iter().filter(|reason| !reason.is_read());
    let seen = seen.borrow();
    Ok(Ran {
        misses: stats.pgmajfault,
        read_ahead: stats.readahead_pages,
        stalled: seen.stalled,
        stalled_max: seen.stalled_max,
        written: Bytes(writes.map(|reason| stats.io_bytes[reason as usize]).sum()),
        took: seen.ended.since(Instant(0)),
    })
}
