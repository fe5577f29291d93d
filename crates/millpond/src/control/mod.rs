//! The control socket: a running cache looked into and retuned from outside, by `millpond stat`, `inspect` and `set`.
//!
//! A program gives its cache one with [`Builder::control`](crate::Builder::control); the `millpond` program is the client
//! that most will want. [`Client`] and [`sockets`] are for others: a supervisor, a test, a dashboard.
//!
//! ```
//! use millpond::PageCache;
//! use millpond::control::Client;
//! # let folder = tempfile::tempdir()?;
//! let socket = folder.path().join("cache.sock");
//! let cache = PageCache::builder().control_at(&socket).name("orders").build()?;
//! // In another process of the same user:
//! let mut client = Client::connect(&socket)?;
//! let answer = client.ask("set dirty.background=8M")?; // a line of JSON
//! assert!(answer.contains(r#""new":"8M""#), "{answer}");
//! println!("{}", client.ask("stat")?); // `help` has the others
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What goes over it
//!
//! ```text
//!   client ── "set dirty.background=64M memory=1G\n" ──► a line of words
//!          ◄── {"changed":[…],"limits":[…]}\n ────────── a line of JSON; {"error":"…"} if it can't be
//! ```
//!
//! It is there if [`Builder::control`](crate::Builder::control) or `control_at` asked for it: a Unix stream
//! socket that only the same user may use (its mode is 600, and the user of each connection is checked). One
//! thread of its own serves all clients, and calls nothing but what programs call; a client that sends half
//! lines, too much, or never reads its answers holds up only itself. The socket goes with the cache. One that
//! a killed process has left is replaced by the next cache that wants its name, and never offered to a
//! client.
//!
//! Where: in `$XDG_RUNTIME_DIR/millpond`, else in `millpond-UID` among temporary files, as `PID-N.sock`, where N is a
//! number that no other cache there has. Both folders are the user's alone (mode 700), or they are not used.
//!
//! The commands are those of the table in `socket/answer.rs`, which `help` lists.

pub(crate) mod auto;
pub(crate) mod budget;
pub(crate) mod cache;
pub(crate) mod calibration;
pub(crate) mod follow;
mod inspect;
mod probes;
#[cfg(feature = "trace")]
mod recording;
mod remeasure;
#[cfg(feature = "control")]
pub(crate) mod socket;
mod takers;
mod tuning;

#[cfg(feature = "control")]
pub use socket::{CLIENTS_MAX, Client, LINE_BYTES_MAX, sockets};
