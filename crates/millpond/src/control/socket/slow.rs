//! The thread that answers what may wait for a disk, so that the socket's own never does.
//!
//! A recording begins and ends with writes of the trace, and a disk that does not answer must not keep a
//! client from asking the cache why. A client that asks about the recording meanwhile waits with it. The
//! thread is there from the first such line on, takes them in their order, and rings when an answer is there.

use super::answer::answer;
use crate::control::cache::Cache;
use crate::observe::history::By;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::thread::{self, Scope};

/// Lines that wait for the thread. More are refused: a client that asks again and again while a disk does not
/// answer has no use for the answers.
const JOBS_MAX: usize = 64;

struct Job {
    line: String,
    by: By,
    to: Sender<Value>,
}

pub(super) struct Slow<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    cache: &'env Cache,
    jobs: Option<SyncSender<Job>>,
    /// Something can be read here after each answer.
    bell: UnixStream,
    rope: UnixStream,
}

/// Rings when its thread ends, too, however that ends: the client that waits for an answer then finds that
/// there is none.
struct Rope(UnixStream);

impl Rope {
    fn pull(&mut self) {
        let _ = self.0.write(&[1]);
    }
}

impl Drop for Rope {
    fn drop(&mut self) {
        self.pull();
    }
}

impl<'scope, 'env> Slow<'scope, 'env> {
    /// # Errors
    /// The system's, if there is no descriptor left.
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        cache: &'env Cache,
    ) -> io::Result<Slow<'scope, 'env>> {
        let (bell, rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        // It is heard as well if it has rung too often.
        rope.set_nonblocking(true)?;
        Ok(Slow {
            scope,
            cache,
            jobs: None,
            bell,
            rope,
        })
    }

    pub(super) fn bell(&self) -> &UnixStream {
        &self.bell
    }

    /// It has rung.
    pub(super) fn heard(&mut self) {
        while self.bell.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
    }

    /// The channel for the answer to this line; the bell rings when it is there.
    ///
    /// # Errors
    /// The system's, if it gives no thread.
    pub(super) fn answer(&mut self, line: &str, by: &By) -> io::Result<Receiver<Value>> {
        let jobs = match self.jobs.take() {
            Some(jobs) => jobs,
            None => self.start()?,
        };
        let (to, awaited) = mpsc::channel();
        let job = Job {
            line: line.to_owned(),
            by: by.clone(),
            to,
        };
        let why = match jobs.try_send(job) {
            Ok(()) => {
                self.jobs = Some(jobs);
                return Ok(awaited);
            }
            Err(TrySendError::Full(_)) => {
                self.jobs = Some(jobs);
                "too many requests wait for a recording's disk; ask again when it answers"
            }
            // The next one gets another thread.
            Err(TrySendError::Disconnected(_)) => "the answering thread has panicked; ask again",
        };
        Err(io::Error::other(why))
    }

    fn start(&self) -> io::Result<SyncSender<Job>> {
        let (jobs, to_do) = mpsc::sync_channel::<Job>(JOBS_MAX);
        let (cache, mut rope) = (self.cache, Rope(self.rope.try_clone()?));
        thread::Builder::new()
            .name("millpond-slow".into())
            .spawn_scoped(self.scope, move || {
                for job in to_do {
                    // The send fails if the client has gone; what it asked for is done.
                    let _ = job.to.send(answer(cache, &job.by, &job.line));
                    rope.pull();
                }
            })?;
        Ok(jobs)
    }
}

#[cfg(test)]
mod tests {
    use crate::PageCache;
    use serde_json::Value;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    fn answer(stream: &mut BufReader<UnixStream>) -> Value {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// `stat` had no answer for as long as the disk of a trace had none.
    #[test]
    fn a_wait_for_a_recording_s_disk_delays_no_other_client() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("sock");
        let builder = PageCache::builder().memory(2 << 20).calibrate(false);
        let cache = builder.control_at(&socket).build().unwrap();
        let client = || {
            let stream = UnixStream::connect(&socket).unwrap();
            // Longer than any answer takes on a slow day.
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            BufReader::new(stream)
        };
        let (mut waits, mut asks, leaves) = (client(), client(), client());
        // As a recording has it while it waits for its disk.
        let recordings = cache.handle.recordings.lock();
        waits.get_mut().write_all(b"record state\nabout\n").unwrap();
        leaves.get_ref().write_all(b"record state\n").unwrap();
        drop(leaves);
        for _ in 0..3 {
            asks.get_mut().write_all(b"about\n").unwrap();
            assert!(answer(&mut asks)["protocol"].is_u64());
        }
        drop(recordings);
        // In the order of the questions.
        assert_eq!(answer(&mut waits)["kind"], "refused");
        assert!(answer(&mut waits)["protocol"].is_u64());
        asks.get_mut().write_all(b"record state\n").unwrap();
        assert_eq!(answer(&mut asks)["kind"], "refused");
    }
}
