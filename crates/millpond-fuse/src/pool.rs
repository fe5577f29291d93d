//! Threads for what takes long, so that those that answer the kernel are there for reads that take microseconds.
//!
//! A thread is made when there is work and none is free, and ends when it had nothing to do for a while. For the calls of
//! programs there is no limit: each of them waits for its answer. Deferred work, such as the eviction of files that the
//! kernel has forgotten, many at a time, has a queue of its own and few threads.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A thread without work ends after this.
const IDLE: Duration = Duration::from_secs(10);

/// Threads for deferred work: more than one, since one may be waiting for the kernel, another for the disk.
const DEFERRED_THREADS_MAX: usize = 4;

type Work = Box<dyn FnOnce() + Send>;

#[derive(Clone)]
pub(crate) struct Pool {
    calls: Arc<Workers>,
    deferred: Arc<Workers>,
}

struct Workers {
    queue: Mutex<Queue>,
    /// Work has come.
    come: Condvar,
    threads_max: usize,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    threads: usize,
    free: usize,
}

impl Default for Pool {
    fn default() -> Pool {
        let workers = |threads_max| {
            Arc::new(Workers {
                queue: Mutex::default(),
                come: Condvar::default(),
                threads_max,
            })
        };
        Pool {
            calls: workers(usize::MAX),
            deferred: workers(DEFERRED_THREADS_MAX),
        }
    }
}

impl Pool {
    /// Does `work`, for which a program waits, on some thread, or on this one if the system gives none.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) {
        if !self.calls.push(Box::new(work)) {
            let work = self.calls.queue.lock().work.pop_front();
            work.into_iter().for_each(|work| work());
        }
    }

    /// Does `work` on some other thread, soon. If the system gives no thread it waits until there is one.
    pub(crate) fn defer(&self, work: impl FnOnce() + Send + 'static) {
        self.deferred.push(Box::new(work));
    }
}

impl Workers {
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
            self.queue.lock().threads -= 1;
        }
        made.is_ok()
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
