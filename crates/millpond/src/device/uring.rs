//! The device over io_uring.
//!
//! ```text
//!   any thread ── submit ──► queue ── bell, if the reaper sleeps ──► reaper: ring ──► kernel
//!                                                                    reaper ◄── completions
//! ```
//!
//! Only the reaper hands calls to the kernel. The kernel finishes a call in the context of the thread that
//! handed it in, which has to be awake for it: a read handed in by a thread that then slept in `fdatasync`
//! was completed when that was over, 198 ms later (Linux 6.18; 0.2 to 0.6 ms while the thread computed or
//! slept interruptibly). With the queue in between no thread's sleep holds up another's completion, and it
//! costs little: random 4 KiB reads by one thread with another as the reaper, best of two runs, handed in
//! directly against through the queue: 14.4 against 15.1 K/s at 1 outstanding, 38.5 against 34.3 at 4, 62.9
//! against 60.0 at 32.
//!
//! A call submitted while the reaper is busy is started when it next waits; a batch wakes it once.

use super::transfer::{Progress, run_here};
use super::{Completion, Device, DeviceFacts, DeviceFile, DeviceLoad, Op, Request, Segments};
use crate::host::RingRefusal;
use crate::sys::uring::{Bell, InFlight, Ring, Transfer, lost};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Calls in the kernel at a time: what a SATA disk takes eight times over, and enough for flash (108 K reads/s at 128
/// outstanding were all that a fast one gave). More wait in the queue.
const IN_FLIGHT_MAX: u32 = 256;

/// Requests that can wait for a free slot without more memory.
const QUEUE: usize = 1024;

/// Calls handed to the kernel at once: the block layer starts none before it has seen the last (it "plugs" the queue),
/// so the device would idle while a long batch is prepared. Random reads at 32 outstanding with another thread
/// submitting, the quieter of two runs on a busy machine: 56 K/s with 1 at a time, 63 with 4, 65 with 8, 61 with 16,
/// 48 with 256.
const BATCH_CALLS_MAX: usize = 8;

/// Bytes handed to the kernel before what is completed is given to the reaper: pinning the pages of 1 MiB costs
/// 44 us, so a finished read waits at most 180 us for the writes behind it.
const TURN_BYTES_MAX: usize = 4 << 20;

// What the reaper is doing, in `Uring::reaper_state`.
const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
/// Something came for it; it is, or soon will be, awake.
const CALLED: u8 = 2;

/// Performs transfers with io_uring.
#[derive(Debug)]
pub struct Uring {
    reaper: Mutex<Reaper>,
    queue: Mutex<VecDeque<Request>>,
    reaper_state: AtomicU8,
    woken: AtomicBool,
    bell: Arc<Bell>,
}

struct Reaper {
    ring: Ring<Begun>,
}

/// A request in the ring, and its progress.
#[derive(Debug)]
struct Begun {
    request: Request,
    progress: Progress,
}

impl Transfer for Begun {
    fn op(&self) -> Op {
        self.request.op
    }

    fn descriptor(&self, direct: bool) -> BorrowedFd<'_> {
        self.request.file.descriptor(direct)
    }

    fn segments(&self) -> &Segments {
        &self.request.segments
    }
}

impl std::fmt::Debug for Reaper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {IN_FLIGHT_MAX} calls free", self.ring.slots_free())
    }
}

impl Uring {
    /// Creates the device with a ring of its own.
    ///
    /// # Errors
    /// The reason why io_uring is unavailable.
    pub fn new() -> Result<Uring, RingRefusal> {
        let ring = Ring::new(IN_FLIGHT_MAX).map_err(|(call, error)| RingRefusal::of(call, &error))?;
        Ok(Uring {
            bell: ring.bell(),
            reaper: Mutex::new(Reaper { ring }),
            queue: Mutex::new(VecDeque::with_capacity(QUEUE)),
            reaper_state: AtomicU8::new(AWAKE),
            woken: AtomicBool::new(false),
        })
    }

