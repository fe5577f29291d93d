//! A state machine, its requests and its callers.
//!
//! Two threads of a separate runtime perform the requests. Callers, on any kind of thread, hold a lock only briefly and
//! wait for a condition. They never enter the runtime.

use super::bucket::Bucket;
use super::clock::{self, now};
use super::error::Error;
use crate::layout::{Answer, Numbered, Request};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Notify, Semaphore};

/// Reads at a time.
const GETS_MAX: usize = 32;

/// What is driven, with what its callers wait for.
pub(super) trait Machine: Send + 'static {
    fn requests(&mut self) -> Vec<Numbered>;
    fn answered(&mut self, now: Duration, id: u64, answer: Answer);
    fn tick(&mut self, now: Duration);
    fn next_tick(&self) -> Option<Duration>;
    /// Takes in what the state machine reports.
    fn hear(&mut self);
    /// The process was stopped for so long.
    fn stopped(&mut self, time: Duration);
}

#[derive(Debug)]
struct Shared<M> {
    machine: Mutex<M>,
    changed: Condvar,
    /// Until when [`ticks`] sleeps, as nanoseconds of [`now`]. Changed with the lock only.
    sleeps_until: AtomicU64,
    /// The stops that the machine knows of, in nanoseconds. Changed with the lock only.
    stopped: AtomicU64,
    wake: Notify,
    bucket: Arc<Bucket>,
    gets: Semaphore,
    handle: Handle,
}

/// A machine that runs.
#[derive(Debug)]
pub(super) struct Driver<M: Machine> {
    shared: Arc<Shared<M>>,
    runtime: Option<Runtime>,
}

/// A number that no other has.
pub(super) fn random() -> u128 {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        return unix.as_nanos() << 32 | u128::from(std::process::id());
    }
    u128::from_le_bytes(bytes)
}

/// This host and process, for people.
pub(super) fn owner() -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    format!("process {} on {host}", std::process::id())
}

pub(super) fn runtime() -> Result<Runtime, Error> {
    let built = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("millpond-store")
        .enable_all()
        .build();
    built.map_err(Error::System)
}

/// Runs a future on a runtime, and waits for it without entering that.
pub(super) fn wait_for<T: Send + 'static>(
    handle: &Handle,
    future: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (done, result) = std::sync::mpsc::sync_channel(1);
    handle.spawn(async move {
        // The caller may have gone.
        let _ = done.send(future.await);
    });
    result.recv().ok()
}

impl<M: Machine> Driver<M> {
    /// Begins to drive `machine`, which makes requests to `bucket`.
    pub(super) fn new(machine: M, bucket: Arc<Bucket>, runtime: Runtime) -> Driver<M> {
        let shared = Arc::new(Shared {
            machine: Mutex::new(machine),
            changed: Condvar::new(),
            sleeps_until: AtomicU64::new(0),
            stopped: AtomicU64::new(clock::look().stopped.as_nanos() as u64),
            wake: Notify::new(),
            bucket,
            gets: Semaphore::new(GETS_MAX),
            handle: runtime.handle().clone(),
        });
        runtime.spawn(ticks(Arc::downgrade(&shared)));
        let driver = Driver {
            shared,
            runtime: Some(runtime),
        };
        driver.with(|_| ());
        driver
    }

    pub(super) fn bucket(&self) -> &Arc<Bucket> {
        &self.shared.bucket
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.shared.handle
    }

    /// Does something with the machine.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut M) -> T) -> T {
        let mut machine = self.shared.lock();
        let result = act(&mut machine);
        self.shared.went_on(&mut machine);
        result
    }

    /// Waits until `ready` has something. `None`: it had not in time, of which a stop of the process is no part.
    pub(super) fn until<T>(
        &self,
        timeout: Duration,
        mut ready: impl FnMut(&mut M) -> Option<T>,
    ) -> Option<T> {
        let mut machine = self.shared.lock();
        let deadline = self.shared.look(&mut machine).saturating_add(timeout);
        loop {
            let found = ready(&mut machine);
            self.shared.went_on(&mut machine);
            let left = deadline.saturating_sub(self.shared.look(&mut machine));
            if found.is_some() || left.is_zero() {
                return found;
            }
            let waited = self.shared.changed.wait_timeout(machine, left.min(clock::EVERY));
            machine = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<M: Machine> Driver<M> {
    /// The same, while anything comes or goes: until nothing did in that time.
    pub(super) fn until_stuck<T>(
        &self,
        timeout: Duration,
        mut ready: impl FnMut(&mut M) -> Option<T>,
    ) -> Option<T> {
        loop {
            let before = self.bucket().done_bytes();
            let found = self.until(timeout, &mut ready);
            if found.is_some() || self.bucket().done_bytes() == before {
                return found;
            }
        }
    }
}

impl<M: Machine> Drop for Driver<M> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl<M: Machine> Shared<M> {
    fn lock(&self) -> MutexGuard<'_, M> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What time it is without the stops, of which the machine is told.
    fn look(&self, machine: &mut M) -> Duration {
        let look = clock::look();
        let stopped = look.stopped.as_nanos() as u64;
        let known = self.stopped.swap(stopped, Relaxed);
        if known < stopped {
            machine.stopped(Duration::from_nanos(stopped - known));
        }
        look.awake
    }

    /// Hands over what the machine asks for and says.
    fn went_on(self: &Arc<Self>, machine: &mut M) {
        machine.hear();
        for (id, request) in machine.requests() {
            let shared = self.clone();
            self.handle.spawn(async move {
                let permit = match &request {
                    Request::Get { .. } => shared.gets.acquire().await.ok(),
                    _ => None,
                };
                let mut part = |listed| shared.answered(id, Answer::Part(listed));
                let answer = shared.bucket.answer(&request, &mut part).await;
                drop((permit, request));
                shared.answered(id, answer);
            });
        }
        // Most calls change nothing of when something is due: waking a thread for each page costs more than the page.
        let next = machine
            .next_tick()
            .map_or(u64::MAX, |next| next.as_nanos() as u64);
        if next < self.sleeps_until.load(Relaxed) {
            self.sleeps_until.store(next, Relaxed);
            self.wake.notify_one();
        }
    }

    fn answered(self: &Arc<Self>, id: u64, answer: Answer) {
        let mut machine = self.lock();
        self.look(&mut machine);
        machine.answered(now(), id, answer);
        self.went_on(&mut machine);
        drop(machine);
        self.changed.notify_all();
    }
}

async fn ticks<M: Machine>(of: std::sync::Weak<Shared<M>>) {
    loop {
        let Some(shared) = of.upgrade() else { return };
        let until = {
            let mut machine = shared.lock();
            shared.look(&mut machine);
            let next = if machine.next_tick().is_some_and(|next| next <= now()) {
                machine.tick(now());
                machine.hear();
                let is_over = machine.next_tick().is_none_or(|next| next > now());
                shared.went_on(&mut machine);
                shared.changed.notify_all();
                // One that has nothing to do now, and says so again at once, is not asked without end.
                if is_over {
                    machine.next_tick()
                } else {
                    Some(now() + Duration::from_millis(1))
                }
            } else {
                machine.next_tick()
            };
            let until = next.unwrap_or(Duration::MAX).min(now() + clock::EVERY);
            shared.sleeps_until.store(until.as_nanos() as u64, Relaxed);
            until
        };
        let sleep = until.saturating_sub(now()).max(Duration::from_micros(100));
        let _ = tokio::time::timeout(sleep, shared.wake.notified()).await;
    }
}
