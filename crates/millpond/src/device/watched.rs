//! The watchdog: reports long waits for a device, repeatedly, until they end.
//!
//! ```text
//!   a call or a transfer begins ──► noted, with its file, pages and time ──► ends: forgotten
//!                                       │ `limit` later, and after 2, 4, 8 ... times as long
//!                                       ▼
//!                                    a Warning to the hook, or to standard error
//! ```
//!
//! It wraps every device of a cache, so that it sees every request: transfers, syncs, changes of a length, holes. The
//! reaper checks when its wait ends, which is timed for that. Threads that wait for a sync or a frame check too, in
//! case the reaper itself hangs. Noting a call takes a lock and a map entry, besides at least one system call. Nothing
//! is checked before the first limit could have passed.

use super::figures::{Counted, DeviceFigures, Figures};
use super::waits::Waits;
use super::warning::Warning;
use super::{Completion, Device, DeviceFacts, DeviceFile, DeviceLoad, Op, Request};
use crate::host::hook::{Hook, Teller};
use crate::sys::clock::Watch;
use millpond_core::io::Reason;
use millpond_core::units::{Nanos, PageSize};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The operation requested from a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Asked {
    /// Read pages.
    Read,
    /// Write pages.
    Write,
    /// Make completed writes durable.
    Sync,
    /// Change the file's length.
    SetLen,
    /// Zero a range of the file.
    Punch,
    /// Allocate blocks for a range of the file.
    Allocate,
}

/// A device with its watchdog.
pub(crate) struct Watched {
    inner: Arc<dyn Device>,
    page_size: PageSize,
    hook: Teller<Warning>,
    pub(super) waits: Waits,
    watch: Watch,
    /// The time before the first warning, in nanoseconds.
    limit_ns: AtomicU64,
    /// The time of the next check, in nanoseconds of the watchdog's clock: no later than the next warning is due.
    look_at_ns: AtomicU64,
    warnings: AtomicU64,
    noted: Mutex<Noted>,
}

/// Transfers and calls that can be noted without allocating: no queue is longer, and few processes have more threads.
const TRANSFERS: usize = 1024;
const CALLS: usize = 64;

struct Noted {
    /// Submitted transfers, by token.
    submitted: HashMap<u64, Entry>,
    /// Calls that threads wait in, by number.
    calls: HashMap<u64, Entry>,
    next: u64,
    figures: Figures,
}

struct Entry {
    path: Arc<str>,
    pages: Option<Range<u64>>,
    counted: Counted,
    /// The number of warnings.
    warned: u32,
}

impl Entry {
    fn due_ns(&self, limit_ns: u64) -> u64 {
        due_ns(self.counted.began_ns, limit_ns, self.warned)
    }

    /// The time of the first warning.
    #[cfg(feature = "control")]
    fn due_ns_first(&self, limit_ns: u64) -> u64 {
        due_ns(self.counted.began_ns, limit_ns, 0)
    }

    fn warning(&self, now_ns: u64) -> Warning {
        Warning::Overdue {
            path: PathBuf::from(&*self.path),
            asked: self.counted.asked,
            reason: self.counted.reason,
            pages: self.pages.clone(),
            waited: Duration::from_nanos(now_ns.saturating_sub(self.counted.began_ns)),
        }
    }
}

/// Returns when the next warning is due for something that began at `began_ns` and has had this many warnings.
pub(super) fn due_ns(began_ns: u64, limit_ns: u64, warned: u32) -> u64 {
    let factor = 1_u64.checked_shl(warned).unwrap_or(u64::MAX);
    began_ns.saturating_add(limit_ns.saturating_mul(factor))
}

/// A call in progress.
struct Call<'a> {
    watched: &'a Watched,
    number: u64,
    /// Counts as an error unless the call reports success.
    is_error: bool,
}

impl Call<'_> {
    /// Records the result of the call.
    fn with<T>(mut self, result: io::Result<T>) -> io::Result<T> {
        self.is_error = result.is_err();
        result
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let now_ns = self.watched.now_ns();
        let Noted { calls, figures, .. } = &mut *self.watched.noted.lock();
        if let Some(entry) = calls.remove(&self.number) {
            figures.ended(&entry.counted, now_ns, self.is_error);
        }
    }
}

