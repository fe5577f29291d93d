//! The posts in a browser: simulator and kernels of the past as scenes that can be run, stopped, stepped and turned back.
//!
//! ```text
//!   link ──► scene: its settings, seed, moment ──► worlds, one a system, on the same load      ┌─► JSON ──► page (JavaScript)
//!                                                     │ run through a moment of virtual time   │
//!                                                     └── look · figures · log ────────────────┘
//! ```
//!
//! The same code runs natively and as WebAssembly, so what a page shows is what the laboratory prints: a test compares the
//! two, byte for byte. A world is stepped here and nothing else: what is decided is decided by `millpond-core` and
//! `millpond-kernels`, and by them alone.
//!
//! A moment is a time: all that happens at or before it has happened. So a link that names scene, settings, seed and moment
//! names one state, however it was reached.

// Rows of modules: a file imports only from lower rows, which `crates/millpond-lab/tests/arrows` checks.
//
//   6  ffi                       what a page calls
//   5  column                    one system of a scene, and its state as JSON
//   4  worlds                    the posts' machines with their loads
//   3  reasons                   why a page was moved
//   2  link                      scene, settings, seed and moment as text
//   1  scene  world  recorded    what there is; what every world can do; a trace of the reader's own
//   0  page                      the page: its parts, put together

pub mod column;
#[cfg(target_arch = "wasm32")]
pub mod ffi;
pub mod link;
#[cfg(not(target_arch = "wasm32"))]
pub mod page;
mod reasons;
pub mod recorded;
pub mod scene;
pub mod world;
pub mod worlds;
