//! The rules of batches by example: a reader whose reads take 100 us, writes of 1 MiB that take 5 ms.

use super::super::{Admission, AdmissionOptions};
use super::*;
use crate::io::Reason::{Background, Fault};
use alloc::vec::Vec;

const PAGE: Bytes = Bytes::from_kib(4);
const MIB: Bytes = Bytes::from_mib(1);
const READ: Nanos = Nanos::from_micros(100);
const WRITE: Nanos = Nanos::from_millis(5);

/// Readers and writers of a device that serves in order.
struct World {
    admission: Admission,
    now: Instant,
    /// What the reads took, and how many writes were begun.
    reads: Vec<Nanos>,
    writes: u64,
    think: Nanos,
}

impl World {
    fn new(batch: Nanos, think: Nanos) -> World {
        let options = GoalOptions {
            read_latency: Nanos::from_millis(2),
            batch,
            ..GoalOptions::default()
        };
        World {
            admission: Admission::new(AdmissionOptions::Goal(options), MIB),
            now: Instant(0),
            reads: Vec::new(),
            writes: 0,
            think,
        }
    }

    /// One read after what is in transit, with all the writes that are allowed meanwhile; they wait all the time.
    fn read(&mut self) {
        let issued = self.now;
        let begun = self.write_what_may_be();
        let wait = Nanos(begun * WRITE.0);
        self.admission.issued(issued, Fault, PAGE);
        for n in 1..=begun {
            self.admission
                .completed(issued + Nanos(n * WRITE.0), Background, MIB, issued);
        }
        self.now = issued + wait + READ;
        self.admission.completed(self.now, Fault, PAGE, issued);
        self.reads.push(self.now.since(issued));
        self.now = self.now + self.think;
    }

    fn write_what_may_be(&mut self) -> u64 {
        let before = self.writes;
        while self.writes < before + 1_000 && self.admission.admit(self.now, Background, MIB) == Verdict::Go {
            self.admission.issued(self.now, Background, MIB);
            self.writes += 1;
        }
        self.writes - before
    }

    fn over(&self, limit: Nanos) -> usize {
        self.reads.iter().filter(|took| **took > limit).count()
    }
}

#[test]
fn of_129_reads_one_waits_for_a_batch_and_the_others_for_no_write() {
    let mut world = World::new(Nanos::from_millis(100), Nanos::ZERO);
    (0..12_900).for_each(|_| world.read());
    let waited = world.over(READ);
    assert!((90..=110).contains(&waited), "{waited}");
    // As many bytes as the device writes in 100 ms: 20 writes of 5 ms.
    let (batches, writes) = (waited as u64, world.writes);
    assert!(
        (15 * batches..=22 * batches).contains(&writes),
        "{writes} in {batches}"
    );
    let slowest = world.reads.iter().max();
    assert!(slowest < Some(&Nanos::from_millis(120)), "{slowest:?}");
}

#[test]
fn a_reader_who_thinks_is_served_by_the_ordinary_rules_and_keeps_no_writer_waiting() {
    let think = Nanos::from_millis(10);
    let (mut with, mut without) = (
        World::new(Nanos::from_millis(100), think),
        World::new(Nanos::ZERO, think),
    );
    (0..2_000).for_each(|_| (with.read(), without.read()).0);
    let (with, without) = (with.writes, without.writes);
    // Every second it is tried for 100 ms, half of the time being the writers'.
    assert!(with * 100 > without * 80, "{with} and {without}");
}