    /// Whether no thread has woken the reaper since it last checked.
    fn fall_asleep(&self) -> bool {
        self.reaper_state
            .compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    fn call_reaper(&self) {
        if self.reaper_state.swap(CALLED, Ordering::SeqCst) == ASLEEP {
            self.bell.ring();
        }
    }
}

impl Reaper {
    /// Takes what is completed; a request that goes on is started again.
    fn reap(&mut self, done: &mut Vec<Completion>) {
        while let Some((mut in_flight, result)) = self.ring.next() {
            let Begun { request, progress } = &mut in_flight.transfer;
            match progress.account(request, &in_flight.step, result) {
                None => {
                    in_flight.step = progress.step(request);
                    self.ring.start(in_flight);
                }
                Some(result) => {
                    let token = request.token;
                    // The memory is released before any thread hears that it may be used again.
                    drop(in_flight);
                    done.push(Completion { token, result });
                }
            }
        }
    }

    /// Prepares what is queued, as much as a batch may have: its bytes, and whether anything is left that could go on.
    fn start_batch(&mut self, queue: &Mutex<VecDeque<Request>>, done: &mut Vec<Completion>) -> (usize, bool) {
        let mut bytes = 0;
        let mut queue = queue.lock();
        for _ in 0..BATCH_CALLS_MAX.min(self.ring.slots_free()) {
            let Some(request) = queue.pop_front() else { break };
            if i64::try_from(request.offset).is_err() {
                // The ring would take the largest offsets for "at the file's cursor".
                let result = Err(io::Error::from_raw_os_error(libc::EOVERFLOW));
                done.push(Completion {
                    token: request.token,
                    result,
                });
                continue;
            }
            bytes += request.segments.bytes();
            let progress = Progress::default();
            let step = progress.step(&request);
            let transfer = Begun { request, progress };
            self.ring.start(InFlight { transfer, step });
            if bytes >= TURN_BYTES_MAX {
                break;
            }
        }
        (bytes, self.ring.slots_free() > 0 && !queue.is_empty())
    }
}

impl Device for Uring {
    fn transfer(&self, request: &Request) -> io::Result<usize> {
        run_here(request)
    }

    fn submit(&self, requests: &mut Vec<Request>) -> io::Result<()> {
        if self.bell.is_lost() {
            return Err(lost());
        }
        if !requests.is_empty() {
            self.queue.lock().extend(requests.drain(..));
            self.call_reaper();
        }
        Ok(())
    }

    fn wait(&self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let done_before = done.len();
        let mut started_bytes = 0;
        let mut reaper = self.reaper.lock();
        loop {
            // Before checking the queue: a thread that comes later calls again.
            self.reaper_state.store(AWAKE, Ordering::SeqCst);
            reaper.reap(done);
            let (bytes, more) = reaper.start_batch(&self.queue, done);
            started_bytes += bytes;
            let over = done.len() > done_before || self.woken.load(Ordering::SeqCst);
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let (timed_out, turn_over) = (left == Some(Duration::ZERO), started_bytes >= TURN_BYTES_MAX);
            if more || over || timed_out {
                if reaper.ring.unsubmitted() > 0 || timed_out {
                    reaper.ring.enter(None)?;
                }
                if !more || turn_over && (over || timed_out) {
                    reaper.reap(done);
                    // A wake-up since we looked is taken along. To see what it was for, it must be read: behind a mere
                    // store the caller may read what was before, on a processor with weak ordering.
                    self.woken.swap(false, Ordering::SeqCst);
                    return Ok(());
                }
            } else if self.fall_asleep() {
                reaper.ring.enter(Some(left))?;
            }
        }
    }

    fn wake(&self) {
        self.woken.store(true, Ordering::SeqCst);
        self.call_reaper();
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
        "io_uring"
    }
}
