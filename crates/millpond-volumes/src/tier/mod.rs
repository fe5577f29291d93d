//! A disk tier: a file on a local disk that keeps pages of a store, so that they are fetched once.
//!
//! ```text
//!   a read ──► slots: has it? ── yes ──► read of the file ──► checksum of the page ── right ──► the caller
//!                   │ no                                            │ wrong
//!                   ▼                                               ▼
//!              GET of the store ◄───────────────────────────────────┘
//!                   │
//!                   ├──► the caller
//!                   └──► slots: gets it one? ── yes ──► queue ──► the tier's thread ──► file
//! ```
//!
//! A page is known by the object that has it, its place there and its checksum. Objects never change, so what is found with the
//! right checksum is what the commit has, however old the file is ([`slots`], [`file`]).
//!
//! A tier never makes a read fail: when its file can't be read or written, or does not answer, it is given up
//! ([`Tier::give_up`]), and all goes to the store.

mod file;
mod slots;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use crate::format::checksum;
use crate::layout::Place;
use bytes::Bytes;
use file::{Aligned, BLOCK, GROUP_SLOTS};
use slots::{PageHash, Slot, Slots};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use file::TierFile;

/// The most that is written at a time.
const WRITE_BYTES_MAX: usize = 4 << 20;
/// Tables are written after so many pages: a table is 4 KiB, and that of pages that were fetched together mostly one.
const TABLES_AFTER: usize = 64;
/// Or so long after the last page.
const TABLES_IDLE: Duration = Duration::from_secs(1);
/// So long for a tier that is closed to write what it has.
const CLOSES_IN: Duration = Duration::from_secs(10);

/// What a store's disk tier has and does. Counts are since the store was opened.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TierUsage {
    /// Bytes of its file.
    pub bytes: u64,
    /// Bytes of slots that have a page; what an earlier process left included.
    pub used_bytes: u64,
    /// Bytes of memory for its tables.
    pub memory_bytes: u64,
    /// Pages that were read from it.
    pub hits: u64,
    /// Bytes of these.
    pub hit_bytes: u64,
    /// Bytes written to it, tables included.
    pub written_bytes: u64,
    /// Pages that others have replaced.
    pub evicted: u64,
    /// Fetched pages that were not written because nothing had used them before.
    pub refused: u64,
    /// Fetched pages that were not written because the disk was slower than the store.
    pub skipped: u64,
    /// Pages whose bytes had another checksum: torn by a kill, or damaged. They were fetched again.
    pub damaged: u64,
    /// Why it was given up, if it was.
    pub given_up: Option<String>,
}

#[derive(Default, Debug)]
struct Counts {
    hits: AtomicU64,
    hit_bytes: AtomicU64,
    written_bytes: AtomicU64,
    evicted: AtomicU64,
    refused: AtomicU64,
    skipped: AtomicU64,
    damaged: AtomicU64,
}

/// A page on its way to its slot.
#[derive(Debug)]
struct Write {
    slot: Slot,
    bytes: Aligned,
    _room: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Inner {
    file: TierFile,
    slots: Mutex<Slots>,
    counts: Counts,
    given_up: OnceLock<String>,
}

/// A store's disk tier.
#[derive(Debug)]
pub(crate) struct Tier {
    inner: Arc<Inner>,
    queue: Mutex<Option<Sender<Write>>>,
    /// Blocks that may be on their way.
    room: Arc<Semaphore>,
    queue_bytes: u64,
    closed: Mutex<Receiver<()>>,
    /// Bytes written, and since when.
    stuck: Mutex<Option<(u64, Duration)>>,
}

/// Where in its tier a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InTier {
    slot: Slot,
    page: PageHash,
}

impl InTier {
    /// Whether one read gets both of them, `first` as long as this.
    pub(crate) fn is_behind(self, first: InTier, first_bytes: u32, tier: &Tier) -> bool {
        u64::from(first_bytes) == tier.inner.file.slot_bytes()
            && TierFile::are_adjacent(first.slot, self.slot)
    }
}

fn hash(place: &Place) -> PageHash {
    let mut fields = [0; 24];
    fields[..8].copy_from_slice(&place.object.bits().to_le_bytes());
    fields[8..12].copy_from_slice(&place.offset.to_le_bytes());
    fields[12..16].copy_from_slice(&place.bytes.to_le_bytes());
    fields[16..].copy_from_slice(&place.checksum.to_le_bytes());
    PageHash(checksum(&fields).max(1))
}

