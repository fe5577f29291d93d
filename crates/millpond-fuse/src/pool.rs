//! Threads for what takes long, so that those who answer the kernel are there for reads that take microseconds.
//!
//! A thread is made when there is work and none is free, and ends when it had nothing to do for a while. There is no
//! limit: each piece of work is a call of some program that waits for it.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A thread without work ends after this.
const IDLE: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

#[derive(Clone, Default)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    come: Condvar,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    free: usize,
}

impl Pool {
    /// Does `work` on some thread, or on this one if the system gives none.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.queue.lock();
        queue.work.push_back(Box::new(work));
        if queue.free >= queue.work.len() {
            self.shared.come.notify_one();
            return;
        }
        drop(queue);
        let shared = self.shared.clone();
        let made = thread::Builder::new()
            .name("millpond-slow".into())
            .spawn(move || shared.serve());
        if made.is_err() {
            let work = self.shared.queue.lock().work.pop_front();
            work.into_iter().for_each(|work| work());
        }
    }
}

impl Shared {
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
}
