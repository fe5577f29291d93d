//! Millpond's default admission beside a reader that comes and goes, in virtual time: exact, the same on every machine.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use millpond_core::admission::AdmissionOptions;
use millpond_core::admission::goal::GoalOptions;
use millpond_core::units::{Instant, Nanos, PageCount};
use millpond_sim::disk::{HddParameters, Model, SsdParameters};
use millpond_sim::mixed_load::{MixedLoad, Stretch};

const COMES: u64 = 8_000;
const GOES: u64 = 16_000;

fn ms(ms: u64) -> Instant {
    Instant(0) + Nanos::from_millis(ms)
}

fn goal_of(read_latency: Nanos) -> AdmissionOptions {
    AdmissionOptions::Goal(GoalOptions {
        read_latency,
        ..GoalOptions::default()
    })
}

fn play(model: Model, goal: Nanos) -> Vec<Stretch> {
    let admission = goal_of(goal);
    let load = MixedLoad {
        model,
        admission,
        frames: PageCount(65_536),
        comes: ms(COMES),
        goes: ms(GOES),
        think: Nanos::ZERO,
        ends: ms(24_000),
        stretch: Nanos::from_millis(100),
    };
    load.play().unwrap()
}

fn disks() -> [(&'static str, Model, Nanos); 2] {
    [
        (
            "hdd",
            Model::hdd(HddParameters::default()).unwrap(),
            Nanos::from_millis(60),
        ),
        (
            "sata-ssd",
            Model::ssd(SsdParameters::default()).unwrap(),
            Nanos::from_millis(2),
        ),
    ]
}

fn within(stretches: &[Stretch], from: u64, to: u64) -> &[Stretch] {
    &stretches[from as usize / 100..to as usize / 100]
}

fn written(stretches: &[Stretch]) -> u64 {
    stretches.iter().map(|s| s.written.0).sum()
}

/// 100 ms after it has come a reader gets what it was promised, and 100 ms after it has gone the writers have the disk.
#[test]
fn a_reader_that_comes_is_served_within_its_goal_and_leaves_the_disk_to_the_writers_when_it_goes() {
    for (name, model, goal) in disks() {
        let all = play(model, goal);
        let reads: Vec<_> = within(&all, COMES + 100, GOES)
            .iter()
            .flat_map(|s| &s.reads)
            .collect();
        let late = reads.iter().filter(|(_, took)| *took > goal).count();
        println!("{name}: {late} of {} reads later than {goal:?}", reads.len());
        assert!(reads.len() > 200, "{name}: {}", reads.len());
        assert!(late * 100 <= reads.len(), "{name}: {late} of {}", reads.len());
        let first = within(&all, COMES, COMES + 100)
            .iter()
            .flat_map(|s| &s.reads)
            .next();
        assert!(
            first.is_some_and(|(_, took)| *took < Nanos::from_millis(100)),
            "{name}: {first:?}"
        );

        let before = written(within(&all, COMES - 4_000, COMES));
        let after = written(within(&all, GOES + 100, GOES + 4_100));
        println!(
            "{name}: 4 s before the reader {} MB, from 100 ms after it {} MB",
            before / 1_000_000,
            after / 1_000_000
        );
        assert!(after * 100 >= before * 98, "{name}: {after} instead of {before}");
    }
}

/// No swinging between too much and too little: in every second both have about what they have in the others.
#[test]
fn reader_and_writer_get_about_the_same_in_every_second() {
    for (name, model, goal) in disks() {
        let all = play(model, goal);
        let seconds: Vec<_> = within(&all, COMES + 1_000, GOES).chunks(10).collect();
        let reads: Vec<_> = seconds
            .iter()
            .map(|s| s.iter().map(|s| s.reads.len()).sum::<usize>())
            .collect();
        let bytes: Vec<_> = seconds.iter().map(|s| written(s) / 1_000_000).collect();
        println!("{name}: reads {reads:?}, MB {bytes:?}");
        let near = |least: u64, most: u64| least * 2 > most;
        let (least, most) = (reads.iter().min().unwrap(), reads.iter().max().unwrap());
        assert!(near(*least as u64, *most as u64), "{name}: {reads:?}");
        assert!(
            near(*bytes.iter().min().unwrap(), *bytes.iter().max().unwrap()),
            "{name}: {bytes:?}"
        );
    }
}

/// Fewer than 20 reads a second: no read meets the limit that the one before it has brought about. With 8 MiB in transit
/// whenever there was no reader each took 51 ms on the flash disk and 71 on the hard disk.
#[test]
fn a_reader_of_five_reads_a_second_has_its_goal_and_costs_the_writers_little() {
    for (name, model, goal) in disks() {
        let play = |model, think| {
            let load = MixedLoad {
                model,
                admission: goal_of(goal),
                frames: PageCount(65_536),
                comes: ms(0),
                goes: ms(30_000),
                think,
                ends: ms(30_000),
                stretch: Nanos::from_millis(100),
            };
            load.play().unwrap()
        };
        let all = play(model, Nanos::from_millis(200));
        // The first two seconds: its rate is not known, a burst buffer becomes full.
        let reads: Vec<_> = all[20..].iter().flat_map(|s| &s.reads).collect();
        let late = reads.iter().filter(|(_, took)| *took > goal).count();
        let slowest = reads.iter().map(|(_, took)| *took).max();
        println!(
            "{name}: {late} of {} later than {goal:?}, slowest {slowest:?}",
            reads.len()
        );
        assert!(reads.len() > 90, "{name}: {}", reads.len());
        assert!(late * 100 <= reads.len(), "{name}: {late} of {}", reads.len());
        let none = play(
            disks().into_iter().find(|disk| disk.0 == name).unwrap().1,
            Nanos::from_secs(3_600),
        );
        let (beside, alone) = (written(&all), written(&none));
        println!(
            "{name}: {} MB beside it, {} MB alone",
            beside / 1_000_000,
            alone / 1_000_000
        );
        assert!(beside * 100 >= alone * 93, "{name}: {beside} instead of {alone}");
    }
}
