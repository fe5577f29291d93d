//! The rules by example.

use super::super::{Admission, AdmissionOptions};
use super::*;
use crate::io::Reason::{self, Background, Fault, Sync};
use alloc::vec::Vec;

const KIB_64: Bytes = Bytes::from_kib(64);
const PAGE: Bytes = Bytes::from_kib(4);

fn admission() -> Admission {
    admission_of(Nanos::from_millis(2), false)
}

/// A form with this goal, on a disk that reports that it rotates or does not.
pub(super) fn admission_of(read_latency: Nanos, is_arm: bool) -> Admission {
    let options = GoalOptions {
        read_latency,
        ..GoalOptions::default()
    };
    let mut admission = Admission::new(AdmissionOptions::Goal(options), Bytes::from_mib(1));
    admission.found(DeviceHints {
        rotational: Some(is_arm),
        ..DeviceHints::default()
    });
    admission
}

/// One read from `from` to `to`.
fn read(a: &mut Admission, from: Instant, to: Instant) {
    a.issued(from, Fault, PAGE);
    a.completed(to, Fault, PAGE, from);
}

fn read_beside_a_write(a: &mut Admission, from: Instant, to: Instant) {
    a.issued(from, Background, KIB_64);
    // a second one waits: more would be written if it were allowed
    assert_ne!(a.admit(from, Background, Bytes::from_mib(64)), Verdict::Go);
    read(a, from, to);
    a.completed(to, Background, KIB_64, from);
}

/// The same on a device that writes the faster the more is in transit.
fn read_beside_writes(a: &mut Admission, from: Instant, to: Instant) {
    let mut writes = 0;
    while a.admit(from, Background, KIB_64) == Verdict::Go {
        a.issued(from, Background, KIB_64);
        writes += 1;
    }
    read(a, from, to);
    for _ in 0..writes {
        a.completed(to, Background, KIB_64, from);
    }
}

/// A goal below what the disk can do held the writers back forever: 20 ms on a hard disk made 18 s into 386 s.
#[test]
fn a_goal_that_reads_miss_without_any_write_is_not_aimed_at() {
    let mut a = admission_of(Nanos::from_micros(500), false);
    let mut now = Instant(0);
    for n in 0..8_000 {
        let to = now + Nanos::from_micros(1_500);
        if n % 2 == 0 {
            read(&mut a, now, to);
        } else {
            read_beside_writes(&mut a, now, to);
        }
        now = to + Nanos::from_millis(1);
    }
    assert!(
        a.in_transit_limit(now) > LIMIT_START,
        "{:?}",
        a.in_transit_limit(now)
    );
}

#[test]
fn reads_without_writes_beside_them_say_nothing_about_the_limit() {
    let mut a = admission();
    let mut now = Instant(0);
    for _ in 0..1_000 {
        read(&mut a, now, now + Nanos::from_micros(100));
        now = now + Nanos::from_millis(1);
    }
    assert_eq!(a.in_transit_limit(now), LIMIT_START);
}

/// Writes of 64 KiB that the device works off one after the other, each in `took`.
fn write_for_a_while(a: &mut Admission, now: &mut Instant, took: Nanos) {
    for _ in 0..4_096 {
        assert_eq!(a.admit(*now, Background, KIB_64), Verdict::Go);
        a.issued(*now, Background, KIB_64);
        let began = core::mem::replace(now, *now + took);
        a.completed(*now, Background, KIB_64, began);
    }
}

/// A reader of five reads a second met 8 MiB each time: 51 ms at a goal of 2 ms.
#[test]
fn without_a_reader_no_more_is_in_transit_than_the_device_drains_within_the_goal() {
    let limit_where_a_write_takes = |us| {
        let (mut a, mut now) = (admission(), Instant(0));
        assert_eq!(
            a.in_transit_limit(now),
            Bytes::from_mib(8),
            "its rate is not known"
        );
        write_for_a_while(&mut a, &mut now, Nanos::from_micros(us));
        a.in_transit_limit(now)
    };
    assert_eq!(
        limit_where_a_write_takes(500),
        Bytes::from_kib(224),
        "7/8 of the goal"
    );
    assert_eq!(
        limit_where_a_write_takes(10),
        Bytes::from_mib(8),
        "no more than the setting"
    );
    assert_eq!(limit_where_a_write_takes(50_000), KIB_64, "one may always go");
}