impl Inner {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tier {
    /// The pages that the file has, in slots of so many bytes. Pages on their way to it take up to `queue_bytes` of memory.
    ///
    /// # Errors
    /// If the file can't be read, or there is no thread.
    pub(crate) fn new(mut file: TierFile, slot_bytes: u32, queue_bytes: u64) -> io::Result<Tier> {
        let pages = file.tables(u64::from(slot_bytes))?;
        let inner = Arc::new(Inner {
            file,
            slots: Mutex::new(Slots::new(pages)),
            counts: Counts::default(),
            given_up: OnceLock::new(),
        });
        let (queue, writes) = channel();
        let (close, closed) = sync_channel(1);
        let writer = inner.clone();
        let thread = std::thread::Builder::new().name(String::from("millpond-tier"));
        thread.spawn(move || {
            if let Err(error) = writer.serve(&writes) {
                writer.give_up(&format!("it can't be written: {error}"));
            }
            // The lock goes first.
            drop(writer);
            // Nobody waits for one that is given up.
            let _ = close.send(());
        })?;
        let queue_bytes = queue_bytes.max(u64::from(slot_bytes));
        Ok(Tier {
            inner,
            queue: Mutex::new(Some(queue)),
            room: Arc::new(Semaphore::new((queue_bytes / BLOCK) as usize)),
            queue_bytes,
            closed: Mutex::new(closed),
            stuck: Mutex::default(),
        })
    }

    /// Stops using it.
    pub(crate) fn give_up(&self, why: &str) {
        self.inner.give_up(why);
    }

    fn is_given_up(&self) -> bool {
        self.inner.given_up.get().is_some()
    }

    /// Where the pages are that it has. That is a use of each.
    pub(crate) fn find(&self, places: impl Iterator<Item = Place>) -> Vec<Option<InTier>> {
        if self.is_given_up() {
            return places.map(|_| None).collect();
        }
        let mut slots = self.inner.slots();
        let found = places.map(|place| {
            let page = hash(&place);
            Some(InTier {
                slot: slots.find(page)?,
                page,
            })
        });
        found.collect()
    }

    /// Reads so many bytes from a page on. The caller waits.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn read(&self, first: InTier, bytes: usize) -> io::Result<Bytes> {
        self.inner.file.read(first.slot, bytes)
    }

    /// A page was read from it, and had the right checksum.
    pub(crate) fn was_right(&self, bytes: u32) {
        self.inner.counts.hits.fetch_add(1, Relaxed);
        self.inner.counts.hit_bytes.fetch_add(u64::from(bytes), Relaxed);
    }

    /// A page was read from it, and had another checksum. If no other page has the slot by now, it is emptied.
    pub(crate) fn was_wrong(&self, at: InTier) {
        if self.inner.slots().drop_page(at.slot, at.page) {
            self.inner.counts.damaged.fetch_add(1, Relaxed);
        }
    }

    /// Takes a page that was fetched, if it is to have a slot: `room` waits for as long as the caller can.
    pub(crate) async fn offer<R>(&self, place: &Place, bytes: &[u8], room: impl FnOnce(Room) -> R)
    where
        R: Future<Output = Option<OwnedSemaphorePermit>>,
    {
        let (counts, page) = (&self.inner.counts, hash(place));
        if self.is_given_up() || bytes.len() as u64 > self.inner.file.slot_bytes() {
            return;
        }
        match self.inner.slots().admits(page) {
            None => return,
            Some(false) => {
                counts.refused.fetch_add(1, Relaxed);
                return;
            }
            Some(true) => {}
        }
        let blocks = (bytes.len() as u64).div_ceil(BLOCK) as u32;
        let permit = match self.room.clone().try_acquire_many_owned(blocks) {
            Ok(permit) => Some(permit),
            Err(_) => room(Room(self.room.clone(), blocks)).await,
        };
        let Some(room) = permit else {
            counts.skipped.fetch_add(1, Relaxed);
            return;
        };
        let bytes = Aligned::of(bytes);
        let Some((slot, evicted)) = self.inner.slots().take(page) else {
            return;
        };
        counts.evicted.fetch_add(evicted.into(), Relaxed);
        let write = Write {
            slot,
            bytes,
            _room: room,
        };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // It is given up, or closed.
        if queue.as_ref().is_none_or(|queue| queue.send(write).is_err()) {
            self.inner.slots().drop_page(slot, page);
        }
    }

    /// Makes its file do what a broken disk does.
    #[cfg(test)]
    pub(crate) fn fails(&self, fault: u8) {
        self.inner.file.fault.store(fault, Relaxed);
    }

