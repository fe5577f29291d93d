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
//! It is there if [`Builder::control`](crate::Builder::control) or `control_at` asked for it: a Unix stream socket that
//! only the same user may use (its mode is 600, and who connects is asked for). One thread of its own serves all clients,
//! and calls nothing but what programs call; a client that sends half lines, too much, or never reads its answers holds
//! up nobody but itself. The socket goes with the cache. One that a killed process has left is replaced by whoever wants
//! its name, and never offered to anybody.
//!
//! Where: in `$XDG_RUNTIME_DIR/millpond`, else in `millpond-UID` among temporary files, as `PID-N.sock`, where N is a
//! number that no other cache there has. Both folders are the user's alone (mode 700), or they are not used.
//!
//! The commands are those of the table in `answer.rs`, which `help` lists.

mod answer;
mod client;
mod place;
mod reclaim;
mod serve;
mod slow;
mod watch;

pub use client::Client;
pub use place::sockets;

use crate::cache::Inner;
use crate::error::{Error, Result};
use crate::sys::threads;
use place::Bound;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A line that is longer is refused: the longest that says something sets all settings.
pub const LINE_BYTES_MAX: usize = 8 << 10;

/// So many clients are served at a time; one more takes the place of the one that has said nothing for longest.
pub const CLIENTS_MAX: usize = 32;

/// Where the socket is to be.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Among the user's run-time files.
    Default,
    /// There.
    At(PathBuf),
}

/// The socket and its thread. Both end with this.
pub(crate) struct Control {
    path: PathBuf,
    /// Its end is the sign to stop.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Opens the socket and serves it.
    ///
    /// # Errors
    /// [`Error::Control`], [`Error::Setup`] if the system gives no thread.
    pub(crate) fn start(cache: Arc<Inner>, place: &Place) -> Result<Control> {
        let bound = match place {
            Place::Default => place::bind_default()?,
            Place::At(path) => Bound::new(path)?,
        };
        let failed = |source| Error::Setup {
            what: "starting the control socket's thread",
            source,
        };
        let path = bound.path().to_owned();
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let thread = threads::spawn("millpond-control", move || {
            if let Err(error) = serve::run(&bound, &cache, &stopped) {
                // There is nobody else to tell; the cache needs none of this.
                let _ = writeln!(io::stderr(), "millpond: the control socket has ended: {error}");
            }
        })
        .map_err(failed)?;
        Ok(Control {
            path,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop = None;
        let Some(thread) = self.thread.take() else { return };
        // A hook of the user's that this thread has called may drop the cache.
        if thread.thread().id() != std::thread::current().id() {
            // It has said so itself if it has panicked.
            let _ = thread.join();
        }
    }
}

fn other(why: impl Into<String>) -> io::Error {
    io::Error::other(why.into())
}
