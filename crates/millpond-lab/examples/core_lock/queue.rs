//! Many threads at one lock, or at shards of it, in virtual time.
//!
//! ```text
//!   ┌─► processor, a fixed time ─► lock: Fault ─► device: one of N channels ─► lock: ReadDone ─┐
//!   └──────────────────────────────────────────────────────────────────────────────────────────┘
//!            each so many misses of a shard: its reclaimer ─► lock: Reclaim
//! ```
//!
//! Each thread has a processor of its own. Holds are drawn from those that were measured with two threads, whose data
//! moves between two processors. The lock goes to the thread that has waited longest, and takes [`HANDOFF`] on its way.
//!
//! Left out: threads that wait are put to sleep, and waking them costs the thread that wakes; that data moves further with
//! more processors and sockets than in a machine with two; that the table's and the device's own locks fill as well.
//! All of these make one lock worse than it is here.

use crate::measure::{Measured, mean};
use millpond_sim::draw::Draw;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A cache line that goes from one processor to another, and back, on one socket.
const HANDOFF: u64 = 100;
/// Batches that a reclaimer may be behind before a fault reclaims for itself: about what lies between the high and the min
/// water mark of 1 GiB.
const BEHIND_MAX: u64 = 32;
/// A direct read of 4 KiB: the processor's part of the system call and of the thread's sleep, on a machine of one's own.
/// The virtual machine of `beside_writers` takes 18 us and more.
const CALL: u64 = 5_000;
/// A read of flash.
const DEVICE: u64 = 70_000;
/// Virtual time of a run, in nanoseconds.
const ENDS: u64 = 50_000_000;

struct Holds {
    fault: Vec<u32>,
    read_done: Vec<u32>,
    reclaim: Vec<u32>,
    /// Misses for each time that reclaim holds the lock.
    batch: u64,
}

struct Case {
    threads: usize,
    shards: usize,
    channels: usize,
    device: u64,
    outside: u64,
    /// Holds take this many times the measured time.
    longer: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Then {
    Fault,
    Device,
    ReadDone,
    Released(Holder),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Fault,
    ReadDone,
    Reclaimer,
}

#[derive(Default)]
struct Shard {
    is_held: bool,
    held_ns: u64,
    /// Thread, what for, since when.
    queue: VecDeque<(usize, Holder, u64)>,
    misses: u64,
    /// Batches that the reclaimer has not done, with that it is at.
    behind: u64,
}

struct World<'a> {
    holds: &'a Holds,
    longer: u64,
    now: u64,
    order: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize, Then)>>,
    shards: Vec<Shard>,
    /// The shard of each thread, and how long it has waited for locks in this miss.
    at: Vec<usize>,
    waited: Vec<u64>,
    waits: Vec<u64>,
    draw: Draw,
}

struct Ran {
    misses_per_s: f64,
    busy: f64,
    wait_p50_us: f64,
    wait_p99_us: f64,
}

impl World<'_> {
    fn later(&mut self, ns: u64, thread: usize, then: Then) {
        self.order += 1;
        self.events
            .push(Reverse((self.now + ns, self.order, thread, then)));
    }

    fn ask(&mut self, thread: usize, shard: usize, holder: Holder) {
        match self.shards[shard].is_held {
            true => self.shards[shard].queue.push_back((thread, holder, self.now)),
            false => self.hold(thread, shard, holder, 0),
        }
    }

    fn hold(&mut self, thread: usize, shard: usize, holder: Holder, handoff: u64) {
        let draw = |draw: &mut Draw, of: &[u32]| u64::from(of[draw.below(of.len() as u64) as usize]);
        let (holds, own) = (self.holds, &mut self.shards[shard]);
        let mut ns = match holder {
            Holder::Fault => draw(&mut self.draw, &holds.fault),
            Holder::ReadDone => draw(&mut self.draw, &holds.read_done),
            Holder::Reclaimer => draw(&mut self.draw, &holds.reclaim),
        };
        if holder == Holder::Fault {
            own.misses += 1;
            if own.misses.is_multiple_of(holds.batch) {
                if own.behind >= BEHIND_MAX {
                    ns += draw(&mut self.draw, &holds.reclaim);
                } else {
                    own.behind += 1;
                }
            }
        }
        ns *= self.longer;
        own.is_held = true;
        own.held_ns += ns + handoff;
        self.later(ns + handoff, thread, Then::Released(holder));
    }

    fn release(&mut self, shard: usize) {
        self.shards[shard].is_held = false;
        if let Some((thread, holder, since)) = self.shards[shard].queue.pop_front() {
            if let Some(waited) = self.waited.get_mut(thread) {
                *waited += self.now - since + HANDOFF;
            }
            self.hold(thread, shard, holder, HANDOFF);
        }
    }
}

