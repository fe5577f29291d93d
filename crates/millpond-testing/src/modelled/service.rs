//! A modeled disk in real time: answers come when the disk would have given them.
//!
//! ```text
//!   submit, flush ──► model ──► due at T ──► service thread: sleeps until T - 25 us, spins until T ──► answer(id)
//! ```
//!
//! What the model answers immediately (a write into a volatile cache, a flush of nothing) is answered on the calling
//! thread. A late answer does not delay later ones: the next command starts when the previous one was done in the
//! model's time. Lateness is counted. If it is large (50 us for a flash disk), the processors were busy with something
//! else and the latencies mean little.

use millpond::device::DeviceFacts;
use millpond::internal::be_punctual;
use millpond::units::{Instant, Nanos};
use millpond_sim::disk::{Model, ModelCompletion, ModelFacts, ModelRequest, ModelStatistics};
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant as Clock};

/// How long before a due answer the service thread wakes up: the worst delay of a timer on an idle processor, with some
/// margin.
const SPIN: Duration = Duration::from_micros(25);

/// How long after the model's time answers came.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Lateness {
    /// Number of answers.
    pub answers: u64,
    /// Mean lateness.
    pub mean: Nanos,
    /// Worst lateness.
    pub max: Nanos,
}

/// A [`Model`] with a thread that gives its answers on time. Dropping it ends the thread; requests in progress are then
/// never answered.
pub struct ModelService {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Receives the id of each request and flush once, with no lock held.
type Answer = Box<dyn Fn(u64) + Send + Sync>;

struct Shared {
    epoch: Clock,
    answer: Answer,
    late: Late,
    state: Mutex<State>,
    /// The service thread has to wake earlier than planned.
    changed: Condvar,
}

struct State {
    model: Model,
    /// When the service thread will wake on its own.
    up_at: Option<Instant>,
    ending: bool,
}

/// Counted before each answer is given, so that its receiver finds it counted.
#[derive(Default)]
struct Late {
    answers: AtomicU64,
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl fmt::Debug for ModelService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelService").finish_non_exhaustive()
    }
}

