//! A modelled disk in real time: answers come when the disk would have given them.
//!
//! ```text
//!   submit, flush ──► model ──► due at T ──► service thread: sleeps until T - 25 us, spins until T ──► answer(id)
//! ```
//!
//! What the model answers at once (a write into a volatile cache, a flush of nothing) is answered on the thread that
//! asked. A late answer does not move what comes after it: the next command begins when the one before it was
//! done by the model's time. How late answers were is counted; where that is much (50 us for a flash disk), the
//! processors were busy with something else and the latencies mean little.

use super::{Model, ModelCompletion, ModelRequest, ModelStatistics};
use crate::device::DeviceFacts;
use crate::sys::realtime::be_punctual;
use millpond_core::units::{Instant, Nanos};
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant as Clock};

/// How long before an answer is due the service thread wakes up: what a timer is late by at worst on an idle
/// processor, with some to spare.
const SPIN: Duration = Duration::from_micros(25);

/// How late answers came after the time that the model gave.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Lateness {
    /// Answers that were given.
    pub answers: u64,
    /// Their mean.
    pub mean: Nanos,
    /// The worst.
    pub max: Nanos,
}

/// A [`Model`] with a thread of its own that gives its answers in time. Dropping it ends the thread; what is under
/// way then is never answered.
pub struct ModelService {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Gets the id of each request and flush once, with no lock held.
type Answer = Box<dyn Fn(u64) + Send + Sync>;

struct Shared {
    epoch: Clock,
    answer: Answer,
    state: Mutex<State>,
    /// The service thread has to be up earlier than it thought.
    changed: Condvar,
}

struct State {
    model: Model,
    late: Late,
    /// When the service thread will be up by itself.
    up_at: Option<Instant>,
    ending: bool,
}

#[derive(Clone, Copy, Default)]
struct Late {
    answers: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl fmt::Debug for ModelService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelService").finish_non_exhaustive()
    }
}

impl ModelService {
    /// Starts the disk. `answer` gets the id of what is done, on the service thread or on the thread that asked, with
    /// no lock held; what it does delays the answers after it.
    ///
    /// # Errors
    /// If no thread can be made.
    pub fn new(model: Model, answer: impl Fn(u64) + Send + Sync + 'static) -> io::Result<ModelService> {
        let shared = Arc::new(Shared {
            epoch: Clock::now(),
            answer: Box::new(answer),
            state: Mutex::new(State {
                model,
                late: Late::default(),
                up_at: None,
                ending: false,
            }),
            changed: Condvar::new(),
        });
        let serving = shared.clone();
        let thread = thread::Builder::new()
            .name("millpond-disk".into())
            .spawn(move || serving.serve())?;
        Ok(ModelService {
            shared,
            thread: Some(thread),
        })
    }

    /// Requests arrive, all at this moment and in this order.
    ///
    /// # Panics
    /// If one of them has no bytes.
    pub fn submit(&self, requests: impl IntoIterator<Item = ModelRequest>) {
        self.shared.tell(|model, now| {
            requests
                .into_iter()
                .for_each(|request| model.submit(now, request));
        });
    }

    /// A flush arrives at this moment; see [`Model::flush`].
    pub fn flush(&self, id: u64) {
        self.shared.tell(|model, now| model.flush(now, id));
    }

    /// What the disk did since it was made or [`reset_statistics`](ModelService::reset_statistics), and how late its
    /// answers were in the same time.
    pub fn statistics(&self) -> (ModelStatistics, Lateness) {
        let state = self.shared.state.lock();
        let Late {
            answers,
            sum_ns,
            max_ns,
        } = state.late;
        let lateness = Lateness {
            answers,
            mean: Nanos(sum_ns.checked_div(answers).unwrap_or(0)),
            max: Nanos(max_ns),
        };
        (state.model.statistics(self.shared.now()), lateness)
    }

    /// Starts counting anew.
    pub fn reset_statistics(&self) {
        self.shared.tell(|model, now| model.reset_statistics(now));
        self.shared.state.lock().late = Late::default();
    }

    /// What a long idle time does; see [`Model::rest`].
    pub fn rest(&self) {
        self.shared.tell(|model, now| model.rest(now));
    }

    /// What a driver may know of such a disk.
    pub fn facts(&self) -> DeviceFacts {
        self.shared.state.lock().model.facts()
    }
}

impl Drop for ModelService {
    fn drop(&mut self) {
        self.shared.state.lock().ending = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn now(&self) -> Instant {
        Instant(self.epoch.elapsed().as_nanos() as u64)
    }

    /// Does something to the model, gives the answers that are due, and sees to it that the service thread is up
    /// in time.
    fn tell(&self, what: impl FnOnce(&mut Model, Instant)) {
        let mut done: Vec<ModelCompletion> = Vec::new();
        let mut state = self.state.lock();
        let now = self.now();
        what(&mut state.model, now);
        state.model.advance(now, &mut done);
        let is_earlier = match (state.model.next_event(), state.up_at) {
            (Some(next), Some(up_at)) => next < up_at,
            (next, None) => next.is_some(),
            (None, _) => false,
        };
        drop(state);
        if is_earlier {
            self.changed.notify_one();
        }
        self.give(&mut done);
    }

    fn give(&self, done: &mut Vec<ModelCompletion>) {
        if done.is_empty() {
            return;
        }
        let mut late = Late::default();
        for ModelCompletion { id, at } in done.drain(..) {
            let late_ns = self.now().since(at).0;
            late.answers += 1;
            late.sum_ns += late_ns;
            late.max_ns = late.max_ns.max(late_ns);
            (self.answer)(id);
        }
        let total = &mut self.state.lock().late;
        total.answers += late.answers;
        total.sum_ns += late.sum_ns;
        total.max_ns = total.max_ns.max(late.max_ns);
    }

    /// The service thread.
    fn serve(&self) {
        be_punctual();
        let mut done: Vec<ModelCompletion> = Vec::new();
        let mut state = self.state.lock();
        while !state.ending {
            state.model.advance(self.now(), &mut done);
            if !done.is_empty() {
                drop(state);
                self.give(&mut done);
                state = self.state.lock();
                continue;
            }
            let Some(next) = state.model.next_event() else {
                state.up_at = None;
                self.changed.wait(&mut state);
                continue;
            };
            let due = self.epoch + Duration::from_nanos(next.0);
            state.up_at = Some(next);
            if due.saturating_duration_since(Clock::now()) > SPIN {
                self.changed.wait_until(&mut state, due - SPIN);
            } else {
                drop(state);
                while Clock::now() < due {
                    std::hint::spin_loop();
                }
                state = self.state.lock();
            }
        }
    }
}
