//! Explains where the time of a call went: what it waited for, for how long, and the figures behind that.
//!
//! For calls that are slower than expected. Wrap the call in [`explain()`], and log the explanation if the call took
//! long. A hit costs nothing extra and a wait costs two clock reads, so a service can keep it enabled permanently.
//!
//! ```
//! use millpond::{OpenOptions, PageCache, explain};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("data");
//! let cache = PageCache::builder().build()?;
//! let file = cache.open(&path, OpenOptions::new().create(true))?;
//! let (written, why) = explain(|| file.write_at(&[7; 100_000], 0).and_then(|_| file.sync_data()));
//! written?;
//! if why.took > std::time::Duration::from_millis(10) {
//!     eprintln!("{why}"); // sync waited 12.1 ms: 8.02 ms for the writes, 4.08 ms for the device to keep ...
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! ```text
//!   explain(|| file.write_at(..)) ──► notes on this thread: on ──► the call ──► notes: off ──► Explanation
//!                                            ▲
//!      a miss, a pause, a sync ──────────────┘ each wait adds its time, if there are notes
//! ```
//!
//! Only code that waits checks for notes, and reads the clock only then. A hit passes none of these places, so it costs
//! nothing. A wait without notes costs one read of a thread-local variable.

use crate::observe::events;
use millpond_core::manager::Pressure;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::{Duration, Instant};

/// What a call can wait for. A call waits for one of these at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Wait {
    /// A missing page, read from the device by this call or another.
    Read,
    /// A free frame.
    Frame,
    /// A page, or the length of the file, held by another caller.
    Busy,
    /// The device, to change the length of the file.
    Length,
    /// Fewer dirty pages: the cache throttles threads that dirty pages faster than the device writes them.
    DirtyLimit,
    /// The writes of a sync, until all are complete.
    Writes,
    /// The device, to make completed writes durable.
    Flush,
    /// The log of the file, which must become durable first.
    Log,
}

impl Wait {
    const COUNT: usize = 8;
    const ALL: [Wait; Wait::COUNT] = [
        Wait::Read,
        Wait::Frame,
        Wait::Busy,
        Wait::Length,
        Wait::DirtyLimit,
        Wait::Writes,
        Wait::Flush,
        Wait::Log,
    ];

    fn what(self) -> &'static str {
        match self {
            Wait::Read => "a read from the device",
            Wait::Frame => "a frame",
            Wait::Busy => "a page or a length that is busy",
            Wait::Length => "the device to change the length",
            Wait::DirtyLimit => "the dirty limit",
            Wait::Writes => "the writes",
            Wait::Flush => "the device to keep what it has taken",
            Wait::Log => "the log",
        }
    }
}

/// The kind of call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Call {
    /// A read, with its number of bytes.
    Read(usize),
    /// A write, or a lock of a page for writing, with its number of bytes.
    Write(usize),
    /// A sync.
    Sync,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, bytes) = match *self {
            Call::Read(bytes) => ("read", bytes),
            Call::Write(bytes) => ("write", bytes),
            Call::Sync => return f.write_str("sync"),
        };
        match bytes {
            bytes if bytes < 1024 => write!(f, "{what} of {bytes} B"),
            bytes if bytes < 10 << 20 => write!(f, "{what} of {} KiB", bytes / 1024),
            bytes => write!(f, "{what} of {} MiB", bytes >> 20),
        }
    }
}

/// Where the time of one call went, or of several, by [`explain`]. As text it is one sentence:
/// `write of 41 KiB waited 3.20 ms: 3.20 ms for the dirty limit, 2.90 ms of it held back by admission; dirty 61.0 % of
/// memory over background 50.0 %, in transit 1.00 of 1.00 MiB, read p99 2.40 ms over goal 2.00 ms`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Explanation {
    /// The first call that waited for at least 10 us.
    pub call: Option<Call>,
    /// The last call that announced a possible wait.
    present: Option<Call>,
    /// The total time.
    pub took: Duration,
    waited: [Duration; Wait::COUNT],
    /// The part of its waits for a frame, the dirty limit or its writes in which admission held back the cache's next
    /// write. The rest is due to the device.
    pub held_back: Duration,
    /// The part of the wait for its writes in which the next write was blocked, because a guard held its page or
    /// because its log was behind.
    pub blocked: Duration,
    /// The state of the cache when the first wait for a frame, the dirty limit or writes began.
    pub pressure: Option<Pressure>,
}

impl Explanation {
    /// Returns the time it waited for `wait`.
    pub fn waited(&self, wait: Wait) -> Duration {
        self.waited[wait as usize]
    }

