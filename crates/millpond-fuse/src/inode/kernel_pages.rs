//! The kernel's own pages of a mapped file, and how they stay identical to ours.
//!
//! A shared map and the calls of descriptors that read and write have one copy where pages are lent. There are still two for
//! what is written past the kernel's pages beside a map: by a descriptor with `O_DIRECT`, by one that only writes, and by all
//! with `--lend none`.
//!
//! ```text
//!   pwrite   flushes and drops the kernel's page ──► WRITE ──► cache ──► the same bytes into the kernel's page ──► answer
//!   store                          └─ fault ─ READ of the old page ─ store ─────┘                    └─ later: the whole page
//! ```
//!
//! The kernel drops its page before it sends the write, and not again after it (`fuse_direct_io`, Linux 6.18). A
//! program that touches the map in between brings the old page back. If it also stores to it, the whole page is written
//! back later, undoing the bytes of the write. So these bytes go into the kernel's page as well, before the write is
//! answered. Of a page that the kernel sent before that, the range that the write changed is ignored. (A page counts as
//! sent when a thread starts to handle it, some microseconds after it came from the kernel. During that time it can't
//! be distinguished from a later one.)
//!
//! A write to a file that the kernel caches changes the kernel's page first, then comes here as a WRITE (*write through*).
//! A store to the same page may follow, and its writeback come to the cache before the WRITE does. The kernel sends no WRITE
//! while a page of it is being written back, so a writeback that is received during one has the newer bytes: the WRITE leaves
//! them alone.

use super::content::Content;
use parking_lot::Mutex;
use rustix::io::Result;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The kernel's pages of a file, as far as they are known.
#[derive(Default)]
pub(crate) struct KernelPages {
    /// The kernel has read pages of it, or written some back, since it was opened.
    is_mapped: AtomicBool,
    /// One direct write after the other: both copies get them in the same order.
    order: Mutex<()>,
    /// Held to change the cache's copy, and never while the kernel's is changed: the kernel may wait then for a page that it
    /// wants us to write.
    change: Mutex<()>,
    log: Mutex<Log>,
}

/// Direct writes that a page which is being written back may not have in it yet.
#[derive(Default)]
struct Log {
    writes: Vec<DirectWrite>,
    begun: u64,
    /// Counts writes that the kernel's pages have in them.
    known: u64,
    /// Writebacks that have begun and not ended.
    writebacks: u32,
    /// Writes through that have begun and not ended.
    writes_through: u32,
    /// What was written back meanwhile, numbered.
    written_back: Vec<(u64, Range<u64>)>,
    writeback_number: u64,
}

/// A write past the kernel's pages.
struct DirectWrite {
    number: u64,
    range: Range<u64>,
    /// `Log::known` when the kernel's pages had it.
    known: Option<u64>,
}

impl KernelPages {
    /// The kernel has pages of it from now on.
    pub(crate) fn note_mapped(&self) {
        self.is_mapped.store(true, Ordering::SeqCst);
    }

    /// Whether the kernel may have pages of it.
    pub(crate) fn is_mapped(&self) -> bool {
        self.is_mapped.load(Ordering::SeqCst)
    }

    /// The file is closed: the kernel has none any more.
    pub(crate) fn note_unmapped(&self) {
        self.is_mapped.store(false, Ordering::SeqCst);
    }

    /// Writes what comes past the kernel's pages; `store` puts the same bytes into those, if the kernel `has` pages there.
    pub(crate) fn direct_write(
        &self,
        content: &Content,
        bytes: &[u8],
        offset: u64,
        has: impl Fn() -> bool,
        store: impl Fn(),
    ) -> Result<()> {
        // First into the log, then the question whether there is a map: a writeback does both in the other order, so that
        // one of the two sees the other.
        let range = offset..offset + bytes.len() as u64;
        let number = self.log.lock().begin_write(range.clone());
        if !has() {
            let written = content.write(bytes, offset);
            // A page that the kernel has read since may have the old bytes.
            if written.is_ok() && has() {
                let _order = self.order.lock();
                store();
            }
            self.log.lock().kernel_knows(number);
            return written;
        }
        self.log.lock().kernel_knows(number);
        let _order = self.order.lock();
        let (number, written) = {
            let _change = self.change.lock();
            let number = self.log.lock().begin_write(range);
            (number, content.write(bytes, offset))
        };
        if written.is_ok() {
            store();
        }
        self.log.lock().kernel_knows(number);
        written
    }

