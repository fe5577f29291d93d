//! The memory that requests may hold: all of it is within the cache's budget, and follows it.
//!
//! ```text
//!   kernel ── a thread reads a request, with the bytes of a write ──► answers it                  2 buffers a thread
//!     │                     └─ half of the threads are in writes ──► copy ──► a thread of the pool   `held`, at most
//!     └─ what no thread has read yet: the bytes of these writes are still the writers' own
//! ```
//!
//! A request can't be examined before it is read, and reading it brings its bytes in. So a read can pass the writes
//! before it only if there is space for their bytes. Writes that have to wait for the disk are set aside, so that some
//! thread is free for reads. When an eighth of the budget waits, the threads wait for space, and the kernel keeps
//! whatever else arrives. Requests are therefore small: that eighth has space for about 450 of them.
//!
//! The memory is set aside permanently. Getting it from the cache when writes wait would take locks that are also held
//! by what waits for the disk, and then no thread would be free for reads.
//!
//! Only waits for the disk count. A write that waits for the kernel itself lets the others pass: `inode::kernel_pages`
//! puts its bytes into a page that the kernel may have locked, and unlocks only when we answer a read. That read has to
//! be found among the requests.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// The largest request, whatever there is of memory. Linux makes some of 1 MiB, and of those an eighth as many writers could
/// wait. The kernel is told of it once, so that it also bounds how small the budget can become.
const REQUEST_BYTES_MAX: u64 = 128 << 10;

/// The least that Linux takes as the largest write.
const REQUEST_BYTES_MIN: u64 = 4096;

/// So many requests are in the first budget.
const REQUESTS: u64 = 4096;

/// A request of each thread, and the answer to one, may take so much of the first budget together: a 64th.
const BUFFERS_SHARE: u64 = 64;

/// All of it may take so much of the budget: an eighth.
const SHARE: u64 = 8;

/// Of asynchronous requests (pages of mapped files that are written or read ahead, asynchronous direct I/O) the kernel sends so
/// many before it waits for an answer: 12 unless told otherwise, with which a deep queue of reads would never reach the disk.
const BACKGROUND_MAX: u64 = 256;

/// The budget may have grown after so long.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How large requests are, how many there may be, and what they hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestMemory {
    /// The largest request that is asked for.
    pub(crate) request_bytes: u32,
    /// Asynchronous requests at a time.
    pub(crate) background: u16,
    /// Of all threads.
    buffer_bytes: u64,
}

impl RequestMemory {
    /// For so many threads, within a budget of so many bytes at first.
    pub(crate) fn of(budget: u64, threads: usize) -> RequestMemory {
        let threads = threads as u64;
        let fits = (budget / REQUESTS).min(budget / BUFFERS_SHARE / (2 * threads));
        let request = 1 << fits.clamp(REQUEST_BYTES_MIN, REQUEST_BYTES_MAX).ilog2();
        let mut memory = RequestMemory {
            request_bytes: request as u32,
            background: 0,
            buffer_bytes: 2 * threads * request,
        };
        // Those that write pages of mapped files never fill it alone.
        let half = memory.held_max(budget) / request / 2;
        memory.background = half.clamp(threads, BACKGROUND_MAX.max(threads)) as u16;
        memory
    }

    /// For so many threads, with the sizes that the kernel was told by the process that served before.
    pub(crate) fn go_on_from(request_bytes: u32, background: u16, threads: usize) -> RequestMemory {
        RequestMemory {
            request_bytes,
            background,
            buffer_bytes: 2 * threads as u64 * u64::from(request_bytes),
        }
    }

    /// How many bytes of writes may wait within a budget: one request in any.
    fn held_max(&self, budget: u64) -> u64 {
        let request = u64::from(self.request_bytes);
        (budget / SHARE)
            .saturating_sub(self.buffer_bytes + request)
            .max(request)
    }

    /// What is to be set aside of a budget.
    pub(crate) fn bytes(&self, budget: u64) -> u64 {
        // The last that was let in may be as large as a request.
        self.buffer_bytes + self.held_max(budget) + u64::from(self.request_bytes)
    }
}

/// How large the budget is now. Takes no lock.
pub(crate) type BudgetNow = Box<dyn Fn() -> u64 + Send + Sync>;