#[test]
fn a_reader_lowers_the_limit_at_once_and_its_leaving_raises_it_within_100_ms() {
    let mut a = admission();
    let mut now = Instant(0);
    write_for_a_while(&mut a, &mut now, Nanos::from_micros(10));
    read(&mut a, now, now + Nanos::from_micros(60));
    now = now + Nanos::from_micros(60);
    assert_eq!(a.in_transit_limit(now), LIMIT_START);
    assert_eq!(a.in_transit_limit(now + Nanos::from_millis(49)), LIMIT_START);
    assert_eq!(
        a.in_transit_limit(now + Nanos::from_millis(50)),
        Bytes::from_mib(8)
    );
}

#[test]
fn a_limit_that_no_write_waits_for_is_not_raised() {
    let mut a = admission();
    let mut now = Instant(0);
    for _ in 0..1_000 {
        a.issued(now, Background, KIB_64);
        read(&mut a, now, now + Nanos::from_micros(100));
        a.completed(now + Nanos::from_micros(100), Background, KIB_64, now);
        now = now + Nanos::from_millis(1);
    }
    assert_eq!(a.in_transit_limit(now), LIMIT_START);
}

#[test]
fn reads_beyond_the_goal_shrink_the_limit_and_reads_well_inside_it_raise_it() {
    let mut a = admission();
    let mut now = Instant(0);
    let mut reads = |a: &mut Admission, read: fn(&mut Admission, Instant, Instant), latency, n| {
        for _ in 0..n {
            read(a, now, now + latency);
            now = now + latency + Nanos::from_millis(1);
        }
        a.in_transit_limit(now)
    };
    let (late, early) = (Nanos::from_millis(8), Nanos::from_micros(100));
    let start = LIMIT_START.0;
    assert_eq!(reads(&mut a, read_beside_a_write, late, 20).0, start / 2);
    let low = reads(&mut a, read_beside_a_write, late, 400);
    assert_eq!(
        low,
        GoalOptions::default().in_transit_min,
        "never below the writers' minimum"
    );
    assert!(reads(&mut a, read_beside_writes, early, 2_000) > low);
}

/// With a short goal reads and writes are served side by side, as far as is known: no slice of the readers before the goal is missed.
#[test]
fn a_read_that_waits_stops_writes_until_two_reads_have_ended() {
    let mut a = admission();
    let at = |us| Instant(0) + Nanos::from_micros(us);
    a.issued(at(0), Sync, KIB_64);
    a.issued(at(0), Fault, PAGE);
    assert_eq!(
        a.admit(at(1_999), Sync, KIB_64),
        Verdict::Go,
        "the goal has not passed"
    );
    assert_eq!(a.admit(at(2_000), Sync, KIB_64), Verdict::Wait(Some(at(4_000))));
    a.completed(at(2_300), Sync, KIB_64, at(0));
    a.completed(at(2_360), Fault, PAGE, at(0));
    assert!(
        matches!(a.admit(at(2_361), Sync, KIB_64), Verdict::Wait(Some(_))),
        "it waits for the second read"
    );
    a.issued(at(2_365), Fault, PAGE);
    a.completed(at(2_460), Fault, PAGE, at(2_365));
    assert_eq!(a.admit(at(2_461), Sync, KIB_64), Verdict::Go);
}

/// Plays a disk that does all writes first: a write of 64 KiB takes 500 us, a read 1 ms once there is no write. `slices`
/// of the readers; gives how long the first read of the last of them took, and how many there were in it.
fn a_disk_that_puts_writes_first(a: &mut Admission, reason: Reason, slices: u32) -> (Nanos, u32) {
    let (mut now, mut waited, mut reads) = (Instant(0), Nanos::ZERO, 0);
    for _ in 0..slices {
        reads = 1;
        let issued = now;
        a.issued(now, Fault, PAGE);
        // one in service, one behind it
        let mut queue = Vec::new();
        loop {
            while queue.len() < 2 && a.admit(now, reason, KIB_64) == Verdict::Go {
                a.issued(now, reason, KIB_64);
                queue.push(now);
            }
            if queue.is_empty() {
                break;
            }
            now = now + Nanos::from_micros(500);
            a.completed(now, reason, KIB_64, queue.remove(0));
        }
        now = now + Nanos::from_millis(1);
        a.completed(now, Fault, PAGE, issued);
        waited = now.since(issued);
        // until it is the writers' slice again
        while a.admit(now, reason, KIB_64) != Verdict::Go {
            a.issued(now, Fault, PAGE);
            a.completed(now + Nanos::from_millis(1), Fault, PAGE, now);
            (now, reads) = (now + Nanos::from_millis(1), reads + 1);
        }
    }
    (waited, reads)
}

