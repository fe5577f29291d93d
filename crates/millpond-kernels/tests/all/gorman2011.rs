//! Gorman 2011's tables, as directions and bands, on six rounds of its fs_mark and a fifth of its micro.
//!
//! The names D1 to D10 are this repository's, in the order of the post. Each run is exact: the same figures every time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use millpond_core::page::PageKind;
use millpond_core::reclaim::trace::{Caller, Outcome};
use millpond_kernels::linux::reclaim::System;
use millpond_kernels::linux::reclaim::filesystem::FileSystem;
use millpond_kernels::linux::reclaim::machine::{Load, MachineOptions, Ran, run};
use std::sync::LazyLock;

const FS_MARK: Load = Load::FsMark { rounds: 6 };
const MICRO: Load = Load::Micro { pages: 250_000 };

/// The series as it was meant.
const SERIES: [System; 6] = [
    System::Linux3_0,
    System::NoDirectWb,
    System::LessKswapdWb,
    System::Throttle,
    System::Immediate,
    System::PrioInode,
];

fn ran(system: System, filesystem: FileSystem, load: Load) -> Ran {
    let options = MachineOptions {
        filesystem,
        ..MachineOptions::new(system)
    };
    run(options, load, &mut |_| true).unwrap().unwrap()
}

type Column = (System, Ran);

fn columns(load: Load) -> Vec<Column> {
    let systems: Vec<System> = System::ALL
        .into_iter()
        .filter(|&r| r != System::Millpond)
        .collect();
    std::thread::scope(|scope| {
        let halves: Vec<_> = systems
            .chunks(systems.len().div_ceil(2))
            .map(|systems| {
                scope.spawn(move || {
                    let run = |&system: &System| (system, ran(system, FileSystem::Xfs, load));
                    systems.iter().map(run).collect::<Vec<_>>()
                })
            })
            .collect();
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    })
}

static ON_FS_MARK: LazyLock<Vec<Column>> = LazyLock::new(|| columns(FS_MARK));
static ON_MICRO: LazyLock<Vec<Column>> = LazyLock::new(|| columns(MICRO));

fn of(columns: &[Column], system: System) -> &Ran {
    &columns.iter().find(|(r, _)| *r == system).unwrap().1
}

fn file_writes(ran: &Ran, caller: Caller) -> u64 {
    ran.counters.writes[caller as usize][PageKind::File as usize]
}

fn direct_share(ran: &Ran) -> f64 {
    let c = &ran.counters;
    100.0 * c.pgscan_direct as f64 / (c.pgscan_direct + c.pgscan_kswapd) as f64
}

fn kswapd_efficiency(ran: &Ran) -> f64 {
    100.0 * ran.counters.pgsteal_kswapd as f64 / ran.counters.pgscan_kswapd as f64
}

fn direct_efficiency(ran: &Ran) -> f64 {
    100.0 * ran.counters.pgsteal_direct as f64 / ran.counters.pgscan_direct as f64
}

fn elapsed(ran: &Ran) -> f64 {
    ran.elapsed.0 as f64 / 1e9
}

fn reclaimed(ran: &Ran) -> f64 {
    (ran.counters.pgsteal_direct + ran.counters.pgsteal_kswapd) as f64
}

#[test]
fn d1_kswapd_writes_no_file_page_from_the_second_patch_on() {
    let vanilla = of(&ON_FS_MARK, System::Linux3_0);
    assert!(
        file_writes(vanilla, Caller::Kswapd) > 300,
        "{:?}",
        vanilla.counters
    );
    for columns in [&ON_FS_MARK, &ON_MICRO] {
        for (system, ran) in columns.iter() {
            let before = [System::Linux3_0, System::NoDirectWb].contains(system);
            let writes = file_writes(ran, Caller::Kswapd);
            assert!(before || writes == 0, "{system:?} asked for {writes} file pages");
            assert_eq!(
                file_writes(ran, Caller::Direct),
                0,
                "{system:?}: none in any column of the post"
            );
        }
    }
}

