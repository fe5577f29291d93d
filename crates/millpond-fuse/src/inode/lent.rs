//! The kernel's pages of one file: what was lent, and what may be old.
//!
//! A file that is opened without `O_DIRECT` is cached by the kernel. Each read that the kernel makes for its own pages lends
//! them. The kernel may drop pages without notice, so this is an upper bound.
//!
//! Chunks are taken back by a notification, which must not meet a write that is under way:
//!
//! ```text
//!   pwrite   changes the kernel's page ─────────── WRITE ──────────────────► cache
//!   taken back             └─ dropped ─ READ of the old bytes ─► a page with these, for good
//! ```
//!
//! A read or write that a thread has received keeps its chunks from being taken. One that is still in the kernel's queue can't be
//! seen. So a chunk that is taken is noted. A read of it before the next write of the file makes it suspect: a write that
//! meets a suspect chunk has it taken back once more before it is answered. The kernel does one such write of a file at a
//! time, so that whatever was taken before one of them is settled when that is answered.

use super::Inode;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Pages are lent and taken back by so many: a notification for 64 KiB takes 13 us, and for a page alone 3.2.
pub(crate) const CHUNK_PAGES: u64 = 16;
const PAGE_BYTES: u64 = 4096;
pub(crate) const CHUNK_BYTES: u64 = CHUNK_PAGES * PAGE_BYTES;

/// So many chunks are noted as taken. Of more, all chunks count as suspect.
const TAKEN_MAX: usize = 4096;

/// The kernel's pages of a file.
#[derive(Default)]
pub(crate) struct Lent(Mutex<State>);

#[derive(Default)]
struct State {
    chunks: HashMap<u64, Chunk>,
    /// Open file descriptions whose writes change the kernel's pages first.
    writers: u32,
    /// Such writes that have been received and not answered.
    writes: Vec<Range<u64>>,
    taken: Taken,
}

/// Chunks taken back since the last write.
#[derive(Default)]
struct Taken {
    /// Whether a read has asked for it since.
    is_suspect: HashMap<u64, bool>,
    is_full: bool,
}

/// A bit for each page.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Chunk {
    lent: u16,
    /// Those that were asked for since the chunk began to be taken back.
    asked: u16,
    /// Those that were taken back last.
    before: u16,
    /// Reads of it that have been received and not answered.
    reads: u16,
    is_taking: bool,
    is_queued: bool,
    /// A page was asked for soon after it was taken back.
    is_used: bool,
}

/// A chunk that was not queued, and is lent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NewlyLent {
    pub(crate) chunk: u64,
    pub(crate) is_used: bool,
}

/// What lending pages has come to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Lending {
    /// Pages that were not lent.
    pub(crate) pages: u64,
    /// Of these, pages that were taken back a short while ago.
    pub(crate) refaults: u64,
}

/// What a file had when the kernel forgot it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Cleared {
    pub(crate) pages: u64,
    /// Chunks that were queued.
    pub(crate) queued: usize,
}

/// What can be done with a chunk whose turn it is.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Its bytes are to be taken back.
    Take(Range<u64>),
    /// It was used meanwhile.
    Used,
    /// A read or a write of it is under way, for which the kernel may hold its pages.
    Busy,
    /// Nothing of it is lent.
    Gone,
}

/// How a chunk has been taken back.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Back {
    pub(crate) pages: u64,
    /// Some of its pages have been lent again.
    pub(crate) is_lent: bool,
}

fn chunks_of(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES)
}

/// The pages of `range` that a chunk has.
fn pages_of(range: &Range<u64>, chunk: u64) -> u16 {
    let first = chunk * CHUNK_PAGES;
    let from = (range.start / PAGE_BYTES).max(first) - first;
    let to = range.end.div_ceil(PAGE_BYTES).min(first + CHUNK_PAGES) - first;
    let below = |page: u64| u16::MAX.checked_shr((CHUNK_PAGES - page) as u32).unwrap_or(0);
    below(to) & !below(from)
}

