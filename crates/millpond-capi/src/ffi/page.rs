//! Pages that are held: guards of the engine's in structs of the caller's, so that nothing is allocated.

use super::handle::value;
use super::memory::out;
use super::millpond_file;
use crate::code::millpond_code;
use crate::told::{Failure, Outcome, attempt, attempt_hit};
use millpond::internal::CancelHeldOff;
use millpond::{File, PageMut, PageRef};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// A page, held for reading. It is the caller's, and its size never changes; it needs no initialisation before
/// millpond_page_get. It may be moved, and put by another thread. Put it once, and no copy of it: putting two copies is
/// undefined behaviour, which the library does not detect.
#[repr(C)]
pub struct millpond_page {
    /// The page's bytes, which stay where they are and as they are until millpond_page_put. NULL when it is put.
    pub data: *const c_void,
    /// Their number: up to the end of the file at the time of millpond_page_get.
    pub len: usize,
    /// Private to the library.
    pub held: [MaybeUninit<u64>; 12],
}

/// A page, held for changing: no other thread sees it until it is put. Put it once, and no copy of it.
#[repr(C)]
pub struct millpond_page_mut {
    /// The page's bytes. NULL when it is put.
    pub data: *mut c_void,
    /// How many.
    pub len: usize,
    /// Private to the library.
    pub held: [MaybeUninit<u64>; 12],
}

// A guard takes less, so that it may grow.
const _: () = assert!(size_of::<PageRef<'static>>() <= 96 && align_of::<PageRef<'static>>() <= 8);
const _: () = assert!(size_of::<PageMut<'static>>() <= 96 && align_of::<PageMut<'static>>() <= 8);

fn not_held() -> Failure {
    Failure::handle("the page is not held: it was put already, or a copy of it was, or it was never got")
}

fn not_now(number: u64) -> Failure {
    Failure::Here {
        code: millpond_code::MILLPOND_NOT_NOW,
        errno: libc::EAGAIN,
        said: format!("page {number} is not in memory, or another thread has it: get it, or prefetch it"),
    }
}

/// Leaves a guard with the caller. All fields are written before any is read: the caller's struct may hold anything.
#[inline]
fn hold(page: Option<&mut millpond_page>, guard: PageRef<'_>) -> Outcome {
    let page = out(page, "page")?;
    page.data = guard.as_ptr().cast();
    page.len = guard.len();
    let held = (&raw mut page.held).cast::<PageRef<'_>>();
    // SAFETY: the room for it, which has its size and alignment. It borrows the file, which outlives it, as the header asks
    // the caller to put pages before their file is closed.
    unsafe { held.write(guard) };
    Ok(())
}

/// The same of one for changing.
fn hold_mut(page: Option<&mut millpond_page_mut>, mut guard: PageMut<'_>) -> Outcome {
    let page = out(page, "page")?;
    page.data = guard.as_mut_ptr().cast();
    page.len = guard.len();
    let held = (&raw mut page.held).cast::<PageMut<'_>>();
    // SAFETY: as in `hold`.
    unsafe { held.write(guard) };
    Ok(())
}

/// Holds page number `number` for reading. It is read from the device if it is not in memory. Put it soon: a thread that
/// wants to change it waits, and held pages take frames. A call that would wait for a page its own thread holds is
/// MILLPOND_OWN_GUARD: a write to it, or an append if it is the last page.
///
/// MILLPOND_RANGE past the end of the file; MILLPOND_READ, MILLPOND_CHECK, MILLPOND_NO_FRAMES. A hit takes no lock,
/// allocates nothing and copies nothing.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_page_get(
    file: *const millpond_file,
    number: u64,
    page: Option<&mut millpond_page>,
) -> millpond_code {
    attempt_hit(|| {
        let file = value(file)?;
        if let Some(guard) = file.page_hit(number)? {
            return hold(page, guard);
        }
        let _whole = CancelHeldOff::now();
        hold(page, file.page(number)?)
    })
}

