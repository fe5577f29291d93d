//! Methods of files.

use super::api::Api;
use super::control;
use super::types::{IoMethods, OsFile};
use super::whole;
use crate::code;
use crate::file::Opened;
use crate::follower::Follower;
use crate::locks::Level;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

static METHODS: IoMethods = IoMethods {
    version: 3,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control: control::file_control,
    sector_size,
    device_characteristics,
    shm_map,
    shm_lock,
    shm_barrier,
    shm_unmap,
    fetch,
    unfetch,
};

/// `SQLITE_IOCAP_POWERSAFE_OVERWRITE`: a write that is cut off by a loss of power leaves bytes outside of it as they were. The
/// cache writes whole pages, in which bytes that were not changed are the same as before.
const POWERSAFE_OVERWRITE: c_int = 0x1000;

/// Where no device can be asked: the value of most disks.
const SECTOR_BYTES: c_int = 4096;

/// `SQLITE_SHM_...`.
mod shm {
    use std::ffi::c_int;
    pub(super) const LOCK: c_int = 2;
    pub(super) const EXCLUSIVE: c_int = 8;
}

/// SQLite closes only what has methods.
pub(super) fn leave_closed(file: *mut OsFile) {
    // SAFETY: SQLite's memory for a file, of the size that the VFS asks for.
    unsafe { (*file).methods = std::ptr::null() };
}

/// Gives SQLite an open file.
pub(super) fn leave(file: *mut OsFile, opened: Opened, api: Api) {
    let opened = Box::into_raw(Box::new(opened));
    // SAFETY: SQLite's memory for a file, of the size that the VFS asks for.
    unsafe {
        file.write(OsFile {
            methods: &raw const METHODS,
            opened,
            routines: api.0,
        })
    };
}

/// The SQLite that has this file.
pub(super) fn api_of(file: *mut OsFile) -> Api {
    // SAFETY: SQLite gives a file that `leave` has left.
    Api(unsafe { (*file).routines })
}

/// Whether a file of SQLite's is one of the cache's.
pub(super) fn is_ours(file: *const OsFile) -> bool {
    if file.is_null() {
        return false;
    }
    // SAFETY: an open file of SQLite's, of whichever VFS, begins with its methods.
    let methods = unsafe { (*file).methods };
    std::ptr::eq(methods, &METHODS)
}

/// Makes a call for SQLite, from which no panic gets out. `refused` is the answer in a forked child, of a file that its parent
/// has opened.
pub(super) fn with(file: *mut OsFile, refused: c_int, call: impl FnOnce(&mut Opened) -> c_int) -> c_int {
    // SAFETY: SQLite gives a file that `leave` has left, and uses it on one thread at a time.
    let opened = unsafe { (*file).opened };
    // SAFETY: the same; it is a box's until `close`.
    let opened = unsafe { &mut *opened };
    let call = || match opened.is_parents() {
        false => call(opened),
        true => opened.refuse(refused),
    };
    whole(call).unwrap_or(code::IOERR)
}

/// The state of a database that another process writes, as the connection that has this open file reads it. `None`: it is no
/// file of this library's, or no such database.
pub(super) fn follower_of(database: *mut OsFile) -> Option<Arc<Follower>> {
    if !is_ours(database) {
        return None;
    }
    // SAFETY: as in `with`. SQLite opens the WAL between calls on the database.
    let opened = unsafe { (*database).opened };
    // SAFETY: the same.
    unsafe { &*opened }.follower()
}

fn set<T>(place: *mut T, value: T) -> c_int {
    // SAFETY: SQLite's place for the answer.
    unsafe { place.write(value) };
    code::OK
}

extern "C" fn close(file: *mut OsFile) -> c_int {
    // SAFETY: as in `with`.
    let opened = unsafe { (*file).opened };
    leave_closed(file);
    // SAFETY: `leave` has made it of a box, and SQLite closes a file once.
    let opened = unsafe { Box::from_raw(opened) };
    whole(|| opened.close()).unwrap_or(code::IOERR)
}

