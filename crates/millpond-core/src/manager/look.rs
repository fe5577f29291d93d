//! What a frame holds and what waits at this moment, for observers. Nothing here makes a decision.

use super::Manager;
use crate::admission::Form;
use crate::io::Reason;
use crate::lru::List;
use crate::page::Phase;
use crate::units::{FileId, FrameNo, Instant, Nanos};

/// What the manager knows of the page in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameLook {
    /// Its phase.
    pub phase: Phase,
    /// Reclaim found it dirty and gave it a second chance.
    pub is_tagged: bool,
    /// It is on the active list.
    pub is_active: bool,
}

/// What waits at one moment, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Waiting {
    /// The reason of a device's next write, if the admission holds it back, and for how long it has; over all devices
    /// the longest.
    pub held_back: Option<(Reason, Nanos)>,
    /// How long a sync has waited for pages that can't be written at the moment.
    pub sync_blocked: Option<Nanos>,
    /// Dirtiers that pause.
    pub dirtiers_blocked: u64,
    /// A caller waits for a frame.
    pub memory: bool,
}

impl<A: Form> Manager<A> {
    /// What is in `frame`; `None` if it holds nothing.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn look(&self, frame: FrameNo) -> Option<FrameLook> {
        let state = &self.pool[frame];
        (state.phase() != Phase::Free).then(|| FrameLook {
            phase: state.phase(),
            is_tagged: state.laps > 0,
            is_active: self.lru.list_of(frame) == Some(List::Active),
        })
    }

    /// The frames of the active or the inactive list, next victim first. The inactive list includes the pages that
    /// leave before it and the newcomers after it.
    pub fn frames_from_cold(&self, active: bool) -> impl Iterator<Item = FrameNo> + '_ {
        let lists: &[List] = match active {
            true => &[List::Active],
            false => &[List::NoReuse, List::Inactive, List::Window],
        };
        lists.iter().flat_map(|&list| self.lru.iter_from_cold(list))
    }

    /// Keeps every reclaim decision in [`Manager::trace`] from here on, instead of a sample.
    pub fn keep_every_decision(&mut self) {
        self.trace.keep_all();
    }

    /// The number of frames: those of the pool, and those it has not given back yet.
    pub fn frames_known(&self) -> u32 {
        self.pool.known().0 as u32
    }

    /// Whether `file` is anonymous memory.
    pub fn is_anonymous(&self, file: FileId) -> bool {
        self.files.is_region(file)
    }

    /// The current refault costs of files and of regions, and which kind of page they favor.
    pub fn refault_costs(&self) -> crate::lru::RefaultCosts {
        self.lru.refault_costs()
    }

    /// What waits at `now`.
    pub fn waiting(&self, now: Instant) -> Waiting {
        Waiting {
            held_back: (self.devices.iter())
                .filter_map(|device| device.held_back.at(now))
                .max_by_key(|&(_, span)| span),
            sync_blocked: self.waits.now_sync_blocked(now),
            dirtiers_blocked: self.blocked.len() as u64,
            memory: self.memory_waiters,
        }
    }
}
