//! How a region is made.

use crate::sys::uffd::Touch;

/// Which thread serves the faults of a region.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Faults {
    /// Threads of the cache: a thread that touches a page which is not there sleeps until one has brought it. System calls
    /// work on the region's memory, as far as [`Notice::NoKernelFaults`](crate::host::Notice::NoKernelFaults) does not say
    /// otherwise.
    #[default]
    Handlers,
    /// The thread that touches the page, in a handler of `SIGBUS`. There is no thread to wake, so a fault
    /// takes less; in return:
    ///
    /// - A system call that touches a page which is not there fails with `EFAULT`, and so does one that writes into a page
    ///   of which no more is known than that it was read: write a byte of each page that it gets before, or copy.
    /// - The process's handler of `SIGBUS` is Millpond's from then on; what is not a region's goes to the one
    ///   before. A program that sets another afterwards must hand such signals on. No thread that touches the
    ///   region may block the signal.
    /// - The fault runs on the thread's own stack and may allocate: the region can't be the memory of an allocator, and its
    ///   threads need some 16 KiB of stack.
    InThread,
}

/// How a region is made: [`PageCache::region_with`](crate::PageCache::region_with).
#[derive(Clone, Debug, Default)]
pub struct RegionOptions {
    faults: Faults,
}

impl RegionOptions {
    /// Faults are served by threads of the cache.
    pub fn new() -> RegionOptions {
        RegionOptions::default()
    }

    /// Which thread serves the region's faults. Default: [`Faults::Handlers`].
    pub fn faults(mut self, faults: Faults) -> RegionOptions {
        self.faults = faults;
        self
    }

    pub(crate) fn touch(&self) -> Touch {
        match self.faults {
            Faults::Handlers => Touch::Sleeps,
            Faults::InThread => Touch::Signals,
        }
    }
}
