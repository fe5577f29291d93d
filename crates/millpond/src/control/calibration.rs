//! The properties of the present device: what it reports, and what a read costs while it does nothing else.
//!
//! ```text
//!   the first file with content is opened ──► 24 reads ── alone in the disk ──► the goal for read latency
//!                                                └─ beside others ──► the same, for now; again when it is idle (remeasure)
//! ```
//!
//! 24 reads anywhere in the file, one after the other, take 3 ms on a flash disk and 130 ms on one that rotates; where others
//! keep the device busy it ends after 250 ms with the reads there are. Until there is such a file, a
//! device that says that it rotates has the longest goal: with that of a flash disk, writers beside a log had
//! 5 MB/s of a modelled disk. A program that keeps a [`Calibration`] can give it to the next cache, which
//! then measures nothing. Each further device is measured likewise, and has a goal of its own for as long as none is set. One
//! whose reads have no goal is not measured.

use super::cache::Cache;
use super::probes::{Measurement, Probe, Probes, READS, scatter};
use super::remeasure::Again;
use crate::device::{
    self, Calibration, Device, DeviceFile, DeviceLoad, GOAL_MAX, GOAL_MIN, GoalSource, Op, Request, Segments,
};
use crate::host::Notice;
use crate::observe::history::By;
use millpond_core::admission::{AdmissionOptions, DeviceHints};
use millpond_core::units::{Bytes, Nanos};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// When no further read is begun. With the one under way an opening file then waits less than 300 ms, unless a single
/// read takes longer than 50 ms.
const TIME_MAX: Duration = Duration::from_millis(250);

/// A file below this length measures nothing: on a disk that rotates its bytes lie on one track or two.
const FILE_BYTES_MIN: u64 = 1 << 20;

/// Where a read was measured to take this long, the seek to a page costs more than its neighbours: a page used through
/// a guard is read with the missing pages of [`AROUND`], while memory is free. A disk of 7200 revolutions a minute
/// takes 5.4 ms.
const AROUND_FROM: Duration = Duration::from_millis(3);

/// What the kernel reads around a page of a mapping (`VM_READAHEAD_PAGES`): 1 ms of a rotating disk, whose seek takes 5
/// to 10.
const AROUND: Bytes = Bytes::from_kib(128);

/// Reads for measuring a device again are made from at most this many open files, of all devices.
const FILES_MAX: usize = 32;

/// A goal of more than this many times what the idle disk needs gives a warning.
const TOO_LONG: u32 = 5;

/// What was measured of the devices that files are on. The goal that follows from the first is the setting; others have
/// their own.
#[derive(Debug)]
pub(crate) struct Calibrations {
    pub(crate) setting: Calibrating,
    pub(super) devices: Vec<Measured>,
    /// Open files that reads may be made from.
    pub(super) files: Vec<Weak<DeviceFile>>,
    next_file: usize,
    /// A read that was begun before a goal was set, or was to be measured, counts no more.
    pub(super) epoch: u64,
}

impl Calibrations {
    pub(crate) fn new(setting: Calibrating) -> Calibrations {
        Calibrations {
            setting,
            devices: Vec::new(),
            files: Vec::new(),
            next_file: 0,
            epoch: 0,
        }
    }

    /// A goal was set: no more measurements for one.
    pub(crate) fn goal_set(&mut self) {
        if !matches!(self.setting, Calibrating::Done(_)) {
            self.setting = Calibrating::Off;
        }
        self.devices.clear();
        self.epoch += 1;
    }

    /// The goal is to be what follows from measuring. What there is stays until then.
    pub(crate) fn measure(&mut self) {
        self.devices.clear();
        self.epoch += 1;
        for file in self.files.iter().filter_map(Weak::upgrade).collect::<Vec<_>>() {
            let at = self.device(file.identity().device);
            self.devices[at].is_tried = true;
            self.devices[at].again = Some(Again::asked());
        }
        self.setting = match self.devices.is_empty() {
            true => Calibrating::Due,
            false => Calibrating::Again,
        };
    }

