//! Mapped files.

use super::handle::{self, value};
use super::memory::{bytes, bytes_mut, one_of, only_flags, out};
use super::{millpond_file, millpond_map};
use crate::code::millpond_code;
use crate::told::{Failure, attempt};
use millpond::{Faults, MapAdvice, MapOptions, Mapping};
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// millpond_map_new: the memory can be written, and what is stored there is the file's.
pub const MILLPOND_MAP_WRITABLE: u32 = 1;
/// millpond_map_new: the thread that touches a page serves its fault, in a SIGBUS handler. System calls that get absent
/// memory then fail with EFAULT; without the flag they fail only if a notice says so.
pub const MILLPOND_MAP_IN_THREAD: u32 = 2;

/// How a part of a mapping will be used. millpond_file_advise is for the whole file.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum millpond_map_advice {
    /// Needed soon: it is read in the background.
    MILLPOND_MAP_WILL_NEED = 0,
    /// Not needed soon: the mapping gives the memory back. Stored data and the content stay.
    MILLPOND_MAP_DONT_NEED = 1,
}

/// Receives bytes that stay unchanged during the call.
pub type millpond_map_visit = Option<extern "C" fn(user: *mut c_void, data: *const c_void, len: usize)>;

fn part(offset: usize, len: usize) -> Range<usize> {
    offset..offset.saturating_add(len)
}

/// Maps `len` bytes of the file from `offset` on, in a cache with MILLPOND_CACHE_MAPPINGS: they are at addresses that
/// stay until millpond_map_close or millpond_map_drop, and the part in memory is within the budget. Any `offset` is
/// allowed, and so is a `len` beyond the end of the file: that part can be touched once the file is longer. `len` 0: up
/// to the end.
/// `flags` are MILLPOND_MAP_... flags. All mappings of a file show it at the same addresses. The mapping keeps the file
/// open, even when `file` is closed.
///
/// A page that can't be read is SIGBUS for the thread that touches it, after a warning that says why; so is one past the
/// end of the file. millpond_map_try_read has an error instead. A store may pause while too much is dirty. A forked child
/// that touches the memory ends with SIGSEGV.
///
/// MILLPOND_SETUP if the cache has no mappings, or if the kernel refuses; MILLPOND_RANGE also for `len` 0 where the file has
/// nothing; MILLPOND_READ_ONLY for a writable mapping of a `file` open for reading.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_map_new(
    file: *mut millpond_file,
    offset: u64,
    len: u64,
    flags: u32,
    map: Option<&mut *mut millpond_map>,
) -> millpond_code {
    millpond_map_new_with_room(file, offset, len, flags, 0, map)
}

/// The same, with addresses for the first `room` bytes of the file: all that later mappings can have while this one
/// exists, because they share its addresses. Costs addresses only, and counts for the first mapping. 0, and
/// millpond_map_new: twice the file, and at least 1 GiB.
#[unsafe(no_mangle)]
pub extern "C" fn millpond_map_new_with_room(
    file: *mut millpond_file,
    offset: u64,
    len: u64,
    flags: u32,
    room: u64,
    map: Option<&mut *mut millpond_map>,
) -> millpond_code {
    attempt(|| {
        let map = out(map, "map")?;
        let known = MILLPOND_MAP_WRITABLE | MILLPOND_MAP_IN_THREAD;
        only_flags("a mapping", flags, known)?;
        let faults = match flags & MILLPOND_MAP_IN_THREAD {
            0 => Faults::Handlers,
            _ => Faults::InThread,
        };
        let options = MapOptions::new()
            .writable(flags & MILLPOND_MAP_WRITABLE != 0)
            .faults(faults)
            .room(room);
        let file = value(file)?;
        let made = match len {
            0 => file.map(offset.., &options)?,
            len => file.map(offset..offset.saturating_add(len), &options)?,
        };
        handle::give(made, map);
        Ok(())
    })
}

