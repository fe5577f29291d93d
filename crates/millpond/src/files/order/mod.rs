//! How far a log is durable, and the pages that wait for it: no page goes to its file before the log record that it
//! depends on.
//!
//! ```text
//!   PageMut::set_order(n) ──► Held: page → n, while it is dirty and n is not durable
//!                                │ the flusher meets the page: it stays dirty, and the log is asked for n
//!                                ▼
//!   LogOrder::advance(n) ──► durable ──► the caches that wait for it look again, at once
//!                                ▲
//!   the callback, on a thread of its own: "durable up to n, please" ──► Ok(n)
//! ```
//!
//! Advancing is one atomic maximum, and a wake-up if a thread waits. A waiting thread sets a flag first and
//! then looks again (`is_durable`), so no wake-up is lost. A [`LogOrder`] belongs to a log, not to a file or
//! a cache: all files whose pages depend on records of one log are opened with clones of it.
//!
//! The callback has its own thread, because it may take as long as a disk takes and may use the cache itself (the log
//! can be one of its files): the cache's thread would wait for itself.

mod flush;
mod held;

pub(crate) use held::{FRAME_ORDER_BYTES, Held};

use crate::sys::forks::Maker;
use flush::Asked;
pub(crate) use flush::is_callback;
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The durable position of a log. A page with an order ([`PageMut::set_order`]) is written to its file only after the
/// log is durable up to that order. Clones refer to the same log.
///
/// The log chooses its record numbers, usually byte positions; later records must have larger numbers.
///
/// The example `log_before_page` (`crates/millpond/examples`) is a whole store of this kind: log, pages, recovery.
///
/// ```
/// use millpond::{LogOrder, OpenOptions, PageCache};
/// # let folder = tempfile::tempdir()?;
/// # let (path, log_path) = (folder.path().join("pages"), folder.path().join("log"));
/// let mut log = std::fs::File::create(log_path)?;
/// let durable = LogOrder::new();
///
/// let cache = PageCache::builder().build()?;
/// let pages = cache.open(&path, OpenOptions::new().create(true).log(&durable))?;
/// pages.set_len(8192)?;
///
/// std::io::Write::write_all(&mut log, b"page 1 begins with P")?; // the record, up to byte 20
/// let mut page = pages.page_mut(1)?;
/// page[0] = b'P';
/// page.set_order(20)?; // not to its file before byte 20 of the log is durable
/// drop(page);
///
/// log.sync_data()?;
/// durable.advance(20);
/// pages.sync_data()?; // would wait for that
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`PageMut::set_order`]: crate::PageMut::set_order
pub struct LogOrder {
    log: Arc<Log>,
}

/// A cache with pages that wait for a log.
pub(crate) trait Follower: Send + Sync {
    /// The log has advanced.
    fn log_moved(&self);
    /// It could not be made durable: callers that wait for pages which need it get the error.
    fn log_refused(&self);
}

/// The state shared by users' handles and files.
pub(crate) struct Log {
    state: Arc<State>,
    /// Users' handles.
    users: AtomicUsize,
    /// Users' handles, and files that are not closed yet. When the last of them goes, the callback's thread ends.
    holders: AtomicUsize,
    maker: Maker,
}

/// The state shared with the callback's thread, too.
struct State {
    durable: AtomicU64,
    /// Something waits for the log to advance.
    is_awaited: AtomicBool,
    asked: Mutex<Asked>,
    /// The log has advanced, or a call has ended.
    moved: Condvar,
    /// More was asked for.
    more: Condvar,
    caches: Mutex<Vec<Weak<dyn Follower>>>,
}

impl LogOrder {
    /// Creates a log that is durable up to record 0. The program that makes records durable calls
    /// [`LogOrder::advance`]. The cache cannot request it, so a sync waits until it happens.
    pub fn new() -> LogOrder {
        LogOrder::of(Asked::default())
    }

