//! Swarm simulation: options, workload, disk and faults drawn from one seed.
//!
//! A seed is a world: small pools and small limits, so that everything that is rare in practice happens all the
//! time; a few processes that read, write, sync and truncate a few files; a disk that sometimes fails. All
//! checks of [`super::checker`] run after every step. When the processes have ended, the disk is healed and
//! every file is synced: what was written must then be durable (safety first, then liveness).

use super::process::{Done, Op, Script};
use super::world::{Costs, Faults, World, WorldOptions};
use millpond::device::model::{HddParameters, Model, SsdParameters};
use millpond_core::admission::AdmissionOptions;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::admission::goal::GoalOptions;
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::options::{Options, Preset};
use millpond_core::stats::Stats;
use millpond_core::units::{Bytes, FileId, Instant, Nanos, PageCount, PageSize, Ratio};

/// Numbers from a seed (splitmix64): the same on every machine and in every version.
#[derive(Clone, Debug)]
pub struct Draw(pub u64);

impl Draw {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Does anything to a few files.
struct Anything {
    draw: Draw,
    left: u32,
    files: Vec<(FileId, u64)>,
    /// Where the last operation ended: some go on from there.
    next: (FileId, u64),
    truncates: bool,
}

impl Script for Anything {
    fn next(&mut self, _: Instant, _: Option<&Done>) -> Op {
        if self.left == 0 {
            return Op::Exit;
        }
        self.left -= 1;
        let (file, len) = self.files[self.draw.below(self.files.len() as u64) as usize];
        let (file, first) = if self.draw.one_in(2) && self.next.1 < len {
            self.next
        } else {
            // A tenth of the file is a hundred times as hot as the rest.
            let span = if self.draw.one_in(10) {
                len
            } else {
                (len / 10).max(1)
            };
            (file, self.draw.below(span))
        };
        let len = self.files.iter().find(|f| f.0 == file).map_or(1, |f| f.1);
        let most = if self.draw.one_in(8) { 200 } else { 4 };
        let pages = (1 + self.draw.below(most)).min(len - first) as u32;
        self.next = (file, first + u64::from(pages));
        match self.draw.below(100) {
            0..45 => Op::Read { file, first, pages },
            45..90 => Op::Write { file, first, pages },
            90..95 => Op::Sync { file },
            95..97 if self.truncates => Op::Truncate { file, first },
            _ => Op::Sleep(Nanos(self.draw.below(20_000_000))),
        }
    }
}

/// Syncs all files, again and again until it works.
struct SyncAll {
    files: Vec<FileId>,
}

impl Script for SyncAll {
    fn next(&mut self, _: Instant, done: Option<&Done>) -> Op {
        if let Some(Done {
            op: Op::Sync { .. },
            result: Ok(()),
            ..
        }) = done
        {
            self.files.pop();
        }
        self.files.last().map_or(Op::Exit, |&file| Op::Sync { file })
    }
}

fn options(draw: &mut Draw) -> Options {
    let preset = Preset::ALL[draw.below(3) as usize];
    let mut options = preset.options();
    let share = |draw: &mut Draw| DirtyLimit::Share(Ratio::percent(draw.below(101) as u32));
    if draw.one_in(2) {
        options.dirty.background = share(draw);
        options.dirty.hard = share(draw);
    }
    options.scan_batch = [1, 7, 32, 32, 128][draw.below(5) as usize];
    options.flusher.write_max = Bytes(4096 << draw.below(9));
    options.flusher.slice = Bytes(4096 << draw.below(13));
    options.flusher.write_behind = draw.one_in(2);
    options.flusher.expire = Nanos::from_millis(1 + draw.below(5_000));
    options.flusher.retry = Nanos::from_millis(1 + draw.below(100));
    options.readahead.max = Bytes(if draw.one_in(4) { 0 } else { 4096 << draw.below(10) });
    options.reserve = Ratio::percent(draw.below(13) as u32);
    options.admission = match draw.below(4) {
        0 => AdmissionOptions::Off,
        1 => {
            let high = Bytes(4096 << draw.below(10));
            AdmissionOptions::Bytes(BytesOptions {
                high,
                low: Bytes(high.0 / 2),
            })
        }
        _ => AdmissionOptions::Goal(GoalOptions {
            read_latency: Nanos::from_micros(50 + draw.below(100_000)),
            reads_per_turn: 1 + draw.below(4) as u32,
            ..GoalOptions::default()
        }),
    };
    options
}

/// What a world came to, for counting what the swarm has reached.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Virtual time.
    pub ended: Instant,
    /// The counters.
    pub stats: Stats,
}

/// Runs the world of `seed`.
///
/// # Panics
/// If a check fails. The message names what; the world of the same seed fails again in the same way.
pub fn run(seed: u64) -> Report {
    let mut draw = Draw(seed);
    let frames = PageCount(64 + draw.below(1_000));
    let options = options(&mut draw);
    assert!(
        options.check().is_ok(),
        "the swarm draws only options that can be: {:?}",
        options.check()
    );
    let model = if draw.one_in(2) {
        Model::hdd(HddParameters::default())
    } else {
        Model::ssd(SsdParameters::default())
    };
    let faulty = draw.one_in(2);
    let share = |draw: &mut Draw| if faulty { 1 << draw.below(14) } else { 0 };
    let faults = Faults {
        read_errors: share(&mut draw),
        write_errors: share(&mut draw),
    };
    let page_size = PageSize::KIB_4;
    let world = WorldOptions {
        options: Options { page_size, ..options },
        frames,
        model: model.unwrap_or_else(|e| panic!("the default models can be made: {e}")),
        costs: Costs::default(),
        faults,
        seed: draw.bits(),
        validate_every: 1 + draw.below(50),
    };
    let mut world = World::new(world).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let files: Vec<_> = (0..1 + draw.below(4))
        .map(|_| {
            let pages = 1 + draw.below(frames.0 * 3);
            (world.add_file(PageCount(pages)), pages)
        })
        .collect();
    let processes = 1 + draw.below(5);
    for _ in 0..processes {
        world.add_process(Box::new(Anything {
            draw: Draw(draw.bits()),
            left: 50 + draw.below(400) as u32,
            files: files.clone(),
            next: (files[0].0, u64::MAX),
            truncates: processes == 1,
        }));
    }
    world.run(Instant::NEVER);
    world.heal();
    world.add_process(Box::new(SyncAll {
        files: files.iter().map(|f| f.0).collect(),
    }));
    world.run(Instant::NEVER);
    let occupancy = world.manager().occupancy(world.now());
    assert_eq!(
        occupancy.dirty,
        PageCount(0),
        "seed {seed}: dirty pages are left after all files were synced"
    );
    world.manager().validate(world.frames());
    Report {
        ended: world.now(),
        stats: *world.manager().stats(),
    }
}
