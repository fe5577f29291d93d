//! The frontier of Axboe 2016 in virtual time: what each form of admission gives a reader beside 50 files of writes.
//!
//! ```text
//! cargo run --release -p millpond-lab --example frontier [hdd|ssd] [MIB_PER_FILE]
//! ```
//!
//! Exact and repeatable: the same build prints the same table on every machine.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints a table"
)]

use millpond_core::admission::AdmissionOptions;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::admission::goal::GoalOptions;
use millpond_core::options::Options;
use millpond_core::units::{Instant, Nanos, PageCount};
use millpond_sim::disk::{HddParameters, Model, SsdParameters};
use millpond_sim::scripts::axboe2016::{Reader, Shared, Writer};
use millpond_sim::{Costs, Faults, World, WorldOptions};

const READ_FILE: PageCount = PageCount(262_144);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_ssd = arguments.iter().any(|a| a == "ssd");
    let mib = arguments
        .iter()
        .find_map(|a| a.parse().ok())
        .unwrap_or(if is_ssd { 60 } else { 40 });
    let goals: &[u64] = if is_ssd {
        &[200, 1_000, 2_000, 3_000, 4_000]
    } else {
        &[20_000, 40_000, 50_000, 60_000, 80_000, 110_000, 300_000]
    };
    let mut cases = vec![
        (String::from("off"), AdmissionOptions::Off),
        (
            String::from("bytes 1 MiB / 512 KiB"),
            AdmissionOptions::Bytes(BytesOptions::default()),
        ),
    ];
    for &goal in goals {
        for share in [55, 70, 80, 86, 98] {
            let read_latency = Nanos::from_micros(goal);
            let options = GoalOptions {
                read_latency,
                share_waited: share,
                ..GoalOptions::default()
            };
            let name = format!("goal {} ms, writers {share} %", goal as f64 / 1e3);
            cases.push((name, AdmissionOptions::Goal(options)));
        }
    }
    println!(
        "50 files of {mib} MiB, pool 512 MiB, {}",
        if is_ssd { "ssd" } else { "hdd" }
    );
    println!("| admission | writers s | alone s | reads/s | p50 ms | p99 ms | p99.9 ms | max ms |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, admission) in cases {
        let (seconds, mut latencies) = run(admission, is_ssd, mib, true);
        let (alone, _) = run(admission, is_ssd, mib, false);
        latencies.sort_unstable();
        let at = |share: f64| {
            let rank = (latencies.len() as f64 * share).ceil() as usize;
            latencies[rank.clamp(1, latencies.len()) - 1] as f64 / 1e6
        };
        let rate = latencies.len() as f64 / seconds;
        let (p50, p99, p999, max) = (at(0.5), at(0.99), at(0.999), at(1.0));
        println!(
            "| {name} | {seconds:.2} | {alone:.2} | {rate:.1} | {p50:.2} | {p99:.2} | {p999:.2} | {max:.2} |"
        );
    }
}

/// The writers' seconds, sync included, and the reads' latencies in nanoseconds.
fn run(admission: AdmissionOptions, is_ssd: bool, mib: u64, with_reader: bool) -> (f64, Vec<u64>) {
    let model = if is_ssd {
        Model::ssd(SsdParameters::default())
    } else {
        Model::hdd(HddParameters::default())
    }
    .unwrap();
    let mut world = World::new(WorldOptions {
        options: Options {
            admission,
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
    let (seen, pages) = (Shared::default(), mib << 8);
    let read_file = world.add_file(READ_FILE);
    let files = (0..50).map(|_| world.add_file(PageCount(pages))).collect();
    world.add_process(Box::new(Writer::new(files, pages, 64, seen.clone())));
    if with_reader {
        world.add_process(Box::new(Reader::new(
            read_file,
            READ_FILE.0,
            7,
            Instant::NEVER,
            seen.clone(),
        )));
    }
    world.run(Instant::NEVER);
    let seen = seen.borrow();
    (
        seen.synced.0 as f64 / 1e9,
        seen.missed.iter().map(|(_, latency)| latency.0).collect(),
    )
}
