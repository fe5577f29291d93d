//! Files.

use super::handle::{self, value};
use super::memory::{self, Extensible, bytes, bytes_mut, one_of, only_flags, out, sized, zero_reserved};
use super::{cache, millpond_cache, millpond_check, millpond_file, millpond_log};
use crate::code::millpond_code;
use crate::told::{Failure, attempt};
use millpond::{Advice, CloseError, OpenOptions, StablePages};
use std::ffi::{c_char, c_int, c_void};
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

/// millpond_file_options.flags: for writing as well.
pub const MILLPOND_OPEN_WRITE: u32 = 1;
/// millpond_file_options.flags: for writing, and a file that is missing is made.
pub const MILLPOND_OPEN_CREATE: u32 = 2;
/// millpond_file_options.flags: for writing, and the file must be missing and is made.
pub const MILLPOND_OPEN_CREATE_NEW: u32 = 4;
/// millpond_file_options.flags: a file that exists is cut to no bytes.
pub const MILLPOND_OPEN_TRUNCATE: u32 = 8;
/// millpond_file_options.flags: the file is locked (F_OFD_SETLK) until its last handle is closed.
pub const MILLPOND_OPEN_EXCLUSIVE: u32 = 16;
/// millpond_file_options.flags: also if another cache of the process writes the file. The program keeps the two apart.
pub const MILLPOND_OPEN_BESIDE_OTHER_CACHES: u32 = 32;

/// What happens when a page is changed while it is being written.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum millpond_stable_pages {
    /// As the file needs it: COPY with a log or a check, else OFF.
    MILLPOND_STABLE_DEFAULT = 0,
    /// The device may get a mixture, which a later write replaces.
    MILLPOND_STABLE_OFF = 1,
    /// The device gets a copy.
    MILLPOND_STABLE_COPY = 2,
    /// The changer waits for the write.
    MILLPOND_STABLE_WAIT = 3,
}

/// How a file will be used: speed, nothing else.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum millpond_advice {
    /// Find out.
    MILLPOND_ADVICE_NORMAL = 0,
    /// Never read ahead.
    MILLPOND_ADVICE_RANDOM = 1,
    /// Read ahead with the largest window at once.
    MILLPOND_ADVICE_SEQUENTIAL = 2,
}

/// How a file is opened. Set all of it to zero, then `size` and what is to be other than the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct millpond_file_options {
    /// sizeof(struct millpond_file_options).
    pub size: usize,
    /// MILLPOND_OPEN_... flags. 0: for reading a file that exists.
    pub flags: u32,
    /// The permissions of a file that is made, less the umask. 0: 0666.
    pub mode: u32,
    /// A millpond_stable_pages. This, `log` and `check` are the file's, as its first handle gives them; later ones give
    /// nothing, or the same.
    pub stable_pages: u32,
    /// 0.
    pub reserved: u32,
    /// The log that pages with an order wait for. The file keeps it until it is closed. NULL: none.
    pub log: *const millpond_log,
    /// Looks at every page when it is written and when it is read. The file keeps it. NULL: none.
    pub check: *const millpond_check,
}

/// SAFETY: numbers, and pointers that may be NULL.
unsafe impl Extensible for millpond_file_options {
    const NAME: &'static str = "struct millpond_file_options";
    const FIRST: usize = std::mem::offset_of!(millpond_file_options, check) + size_of::<usize>();
}

