//! The control socket, through which `millpond stat`, `inspect` and `set` inspect and tune a running cache.
//!
//! A program enables it with [`Builder::control`](crate::Builder::control). Most users need only the `millpond` program
//! as the client. [`Client`] and [`sockets`] serve others: a supervisor, a test, a dashboard.
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
//! # Protocol
//!
//! ```text
//!   client ── "set dirty.background=64M memory=1G\n" ──► a line of words
//!          ◄── {"changed":[…],"limits":[…]}\n ────────── a line of JSON; {"error":"…"} if it can't be
//! ```
//!
//! [`Builder::control`](crate::Builder::control) or `control_at` creates the socket: a Unix stream socket that only the
//! same user may use (mode 600, and the user of each connection is checked). A single dedicated thread serves all
//! clients, and uses only calls that programs can use too. A client that sends partial lines, sends too much, or never
//! reads its answers delays only itself. The socket is removed with the cache. A stale socket of a killed process is
//! replaced by the next cache that wants its name, and is never offered to a client.
//!
//! The socket is `PID-N.sock` in `$XDG_RUNTIME_DIR/millpond`, or else in `millpond-UID` in the directory for temporary
//! files. N is a number that no other cache there uses. Both directories belong to the user alone (mode 700), or they
//! are not used.
//!
//! The table in `socket/answer.rs` defines the commands; `help` lists them.

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
