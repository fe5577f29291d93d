//! The engine's driver: carries events to the core and its effects to the table, the device and the threads.
//!
//! ```text
//!   a thread's call ──┐                        ┌── table: insert, finish, evict     (under the core lock)
//!   completions ──────┼─► core lock ─► step ───┤
//!   ticks ────────────┘                        └── Outbox: submit, wake                 (after the lock)
//!                                              └── StepAnswer: frames, wait, pause        (for the caller)
//! ```
//!
//! One lock protects the core and every change of which page is where. Nothing slow happens under it: transfers are
//! handed to the device, and threads are woken, after the unlock. A holder of the core lock never waits for a page; a
//! holder of a page may take the core lock. This order prevents deadlock.
//!
//! The table lists the calls, which take the lock, above the files that work under it or after the unlock. Each file has
//! one type, which a call makes from its arguments: `Reads::of(engine, file).read_missing(…)`. A file calls methods only of
//! files below it or in its row, with one exception. The outbox calls `call_back`: a page that leaves a mapping may have no
//! memory to go to, and then takes a step of its own.
//!
//! | file | what |
//! |---|---|
//! | `mod` | what all threads share |
//! | | **calls** |
//! | `log`, `completions`, `devices` | events of the cache's thread: a log has advanced, a transfer has ended; a device is new |
//! | `quiet` | pages left alone while the device is asked to give them up |
//! | `sync` | requests for durability |
//! | `discard` | pages of a file that is closed or cut leave memory |
//! | `hold` | waits for threads that have a page in hand |
//! | `touch` | faults, served by handlers and by the threads that touch |
//! | `mapped`, `open`, `marked`, `states` | faults on mapped files; their pages that are written, that can't be read; how many are known |
//! | `region`, `swap_in`, `forget` | faults on anonymous memory; its pages on their way back from swap, or given up |
//! | `background_reads` | missing pages for background tasks, which leave the device to others |
//! | `read` | missing pages of a file: frames, then bytes from the device, in one call |
//! | `fault` | a thread that needs pages asks for frames, and waits for memory |
//! | `throttle` | a thread that makes pages dirty, and pauses |
//! | | **after the unlock** |
//! | `call_back`, `double_resident` | pages of regions and mappings: called back, so that their next use is seen; in two places for a while |
//! | | **under the lock** |
//! | `core` | what the lock protects, and its guard; `step`, the only place that calls the core |
//! | `effects` | carries out effects |
//! | `writes` | the frames as the core sees them; which dirty pages may be written now, and copies of those that must not change |
//! | `evict`, `coming` | pages of regions and mappings that leave memory, or are written; that come into regions |
//! | `unmap` | pages that leave regions and mappings |
//! | `outbox` | work left for after the unlock, and doing it |
//! | `transfers`, `mempool` | reads and writes from their start to their end; the memory set aside for them |
//! | `hold_times` | how long the lock is held |
//! | | **used by all** |
//! | `waits` | threads that wait for frames, for permission to dirty pages, for syncs |

mod background_reads;
mod call_back;
mod coming;
mod completions;
mod core;
mod devices;
mod discard;
mod double_resident;
mod effects;
mod evict;
mod fault;
mod forget;
mod hold;
#[cfg(feature = "lock-times")]
mod hold_times;
mod log;
mod mapped;
mod marked;
mod mempool;
mod open;
mod outbox;
mod quiet;
mod read;
mod region;
mod states;
mod swap_in;
mod sync;
mod throttle;
mod touch;
mod transfers;
mod unmap;
mod waits;
mod writes;

use self::core::Core;
pub(crate) use self::core::CoreGuard;
pub(crate) use call_back::CallBack;
pub(crate) use discard::Discards;
pub(crate) use double_resident::Doubles;
pub(crate) use effects::StepAnswer;
#[cfg(feature = "tokio")]
pub(crate) use fault::PAGES_MAX;
use fault::until_asking;
pub(crate) use fault::{Granted, PageFaults, Reach};
pub(crate) use forget::Advised;
pub(crate) use hold::Holders;
#[cfg(feature = "lock-times")]
pub use hold_times::Hold;
pub(crate) use mapped::MappedFaults;
use marked::Marks;
pub(crate) use open::Opening;
pub(crate) use outbox::Outbox;
pub(crate) use quiet::Quiet;
pub(crate) use read::{Missing, Reads};
use region::RegionFaults;
pub(crate) use states::MappedStates;
pub(crate) use sync::{Syncing, Syncs};
pub(crate) use throttle::{Dirtier, Dirtying};
pub(crate) use touch::{By, Fault, Touch, Wait};
pub(crate) use unmap::Unmap;

