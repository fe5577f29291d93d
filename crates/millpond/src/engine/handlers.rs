//! The threads that serve faults of regions and mapped files.
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

use super::driver::{Engine, Fault, Reads, Touch, Wait};
use crate::memory::mapped::{MARKED, MappedFile};
use crate::memory::{At, Bell, Space, Spaces};
use crate::sys::uffd::Message;
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
    match &engine.spaces {
        None => Ok(()),
        Some(spaces) => add(engine, spaces),
    }
}

fn add(engine: &Arc<Engine>, spaces: &Spaces) -> io::Result<()> {
    let engine = engine.clone();
    spaces.handlers.add(spaces.exchange.uffd(), move |bell| {
        let _poisons = engine.poison_on_panic("fault handler");
        if let Some(spaces) = &engine.spaces {
            run(&engine, spaces, bell);
        }
    })
}

fn run(engine: &Arc<Engine>, spaces: &Spaces, bell: Arc<Bell>) {
    let mut messages = [Message::default(); FAULTS];
    let mut left = Left::default();
    while !engine.stopping.load(Ordering::Acquire) {
        let again = left.again(engine, spaces);
        let is_done = again.is_none();
        // What comes before this is found out after a pause.
        bell.defers.store(!left.later.is_empty(), Ordering::Relaxed);
        spaces.handlers.is_idle();
        let waited = bell.ear.wait(Some(again.unwrap_or(IDLE)));
        let others = spaces.handlers.is_busy();
        let was_idle = match waited {
            Ok(is_called) => !is_called && is_done,
            Err(error) => return engine.poison(format!("faults can't be waited for any more: {error}")),
        };
        if was_idle && spaces.handlers.may_end(&bell) {
            // It hears of no fault from here on. Those of which it alone was told come again, and others hear of them.
            drop(bell);
            while let Ok(faults @ 1..) = spaces.exchange.uffd().read(&mut messages) {
                let touched = messages[..faults].iter().filter_map(Message::address);
                touched.for_each(|address| spaces.exchange.again_at(address));
            }
            return;
        }
        // A fault of a file is read by its handler: others that are idle take those behind it.
        let most = if others > 0 && spaces.mapped.any() {
            1
        } else {
            FAULTS
        };
        let faults = match spaces.exchange.uffd().read(&mut messages[..most]) {
            Ok(faults) => faults,
            Err(error) => return engine.poison(format!("faults can't be read any more: {error}")),
        };
        if faults > 0 && others == 0 {
            // Without it the next fault waits for this one.
            let _ = add(engine, spaces);
        }
        let touched = messages[..faults]
            .iter()
            .filter_map(|message| Some((message.address()?, message.access())));
        touched
            .clone()
            .take(faults.saturating_sub(1))
            .for_each(|(address, _)| read_meanwhile(engine, spaces, address));
        for (n, (address, access)) in touched.enumerate() {
            match spaces.at(address) {
                None => spaces.exchange.fill_at(address),
                Some(page) => left.serve(engine, Touch::new(page, access), n + 1 == faults),
            }
        }
        if !left.without_frame.is_empty() {
            // First the flag: memory that comes after this look rings.
            bell.waits.store(true, Ordering::SeqCst);
            left.ask_for_frames(engine);
            bell.waits.store(!left.without_frame.is_empty(), Ordering::SeqCst);
        }
    }
}

/// Has the device read a page of a mapped file, while the handler serves others.
fn read_meanwhile(engine: &Engine, spaces: &Spaces, address: usize) {
    if let Some((Space::File(mapped), page)) = spaces.at(address)
        && mapped.space.pages.at(page) == At::Absent
    {
        // What can't be read is found out when the page is served.
        let _ = Reads::of(engine, &mapped.file).prefetch(page..page + 1);
    }
}

/// What a handler still has to do.
#[derive(Default)]
struct Left {
    /// Touches of pages that threads are changing, or that may not be written now.
    later: Vec<Touch>,
    /// Those for which there is no frame, and how soon to ask for some again.
    without_frame: Vec<Touch>,
    asks_after: Duration,
    /// Pages of which a touch is `SIGBUS`, and since when.
    marked: Vec<(Arc<MappedFile>, u64, Instant)>,
}

impl Left {
    fn serve(&mut self, engine: &Engine, mut touch: Touch, is_last: bool) {
        match touch.serve(engine, is_last) {
            Fault::Served => {}
            Fault::Later(Wait::Page) => self.later.push(touch),
            Fault::Later(Wait::Frame(at_most)) => {
                self.asks_after = self.asks_after.min(at_most);
                self.without_frame.push(touch);
            }
            Fault::Refused => {
                let marked = touch
                    .in_file()
                    .map(|(mapped, page)| (mapped.clone(), page, Instant::now()));
                self.marked.extend(marked);
            }
        }
    }

    /// Tries those again that wait for frames.
    fn ask_for_frames(&mut self, engine: &Engine) {
        self.asks_after = PAUSE_MAX;
        for touch in std::mem::take(&mut self.without_frame) {
            self.serve(engine, touch, false);
        }
    }

    /// Does what is due, and says after how long to come again, if something is left.
    fn again(&mut self, engine: &Engine, spaces: &Spaces) -> Option<Duration> {
        for touch in std::mem::take(&mut self.later) {
            self.serve(engine, touch, false);
        }
        self.marked.retain(|(mapped, page, since)| {
            let is_due = since.elapsed() >= MARKED;
            if is_due {
                spaces.unmark(mapped, *page);
            }
            !is_due
        });
        let for_pages = (!self.later.is_empty()).then_some(PAUSE_MIN);
        let for_marks = (!self.marked.is_empty()).then_some(MARKED / 4);
        let asks_after = self.asks_after.clamp(PAUSE_MIN, PAUSE_MAX);
        let for_frames = (!self.without_frame.is_empty()).then_some(asks_after);
        [for_pages, for_marks, for_frames].into_iter().flatten().min()
    }
}
