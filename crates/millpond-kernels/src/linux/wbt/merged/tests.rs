//! Vectors of `blk-wbt`, and a device that reads slowly.

use super::super::Wbt;
use super::*;
use millpond_core::admission::Admission;
use millpond_core::units::Bytes;

fn depths(step: i32, queue_depth: u32, clamp_up: bool) -> (u32, u32, u32) {
    let options = MergedOptions {
        queue_depth,
        clamp_up,
        ..MergedOptions::flash()
    };
    let limits = limits(step, &options);
    (limits.max, limits.normal, limits.background)
}

#[test]
fn windows_become_shorter_by_one_over_the_square_root() {
    let expected = [
        72_727_272, 59_259_259, 50_000_000, 45_714_285, 41_025_641, 38_095_238, 35_555_555, 33_333_333,
    ];
    for (step, nanos) in (1..).zip(expected) {
        assert_eq!(window(step), Nanos(nanos), "step {step}");
    }
    assert_eq!([window(0), window(-3)], [WINDOW; 2]);
}

#[test]
fn limits_by_step_and_queue_depth() {
    let rows = [
        (31, -1, (23, 12, 6)),
        (31, 0, (16, 8, 4)),
        (31, 1, (8, 4, 2)),
        (31, 2, (4, 2, 1)),
        (31, 3, (2, 2, 1)),
        (31, 4, (1, 1, 1)),
        (31, 40, (1, 1, 1)),
        (128, -3, (96, 48, 24)),
        (128, -2, (61, 31, 16)),
        (128, -1, (31, 16, 8)),
        (1, 0, (2, 2, 1)),
        (1, 1, (1, 1, 1)),
    ];
    for (depth, step, expected) in rows {
        assert_eq!(depths(step, depth, false), expected, "depth {depth}, step {step}");
        assert_eq!(depths(step, depth, true), expected, "depth {depth}, step {step}");
    }
}

#[test]
fn a_step_up_with_a_small_queue_is_a_step_down_unless_clamped() {
    for (depth, without) in [(16, 12), (8, 6), (2, 1)] {
        assert_eq!(depths(-1, depth, false).0, without, "depth {depth}");
        assert_eq!(depths(-1, depth, true).0, depth, "depth {depth}");
    }
}

#[test]
fn verdicts_move_the_step_and_the_limits() {
    let mut state = Merged::new(MergedOptions::flash());
    let mut seen = Vec::new();
    type Step = fn(&mut Merged);
    let down: Step = |s| s.step_down(true);
    let up: Step = Merged::step_up;
    for verdict in [down, down, up, up, up, up] {
        verdict(&mut state);
        seen.push((state.step, state.limits.max));
    }
    assert_eq!(seen, [(1, 8), (2, 4), (1, 8), (0, 16), (-1, 23), (-1, 23)]);
    state.step_down(true);
    assert_eq!(state.step, 0, "a hard step down from above leads to 0");
}

#[test]
fn the_fastest_read_of_a_window_decides() {
    let (window, target) = (Nanos::from_millis(100), Nanos::from_millis(2));
    let samples = Samples {
        reads: 5,
        read_least: target,
        writes: 3,
        ..Samples::default()
    };
    let judge = |change: fn(&mut Samples)| {
        let mut samples = samples;
        change(&mut samples);
        samples.judge(window, target)
    };
    assert_eq!(judge(|_| {}), Judgement::Ok);
    assert_eq!(
        judge(|s| s.read_least = Nanos::from_millis(3)),
        Judgement::Exceeded
    );
    assert_eq!(judge(|s| s.writes = 2), Judgement::UnknownWrites);
    assert_eq!(judge(|s| (s.writes, s.reads) = (0, 0)), Judgement::Unknown);
    assert_eq!(
        judge(|s| (s.writes, s.reads, s.is_busy) = (0, 0, true)),
        Judgement::UnknownWrites
    );
    assert_eq!(
        judge(|s| (s.reads, s.oldest) = (0, Nanos::from_millis(3))),
        Judgement::Exceeded,
        "none came back, and one has been away for longer than the target"
    );
    assert_eq!(judge(|s| s.oldest = Nanos::from_millis(3)), Judgement::Ok);
    assert_eq!(judge(|s| s.oldest = Nanos::from_millis(101)), Judgement::Exceeded);
}

const KIB_64: Bytes = Bytes::from_kib(64);

fn at(ms: u64) -> Instant {
    Instant(0) + Nanos::from_millis(ms)
}

/// Writes as fast as it is allowed, each for 1 ms, beside a reader whose reads take `read_ms`; returns the final depth.
fn run(options: MergedOptions, read_ms: Option<u64>, ms: u64) -> (i32, u32) {
    let mut a = Admission::with_form(Wbt::merged(options), Bytes::from_mib(1));
    let mut in_flight: Vec<Instant> = Vec::new();
    let mut read: Option<Instant> = None;
    let mut depth = 0;
    for now in (0..ms).map(at) {
        if let Some(issued) =
            read.take_if(|issued| now.since(*issued) >= Nanos::from_millis(read_ms.unwrap_or(0)))
        {
            a.completed(now, Reason::Fault, KIB_64, issued);
        }
        if read_ms.is_some() && read.is_none() {
            a.issued(now, Reason::Fault, KIB_64);
            read = Some(now);
        }
        for issued in core::mem::take(&mut in_flight) {
            a.completed(now, Reason::Sync, KIB_64, issued);
        }
        while a.admit(now, Reason::Sync, KIB_64) == Verdict::Go {
            a.issued(now, Reason::Sync, KIB_64);
            in_flight.push(now);
        }
        depth = in_flight.len() as u32;
    }
    let Wbt::Merged(state) = a.form() else {
        unreachable!()
    };
    (state.step(), depth)
}

#[test]
fn slow_reads_leave_one_write_at_a_time_and_fast_ones_many() {
    assert_eq!(run(MergedOptions::flash(), Some(5), 2_000), (4, 1));
    assert_eq!(run(MergedOptions::flash(), Some(1), 2_000), (-1, 23));
    assert_eq!(
        run(MergedOptions::flash(), None, 2_000),
        (-1, 23),
        "pure writers go up"
    );
}

/// The target of a rotating disk says nothing about reads of 5 ms.
#[test]
fn a_target_that_is_never_missed_changes_nothing() {
    assert_eq!(run(MergedOptions::rotating(), Some(5), 2_000), (-1, 23));
}

/// The seed's own reader: most of its reads took 40 us, out of the disk's cache, and some a quarter of a second.
#[test]
fn a_single_fast_read_makes_a_window_good() {
    let samples = Samples {
        reads: 30,
        read_least: Nanos::from_micros(40),
        writes: 100,
        oldest: Nanos::from_millis(90),
        is_busy: true,
    };
    let target = MergedOptions::rotating().target;
    assert_eq!(samples.judge(WINDOW, target), Judgement::Ok);
}

#[test]
fn reclaim_is_counted_apart() {
    let mut a = Admission::with_form(Wbt::merged(MergedOptions::flash()), Bytes::from_mib(1));
    let mut fill = |reason| {
        let mut count = 0;
        while a.admit(at(0), reason, KIB_64) == Verdict::Go {
            a.issued(at(0), reason, KIB_64);
            count += 1;
        }
        count
    };
    assert_eq!(fill(Reason::Background), 4);
    assert_eq!(fill(Reason::Reclaim), 16);
    assert_eq!(
        fill(Reason::Sync),
        0,
        "a writer that came before waits, and goes first"
    );
}