use crate::device::{Awaited, Warning, Watched};
use crate::engine::call_flags::{CallFlags, PoisonOnPanic};
use crate::error::Error;
use crate::files::FileInner;
use crate::files::requests::Requests;
use crate::frames::table::{Table, WriteToken};
use crate::frames::wait::{SLOW_AFTER, Slow};
use crate::memory::mapped::MappedFile;
use crate::memory::{SpaceInner, Spaces};
use crate::observe::record::Recorder;
#[cfg(feature = "trace")]
use crate::observe::trace::Shards;
use crate::sys::arena::Arena;
use crate::sys::clock::Clock;
use crate::sys::copies::Copies;
use background_reads::BackgroundReads;
use mempool::Mempool;
use millpond_core::frame::FrameTable;
use millpond_core::manager::Manager;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, Instant, PageIndex, PageKey, PageSize};
use parking_lot::Mutex;
use std::cell::Cell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use waits::Waits;

/// What all handles and threads of a cache share.
pub(crate) struct Engine {
    pub(crate) table: Arc<Table<Arena>>,
    pub(crate) device: Watched,
    /// If it has a swap file.
    pub(crate) spaces: Option<Spaces>,
    /// Whether the frames are in huge pages, according to the kernel.
    pub(crate) is_huge: bool,
    /// Bytes that the program says it has lent from its part of the budget.
    pub(crate) lent_bytes: AtomicU64,
    pub(crate) clock: Clock,
    pub(crate) page_size: PageSize,
    pub(crate) call_flags: CallFlags,
    /// Pages of files that calls have asked for.
    pub(crate) requests: Requests,
    /// Records of calls, on their way to a trace.
    #[cfg(feature = "trace")]
    pub(crate) calls: Shards,
    core: Mutex<Core>,
    pub(super) waits: Waits,
    /// The memory set aside for transfers.
    mempool: Mempool,
    pub(crate) background_reads: BackgroundReads,
    /// Held by the one thread that may wait for more frames while it holds pages ([`MappedFaults::pin_together`]).
    gathering: Mutex<()>,
    /// The number of pages to read together when one of them is used through a guard and memory is free; 0 or 1 on
    /// devices where that gains nothing.
    pub(crate) around_pages: AtomicU64,
    /// Memory for copies of pages that are being written. Made for the first file that needs it.
    pub(crate) copies: OnceLock<Arc<Copies>>,
    /// A log that something waits for has advanced.
    pub(crate) log_moved: AtomicBool,
    pub(crate) reclaim_wanted: AtomicBool,
    /// The time of the background thread's next tick; `u64::MAX`: never.
    pub(crate) tick_at: AtomicU64,
    pub(crate) stopping: AtomicBool,
    /// The number of allocations by the cache's thread.
    #[cfg(test)]
    pub(crate) allocations: AtomicU64,
}

impl Engine {
    pub(crate) fn new(
        table: Arc<Table<Arena>>,
        token: WriteToken,
        manager: Manager,
        device: Watched,
        recorder: Option<Box<dyn Recorder>>,
        spaces: Option<Spaces>,
        is_huge: bool,
    ) -> Engine {
        let page_size = manager.options().page_size;
        Engine {
            table,
            device,
            spaces,
            is_huge,
            lent_bytes: AtomicU64::new(0),
            clock: Clock::new(),
            page_size,
            call_flags: CallFlags::new(),
            requests: Requests::default(),
            #[cfg(feature = "trace")]
            calls: Shards::default(),
            core: Mutex::new(Core::new(manager, token, recorder)),
            waits: Waits::default(),
            mempool: Mempool::new(),
            background_reads: BackgroundReads::default(),
            gathering: Mutex::new(()),
            around_pages: AtomicU64::new(0),
            copies: OnceLock::new(),
            log_moved: AtomicBool::new(false),
            reclaim_wanted: AtomicBool::new(false),
            tick_at: AtomicU64::new(u64::MAX),
            stopping: AtomicBool::new(false),
            #[cfg(test)]
            allocations: AtomicU64::new(0),
        }
    }