    /// Returns the total time it waited. During the rest of [`took`](Self::took) it ran, or waited for a lock or a
    /// processor.
    pub fn waited_total(&self) -> Duration {
        self.waited.iter().sum()
    }

    fn add(&mut self, inner: &Explanation) {
        self.call = self.call.or(inner.call);
        self.pressure = self.pressure.or(inner.pressure);
        self.held_back += inner.held_back;
        self.blocked += inner.blocked;
        for (own, more) in self.waited.iter_mut().zip(inner.waited) {
            *own += more;
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.waited_total();
        match self.call {
            Some(call) => write!(f, "{call} ")?,
            None => write!(f, "it ")?,
        }
        if total < WORTH_SAYING {
            return write!(f, "took {} and waited for nothing", Millis(self.took));
        }
        write!(f, "waited {}", Millis(total))?;
        let mut waits = Wait::ALL;
        waits.sort_by_key(|&wait| std::cmp::Reverse(self.waited(wait)));
        for (n, wait) in waits.into_iter().enumerate() {
            let waited = self.waited(wait);
            if waited >= WORTH_SAYING {
                let before = if n == 0 { ": " } else { ", " };
                write!(f, "{before}{} for {}", Millis(waited), wait.what())?;
            }
        }
        if self.held_back >= WORTH_SAYING {
            write!(f, ", {} of it held back by admission", Millis(self.held_back))?;
        }
        if self.blocked >= WORTH_SAYING {
            write!(
                f,
                ", {} of it for pages that were busy or blocked by their log",
                Millis(self.blocked)
            )?;
        }
        let rest = self.took.saturating_sub(total);
        if rest >= WORTH_SAYING && rest > self.took / 10 {
            write!(
                f,
                "; for another {} it was working, or waiting for a lock or a processor",
                Millis(rest)
            )?;
        }
        match &self.pressure {
            Some(pressure) => write!(f, "; {pressure}"),
            None => Ok(()),
        }
    }
}

/// The shortest wait that the text mentions.
const WORTH_SAYING: Duration = Duration::from_micros(10);

struct Millis(Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ms", self.0.as_secs_f64() * 1e3)
    }
}

thread_local! {
    static HAS_NOTES: Cell<bool> = const { Cell::new(false) };
    static NOTES: RefCell<Option<Box<Explanation>>> = const { RefCell::new(None) };
}

/// Runs `call` on this thread and reports where its time went: what the calls of any cache in it waited for. Best used
/// around a single call. Work by other threads, such as a log's callback, appears as the wait for them.
///
/// Costs two clock reads (about 50 ns) and one allocation, whether or not the call waits. Calls outside it pay nothing.
///
/// ```
/// use millpond::{OpenOptions, PageCache, explain};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let cache = PageCache::builder().memory(64 << 20).build()?;
/// let file = cache.open(&path, OpenOptions::new().create(true))?;
/// file.write_at(&[7; 41 << 10], 0)?;
///
/// let (synced, why) = explain(|| file.sync_data());
/// synced?;
/// println!("{why}"); // sync waited 4.10 ms: 3.00 ms for the device to keep what it has taken, 1.10 ms for the writes; ...
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn explain<T>(call: impl FnOnce() -> T) -> (T, Explanation) {
    struct Off(Option<Box<Explanation>>);
    impl Drop for Off {
        fn drop(&mut self) {
            let mut outer = self.0.take();
            HAS_NOTES.set(outer.is_some());
            NOTES.with_borrow_mut(|notes| {
                if let (Some(outer), Some(inner)) = (&mut outer, notes.take()) {
                    outer.add(&inner);
                }
                *notes = outer;
            });
        }
    }
    let began = Instant::now();
    let off = Off(NOTES.replace(Some(Box::default())));
    HAS_NOTES.set(true);
    let result = call();
    let took = began.elapsed();
    let mut explanation = NOTES
        .with_borrow(|notes| notes.as_deref().cloned())
        .unwrap_or_default();
    explanation.took = took;
    drop(off);
    (result, explanation)
}

fn note(what: impl FnOnce(&mut Explanation)) {
    NOTES.with_borrow_mut(|notes| {
        if let Some(notes) = notes {
            what(notes);
        }
    });
}

/// Names the call that is about to wait, or may wait.
pub(crate) fn waits_in(call: Call) {
    if HAS_NOTES.get() {
        note(|notes| notes.present = Some(call));
    }
}

