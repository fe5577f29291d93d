//! The rules of the hard disk, one by one.

use super::super::load::finish;
use super::super::{Model, ModelCompletion, ModelRequest};
use super::*;

const MIB: u64 = 1 << 20;

fn disk(parameters: HddParameters) -> Model {
    Model::hdd(parameters).unwrap()
}

fn read(id: u64, offset: u64) -> ModelRequest {
    ModelRequest {
        id,
        write: false,
        offset,
        len: 4096,
    }
}

fn write(id: u64, offset: u64, len: u64) -> ModelRequest {
    ModelRequest {
        id,
        write: true,
        offset,
        len: len as u32,
    }
}

fn ids(done: &[ModelCompletion]) -> Vec<u64> {
    done.iter().map(|done| done.id).collect()
}

#[test]
fn write_that_comes_20_us_late_waits_for_nearly_a_revolution() {
    let transfer = 4096.0 / 120e6 * 1e9;
    for (late_us, at_least, at_most) in [(20, 0.0, 0.0), (21, 8.3e6, 8.34e6)] {
        let mut disk = disk(HddParameters::default());
        disk.submit(Instant(0), write(1, 0, 4096));
        let first = finish(&mut disk)[0].at;
        let sent = first + Nanos::from_micros(late_us);
        disk.submit(sent, write(2, 4096, 4096));
        let waited = finish(&mut disk)[0].at.since(sent).0 as f64 - transfer;
        assert!(
            waited > at_least - 2.0 && waited < at_most + 2.0,
            "{late_us} us late: {waited} ns"
        );
    }
}

#[test]
fn read_that_goes_on_is_served_from_the_look_ahead() {
    let mut disk = disk(HddParameters::default());
    disk.submit(Instant(0), read(1, 0));
    let first = finish(&mut disk)[0].at;
    let sent = first + Nanos::from_millis(1);
    disk.submit(sent, read(2, 4096));
    let waited = finish(&mut disk)[0].at.since(sent);
    assert_eq!(
        waited,
        Nanos((4096.0 / 550e6 * 1e9) as u64),
        "4 KiB over the link"
    );
    assert_eq!(disk.statistics(sent).look_ahead_hits, 1);
}

#[test]
fn idle_disk_chooses_among_what_arrives_at_the_same_instant() {
    // Five tracks out at the angle 0.1, against the angle 0.9 of the first track.
    let track = 1_000_000.0;
    let (far, near) = ((5.1 * track) as u64, (0.9 * track) as u64);
    let mut same = disk(HddParameters::default());
    same.submit(Instant(0), read(1, near));
    same.submit(Instant(0), read(2, far));
    assert_eq!(same.next_event(), Some(Instant(0)));
    // 0.8 ms of seek pass the angle 0.1, so the far one costs a revolution and more.
    assert_eq!(ids(&finish(&mut same)), [1, 2]);
    let mut apart = disk(HddParameters::default());
    apart.submit(Instant(0), read(2, far));
    apart.submit(Instant(1), read(1, near));
    assert_eq!(ids(&finish(&mut apart)), [2, 1]);
}

#[test]
fn command_seen_for_250_ms_goes_before_all_younger_ones() {
    // A stream of writes always costs less than the read far away.
    let overtakers = |age_max| {
        let mut disk = disk(HddParameters {
            age_max,
            ..HddParameters::default()
        });
        disk.submit(Instant(0), write(0, 0, MIB));
        disk.advance(Instant(0), &mut Vec::new());
        disk.submit(Instant(0), read(99, 5 << 30));
        for n in 1..=30 {
            disk.submit(Instant(0), write(n, n * MIB, MIB));
        }
        ids(&finish(&mut disk)).iter().position(|&id| id == 99).unwrap()
    };
    // 1 MiB takes 8.74 ms. The drive sees the read when the first write ends; 29 writes end within 250 ms of that.
    assert_eq!(overtakers(Nanos::from_millis(250)), 30);
    assert_eq!(overtakers(Nanos::from_millis(10)), 3);
    assert_eq!(overtakers(Nanos::from_secs(250)), 31);
}

