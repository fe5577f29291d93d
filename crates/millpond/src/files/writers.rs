//! The files of this process that each cache writes.
//!
//! Two caches that both write one file overwrite each other with what they have in memory, and both say that all is on the
//! disk. So the second of a process is refused, or only reported if the user allows it. Files count by device and inode,
//! whatever their names. A forked child begins with none: its parent's caches write nothing there.

use crate::device::FileIdentity;
use crate::sys::forks::{Maker, OfProcess};
use std::collections::BTreeMap;
use std::io;

static WRITERS: OfProcess<BTreeMap<FileIdentity, Vec<Writer>>> = OfProcess::new();

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writer {
    /// A cache, by a number that no other one has.
    Cache(usize),
    /// A cache has it for swap.
    Swap,
}

/// The file is written, until this is dropped.
#[derive(Debug)]
pub(crate) struct Writes {
    file: FileIdentity,
    writer: Writer,
    maker: Maker,
    /// Whether another cache wrote it when this was made.
    pub(crate) is_shared: bool,
}

impl Writes {
    /// For `cache`. If another cache writes it too, only `beside_others` allows this.
    ///
    /// # Errors
    /// If another cache writes it.
    pub(crate) fn by(file: FileIdentity, cache: usize, beside_others: bool) -> io::Result<Writes> {
        let writer = Writer::Cache(cache);
        let mut writers = WRITERS.lock();
        let list = writers.entry(file).or_default();
        let is_shared = list.iter().any(|other| *other != writer);
        if is_shared && !beside_others {
            let said = "another cache of this process has it open for writing, and each would overwrite what the other \
                        writes: use one cache for both, or set OpenOptions::beside_other_caches(true)";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, said));
        }
        list.push(writer);
        Ok(Writes {
            file,
            writer,
            maker: Maker::this(),
            is_shared,
        })
    }

    /// For swap.
    ///
    /// # Errors
    /// If a cache writes it.
    pub(crate) fn swap(file: FileIdentity) -> io::Result<Writes> {
        let mut writers = WRITERS.lock();
        let list = writers.entry(file).or_default();
        if !list.is_empty() {
            let said = "a cache of this process has it open for writing: name another file";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, said));
        }
        let writer = Writer::Swap;
        list.push(writer);
        Ok(Writes {
            file,
            writer,
            maker: Maker::this(),
            is_shared: false,
        })
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        if self.maker.is_another() {
            return;
        }
        let mut writers = WRITERS.lock();
        if let Some(list) = writers.get_mut(&self.file) {
            if let Some(at) = list.iter().position(|writer| *writer == self.writer) {
                list.swap_remove(at);
            }
            if list.is_empty() {
                writers.remove(&self.file);
            }
        }
    }
}

/// Whether the file may be opened.
///
/// # Errors
/// If it is swap of a cache.
pub(crate) fn check_no_swap(file: FileIdentity) -> io::Result<()> {
    let writers = WRITERS.lock();
    if writers
        .get(&file)
        .is_some_and(|list| list.contains(&Writer::Swap))
    {
        let said =
            "it is the swap file of a cache, which only that cache may read or write: name another file";
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, said));
    }
    Ok(())
}

/// As a thread that has just begun to open a file.
#[cfg(test)]
pub(crate) fn held_writers() -> impl Sized {
    WRITERS.lock()
}
