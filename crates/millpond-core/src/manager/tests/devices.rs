//! Hints from a device replace the settings, which are meant for disks.

use super::*;
use crate::admission::DeviceHints;
use crate::units::PageSize;

/// Of 64 KiB.
const MIB_PAGES: u64 = 16;

fn far_away() -> DeviceHints {
    DeviceHints {
        transfer_max: Some(Bytes::from_mib(2)),
        readahead_max: Some(Bytes::from_mib(16)),
        in_transit_max: Some(Bytes::from_mib(8)),
        ..DeviceHints::default()
    }
}

/// The file is on a device that says these things.
fn world(hints: DeviceHints, mib: u64) -> World {
    let options = Options {
        page_size: PageSize::KIB_64,
        ..Options::default()
    };
    let mut w = World::new(options, mib * MIB_PAGES);
    w.step(Event::DeviceFound {
        device: DeviceNo(0),
        hints,
    });
    w
}

/// Writes pages one after the other until so many MiB are dirty or on their way.
fn fill(w: &mut World, mib: u64) {
    (0..mib * MIB_PAGES).for_each(|page| w.write(page));
}

/// In MiB.
fn writes(w: &World) -> Vec<u64> {
    let lengths = w.writes.iter().map(|(_, _, _, frames)| frames.len() as u64);
    lengths.map(|pages| pages / MIB_PAGES).collect()
}

#[test]
fn clusters_are_as_large_as_the_device_says_and_as_many_in_transit() {
    let mut w = world(far_away(), 256);
    fill(&mut w, 15);
    assert_eq!(writes(&w), [2; 4]);
    let look = w.manager.devices(w.now).next().unwrap();
    assert_eq!(look.in_transit_limit, Some(Bytes::from_mib(8)));
    assert_eq!((look.goal, look.class), (None, None));
    // A reader beside them changes nothing.
    w.read(60_000);
    w.finish_writes(Ok(()));
    assert_eq!(writes(&w), [2; 3]);
}

#[test]
fn once_nothing_is_said_any_more_the_goal_and_the_settings_are_back() {
    let mut w = world(far_away(), 256);
    w.step(Event::DeviceFound {
        device: DeviceNo(0),
        hints: DeviceHints::default(),
    });
    fill(&mut w, 4);
    assert!(!w.writes.is_empty() && writes(&w).iter().all(|&mib| mib == 1));
    assert!(w.manager.devices(w.now).next().unwrap().goal.is_some());
}

#[test]
fn a_write_larger_than_the_limit_goes_alone() {
    let hints = DeviceHints {
        in_transit_max: Some(Bytes::from_mib(1)),
        ..far_away()
    };
    let mut w = world(hints, 256);
    fill(&mut w, 6);
    assert_eq!(writes(&w), [2]);
}

/// The reads, in pages: where they begin and how many.
fn reads(w: &mut World) -> Vec<(u64, u64)> {
    let reads = w
        .reads
        .iter()
        .map(|(_, first, frames)| (first.0, frames.len() as u64));
    let reads = reads.collect();
    w.finish_reads();
    reads
}

fn reach(w: &mut World, page: u64) -> Vec<(u64, u64)> {
    w.step(Event::ReadAheadDue {
        file: FILE,
        at: PageIndex(page),
    });
    reads(w)
}

#[test]
fn windows_grow_to_what_the_device_says_in_reads_that_end_at_multiples_of_its_transfers() {
    let mut w = world(far_away(), 256);
    w.fault(7, 2 * MIB_PAGES as u32, Intent::Read);
    // From the sixteenth part of the largest window on, as with disks.
    let (transfer, behind) = (2 * MIB_PAGES, 2 * MIB_PAGES);
    assert_eq!(reads(&mut w), [(7, transfer - 7), (behind, MIB_PAGES)]);
    assert_eq!(
        reach(&mut w, behind),
        [(3 * MIB_PAGES, MIB_PAGES)],
        "2 MiB, as far as a transfer goes"
    );
    let (mut at, mut windows) = (3 * MIB_PAGES, Vec::new());
    for _ in 0..6 {
        let window = reach(&mut w, at);
        assert!(
            window
                .iter()
                .all(|&(first, pages)| first % transfer == 0 && pages == transfer),
            "{window:?}"
        );
        at = window[0].0;
        windows.push(window.len());
    }
    assert_eq!(windows, [2, 4, 8, 8, 8, 8], "transfers; 16 MiB at most");
}

/// It was cut off at the frames that were free, and its reader found as one that begins.
#[test]
fn a_window_that_is_as_large_as_the_device_says_finds_its_frames() {
    let mut w = world(far_away(), 64);
    w.fault(0, 1, Intent::Read);
    let (mut at, mut expected) = (1, 1);
    // Three times as much as there is of memory.
    while expected < 3 * 64 * MIB_PAGES {
        let window = match expected {
            1 => reads(&mut w).split_off(1),
            _ => reach(&mut w, at),
        };
        at = expected;
        for (first, pages) in window {
            assert_eq!(first, expected);
            expected += pages;
        }
        let is_whole = expected % (2 * MIB_PAGES) == 0 || expected < 4 * MIB_PAGES;
        assert!(expected > at && is_whole, "a window to {expected}");
    }
    assert_eq!(w.manager.stats().readahead_dropped_pages, 0);
}

#[test]
fn a_window_leaves_half_of_a_small_memory_to_others() {
    let mut w = world(far_away(), 64);
    let readahead = w.manager.readahead_of(FILE);
    assert_eq!(readahead.max, Bytes::from_mib(4));
    let mut off = w.manager.options().clone();
    off.readahead.max = Bytes(0);
    w.step(Event::Retuned(alloc::boxed::Box::new(off)));
    assert_eq!(w.manager.readahead_of(FILE).max, Bytes(0), "off is off");
}
