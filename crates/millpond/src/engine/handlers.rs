//! The threads that serve faults of regions.
//!
//! A handler takes all pending faults, up to 16, and serves them. It reads the page of the last one itself, which has the
//! lowest latency; the device reads those of the others at the same time. A fault that gets no frame is kept until memory
//! is free. The handler goes on meanwhile, since soft faults need no frame. It touches no region, and waits for three
//! things only: the core lock, its own read, and, if the page states of a mapped file need more memory (`MappedStates`), the
//! budget's lock, which a change of settings holds throughout.
//!
//! A handler that takes a fault while no other waits for the next one starts another, up to eight. All but the first end
//! after a while without faults, so a cache whose memory nobody touches has one. Each fault wakes one handler. While others
//! are idle, a handler takes faults of mapped files one at a time, because it does their reads itself. A handler on another
//! processor than the faulting thread costs two wake-ups across processors, which is most of a fault's time (16 instead of
//! 7 us where measured); with a single handler, the scheduler keeps it on a near processor.

use super::driver::{Engine, Fault, MappedFault, MappedFaults, Marks, Reads, RegionFaults, until_asking};
use crate::memory::mapped::{MARKED, MappedFile};
use crate::memory::{At, Bell, RegionInner, Regions};
use crate::sys::clock::Patience;
use crate::sys::uffd::{Access, Message};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The number of faults read at a time.
const FAULTS: usize = 16;
/// The shortest and the longest sleep of a handler while faults wait for memory. Memory that comes free wakes it.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a handler other than the first waits for a fault before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// Starts the first handler, if there can be faults.
///
/// # Errors
/// If the system refuses a thread, or the process has too many descriptors.
pub(crate) fn start(engine: &Arc<Engine>) -> io::Result<()> {
    match &engine.regions {
        None => Ok(()),
        Some(regions) => add(engine, regions),
    }
}

fn add(engine: &Arc<Engine>, regions: &Regions) -> io::Result<()> {
    let engine = engine.clone();
    regions.handlers.add(regions.exchange.uffd(), move |bell| {
        let _poisons = engine.poison_on_panic("fault handler");
        if let Some(regions) = &engine.regions {
            run(&engine, regions, bell);
        }
    })
}

/// A fault that waits for memory.
struct Waiting {
    region: Arc<RegionInner>,
    page: u64,
    access: Access,
    patience: Patience,
}

fn run(engine: &Arc<Engine>, regions: &Regions, bell: Arc<Bell>) {
    let mut messages = [Message::default(); FAULTS];
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut mapped_ones = Mapped::default();
    let mut pause = Duration::ZERO;
    while !engine.stopping.load(Ordering::Acquire) {
        let at_most = pause.clamp(PAUSE_MIN, PAUSE_MAX);
        let for_mapped = mapped_ones.again(engine, regions);
        let for_memory = (!waiting.is_empty() || mapped_ones.lacks_frames()).then_some(at_most);
        let is_done = for_memory.is_none() && for_mapped.is_none();
        let at_most = [for_memory, for_mapped, is_done.then_some(IDLE)];
        // What comes before this is found out after a pause.
        bell.defers
            .store(!mapped_ones.later.is_empty(), Ordering::Relaxed);
        regions.handlers.is_idle();
        let waited = bell.ear.wait(at_most.into_iter().flatten().min());
        let others = regions.handlers.is_busy();
        let was_idle = match waited {
            Ok(is_called) => !is_called && is_done,
            Err(error) => return engine.poison(format!("faults can't be waited for any more: {error}")),
        };
        if was_idle && regions.handlers.may_end(&bell) {
            // It hears of no fault from here on. Those of which it alone was told come again, and others hear of them.
            drop(bell);
            while let Ok(faults @ 1..) = regions.exchange.uffd().read(&mut messages) {
                let touched = messages[..faults].iter().filter_map(Message::address);
                touched.for_each(|address| regions.exchange.again_at(address));
            }
            return;
        }
        // A fault of a file is read by its handler: others that are idle take those behind it.
        let most = if others > 0 && regions.mapped.any() {
            1
        } else {
            FAULTS
        };
        let faults = match regions.exchange.uffd().read(&mut messages[..most]) {
            Ok(faults) => faults,
            Err(error) => return engine.poison(format!("faults can't be read any more: {error}")),
        };
        if faults > 0 && others == 0 {
            // Without it the next fault waits for this one.
            let _ = add(engine, regions);
        }
        let touched = messages[..faults]
            .iter()
            .filter_map(|message| Some((message.address()?, message.access())));
        touched
            .clone()
            .take(faults.saturating_sub(1))
            .for_each(|(address, _)| read_meanwhile(engine, regions, address));
        for (n, (address, access)) in touched.enumerate() {
            let Some((region, page)) = regions.at(address) else {
                match regions.mapped.at(address) {
                    Some((mapped, page)) => {
                        let touch = Touched {
                            mapped,
                            page,
                            access,
                            patience: Patience::new(),
                        };
                        mapped_ones.serve(engine, touch);
                    }
                    None => regions.exchange.fill_at(address),
                }
                continue;
            };
            if let Fault::NoFrame(_) =
                RegionFaults::of(engine, &region).region_fault(page, access, n + 1 == faults)
            {
                waiting.push(Waiting {
                    region,
                    page,
                    access,
                    patience: Patience::new(),
                });
            }
        }
        if !waiting.is_empty() || mapped_ones.lacks_frames() {
            // First the flag: memory that comes after this look rings.
            bell.waits.store(true, Ordering::SeqCst);
            pause = PAUSE_MAX;
            waiting.retain_mut(|fault| again(engine, fault, &mut pause));
            pause = pause.min(mapped_ones.ask_for_frames(engine));
            let waits = !waiting.is_empty() || mapped_ones.lacks_frames();
            bell.waits.store(waits, Ordering::SeqCst);
        }
    }
}