fn open_options(given: *const millpond_file_options) -> Result<OpenOptions, Failure> {
    if given.is_null() {
        return Ok(OpenOptions::new());
    }
    let given = sized(given)?;
    let has = |flag| given.flags & flag != 0;
    let known = (MILLPOND_OPEN_BESIDE_OTHER_CACHES << 1) - 1;
    only_flags(millpond_file_options::NAME, given.flags, known)?;
    zero_reserved(millpond_file_options::NAME, given.reserved)?;
    let mut options = OpenOptions::new()
        .write(has(MILLPOND_OPEN_WRITE))
        .create(has(MILLPOND_OPEN_CREATE))
        .create_new(has(MILLPOND_OPEN_CREATE_NEW))
        .truncate(has(MILLPOND_OPEN_TRUNCATE))
        .exclusive(has(MILLPOND_OPEN_EXCLUSIVE))
        .beside_other_caches(has(MILLPOND_OPEN_BESIDE_OTHER_CACHES));
    if given.mode != 0 {
        options = options.mode(given.mode);
    }
    let stable = {
        use millpond_stable_pages::*;
        let known = [
            (MILLPOND_STABLE_DEFAULT as u32, None),
            (MILLPOND_STABLE_OFF as u32, Some(StablePages::Off)),
            (MILLPOND_STABLE_COPY as u32, Some(StablePages::Copy)),
            (MILLPOND_STABLE_WAIT as u32, Some(StablePages::Wait)),
        ];
        one_of("millpond_stable_pages", given.stable_pages, &known)?
    };
    if let Some(stable) = stable {
        options = options.stable_pages(stable);
    }
    if !given.log.is_null() {
        options = options.log(value(given.log)?);
    }
    if !given.check.is_null() {
        options = options.check(value(given.check)?.shared());
    }
    Ok(options)
}

/// Bytes that a file can have at most.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// # Errors
/// `MILLPOND_RANGE` of an offset that no file has.
fn offset_of_a_file(offset: u64) -> Result<u64, Failure> {
    match offset <= FILE_BYTES_MAX {
        true => Ok(offset),
        false => Err(Failure::range(format!(
            "offset {offset} is out of range: must be 0 to {FILE_BYTES_MAX}"
        ))),
    }
}

/// Opens a file or block device. `options` may be NULL, for reading. The caller owns `*file` and closes it with
/// millpond_file_close or millpond_file_drop. All handles of a file share its pages, by whatever name it was opened. Any
/// thread may use it at any time.
///
/// MILLPOND_OPEN says why not; MILLPOND_INVALID, MILLPOND_MEMORY. Takes a few system calls.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_open(
    cache: *mut millpond_cache,
    path: *const c_char,
    options: *const millpond_file_options,
    file: Option<&mut *mut millpond_file>,
) -> millpond_code {
    attempt(|| {
        let (file, path) = (out(file, "file")?, memory::path(path)?);
        cache::with(cache, |cache| {
            handle::give(cache.open(path, open_options(options)?)?, file);
            Ok(())
        })
    })
}

/// The same of a file that is open already. The descriptor is duplicated: it stays the caller's, and its cursor is neither
/// used nor moved. For writing it must be open for reading and writing, and not for appending.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_open_fd(
    cache: *mut millpond_cache,
    fd: c_int,
    options: *const millpond_file_options,
    file: Option<&mut *mut millpond_file>,
) -> millpond_code {
    attempt(|| {
        let file = out(file, "file")?;
        if fd < 0 {
            return Err(Failure::invalid(format!("{fd} is no descriptor")));
        }
        let (cache, options) = (&value(cache)?.engine, open_options(options)?);
        // SAFETY: not -1, and open during the call, as the caller says; if not, it can't be duplicated.
        let given = unsafe { BorrowedFd::borrow_raw(fd) };
        let failed = |source: io::Error| millpond::Error::Open {
            path: format!("descriptor {fd}").into(),
            source,
        };
        // From here on the cache closes the duplicate, when that gives up no lock of the process.
        let own = fs::File::from(given.try_clone_to_owned().map_err(failed)?);
        handle::give(cache.open_file(own, options)?, file);
        Ok(())
    })
}

/// Another handle of the same file, for another owner. Close each separately.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_clone(
    file: *const millpond_file,
    clone: Option<&mut *mut millpond_file>,
) -> millpond_code {
    attempt(|| {
        handle::give(value(file)?.clone(), out(clone, "clone")?);
        Ok(())
    })
}

/// Another handle of the same file, as a clone, whose reads are those of a background task: a compaction, a backup, a
/// verification. They leave the device to other callers that wait for it, for half of its time at most. What they find in
/// memory does not count as used, and what they bring in, with pages ahead of a sequential reader, leaves memory before other
/// pages. This is about millpond_file_read_at and the calls like it; pages, mappings and writes are as of any handle.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_background(
    file: *const millpond_file,
    background: Option<&mut *mut millpond_file>,
) -> millpond_code {
    attempt(|| {
        handle::give(value(file)?.background(), out(background, "background")?);
        Ok(())
    })
}

