//! The policy as one state machine: the only place where modules must agree.
//!
//! A driver reports each [`Event`](crate::event::Event) with its time, and lends its frames
//! ([`FrameTable`](crate::frame::FrameTable)). The manager answers with [`Effects`](crate::event::Effects). The same
//! events, times and frame answers give the same effects. One step takes well under a microsecond for a single page,
//! and allocates nothing once the lists have reached their size.
//!
//! ```
//! use millpond_core::{event::*, io::Reason, manager::Manager, options::Options, units::*};
//! # use millpond_core::frame::{BeginWrite, FrameTable};
//! # struct Frames;
//! # impl FrameTable for Frames {
//! #     fn key(&self, _: FrameNo) -> PageKey { PageKey::NONE }
//! #     fn lookup(&self, _: PageKey) -> Option<FrameNo> { None }
//! #     fn test_and_clear_accessed(&mut self, _: FrameNo) -> u8 { 0 }
//! #     fn evict(&mut self, _: &mut Vec<FrameNo>) {}
//! #     fn begin_write(&mut self, _: FrameNo) -> BeginWrite { BeginWrite::Begun }
//! # }
//! # let mut frames = Frames;
//! let mut manager = Manager::new(Options::default(), PageCount(1024)).unwrap();
//! let mut effects = Effects::default();
//! let (now, file) = (Instant(0), FileId(0));
//! manager.step(now, Event::Opened { file, pages: PageCount(10), device: DeviceNo(0) }, &mut frames, &mut effects);
//! let fault = Event::Fault { file, first: PageIndex(7), count: 1, intent: Intent::Read };
//! manager.step(now, fault, &mut frames, &mut effects);
//! assert!(matches!(effects.list[0], Effect::Read { reason: Reason::Fault, first: PageIndex(7), .. }));
//! ```

mod anonymous;
mod background;
mod derived;
mod devices;
mod fault;
mod files;
mod inspect;
mod look;
mod pool;
mod reclaim;
mod reuse;
mod step;
mod validate;
mod waits;
mod write;

#[cfg(test)]
mod tests;

use crate::admission::{Admission, Configured, Form};
use crate::dirty::queue::Queue;
use crate::dirty::throttle::Dirtiers;
use crate::event::{Effect, Waiters};
use crate::io::{Io, IoId, IoTable};
use crate::lru::{Lru, Refault};
use crate::options::{OptionError, Options};
use crate::page::Phase;
use crate::reclaim::trace::Trace;
use crate::stats::Stats;
use crate::units::{Bytes, DeviceNo, FileId, FrameNo, Instant, Nanos, PageCount, PageKey};
use crate::writeback::flusher::Flusher;
use background::Reclaimer;
use core::ops::Range;
use devices::Devices;
use files::Files;
use pool::Pool;
use reclaim::ScanLists;
use step::StepContext;

pub use derived::{Derived, FRAMES_MAX, FRAMES_MIN, check_frames};
pub use devices::DeviceLook;
pub use inspect::{DerivedValue, GoalInForce};
pub use look::{FrameLook, Waiting};
pub use waits::Pressure;

/// Between two ticks while pages are dirty, or the pool is to shrink: fine enough for expiry (seconds) and retries.
const TICK_WHILE_DIRTY: Nanos = Nanos::from_millis(100);
/// When pages that a caller waits for were in other hands: try again after this.
const TICK_WHEN_BUSY: Nanos = Nanos::from_millis(1);

/// How full the pool is, and of what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Occupancy {
    /// Frames of the pool.
    pub frames: PageCount,
    /// Frames that hold nothing.
    pub free: PageCount,
    /// Pages on the active list.
    pub active: PageCount,
    /// Pages on the inactive list.
    pub inactive: PageCount,
    /// Pages whose content the device lacks.
    pub dirty: PageCount,
    /// Pages being written.
    pub writing: PageCount,
    /// Pages that the device refused and has not taken since: dirty, or being written again.
    pub failed: PageCount,
    /// Dirtiers that wait.
    pub dirtiers_blocked: u64,
    /// Bytes of writes in transit to all devices.
    pub in_transit_writes: Bytes,
    /// Current limit on bytes of writes in transit to the busiest device.
    pub in_transit_limit: Bytes,
}

/// The state machine. `A` is the form of admission: the one from the options, unless a driver brings its own.
#[derive(Clone, Debug)]
pub struct Manager<A: Form = Configured> {
    // What was set, and what it comes to.
    options: Options,
    derived: Derived,
    set_at: inspect::SetAt,

    // Frames, and the pages in them.
    pool: Pool,
    lru: Lru,
    /// The distance of a page whose fault got no frame: its shadow is gone, its next fault needs it.
    pending_refault: Option<(PageKey, Refault)>,
    files: Files,
    swap: anonymous::Swap,

    // Reclaim.
    reclaimer: Reclaimer,
    /// A fault was told to wait for memory.
    memory_waiters: bool,
    scan_lists: ScanLists,
    trace: Trace,

    // Dirty pages: where they come from, and which is written next.
    dirtiers: Dirtiers,
    /// Dirtiers that were told to pause.
    blocked: Queue,
    flusher: Flusher,
    /// The file of the last page that was to be written and was in other hands.
    busy_file: Option<FileId>,
    /// When the admission or a page in other hands wants another look.
    look_again: Option<Instant>,
    last_tick: Instant,
    waits: waits::Waits,

    // Transfers, and what the devices make of them.
    devices: Devices<A>,
    ios: IoTable,
    /// Pages being written.
    writing: PageCount,
    reuse: reuse::State,

    stats: Stats,
}