extern "C" fn read(file: *mut OsFile, buffer: *mut c_void, len: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite's buffer, of this length; bytes are only written to it.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len as usize) };
    with(file, code::IOERR_READ, |file| file.read(buffer, offset as u64))
}

extern "C" fn write(file: *mut OsFile, buffer: *const c_void, len: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite's buffer, of this length.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), len as usize) };
    with(file, code::IOERR_WRITE, |file| file.write(bytes, offset as u64))
}

extern "C" fn truncate(file: *mut OsFile, len: i64) -> c_int {
    with(file, code::IOERR_TRUNCATE, |file| file.truncate(len as u64))
}

extern "C" fn sync(file: *mut OsFile, _how: c_int) -> c_int {
    with(file, code::IOERR_FSYNC, Opened::sync)
}

extern "C" fn file_size(file: *mut OsFile, len: *mut i64) -> c_int {
    with(file, code::IOERR_FSTAT, |file| set(len, file.len() as i64))
}

extern "C" fn lock(file: *mut OsFile, level: c_int) -> c_int {
    with(file, code::IOERR_LOCK, |file| {
        Level::from_number(level).map_or(code::ERROR, |level| file.lock(level))
    })
}

extern "C" fn unlock(file: *mut OsFile, level: c_int) -> c_int {
    with(file, code::OK, |file| match Level::from_number(level) {
        Some(level @ (Level::None | Level::Shared)) => {
            file.unlock(level);
            code::OK
        }
        _ => code::IOERR_UNLOCK,
    })
}

extern "C" fn check_reserved_lock(file: *mut OsFile, answer: *mut c_int) -> c_int {
    with(file, code::IOERR_CHECKRESERVEDLOCK, |file| {
        set(answer, file.is_reserved().into())
    })
}

extern "C" fn sector_size(file: *mut OsFile) -> c_int {
    with(file, SECTOR_BYTES, |file| file.sector_bytes() as c_int)
}

extern "C" fn device_characteristics(file: *mut OsFile) -> c_int {
    with(file, 0, |file| match file.powersafe_overwrite {
        true => POWERSAFE_OVERWRITE,
        false => 0,
    })
}

extern "C" fn shm_map(
    file: *mut OsFile,
    index: c_int,
    bytes: c_int,
    make: c_int,
    at: *mut *mut c_void,
) -> c_int {
    set(at, std::ptr::null_mut());
    with(file, code::IOERR_SHMMAP, |file| {
        match file.shm_region(index as usize, bytes as usize, make != 0) {
            Ok(region) => set(at, region.unwrap_or(std::ptr::null_mut())),
            Err(number) => number,
        }
    })
}

extern "C" fn shm_lock(file: *mut OsFile, first: c_int, count: c_int, flags: c_int) -> c_int {
    let locks = first as usize..(first + count) as usize;
    with(file, code::IOERR_SHMLOCK, |file| {
        file.shm_lock(locks, flags & shm::LOCK != 0, flags & shm::EXCLUSIVE != 0)
    })
}

extern "C" fn shm_barrier(_file: *mut OsFile) {
    fence(Ordering::SeqCst);
}

extern "C" fn shm_unmap(file: *mut OsFile, _delete: c_int) -> c_int {
    with(file, code::OK, |file| {
        file.shm_leave();
        code::OK
    })
}

extern "C" fn fetch(file: *mut OsFile, offset: i64, len: c_int, at: *mut *mut c_void) -> c_int {
    set(at, std::ptr::null_mut());
    with(file, code::OK, |file| {
        match file.fetch(offset as u64, len as usize) {
            Ok(Some(page)) => set(at, page.cast_mut()),
            Ok(None) => code::OK,
            Err(number) => number,
        }
    })
}

extern "C" fn unfetch(file: *mut OsFile, offset: i64, page: *mut c_void) -> c_int {
    // NULL: SQLite asks to drop its mapping, and there is none.
    if page.is_null() {
        return code::OK;
    }
    with(file, code::OK, |file| {
        file.unfetch(offset as u64);
        code::OK
    })
}
