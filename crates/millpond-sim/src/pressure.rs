//! Worlds under memory pressure: dirty pages are at their limit, pages are held up to the limit or beyond it, and the
//! device is slow.
//!
//! ```text
//!   pressure  processes                                            the result of an allocation
//!   ─────────────────────────────────────────────────────────────────────────────────────────────────
//!   writers   writers fill memory, readers need frames             it waits, and gets its frame
//!   broken    the same, and some files are unwritable              the same; dirtiers may get the file's error
//!   held      as writers, and guards hold what memory can spare    it waits, and gets its frame
//!   beyond    the same, and guards ask for more than memory has    it waits, or fails at its timeout
//! ```
//!
//! A prefetch never waits. No process hangs in any of these worlds, and when the guards are dropped everything comes to
//! rest as in the swarm. Dillon 2000 calls this the low-memory deadlock.

use super::faults::{Faults, Seen};
use super::process::{Done, Failure, Op, Script};
use super::swarm::{Report, come_to_rest, model, options, report};
use super::world::{Costs, World, WorldOptions};
use crate::draw::Draw;
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::units::{FileId, Instant, Nanos, PageCount, Ratio};

/// The kinds of memory pressure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Pressure {
    /// Writers and readers.
    Writers,
    /// And files that can't be written.
    Broken,
    /// Writers, readers, and guards that leave some frames.
    Held,
    /// Guards that want more frames than there are.
    Beyond,
}

impl Pressure {
    /// All of them.
    pub const ALL: [Pressure; 4] = [
        Pressure::Writers,
        Pressure::Broken,
        Pressure::Held,
        Pressure::Beyond,
    ];
}

/// The result of a world under pressure.
#[derive(Clone, Copy, Debug)]
pub struct PressureReport {
    /// The kind of pressure.
    pub pressure: Pressure,
    /// As of any world.
    pub world: Report,
    /// The most pages that were dirty or being written at a time, in parts of 1000 of those that may be.
    pub unclean_permille_max: u64,
    /// The most pages that guards held at a time, in parts of 1000 of the pool.
    pub held_permille_max: u64,
}

/// Writes, reads or prefetches a few pages at a time, anywhere.
struct Busy {
    draw: Draw,
    left: u32,
    files: Vec<(FileId, u64)>,
    /// The percentage of operations that write.
    writes: u64,
}

impl Script for Busy {
    fn next(&mut self, _: Instant, _: Option<&Done>) -> Op {
        if self.left == 0 {
            return Op::Exit;
        }
        self.left -= 1;
        let (file, len) = self.files[self.draw.below(self.files.len() as u64) as usize];
        let first = self.draw.below(len);
        let most = if self.draw.one_in(4) { 64 } else { 4 };
        let pages = (1 + self.draw.below(most)).min(len - first) as u32;
        if self.draw.below(100) < self.writes {
            Op::Write { file, first, pages }
        } else if self.draw.one_in(10) {
            Op::Prefetch { file, first, pages }
        } else {
            Op::Read { file, first, pages }
        }
    }
}

/// Holds many pages of one file, again and again.
struct Holder {
    draw: Draw,
    left: u32,
    file: FileId,
    len: u64,
    pages: u64,
    /// The maximum number to change.
    changes: u64,
}

impl Script for Holder {
    fn next(&mut self, _: Instant, done: Option<&Done>) -> Op {
        if let Some(Done {
            result: Err(failure), ..
        }) = done
        {
            assert!(
                matches!(failure, Failure::NoFrames | Failure::Device(_)),
                "a guard was refused for {failure:?}"
            );
        }
        if self.left == 0 {
            return Op::Exit;
        }
        self.left -= 1;
        let change = self.draw.one_in(3);
        let pages = if change { self.changes } else { self.pages };
        Op::Guard {
            file: self.file,
            first: self.draw.below(self.len - pages + 1),
            pages: pages as u32,
            change,
            span: Nanos(self.draw.below(300_000_000)),
        }
    }
}

/// Runs the world under pressure of `seed`.
///
/// # Panics
/// If a check fails, a process stops forever, or an allocation fails that should only wait.
pub fn run(seed: u64) -> PressureReport {
    let mut draw = Draw(seed ^ 0xc0de_d0c5);
    let pressure = Pressure::ALL[(seed % 4) as usize];
    let mut options = options(&mut draw);
    // What can't be written stays in memory for good, beyond the limit by what each dirtier changes at a time: there
    // the limit leaves room for that.
    let (frames, percent, broken_files) = match pressure {
        Pressure::Broken => (PageCount(512 + draw.below(512)), 50, 1 + draw.below(3)),
        _ => (PageCount(96 + draw.below(160)), 100, 0),
    };
    options.dirty.hard = DirtyLimit::Share(Ratio::percent(percent));
    options.dirty.background = DirtyLimit::Share(Ratio::percent(percent / 2 + draw.below(51) as u32));
    let world = WorldOptions {
        options,
        alternatives: Vec::new(),
        frames,
        model: model(&mut draw),
        costs: Costs::default(),
        faults: Faults {
            // Slow enough to write all of memory, page by page, in a third of the time that an allocation may wait.
            slow: Nanos(10_000_000_000 / frames.0 / (1 + draw.below(10))),
            broken_files,
            ..Faults::default()
        },
        seed: draw.bits(),
        validate_every: 100 + draw.below(400),
    };
    let mut world = World::new(world).unwrap_or_else(|e| panic!("only what can be is drawn: {e}"));
    let derived = *world.manager().derived();
    let files: Vec<_> = (0..2)
        .map(|_| (world.add_file(frames + frames), frames.0 * 2))
        .collect();
    for n in 0..2 + draw.below(4) {
        world.add_process(Box::new(Busy {
            draw: Draw(draw.bits()),
            left: if pressure == Pressure::Beyond { 4 } else { 20 } + draw.below(20) as u32,
            files: files.clone(),
            writes: if n == 0 { 100 } else { draw.below(101) },
        }));
    }
    let holders = 2 + draw.below(3);
    let pages = match pressure {
        Pressure::Writers | Pressure::Broken => 0,
        // The holders get all but the frames that must stay free and those that a reader and a writer need at a time.
        Pressure::Held => {
            frames
                .saturating_sub(derived.watermarks.high + derived.reserve + PageCount(16))
                .0
                / holders
        }
        Pressure::Beyond => frames.0 / 2 + draw.below(frames.0 / 2),
    };
    for _ in 0..if pages > 0 { holders } else { 0 } {
        let (file, len) = files[draw.below(2) as usize];
        world.add_process(Box::new(Holder {
            draw: Draw(draw.bits()),
            left: if pressure == Pressure::Beyond {
                1
            } else {
                2 + draw.below(6) as u32
            },
            file,
            len,
            pages,
            // A holder of as many changed pages as may be dirty waits for itself.
            changes: match pressure {
                Pressure::Beyond => pages,
                _ => pages.min(derived.dirty.hard.0 / 4 / holders),
            },
        }));
    }
    world.run(Instant::NEVER);
    let failed = world.coverage().of(Seen::NoFrames);
    assert!(
        failed == 0 || pressure == Pressure::Beyond,
        "{failed} operations got no frames under {pressure:?}: {}",
        world.describe()
    );
    let files: Vec<_> = files.iter().map(|f| f.0).collect();
    come_to_rest(&mut world, &files, draw.one_in(2));
    PressureReport {
        pressure,
        world: report(&world),
        unclean_permille_max: world.checker.unclean_max().0 * 1000 / derived.dirty.hard.0,
        held_permille_max: world.held_max() * 1000 / frames.0,
    }
}
