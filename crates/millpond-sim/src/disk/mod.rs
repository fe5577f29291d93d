//! Modeled disks: how long a disk would take, as a pure state machine in virtual time.
//!
//! ```text
//!   submit ──► commands of at most 1 MiB ──► drive queue (32) ──► hdd: one actuator   ──► advance ──► done
//!              (the rest waits outside,                           ssd: eight channels
//!               in order)                          nvme: the same, 32 dies; 1023 inside
//!                                                  ram: one copier
//! ```
//!
//! Reads and writes go through ONE queue, so writes delay reads, which is the point of the model (Axboe 2016). Nothing
//! here reads a clock, sleeps or draws a random number. The caller supplies the time and is told when to call again, so
//! the same calls give the same answers. The simulator drives the model in virtual time; `millpond_testing::Modelled`
//! drives it in real time around a real file.

#[cfg(test)]
mod figures;
mod hdd;
#[cfg(test)]
mod load;
mod nvme;
mod ram;
mod ssd;
mod statistics;

pub use hdd::{HddOrder, HddParameters};
pub use ram::RamParameters;
pub use ssd::SsdParameters;
pub use statistics::ModelStatistics;

use crate::look::DiskLook;
use hdd::Hdd;
use millpond_core::units::{Bytes, Instant};
use ram::Ram;
use ssd::Ssd;
use statistics::Tally;

/// The largest command that a drive is given; longer requests become several commands at once, as the
/// block layer splits them.
///
/// 1 MiB: between the 1280 KiB that Linux allows by default (`max_sectors_kb`, `BLK_DEF_MAX_SECTORS_CAP`) and the
/// 512 KiB of older kernels.
pub const COMMAND_BYTES_MAX: Bytes = Bytes::from_mib(1);

/// A transfer that is to be timed. `id` comes back in the [`ModelCompletion`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelRequest {
    /// The caller's name for it. Need not be unique.
    pub id: u64,
    /// Write, or read.
    pub write: bool,
    /// First byte on the modeled disk.
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: u32,
}

/// A transfer, or a flush, that the modeled disk has finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelCompletion {
    /// As in the [`ModelRequest`] or in [`Model::flush`].
    pub id: u64,
    /// When: never later than the `now` of the [`Model::advance`] that reports it.
    pub at: Instant,
}

/// What a driver may know about a modeled disk without measuring it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelFacts {
    /// Commands that the disk works on at a time; more wait outside it.
    pub queue_depth: u32,
    /// Whether a read elsewhere costs a seek.
    pub rotational: bool,
    /// Whether the disk acknowledges writes before they are durable, so that only a flush makes them so.
    pub write_cache: bool,
}

/// A parameter that no disk can have.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{name} of the modelled disk is {value}: it must be {range}")]
pub struct ModelParameterError {
    /// The field of [`HddParameters`], [`SsdParameters`] or [`RamParameters`].
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// The range.
    pub range: &'static str,
}

/// A disk in virtual time.
///
/// ```
/// use millpond_sim::disk::{HddParameters, Model, ModelRequest};
/// use millpond_core::units::Instant;
///
/// let mut disk = Model::hdd(HddParameters::default())?;
/// disk.submit(Instant(0), ModelRequest { id: 7, write: false, offset: 1 << 30, len: 4096 });
/// let mut done = Vec::new();
/// while let Some(at) = disk.next_event() {
///     disk.advance(at, &mut done);
/// }
/// assert_eq!(done[0].id, 7);
/// assert!(done[0].at > Instant(800_000), "a seek takes at least 0.8 ms");
/// # Ok::<(), millpond_sim::disk::ModelParameterError>(())
/// ```
#[derive(Debug)]
pub struct Model {
    name: &'static str,
    drive: Drive,
    requests: Vec<RequestState>,
    requests_free: Vec<u32>,
    finished: Vec<Finished>,
    ready: Vec<ModelCompletion>,
    tally: Tally,
    now: Instant,
}

/// The disk, with its settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ModelParameters {
    /// A hard disk.
    Hdd(HddParameters),
    /// A SATA flash disk.
    SataSsd(SsdParameters),
    /// A flash disk on PCI Express.
    Nvme(SsdParameters),
    /// Memory.
    Ram(RamParameters),
}

impl ModelParameters {
    /// `hdd`, `sata-ssd`, `nvme` or `ram`.
    pub fn name(&self) -> &'static str {
        match self {
            ModelParameters::Hdd(_) => "hdd",
            ModelParameters::SataSsd(_) => "sata-ssd",
            ModelParameters::Nvme(_) => "nvme",
            ModelParameters::Ram(_) => "ram",
        }
    }
}

