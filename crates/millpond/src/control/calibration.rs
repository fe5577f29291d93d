//! What the device at hand is like: what it says of itself, and what a read costs on it when nothing else is asked of it.
//!
//! Found when the first file with content is opened: 24 reads anywhere in it, one after the other. That takes
//! 3 ms on a flash disk and 130 ms on one that rotates; where others keep the device busy it ends after 250
//! ms with the reads there are. The goal for read latency follows from it. Until there is such a file, a
//! device that says that it rotates has the longest goal: with that of a flash disk, writers beside a log had
//! 5 MB/s of a modelled disk. A program that keeps a [`Calibration`] can give it to the next cache, which
//! then measures nothing. Each further device is measured likewise, and has a goal of its own for as long as none is set. One
//! whose reads have no goal is not measured.

use super::cache::Cache;
use crate::device::{
    self, Calibration, Device, DeviceFile, GOAL_MAX, GOAL_MIN, GoalSource, Op, Request, Segments,
};
use crate::observe::history::By;
use millpond_core::admission::{AdmissionOptions, DeviceHints};
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

/// What was measured of the devices that files are on. The goal that follows from the first is the setting; others have
/// their own.
#[derive(Debug)]
pub(crate) struct Calibrations {
    pub(crate) setting: Calibrating,
    devices: Vec<Measured>,
}

impl Calibrations {
    pub(crate) fn new(setting: Calibrating) -> Calibrations {
        Calibrations {
            setting,
            devices: Vec::new(),
        }
    }

    /// A goal was set: nothing is measured for one any more.
    pub(crate) fn goal_set(&mut self) {
        if matches!(self.setting, Calibrating::Due | Calibrating::Presumed) {
            self.setting = Calibrating::Off;
        }
        self.devices.clear();
    }

    /// The entry of the device, made where there is none.
    fn device(&mut self, device: u64) -> usize {
        let at = self.devices.iter().position(|measured| measured.device == device);
        at.unwrap_or_else(|| {
            self.devices.push(Measured {
                device,
                is_tried: false,
                found: None,
            });
            self.devices.len() - 1
        })
    }
}

/// A device.
#[derive(Clone, Copy, Debug)]
struct Measured {
    device: u64,
    /// Once, also where it comes to nothing.
    is_tried: bool,
    found: Option<Calibration>,
}

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
        Some(match calibrating.setting {
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
        let is_wanted = matches!(calibrating.setting, Calibrating::Due) || !calibrating.devices.is_empty();
        let has_goal = || {
            let admission = self.engine.core().manager.options().admission;
            matches!(admission, AdmissionOptions::Goal(_))
        };
        if !is_wanted || !has_goal() {
            if matches!(calibrating.setting, Calibrating::Due) {
                calibrating.setting = Calibrating::Off;
            }
            return;
        }
        let device = file.identity().device;
        let is_known = calibrating.devices.iter().any(|known| known.device == device);
        if !is_known && self.engine.device.facts(file).in_transit_max.is_some() {
            return;
        }
        let at = calibrating.device(device);
        if len < FILE_BYTES_MIN {
            if matches!(calibrating.setting, Calibrating::Due) {
                calibrating.setting = Calibrating::Presumed;
                if self.engine.device.facts(file).rotational {
                    self.take_goal(GOAL_MAX);
                }
            }
            return;
        }
        if std::mem::replace(&mut calibrating.devices[at].is_tried, true) {
            return;
        }
        let found = self.measure(file, len);
        calibrating.devices[at].found = found;
        if at == 0 {
            let done = found.map_or(Calibrating::Off, Calibrating::Done);
            calibrating.setting = done;
            found.into_iter().for_each(|found| self.take(found));
        }
        drop(calibrating);
        if found.is_some() {
            let device = file.identity().device;
            self.engine.device_measured(device, self.device_hints(file));
        }
    }

    /// What is known of the device that the file is on.
    pub(crate) fn device_hints(&self, file: &DeviceFile) -> DeviceHints {
        let facts = self.engine.device.facts(file);
        let rotational = facts.rotational;
        let calibrating = self.calibrating.lock();
        let devices = &calibrating.devices;
        let device = file.identity().device;
        let at = devices.iter().position(|measured| measured.device == device);
        let found = match calibrating.setting {
            Calibrating::Done(found) if devices.is_empty() => Some(found),
            _ => at.and_then(|at| devices[at].found),
        };
        let presumed = if rotational { GOAL_MAX } else { GOAL_MIN };
        let own = found.map_or(presumed, |found| found.read_latency_goal());
        let nanos = |span: Duration| Nanos(span.as_nanos() as u64);
        DeviceHints {
            rotational: Some(rotational),
            read_latency: found.map(|found| nanos(found.read_latency)),
            // The first one's is the setting.
            goal: at.filter(|&at| at > 0).map(|_| nanos(own)),
            transfer_max: facts.transfer_max.map(Bytes),
            readahead_max: facts.readahead_max.map(Bytes),
            in_transit_max: facts.in_transit_max.map(Bytes),
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
