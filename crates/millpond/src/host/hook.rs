//! The hook that is told what no call fails for: a function of the user's, or one that writes a line on
//! standard error.
//!
//! ```text
//!   any thread, also the cache's own ──► queue ──► a thread that is there while something is queued ──► the hook
//! ```
//!
//! What comes up on a thread for which others wait is reported by another thread, so that the hook may use
//! the cache as any program may: a thread that reported it itself could wait for itself.

use crate::sys::threads;
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;

/// Values that wait to be told. A hook that does not return hears of no more.
const QUEUED_MAX: usize = 1024;

/// How long [`Teller::tell`] waits for a hook: one that writes somewhere may take a while, and one that wants what the caller has
/// never returns.
const TELL_MAX: Duration = Duration::from_secs(10);

thread_local! {
    /// The cache in whose hands the thread is, as an address, while it calls what must not use it; 0: none.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Makes `call`, of a user's that must not use `cache`, since what that waits for is this thread.
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
/// In a call by [`inside`] of this cache: it would wait for itself, for ever.
#[inline]
pub(crate) fn check_outside<C>(cache: &C) {
    assert!(
        INSIDE.get() != std::ptr::from_ref(cache).addr(),
        "a Recorder or a PageCheck has used its own cache, which waits for it: let it note what it gets, and use the \
         cache elsewhere"
    );
}

/// One listener for values of one type, on whichever thread they come up.
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

/// A hook that is called on a thread of its own, one value after the other.
pub(crate) struct Teller<T> {
    told: Arc<Told<T>>,
}

struct Told<T> {
    hook: Hook<T>,
    queue: Mutex<Queue<T>>,
    moved: Condvar,
    /// What is done if the hook panics.
    panicked: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

struct Queue<T> {
    values: VecDeque<T>,
    /// Values so far, and those of them that were told.
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

    /// What is to be done if the hook panics; only the first that is given counts.
    pub(crate) fn if_it_panics(&self, what: impl Fn() + Send + Sync + 'static) {
        let _ = self.told.panicked.set(Box::new(what));
    }

    /// Has it told, soon.
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
            // Without a thread it is told here: late is worse.
            Err(_) => {
                queue.thread = Some(std::thread::current().id());
                drop(queue);
                run(&self.told);
            }
        }
    }

    /// Has it told, and waits for that; ten seconds at most, since the hook may want what the caller has.
    pub(crate) fn tell(&self, value: T) {
        self.tell_soon(value);
        let mut queue = self.told.queue.lock();
        let number = queue.queued;
        if queue.thread != Some(std::thread::current().id()) {
            let is_untold = |queue: &mut Queue<T>| queue.told < number;
            self.told.moved.wait_while_for(&mut queue, is_untold, TELL_MAX);
        }
    }

    /// From now on the hook is not called, and no call is under way: it waits for one, and for what is queued. Only a
    /// call that ends it itself goes on, and is the last.
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

/// Tells what is queued, until nothing is.
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
    fn who_tells_waits_for_a_hook_that_takes_more_than_a_second() {
        let (heard, hears) = channel();
        let teller = Teller::new(Hook::new(move |_: &u32| {
            std::thread::sleep(Duration::from_millis(1200));
            heard.send(()).unwrap();
        }));
        teller.tell(1);
        hears.try_recv().unwrap();
    }
}
