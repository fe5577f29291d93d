//! The callback of a log: what was asked for, and the thread that asks it.
//!
//! Requests only grow, so one call serves all threads that asked before it began. A call that fails ends the
//! waiting of all of them; what was asked for beyond it is asked for again at once, the rest when a thread
//! asks again.

use super::State;
use crate::error::again;
use crate::sys::threads;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// After a failure the background does not ask again for so long, as a file that can't be written is left alone
/// (`flusher.retry`).
const RETRY: Duration = Duration::from_secs(1);

thread_local! {
    /// The state of the log whose callback's thread this is, as an address; 0: it is none.
    static CALLBACK_OF: Cell<usize> = const { Cell::new(0) };
}

/// Whether the calling thread is that of a log's callback. Pages wait for what it does, so it waits for none of them
/// (Linux: `PF_LOCAL_THROTTLE`).
pub(crate) fn is_callback() -> bool {
    CALLBACK_OF.with(Cell::get) != 0
}

/// Whether the calling thread is that of this log's callback: if it waited for the log, it would wait for itself.
pub(super) fn is_callback_of(state: &State) -> bool {
    CALLBACK_OF.with(Cell::get) == std::ptr::from_ref(state).addr()
}

/// The requests to a log.
#[derive(Default)]
pub(super) struct Asked {
    has_flush: bool,
    stops: bool,
    /// Up to which record, and the most ever.
    wanted: u64,
    wanted_most: u64,
    /// The record of the running or last call, unless it failed.
    tried: u64,
    calls_begun: u64,
    is_busy: bool,
    refusal: Option<Refusal>,
}

struct Refusal {
    call: u64,
    at: Instant,
    error: io::Error,
}

impl Asked {
    pub(super) fn with_flush() -> Asked {
        Asked {
            has_flush: true,
            ..Asked::default()
        }
    }

    pub(super) fn can_flush(&self) -> bool {
        self.has_flush
    }

    pub(super) fn most_wanted(&self) -> u64 {
        self.wanted_most
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls_begun
    }

    /// No further call begins.
    pub(super) fn stop(&mut self) {
        self.stops = true;
    }

    /// Whether a call is running.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Takes in that record `n` shall be durable. Whether there is something new to do.
    pub(super) fn ask(&mut self, n: u64, at_once: bool) -> bool {
        self.wanted_most = self.wanted_most.max(n);
        let waits = |refusal: &Refusal| refusal.at.elapsed() < RETRY;
        if n <= self.wanted || (!at_once && self.refusal.as_ref().is_some_and(waits)) {
            return false;
        }
        self.wanted = n;
        true
    }

    /// How many calls begin before the first one that covers record `n`.
    pub(super) fn calls_before(&self, n: u64) -> u64 {
        let is_being_asked = self.is_busy && self.tried >= n;
        self.calls_begun - u64::from(is_being_asked)
    }

    /// The error of the last call, if it was not among the first `calls`.
    pub(super) fn refused_since(&self, calls: u64) -> Option<io::Error> {
        let refusal = self.refusal.as_ref().filter(|refusal| refusal.call > calls)?;
        Some(again(&refusal.error))
    }

    /// Up to which record to ask the callback next, if at all.
    fn next(&mut self, durable: u64) -> Option<u64> {
        if self.wanted <= self.tried.max(durable) {
            return None;
        }
        self.tried = self.wanted;
        self.calls_begun += 1;
        self.is_busy = true;
        Some(self.tried)
    }

    fn ended(&mut self, result: io::Result<()>) {
        self.is_busy = false;
        self.refusal = result.err().map(|error| Refusal {
            call: self.calls_begun,
            at: Instant::now(),
            error,
        });
        if self.refusal.is_some() {
            if self.wanted == self.tried {
                self.wanted = 0;
            }
            self.tried = 0;
        }
    }
}

/// Starts the thread that calls `flush`.
pub(super) fn start(
    state: &Arc<State>,
    flush: impl FnMut(u64) -> io::Result<u64> + Send + 'static,
) -> io::Result<()> {
    let state = state.clone();
    threads::spawn("millpond-log", move || run(&state, flush)).map(drop)
}

fn run(state: &State, mut flush: impl FnMut(u64) -> io::Result<u64>) {
    CALLBACK_OF.with(|of| of.set(std::ptr::from_ref(state).addr()));
    loop {
        let n = {
            let mut asked = state.asked.lock();
            loop {
                if asked.stops {
                    return;
                }
                match asked.next(state.durable.load(Ordering::SeqCst)) {
                    Some(n) => break n,
                    None => state.more.wait(&mut asked),
                }
            }
        };
        let said = catch_unwind(AssertUnwindSafe(|| flush(n)));
        let said = said.unwrap_or_else(|_| {
            Err(io::Error::other(
                "the log's callback has panicked; the message is on standard error",
            ))
        });
        let result = said.map(|durable| state.advance(durable));
        let is_refused = result.is_err();
        state.asked.lock().ended(result);
        state.moved.notify_all();
        if is_refused {
            state.refused();
        }
    }
}
