//! What the device at hand is like: what it says of itself, and what a read costs on it when nothing else is asked of it.
//!
//! Found when the first file with content is opened: 24 reads anywhere in it, one after the other. That takes
//! 3 ms on a flash disk and 130 ms on one that rotates; where others keep the device busy it ends after 250
//! ms with the reads there are. The goal for read latency follows from it. Until there is such a file, a
//! device that says that it rotates has the longest goal: with that of a flash disk, writers beside a log had
//! 5 MB/s of a modelled disk. A program that keeps a [`Calibration`] can give it to the next cache, which
//! then measures nothing.

use super::cache::Cache;
use crate::device::{self, Calibration, Device, DeviceFile, GOAL_MAX, GoalSource, Op, Request, Segments};
use crate::observe::history::By;
use millpond_core::admission::AdmissionOptions;
use millpond_core::units::{Bytes, Nanos};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Few enough for a disk that rotates: 130 ms.
const READS: u64 = 24;

/// When no further read is begun. With the one under way an opening file then waits less than 300 ms, unless a single
/// read takes longer than 50 ms.
const TIME_MAX: Duration = Duration::from_millis(250);

/// A file below this length measures nothing: on a disk that rotates its bytes lie on one track or two.
const FILE_BYTES_MIN: u64 = 1 << 20;

/// Where a read was measured to take so long, the way to a page costs more than its neighbours: a page that is used through a
/// guard is read with those of [`AROUND`] that are missing, while memory is free. A disk of 7200 revolutions a minute takes
/// 5.4 ms.
const AROUND_FROM: Duration = Duration::from_millis(3);

/// What the kernel reads around a page of a mapping (`VM_READAHEAD_PAGES`): 1 ms of a disk that rotates, where the way takes
/// 5 to 10.
const AROUND: Bytes = Bytes::from_kib(128);

/// Whether there is one.
#[derive(Debug)]
pub(crate) enum Calibrating {
    /// None is wanted.
    Off,
    /// The first file with content will be measured.
    Due,
    /// The same; until then the goal is what suits a device of its kind.
    Presumed,
    /// Measured, or given.
    Done(Calibration),
}

impl Cache {
    /// Where the goal comes from; `None` if the form of admission has none.
    pub(crate) fn goal_source(&self) -> Option<GoalSource> {
        let AdmissionOptions::Goal(goal) = self.options().admission else {
            return None;
        };
        let is = |of: Duration| goal.read_latency == Nanos(of.as_nanos() as u64);
        // Not while it is measured, which takes as long as the device likes.
        let Some(calibrating) = self.calibrating.try_lock() else {
            return Some(GoalSource::Unmeasured);
        };
        Some(match *calibrating {
            Calibrating::Done(found) if is(found.read_latency_goal()) => GoalSource::Measured(found),
            Calibrating::Due => GoalSource::Unmeasured,
            Calibrating::Presumed if is(GOAL_MAX) => GoalSource::Presumed,
            Calibrating::Presumed => GoalSource::Unmeasured,
            Calibrating::Done(_) | Calibrating::Off => GoalSource::Given,
        })
    }

    /// Measures the device of a file of `len` bytes if that is due, and derives the goal from it.
    pub(crate) fn calibrate(&self, file: &Arc<DeviceFile>, len: u64) {
        let mut calibrating = self.calibrating.lock();
        let is_due = match *calibrating {
            Calibrating::Due => true,
            Calibrating::Presumed => len >= FILE_BYTES_MIN,
            Calibrating::Off | Calibrating::Done(_) => false,
        };
        if !is_due {
            return;
        }
        // Once, also where it comes to nothing.
        *calibrating = Calibrating::Off;
        if !matches!(
            self.engine.core().manager.options().admission,
            AdmissionOptions::Goal(_)
        ) {
            return;
        }
        if len < FILE_BYTES_MIN {
            *calibrating = Calibrating::Presumed;
            if self.engine.device.facts(file).rotational {
                self.take_goal(GOAL_MAX);
            }
        } else if let Some(calibration) = self.measure(file, len) {
            *calibrating = Calibrating::Done(calibration);
            self.take(calibration);
        }
    }

    /// Takes what follows from a calibration.
    pub(crate) fn take(&self, calibration: Calibration) {
        if calibration.read_latency >= AROUND_FROM {
            let around = AROUND.to_pages(self.engine.page_size).0;
            self.engine.around_pages.store(around, Ordering::Relaxed);
        }
        self.take_goal(calibration.read_latency_goal());
    }

    /// Takes the goal that follows from a calibration.
    fn take_goal(&self, read_latency: Duration) {
        let mut budget = self.budget.lock();
        let mut options = self.options();
        if let AdmissionOptions::Goal(goal) = &mut options.admission {
            goal.read_latency = Nanos(read_latency.as_nanos() as u64);
            // Without memory to be had there is nothing that can fail.
            let _ = self.apply(By::Calibration, &mut budget, None, Some(options));
        }
    }

    fn measure(&self, file: &Arc<DeviceFile>, len: u64) -> Option<Calibration> {
        let (began, buffer) = (Instant::now(), device::Buffer::new(4096));
        let mut took: Vec<Duration> = (0..READS)
            .take_while(|_| began.elapsed() < TIME_MAX)
            .filter_map(|n| {
                // Anywhere: equal steps would meet a turning disk at equal angles.
                let offset = scatter(n) % (len / 4096) * 4096;
                let request = Request {
                    token: 0,
                    op: Op::Read,
                    reason: None,
                    file: file.clone(),
                    offset,
                    segments: Segments::of(buffer.clone(), 0, 4096),
                };
                let began = Instant::now();
                let _poisons = self.engine.poison_on_panic("device");
                let read = self.engine.device.transfer(&request);
                read.ok().map(|_| began.elapsed())
            })
            .collect();
        took.sort_unstable();
        Some(Calibration {
            facts: self.engine.device.facts(file),
            reads: took.len() as u32,
            read_latency: *took.get(took.len() / 2)?,
            read_latency_max: *took.last()?,
            took: began.elapsed(),
        })
    }
}

/// The bits of `n`, well mixed (splitmix64).
fn scatter(n: u64) -> u64 {
    let z = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
