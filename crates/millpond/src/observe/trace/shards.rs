//! Where calls leave their records: buffers by thread, for which no thread waits.
//!
//! ```text
//!   a call ends ──► its thread's shard: a lock of its own, a buffer ── full ──► the writer's thread ── empty ──┐
//!                                        ▲                                                                     │
//!                                        └──────────────────────── another buffer, if there is one ◄───────────┘
//!                                                                  else: lost, and counted
//! ```
//!
//! All of it is in the engine and empty until a recording begins. A call that ends after the recording has
//! ended finds no sink in its shard, and leaves nothing.

use super::format::Opened;
use super::{Access, What};
use crate::sys::clock::Clock;
use crossbeam_utils::CachePadded;
use millpond_core::units::{FileId, Instant, Nanos};
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Files that are opened before the disk has taken those before: with their paths some MiB at most.
const OPENED_MAX: usize = 10_000;

/// Threads beyond this share a shard with others, which costs them a wait for a lock, of nanoseconds.
const SHARDS: usize = 32;

/// Accesses in a buffer: 40 KiB.
pub(super) const BUFFER: usize = 1024;

/// Buffers in all, 5 MiB: with one in each shard there are 96 for the writer, which is 98,000 accesses behind then.
pub(super) const BUFFERS_MAX: usize = 128;

/// The records of a cache's calls, on their way to the file.
#[derive(Default)]
pub(crate) struct Sink {
    queue: Mutex<Queue>,
    bell: Condvar,
    /// Whether to end.
    pub(super) stop: AtomicBool,
    /// Accesses that found no buffer.
    pub(super) lost: AtomicU64,
    /// Files that were opened.
    opened: Mutex<Vec<Opened>>,
    /// The offset in the file so far.
    pub(super) accesses: AtomicU64,
    /// The file's length.
    pub(super) bytes: AtomicU64,
}

#[derive(Default)]
struct Queue {
    full: Vec<Vec<Access>>,
    empty: Vec<Vec<Access>>,
    made: usize,
}

impl Sink {
    /// A buffer, in exchange for `full`, which may be none yet. `Err`: there is none, and the full one comes back.
    fn exchange(&self, full: Vec<Access>) -> Result<Vec<Access>, Vec<Access>> {
        let mut queue = self.queue.lock();
        let empty = match queue.empty.pop() {
            Some(empty) => empty,
            None if queue.made < BUFFERS_MAX => {
                queue.made += 1;
                Vec::with_capacity(BUFFER)
            }
            None => return Err(full),
        };
        if !full.is_empty() {
            queue.full.push(full);
            self.bell.notify_one();
        }
        Ok(empty)
    }

    /// Waits for full buffers, at most this long, and takes them.
    pub(super) fn wait(&self, at_most: Duration) {
        let mut queue = self.queue.lock();
        if queue.full.is_empty() && !self.stop.load(Ordering::Acquire) {
            self.bell.wait_for(&mut queue, at_most);
        }
    }

    pub(super) fn take(&self) -> Vec<Vec<Access>> {
        std::mem::take(&mut self.queue.lock().full)
    }

    /// What came with accesses that were taken before is among them.
    pub(super) fn take_opened(&self) -> Vec<Opened> {
        std::mem::take(&mut self.opened.lock())
    }

    pub(super) fn give_back(&self, mut buffer: Vec<Access>) {
        buffer.clear();
        self.queue.lock().empty.push(buffer);
    }

    /// Asks for the end.
    pub(super) fn end(&self) {
        // Under the lock, so it is not missed between a check and a wait.
        let _queue = self.queue.lock();
        self.stop.store(true, Ordering::Release);
        self.bell.notify_one();
    }

    /// Dropped while too many wait for the disk: a trace names such a file by its number only.
    pub(crate) fn opened(&self, file: Opened) {
        let mut opened = self.opened.lock();
        if opened.len() < OPENED_MAX {
            opened.push(file);
        }
    }
}

