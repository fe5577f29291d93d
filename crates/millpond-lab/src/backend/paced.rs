//! What the device itself allows: writes in measured doses between single reads, without a file system, a page cache
//! or a policy, on the modelled disk in virtual time.
//!
//! ```text
//!   256K, 8M/8    a dose of this many bytes in a row after every read, or after every eighth
//!   2x128K        two writers, each of which has one write of this many bytes in transit
//! ```
//!
//! The reader asks for 4 KiB anywhere in its file as soon as it is answered; the writers go through the rest of the disk
//! from front to back. This is no bound that is proven, but it is what a scheduler could have that never lets writes
//! queue up, so reports show it as the line that others are held against.

use super::{Backend, Driver, Row, RowRequest, Rows};
use crate::error::{LabError, Result};
use crate::measure::steps::steps_in;
use crate::outcome::Outcome;
use crate::setup::{Device, Setup};
use crate::storage::Served;
use crate::watch::Proceed;
use crate::workload::axboe2016::phase::Actor;
use crate::workload::axboe2016::record::{Read, Written};
use crate::workload::{Progress, Workload};
use millpond::internal::quantity::parse_size;
use millpond_core::units::{Instant, Nanos};
use millpond_sim::disk::{Model, ModelCompletion, ModelRequest};
use std::time::Duration;

/// This kind of target.
pub const KIND: Backend = Backend {
    name: "paced",
    about: "writes in doses between single reads, past any cache, on a modelled disk in virtual time: what the disk allows",
    rows,
    driver: Driver::InProcess(run),
};

/// Doses that draw the line from all for the reader to nearly all for the writers.
const ROTATING: [&str; 18] = [
    "256K", "1M", "2M", "3M", "4M", "6M", "8M", "12M", "16M", "32M", "2M/3", "4M/2", "4M/3", "4M/5", "8M/2",
    "8M/4", "8M/8", "32M/8",
];
const FLASH: [&str; 18] = [
    "64K", "72K", "80K", "96K", "128K", "256K", "1x64K", "1x80K", "1x96K", "1x128K", "1x160K", "1x512K",
    "2x32K", "2x48K", "2x64K", "2x128K", "4x128K", "8x128K",
];

/// Between an answer and the next request: what a loop device and a reader's loop cost where the figures in the test
/// were measured.
const THINK: Nanos = Nanos::from_micros(60);
/// The most that a request carries: a command of the modelled disks.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
const READ_BYTES: u64 = 4096;
/// The reader; writers count from 1.
const READER: u64 = 0;

/// The pace of the writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    bytes: u64,
    /// Reads between two doses; 0: doses follow each other.
    reads: u64,
    writers: u64,
}

impl Pace {
    fn of_text(text: &str) -> Option<Pace> {
        let size = |text: &str| Some(parse_size(text).ok()?.0);
        let pace = match (text.split_once('x'), text.split_once('/')) {
            (Some((writers, bytes)), _) => Pace {
                bytes: size(bytes)?,
                reads: 0,
                writers: writers.parse().ok()?,
            },
            (None, Some((bytes, reads))) => Pace {
                bytes: size(bytes)?,
                reads: reads.parse().ok()?,
                writers: 1,
            },
            (None, None) => Pace {
                bytes: size(text)?,
                reads: 1,
                writers: 1,
            },
        };
        (pace.bytes > 0 && pace.bytes.is_multiple_of(READ_BYTES) && pace.writers > 0).then_some(pace)
    }
}

fn rows(request: &RowRequest) -> Result<Rows> {
    let Device::Modelled(disk) = request.device else {
        // nothing can be said of an unknown disk
        return Ok(Rows::default());
    };
    let paces: &[&str] = if disk.is_rotational() { &ROTATING } else { &FLASH };
    let row = |pace: &&str| Row {
        is_deterministic: true,
        ..request.row("paced", pace)
    };
    Ok(Rows {
        rows: paces.iter().map(row).collect(),
        notes: Vec::new(),
    })
}

