//! A SATA flash disk: eight channels, a burst buffer, one link.
//!
//! - 32 commands are inside; the rest wait outside in order.
//! - The disk is striped over its channels by 16 KiB. Each channel serves its stripes strictly in order, so a read
//!   waits for the writes queued before it on its channel.
//! - A read costs 90 us on each channel that it touches, which includes the first 4 KiB; the rest streams.
//! - Writes go at 500 MB/s while the burst buffer has space. It drains into the slow medium at 150 MB/s all the time;
//!   once it is full, writes go at that rate.
//! - The link carries one command's bytes at a time.
//!
//! Times are fixed when a command enters; later commands cannot change them.

use super::{Command, ModelFacts, ModelParameterError, Output, in_range};
use crate::look::DiskLook;
use millpond_core::units::{Bytes, Instant, Nanos};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The unit that a channel reads first: a flash page, 4 KiB.
const FIRST_READ_BYTES: u64 = 4096;

/// A SATA flash disk. The default is a drive of 540 MB/s with a burst buffer of 1 GiB.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SsdParameters {
    /// Channels, 8; 1 to 256.
    pub channels: u32,
    /// Bytes in a row on one channel, 16 KiB; at least 512.
    pub stripe: Bytes,
    /// A read's latency on each channel for its first 4 KiB, 90 us.
    pub read_latency: Nanos,
    /// Bytes in a second that all channels together read beyond that, 540 MB/s; at least 1 kB/s.
    pub read_bytes_per_s: u64,
    /// Bytes in a second that all channels together write into the burst buffer, 500 MB/s; at least 1 kB/s.
    pub write_burst_bytes_per_s: u64,
    /// The same once it is full, and how fast it empties, 150 MB/s; at least 1 kB/s.
    pub write_sustained_bytes_per_s: u64,
    /// Size of the burst buffer, 1 GiB; may be zero.
    pub burst_buffer: Bytes,
    /// Bytes the interface carries in a second, 550 MB/s; at least 1 kB/s.
    pub link_bytes_per_s: u64,
    /// Commands inside at a time, 32 as in SATA's NCQ; at least 1.
    pub queue_depth: u32,
}

impl Default for SsdParameters {
    fn default() -> SsdParameters {
        SsdParameters {
            channels: 8,
            stripe: Bytes::from_kib(16),
            read_latency: Nanos::from_micros(90),
            read_bytes_per_s: 540_000_000,
            write_burst_bytes_per_s: 500_000_000,
            write_sustained_bytes_per_s: 150_000_000,
            burst_buffer: Bytes::from_mib(1024),
            link_bytes_per_s: 550_000_000,
            queue_depth: 32,
        }
    }
}

impl SsdParameters {
    fn check(&self) -> Result<(), ModelParameterError> {
        let p = self;
        for (name, rate) in [
            ("read_bytes_per_s", p.read_bytes_per_s),
            ("write_burst_bytes_per_s", p.write_burst_bytes_per_s),
            ("write_sustained_bytes_per_s", p.write_sustained_bytes_per_s),
            ("link_bytes_per_s", p.link_bytes_per_s),
        ] {
            in_range(name, rate as f64, rate >= 1000, "at least 1000")?;
        }
        in_range(
            "channels",
            p.channels.into(),
            (1..=256).contains(&p.channels),
            "1 to 256",
        )?;
        in_range(
            "stripe",
            p.stripe.0 as f64,
            p.stripe.0 >= 512,
            "at least 512 bytes",
        )?;
        in_range(
            "queue_depth",
            p.queue_depth.into(),
            p.queue_depth > 0,
            "at least 1",
        )
    }
}

/// Ordered by when it is done, then by when it entered.
#[derive(Debug)]
struct Inside {
    done: Instant,
    sequence: u64,
    command: Command,
}

impl PartialEq for Inside {
    fn eq(&self, other: &Inside) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Inside {}

impl PartialOrd for Inside {
    fn partial_cmp(&self, other: &Inside) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Inside {
    fn cmp(&self, other: &Inside) -> std::cmp::Ordering {
        (self.done, self.sequence).cmp(&(other.done, other.sequence))
    }
}

#[derive(Debug)]
pub(super) struct Ssd {
    parameters: SsdParameters,
    channels_free_at: Vec<Instant>,
    link_free_at: Instant,
    burst_room_bytes: f64,
    /// Until when the burst buffer's emptying is counted; ahead of the present after slow writes, which
    /// keep the medium from emptying it.
    burst_room_at: Instant,
    inside: BinaryHeap<Reverse<Inside>>,
    outside: VecDeque<Command>,
    sequence: u64,
}

impl Ssd {
    pub(super) fn new(parameters: SsdParameters) -> Result<Ssd, ModelParameterError> {
        parameters.check()?;
        Ok(Ssd {
            channels_free_at: vec![Instant(0); parameters.channels as usize],
            link_free_at: Instant(0),
            burst_room_bytes: parameters.burst_buffer.0 as f64,
            burst_room_at: Instant(0),
            inside: BinaryHeap::new(),
            outside: VecDeque::new(),
            sequence: 0,
            parameters,
        })
    }

