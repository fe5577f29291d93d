//! The uses that a read of the simulator leaves in the frames' words.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use millpond_core::frame::FrameTable;
use millpond_core::options::Options;
use millpond_core::units::{FileId, Instant, PageCount, PageIndex, PageKey};
use millpond_sim::disk::{Model, SsdParameters};
use millpond_sim::process::{Done, Op, Script};
use millpond_sim::{Costs, Faults, World, WorldOptions};

/// Reads a page this many times.
struct Again {
    file: FileId,
    left: u32,
}

impl Script for Again {
    fn next(&mut self, _: Instant, _: Option<&Done>) -> Op {
        if self.left == 0 {
            return Op::Exit;
        }
        self.left -= 1;
        Op::Read {
            file: self.file,
            first: 3,
            pages: 1,
        }
    }
}

/// The core is told of the use that missed. The simulator counted it in the frame's word as well, as the engine does not, and
/// each page that bimodal insertion drew seemed to be used again.
#[test]
fn the_use_that_missed_is_not_counted_again() {
    for (reads, uses) in [(1, 0), (2, 1), (3, 2)] {
        let mut world = World::new(WorldOptions {
            options: Options::default(),
            alternatives: Vec::new(),
            frames: PageCount(256),
            model: Model::ssd(SsdParameters::default()).unwrap(),
            costs: Costs::default(),
            faults: Faults::default(),
            seed: 1,
            validate_every: 0,
        })
        .unwrap();
        let file = world.add_file(PageCount(16));
        world.add_process(Box::new(Again { file, left: reads }));
        world.run(Instant::NEVER);
        let frame = world.frames().lookup(PageKey::new(file, PageIndex(3))).unwrap();
        assert_eq!(world.frames().state(frame).uses, uses, "{reads} reads");
    }
}
