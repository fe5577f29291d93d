//! A test device on which chosen transfers fail, stop short, come late or hang.
//!
//! Rules are checked in order, and the first match decides. Random choices come from a seed, so the same calls in the
//! same order meet the same faults.

use millpond::device::{Completion, Device, DeviceFacts, DeviceFile, FileIdentity, Op, Request};
use millpond::units::Ratio;
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What happens to a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The transfer fails with this errno and moves nothing.
    Fail(i32),
    /// The transfer stops after this many bytes: a read as if the file ended there, a write, a punch or an allocation
    /// with `EIO`. A sync just fails.
    Cut(usize),
    /// The transfer is done, but completes this much later.
    Delay(Duration),
    /// The transfer does not start until [`Faulty::release`].
    Hold,
}

/// The requests that a rule applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FaultTarget {
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Syncs, which have no offset.
    Syncs,
    /// Changes of a file's length; the new length counts as the offset.
    Lengths,
    /// Ranges that are zeroed (punches).
    Punches,
    /// Ranges whose space is allocated ahead.
    Allocations,
}

/// When a fault happens.
///
/// ```
/// use millpond_testing::{Fault, FaultRule, FaultTarget};
/// // The first two writes that touch the second page fail.
/// let rule = FaultRule { offsets: 4096..8192, times: 2, ..FaultRule::always(FaultTarget::Writes, Fault::Fail(5)) };
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct FaultRule {
    /// The requests it applies to.
    pub target: FaultTarget,
    /// Only this file, if set.
    pub file: Option<FileIdentity>,
    /// Only transfers that touch any of these bytes.
    pub offsets: Range<u64>,
    /// The share of matching transfers that it affects.
    pub chance: Ratio,
    /// The most times the fault happens.
    pub times: u64,
    /// The fault.
    pub fault: Fault,
}

impl FaultRule {
    /// A rule that always applies to `target`.
    pub fn always(target: FaultTarget, fault: Fault) -> FaultRule {
        FaultRule {
            target,
            file: None,
            offsets: 0..u64::MAX,
            chance: Ratio::percent(100),
            times: u64::MAX,
            fault,
        }
    }

    fn matches(&self, target: FaultTarget, file: &DeviceFile, touched: Option<Range<u64>>) -> bool {
        let meets = touched
            .is_none_or(|touched| touched.start < self.offsets.end && self.offsets.start < touched.end);
        self.times > 0 && self.target == target && self.file.is_none_or(|own| own == file.identity()) && meets
    }
}

/// A device with faults.
///
/// ```
/// use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
/// use millpond::{OpenOptions, PageCache, device};
/// use std::sync::Arc;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let disk = Arc::new(Faulty::new(device::best(), 1));
/// let cache = PageCache::builder().device(disk.clone()).build()?;
/// let file = cache.open(&path, OpenOptions::new().create(true))?;
/// file.write_at(&[1; 8192], 0)?;
///
/// // The disk has no room for the second page.
/// const ENOSPC: i32 = 28;
/// let full = FaultRule::always(FaultTarget::Writes, Fault::Fail(ENOSPC));
/// disk.add(FaultRule { offsets: 4096..8192, ..full });
/// assert_eq!(file.sync_data().unwrap_err().errno(), ENOSPC);
/// assert!(disk.faults() > 0);
///
/// disk.clear();
/// file.sync_data()?; // what could not be written was kept
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Device>,
    name: String,
    state: Mutex<State>,
    released: Condvar,
    woken: AtomicBool,
    keeps_unsynced: AtomicBool,
}

#[derive(Debug)]
struct State {
    rules: Vec<FaultRule>,
    random: u64,
    faults: u64,
    under_way: HashMap<u64, UnderWay>,
    next_key: u64,
    over: Vec<Completion>,
    late: Vec<(Instant, Completion)>,
    held: Vec<Request>,
    held_calls: usize,
    releases: u64,
}

#[derive(Debug)]
struct UnderWay {
    token: u64,
    then: Then,
}

/// What happens to a transfer that the inner device has completed.
#[derive(Clone, Copy, Debug)]
enum Then {
    Completed,
    CutWrite,
    Delayed(Duration),
}

impl Then {
    fn apply(self, result: io::Result<usize>) -> io::Result<usize> {
        match self {
            Then::CutWrite => result.and_then(|_| Err(Errno::IO.into())),
            _ => result,
        }
    }
}

