//! Threads for slow work, so that the threads that answer the kernel are free for reads that take microseconds.
//!
//! A thread is created when there is work and none is free, and ends after a while without work. Each kind of work has
//! its own queue and threads: writes, which pause; other calls of programs that wait for the disk; and deferred work,
//! such as the eviction of files that the kernel has forgotten, many at a time. No call waits for another that may be
//! after it in its queue.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A thread without work ends after this.
const IDLE: Duration = Duration::from_secs(10);

/// Threads for calls, and as many for writes: a thread that waits costs some 16 KiB of its stack, and of so many calls that
/// wait for a disk at a time one more does not make it faster.
const CALL_THREADS_MAX: usize = 64;

/// Threads for deferred work: more than one, since one may be waiting for the kernel, another for the disk.
const DEFERRED_THREADS_MAX: usize = 4;

type Work = Box<dyn FnOnce() + Send>;

#[derive(Clone)]
pub(crate) struct Pool {
    calls: Arc<Workers>,
    writes: Arc<Workers>,
    deferred: Arc<Workers>,
}

struct Workers {
    queue: Mutex<Queue>,
    /// Work has come.
    come: Condvar,
    /// A thread has nothing to do.
    idle: Condvar,
    threads_max: usize,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    threads: usize,
    free: usize,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.work.is_empty() && self.free == self.threads
    }
}

impl Default for Pool {
    fn default() -> Pool {
        let workers = |threads_max| {
            Arc::new(Workers {
                queue: Mutex::default(),
                come: Condvar::default(),
                idle: Condvar::default(),
                threads_max,
            })
        };
        Pool {
            calls: workers(CALL_THREADS_MAX),
            writes: workers(CALL_THREADS_MAX),
            deferred: workers(DEFERRED_THREADS_MAX),
        }
    }
}

impl Pool {
    /// Does `work`, for which a program waits, on some thread, or on this one if the system gives none.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) {
        self.calls.push_or_do(Box::new(work));
    }

    /// The same for a write.
    pub(crate) fn run_write(&self, work: impl FnOnce() + Send + 'static) {
        self.writes.push_or_do(Box::new(work));
    }

    /// Does `work` on some other thread, soon. If the system gives no thread it waits until there is one.
    pub(crate) fn defer(&self, work: impl FnOnce() + Send + 'static) {
        self.deferred.push(Box::new(work));
    }

    /// The same for deferred work alone.
    pub(crate) fn wait_nothing_deferred(&self, until: Instant) -> bool {
        self.deferred.wait_idle(until)
    }

    /// Waits until all that was begun is done. Whether it is, in time.
    pub(crate) fn wait_idle(&self, until: Instant) -> bool {
        // Calls leave work behind that is deferred.
        let all = [&self.calls, &self.writes, &self.deferred];
        all.into_iter().all(|workers| workers.wait_idle(until))
    }
}

impl Workers {
    /// Has some thread do it, or does what is first in the queue if there is none.
    fn push_or_do(self: &Arc<Workers>, work: Work) {
        if !self.push(work) {
            let work = self.queue.lock().work.pop_front();
            work.into_iter().for_each(|work| work());
        }
    }

    /// Whether some thread will do it.
    fn push(self: &Arc<Workers>, work: Work) -> bool {
        let mut queue = self.queue.lock();
        queue.work.push_back(work);
        if queue.free >= queue.work.len() || queue.threads >= self.threads_max {
            self.come.notify_one();
            return true;
        }
        queue.threads += 1;
        drop(queue);
        let workers = self.clone();
        let made = thread::Builder::new()
            .name("millpond-slow".into())
            .spawn(move || workers.serve());
        if made.is_err() {
            let mut queue = self.queue.lock();
            queue.threads -= 1;
            // Those that are there come to it.
            return queue.threads > 0;
        }
        true
    }

    fn wait_idle(&self, until: Instant) -> bool {
        let mut queue = self.queue.lock();
        while !queue.is_idle() {
            if self.idle.wait_until(&mut queue, until).timed_out() {
                return queue.is_idle();
            }
        }
        true
    }

    fn serve(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(work) = queue.work.pop_front() {
                drop(queue);
                work();
                queue = self.queue.lock();
                continue;
            }
            queue.free += 1;
            self.idle.notify_all();
            let late = self.come.wait_for(&mut queue, IDLE).timed_out();
            queue.free -= 1;
            if late && queue.work.is_empty() {
                queue.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn work_that_waits_for_other_work_does_not_keep_it_from_being_done() {
        let (pool, together) = (Pool::default(), Arc::new(Barrier::new(33)));
        for _ in 0..32 {
            let together = together.clone();
            pool.run(move || {
                together.wait();
            });
        }
        together.wait();
    }

    #[test]
    fn of_many_calls_no_more_are_done_at_a_time_than_there_are_threads_for() {
        let (pool, done) = (Pool::default(), Arc::new((Mutex::new(0), Condvar::new())));
        let go_on = Arc::new(Barrier::new(CALL_THREADS_MAX + 1));
        for n in 0..3 * CALL_THREADS_MAX {
            let (done, go_on) = (done.clone(), go_on.clone());
            pool.run_write(move || {
                if n < CALL_THREADS_MAX {
                    go_on.wait();
                }
                *done.0.lock() += 1;
                done.1.notify_all();
            });
        }
        assert_eq!(pool.writes.queue.lock().threads, CALL_THREADS_MAX);
        // Writes that wait keep no other call from being done.
        let (told, come) = std::sync::mpsc::channel();
        pool.run(move || told.send(()).unwrap());
        come.recv().unwrap();
        go_on.wait();
        let mut count = done.0.lock();
        while *count < 3 * CALL_THREADS_MAX {
            done.1.wait(&mut count);
        }
    }

    #[test]
    fn a_pool_is_idle_when_all_work_is_done() {
        let (pool, go_on) = (Pool::default(), Arc::new(Barrier::new(2)));
        let after = |time| Instant::now() + Duration::from_millis(time);
        assert!(pool.wait_idle(after(0)));
        let waits = go_on.clone();
        pool.run(move || {
            waits.wait();
        });
        assert!(!pool.wait_idle(after(10)));
        go_on.wait();
        assert!(pool.wait_idle(after(100_000)));
    }

    #[test]
    fn deferred_work_is_done_by_few_threads() {
        let (pool, begun) = (Pool::default(), Arc::new((Mutex::new((0, 0)), Condvar::new())));
        let go_on = Arc::new(Barrier::new(DEFERRED_THREADS_MAX + 1));
        for n in 0..100 {
            let (begun, go_on) = (begun.clone(), go_on.clone());
            pool.defer(move || {
                let now = {
                    let mut counts = begun.0.lock();
                    counts.0 += 1;
                    counts.1 += 1;
                    counts.0
                };
                assert!(now <= DEFERRED_THREADS_MAX);
                if n < DEFERRED_THREADS_MAX {
                    go_on.wait();
                }
                begun.0.lock().0 -= 1;
                begun.1.notify_all();
            });
        }
        assert!(pool.deferred.queue.lock().threads <= DEFERRED_THREADS_MAX);
        go_on.wait();
        let mut counts = begun.0.lock();
        while *counts != (0, 100) {
            begun.1.wait(&mut counts);
        }
    }
}