/// Makes what was written durable, and closes the handle. After an error the handle is open still, and nothing is given up:
/// sync again when the cause is gone, or give up with millpond_file_drop. Put all pages of the handle before.
///
/// Errors as millpond_file_sync.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_close(file: *mut millpond_file) -> millpond_code {
    attempt(|| {
        // A clone answers, so that the handle is closed only when it went well.
        match value(file)?.clone().close() {
            Ok(()) => handle::close(file).map(drop),
            Err(CloseError { error, .. }) => Err(error.into()),
        }
    })
}

/// Closes the handle without an answer. The last one of a file writes what is dirty, waits for that, and gives up what can't
/// be written, which millpond_cache_take_lost tells. Put all pages of the handle before.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_drop(file: *mut millpond_file) -> millpond_code {
    attempt(|| handle::close(file).map(drop))
}

/// Copies up to `len` bytes from `offset` on into `buffer`. `*read` has how many: fewer than `len` only where the file ends.
///
/// MILLPOND_READ, MILLPOND_CHECK, MILLPOND_NO_FRAMES: the buffer is undefined. A hit takes no lock and no system call;
/// adjacent missing pages are one request.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_read_at(
    file: *const millpond_file,
    buffer: *mut c_void,
    len: usize,
    offset: u64,
    read: Option<&mut usize>,
) -> millpond_code {
    attempt(|| {
        *out(read, "read")? = value(file)?.read_at(bytes_mut(buffer, len)?, offset)?;
        Ok(())
    })
}

/// The same for all of `len` bytes. MILLPOND_END_OF_FILE if the file ends before that.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_read_exact_at(
    file: *const millpond_file,
    buffer: *mut c_void,
    len: usize,
    offset: u64,
) -> millpond_code {
    attempt(|| Ok(value(file)?.read_exact_at(bytes_mut(buffer, len)?, offset)?))
}

/// Copies all of `len` bytes into memory, from where the device gets them in the background; the file becomes as long as that
/// needs. Later reads see them. Durable with the next sync. May pause while too much is dirty.
///
/// MILLPOND_WRITE, MILLPOND_READ (a page kept in part), MILLPOND_LOG, MILLPOND_NO_FRAMES: a part may have been taken.
/// MILLPOND_READ_ONLY, MILLPOND_RANGE, MILLPOND_TOO_LONG: nothing was.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_write_at(
    file: *mut millpond_file,
    buffer: *const c_void,
    len: usize,
    offset: u64,
) -> millpond_code {
    attempt(|| Ok(value(file)?.write_at(bytes(buffer, len)?, offset)?))
}

/// The same at the end of the file; `*offset`, if not NULL, gets where that was. Appends stand one after the other, each
/// whole.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_append(
    file: *mut millpond_file,
    buffer: *const c_void,
    len: usize,
    offset: Option<&mut u64>,
) -> millpond_code {
    attempt(|| {
        let at = value(file)?.append(bytes(buffer, len)?)?;
        if let Some(offset) = offset {
            *offset = at;
        }
        Ok(())
    })
}

/// Makes durable all that was written to the file before the call, by any handle, with the length: it survives a loss of
/// power. Waits for pages of the file that are held for changing.
///
/// MILLPOND_WRITE: kept in memory and tried again, and every sync says so until it is written. MILLPOND_SYNC: latched until
/// the file is opened anew. MILLPOND_LOG.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_sync(file: *mut millpond_file) -> millpond_code {
    attempt(|| Ok(value(file)?.sync_data()?))
}

/// The same for other programs and the end of the process, not for a loss of power: without the flush of the device.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_write_out(file: *mut millpond_file) -> millpond_code {
    attempt(|| Ok(value(file)?.write_out()?))
}

/// Gives up the pages that the device has refused, and their error. `*pages`, if not NULL, gets how many. They read as the
/// device has them then: old, new in part, or zeros.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_discard_unwritten(
    file: *mut millpond_file,
    pages: Option<&mut u64>,
) -> millpond_code {
    attempt(|| {
        let given_up = value(file)?.discard_unwritten()?;
        if let Some(pages) = pages {
            *pages = given_up;
        }
        Ok(())
    })
}

