//! A drive with a volatile write cache, simulated in steps of a quarter of a millisecond.

use super::super::Verdict;
use super::tests::admission_of;
use crate::io::Reason::{Background, Fault};
use crate::units::{Bytes, Instant, Nanos};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

const STEP: Nanos = Nanos::from_micros(250);
const PAGE: Bytes = Bytes::from_kib(4);

/// 64 MiB of cache, into which writes go at once, and which is written at 120 MB/s; a read takes 12 ms, after another 6 ms, and waits while more
/// than three quarters of the cache are in use, but no longer than 250 ms.
#[derive(Default)]
struct Drive {
    cached: u64,
    writes: VecDeque<(u64, Instant)>,
    read: Option<Instant>,
    reading_until: Option<Instant>,
    last_was_read: bool,
}

const CACHE: u64 = 64 << 20;
const WRITTEN_A_STEP: u64 = 30_000;

struct Played {
    reads: Vec<Nanos>,
    written: u64,
}

fn play(seconds: u64, goal: Nanos) -> Played {
    let mut a = admission_of(goal, true);
    let mut d = Drive::default();
    let (mut now, mut reads, mut written) = (Instant(0), Vec::new(), 0);
    let mut asked_again = None;
    while now.0 < seconds * 1_000_000_000 {
        now = now + STEP;
        // The writers always want more.
        loop {
            if asked_again.is_some_and(|at| now < at) && d.read.is_some() {
                break;
            }
            let bytes = a.write_bytes(now).min(Bytes::from_mib(1));
            match a.admit(now, Background, bytes) {
                Verdict::Go => {
                    a.issued(now, Background, bytes);
                    d.writes.push_back((bytes.0, now));
                }
                Verdict::Wait(at) => {
                    asked_again = at;
                    break;
                }
            }
        }
        // The link.
        if let Some((bytes, issued)) = d.writes.pop_front_if(|(bytes, _)| d.cached + *bytes <= CACHE) {
            d.cached += bytes;
            a.completed(now, Background, Bytes(bytes), issued);
            written += bytes;
            asked_again = None;
        }
        // The arm.
        match (d.reading_until, d.read) {
            (Some(until), Some(issued)) if now >= until => {
                a.completed(now, Fault, PAGE, issued);
                reads.push(now.since(issued));
                (d.read, d.reading_until, d.last_was_read) = (None, None, true);
                asked_again = None;
            }
            (Some(_), _) => {}
            (None, Some(issued))
                if d.cached <= CACHE / 4 * 3 || now.since(issued) >= Nanos::from_millis(250) =>
            {
                d.reading_until = Some(now + Nanos::from_millis(if d.last_was_read { 6 } else { 12 }));
            }
            (None, _) => {
                d.last_was_read &= d.cached == 0;
                d.cached = d.cached.saturating_sub(WRITTEN_A_STEP);
            }
        }
        if d.read.is_none() {
            d.read = Some(now);
            a.issued(now, Fault, PAGE);
        }
    }
    let _ = Background;
    Played { reads, written }
}

#[test]
fn a_drive_that_hides_its_writes_is_given_no_more_than_a_read_may_wait_for() {
    let mut played = play(20, Nanos::from_millis(60));
    let reads = played.reads.len();
    played.reads.sort_unstable();
    let tail = played.reads[reads - 1 - reads / 20];
    std::println!(
        "{reads} reads, tail {tail:?}, {} MB/s",
        played.written / 20_000_000
    );
    assert!(tail <= Nanos::from_millis(90), "{tail:?}");
}
