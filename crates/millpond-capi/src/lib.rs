//! Millpond for C and C++: `libmillpond`, whose documentation is its header, `include/millpond.h`.
//!
//! ```text
//!   C ──► ffi: what is exported, by kind ──► the engine's calls, in `attempt`: no panic leaves it
//!           │ handle: opaque handles            │
//!           │ memory: pointers of the caller    ▼
//!           └──────────────────────────────── told: code, errno and message of the thread's last error
//! ```
//!
//! The header is made from this crate by cbindgen; the test `header` holds the committed one against the code.
//! `docs/decisions/0017-c-abi.md` says what is promised to stay.
//!
//! What a C compiler can't check, the header asks of the caller: pointers are NULL or good for what the call does with
//! them, and no handle is closed while another thread is in a call with it. All `unsafe` code trusts in that, and all of it
//! is in `ffi`. What can be seen is an error: NULL, a size that can't be, a handle that is closed or of another kind.

#![allow(non_camel_case_types, reason = "names of C, as in the header")]
#![allow(
    unreachable_pub,
    reason = "what is in the header is public, and C reaches it by its name"
)]

// Rows of modules: a file imports only from lower rows, which `crates/millpond-lab/tests/all/arrows` checks.
//
//   3  ffi                what is exported
//   2  told               the thread's last error
//   1  code               codes

mod code;
mod ffi;
mod told;
