//! Files without the page cache: the system calls that std does not have.

use super::segment::Segments;
use crate::sys::refusal::explained;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, RawFd};

/// Ranges that one call takes (`UIO_MAXIOV`).
pub(crate) const RANGES_MAX: usize = 1024;

/// Buffered I/O that drops its pages from the page cache when it is done (Linux 6.14).
pub(crate) const DONT_CACHE: i32 = libc::RWF_DONTCACHE;

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// From the file to memory.
    Read,
    /// From memory to the file.
    Write,
}

/// A call that is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// On the descriptor that bypasses the page cache.
    pub(crate) direct: bool,
    pub(crate) offset: u64,
    /// Bytes of the segments before it.
    pub(crate) skip: usize,
    pub(crate) len: usize,
    pub(crate) flags: i32,
}

/// The alignment that direct I/O on a file needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DirectAlignment {
    pub(crate) memory: u32,
    /// Of offsets and lengths. Zero: the file can't do direct I/O.
    pub(crate) offset: u32,
}

/// One call of preadv2 or pwritev2 for `len` bytes after the first `skip` of `segments`.
///
/// # Errors
/// The call's, `EINTR` and `EAGAIN` among them.
pub(crate) fn transfer_some(
    file: BorrowedFd<'_>,
    op: Op,
    segments: &Segments,
    (skip, len): (usize, usize),
    offset: u64,
    flags: i32,
) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    let at = Place {
        fd: file.as_raw_fd(),
        offset,
        flags,
    };
    match op {
        Op::Read => read_some(at, segments, (skip, len)),
        Op::Write => write_some(at, segments, (skip, len)),
    }
}

/// Where a call begins, and how it is made.
struct Place {
    fd: RawFd,
    offset: libc::off_t,
    flags: i32,
}

fn read_some(at: Place, segments: &Segments, part: (usize, usize)) -> io::Result<usize> {
    let Place { fd, offset, flags } = at;
    with_ranges(segments, part, |ranges| match ranges {
        // SAFETY: the range is inside memory that `segments` owns, and `Memory` allows transfers of it.
        [one] if flags == 0 => unsafe { libc::pread(fd, one.iov_base, one.iov_len, offset) },
        // SAFETY: as above for every range; the array of ranges lives until the call returns.
        _ => unsafe { libc::preadv2(fd, ranges.as_ptr(), ranges.len() as i32, offset, flags) },
    })
}

/// A separate function: `.ci/tsan.supp` names it, as pages may be changed while they are written.
fn write_some(at: Place, segments: &Segments, part: (usize, usize)) -> io::Result<usize> {
    let Place { fd, offset, flags } = at;
    with_ranges(segments, part, |ranges| match ranges {
        // SAFETY: the range is inside memory that `segments` owns, and `Memory` allows transfers of it.
        [one] if flags == 0 => unsafe { libc::pwrite(fd, one.iov_base, one.iov_len, offset) },
        // SAFETY: as above for every range; the array of ranges lives until the call returns.
        _ => unsafe { libc::pwritev2(fd, ranges.as_ptr(), ranges.len() as i32, offset, flags) },
    })
}

/// Makes `call` with the ranges of a part of `segments`. Returns the number of bytes that the call
/// reports.
fn with_ranges(
    segments: &Segments,
    (skip, len): (usize, usize),
    call: impl FnOnce(&[libc::iovec]) -> isize,
) -> io::Result<usize> {
    let mut scratch = Vec::new();
    let transferred = call(segments.window(skip, len, &mut scratch));
    usize::try_from(transferred).map_err(|_| io::Error::last_os_error())
}