fn run(setup: &Setup, workload: &Workload, progress: &mut dyn FnMut(Progress) -> Proceed) -> Result<Outcome> {
    let Workload::Axboe2016(work) = workload else {
        return Err(LabError::Unavailable {
            target: setup.target.clone(),
            why: "it has the load of axboe2016 only".into(),
        });
    };
    let pace = Pace::of_text(&setup.variant).ok_or_else(|| LabError::UnknownName {
        what: "pace",
        value: setup.variant.clone(),
        allowed: [&ROTATING[..], &FLASH].concat().join(", "),
    })?;
    let mut outcome = Outcome::default();
    // beside other loads than the post's one reader this line says nothing
    if !matches!(work.phase.actor(), None | Some(Actor::Readers(1, Duration::ZERO))) {
        return Ok(outcome);
    }
    let mut load = Load {
        pace,
        reads: work.phase.reads(),
        read_file: work.read_file_bytes,
        left: if work.phase.writes() {
            work.written_bytes()
        } else {
            0
        },
        until: if work.phase.writes() {
            Instant::NEVER
        } else {
            Instant(0) + Nanos::from_millis(work.reader_alone_ms)
        },
        random: fastrand::Rng::with_seed(work.seed),
        ..Load::new(setup.device.model_or_hdd().model()?)
    };
    while load.step() {
        let beat = load.disk_now.0;
        if beat.is_multiple_of(64)
            && progress(Progress {
                beat,
                ..Progress::default()
            }) == Proceed::Stop
        {
            return Err(LabError::Interrupted);
        }
    }
    let length = Duration::from_nanos(load.disk_now.0);
    let steps = steps_in(length);
    if work.phase.reads() {
        load.read.report(length, steps, &mut outcome);
    }
    if work.phase.writes() {
        load.written.write_seconds = length.as_secs_f64();
        load.written.seconds = length.as_secs_f64();
        load.written.report(work, steps, &mut outcome);
    }
    Ok(outcome)
}

/// The reader and the writers on their disk.
struct Load {
    disk: Model,
    disk_now: Instant,
    pace: Pace,
    reads: bool,
    read_file: u64,
    /// Bytes still to be written, and where the next go.
    left: u64,
    next: u64,
    until: Instant,
    random: fastrand::Rng,
    /// The thread that asks next, and when.
    due: Vec<(Instant, u64)>,
    /// For each writer: the bytes of its dose in transit.
    on_their_way: Vec<u64>,
    reads_done: u64,
    /// The reads after which the next dose is due.
    reads_due: u64,
    read_since: Instant,
    read: Read,
    written: Written,
}

impl Load {
    fn new(disk: Model) -> Load {
        Load {
            disk,
            disk_now: Instant(0),
            pace: Pace {
                bytes: READ_BYTES,
                reads: 0,
                writers: 1,
            },
            reads: false,
            read_file: READ_BYTES,
            left: 0,
            next: 0,
            until: Instant::NEVER,
            random: fastrand::Rng::with_seed(0),
            due: Vec::new(),
            on_their_way: Vec::new(),
            reads_done: 0,
            reads_due: 0,
            read_since: Instant(0),
            read: Read::default(),
            written: Written::default(),
        }
    }

    /// The next thing that happens; false when it is over.
    fn step(&mut self) -> bool {
        if self.on_their_way.is_empty() {
            self.on_their_way = vec![0; self.pace.writers as usize + 1];
            let writers = if self.left > 0 { self.pace.writers } else { 0 };
            let first = if self.reads { READER } else { 1 };
            self.due = (first..=writers).map(|who| (Instant(0), who)).collect();
            self.next = self.read_file;
        }
        let is_over = match self.until {
            Instant::NEVER => self.left == 0 && self.on_their_way.iter().all(|&bytes| bytes == 0),
            until => self.disk_now >= until,
        };
        if is_over {
            return false;
        }
        let asks = self.due.iter().copied().min();
        let answers = self.disk.next_event();
        match (asks, answers) {
            (Some((at, who)), answers) if answers.is_none_or(|answer| at <= answer) => {
                self.disk_now = self.disk_now.max(at);
                self.due.retain(|&due| due != (at, who));
                self.ask(who);
            }
            (_, Some(at)) => {
                self.disk_now = at;
                let mut done = Vec::new();
                self.disk.advance(at, &mut done);
                for completion in done {
                    self.answered(completion);
                }
            }
            _ => return false,
        }
        true
    }

    fn ask(&mut self, who: u64) {
        if who == READER {
            let pages = (self.read_file / READ_BYTES).max(1);
            let offset = self.random.u64(..pages) * READ_BYTES;
            self.read_since = self.disk_now;
            self.submit(READER, offset, READ_BYTES);
            return;
        }
        let dose = self.pace.bytes.min(self.left);
        self.left -= dose;
        self.reads_due = self.reads_done + self.pace.reads;
        self.on_their_way[who as usize] = dose;
        let end = self.next + dose;
        while self.next < end {
            let len = REQUEST_BYTES_MAX.min(end - self.next);
            self.submit(who, self.next, len);
            self.next += len;
        }
    }

