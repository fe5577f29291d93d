//! A range of anonymous private memory: the few calls to the kernel that the arena and the arrays need.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// The size of a huge page on x86-64 and on aarch64 with 4 KiB pages.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

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
    /// is used. Readable and writable, and then zero, only if `accessible`.
    ///
    /// # Errors
    /// What mmap(2) says: the process's address space (`ulimit -v`) is used up, or overcommit is off.
    pub(crate) fn new(len: usize, accessible: bool) -> io::Result<Mapping> {
        let too_much = || io::Error::from_raw_os_error(libc::ENOMEM);
        let len = len
            .max(1)
            .checked_next_multiple_of(HUGE_PAGE)
            .ok_or_else(too_much)?;
        let len_with_slack = len.checked_add(HUGE_PAGE).ok_or_else(too_much)?;
        let protection = if accessible {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_NONE
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe { libc::mmap(ptr::null_mut(), len_with_slack, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = address.cast::<u8>();
        let before = address.align_offset(HUGE_PAGE);
        let start = address.wrapping_add(before);
        unmap(address, before);
        unmap(start.wrapping_add(len), HUGE_PAGE - before);
        let start = NonNull::new(start).ok_or_else(too_much)?;
        Ok(Mapping { start, len })
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
        // SAFETY: `part` checked that the range is ours; to take access away breaks nobody's memory, it
        // stops them.
        let result = unsafe { libc::mprotect(address.cast(), len, protection) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
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
    /// afterwards.
    ///
    /// # Safety
    /// Nobody may hold a reference into the range, except to atomics for which zero is a value.
    pub(crate) unsafe fn discard(&self, range: Range<usize>) {
        let (address, len) = self.part(&range);
        // SAFETY: the range is ours, and the caller promises that nobody minds its content becoming zero.
        let result = unsafe { libc::madvise(address.cast(), len, libc::MADV_DONTNEED) };
        // It can only fail for a range that is not mapped or is locked, and this one is neither.
        assert_eq!(
            result,
            0,
            "MADV_DONTNEED of {range:?}: {}",
            io::Error::last_os_error()
        );
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
    /// Put memory behind it now instead of at the first touch (Linux 5.14).
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

/// Called only with parts of a mapping that its only owner is done with.
fn unmap(address: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the caller owns the range and nothing refers into it any more.
        unsafe { libc::munmap(address.cast(), len) };
    }
}
