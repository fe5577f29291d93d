//! Swarm simulation: options, workload, disk and faults drawn from one seed.
//!
//! A seed is a world: a small pool and small limits, so that everything rare in practice happens all the time; a few
//! processes that do anything to a few files; possibly an operator who changes the budget and the options; and a disk,
//! or a device that claims not to be one. The device fails in some of the ways of [`super::faults`], each at its own
//! rate, or in none.
//!
//! Safety first, then liveness: all checks of [`super::checker`] run after every step. When the processes have ended,
//! the faults stop. Then either every file is synced, or no process does anything. All dirty pages must reach the
//! device, all queues must become empty, and the pool must reach its size.

use super::faults::{Coverage, Faults, Seen};
use super::process::Op;
use super::scripts::random::{Anything, Operator, SyncAll, Told};
use super::world::{Costs, World, WorldOptions};
use crate::disk::{HddParameters, Model, SsdParameters};
use crate::draw::Draw;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::admission::goal::GoalOptions;
use millpond_core::admission::{AdmissionOptions, DeviceHints};
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::manager::FRAMES_MIN;
use millpond_core::options::{Options, Preset};
use millpond_core::stats::Stats;
use millpond_core::units::{Bytes, DeviceNo, FileId, Instant, Nanos, PageCount, PageSize, Ratio};
use millpond_core::writeback::RETRY_MAX;

/// Any options that can be.
pub(super) fn options(draw: &mut Draw) -> Options {
    let preset = Preset::ALL[draw.below(Preset::ALL.len() as u64) as usize];
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
        _ => {
            let read_latency = Nanos::from_micros(50 + draw.below(100_000));
            let share_waited = 1 + draw.below(99) as u32;
            AdmissionOptions::Goal(GoalOptions {
                read_latency,
                share_waited,
                ..GoalOptions::default()
            })
        }
    };
    options.page_size = PageSize::KIB_4;
    options
}

/// Any faults: half of the worlds have none, in the others each class is there or not.
fn faults(draw: &mut Draw) -> Faults {
    if draw.one_in(2) {
        return Faults::default();
    }
    let share = |draw: &mut Draw, log_max| {
        if draw.one_in(2) {
            1 << draw.below(log_max)
        } else {
            0
        }
    };
    let from = Instant(draw.below(2_000_000_000));
    let no_room = (from, from + Nanos(draw.below(10_000_000_000)));
    Faults {
        read_errors: share(draw, 14),
        write_errors: share(draw, 14),
        broken_files: if draw.one_in(4) { draw.below(16) } else { 0 },
        no_room: draw.one_in(4).then_some(no_room),
        slow: Nanos(if draw.one_in(4) { draw.below(20_000_000) } else { 0 }),
        stuck: share(draw, 9),
        stuck_for: Nanos(draw.below(100_000_000_000)),
        short: share(draw, 15),
        shuffled: share(draw, 16),
        sync_errors: share(draw, 15),
        lies: share(draw, 16),
    }
}

/// A disk of either kind.
pub(super) fn model(draw: &mut Draw) -> Model {
    let model = if draw.one_in(2) {
        Model::hdd(HddParameters::default())
    } else {
        Model::ssd(SsdParameters::default())
    };
    model.unwrap_or_else(|e| panic!("the default models can be made: {e}"))
}

/// What a device that is not a disk may report.
fn far_away(draw: &mut Draw) -> DeviceHints {
    let mut some = |log_max| draw.one_in(2).then(|| Bytes(4096 << draw.below(log_max)));
    DeviceHints {
        transfer_max: some(10),
        readahead_max: some(12),
        in_transit_max: some(10),
        ..DeviceHints::default()
    }
}

/// The result of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// Virtual time.
    pub ended: Instant,
    /// The counters.
    pub stats: Stats,
    /// Its faults, and their consequences.
    pub coverage: Coverage,
    /// See [`World::digest`].
    pub digest: u64,
}

/// A world at its beginning.
struct Begun {
    world: World,
    files: Vec<(FileId, u64)>,
    draw: Draw,
}

