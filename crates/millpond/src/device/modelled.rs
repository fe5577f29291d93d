//! The service time of a modelled disk around any device.
//!
//! ```text
//!   transfer ┐                       ┌── inner device: moves the bytes
//!   submit ──┴─► one modelled queue ─┤                                      the later of the two completes it
//!                                    └── service thread: waits for the time
//! ```
//!
//! So a laptop's flash can show what a disk does, with real data, threads and memory. Whichever way a transfer
//! comes, it passes the one queue of the modelled disk. The service thread sleeps until 25 us before the next
//! answer is due and spins for the rest; it counts how late it was all the same. Where that is much
//! (50 us for an SSD), the processors were busy with something else and the latencies mean little.

use super::layout::Layout;
use super::model::{Model, ModelCompletion, ModelRequest, ModelStatistics};
use super::{Completion, Device, DeviceFacts, DeviceFile, Op, Request};
use crate::sys::realtime::be_punctual;
use millpond_core::units::{Instant, Nanos};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};
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

/// A device that takes the time of a modelled disk.
#[derive(Debug)]
pub struct Modelled {
    inner: Arc<dyn Device>,
    name: String,
    shared: Arc<Shared>,
    woken: AtomicBool,
    service: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<dyn Device>,
    epoch: Clock,
    state: Mutex<State>,
    /// The service thread may have to wait for less than it thought.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    model: Model,
    layout: Layout,
    under_way: HashMap<u64, UnderWay>,
    next_key: u64,
    /// Over, for the reaper.
    over: Vec<Completion>,
    late: Late,
    ending: bool,
}

#[derive(Default, Debug)]
struct Late {
    answers: u64,
    sum_ns: u64,
    max_ns: u64,
}

#[derive(Debug)]
struct UnderWay {
    /// Of the pieces that the modelled disk was given.
    pieces_left: u32,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    /// Somebody who waits for it.
    Thread(Thread),
    /// The reaper, for whom the inner device may have finished already.
    Reaper {
        token: u64,
        result: Option<io::Result<usize>>,
    },
}

impl Modelled {
    /// `inner` with the service time of `model`. Files get their places on the modelled disk as they are touched.
    ///
    /// # Errors
    /// If no thread can be made.
    pub fn new(inner: Arc<dyn Device>, model: Model) -> io::Result<Modelled> {
        let name = format!("modelled {} over {}", model.name(), inner.name());
        let shared = Arc::new(Shared {
            inner: inner.clone(),
            epoch: Clock::now(),
            state: Mutex::new(State {
                model,
                layout: Layout::default(),
                under_way: HashMap::new(),
                next_key: 0,
                over: Vec::new(),
                late: Late::default(),
                ending: false,
            }),
            changed: Condvar::new(),
        });
        let serving = shared.clone();
        let service = thread::Builder::new()
            .name("millpond-disk".into())
            .spawn(move || serving.serve())?;
        Ok(Modelled {
            inner,
            name,
            shared,
            woken: AtomicBool::new(false),
            service: Some(service),
        })
    }

    /// What the modelled disk did since it was made or [`reset_statistics`](Modelled::reset_statistics).
    pub fn statistics(&self) -> ModelStatistics {
        self.shared.state.lock().model.statistics(self.shared.now())
    }

    /// How late it answered in the same time.
    pub fn lateness(&self) -> Lateness {
        let Late {
            answers,
            sum_ns,
            max_ns,
        } = self.shared.state.lock().late;
        Lateness {
            answers,
            mean: Nanos(sum_ns.checked_div(answers).unwrap_or(0)),
            max: Nanos(max_ns),
        }
    }

    /// Starts counting anew.
    pub fn reset_statistics(&self) {
        let mut state = self.shared.state.lock();
        state.model.reset_statistics(self.shared.now());
        state.late = Late::default();
    }

    /// What a long idle time does; see [`Model::rest`].
    pub fn rest(&self) {
        self.shared.state.lock().model.rest(self.shared.now());
    }

    /// Waits until the modelled disk is done with `key`, which belongs to this thread.
    fn wait_for(&self, key: u64) {
        loop {
            {
                let mut state = self.shared.state.lock();
                let left = state
                    .under_way
                    .get(&key)
                    .map_or(0, |under_way| under_way.pieces_left);
                if left == 0 {
                    state.under_way.remove(&key);
                    return;
                }
            }
            thread::park();
        }
    }
}

impl State {
    /// Gives the request to the modelled disk.
    fn begin(&mut self, now: Instant, request: &Request, owner: Owner) -> u64 {
        let key = self.insert(owner);
        let (mut pieces, write) = (0, request.op == Op::Write);
        let place = (request.offset, request.segments.bytes() as u64);
        let model = &mut self.model;
        self.layout.locate(
            request.file.identity(),
            || request.file.len().unwrap_or(0),
            place,
            |mut offset, mut len| {
                while len > 0 {
                    // A piece has 4 GiB at most; that it is cut into commands of 1 MiB is the model's business.
                    let piece = u32::try_from(len).unwrap_or(1 << 30);
                    model.submit(
                        now,
                        ModelRequest {
                            id: key,
                            write,
                            offset,
                            len: piece,
                        },
                    );
                    pieces += 1;
                    offset += u64::from(piece);
                    len -= u64::from(piece);
                }
            },
        );
        self.under_way
            .entry(key)
            .and_modify(|under_way| under_way.pieces_left = pieces);
        key
    }