impl Lent {
    /// The kernel asks for pages of its own (`is_read`, until [`Lent::end_read`]), or has written to them. Calls `newly` for each
    /// chunk that was not queued.
    pub(crate) fn lend(
        &self,
        range: &Range<u64>,
        is_read: bool,
        mut newly: impl FnMut(NewlyLent),
    ) -> Lending {
        let state = &mut *self.0.lock();
        let mut lending = Lending::default();
        for at in chunks_of(range) {
            let pages = pages_of(range, at);
            let chunk = state.chunks.entry(at).or_default();
            lending.pages += u64::from((pages & !chunk.lent).count_ones());
            lending.refaults += u64::from((pages & chunk.before).count_ones());
            chunk.is_used |= chunk.before & pages != 0;
            chunk.lent |= pages;
            chunk.before &= !pages;
            chunk.reads += u16::from(is_read);
            if chunk.is_taking {
                chunk.asked |= pages;
            } else if !chunk.is_queued {
                chunk.is_queued = true;
                newly(NewlyLent {
                    chunk: at,
                    is_used: std::mem::take(&mut chunk.is_used),
                });
            }
            if is_read && let Some(is_suspect) = state.taken.is_suspect.get_mut(&at) {
                *is_suspect = true;
            }
        }
        lending
    }

    /// A read has been answered.
    pub(crate) fn end_read(&self, range: &Range<u64>) {
        let state = &mut *self.0.lock();
        for at in chunks_of(range) {
            if let Some(chunk) = state.chunks.get_mut(&at) {
                chunk.reads = chunk.reads.saturating_sub(1);
            }
        }
    }

    /// Whether the kernel may have pages of `range`.
    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        let state = self.0.lock();
        chunks_of(range).any(|at| {
            let lent = state.chunks.get(&at).map_or(0, |chunk| chunk.lent);
            lent & pages_of(range, at) != 0
        })
    }

    /// The chunk has come to the head of its queue, of those that are known to be used or of the others.
    pub(crate) fn begin_take(&self, at: u64, is_used: bool) -> Turn {
        let state = &mut *self.0.lock();
        let range = at * CHUNK_BYTES..(at + 1) * CHUNK_BYTES;
        let meets = |write: &Range<u64>| write.start < range.end && range.start < write.end;
        let is_busy = state.writes.iter().any(meets);
        let Some(chunk) = state.chunks.get_mut(&at).filter(|chunk| chunk.is_queued) else {
            return Turn::Gone;
        };
        if chunk.lent == 0 {
            chunk.is_queued = false;
            return Turn::Gone;
        }
        if std::mem::take(&mut chunk.is_used) && !is_used {
            return Turn::Used;
        }
        if is_busy || chunk.reads > 0 || chunk.is_taking {
            return Turn::Busy;
        }
        (chunk.is_queued, chunk.is_taking, chunk.asked) = (false, true, 0);
        let (first, end) = (
            chunk.lent.trailing_zeros(),
            u16::BITS - chunk.lent.leading_zeros(),
        );
        if state.writers > 0 {
            state.taken.note(at);
        }
        let page = |page: u32| range.start + u64::from(page) * PAGE_BYTES;
        Turn::Take(page(first)..page(end))
    }

    /// It was taken back.
    pub(crate) fn end_take(&self, at: u64) -> Back {
        let state = &mut *self.0.lock();
        let Some(chunk) = state.chunks.get_mut(&at).filter(|chunk| chunk.is_taking) else {
            return Back {
                pages: 0,
                is_lent: false,
            };
        };
        let taken = chunk.lent & !chunk.asked;
        *chunk = Chunk {
            lent: chunk.asked,
            before: chunk.before | taken,
            is_queued: chunk.asked != 0,
            reads: chunk.reads,
            ..Chunk::default()
        };
        Back {
            pages: u64::from(taken.count_ones()),
            is_lent: chunk.is_queued,
        }
    }

    /// That a chunk was taken back is old by now: if it is asked for again, that is no use.
    pub(crate) fn forget_taken(&self, at: u64) {
        let state = &mut *self.0.lock();
        if let Some(chunk) = state.chunks.get_mut(&at) {
            chunk.before = 0;
            if chunk.lent == 0 && chunk.reads == 0 && !chunk.is_taking && !chunk.is_queued {
                state.chunks.remove(&at);
            }
        }
    }

    /// The kernel has forgotten the file, and with it all pages.
    pub(crate) fn clear(&self) -> Cleared {
        let state = &mut *self.0.lock();
        let chunks = std::mem::take(&mut state.chunks);
        state.taken.clear();
        Cleared {
            pages: chunks
                .values()
                .map(|chunk| u64::from(chunk.lent.count_ones()))
                .sum(),
            queued: chunks.values().filter(|chunk| chunk.is_queued).count(),
        }
    }

    pub(crate) fn is_queued(&self, at: u64) -> bool {
        self.0.lock().chunks.get(&at).is_some_and(|chunk| chunk.is_queued)
    }

    /// What is lent, for the process that takes over: of each chunk a bit for each page.
    pub(crate) fn lent_pages(&self) -> Vec<(u64, u16)> {
        let state = self.0.lock();
        let chunks = state.chunks.iter().filter(|(_, chunk)| chunk.lent != 0);
        chunks.map(|(&at, chunk)| (at, chunk.lent)).collect()
    }

    /// The process that served before has lent these. What it has taken back is not known here, so all counts as suspect to the
    /// next write. How many pages that are.
    pub(crate) fn go_on_from(&self, lent: &[(u64, u16)]) -> u64 {
        let state = &mut *self.0.lock();
        state.taken.is_full = true;
        for &(at, pages) in lent {
            let chunk = state.chunks.entry(at).or_default();
            (chunk.lent, chunk.is_queued) = (pages, true);
        }
        lent.iter().map(|(_, pages)| u64::from(pages.count_ones())).sum()
    }

    /// The file was opened by one whose writes change the kernel's pages first.
    pub(crate) fn add_writer(&self) {
        self.0.lock().writers += 1;
    }

    pub(crate) fn remove_writer(&self) {
        let state = &mut *self.0.lock();
        state.writers -= 1;
        if state.writers == 0 {
            // None of their writes is under way.
            state.taken.clear();
        }
    }

    /// The chunks of a write that has been done and not answered in which the kernel may have old bytes. Whatever was taken
    /// before is settled with it.
    pub(crate) fn suspects(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let state = &mut *self.0.lock();
        let taken = &state.taken;
        let is_suspect = |at: &u64| taken.is_full || taken.is_suspect.get(at) == Some(&true);
        let of_chunk = |at| at * CHUNK_BYTES..(at + 1) * CHUNK_BYTES;
        let suspects = chunks_of(range).filter(is_suspect).map(of_chunk).collect();
        state.taken.clear();
        suspects
    }

    /// `range` is about to be dropped from the kernel's pages whatever is under way.
    pub(crate) fn note_taken(&self, range: &Range<u64>) {
        let state = &mut *self.0.lock();
        chunks_of(range).for_each(|at| state.taken.note(at));
    }
}

