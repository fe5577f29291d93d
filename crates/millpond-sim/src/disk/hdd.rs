//! A hard disk: one actuator over one spinning platter.
//!
//! - A command needs no positioning if it starts where the last one ended and arrives within 20 us of it. Otherwise the
//!   arm moves, `settle + k * sqrt(distance)`, unless the target is on the same track, and then the platter turns until
//!   the first byte is under the head. The platter's angle is tracked at all times, so the next block of a stream that
//!   pauses costs most of a revolution.
//! - The drive sees the first 32 commands and takes the one with the shortest positioning time. A command that it has
//!   seen for 250 ms goes before all younger ones.
//! - After a read the drive continues to read into a buffer, so a stream of reads misses no revolutions.
//! - A volatile write cache, off by default, acknowledges writes immediately. It writes them when no read waits, when
//!   it is over 3/4 full, or when a request waits for it. Reads of its content cost nothing.
//!
//! The angle and the seek curve are the classical ones of disk simulation (Ruemmler and Wilkes 1994).

use super::{Command, Finished, ModelFacts, ModelParameterError, Output, in_range};
use crate::look::DiskLook;
use millpond_core::units::{Bytes, Instant, Nanos};
use std::collections::VecDeque;

/// A command that starts where the last one ended goes on without a missed revolution if it comes within
/// this time: what the head passes meanwhile (2400 bytes at 120 MB/s) is the gap between two sectors and some
/// buffering.
const STREAM_GAP: Nanos = Nanos::from_micros(20);

/// How many writes of its cache a drive considers to find the nearest.
const CACHED_SEEN_MAX: usize = 256;

/// The order in which a hard disk serves its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HddOrder {
    /// Shortest positioning time first, as drives do.
    ShortestPositioning,
    /// Upwards from the present position, then from the lowest again.
    Circular,
    /// In order of arrival, whatever their age; nothing is read or written out of turn.
    Arrival,
}

/// A hard disk. The default is a 7200 rpm SATA drive of 500 GB with its write cache off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HddParameters {
    /// Bytes the head passes in a second, 120 MB/s; at least 1 kB/s.
    pub media_bytes_per_s: u64,
    /// Revolutions a minute, 7200; 1 to 1,000,000.
    pub revolutions_per_minute: u32,
    /// The shortest seek: mostly settling, 0.8 ms.
    pub seek_min: Nanos,
    /// A seek over all of `capacity`, 14 ms; not below `seek_min`.
    pub seek_max: Nanos,
    /// Size of the drive, 500 GB: seek distances are shares of it. What is used of it may be a small part.
    pub capacity: Bytes,
    /// Commands the drive sees at a time, 32 as in SATA's NCQ; at least 1.
    pub queue_depth: u32,
    /// Its order of service.
    pub order: HddOrder,
    /// A command that the drive has seen for longer goes first, 250 ms.
    pub age_max: Nanos,
    /// Volatile write cache; zero is off, the default.
    pub write_cache: Bytes,
    /// How far the drive reads on after a read, 2 MiB.
    pub look_ahead: Bytes,
    /// Bytes the interface carries in a second, 550 MB/s; at least 1 kB/s.
    pub link_bytes_per_s: u64,
}

impl Default for HddParameters {
    fn default() -> HddParameters {
        HddParameters {
            media_bytes_per_s: 120_000_000,
            revolutions_per_minute: 7200,
            seek_min: Nanos::from_micros(800),
            seek_max: Nanos::from_millis(14),
            capacity: Bytes(500_000_000_000),
            queue_depth: 32,
            order: HddOrder::ShortestPositioning,
            age_max: Nanos::from_millis(250),
            write_cache: Bytes(0),
            look_ahead: Bytes::from_mib(2),
            link_bytes_per_s: 550_000_000,
        }
    }
}

impl HddParameters {
    fn check(&self) -> Result<(), ModelParameterError> {
        let p = self;
        let (rpm, seek_max) = (p.revolutions_per_minute, p.seek_max);
        in_range(
            "media_bytes_per_s",
            p.media_bytes_per_s as f64,
            p.media_bytes_per_s >= 1000,
            "at least 1000",
        )?;
        in_range(
            "link_bytes_per_s",
            p.link_bytes_per_s as f64,
            p.link_bytes_per_s >= 1000,
            "at least 1000",
        )?;
        in_range(
            "revolutions_per_minute",
            rpm.into(),
            (1..=1_000_000).contains(&rpm),
            "1 to 1000000",
        )?;
        in_range(
            "seek_max (ns)",
            seek_max.0 as f64,
            seek_max >= p.seek_min,
            "at least seek_min",
        )?;
        in_range(
            "capacity",
            p.capacity.0 as f64,
            p.capacity.0 > 0,
            "at least 1 byte",
        )?;
        in_range(
            "queue_depth",
            p.queue_depth.into(),
            p.queue_depth > 0,
            "at least 1",
        )
    }
}

