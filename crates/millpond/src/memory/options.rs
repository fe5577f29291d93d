//! How a region is made, and how a file is mapped.

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
        self.faults.touch()
    }
}

impl Faults {
    fn touch(self) -> Touch {
        match self {
            Faults::Handlers => Touch::Sleeps,
            Faults::InThread => Touch::Signals,
        }
    }
}

/// How a file is mapped: [`File::map`](crate::File::map).
#[derive(Clone, Debug, Default)]
pub struct MapOptions {
    faults: Faults,
    room: u64,
    writable: bool,
}

impl MapOptions {
    /// Faults are served by threads of the cache.
    pub fn new() -> MapOptions {
        MapOptions::default()
    }

    /// Which thread serves the mapping's faults. Default: [`Faults::Handlers`]. The same for all mappings of a file that
    /// are there at a time.
    pub fn faults(mut self, faults: Faults) -> MapOptions {
        self.faults = faults;
        self
    }

    /// Whether the mapping may be written: what is stored there is in the file at once, for all calls and mappings, and durable
    /// after a [`Mapping::sync`](crate::Mapping::sync). Takes a file that was opened for writing. Default: only read.
    pub fn writable(mut self, writable: bool) -> MapOptions {
        self.writable = writable;
        self
    }

    /// How many bytes of the file later mappings of it can have while this one is there: they are parts of the same
    /// addresses, which are reserved by the first. Costs addresses only. Default: twice the file, and 1 GiB at least.
    pub fn room(mut self, bytes: u64) -> MapOptions {
        self.room = bytes;
        self
    }

    pub(crate) fn touch(&self) -> Touch {
        self.faults.touch()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Bytes of addresses for a file of `len` bytes of which the first `end` are mapped.
    pub(crate) fn addresses(&self, len: u64, end: u64) -> u64 {
        let least = match self.room {
            0 => len.saturating_mul(2).max(1 << 30),
            room => room,
        };
        least.max(end).max(len)
    }
}
