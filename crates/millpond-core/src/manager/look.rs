//! What a frame holds and what waits at this moment, for those that watch. Nothing here decides anything.

use super::Manager;
use crate::admission::Form;
use crate::io::Reason;
use crate::lru::List;
use crate::page::Phase;
use crate::units::{FileId, FrameNo, Instant, Nanos};

/// What the manager knows of the page in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameLook {
    /// How far it is.
    pub phase: Phase,
    /// Reclaim met it dirty and sent it round: it is on its second chance.
    pub is_tagged: bool,
    /// It is on the active list.
    pub is_active: bool,
}

/// Who waits at one moment, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Waiting {
    /// Why the next write of a device is to be made, if admission holds it back, and for how long it has; of several
    /// devices the longest.
    pub held_back: Option<(Reason, Nanos)>,
    /// For how long a sync has waited for pages that can't be written.
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
        let state = &self.states[frame.index()];
        (state.phase != Phase::Free).then(|| FrameLook {
            phase: state.phase,
            is_tagged: state.laps > 0,
            is_active: self.lru.list_of(frame) == Some(List::Active),
        })
    }

    /// The frames of the active or the inactive list, the next victim first. With the inactive list come what has passed
    /// before it and the newcomers behind it.
    pub fn frames_from_cold(&self, active: bool) -> impl Iterator<Item = FrameNo> + '_ {
        let lists: &[List] = match active {
            true => &[List::Active],
            false => &[List::NoReuse, List::Inactive, List::Window],
        };
        lists.iter().flat_map(|&list| self.lru.iter_from_cold(list))
    }

    /// From now on every decision of reclaim is kept in [`Manager::trace`], and not a sample of them.
    pub fn keep_every_decision(&mut self) {
        self.trace.keep_all();
    }

    /// How many frames there are to look at: those of the pool, and those that it has not given back yet.
    pub fn frames_known(&self) -> u32 {
        self.states.len() as u32
    }

    /// Whether it is anonymous memory and not a file.
    pub fn is_anonymous(&self, file: FileId) -> bool {
        self.is_region(file)
    }

    /// What refaults of files and of regions cost at present, and which kind of page that favours.
    pub fn refault_costs(&self) -> crate::lru::RefaultCosts {
        self.lru.refault_costs()
    }

    /// Who waits at `now`.
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