impl Faulty {
    /// Wraps `inner`. There are no faults until rules are added.
    pub fn new(inner: Arc<dyn Device>, seed: u64) -> Faulty {
        Faulty {
            name: format!("faulty {}", inner.name()),
            inner,
            state: Mutex::new(State {
                rules: Vec::new(),
                random: seed,
                faults: 0,
                under_way: HashMap::new(),
                next_key: 0,
                over: Vec::new(),
                late: Vec::new(),
                held: Vec::new(),
                held_calls: 0,
                releases: 0,
            }),
            released: Condvar::new(),
            woken: AtomicBool::new(false),
            keeps_unsynced: AtomicBool::new(false),
        }
    }

    /// From here on, reports that data which a failed sync did not make durable is kept for the next one.
    pub fn keep_unsynced(&self) {
        self.keeps_unsynced.store(true, Ordering::SeqCst);
    }

    /// Adds a rule after the others. It applies to later requests.
    pub fn add(&self, rule: FaultRule) {
        self.state.lock().rules.push(rule);
    }

    /// Removes all rules. Held requests stay held.
    pub fn clear(&self) {
        self.state.lock().rules.clear();
    }

    /// The number of faults so far.
    pub fn faults(&self) -> u64 {
        self.state.lock().faults
    }

    /// The number of held transfers and syncs.
    pub fn held(&self) -> usize {
        let state = self.state.lock();
        state.held.len() + state.held_calls
    }

    /// Releases everything held. Later requests are held again if the rule is still there.
    ///
    /// # Errors
    /// As [`Device::submit`].
    pub fn release(&self) -> io::Result<()> {
        let mut held = {
            let mut state = self.state.lock();
            state.releases += 1;
            std::mem::take(&mut state.held)
        };
        self.released.notify_all();
        self.inner.submit(&mut held)
    }

    /// Applies a fault to a call that moves no bytes, before the call is made.
    fn meet(&self, fault: Option<Fault>) -> io::Result<()> {
        match fault {
            None => {}
            Some(Fault::Fail(errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::Cut(_)) => return Err(Errno::IO.into()),
            Some(Fault::Delay(delay)) => thread::sleep(delay),
            Some(Fault::Hold) => self.hold_here(),
        }
        Ok(())
    }

    fn hold_here(&self) {
        let mut state = self.state.lock();
        let releases = state.releases;
        state.held_calls += 1;
        self.released
            .wait_while(&mut state, |state| state.releases == releases);
        state.held_calls -= 1;
    }
}

impl State {
    fn fault_of(&mut self, request: &Request) -> Option<Fault> {
        let target = match request.op {
            Op::Read => FaultTarget::Reads,
            Op::Write => FaultTarget::Writes,
        };
        let end = request.offset.saturating_add(request.segments.bytes() as u64);
        match self.fault(target, &request.file, Some(request.offset..end)) {
            // Nothing is cut off.
            Some(Fault::Cut(bytes)) if bytes >= request.segments.bytes() => None,
            fault => fault,
        }
    }

    fn fault(
        &mut self,
        target: FaultTarget,
        file: &DeviceFile,
        touched: Option<Range<u64>>,
    ) -> Option<Fault> {
        for rule in &mut self.rules {
            if !rule.matches(target, file, touched.clone()) {
                continue;
            }
            // SplitMix64's step and first mixing round: enough for chance.
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
            if mixed % u64::from(rule.chance.den) < u64::from(rule.chance.num) {
                rule.times -= 1;
                self.faults += 1;
                return Some(rule.fault);
            }
        }
        None
    }

    /// Records the request under our own token.
    fn begin(&mut self, request: &mut Request, then: Then) {
        self.next_key += 1;
        self.under_way.insert(
            self.next_key,
            UnderWay {
                token: request.token,
                then,
            },
        );
        request.token = self.next_key;
    }

    fn finish(&mut self, done: Completion, now: Instant) {
        let Some(UnderWay { token, then }) = self.under_way.remove(&done.token) else {
            return;
        };
        let completion = Completion {
            token,
            result: then.apply(done.result),
        };
        match then {
            Then::Delayed(delay) => self.late.push((now + delay, completion)),
            _ => self.over.push(completion),
        }
    }

