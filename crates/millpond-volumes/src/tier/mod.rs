//! A disk tier: a file on a local disk that keeps pages fetched from a store, so that each is fetched once.
//!
//! ```text
//!   a read ──► does a slot have the page? ── yes ──► read from the file ──► its checksum ── right ──► caller
//!                   │ no                                                         │ wrong
//!                   ▼                                                            ▼
//!              GET from the store ◄──────────────────────────────────────────────┘
//!                   │
//!                   ├──► caller
//!                   └──► does it get a slot? ── yes ──► queue ──► the tier's thread ──► file
//! ```
//!
//! A page is identified by its object, its place there, and its checksum. Objects never change, so bytes with the right
//! checksum are those of the commit, however old the file is.
//!
//! A tier never makes a read fail. If its file can't be written, can't be read several times, or does not answer, the tier
//! is given up ([`Tier::give_up`]) and reads go to the store.
//!
//! | file | what |
//! |---|---|
//! | `file` | the file: header, tables, slots, transfers |
//! | `slots` | which pages have a slot |
//! | `ghosts` | which of the others are used again |

mod file;
mod ghosts;
mod slots;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use crate::format::checksum;
use crate::layout::Place;
use crate::mutation::{Mutation, is};
use bytes::Bytes;
use file::{Aligned, BLOCK, GROUP_SLOTS};
use ghosts::PageHash;
use slots::{Slot, Slots};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use file::TierFile;

/// The most that is written at a time.
const WRITE_BYTES_MAX: usize = 4 << 20;
/// Tables are written after this many pages. A table is 4 KiB, and pages that are fetched together mostly share one.
const TABLES_AFTER: usize = 64;
/// Or this long after the last page.
const TABLES_IDLE: Duration = Duration::from_secs(1);
/// A disk is given up at this failed read. The first ones may be bad sectors, which are repaired when they are written again.
const FAILED_READS_MAX: u64 = 3;
/// How long a tier that is closed may take to write its queue.
const CLOSES_IN: Duration = Duration::from_secs(10);

/// The state of a store's disk tier. Counts start when the store is opened.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TierUsage {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of slots that have a page, from earlier processes too.
    pub used_bytes: u64,
    /// Bytes of memory for the tables and the queue.
    pub memory_bytes: u64,
    /// Pages read from the tier.
    pub hits: u64,
    /// Bytes of these pages.
    pub hit_bytes: u64,
    /// Bytes written to the file, tables included.
    pub written_bytes: u64,
    /// Pages replaced by others.
    pub evicted: u64,
    /// Fetched pages not written because they had not been used before.
    pub refused: u64,
    /// Fetched pages not written because the disk was slower than the store.
    pub skipped: u64,
    /// Pages that could not be read, or had another checksum: torn by a kill, or damaged. They were fetched again.
    pub damaged: u64,
    /// Why the tier was given up, if it was.
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
    failed_reads: AtomicU64,
}

/// A page that is queued for its slot.
#[derive(Debug)]
struct Write {
    slot: Slot,
    page: PageHash,
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
    /// Blocks of memory that the queue may still take.
    room: Arc<Semaphore>,
    queue_bytes: u64,
    /// The disk is slower than the store: nothing waits for room until half of the queue is written.
    is_behind: AtomicBool,
    closed: Mutex<Receiver<()>>,
    /// Bytes written so far, and when that was seen first.
    stuck: Mutex<Option<(u64, Duration)>>,
}

/// Where a page is in its tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InTier {
    slot: Slot,
    page: PageHash,
}