/// The position of the head, and its last action.
#[derive(Debug)]
struct Head {
    position: u64,
    /// When the last command was done.
    at: Instant,
    /// Whether that was a read, so that the drive has been reading on since.
    read: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    command: Command,
    /// When the drive first saw it, which starts its age.
    seen: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    command: Command,
    /// The number of its admission: a flush waits for all up to its own.
    sequence: u64,
}

#[derive(Debug)]
struct InService {
    command: Command,
    done: Instant,
    /// Whether it comes from the write cache, and so has been acknowledged.
    cached: bool,
}

#[derive(Debug)]
struct Positioning {
    seek_ns: f64,
    rotation_ns: f64,
    sequential: bool,
}

#[derive(Debug)]
pub(super) struct Hdd {
    parameters: HddParameters,
    revolution_ns: f64,
    track_bytes: f64,
    head: Head,
    waiting: VecDeque<Waiting>,
    in_service: Option<InService>,
    /// When an idle disk was given something to do.
    start_at: Option<Instant>,
    /// The write cache: answered, not yet on the platter.
    cached: VecDeque<Cached>,
    cached_bytes: u64,
    cached_sequence: u64,
    /// Writes that wait for room in the cache.
    uncached: VecDeque<Command>,
    flushes: Vec<(u64, u32)>,
}

impl Hdd {
    pub(super) fn new(parameters: HddParameters) -> Result<Hdd, ModelParameterError> {
        parameters.check()?;
        let revolution_ns = 60e9 / f64::from(parameters.revolutions_per_minute);
        Ok(Hdd {
            revolution_ns,
            track_bytes: parameters.media_bytes_per_s as f64 * revolution_ns / 1e9,
            head: Head {
                position: 0,
                at: Instant(0),
                read: false,
            },
            waiting: VecDeque::new(),
            in_service: None,
            start_at: None,
            cached: VecDeque::new(),
            cached_bytes: 0,
            cached_sequence: 0,
            uncached: VecDeque::new(),
            flushes: Vec::new(),
            parameters,
        })
    }

    pub(super) fn facts(&self) -> ModelFacts {
        ModelFacts {
            queue_depth: self.parameters.queue_depth,
            rotational: true,
            write_cache: self.parameters.write_cache.0 > 0,
        }
    }

    pub(super) fn look(&self) -> DiskLook {
        let serves = self.in_service.as_ref().map(|service| service.command);
        let writes = self.waiting.iter().filter(|w| w.command.write).count();
        DiskLook {
            head: Some(serves.map_or(self.head.position, |command| command.offset)),
            capacity: self.parameters.capacity.0,
            works_on_write: serves.map(|command| command.write),
            reads: (self.waiting.len() - writes) as u64,
            writes: (writes + self.uncached.len()) as u64,
            ..DiskLook::default()
        }
    }

    pub(super) fn submit(&mut self, command: Command, out: &mut Output<'_>) {
        let now = command.arrived;
        if command.write && u64::from(command.len) <= self.parameters.write_cache.0 {
            self.uncached.push_back(command);
            self.admit_to_cache(now, out);
        } else if !command.write && self.is_cached(&command) {
            out.tally.write_cache_hit();
            out.finish(&command, now);
            return;
        } else {
            self.waiting.push_back(Waiting { command, seen: None });
        }
        if self.in_service.is_none() && self.start_at.is_none() {
            self.start_at = Some(now);
        }
    }

    /// Whether the flush must wait; if so it is finished later.
    pub(super) fn flush(&mut self, owner: u32) -> bool {
        let destaging = self.in_service.as_ref().is_some_and(|service| service.cached);
        let waits = destaging || !self.cached.is_empty();
        if waits {
            self.flushes.push((self.cached_sequence, owner));
        }
        waits
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.in_service
            .as_ref()
            .map(|service| service.done)
            .or(self.start_at)
    }

