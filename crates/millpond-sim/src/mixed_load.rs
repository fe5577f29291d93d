//! A mixed load: an endless writer and an intermittent reader. Reports what both get, by short intervals of virtual
//! time.

use super::process::{Done, Op, Script};
use super::scripts::axboe2016::{Reader, Seen, Shared, Writer};
use super::{Costs, Faults, World, WorldOptions};
use crate::disk::Model;
use millpond_core::admission::AdmissionOptions;
use millpond_core::io::Reason;
use millpond_core::options::{OptionError, Options};
use millpond_core::units::{Bytes, Instant, Nanos, PageCount};
use std::rc::Rc;

/// The schedule.
#[derive(Debug)]
pub struct MixedLoad {
    /// The disk.
    pub model: Model,
    /// When writes may go.
    pub admission: AdmissionOptions,
    /// Memory.
    pub frames: PageCount,
    /// When the reader comes, when it goes, and when it is over.
    pub comes: Instant,
    /// See `comes`.
    pub goes: Instant,
    /// The time between two reads; zero: none.
    pub think: Nanos,
    /// See `comes`.
    pub ends: Instant,
    /// The length of a stretch.
    pub stretch: Nanos,
}

/// The events of one stretch.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// When it began.
    pub at: Instant,
    /// The bytes that the device was given to write.
    pub written: Bytes,
    /// The limit in transit at its end.
    pub limit: Bytes,
    /// Reads that were begun in it, and how long each took.
    pub reads: Vec<(Instant, Nanos)>,
}

/// Reads from a time on.
struct Late {
    from: Instant,
    reader: Reader,
}

impl Script for Late {
    fn next(&mut self, now: Instant, done: Option<&Done>) -> Op {
        if now < self.from {
            return Op::Sleep(self.from.since(now));
        }
        self.reader.next(now, done)
    }
}

impl MixedLoad {
    /// Plays it: a process that writes files of 64 MiB one after the other in calls of 256 KiB, and one that reads pages of
    /// a file of 1 GiB at random, one after the other.
    ///
    /// # Errors
    /// If the admission's settings are out of range.
    pub fn play(self) -> Result<Vec<Stretch>, OptionError> {
        const READ_FILE: PageCount = PageCount(262_144);
        const FILE: u64 = 16_384;
        let mut world = World::new(WorldOptions {
            options: Options {
                admission: self.admission,
                ..Options::default()
            },
            alternatives: Vec::new(),
            frames: self.frames,
            model: self.model,
            costs: Costs::default(),
            faults: Faults::default(),
            seed: 1,
            validate_every: 0,
        })?;
        let seen = Shared::default();
        let read_file = world.add_file(READ_FILE);
        let files = (0..1_000).map(|_| world.add_file(PageCount(FILE))).collect();
        world.add_process(Box::new(Writer::new(files, FILE, 64, seen.clone())));
        world.add_process(Box::new(Late {
            from: self.comes,
            reader: Reader::new(read_file, READ_FILE.0, 7, self.goes, seen.clone()).thinking(self.think),
        }));
        let written = |world: &World| -> u64 {
            let bytes = &world.manager().stats().io_bytes;
            let writes = Reason::ALL.into_iter().filter(|r| !r.is_read());
            writes.map(|r| bytes[r as usize]).sum()
        };
        let (mut stretches, mut at, mut before) = (Vec::new(), Instant(0), 0);
        while at < self.ends {
            let end = at + self.stretch;
            world.run(end);
            let total = written(&world);
            stretches.push(Stretch {
                at,
                written: Bytes(total - before),
                limit: world.manager().occupancy(end).in_transit_limit,
                reads: Vec::new(),
            });
            (at, before) = (end, total);
        }
        let seen: Rc<std::cell::RefCell<Seen>> = seen;
        for &(ended, took) in &seen.borrow().missed {
            let began = Instant(ended.0 - took.0);
            let n = (began.0 / self.stretch.0) as usize;
            if let Some(stretch) = stretches.get_mut(n) {
                stretch.reads.push((began, took));
            }
        }
        Ok(stretches)
    }
}
