//! A controller a device, in virtual time: two disks of different kinds in one cache, and goals that don't fit the disk.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use millpond_core::admission::goal::GoalOptions;
use millpond_core::admission::{AdmissionOptions, DeviceClass};
use millpond_core::options::Options;
use millpond_core::units::{DeviceNo, Instant, Nanos, PageCount};
use millpond_sim::disk::{HddParameters, Model, SsdParameters};
use millpond_sim::scripts::axboe2016::{Reader, Seen, Shared, Writer};
use millpond_sim::{Costs, Faults, World, WorldOptions};

const READ_FILE: PageCount = PageCount(262_144);
const FILE: u64 = 16_384;

fn hdd() -> Model {
    Model::hdd(HddParameters::default()).unwrap()
}

fn ssd() -> Model {
    Model::ssd(SsdParameters::default()).unwrap()
}

fn world(model: Model, goal: Nanos) -> World {
    let goal = GoalOptions {
        read_latency: goal,
        ..GoalOptions::default()
    };
    World::new(WorldOptions {
        options: Options {
            admission: AdmissionOptions::Goal(goal),
            ..Options::default()
        },
        alternatives: Vec::new(),
        frames: PageCount(65_536),
        model,
        costs: Costs::default(),
        faults: Faults::default(),
        seed: 1,
        validate_every: 0,
    })
    .unwrap()
}

/// A reader on the disk and, if `writes`, a writer that never ends. What they will have seen.
fn load(world: &mut World, device: DeviceNo, until: Instant, writes: bool) -> Shared {
    let seen = Shared::default();
    let read_file = world.add_file_on(device, READ_FILE);
    if writes {
        let files = (0..1_000).map(|_| world.add_file_on(device, PageCount(FILE)));
        let files = files.collect();
        world.add_process(Box::new(Writer::new(files, FILE, 64, seen.clone())));
    }
    let reader = Reader::new(read_file, READ_FILE.0, 7, until, seen.clone());
    world.add_process(Box::new(reader));
    seen
}

/// Reads a second, and the 99th percentile in milliseconds, of those that have ended after two seconds.
fn reads(seen: &Seen, seconds: u64) -> (u64, f64) {
    let warm = Instant(0) + Nanos::from_secs(2);
    let mut took: Vec<_> = seen
        .missed
        .iter()
        .filter(|(at, _)| *at > warm)
        .map(|(_, took)| took.0)
        .collect();
    took.sort_unstable();
    let p99 = took[took.len() - 1 - took.len() / 100];
    (took.len() as u64 / (seconds - 2), p99 as f64 / 1e6)
}

fn at(seconds: u64) -> Instant {
    Instant(0) + Nanos::from_secs(seconds)
}

/// One disk, a reader and a writer, with this goal: its class, reads a second, their 99th percentile, and MB/s written.
fn alone(model: Model, goal_ms: u64) -> (Option<DeviceClass>, u64, f64, u64) {
    const SECONDS: u64 = 12;
    let mut world = world(model, Nanos::from_millis(goal_ms));
    let seen = load(&mut world, DeviceNo(0), at(SECONDS), true);
    world.run(at(SECONDS));
    let class = world.manager().devices(world.now()).next().unwrap().class;
    let written = world.manager().stats().nr_written * 4_096 / 1_000_000 / SECONDS;
    let (rate, p99) = reads(&seen.borrow(), SECONDS);
    (class, rate, p99, written)
}

/// With a goal of 32 ms and more every device was a disk, with less every device was flash.
#[test]
fn a_goal_that_does_not_fit_does_not_make_a_disk_of_flash_or_flash_of_a_disk() {
    let (class, rate, p99, written) = alone(ssd(), 2);
    let (long_class, long_rate, long_p99, long_written) = alone(ssd(), 40);
    println!(
        "sata-ssd: 2 ms {rate} reads/s, p99 {p99} ms, {written} MB/s; 40 ms {long_rate}, {long_p99}, {long_written}"
    );
    assert_eq!([class, long_class], [Some(DeviceClass::Channels); 2]);
    assert!(
        long_p99 < 20.0 && long_rate * 2 > rate,
        "{long_rate} reads/s, p99 {long_p99} ms"
    );
    assert!(
        long_written * 10 > written * 9,
        "{long_written} instead of {written} MB/s"
    );

    let (class, rate, p99, written) = alone(hdd(), 60);
    let (short_class, short_rate, short_p99, short_written) = alone(hdd(), 20);
    println!(
        "hdd: 60 ms {rate} reads/s, p99 {p99} ms, {written} MB/s; 20 ms {short_rate}, {short_p99}, {short_written}"
    );
    assert_eq!([class, short_class], [Some(DeviceClass::Arm); 2]);
    // Three reads with no other load take 40 ms: no goal below that is of use.
    assert!(p99 <= 60.0 && short_p99 <= 48.0, "p99 {p99} and {short_p99} ms");
    assert!(
        short_written * 3 > written,
        "{short_written} instead of {written} MB/s"
    );
}

#[test]
fn readers_of_two_disks_of_different_kinds_have_each_the_goal_of_its_disk() {
    const SECONDS: u64 = 12;
    let mut world = world(hdd(), Nanos::from_millis(60));
    let second = world.add_disk(ssd(), Some(Nanos::from_millis(2)));
    let slow = load(&mut world, DeviceNo(0), at(SECONDS), true);
    let quick = load(&mut world, second, at(SECONDS), true);
    world.run(at(SECONDS));
    let (rate, p99) = reads(&slow.borrow(), SECONDS);
    let (quick_rate, quick_p99) = reads(&quick.borrow(), SECONDS);
    println!("hdd {rate} reads/s, p99 {p99} ms; sata-ssd {quick_rate}, {quick_p99}");
    let classes: Vec<_> = world
        .manager()
        .devices(world.now())
        .map(|look| look.class)
        .collect();
    assert_eq!(classes, [Some(DeviceClass::Arm), Some(DeviceClass::Channels)]);
    assert!(p99 <= 60.0, "hdd: p99 {p99} ms");
    assert!(
        quick_p99 <= 2.0 && quick_rate > 2_000,
        "sata-ssd: {quick_rate} reads/s, p99 {quick_p99} ms"
    );
}

/// With one controller for all, the reader of one disk held back the writers of the other.
#[test]
fn a_reader_of_one_disk_costs_the_writers_of_the_other_nothing() {
    const SECONDS: u64 = 8;
    let written = |with_reader: bool| {
        let mut world = world(ssd(), Nanos::from_millis(2));
        let slow = world.add_disk(hdd(), Some(Nanos::from_millis(60)));
        if with_reader {
            load(&mut world, slow, at(SECONDS), false);
        }
        let files = (0..1_000).map(|_| world.add_file(PageCount(FILE)));
        let files = files.collect();
        world.add_process(Box::new(Writer::new(files, FILE, 64, Shared::default())));
        world.run(at(SECONDS));
        world.manager().stats().nr_written
    };
    let (beside, alone) = (written(true), written(false));
    println!("{beside} pages beside a reader of the other disk, {alone} without");
    assert!(beside * 100 >= alone * 98, "{beside} instead of {alone}");
}
