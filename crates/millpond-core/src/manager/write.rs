//! Dirty pages: their dirtiers, the callers that wait for them, and their way to the device.

use super::step::StepContext;
use super::{Manager, TICK_WHEN_BUSY};
use crate::admission::{Form, Verdict};
use crate::dirty::DirtierId;
use crate::dirty::limits::refuses;
use crate::dirty::queue::{Ask, Headroom};
use crate::dirty::throttle::{Throttle, decide, quanta, resume_at};
use crate::event::{Effect, PauseReason, Waiters};
use crate::frame::{BeginWrite, FrameTable};
use crate::io::{Io, IoError, IoId, Reason};
use crate::mutation::{self, Mutation};
use crate::page::{PageEvent, Phase};
use crate::units::{DeviceNo, FileId, FrameNo, Instant, Nanos, PageCount, PageIndex, PageKey};
use crate::writeback::flusher::Job;
use crate::writeback::{PageRun, cluster};

/// No dirtier sleeps longer at a stretch: Linux's `MAX_PAUSE`.
const PAUSE_MAX: Nanos = Nanos::from_millis(200);

/// A dirtier that is to pause had the pages in its hands that should have been written: it asks once more as soon as it
/// has let go of them. Under a low limit all that is dirty may be in its hands, and nothing else would be written while it
/// sleeps.
pub(super) fn ask_at_once(cx: &mut StepContext<'_>) {
    for effect in &mut cx.effects.list {
        if let Effect::Pause { at_most, .. } = effect {
            *at_most = Nanos::ZERO;
        }
    }
}

impl<A: Form> Manager<A> {
    pub(super) fn dirtied(
        &mut self,
        file: FileId,
        first: PageIndex,
        dirtied: &[FrameNo],
        dirtier: DirtierId,
        cx: &mut StepContext<'_>,
    ) {
        for &frame in dirtied {
            self.pool.transition(frame, PageEvent::Changed);
        }
        let count = dirtied.len() as u64;
        self.stats.nr_dirtied += count;
        if mutation::is(Mutation::ForgetRedirtied) && self.phase(dirtied[0]) == Phase::Redirtied {
            return;
        }
        let device = self.files.of(file).device;
        let write_max = self.write_pages_max(device);
        self.flusher.dirtied(cx.now, file, first, count, write_max);
        self.dirtiers.dirtied(dirtier, count);
        self.blocked.dirtied(cx.now, dirtier, count);
        // Others before it asks itself: who is told to pause and woken in one step sleeps on.
        self.wake_blocked(cx);
        self.throttle(dirtier, cx);
    }

    /// Tells the dirtier to pause if too much is dirty.
    pub(super) fn throttle(&mut self, dirtier: DirtierId, cx: &mut StepContext<'_>) {
        let unclean = self.unclean();
        let limits = self.derived.dirty.beside(self.flusher.failed());
        let decision = if mutation::is(Mutation::ThrottleForever) && self.stats.balance_dirty_pauses > 0 {
            Throttle::Until(PageCount(0))
        } else {
            decide(unclean, &limits, self.dirtiers.share(dirtier))
        };
        let share = self.dirtiers.share(dirtier);
        let until = match decision {
            Throttle::Until(until) => until,
            Throttle::Run => resume_at(&limits, share),
        };
        let is_free = unclean <= limits.free_run;
        let waited = self.blocked.waits(dirtier);
        let ask = Ask {
            own: decision,
            share,
            until,
            is_free,
            is_still: self.writing == PageCount(0),
            now: cx.now,
        };
        match self.blocked.ask(dirtier, &ask) {
            Throttle::Run => {}
            Throttle::Until(until) => {
                self.stats.balance_dirty_pauses += u64::from(!waited);
                let reason = PauseReason {
                    unclean,
                    until,
                    in_transit: self.devices.busiest().admission.in_transit().writes(),
                };
                cx.effects.list.push(Effect::Pause {
                    reason,
                    at_most: PAUSE_MAX,
                });
            }
        }
    }

    /// Issues writes for as long as there is something to write and the admission lets it through.
    pub(super) fn pump<F: FrameTable>(&mut self, frames: &mut F, cx: &mut StepContext<'_>) {
        self.look_again = None;
        let wait = !self.blocked.is_empty();
        for device in self.devices.iter_mut() {
            device.admission.set_dirtiers_waiting(cx.now, wait);
        }
        // What a write that has ended made room for was waited for until now: the dirtier is woken in the same step.
        let blocked = wait || cx.woke_dirtier;
        let mut is_held_back = false;
        for device in (0..self.devices.len() as u32).map(DeviceNo) {
            is_held_back |= self.pump_device(device, blocked, frames, cx);
        }
        if is_held_back {
            return;
        }
        let is_blocked = self.flusher.pass_needs_tick();
        self.waits.sync_blocked(cx.now, is_blocked, &mut self.stats);
        if is_blocked {
            self.look_again = Some(cx.now + TICK_WHEN_BUSY);
        }
    }