    /// Creates a log that the cache can ask to become durable. `flush(n)` makes everything up to record `n` durable and
    /// returns the record up to which the log is durable, which may be larger. If it is smaller, the cache waits for
    /// [`LogOrder::advance`]. The returned record counts as a call of [`LogOrder::advance`], which may also be called
    /// directly at any time.
    ///
    /// The cache calls `flush` when a sync needs it, when too much memory is dirty, when reclaim or age requires
    /// writing a page, and when the last handle of a file is dropped. A single thread, started here, makes all calls
    /// one after the other. `flush` may block, and may use the cache, but not the files that wait for this log. A sync
    /// of such a file fails there, and if its last handle is dropped there, another thread closes it. `flush` must not
    /// wait for a thread that is inside a call of the cache, because that thread may be waiting for the log, or for a
    /// page that writeback keeps stable until the log advances.
    ///
    /// Dropping the last of this log's handles and files waits for a running call, unless it happens in the callback
    /// itself. No call begins afterwards.
    ///
    /// If `flush` fails, all threads that wait for it get the error as [`Error::Log`](crate::Error::Log), and the pages
    /// remain dirty. The next sync calls it again at once, background writeback after a second.
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup) if the system gives no thread.
    ///
    /// ```
    /// use millpond::LogOrder;
    /// # let folder = tempfile::tempdir()?;
    /// # let log = std::fs::File::create(folder.path().join("log"))?;
    /// let durable = LogOrder::with_flush(move |_| {
    ///     let end = log.metadata()?.len(); // records are numbered by where they end
    ///     log.sync_data()?;
    ///     Ok(end)
    /// })?;
    /// assert_eq!(durable.durable(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_flush(
        flush: impl FnMut(u64) -> io::Result<u64> + Send + 'static,
    ) -> crate::error::Result<LogOrder> {
        let order = LogOrder::of(Asked::with_flush());
        flush::start(&order.log.state, flush).map_err(|source| crate::Error::Setup {
            what: "starting the log's thread",
            source,
        })?;
        Ok(order)
    }

    fn of(asked: Asked) -> LogOrder {
        let state = State {
            durable: AtomicU64::new(0),
            is_awaited: AtomicBool::new(false),
            asked: Mutex::new(asked),
            moved: Condvar::new(),
            more: Condvar::new(),
            caches: Mutex::default(),
        };
        let log = Log {
            state: Arc::new(state),
            users: AtomicUsize::new(1),
            holders: AtomicUsize::new(1),
            maker: Maker::this(),
        };
        LogOrder { log: Arc::new(log) }
    }

    /// Declares that everything up to record `n` is durable and remains so. A number smaller than before has no effect.
    /// Takes no lock unless a thread waits for the log.
    pub fn advance(&self, n: u64) {
        self.log.state.advance(n);
    }

    /// Returns the record up to which the log is durable.
    pub fn durable(&self) -> u64 {
        self.log.durable()
    }

    /// Returns the largest record up to which the cache has asked the log to be durable. Logs without a callback can
    /// poll this.
    pub fn wanted(&self) -> u64 {
        self.log.state.asked.lock().most_wanted()
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }
}

impl Default for LogOrder {
    fn default() -> Self {
        LogOrder::new()
    }
}

impl Clone for LogOrder {
    fn clone(&self) -> Self {
        self.log.users.fetch_add(1, Ordering::Relaxed);
        self.log.enter();
        LogOrder {
            log: self.log.clone(),
        }
    }
}

impl Drop for LogOrder {
    fn drop(&mut self) {
        // In a forked child no thread waits for it.
        if self.log.users.fetch_sub(1, Ordering::AcqRel) == 1 && !self.log.maker.is_another() {
            // The threads that wait may wait in vain now.
            self.log.state.announce();
            self.log.state.refused();
        }
        self.log.leave();
    }
}

impl fmt::Debug for LogOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogOrder(durable up to {})", self.durable())
    }
}

