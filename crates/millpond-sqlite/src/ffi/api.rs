//! Functions of a SQLite that has loaded this. There may be several in a process, each a library of its own: what is theirs,
//! the VFS and each file, knows which.

use super::types::{LaterRoutines, OsFile, Routines, Sqlite, Vfs};
use crate::told::{self, Log};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// 3.8.7, of 2014: the oldest that has all that is used.
const VERSION_MIN: c_int = 3_008_007;

#[derive(Clone, Copy)]
pub(crate) struct Api(pub(super) &'static Routines);

impl Api {
    /// Of SQLite, which has given the address to the entry point or to what it calls for each new connection. `None`: it is
    /// too old, or can't be extended, and so has none to show.
    pub(crate) fn enter(routines: *const Routines) -> Option<Api> {
        if routines.is_null() {
            return None;
        }
        // SAFETY: SQLite's own table, which is there as long as the process. Only its first part is looked at before the
        // version says that it has all of this form.
        let version = unsafe { (*routines).libversion_number }();
        if version < VERSION_MIN {
            return None;
        }
        // SAFETY: the same, and it is long enough.
        let routines = unsafe { &*routines };
        told::add(routines);
        Some(Api(routines))
    }

    /// As `SQLITE_VERSION_NUMBER`.
    pub(crate) fn version(self) -> c_int {
        (self.0.libversion_number)()
    }

    /// Its log.
    pub(crate) fn log(self) -> &'static dyn Log {
        self.0
    }

    pub(crate) fn vfs_find(self, name: Option<&CStr>) -> *mut Vfs {
        (self.0.vfs_find)(name.map_or(std::ptr::null(), CStr::as_ptr))
    }

    pub(crate) fn vfs_register(self, vfs: *mut Vfs, is_default: bool) -> c_int {
        (self.0.vfs_register)(vfs, is_default.into())
    }

    pub(crate) fn auto_extension(self, init: *const c_void) -> c_int {
        (self.0.auto_extension)(init)
    }

    pub(crate) fn exec(self, connection: *mut Sqlite, sql: &CStr) -> c_int {
        let none = std::ptr::null();
        (self.0.exec)(
            connection,
            sql.as_ptr(),
            none,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    }

    pub(crate) fn file_control(
        self,
        connection: *mut Sqlite,
        database: &CStr,
        op: c_int,
        argument: *mut c_void,
    ) -> c_int {
        (self.0.file_control)(connection, database.as_ptr(), op, argument)
    }

    /// A parameter of the URI that a file of SQLite's was opened by.
    pub(crate) fn uri_parameter(self, path: &CStr, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        let value = (self.0.uri_parameter)(path.as_ptr(), name.as_ptr());
        if value.is_null() {
            return None;
        }
        // SAFETY: not NULL, so it is a text of SQLite's that lives as long as the file's name.
        let value = unsafe { CStr::from_ptr(value) };
        Some(value.to_string_lossy().into_owned())
    }

    /// One of SQLite's own that is on or off, as SQLite reads it: `yes`, `FALSE`, `00`.
    pub(crate) fn uri_boolean(self, path: &CStr, name: &CStr, default: bool) -> bool {
        (self.0.uri_boolean)(path.as_ptr(), name.as_ptr(), default.into()) != 0
    }

    /// The open database of which SQLite opens the journal or WAL of this name. NULL before 3.32.
    pub(super) fn database_file(self, name: &CStr) -> *mut OsFile {
        if self.version() < 3_032_000 {
            return std::ptr::null_mut();
        }
        let routines: *const Routines = self.0;
        // SAFETY: the table of such a version has all of this form; `name` is SQLite's own, as its `xOpen` has got it.
        let database_file_object = unsafe { (*routines.cast::<LaterRoutines>()).database_file_object };
        database_file_object(name.as_ptr())
    }

    /// A text that SQLite frees. NULL if there is no memory.
    pub(crate) fn text(self, text: &str) -> *mut c_char {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        // SAFETY: the form has one place, for a text.
        unsafe { (self.0.mprintf)(c"%s".as_ptr(), text.as_ptr()) }
    }
}

impl Log for Routines {
    fn tell(&self, number: c_int, why: &str) {
        let why = CString::new(format!("millpond: {why}").replace('\0', "?")).unwrap_or_default();
        // SAFETY: the form has one place, for a text.
        unsafe { (self.log)(number, c"%s".as_ptr(), why.as_ptr()) };
    }
}