    /// The same for one device. Whether its admission holds the next write back.
    fn pump_device<F: FrameTable>(
        &mut self,
        device: DeviceNo,
        blocked: bool,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) -> bool {
        let write_max = self.write_pages_max(device);
        loop {
            let limits = self.derived.dirty.beside(self.flusher.failed());
            let untried = self.flusher.dirty().saturating_sub(self.flusher.in_backoff());
            // A dirtier waits for writes: so many are on their way that the device is not idle before it has come back.
            let busy = self.busy_pages(device).0.min(limits.hard.0 * 3 / 4);
            let wanted = blocked && self.writing.0 < busy;
            let over = self.memory_waiters || wanted || untried > limits.background;
            let Some(mut job) = self.flusher.job(device, cx.now, over, blocked, write_max) else {
                break;
            };
            if self.memory_waiters && job.reason != Reason::Sync {
                // A caller that waits for a frame waits for this: it is reclaim that wants it.
                job.reason = Reason::Reclaim;
            }
            let admission = &mut self.devices.of(device).admission;
            let holds_back = !job.small_fsync || admission.holds_small_fsyncs_back();
            let write_max = admission.write_bytes(cx.now).to_pages(self.options.page_size).0;
            let write_max = match job.reason {
                Reason::Sync => write_max,
                _ => write_max.min(limits.hard.0 / 4),
            };
            let contiguous = self.flusher.contiguous(&job, write_max.max(1));
            let count = cluster::length(job.first, contiguous, write_max);
            let bytes = PageCount(count).to_bytes(self.options.page_size);
            let admission = &mut self.devices.of(device).admission;
            if holds_back && let Verdict::Wait(until) = admission.admit(cx.now, job.reason, bytes) {
                self.look_again = self.look_again.into_iter().chain(until).min();
                self.held_back(device, cx.now, Some(job.reason));
                return true;
            }
            self.write(&job, count, frames, cx);
        }
        self.held_back(device, cx.now, None);
        false
    }

    fn held_back(&mut self, device: DeviceNo, now: Instant, reason: Option<Reason>) {
        let ended = self.devices.of(device).held_back.set(now, reason);
        if let Some((reason, waited)) = ended {
            self.stats.admission_waited(reason, waited);
        }
    }

    /// Issues one write of up to `count` pages, as many as can be written without a gap.
    fn write<F: FrameTable>(&mut self, job: &Job, count: u64, frames: &mut F, cx: &mut StepContext<'_>) {
        let mut cluster = self.ios.frame_list();
        let (mut log_blocked, mut busy) = (None, 1);
        for n in 0..count {
            let key = PageKey::new(job.file, job.first.after(n));
            let frame = frames
                .lookup(key)
                .unwrap_or_else(|| panic!("{key:?} is dirty but not in memory"));
            if self.pool[frame].phase() != Phase::Dirty {
                break;
            }
            match frames.begin_write(frame) {
                BeginWrite::Begun => {}
                // The second is said of regions only, which are not written here.
                BeginWrite::Busy | BeginWrite::Useless => break,
                BeginWrite::BusyRun(pages) => {
                    busy = pages;
                    break;
                }
                BeginWrite::LogBlocked => {
                    log_blocked = Some(key.index());
                    break;
                }
            }
            self.pool.transition(frame, PageEvent::WriteStarted);
            cluster.push(frame);
        }
        if let Some(page) = log_blocked {
            self.flusher.block_on_log(job.file, page);
            self.tell_syncs(job.file, cx);
        }
        if cluster.is_empty() {
            self.ios.recycle(cluster);
            if log_blocked.is_none() {
                (cx.met_busy, self.busy_file) = (true, Some(job.file));
                self.flusher.passed_over(job, busy);
            }
            return;
        }
        let pages = PageCount(cluster.len() as u64);
        let (reason, file, first) = (job.reason, job.file, job.first);
        let device = self.files.of(file).device;
        let transfer = Io {
            reason,
            device,
            file,
            first,
            frames: cluster,
            issued_at: cx.now,
            small_fsync: job.small_fsync,
            awaited: None,
        };
        let (io, frames) = self.issue(transfer, cx);
        let bytes = pages.to_bytes(self.options.page_size);
        let state = self.devices.of(device);
        if state.stream_end != Some((file, first)) {
            state.admission.stream_begun(bytes);
        }
        state.stream_end = Some((file, first.after(pages.0)));
        self.flusher.issued(job, io, pages.0);
        self.writing += pages;
        self.held_back(device, cx.now, None);
        cx.effects.list.push(Effect::Write {
            io,
            reason,
            file,
            first,
            frames,
        });
    }

