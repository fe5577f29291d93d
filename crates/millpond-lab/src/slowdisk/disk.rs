//! A slow disk: requests, the modelled disk that times them, their answers and what is counted.
//!
//! A write's bytes are stored when it arrives, a read's are fetched when it is answered. All requests, reads and writes
//! alike, pass the one queue of the model; only while the disk is *untimed*, for setting up what stands on it, are
//! they answered at once.

use super::image::{Image, ReadEarly};
use crate::measure::latency::Latencies;
use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use millpond_core::units::Bytes;
use millpond_sim::disk::{Model, ModelRequest, ModelStatistics};
use millpond_testing::{Lateness, ModelService};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

pub(super) struct Disk {
    shared: Arc<Shared>,
    service: ModelService,
    name: &'static str,
    size: Bytes,
    next_id: AtomicU64,
    is_timed: AtomicBool,
}

struct Shared {
    image: Image,
    waiting: Mutex<HashMap<u64, Waiting>>,
    counted: Mutex<Counted>,
}

/// A request, or a flush, that is not answered yet.
enum Waiting {
    Read {
        reply: ReplyData,
        early: ReadEarly,
        offset: u64,
        len: usize,
        since: Instant,
    },
    Write {
        reply: ReplyWrite,
        len: usize,
        since: Instant,
    },
    Flush(ReplyEmpty),
}

struct Counted {
    since: Instant,
    reads: Direction,
    writes: Direction,
    flushes: u64,
    discards: u64,
}

#[derive(Default)]
struct Direction {
    bytes: u64,
    /// From arrival to the beginning of the answer: the disk's time, without FUSE's.
    latencies: Latencies,
}

impl Disk {
    pub(super) fn new(image: Image, size: Bytes, model: Model) -> io::Result<Disk> {
        let shared = Arc::new(Shared {
            image,
            waiting: Mutex::new(HashMap::new()),
            counted: Mutex::new(Counted::new()),
        });
        let (answering, name) = (shared.clone(), model.name());
        let service = ModelService::new(model, move |id| {
            let waiting = answering.waiting.lock().remove(&id);
            if let Some(waiting) = waiting {
                answering.answer(waiting);
            }
        })?;
        Ok(Disk {
            shared,
            service,
            name,
            size,
            next_id: AtomicU64::new(0),
            is_timed: AtomicBool::new(true),
        })
    }

    pub(super) fn size(&self) -> Bytes {
        self.size
    }

    /// A read of up to `len` bytes; what is beyond the end is left off.
    pub(super) fn read(&self, offset: u64, len: u32, reply: ReplyData) {
        let len = self.size.0.saturating_sub(offset).min(u64::from(len)) as usize;
        if len == 0 {
            return reply.data(&[]);
        }
        let early = match self.shared.image.read_early(offset, len) {
            Ok(early) => early,
            Err(error) => return reply.error(error.into()),
        };
        let since = Instant::now();
        let waiting = Waiting::Read {
            reply,
            early,
            offset,
            len,
            since,
        };
        self.begin(waiting, offset, len, false);
    }

    /// A write, which must end where the disk ends or before.
    pub(super) fn write(&self, offset: u64, data: &[u8], reply: ReplyWrite) {
        let len = data.len();
        if offset.checked_add(len as u64).is_none_or(|end| end > self.size.0) {
            return reply.error(Errno::ENOSPC);
        }
        if len == 0 {
            return reply.written(0);
        }
        if let Err(error) = self.shared.image.write(offset, data) {
            return reply.error(error.into());
        }
        let since = Instant::now();
        self.begin(Waiting::Write { reply, len, since }, offset, len, true);
    }

    /// A flush: answered when all that was answered before is on the medium.
    pub(super) fn flush(&self, reply: ReplyEmpty) {
        self.shared.counted.lock().flushes += 1;
        if !self.is_timed.load(Ordering::Relaxed) {
            return reply.ok();
        }
        let id = self.await_answer(Waiting::Flush(reply));
        self.service.flush(id);
    }

