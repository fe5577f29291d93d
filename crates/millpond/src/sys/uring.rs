//! An io_uring that owns what it is doing.
//!
//! What the kernel may touch, memory and file, belongs to a slot of the ring from the moment a call is handed in until
//! its completion is taken, so safe code cannot free it. One thread at a time uses the ring (`&mut`); any
//! thread may ring its [`Bell`], which completes a read of eight bytes that is always pending.
//!
//! Flags of the ring: `SUBMIT_ALL`, so that one bad call does not hold back those behind it; `COOP_TASKRUN`, so that a
//! completion does not interrupt the reaper, which enters the kernel soon enough. Not `SINGLE_ISSUER` with
//! `DEFER_TASKRUN`: they bind the ring to one thread for good, and with them completions came in batches of 9
//! instead of 32 at 32 outstanding, at 6.9 instead of 4.5 us of CPU an operation (Linux 6.18, 2 CPUs).

use crate::sys::direct::{Op, Step};
use crate::sys::eventfd::Eventfd;
use crate::sys::forks::Maker;
use crate::sys::segment::Segments;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The objects that a transfer keeps while it is under way. Descriptor and segments are borrowed from it, and the slot
/// owns it until the kernel has ended the call: until then the file stays open and the memory mapped.
pub(crate) trait Transfer {
    fn op(&self) -> Op;
    /// The descriptor that goes past the page cache, or the other.
    fn descriptor(&self, direct: bool) -> BorrowedFd<'_>;
    fn segments(&self) -> &Segments;
}

/// A transfer that is under way, and its present call.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    pub(crate) transfer: T,
    pub(crate) step: Step,
}

struct Slot<T> {
    in_flight: Option<InFlight<T>>,
    /// The call's ranges, where they are not the request's own.
    scratch: Vec<libc::iovec>,
}

// SAFETY: the ranges point into memory that `in_flight` owns, and only system calls follow them.
unsafe impl<T: Send> Send for Slot<T> {}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot {
            in_flight: None,
            scratch: Vec::new(),
        }
    }
}

/// Wakes the thread that waits in the ring.
#[derive(Debug)]
pub(crate) struct Bell {
    eventfd: Eventfd,
    /// The ring's own, which outlives no ring: used while one is waited for.
    ring: RawFd,
    is_lost: AtomicBool,
}

impl Bell {
    fn new(ring: RawFd) -> io::Result<Bell> {
        Ok(Bell {
            eventfd: Eventfd::new(true)?,
            ring,
            is_lost: AtomicBool::new(false),
        })
    }

    /// Completes the ring's pending read; one system call.
    pub(crate) fn ring(&self) {
        if self.eventfd.ring().is_err() {
            self.is_lost.store(true, Ordering::SeqCst);
            self.ring_otherwise();
        }
    }

    /// Whether the bell's descriptor is gone, so that the ring is useless.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }

    /// Completes something in the ring by another ring, which is made for that.
    fn ring_otherwise(&self) {
        let Ok(mut other) = IoUring::new(1) else { return };
        let message = opcode::MsgRingData::new(Fd(self.ring), 0, BELL, None).build();
        // SAFETY: the entry has numbers only.
        let pushed = unsafe { other.submission().push(&message) };
        if pushed.is_ok() {
            let _ = other.submit_and_wait(1);
        }
    }
}

/// How the program broke a lost ring.
pub(crate) fn lost() -> io::Error {
    let why = "the program has closed one of the cache's own descriptors, an eventfd; make a new cache, and look for a \
               close() of a descriptor that was already closed, or for closefrom()";
    io::Error::other(why)
}

/// The token of the bell's read; slots have the others.
const BELL: u64 = u64::MAX;

/// A ring with a fixed number of slots.
pub(crate) struct Ring<T> {
    ring: IoUring,
    slots: Vec<Slot<T>>,
    slots_free: Vec<u32>,
    bell: Arc<Bell>,
    /// The target of the bell's read.
    bell_count: Box<AtomicU64>,
    bell_pending: bool,
    /// Handed in, not yet told to the kernel.
    unsubmitted: usize,
    maker: Maker,
}

