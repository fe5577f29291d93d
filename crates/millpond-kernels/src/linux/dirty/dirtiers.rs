//! Linux' dirtiers in virtual time: tasks that only write, a device that only takes it, and the controller between them.
//!
//! ```text
//!   task: a page ── look? ──► balance ──► sleep for so many ticks        flusher: above the background limit
//!                                                                          │ 1 MiB at a time, 8 MiB in transit
//!   a setting is touched at such a time                                   device: so many bytes a second
//! ```
//!
//! Hills 2015's `dd`. The device has no positioning time: the post has seen the same on a rotating disk, on flash and on a
//! USB stick, so it is not about that. All decisions are those of the rules beside it.

mod look;

pub use look::Pause;

use crate::linux::dirty::balance::{Balance, Balanced, Facts, Task};
use crate::linux::dirty::device::DeviceRatios;
use crate::linux::dirty::limits::KernelVersion;
use crate::linux::dirty::touch::{Touch, Touched};
use millpond_core::units::PageCount;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The simulated case.
#[derive(Clone, Debug)]
pub struct DirtiersOptions {
    /// Ticks a second: 100, 250 or 1000.
    pub hz: u64,
    /// Tasks that write.
    pub tasks: usize,
    /// Bytes a second that the device takes.
    pub device_bytes_per_s: u64,
    /// The controller's kernel.
    pub version: KernelVersion,
    /// The device's share of the limits.
    pub ratios: DeviceRatios,
    /// Its length in seconds.
    pub seconds: u64,
    /// The touched settings, and the second of each touch.
    pub touches: Vec<(u64, Touch)>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Dirtied {
    /// Bytes that the tasks have written in each second.
    pub bytes: Vec<u64>,
    /// The total of each task.
    pub bytes_of_task: Vec<u64>,
    /// Dirty pages at the end of each second.
    pub dirty: Vec<u64>,
    /// The longest sleep, in nanoseconds.
    pub pause_max: u64,
}

impl Dirtied {
    /// MB a second from second `from` on, up to `to`.
    pub fn mb_per_s(&self, from: usize, to: usize) -> f64 {
        let bytes: u64 = self.bytes[from..to].iter().sum();
        bytes as f64 / 1e6 / (to - from) as f64
    }
}

const PAGE: u64 = 4096;
/// A page copied into the page cache, with all that belongs to it: 1 GB/s, as a machine of 2015 does.
const COPY_NS: u64 = 4_000;
const WRITE_PAGES: u64 = 256;
const TRANSIT_PAGES: u64 = 2048;
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Entry {
    Second,
    WriteDone(u64),
    /// A task goes on, or looks again first.
    Task(usize, bool),
}

/// The tasks, the device and the machine.
#[derive(Debug)]
pub struct Dirtiers {
    options: DirtiersOptions,
    machine: Touched,
    device: Balanced,
    tasks: Vec<Task>,
    queue: BinaryHeap<Reverse<(u64, u64, Entry)>>,
    entered: u64,
    now: u64,
    turns: u64,
    /// The last pauses, the oldest first.
    pauses: Vec<Pause>,
    pauses_all: u64,
    dirty: u64,
    transit: u64,
    device_free_at: u64,
    dirtied: u64,
    written: u64,
    seen: Dirtied,
}

/// Runs it on `machine`.
pub fn run(machine: Touched, options: &DirtiersOptions) -> Dirtied {
    let mut dirtiers = Dirtiers::new(machine, options);
    dirtiers.run((options.seconds * SECOND).saturating_sub(1));
    let Dirtiers {
        mut seen,
        dirty,
        transit,
        ..
    } = dirtiers;
    seen.bytes.resize(options.seconds as usize, 0);
    seen.dirty.push(dirty + transit);
    seen.dirty.remove(0);
    seen
}

impl Dirtiers {
    /// All at their beginning.
    pub fn new(machine: Touched, options: &DirtiersOptions) -> Dirtiers {
        let mut dirtiers = Dirtiers {
            options: options.clone(),
            device: Balanced::new(options.version, options.ratios),
            machine,
            tasks: vec![Task::default(); options.tasks],
            queue: BinaryHeap::new(),
            entered: 0,
            now: 0,
            turns: 0,
            pauses: Vec::new(),
            pauses_all: 0,
            dirty: 0,
            transit: 0,
            device_free_at: 0,
            dirtied: 0,
            written: 0,
            seen: Dirtied {
                bytes_of_task: vec![0; options.tasks],
                ..Dirtied::default()
            },
        };
        dirtiers
            .device
            .set_domain_limit(dirtiers.machine.in_force().thresholds.hard);
        dirtiers.enter(0, Entry::Second);
        (0..options.tasks).for_each(|n| dirtiers.enter(0, Entry::Task(n, false)));
        dirtiers
    }

    /// Goes on through `until`, in nanoseconds from the beginning.
    pub fn run(&mut self, until: u64) {
        while let Some(&Reverse((at, _, entry))) = self.queue.peek()
            && at <= until
        {
            self.queue.pop();
            (self.now, self.turns) = (at, self.turns + 1);
            match entry {
                Entry::Second => self.second(),
                Entry::WriteDone(pages) => {
                    self.transit -= pages;
                    self.written += pages;
                    self.flush();
                }
                Entry::Task(n, looks) => self.task(n, looks),
            }
        }
        self.now = until;
    }

    fn enter(&mut self, at: u64, entry: Entry) {
        self.entered += 1;
        self.queue.push(Reverse((at, self.entered, entry)));
    }