#[test]
fn d2_the_first_patch_alone_changes_nothing_on_xfs() {
    let [vanilla, patched] = [System::Linux3_0, System::NoDirectWb].map(|system| of(&ON_FS_MARK, system));
    assert!((elapsed(patched) / elapsed(vanilla) - 1.0).abs() < 0.01);
    assert!((direct_share(patched) - direct_share(vanilla)).abs() < 1.0);
    assert!(
        patched.counters.nr_vmscan_write_skip < 1000,
        "the post: 30 in all"
    );
}

#[test]
fn d3_the_second_patch_makes_kswapd_scan_more_free_less_of_it_and_skip_in_thousands() {
    let [vanilla, patched] = [System::Linux3_0, System::LessKswapdWb].map(|system| of(&ON_FS_MARK, system));
    let more = patched.counters.pgscan_kswapd as f64 / vanilla.counters.pgscan_kswapd as f64;
    assert!(more > 1.3, "{more} times as many scans; the post: 2.07");
    assert!(kswapd_efficiency(patched) < kswapd_efficiency(vanilla) - 3.0);
    assert!(patched.counters.nr_vmscan_write_skip > 100_000);
}

#[test]
fn d4_those_who_need_a_frame_stop_scanning_for_themselves() {
    let vanilla = direct_share(of(&ON_FS_MARK, System::Linux3_0));
    assert!(vanilla > 10.0, "{vanilla} %; the post: 37");
    for (system, ran) in ON_FS_MARK.iter() {
        if ![System::Linux3_0, System::NoDirectWb].contains(system) {
            assert!(direct_share(ran) <= 2.0, "{system:?}: {} %", direct_share(ran));
        }
    }
}

#[test]
fn d5_stalls_in_direct_reclaim_fall_to_a_third_or_less() {
    let vanilla = of(&ON_FS_MARK, System::Linux3_0).counters.direct_stall.0;
    for system in [
        System::LessKswapdWb,
        System::PrioInode,
        System::Version2,
        System::Linux7_0,
    ] {
        let stall = of(&ON_FS_MARK, system).counters.direct_stall.0;
        assert!(stall * 3 <= vanilla, "{system:?}: {stall} of {vanilla} ns");
    }
}

/// The post's anonymous writes and swap ins fall to a half or a quarter between its third and fourth column, where the code
/// differs by a call that does nothing when no device is congested; so that fall is not asked for here. What the patches
/// promise is: anonymous pages are still written, by kswapd alone, and not more of them.
#[test]
fn d6_what_reclaim_still_writes_is_anonymous_and_no_more_than_before() {
    let anonymous = |ran: &Ran| {
        ran.counters
            .writes
            .map(|by_kind| by_kind[PageKind::Anonymous as usize])
    };
    let [before, _] = anonymous(of(&ON_FS_MARK, System::Linux3_0));
    let [after, by_direct] = anonymous(of(&ON_FS_MARK, System::PrioInode));
    assert!(after > 0 && after < before * 5 / 4, "{before} and {after}");
    assert_eq!(by_direct, 0, "the post: 0 to 3");
    let swapped_in = |system| of(&ON_FS_MARK, system).counters.pswpin;
    assert!(swapped_in(System::PrioInode) < swapped_in(System::Linux3_0) * 5 / 4);
}

#[test]
fn d7_the_series_is_faster_by_some_percent() {
    let [vanilla, patched] = [System::Linux3_0, System::PrioInode].map(|system| of(&ON_FS_MARK, system));
    let change = 100.0 * (elapsed(patched) / elapsed(vanilla) - 1.0);
    assert!((-15.0..=-3.0).contains(&change), "{change} %; the post: -7.2");
}