#[derive(Debug)]
enum Drive {
    Hdd(Hdd),
    Ssd(Ssd),
    Ram(Ram),
}

/// A request under way: finished when its last command is.
#[derive(Debug)]
struct RequestState {
    id: u64,
    commands_left: u32,
}

/// What a drive serves at a time.
#[derive(Clone, Copy, Debug)]
struct Command {
    owner: u32,
    write: bool,
    offset: u64,
    len: u32,
    arrived: Instant,
}

/// A command or a flush of request `owner` that a drive is done with.
#[derive(Clone, Copy, Debug)]
struct Finished {
    owner: u32,
    at: Instant,
}

/// Where a drive puts its completions and counters.
struct Output<'a> {
    finished: &'a mut Vec<Finished>,
    tally: &'a mut Tally,
}

impl Output<'_> {
    fn finish(&mut self, command: &Command, at: Instant) {
        self.tally.leave(at, command.write, command.len);
        self.finished.push(Finished {
            owner: command.owner,
            at,
        });
    }
}

impl Model {
    /// A disk at rest.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn new(parameters: &ModelParameters) -> Result<Model, ModelParameterError> {
        let drive = match parameters {
            ModelParameters::Hdd(parameters) => Drive::Hdd(Hdd::new(*parameters)?),
            ModelParameters::SataSsd(parameters) | ModelParameters::Nvme(parameters) => {
                Drive::Ssd(Ssd::new(*parameters)?)
            }
            ModelParameters::Ram(parameters) => Drive::Ram(Ram::new(*parameters)?),
        };
        Ok(Model {
            name: parameters.name(),
            drive,
            requests: Vec::new(),
            requests_free: Vec::new(),
            finished: Vec::new(),
            ready: Vec::new(),
            tally: Tally::default(),
            now: Instant(0),
        })
    }

    /// A disk with one actuator.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn hdd(parameters: HddParameters) -> Result<Model, ModelParameterError> {
        Model::new(&ModelParameters::Hdd(parameters))
    }

    /// A SATA flash disk.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn ssd(parameters: SsdParameters) -> Result<Model, ModelParameterError> {
        Model::new(&ModelParameters::SataSsd(parameters))
    }

    /// As [`ModelParameters::name`].
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What a driver may know about such a disk.
    pub fn facts(&self) -> ModelFacts {
        match &self.drive {
            Drive::Hdd(hdd) => hdd.facts(),
            Drive::Ssd(ssd) => ssd.facts(),
            Drive::Ram(ram) => ram.facts(),
        }
    }

    /// A request arrives at `now`. What the disk has finished until then is kept for the next
    /// [`advance`](Model::advance). Requests that arrive at the same instant are seen together by an idle
    /// disk, which chooses among them. Call [`next_event`](Model::next_event) afterwards.
    ///
    /// # Panics
    /// If `request.len` is zero.
    pub fn submit(&mut self, now: Instant, request: ModelRequest) {
        assert!(request.len > 0, "request {} has no bytes", request.id);
        self.settle(now, false);
        let command_bytes = COMMAND_BYTES_MAX.0 as u32;
        let owner = self.begin(request.id, request.len.div_ceil(command_bytes));
        let mut done = 0;
        while done < request.len {
            let command = Command {
                owner,
                write: request.write,
                offset: request.offset + u64::from(done),
                len: command_bytes.min(request.len - done),
                arrived: self.now,
            };
            done += command.len;
            self.tally.enter(self.now);
            let mut out = Output {
                finished: &mut self.finished,
                tally: &mut self.tally,
            };
            match &mut self.drive {
                Drive::Hdd(hdd) => hdd.submit(command, &mut out),
                Drive::Ssd(ssd) => ssd.submit(command, &mut out),
                Drive::Ram(ram) => ram.submit(command, &mut out),
            }
        }
        self.collect();
    }

    /// A flush arrives at `now`: it is finished when every write that the disk answered before is on the
    /// medium. Without a volatile write cache that is at once.
    pub fn flush(&mut self, now: Instant, id: u64) {
        self.settle(now, false);
        self.tally.flushes += 1;
        let owner = self.begin(id, 1);
        let waits = match &mut self.drive {
            Drive::Hdd(hdd) => hdd.flush(owner),
            Drive::Ssd(_) | Drive::Ram(_) => false,
        };
        if !waits {
            self.finished.push(Finished { owner, at: self.now });
            self.collect();
        }
    }

    /// When [`advance`](Model::advance) has something to do next; `None` when the disk is idle. A submission or a
    /// flush may make it earlier.
    pub fn next_event(&self) -> Option<Instant> {
        if let Some(first) = self.ready.first() {
            return Some(first.at);
        }
        match &self.drive {
            Drive::Hdd(hdd) => hdd.next_event(),
            Drive::Ssd(ssd) => ssd.next_event(),
            Drive::Ram(ram) => ram.next_event(),
        }
    }

    /// Lets the time be `now` and appends what is finished by then to `done`, in order of time. A `now`
    /// before the latest one counts as the latest one.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<ModelCompletion>) {
        self.settle(now, true);
        done.append(&mut self.ready);
    }

    /// What the disk did until `now` since it was made or [`reset_statistics`](Model::reset_statistics) was
    /// called.
    pub fn statistics(&self, now: Instant) -> ModelStatistics {
        self.tally.snapshot(now.max(self.now))
    }

    /// Its present activity, for drawing.
    pub fn look(&self) -> DiskLook {
        match &self.drive {
            Drive::Hdd(hdd) => hdd.look(),
            Drive::Ssd(ssd) => ssd.look(self.now),
            Drive::Ram(_) => DiskLook::default(),
        }
    }

    /// Starts counting anew at `now`.
    pub fn reset_statistics(&mut self, now: Instant) {
        self.settle(now, true);
        self.tally.reset(self.now);
    }

    /// The effect of a long idle time: an SSD's burst buffer is empty again.
    pub fn rest(&mut self, now: Instant) {
        self.settle(now, true);
        if let Drive::Ssd(ssd) = &mut self.drive {
            ssd.rest(self.now);
        }
    }

    /// Serves until `now`. An idle disk that was given something at this very instant starts only if
    /// `start`: more may arrive at the same instant.
    fn settle(&mut self, now: Instant, start: bool) {
        self.now = self.now.max(now);
        let mut out = Output {
            finished: &mut self.finished,
            tally: &mut self.tally,
        };
        match &mut self.drive {
            Drive::Hdd(hdd) => hdd.run(self.now, start, &mut out),
            Drive::Ssd(ssd) => ssd.run(self.now, &mut out),
            Drive::Ram(ram) => ram.run(self.now, &mut out),
        }
        self.collect();
    }

    fn begin(&mut self, id: u64, commands: u32) -> u32 {
        let state = RequestState {
            id,
            commands_left: commands,
        };
        match self.requests_free.pop() {
            Some(owner) => {
                self.requests[owner as usize] = state;
                owner
            }
            None => {
                self.requests.push(state);
                (self.requests.len() - 1) as u32
            }
        }
    }

    fn collect(&mut self) {
        for Finished { owner, at } in self.finished.drain(..) {
            let request = &mut self.requests[owner as usize];
            request.commands_left -= 1;
            if request.commands_left == 0 {
                self.ready.push(ModelCompletion { id: request.id, at });
                self.requests_free.push(owner);
            }
        }
    }

    /// Re-derives what is counted.
    ///
    /// # Panics
    /// If a command is lost, counted twice or finished out of order.
    pub fn validate(&self) {
        let (commands, answered, flushes) = match &self.drive {
            Drive::Hdd(hdd) => hdd.validate(),
            Drive::Ssd(ssd) => ssd.validate(),
            Drive::Ram(ram) => ram.validate(),
        };
        let unanswered = commands - answered;
        assert_eq!(self.tally.queued() as usize, unanswered, "commands in the queue");
        let left: u32 = self.requests.iter().map(|request| request.commands_left).sum();
        assert_eq!(left as usize, unanswered + flushes, "commands left of requests");
        let idle = self
            .requests
            .iter()
            .filter(|request| request.commands_left == 0)
            .count();
        assert_eq!(self.requests_free.len(), idle, "free request slots");
        assert!(self.finished.is_empty(), "uncollected: {:?}", self.finished);
        assert!(
            self.ready.is_sorted_by_key(|done| done.at),
            "out of order: {:?}",
            self.ready
        );
        assert!(
            self.ready.iter().all(|done| done.at <= self.now),
            "early: {:?}",
            self.ready
        );
    }
}

fn in_range(
    name: &'static str,
    value: f64,
    good: bool,
    range: &'static str,
) -> Result<(), ModelParameterError> {
    if good {
        Ok(())
    } else {
        Err(ModelParameterError {
            name,
            value: value.to_string(),
            range,
        })
    }
}