    pub(super) fn run(&mut self, now: Instant, start: bool, out: &mut Output<'_>) {
        loop {
            if let Some(service) = self.in_service.take_if(|service| service.done <= now) {
                self.complete(&service, out);
                self.start(service.done, out);
            } else if let Some(at) = self.start_at.take_if(|at| *at < now || start && *at <= now) {
                self.start(at, out);
            } else {
                break;
            }
        }
    }

    /// Chooses the next command at `now`, when the last one is done or the idle disk was given something.
    fn start(&mut self, now: Instant, out: &mut Output<'_>) {
        let Some((command, cached)) = self.take_next(now) else {
            return;
        };
        let p = &self.parameters;
        let (rate, link) = (p.media_bytes_per_s as f64, p.link_bytes_per_s as f64);
        let len = f64::from(command.len);
        let (position, transfer_ns);
        if !command.write && self.head.read && command.offset == self.head.position {
            // A stream of reads: part of it is in the look-ahead buffer already, and the head is on its way.
            let read_ahead = now.since(self.head.at).0 as f64 * rate / 1e9;
            let have = read_ahead.min(p.look_ahead.0 as f64);
            let missing = len - have;
            let media_s = if missing > 0.0 { missing / rate } else { 0.0 };
            transfer_ns = media_s * 1e9 + have.min(len) / link * 1e9;
            position = Positioning {
                seek_ns: 0.0,
                rotation_ns: 0.0,
                sequential: true,
            };
            out.tally.look_ahead_hit();
        } else {
            position = self.position(&command, now);
            transfer_ns = len / rate * 1e9;
        }
        let Positioning {
            seek_ns,
            rotation_ns,
            sequential,
        } = position;
        out.tally
            .positioned(sequential, seek_ns, rotation_ns, transfer_ns);
        let done = now + Nanos((seek_ns + rotation_ns + transfer_ns) as u64);
        self.in_service = Some(InService {
            command,
            done,
            cached,
        });
    }

    fn complete(&mut self, service: &InService, out: &mut Output<'_>) {
        let InService {
            command,
            done,
            cached,
        } = *service;
        if !cached {
            out.finish(&command, done);
        }
        self.head = Head {
            position: command.offset + u64::from(command.len),
            at: done,
            read: !command.write,
        };
        if cached {
            self.cached_bytes -= u64::from(command.len);
            self.admit_to_cache(done, out);
            let oldest = self
                .cached
                .iter()
                .map(|cached| cached.sequence)
                .min()
                .unwrap_or(u64::MAX);
            self.flushes.retain(|&(sequence, owner)| {
                let waits = sequence >= oldest;
                if !waits {
                    out.finished.push(Finished { owner, at: done });
                }
                waits
            });
        }
    }

    /// The time to bring the head to the command's first byte if the arm is free at `now`.
    fn position(&self, command: &Command, now: Instant) -> Positioning {
        let head = &self.head;
        if command.offset == head.position && now <= head.at + STREAM_GAP {
            return Positioning {
                seek_ns: 0.0,
                rotation_ns: 0.0,
                sequential: true,
            };
        }
        let (target, from) = (
            command.offset as f64 / self.track_bytes,
            head.position as f64 / self.track_bytes,
        );
        let mut seek_ns = 0.0;
        if target.floor() != from.floor() {
            let p = &self.parameters;
            let distance = command.offset.abs_diff(head.position) as f64 / p.capacity.0 as f64;
            seek_ns = p.seek_min.0 as f64 + (p.seek_max.0 - p.seek_min.0) as f64 * distance.sqrt();
        }
        let angle = target - (now.0 as f64 + seek_ns) / self.revolution_ns;
        let rotation_ns = (angle - angle.floor()) * self.revolution_ns;
        Positioning {
            seek_ns,
            rotation_ns,
            sequential: false,
        }
    }

    fn cost(&self, command: &Command, now: Instant) -> f64 {
        let position = self.position(command, now);
        position.seek_ns + position.rotation_ns
    }