#[derive(Default)]
struct Shard {
    sink: Option<Arc<Sink>>,
    buffer: Vec<Access>,
}

/// The shards of a cache.
#[derive(Default)]
pub(crate) struct Shards([CachePadded<Mutex<Shard>>; SHARDS]);

/// A number for the calling thread, small and of its own.
fn thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

impl Shards {
    pub(super) fn open(&self, sink: &Arc<Sink>) {
        for shard in &self.0 {
            shard.lock().sink = Some(sink.clone());
        }
    }

    /// Hands over what is there. `close`: and takes no more.
    pub(super) fn flush(&self, close: bool) {
        for shard in &self.0 {
            let mut shard = shard.lock();
            let sink = match close {
                true => shard.sink.take(),
                false => shard.sink.clone(),
            };
            let Some(sink) = sink else { continue };
            let full = std::mem::take(&mut shard.buffer);
            if close && !full.is_empty() {
                sink.queue.lock().full.push(full);
            } else if full.is_empty() {
                shard.buffer = full;
            } else {
                shard.buffer = sink.exchange(full).unwrap_or_else(|full| full);
            }
        }
    }

    /// The sink, if calls are recorded.
    pub(crate) fn sink(&self) -> Option<Arc<Sink>> {
        self.0[0].lock().sink.clone()
    }

    fn push(&self, access: Access) {
        let mut shard = self.0[access.thread as usize % SHARDS].lock();
        let Shard { sink, buffer } = &mut *shard;
        let Some(sink) = sink else { return };
        if buffer.len() >= BUFFER || buffer.capacity() == 0 {
            match sink.exchange(std::mem::take(buffer)) {
                Ok(empty) => *buffer = empty,
                Err(full) => {
                    *buffer = full;
                    sink.lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
        buffer.push(access);
    }

    /// A call begins: it is noted when this is dropped.
    pub(crate) fn begin(
        &self,
        clock: Clock,
        file: FileId,
        (page, pages): (u64, u64),
        what: What,
    ) -> Note<'_> {
        Note {
            shards: self,
            clock,
            began: clock.now(),
            file,
            page,
            pages: pages.min(u64::from(u32::MAX)) as u32,
            what,
        }
    }
}

/// A call that is being recorded.
pub(crate) struct Note<'a> {
    shards: &'a Shards,
    clock: Clock,
    began: Instant,
    file: FileId,
    page: u64,
    pages: u32,
    what: What,
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.shards.push(Access {
            at: Nanos(self.began.0),
            took: self.clock.now().since(self.began),
            thread: thread(),
            file: self.file.0,
            page: self.page,
            pages: self.pages,
            what: self.what,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(page: u64) -> Access {
        Access {
            at: Nanos(page),
            took: Nanos(0),
            thread: 7,
            file: 0,
            page,
            pages: 1,
            what: What::Read,
        }
    }

    #[test]
    fn without_a_sink_nothing_is_kept() {
        let shards = Shards::default();
        shards.push(read(1));
        let sink = Arc::new(Sink::default());
        shards.open(&sink);
        shards.flush(true);
        assert!(sink.take().is_empty());
    }

    #[test]
    fn accesses_without_a_buffer_are_counted_and_no_caller_waits() {
        let (shards, sink) = (Shards::default(), Arc::new(Sink::default()));
        shards.open(&sink);
        let all = (BUFFERS_MAX * BUFFER) as u64;
        (0..all + 5).for_each(|page| shards.push(read(page)));
        assert_eq!(sink.lost.load(Ordering::Relaxed), 5);
        let mut taken = sink.take();
        assert_eq!(taken.len(), BUFFERS_MAX - 1, "the last one is in the shard still");
        sink.give_back(taken.pop().unwrap());
        shards.push(read(0));
        assert_eq!(sink.lost.load(Ordering::Relaxed), 5);
        shards.flush(true);
        let left: Vec<_> = sink.take().concat();
        assert_eq!(left.len(), BUFFER + 1);
        shards.push(read(0));
        assert!(sink.take().is_empty(), "it has ended");
    }
}