impl Log {
    /// One more has it.
    fn enter(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    /// One less. After the last the callback is neither called nor under way: what it uses may go. Only to the callback
    /// itself, which may drop the last, this does not apply. Not left to the end of the last [`Arc`], which the engine's
    /// own threads have now and then.
    fn leave(&self) {
        if self.holders.fetch_sub(1, Ordering::AcqRel) > 1 || self.maker.is_another() {
            return;
        }
        let mut asked = self.state.asked.lock();
        asked.stop();
        self.state.more.notify_all();
        if !self.is_own_callback() {
            self.state.moved.wait_while(&mut asked, |asked| asked.is_busy());
        }
    }

    pub(crate) fn durable(&self) -> u64 {
        self.state.durable.load(Ordering::SeqCst)
    }

    /// Whether the cache can have the log made durable.
    pub(crate) fn can_flush(&self) -> bool {
        self.state.asked.lock().can_flush()
    }

    /// Whether record `n` is durable. If not, the asking thread is woken when the log advances.
    pub(crate) fn is_durable(&self, n: u64) -> bool {
        self.state.is_durable(n)
    }

    /// From now on the cache is notified when the log has advanced.
    pub(crate) fn join(&self, cache: Weak<dyn Follower>) {
        let mut caches = self.state.caches.lock();
        caches.retain(|other| other.strong_count() > 0);
        if !caches
            .iter()
            .any(|other| std::ptr::addr_eq(other.as_ptr(), cache.as_ptr()))
        {
            caches.push(cache);
        }
    }

    /// Asks for record `n` to be durable, without waiting and not more than once a second after a failure.
    pub(crate) fn ask(&self, n: u64) {
        if self.state.asked.lock().ask(n, false) {
            self.state.more.notify_all();
        }
    }

    /// How many calls of the callback have begun: the argument of [`Log::refused_since`].
    pub(crate) fn calls(&self) -> u64 {
        self.state.asked.lock().calls()
    }

    /// The error of the last call of the callback, if it began after the first `calls`; or that no handle is
    /// left that could advance the log.
    pub(crate) fn refused_since(&self, calls: u64) -> Option<io::Error> {
        self.refusal(&self.state.asked.lock(), calls)
    }

    fn refusal(&self, asked: &Asked, calls: u64) -> Option<io::Error> {
        asked.refused_since(calls).or_else(|| {
            let is_alone = !asked.can_flush() && self.users.load(Ordering::Acquire) == 0;
            is_alone.then(|| io::Error::new(io::ErrorKind::BrokenPipe, ALONE))
        })
    }

    /// Whether the calling thread is the callback's, so it can't wait for the log.
    pub(crate) fn is_own_callback(&self) -> bool {
        flush::is_callback_of(&self.state)
    }

    /// # Errors
    /// If the calling thread is that of the callback.
    pub(crate) fn check_caller(&self) -> io::Result<()> {
        match self.is_own_callback() {
            false => Ok(()),
            true => Err(io::Error::new(io::ErrorKind::Deadlock, OWN)),
        }
    }

    /// Asks for record `n` to be durable and waits until it is, or `give_up`, which is asked every second.
    ///
    /// # Errors
    /// The error is the callback's, or says that no handle is left that could advance the log, or that the
    /// callback itself asks. `give_up` is no error.
    pub(crate) fn wait(&self, n: u64, give_up: impl Fn() -> bool) -> io::Result<()> {
        if self.state.is_durable(n) {
            return Ok(());
        }
        self.check_caller()?;
        let mut asked = self.state.asked.lock();
        let calls = asked.calls_before(n);
        if asked.ask(n, true) {
            self.state.more.notify_all();
        }
        while !self.state.is_durable(n) && !give_up() {
            if let Some(refusal) = self.refusal(&asked, calls) {
                return Err(refusal);
            }
            self.state.moved.wait_for(&mut asked, Duration::from_secs(1));
        }
        Ok(())
    }
}

const OWN: &str =
    "the log's own callback asked for this, and would wait for itself: sync files of this log elsewhere";

const ALONE: &str =
    "every LogOrder of its log was dropped, and there is no callback, so nothing can report it durable";

impl State {
    fn advance(&self, n: u64) {
        if self.durable.fetch_max(n, Ordering::SeqCst) < n && self.is_awaited.swap(false, Ordering::SeqCst) {
            self.announce();
        }
    }

    fn is_durable(&self, n: u64) -> bool {
        let is_there = || self.durable.load(Ordering::SeqCst) >= n;
        if is_there() {
            return true;
        }
        // In this order: a thread that advances the log afterwards sees the flag, and one that did so
        // before is seen.
        self.is_awaited.store(true, Ordering::SeqCst);
        is_there()
    }

    /// Wakes all threads that wait for the log.
    fn announce(&self) {
        // A waiting thread holds this until it sleeps.
        drop(self.asked.lock());
        self.moved.notify_all();
        self.caches().iter().for_each(|cache| cache.log_moved());
    }

    /// Tells the threads that wait for pages, and not for the log itself, that it can't be made
    /// durable.
    fn refused(&self) {
        self.caches().iter().for_each(|cache| cache.log_refused());
    }

    fn caches(&self) -> Vec<Arc<dyn Follower>> {
        self.caches.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
