//! One writer of a huge file among readers: Dillon 2000's third part, with and without a limit on bytes in transit.
//!
//! ```text
//!   writer ── 64 KiB, issued at once ──► in transit ──► disk      without a limit: until its buffers are full, 8 MiB
//!             waits above the high mark, until the low one         readers count, and never wait
//!   readers ── an article, think, an article …
//! ```
//!
//! Memory can't run short here: the subject is how much stands before a read at the disk.

use super::disk::{Disk, For, Request};
use super::options::MachineOptions;
use crate::freebsd::System;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::admission::{Admission, AdmissionOptions, Verdict};
use millpond_core::io::Reason;
use millpond_core::units::{Bytes, Instant, Nanos};
use millpond_sim::disk::{HddParameters, ModelParameterError, ModelStatistics};
use millpond_sim::draw::Draw;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StreamOptions {
    /// The marks; `None`: no limit but buffers.
    pub marks: Option<BytesOptions>,
    /// Bytes of a writer's request: FreeBSD's cluster, 64 KiB.
    pub request: Bytes,
    /// Dirty buffers that writers may have: 8 MiB, the most that the post has seen in transit.
    pub buffers: Bytes,
    /// Threads that write, each a file of its own.
    pub writers: u32,
    /// The writer's own work for a request: 100 MB/s. Chosen.
    pub work: Nanos,
    /// Readers, which think between two articles. Chosen: the disk is 30 % busy with them.
    pub readers: u32,
    /// An article.
    pub article: Bytes,
    /// Between two.
    pub think: Nanos,
    /// The disk.
    pub disk: HddParameters,
    /// The seed.
    pub seed: u64,
}

impl StreamOptions {
    /// The load with these marks.
    pub fn new(marks: Option<BytesOptions>, seed: u64) -> StreamOptions {
        StreamOptions {
            marks,
            request: Bytes::from_kib(64),
            buffers: Bytes::from_mib(8),
            writers: 1,
            work: Nanos::from_micros(650),
            readers: 20,
            article: Bytes::from_kib(64),
            think: Nanos::from_millis(400),
            disk: MachineOptions::new(System::FreeBsdStable).disk,
            seed,
        }
    }
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Streamed {
    /// The most bytes in transit.
    pub in_transit_max: u64,
    /// And on the average over time.
    pub in_transit_mean: f64,
    /// Bytes written.
    pub written: u64,
    /// Every article's time, in the order of their ends.
    pub latencies: Vec<Nanos>,
    /// Readers that waited, on the average of each second.
    pub load: Vec<f64>,
    /// The disk's activity.
    pub disk: ModelStatistics,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Writer(u32),
    Reader(u32),
}

/// A file of the writers; readers' articles follow them.
const FILE: u64 = 2 << 30;
/// The location of articles.
const SPOOL: u64 = 4 << 30;

struct Stream {
    options: StreamOptions,
    now: Instant,
    queue: BinaryHeap<Reverse<(Instant, u64, Entry)>>,
    sequence: u64,
    disk: Disk,
    admission: Admission,
    draw: Draw,
    /// Bytes that each writer has issued; whether it waits.
    issued: Vec<u64>,
    waiting: Vec<bool>,
    /// Dirty buffers, which are free again when they are written.
    buffers: u64,
    in_transit: u64,
    began: Vec<Instant>,
    blocked: u64,
    /// In transit and blocked, times time, and the time up to which they are counted.
    transit_area: f64,
    since: Instant,
    seen: Streamed,
}

/// Lets writers and readers go on for `length`.
///
/// # Errors
/// If the disk can't be.
pub fn stream(options: StreamOptions, length: Nanos) -> Result<Streamed, ModelParameterError> {
    let admission = match options.marks {
        Some(marks) => AdmissionOptions::Bytes(marks),
        None => AdmissionOptions::Off,
    };
    let mut stream = Stream {
        options,
        now: Instant(0),
        queue: BinaryHeap::new(),
        sequence: 0,
        disk: Disk::new(options.disk)?,
        admission: Admission::new(admission, options.request),
        draw: Draw(options.seed),
        issued: vec![0; options.writers as usize],
        waiting: vec![false; options.writers as usize],
        buffers: 0,
        in_transit: 0,
        began: vec![Instant(0); options.readers as usize],
        blocked: 0,
        transit_area: 0.0,
        since: Instant(0),
        seen: Streamed::default(),
    };
    for n in 0..options.writers {
        stream.enqueue(Nanos::ZERO, Entry::Writer(n));
    }
    for n in 0..options.readers {
        let wait = Nanos(stream.draw.below(options.think.0.max(1)));
        stream.enqueue(wait, Entry::Reader(n));
    }
    let until = Instant(0) + length;
    stream.run(until);
    stream.seen.in_transit_mean = stream.transit_area / length.0 as f64;
    stream.seen.disk = stream.disk.model.statistics(until);
    Ok(stream.seen)
}

impl Stream {
    fn enqueue(&mut self, after: Nanos, entry: Entry) {
        self.sequence += 1;
        self.queue.push(Reverse((self.now + after, self.sequence, entry)));
    }

