//! Millpond's goals against what a modelled disk allows when writes are paced past any cache: in virtual time, exact, the
//! same on every machine.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests that print what they found"
)]

use millpond_core::units::Bytes;
use millpond_lab::experiment::{Options, axboe2016};

/// For each point whether the report says that it is within 1.2, and its row.
fn distances(device: &str, variants: &[&str], files: u32, file_size: Bytes) -> Vec<(String, Vec<String>)> {
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    let options = Options {
        on: Some(names(&["sim", "paced"])),
        variants: names(variants),
        device: device.parse().unwrap(),
        files,
        file_size,
        read_file_size: Bytes::from_mib(1024),
        runs: 1,
        scale: Some(1.0),
        workloads: names(&["writers-and-reader"]),
        ..Options::default()
    };
    let report = axboe2016::run(&options, &mut ()).unwrap();
    let table = report
        .tables
        .iter()
        .find(|table| table.title.contains("what the device allows"))
        .unwrap();
    // The head begins with the label's column, which is none of the cells.
    let verdict = table.head[1..]
        .iter()
        .position(|name| name == "within 1.2")
        .unwrap();
    let rows = table.rows.iter().map(|row| {
        let cells: Vec<String> = row.cells.iter().map(|cell| cell.value.clone()).collect();
        println!("{device} {}: {}", row.label, cells.join(", "));
        (cells[verdict].clone(), [vec![row.label.clone()], cells].concat())
    });
    rows.collect()
}

fn assert_all_within(distances: &[(String, Vec<String>)], expected: usize) {
    assert_eq!(distances.len(), expected);
    for (is_within, row) in distances {
        assert_eq!(is_within, "yes", "{row:?}");
    }
}

/// The goal is the most that reads may take, not what they take: with goals from the shortest to the longest there is as
/// much in transit as makes the writers as fast as they can be.
#[test]
fn on_flash_every_goal_is_within_a_fifth_of_what_the_disk_allows() {
    let goals = ["goal/500us", "goal/1ms", "goal", "goal/4ms", "goal/8ms"];
    let distances = distances("sata-ssd,burst=128M", &goals, 30, Bytes::from_mib(64));
    assert_all_within(&distances, goals.len());
}

#[test]
fn on_a_rotating_disk_goals_and_shares_are_within_a_fifth_of_what_the_disk_allows() {
    let goals = [
        "goal",
        "goal/60ms/55%",
        "goal/60ms/70%",
        "goal/110ms/68%",
        "goal/110ms/86%",
    ];
    let distances = distances("hdd", &goals, 50, Bytes::from_mib(40));
    assert_all_within(&distances, goals.len());
}
