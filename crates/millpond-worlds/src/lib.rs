//! The posts as worlds in virtual time: simulator and kernels of the past as scenes that can be run, stopped and stepped.
//!
//! ```text
//!   link ──► scene: its settings, seed, moment ──► worlds, one a system, on the same load
//!                                                     │ run through a moment of virtual time
//!                                                     └── look · figures · log ──► the playground's page, the laboratory
//! ```
//!
//! The same code runs natively and as WebAssembly, so what a page shows is what the laboratory prints: a test compares the
//! two, byte for byte. A world is stepped here and nothing else: what is decided is decided by `millpond-core` and
//! `millpond-kernels`, and by them alone.
//!
//! A moment is a time: all that happens at or before it has happened. So a link that names scene, settings, seed and moment
//! names one state, however it was reached.

#![forbid(unsafe_code)]

// Rows of modules: a file imports only from lower rows, which `crates/millpond-lab/tests/all/arrows` checks.
//
//   5  column                    one system of a scene, and its state as JSON
//   4  worlds                    the posts' machines with their loads
//   3  reasons                   why a page was moved
//   2  link                      scene, settings, seed and moment as text
//   1  scene  world  recorded    what there is; what every world can do; a trace of the reader's own

pub mod column;
pub mod link;
mod reasons;
pub mod recorded;
pub mod scene;
pub mod world;
pub mod worlds;
