//! The page: its parts, put together into one file that needs nothing else.
//!
//! ```text
//!   page/*.html .css .js ───┐
//!                           ├──► one file: served on loopback, or opened from disk
//!   page/module.wasm.gz ────┘    (as base64; nothing is fetched)
//!     ▲ this crate as WebAssembly: made by `examples/make.rs`, and kept
//! ```
//!
//! Scripts are concatenated in one order, in one function of their own.

mod assemble;

const HTML: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
/// In the order in which they run.
const SCRIPTS: [&str; 9] = [
    include_str!("page/make.js"),
    include_str!("page/machine.js"),
    include_str!("page/time.js"),
    include_str!("page/strips.js"),
    include_str!("page/column.js"),
    include_str!("page/plot.js"),
    include_str!("page/scene.js"),
    include_str!("page/own.js"),
    include_str!("page/main.js"),
];
/// Kept with the sources, so that no compiler for it is needed. `tests/browser` compares what it does with the native code.
const MODULE: &[u8] = include_bytes!("page/module.wasm.gz");

/// The page. It needs nothing else, and no network.
pub fn page() -> String {
    assemble::assemble(MODULE)
}
