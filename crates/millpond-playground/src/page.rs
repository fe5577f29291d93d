//! The page: its parts, put together into one file that needs nothing else.
//!
//! ```text
//!   page/*.html .css .js ─┐
//!                         ├──► one file: opened from disk, or served on loopback
//!   this crate as wasm ───┘    (as base64; nothing is fetched)
//! ```
//!
//! Scripts are put behind one another in one order, in one function of their own.

mod assemble;
mod build;

pub use assemble::assemble;
pub use build::{BuildError, build, found};

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

/// What the page is called where it is kept.
pub const FILE: &str = "millpond-playground.html";