    /// The kernel has changed its pages, and sent the same write. To be called before anything else is done, or waited for.
    pub(crate) fn begin_write_through(self: &Arc<KernelPages>) -> WriteThrough {
        let mut log = self.log.lock();
        log.writes_through += 1;
        WriteThrough {
            kernel_pages: self.clone(),
            since: log.writeback_number,
        }
    }

    /// Writes what the kernel's pages have already, but for what was written back since.
    pub(crate) fn write_through(
        &self,
        write: &WriteThrough,
        content: &Content,
        bytes: &[u8],
        offset: u64,
    ) -> Result<()> {
        let _change = self.change.lock();
        let range = offset..offset + bytes.len() as u64;
        let parts = self.log.lock().parts_not_written_back(write.since, range);
        write_parts(parts, bytes, offset, |bytes, at| content.write(bytes, at))
    }

    /// The kernel has sent pages to be written back. To be called before anything else is done, or waited for.
    pub(crate) fn begin_writeback(self: &Arc<KernelPages>) -> PageWriteback {
        let known = self.log.lock().begin_writeback();
        self.note_mapped();
        PageWriteback {
            kernel_pages: self.clone(),
            known,
        }
    }

    /// Writes back pages of the kernel's, but for what direct writes have changed since.
    pub(crate) fn write_back(
        &self,
        writeback: &PageWriteback,
        content: &Content,
        bytes: &[u8],
        offset: u64,
    ) -> Result<()> {
        let _change = self.change.lock();
        let range = offset..offset + bytes.len() as u64;
        let parts = self.log.lock().unchanged_parts(writeback.known, range);
        write_parts(parts, bytes, offset, |bytes, at| {
            content.write_back(bytes, at)?;
            self.log.lock().note_written_back(at..at + bytes.len() as u64);
            Ok(())
        })
    }
}

/// A write through that has begun; dropped at its end.
pub(crate) struct WriteThrough {
    kernel_pages: Arc<KernelPages>,
    /// `Log::writeback_number` when it came.
    since: u64,
}

impl Drop for WriteThrough {
    fn drop(&mut self) {
        let mut log = self.kernel_pages.log.lock();
        log.writes_through -= 1;
        if log.writes_through == 0 {
            log.written_back.clear();
        }
    }
}

/// A writeback of the kernel's that has begun; dropped at its end.
pub(crate) struct PageWriteback {
    kernel_pages: Arc<KernelPages>,
    /// `Log::known` when the kernel had sent the pages.
    known: u64,
}

impl Drop for PageWriteback {
    fn drop(&mut self) {
        self.kernel_pages.log.lock().end_writeback();
    }
}

impl Log {
    fn begin_writeback(&mut self) -> u64 {
        self.writebacks += 1;
        self.known
    }

    fn end_writeback(&mut self) {
        self.writebacks -= 1;
        self.prune();
    }

    /// A direct write begins. Its number.
    fn begin_write(&mut self, range: Range<u64>) -> u64 {
        self.begun += 1;
        self.writes.push(DirectWrite {
            number: self.begun,
            range,
            known: None,
        });
        self.begun
    }

    /// The kernel's pages have the bytes of a write, or there are none that need them.
    fn kernel_knows(&mut self, number: u64) {
        self.known += 1;
        if let Some(write) = self.writes.iter_mut().find(|write| write.number == number) {
            write.known = Some(self.known);
        }
        self.prune();
    }

    fn note_written_back(&mut self, range: Range<u64>) {
        if self.writes_through > 0 {
            self.writeback_number += 1;
            self.written_back.push((self.writeback_number, range));
        }
    }

    /// The parts of `range` that were not written back after that number.
    fn parts_not_written_back(&self, since: u64, range: Range<u64>) -> Vec<Range<u64>> {
        let later = self.written_back.iter().filter(|(number, _)| *number > since);
        without(range, later.map(|(_, range)| range))
    }

    /// Drops what no writeback needs.
    fn prune(&mut self) {
        if self.writebacks == 0 {
            self.writes.retain(|write| write.known.is_none());
        }
    }