/// The mapping's address and length. Write to it only if it is MILLPOND_MAP_WRITABLE: a store into another one ends the
/// program. `len` may be NULL.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_map_data(
    map: *const millpond_map,
    data: Option<&mut *mut c_void>,
    len: Option<&mut usize>,
) -> millpond_code {
    attempt(|| {
        let map: &Mapping = value(map)?;
        *out(data, "data")? = map.as_ptr().cast_mut().cast();
        if let Some(len) = len {
            *len = map.len();
        }
        Ok(())
    })
}

/// Brings `len` bytes from `offset` on into memory and lends them to `visit`, which gets `user`. No thread changes them
/// meanwhile, and the file is not cut below them: writers wait. At most a quarter of the cache's memory.
///
/// Errors as millpond_file_read_at; MILLPOND_RANGE past the end, or if there are too many bytes.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_map_try_read(
    map: *const millpond_map,
    offset: usize,
    len: usize,
    visit: millpond_map_visit,
    user: *mut c_void,
) -> millpond_code {
    attempt(|| {
        let visit = visit.ok_or_else(|| Failure::invalid("`visit` is NULL"))?;
        let lent = |bytes: &[u8]| visit(user, bytes.as_ptr().cast(), bytes.len());
        Ok(value(map)?.try_read(part(offset, len), lent)?)
    })
}

/// Copies up to `len` bytes from `offset` on into `buffer`. `*read` has how many: fewer than `len` only where the mapping or
/// the file ends. As with millpond_file_read_at, a concurrent write may appear torn only between pages.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_map_copy_to(
    map: *const millpond_map,
    buffer: *mut c_void,
    len: usize,
    offset: usize,
    read: Option<&mut usize>,
) -> millpond_code {
    attempt(|| {
        *out(read, "read")? = value(map)?.copy_to(bytes_mut(buffer, len)?, offset)?;
        Ok(())
    })
}

/// Copies all of `len` bytes to `offset`, as millpond_file_write_at. MILLPOND_RANGE past the end of the mapping or of
/// the file; then nothing is written.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_map_copy_from(
    map: *mut millpond_map,
    data: *const c_void,
    len: usize,
    offset: usize,
) -> millpond_code {
    attempt(|| Ok(value(map)?.copy_from(bytes(data, len)?, offset)?))
}

/// Makes durable what was stored in `len` bytes from `offset` on, and the rest of the file with them.
///
/// As millpond_file_sync: what could not be written stays in memory, and the next sync reports it again.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_map_sync(
    map: *mut millpond_map,
    offset: usize,
    len: usize,
) -> millpond_code {
    attempt(|| Ok(value(map)?.sync(part(offset, len))?))
}

/// Says how `len` bytes from `offset` on will be used: a millpond_map_advice.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_map_advise(
    map: *mut millpond_map,
    offset: usize,
    len: usize,
    advice: u32,
) -> millpond_code {
    attempt(|| {
        use millpond_map_advice::*;
        let known = [
            (MILLPOND_MAP_WILL_NEED as u32, MapAdvice::WillNeed),
            (MILLPOND_MAP_DONT_NEED as u32, MapAdvice::DontNeed),
        ];
        let advice = one_of("millpond_map_advice", advice, &known)?;
        Ok(value(map)?.advise(part(offset, len), advice)?)
    })
}

/// Whether the page with byte `offset` of the mapping is in memory at this moment: `*is` is 1 or 0.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_map_is_resident(
    map: *const millpond_map,
    offset: usize,
    is: Option<&mut c_int>,
) -> millpond_code {
    attempt(|| {
        *out(is, "is")? = value(map)?.is_resident(offset).into();
        Ok(())
    })
}

/// Makes what was stored durable and drops the mapping, which stays if that fails. No pointer into it may be used
/// afterwards.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_map_close(map: *mut millpond_map) -> millpond_code {
    attempt(|| {
        let open = value(map)?;
        if open.is_writable() {
            open.sync(..)?;
        }
        handle::close(map).map(drop)
    })
}

/// Drops the mapping. What was stored stays in the cache, and is written later. No pointer into it may be used
/// afterwards.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_map_drop(map: *mut millpond_map) -> millpond_code {
    attempt(|| handle::close(map).map(drop))
}
