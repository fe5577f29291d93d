//! A range of anonymous private memory: the few calls to the kernel that the arena and the arrays need.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// The size of a huge page on x86-64 and on aarch64 with 4 KiB pages.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Give back memory that is locked (Linux 5.18).
const MADV_DONTNEED_LOCKED: libc::c_int = 24;

/// Address space that begins at a multiple of [`HUGE_PAGE`], unmapped when dropped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a range of addresses belongs to no thread; what is read and written there is the owner's
// affair.
unsafe impl Send for Mapping {}
// SAFETY: every method that takes `&self` is a system call, and those may be made from any thread.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` bytes of address space, rounded up to whole huge pages. Nothing is charged for it before it
    /// is used. Readable and writable, and then zero, only if `accessible`: in a process that has the memory to come locked
    /// (`mlockall`) it is then not locked, for that would fill all of it at once.
    ///
    /// # Errors
    /// What mmap(2) says: the process's address space (`ulimit -v`) is used up, overcommit is off, or memory to come is
    /// locked and would be more than the process may lock.
    pub(crate) fn new(len: usize, accessible: bool) -> io::Result<Mapping> {
        let too_much = || io::Error::from_raw_os_error(libc::ENOMEM);
        let len = len
            .max(1)
            .checked_next_multiple_of(HUGE_PAGE)
            .ok_or_else(too_much)?;
        let len_with_slack = len.checked_add(HUGE_PAGE).ok_or_else(too_much)?;
        let protection = libc::PROT_NONE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe { libc::mmap(ptr::null_mut(), len_with_slack, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(explained(io::Error::last_os_error(), len));
        }
        let address = address.cast::<u8>();
        let before = address.align_offset(HUGE_PAGE);
        let start = address.wrapping_add(before);
        unmap(address, before);
        unmap(start.wrapping_add(len), HUGE_PAGE - before);
        let start = NonNull::new(start).ok_or_else(too_much)?;
        let mapping = Mapping { start, len };
        mapping.unmerge();
        if accessible {
            mapping.unlock();
            mapping.protect(0..len, true)?;
        }
        Ok(mapping)
    }

    /// Memory that the program has had locked, of this or of all, is not any more.
    pub(crate) fn unlock(&self) {
        // SAFETY: changes no content. It is nothing where nothing is locked.
        unsafe { libc::munlock(self.start.as_ptr().cast(), self.len) };
    }

    /// Pages that the kernel has merged with others that are alike (`MADV_MERGEABLE`, `PR_SET_MEMORY_MERGE`) are its own again,
    /// and it merges no more of them.
    pub(crate) fn unmerge(&self) {
        // SAFETY: changes no content. A kernel without it refuses, and has merged nothing.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_UNMERGEABLE) };
    }

    /// The first byte.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes `range`, in bytes and whole pages, readable and writable, or neither.
    ///
    /// # Errors
    /// What mprotect(2) says: too many mappings, or no memory to promise.
    pub(crate) fn protect(&self, range: Range<usize>, accessible: bool) -> io::Result<()> {
        let (address, len) = self.part(&range);
        let protection = if accessible {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_NONE
        };
        // SAFETY: `part` checked that the range is ours; taking access away breaks no memory, it stops
        // the threads that use it.
        let result = unsafe { libc::mprotect(address.cast(), len, protection) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Makes all of it readable, and not writable: a write is `SIGSEGV`.
    ///
    /// # Errors
    /// What mprotect(2) says.
    pub(crate) fn only_read(&self) -> io::Result<()> {
        // SAFETY: the range is ours; taking a right away breaks no memory.
        let result = unsafe { libc::mprotect(self.start.as_ptr().cast(), self.len, libc::PROT_READ) };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Gives the kernel a hint about `range`, in bytes and whole pages.
    ///
    /// # Errors
    /// What madvise(2) says; hints may be ignored or unknown.
    pub(crate) fn advise(&self, range: Range<usize>, advice: Advice) -> io::Result<()> {
        let (address, len) = self.part(&range);
        let advice = match advice {
            Advice::HugePages => libc::MADV_HUGEPAGE,
            Advice::SmallPages => libc::MADV_NOHUGEPAGE,
            Advice::DoNotDump => libc::MADV_DONTDUMP,
            Advice::DoNotFork => libc::MADV_DONTFORK,
            Advice::Populate => libc::MADV_POPULATE_WRITE,
        };
        // SAFETY: none of these changes the content of memory in this process.
        let result = unsafe { libc::madvise(address.cast(), len, advice) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Gives the memory of `range`, in bytes and whole pages, back to the kernel. It reads as zero
    /// afterwards. `false`: the kernel keeps it as it is.
    ///
    /// # Safety
    /// There may be no reference into the range, except to atomics for which zero is a value.
    pub(crate) unsafe fn discard(&self, range: Range<usize>) -> bool {
        let (address, len) = self.part(&range);
        // SAFETY: the range is ours, and the caller promises that its content may become zero.
        unsafe { give_back(address.cast(), len) }
    }

    fn part(&self, range: &Range<usize>) -> (*mut u8, usize) {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "bytes {range:?} of a mapping of {}",
            self.len
        );
        (
            self.start.as_ptr().wrapping_add(range.start),
            range.end - range.start,
        )
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.start.as_ptr(), self.len);
    }
}

/// Gives private memory back to the kernel, also such as the program has had locked (`mlock`, `mlockall`), which is refused
/// at first. Whether it was; else there is nothing at these addresses any more.
///
/// # Safety
/// There may be no reference to the memory, or its content comes from elsewhere when it is touched, or may
/// become zero.
pub(super) unsafe fn give_back(address: *mut libc::c_void, len: usize) -> bool {
    // SAFETY: as the caller promises.
    let give = |advice| unsafe { libc::madvise(address, len, advice) == 0 };
    if give(libc::MADV_DONTNEED) || give(MADV_DONTNEED_LOCKED) {
        return true;
    }
    // A kernel before 5.18.
    // SAFETY: changes no content.
    unsafe { libc::munlock(address, len) };
    give(libc::MADV_DONTNEED)
}

/// The meaning of `EAGAIN` from mmap(2).
fn explained(error: io::Error, len: usize) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!(
                "this process locks all its future memory (mlockall), and may not lock {} MiB more: raise \
                 `ulimit -l`, or make the cache before mlockall",
                len >> 20
            ),
        ),
        _ => error,
    }
}

/// A hint about memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Advice {
    /// Use huge pages where they fit.
    HugePages,
    /// Never use huge pages.
    SmallPages,
    /// Leave it out of core dumps.
    DoNotDump,
    /// A child process does not get it.
    DoNotFork,
    /// Commit memory now instead of at the first touch (Linux 5.14).
    Populate,
}

/// The kernel's own page size in bytes.
pub(crate) fn kernel_page() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    *PAGE.get_or_init(|| {
        // SAFETY: sysconf(3) reads a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(page).unwrap_or(4096)
    })
}

/// Whether the page at this address is in memory, or on its way to or from swap. One in swap is not.
pub(crate) fn is_resident(address: usize) -> bool {
    let mut found = 0;
    let page = std::ptr::without_provenance_mut(address);
    // SAFETY: the kernel writes a byte for the one page, and checks its address.
    let answer = unsafe { libc::mincore(page, kernel_page(), &raw mut found) };
    // Without memory for the answer there is none.
    answer != 0 || found & 1 == 1
}

/// Called only with parts of a mapping that its only owner is done with.
fn unmap(address: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the caller owns the range and nothing refers into it now.
        unsafe { libc::munmap(address.cast(), len) };
    }
}