    /// Moves what is complete by `now` to `done`. Returns when the next one will be.
    fn collect(&mut self, done: &mut Vec<Completion>, now: Instant) -> Option<Instant> {
        done.append(&mut self.over);
        done.extend(
            self.late
                .extract_if(.., |(due, _)| *due <= now)
                .map(|(_, completion)| completion),
        );
        self.late.iter().map(|(due, _)| *due).min()
    }
}

impl Device for Faulty {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        let fault = self.state.lock().fault_of(request);
        match fault {
            None => self.inner.transfer(request),
            Some(Fault::Fail(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::Cut(bytes)) => {
                let result = self.inner.transfer(&cut(request, bytes));
                if request.op == Op::Write {
                    Then::CutWrite.apply(result)
                } else {
                    result
                }
            }
            Some(Fault::Delay(delay)) => {
                let result = self.inner.transfer(request);
                thread::sleep(delay);
                result
            }
            Some(Fault::Hold) => {
                self.hold_here();
                self.inner.transfer(request)
            }
        }
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        let mut passed = Vec::with_capacity(requests.len());
        let failed = {
            let mut state = self.state.lock();
            for mut request in requests.drain(..) {
                let then = match state.fault_of(&request) {
                    Some(Fault::Fail(errno)) => {
                        let result = Err(io::Error::from_raw_os_error(errno));
                        state.over.push(Completion {
                            token: request.token,
                            result,
                        });
                        continue;
                    }
                    Some(Fault::Hold) => {
                        state.begin(&mut request, Then::Completed);
                        state.held.push(request);
                        continue;
                    }
                    Some(Fault::Cut(bytes)) => {
                        request = cut(&request, bytes);
                        if request.op == Op::Write {
                            Then::CutWrite
                        } else {
                            Then::Completed
                        }
                    }
                    Some(Fault::Delay(delay)) => Then::Delayed(delay),
                    None => Then::Completed,
                };
                state.begin(&mut request, then);
                passed.push(request);
            }
            !state.over.is_empty()
        };
        let result = self.inner.submit(&mut passed);
        let mut state = self.state.lock();
        for mut request in passed {
            if let Some(UnderWay { token, .. }) = state.under_way.remove(&request.token) {
                request.token = token;
            }
            requests.push(request);
        }
        drop(state);
        if failed {
            self.inner.wake();
        }
        result
    }

    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let done_before = done.len();
        let mut inner_done = Vec::new();
        loop {
            let next_late = self.state.lock().collect(done, Instant::now());
            if done.len() > done_before || self.woken.swap(false, Ordering::SeqCst) {
                return Ok(());
            }
            let until = deadline.into_iter().chain(next_late).min();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            self.inner.wait(&mut inner_done, left)?;
            let now = Instant::now();
            let mut state = self.state.lock();
            inner_done
                .drain(..)
                .for_each(|completion| state.finish(completion, now));
            if deadline.is_some_and(|deadline| deadline <= now) {
                state.collect(done, now);
                return Ok(());
            }
        }
    }

    fn wake(&self) {
        self.woken.store(true, Ordering::SeqCst);
        self.inner.wake();
    }

    fn sync(&self, file: &DeviceFile) -> io::Result<()> {
        let fault = self.state.lock().fault(FaultTarget::Syncs, file, None);
        self.meet(fault)?;
        self.inner.sync(file)
    }

    fn set_len(&self, file: &DeviceFile, len: u64) -> io::Result<()> {
        let touched = Some(len..len.saturating_add(1));
        let fault = self.state.lock().fault(FaultTarget::Lengths, file, touched);
        self.meet(fault)?;
        self.inner.set_len(file, len)
    }

    fn punch(&self, file: &DeviceFile, offset: u64, len: u64) -> io::Result<()> {
        let range = offset..offset.saturating_add(len);
        let fault = self.state.lock().fault(FaultTarget::Punches, file, Some(range));
        if let Some(Fault::Cut(bytes)) = fault {
            self.inner.punch(file, offset, len.min(bytes as u64))?;
        }
        self.meet(fault)?;
        self.inner.punch(file, offset, len)
    }

    fn allocate(&self, file: &DeviceFile, offset: u64, len: u64) -> io::Result<()> {
        let range = offset..offset.saturating_add(len);
        let fault = (self.state.lock()).fault(FaultTarget::Allocations, file, Some(range));
        if let Some(Fault::Cut(bytes)) = fault {
            self.inner.allocate(file, offset, len.min(bytes as u64))?;
        }
        self.meet(fault)?;
        self.inner.allocate(file, offset, len)
    }

    fn keeps_unsynced(&self, file: &DeviceFile) -> bool {
        self.keeps_unsynced.load(Ordering::SeqCst) || self.inner.keeps_unsynced(file)
    }

    fn facts(&self, file: &DeviceFile) -> DeviceFacts {
        self.inner.facts(file)
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.inner)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

fn cut(request: &Request, bytes: usize) -> Request {
    Request {
        token: request.token,
        op: request.op,
        reason: request.reason,
        file: request.file.clone(),
        offset: request.offset,
        segments: request.segments.prefix(bytes),
    }
}

#[cfg(test)]
mod tests;
