//! A descriptor that wakes a thread: written by any thread, read by the one that is woken.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// An eventfd. A program may have wrongly closed it: closing it again is then no error.
#[derive(Debug)]
pub(crate) struct Eventfd(RawFd);

impl Eventfd {
    /// A new one. `waits`: a read of it does, until it was rung.
    ///
    /// # Errors
    /// The system's: no more descriptors, or a filter that refuses the call.
    pub(crate) fn new(waits: bool) -> io::Result<Eventfd> {
        let flags = if waits { 0 } else { libc::EFD_NONBLOCK };
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | flags) };
        match fd {
            ..0 => Err(io::Error::last_os_error()),
            fd => Ok(Eventfd(fd)),
        }
    }

    /// Wakes the thread that waits, or the next one that does.
    ///
    /// # Errors
    /// It is gone: the program has closed it.
    pub(crate) fn ring(&self) -> io::Result<()> {
        let one = 1_u64;
        // Not by `write`, which is a place where a thread may be cancelled: what is rung for may be in the path of a hit.
        // SAFETY: eight bytes, which outlive the call.
        let written = unsafe { libc::syscall(libc::SYS_write, self.0, &raw const one, size_of::<u64>()) };
        match written {
            0.. => Ok(()),
            _ => match io::Error::last_os_error() {
                // The counter is full, after 2^64 - 2 rings without an answer: it is ringing anyway.
                full if full.raw_os_error() == Some(libc::EAGAIN) => Ok(()),
                gone => Err(gone),
            },
        }
    }

    /// Back to silence, where a read of it does not wait.
    pub(crate) fn clear(&self) {
        let mut count = 0_u64;
        // SAFETY: eight bytes, which outlive the call. It may already have been silent.
        unsafe { libc::read(self.0, (&raw mut count).cast(), size_of::<u64>()) };
    }
}

impl AsRawFd for Eventfd {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl AsFd for Eventfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: ours as long as this is borrowed, or closed by the program, and then a call that is given it fails.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for Eventfd {
    fn drop(&mut self) {
        // SAFETY: takes a number, which is ours unless the program has closed it.
        unsafe { libc::close(self.0) };
    }
}