impl Watched {
    pub(crate) fn new(
        inner: Arc<dyn Device>,
        page_size: PageSize,
        limit: Nanos,
        hook: Hook<Warning>,
    ) -> Watched {
        Watched {
            inner,
            page_size,
            hook: Teller::new(hook),
            waits: Waits::default(),
            watch: Watch::new(),
            limit_ns: AtomicU64::new(limit.0),
            look_at_ns: AtomicU64::new(u64::MAX),
            warnings: AtomicU64::new(0),
            noted: Mutex::new(Noted {
                submitted: HashMap::with_capacity(TRANSFERS),
                calls: HashMap::with_capacity(CALLS),
                next: 0,
                figures: Figures::default(),
            }),
        }
    }

    /// Changes the limit, including for requests in progress.
    pub(crate) fn set_limit(&self, limit: Nanos) {
        self.limit_ns.store(limit.0, Ordering::Relaxed);
        self.look_at_ns.store(0, Ordering::Relaxed);
        self.inner.wake();
    }

    /// Returns the number of warnings so far.
    pub(crate) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Relaxed)
    }

    /// Returns the figures of each device. Takes the lock that each transfer takes.
    pub(crate) fn figures(&self) -> Vec<DeviceFigures> {
        let now_ns = self.now_ns();
        self.noted.lock().figures.list(now_ns)
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.watch.now_ns()
    }

    fn entry(
        &self,
        file: &DeviceFile,
        asked: Asked,
        reason: Option<Reason>,
        bytes: Option<Range<u64>>,
    ) -> Entry {
        let shift = self.page_size.shift();
        let size = self.page_size.bytes();
        Entry {
            path: file.shared_name(),
            counted: Counted {
                at: file.identity(),
                asked,
                reason,
                bytes: bytes.as_ref().map_or(0, |b| b.end - b.start),
                began_ns: self.now_ns(),
            },
            pages: bytes.map(|b| b.start >> shift..b.end.div_ceil(size)),
            warned: 0,
        }
    }

    fn entry_of(&self, request: &Request) -> Entry {
        let asked = match request.op {
            Op::Read => Asked::Read,
            Op::Write => Asked::Write,
        };
        let end = request.offset.saturating_add(request.segments.bytes() as u64);
        self.entry(&request.file, asked, request.reason, Some(request.offset..end))
    }

    /// Makes sure that what began at `began_ns` is checked in time.
    pub(super) fn look_in_time(&self, began_ns: u64) {
        let at = began_ns.saturating_add(self.limit_ns.load(Ordering::Relaxed));
        // Usually an earlier check is due, for something that began before.
        if at < self.look_at_ns.load(Ordering::Relaxed)
            && at < self.look_at_ns.fetch_min(at, Ordering::Relaxed)
        {
            self.inner.wake();
        }
    }

    fn call(&self, entry: Entry) -> Call<'_> {
        let began_ns = entry.counted.began_ns;
        let mut noted = self.noted.lock();
        noted.figures.begun(&entry.counted);
        noted.next += 1;
        let number = noted.next;
        noted.calls.insert(number, entry);
        drop(noted);
        self.look_in_time(began_ns);
        Call {
            watched: self,
            number,
            is_error: true,
        }
    }

    /// Returns how many requests the device has not answered within the limit, and the one that has waited longest.
    #[cfg(feature = "control")]
    pub(crate) fn overdue(&self) -> Option<(usize, Warning)> {
        let (now, limit) = (self.now_ns(), self.limit_ns.load(Ordering::Relaxed));
        let noted = self.noted.lock();
        let waiting = noted.submitted.values().chain(noted.calls.values());
        let overdue = waiting.filter(|entry| entry.due_ns_first(limit) <= now);
        let (count, longest) = overdue.fold((0, None::<&Entry>), |(count, longest), entry| {
            let is_longer = longest.is_none_or(|longest| entry.counted.began_ns < longest.counted.began_ns);
            (count + 1, if is_longer { Some(entry) } else { longest })
        });
        longest.map(|entry| (count, entry.warning(now)))
    }

    /// Issues due warnings, if it is time to check.
    pub(crate) fn look(&self) {
        let now = self.now_ns();
        if self.look_at_ns.load(Ordering::Relaxed) > now {
            return;
        }
        let limit = self.limit_ns.load(Ordering::Relaxed);
        let mut warnings = Vec::new();
        {
            let mut noted = self.noted.lock();
            // Before checking the entries: whatever begins from now on sees that a check is due, or asks for one.
            self.look_at_ns.store(u64::MAX, Ordering::Relaxed);
            let mut next = u64::MAX;
            let Noted { submitted, calls, .. } = &mut *noted;
            for entry in submitted.values_mut().chain(calls.values_mut()) {
                if entry.due_ns(limit) <= now {
                    warnings.push(entry.warning(now));
                }
                while entry.due_ns(limit) <= now {
                    entry.warned += 1;
                }
                next = next.min(entry.due_ns(limit));
            }
            next = next.min(self.waits.look(limit, now, &mut warnings));
            self.look_at_ns.fetch_min(next, Ordering::Relaxed);
        }
        for warning in warnings {
            self.warnings.fetch_add(1, Ordering::Relaxed);
            self.hook.tell_soon(warning);
        }
    }
}

