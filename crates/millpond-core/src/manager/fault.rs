//! Faults: frames for pages that are not in memory, and what is read with them.

use super::Manager;
use super::step::StepContext;
use crate::admission::Form;
use crate::event::{Effect, Intent};
use crate::frame::FrameTable;
use crate::io::{Io, IoError, IoId, Reason};
use crate::lru::PutBack;
use crate::memory::free::Purpose;
use crate::memory::reserve::{AllocationClass, may_take};
use crate::page::PageEvent;
use crate::readahead::Window;
use crate::reclaim::stall;
use crate::units::{FileId, FrameNo, Nanos, PageCount, PageIndex, PageKey};

/// A background task reads at most one in so many pages of memory ahead. Its pages may take a 16th of memory
/// (`lru::millpond::no_reuse`), so those of 16 files that it reads side by side stay until it comes to them.
const BACKGROUND_WINDOW_SHARE: u64 = 256;

/// Pages whose shadows are fetched at a time: two cache lines each.
const FETCH_PAGES: u64 = 32;

/// A page that wants a frame.
pub(super) struct Want {
    pub(super) key: PageKey,
    pub(super) class: AllocationClass,
    /// It is used, and not only read ahead.
    pub(super) first_use: bool,
    /// Pages behind it are wanted as well.
    pub(super) is_run: bool,
    /// It is read because a caller wants it, from what may be a no-reuse file.
    pub(super) may_be_no_reuse: bool,
    /// It is read for a background task.
    pub(super) is_background: bool,
    /// It is of a region, and was never touched before.
    pub(super) is_new_memory: bool,
}

impl<A: Form> Manager<A> {
    /// Grants frames for a prefix of the missing pages. Whether there may be something to write now.
    pub(super) fn fault<F: FrameTable>(
        &mut self,
        file: FileId,
        first: PageIndex,
        count: u32,
        intent: Intent,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) -> bool {
        debug_assert!(count > 0);
        if self.files.is_region(file) {
            return self.fault_region(file, first, count, intent, frames, cx);
        }
        let count = match intent {
            Intent::Overwrite => count,
            Intent::Read | Intent::Prefetch | Intent::Background => {
                let device = self.files.of(file).device;
                let max = self.read_pages_max(device, first).unwrap_or(u64::MAX);
                max.min(count.into()) as u32
            }
        };
        let mut granted = self.ios.frame_list();
        if count > 1 {
            let keys = (0..u64::from(count)).map(|n| PageKey::new(file, first.after(n)));
            self.lru.fetch(keys);
        }
        for n in 0..u64::from(count) {
            let key = PageKey::new(file, first.after(n));
            debug_assert_eq!(frames.lookup(key), None, "{key:?} is in memory");
            let want = Want {
                key,
                class: AllocationClass::Ordinary,
                first_use: intent != Intent::Prefetch,
                is_run: count > 1,
                may_be_no_reuse: intent == Intent::Read,
                is_background: intent == Intent::Background,
                is_new_memory: false,
            };
            let Some(frame) = self.grant(want, frames, cx) else {
                break;
            };
            granted.push(frame);
        }
        if granted.is_empty() {
            self.ios.recycle(granted);
            if matches!(intent, Intent::Prefetch | Intent::Background) {
                self.stats.readahead_dropped_pages += u64::from(count);
                return false;
            }
            self.wait_for_memory(cx);
            return true;
        }
        let got = granted.len() as u64;
        match intent {
            Intent::Overwrite => {
                let range = cx.effects.add_frames(granted.iter().copied());
                for &frame in &granted {
                    self.filled(frame);
                }
                self.ios.recycle(granted);
                cx.effects.list.push(Effect::Grant {
                    file,
                    first,
                    frames: range,
                });
            }
            Intent::Read => {
                self.stats.pgmajfault += got;
                self.start_read(Reason::Fault, file, first, granted, cx);
                let (options, page_size) = (self.readahead_of(file), self.options.page_size);
                // So many that reclaim has not made them: the pool is not full yet.
                let is_free = self.pool.free.len().0 >= self.derived.frames.0 / 4;
                let state = self.files.of(file);
                if let Some(window) =
                    state
                        .readahead
                        .missed(first, got, state.pages, &options, page_size, is_free)
                {
                    self.read_ahead(file, window, false, frames, cx);
                }
            }
            Intent::Background => {
                self.stats.readahead_pages += got;
                self.start_read(Reason::ReadAhead, file, first, granted, cx);
                let (options, page_size) = (self.readahead_of(file), self.options.page_size);
                let max = (self.derived.frames.0 / BACKGROUND_WINDOW_SHARE).max(1);
                let state = self.files.of(file);
                let window = (state.readahead).missed(first, got, state.pages, &options, page_size, false);
                if let Some(mut window) = window {
                    window.count = window.count.min(PageCount(max));
                    self.read_ahead(file, window, true, frames, cx);
                }
            }
            Intent::Prefetch => {
                self.stats.readahead_pages += got;
                self.start_read(Reason::ReadAhead, file, first, granted, cx);
            }
        }
        false
    }

