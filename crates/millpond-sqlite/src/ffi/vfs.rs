//! Methods of the VFS. Databases, their journals and WALs are files of the cache; all else is left to the VFS that was the
//! default: temporary files, names, time.

use super::api::Api;
use super::methods;
use super::types::{OsFile, Symbol, Vfs};
use super::whole;
use crate::code;
use crate::file::Opened;
use crate::opening::Asked;
use crate::process;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const NAME: &CStr = c"millpond";

/// The data of each VFS of this library.
struct Own {
    /// The SQLite that has it.
    api: Api,
    /// The previous default there.
    below: *mut Vfs,
}

/// SQLite 3.10 and newer gives names of databases in which no link is left.
const RESOLVES_LINKS: c_int = 3_010_000;

/// `SQLITE_OPEN_...`.
pub(super) mod open {
    use std::ffi::c_int;
    pub(in crate::ffi) const READ_ONLY: c_int = 0x1;
    pub(in crate::ffi) const READ_WRITE: c_int = 0x2;
    pub(in crate::ffi) const CREATE: c_int = 0x4;
    pub(in crate::ffi) const EXCLUSIVE: c_int = 0x10;
    pub(in crate::ffi) const URI: c_int = 0x40;
    pub(in crate::ffi) const MAIN_DB: c_int = 0x100;
    pub(in crate::ffi) const MAIN_JOURNAL: c_int = 0x800;
    pub(in crate::ffi) const SUPER_JOURNAL: c_int = 0x4000;
    pub(in crate::ffi) const WAL: c_int = 0x8_0000;
}

/// Registers it, with what was the default below it.
pub(super) fn register(api: Api, is_default: bool) -> c_int {
    add(api, NAME, is_default, |vfs| vfs)
}

/// Registers a VFS, which is this one but for what `change` changes. What was the default is below it.
pub(super) fn add(api: Api, name: &'static CStr, is_default: bool, change: impl FnOnce(Vfs) -> Vfs) -> c_int {
    let known = api.vfs_find(Some(name));
    if !known.is_null() {
        return api.vfs_register(known, is_default);
    }
    let below = api.vfs_find(None);
    // SAFETY: NULL, or a VFS that SQLite has registered, which stays.
    let Some(facts) = (unsafe { below.as_ref() }) else {
        return code::ERROR;
    };
    let version = facts.version.min(2);
    // For ever, as SQLite has it from now on; so is the VFS.
    let own = Box::into_raw(Box::new(Own { api, below }));
    let vfs = Vfs {
        version,
        file_bytes: facts.file_bytes.max(size_of::<OsFile>() as c_int),
        path_bytes_max: facts.path_bytes_max,
        next: std::ptr::null_mut(),
        name: name.as_ptr(),
        own: own.cast(),
        open,
        delete,
        access,
        full_pathname,
        dl_open,
        dl_error,
        dl_sym,
        dl_close,
        randomness,
        sleep,
        current_time,
        last_error,
        current_time_ms: (version >= 2)
            .then_some(facts)
            .and_then(|facts| facts.current_time_ms)
            .map(|_| current_time_ms as _),
    };
    api.vfs_register(Box::into_raw(Box::new(change(vfs))), is_default)
}

fn path_of(name: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

fn own(vfs: *mut Vfs) -> &'static Own {
    // SAFETY: SQLite gives the one that `add` has made.
    let own = unsafe { (*vfs).own }.cast::<Own>();
    // SAFETY: `add` has made it with that, for ever.
    unsafe { &*own }
}

/// The VFS below, which is given itself.
pub(super) fn below(vfs: *mut Vfs) -> (&'static Vfs, *mut Vfs) {
    let below = own(vfs).below;
    // SAFETY: `add` has checked it, and registered ones stay.
    (unsafe { &*below }, below)
}

/// The SQLite that has this VFS.
pub(super) fn api_of(vfs: *mut Vfs) -> Api {
    own(vfs).api
}

extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut OsFile,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    if name.is_null() || flags & (open::MAIN_DB | open::MAIN_JOURNAL | open::WAL) == 0 {
        let (facts, below) = below(vfs);
        return (facts.open)(below, name, file, flags, flags_out);
    }
    // SAFETY: not NULL, so it is a text that lives as long as the file.
    let name = unsafe { CStr::from_ptr(name) };
    let api = api_of(vfs);
    open_by(api, name, file, flags, flags_out, |path, asked, parameter| {
        Opened::new(path, asked, parameter, api.log())
    })
}

