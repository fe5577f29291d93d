//! Compares the modeled disks with figures from an independent program with the same model, which served a real loop
//! device in real time (fio and a paced load on Linux 6.18). Virtual time has no processor to wait for, so the
//! tolerance is 5 %. Where the processors limited the real run, the test says what it compares.

use super::load::{Client, Seen, assert_near, random, random_reads, run};
use super::{HddOrder, HddParameters, Model, ModelCompletion, ModelRequest, SsdParameters};
use millpond_core::units::{Bytes, Instant, Nanos};
use std::cell::Cell;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn hdd() -> Model {
    Model::hdd(HddParameters::default()).unwrap()
}

fn ssd(burst_buffer: u64) -> Model {
    Model::ssd(SsdParameters {
        burst_buffer: Bytes(burst_buffer),
        ..SsdParameters::default()
    })
    .unwrap()
}

fn reads_per_s(seen: &[Seen], seconds: u64) -> f64 {
    seen.iter().map(|seen| seen.latencies.len()).sum::<usize>() as f64 / seconds as f64
}

fn mb_per_s(seen: &[Seen], seconds: u64) -> f64 {
    seen.iter().map(|seen| seen.bytes).sum::<u64>() as f64 / 1e6 / seconds as f64
}

/// `depth` clients that share one stream of 1 MiB transfers.
fn sequential_mb_per_s(write: bool, depth: usize) -> f64 {
    let next = Cell::new(0);
    let client = || -> Client<'_> { Box::new(|_| Some((write, next.replace(next.get() + MIB), MIB as u32))) };
    mb_per_s(&run(&mut hdd(), 8, (0..depth).map(|_| client()).collect()), 8)
}

struct Paced {
    reads_per_s: f64,
    write_mb_per_s: f64,
    read: Seen,
}

/// A reader of random 4 KiB out of 1 GiB, and `writers` that write `unit` in turn through the 2 GiB after it: at once
/// when the last write is answered or, if `reads` is not 0, also when this many reads have been answered since the last
/// write was sent.
fn paced(mut disk: Model, seconds: u64, writers: usize, unit: u64, reads: usize) -> Paced {
    let next = Cell::new(0);
    let writer = || -> Client<'_> {
        let (next, mut reads_due) = (&next, 0);
        Box::new(move |answered| {
            if reads > 0 && answered[0] < reads_due {
                return None;
            }
            reads_due = answered[0] + reads;
            Some((
                true,
                GIB + next.replace(next.get() + unit) % (2 * GIB),
                unit as u32,
            ))
        })
    };
    let mut clients = vec![random_reads(0, GIB, 1)];
    clients.extend((0..writers).map(|_| writer()));
    let mut seen = run(&mut disk, seconds, clients);
    Paced {
        reads_per_s: reads_per_s(&seen[..1], seconds),
        write_mb_per_s: mb_per_s(&seen[1..], seconds),
        read: seen.swap_remove(0),
    }
}

#[test]
fn hdd_reads_at_random_as_measured() {
    // Measured: 180-187 reads/s, mean 5.35 ms, p99 9.6 ms; 612 reads/s at 32 outstanding.
    for size in [GIB, 2 * GIB] {
        let seen = run(&mut hdd(), 30, vec![random_reads(0, size, 1)]);
        assert_near("reads/s", reads_per_s(&seen, 30), 183.5);
        assert_near("mean ms", seen[0].mean_ms(), 5.35);
        assert_near("p99 ms", seen[0].percentile_ms(0.99), 9.6);
        let seen = run(
            &mut hdd(),
            30,
            (1..=32).map(|seed| random_reads(0, size, seed)).collect(),
        );
        assert_near("reads/s at 32 outstanding", reads_per_s(&seen, 30), 612.0);
    }
}

#[test]
fn hdd_streams_as_measured() {
    // Measured: 117 MB/s reads; writes 113 MB/s with four outstanding, a little below the media rate because
    // some came late, and 59 MB/s with one, which misses a revolution for each.
    assert_near("reads, 4 outstanding", sequential_mb_per_s(false, 4), 117.0);
    assert_near("writes, 4 outstanding", sequential_mb_per_s(true, 4), 120.0);
    assert_near("writes, 1 outstanding", sequential_mb_per_s(true, 1), 59.0);
}

