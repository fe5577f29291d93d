//! What requests may hold of memory: all of it is within the cache's budget.
//!
//! ```text
//!   kernel ── a thread reads a request, with the bytes of a write ──► answers it                  2 buffers a thread
//!     │                     └─ half of the threads are in writes ──► copy ──► a thread of the pool   `held`, at most
//!     └─ what no thread has read yet: the bytes of these writes are still the writers' own
//! ```
//!
//! A request can't be looked at before it is read, and then its bytes are here. Writes that have to wait for the disk are put
//! aside, so that some thread is there for reads; when so many bytes wait, the threads wait for room, and whatever else
//! comes is kept by the kernel. The wait is for the disk alone. A write that waits for the kernel itself
//! (`inode::kernel_pages` puts its bytes into a page that the kernel may have locked, and unlocks when we answer a read)
//! lets the others by: that read has to be found among the requests.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// The largest request, whatever there is of memory. Linux makes some of 1 MiB, and of those half as many writers could wait;
/// hits and writes of 1 MiB took no longer in requests of 128 KiB, and a write that is synced is synced with each request.
const REQUEST_BYTES_MAX: u64 = 512 << 10;

/// The least that Linux takes as the largest write.
const REQUEST_BYTES_MIN: u64 = 4096;

/// A request of each thread, and the answer to one, may take so much of the budget together: a sixteenth.
const BUFFERS_SHARE: u64 = 16;

/// Writes that wait may take so much: a sixteenth as well, which is 16 requests of the largest size with 8 threads.
const HELD_SHARE: u64 = 16;

/// With a larger budget they may take so much: 64 requests of the largest size.
const HELD_BYTES_MAX: u64 = 64 * REQUEST_BYTES_MAX;

/// Of asynchronous requests (pages of mapped files that are written or read ahead, asynchronous direct I/O) the kernel sends so
/// many before it waits for an answer: 12 unless told otherwise, with which a deep queue of reads would never reach the disk.
const BACKGROUND_MAX: u64 = 256;

/// How large requests are, how many there may be, and what they hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestMemory {
    /// The largest request that is asked for.
    pub(crate) request_bytes: u32,
    /// Asynchronous requests at a time.
    pub(crate) background: u16,
    /// Bytes of writes that wait.
    pub(crate) held_bytes: u64,
    /// What all of it is at most.
    pub(crate) bytes: u64,
}

impl RequestMemory {
    /// For so many threads, within a budget of so many bytes.
    pub(crate) fn of(budget: u64, threads: usize) -> RequestMemory {
        let threads = threads as u64;
        let fits = budget / BUFFERS_SHARE / (2 * threads);
        let request = 1 << fits.clamp(REQUEST_BYTES_MIN, REQUEST_BYTES_MAX).ilog2();
        let held = (budget / HELD_SHARE).min(HELD_BYTES_MAX);
        // Those that write pages of mapped files never fill it alone.
        let background = (held / request / 2).clamp(threads, BACKGROUND_MAX.max(threads));
        RequestMemory {
            request_bytes: request as u32,
            background: background as u16,
            held_bytes: held,
            // The last that was let in may be as large as a request.
            bytes: 2 * threads * request + held + request,
        }
    }
}

/// Room for the bytes of writes that wait.
pub(crate) struct HeldWrites {
    bytes_max: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: u64,
    /// Writes that wait for the kernel.
    in_kernel: u32,
}

impl HeldWrites {
    pub(crate) fn new(bytes_max: u64) -> Arc<HeldWrites> {
        Arc::new(HeldWrites {
            bytes_max,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Takes room for so many bytes, and waits until there is some: the last one in may take more than is left.
    pub(crate) fn hold(self: &Arc<HeldWrites>, bytes: u64) -> Held {
        let mut state = self.state.lock();
        while state.bytes >= self.bytes_max && state.in_kernel == 0 {
            self.changed.wait(&mut state);
        }
        state.bytes += bytes;
        Held {
            of: self.clone(),
            bytes,
        }
    }

    /// Calls `wait`, which ends when the kernel has an answer to another request.
    pub(crate) fn wait_for_kernel<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.state.lock().in_kernel += 1;
        self.changed.notify_all();
        let result = wait();
        self.state.lock().in_kernel -= 1;
        result
    }
}

/// Room for a write, until it is dropped.
pub(crate) struct Held {
    of: Arc<HeldWrites>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.of.state.lock();
        state.bytes -= self.bytes;
        if state.bytes < self.of.bytes_max {
            self.of.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn requests_hold_a_seventh_of_the_budget_at_most() {
        for (mib, threads, request, held) in [
            (2, 8, 8 << 10, 128 << 10),
            (16, 8, 64 << 10, 1 << 20),
            (64, 8, 256 << 10, 4 << 20),
            (512, 8, 512 << 10, 32 << 20),
            (512, 32, 512 << 10, 32 << 20),
            (1 << 20, 256, 512 << 10, 32 << 20),
        ] {
            let memory = RequestMemory::of(mib << 20, threads);
            assert_eq!(
                (u64::from(memory.request_bytes), memory.held_bytes),
                (request, held)
            );
            assert!(memory.bytes <= (mib << 20) / 7, "{mib} MiB: {memory:?}");
            let background = u64::from(memory.background);
            assert!((threads as u64..=256).contains(&background), "{memory:?}");
        }
        // The least that there can be.
        let least = RequestMemory::of(1 << 20, 256);
        assert_eq!(least.request_bytes, 4096);
    }

    #[test]
    fn a_write_that_finds_no_room_waits_for_one_that_ends() {
        let writes = HeldWrites::new(100);
        let (first, second) = (writes.hold(60), writes.hold(60));
        let (told, come) = mpsc::channel();
        let waits = writes.clone();
        let third = thread::spawn(move || {
            let held = waits.hold(1);
            told.send(held).unwrap();
        });
        assert_eq!(writes.state.lock().bytes, 120);
        assert!(come.try_recv().is_err());
        drop(first);
        let held = come.recv().unwrap();
        third.join().unwrap();
        drop((second, held));
        assert_eq!(writes.state.lock().bytes, 0);
    }

    /// It waits for an answer of ours that no thread would be there to give.
    #[test]
    fn a_write_that_waits_for_the_kernel_lets_others_by() {
        let writes = HeldWrites::new(1);
        let _full = writes.hold(1);
        let (told, come) = mpsc::channel();
        let waits = writes.clone();
        let waiting = thread::spawn(move || {
            let _held = waits.hold(1);
            told.send(()).unwrap();
        });
        writes.wait_for_kernel(|| come.recv().unwrap());
        waiting.join().unwrap();
    }
}