    /// Makes a range zero, at once: no drive of these models is slow at that.
    pub(super) fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.shared.counted.lock().discards += 1;
        self.shared.image.discard(offset, len)
    }

    /// Whether requests take the model's time.
    pub(super) fn set_timed(&self, is_timed: bool) {
        self.is_timed.store(is_timed, Ordering::Relaxed);
    }

    pub(super) fn is_timed(&self) -> bool {
        self.is_timed.load(Ordering::Relaxed)
    }

    /// Starts counting anew, with the disk as after a rest.
    pub(super) fn reset(&self) {
        self.service.rest();
        self.service.reset_statistics();
        *self.shared.counted.lock() = Counted::new();
    }

    fn begin(&self, waiting: Waiting, offset: u64, len: usize, write: bool) {
        if !self.is_timed.load(Ordering::Relaxed) {
            return self.shared.answer(waiting);
        }
        let id = self.await_answer(waiting);
        self.service.submit([ModelRequest {
            id,
            write,
            offset,
            len: len as u32,
        }]);
    }

    fn await_answer(&self, waiting: Waiting) -> u64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.shared.waiting.lock().insert(id, waiting);
        id
    }

    /// The disk's activity since it was made or reset.
    pub(super) fn statistics(&self) -> Value {
        let (model, late) = self.service.statistics();
        let counted = self.shared.counted.lock();
        let seconds = counted.since.elapsed().as_secs_f64();
        let mut value = of_model(&model, late);
        value["model"] = json!(self.name);
        value["size_bytes"] = json!(self.size.0);
        value["seconds"] = json!(seconds);
        value["read"] = counted.reads.json(seconds);
        value["write"] = counted.writes.json(seconds);
        value["flushes"] = json!(counted.flushes);
        value["discards"] = json!(counted.discards);
        value
    }
}

fn of_model(model: &ModelStatistics, late: Lateness) -> Value {
    let share = |part: u64| part as f64 / model.span.0.max(1) as f64;
    json!({
        "queue_depth_mean": model.queue_depth_mean,
        "queue_depth_max": model.queue_depth_max,
        "busy_share": share(model.busy_time.0),
        "seek_share": share(model.seek_time.0),
        "rotation_share": share(model.rotation_time.0),
        "transfer_share": share(model.transfer_time.0),
        "seeks": model.seeks,
        "sequential": model.sequential,
        "look_ahead_hits": model.look_ahead_hits,
        "write_cache_hits": model.write_cache_hits,
        "late_us": { "mean": late.mean.0 as f64 / 1e3, "max": late.max.0 as f64 / 1e3 },
    })
}

impl Shared {
    fn answer(&self, waiting: Waiting) {
        match waiting {
            Waiting::Read {
                reply,
                early,
                offset,
                len,
                since,
            } => {
                self.counted.lock().reads.add(len, since);
                self.image.read(early, offset, len, |bytes| reply.data(bytes));
            }
            Waiting::Write { reply, len, since } => {
                self.counted.lock().writes.add(len, since);
                reply.written(len as u32);
            }
            Waiting::Flush(reply) => reply.ok(),
        }
    }
}

impl Counted {
    fn new() -> Counted {
        Counted {
            since: Instant::now(),
            reads: Direction::default(),
            writes: Direction::default(),
            flushes: 0,
            discards: 0,
        }
    }
}

impl Direction {
    fn add(&mut self, len: usize, since: Instant) {
        self.bytes += len as u64;
        self.latencies.record(since.elapsed());
    }

    fn json(&self, seconds: f64) -> Value {
        let us = |share| self.latencies.percentile_us(share);
        json!({
            "requests": self.latencies.count(),
            "requests_per_s": self.latencies.count() as f64 / seconds,
            "bytes": self.bytes,
            "mb_per_s": self.bytes as f64 / seconds / 1e6,
            "latency_us": {
                "mean": self.latencies.mean_us(),
                "p50": us(0.5),
                "p90": us(0.9),
                "p95": us(0.95),
                "p99": us(0.99),
                "p999": us(0.999),
                "max": self.latencies.max_us(),
            },
        })
    }
}
