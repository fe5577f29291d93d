//! SQLite's structs, as `sqlite3.h` and `sqlite3ext.h` have them. SQLite promises that they only grow at their ends.
//!
//! Written by hand rather than taken from a crate of bindings: those of today refuse a SQLite that is older than they are,
//! and what is used here is as old as 2014. The test `layout` compiles `sqlite3ext.h` and compares the places.

use std::ffi::{c_char, c_int, c_void};

/// A connection: SQLite's own.
#[repr(C)]
pub struct Sqlite {
    _own: [u8; 0],
}

/// `sqlite3_file`, followed by this library's part.
#[repr(C)]
pub(crate) struct OsFile {
    /// NULL: not open, and not to be closed.
    pub(crate) methods: *const IoMethods,
    /// Of a box.
    pub(crate) opened: *mut crate::file::Opened,
    /// Of the SQLite that has it.
    pub(crate) routines: &'static Routines,
}

/// `sqlite3_io_methods`, version 3.
#[repr(C)]
pub(crate) struct IoMethods {
    pub(crate) version: c_int,
    pub(crate) close: extern "C" fn(*mut OsFile) -> c_int,
    pub(crate) read: extern "C" fn(*mut OsFile, *mut c_void, c_int, i64) -> c_int,
    pub(crate) write: extern "C" fn(*mut OsFile, *const c_void, c_int, i64) -> c_int,
    pub(crate) truncate: extern "C" fn(*mut OsFile, i64) -> c_int,
    pub(crate) sync: extern "C" fn(*mut OsFile, c_int) -> c_int,
    pub(crate) file_size: extern "C" fn(*mut OsFile, *mut i64) -> c_int,
    pub(crate) lock: extern "C" fn(*mut OsFile, c_int) -> c_int,
    pub(crate) unlock: extern "C" fn(*mut OsFile, c_int) -> c_int,
    pub(crate) check_reserved_lock: extern "C" fn(*mut OsFile, *mut c_int) -> c_int,
    pub(crate) file_control: extern "C" fn(*mut OsFile, c_int, *mut c_void) -> c_int,
    pub(crate) sector_size: extern "C" fn(*mut OsFile) -> c_int,
    pub(crate) device_characteristics: extern "C" fn(*mut OsFile) -> c_int,
    pub(crate) shm_map: extern "C" fn(*mut OsFile, c_int, c_int, c_int, *mut *mut c_void) -> c_int,
    pub(crate) shm_lock: extern "C" fn(*mut OsFile, c_int, c_int, c_int) -> c_int,
    pub(crate) shm_barrier: extern "C" fn(*mut OsFile),
    pub(crate) shm_unmap: extern "C" fn(*mut OsFile, c_int) -> c_int,
    pub(crate) fetch: extern "C" fn(*mut OsFile, i64, c_int, *mut *mut c_void) -> c_int,
    pub(crate) unfetch: extern "C" fn(*mut OsFile, i64, *mut c_void) -> c_int,
}

/// A library's symbol before it is cast.
pub(crate) type Symbol = Option<extern "C" fn()>;

/// `sqlite3_vfs`, version 2.
#[repr(C)]
pub(crate) struct Vfs {
    pub(crate) version: c_int,
    pub(crate) file_bytes: c_int,
    pub(crate) path_bytes_max: c_int,
    pub(crate) next: *mut Vfs,
    pub(crate) name: *const c_char,
    pub(crate) own: *mut c_void,
    pub(crate) open: extern "C" fn(*mut Vfs, *const c_char, *mut OsFile, c_int, *mut c_int) -> c_int,
    pub(crate) delete: extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    pub(crate) access: extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub(crate) full_pathname: extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub(crate) dl_open: extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void,
    pub(crate) dl_error: extern "C" fn(*mut Vfs, c_int, *mut c_char),
    pub(crate) dl_sym: extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Symbol,
    pub(crate) dl_close: extern "C" fn(*mut Vfs, *mut c_void),
    pub(crate) randomness: extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub(crate) sleep: extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub(crate) current_time: extern "C" fn(*mut Vfs, *mut f64) -> c_int,
    pub(crate) last_error: extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub(crate) current_time_ms: Option<extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
}