/// The length in bytes, with all writes that have returned. No system call.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_len(
    file: *const millpond_file,
    len: Option<&mut u64>,
) -> millpond_code {
    attempt(|| {
        *out(len, "len")? = value(file)?.len();
        Ok(())
    })
}

/// Gives the file another length, for all handles: what was behind is gone, what is new is zeros. Waits for pages that go.
/// Blocks that were allocated past the end are freed, unless the length becomes longer. MILLPOND_TOO_LONG and MILLPOND_WRITE
/// change nothing.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_set_len(file: *mut millpond_file, len: u64) -> millpond_code {
    attempt(|| Ok(value(file)?.set_len(len)?))
}

/// Makes a range zeros, and gives the blocks of its whole pages back to the file system. The length stays; what is behind
/// it is left out.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_punch(
    file: *mut millpond_file,
    offset: u64,
    len: u64,
) -> millpond_code {
    attempt(|| Ok(value(file)?.punch(offset_of_a_file(offset)?, len)?))
}

/// Allocates blocks for a range, in the file and past its end, so that the device finds room for later writes to it: fallocate
/// with FALLOC_FL_KEEP_SIZE. Content and length stay. Blocks past the end are freed by a millpond_file_set_len that does not
/// make the file longer, others by millpond_file_punch. MILLPOND_WRITE: there is no room (ENOSPC), or the file system can't
/// (EOPNOTSUPP); nothing has changed but that a part of the range may have its blocks. On a copy-on-write file system a write
/// may still need room.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_allocate(
    file: *mut millpond_file,
    offset: u64,
    len: u64,
) -> millpond_code {
    attempt(|| Ok(value(file)?.allocate(offset_of_a_file(offset)?, len)?))
}

/// Begins to read a range, and waits for nothing. What can't be read, or has no room, is skipped.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_prefetch(
    file: *const millpond_file,
    offset: u64,
    len: u64,
) -> millpond_code {
    attempt(|| Ok(value(file)?.prefetch(offset_of_a_file(offset)?, len)?))
}

/// Says how the file will be used from now on, by all handles: a millpond_advice.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_advise(file: *mut millpond_file, advice: u32) -> millpond_code {
    attempt(|| {
        use millpond_advice::*;
        let known = [
            (MILLPOND_ADVICE_NORMAL as u32, Advice::Normal),
            (MILLPOND_ADVICE_RANDOM as u32, Advice::Random),
            (MILLPOND_ADVICE_SEQUENTIAL as u32, Advice::Sequential),
        ];
        let advice = one_of("millpond_advice", advice, &known)?;
        Ok(value(file)?.advise(advice)?)
    })
}

/// Says that the file is read in records of so many bytes, rounded up to whole pages, each beginning at a multiple of that, by
/// all handles: a page that is missing for a guard or a mapping is read with what is missing of its record. 4 MiB at most; 0
/// is as MILLPOND_ADVICE_RANDOM.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_advise_records(file: *mut millpond_file, bytes: u64) -> millpond_code {
    attempt(|| Ok(value(file)?.advise(Advice::Records(bytes))?))
}

/// Forgets the unchanged pages of the bytes from `start` up to `end` (UINT64_MAX: up to the end), and takes the length that
/// the device has: for files that others have changed. `*kept`, if not NULL, gets how many pages stay because they are
/// changed here.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_invalidate(
    file: *mut millpond_file,
    start: u64,
    end: u64,
    kept: Option<&mut u64>,
) -> millpond_code {
    attempt(|| {
        let file = value(file)?;
        if start > end {
            return Err(Failure::range(format!(
                "the range begins at {start} and ends at {end}: `end` is at least `start`"
            )));
        }
        let changed = match (start, end) {
            (0, u64::MAX) => file.invalidate(..)?,
            _ => file.invalidate(start..end)?,
        };
        if let Some(kept) = kept {
            *kept = changed;
        }
        Ok(())
    })
}

/// Whether the page with byte `offset` is in memory at this moment: `*is` is 1 or 0. For measuring.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_is_resident(
    file: *const millpond_file,
    offset: u64,
    is: Option<&mut c_int>,
) -> millpond_code {
    attempt(|| {
        *out(is, "is")? = value(file)?.is_resident(offset).into();
        Ok(())
    })
}