    /// An idle disk's goal, if it has been measured.
    #[cfg(feature = "control")]
    pub(crate) fn goal_when_idle(&self) -> Option<Duration> {
        match self.setting {
            Calibrating::Done(found) => Some(found.read_latency_goal()),
            _ => None,
        }
    }

    fn opened(&mut self, file: &Arc<DeviceFile>) {
        self.files.retain(|known| known.strong_count() > 0);
        let is_it = |known: &Weak<DeviceFile>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(file));
        if self.files.iter().any(is_it) {
            return;
        }
        let file = Arc::downgrade(file);
        if self.files.len() < FILES_MAX {
            self.files.push(file);
        } else {
            self.next_file = (self.next_file + 1) % FILES_MAX;
            self.files[self.next_file] = file;
        }
    }

    /// The entry of the device, made where there is none.
    fn device(&mut self, device: u64) -> usize {
        let at = self.devices.iter().position(|measured| measured.device == device);
        at.unwrap_or_else(|| {
            self.devices.push(Measured {
                device,
                is_tried: false,
                found: None,
                again: None,
            });
            self.devices.len() - 1
        })
    }
}

/// A device.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) device: u64,
    /// Once, also where it comes to nothing.
    pub(super) is_tried: bool,
    pub(super) found: Option<Calibration>,
    /// It is to be measured again.
    pub(super) again: Option<Again>,
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
    /// Files that are open are being measured; until then the goal is that of before.
    Again,
    /// Measured, or given.
    Done(Calibration),
}

/// Whether a goal exceeds what the idle disk needs by so much that it deserves a warning.
pub(crate) fn is_too_long(goal: Duration, idle: Duration) -> bool {
    goal > idle * TOO_LONG
}