/// Room for the bytes of writes that wait.
pub(crate) struct HeldWrites {
    memory: RequestMemory,
    budget: BudgetNow,
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
    pub(crate) fn new(memory: RequestMemory, budget: BudgetNow) -> Arc<HeldWrites> {
        Arc::new(HeldWrites {
            memory,
            budget,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Takes room for so many bytes, and waits until there is some: the last one in may take more than is left.
    pub(crate) fn hold(self: &Arc<HeldWrites>, bytes: u64) -> Held {
        let mut state = self.state.lock();
        while state.bytes >= self.bytes_max() && state.in_kernel == 0 {
            self.changed.wait_for(&mut state, LOOK_EVERY);
        }
        state.bytes += bytes;
        Held {
            of: self.clone(),
            bytes,
        }
    }

    fn bytes_max(&self) -> u64 {
        self.memory.held_max((self.budget)())
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
        if state.bytes < self.of.bytes_max() {
            self.of.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn an_eighth_of_any_budget_has_room_for_hundreds_of_writes() {
        for (mib, threads, request, writes) in [
            (16, 8, 4 << 10, 490),
            (64, 8, 16 << 10, 490),
            (64, 2, 16 << 10, 490),
            (512, 8, 128 << 10, 490),
            (512, 64, 64 << 10, 890),
            (4096, 8, 128 << 10, 4000),
            (1 << 20, 256, 128 << 10, 1_000_000),
        ] {
            let (memory, budget) = (RequestMemory::of(mib << 20, threads), mib << 20);
            assert_eq!(u64::from(memory.request_bytes), request, "{mib} MiB, {threads}");
            let held = memory.held_max(budget);
            assert!(held / request >= writes, "{mib} MiB, {threads}: {held}");
            assert_eq!(memory.bytes(budget), budget / 8);
            let background = u64::from(memory.background);
            assert!((threads as u64..=256).contains(&background), "{memory:?}");
        }
        // The least that there can be.
        let least = RequestMemory::of(1 << 20, 256);
        assert_eq!(least.request_bytes, 4096);
        // A budget that has become smaller has room for one, besides the buffers.
        let memory = RequestMemory::of(512 << 20, 8);
        assert_eq!(memory.bytes(4 << 20), (2 << 20) + (256 << 10));
    }

    /// A budget, and requests of 16 KiB within it; how many bytes have room.
    fn of_64_mib() -> (Arc<AtomicU64>, Arc<HeldWrites>, u64) {
        let (budget, memory) = (Arc::new(AtomicU64::new(64 << 20)), RequestMemory::of(64 << 20, 8));
        let now = budget.clone();
        let writes = HeldWrites::new(memory, Box::new(move || now.load(Ordering::SeqCst)));
        (budget, writes, memory.held_max(64 << 20))
    }

    #[test]
    fn a_write_that_finds_no_room_waits_for_one_that_ends() {
        let (_, writes, max) = of_64_mib();
        let (first, second) = (writes.hold(max - 1), writes.hold(100));
        let (told, come) = mpsc::channel();
        let waits = writes.clone();
        let third = thread::spawn(move || {
            let held = waits.hold(1);
            told.send(held).unwrap();
        });
        assert_eq!(writes.state.lock().bytes, max + 99);
        assert!(come.try_recv().is_err());
        drop(first);
        let held = come.recv().unwrap();
        third.join().unwrap();
        drop((second, held));
        assert_eq!(writes.state.lock().bytes, 0);
    }

    #[test]
    fn a_budget_that_becomes_smaller_has_less_room_and_one_that_grows_lets_in_who_waits() {
        let (budget, writes, max) = of_64_mib();
        let _held = writes.hold(max / 4);
        let _next = writes.hold(1);
        budget.store(8 << 20, Ordering::SeqCst);
        let waits = writes.clone();
        let waiting = thread::spawn(move || drop(waits.hold(1)));
        assert!(writes.state.lock().bytes > writes.bytes_max());
        budget.store(64 << 20, Ordering::SeqCst);
        waiting.join().unwrap();
    }

    /// It waits for an answer of ours that no thread would be there to give.
    #[test]
    fn a_write_that_waits_for_the_kernel_lets_others_by() {
        let (_, writes, max) = of_64_mib();
        let _full = writes.hold(2 * max);
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