/// Has the device read a page of a mapped file, while the handler serves others.
fn read_meanwhile(engine: &Engine, regions: &Regions, address: usize) {
    if let Some((mapped, page)) = regions.mapped.at(address)
        && mapped.space.pages.at(page) == At::Absent
    {
        // What can't be read is found out when the page is served.
        let _ = Reads::of(engine, &mapped.file).prefetch(page..page + 1);
    }
}

/// Tries a fault again. Whether it goes on waiting.
fn again(engine: &Engine, fault: &mut Waiting, pause: &mut Duration) -> bool {
    let Fault::NoFrame(at_most) =
        RegionFaults::of(engine, &fault.region).region_fault(fault.page, fault.access, false)
    else {
        return false;
    };
    fault.patience.slept(PAUSE_MAX);
    let waited = fault.patience.waited();
    *pause = until_asking(at_most, waited).min(*pause);
    let is_given_up = waited > engine.patience();
    if is_given_up {
        RegionFaults::of(engine, &fault.region).give_up_fault(fault.page);
    }
    !is_given_up
}

/// A fault of a mapped file.
struct Touched {
    mapped: Arc<MappedFile>,
    page: u64,
    access: Access,
    patience: Patience,
}

/// What a handler still has to do about faults of mapped files.
struct Mapped {
    /// Pages that threads are changing, or that may not be written now.
    later: Vec<Touched>,
    /// Those for which there is no frame, and how soon to ask for some again.
    without_frame: Vec<Touched>,
    asks_after: Duration,
    /// Pages of which a touch is `SIGBUS`, and since when.
    marked: Vec<(Arc<MappedFile>, u64, Instant)>,
}

impl Default for Mapped {
    fn default() -> Mapped {
        Mapped {
            later: Vec::new(),
            without_frame: Vec::new(),
            asks_after: PAUSE_MAX,
            marked: Vec::new(),
        }
    }
}

impl Mapped {
    fn serve(&mut self, engine: &Engine, mut touched: Touched) {
        touched.patience.slept(PAUSE_MAX);
        let waited = touched.patience.waited();
        let Touched {
            mapped, page, access, ..
        } = &touched;
        let mut fault = MappedFaults::of(engine, mapped).mapped_fault(*page, *access, false);
        if let MappedFault::NoFrame(at_most) = fault {
            if waited <= engine.patience() {
                self.asks_after = self.asks_after.min(until_asking(at_most, waited));
                return self.without_frame.push(touched);
            }
            fault = Marks::of(engine, mapped).give_up_touch(*page, waited);
        }
        match fault {
            MappedFault::Served => {}
            MappedFault::Later | MappedFault::NoFrame(_) => self.later.push(touched),
            MappedFault::Refused => self.marked.push((touched.mapped, touched.page, Instant::now())),
        }
    }

    fn lacks_frames(&self) -> bool {
        !self.without_frame.is_empty()
    }

    /// Tries those again that wait for frames. How soon to do so again.
    fn ask_for_frames(&mut self, engine: &Engine) -> Duration {
        self.asks_after = PAUSE_MAX;
        for touched in std::mem::take(&mut self.without_frame) {
            self.serve(engine, touched);
        }
        self.asks_after
    }

    /// Does what is due, and says after how long to come again.
    fn again(&mut self, engine: &Engine, regions: &Regions) -> Option<Duration> {
        for touched in std::mem::take(&mut self.later) {
            self.serve(engine, touched);
        }
        self.marked.retain(|(mapped, page, since)| {
            let is_due = since.elapsed() >= MARKED;
            if is_due {
                regions.unmark(mapped, *page);
            }
            !is_due
        });
        match (self.later.is_empty(), self.marked.is_empty()) {
            (false, _) => Some(PAUSE_MIN),
            (true, false) => Some(MARKED / 4),
            (true, true) => None,
        }
    }
}