/// Waits by calling `wait_for`, and notes the time.
pub(crate) fn timed<T>(wait: Wait, wait_for: impl FnOnce() -> T) -> T {
    let is_told = events::wants_stalls();
    if !HAS_NOTES.get() && !is_told {
        return wait_for();
    }
    let began = Instant::now();
    let result = wait_for();
    let waited = began.elapsed();
    if is_told {
        events::waited(wait, waited);
    }
    note(|notes| {
        notes.waited[wait as usize] += waited;
        if waited >= WORTH_SAYING {
            notes.call = notes.call.or(notes.present);
        }
    });
    result
}

/// The figures that explain a wait for writes, before and after it.
#[derive(Clone)]
pub(crate) struct WriteFigures {
    /// The total time for which admission has held back writes.
    pub(crate) held_back_ns: u64,
    /// The total time for which syncs were blocked.
    pub(crate) blocked_ns: u64,
    pub(crate) pressure: Pressure,
}

/// As [`timed`], for waits for writes: calls `figures` before and after, if there are notes.
pub(crate) fn timed_writes<T>(
    wait: Wait,
    figures: impl Fn() -> WriteFigures,
    wait_for: impl FnOnce() -> T,
) -> T {
    if !HAS_NOTES.get() {
        return timed(wait, wait_for);
    }
    let before = figures();
    let result = timed(wait, wait_for);
    let after = figures();
    note(|notes| {
        notes.pressure = notes.pressure.or(Some(before.pressure));
        notes.held_back += Duration::from_nanos(after.held_back_ns.saturating_sub(before.held_back_ns));
        if wait == Wait::Writes {
            notes.blocked += Duration::from_nanos(after.blocked_ns.saturating_sub(before.blocked_ns));
        }
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_core::units::{Bytes, Nanos, PageCount};

    #[test]
    fn the_text_says_what_came_to_most_first_and_what_explains_it() {
        let mut why = Explanation {
            call: Some(Call::Write(41 << 10)),
            held_back: Duration::from_micros(2_900),
            pressure: Some(Pressure {
                frames: PageCount(1000),
                unclean: PageCount(610),
                background: PageCount(500),
                in_transit: Bytes::from_mib(1),
                in_transit_limit: Some(Bytes::from_mib(1)),
                read_p99: Some(Nanos::from_micros(2_400)),
                read_goal: Some(Nanos::from_millis(2)),
            }),
            ..Explanation::default()
        };
        why.waited[Wait::Frame as usize] = Duration::from_micros(200);
        why.waited[Wait::DirtyLimit as usize] = Duration::from_micros(3_000);
        why.waited[Wait::Busy as usize] = Duration::from_micros(3);
        assert_eq!(
            why.to_string(),
            "write of 41 KiB waited 3.20 ms: 3.00 ms for the dirty limit, 0.20 ms for a frame, 2.90 ms of it held back by \
             admission; dirty 61.0 % of memory over background 50.0 %, in transit 1.00 of 1.00 MiB, read p99 2.40 ms over \
             goal 2.00 ms"
        );
    }

    #[test]
    fn time_that_no_wait_explains_is_reported_from_a_tenth_on() {
        let mut why = Explanation {
            call: Some(Call::Read(4096)),
            took: Duration::from_millis(21),
            ..Explanation::default()
        };
        why.waited[Wait::Read as usize] = Duration::from_millis(1);
        assert_eq!(
            why.to_string(),
            "read of 4 KiB waited 1.00 ms: 1.00 ms for a read from the device; for another 20.00 ms it was working, or waiting for \
             a lock or a processor"
        );
        why.waited[Wait::Read as usize] = Duration::from_millis(20);
        assert!(why.to_string().ends_with("a read from the device"), "{why}");
    }

    #[test]
    fn a_call_without_waits_says_so() {
        let ((), why) = explain(|| ());
        assert!(why.to_string().ends_with("and waited for nothing"), "{why}");
        assert_eq!((why.call, why.waited_total()), (None, Duration::ZERO));
    }

    #[test]
    fn an_inner_explanation_counts_outside_too_and_nothing_after_it() {
        let wait = || timed(Wait::Log, || std::hint::black_box((0..1000).sum::<u64>()));
        let ((_, inner), outer) = explain(|| {
            wait();
            explain(wait)
        });
        assert!(inner.waited(Wait::Log) > Duration::ZERO);
        assert!(outer.waited(Wait::Log) > inner.waited(Wait::Log), "{outer:?}");
        wait();
        assert!(NOTES.with_borrow(Option::is_none) && !HAS_NOTES.get());
        let panicked = std::panic::catch_unwind(|| explain(|| panic!("in the call")).1);
        assert!(panicked.is_err());
        assert!(NOTES.with_borrow(Option::is_none) && !HAS_NOTES.get());
    }
}
