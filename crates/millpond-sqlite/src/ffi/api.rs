//! Functions of the SQLite that has loaded this.

use super::types::{Routines, Sqlite, Vfs};
use crate::told;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

/// 3.8.7, of 2014: the oldest that has all that is used.
pub(crate) const VERSION_MIN: c_int = 3_008_007;

#[derive(Clone, Copy)]
pub(crate) struct Api(&'static Routines);

static API: OnceLock<Api> = OnceLock::new();

impl Api {
    /// Of SQLite, which has given the address to the entry point.
    ///
    /// # Errors
    /// Its version, if it is too old; 0 if it can't be extended, and so has none to show.
    pub(crate) fn enter(routines: *const Routines) -> Result<Api, c_int> {
        if routines.is_null() {
            return Err(0);
        }
        // SAFETY: SQLite's own table, which is there as long as the process. Only its first part is looked at before the
        // version says that it has all of this form.
        let version = unsafe { (*routines).libversion_number }();
        if version < VERSION_MIN {
            return Err(version);
        }
        // SAFETY: the same, and it is long enough.
        let api = *API.get_or_init(|| Api(unsafe { &*routines }));
        told::to(log);
        Ok(api)
    }

    /// Once the entry point was called: nothing of this crate is called before.
    pub(crate) fn get() -> Option<Api> {
        API.get().copied()
    }

    /// As `SQLITE_VERSION_NUMBER`.
    pub(crate) fn version(self) -> c_int {
        (self.0.libversion_number)()
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
    pub(crate) fn uri_parameter(self, path: *const c_char, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        let value = (self.0.uri_parameter)(path, name.as_ptr());
        if value.is_null() {
            return None;
        }
        // SAFETY: not NULL, so it is a text of SQLite's that lives as long as the file's name.
        let value = unsafe { CStr::from_ptr(value) };
        Some(value.to_string_lossy().into_owned())
    }

    /// A text that SQLite frees. NULL if there is no memory.
    pub(crate) fn text(self, text: &str) -> *mut c_char {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        // SAFETY: the form has one place, for a text.
        unsafe { (self.0.mprintf)(c"%s".as_ptr(), text.as_ptr()) }
    }
}

fn log(number: c_int, why: &str) {
    let Some(api) = Api::get() else { return };
    let why = CString::new(format!("millpond: {why}").replace('\0', "?")).unwrap_or_default();
    // SAFETY: the form has one place, for a text.
    unsafe { (api.0.log)(number, c"%s".as_ptr(), why.as_ptr()) };
}