    fn insert(&mut self, owner: Owner) -> u64 {
        self.next_key += 1;
        self.under_way.insert(
            self.next_key,
            UnderWay {
                pieces_left: 0,
                owner,
            },
        );
        self.next_key
    }

    /// The modelled disk has finished a piece. Who is to be unparked, and whether the reaper has something.
    fn finish_piece(&mut self, key: u64) -> (Option<Thread>, bool) {
        // Not there: the inner device refused it after it was given to the modelled one.
        let Some(under_way) = self.under_way.get_mut(&key) else {
            return (None, false);
        };
        under_way.pieces_left -= 1;
        if under_way.pieces_left > 0 {
            return (None, false);
        }
        match &mut under_way.owner {
            Owner::Thread(thread) => (Some(thread.clone()), false),
            Owner::Reaper { token, result } => {
                let Some(result) = result.take() else {
                    return (None, false);
                };
                self.over.push(Completion {
                    token: *token,
                    result,
                });
                self.under_way.remove(&key);
                (None, true)
            }
        }
    }

    /// The inner device has finished.
    fn finish_inner(&mut self, done: Completion) {
        let key = done.token;
        let Some(under_way) = self.under_way.get_mut(&key) else {
            return;
        };
        let served = under_way.pieces_left == 0;
        if let Owner::Reaper { token, result } = &mut under_way.owner {
            if served {
                self.over.push(Completion {
                    token: *token,
                    result: done.result,
                });
                self.under_way.remove(&key);
            } else {
                *result = Some(done.result);
            }
        }
    }
}

impl Shared {
    fn now(&self) -> Instant {
        Instant(self.epoch.elapsed().as_nanos() as u64)
    }

    /// The service thread.
    fn serve(&self) {
        be_punctual();
        let mut finished: Vec<ModelCompletion> = Vec::new();
        let mut waiting: Vec<Thread> = Vec::new();
        let mut state = self.state.lock();
        while !state.ending {
            let now = self.now();
            state.model.advance(now, &mut finished);
            let mut reaper_has_something = false;
            for ModelCompletion { id, at } in finished.drain(..) {
                let late_ns = now.since(at).0;
                state.late.answers += 1;
                state.late.sum_ns += late_ns;
                state.late.max_ns = state.late.max_ns.max(late_ns);
                let (thread, reaper) = state.finish_piece(id);
                waiting.extend(thread);
                reaper_has_something |= reaper;
            }
            let next = state.model.next_event();
            if reaper_has_something || !waiting.is_empty() {
                drop(state);
                waiting.drain(..).for_each(|thread| thread.unpark());
                if reaper_has_something {
                    self.inner.wake();
                }
                state = self.state.lock();
                continue;
            }
            let Some(next) = next else {
                self.changed.wait(&mut state);
                continue;
            };
            let due = self.epoch + Duration::from_nanos(next.0);
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

impl Device for Modelled {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        let key = {
            let mut state = self.shared.state.lock();
            let now = self.shared.now();
            state.begin(now, request, Owner::Thread(thread::current()))
        };
        self.shared.changed.notify_one();
        let result = self.inner.transfer(request);
        self.wait_for(key);
        result
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        {
            let mut state = self.shared.state.lock();
            let now = self.shared.now();
            for request in requests.iter_mut() {
                let owner = Owner::Reaper {
                    token: request.token,
                    result: None,
                };
                request.token = state.begin(now, request, owner);
            }
        }
        self.shared.changed.notify_one();
        let result = self.inner.submit(requests);
        if !requests.is_empty() {
            let mut state = self.shared.state.lock();
            for request in requests {
                if let Some(UnderWay {
                    owner: Owner::Reaper { token, .. },
                    ..
                }) = state.under_way.remove(&request.token)
                {
                    request.token = token;
                }
            }
        }
        result
    }

    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        let deadline = timeout.and_then(|timeout| Clock::now().checked_add(timeout));
        let done_before = done.len();
        let mut inner_done = Vec::new();
        loop {
            done.append(&mut self.shared.state.lock().over);
            if done.len() > done_before || self.woken.swap(false, Ordering::SeqCst) {
                return Ok(());
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Clock::now()));
            self.inner.wait(&mut inner_done, left)?;
            let mut state = self.shared.state.lock();
            inner_done
                .drain(..)
                .for_each(|completion| state.finish_inner(completion));
            if left == Some(Duration::ZERO) {
                done.append(&mut state.over);
                return Ok(());
            }
        }
    }

    fn wake(&self) {
        self.woken.store(true, Ordering::SeqCst);
        self.inner.wake();
    }

    fn sync(&self, file: &DeviceFile) -> io::Result<()> {
        let key = {
            let mut state = self.shared.state.lock();
            let key = state.insert(Owner::Thread(thread::current()));
            state
                .under_way
                .entry(key)
                .and_modify(|under_way| under_way.pieces_left = 1);
            state.model.flush(self.shared.now(), key);
            key
        };
        self.shared.changed.notify_one();
        let result = self.inner.sync(file);
        self.wait_for(key);
        result
    }

    fn set_len(&self, file: &DeviceFile, len: u64) -> io::Result<()> {
        self.inner.set_len(file, len)
    }

    fn facts(&self, _: &DeviceFile) -> DeviceFacts {
        self.shared.state.lock().model.facts()
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Modelled {
    fn drop(&mut self) {
        self.shared.state.lock().ending = true;
        self.shared.changed.notify_one();
        if let Some(service) = self.service.take() {
            // A panic in it has been printed; there is nobody left to tell.
            let _ = service.join();
        }
    }
}

#[cfg(test)]
mod tests;