/// Opens a file by its name, flags and parameters.
pub(super) fn open_by(
    api: Api,
    name: &CStr,
    file: *mut OsFile,
    flags: c_int,
    flags_out: *mut c_int,
    how: impl FnOnce(&Path, Asked, &dyn Fn(&str) -> Option<String>) -> Result<Opened, (c_int, String)>,
) -> c_int {
    methods::leave_closed(file);
    let opened = whole(|| {
        let path = path_of(name);
        // Another name may lead to nothing.
        let has_parameters = flags & open::URI != 0;
        let asked = Asked {
            writes: flags & open::READ_WRITE != 0,
            creates: flags & open::CREATE != 0,
            is_new: flags & open::EXCLUSIVE != 0,
            is_database: flags & open::MAIN_DB != 0,
            is_powersafe: !has_parameters || api.uri_boolean(name, c"psow", true),
            follows: api.version() < RESOLVES_LINKS,
        };
        let parameter = |parameter: &str| match has_parameters {
            true => api.uri_parameter(name, parameter),
            false => None,
        };
        let opened = how(path, asked, &parameter);
        opened.inspect_err(|(number, why)| api.log().tell(*number, why))
    });
    let opened = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err((number, _))) => return number,
        Err(_panic) => return code::IOERR,
    };
    // SAFETY: NULL, or SQLite's place for the answer.
    if let Some(out) = unsafe { flags_out.as_mut() } {
        *out = match opened.is_writable {
            true => flags,
            false => flags & !(open::READ_WRITE | open::CREATE) | open::READ_ONLY,
        };
    }
    methods::leave(file, opened, api);
    code::OK
}

extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: SQLite gives a text.
    let path = path_of(unsafe { CStr::from_ptr(name) });
    if whole(|| process::may_be_in_use(path)).unwrap_or(false) {
        let said = format!("{} belongs to the parent, and stays", path.display());
        api_of(vfs).log().tell(code::IOERR_DELETE, &said);
        return code::IOERR_DELETE;
    }
    let (facts, below) = below(vfs);
    (facts.delete)(below, name, sync_dir)
}

extern "C" fn access(vfs: *mut Vfs, name: *const c_char, flags: c_int, answer: *mut c_int) -> c_int {
    let (facts, below) = below(vfs);
    (facts.access)(below, name, flags, answer)
}

extern "C" fn full_pathname(vfs: *mut Vfs, name: *const c_char, len: c_int, out: *mut c_char) -> c_int {
    let (facts, below) = below(vfs);
    (facts.full_pathname)(below, name, len, out)
}

extern "C" fn dl_open(vfs: *mut Vfs, name: *const c_char) -> *mut c_void {
    let (facts, below) = below(vfs);
    (facts.dl_open)(below, name)
}

extern "C" fn dl_error(vfs: *mut Vfs, len: c_int, out: *mut c_char) {
    let (facts, below) = below(vfs);
    (facts.dl_error)(below, len, out)
}

extern "C" fn dl_sym(vfs: *mut Vfs, library: *mut c_void, name: *const c_char) -> Symbol {
    let (facts, below) = below(vfs);
    (facts.dl_sym)(below, library, name)
}

extern "C" fn dl_close(vfs: *mut Vfs, library: *mut c_void) {
    let (facts, below) = below(vfs);
    (facts.dl_close)(below, library)
}

extern "C" fn randomness(vfs: *mut Vfs, len: c_int, out: *mut c_char) -> c_int {
    let (facts, below) = below(vfs);
    (facts.randomness)(below, len, out)
}

extern "C" fn sleep(vfs: *mut Vfs, micros: c_int) -> c_int {
    let (facts, below) = below(vfs);
    (facts.sleep)(below, micros)
}

extern "C" fn current_time(vfs: *mut Vfs, days: *mut f64) -> c_int {
    let (facts, below) = below(vfs);
    (facts.current_time)(below, days)
}

extern "C" fn last_error(vfs: *mut Vfs, len: c_int, out: *mut c_char) -> c_int {
    let (facts, below) = below(vfs);
    (facts.last_error)(below, len, out)
}

extern "C" fn current_time_ms(vfs: *mut Vfs, millis: *mut i64) -> c_int {
    let (facts, below) = below(vfs);
    facts
        .current_time_ms
        .map_or(code::ERROR, |now| now(below, millis))
}