    fn run(&mut self, until: Instant) {
        let mut ended = Vec::new();
        loop {
            let queued = self.queue.peek().map(|Reverse((at, ..))| *at);
            let disk = self.disk.next_event();
            let next = [queued, disk].into_iter().flatten().min();
            let Some(at) = next.filter(|&at| at <= until) else {
                break;
            };
            self.pass(at);
            if disk.is_some_and(|disk| disk <= self.now) {
                self.disk.advance(self.now, &mut ended);
                for request in ended.drain(..) {
                    self.has_ended(&request);
                }
            } else if let Some(Reverse((_, _, entry))) = self.queue.pop() {
                match entry {
                    Entry::Writer(n) => self.write(n),
                    Entry::Reader(n) => self.read(n),
                }
            }
        }
        self.pass(until);
    }

    /// Time passes; what is in transit and which threads wait is noted.
    fn pass(&mut self, to: Instant) {
        while self.since < to {
            let second = (self.since.0 / 1_000_000_000) as usize;
            let end = Instant((second as u64 + 1) * 1_000_000_000).min(to);
            let span = end.since(self.since).0 as f64;
            self.transit_area += span * self.in_transit as f64;
            if self.seen.load.len() <= second {
                self.seen.load.resize(second + 1, 0.0);
            }
            self.seen.load[second] += span / 1e9 * self.blocked as f64;
            self.since = end;
        }
        self.now = self.now.max(to);
    }

    fn submit(&mut self, reason: Reason, offset: u64, whose: For, bytes: Bytes) {
        self.admission.issued(self.now, reason, bytes);
        self.in_transit += bytes.0;
        self.seen.in_transit_max = self.seen.in_transit_max.max(self.in_transit);
        let request = Request {
            whose,
            frames: Vec::new(),
            own_frames: Vec::new(),
            bytes,
        };
        self.disk.submit(self.now, !reason.is_read(), offset, request);
    }

    fn write(&mut self, n: u32) {
        let bytes = self.options.request;
        let has_buffers = self.buffers + bytes.0 <= self.options.buffers.0;
        let may = self.admission.admit(self.now, Reason::Background, bytes) == Verdict::Go;
        if !has_buffers || !may {
            self.waiting[n as usize] = true;
            return;
        }
        let offset = u64::from(n) * FILE + self.issued[n as usize] % FILE;
        self.issued[n as usize] += bytes.0;
        self.buffers += bytes.0;
        self.submit(Reason::Background, offset, For::Laundry(false), bytes);
        self.enqueue(self.options.work, Entry::Writer(n));
    }

    fn read(&mut self, n: u32) {
        self.began[n as usize] = self.now;
        self.blocked += 1;
        let articles = SPOOL / self.options.article.0;
        let offset =
            u64::from(self.options.writers) * FILE + self.draw.below(articles) * self.options.article.0;
        self.submit(Reason::Fault, offset, For::Reader(n), self.options.article);
    }

    fn has_ended(&mut self, request: &Request) {
        self.in_transit -= request.bytes.0;
        let reason = match request.whose {
            For::Reader(n) => {
                self.blocked -= 1;
                self.seen.latencies.push(self.now.since(self.began[n as usize]));
                let think = self.options.think.0;
                let span = Nanos(think / 2 + self.draw.below(think));
                self.enqueue(span, Entry::Reader(n));
                Reason::Fault
            }
            For::Laundry(_) => {
                self.buffers -= request.bytes.0;
                self.seen.written += request.bytes.0;
                Reason::Background
            }
        };
        self.admission
            .completed(self.now, reason, request.bytes, self.now);
        for n in 0..self.waiting.len() {
            if std::mem::take(&mut self.waiting[n]) {
                self.enqueue(Nanos::ZERO, Entry::Writer(n as u32));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(marks: Option<BytesOptions>, writers: u32) -> Streamed {
        let options = StreamOptions {
            writers,
            ..StreamOptions::new(marks, 1)
        };
        stream(options, Nanos::from_secs(30)).unwrap()
    }

    #[test]
    fn in_transit_is_at_most_the_high_mark_and_a_request_of_each_thread_beside_the_reads() {
        let marks = BytesOptions::default();
        for writers in [1, 4] {
            let limited = ran(Some(marks), writers);
            let options = StreamOptions::new(Some(marks), 1);
            let reads = u64::from(options.readers) * options.article.0;
            let most = marks.high.0 + u64::from(writers) * options.request.0 + reads;
            assert!(
                limited.in_transit_max <= most,
                "{} of {most}",
                limited.in_transit_max
            );
        }
        let free = ran(None, 1);
        assert!(
            free.in_transit_max >= Bytes::from_mib(8).0,
            "{}",
            free.in_transit_max
        );
    }

    #[test]
    fn readers_fare_better_and_are_not_starved_when_writes_are_limited() {
        let [limited, free] = [Some(BytesOptions::default()), None].map(|marks| ran(marks, 1));
        let mean = |s: &Streamed| s.load.iter().sum::<f64>() / s.load.len() as f64;
        assert!(
            mean(&limited) * 2.0 < mean(&free),
            "{} {}",
            mean(&limited),
            mean(&free)
        );
        assert!(limited.latencies.len() > free.latencies.len());
        assert!(
            limited.written * 2 > free.written,
            "{} {}",
            limited.written,
            free.written
        );
    }
}