    pub(super) fn write_done(
        &mut self,
        id: IoId,
        result: Result<(), IoError>,
        frames: &impl FrameTable,
        cx: &mut StepContext<'_>,
    ) {
        let io = self.ios.end(id);
        if io.reason == Reason::Swap {
            return self.swap_done(io, result, frames, cx);
        }
        let pages = PageCount(io.frames.len() as u64);
        self.stats.io_ended(io.reason, cx.now.since(io.issued_at));
        let bytes = pages.to_bytes(self.options.page_size);
        let admission = &mut self.devices.of(io.device).admission;
        admission.completed(cx.now, io.reason, bytes, io.issued_at);
        if io.small_fsync {
            admission.wait_ended(cx.now, io.reason, io.issued_at);
        }
        self.writing -= pages;
        let result = if mutation::is(Mutation::DropDirtyPage) {
            Ok(())
        } else {
            result
        };
        let run = PageRun {
            first: io.first,
            count: pages.0,
        };
        self.flusher.write_done(cx.now, io.file, id, run, result);
        for &frame in &io.frames {
            if result.is_err() {
                self.stats.nr_write_failed += 1;
                self.pool.transition(frame, PageEvent::WriteFailed);
                continue;
            }
            self.stats.nr_written += 1;
            let phase = self.pool.transition(frame, PageEvent::Written);
            let state = &mut self.pool[frame];
            state.laps = 0;
            if core::mem::take(&mut state.free_on_clean) && phase == Phase::Clean {
                self.lru.rotate_to_cold(frame);
            }
        }
        self.tell_syncs(io.file, cx);
        self.ios.recycle(io.frames);
        self.wake_blocked(cx);
        self.wake_memory(cx);
        self.wake_reclaimer(cx);
    }

    /// Answers the requests for durability that have ended, and those that wait for nothing but log-blocked pages.
    pub(super) fn tell_syncs(&mut self, file: FileId, cx: &mut StepContext<'_>) {
        self.flusher.ended(file, |e| {
            cx.effects.list.push(Effect::Synced {
                ticket: e.ticket,
                result: e.result,
                small_fsync: e.small_fsync,
            })
        });
        let blocked = self.flusher.newly_log_blocked(file).iter();
        let blocked = blocked.map(|&ticket| Effect::SyncLogBlocked { ticket });
        cx.effects.list.extend(blocked);
    }

    /// Wakes the dirtiers if one of them may go on. Who may is not waiting any more, whether it comes back or not.
    pub(super) fn wake_blocked(&mut self, cx: &mut StepContext<'_>) {
        let limits = self.derived.dirty.beside(self.flusher.failed());
        let unclean = self.unclean();
        // As many bursts as there is headroom for now.
        let fit = limits.hard.saturating_sub(unclean).0 / limits.burst.0.max(1);
        let headroom = Headroom {
            unclean,
            // Where more is dirty, and a dirtier waits, there are writes that end.
            wake_all_at: limits.background.min(PageCount(limits.hard.0 / 4)),
            burst: limits.burst,
            quanta: quanta(&limits).max(fit as usize),
            now: cx.now,
        };
        if self.blocked.wake(&headroom) {
            cx.woke_dirtier = true;
            cx.effects.list.push(Effect::Wake(Waiters::Dirtiers));
        }
    }

    /// What the device said of the file's last write, if the file takes no more because of that: too many of its pages
    /// could not be written. Ask before each change of its pages.
    pub fn refuses(&self, file: FileId) -> Option<IoError> {
        let (own, error) = self.flusher.failing(file)?;
        refuses(&self.derived.dirty, own, self.flusher.failed()).then_some(error)
    }

    /// How many more pages of the file may become dirty beside those that can't be written; `None` if there are none such,
    /// and nothing but the limits says how many. Ask before each change of its pages.
    pub fn left(&self, file: FileId) -> Option<PageCount> {
        let failed = self.flusher.failed();
        let is_sound = self.flusher.failing(file).is_none();
        (failed > PageCount(0)).then(|| self.derived.dirty.left(failed, self.unclean(), is_sound))
    }

    /// Pages of the file that are dirty or in transit: at most so many are not on the device.
    pub fn unwritten(&self, file: FileId) -> PageCount {
        self.flusher.unwritten(file)
    }

    /// How many pages of the file can't be written, and what the device said last; `None` if none is known.
    pub fn failing(&self, file: FileId) -> Option<(PageCount, IoError)> {
        self.flusher.failing(file)
    }

    /// Whether the page is one that can't be written.
    pub fn has_failed(&self, file: FileId, page: PageIndex) -> bool {
        self.flusher.has_failed(file, page)
    }

    /// The pages of the file that can't be written: those that are not tried at the moment, in order, then the others.
    pub fn failed_pages(&self, file: FileId) -> impl Iterator<Item = PageIndex> {
        self.flusher.failed_pages(file)
    }

    pub(super) fn discarded(
        &mut self,
        file: FileId,
        pages: &[(PageIndex, FrameNo)],
        cx: &mut StepContext<'_>,
    ) {
        if self.files.is_region(file) {
            self.discarded_of_region(file, pages, cx);
            return self.wake_all(cx);
        }
        self.files.of(file).reuse.discarded(pages.len() as u64);
        for &(page, frame) in pages {
            self.flusher.discarded(file, page);
            self.pool.transition(frame, PageEvent::Discarded);
            self.lru.remove(frame);
            self.release(frame, cx);
        }
        if mutation::is(Mutation::SyncNotEndedByCut) {
            return self.wake_all(cx);
        }
        self.tell_syncs(file, cx);
        self.wake_all(cx);
    }
}
