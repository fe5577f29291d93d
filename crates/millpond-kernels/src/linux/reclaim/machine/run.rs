//! The post's two loads on the post's machine, with the other programs of the time.

use super::counters::Counters;
use super::options::MachineOptions;
use super::scheduler::Machine;
use super::scripts::{BackgroundTask, FsMark, Habits, Micro, Round, Rounds};
use millpond_core::reclaim::trace::Trace;
use millpond_core::units::Nanos;
use millpond_sim::disk::ModelParameterError;

/// The load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Rounds of 150 files of 10 MiB. The post: 25.
    FsMark {
        /// Their number.
        rounds: u32,
    },
    /// A mapping of this many pages, written once. The post: 4.76 GiB, from its "page outs".
    Micro {
        /// Their number.
        pages: u64,
    },
}

/// Files of a round.
pub const FILES: u32 = 150;
/// Pages of a file: 10 MiB.
const FILE_PAGES: u64 = 2560;
/// Pages of micro's mapping.
pub const MICRO_PAGES: u64 = 1_247_000;

/// Pages of the load itself. fs_mark's are used in each round, its first eight for each file.
const OWN_PAGES: u32 = 60;
const OWN_HOT: u32 = 8;

/// What ran beside the load: pages, and what is done with them. The first are programs that are not used. Chosen so that
/// what is swapped is of the order of the post's last three columns.
const BACKGROUND_TASKS: [(u32, Habits); 3] = [
    (4_000, habits(3_600_000, 0, 1)),
    (1_000, habits(1_000, 8, 8)),
    (3_000, habits(1_000, 2, 8)),
];

const fn habits(period_ms: u64, runs: u32, renewed_one_in: u64) -> Habits {
    Habits {
        period: Nanos::from_millis(period_ms),
        runs,
        run_pages: 16,
        changed_one_in: 3,
        renewed_one_in,
    }
}

/// All anonymous pages of the load and the tasks beside it.
pub fn anonymous_pages() -> u32 {
    OWN_PAGES + BACKGROUND_TASKS.iter().map(|(pages, _)| pages).sum::<u32>()
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The counters.
    pub counters: Counters,
    /// From the load's beginning to its end.
    pub elapsed: Nanos,
    /// Processor time: of the load and the tasks beside it, of kswapd, of the flusher.
    pub cpu: [Nanos; 3],
    /// fs_mark's rounds.
    pub rounds: Vec<Round>,
    /// Reclaim's decisions.
    pub trace: Trace,
}

/// Steps between two calls of the observer.
const STEPS: u32 = 50_000;

/// The post's machine with `load` and what ran beside it, at its beginning; pages that the load writes, and where its rounds
/// are noted.
///
/// # Errors
/// If the disk can't be.
pub fn loaded(options: MachineOptions, load: Load) -> Result<(Machine, u64, Rounds), ModelParameterError> {
    let mut machine = Machine::new(options)?;
    let rounds = Rounds::default();
    let own = (machine.add_anonymous(OWN_PAGES), OWN_PAGES);
    let pages = match load {
        Load::FsMark { rounds: count } => {
            let sizes = (count, FILES, FILE_PAGES);
            let script = FsMark::new(sizes, own, OWN_HOT, options.costs.think, rounds.clone());
            machine.add_task(Box::new(script));
            u64::from(count) * u64::from(FILES) * FILE_PAGES
        }
        Load::Micro { pages } => {
            machine.add_task(Box::new(Micro::new(pages, own)));
            pages
        }
    };
    for (n, (pages, habits)) in BACKGROUND_TASKS.into_iter().enumerate() {
        let own = (machine.add_anonymous(pages), pages);
        let seed = options.seed.wrapping_mul(BACKGROUND_TASKS.len() as u64 + 1) + n as u64;
        machine.add_task(Box::new(BackgroundTask::new(own, habits, seed)));
    }
    Ok((machine, pages, rounds))
}

/// Runs a load. `at` is told now and then how much of it is done, from 0 to 1, and says whether to go on; `None` if not.
///
/// # Errors
/// If the disk can't be.
pub fn run(
    options: MachineOptions,
    load: Load,
    at: &mut dyn FnMut(f64) -> bool,
) -> Result<Option<Ran>, ModelParameterError> {
    let (mut machine, pages, rounds) = loaded(options, load)?;
    while !machine.run(STEPS) {
        if cfg!(debug_assertions) {
            machine.validate();
        }
        if !at(machine.file_pages_written() as f64 / pages as f64) {
            return Ok(None);
        }
    }
    let rounds = rounds.borrow().clone();
    Ok(Some(Ran {
        counters: *machine.counters(),
        elapsed: Nanos(machine.now().0),
        cpu: machine.cpu(),
        rounds,
        trace: machine.trace().clone(),
    }))
}