impl<T> Ring<T> {
    /// A ring for up to `slots` calls at a time.
    ///
    /// # Errors
    /// The call that failed, and its error: `Unsupported` if the kernel's io_uring lacks what is used here. A filter
    /// may allow one of the three calls and refuse another, so each is tried.
    pub(crate) fn new(slots: u32) -> Result<Ring<T>, (&'static str, io::Error)> {
        let of = |call| move |error| (call, error);
        // One entry more than there are slots, for the bell: so the submission queue is never full, and the completion
        // queue, twice as long, neither.
        let ring = IoUring::builder()
            .setup_submit_all()
            .setup_coop_taskrun()
            .build(slots + 1)
            .map_err(of("io_uring_setup"))?;
        let parameters = ring.params();
        let mut probe = Probe::new();
        ring.submitter()
            .register_probe(&mut probe)
            .map_err(of("io_uring_register"))?;
        let opcodes = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Readv::CODE,
            opcode::Writev::CODE,
        ];
        let complete = parameters.is_feature_ext_arg()
            && parameters.is_feature_nodrop()
            && opcodes.into_iter().all(|opcode| probe.is_supported(opcode));
        if !complete {
            return Err(("io_uring_setup", io::ErrorKind::Unsupported.into()));
        }
        // Nothing is handed in yet.
        ring.submit().map_err(of("io_uring_enter"))?;
        let bell = Bell::new(ring.as_raw_fd()).map_err(of("eventfd"))?;
        Ok(Ring {
            ring,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            slots_free: (0..slots).rev().collect(),
            bell: Arc::new(bell),
            bell_count: Box::new(AtomicU64::new(0)),
            bell_pending: false,
            unsubmitted: 0,
            maker: Maker::this(),
        })
    }

    pub(crate) fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    pub(crate) fn slots_free(&self) -> usize {
        self.slots_free.len()
    }

    pub(crate) fn unsubmitted(&self) -> usize {
        self.unsubmitted
    }

    /// Prepares the call `in_flight.step`; [`enter`](Ring::enter) tells the kernel.
    ///
    /// # Panics
    /// If no slot is free.
    pub(crate) fn start(&mut self, in_flight: InFlight<T>)
    where
        T: Transfer,
    {
        let slot = self.slots_free.pop().expect("a slot is free: the caller asked");
        let Slot {
            in_flight: held,
            scratch,
        } = &mut self.slots[slot as usize];
        let InFlight { transfer, step } = held.insert(in_flight);
        let file = Fd(transfer.descriptor(step.direct).as_raw_fd());
        let iovecs = transfer.segments().window(step.skip, step.len, scratch);
        let (ranges, count) = (iovecs.as_ptr(), iovecs.len() as u32);
        let (offset, flags) = (step.offset, step.flags);
        let entry = match (transfer.op(), iovecs) {
            (Op::Read, [one]) => opcode::Read::new(file, one.iov_base.cast(), one.iov_len as u32)
                .offset(offset)
                .rw_flags(flags)
                .build(),
            (Op::Write, [one]) => opcode::Write::new(file, one.iov_base.cast(), one.iov_len as u32)
                .offset(offset)
                .rw_flags(flags)
                .build(),
            (Op::Read, _) => opcode::Readv::new(file, ranges, count)
                .offset(offset)
                .rw_flags(flags)
                .build(),
            (Op::Write, _) => opcode::Writev::new(file, ranges, count)
                .offset(offset)
                .rw_flags(flags)
                .build(),
        };
        self.push(&entry.user_data(u64::from(slot)));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the file, the memory and the array of ranges belong to the slot (the ranges' array is in the heap, the
        // request's or the slot's own), the bell's count to the ring; both stay until the completion is taken,
        // and Drop waits for that.
        let pushed = unsafe { self.ring.submission().push(entry) };
        assert!(
            pushed.is_ok(),
            "the submission queue has an entry for every slot and the bell"
        );
        self.unsubmitted += 1;
    }

    /// Tells the kernel what was prepared and, with `Some(timeout)`, waits until a completion or the bell is there or
    /// the timeout has passed (`None` in it: no limit). May return early.
    ///
    /// # Errors
    /// If the ring is broken.
    pub(crate) fn enter(&mut self, wait: Option<Option<Duration>>) -> io::Result<()> {
        if self.bell.is_lost() {
            return Err(lost());
        }
        if wait.is_some() && !self.bell_pending {
            let eventfd = Fd(self.bell.eventfd.as_raw_fd());
            let count = self.bell_count.as_ptr().cast();
            let read = opcode::Read::new(eventfd, count, size_of::<u64>() as u32).build();
            self.push(&read.user_data(BELL));
            self.bell_pending = true;
        }
        let entered = match wait {
            None => self.ring.submit(),
            Some(None) => self.ring.submit_and_wait(1),
            Some(Some(timeout)) => {
                let timeout = Timespec::from(timeout);
                self.ring
                    .submitter()
                    .submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        self.unsubmitted = self.ring.submission().len();
        match entered.map_err(|error| error.raw_os_error()) {
            // A signal, the timeout, or a moment's shortage: what was not taken is still in the queue.
            Ok(_) | Err(Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY)) => Ok(()),
            Err(errno) => Err(io::Error::from_raw_os_error(errno.unwrap_or(libc::EIO))),
        }
    }

    /// A call that is completed, and its result. No system call.
    pub(crate) fn next(&mut self) -> Option<(InFlight<T>, io::Result<usize>)> {
        loop {
            let entry = self.ring.completion().next()?;
            if entry.user_data() == BELL {
                self.bell_pending = false;
                continue;
            }
            let slot = entry.user_data() as u32;
            let in_flight = self.slots[slot as usize].in_flight.take();
            self.slots_free.push(slot);
            let result = entry.result();
            let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            return Some((
                in_flight.expect("the kernel completes what was handed in, once"),
                result,
            ));
        }
    }
}

impl<T> Drop for Ring<T> {
    /// Waits until the kernel has let go of everything.
    fn drop(&mut self) {
        if self.maker.is_another() {
            // A forked child: what is under way is its parent's.
            return;
        }
        self.bell.ring();
        if self.bell.is_lost() && self.bell_pending {
            // Its read goes with the ring, and not before.
            mem::forget(mem::take(&mut self.bell_count));
            self.bell_pending = false;
        }
        while self.slots_free.len() < self.slots.len() || self.bell_pending {
            if self.next().is_some() {
                continue;
            }
            let busy = self.slots_free.len() < self.slots.len() || self.bell_pending;
            let transient = [libc::EINTR, libc::EAGAIN, libc::EBUSY].map(Some);
            match self.ring.submit_and_wait(usize::from(busy)) {
                Err(error) if !transient.contains(&error.raw_os_error()) => {
                    // The ring is broken, so it is unknown what the kernel still touches: it is
                    // leaked.
                    mem::forget(mem::take(&mut self.slots));
                    mem::forget(mem::take(&mut self.bell_count));
                    return;
                }
                _ => {}
            }
        }
    }
}