impl Watched {
    /// Reports a condition that does not concern the device, and waits until it is reported.
    pub(crate) fn warn(&self, warning: Warning) {
        self.warnings.fetch_add(1, Ordering::Relaxed);
        self.hook.tell(warning);
    }

    /// Queues a condition that need not be reported before the caller continues.
    pub(crate) fn warn_soon(&self, warning: Warning) {
        self.warnings.fetch_add(1, Ordering::Relaxed);
        self.hook.tell_soon(warning);
    }

    /// Stops the hook, so that what it uses may be freed. Waits for running calls, unless the hook itself stops it.
    pub(crate) fn end_of_warnings(&self) {
        self.hook.end();
    }

    /// Sets the action if the hook panics.
    pub(crate) fn if_the_hook_panics(&self, what: impl Fn() + Send + Sync + 'static) {
        self.hook.if_it_panics(what);
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watched {:?}", self.inner)
    }
}

impl Device for Watched {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        let call = self.call(self.entry_of(request));
        call.with(self.inner.transfer(request))
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        let mut began_ns = None;
        {
            let mut noted = self.noted.lock();
            for request in requests.iter() {
                let entry = self.entry_of(request);
                began_ns = began_ns.or(Some(entry.counted.began_ns));
                noted.figures.begun(&entry.counted);
                noted.submitted.insert(request.token, entry);
            }
        }
        if let Some(began_ns) = began_ns {
            self.look_in_time(began_ns);
        }
        self.inner.submit(requests)
    }

    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        let look_at = self.look_at_ns.load(Ordering::Relaxed);
        let until_look = Duration::from_nanos(look_at.saturating_sub(self.now_ns())).min(Watch::EVERY);
        let timeout = match timeout {
            _ if look_at == u64::MAX => timeout,
            None => Some(until_look),
            Some(timeout) => Some(timeout.min(until_look)),
        };
        let before = done.len();
        let waited = self.inner.wait(done, timeout);
        if done.len() > before {
            let now_ns = self.now_ns();
            let Noted {
                submitted, figures, ..
            } = &mut *self.noted.lock();
            for completion in &done[before..] {
                if let Some(entry) = submitted.remove(&completion.token) {
                    figures.ended(&entry.counted, now_ns, completion.result.is_err());
                }
            }
        }
        self.look();
        waited
    }

    fn wake(&self) {
        self.inner.wake();
    }

    fn sync(&self, file: &DeviceFile) -> io::Result<()> {
        let call = self.call(self.entry(file, Asked::Sync, None, None));
        call.with(self.inner.sync(file))
    }

    fn set_len(&self, file: &DeviceFile, len: u64) -> io::Result<()> {
        let call = self.call(self.entry(file, Asked::SetLen, None, None));
        call.with(self.inner.set_len(file, len))
    }

    fn punch(&self, file: &DeviceFile, offset: u64, len: u64) -> io::Result<()> {
        let range = offset..offset.saturating_add(len);
        let call = self.call(self.entry(file, Asked::Punch, None, Some(range)));
        call.with(self.inner.punch(file, offset, len))
    }

    fn allocate(&self, file: &DeviceFile, offset: u64, len: u64) -> io::Result<()> {
        let range = offset..offset.saturating_add(len);
        let call = self.call(self.entry(file, Asked::Allocate, None, Some(range)));
        call.with(self.inner.allocate(file, offset, len))
    }

    fn facts(&self, file: &DeviceFile) -> DeviceFacts {
        self.inner.facts(file)
    }

    fn load(&self, file: &DeviceFile) -> DeviceLoad {
        self.inner.load(file)
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.inner)
    }

    fn name(&self) -> &str {
        self.inner.name()
    }
}
