//! The other end: asks a cache.

use super::{other, place};
use crate::sys::peer::peer;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// An answer takes well below a millisecond; more memory may take the system seconds. After this the cache hangs.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);

/// A connection to a cache's control socket.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    wait_max: Duration,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// The system's: no cache serves the socket ([`io::ErrorKind::ConnectionRefused`]), or there is
    /// none.
    pub fn connect(path: &Path) -> io::Result<Client> {
        let stream = place::connect(path)?;
        stream.set_nonblocking(false)?;
        let mut client = Client {
            stream: BufReader::new(stream),
            wait_max: ANSWER_WAIT_MAX,
        };
        client.wait_at_most(ANSWER_WAIT_MAX)?;
        Ok(client)
    }

    /// The number of the process whose cache it is, whether it answers or not. `None` if it is in a PID namespace that this one
    /// does not see.
    pub fn process(&self) -> Option<u32> {
        let (process, _) = peer(self.stream.get_ref()).ok()?;
        (process != 0).then_some(process)
    }

    /// Waits for an answer for so long, in place of a minute; [`io::ErrorKind::TimedOut`] then. A client whose answer has not
    /// come in time is of no further use: the answer to its next question would be that one.
    ///
    /// # Errors
    /// The system's, if it takes no such time: zero is none.
    pub fn wait_at_most(&mut self, time: Duration) -> io::Result<()> {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(time))?;
        stream.set_write_timeout(Some(time))?;
        self.wait_max = time;
        Ok(())
    }

    /// Sends a line of words, without its end, and returns the answer: an object of JSON, without its end.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::UnexpectedEof`] if the cache has gone.
    pub fn ask(&mut self, line: &str) -> io::Result<String> {
        if line.contains('\n') {
            return Err(other("a command is one line"));
        }
        // A cache that refuses has answered, though it takes no question.
        let sent = self.stream.get_mut().write_all(format!("{line}\n").as_bytes());
        let mut answer = String::new();
        match self.stream.read_line(&mut answer) {
            Ok(_) if answer.ends_with('\n') => {
                answer.pop();
                Ok(answer)
            }
            Ok(_) => Err(gone(sent.err())),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(gone(None)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no answer in {} s", self.wait_max.as_secs_f64()),
            )),
            Err(error) => Err(error),
        }
    }
}

fn gone(sent: Option<io::Error>) -> io::Error {
    let is_gone = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        )
    };
    let other = sent.filter(|error| !is_gone(error));
    other.unwrap_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the cache has gone"))
}
