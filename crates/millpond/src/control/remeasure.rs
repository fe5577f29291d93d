//! The thread that measures a device again: one read at a time, in moments in which nothing else is asked of the device.
//!
//! ```text
//!   measured beside others, or not at all ──► a look each 100 ms ── idle ──► one read ──► Probes ──► enough: the goal
//!   measured alone, at the longest goal of its class ──► again after a minute, two, four … an hour, if it was used
//!   measured alone otherwise ──► nothing more; admission.read_latency=measure begins again
//! ```
//!
//! A read goes where no other went, anywhere in the files that are open, so that none is from a drive's buffer. A disk that
//! is always busy is read each tenth time all the same: beside others a read takes longer, so what is less than before is
//! nearer the truth. A disk that nobody uses is left to sleep.
//!
//! The thread exists only while a device is to be measured again.

use super::cache::Cache;
use super::calibration::{Calibrating, calibration};
use super::probes::{Measurement, Probe, Probes, READS, scatter};
use crate::device::{Calibration, Device as _, DeviceFile, DeviceLoad};
use crate::sys::threads;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks: 24 reads take 2.4 s, spread wider than what a burst disturbs. Ours.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A minute of looks without enough reads: the disk is busy for longer.
const LOOKS: u32 = 600;
/// Then at this interval.
const LOOK_EVERY_BUSY: Duration = Duration::from_secs(1);
/// After this many readings, half a minute, a warning says that the goal is too long: a state that ends in seconds
/// deserves no line.
const LOOKS_SILENT: u32 = 300;
/// A busy disk is read at one in this many readings.
const READ_ANYWAY: u32 = 10;
/// The first look after a file was opened: what opened it has begun to use it by then.
const FIRST: Duration = Duration::from_secs(1);
/// A goal that is the longest of its class is measured again after this time, then after twice as long, and so on.
const LONGEST_AGAIN: Duration = Duration::from_secs(60);
const LONGEST_AGAIN_MAX: Duration = Duration::from_secs(3600);
/// The number of pages of the open files to choose from for each read.
const PAGES_A_READ: u64 = 2;
/// A goal that differs by less stays: a change makes admission learn anew.
const SAME_PERCENT: u32 = 25;

/// A device that is to be measured again.
#[derive(Debug)]
pub(crate) struct Again {
    probes: Probes,
    /// The number of reads of the device so far, which chooses the location of the next.
    reads: u64,
    looks: u32,
    /// The shortest read since the file was opened.
    least: Option<Duration>,
    not_before: Instant,
    /// The time to the next measurement after an undisturbed one; zero: there was none yet.
    wait: Duration,
    /// The disk's counters at the last measurement.
    ended: Option<u64>,
    /// Whatever is measured next counts.
    is_asked: bool,
}

impl Again {
    /// Asked for: at once.
    pub(super) fn asked() -> Again {
        Again {
            not_before: Instant::now(),
            is_asked: true,
            ..Again::not_yet()
        }
    }

    /// Nothing was measured yet.
    pub(super) fn not_yet() -> Again {
        Again {
            probes: Probes::default(),
            reads: 0,
            looks: 0,
            least: None,
            not_before: Instant::now() + FIRST,
            wait: Duration::ZERO,
            ended: None,
            is_asked: false,
        }
    }

    /// After what was measured when a file was opened.
    pub(super) fn after(found: Option<&Calibration>, measured: Option<Measurement>) -> Option<Again> {
        let Some((found, measured)) = found.zip(measured) else {
            return Some(Again::not_yet());
        };
        let again = Again {
            reads: READS as u64,
            least: Some(measured.least),
            ..Again::not_yet()
        };
        match measured.is_alone {
            true => again.after_alone(found),
            false => Some(again),
        }
    }

    /// After a measurement that was alone.
    fn after_alone(self, found: &Calibration) -> Option<Again> {
        if !found.is_longest_goal() {
            return None;
        }
        let wait = (self.wait * 2).clamp(LONGEST_AGAIN, LONGEST_AGAIN_MAX);
        Some(Again {
            probes: Probes::default(),
            looks: 0,
            not_before: Instant::now() + wait,
            wait,
            is_asked: false,
            ..self
        })
    }