    /// How long nothing was written, of what is seen of that by calls of this alone: by those that find no room.
    pub(crate) fn stuck_for(&self, now: Duration) -> Duration {
        let written = self.inner.counts.written_bytes.load(Relaxed);
        let mut seen = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_none_or(|(before, _)| before != written) {
            *seen = Some((written, now));
        }
        seen.map_or(Duration::ZERO, |(_, since)| now.saturating_sub(since))
    }

    /// Writes what is on its way, and takes nothing more.
    pub(crate) fn close(&self) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        if queue.is_some() && !self.is_given_up() {
            drop(queue);
            let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
            // A disk that is slower loses pages, as by a kill.
            let _ = closed.recv_timeout(CLOSES_IN);
        }
    }

    pub(crate) fn usage(&self) -> TierUsage {
        let (counts, slots) = (&self.inner.counts, self.inner.slots());
        let count = |of: &AtomicU64| of.load(Relaxed);
        TierUsage {
            bytes: self.inner.file.bytes(),
            used_bytes: u64::from(slots.used()) * self.inner.file.slot_bytes(),
            memory_bytes: slots.memory_bytes() + self.queue_bytes,
            hits: count(&counts.hits),
            hit_bytes: count(&counts.hit_bytes),
            written_bytes: count(&counts.written_bytes),
            evicted: count(&counts.evicted),
            refused: count(&counts.refused),
            skipped: count(&counts.skipped),
            damaged: count(&counts.damaged),
            given_up: self.inner.given_up.get().cloned(),
        }
    }
}

/// Room for a page on its way.
#[derive(Debug)]
pub(crate) struct Room(Arc<Semaphore>, u32);

impl Room {
    /// Waits until there is some. `None`: there will be none.
    pub(crate) async fn wait(self) -> Option<OwnedSemaphorePermit> {
        self.0.acquire_many_owned(self.1).await.ok()
    }
}

impl Inner {
    fn give_up(&self, why: &str) {
        let shown = self.file.path.display();
        let _ = self.given_up.set(format!(
            "the disk tier {shown} is given up, and all is read from the store: {why}"
        ));
    }

    /// Writes what comes until nothing does.
    fn serve(&self, writes: &Receiver<Write>) -> io::Result<()> {
        let (mut groups, mut pages) = (BTreeSet::new(), 0);
        loop {
            let first = match writes.recv_timeout(TABLES_IDLE) {
                Ok(write) => write,
                Err(end) => {
                    self.write_tables(&mut groups)?;
                    pages = 0;
                    match end {
                        RecvTimeoutError::Timeout => continue,
                        RecvTimeoutError::Disconnected => return Ok(()),
                    }
                }
            };
            let mut bytes = first.bytes.all().len();
            let mut some = vec![first];
            while bytes < WRITE_BYTES_MAX
                && let Ok(write) = writes.try_recv()
            {
                bytes += write.bytes.all().len();
                some.push(write);
            }
            if self.given_up.get().is_some() {
                continue;
            }
            pages += some.len();
            self.write(some, &mut groups)?;
            if pages >= TABLES_AFTER {
                self.write_tables(&mut groups)?;
                pages = 0;
            }
        }
    }

    fn write(&self, mut some: Vec<Write>, groups: &mut BTreeSet<u64>) -> io::Result<()> {
        some.sort_by_key(|write| write.slot);
        let is_next = |first: &Write, second: &Write| {
            first.bytes.all().len() as u64 == self.file.slot_bytes()
                && TierFile::are_adjacent(first.slot, second.slot)
        };
        for run in some.chunk_by(is_next) {
            // As many as one call takes (IOV_MAX).
            for run in run.chunks(1024) {
                let pages: Vec<&Aligned> = run.iter().map(|write| &write.bytes).collect();
                self.file.write(run[0].slot, &pages)?;
                let bytes: usize = pages.iter().map(|page| page.all().len()).sum();
                self.counts.written_bytes.fetch_add(bytes as u64, Relaxed);
                groups.insert(u64::from(run[0].slot) / GROUP_SLOTS);
                let mut slots = self.slots();
                run.iter().for_each(|write| slots.arrived(write.slot));
            }
        }
        Ok(())
    }

    fn write_tables(&self, groups: &mut BTreeSet<u64>) -> io::Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        for group in std::mem::take(groups) {
            let begins = (group * GROUP_SLOTS) as usize;
            let pages = self.slots().pages(begins..begins + GROUP_SLOTS as usize).to_vec();
            self.file.write_table(group, &pages)?;
            self.counts.written_bytes.fetch_add(BLOCK, Relaxed);
        }
        self.file.settle()
    }
}