    /// Takes the command that is to be served next, and whether it comes from the write cache.
    fn take_next(&mut self, now: Instant) -> Option<(Command, bool)> {
        let chosen = self.choose_waiting(now);
        if let Some((index, _, true)) = chosen {
            return self.waiting.remove(index).map(|waiting| (waiting.command, false));
        }
        let cache_presses = !self.flushes.is_empty()
            || !self.uncached.is_empty()
            || self.cached_bytes > self.parameters.write_cache.0 * 3 / 4;
        let nearest_cached = if chosen.is_none() || cache_presses {
            let costs = self.cached.iter().map(|cached| self.cost(&cached.command, now));
            first_smallest(costs.take(CACHED_SEEN_MAX))
        } else {
            None
        };
        match (chosen, nearest_cached) {
            (Some((index, cost, _)), cached) if cached.is_none_or(|(_, cached_cost)| cost <= cached_cost) => {
                self.waiting.remove(index).map(|waiting| (waiting.command, false))
            }
            (_, Some((index, _))) => self.cached.remove(index).map(|cached| (cached.command, true)),
            _ => None,
        }
    }

    /// Which of the waiting commands is next, at which cost, and whether nothing of the cache may go before.
    fn choose_waiting(&mut self, now: Instant) -> Option<(usize, f64, bool)> {
        let p = self.parameters;
        if p.order == HddOrder::Arrival {
            return self.waiting.front().map(|_| (0, 0.0, true));
        }
        let seen = self.waiting.len().min(p.queue_depth as usize);
        let mut oldest: Option<(usize, Instant)> = None;
        for (index, waiting) in self.waiting.iter_mut().take(seen).enumerate() {
            let overdue = now > *waiting.seen.get_or_insert(now) + p.age_max;
            if overdue && oldest.is_none_or(|(_, arrived)| waiting.command.arrived < arrived) {
                oldest = Some((index, waiting.command.arrived));
            }
        }
        if let Some((index, _)) = oldest {
            return Some((index, 0.0, true));
        }
        let costs = self.waiting.iter().take(seen).map(|waiting| match p.order {
            // Offsets behind the head come after those ahead of it: 1e18 is beyond any offset.
            HddOrder::Circular if waiting.command.offset < self.head.position => {
                waiting.command.offset as f64 + 1e18
            }
            HddOrder::Circular => (waiting.command.offset - self.head.position) as f64,
            _ => self.cost(&waiting.command, now),
        });
        first_smallest(costs).map(|(index, cost)| (index, cost, false))
    }

    fn is_cached(&self, read: &Command) -> bool {
        let end = |command: &Command| command.offset + u64::from(command.len);
        self.cached
            .iter()
            .any(|Cached { command, .. }| read.offset >= command.offset && end(read) <= end(command))
    }

    fn admit_to_cache(&mut self, now: Instant, out: &mut Output<'_>) {
        let room = self.parameters.write_cache.0;
        while let Some(&command) = self.uncached.front() {
            if self.cached_bytes + u64::from(command.len) > room {
                break;
            }
            self.uncached.pop_front();
            self.cached_bytes += u64::from(command.len);
            self.cached_sequence += 1;
            self.cached.push_back(Cached {
                command,
                sequence: self.cached_sequence,
            });
            out.finish(&command, now);
        }
    }

    /// Commands that it holds, how many of them it has answered, and flushes that wait.
    pub(super) fn validate(&self) -> (usize, usize, usize) {
        let destaging = self.in_service.as_ref().filter(|service| service.cached);
        let bytes: u64 = self
            .cached
            .iter()
            .map(|cached| u64::from(cached.command.len))
            .sum();
        let destaging_bytes = destaging.map_or(0, |service| u64::from(service.command.len));
        assert_eq!(
            self.cached_bytes,
            bytes + destaging_bytes,
            "bytes in the write cache"
        );
        assert!(
            self.cached_bytes <= self.parameters.write_cache.0,
            "write cache overflows"
        );
        let idle = self.in_service.is_none() && self.start_at.is_none();
        let stuck =
            idle && (!self.waiting.is_empty() || !self.cached.is_empty() || !self.uncached.is_empty());
        assert!(!stuck, "commands wait and the disk is idle: {self:?}");
        assert!(
            self.flushes.is_empty() || self.cached_bytes > 0,
            "a flush waits for nothing"
        );
        let answered = self.cached.len() + usize::from(destaging.is_some());
        let unanswered = self.waiting.len()
            + self.uncached.len()
            + usize::from(self.in_service.as_ref().is_some_and(|service| !service.cached));
        (answered + unanswered, answered, self.flushes.len())
    }
}

fn first_smallest(costs: impl Iterator<Item = f64>) -> Option<(usize, f64)> {
    costs.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b))
}

#[cfg(test)]
mod tests;