/// A readers' slice is a share of the time for which they were kept waiting: a quarter of 36 ms while a caller waits for the
/// writes, and all of it while none does.
#[test]
fn readers_have_more_while_no_caller_waits_for_the_writers() {
    let reads_in_a_slice = |reason| {
        let mut a = admission_of(Nanos::from_millis(40), true);
        a_disk_that_puts_writes_first(&mut a, reason, 200).1
    };
    assert!(
        (8..=10).contains(&reads_in_a_slice(Sync)),
        "{}",
        reads_in_a_slice(Sync)
    );
    let background = reads_in_a_slice(Background);
    assert!((32..=38).contains(&background), "{background}");
}

/// Writes go on for as long as the read can still end within fifteen sixteenths of the goal.
#[test]
fn a_disk_that_puts_writes_first_is_found_out_and_its_writes_stop_in_time() {
    let mut a = admission_of(Nanos::from_millis(40), true);
    let (early, _) = a_disk_that_puts_writes_first(&mut a, Sync, 5);
    assert!(early < Nanos::from_millis(20), "a quarter of the goal: {early:?}");
    let (waited, _) = a_disk_that_puts_writes_first(&mut a, Sync, 200);
    assert!(
        waited > Nanos::from_millis(35) && waited <= Nanos::from_micros(37_500),
        "{waited:?}"
    );
}

#[test]
fn writers_get_their_slice_when_the_reader_does_not_come_back_or_is_never_served() {
    let mut a = admission();
    let at = |us| Instant(0) + Nanos::from_micros(us);
    a.issued(at(0), Background, KIB_64);
    a.issued(at(0), Fault, PAGE);
    assert!(matches!(a.admit(at(2_000), Background, KIB_64), Verdict::Wait(_)));
    assert_eq!(
        a.admit(at(4_000), Background, KIB_64),
        Verdict::Go,
        "the slice has lasted as long as the goal"
    );
    let mut a = admission();
    a.issued(at(0), Background, KIB_64);
    a.issued(at(0), Fault, PAGE);
    assert!(matches!(a.admit(at(2_000), Background, KIB_64), Verdict::Wait(_)));
    a.completed(at(2_100), Fault, PAGE, at(0));
    assert_eq!(
        a.admit(at(2_101), Background, KIB_64),
        Verdict::Wait(Some(at(2_100) + Nanos(62_500)))
    );
    assert_eq!(a.admit(at(2_163), Background, KIB_64), Verdict::Go);
}

/// A log's write, and the device's part of its sync, wait as a read does.
#[test]
fn writes_stop_for_a_caller_of_a_small_fsync() {
    let mut a = admission();
    let at = |us| Instant(0) + Nanos::from_micros(us);
    a.issued(at(0), Background, KIB_64);
    a.issued(at(1), Sync, PAGE);
    a.wait_begun(at(1));
    assert_eq!(a.admit(at(2_000), Background, KIB_64), Verdict::Go);
    assert_eq!(
        a.admit(at(2_001), Background, KIB_64),
        Verdict::Wait(Some(at(4_001)))
    );
    a.completed(at(2_600), Sync, PAGE, at(1));
    a.wait_ended(at(2_600), Sync, at(1));
    a.device_sync_begun(at(2_601));
    a.completed(at(2_700), Background, KIB_64, at(0));
    assert!(matches!(a.admit(at(2_700), Background, KIB_64), Verdict::Wait(_)));
    a.device_sync_ended(at(3_000));
    assert_eq!(a.admit(at(3_100), Background, KIB_64), Verdict::Go);
    assert!(!a.holds_small_fsyncs_back());
}

