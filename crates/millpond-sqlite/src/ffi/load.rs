//! The entry point, which SQLite calls when it loads the library.

use super::api::Api;
use super::types::{OsFile, Routines, Sqlite};
use super::whole;
use super::{folders, methods, vfs};
use crate::code;
use crate::folder::Folders;
use crate::process;
use std::ffi::{c_char, c_int, c_void};
use std::panic::UnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

/// `SQLITE_FCNTL_FILE_POINTER`.
const FILE_POINTER: c_int = 7;

/// Of each connection to a database here: most of SQLite's own cache would hold the same pages once more, and what it reads
/// is lent by the cache where it asks for that as for a mapping. Both can be set otherwise by the program, later.
const SETTINGS: [&std::ffi::CStr; 2] = [c"PRAGMA cache_size=-512", c"PRAGMA mmap_size=1099511627776"];

/// Registers the VFS `millpond`. SQLite finds it by the library's name, `libmillpond_sqlite.so`; a program that is linked with
/// `libmillpond_sqlite.a` gives it to sqlite3_auto_extension. The library stays when the connection is closed. Each SQLite of
/// a process that loads it has it.
#[unsafe(no_mangle)]
pub extern "C" fn sqlite3_millpondsqlite_init(
    _connection: *mut Sqlite,
    error: Option<NonNull<*mut c_char>>,
    routines: *const Routines,
) -> c_int {
    load(error, routines, |_| Ok(()))
}

/// Registers what this library has in the SQLite that has called its entry point, then what `more` adds.
fn load(
    error: Option<NonNull<*mut c_char>>,
    routines: *const Routines,
    more: impl FnOnce(Api) -> Result<(), String> + UnwindSafe,
) -> c_int {
    whole(|| {
        let Some(api) = Api::enter(routines) else {
            return code::ERROR;
        };
        let registered = register(api).and_then(|()| more(api));
        match (registered, error) {
            (Ok(()), _) => return code::OK_LOAD_PERMANENTLY,
            // SAFETY: SQLite's place for the text.
            (Err(why), Some(error)) => unsafe { error.write(api.text(&format!("millpond: {why}"))) },
            (Err(_), None) => {}
        }
        code::ERROR
    })
    .unwrap_or(code::ERROR)
}

fn register(api: Api) -> Result<(), String> {
    let is_default = process::is_on(&process::variable(), process::DEFAULT)?;
    match vfs::register(api, is_default) {
        code::OK => {}
        number => return Err(format!("SQLite has refused the VFS: {number}")),
    }
    match api.auto_extension(opened as *const c_void) {
        code::OK => Ok(()),
        number => Err(format!(
            "SQLite has refused a function for new connections: {number}"
        )),
    }
}

/// Defines the entry point of a library that has folders besides: its name is `$init`, and `$folders` gives them. SQLite
/// finds it by the library's name: `sqlite3_`, that name without `lib` and with its letters only, `_init`.
#[macro_export]
macro_rules! entry_point {
    ($(#[$about:meta])* $init:ident, $folders:expr) => {
        $(#[$about])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $init(
            connection: *mut $crate::Sqlite,
            error: Option<std::ptr::NonNull<*mut std::ffi::c_char>>,
            routines: *const $crate::Routines,
        ) -> std::ffi::c_int {
            $crate::load_with_folders(connection, error, routines, $folders)
        }
    };
}

/// Does the work of [`entry_point`](crate::entry_point): registers the VFS of this library, and that of folders.
pub fn load_with_folders(
    _connection: *mut Sqlite,
    error: Option<NonNull<*mut c_char>>,
    routines: *const Routines,
    of: impl FnOnce() -> Arc<dyn Folders> + UnwindSafe,
) -> c_int {
    load(error, routines, |api| match folders::register(api, of()) {
        code::OK => Ok(()),
        number => Err(format!("SQLite has refused the VFS of stores: {number}")),
    })
}

/// Called by SQLite for each connection that is opened from then on.
extern "C" fn opened(connection: *mut Sqlite, _error: *mut *mut c_char, routines: *const Routines) -> c_int {
    let Some(api) = Api::enter(routines) else {
        return code::OK;
    };
    let mut file: *mut OsFile = std::ptr::null_mut();
    let place = (&raw mut file).cast();
    if api.file_control(connection, c"main", FILE_POINTER, place) == code::OK && methods::is_ours(file) {
        for sql in SETTINGS {
            // A database that is busy keeps SQLite's own defaults.
            api.exec(connection, sql);
        }
    }
    code::OK
}