type Unused<const N: usize> = [usize; N];

/// The used part of `sqlite3_api_routines` as of 3.8.7.
#[repr(C)]
pub struct Routines {
    _0: Unused<55>,
    pub(crate) exec:
        extern "C" fn(*mut Sqlite, *const c_char, *const c_void, *mut c_void, *mut *mut c_char) -> c_int,
    _56: Unused<11>,
    pub(crate) libversion_number: extern "C" fn() -> c_int,
    _68: Unused<1>,
    pub(crate) mprintf: unsafe extern "C" fn(*const c_char, ...) -> *mut c_char,
    _70: Unused<57>,
    pub(crate) file_control: extern "C" fn(*mut Sqlite, *const c_char, c_int, *mut c_void) -> c_int,
    _128: Unused<13>,
    pub(crate) vfs_find: extern "C" fn(*const c_char) -> *mut Vfs,
    pub(crate) vfs_register: extern "C" fn(*mut Vfs, c_int) -> c_int,
    _143: Unused<24>,
    pub(crate) log: unsafe extern "C" fn(c_int, *const c_char, ...),
    _168: Unused<19>,
    pub(crate) uri_boolean: extern "C" fn(*const c_char, *const c_char, c_int) -> c_int,
    _188: Unused<1>,
    pub(crate) uri_parameter: extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    _190: Unused<2>,
    pub(crate) auto_extension: extern "C" fn(*const c_void) -> c_int,
}

/// More of it, as of 3.32.
#[repr(C)]
pub(crate) struct LaterRoutines {
    _0: Unused<251>,
    pub(crate) database_file_object: extern "C" fn(*const c_char) -> *mut OsFile,
}

/// By the names of `sqlite3ext.h`, where the test `layout` looks for them in the same order.
#[cfg(test)]
const PLACES: [(&str, usize); 10] = [
    ("exec", std::mem::offset_of!(Routines, exec)),
    (
        "libversion_number",
        std::mem::offset_of!(Routines, libversion_number),
    ),
    ("mprintf", std::mem::offset_of!(Routines, mprintf)),
    ("file_control", std::mem::offset_of!(Routines, file_control)),
    ("vfs_find", std::mem::offset_of!(Routines, vfs_find)),
    ("log", std::mem::offset_of!(Routines, log)),
    ("uri_boolean", std::mem::offset_of!(Routines, uri_boolean)),
    ("uri_parameter", std::mem::offset_of!(Routines, uri_parameter)),
    ("auto_extension", std::mem::offset_of!(Routines, auto_extension)),
    (
        "database_file_object",
        std::mem::offset_of!(LaterRoutines, database_file_object),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_structs_are_as_the_header_of_sqlite_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("layout.c");
        let mut text = String::from("#include <stddef.h>\n#include <sqlite3ext.h>\n");
        for (name, at) in PLACES {
            text += &format!("_Static_assert(offsetof(sqlite3_api_routines, {name}) == {at}, \"{name}\");\n");
        }
        for (what, size, last, at) in [
            (
                "sqlite3_io_methods",
                size_of::<IoMethods>(),
                "xUnfetch",
                std::mem::offset_of!(IoMethods, unfetch),
            ),
            (
                "sqlite3_vfs",
                size_of::<Vfs>(),
                "xCurrentTimeInt64",
                std::mem::offset_of!(Vfs, current_time_ms),
            ),
        ] {
            text += &format!("_Static_assert(sizeof({what}) >= {size}, \"{what}\");\n");
            text += &format!("_Static_assert(offsetof({what}, {last}) == {at}, \"{what}.{last}\");\n");
        }
        std::fs::write(&source, text).unwrap();
        let compiled = Command::new("cc").arg("-fsyntax-only").arg(&source).output();
        let said = match compiled {
            Err(error) => return println!("skipped: layout of SQLite's structs: cc: {error}"),
            Ok(done) if done.status.success() => return,
            Ok(done) => String::from_utf8_lossy(&done.stderr).into_owned(),
        };
        if said.contains("sqlite3ext.h: No such file") {
            return println!("skipped: layout of SQLite's structs: no sqlite3ext.h");
        }
        panic!("{said}");
    }
}
