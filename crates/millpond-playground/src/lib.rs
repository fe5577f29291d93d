//! The posts in a browser: the page, and the module of [`millpond_worlds`] that it runs as WebAssembly.
//!
//! ```text
//!   link ──► worlds ──► JSON ──► page (JavaScript)
//! ```

// Rows of modules: a file imports only from lower rows, which `crates/millpond-lab/tests/all/arrows` checks.
//
//   1  ffi     what a page calls
//   0  page    the page: its parts, put together

#[cfg(target_arch = "wasm32")]
pub mod ffi;
#[cfg(not(target_arch = "wasm32"))]
pub mod page;
