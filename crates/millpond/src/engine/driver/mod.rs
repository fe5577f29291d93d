//! The engine's driver: carries events to the core and its effects to the table, the device and the threads.
//!
//! ```text
//!   a thread's call ──┐                        ┌── table: insert, finish, evict     (under the core lock)
//!   completions ──────┼─► core lock ─► step ───┤
//!   ticks ────────────┘                        └── Outbox: submit, wake                 (after the lock)
//!                                              └── StepAnswer: frames, wait, pause        (for the caller)
//! ```
//!
//! One lock is around the core and around every change of which page is where. Nothing slow happens under it:
//! transfers are handed to the device, and threads are woken, after it was let go. A holder of the core lock never
//! waits for a page; a holder of a page may take the core lock. That order is what keeps it free of deadlock.
//!
//! | file | what |
//! |---|---|
//! | `mod` | what the lock protects; `step`, the only place that calls the core |
//! | `core_lock` | the lock itself |
//! | `effects` | what an effect does under the lock, and what it leaves for after it |
//! | `fault` | a thread that needs pages asks for frames, and waits for memory |
//! | `read` | missing pages of a file: frames, then bytes from the device, in one call |
//! | `mempool` | what transfers are made of, set aside |
//! | `transfers` | reads and writes between their start and their end |
//! | `writes` | which dirty pages may be written now, and the copies of those that must stay as they are |
//! | `throttle` | a thread that makes pages dirty, and pauses |
//! | `sync` | requests for durability |
//! | `hold` | waits for threads that have a page in hand |
//! | `quiet` | pages to which nothing happens while the device is asked to give them up |
//! | `discard` | pages of a file that is closed or cut leave memory |
//! | `region` | faults on anonymous memory |
//! | `swap_in` | its pages on their way back from swap |
//! | `tables` | the kernel's page tables for them, given back when they are empty |
//! | `double_resident` | how they come to a thread, and are in two places for a while |
//! | `leave` | its pages on their way out |
//! | `mapped` | faults on mapped files |
//! | `open` | their pages that are written |
//! | `unmap` | their pages on their way out |

mod core;
mod devices;
mod discard;
mod double_resident;
mod effects;
mod fault;
mod hold;
#[cfg(feature = "lock-times")]
mod hold_times;
mod leave;
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
mod tables;
mod throttle;
mod transfers;
mod unmap;
mod writes;

use self::core::Core;
pub(crate) use self::core::CoreGuard;
pub(crate) use effects::StepAnswer;
#[cfg(feature = "tokio")]
pub(crate) use fault::PAGES_MAX;
pub(crate) use fault::{FrameWaits, Granted, Reach, until_asking};
#[cfg(feature = "lock-times")]
pub use hold_times::Hold;
pub(crate) use mapped::MappedFault;
pub(crate) use outbox::Outbox;
pub(crate) use read::Missing;
pub(crate) use region::Fault;
pub(crate) use sync::Syncing;
pub(crate) use throttle::Dirtying;