/// Locks the file for this process alone, for as long as it is open.
///
/// # Errors
/// `EWOULDBLOCK` if it is locked already.
pub(crate) fn lock(file: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: takes numbers; the file is open until the call returns.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Removes this opening's lock on the file, even if others share the opening.
pub(crate) fn unlock(file: &impl AsRawFd) {
    // SAFETY: takes numbers; the file is open until the call returns.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Gives the file blocks for its first `len` bytes.
///
/// # Errors
/// The file system's: it has no space, or does not support it.
pub(crate) fn allocate(file: &File, len: u64) -> io::Result<()> {
    let len = libc::off_t::try_from(len).map_err(io::Error::other)?;
    // SAFETY: takes numbers; the file is open until the call returns.
    match unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the kernel's page cache drop what it has of the file and need not write. The kernel may
/// refuse.
pub(crate) fn forget_cached(file: &File) {
    // SAFETY: takes numbers; the file is open until the call returns.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// Whether the file takes [`DONT_CACHE`].
pub(crate) fn takes_dont_cache(file: &File) -> bool {
    let mut byte = 0_u8;
    let iovec = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: one range of one byte, both of which live until the call returns.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const iovec, 1, 0, DONT_CACHE) };
    read >= 0
}

/// Starts writing what the page cache holds of the range and drops what is clean. Only advice.
pub(crate) fn drop_cached(file: BorrowedFd<'_>, offset: u64, len: usize) {
    if let (Ok(offset), Ok(len)) = (libc::off_t::try_from(offset), libc::off_t::try_from(len)) {
        // SAFETY: touches no memory of ours. Its failure means that pages stay cached.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, libc::POSIX_FADV_DONTNEED) };
    }
}

/// What the kernel says about direct I/O on the file, if it says anything (Linux 6.1, ext4, xfs, f2fs, block devices).
pub(crate) fn direct_alignment(file: &File) -> Option<DirectAlignment> {
    let mut statx = MaybeUninit::<libc::statx>::zeroed();
    let (empty, flags): (&CStr, i32) = (c"", libc::AT_EMPTY_PATH);
    // SAFETY: an empty path ended by NUL, and room for the answer.
    let failed = unsafe {
        libc::statx(
            file.as_raw_fd(),
            empty.as_ptr(),
            flags,
            libc::STATX_DIOALIGN,
            statx.as_mut_ptr(),
        )
    };
    // SAFETY: zeroed, which is a valid statx, and perhaps written by the kernel.
    let statx = unsafe { statx.assume_init() };
    (failed == 0 && statx.stx_mask & libc::STATX_DIOALIGN != 0).then_some(DirectAlignment {
        memory: statx.stx_dio_mem_align,
        offset: statx.stx_dio_offset_align,
    })
}

/// A file without a name, in memory.
///
/// # Errors
/// If the process has no memory or descriptors left.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: a name ended by NUL.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(explained("memfd_create", io::Error::last_os_error()));
    }
    // SAFETY: just made, and no other owner knows it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// How a file is open, as far as its flags say so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenedFor {
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// Each write goes to the end of the file, whatever its offset.
    pub(crate) appends: bool,
}

/// What this descriptor may be used for.
///
/// # Errors
/// If the descriptor is not one.
pub(crate) fn opened_for(file: &File) -> io::Result<OpenedFor> {
    let flags = flags(file)?;
    let access = flags & libc::O_ACCMODE;
    Ok(OpenedFor {
        is_readable: access != libc::O_WRONLY,
        is_writable: access != libc::O_RDONLY,
        appends: flags & libc::O_APPEND != 0,
    })
}

/// Whether it is open for reading, or for reading and writing, with direct I/O or without, and with no other
/// flag that changes what calls do.
pub(crate) fn is_plain(file: &File, is_writable: bool, is_direct: bool) -> bool {
    let others =
        libc::O_APPEND | libc::O_SYNC | libc::O_DSYNC | libc::O_NONBLOCK | libc::O_ASYNC | libc::O_NOATIME;
    let access = if is_writable { libc::O_RDWR } else { libc::O_RDONLY };
    let wanted = access | if is_direct { libc::O_DIRECT } else { 0 };
    flags(file).is_ok_and(|flags| flags & (libc::O_ACCMODE | libc::O_DIRECT | others) == wanted)
}

fn flags(file: &File) -> io::Result<i32> {
    // SAFETY: no memory is passed.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) } {
        -1 => Err(io::Error::last_os_error()),
        flags => Ok(flags),
    }
}
