//! Options for regions and for file mappings.

use crate::sys::uffd::OnTouch;

/// The thread that serves the page faults of a region.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Faults {
    /// Threads of the cache serve faults: a thread that touches a missing page sleeps until the page is loaded. System
    /// calls work on the region's memory, unless there is a
    /// [`Notice::NoKernelFaults`](crate::host::Notice::NoKernelFaults).
    #[default]
    Handlers,
    /// The thread that touches the page serves the fault, in a `SIGBUS` handler. A fault takes less time because no
    /// other thread must be woken, but there are restrictions:
    ///
    /// - A system call that touches a missing page fails with `EFAULT`. So does one that writes into a page that has only
    ///   been read so far. Write a byte of each page before passing it to the system call, or copy.
    /// - Millpond's handler replaces the process's `SIGBUS` handler, and passes signals that don't concern a region to the
    ///   previous one. A program that installs another handler later must pass signals on likewise. No thread that touches
    ///   the region may block the signal.
    /// - The fault runs on the thread's own stack and may allocate. The region therefore can't be the memory of an
    ///   allocator, and its threads need about 16 KiB of stack.
    InThread,
}

/// Options for creating a region: [`PageCache::region_with`](crate::PageCache::region_with).
#[derive(Clone, Debug, Default)]
pub struct RegionOptions {
    faults: Faults,
}

impl RegionOptions {
    /// Faults are served by threads of the cache.
    pub fn new() -> RegionOptions {
        RegionOptions::default()
    }

    /// Sets which thread serves the region's faults. Default: [`Faults::Handlers`].
    pub fn faults(mut self, faults: Faults) -> RegionOptions {
        self.faults = faults;
        self
    }

    pub(crate) fn touch(&self) -> OnTouch {
        self.faults.touch()
    }
}

impl Faults {
    fn touch(self) -> OnTouch {
        match self {
            Faults::Handlers => OnTouch::Sleeps,
            Faults::InThread => OnTouch::Signals,
        }
    }
}

/// Options for mapping a file: [`File::map`](crate::File::map).
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

    /// Sets which thread serves the mapping's faults. Default: [`Faults::Handlers`]. All concurrent mappings of a file
    /// must use the same choice.
    pub fn faults(mut self, faults: Faults) -> MapOptions {
        self.faults = faults;
        self
    }

    /// Makes the mapping writable. Stores change the file at once, for all calls and mappings, and are durable after a
    /// [`Mapping::sync`](crate::Mapping::sync). Requires a file that is open for writing. Default: read-only.
    pub fn writable(mut self, writable: bool) -> MapOptions {
        self.writable = writable;
        self
    }

    /// Sets how many bytes of the file later mappings can cover while this one exists. They share the addresses that
    /// the first mapping reserves. Costs only address space. Default: twice the file's length, and at least 1 GiB.
    pub fn room(mut self, bytes: u64) -> MapOptions {
        self.room = bytes;
        self
    }

    pub(crate) fn touch(&self) -> OnTouch {
        self.faults.touch()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns the bytes of address space for a file of `len` bytes of which the first `end` are mapped.
    pub(crate) fn addresses(&self, len: u64, end: u64) -> u64 {
        let least = match self.room {
            0 => len.saturating_mul(2).max(1 << 30),
            room => room,
        };
        least.max(end).max(len)
    }
}