#[test]
fn commands_beyond_the_queue_depth_wait_outside_in_order() {
    let mut disk = disk(HddParameters {
        queue_depth: 1,
        ..HddParameters::default()
    });
    let offsets = [5 << 30, 0, 3 << 30, 4096];
    for (id, offset) in offsets.into_iter().enumerate() {
        disk.submit(Instant(0), read(id as u64, offset));
    }
    assert_eq!(ids(&finish(&mut disk)), [0, 1, 2, 3]);
}

#[test]
fn write_cache_answers_at_once_and_a_flush_waits_for_the_platter() {
    let mut disk = disk(HddParameters {
        write_cache: Bytes(2 * MIB),
        ..HddParameters::default()
    });
    disk.submit(Instant(0), write(1, 0, MIB));
    disk.submit(Instant(0), write(2, 100 * MIB, MIB));
    disk.submit(Instant(0), write(3, 200 * MIB, MIB));
    disk.flush(Instant(0), 4);
    disk.submit(Instant(0), read(5, 100 * MIB));
    let done = finish(&mut disk);
    assert_eq!(
        done[..3],
        [1, 2, 5].map(|id| ModelCompletion { id, at: Instant(0) }),
        "from the cache"
    );
    assert_eq!(ids(&done[3..]), [3, 4], "no room, and not durable yet: {done:?}");
    assert!(
        done[3].at > Instant(8_000_000),
        "after the first write was on the platter: {done:?}"
    );
    assert!(
        done[4].at > done[3].at + Nanos::from_millis(8),
        "after the second: {done:?}"
    );
    assert_eq!(disk.statistics(done[4].at).write_cache_hits, 1);
    assert!(disk.facts().write_cache);
    disk.flush(done[4].at + Nanos::from_secs(1), 6);
    let late = finish(&mut disk);
    assert_eq!(late[0].at, done[4].at + Nanos::from_secs(1), "nothing to flush");
}

#[test]
fn flush_waits_for_the_write_that_is_on_its_way_to_the_platter() {
    let mut disk = disk(HddParameters {
        write_cache: Bytes(2 * MIB),
        ..HddParameters::default()
    });
    disk.submit(Instant(0), write(1, 0, MIB));
    disk.advance(Instant(1), &mut Vec::new());
    disk.flush(Instant(2), 2);
    let done = finish(&mut disk);
    assert!(done[0].id == 2 && done[0].at >= Instant(8_000_000), "{done:?}");
}

#[test]
fn write_larger_than_the_write_cache_goes_past_it() {
    let mut disk = disk(HddParameters {
        write_cache: Bytes(4096),
        ..HddParameters::default()
    });
    disk.submit(Instant(0), write(1, 0, MIB));
    assert!(finish(&mut disk)[0].at > Instant(8_000_000));
}

#[test]
fn statistics_add_up() {
    let mut disk = disk(HddParameters::default());
    disk.submit(Instant(0), read(1, 1 << 30));
    disk.submit(Instant(0), write(2, 2 << 30, 3 * MIB));
    let end = finish(&mut disk)[1].at;
    let seen = disk.statistics(end + end.since(Instant(0)));
    assert_eq!(
        (seen.reads, seen.writes, seen.seeks, seen.sequential),
        (1, 3, 2, 2),
        "1 MiB a command"
    );
    assert_eq!(
        (seen.bytes_read, seen.bytes_written),
        (Bytes(4096), Bytes(3 * MIB))
    );
    assert_eq!(seen.queue_depth_max, 4);
    let parts = seen.seek_time + seen.rotation_time + seen.transfer_time;
    assert!(
        parts.0.abs_diff(end.0) < 10 && seen.busy_time.0.abs_diff(end.0) < 10,
        "{seen:?}"
    );
    assert!(
        seen.queue_depth_mean > 0.5 && seen.queue_depth_mean < 2.0,
        "{seen:?}"
    );
    disk.reset_statistics(end);
    assert_eq!(disk.statistics(end), super::super::ModelStatistics::default());
}

#[test]
fn parameter_out_of_range_says_which() {
    let bad = HddParameters {
        seek_max: Nanos(1),
        ..HddParameters::default()
    };
    let said = Model::hdd(bad).unwrap_err().to_string();
    assert_eq!(
        said,
        "seek_max (ns) of the modelled disk is 1: it must be at least seek_min"
    );
}
