//! One client: the head of its request, then its answer, then the end.

use super::head::{self, Answer, Asked, HEAD_BYTES_MAX};
use rustix::event::PollFlags;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

pub(super) struct Client {
    stream: TcpStream,
    /// Then it is sent away.
    pub(super) until: Instant,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// All was sent, and its end as well: what it still sends is read and forgotten, until it closes. Else the system would
    /// tell it that the connection was broken, perhaps before it has read the answer.
    leaving: bool,
}

impl Client {
    pub(super) fn new(stream: TcpStream, until: Instant) -> Client {
        Client {
            stream,
            until,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            leaving: false,
        }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn waits_for(&self) -> PollFlags {
        match self.output.is_empty() || self.leaving {
            true => PollFlags::IN,
            false => PollFlags::OUT,
        }
    }

    /// Does what can be done now; false when the client is to be forgotten.
    pub(super) fn serve(&mut self, is_loopback: bool, answer: &mut impl FnMut(&Asked<'_>) -> Answer) -> bool {
        if self.leaving {
            return self.forget();
        }
        if self.output.is_empty() {
            match self.receive() {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return is_for_later(&error),
            }
            match head::answer(&self.input, is_loopback, answer) {
                Some(output) => self.output = output,
                None => return true,
            }
        }
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return false,
                Ok(n) => self.sent += n,
                Err(error) => return is_for_later(&error),
            }
        }
        self.leaving = true;
        self.stream.shutdown(Shutdown::Write).is_ok()
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 2048];
        let room = (HEAD_BYTES_MAX + 1 - self.input.len()).min(buffer.len());
        let n = self.stream.read(&mut buffer[..room])?;
        self.input.extend_from_slice(&buffer[..n]);
        Ok(n)
    }

    /// Reads the rest, which is not wanted.
    fn forget(&mut self) -> bool {
        let mut buffer = [0; 2048];
        match self.stream.read(&mut buffer) {
            Ok(n) => n > 0,
            Err(error) => is_for_later(&error),
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
