//! Adds the service time of a modeled disk to any device.
//!
//! ```text
//!   transfer ┐                       ┌── inner device: moves the bytes
//!   submit ──┴─► one modeled queue ──┤                                      the later of the two completes it
//!                                    └── service thread: waits for the time
//! ```
//!
//! A laptop's flash can thus behave like another disk, with real data, threads and memory. Every transfer goes through
//! the one queue of the modeled disk. For its timing accuracy see [`ModelService`].

mod layout;
mod service;

pub use service::{Lateness, ModelService};

use layout::Layout;
use millpond::device::{Completion, Device, DeviceFacts, DeviceFile, Op, Request};
use millpond_sim::disk::{Model, ModelRequest, ModelStatistics};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant as Clock};

/// A device with the service time of a modeled disk.
#[derive(Debug)]
pub struct Modelled {
    inner: Arc<dyn Device>,
    name: String,
    shared: Arc<Shared>,
    woken: AtomicBool,
    service: ModelService,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<dyn Device>,
    state: Mutex<State>,
}

#[derive(Default, Debug)]
struct State {
    layout: Layout,
    under_way: HashMap<u64, UnderWay>,
    next_key: u64,
    /// Completed, for the reaper.
    over: Vec<Completion>,
}

#[derive(Debug)]
struct UnderWay {
    /// Pieces given to the modeled disk and not finished.
    pieces_left: u32,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    /// A thread that waits for it.
    Thread(Thread),
    /// The reaper. The inner device may already have finished.
    Reaper {
        token: u64,
        result: Option<io::Result<usize>>,
    },
}

impl Modelled {
    /// Wraps `inner` with the service time of `model`. Files get their positions on the modeled disk when first
    /// touched.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn new(inner: Arc<dyn Device>, model: Model) -> io::Result<Modelled> {
        let name = format!("modelled {} over {}", model.name(), inner.name());
        let shared = Arc::new(Shared {
            inner: inner.clone(),
            state: Mutex::new(State::default()),
        });
        let answering = shared.clone();
        let service = ModelService::new(model, move |key| answering.finish_piece(key))?;
        Ok(Modelled {
            inner,
            name,
            shared,
            woken: AtomicBool::new(false),
            service,
        })
    }

    /// What the modeled disk did since it was created or [`reset_statistics`](Modelled::reset_statistics).
    pub fn statistics(&self) -> ModelStatistics {
        self.service.statistics().0
    }

    /// How late its answers were over the same time.
    pub fn lateness(&self) -> Lateness {
        self.service.statistics().1
    }

    /// Resets the statistics.
    pub fn reset_statistics(&self) {
        self.service.reset_statistics();
    }

    /// Has the effect of a long idle time; see [`Model::rest`].
    pub fn rest(&self) {
        self.service.rest();
    }

    /// Waits until the modeled disk is done with `key`, which belongs to this thread.
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
    /// Records the request and appends its pieces for the modeled disk.
    fn begin(&mut self, request: &Request, owner: Owner, pieces: &mut Vec<ModelRequest>) -> u64 {
        let (key, before) = (self.insert(owner), pieces.len());
        let write = request.op == Op::Write;
        let place = (request.offset, request.segments.bytes() as u64);
        self.layout.locate(
            request.file.identity(),
            || request.file.len().unwrap_or(0),
            place,
            |mut offset, mut left| {
                while left > 0 {
                    // A piece has 4 GiB at most; that it is cut into commands of 1 MiB is the model's business.
                    let len = u32::try_from(left).unwrap_or(1 << 30);
                    pieces.push(ModelRequest {
                        id: key,
                        write,
                        offset,
                        len,
                    });
                    offset += u64::from(len);
                    left -= u64::from(len);
                }
            },
        );
        let count = (pieces.len() - before) as u32;
        self.under_way
            .entry(key)
            .and_modify(|under_way| under_way.pieces_left = count);
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

    /// The modeled disk has finished a piece. Returns the thread to unpark, and whether the reaper has work.
    fn finish_piece(&mut self, key: u64) -> (Option<Thread>, bool) {
        // Not there: the inner device refused it after it was given to the modeled one.
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
    /// The modeled disk has finished a piece, or a flush, of `key`.
    fn finish_piece(&self, key: u64) {
        let (thread, reaper_has_something) = self.state.lock().finish_piece(key);
        if let Some(thread) = thread {
            thread.unpark();
        }
        if reaper_has_something {
            self.inner.wake();
        }
    }
}

impl Device for Modelled {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        let mut pieces = Vec::new();
        let owner = Owner::Thread(thread::current());
        let key = self.shared.state.lock().begin(request, owner, &mut pieces);
        self.service.submit(pieces);
        let result = self.inner.transfer(request);
        self.wait_for(key);
        result
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        let mut pieces = Vec::new();
        {
            let mut state = self.shared.state.lock();
            for request in requests.iter_mut() {
                let owner = Owner::Reaper {
                    token: request.token,
                    result: None,
                };
                request.token = state.begin(request, owner, &mut pieces);
            }
        }
        self.service.submit(pieces);
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
            key
        };
        self.service.flush(key);
        let result = self.inner.sync(file);
        self.wait_for(key);
        result
    }

    fn facts(&self, _: &DeviceFile) -> DeviceFacts {
        self.service.facts()
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.inner)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests;
