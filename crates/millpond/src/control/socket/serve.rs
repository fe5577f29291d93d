//! The thread of a control socket: all clients, one after the other, none of them waited for.
//!
//! ```text
//!   poll ──► the sign to stop ─────────► end
//!        ──► a new client ─────────────► the same user? else an error and goodbye
//!        ──► a client has sent ────────► whole lines: answered in order; half a line stays until the rest comes
//!        ──► a client can take more ───► the rest of its answer
//! ```
//!
//! A client that does not read its answer is not read from until it does, so it holds one answer at most. A line that is
//! too long is refused and skipped to its end. After an error of the system on its connection a client is dropped; the
//! others notice nothing. What waits for a disk (recordings) is answered by a thread of its own, see `slow.rs`; its
//! client is not read from meanwhile.

use super::answer::{answer, error, is_slow};
use super::place::Bound;
use super::slow::Slow;
use super::{CLIENTS_MAX, LINE_BYTES_MAX};
use crate::control::cache::Cache;
use crate::observe::history::By;
use crate::sys::peer::peer;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::Instant;

/// How long to leave a client waiting for which there is no descriptor.
const REST: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

struct Client {
    stream: UnixStream,
    by: By,
    /// Input received and not yet answered.
    input: Vec<u8>,
    /// The rest of a line that was too long is on its way.
    skipping: bool,
    /// Nothing more comes.
    ended: bool,
    output: Vec<u8>,
    /// The answer that another thread works on.
    awaited: Option<Receiver<serde_json::Value>>,
    /// To be closed when the output is sent.
    leaving: bool,
    spoke: Instant,
}

/// Serves until `stopped` ends.
///
/// # Errors
/// The system's, if it can no longer wait for sockets.
pub(super) fn run(bound: &Bound, cache: &Cache, stopped: &UnixStream) -> io::Result<()> {
    // Ends when the slow one has, which a disk may keep waiting; so would the end of its recording.
    thread::scope(|scope| {
        let mut slow = Slow::new(scope, cache)?;
        let mut clients: Vec<Client> = Vec::new();
        loop {
            let ready = wait(bound, stopped, slow.bell(), &clients)?;
            if ready[0] {
                return Ok(());
            }
            if ready[2] {
                slow.heard();
                clients.iter_mut().for_each(Client::collect);
            }
            let has_new = ready[1];
            let mut ready = ready.into_iter().skip(3);
            clients.retain_mut(|client| !ready.next().unwrap_or(false) || client.serve(cache, &mut slow));
            if has_new && !welcome(bound, &mut clients) {
                // It waits on, and is ready again at once.
                let mut stop = [PollFd::new(stopped, PollFlags::IN)];
                let _ = rustix::event::poll(&mut stop, Some(&REST));
            }
        }
    })
}