impl Manager {
    /// Creates a manager of `frames` free frames, numbered from 0.
    ///
    /// # Errors
    /// [`OptionError`] if an option is out of range, or the pool is too small or too large.
    pub fn new(options: Options, frames: PageCount) -> Result<Manager, OptionError> {
        let form = Configured::new(options.admission);
        Manager::with_admission(options, frames, form)
    }
}

impl<A: Form> Manager<A> {
    /// Creates a manager whose writes are admitted by the driver's form. The form receives the admission options when
    /// they change.
    ///
    /// # Errors
    /// As [`Manager::new`].
    pub fn with_admission(options: Options, frames: PageCount, form: A) -> Result<Manager<A>, OptionError> {
        options.check()?;
        check_frames(frames)?;
        let blank = Admission::with_form(form, options.flusher.write_max);
        Ok(Manager {
            derived: Derived::of(&options, frames),
            set_at: inspect::SetAt::default(),
            pool: Pool::new(frames),
            lru: Lru::new(options.replacement, frames),
            pending_refault: None,
            files: Files::default(),
            swap: anonymous::Swap::default(),
            reclaimer: Reclaimer::default(),
            memory_waiters: false,
            scan_lists: ScanLists::default(),
            trace: Trace::new(),
            dirtiers: Dirtiers::default(),
            blocked: Queue::default(),
            flusher: Flusher::new(options.flusher, options.page_size),
            busy_file: None,
            look_again: None,
            last_tick: Instant(0),
            waits: waits::Waits::default(),
            devices: Devices::new(blank),
            ios: IoTable::new(options.flusher.write_max.to_pages(options.page_size).0 as usize),
            writing: PageCount(0),
            reuse: reuse::State::new(frames),
            stats: Stats::default(),
            options,
        })
    }

    fn open(&mut self, file: FileId, pages: PageCount, device: DeviceNo) {
        assert!(device.index() < self.devices.len(), "{device:?} is not known");
        self.flusher.open(file, device);
        self.lru.opened(file);
        self.files.open(file, pages, device, None);
    }

    /// Takes other options, which were checked by [`Options::check`]; the page size stays as it is.
    fn retune(&mut self, options: Options, cx: &mut StepContext<'_>) {
        let page_size = self.options.page_size;
        self.options = Options { page_size, ..options };
        self.derive(cx);
        self.lru.set_replacement(self.options.replacement);
        self.flusher.retune(self.options.flusher);
        let write_max = self.options.flusher.write_max;
        self.devices.retune(self.options.admission, write_max);
    }

    /// Re-derives all that depends on options and memory. Nothing else is looked at.
    fn derive(&mut self, cx: &mut StepContext<'_>) {
        self.derived = Derived::of(&self.options, self.derived.frames);
        // Callers that wait find out by asking again.
        self.wake_all(cx);
        self.wake_reclaimer(cx);
    }

    fn wake_memory(&mut self, cx: &mut StepContext<'_>) {
        if core::mem::take(&mut self.memory_waiters) {
            cx.effects.list.push(Effect::Wake(Waiters::Memory));
        }
    }

    fn wake_all(&mut self, cx: &mut StepContext<'_>) {
        self.wake_memory(cx);
        if !self.blocked.is_empty() {
            cx.effects.list.push(Effect::Wake(Waiters::Dirtiers));
            // Each asks again, and waits again if it has to.
            self.blocked.clear();
        }
    }

    /// A transfer begins: it is counted, and admission is told. Its name, and its frames among those of the effects.
    fn issue(&mut self, io: Io, cx: &mut StepContext<'_>) -> (IoId, Range<u32>) {
        let bytes = PageCount(io.frames.len() as u64).to_bytes(self.options.page_size);
        let frames = cx.effects.add_frames(io.frames.iter().copied());
        let admission = &mut self.devices.of(io.device).admission;
        admission.issued(io.issued_at, io.reason, bytes);
        if io.small_fsync {
            admission.wait_begun(io.issued_at);
        }
        self.stats.io_issued(io.reason, bytes.0);
        (self.ios.start(io), frames)
    }

    /// Pages in memory that are identical to the device's copy, in use or not. Reclaim can take them without waiting
    /// for a write.
    pub fn clean(&self) -> PageCount {
        self.pool.clean()
    }

    /// Frames that hold nothing.
    pub fn free(&self) -> PageCount {
        self.pool.free.len()
    }

    /// Dirty pages, including unwritable ones.
    pub fn dirty(&self) -> PageCount {
        self.flusher.dirty()
    }

    /// Pages being written.
    pub fn writing(&self) -> PageCount {
        self.writing
    }

    /// Pages that are dirty or being written, without those that can't be: no caller waits for these.
    fn unclean(&self) -> PageCount {
        (self.flusher.dirty() + self.writing).saturating_sub(self.flusher.failed())
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The values derived from them.
    pub fn derived(&self) -> &Derived {
        &self.derived
    }

    /// The counters, including those of the lists.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The counters of the replacement.
    pub fn lru_statistics(&self) -> &crate::lru::Statistics {
        self.lru.statistics()
    }

    /// The frames of a transfer in progress.
    ///
    /// # Panics
    /// If no such transfer is in progress.
    pub fn frames_of(&self, io: IoId) -> &[FrameNo] {
        self.ios.frames(io)
    }

    /// The phase of the page in `frame`.
    pub fn phase(&self, frame: FrameNo) -> Phase {
        self.pool[frame].phase()
    }

    /// Bytes used by the manager: part of the budget.
    pub fn metadata_bytes(&self) -> u64 {
        self.pool.metadata_bytes()
            + self.lru.metadata_bytes()
            + self.flusher.metadata_bytes()
            + self.ios.metadata_bytes()
            + self.swap.metadata_bytes()
            + self.trace.metadata_bytes()
            + self.reuse.metadata_bytes()
    }
}
