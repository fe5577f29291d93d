//! The state of a world, for drawing.

use super::World;
use crate::look::{Look, Shade, Strip, ThreadLook, next_write};
use crate::process::{Op, Process, State};
use millpond_core::admission::Form;
use millpond_core::page::Phase;
use millpond_core::units::FrameNo;

impl<A: Form> World<A> {
    /// Its present state, its lists in `parts` parts. Time: some 20 ns a frame.
    pub fn look(&self, parts: usize) -> Look {
        let occupancy = self.manager.occupancy(self.now);
        let derived = self.manager.derived();
        let strip = |name, active, pages| {
            let frames = self.manager.frames_from_cold(active);
            Strip::of(name, pages, parts, frames.map(|frame| self.shade(frame)))
        };
        let mut disk = self.disks[0].model.look();
        let held_back = self.manager.waiting(self.now).held_back;
        disk.queued_writes = u64::from(held_back.is_some());
        let device = self.manager.busiest_device(self.now);
        let mut threads: Vec<ThreadLook> = Vec::new();
        for (n, process) in self.processes.iter().enumerate() {
            let (does, is_held_up) = doing(process);
            let since = is_held_up.then_some(process.began);
            let alike = threads.iter_mut().find(|other| other.does == does);
            match alike.filter(|_| self.processes.len() > MANY) {
                Some(other) => {
                    other.count += 1;
                    other.since = other.since.min(since);
                }
                None => threads.push(ThreadLook {
                    name: if self.processes.len() > MANY {
                        "processes".into()
                    } else {
                        format!("process {n}")
                    },
                    count: 1,
                    does,
                    is_held_up,
                    since,
                }),
            }
        }
        threads.sort_by_key(|thread| thread.does);
        if let Some((reason, span)) = held_back {
            threads.push(ThreadLook {
                name: next_write(reason),
                count: 1,
                does: "held back: a read is expected, or slow",
                is_held_up: true,
                since: Some(millpond_core::units::Instant(self.now.0 - span.0.min(self.now.0))),
            });
        }
        Look {
            strips: vec![
                strip("active", true, occupancy.active.0),
                strip("inactive", false, occupancy.inactive.0),
            ],
            free: occupancy.free.0,
            frames: occupancy.frames.0,
            dirty: occupancy.dirty.0,
            writing: occupancy.writing.0,
            in_transit: Some((device.in_transit.0, device.in_transit_limit.map(|bytes| bytes.0))),
            disk,
            threads,
            limits: vec![
                ("dirty, background", derived.dirty.background.0),
                ("dirty, hard", derived.dirty.hard.0),
                ("free, low", derived.watermarks.low.0),
                ("free, high", derived.watermarks.high.0),
            ],
        }
    }

    /// From now on every decision of reclaim is kept, not a sample of them.
    pub fn keep_every_decision(&mut self) {
        self.manager.keep_every_decision();
    }

    /// Operations and transfers that have been carried out: turns of the queue.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    fn shade(&self, frame: FrameNo) -> Shade {
        let Some(look) = self.manager.look(frame) else {
            return Shade::Clean;
        };
        match look.phase {
            Phase::Loading => Shade::Loading,
            Phase::Writing | Phase::Redirtied => Shade::Writing,
            Phase::Dirty if look.is_tagged => Shade::Tagged,
            Phase::Dirty => Shade::Dirty,
            Phase::Clean | Phase::Free if self.frames.state(frame).uses > 0 => Shade::Used,
            Phase::Clean | Phase::Free => Shade::Clean,
        }
    }
}

/// More processes than these are summarised by activity.
const MANY: usize = 8;

/// A process's activity or wait, and whether that is unwanted.
fn doing(process: &Process) -> (&'static str, bool) {
    match process.state {
        State::Ready => match process.op {
            Op::Read { .. } | Op::Prefetch { .. } => ("reading", false),
            Op::Write { .. } => ("writing", false),
            Op::Sync { .. } => ("syncing", false),
            Op::Sleep(_) => ("doing something else", false),
            _ => ("running", false),
        },
        State::Page(_) => ("waiting for a page to be read", true),
        State::Memory => ("waiting for a free frame", true),
        State::Dirtiers => ("paused: too much is dirty", true),
        State::Ticket(_) => ("waiting for its writes (sync)", true),
        State::Flush(_) => ("waiting for the disk's own cache", true),
        State::Others => ("waiting for another's page", true),
        State::Exited => ("ended", false),
    }
}