#[test]
fn hdd_serves_a_reader_beside_paced_writes_as_measured() {
    // KiB per write, reads per write, reads/s, MB/s, p99 ms. At 2 and 4 MiB the measured load did about three reads
    // for two writes (46.2 reads/s with 64.7 MB/s; 27.7 with 82.6), which this load does not: p99 only.
    let rows = [
        (256, 1, Some((76.9, 20.1)), 20.1),
        (1024, 1, Some((50.6, 52.8)), 26.7),
        (2048, 1, None, 35.8),
        (4096, 1, None, 53.2),
        (8192, 1, Some((14.6, 103.0)), 86.3),
        (2048, 3, Some((76.2, 53.1)), 35.1),
        (4096, 5, Some((74.3, 61.6)), 51.6),
        (8192, 8, Some((68.2, 70.2)), 84.7),
        (8192, 16, Some((99.8, 52.2)), 83.4),
    ];
    for (kib, reads, rates, p99_ms) in rows {
        let seen = paced(hdd(), 20, 1, kib << 10, reads);
        assert_near(
            &format!("{kib} KiB per {reads} reads: p99 ms"),
            seen.read.percentile_ms(0.99),
            p99_ms,
        );
        if let Some((reads_per_s, write_mb_per_s)) = rates {
            assert_near(
                &format!("{kib} KiB per {reads} reads: reads/s"),
                seen.reads_per_s,
                reads_per_s,
            );
            assert_near(
                &format!("{kib} KiB per {reads} reads: MB/s"),
                seen.write_mb_per_s,
                write_mb_per_s,
            );
        }
    }
}

#[test]
fn ssd_writes_as_measured_while_its_burst_buffer_lasts_and_after() {
    // Writers, KiB each, burst buffer, MB/s in 6 s. Reads are left out: in the real runs they waited for processors.
    let rows = [
        (1, 512, GIB, 328.0),
        (2, 128, GIB, 329.0),
        (4, 128, GIB, 329.0),
        (2, 128, 0, 142.0),
        (4, 128, 0, 149.0),
    ];
    for (writers, kib, burst, write_mb_per_s) in rows {
        let seen = paced(ssd(burst), 6, writers, kib << 10, 0);
        assert_near(
            &format!("{writers} x {kib} KiB: MB/s"),
            seen.write_mb_per_s,
            write_mb_per_s,
        );
    }
}

#[test]
fn ssd_reads_take_the_channel_latency_and_then_the_link() {
    let seen = run(&mut ssd(GIB), 1, vec![random_reads(0, GIB, 1)]);
    assert_eq!(
        (seen[0].percentile_ms(0.0), seen[0].percentile_ms(0.99)),
        (0.09, 0.09)
    );
    // Eight channels of 90 us each allow 88,889 reads/s; 32 readers at random leave one in eight idle.
    let seen = run(
        &mut ssd(GIB),
        1,
        (1..=32).map(|seed| random_reads(0, GIB, seed)).collect(),
    );
    assert_near("reads/s at 32 outstanding", reads_per_s(&seen, 1), 77_600.0);
}

#[test]
fn answers_are_those_of_the_independent_program_to_the_nanosecond() {
    // 5000 requests of a seeded load that has everything: bursts, pauses, streams, flushes. The sums of
    // id x time of answer, modulo 2^64, were computed by both programs.
    let hdd = |write_cache, order| {
        Model::hdd(HddParameters {
            write_cache,
            order,
            ..HddParameters::default()
        })
        .unwrap()
    };
    let (off, shortest) = (Bytes(0), HddOrder::ShortestPositioning);
    assert_eq!(answers(hdd(off, shortest), 3_000_000), 185_820_805_619_235_281);
    assert_eq!(
        answers(hdd(off, HddOrder::Circular), 3_000_000),
        187_589_295_587_258_070
    );
    assert_eq!(
        answers(hdd(off, HddOrder::Arrival), 3_000_000),
        188_830_065_357_551_512
    );
    assert_eq!(
        answers(hdd(Bytes::from_mib(64), shortest), 3_000_000),
        185_832_650_175_272_969
    );
    assert_eq!(
        answers(hdd(Bytes::from_mib(2), shortest), 3_000_000),
        185_775_527_503_261_443
    );
    assert_eq!(answers(ssd(GIB), 250_000), 70_774_069_925_813_745);
    assert_eq!(answers(ssd(4 * MIB), 250_000), 70_824_932_385_772_380);
}

fn answers(mut model: Model, gap_ns: u64) -> u64 {
    let (mut seed, mut now, mut offset) = (1, Instant(0), 0);
    let mut done: Vec<ModelCompletion> = Vec::new();
    for id in 0..5000 {
        let pause = if random(&mut seed).is_multiple_of(100) {
            400_000_000
        } else {
            2 * gap_ns
        };
        now = now + Nanos(1 + random(&mut seed) % pause);
        let kind = random(&mut seed) % 50;
        if kind == 0 {
            model.flush(now, id);
            continue;
        }
        if random(&mut seed).is_multiple_of(2) {
            offset = random(&mut seed) % (10 * GIB / 4096) * 4096;
        }
        let pages_max = [1, 1, 4, 256][(random(&mut seed) % 4) as usize];
        let len = (1 + random(&mut seed) % pages_max) as u32 * 4096;
        model.submit(
            now,
            ModelRequest {
                id,
                write: kind < 20,
                offset,
                len,
            },
        );
        offset += u64::from(len);
        model.validate();
    }
    while let Some(at) = model.next_event() {
        model.advance(at, &mut done);
    }
    assert_eq!(done.len(), 5000, "every request is answered once");
    done.iter().fold(0, |sum: u64, done| {
        sum.wrapping_add((done.id + 1).wrapping_mul(done.at.0))
    })
}
