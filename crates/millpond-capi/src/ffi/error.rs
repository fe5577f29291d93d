//! The thread's last error, and the version.

use crate::told;
use std::ffi::{c_char, c_int};

/// The message of this thread's last failed call: the value, what is allowed, and the way out. Never NULL.
/// Valid until the thread's next failed call. A call that succeeds leaves it as it is.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_error_message() -> *const c_char {
    told::message()
}

/// The number of errno.h that a system call would have given in this case: for the last call of this thread that
/// failed. 0 if none has.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_error_errno() -> c_int {
    told::errno()
}

/// The version of this header, for `#if`; `millpond_version` has that of the running library.
pub const MILLPOND_VERSION_MAJOR: u32 = 0;

/// The second number of this header's version.
pub const MILLPOND_VERSION_MINOR: u32 = 1;

/// The third number of this header's version.
pub const MILLPOND_VERSION_PATCH: u32 = 0;

/// The version of this header as one number: 10000 for each MAJOR, 100 for each MINOR, 1 for each PATCH.
pub const MILLPOND_VERSION_NUMBER: u32 = 100;

// cbindgen reads numbers only.
const _: () = {
    const fn is(number: u32, text: &str) -> bool {
        let (bytes, mut at, mut value) = (text.as_bytes(), 0, 0);
        while at < bytes.len() {
            value = value * 10 + (bytes[at] - b'0') as u32;
            at += 1;
        }
        value == number
    }
    assert!(
        is(MILLPOND_VERSION_MAJOR, env!("CARGO_PKG_VERSION_MAJOR"))
            && is(MILLPOND_VERSION_MINOR, env!("CARGO_PKG_VERSION_MINOR"))
            && is(MILLPOND_VERSION_PATCH, env!("CARGO_PKG_VERSION_PATCH"))
            && MILLPOND_VERSION_NUMBER
                == MILLPOND_VERSION_MAJOR * 10000 + MILLPOND_VERSION_MINOR * 100 + MILLPOND_VERSION_PATCH,
        "MILLPOND_VERSION_* are not the version of Cargo.toml"
    );
};

/// The version of the running library, such as "0.1.0". A program compiled with a header of the same
/// MAJOR.MINOR can use it (from 1.0 on: of the same MAJOR, and no newer MINOR).
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
