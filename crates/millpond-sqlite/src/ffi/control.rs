//! SQLite's requests and notices about a file besides its bytes: `xFileControl`.

use super::api::Api;
use super::methods::{api_of, with};
use super::types::OsFile;
use crate::code;
use crate::file::Opened;
use std::ffi::{CStr, c_char, c_int, c_void};

/// `SQLITE_FCNTL_...`.
const LOCK_STATE: c_int = 1;
const LAST_ERRNO: c_int = 4;
const SIZE_HINT: c_int = 5;
const CHUNK_SIZE: c_int = 6;
const PERSIST_WAL: c_int = 10;
const VFS_NAME: c_int = 12;
const POWERSAFE_OVERWRITE: c_int = 13;
const PRAGMA: c_int = 14;
const MMAP_SIZE: c_int = 18;
const HAS_MOVED: c_int = 20;

pub(super) extern "C" fn file_control(file: *mut OsFile, op: c_int, argument: *mut c_void) -> c_int {
    let api = api_of(file);
    with(file, code::NOTFOUND, |file| match op {
        LOCK_STATE => set(argument, file.level() as c_int),
        LAST_ERRNO => set(argument, file.errno),
        SIZE_HINT => file.will_have(u64::try_from(get::<i64>(argument)).unwrap_or(0)),
        CHUNK_SIZE => {
            file.chunk_bytes = u64::try_from(get::<c_int>(argument)).unwrap_or(0);
            code::OK
        }
        PERSIST_WAL => flag(argument, &mut file.persists_wal),
        POWERSAFE_OVERWRITE => flag(argument, &mut file.powersafe_overwrite),
        VFS_NAME => set(argument, api.text(file.vfs())),
        MMAP_SIZE => {
            let wanted: i64 = get(argument);
            let before = file.fetch_bytes_max as i64;
            if wanted >= 0 {
                file.fetch_bytes_max = wanted as u64;
            }
            set(argument, before)
        }
        HAS_MOVED => set(argument, c_int::from(file.has_moved())),
        PRAGMA => pragma(api, file, argument.cast()),
        _ => code::NOTFOUND,
    })
}

fn get<T: Copy>(argument: *mut c_void) -> T {
    // SAFETY: SQLite gives a place of this type for this question.
    unsafe { argument.cast::<T>().read() }
}

fn set<T>(argument: *mut c_void, value: T) -> c_int {
    // SAFETY: SQLite gives a place of this type for this question.
    unsafe { argument.cast::<T>().write(value) };
    code::OK
}

/// 0 or 1 sets it, less asks for it.
fn flag(argument: *mut c_void, own: &mut bool) -> c_int {
    match get::<c_int>(argument) {
        wanted if wanted >= 0 => *own = wanted != 0,
        _ => return set(argument, c_int::from(*own)),
    }
    code::OK
}

/// `PRAGMA millpond`, with or without `=argument`, and those of SQLite that are refused here. Three texts: what SQLite gets,
/// the name, the argument or NULL.
fn pragma(api: Api, file: &mut Opened, texts: *mut *mut c_char) -> c_int {
    let text = |n: usize| {
        // SAFETY: SQLite gives three.
        let place = unsafe { texts.add(n) };
        // SAFETY: the same.
        let text = unsafe { place.read() };
        // SAFETY: NULL, or a text that lives during the call.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
    };
    let (name, argument) = (text(1).unwrap_or_default(), text(2));
    let answered = match name.eq_ignore_ascii_case("millpond") {
        true => file.pragma(argument.as_deref()),
        false => match file.check_pragma(&name, argument.as_deref()) {
            Ok(()) => return code::NOTFOUND,
            Err(why) => Err(why),
        },
    };
    let (answer, number) = match answered {
        Ok(answer) => (answer, code::OK),
        Err(why) => (why, code::ERROR),
    };
    set(texts.cast(), api.text(&answer));
    number
}