impl InTier {
    /// Whether one read gets both pages; `first` has this many bytes.
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
    /// Opens the pages in a file, in slots of this size. Pages queued for the file take up to `queue_bytes` of memory.
    ///
    /// # Errors
    /// In a sentence: the file can't be read, has no room for a page, or no thread can be started.
    pub(crate) fn new(mut file: TierFile, slot_bytes: u32, queue_bytes: u64) -> Result<Tier, String> {
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
        let spawned = thread.spawn(move || {
            if let Err(error) = writer.serve(&writes) {
                writer.give_up(&format!("it can't be written: {error}"));
            }
            // So that who waits finds the file unlocked.
            drop(writer);
            // Nobody waits for a tier that was given up.
            let _ = close.send(());
        });
        spawned.map_err(|error| format!("a disk tier has no thread: {error}"))?;
        let queue_bytes = queue_bytes.max(memory_blocks(u64::from(slot_bytes)) * BLOCK);
        Ok(Tier {
            inner,
            queue: Mutex::new(Some(queue)),
            room: Arc::new(Semaphore::new((queue_bytes / BLOCK) as usize)),
            queue_bytes,
            is_behind: AtomicBool::new(false),
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

    /// Where pages are, of those that have a slot. Counts as a use of each.
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

    /// Reads this many bytes from the start of a page. The caller waits.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn read(&self, first: InTier, bytes: usize) -> io::Result<Bytes> {
        self.inner.file.read(first.slot, bytes)
    }

    /// Whether the bytes that were read are the page's. If not, its slot is emptied, unless another page has it by now.
    pub(crate) fn has_right(&self, at: InTier, place: &Place, bytes: &[u8]) -> bool {
        let counts = &self.inner.counts;
        if checksum(bytes) == place.checksum || is(Mutation::TierChecksumIgnored) {
            counts.hits.fetch_add(1, Relaxed);
            counts.hit_bytes.fetch_add(bytes.len() as u64, Relaxed);
            return true;
        }
        self.drop_damaged(at);
        false
    }

    fn drop_damaged(&self, at: InTier) {
        if self.inner.slots().drop_page(at.slot, at.page) {
            self.inner.counts.damaged.fetch_add(1, Relaxed);
        }
    }

    /// These pages could not be read. Their slots are emptied.
    pub(crate) fn failed(&self, pages: &[InTier], error: &io::Error) {
        pages.iter().for_each(|at| self.drop_damaged(*at));
        if self.inner.counts.failed_reads.fetch_add(1, Relaxed) + 1 >= FAILED_READS_MAX {
            self.give_up(&format!("it can't be read: {error}"));
        }
    }

    /// Takes a fetched page if it is to have a slot. In a full queue `room` waits for as long as the caller can.
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
        let blocks = memory_blocks(bytes.len() as u64) as u32;
        let permit = match self.room.clone().try_acquire_many_owned(blocks) {
            Ok(permit) => Some(permit),
            Err(_) => {
                let is_behind = self.is_behind.load(Relaxed);
                room(Room {
                    queue: self.room.clone(),
                    blocks,
                    is_behind,
                })
                .await
            }
        };
        let Some(room) = permit else {
            self.is_behind.store(true, Relaxed);
            counts.skipped.fetch_add(1, Relaxed);
            return;
        };
        if self.room.available_permits() as u64 * BLOCK >= self.queue_bytes / 2 {
            self.is_behind.store(false, Relaxed);
        }
        let bytes = Aligned::of(bytes);
        let Some((slot, evicted)) = self.inner.slots().take(page) else {
            return;
        };
        counts.evicted.fetch_add(evicted.into(), Relaxed);
        let write = Write {
            slot,
            page,
            bytes,
            _room: room,
        };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // The tier was given up, or is closed.
        if queue.as_ref().is_none_or(|queue| queue.send(write).is_err()) {
            self.inner.slots().drop_page(slot, page);
        }
    }

    /// Makes the file do what a broken disk does.
    #[cfg(test)]
    pub(crate) fn fails(&self, fault: u8) {
        self.inner.file.fault.store(fault, Relaxed);
    }

    /// How long nothing was written, as far as calls of this have seen: those that find no room make them.
    pub(crate) fn stuck_for(&self, now: Duration) -> Duration {
        let written = self.inner.counts.written_bytes.load(Relaxed);
        let mut seen = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_none_or(|(before, _)| before != written) {
            *seen = Some((written, now));
        }
        seen.map_or(Duration::ZERO, |(_, since)| now.saturating_sub(since))
    }

    /// Writes the queue, and takes nothing more.
    pub(crate) fn close(&self) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        if queue.is_some() && !self.is_given_up() {
            drop(queue);
            let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
            // A slower disk loses pages, as a kill does.
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

/// The memory of a page in the queue: its blocks, and one more to begin at a block.
fn memory_blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK) + 1
}

/// Room for a page in the queue.
#[derive(Debug)]
pub(crate) struct Room {
    queue: Arc<Semaphore>,
    blocks: u32,
    /// Not worth waiting for: the disk is slower than the store.
    pub(crate) is_behind: bool,
}

impl Room {
    /// Waits until there is some. `None`: there will be none.
    pub(crate) async fn wait(self) -> Option<OwnedSemaphorePermit> {
        self.queue.acquire_many_owned(self.blocks).await.ok()
    }
}

impl Inner {
    fn give_up(&self, why: &str) {
        let shown = self.file.path.display();
        let _ = self.given_up.set(format!(
            "the disk tier {shown} was given up, and reads go to the store: {why}"
        ));
    }

    /// Writes what is queued until the queue is closed.
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
            // One call takes this many (IOV_MAX).
            for run in run.chunks(1024) {
                let pages: Vec<&Aligned> = run.iter().map(|write| &write.bytes).collect();
                self.file.write(run[0].slot, &pages)?;
                let bytes: usize = pages.iter().map(|page| page.all().len()).sum();
                self.counts.written_bytes.fetch_add(bytes as u64, Relaxed);
                groups.insert(u64::from(run[0].slot) / GROUP_SLOTS);
                let mut slots = self.slots();
                run.iter().for_each(|write| slots.arrived(write.slot, write.page));
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
