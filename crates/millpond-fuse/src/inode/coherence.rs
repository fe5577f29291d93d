//! Files of which the kernel has pages once more, because they are mapped.
//!
//! ```text
//!   pwrite   flushes and drops the kernel's page ──► WRITE ──► cache ──► the same bytes into the kernel's page ──► answer
//!   store                          └─ fault ─ READ of the old page ─ store ─────┘                    └─ later: the whole page
//! ```
//!
//! The kernel drops its page before it sends the write, and not again behind it (`fuse_direct_io`, Linux 6.18). Who touches the
//! map in between brings the old page back, and with a store there the whole of it is written later, the bytes of the write
//! undone. So these go into the kernel's page as well, before the write is answered; and of a page that the kernel has
//! sent before that, what the write has changed is not taken. (A page counts as sent from when a thread begins with it, some
//! microseconds after it has come from the kernel; for that long it is not told apart from a later one.)

use crate::inode::content::{Content, Result};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of a file's maps.
#[derive(Default)]
pub(crate) struct Mapped {
    /// The kernel has asked for pages of it, or given some back, since somebody has it open.
    is_mapped: AtomicBool,
    /// One write past the kernel's pages after the other: both copies get them in the same order.
    turn: Mutex<()>,
    /// Whoever changes the cache's copy. Never held while the kernel is told: it may wait for a page that it wants us to write.
    change: Mutex<()>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    writes: Vec<Direct>,
    entered: u64,
    /// Counts writes of which the kernel has been told.
    told: u64,
    /// Pages of the kernel's that are being taken.
    backs: u32,
}

/// A write past the kernel's pages.
struct Direct {
    number: u64,
    range: Range<u64>,
    /// When the kernel was told of it.
    told: Option<u64>,
}

impl Mapped {
    /// The kernel has pages of it from now on.
    pub(crate) fn set(&self) {
        self.is_mapped.store(true, Ordering::SeqCst);
    }

    /// Whether the kernel may have pages of it.
    pub(crate) fn is_set(&self) -> bool {
        self.is_mapped.load(Ordering::SeqCst)
    }

    /// Nobody has it open: the kernel has none any more.
    pub(crate) fn clear(&self) {
        self.is_mapped.store(false, Ordering::SeqCst);
    }

    /// Writes what comes past the kernel's pages; `tell` is for its copy of them.
    pub(crate) fn write(&self, content: &Content, bytes: &[u8], offset: u64, tell: impl Fn()) -> Result<()> {
        // Before it is looked whether there is a map: who gives a page back does so in the other order, and one of the two
        // sees the other.
        let range = offset..offset + bytes.len() as u64;
        let number = self.log.lock().enter(range.clone());
        if !self.is_mapped.load(Ordering::SeqCst) {
            let written = content.write(bytes, offset);
            // Who has asked for a page since may have got it as it was.
            if written.is_ok() && self.is_mapped.load(Ordering::SeqCst) {
                let _turn = self.turn.lock();
                tell();
            }
            self.log.lock().told(number);
            return written;
        }
        self.log.lock().told(number);
        let _turn = self.turn.lock();
        let (number, written) = {
            let _change = self.change.lock();
            let number = self.log.lock().enter(range);
            (number, content.write(bytes, offset))
        };
        if written.is_ok() {
            tell();
        }
        self.log.lock().told(number);
        written
    }

    /// Pages have come that the kernel gives back: to be called before anything else is done, or waited for.
    pub(crate) fn begin(self: &Arc<Mapped>) -> Begun {
        let told = self.log.lock().begin();
        self.set();
        Begun {
            mapped: self.clone(),
            told,
        }
    }

    /// Takes pages that the kernel gives back.
    pub(crate) fn write_back(
        &self,
        begun: &Begun,
        content: &Content,
        bytes: &[u8],
        offset: u64,
    ) -> Result<()> {
        let _change = self.change.lock();
        let parts = self
            .log
            .lock()
            .parts(begun.told, offset..offset + bytes.len() as u64);
        parts.into_iter().try_for_each(|part| {
            let of = (part.start - offset) as usize..(part.end - offset) as usize;
            content.write_promised(&bytes[of], part.start)
        })
    }
}

/// Pages that the kernel has given back and that are not taken yet, or were just now.
pub(crate) struct Begun {
    mapped: Arc<Mapped>,
    /// Writes of which the kernel had been told.
    told: u64,
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.mapped.log.lock().end();
    }
}

impl Log {
    fn begin(&mut self) -> u64 {
        self.backs += 1;
        self.told
    }

    fn end(&mut self) {
        self.backs -= 1;
        self.forget();
    }

    /// A write begins. Its number.
    fn enter(&mut self, range: Range<u64>) -> u64 {
        self.entered += 1;
        self.writes.push(Direct {
            number: self.entered,
            range,
            told: None,
        });
        self.entered
    }

    /// The kernel has been told of a write, or has nothing to be told of.
    fn told(&mut self, number: u64) {
        self.told += 1;
        if let Some(write) = self.writes.iter_mut().find(|write| write.number == number) {
            write.told = Some(self.told);
        }
        self.forget();
    }

    /// What nobody has to know of any more.
    fn forget(&mut self) {
        if self.backs == 0 {
            self.writes.retain(|write| write.told.is_none());
        }
    }

    /// The parts of `range` that no write has changed of which the kernel was not told when `begun` was.
    fn parts(&self, begun: u64, range: Range<u64>) -> Vec<Range<u64>> {
        let mut parts = vec![range];
        for write in &self.writes {
            if write.told.is_none_or(|told| told > begun) {
                let cut = |part: Range<u64>| {
                    let before = part.start..write.range.start.min(part.end);
                    let after = write.range.end.max(part.start)..part.end;
                    [before, after].into_iter().filter(|part| !part.is_empty())
                };
                parts = parts.into_iter().flat_map(cut).collect();
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_waits_to_be_taken_does_not_undo_what_is_written_meanwhile() {
        let content = Content::open(tempfile::tempfile().unwrap(), true, None).unwrap();
        let mapped = Arc::new(Mapped::default());
        let begun = mapped.begin();
        mapped.write(&content, b"new", 100, || {}).unwrap();
        mapped.write_back(&begun, &content, &[1; 4096], 0).unwrap();
        drop(begun);
        let mut bytes = [0; 4096];
        assert_eq!(content.read_into(&mut bytes, 0).unwrap(), 4096);
        assert_eq!(bytes[99..104], *b"\x01new\x01");
        assert!(mapped.log.lock().writes.is_empty());
    }

    #[test]
    fn of_a_page_that_was_sent_before_the_kernel_knew_of_a_write_all_else_is_taken() {
        let mut log = Log::default();
        let parts = |log: &Log, begun, range| format!("{:?}", log.parts(begun, range));
        let before = log.begin();
        let first = log.enter(100..108);
        log.told(first);
        let second = log.enter(4000..5000);
        assert_eq!(parts(&log, before, 0..4096), "[0..100, 108..4000]");
        // One that comes later has the bytes of the first.
        let later = log.begin();
        assert_eq!(parts(&log, later, 0..4096), "[0..4000]");
        assert_eq!(parts(&log, later, 4096..8192), "[5000..8192]");
        assert_eq!(parts(&log, later, 4100..4200), "[]");
        log.end();
        log.told(second);
        assert_eq!(log.writes.len(), 2);
        log.end();
        assert!(log.writes.is_empty());
    }
}
