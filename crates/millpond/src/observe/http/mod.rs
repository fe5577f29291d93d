//! A small HTTP server for figures: `GET` and `HEAD` of a few short answers, on one thread.
//!
//! ```text
//!   poll ──► the sign to stop ────► end
//!        ──► a new client ────────► taken in; beyond 32 the one that has been there for longest goes
//!        ──► a client has sent ───► a whole head of a request? answered; more than 8 KiB of it: refused
//!        ──► a client can take ───► the rest of its answer, then the connection is closed
//!        ──► 10 s are over ───────► a client that is there so long is sent away
//! ```
//!
//! Written here because it must be bounded in all it does: one thread, 32 connections, 8 KiB of a request, 10
//! s for all of it; a server made for more takes a thread for each connection and waits for it as long as it
//! likes. The head is parsed by the crate `httparse`. There is no encryption and no password: it is for the
//! loopback addresses, and where it listens on one it answers only requests for `localhost` or an address, so
//! that no page from elsewhere can read it by a name that leads here.

mod client;
mod head;

pub use head::{Answer, Asked};

use crate::sys::threads;
use client::Client;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Clients at a time.
const CLIENTS_MAX: usize = 32;

/// How long a client may take from its connection to the end of its answer. Prometheus gives up after 10 s by default.
const CLIENT_TIME: Duration = Duration::from_secs(10);

/// How long to leave a client waiting for which there is no descriptor.
const REST: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A server and its thread. Both end with this.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    /// Its end is the sign to stop.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `address` (port 0: one that is free) and answers with what `answer` says, on a thread of this name.
    ///
    /// # Errors
    /// The system's: the address is in use, is not of this host, or may not be used.
    pub fn start(
        address: SocketAddr,
        name: &str,
        answer: impl FnMut(&Asked<'_>) -> Answer + Send + 'static,
    ) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = UnixStream::pair()?;
        let thread = threads::spawn(name, move || {
            let mut serving = Serving {
                listener,
                stopped,
                clients: Vec::new(),
                answer,
            };
            if let Err(error) = serving.run() {
                // There is no other place to report it; nothing depends on the server.
                let _ = writeln!(
                    io::stderr(),
                    "millpond: the server at {address} has ended: {error}"
                );
            }
        })?;
        Ok(Server {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

struct Serving<F> {
    listener: TcpListener,
    stopped: UnixStream,
    clients: Vec<Client>,
    answer: F,
}

impl<F: FnMut(&Asked<'_>) -> Answer> Serving<F> {
    /// Serves until the sign to stop.
    ///
    /// # Errors
    /// The system's, if it can no longer wait for sockets.
    fn run(&mut self) -> io::Result<()> {
        let is_loopback = self.listener.local_addr()?.ip().is_loopback();
        loop {
            let ready = self.wait()?;
            if ready[0] {
                return Ok(());
            }
            let has_new = ready[1];
            let mut ready = ready.into_iter().skip(2);
            let (now, answer) = (Instant::now(), &mut self.answer);
            self.clients.retain_mut(|client| {
                let is_ready = ready.next().unwrap_or(false);
                client.until > now && (!is_ready || client.serve(is_loopback, answer))
            });
            if has_new && !self.welcome() {
                // It waits on, and is ready again at once.
                let mut stop = [PollFd::new(&self.stopped, PollFlags::IN)];
                let _ = rustix::event::poll(&mut stop, Some(&REST));
            }
        }
    }

    /// Waits until something can be done, and says for which: the sign to stop, the listener, each
    /// client.
    fn wait(&self) -> io::Result<Vec<bool>> {
        let mut fds = vec![
            PollFd::new(&self.stopped, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        let clients = self.clients.iter();
        fds.extend(clients.map(|client| PollFd::new(client.stream(), client.waits_for())));
        let until = self.clients.iter().map(|client| client.until).min();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) => Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
            Err(Errno::INTR) => Ok(vec![false; fds.len()]),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes in the client that has connected; false if that can't be now: the process has no
    /// descriptor left.
    fn welcome(&mut self) -> bool {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Gone again, or there was none.
                return matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
                );
            }
        };
        if stream.set_nonblocking(true).is_err() {
            return true;
        }
        if self.clients.len() >= CLIENTS_MAX {
            self.clients.remove(0);
        }
        self.clients
            .push(Client::new(stream, Instant::now() + CLIENT_TIME));
        true
    }
}

#[cfg(test)]
mod tests;