/// Waits until something can be done, and says for which: the sign to stop, the listener, the slow one, each
/// client.
fn wait(bound: &Bound, stopped: &UnixStream, bell: &UnixStream, clients: &[Client]) -> io::Result<Vec<bool>> {
    let mut fds = vec![
        PollFd::new(stopped, PollFlags::IN),
        PollFd::new(bound.listener(), PollFlags::IN),
        PollFd::new(bell, PollFlags::IN),
    ];
    fds.extend(clients.iter().map(|client| {
        let flags = match (&client.awaited, client.output.is_empty()) {
            // Its hangup is reported in any case.
            (Some(_), _) => PollFlags::empty(),
            (None, true) => PollFlags::IN,
            (None, false) => PollFlags::OUT,
        };
        PollFd::new(&client.stream, flags)
    }));
    loop {
        match rustix::event::poll(&mut fds, None) {
            Ok(_) => return Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes in the clients that have connected; false if that can't be now: the process has no
/// descriptor left.
fn welcome(bound: &Bound, clients: &mut Vec<Client>) -> bool {
    let stream = match bound.listener().accept() {
        Ok((stream, _)) => stream,
        // Gone again.
        Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
    };
    let (Ok(()), Ok((pid, uid))) = (stream.set_nonblocking(true), peer(&stream)) else {
        return true;
    };
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let own = rustix::process::geteuid().as_raw();
    let mut client = Client {
        stream,
        by: By::Process {
            pid,
            uid,
            name: name.trim_end().into(),
        },
        input: Vec::new(),
        skipping: false,
        ended: false,
        output: Vec::new(),
        awaited: None,
        leaving: false,
        spoke: Instant::now(),
    };
    if uid != own {
        let why = format!("only user {own}, whose cache this is, may use its control socket, not user {uid}");
        client.say(&error("refused", &why));
        let _ = client.send();
        return true;
    }
    if clients.len() >= CLIENTS_MAX
        && let Some((at, _)) = clients.iter().enumerate().min_by_key(|(_, c)| c.spoke)
    {
        clients.remove(at);
    }
    clients.push(client);
    true
}

impl Client {
    /// Takes the answer that it waits for, if that is there.
    fn collect(&mut self) {
        let answer = match &self.awaited {
            None => return,
            Some(awaited) => match awaited.try_recv() {
                Ok(answer) => answer,
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => error("cache", "the answering thread has panicked"),
            },
        };
        self.awaited = None;
        self.say(&answer);
    }

    /// Does what can be done now; false when the client is to be forgotten.
    fn serve(&mut self, cache: &Cache, slow: &mut Slow<'_, '_>) -> bool {
        if self.awaited.is_some() {
            // For a waiting client only its hangup is reported.
            return false;
        }
        if self.output.is_empty() && !self.receive() {
            return false;
        }
        loop {
            if !self.send() {
                return false;
            }
            if !self.output.is_empty() {
                return true;
            }
            if self.leaving {
                return false;
            }
            if !self.next_line(cache, slow) {
                return !self.ended;
            }
            if self.awaited.is_some() {
                return true;
            }
        }
    }

    /// Takes in what has come; false after an error.
    fn receive(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(n) => {
                self.spoke = Instant::now();
                self.input.extend_from_slice(&buffer[..n]);
            }
            Err(error) => {
                return matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                );
            }
        }
        true
    }

    /// Answers the next line, if there is a whole one.
    fn next_line(&mut self, cache: &Cache, slow: &mut Slow<'_, '_>) -> bool {
        let end = self.input.iter().position(|byte| *byte == b'\n');
        let line: Vec<u8> = match end {
            Some(end) => self.input.drain(..=end).take(end).collect(),
            None if self.input.len() > LINE_BYTES_MAX => {
                self.input.clear();
                if !self.skipping {
                    self.skipping = true;
                    self.too_long();
                }
                return true;
            }
            None if self.ended && !self.input.is_empty() => {
                self.input.clear();
                if !self.skipping {
                    self.say(&error(
                        "request",
                        "the last line is not terminated: it was ignored",
                    ));
                }
                self.leaving = true;
                return true;
            }
            None => return false,
        };
        if std::mem::take(&mut self.skipping) {
            return true;
        }
        if line.len() > LINE_BYTES_MAX {
            self.too_long();
            return true;
        }
        let answer = match std::str::from_utf8(&line) {
            Ok(line) if is_slow(line) => match slow.answer(line, &self.by) {
                Ok(awaited) => {
                    self.awaited = Some(awaited);
                    return true;
                }
                Err(why) => error("cache", &why.to_string()),
            },
            Ok(line) => answer(cache, &self.by, line),
            Err(_) => error("request", "a command is a line of text in UTF-8"),
        };
        self.say(&answer);
        true
    }

    fn too_long(&mut self) {
        let why = format!("a line has {LINE_BYTES_MAX} bytes at most: this one was ignored");
        self.say(&error("request", &why));
    }

    fn say(&mut self, answer: &serde_json::Value) {
        self.output.extend_from_slice(answer.to_string().as_bytes());
        self.output.push(b'\n');
    }

    /// Sends what the client can take; false after an error.
    fn send(&mut self) -> bool {
        while !self.output.is_empty() {
            // No signal if it has gone, whatever the process does with signals.
            match rustix::net::send(&self.stream, &self.output, SendFlags::NOSIGNAL) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(Errno::WOULDBLOCK) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }
}