use crate::device::Watched;
use crate::engine::call_flags::{CallFlags, PoisonOnPanic};
use crate::files::requests::Requests;
use crate::frames::event_count::EventCount;
use crate::frames::table::{Table, WriteToken};
use crate::memory::Regions;
use crate::observe::record::Recorder;
#[cfg(feature = "trace")]
use crate::observe::trace::Shards;
use crate::sys::arena::Arena;
use crate::sys::clock::{Clock, Patience};
use crate::sys::copies::Copies;
use mempool::Mempool;
use millpond_core::manager::Manager;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{Instant, PageIndex, PageSize};
use parking_lot::Mutex;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What all handles and threads of a cache share.
pub(crate) struct Engine {
    pub(crate) table: Arc<Table<Arena>>,
    pub(crate) device: Watched,
    /// If it has a swap file.
    pub(crate) regions: Option<Regions>,
    /// Whether the frames are in huge pages, as far as the kernel says.
    pub(crate) is_huge: bool,
    /// What the program has lent of its part of the budget, by its own account.
    pub(crate) lent_bytes: AtomicU64,
    pub(crate) clock: Clock,
    pub(crate) page_size: PageSize,
    pub(crate) call_flags: CallFlags,
    /// Pages of files that calls have asked for.
    pub(crate) requests: Requests,
    /// What is recorded of calls, on its way to a trace.
    #[cfg(feature = "trace")]
    pub(crate) calls: Shards,
    core: Mutex<Core>,
    memory_events: EventCount,
    pub(crate) frame_waits: FrameWaits,
    /// What transfers are made of.
    mempool: Mempool,
    dirtier_events: EventCount,
    sync_events: EventCount,
    /// Whose turn it is to hold pages while it waits for frames for more ([`Engine::pin_together`]).
    gathering: Mutex<()>,
    /// A dirtier was told to pause: the next one asks first.
    throttling: AtomicBool,
    /// Some file has pages that can't be written, when the core was asked last.
    failing: AtomicBool,
    /// Since when they have left no room for others, and how many pages were written by then.
    full: Mutex<Option<(u64, Patience)>>,
    /// Pages that are read together where one of them is used through a guard and memory is free; 0 or 1 on devices where
    /// that gains nothing.
    pub(crate) around_pages: AtomicU64,
    /// Memory for copies of pages that are being written, from the first file that needs it on.
    pub(crate) copies: OnceLock<Arc<Copies>>,
    /// A log has advanced that something waits for.
    pub(crate) log_moved: AtomicBool,
    pub(crate) reclaim_wanted: AtomicBool,
    /// When the background thread sends the next tick; `u64::MAX`: never.
    pub(crate) tick_at: AtomicU64,
    pub(crate) stopping: AtomicBool,
    /// Allocations of the cache's thread.
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
        regions: Option<Regions>,
        is_huge: bool,
    ) -> Engine {
        let page_size = manager.options().page_size;
        Engine {
            table,
            device,
            regions,
            is_huge,
            lent_bytes: AtomicU64::new(0),
            clock: Clock::new(),
            page_size,
            call_flags: CallFlags::new(),
            requests: Requests::default(),
            #[cfg(feature = "trace")]
            calls: Shards::default(),
            core: Mutex::new(Core::new(manager, token, recorder)),
            memory_events: EventCount::default(),
            frame_waits: FrameWaits::default(),
            mempool: Mempool::new(),
            dirtier_events: EventCount::default(),
            sync_events: EventCount::default(),
            gathering: Mutex::new(()),
            throttling: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            full: Mutex::new(None),
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

    /// Poisons the cache if there is a panic while the answer lives. `who`: what has panicked then, for the message.
    pub(crate) fn poison_on_panic(&self, who: &'static str) -> PoisonOnPanic<impl Fn(String)> {
        PoisonOnPanic {
            who,
            hit: |why| self.poison(why),
            before: std::thread::panicking(),
        }
    }

    /// Nothing of the cache can be trusted any more: says so to every thread that waits, and to every later call.
    pub(crate) fn poison(&self, why: String) {
        if self.regions.as_ref().is_some_and(Regions::any) {
            // No thread would serve the region's faults any more, and a thread that touches it can't be given an error.
            // Past whatever may have redirected what this thread prints.
            let _ = writeln!(
                io::stderr().lock(),
                "millpond: a cache with regions is unusable: {why}; the process ends"
            );
            std::process::abort();
        }
        self.call_flags.set(why);
        if mutation::is(Mutation::PoisonWakesNobody) {
            return;
        }
        self.table.call_off();
        for events in [&self.memory_events, &self.dirtier_events, &self.sync_events] {
            events.notify_all();
        }
    }

    /// A thread that waits looks whether what it waits for is overdue: the cache's thread may be what hangs.
    fn look(&self) {
        let _poisons = self.poison_on_panic("hook for warnings");
        self.device.look();
    }

    fn offset(&self, page: PageIndex) -> u64 {
        page.0 << self.page_size.shift()
    }
}

/// Turns what the background thread measures into a time-out.
pub(crate) fn until(now: Instant, tick_at: u64) -> Option<Duration> {
    (tick_at != u64::MAX).then(|| Duration::from_nanos(tick_at.saturating_sub(now.0)))
}
