//! Millpond's admission in virtual time: what a reader, a seldom reader, a log and writers get on each modelled disk.
//!
//! ```text
//! cargo run --release -p millpond-sim --example admission [DISK[,DISK]] [LOAD[,LOAD]] [GOAL_US[,GOAL_US]]
//! ```
//!
//! Exact and repeatable: the same build prints the same table on every machine. A goal of 0 is the disk's own.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints a table"
)]

use millpond_core::admission::AdmissionOptions;
use millpond_core::admission::goal::GoalOptions;
use millpond_core::options::Options;
use millpond_core::units::{Bytes, Instant, Nanos, PageCount};
use millpond_sim::disk::{HddParameters, Model, ModelParameters, SsdParameters};
use millpond_sim::scripts::axboe2016::{Log, Reader, Scan, Shared, Writer};
use millpond_sim::{Costs, Faults, World, WorldOptions};

const READ_FILE: PageCount = PageCount(262_144);
const DISKS: [&str; 4] = ["hdd", "hdd+cache", "sata-ssd", "nvme"];
const LOADS: [&str; 6] = ["alone", "reader", "readers4", "seldom", "log", "scan"];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut list = |all: &[&str]| -> Vec<String> {
        match arguments.next() {
            Some(names) if names != "all" => names.split(',').map(String::from).collect(),
            _ => all.iter().map(|name| String::from(*name)).collect(),
        }
    };
    let (disks, loads, goals) = (list(&DISKS), list(&LOADS), list(&["0"]));
    println!(
        "| disk | goal ms | beside writers | writers s | MB/s | ops/s | p50 ms | p99 ms | p99.9 ms | max ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for disk in &disks {
        for goal in &goals {
            for load in &loads {
                row(disk, goal.parse().unwrap(), load);
            }
        }
    }
}

/// The disk, its own goal in microseconds, and how much each of the 50 files has.
fn disk(name: &str) -> (Model, u64, u64) {
    let (parameters, goal, mib) = match name {
        "hdd" => (ModelParameters::Hdd(HddParameters::default()), 60_000, 40),
        "hdd+cache" => {
            let parameters = HddParameters {
                write_cache: Bytes::from_mib(64),
                ..HddParameters::default()
            };
            (ModelParameters::Hdd(parameters), 60_000, 40)
        }
        "sata-ssd" => (ModelParameters::SataSsd(SsdParameters::default()), 2_000, 60),
        // Its burst buffer is full after a part of the run.
        _ => {
            let parameters = SsdParameters {
                burst_buffer: Bytes::from_mib(2 << 10),
                ..SsdParameters::nvme()
            };
            (ModelParameters::Nvme(parameters), 2_000, 120)
        }
    };
    (Model::new(&parameters).unwrap(), goal, mib)
}

fn row(name: &str, goal: u64, load: &str) {
    let (model, own_goal, mib) = disk(name);
    let goal = if goal == 0 { own_goal } else { goal };
    let options = GoalOptions {
        read_latency: Nanos::from_micros(goal),
        ..GoalOptions::default()
    };
    let mut world = World::new(WorldOptions {
        options: Options {
            admission: AdmissionOptions::Goal(options),
            ..Options::default()
        },
        alternatives: Vec::new(),
        frames: PageCount(131_072),
        model,
        costs: Costs::default(),
        faults: Faults::default(),
        seed: 1,
        validate_every: 0,
    })
    .unwrap();
    world.wait_for_ever();
    let (seen, pages) = (Shared::default(), mib << 8);
    let read_file = world.add_file(READ_FILE);
    let files = (0..50).map(|_| world.add_file(PageCount(pages))).collect();
    world.add_process(Box::new(Writer::new(files, pages, 64, seen.clone())));
    let reader = |seed| Reader::new(read_file, READ_FILE.0, seed, Instant::NEVER, seen.clone());
    match load {
        "reader" => world.add_process(Box::new(reader(7))),
        "readers4" => (7..11).for_each(|seed| world.add_process(Box::new(reader(seed)))),
        "seldom" => world.add_process(Box::new(reader(7).thinking(Nanos::from_millis(200)))),
        "log" => {
            let log = Log::new((read_file, READ_FILE.0), 2, 7, Instant::NEVER, seen.clone());
            world.add_process(Box::new(log));
        }
        "scan" => {
            let scan = Scan::new(read_file, READ_FILE.0, 32, Instant::NEVER, seen.clone());
            world.add_process(Box::new(scan));
        }
        _ => {}
    }
    world.run(Instant::NEVER);
    let seen = seen.borrow();
    let seconds = seen.synced.0 as f64 / 1e9;
    let mut took: Vec<u64> = match load {
        "log" => seen.synced_records.iter().map(|(_, took, _)| took.0).collect(),
        "scan" => seen.scanned.iter().map(|(_, took, _)| took.0).collect(),
        _ => seen.missed.iter().map(|(_, took)| took.0).collect(),
    };
    took.sort_unstable();
    let at = |share: f64| match took.len() {
        0 => 0.0,
        len => took[((len as f64 * share).ceil() as usize).clamp(1, len) - 1] as f64 / 1e6,
    };
    println!(
        "| {name} | {} | {load} | {seconds:.2} | {:.1} | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} |",
        goal as f64 / 1e3,
        (50 * mib) as f64 * 1.048_576 / seconds,
        took.len() as f64 / seconds,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}