/// Every window of a log on a disk whose sync takes longer than the goal missed it, and the limit went down to its least.
#[test]
fn the_duration_of_a_device_sync_does_not_change_the_limit() {
    let mut a = admission();
    let mut now = Instant(0);
    for _ in 0..200 {
        a.issued(now, Background, KIB_64);
        a.device_sync_begun(now);
        assert_ne!(a.admit(now, Background, Bytes::from_mib(64)), Verdict::Go);
        now = now + Nanos::from_millis(8);
        a.completed(now, Background, KIB_64, now);
        a.device_sync_ended(now);
    }
    assert_eq!(a.in_transit_limit(now), LIMIT_START);
}

/// A scan waits for what the device reads at its best. Its writers had 16 MB/s of 450, as each of its waits missed the goal.
#[test]
fn a_scan_as_fast_as_the_device_is_not_held_against_the_writers() {
    let goal_after_waits_for = |reason| {
        let mut a = admission();
        let mut now = Instant(0);
        for _ in 0..200 {
            a.wait_begun(now);
            a.wait_ended(now + Nanos::from_micros(2_200), reason, now);
            now = now + Nanos::from_micros(2_200);
        }
        a.goal().unwrap().in_force
    };
    let goal = goal_after_waits_for(Reason::ReadAhead);
    assert!(goal >= Nanos::from_micros(6_600), "{goal:?}");
    assert_eq!(goal_after_waits_for(Sync), Nanos::from_millis(2));
}

/// It was taken to have lasted until then, and for a third of that no slice of the readers began.
#[test]
fn a_slice_that_no_write_has_ended_was_over_after_the_goal() {
    let mut a = admission();
    let at = |us| Instant(0) + Nanos::from_micros(us);
    a.issued(at(0), Background, KIB_64);
    a.issued(at(0), Fault, PAGE);
    assert!(matches!(a.admit(at(2_000), Background, KIB_64), Verdict::Wait(_)));
    a.completed(at(2_100), Background, KIB_64, at(0));
    a.completed(at(2_200), Fault, PAGE, at(0));
    // Nothing to write for a second.
    read(&mut a, at(1_000_000), at(1_000_100));
    assert_eq!(a.admit(at(1_000_200), Background, KIB_64), Verdict::Go);
    a.issued(at(1_000_200), Background, KIB_64);
    a.issued(at(1_000_200), Fault, PAGE);
    assert!(matches!(
        a.admit(at(1_002_500), Background, KIB_64),
        Verdict::Wait(_)
    ));
}

/// A news server's disk (Dillon 2000) did 224 single pages of background writes a second beside 400 reads.
#[test]
fn with_costly_seeks_two_background_writes_stand_beside_a_reader() {
    let now = Instant(1);
    for (is_arm, most) in [(true, 2), (false, LIMIT_START.0 / PAGE.0)] {
        let mut a = admission_of(Nanos::from_millis(60), is_arm);
        a.issued(now, Fault, PAGE);
        let mut issued = 0;
        while issued < 1_000 && a.admit(now, Background, PAGE) == Verdict::Go {
            a.issued(now, Background, PAGE);
            issued += 1;
        }
        assert_eq!(issued, most, "an arm: {is_arm}");
        let waited_for = a.admit(now, Sync, PAGE);
        assert_eq!(
            waited_for == Verdict::Go,
            most == 2,
            "for a sync they are counted by bytes"
        );
    }
}

/// It continued beside a limit that moved, and compared with a state that was gone.
#[test]
fn while_the_knee_is_tried_the_limit_stands_still_and_a_missed_goal_ends_the_trial() {
    let mut state = GoalState::new(GoalOptions::default());
    let mut now = Instant(0);
    state.knee.begin_trial(now, state.goal(), state.range(), 1);
    let mut window = |state: &mut GoalState, latency| {
        for _ in 0..20 {
            now = now + Nanos::from_millis(5);
            state.sample.limited = true;
            state.judge(now, latency, true);
        }
    };
    window(&mut state, Nanos::from_micros(100));
    assert!(state.knee.is_trying());
    assert_eq!(state.limit, LIMIT_START);
    window(&mut state, Nanos::from_millis(8));
    assert!(!state.knee.is_trying());
    assert!(state.limit < LIMIT_START);
}