fn begin(seed: u64) -> Begun {
    let mut draw = Draw(seed);
    let frames = PageCount(64 + draw.below(1_000));
    let alternatives: Vec<_> = (0..1 + draw.below(4)).map(|_| options(&mut draw)).collect();
    // About every thirtieth world is checked thoroughly, the others at times.
    let validate_every = 1 + if draw.one_in(30) {
        draw.below(8)
    } else {
        64 + draw.below(400)
    };
    let world = WorldOptions {
        options: alternatives[0].clone(),
        alternatives,
        frames,
        model: model(&mut draw),
        costs: Costs::default(),
        faults: faults(&mut draw),
        seed: draw.bits(),
        validate_every,
    };
    let set_count = world.alternatives.len();
    let mut world = World::new(world).unwrap_or_else(|e| panic!("the swarm draws only what can be: {e}"));
    let mut devices = vec![DeviceNo(0)];
    if seed.is_multiple_of(3) {
        devices.push(world.add_disk(model(&mut Draw(seed)), None));
    }
    if seed.is_multiple_of(5) {
        let last = DeviceNo(devices.len() as u32 - 1);
        world.device_says(last, far_away(&mut Draw(seed)));
    }
    let files: Vec<_> = (0..1 + draw.below(4))
        .map(|n| {
            let pages = 1 + draw.below(frames.0 * 3);
            let device = devices[n as usize % devices.len()];
            (world.add_file_on(device, PageCount(pages)), pages)
        })
        .collect();
    for _ in 0..1 + draw.below(5) {
        world.add_process(Box::new(Anything {
            draw: Draw(draw.bits()),
            left: 50 + draw.below(400) as u32,
            files: files.clone(),
            next: (files[0].0, u64::MAX),
            guards: 1 + draw.below(8),
        }));
    }
    if draw.one_in(2) {
        let changes_memory = draw.one_in(2);
        world.add_process(Box::new(Operator {
            draw: Draw(draw.bits()),
            left: 1 + draw.below(30) as u32,
            frames_max: PageCount(if changes_memory { frames.0 * 2 } else { 0 }),
            options: if changes_memory && draw.one_in(2) {
                0
            } else {
                set_count
            },
            pause_max: Nanos(1 + draw.below(500_000_000)),
        }));
    }
    Begun { world, files, draw }
}

/// The world of `seed` at its beginning, to be run step by step.
pub fn world(seed: u64) -> World {
    begin(seed).world
}

/// Runs the world of `seed`.
///
/// # Panics
/// If a check fails. The message names what; the world of the same seed fails again in the same way.
pub fn run(seed: u64) -> Report {
    let Begun {
        mut world,
        files,
        mut draw,
    } = begin(seed);
    world.run(Instant::NEVER);
    if draw.one_in(8) {
        shrink_while_held(&mut world, files[0]);
    }
    let files: Vec<_> = files.iter().map(|f| f.0).collect();
    come_to_rest(&mut world, &files, draw.one_in(2));
    report(&world)
}

/// As a last act one process holds most of memory while another makes it small. None does anything after that.
fn shrink_while_held(world: &mut World, (file, len): (FileId, u64)) {
    let frames = world.manager().derived().frames;
    world.add_process(Box::new(Told(vec![Op::Guard {
        file,
        first: 0,
        pages: len.min(frames.0 * 3 / 4) as u32,
        change: false,
        span: Nanos::from_secs(2),
    }])));
    world.add_process(Box::new(Told(vec![
        Op::SetMemory { frames: FRAMES_MIN },
        Op::Sleep(Nanos::from_secs(1)),
    ])));
    world.run(Instant::NEVER);
}

pub(super) fn report(world: &World) -> Report {
    Report {
        ended: world.now(),
        stats: *world.manager().stats(),
        coverage: *world.coverage(),
        digest: world.digest(),
    }
}

/// The faults stop, and everything must come to rest: `alone`, or with every file synced.
///
/// # Panics
/// If something is left to do, or does not end.
pub(super) fn come_to_rest(world: &mut World, files: &[FileId], alone: bool) {
    world.heal();
    if alone {
        settle(world);
        world.checker.all_stored();
        world.count(Seen::DrainedAlone);
    }
    world.add_process(Box::new(SyncAll {
        files: files.to_vec(),
        // What was under way may still tell of the past, once a file, and it may be latched.
        patience: 2 * files.len() as u32,
    }));
    world.run(Instant::NEVER);
    settle(world);
    world.checker.all_stored();
    world.checker.all_durable();
}

/// Nothing more comes from outside: all that is dirty has to leave by itself.
fn settle(world: &mut World) {
    // What is stuck is answered by then; the longest that a file is left alone after errors; its pages' time; and
    // what even a slow device needs.
    let expire = world.manager().options().flusher.expire;
    let patience = Nanos::from_secs(60);
    let until = world.stuck_until().max(world.now()) + RETRY_MAX + expire + patience;
    assert!(
        world.settle(until),
        "not at rest by {until:?}: {}",
        world.describe()
    );
    world.checker.validate(world.manager(), world.frames());
    world.assert_idle();
}
