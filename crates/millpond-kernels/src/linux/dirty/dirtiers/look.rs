//! The state of tasks and device, for drawing. Nothing here decides anything.

use super::{Dirtied, Dirtiers, TRANSIT_PAGES};
use crate::linux::dirty::touch::Touched;
use millpond_core::units::Instant;
use millpond_sim::disk::COMMAND_BYTES_MAX;
use millpond_sim::look::{DiskLook, Look, Shade, Strip, ThreadLook};

/// A sleep of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// The task.
    pub task: usize,
    /// When it began, in nanoseconds.
    pub at: u64,
    /// When it ends.
    pub until: u64,
    /// Pages dirty or being written.
    pub dirty: u64,
    /// The hard limit, in pages, as tasks find it.
    pub hard: u64,
    /// Pages that the task had dirtied since its last look.
    pub dirtied: u64,
}

/// The number of pauses kept.
const PAUSES_MAX: usize = 256;

impl Dirtiers {
    pub(super) fn note_pause(&mut self, task: usize, dirtied: u64, until: u64) {
        if self.pauses.len() == PAUSES_MAX {
            self.pauses.remove(0);
        }
        self.pauses_all += 1;
        self.pauses.push(Pause {
            task,
            at: self.now,
            until,
            dirty: self.dirty + self.transit,
            hard: self.machine.found_by_tasks().hard.0,
            dirtied,
        });
    }

    /// The last pauses, the oldest first, and how many there were in all.
    pub fn pauses(&self) -> (&[Pause], u64) {
        (&self.pauses, self.pauses_all)
    }

    /// The settings, and the values derived from them.
    pub fn machine(&self) -> &Touched {
        &self.machine
    }

    /// The result so far. The seconds are whole ones, but for the last.
    pub fn seen(&self) -> &Dirtied {
        &self.seen
    }

    /// Events so far.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<u64> {
        self.queue.peek().map(|entry| entry.0.0)
    }

    /// Its present state: dirty pages in `parts` parts.
    pub fn look(&self, parts: usize) -> Look {
        let shades = std::iter::repeat_n(Shade::Writing, self.transit as usize);
        let shades = shades.chain(std::iter::repeat_n(Shade::Dirty, self.dirty as usize));
        let in_force = self.machine.in_force();
        let found = self.machine.found_by_tasks();
        let is_paused = |n: usize| {
            self.pauses
                .iter()
                .rev()
                .find(|p| p.task == n && p.until > self.now)
        };
        let threads = (0..self.tasks.len()).map(|n| {
            let pause = is_paused(n);
            ThreadLook {
                name: "dd".into(),
                count: 1,
                does: if pause.is_some() {
                    "paused: too much is dirty"
                } else {
                    "writing"
                },
                is_held_up: pause.is_some(),
                since: pause.map(|pause| Instant(pause.at)),
            }
        });
        let commands = self.transit * 4096 / COMMAND_BYTES_MAX.0;
        Look {
            strips: vec![Strip::of("dirty", self.dirty + self.transit, parts, shades)],
            free: 0,
            frames: 0,
            dirty: self.dirty,
            writing: self.transit,
            in_transit: Some((self.transit * 4096, Some(TRANSIT_PAGES * 4096))),
            disk: DiskLook {
                works_on_write: (self.transit > 0).then_some(true),
                writes: commands,
                ..DiskLook::default()
            },
            threads: threads.collect(),
            limits: vec![
                ("hard limit, as a task finds it now", found.hard.0),
                ("background limit", found.background.0),
                ("limit that stops tasks, derived last", in_force.thresholds.hard.0),
                ("ratelimit: pages between two looks", in_force.ratelimit.0),
                ("dirtyable memory when derived", in_force.dirtyable.0),
            ],
        }
    }
}