    fn submit(&mut self, who: u64, offset: u64, len: u64) {
        // the thread and its bytes, which the answer does not say
        let request = ModelRequest {
            id: who << 32 | len,
            write: who != READER,
            offset,
            len: len as u32,
        };
        self.disk.submit(self.disk_now, request);
    }

    fn answered(&mut self, ModelCompletion { id, at }: ModelCompletion) {
        let (who, len) = (id >> 32, id & u64::from(u32::MAX));
        let time = |at: Instant| Duration::from_nanos(at.0);
        if who == READER {
            let latency = time(at).saturating_sub(time(self.read_since));
            self.read
                .add(time(self.read_since), time(at), latency, Served::Device);
            self.reads_done += 1;
            self.due.push((at + THINK, READER));
        } else {
            self.written.bytes.add(time(at), len);
            self.on_their_way[who as usize] -= len;
        }
        // a writer goes on when its dose is written and this many reads are done
        let reads_are_done = !self.reads || self.reads_done >= self.reads_due;
        for who in 1..=self.pace.writers {
            let is_due = self.due.iter().any(|&(_, due)| due == who);
            if self.left > 0 && reads_are_done && self.on_their_way[who as usize] == 0 && !is_due {
                self.due.push((at + THINK, who));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::axboe2016::{Axboe2016, Phase};
    use millpond_core::units::Bytes;

    fn seen(device: &str, pace: &str, phase: Phase) -> (f64, f64, f64) {
        let setup = Setup {
            target: "paced".into(),
            variant: pace.into(),
            device: device.parse().unwrap(),
            dir: "/".into(),
            memory: Bytes::from_mib(64),
            read_latency_goal: None,
            seed: 1,
        };
        let work = Workload::Axboe2016(Axboe2016 {
            phase,
            files: 10,
            file_bytes: 40 << 20,
            writers: 1,
            read_file_bytes: 1 << 30,
            reader_alone_ms: 5_000,
            seed: 1,
        });
        let outcome = run(&setup, &work, &mut |_| Proceed::Yes).unwrap();
        let value = |metric: &str| outcome.value(metric).unwrap_or_default();
        (
            value("reader_reads_per_s"),
            value("writers_mb_per_s"),
            value("reader_latency_p99_us") / 1e3,
        )
    }

    /// Measured with another program on a loop device with the same model, in real time.
    #[test]
    fn doses_give_what_was_measured_in_real_time() {
        for (pace, reads, written, p99) in [
            ("256K", 76.9, 20.1, 20.1),
            ("8M", 14.6, 103.0, 86.3),
            ("2M/3", 76.2, 53.1, 35.1),
            ("4M/5", 74.3, 61.6, 51.6),
            ("8M/8", 68.2, 70.2, 84.7),
        ] {
            let seen = seen("hdd", pace, Phase::WritersAndReader);
            for (seen, measured) in [(seen.0, reads), (seen.1, written), (seen.2, p99)] {
                let is_near = (seen / measured - 1.0_f64).abs() < 0.08;
                assert!(is_near, "{pace}: {seen:.1}, measured {measured}");
            }
        }
        // on flash the measured reads waited for a processor: only what was written compares
        let (_, written, _) = seen("sata-ssd,burst=0", "2x128K", Phase::WritersAndReader);
        assert!((written / 142.0 - 1.0).abs() < 0.08, "{written}");
    }

    #[test]
    fn alone_each_has_the_whole_disk() {
        let (reads, _, _) = seen("hdd", "1M", Phase::ReaderAlone);
        assert!((175.0..192.0).contains(&reads), "{reads}");
        let (_, written, _) = seen("hdd", "16M", Phase::WritersAlone);
        assert!(written > 100.0, "{written}");
        assert_eq!(seen("hdd", "1M", Phase::LogWriter), (0.0, 0.0, 0.0));
    }

    #[test]
    fn every_pace_of_the_rows_is_one() {
        for text in ROTATING.iter().chain(&FLASH) {
            assert!(Pace::of_text(text).is_some(), "{text}");
        }
        for text in ["", "x", "0x4K", "1x0", "100", "4K/x"] {
            assert_eq!(Pace::of_text(text), None, "{text}");
        }
    }
}