impl Cache {
    /// The origin of the goal; `None` if the form of admission has none.
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
            Calibrating::Done(found) if is(found.read_latency_goal()) => {
                let first = calibrating.devices.first();
                match first.is_some_and(|first| first.again.as_ref().is_some_and(Again::is_beside)) {
                    true => GoalSource::MeasuredUnderLoad(found),
                    false => GoalSource::Measured(found),
                }
            }
            Calibrating::Again => GoalSource::Remeasuring,
            Calibrating::Due => GoalSource::Unmeasured,
            Calibrating::Presumed if is(GOAL_MAX) => GoalSource::Presumed,
            Calibrating::Presumed => GoalSource::Unmeasured,
            Calibrating::Done(_) | Calibrating::Off => GoalSource::Given,
        })
    }

    /// Measures the device of a file if that is due, and derives the goal from it.
    ///
    /// # Errors
    /// As asking for the file's length fails.
    pub(crate) fn calibrate(&self, file: &Arc<DeviceFile>) -> io::Result<()> {
        let mut calibrating = self.calibrating.lock();
        calibrating.opened(file);
        let is_wanted = matches!(calibrating.setting, Calibrating::Due) || !calibrating.devices.is_empty();
        let has_goal = || {
            let admission = self.engine.core().manager.options().admission;
            matches!(admission, AdmissionOptions::Goal(_))
        };
        if !is_wanted || !has_goal() {
            if matches!(calibrating.setting, Calibrating::Due) {
                calibrating.setting = Calibrating::Off;
            }
            return Ok(());
        }
        let device = file.identity().device;
        let is_known = calibrating.devices.iter().any(|known| known.device == device);
        if !is_known && self.engine.device.facts(file).in_transit_max.is_some() {
            return Ok(());
        }
        let at = calibrating.device(device);
        // A device without statistics gets no reads that no caller waits for. It is looked up once a device, not at
        // each open.
        let may_be_again = || self.engine.device.load(file) != DeviceLoad::Unknown;
        let is_due = matches!(calibrating.setting, Calibrating::Due);
        if calibrating.devices[at].is_tried && !is_due {
            return Ok(());
        }
        let len = file.len()?;
        if len < FILE_BYTES_MIN {
            if is_due {
                calibrating.setting = Calibrating::Presumed;
                if self.engine.device.facts(file).rotational {
                    self.take_goal(GOAL_MAX);
                }
            }
            let entry = &mut calibrating.devices[at];
            let is_news = !entry.is_tried && entry.again.is_none() && may_be_again();
            if is_news {
                entry.again = Some(Again::not_yet());
            }
            drop(calibrating);
            if is_news {
                self.remeasure.look(&self.me);
            }
            return Ok(());
        }
        if std::mem::replace(&mut calibrating.devices[at].is_tried, true) {
            return Ok(());
        }
        let (found, measured) = self.measure(file, len).unzip();
        calibrating.devices[at].found = found;
        calibrating.devices[at].again = Again::after(found.as_ref(), measured).filter(|_| may_be_again());
        let is_due = calibrating.devices[at].again.is_some();
        if at == 0
            && let Some(found) = found
        {
            calibrating.setting = Calibrating::Done(found);
            self.take(found);
        }
        drop(calibrating);
        if found.is_some() {
            self.engine.device_measured(device, self.device_hints(file));
        }
        if is_due {
            self.remeasure.look(&self.me);
        }
        Ok(())
    }

    /// The shortest of the reads says about what an idle disk takes.
    pub(super) fn warn_of_goal(&self, file: &DeviceFile, found: Calibration, least: Duration) {
        let idle = Calibration {
            read_latency: least,
            ..found
        };
        let (goal, idle) = (found.read_latency_goal(), idle.read_latency_goal());
        if is_too_long(goal, idle) {
            let path = file.name().into();
            let notice = Notice::GoalOfBusyDisk { path, goal, idle };
            self.notices.add(notice, file.identity().device);
        }
    }

    /// The known properties of the file's device.
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
        let around = match calibration.read_latency >= AROUND_FROM {
            true => AROUND.to_pages(self.engine.page_size).0,
            false => 0,
        };
        self.engine.around_pages.store(around, Ordering::Relaxed);
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

    fn measure(&self, file: &Arc<DeviceFile>, len: u64) -> Option<(Calibration, Measurement)> {
        let began = Instant::now();
        let mut probes = Probes::default();
        let offsets = (0..READS as u64).map(|n| scatter(n) % (len / 4096) * 4096);
        for offset in offsets.take_while(|_| began.elapsed() < TIME_MAX) {
            if let Some((probe, took)) = self.probe(file, offset) {
                probes.add(probe, took);
            }
        }
        let measured = probes.measurement()?;
        let facts = self.engine.device.facts(file);
        Some((calibration(facts, measured, began.elapsed()), measured))
    }

    /// One read of a page's length, and whether it had the disk to itself; `None` if it failed.
    pub(super) fn probe(&self, file: &Arc<DeviceFile>, offset: u64) -> Option<(Probe, Duration)> {
        let request = Request {
            token: 0,
            op: Op::Read,
            reason: None,
            file: file.clone(),
            offset,
            segments: Segments::of(device::Buffer::new(4096), 0, 4096),
        };
        let before = self.load(file);
        let began = Instant::now();
        let _poisons = self.engine.poison_on_panic("device");
        let read = self.engine.device.transfer(&request);
        let took = began.elapsed();
        read.ok().map(|_| (Probe::of(before, self.load(file)), took))
    }

    /// The load on the file's disk; this cache's only, where the load of others is not reported.
    pub(super) fn load(&self, file: &DeviceFile) -> DeviceLoad {
        let load = self.engine.device.load(file);
        if load != DeviceLoad::OwnOnly {
            return load;
        }
        let figures = self.engine.device.figures();
        let device = file.identity().device;
        let own = figures.iter().find(|own| own.device == device);
        own.map_or(load, |own| DeviceLoad::Disk {
            in_transit: own.reads_in_transit + own.writes_in_transit,
            ended: own.reads + own.writes,
        })
    }
}

/// The conclusion from a measurement.
pub(super) fn calibration(facts: device::DeviceFacts, measured: Measurement, took: Duration) -> Calibration {
    Calibration {
        facts,
        reads: measured.reads as u32,
        read_latency: measured.median,
        read_latency_max: measured.longest,
        took,
    }
}
