//! The client side of the control socket.

use super::{other, place};
use crate::sys::peer::peer;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The default timeout. An answer takes well under a millisecond, but growing the budget may take the system seconds.
/// After this time the cache is considered hung.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);

/// A connection to a cache's control socket.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    wait_max: Duration,
}

impl Client {
    /// Connects to a control socket.
    ///
    /// # Errors
    /// The system's: no cache serves the socket ([`io::ErrorKind::ConnectionRefused`]), or the socket does not exist.
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

    /// Returns the ID of the process that owns the cache, even if it does not answer. `None` if it is in a PID
    /// namespace that is not visible here.
    pub fn process(&self) -> Option<u32> {
        let (process, _) = peer(self.stream.get_ref()).ok()?;
        (process != 0).then_some(process)
    }

    /// Sets the timeout for an answer, one minute by default; then [`ask`](Client::ask) fails with
    /// [`io::ErrorKind::TimedOut`]. After a timeout the client can't be used: the next question would get the late
    /// answer.
    ///
    /// # Errors
    /// The system's, if it rejects the time, such as zero.
    pub fn wait_at_most(&mut self, time: Duration) -> io::Result<()> {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(time))?;
        stream.set_write_timeout(Some(time))?;
        self.wait_max = time;
        Ok(())
    }

    /// Sends a line of words, without a newline, and returns the answer: a JSON object, without a newline.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::UnexpectedEof`] if the cache is gone.
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