fn run(case: &Case, holds: &Holds) -> Ran {
    let Case {
        threads,
        shards,
        channels,
        device,
        outside,
        longer,
    } = *case;
    let mut world = World {
        holds,
        longer,
        now: 0,
        order: 0,
        events: BinaryHeap::new(),
        shards: (0..shards).map(|_| Shard::default()).collect(),
        at: vec![0; threads],
        waited: vec![0; threads],
        waits: Vec::new(),
        draw: Draw(1),
    };
    // The reclaimers follow the other threads, one for each shard.
    let reclaimer = |shard: usize| threads + shard;
    let mut free_at = vec![0_u64; channels];
    for thread in 0..threads {
        let first = world.draw.below(outside + device);
        world.later(first, thread, Then::Fault);
    }
    while let Some(Reverse((now, _, thread, then))) = world.events.pop() {
        if now > ENDS {
            break;
        }
        world.now = now;
        let shard = world
            .at
            .get(thread)
            .copied()
            .unwrap_or(thread.saturating_sub(threads));
        match then {
            Then::Fault => {
                world.at[thread] = world.draw.below(shards as u64) as usize;
                world.waited[thread] = 0;
                world.ask(thread, world.at[thread], Holder::Fault);
            }
            Then::Device => {
                let channel = world.draw.below(channels as u64) as usize;
                let ends = free_at[channel].max(now) + device;
                free_at[channel] = ends;
                world.later(ends - now, thread, Then::ReadDone);
            }
            Then::ReadDone => world.ask(thread, shard, Holder::ReadDone),
            Then::Released(holder) => {
                let idle = world.shards[shard].behind == 1
                    && holder == Holder::Fault
                    && world.shards[shard].misses.is_multiple_of(world.holds.batch);
                world.release(shard);
                match holder {
                    Holder::Fault => world.later(0, thread, Then::Device),
                    Holder::ReadDone => {
                        let waited = world.waited[thread];
                        world.waits.push(waited);
                        world.later(outside, thread, Then::Fault);
                    }
                    Holder::Reclaimer => world.shards[shard].behind -= 1,
                }
                let again = holder == Holder::Reclaimer && world.shards[shard].behind > 0;
                if idle || again {
                    world.ask(reclaimer(shard), shard, Holder::Reclaimer);
                }
            }
        }
    }
    world.waits.sort_unstable();
    let at = |share: f64| world.waits[(world.waits.len() as f64 * share) as usize] as f64 / 1e3;
    Ran {
        misses_per_s: world.waits.len() as f64 / ENDS as f64 * 1e9,
        busy: world.shards.iter().map(|s| s.held_ns as f64).sum::<f64>() / shards as f64 / ENDS as f64,
        wait_p50_us: at(0.5),
        wait_p99_us: at(0.99),
    }
}

pub(crate) fn print(alone: &Measured, contended: &Measured) {
    let holds = Holds {
        fault: contended.held("Fault, to read"),
        read_done: contended.held("ReadDone"),
        reclaim: contended.held("Reclaim"),
        batch: (1.0 / contended.per_operation("Reclaim")).round() as u64,
    };
    let own = alone.outside_ns() as u64;
    println!(
        "\nThreads that do nothing but miss, in virtual time. Held: Fault {:.2} us, ReadDone {:.2}, Reclaim {:.2} for {} \
         pages; outside the lock {:.2} us of Millpond's, {:.1} us for the system call; the device {} us",
        mean(&holds.fault) / 1e3,
        mean(&holds.read_done) / 1e3,
        mean(&holds.reclaim) / 1e3,
        holds.batch,
        own as f64 / 1e3,
        CALL as f64 / 1e3,
        DEVICE / 1000,
    );
    println!(
        "| channels | threads | shards | misses/s | of 64 shards | lock busy | waits for it us, p50 | p99 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for channels in [32, 128] {
        for threads in [8, 32, 128] {
            let of = |shards| {
                run(
                    &Case {
                        threads,
                        shards,
                        channels,
                        device: DEVICE,
                        longer: 1,
                        outside: own + CALL,
                    },
                    &holds,
                )
            };
            let best = of(64).misses_per_s;
            for shards in [1, 2, 4, 8, 16] {
                let Ran {
                    misses_per_s,
                    busy,
                    wait_p50_us,
                    wait_p99_us,
                } = of(shards);
                println!(
                    "| {channels} | {threads} | {shards} | {misses_per_s:.0} | {:.0} % | {:.0} % | {wait_p50_us:.1} | {wait_p99_us:.1} |",
                    misses_per_s / best * 100.0,
                    busy * 100.0,
                );
            }
        }
    }
    println!("\nThreads from which on one lock costs a tenth of what 64 shards give; 1024 channels");
    println!(
        "| a thread's own work for each miss | device 70 us | 20 us | 70 us, holds four times as long |"
    );
    println!("|---|---|---|---|");
    for work in [0, 20_000, 100_000] {
        let from = |device: u64, longer: u64| {
            let of = |threads, shards| {
                let case = Case {
                    threads,
                    shards,
                    channels: 1024,
                    device,
                    outside: own + CALL + work,
                    longer,
                };
                run(&case, &holds).misses_per_s
            };
            let mut counts = (1..=64).map(|n| n * 8);
            let found = counts.find(|&threads| of(threads, 1) < 0.9 * of(threads, 64));
            found.map_or("more than 512".into(), |n| n.to_string())
        };
        println!(
            "| {} us | {} | {} | {} |",
            work / 1000,
            from(DEVICE, 1),
            from(20_000, 1),
            from(DEVICE, 4)
        );
    }
}