    pub(super) fn facts(&self) -> ModelFacts {
        ModelFacts {
            queue_depth: self.parameters.queue_depth,
            rotational: false,
            write_cache: false,
        }
    }

    pub(super) fn look(&self, now: Instant) -> DiskLook {
        let inside = self.inside.iter().map(|Reverse(inside)| &inside.command);
        let writes = |command: &&Command| command.write;
        let all = inside.clone().chain(&self.outside);
        let writes_all = all.filter(writes).count() as u64;
        let busy = self.channels_free_at.iter().filter(|&&at| at > now).count();
        DiskLook {
            works_on_write: inside.clone().next().map(|_| inside.clone().any(|c| c.write)),
            reads: (self.inside.len() + self.outside.len()) as u64 - writes_all,
            writes: writes_all,
            channels: (busy as u32, self.parameters.channels),
            ..DiskLook::default()
        }
    }

    pub(super) fn submit(&mut self, command: Command, out: &mut Output<'_>) {
        if self.inside.len() < self.parameters.queue_depth as usize && self.outside.is_empty() {
            self.enter(command, command.arrived, out);
        } else {
            self.outside.push_back(command);
        }
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.inside.peek().map(|Reverse(first)| first.done)
    }

    pub(super) fn run(&mut self, now: Instant, out: &mut Output<'_>) {
        while self.next_event().is_some_and(|at| at <= now) {
            let Some(Reverse(first)) = self.inside.pop() else {
                break;
            };
            out.finish(&first.command, first.done);
            if let Some(command) = self.outside.pop_front() {
                self.enter(command, first.done.max(command.arrived), out);
            }
        }
    }

    pub(super) fn rest(&mut self, now: Instant) {
        self.burst_room_bytes = self.parameters.burst_buffer.0 as f64;
        self.burst_room_at = now;
    }

    fn enter(&mut self, command: Command, now: Instant, out: &mut Output<'_>) {
        let p = self.parameters;
        let write_rate = if command.write {
            self.write_rate(command.len, now)
        } else {
            0.0
        };
        let channels = f64::from(p.channels);
        let end = command.offset + u64::from(command.len);
        let (mut at, mut done) = (command.offset, now);
        let first_stripe = at / p.stripe.0;
        while at < end {
            let stripe = at / p.stripe.0;
            let stripe_end = ((stripe + 1) * p.stripe.0).min(end);
            let bytes = stripe_end - at;
            let first_visit = stripe - first_stripe < u64::from(p.channels);
            let ns = match (command.write, first_visit) {
                (true, _) => bytes as f64 / (write_rate / channels) * 1e9,
                (false, true) => {
                    let beyond = bytes.saturating_sub(FIRST_READ_BYTES);
                    p.read_latency.0 as f64 + beyond as f64 / (p.read_bytes_per_s as f64 / channels) * 1e9
                }
                (false, false) => bytes as f64 / (p.read_bytes_per_s as f64 / channels) * 1e9,
            };
            let channel = (stripe % u64::from(p.channels)) as usize;
            let free_at = &mut self.channels_free_at[channel];
            *free_at = (*free_at).max(now) + Nanos(ns as u64);
            done = done.max(*free_at);
            out.tally.busy(ns / channels);
            at = stripe_end;
        }
        let link_ns = f64::from(command.len) / p.link_bytes_per_s as f64 * 1e9;
        self.link_free_at = self.link_free_at.max(now) + Nanos(link_ns as u64);
        done = done.max(self.link_free_at);
        self.sequence += 1;
        self.inside.push(Reverse(Inside {
            done,
            sequence: self.sequence,
            command,
        }));
    }

    /// The rate at which all channels together write a command that enters at `now`, which is then accounted for.
    fn write_rate(&mut self, len: u32, now: Instant) -> f64 {
        let p = &self.parameters;
        let (len, sustained) = (f64::from(len), p.write_sustained_bytes_per_s as f64);
        let emptied = now.since(self.burst_room_at).0 as f64 / 1e9 * sustained;
        self.burst_room_bytes = (self.burst_room_bytes + emptied).min(p.burst_buffer.0 as f64);
        self.burst_room_at = self.burst_room_at.max(now);
        if self.burst_room_bytes >= len {
            self.burst_room_bytes -= len;
            p.write_burst_bytes_per_s as f64
        } else {
            // Straight to the slow medium, which cannot empty the buffer meanwhile.
            self.burst_room_at = self.burst_room_at + Nanos((len / sustained * 1e9) as u64);
            sustained
        }
    }

