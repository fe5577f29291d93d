//! The VFS of databases that are on no disk: names are looked for in folders; all else is as of the other VFS.

use super::api::Api;
use super::methods;
use super::types::{OsFile, Vfs};
use super::vfs;
use super::vfs::open::{MAIN_DB, MAIN_JOURNAL, SUPER_JOURNAL, WAL};
use super::whole;
use crate::code;
use crate::file::Opened;
use crate::folder::{self, Folders};
use std::ffi::{CStr, c_char, c_int};
use std::io::Write;
use std::sync::Arc;

/// Registers the VFS [`folder::VFS`], whose databases are in these folders.
pub(super) fn register(api: Api, folders: Arc<dyn Folders>) -> c_int {
    folder::register(folders);
    let change = |vfs| Vfs {
        open,
        delete,
        access,
        full_pathname,
        ..vfs
    };
    vfs::add(api, folder::VFS, false, change)
}

/// A name of SQLite's; none of them is anything but UTF-8.
fn text<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: not NULL, so it is a text of SQLite's, which lives during the call.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

extern "C" fn open(
    own: *mut Vfs,
    name: *const c_char,
    file: *mut OsFile,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    if name.is_null() {
        let (facts, below) = vfs::below(own);
        return (facts.open)(below, name, file, flags, flags_out);
    }
    // SAFETY: not NULL, so it is a text that lives as long as the file.
    let name = unsafe { CStr::from_ptr(name) };
    let api = vfs::api_of(own);
    vfs::open_by(api, name, file, flags, flags_out, |path, asked, parameter| {
        let cant = |why: String| (code::CANTOPEN, why);
        if flags & SUPER_JOURNAL != 0 {
            let why = "a transaction that changes several databases of a store needs a WAL in each, or \
                       journal_mode=memory";
            return Err(cant(why.into()));
        }
        if flags & (MAIN_DB | MAIN_JOURNAL | WAL) == 0 {
            return Err(cant(format!("{} is not a database file", path.display())));
        }
        let path_text = path
            .to_str()
            .ok_or_else(|| cant("a name in a store is UTF-8".into()))?;
        // SQLite has only one number for it, and its log is rarely read.
        let cant_be_opened = |why: String| {
            let _ = writeln!(std::io::stderr(), "millpond: {path_text} can't be opened: {why}");
            cant(why)
        };
        if flags & WAL != 0
            && let Some((folder, _)) = folder::find(path_text).filter(|(folder, _)| folder.is_followed())
        {
            let follower = methods::follower_of(api.database_file(name));
            let why = "a WAL of a database that another process writes can be read with SQLite 3.32 or newer";
            let follower = follower.ok_or_else(|| cant_be_opened(why.into()))?;
            return Opened::wal_of(folder, follower, path, asked, api.log()).map_err(cant_be_opened);
        }
        let (folder, name) = folder::open(path_text, asked.writes, parameter).map_err(cant_be_opened)?;
        Opened::in_folder(folder, path, name, asked, parameter, api.log())
    })
}

/// Cuts it to nothing, and syncs that: a transaction whose journal comes again was none.
extern "C" fn delete(own: *mut Vfs, name: *const c_char, _sync_dir: c_int) -> c_int {
    let delete = || {
        let Some((folder, name)) = text(name).and_then(folder::find) else {
            return code::IOERR_DELETE;
        };
        if folder.is_followed() {
            return code::IOERR_DELETE;
        }
        if folder.len(name).is_none_or(|len| len == 0) {
            return code::IOERR_DELETE_NOENT;
        }
        let cut = match folder.open(name, false) {
            Ok(Some(file)) => file
                .set_len(0)
                .and_then(|()| file.sync_data())
                .map_err(|error| error.to_string()),
            Ok(None) => return code::IOERR_DELETE_NOENT,
            Err(why) => Err(why),
        };
        match cut {
            Ok(()) => code::OK,
            Err(why) => {
                vfs::api_of(own).log().tell(code::IOERR_DELETE, &why);
                code::IOERR_DELETE
            }
        }
    };
    whole(delete).unwrap_or(code::IOERR)
}

/// Whatever is there may be read and written.
extern "C" fn access(_own: *mut Vfs, name: *const c_char, _flags: c_int, answer: *mut c_int) -> c_int {
    let len = || {
        let (folder, name) = folder::find(text(name)?)?;
        folder.len(name)
    };
    let Ok(len) = whole(len) else {
        return code::IOERR;
    };
    // SAFETY: SQLite's place for the answer.
    unsafe { answer.write(len.is_some_and(|len| len > 0).into()) };
    code::OK
}

/// Names are full.
extern "C" fn full_pathname(_own: *mut Vfs, name: *const c_char, len: c_int, out: *mut c_char) -> c_int {
    // SAFETY: SQLite gives a text.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if name.len() > len as usize {
        return code::CANTOPEN;
    }
    // SAFETY: SQLite's buffer for this many bytes, which does not overlap the name.
    unsafe { std::ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len()) };
    code::OK
}