    /// Returns a guard that poisons the cache if the thread panics while it lives. `who` names the culprit in the message.
    pub(crate) fn poison_on_panic(&self, who: &'static str) -> PoisonOnPanic<impl Fn(String)> {
        PoisonOnPanic {
            who,
            hit: |why| self.poison(why),
            before: std::thread::panicking(),
        }
    }

    /// Marks the cache as unusable, and tells every waiting thread and every later call.
    pub(crate) fn poison(&self, why: String) {
        if self.spaces.as_ref().is_some_and(Spaces::any) {
            // No thread would serve the region's faults any more, and a thread that touches it can't be given an error.
            // Written to stderr directly, because the thread's printing may be redirected.
            let _ = writeln!(
                io::stderr().lock(),
                "millpond: a cache with regions is unusable: {why}; the process ends"
            );
            std::process::abort();
        }
        self.call_flags.poison(why);
        if mutation::is(Mutation::PoisonWakesNobody) {
            return;
        }
        self.table.call_off();
        self.waits.call_off();
    }

    /// Called by waiting threads: checks whether a device is overdue, since the cache's own thread may be the one that hangs.
    fn look(&self) {
        let _poisons = self.poison_on_panic("hook for warnings");
        self.device.look();
    }

    fn offset(&self, page: PageIndex) -> u64 {
        page.0 << self.page_size.shift()
    }

    /// Returns how long a call waits for a frame, or for pages to be written, before it gives up.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_nanos(self.core().manager.options().alloc_timeout.0)
    }

    fn no_frames(&self, waited: Duration) -> Error {
        Error::NoFrames {
            frames: self.core().manager.derived().frames.0,
            waited,
            dirty: None,
        }
    }

    /// Waits for the page with `wait_for`, which gets a callback, to call if the wait takes long. The callback tells the
    /// watchdog.
    pub(crate) fn watched<T>(&self, file: &FileInner, page: u64, wait_for: impl FnOnce(Slow<'_>) -> T) -> T {
        let wait = Cell::new(None);
        let slow = || {
            wait.set(Some(self.device.waits(
                &file.path,
                Awaited::Page { page },
                SLOW_AFTER,
            )))
        };
        wait_for(Some(&slow))
    }

    /// Returns the regions. The caller has a page of one, so they exist.
    fn spaces(&self) -> &Spaces {
        self.spaces.as_ref().expect("there is a region")
    }

    /// Sets the number of frames. New ones get their memory at once, and can be exchanged.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn exchange_frames(&self, frames: u32) -> io::Result<()> {
        match &self.spaces {
            None => Ok(()),
            Some(spaces) => spaces.exchange.add_frames(frames),
        }
    }

    /// Returns the file's mapping, if it has one.
    pub(crate) fn mapped_of(&self, file: &FileInner) -> Option<Arc<MappedFile>> {
        self.spaces.as_ref()?.mapped.of(file.id)
    }

    /// Returns the frame of a page of a region or mapping. The caller has the page in hand.
    fn frame_of(&self, region: &SpaceInner, page: u64) -> FrameNo {
        let key = PageKey::new(region.id, PageIndex(page));
        self.table.frame_of(key).unwrap_or_else(|| {
            let mut core = self.core();
            let found = self.table.locked(&mut core.token).lookup(key);
            found.unwrap_or_else(|| panic!("{key:?} is held and has no frame"))
        })
    }

    /// Warns, once, that the system has no memory to bring in a page.
    fn warn_no_memory(&self, page: u64) {
        if !self.spaces().had_no_memory.swap(true, Ordering::Relaxed) {
            self.device.warn_soon(Warning::NoMemory { page });
        }
    }
}

/// Returns the background thread's time-out: the time from `now` to the next tick.
pub(crate) fn until(now: Instant, tick_at: u64) -> Option<Duration> {
    (tick_at != u64::MAX).then(|| Duration::from_nanos(tick_at.saturating_sub(now.0)))
}