    /// Commands that it holds, how many of them it has answered, and flushes that wait.
    pub(super) fn validate(&self) -> (usize, usize, usize) {
        let p = &self.parameters;
        let room = 0.0..=p.burst_buffer.0 as f64;
        assert!(
            room.contains(&self.burst_room_bytes),
            "room of the burst buffer: {}",
            self.burst_room_bytes
        );
        assert!(
            self.inside.len() <= p.queue_depth as usize,
            "{} commands inside",
            self.inside.len()
        );
        let full = self.inside.len() == p.queue_depth as usize;
        assert!(
            full || self.outside.is_empty(),
            "commands wait outside a drive that has room"
        );
        (self.inside.len() + self.outside.len(), 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::finish;
    use super::super::{Model, ModelRequest};
    use super::*;

    fn request(id: u64, write: bool, offset: u64, len: u32) -> ModelRequest {
        ModelRequest {
            id,
            write,
            offset,
            len,
        }
    }

    #[test]
    fn read_waits_for_the_writes_before_it_on_its_channel_only() {
        let mut disk = Model::ssd(SsdParameters::default()).unwrap();
        let stripe = 16 << 10;
        for n in 0..4 {
            disk.submit(Instant(0), request(n, true, n * 8 * stripe, stripe as u32));
        }
        disk.submit(Instant(0), request(10, false, 100 * 8 * stripe, 4096));
        disk.submit(Instant(0), request(11, false, stripe, 4096));
        let done = finish(&mut disk);
        let latency = |id| done.iter().find(|done| done.id == id).unwrap().at;
        // A channel writes 16 KiB in 262,144 ns at 62.5 MB/s. The link has 64 KiB of writes before the read.
        assert_eq!(latency(10), Instant(4 * 262_144 + 90_000));
        assert_eq!(
            latency(11),
            Instant(4 * 29_789 + 2 * 7_447),
            "behind five commands on the link"
        );
    }

    #[test]
    fn burst_buffer_fills_and_empties_again() {
        let parameters = SsdParameters {
            burst_buffer: Bytes::from_mib(1),
            ..SsdParameters::default()
        };
        let mut disk = Model::ssd(parameters).unwrap();
        let mut seconds = |now: Instant| {
            disk.submit(now, request(1, true, 0, 1 << 20));
            finish(&mut disk)[0].at.since(now).0 as f64 / 1e9
        };
        let mib = f64::from(1 << 20);
        let (burst, sustained) = (mib / 500e6, mib / 150e6);
        assert!((seconds(Instant(0)) - burst).abs() < 1e-6);
        assert!((seconds(Instant(5_000_000)) - sustained).abs() < 1e-6);
        // 1 MiB takes 7 ms to empty, and the slow write had the medium to itself for another 7 ms.
        assert!((seconds(Instant(1_000_000_000)) - burst).abs() < 1e-6);
        assert!((seconds(Instant(1_002_500_000)) - sustained).abs() < 1e-6);
        disk.rest(Instant(1_020_000_000));
        disk.submit(Instant(1_020_000_000), request(1, true, 0, 1 << 20));
        let at = finish(&mut disk)[0].at;
        assert!(
            (at.since(Instant(1_020_000_000)).0 as f64 / 1e9 - burst).abs() < 1e-6,
            "rested"
        );
    }

    #[test]
    fn requests_beyond_the_queue_depth_wait_outside_in_order() {
        let mut disk = Model::ssd(SsdParameters {
            queue_depth: 2,
            ..SsdParameters::default()
        })
        .unwrap();
        for id in 0..4 {
            // Each on a channel of its own.
            disk.submit(Instant(0), request(id, false, id * 16384, 4096));
        }
        let done: Vec<_> = finish(&mut disk)
            .iter()
            .map(|done| (done.id, done.at.0))
            .collect();
        assert_eq!(done, [(0, 90_000), (1, 90_000), (2, 180_000), (3, 180_000)]);
    }

    #[test]
    fn large_read_streams_over_all_channels() {
        let mut disk = Model::ssd(SsdParameters::default()).unwrap();
        disk.submit(Instant(0), request(1, false, 0, 1 << 20));
        let at = finish(&mut disk)[0].at;
        // 128 KiB a channel at 67.5 MB/s, less the first 4 KiB, which the 90 us brought.
        let expected = 90e3 + f64::from((128 << 10) - 4096) / 67.5e6 * 1e9;
        assert!((at.0 as f64 - expected).abs() < 10.0, "{at:?}");
    }
}
