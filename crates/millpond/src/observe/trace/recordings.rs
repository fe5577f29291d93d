//! The recordings of a cache: starting, watching and ending them.

use super::format::{self, Kind, MAGIC, Opened};
use super::shards::Sink;
use super::write::{self, Writer};
use super::{Calls, Ended, Recorded, TRACE_BYTES_MIN};
use crate::error::{Error, Result};
use crate::observe::events;
use crate::sys::threads;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
#[cfg(feature = "control")]
use std::time::Duration;
use std::time::Instant;

/// The recordings of a cache.
#[derive(Default)]
pub(crate) struct Recordings {
    number: u64,
    running: Option<Running>,
    last: Option<Recorded>,
}

struct Running {
    path: PathBuf,
    sink: Arc<Sink>,
    thread: JoinHandle<Recorded>,
    began: Instant,
}

/// The progress of a recording.
#[cfg(feature = "control")]
pub(crate) struct Progress {
    pub(crate) path: PathBuf,
    pub(crate) accesses: u64,
    pub(crate) lost: u64,
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    /// `None`: it goes on.
    pub(crate) ended: Option<Ended>,
}

#[cfg(feature = "control")]
impl From<&Recorded> for Progress {
    fn from(recorded: &Recorded) -> Progress {
        Progress {
            path: recorded.path.clone(),
            accesses: recorded.accesses,
            lost: recorded.lost,
            bytes: recorded.bytes,
            took: recorded.took,
            ended: Some(recorded.ended.clone()),
        }
    }
}

impl Recordings {
    /// Begins a recording: its number. `about` says what is recorded, and `open` which files are open once calls leave
    /// something: those that are opened from there on say so themselves, some may do so twice.
    ///
    /// # Errors
    /// [`Error::Trace`].
    pub(crate) fn start(
        &mut self,
        (path, bytes_max): (&Path, u64),
        calls: &Arc<dyn Calls>,
        about: impl FnOnce() -> serde_json::Value,
        open: impl FnOnce() -> Vec<Opened>,
    ) -> Result<u64> {
        let failed = |source| Error::Trace {
            path: path.to_owned(),
            source,
        };
        self.reap();
        if let Some(running) = &self.running {
            let why = format!(
                "a recording into {} is under way: end it first",
                running.path.display()
            );
            return Err(failed(io::Error::other(why)));
        }
        if bytes_max < TRACE_BYTES_MIN {
            let why = format!("{bytes_max} bytes are too few for a trace: {TRACE_BYTES_MIN} at least");
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        // It has the paths of all files that are used: readable by no other user, whatever the
        // umask is.
        let mut file = OpenOptions::new();
        file.write(true).create_new(true).mode(0o600);
        let file = file.open(path);
        let sink = Arc::new(Sink::default());
        let mut writer = Writer {
            calls: calls.clone(),
            sink: sink.clone(),
            path: path.to_owned(),
            file: file.map_err(|source| failed(write::with_a_way_out(source)))?,
            bytes: 0,
            bytes_max,
            before: calls.counters(),
            began: Instant::now(),
        };
        // A beginning alone is not a trace, and would be in the way of the next try.
        let failed = |source| {
            let _ = std::fs::remove_file(path);
            failed(source)
        };
        let mut beginning = MAGIC.to_vec();
        format::block(&mut beginning, Kind::About, |out| {
            out.extend_from_slice(about().to_string().as_bytes());
        });
        writer.append(&beginning).map_err(failed)?;
        calls.shards().open(&sink);
        calls.set_recorded(true);
        open().into_iter().for_each(|file| sink.opened(file));
        let thread = threads::spawn("millpond-trace", || writer.run());
        let thread = thread
            .inspect_err(|_| {
                calls.set_recorded(false);
                calls.shards().flush(true);
            })
            .map_err(failed)?;
        events::recording(path);
        self.number += 1;
        self.running = Some(Running {
            path: path.to_owned(),
            sink,
            thread,
            began: Instant::now(),
        });
        Ok(self.number)
    }

    /// The progress of the recording, or the end of the last one; `None` if there was none.
    #[cfg(feature = "control")]
    pub(crate) fn progress(&mut self) -> Option<Progress> {
        self.reap();
        match &self.running {
            Some(running) => Some(Progress {
                path: running.path.clone(),
                accesses: running.sink.accesses.load(Ordering::Relaxed),
                lost: running.sink.lost.load(Ordering::Relaxed),
                bytes: running.sink.bytes.load(Ordering::Relaxed),
                took: running.began.elapsed(),
                ended: None,
            }),
            None => self.last.as_ref().map(Progress::from),
        }
    }

    /// Ends the recording, if it is the one of that number; what it came to, or the last one of that number did.
    pub(crate) fn stop(&mut self, number: Option<u64>) -> Option<Recorded> {
        if number.is_some_and(|number| number != self.number) {
            return None;
        }
        if let Some(running) = &self.running {
            running.sink.end();
        }
        self.join();
        self.last.clone()
    }

    /// Takes in a recording that has ended on its own.
    fn reap(&mut self) {
        if self
            .running
            .as_ref()
            .is_some_and(|running| running.thread.is_finished())
        {
            self.join();
        }
    }

    /// Waits for the end.
    fn join(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        let lost = || Recorded {
            path: running.path.clone(),
            accesses: running.sink.accesses.load(Ordering::Relaxed),
            lost: running.sink.lost.load(Ordering::Relaxed),
            bytes: running.sink.bytes.load(Ordering::Relaxed),
            took: running.began.elapsed(),
            ended: Ended::Failed("the thread that writes the trace has panicked".into()),
        };
        let recorded = running.thread.join().unwrap_or_else(|_| lost());
        events::recorded(&recorded);
        self.last = Some(recorded);
    }
}