#[test]
fn d8_in_micro_direct_reclaim_frees_less_of_what_it_scans_and_kswapd_no_less() {
    let [vanilla, patched] = [System::Linux3_0, System::PrioInode].map(|system| of(&ON_MICRO, system));
    assert!(direct_efficiency(patched) < direct_efficiency(vanilla) + 1.0);
    assert!(direct_efficiency(vanilla) < 35.0, "mapped pages are met twice");
    assert!(kswapd_efficiency(patched) > kswapd_efficiency(vanilla) - 1.0);
    let change = elapsed(patched) / elapsed(vanilla) - 1.0;
    assert!(change.abs() < 0.2, "{change}");
}

#[test]
fn d9_the_number_of_pages_reclaimed_does_not_change() {
    for columns in [&ON_FS_MARK, &ON_MICRO] {
        let vanilla = reclaimed(of(columns, System::Linux3_0));
        for system in SERIES
            .into_iter()
            .chain([System::Version2, System::Linux3_2, System::Linux7_0])
        {
            let change = reclaimed(of(columns, system)) / vanilla - 1.0;
            assert!(change.abs() < 0.01, "{system:?}: {change}");
        }
    }
}

#[test]
fn d10_a_file_system_that_ignores_reclaim_makes_the_series_neutral() {
    let [vanilla, patched] =
        [System::Linux3_0, System::PrioInode].map(|system| ran(system, FileSystem::Btrfs, FS_MARK));
    let change = elapsed(&patched) / elapsed(&vanilla) - 1.0;
    assert!(change.abs() < 0.03, "{change}");
    let written = vanilla
        .trace
        .count(Caller::Kswapd, PageKind::File, Outcome::WriteStarted);
    let refused = vanilla
        .trace
        .count(Caller::Kswapd, PageKind::File, Outcome::WriteRefused);
    assert!(
        written == 0 && refused > 1000,
        "{written} written, {refused} refused"
    );
}

#[test]
fn as_posted_the_last_two_patches_look_better_because_pages_leave_the_lists() {
    let [meant, posted] = [System::PrioInode, System::PrioInodeLeakV1].map(|system| of(&ON_FS_MARK, system));
    assert!(posted.counters.pgscan_kswapd < meant.counters.pgscan_kswapd * 9 / 10);
    assert!(kswapd_efficiency(posted) > kswapd_efficiency(meant) + 3.0);
    assert!(
        reclaimed(posted) < reclaimed(meant) * 0.95,
        "what leaves the lists is not reclaimed"
    );
    // The post: 2 to 5 times fewer, which the patches as meant do not reach (d6). With all of the post's data it is 2.7 and 4.2.
    let swapped_in = |system| of(&ON_FS_MARK, system).counters.pswpin as f64;
    for system in [System::ImmediateLeakV1, System::PrioInodeLeakV1] {
        let fewer = swapped_in(System::Linux3_0) / swapped_in(system);
        assert!(fewer > 2.0, "{system:?}: {fewer}");
    }
}

#[test]
fn the_later_kernels_hardly_meet_a_page_that_they_cannot_free() {
    for system in [System::Linux4_11, System::Linux7_0] {
        let efficiency = kswapd_efficiency(of(&ON_FS_MARK, system));
        assert!(efficiency > 95.0, "{system:?}: {efficiency} %");
    }
}

#[test]
fn every_page_that_was_scanned_is_in_the_trace() {
    for (system, ran) in ON_FS_MARK.iter() {
        let scanned = [ran.counters.pgscan_kswapd, ran.counters.pgscan_direct];
        for (caller, scanned) in [Caller::Kswapd, Caller::Direct].into_iter().zip(scanned) {
            let decided = ran.trace.decisions(caller);
            assert!(
                scanned - decided <= 32,
                "{system:?}: {scanned} scanned, {decided} decided"
            );
        }
    }
}

#[test]
fn the_same_run_gives_the_same_figures() {
    let again = ran(System::PrioInode, FileSystem::Xfs, MICRO);
    let first = of(&ON_MICRO, System::PrioInode);
    assert_eq!((again.counters, again.elapsed), (first.counters, first.elapsed));
}
