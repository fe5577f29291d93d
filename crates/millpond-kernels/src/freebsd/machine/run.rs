//! The news on the post's machine.

use super::counters::{Counters, Noted};
use super::options::MachineOptions;
use super::scheduler::Machine;
use millpond_core::units::{Instant, Nanos};
use millpond_sim::disk::{ModelParameterError, ModelStatistics};

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Counts of the part that was measured.
    pub counters: Counters,
    /// All that was noted, the beginning included.
    pub noted: Noted,
    /// When the part that was measured began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
    /// The disk's activity meanwhile.
    pub disk: ModelStatistics,
}

/// Runs the news for `warm_up` and then `length`. `at` is told now and then how far it is, from 0 to 1, and says whether to
/// go on; `None` if not.
///
/// # Errors
/// If the disk can't be.
pub fn run(
    options: MachineOptions,
    (warm_up, length): (Nanos, Nanos),
    at: &mut dyn FnMut(f64) -> bool,
) -> Result<Option<Ran>, ModelParameterError> {
    let mut machine = Machine::new(options)?;
    let (from, to) = (Instant(0) + warm_up, Instant(0) + warm_up + length);
    let mut before = Counters::default();
    while machine.now() < to {
        let next = machine.now() + Nanos::from_secs(1);
        machine.run(next.min(to));
        if cfg!(debug_assertions) {
            machine.validate();
        }
        if machine.now() == from {
            machine.reset_disk();
            before = machine.counters().clone();
        }
        if !at(machine.now().0 as f64 / to.0 as f64) {
            return Ok(None);
        }
    }
    Ok(Some(Ran {
        counters: machine.counters().since(&before),
        noted: machine.noted().clone(),
        from,
        to,
        disk: machine.disk(),
    }))
}