    /// The present goal was not measured undisturbed.
    pub(super) fn is_beside(&self) -> bool {
        self.wait == Duration::ZERO
    }

    fn look_every(&self) -> Duration {
        match self.looks < LOOKS {
            true => LOOK_EVERY,
            false => LOOK_EVERY_BUSY,
        }
    }
}

/// The thread, if there is one.
#[derive(Default)]
pub(crate) struct Remeasure {
    sign: Arc<(Mutex<Sign>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Sign {
    stop: bool,
    look: bool,
}

impl Remeasure {
    /// Has the thread look for what is due; it is started if there is none. Where the system gives none, nothing is measured
    /// again.
    pub(super) fn look(&self, cache: &Weak<Cache>) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (cache, sign) = (cache.clone(), self.sign.clone());
            *thread = threads::spawn("millpond-goal", move || run(&cache, &sign)).ok();
        }
        self.sign.0.lock().look = true;
        self.sign.1.notify_one();
    }

    /// Ends it. A read that never ends is left to itself.
    pub(crate) fn stop(&self) {
        self.sign.0.lock().stop = true;
        self.sign.1.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            threads::join_unless_lost(thread, true);
        }
    }
}

fn run(cache: &Weak<Cache>, (sign, signed): &(Mutex<Sign>, Condvar)) {
    loop {
        let Some(inner) = cache.upgrade() else { return };
        let next = {
            let _poisons = inner.engine.poison_on_panic("thread that measures devices again");
            inner.measure_again()
        };
        drop(inner);
        let mut sign = sign.lock();
        let waits = |sign: &mut Sign| !sign.stop && !sign.look;
        match next {
            Some(next) => {
                signed.wait_while_for(&mut sign, waits, next);
            }
            None => signed.wait_while(&mut sign, waits),
        }
        if sign.stop {
            return;
        }
        sign.look = false;
    }
}

/// The next read.
struct Next {
    files: Vec<Arc<DeviceFile>>,
    device: u64,
    epoch: u64,
    reads: u64,
    looks: u32,
    /// The disk's counters at the last measurement.
    ended: Option<u64>,
}

impl Cache {
    /// One look at the device that is due, and a read of it where it is idle. When to call again; `None`: when something is due.
    fn measure_again(&self) -> Option<Duration> {
        if self.engine.call_flags.is_poisoned() {
            return None;
        }
        let next = match self.next_read() {
            Ok(next) => next,
            Err(later) => return later,
        };
        let lengths: Vec<u64> = next
            .files
            .iter()
            .map(|file| file.len().unwrap_or(0) / 4096)
            .collect();
        let pages: u64 = lengths.iter().sum();
        // Those that were read already might be in a buffer.
        if (next.reads + 1) * PAGES_A_READ > pages {
            return self.put_off(&next, LONGEST_AGAIN);
        }
        let load = self.load(next.files.first()?);
        if let (DeviceLoad::Disk { ended, .. }, Some(before)) = (load, next.ended)
            && ended == before
        {
            return self.put_off(&next, LONGEST_AGAIN);
        }
        let is_busy = matches!(load, DeviceLoad::Disk { in_transit: 1.., .. });
        let mut read = None;
        if !is_busy || next.looks % READ_ANYWAY == READ_ANYWAY - 1 {
            let mut page = scatter(next.reads) % pages;
            let mut at = 0;
            while page >= lengths[at] {
                page -= lengths[at];
                at += 1;
            }
            read = Some((at, self.probe(&next.files[at], page * 4096)));
        }
        let mut calibrating = self.calibrating.lock();
        if calibrating.epoch != next.epoch {
            return Some(Duration::ZERO);
        }
        let known = &mut calibrating.devices;
        let at = known.iter().position(|known| known.device == next.device)?;
        let again = known[at].again.as_mut()?;
        again.looks += 1;
        again.ended = None;
        let later = Some(again.look_every());
        let file = read.map_or(0, |(file, _)| file);
        if let Some((_, probed)) = read {
            again.reads += 1;
            if let Some((probe, took)) = probed {
                again.probes.add(probe, took);
                let shorter = again.least.is_none_or(|least| took < least);
                if probe != Probe::NoRead && shorter {
                    again.least = Some(took);
                }
            }
        }
        let (is_done, least) = (again.probes.is_done(), again.least);
        let is_long = again.looks == LOOKS_SILENT && again.is_beside();
        let found = known[at].found.filter(|_| is_long);
        drop(calibrating);
        if let Some((found, least)) = found.zip(least) {
            self.warn_of_goal(&next.files[file], found, least);
        }
        if !is_done {
            return later;
        }
        self.conclude(&next, &next.files[file]);
        Some(Duration::ZERO)
    }