impl Taken {
    fn note(&mut self, at: u64) {
        if self.is_suspect.len() >= TAKEN_MAX {
            self.is_full = true;
            self.is_suspect.clear();
        }
        if !self.is_full {
            self.is_suspect.insert(at, false);
        }
    }

    fn clear(&mut self) {
        *self = Taken::default();
    }
}

/// A write that has changed the kernel's pages and is not answered yet: its chunks are not taken back.
pub(crate) struct LentWrite {
    inode: Arc<Inode>,
    pub(crate) range: Range<u64>,
}

impl LentWrite {
    /// To be called as soon as it is received.
    pub(crate) fn begin(inode: &Arc<Inode>, range: Range<u64>) -> LentWrite {
        inode.lent.0.lock().writes.push(range.clone());
        LentWrite {
            inode: inode.clone(),
            range,
        }
    }
}

impl Drop for LentWrite {
    fn drop(&mut self) {
        let state = &mut *self.inode.lent.0.lock();
        if let Some(at) = state.writes.iter().position(|write| *write == self.range) {
            state.writes.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Range<u64> = 0..CHUNK_BYTES;

    /// Lends; how many pages more, and which chunks are new with which of them used.
    fn lend(lent: &Lent, range: Range<u64>) -> (u64, Vec<(u64, bool)>) {
        let mut newly = Vec::new();
        let lending = lent.lend(&range, true, |new| newly.push((new.chunk, new.is_used)));
        lent.end_read(&range);
        (lending.pages, newly)
    }

    #[test]
    fn pages_are_counted_once_and_chunks_are_queued_once() {
        let lent = Lent::default();
        assert_eq!(lend(&lent, 4096..8192), (1, vec![(0, false)]));
        assert_eq!(lend(&lent, 0..CHUNK_BYTES + 1), (16, vec![(1, false)]));
        assert_eq!(lend(&lent, 0..CHUNK_BYTES), (0, vec![]));
        assert!(lent.overlaps(&(CHUNK_BYTES..CHUNK_BYTES + 4096)));
        assert!(!lent.overlaps(&(CHUNK_BYTES + 4096..CHUNK_BYTES * 9)));
        assert_eq!(lent.clear(), Cleared { pages: 17, queued: 2 });
        assert_eq!(lent.begin_take(0, false), Turn::Gone);
    }

    #[test]
    fn what_another_process_has_lent_is_taken_back_here_and_suspect_to_the_first_write() {
        let (before, lent) = (Lent::default(), Lent::default());
        lend(&before, 4096..12288);
        assert_eq!(lent.go_on_from(&before.lent_pages()), 2);
        assert_eq!(lend(&lent, 4096..8192), (0, vec![]));
        assert_eq!(lent.suspects(&(0..4096)), [WHOLE]);
        assert_eq!(lent.suspects(&(0..4096)), []);
        assert_eq!(lent.begin_take(0, false), Turn::Take(4096..12288));
    }

    #[test]
    fn a_page_that_is_asked_for_soon_after_it_was_taken_back_is_used_and_its_neighbours_are_not() {
        let lent = Lent::default();
        lend(&lent, 4096..8192);
        assert_eq!(lent.begin_take(0, false), Turn::Take(4096..8192));
        let back = |pages, is_lent| Back { pages, is_lent };
        assert_eq!(lent.end_take(0), back(1, false));
        assert_eq!(lend(&lent, 0..4096), (1, vec![(0, false)]));
        assert_eq!(lend(&lent, 4096..8192), (1, vec![]));
        assert_eq!(lent.begin_take(0, false), Turn::Used);
        assert_eq!(lent.begin_take(0, true), Turn::Take(0..8192));
        // It is asked for while it is taken back.
        assert_eq!(lend(&lent, 4096..12288), (1, vec![]));
        assert_eq!(lent.end_take(0), back(1, true));
        assert_eq!(lent.begin_take(0, true), Turn::Take(4096..12288));
        lent.end_take(0);
        lent.forget_taken(0);
        assert_eq!(lend(&lent, 4096..8192), (1, vec![(0, false)]));
    }

    #[test]
    fn what_is_being_read_or_written_is_not_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let fd: std::os::fd::OwnedFd = std::fs::File::open(folder.path()).unwrap().into();
        let stat = rustix::fs::fstat(&fd).unwrap();
        let inode = Arc::new(Inode::new(2, &stat, fd, None));
        lend(&inode.lent, WHOLE);
        let write = LentWrite::begin(&inode, 100..101);
        assert_eq!(inode.lent.begin_take(0, false), Turn::Busy);
        drop(write);
        let _ = inode.lent.lend(&WHOLE, true, |_| ());
        assert_eq!(inode.lent.begin_take(0, false), Turn::Busy);
        inode.lent.end_read(&WHOLE);
        assert_eq!(inode.lent.begin_take(0, false), Turn::Take(WHOLE));
    }

    #[test]
    fn what_was_taken_back_and_read_before_a_write_is_suspect_to_that_write_alone() {
        let lent = Lent::default();
        lent.add_writer();
        let take = |at| {
            assert!(matches!(lent.begin_take(at, false), Turn::Take(_)));
            lent.end_take(at);
        };
        lend(&lent, 0..2 * CHUNK_BYTES);
        take(0);
        take(1);
        assert_eq!(lent.suspects(&WHOLE), [], "not read since");
        lend(&lent, WHOLE);
        assert_eq!(lent.suspects(&WHOLE), [], "there was a write in between");
        take(0);
        lend(&lent, WHOLE);
        assert_eq!(lent.suspects(&(CHUNK_BYTES..2 * CHUNK_BYTES)), []);
        assert_eq!(lent.suspects(&WHOLE), [], "settled by a write of another chunk");
        take(0);
        lend(&lent, 0..4096);
        assert_eq!(lent.suspects(&(100..200)), [WHOLE]);
        // Of very many all are.
        (0..=TAKEN_MAX as u64).for_each(|at| lent.note_taken(&(at * CHUNK_BYTES..at * CHUNK_BYTES + 1)));
        assert_eq!(lent.suspects(&(100..200)), [WHOLE]);
        lent.note_taken(&WHOLE);
        lent.remove_writer();
        lend(&lent, WHOLE);
        assert_eq!(lent.suspects(&WHOLE), [], "no writer is left");
    }
}
