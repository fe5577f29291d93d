//! The hook for conditions that no call fails for: a user's function, or one that prints a line on standard error.
//!
//! ```text
//!   any thread, also the cache's own ──► queue ──► a thread that is there while something is queued ──► the hook
//! ```
//!
//! A condition found on a thread that others wait for is reported by another thread, so that the hook may use the cache
//! like any program. If the first thread reported it, it could end up waiting for itself.

use crate::sys::threads;
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;

/// The maximum number of queued values. A hook that does not return misses further ones.
const QUEUED_MAX: usize = 1024;

/// How long [`Teller::tell`] waits for a hook. A hook that writes somewhere may take a while, and one that wants what
/// the caller holds never returns.
const TELL_MAX: Duration = Duration::from_secs(10);

thread_local! {
    /// While the thread calls a function that must not use a cache: the address of that cache. Otherwise 0.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Runs a user's `call` that must not use `cache`, because the cache would wait for this thread.
pub(crate) fn inside<C, T>(cache: &C, call: impl FnOnce() -> T) -> T {
    struct Before(usize);
    impl Drop for Before {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _before = Before(INSIDE.replace(std::ptr::from_ref(cache).addr()));
    call()
}

/// # Panics
/// If a call by [`inside`] of this cache is on the stack: it would wait for itself forever.
#[inline]
pub(crate) fn check_outside<C>(cache: &C) {
    assert!(
        INSIDE.get() != std::ptr::from_ref(cache).addr(),
        "a Recorder or a PageCheck has used its own cache, which waits for it: only note the values there, and use the \
         cache elsewhere"
    );
}

/// A listener for values of one type, called on the thread where they occur.
pub(crate) struct Hook<T>(Box<dyn Fn(&T) + Send + Sync>);

impl<T> Hook<T> {
    pub(crate) fn new(listener: impl Fn(&T) + Send + Sync + 'static) -> Hook<T> {
        Hook(Box::new(listener))
    }

    pub(crate) fn tell(&self, value: &T) {
        (self.0)(value);
    }
}

impl<T> fmt::Debug for Hook<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// A hook that a dedicated thread calls, one value at a time.
pub(crate) struct Teller<T> {
    told: Arc<Told<T>>,
}

struct Told<T> {
    hook: Hook<T>,
    queue: Mutex<Queue<T>>,
    moved: Condvar,
    /// The action if the hook panics.
    panicked: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

struct Queue<T> {
    values: VecDeque<T>,
    /// The number of values so far, and the number of those reported.
    queued: u64,
    told: u64,
    thread: Option<ThreadId>,
    has_ended: bool,
}

impl<T: Send + 'static> Teller<T> {
    pub(crate) fn new(hook: Hook<T>) -> Teller<T> {
        let queue = Queue {
            values: VecDeque::new(),
            queued: 0,
            told: 0,
            thread: None,
            has_ended: false,
        };
        let told = Told {
            hook,
            queue: Mutex::new(queue),
            moved: Condvar::new(),
            panicked: OnceLock::new(),
        };
        Teller { told: Arc::new(told) }
    }

    /// Sets the action if the hook panics; only the first one set counts.
    pub(crate) fn if_it_panics(&self, what: impl Fn() + Send + Sync + 'static) {
        let _ = self.told.panicked.set(Box::new(what));
    }

    /// Queues a value for reporting.
    pub(crate) fn tell_soon(&self, value: T) {
        let mut queue = self.told.queue.lock();
        if queue.has_ended || queue.values.len() >= QUEUED_MAX {
            return;
        }
        queue.values.push_back(value);
        queue.queued += 1;
        if queue.thread.is_some() {
            return;
        }
        let told = self.told.clone();
        match threads::spawn("millpond-hook", move || run(&told)) {
            Ok(thread) => queue.thread = Some(thread.thread().id()),
            // Without a thread it is reported here: late would be worse.
            Err(_) => {
                queue.thread = Some(std::thread::current().id());
                drop(queue);
                run(&self.told);
            }
        }
    }

    /// Queues a value and waits until it is reported, for at most ten seconds, because the hook may want what the
    /// caller holds.
    pub(crate) fn tell(&self, value: T) {
        self.tell_soon(value);
        let mut queue = self.told.queue.lock();
        let number = queue.queued;
        if queue.thread != Some(std::thread::current().id()) {
            let is_untold = |queue: &mut Queue<T>| queue.told < number;
            self.told.moved.wait_while_for(&mut queue, is_untold, TELL_MAX);
        }
    }

    /// Stops the hook. Waits for a running call and for queued values. Only a call that itself stops the hook
    /// continues, and is the last.
    pub(crate) fn end(&self) {
        let mut queue = self.told.queue.lock();
        queue.has_ended = true;
        if queue.thread == Some(std::thread::current().id()) {
            queue.told += queue.values.len() as u64;
            queue.values.clear();
            return;
        }
        self.told
            .moved
            .wait_while(&mut queue, |queue| queue.thread.is_some());
    }
}

/// Reports queued values until the queue is empty.
fn run<T>(told: &Told<T>) {
    loop {
        let value = {
            let mut queue = told.queue.lock();
            match queue.values.pop_front() {
                Some(value) => value,
                None => {
                    queue.thread = None;
                    // For the one that waits for the end of all.
                    told.moved.notify_all();
                    return;
                }
            }
        };
        let is_told = catch_unwind(AssertUnwindSafe(|| told.hook.tell(&value))).is_ok();
        // It may have had the last handle of something, whose end is the hook's business too.
        drop(value);
        if !is_told && let Some(panicked) = told.panicked.get() {
            panicked();
        }
        told.queue.lock().told += 1;
        told.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_hook_is_called_on_a_thread_of_its_own_in_order_and_may_tell_more() {
        let (heard, hears) = channel();
        let own: Arc<OnceLock<Teller<u32>>> = Arc::default();
        let teller = own.clone();
        let hook = Hook::new(move |&n: &u32| {
            // From the hook itself it waits for nothing.
            if n < 3
                && let Some(teller) = teller.get()
            {
                teller.tell(n + 1);
            }
            heard.send((n, std::thread::current().id())).unwrap();
        });
        assert!(own.set(Teller::new(hook)).is_ok());
        own.get().unwrap().tell(1);
        for n in 1..=3 {
            let (told, thread) = hears.recv().unwrap();
            assert_eq!(told, n);
            assert_ne!(thread, std::thread::current().id());
        }
    }

    #[test]
    fn a_hook_that_panics_is_known_before_telling_is_over() {
        let teller = Teller::new(Hook::new(|_: &u32| panic!("the hook breaks")));
        let (heard, hears) = channel();
        teller.if_it_panics(move || heard.send(()).unwrap());
        teller.tell(1);
        hears.try_recv().unwrap();
        teller.tell(2);
        hears.try_recv().unwrap();
    }

    /// A program in C frees what its hook uses when the cache is closed.
    #[test]
    fn after_the_end_no_call_is_under_way_and_none_begins() {
        let calls = Arc::new(Mutex::new((0, 0)));
        let (began, begun) = channel();
        let (goes_on, go_on) = channel();
        let (own, go_on) = (calls.clone(), Mutex::new(go_on));
        let teller = Arc::new(Teller::new(Hook::new(move |_: &u32| {
            own.lock().0 += 1;
            began.send(()).unwrap();
            go_on.lock().recv().unwrap();
            own.lock().1 += 1;
        })));
        teller.tell_soon(1);
        teller.tell_soon(2);
        begun.recv().unwrap();
        let ending = teller.clone();
        let ends = std::thread::spawn(move || ending.end());
        while !teller.told.queue.lock().has_ended {
            std::thread::yield_now();
        }
        teller.tell_soon(3);
        assert!(!ends.is_finished());
        goes_on.send(()).unwrap();
        goes_on.send(()).unwrap();
        ends.join().unwrap();
        assert_eq!(*calls.lock(), (2, 2));
        teller.tell(4);
        assert_eq!(*calls.lock(), (2, 2));
    }

    #[test]
    fn a_hook_that_ends_its_teller_does_not_wait_for_itself_and_is_the_last() {
        let own: Arc<OnceLock<Teller<u32>>> = Arc::default();
        let (teller, (heard, hears)) = (own.clone(), channel());
        let hook = Hook::new(move |&n: &u32| {
            if let Some(teller) = teller.get() {
                teller.tell_soon(n + 1);
                teller.end();
            }
            heard.send(n).unwrap();
        });
        assert!(own.set(Teller::new(hook)).is_ok());
        own.get().unwrap().tell(1);
        assert_eq!(hears.recv(), Ok(1));
        own.get().unwrap().end();
        assert!(hears.try_recv().is_err());
    }

    /// The words came after the signal that they were about.
    #[test]
    fn a_reporter_waits_for_a_hook_that_takes_more_than_a_second() {
        let (heard, hears) = channel();
        let teller = Teller::new(Hook::new(move |_: &u32| {
            std::thread::sleep(Duration::from_millis(1200));
            heard.send(()).unwrap();
        }));
        teller.tell(1);
        hears.try_recv().unwrap();
    }
}
