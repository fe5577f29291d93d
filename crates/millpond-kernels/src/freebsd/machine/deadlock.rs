//! Memory that is nothing but dirty, and writes that need memory: Dillon 2000's second part.
//!
//! ```text
//!   2 processes change 20 MiB each, at once, on a machine of 16 MiB; a write needs a frame of its own until it ends
//!   without the reserve    they take all frames; no write can begin, so none is ever free again
//!   with it                they stop at a severe shortage; writes go on with what is left, and so do all
//! ```

use super::options::{MachineOptions, News};
use super::scheduler::Machine;
use crate::freebsd::System;
use millpond_core::units::{Bytes, Instant, Nanos, PageCount};
use millpond_sim::disk::ModelParameterError;

/// The result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// When nothing could happen any longer; `None` if something always could.
    pub at: Option<Instant>,
    /// Free frames then, or at the end.
    pub available: u64,
    /// Dirty pages then.
    pub dirty: u64,
    /// Clusters that were written.
    pub clusters: u64,
    /// Rounds of changes that processes have finished.
    pub rounds: u64,
}

/// The machine and its load.
fn options(system: System, io_reserve: bool, seed: u64) -> MachineOptions {
    let usual = MachineOptions::new(system);
    MachineOptions {
        rules: crate::freebsd::FreeBsdRules {
            io_reserve,
            ..usual.rules
        },
        memory: Bytes::from_mib(16),
        kernel: PageCount(0),
        frames_per_write: 1,
        news: News {
            readers: 2,
            article_pages: 0,
            think: Nanos::from_millis(10),
            spool: Bytes(4096),
            own_pages: 5000,
            own_hot: 5000,
            own_draws: 0,
            history_pages: 1,
            history_draws: 0,
        },
        seed,
        ..usual
    }
}

/// Lets processes change all of their memory repeatedly until `until`, or until nothing can happen.
///
/// # Errors
/// If the disk can't be.
pub fn stuck(
    system: System,
    io_reserve: bool,
    seed: u64,
    until: Instant,
) -> Result<Stuck, ModelParameterError> {
    let mut machine = Machine::new(options(system, io_reserve, seed))?;
    let mut at = None;
    while machine.now() < until {
        machine.run(machine.now() + Nanos::from_millis(100));
        if machine.is_stuck() {
            at = Some(machine.now());
            break;
        }
    }
    machine.validate();
    let [.., dirty] = machine.pages();
    Ok(Stuck {
        at,
        available: machine.available(),
        dirty,
        clusters: machine.counters().clusters,
        rounds: machine.noted().latencies.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN_S: Instant = Instant(10_000_000_000);

    #[test]
    fn without_the_reserve_nothing_can_ever_be_written_and_with_it_all_goes_on() {
        for system in System::ALL {
            let [without, with] = [false, true].map(|reserve| stuck(system, reserve, 1, TEN_S).unwrap());
            assert!(without.at.is_some(), "{system:?}: {without:?}");
            assert_eq!(
                (without.available, without.clusters),
                (0, 0),
                "{system:?}: {without:?}"
            );
            assert_eq!(without.dirty, 4096, "{system:?}: nothing but dirty pages");
            assert_eq!(with.at, None, "{system:?}: {with:?}");
            assert!(with.clusters > 100, "{system:?}: {with:?}");
        }
    }
}
