//! The machine's state, for drawing. Nothing here decides anything.

use super::memory::{ACTIVE, CACHE, DIRTY, INACTIVE, LAP, LAUNDRY, READING, USED, WRITING};
use super::scheduler::Machine;
use crate::freebsd::laundering::Verdict;
use millpond_core::page::PageKind;
use millpond_core::reclaim::trace::{Caller, Outcome, Trace};
use millpond_core::units::{FileId, PageIndex, PageKey};
use millpond_sim::look::{Look, Shade, Strip, ThreadLook};

const QUEUES: [(usize, &str); 4] = [
    (ACTIVE, "active"),
    (INACTIVE, "inactive"),
    (LAUNDRY, "laundry"),
    (CACHE, "cache"),
];

fn shade(flags: u8) -> Shade {
    match flags {
        _ if flags & READING != 0 => Shade::Loading,
        _ if flags & WRITING != 0 => Shade::Writing,
        _ if flags & (DIRTY | LAP) == DIRTY | LAP => Shade::Tagged,
        _ if flags & DIRTY != 0 => Shade::Dirty,
        _ if flags & USED != 0 => Shade::Used,
        _ => Shade::Clean,
    }
}

/// The daemon's verdict in the words of a trace. A page that goes to the laundry queue is "tagged".
const fn outcome(verdict: Verdict, is_busy: bool) -> Outcome {
    match verdict {
        Verdict::Rotate => Outcome::KeptInUse,
        Verdict::Skip if is_busy => Outcome::KeptWriting,
        Verdict::Skip => Outcome::Skipped,
        Verdict::Activate => Outcome::Activated,
        Verdict::Free | Verdict::Cache => Outcome::Freed,
        Verdict::MarkLap => Outcome::MarkedLap,
        Verdict::Launder => Outcome::WriteStarted,
        Verdict::ToLaundry => Outcome::Tagged,
    }
}

impl Machine {
    /// Notes a decision of the daemon in its present pass.
    pub(super) fn note(&mut self, frame: u32, verdict: Verdict, is_busy: bool, pass: u32) {
        let (state, at) = (self.memory.frames[frame as usize], self.now);
        let is_own = self.memory.objects[state.object as usize].place.is_none();
        let kind = if is_own {
            PageKind::Anonymous
        } else {
            PageKind::File
        };
        let key = || PageKey::new(FileId(state.object), PageIndex(state.page.into()));
        let outcome = outcome(verdict, is_busy);
        self.trace
            .note(Caller::Kswapd, kind, outcome, || (at, key(), pass));
    }

    /// The daemon's decisions; the priority is its pass.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// From now on every decision is kept, not a sample of them.
    pub fn keep_every_decision(&mut self) {
        self.trace.keep_all();
    }

    /// Its present state, its queues in `parts` parts each. Time: some 20 ns a frame.
    pub fn look(&self, parts: usize) -> Look {
        let queues = QUEUES
            .iter()
            .filter(|&&(queue, _)| queue != LAUNDRY || self.is_modern());
        let strips = queues.map(|&(queue, name)| {
            let frames = self.memory.queues.iter_from_cold(queue);
            let shades = frames.map(|frame| shade(self.memory.frames[frame.index()].flags));
            Strip::of(name, self.memory.len(queue).0, parts, shades)
        });
        let has = |flags: u8| self.memory.frames.iter().filter(|f| f.flags & flags != 0).count() as u64;
        let cached = self.memory.len(CACHE).0;
        Look {
            strips: strips.collect(),
            free: self.memory.available().0 - cached,
            frames: self.memory.frames.len() as u64,
            dirty: has(DIRTY),
            writing: has(WRITING),
            in_transit: Some((self.disk.in_transit(), None)),
            disk: self.disk.model.look(),
            threads: self.threads(),
            limits: vec![
                ("free, min", self.targets.free_min.0),
                ("free, target", self.targets.free_target.0),
                ("inactive, target", self.targets.inactive_target.0),
            ],
        }
    }

    fn threads(&self) -> Vec<ThreadLook> {
        let (does, is_held_up) = self.daemon_does();
        let mut threads = vec![ThreadLook {
            name: "pageout daemon".into(),
            count: 1,
            does,
            is_held_up,
            since: None,
        }];
        let mut counts: Vec<(&'static str, bool, u64)> = Vec::new();
        for reader in &self.readers {
            let (does, is_held_up) = reader.does();
            match counts.iter_mut().find(|(other, ..)| *other == does) {
                Some((.., count)) => *count += 1,
                None => counts.push((does, is_held_up, 1)),
            }
        }
        counts.sort_unstable();
        threads.extend(counts.into_iter().map(|(does, is_held_up, count)| ThreadLook {
            name: "readers".into(),
            count,
            does,
            is_held_up,
            since: None,
        }));
        threads
    }
}
