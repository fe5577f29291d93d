//! The engine on a device that does nothing: what is left is what the engine itself costs.

use millpond::device::{Completion, Device, DeviceFacts, DeviceFile, Request, Threads};
use millpond::internal::lock_times::{self, Hold};
use millpond::{Advice, OpenOptions, PageCache};
use millpond_sim::draw::Draw;
use parking_lot::{Condvar, Mutex};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
const MEMORY: u64 = 256 << 20;
const FILE: u64 = 4 << 30;
/// The number of runs of a load; the one with the least processor time counts, because another program only adds to it.
const RUNS: usize = 3;
/// The share of holds left out, the longest: their holder had lost its processor.
const PREEMPTED: f64 = 0.002;

/// The threads' load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Reads of a page anywhere in a file of 16 times the memory.
    Misses,
    /// Overwrites of such pages.
    Overwrites,
    /// A file from its start to its end, 1 MiB a call.
    StreamRead,
    /// The same, written.
    StreamWrite,
}

impl Load {
    pub(crate) const ALL: [Load; 4] = [
        Load::Misses,
        Load::Overwrites,
        Load::StreamRead,
        Load::StreamWrite,
    ];

    fn name(self) -> &'static str {
        match self {
            Load::Misses => "misses: a page of 4 KiB read, at random",
            Load::Overwrites => "overwrites: a page of 4 KiB written, at random",
            Load::StreamRead => "stream: 1 MiB read",
            Load::StreamWrite => "stream: 1 MiB written",
        }
    }

    fn operations(self) -> u64 {
        match self {
            Load::Misses | Load::Overwrites => 200_000,
            Load::StreamRead | Load::StreamWrite => 4_000,
        }
    }
}

/// The result of a run.
pub(crate) struct Measured {
    load: Load,
    threads: u64,
    operations: u64,
    /// Processor time of all its threads.
    ran: Duration,
    pub(crate) holds: BTreeMap<&'static str, Vec<Hold>>,
}

/// The best of some runs.
pub(crate) fn run(dir: &Path, load: Load, threads: u64) -> Measured {
    let runs = (0..RUNS).map(|seed| run_once(dir, load, threads, seed as u64));
    runs.min_by_key(|run| run.ran).unwrap()
}

