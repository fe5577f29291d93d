//! Forked children, which have a copy of a cache's objects and none of its threads, memory and rights.
//!
//! The C library's `fork` calls [`in_child`] in each child before it goes on. From then on what the parent
//! has made is known to be another process's: calls are refused, and drops do nothing, for they would wait
//! for threads that are not there, unmap what the child has put there since, and end what is the parent's. (A
//! fork by the bare system call is not noticed.)
//!
//! A lock of a file (`flock`) belongs to all processes that have the open file, so that a child would keep it
//! when its parent is killed. So a child closes such files as well ([`FileLock`]). A POSIX lock would not be
//! inherited, but is lost as soon as the process closes any descriptor of the file.

mod touched;

pub(crate) use touched::Listed;

use super::direct;
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

/// How often this process and its forefathers were forked since the first cache, seen from here.
static FORKS: AtomicU32 = AtomicU32::new(0);

const NONE: RawFd = -1;

/// Files that children close: as many as a process may have open, unless it asks for more. If there are more, their locks
/// live on in children.
static LOCKED: [AtomicI32; 1024] = [const { AtomicI32::new(NONE) }; 1024];

/// The process that made something: equal only in that process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Maker(u32);

impl Maker {
    /// This one.
    pub fn this() -> Maker {
        static WATCHED: Once = Once::new();
        WATCHED.call_once(|| {
            // If there is no memory for it, forks are not noticed.
            // SAFETY: a function without arguments that does nothing but what may be done in a child of many threads.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        Maker(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this process is another: a child of that one. One load.
    #[inline]
    pub fn is_another(self) -> bool {
        self.0 != FORKS.load(Ordering::Relaxed)
    }
}

/// What all caches of a process share. A forked child begins with an empty one: what is in it is the parent's, and a thread
/// that the child does not have may hold the lock of it.
pub struct OfProcess<T>(AtomicPtr<(Maker, Mutex<T>)>);

impl<T: Default> OfProcess<T> {
    /// For a static.
    #[allow(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> OfProcess<T> {
        OfProcess(AtomicPtr::new(ptr::null_mut()))
    }

    /// This process's value.
    pub fn lock(&self) -> MutexGuard<'static, T>
    where
        T: 'static,
    {
        loop {
            let found = self.0.load(Ordering::Acquire);
            // SAFETY: null, or what was leaked below: it is never freed, and only shared.
            let known: Option<&'static (Maker, Mutex<T>)> = unsafe { found.as_ref() };
            if let Some((maker, shared)) = known
                && !maker.is_another()
            {
                return shared.lock();
            }
            let fresh = Box::into_raw(Box::new((Maker::this(), Mutex::new(T::default()))));
            let taken = self
                .0
                .compare_exchange(found, fresh, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_err() {
                // SAFETY: made above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }
}

/// Runs in a child, which has one thread: stores and system calls only.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for slot in &LOCKED {
        let fd = slot.swap(NONE, Ordering::Relaxed);
        if fd != NONE {
            // SAFETY: the child's copy of a descriptor that is used for nothing but the lock, by its owner in
            // the parent.
            unsafe { libc::close(fd) };
        }
    }
    touched::explain();
}

/// An open file that children close: for a lock of it, and nothing else.
#[derive(Debug)]
pub(crate) struct NotInChildren<F: AsRawFd> {
    /// There until it is dropped.
    file: Option<F>,
    maker: Maker,
    slot: Option<&'static AtomicI32>,
}

impl<F: AsRawFd> NotInChildren<F> {
    /// Before it is locked: a child that comes in between has a file that is not.
    pub(crate) fn new(file: F) -> NotInChildren<F> {
        let maker = Maker::this();
        let fd = file.as_raw_fd();
        let take = |slot: &&AtomicI32| {
            slot.compare_exchange(NONE, fd, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        let slot = LOCKED.iter().find(take);
        let file = Some(file);
        NotInChildren { file, maker, slot }
    }

    /// Whether this process is a child of the one that has opened it, in which it may be closed.
    pub(crate) fn is_anothers(&self) -> bool {
        self.maker.is_another()
    }

    /// # Panics
    /// Never: the file is taken out only when this is dropped.
    pub(crate) fn file(&self) -> &F {
        self.file.as_ref().expect("there until it is dropped")
    }
}

impl<F: AsRawFd> Drop for NotInChildren<F> {
    fn drop(&mut self) {
        // In a child the descriptor's number may be another file's.
        if !self.is_anothers() {
            if let Some(slot) = self.slot {
                slot.store(NONE, Ordering::Relaxed);
            }
            drop(self.file.take());
        } else if self.slot.is_some() {
            mem::forget(self.file.take());
        }
    }
}

/// A lock of a file that ends with this value or with the process, whatever children there are.
#[derive(Debug)]
pub(crate) struct FileLock<F: AsRawFd>(NotInChildren<F>);

impl<F: AsRawFd> FileLock<F> {
    /// Locks a file that is open for nothing else.
    ///
    /// # Errors
    /// `EWOULDBLOCK` if it is locked already.
    pub(crate) fn new(file: F) -> io::Result<FileLock<F>> {
        let lock = FileLock(NotInChildren::new(file));
        direct::lock(lock.file())?;
        Ok(lock)
    }

    /// The file.
    pub(crate) fn file(&self) -> &F {
        self.0.file()
    }
}

impl<F: AsRawFd> Drop for FileLock<F> {
    fn drop(&mut self) {
        // In a child it is closed, or its parent is the one to unlock it.
        if !self.0.is_anothers() {
            direct::unlock(self.file());
        }
    }
}

#[cfg(test)]
mod tests;
