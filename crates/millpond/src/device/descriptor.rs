//! Descriptors that are closed only when that takes no lock from the program.
//!
//! ```text
//!   done with a descriptor ──► this process has a lock on the file, by fcntl? ── no ──► closed
//!                                      │ yes, or perhaps
//!                                      ▼
//!                       kept ──► taken again when the file is opened again
//!                            └─► closed at the next opening or closing after the lock was given up
//! ```
//!
//! A POSIX lock (`F_SETLK`; what SQLite, LMDB and others hold on their files) is a process', and closing any descriptor of the
//! file in the process gives it up. SQLite, which knows its own locks only, keeps descriptors for that reason too. What is
//! left: a lock that another thread takes between the look and the close.

use crate::sys::forks::OfProcess;
use crate::sys::{direct, locks};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Those that were not closed, of the whole process, as the locks are. (A forked child has the descriptors, and none of the
/// locks.)
static KEPT: OfProcess<Vec<File>> = OfProcess::new();

/// An open file, closed with care.
#[derive(Debug)]
pub(crate) struct Descriptor(Option<File>);

impl Descriptor {
    pub(crate) fn new(file: File) -> Descriptor {
        close_free();
        Descriptor(Some(file))
    }

    /// One that was kept of the same file (`device` and `inode`, as the system numbers them), opened for the same and in
    /// no other way: a program may have given one that appends, or waits with each write.
    pub(super) fn kept(
        (device, inode): (u64, u64),
        is_writable: bool,
        is_direct: bool,
    ) -> Option<Descriptor> {
        let mut kept = KEPT.lock();
        let at = kept.iter().position(|file| {
            file.metadata()
                .is_ok_and(|m| (m.dev(), m.ino()) == (device, inode))
                && direct::is_plain(file, is_writable, is_direct)
        })?;
        Some(Descriptor(Some(kept.swap_remove(at))))
    }

    /// Its path, as the system knows it now.
    pub(super) fn path(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.as_raw_fd())).ok()
    }

    /// # Panics
    /// Never: only dropping it takes the file away.
    pub(crate) fn file(&self) -> &File {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if let Some(file) = self.0.take()
            && locks::may_be_ours(&file)
        {
            KEPT.lock().push(file);
        }
        close_free();
    }
}

/// Closes kept descriptors whose file this process no longer has locked.
fn close_free() {
    let mut kept = KEPT.lock();
    if !kept.is_empty() {
        kept.retain(locks::may_be_ours);
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file().as_fd()
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.file().as_raw_fd()
    }
}