fn run_once(dir: &Path, load: Load, threads: u64, seed: u64) -> Measured {
    let path = dir.join(format!("millpond-core-lock-{}", std::process::id()));
    let device = Arc::new(Nothing::default());
    let cache = PageCache::builder()
        .memory(MEMORY)
        .device(device)
        .build()
        .unwrap();
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(FILE).unwrap();
    if load == Load::Misses {
        file.advise(Advice::Random).unwrap();
    }
    let barrier = Barrier::new(threads as usize + 1);
    let work = |n: u64, operations: u64| {
        let mut draw = Draw((seed << 32) + n);
        let mut buf = vec![
            7;
            if operations > 10_000 {
                PAGE as usize
            } else {
                1 << 20
            }
        ];
        for at in 0..operations {
            let random = draw.below(FILE / PAGE) * PAGE;
            // Each thread has a part of the file.
            let next = (n * (FILE / threads) + at * buf.len() as u64) % FILE;
            match load {
                Load::Misses => drop(file.read_at(&mut buf, random).unwrap()),
                Load::Overwrites => file.write_at(&buf, random).unwrap(),
                Load::StreamRead => drop(file.read_at(&mut buf, next).unwrap()),
                Load::StreamWrite => file.write_at(&buf, next).unwrap(),
            }
        }
    };
    let each = load.operations() / threads;
    let ran = std::thread::scope(|scope| {
        let start = |n| {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                // Memory is full then, and what is measured is the rule.
                work(n + 100, each);
                barrier.wait();
                barrier.wait();
                let began = clock_gettime(ClockId::ThreadCPUTime);
                work(n, each);
                let ended = clock_gettime(ClockId::ThreadCPUTime);
                Duration::try_from(ended - began).unwrap()
            })
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        barrier.wait();
        lock_times::note(&cache, 4 << 20);
        barrier.wait();
        running.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let mut holds: BTreeMap<&'static str, Vec<Hold>> = BTreeMap::new();
    for hold in lock_times::take(&cache) {
        holds.entry(hold.event).or_default().push(hold);
    }
    Measured {
        load,
        threads,
        operations: each * threads,
        ran,
        holds,
    }
}

/// Nanoseconds in order, without those of holders that had lost their processor.
pub(crate) fn sorted(mut ns: Vec<u32>) -> Vec<u32> {
    ns.sort_unstable();
    ns.truncate((ns.len() as f64 * (1.0 - PREEMPTED)).ceil() as usize);
    ns
}

pub(crate) fn mean(ns: &[u32]) -> f64 {
    ns.iter().map(|&ns| f64::from(ns)).sum::<f64>() / ns.len().max(1) as f64
}

impl Measured {
    /// For one event: nanoseconds of each hold, in order.
    pub(crate) fn held(&self, event: &str) -> Vec<u32> {
        let holds = self.holds.get(event).map_or(&[][..], |holds| holds);
        sorted(holds.iter().map(|hold| hold.held_ns).collect())
    }

    /// How often an operation holds the lock for this event.
    pub(crate) fn per_operation(&self, event: &str) -> f64 {
        self.holds.get(event).map_or(0, Vec::len) as f64 / self.operations as f64
    }

    /// Nanoseconds of a processor that an operation takes outside the lock, with one thread.
    pub(crate) fn outside_ns(&self) -> f64 {
        let operation = self.ran.as_nanos() as f64 / self.operations as f64;
        let own = self
            .holds
            .keys()
            .filter(|event| event.starts_with("Fault") || **event == "ReadDone");
        operation
            - own
                .map(|event| self.per_operation(event) * mean(&self.held(event)))
                .sum::<f64>()
    }

    pub(crate) fn print(&self) {
        let Measured {
            load,
            threads,
            operations,
            ran,
            holds,
        } = self;
        println!(
            "\n{}; threads: {threads}; {:.2} us of a processor an operation",
            load.name(),
            ran.as_nanos() as f64 / 1e3 / *operations as f64
        );
        println!(
            "| event | holds an operation | events a hold | held us, p50 | mean | p99 | us an operation | waited us, mean | p99 |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        let mut sum = 0.0;
        for (event, holds) in holds {
            let often = self.per_operation(event);
            let held = self.held(event);
            let waited = sorted(holds.iter().map(|hold| hold.waited_ns).collect());
            let events: u32 = holds.iter().map(|hold| hold.events).sum();
            let at = |ns: &[u32], share: f64| f64::from(ns[(ns.len() as f64 * share) as usize]) / 1e3;
            sum += often * mean(&held);
            println!(
                "| {event} | {often:.4} | {:.1} | {:.2} | {:.2} | {:.2} | {:.3} | {:.2} | {:.2} |",
                f64::from(events) / holds.len() as f64,
                at(&held, 0.5),
                mean(&held) / 1e3,
                at(&held, 0.99),
                often * mean(&held) / 1e3,
                mean(&waited) / 1e3,
                at(&waited, 0.99),
            );
        }
        println!("| all | | | | | | {:.3} | | |", sum / 1e3);
        println!("The lock allows {:.0} operations a second.", 1e9 / sum);
    }
}

/// A device on which everything is done at once, and nothing is.
#[derive(Debug)]
struct Nothing {
    done: Mutex<(Vec<Completion>, bool)>,
    comes: Condvar,
    facts: Threads,
}

impl Default for Nothing {
    fn default() -> Nothing {
        Nothing {
            done: Mutex::default(),
            comes: Condvar::new(),
            facts: Threads::new("a device that does nothing"),
        }
    }
}

impl Device for Nothing {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        Ok(request.segments.bytes())
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        let mut done = self.done.lock();
        done.0.extend(requests.drain(..).map(|request| Completion {
            token: request.token,
            result: Ok(request.segments.bytes()),
        }));
        drop(done);
        self.comes.notify_one();
        Ok(())
    }

    fn wait(&self, into: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut done = self.done.lock();
        while done.0.is_empty() && !done.1 {
            match deadline {
                None => self.comes.wait(&mut done),
                Some(deadline) => {
                    if self.comes.wait_until(&mut done, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        into.append(&mut done.0);
        done.1 = false;
        Ok(())
    }

    fn wake(&self) {
        self.done.lock().1 = true;
        self.comes.notify_one();
    }

    fn sync(&self, _: &DeviceFile) -> io::Result<()> {
        Ok(())
    }

    fn facts(&self, file: &DeviceFile) -> DeviceFacts {
        self.facts.facts(file)
    }

    fn name(&self) -> &str {
        "a device that does nothing"
    }
}