    fn second(&mut self) {
        self.seen.dirty.push(self.dirty + self.transit);
        let second = self.now / SECOND;
        for n in 0..self.options.touches.len() {
            let (at, touch) = self.options.touches[n].clone();
            if at != second {
                continue;
            }
            let before = self.machine.in_force();
            self.machine.touch(touch);
            if self.machine.in_force() != before {
                self.device
                    .set_domain_limit(self.machine.in_force().thresholds.hard);
            }
        }
        self.enter(self.now + SECOND, Entry::Second);
    }

    fn flush(&mut self) {
        let background = self.machine.found_by_tasks().background.0;
        while self.dirty > background && self.transit < TRANSIT_PAGES {
            let pages = self.dirty.min(WRITE_PAGES);
            self.dirty -= pages;
            self.transit += pages;
            let took = pages * PAGE * SECOND / self.options.device_bytes_per_s;
            self.device_free_at = self.device_free_at.max(self.now) + took;
            self.enter(self.device_free_at, Entry::WriteDone(pages));
        }
    }

    fn task(&mut self, n: usize, mut looks: bool) {
        let ratelimit = self.machine.in_force().ratelimit.0;
        if !looks {
            self.dirty += 1;
            self.dirtied += 1;
            let second = (self.now / SECOND) as usize;
            if self.seen.bytes.len() <= second {
                self.seen.bytes.resize(second + 1, 0);
            }
            self.seen.bytes[second] += PAGE;
            self.seen.bytes_of_task[n] += PAGE;
            let task = &mut self.tasks[n];
            looks = self.device.must_look(task, 1, ratelimit);
            self.now += COPY_NS;
            self.flush();
        }
        if looks {
            let tick = SECOND / self.options.hz;
            let unclean = PageCount(self.dirty + self.transit);
            let facts = Facts {
                now: self.now / tick,
                hz: self.options.hz,
                thresholds: self.machine.found_by_tasks(),
                dirty: unclean,
                dirty_device: unclean,
                dirtied: self.dirtied,
                written: self.written,
                ratelimit,
            };
            let dirtied = self.tasks[n].dirtied;
            if let Balance::Pause { ticks, again } = self.device.balance(&mut self.tasks[n], &facts) {
                // A timer ends with a tick.
                let until = (self.now / tick + ticks) * tick;
                self.seen.pause_max = self.seen.pause_max.max(until - self.now);
                self.note_pause(n, dirtied, until);
                return self.enter(until, Entry::Task(n, again));
            }
        }
        self.enter(self.now, Entry::Task(n, false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::dirty::limits::{Caller, KernelLimit};
    use crate::linux::dirty::touch::{TouchRules, post_zones_at_boot};
    use crate::linux::dirty::zone::POST_ZONES;

    fn post(rules: TouchRules) -> Touched {
        let mut machine = Touched::boot(rules, post_zones_at_boot());
        machine.touch(Touch::Processors(8));
        machine.touch(Touch::Memory(POST_ZONES.to_vec()));
        machine
    }

    fn options(hz: u64, tasks: usize) -> DirtiersOptions {
        DirtiersOptions {
            hz,
            tasks,
            device_bytes_per_s: 150_000_000,
            version: KernelVersion::Linux4,
            ratios: DeviceRatios::default(),
            seconds: 20,
            touches: Vec::new(),
        }
    }

    fn percent(n: u32) -> Touch {
        Touch::Hard(KernelLimit::Percent(n), Caller::default())
    }

    /// 5 seconds each: at boot, set to 20 again, to 21, and back.
    fn dd(rules: TouchRules, hz: u64) -> [f64; 4] {
        let mut options = options(hz, 1);
        options.touches = vec![(5, percent(20)), (10, percent(21)), (15, percent(20))];
        let dirtied = run(post(rules), &options);
        [0, 5, 10, 15].map(|from| dirtied.mb_per_s(from, from + 5))
    }

    fn is(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 0.05
    }

    #[test]
    fn a_touched_ratio_makes_the_posts_kernel_slow_for_good() {
        // One page a tick.
        for (hz, slow) in [(100, 0.41), (250, 1.02), (1000, 4.1)] {
            let [boot, same, other, back] = dd(TouchRules::LINUX_4_0, hz);
            assert!(is(boot, 150.0) && is(same, 150.0), "{hz} Hz: {boot} {same}");
            assert!(is(other, slow) && is(back, slow), "{hz} Hz: {other} {back}");
        }
    }

    #[test]
    fn with_the_repaired_rules_a_touch_costs_nothing() {
        for hz in [100, 250, 1000] {
            let all = dd(TouchRules::REPAIRED, hz);
            assert!(all.iter().all(|&rate| is(rate, 150.0)), "{hz} Hz: {all:?}");
        }
    }

    #[test]
    fn dirtiers_get_equal_shares_at_the_setpoint_and_none_sleeps_for_long() {
        for tasks in [1, 2, 4, 10] {
            let mut machine = post(TouchRules::REPAIRED);
            machine.touch(Touch::HighmemCounts(true, Caller::default()));
            let thresholds = machine.found_by_tasks();
            let setpoint = (thresholds.free_run().0 + thresholds.hard.0) / 2;
            let mut options = options(1000, tasks);
            options.seconds = 40;
            let dirtied = run(machine, &options);
            let fair = dirtied.bytes_of_task.iter().sum::<u64>() / tasks as u64;
            for &bytes in &dirtied.bytes_of_task {
                assert!(
                    bytes.abs_diff(fair) * 10 < fair,
                    "{tasks}: {:?}",
                    dirtied.bytes_of_task
                );
            }
            let last = dirtied.dirty.last().copied().unwrap_or_default();
            assert!(
                last.abs_diff(setpoint) * 20 < setpoint,
                "{tasks}: {last} around {setpoint}"
            );
            assert!(
                dirtied.pause_max <= 200_000_000,
                "{tasks}: {} ns",
                dirtied.pause_max
            );
        }
    }
}