/// The same without waiting; MILLPOND_NOT_NOW, with nothing held, if it is not in memory or another thread has it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_page_try_get(
    file: *const millpond_file,
    number: u64,
    page: Option<&mut millpond_page>,
) -> millpond_code {
    attempt(|| {
        let guard = value(file)?.try_page(number)?;
        hold(page, guard.ok_or_else(|| not_now(number))?)
    })
}

/// Releases a page. MILLPOND_HANDLE if it is not held.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_page_put(page: Option<&mut millpond_page>) -> millpond_code {
    attempt_hit(|| {
        let page = out(page, "page")?;
        if page.data.is_null() {
            return Err(not_held());
        }
        page.data = std::ptr::null();
        let held = (&raw mut page.held).cast::<PageRef<'static>>();
        // Where it is: to move it out first, its words would be read two at a time that were written one by one, for which the
        // processor waits.
        // SAFETY: `hold` has put a guard there, as `data` was not NULL, and it is dropped once.
        unsafe { held.drop_in_place() };
        Ok(())
    })
}

/// Holds page number `number` for changing: no other thread has it meanwhile. It is dirty from then on, and is not
/// written before it is put; a sync waits for that. May pause while too much is dirty. MILLPOND_OWN_GUARD if the thread
/// holds the page already, for reading too.
///
/// Errors as millpond_page_get and millpond_file_write_at. A hit is a lock of the page.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_page_mut_get(
    file: *mut millpond_file,
    number: u64,
    page: Option<&mut millpond_page_mut>,
) -> millpond_code {
    attempt(|| hold_mut(page, value(file)?.page_mut(number)?))
}

/// The same without waiting or pausing, else MILLPOND_NOT_NOW.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_page_mut_try_get(
    file: *mut millpond_file,
    number: u64,
    page: Option<&mut millpond_page_mut>,
) -> millpond_code {
    attempt(|| {
        let guard = value(file)?.try_page_mut(number)?;
        hold_mut(page, guard.ok_or_else(|| not_now(number))?)
    })
}

/// The same for a whole page: from then on the file ends no earlier than the page.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_page_mut_get_or_grow(
    file: *mut millpond_file,
    number: u64,
    page: Option<&mut millpond_page_mut>,
) -> millpond_code {
    attempt(|| hold_mut(page, value(file)?.page_mut_or_grow(number)?))
}

/// Releases a page held for changing. MILLPOND_HANDLE if it is not held.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_page_mut_put(page: Option<&mut millpond_page_mut>) -> millpond_code {
    attempt(|| {
        let page = out(page, "page")?;
        if page.data.is_null() {
            return Err(not_held());
        }
        page.data = std::ptr::null_mut();
        let held = (&raw mut page.held).cast::<PageMut<'static>>();
        // SAFETY: `hold_mut` has put a guard there, as `data` was not NULL, and it is dropped once.
        unsafe { held.drop_in_place() };
        Ok(())
    })
}

/// Makes the page depend on record `order` of the file's log: it is not written to its file before the log is durable
/// up to it. Call it after the record has its number and before the page is put. MILLPOND_INVALID if the file has no
/// log.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_page_set_order(
    page: Option<&mut millpond_page_mut>,
    order: u64,
) -> millpond_code {
    attempt(|| {
        let page = out(page, "page")?;
        if page.data.is_null() {
            return Err(not_held());
        }
        // SAFETY: `hold_mut` has put a guard there, as `data` is not NULL, and nothing else refers to it now.
        let guard = unsafe { &mut *(&raw mut page.held).cast::<PageMut<'static>>() };
        Ok(guard.set_order(order)?)
    })
}

/// The page size in bytes, for all files of the cache; a file's last page may be shorter.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_file_page_size(
    file: *const millpond_file,
    bytes: Option<&mut u64>,
) -> millpond_code {
    attempt(|| {
        *out(bytes, "bytes")? = File::page_size(value(file)?);
        Ok(())
    })
}