    /// Whether `count` pages around one that is missing may be read with it: their frames are free, and reclaim need not come
    /// for them, or finds pages of no-reuse files for it. Never of a file whose user has said that he reads anywhere.
    pub fn may_read_around(&self, file: FileId, count: PageCount) -> bool {
        let marks = &self.derived.watermarks;
        let left = if self.lru.is_sorting_out_no_reuse() {
            marks.low
        } else {
            marks.high
        };
        let is_free = self.pool.free.len() >= left + count;
        let state = self.files.get(file);
        is_free && state.is_some_and(|state| !state.readahead.is_off(&self.options.readahead))
    }

    /// A frame for the page, entered into the lists, or `None` if none can be had without waiting.
    pub(super) fn grant<F: FrameTable>(
        &mut self,
        want: Want,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) -> Option<FrameNo> {
        let Want {
            key,
            class,
            first_use,
            is_run,
            may_be_no_reuse,
            is_background,
            is_new_memory,
        } = want;
        // The distance is taken before room is made, else making room adds to it.
        let refault = match self.pending_refault.take_if(|(pending, _)| *pending == key) {
            Some((_, refault)) => refault,
            None if is_background => self.lru.no_refault(key),
            None => {
                let refault = self.lru.refault(key);
                if let Some(distance) = refault.distance() {
                    let (files, frames) = (&mut self.files, self.derived.frames);
                    self.reuse.refaulted(files, key.file(), distance, frames, cx.now);
                }
                refault
            }
        };
        let purpose = match self.files.of(key.file()).last_grant {
            Some((page, frame)) if page.after(1) == key.index() => Purpose::Behind(frame),
            _ if is_run => Purpose::Run,
            _ => Purpose::Single,
        };
        let Some(frame) = self.allocate(class, purpose, frames, cx) else {
            self.pending_refault = Some((key, refault));
            return None;
        };
        if refault.is_recent() && self.files.is_region(key.file()) {
            self.reclaimer.boost.refaulted()
        } else {
            self.note_late_reclaimer(cx)
        }
        self.files.of(key.file()).last_grant = Some((key.index(), frame));
        self.stats.pgalloc += 1;
        self.pool.granted(frame);
        self.reuse.came(frame, cx.now);
        let refault = if is_new_memory {
            refault.of_new_memory()
        } else {
            refault
        };
        if is_background {
            self.lru.insert_background(frame, key, frames)
        } else if may_be_no_reuse && !refault.is_recent() && self.lru.detect_no_reuse(key.file()) {
            self.lru.insert_no_reuse(frame, key, frames)
        } else {
            self.lru.insert(frame, key, refault, first_use, frames)
        }
        Some(frame)
    }

    fn allocate<F: FrameTable>(
        &mut self,
        class: AllocationClass,
        purpose: Purpose,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) -> Option<FrameNo> {
        let (min, reserve) = (self.derived.watermarks.min, self.derived.reserve);
        if self.pool.free.len() <= min && class == AllocationClass::Ordinary && self.may_reclaim(cx) {
            self.direct_reclaim(frames, cx);
        }
        if !may_take(class, self.pool.free.len(), min, reserve) {
            return None;
        }
        let frame = self.pool.free.take(purpose)?;
        self.wake_reclaimer(cx);
        Some(frame)
    }

    pub(super) fn wait_for_memory(&mut self, cx: &mut StepContext<'_>) {
        let (reason, at_most) = stall::wait(self.unclean().0 + self.swap.writing().0);
        match reason {
            stall::WaitReason::Writeback => self.stats.nr_vmscan_throttled_writeback += 1,
            stall::WaitReason::NoProgress => self.stats.nr_vmscan_throttled_noprogress += 1,
        }
        self.memory_waiters = true;
        cx.effects.list.push(Effect::Wait { reason, at_most });
    }

    /// The page's content is there. If a scan met it before that, it has been off the lists since.
    pub(super) fn filled(&mut self, frame: FrameNo) {
        self.pool.transition(frame, PageEvent::Filled);
        if self.lru.list_of(frame).is_none() {
            self.lru.put_back(frame, PutBack::WarmInactive);
        }
    }

    fn start_read(
        &mut self,
        reason: Reason,
        file: FileId,
        first: PageIndex,
        granted: alloc::vec::Vec<FrameNo>,
        cx: &mut StepContext<'_>,
    ) {
        self.stats.page_misses += granted.len() as u64;
        let pages = granted.len() as u64;
        self.reuse.missed(&mut self.files, file, pages);
        let transfer = Io {
            reason,
            device: self.files.of(file).device,
            file,
            first,
            frames: granted,
            issued_at: cx.now,
            small_fsync: false,
            awaited: None,
        };
        let (io, frames) = self.issue(transfer, cx);
        cx.effects.list.push(Effect::Read {
            io,
            reason,
            file,
            first,
            frames,
        });
    }

