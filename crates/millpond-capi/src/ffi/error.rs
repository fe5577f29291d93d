//! The thread's last error, and the version.

use crate::told;
use std::ffi::{c_char, c_int};

/// What the last call of this thread that failed has to say: the value, what is allowed, and the way out. Never NULL.
/// Good until the thread's next call that fails. A call that succeeds leaves it as it is.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_error_message() -> *const c_char {
    told::message()
}

/// The number, as of errno.h, that a system call would have given for the same: of the last call of this thread that
/// failed. 0 if none has.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_error_errno() -> c_int {
    told::errno()
}

/// The version of the library that runs, such as "0.1.0". A program that was compiled with a header of the same
/// MAJOR.MINOR can use it (from 1.0 on: of the same MAJOR, and no newer MINOR).
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
