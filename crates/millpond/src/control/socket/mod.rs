//! The server and client of a control socket, and the sockets' location. [`control`](crate::control) documents the
//! protocol.

mod answer;
mod client;
mod place;
mod reclaim;
mod serve;
mod slow;
mod watch;

pub use client::Client;
pub use place::sockets;

use crate::control::cache::Cache;
use crate::error::{Error, Result};
use crate::sys::threads;
use place::Bound;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The maximum line length: enough to set all settings at once.
pub const LINE_BYTES_MAX: usize = 8 << 10;

/// The maximum number of clients; a further one replaces the client that has been silent longest.
pub const CLIENTS_MAX: usize = 32;

/// The location of the socket.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Among the user's run-time files.
    Default,
    /// At this path.
    At(PathBuf),
}

/// The socket and its thread. Both end when this is dropped.
pub(crate) struct Control {
    path: PathBuf,
    /// Closing it signals the thread to stop.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Opens the socket and serves it.
    ///
    /// # Errors
    /// [`Error::Control`], [`Error::Setup`] if the system gives no thread.
    pub(crate) fn start(cache: Arc<Cache>, place: &Place) -> Result<Control> {
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
                // There is no other place to report it; the cache works without the socket.
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