    /// The device and files to measure; or when to check again.
    fn next_read(&self) -> Result<Next, Option<Duration>> {
        let calibrating = self.calibrating.lock();
        let now = Instant::now();
        let due = |known: &&super::calibration::Measured| known.again.is_some();
        let not_before = |again: &Option<Again>| again.as_ref().map(|again| again.not_before);
        let first = calibrating
            .devices
            .iter()
            .filter(due)
            .min_by_key(|known| not_before(&known.again));
        let Some((known, again)) = first.and_then(|known| Some((known, known.again.as_ref()?))) else {
            return Err(None);
        };
        if again.not_before > now {
            return Err(Some(again.not_before - now));
        }
        let files = calibrating.files.iter().filter_map(Weak::upgrade);
        Ok(Next {
            files: files
                .filter(|file| file.identity().device == known.device)
                .collect(),
            device: known.device,
            epoch: calibrating.epoch,
            reads: again.reads,
            looks: again.looks,
            ended: again.ended,
        })
    }

    /// Nothing can be read now.
    fn put_off(&self, next: &Next, span: Duration) -> Option<Duration> {
        let mut calibrating = self.calibrating.lock();
        let known = &mut calibrating.devices;
        let known = known.iter_mut().find(|known| known.device == next.device);
        if let Some(again) = known.and_then(|known| known.again.as_mut()) {
            again.not_before = Instant::now() + span;
        }
        // Another may be due.
        Some(Duration::ZERO)
    }

    /// There are enough reads: what follows from them.
    fn conclude(&self, next: &Next, file: &Arc<DeviceFile>) {
        let facts = self.engine.device.facts(file);
        let load = self.load(file);
        let mut calibrating = self.calibrating.lock();
        if calibrating.epoch != next.epoch {
            return;
        }
        let known = &mut calibrating.devices;
        let Some(at) = known.iter().position(|known| known.device == next.device) else {
            return;
        };
        let Some(mut again) = known[at].again.take() else {
            return;
        };
        let Some(measured) = std::mem::take(&mut again.probes).measurement() else {
            known[at].again = Some(again);
            return;
        };
        let new = calibration(facts, measured, Duration::ZERO);
        let is_news = known[at].found.is_none_or(|old| {
            let (old, new) = (old.read_latency_goal(), new.read_latency_goal());
            let apart = old.abs_diff(new) * 100 > old * SAME_PERCENT;
            apart && (measured.is_alone || again.is_asked || new < old)
        });
        again.is_asked = false;
        if let DeviceLoad::Disk { ended, .. } = load {
            again.ended = Some(ended).filter(|_| measured.is_alone);
        }
        let found = if is_news {
            new
        } else {
            known[at].found.unwrap_or(new)
        };
        known[at].found = Some(found);
        known[at].is_tried = true;
        known[at].again = match measured.is_alone {
            true => again.after_alone(&found),
            false => Some(again),
        };
        if at == 0 && is_news {
            calibrating.setting = Calibrating::Done(found);
            self.take(found);
        }
        drop(calibrating);
        if is_news {
            let hints = self.device_hints(file);
            self.engine.device_measured(next.device, hints);
        }
    }
}