impl ModelService {
    /// Starts the disk. `answer` receives the id of each finished request, on the service thread or the calling thread,
    /// with no lock held. Time spent in it delays later answers.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn new(model: Model, answer: impl Fn(u64) + Send + Sync + 'static) -> io::Result<ModelService> {
        let shared = Arc::new(Shared {
            epoch: Clock::now(),
            answer: Box::new(answer),
            late: Late::default(),
            state: Mutex::new(State {
                model,
                up_at: None,
                ending: false,
            }),
            changed: Condvar::new(),
        });
        let serving = shared.clone();
        let thread = Builder::new()
            .name("millpond-disk".into())
            .spawn(move || serving.serve())?;
        Ok(ModelService {
            shared,
            thread: Some(thread),
        })
    }

    /// Submits requests, all at this moment and in this order.
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

    /// Submits a flush at this moment; see [`Model::flush`].
    pub fn flush(&self, id: u64) {
        self.shared.tell(|model, now| model.flush(now, id));
    }

    /// What the disk did since it was created or [`reset_statistics`](ModelService::reset_statistics), and how late its
    /// answers were over the same time.
    pub fn statistics(&self) -> (ModelStatistics, Lateness) {
        let late = &self.shared.late;
        let [answers, sum_ns, max_ns] =
            [&late.answers, &late.sum_ns, &late.max_ns].map(|count| count.load(Ordering::Relaxed));
        let lateness = Lateness {
            answers,
            mean: Nanos(sum_ns.checked_div(answers).unwrap_or(0)),
            max: Nanos(max_ns),
        };
        let state = self.shared.state.lock();
        (state.model.statistics(self.shared.now()), lateness)
    }

    /// Resets the statistics.
    pub fn reset_statistics(&self) {
        self.shared.tell(|model, now| model.reset_statistics(now));
        let late = &self.shared.late;
        for count in [&late.answers, &late.sum_ns, &late.max_ns] {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// Has the effect of a long idle time; see [`Model::rest`].
    pub fn rest(&self) {
        self.shared.tell(|model, now| model.rest(now));
    }

    /// What a driver may know about such a disk.
    pub fn facts(&self) -> DeviceFacts {
        let ModelFacts {
            queue_depth,
            rotational,
            write_cache,
        } = self.shared.state.lock().model.facts();
        DeviceFacts {
            queue_depth,
            rotational,
            write_cache,
            ..DeviceFacts::UNKNOWN
        }
    }
}

impl Drop for ModelService {
    fn drop(&mut self) {
        self.shared.state.lock().ending = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed; there is no caller left to report to.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn now(&self) -> Instant {
        Instant(self.epoch.elapsed().as_nanos() as u64)
    }

    /// Applies `what` to the model, gives the answers that are due, and makes sure that the service thread wakes in
    /// time.
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
        for ModelCompletion { id, at } in done.drain(..) {
            let late_ns = self.now().since(at).0;
            self.late.answers.fetch_add(1, Ordering::Relaxed);
            self.late.sum_ns.fetch_add(late_ns, Ordering::Relaxed);
            self.late.max_ns.fetch_max(late_ns, Ordering::Relaxed);
            (self.answer)(id);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use millpond::units::Bytes;
    use millpond_sim::disk::{HddParameters, ModelParameters};
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    type Answers = mpsc::Receiver<(u64, ThreadId, Clock)>;

    fn service(parameters: HddParameters) -> (ModelService, Answers) {
        let (tell, answers) = mpsc::channel();
        let model = Model::new(&ModelParameters::Hdd(parameters)).unwrap();
        let service = ModelService::new(model, move |id| {
            // Fails if the test is over.
            let _ = tell.send((id, thread::current().id(), Clock::now()));
        });
        (service.unwrap(), answers)
    }

    fn request(id: u64, write: bool, offset: u64, len: u32) -> ModelRequest {
        ModelRequest {
            id,
            write,
            offset,
            len,
        }
    }

    #[test]
    fn each_answer_comes_once_and_none_before_the_model_gives_it() {
        let (service, answers) = service(HddParameters::default());
        // In a row from the present place on: 1 MiB each, after half a revolution on average.
        let (began, mib) = (Clock::now(), Duration::from_nanos((1 << 20) * 1000 / 120));
        service.submit((0..3).map(|n| request(n, true, n << 20, 1 << 20)));
        for n in 0..3 {
            let (id, on, at) = answers.recv().unwrap();
            assert_eq!(id, u64::from(n));
            assert_ne!(on, thread::current().id());
            assert!(
                at.duration_since(began) >= mib * (n + 1),
                "{id} after {:?}",
                at - began
            );
        }
        let (seen, late) = service.statistics();
        assert_eq!((seen.writes, late.answers), (3, 3));
        service.reset_statistics();
        let (seen, late) = service.statistics();
        assert_eq!((seen.writes, late), (0, Lateness::default()));
        assert!(answers.try_recv().is_err(), "no more answers than requests");
    }

    #[test]
    fn immediate_answers_of_the_model_come_on_the_asking_thread() {
        // A minute of work for the platter.
        let mib = 1 << 20;
        let (service, answers) = service(HddParameters {
            write_cache: Bytes(64 * mib),
            media_bytes_per_s: mib,
            ..HddParameters::default()
        });
        let here = thread::current().id();
        let at_once = || answers.try_recv().map(|(id, on, _)| (id, on));
        service.flush(1);
        assert_eq!(at_once(), Ok((1, here)), "a flush of nothing");
        service.submit((2..62).map(|id| request(id, true, id * mib, 1 << 20)));
        for id in 2..62 {
            assert_eq!(at_once(), Ok((id, here)), "a write into the cache");
        }
        service.flush(62);
        assert!(at_once().is_err(), "a flush of what is on its way to the platter");
    }

    #[test]
    fn dropped_disk_answers_nothing_more() {
        let (service, answers) = service(HddParameters {
            revolutions_per_minute: 1,
            ..HddParameters::default()
        });
        // Half a minute away.
        service.submit([request(1, false, 1 << 20, 4096)]);
        drop(service);
        assert!(answers.recv().is_err());
    }
}
