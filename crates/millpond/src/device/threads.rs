//! The device without io_uring: threads that perform one transfer each.
//!
//! A thread is started when a request finds none idle, up to [`THREADS_MAX`], and is kept. Requests start in order.

use super::transfer::run_here;
use super::{Completion, Device, DeviceFacts, DeviceFile, DeviceLoad, Request};
use crate::sys::forks::Maker;
use crate::sys::threads;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The maximum number of concurrent transfers: the queue depth of a SATA disk. Threads can't saturate a faster device
/// anyway.
const THREADS_MAX: usize = 32;

/// Performs transfers on threads with preadv and pwritev.
#[derive(Debug)]
pub struct Threads {
    name: String,
    pool: Arc<Pool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    maker: Maker,
}

#[derive(Default, Debug)]
struct Pool {
    state: Mutex<State>,
    work: Condvar,
    over: Condvar,
}

#[derive(Default, Debug)]
struct State {
    queue: VecDeque<Request>,
    done: Vec<Completion>,
    idle: usize,
    woken: bool,
    ending: bool,
}

impl Threads {
    /// Creates the device without starting a thread. [`name`](Device::name) includes `why`, the reason for not using
    /// io_uring.
    pub fn new(why: &str) -> Threads {
        Threads {
            name: format!("thread pool: {why}"),
            pool: Arc::default(),
            threads: Mutex::default(),
            maker: Maker::this(),
        }
    }

    /// Starts a thread for each request that finds none idle.
    fn staff(&self, idle: usize, queued: usize) -> io::Result<()> {
        let mut made = self.threads.lock();
        for _ in idle..queued {
            if made.len() == THREADS_MAX {
                break;
            }
            let pool = self.pool.clone();
            match threads::spawn("millpond-io", move || pool.work()) {
                Ok(thread) => made.push(thread),
                // Fewer threads are slower; none at all would never do it.
                Err(error) if made.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }
}

impl Pool {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if state.ending {
                return;
            }
            let Some(request) = state.queue.pop_front() else {
                state.idle += 1;
                self.work.wait(&mut state);
                state.idle -= 1;
                continue;
            };
            drop(state);
            let token = request.token;
            let result = run_here(&request);
            // The memory is released before any thread hears that it may be used again.
            drop(request);
            state = self.state.lock();
            state.done.push(Completion { token, result });
            self.over.notify_one();
        }
    }
}

impl Device for Threads {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        run_here(request)
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        let (idle, queued) = {
            let state = self.pool.state.lock();
            (state.idle, state.queue.len() + requests.len())
        };
        self.staff(idle, queued)?;
        let mut state = self.pool.state.lock();
        for request in requests.drain(..) {
            state.queue.push_back(request);
            self.pool.work.notify_one();
        }
        Ok(())
    }

    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.pool.state.lock();
        while state.done.is_empty() && !state.woken {
            match deadline {
                None => self.pool.over.wait(&mut state),
                Some(deadline) => {
                    if self.pool.over.wait_until(&mut state, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        state.woken = false;
        done.append(&mut state.done);
        Ok(())
    }

    fn wake(&self) {
        self.pool.state.lock().woken = true;
        self.pool.over.notify_one();
    }

    fn sync(&self, file: &DeviceFile) -> io::Result<()> {
        file.sync()
    }

    fn facts(&self, file: &DeviceFile) -> DeviceFacts {
        file.facts()
    }

    fn load(&self, file: &DeviceFile) -> DeviceLoad {
        file.load()
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Threads {
    /// Waits for the transfers that have started; drops the others.
    fn drop(&mut self) {
        if self.maker.is_another() {
            // A forked child, which has none of them.
            return std::mem::forget(std::mem::take(self.threads.get_mut()));
        }
        {
            let mut state = self.pool.state.lock();
            state.ending = true;
            state.queue.clear();
        }
        self.pool.work.notify_all();
        for thread in self.threads.lock().drain(..) {
            // A panic in it has been printed; there is no caller to report it to.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Buffer, Op, Segments};
    use super::*;

    #[test]
    fn threads_are_made_as_needed_and_no_more() {
        let device = Threads::new("a test");
        let file = Arc::new(DeviceFile::memory("file", 1 << 20).unwrap());
        let request = |token| Request {
            token,
            op: Op::Read,
            reason: None,
            file: file.clone(),
            offset: 0,
            segments: Segments::of(Buffer::new(4096), 0, 4096),
        };
        assert_eq!(device.threads.lock().len(), 0);
        let mut done = Vec::new();
        for (count, threads) in [(1, 1..=1), (500, 2..=THREADS_MAX)] {
            device.submit(&mut (0..count).map(request).collect()).unwrap();
            while done.len() < count as usize {
                device.wait(&mut done, None).unwrap();
            }
            assert!(threads.contains(&device.threads.lock().len()));
            done.clear();
        }
        assert_eq!(device.name(), "thread pool: a test");
    }
}