    /// Reads the window's pages that are missing, in runs of at most a large write's size. Those of a background task are
    /// all that is read until it misses the next. If the device has large windows of its own, room is made for them: what is
    /// left out is a request more and a wait, and the reader is not known to go on.
    fn read_ahead<F: FrameTable>(
        &mut self,
        file: FileId,
        window: Window,
        is_background: bool,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) {
        let device = self.files.of(file).device;
        let write_max = self.options.flusher.write_max.to_pages(self.options.page_size).0;
        let hints = self.devices.of(device).admission.hints();
        if hints.readahead_max.is_some() && !is_background {
            self.reclaim_for_readahead(window.count, frames, cx);
        }
        let mut run = self.ios.frame_list();
        let (mut run_first, mut run_max) = (window.first, usize::MAX);
        for n in 0..window.count.0 {
            if n.is_multiple_of(FETCH_PAGES) {
                let ahead = n..window.count.0.min(n + FETCH_PAGES);
                self.lru
                    .fetch(ahead.map(|n| PageKey::new(file, window.first.after(n))));
            }
            let page = window.first.after(n);
            let key = PageKey::new(file, page);
            let frame = if frames.lookup(key).is_some() {
                None
            } else {
                let frame = self.grant(
                    Want {
                        key,
                        class: AllocationClass::ReadAhead,
                        first_use: false,
                        is_run: window.count.0 > 1,
                        may_be_no_reuse: false,
                        is_background,
                        is_new_memory: false,
                    },
                    frames,
                    cx,
                );
                if frame.is_none() {
                    // A reader that needs the page will fault it in; what is left of the window is dropped.
                    self.stats.readahead_dropped_pages += window.count.0 - n;
                    self.pending_refault = None;
                }
                frame
            };
            if let Some(frame) = frame {
                if run.is_empty() {
                    run_first = page;
                    let own = self.read_pages_max(device, page);
                    run_max = own.unwrap_or(write_max).max(1) as usize;
                }
                run.push(frame);
                self.stats.readahead_pages += 1;
            }
            if (frame.is_none() && !run.is_empty()) || run.len() == run_max {
                let full = core::mem::replace(&mut run, self.ios.frame_list());
                self.start_read(Reason::ReadAhead, file, run_first, full, cx);
            }
            if self.pool.free.len() <= self.derived.reserve {
                break;
            }
        }
        if run.is_empty() {
            self.ios.recycle(run);
        } else {
            self.start_read(Reason::ReadAhead, file, run_first, run, cx);
        }
        if !is_background {
            cx.effects.list.push(Effect::MarkReadAhead {
                file,
                at: window.mark,
            });
        }
    }

    pub(super) fn readahead_due<F: FrameTable>(
        &mut self,
        file: FileId,
        at: PageIndex,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) {
        if self.files.is_region(file) {
            return self.swap_due(file, at, frames, cx);
        }
        let (options, page_size) = (self.readahead_of(file), self.options.page_size);
        let state = self.files.of(file);
        if let Some(window) = state.readahead.due(at, state.pages, &options, page_size) {
            self.read_ahead(file, window, false, frames, cx);
        }
    }

    /// Whether a caller waits for a transfer of the device that holds `file`: a background task then leaves the device to
    /// it.
    pub fn is_device_awaited(&self, file: FileId) -> bool {
        let state = self.files.get(file);
        state.is_some_and(|state| {
            let device = self.devices.get(state.device);
            device.admission.in_transit().transfers_wait()
        })
    }

    /// A reader waits for the page, which is being read.
    pub(super) fn awaited(&mut self, file: FileId, page: PageIndex, cx: &StepContext<'_>) {
        let io = self.ios.read_ahead_of(file, page);
        if let Some(io) = io.filter(|io| io.awaited.is_none()) {
            io.awaited = Some(cx.now);
            let device = io.device;
            self.devices.of(device).admission.wait_begun(cx.now);
        }
    }

    /// What a caller has waited for a read tells the lists what a page of its kind costs.
    fn read_took(&mut self, file: FileId, took: Nanos) {
        let kind = self.files.kind(file);
        self.lru.read_took(kind, took);
    }

    pub(super) fn read_done(&mut self, io: IoId, result: Result<(), IoError>, cx: &mut StepContext<'_>) {
        let io = self.ios.end(io);
        let bytes = PageCount(io.frames.len() as u64).to_bytes(self.options.page_size);
        let took = cx.now.since(io.issued_at);
        self.stats.io_ended(io.reason, took);
        let device = self.devices.of(io.device);
        (device.admission).completed(cx.now, io.reason, bytes, io.issued_at);
        if io.reason == Reason::Fault {
            device.reads.add(cx.now, took);
            self.read_took(io.file, took);
            if result.is_err() {
                self.swap_in_failed(io.file, io.first);
            }
        }
        if let Some(since) = io.awaited {
            let device = self.devices.of(io.device);
            device.reads.add(cx.now, cx.now.since(since));
            device.admission.wait_ended(cx.now, io.reason, since);
            self.read_took(io.file, cx.now.since(since));
        }
        for &frame in &io.frames {
            if result.is_ok() {
                self.filled(frame);
            } else {
                self.pool.transition(frame, PageEvent::ReadFailed);
                self.lru.remove(frame);
                self.release(frame, cx);
            }
        }
        self.wake_memory(cx);
        self.ios.recycle(io.frames);
    }
}