    /// The parts of `range` that no write has changed which came to the kernel's pages after `known`.
    fn unchanged_parts(&self, known: u64, range: Range<u64>) -> Vec<Range<u64>> {
        let is_newer = |write: &&DirectWrite| write.known.is_none_or(|since| since > known);
        without(
            range,
            self.writes.iter().filter(is_newer).map(|write| &write.range),
        )
    }
}

/// Calls `write` with the parts of `bytes`, which begin at `offset`, and where each is to be.
fn write_parts(
    parts: Vec<Range<u64>>,
    bytes: &[u8],
    offset: u64,
    write: impl Fn(&[u8], u64) -> Result<()>,
) -> Result<()> {
    parts.into_iter().try_for_each(|part| {
        let of = (part.start - offset) as usize..(part.end - offset) as usize;
        write(&bytes[of], part.start)
    })
}

/// The parts of `range` that are in none of `others`.
fn without<'a>(range: Range<u64>, others: impl Iterator<Item = &'a Range<u64>>) -> Vec<Range<u64>> {
    let mut parts = vec![range];
    for other in others {
        let cut = |part: Range<u64>| {
            let before = part.start..other.start.min(part.end);
            let after = other.end.max(part.start)..part.end;
            [before, after].into_iter().filter(|part| !part.is_empty())
        };
        parts = parts.into_iter().flat_map(cut).collect();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_written_back_late_does_not_undo_a_write_that_came_meanwhile() {
        let content = Content::open(tempfile::tempfile().unwrap(), true, None).unwrap();
        let pages = Arc::new(KernelPages::default());
        let writeback = pages.begin_writeback();
        let is_mapped = || pages.is_mapped();
        pages
            .direct_write(&content, b"new", 100, is_mapped, || {})
            .unwrap();
        pages.write_back(&writeback, &content, &[1; 4096], 0).unwrap();
        drop(writeback);
        let mut bytes = [0; 4096];
        assert_eq!(content.read_into(&mut bytes, 0).unwrap(), 4096);
        assert_eq!(bytes[99..104], *b"\x01new\x01");
        assert!(pages.log.lock().writes.is_empty());
    }

    /// The kernel's page had the store, and the cache the write that came before it.
    #[test]
    fn a_write_through_that_is_late_does_not_undo_a_store_that_was_written_back_meanwhile() {
        let content = Content::open(tempfile::tempfile().unwrap(), true, None).unwrap();
        let pages = Arc::new(KernelPages::default());
        let write_back = |bytes: &[u8], offset| {
            let writeback = pages.begin_writeback();
            pages.write_back(&writeback, &content, bytes, offset).unwrap();
        };
        write_back(&[3; 4096], 0);
        let write = pages.begin_write_through();
        write_back(&[1; 4096], 4096);
        pages.write_through(&write, &content, &[2; 6000], 4000).unwrap();
        drop(write);
        let mut bytes = [0; 10_000];
        assert_eq!(content.read_into(&mut bytes, 0).unwrap(), 10_000);
        let ends = [3999, 4000, 4095, 4096, 8191, 8192].map(|at| bytes[at]);
        assert_eq!(ends, [3, 2, 2, 1, 1, 2]);
        assert!(pages.log.lock().written_back.is_empty());
    }

    #[test]
    fn of_a_page_that_was_sent_before_the_kernel_knew_of_a_write_all_else_is_written_back() {
        let mut log = Log::default();
        let parts = |log: &Log, begun, range| format!("{:?}", log.unchanged_parts(begun, range));
        let before = log.begin_writeback();
        let first = log.begin_write(100..108);
        log.kernel_knows(first);
        let second = log.begin_write(4000..5000);
        assert_eq!(parts(&log, before, 0..4096), "[0..100, 108..4000]");
        // One that comes later has the bytes of the first.
        let later = log.begin_writeback();
        assert_eq!(parts(&log, later, 0..4096), "[0..4000]");
        assert_eq!(parts(&log, later, 4096..8192), "[5000..8192]");
        assert_eq!(parts(&log, later, 4100..4200), "[]");
        log.end_writeback();
        log.kernel_knows(second);
        assert_eq!(log.writes.len(), 2);
        log.end_writeback();
        assert!(log.writes.is_empty());
    }
}
