//! Recording what a cache is asked for: every call with its file, pages, time and thread, into a file (`docs/TRACES.md`).
//!
//! For questions that a running program can't answer: how much memory its load needs (`millpond replay` tries all sizes on
//! one trace), and whether an engine asked for what it should have, such as a sync before a commit.
//! [`PageCache::record`](crate::PageCache::record) begins, [`Trace::read`] reads.
//!
//! ```
//! use millpond::trace::{Trace, What};
//! use millpond::{OpenOptions, PageCache};
//! # let folder = tempfile::tempdir()?;
//! # let (path, trace) = (folder.path().join("data"), folder.path().join("trace"));
//! let cache = PageCache::builder().build()?;
//! let file = cache.open(&path, OpenOptions::new().create(true))?;
//! let recording = cache.record(&trace)?;
//! file.write_at(&[1; 4096], 0)?;
//! file.sync_data()?;
//! recording.stop()?;
//! let calls: Vec<What> = Trace::read(&trace)?.accesses.iter().map(|access| access.what).collect();
//! assert!(matches!(calls[..], [What::Write { .. }, What::Sync]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it is recorded
//!
//! ```text
//!   File::read_at, page, write_at, … ──► shards.rs ──► write.rs ──► TRACE ──► read.rs ──► millpond replay
//!                                        buffers       a thread     format.rs
//! ```
//!
//! It is calls that are recorded, hits and misses alike, not what the state machine is told: only so can another size of
//! memory be tried on them. What it costs while nobody records: nothing, since calls look at one byte for this and for
//! whether the cache is usable. While somebody does: two looks at the clock and a lock of the thread's own a call.
//! What can't be kept is counted and never waited for.

mod format;
mod read;
mod shards;
mod what;
mod write;

pub use read::{Trace, TraceError, TracedFile};
pub(crate) use shards::{Note, Shards};
pub use what::What;

use crate::PageCache;
use crate::api::cache::{Handle, Inner};
use crate::api::file::File;
use crate::engine::driver::Shared;
use crate::error::{Error, Result};
use crate::files::FileInner;
use crate::observe::events;
use crate::sys::threads;
use format::{Kind, MAGIC, Opened};
use millpond_core::units::{FileId, Nanos, PageKey};
use serde_json::json;
use shards::Sink;
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use write::Writer;

/// How large a trace becomes at most where nobody says otherwise: about ten million accesses.
pub const TRACE_BYTES_MAX: u64 = 64 << 20;

/// The least that it may: a beginning, an end, and something between them.
pub const TRACE_BYTES_MIN: u64 = 64 << 10;

/// No page of a file has this number.
const PAGES_MAX: u64 = PageKey::PAGES_MAX;

impl What {
    fn code(self) -> u8 {
        match self {
            What::Read => 0,
            What::Write {
                keeps_first,
                keeps_last,
            } => 1 + u8::from(keeps_first) + 2 * u8::from(keeps_last),
            What::Prefetch => 5,
            What::Sync => 6,
            What::Cut => 7,
            What::Close => 8,
            What::Region => 9,
        }
    }

    fn from_code(code: u8) -> Option<What> {
        Some(match code {
            0 => What::Read,
            1..=4 => What::Write {
                keeps_first: (code - 1) & 1 != 0,
                keeps_last: (code - 1) & 2 != 0,
            },
            5 => What::Prefetch,
            6 => What::Sync,
            7 => What::Cut,
            8 => What::Close,
            9 => What::Region,
            _ => return None,
        })
    }

    /// Whether pages were read or written.
    pub fn is_use(self) -> bool {
        matches!(self, What::Read | What::Write { .. } | What::Region)
    }
}

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// When it began.
    pub at: Nanos,
    /// How long it took.
    pub took: Nanos,
    /// Whose it was: a number for each thread.
    pub thread: u32,
    /// The file.
    pub file: u32,
    /// The first page.
    pub page: u64,
    /// How many; 0 where it is about the file.
    pub pages: u32,
    /// What.
    pub what: What,
}

/// Why a recording has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// Somebody has asked for it, or the cache has ended.
    Asked,
    /// The trace is as large as it may be.
    Size,
    /// It could not be written any more: the disk is full. What was written before is whole.
    Failed(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Asked => f.write_str("asked"),
            Ended::Size => f.write_str("size"),
            Ended::Failed(why) => f.write_str(why),
        }
    }
}

/// What a recording came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// The trace.
    pub path: PathBuf,
    /// Accesses in it.
    pub accesses: u64,
    /// Accesses that are not in it because the disk, or the thread that writes, was too slow.
    pub lost: u64,
    /// Its length.
    pub bytes: u64,
    /// For how long.
    pub took: Duration,
    /// Why it has ended.
    pub ended: Ended,
}

/// A recording that is under way. Ends with this, or earlier by itself.
#[must_use = "dropping it ends the recording"]
pub struct Recording {
    cache: Arc<Handle>,
    number: u64,
}

impl Recording {
    /// Ends it: the trace is whole when this returns.
    ///
    /// # Errors
    /// [`Error::Trace`] if not all of it could be written. What was written can be read. [`Error::Poisoned`],
    /// [`Error::Forked`].
    pub fn stop(self) -> Result<Recorded> {
        self.cache.shared.poison.check()?;
        let recorded = self.cache.record_stop(Some(self.number));
        let recorded = recorded.ok_or_else(|| Error::Trace {
            path: PathBuf::new(),
            source: io::Error::other("another recording has begun since"),
        })?;
        match &recorded.ended {
            Ended::Failed(why) => Err(Error::Trace {
                path: recorded.path.clone(),
                source: io::Error::other(why.clone()),
            }),
            _ => Ok(recorded),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.cache.shared.poison.is_of_another() {
            self.cache.record_stop(Some(self.number));
        }
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({})", self.number)
    }
}

impl PageCache {
    /// Records every call from now on into a new file at `path`, until the [`Recording`] is stopped or dropped, or the file
    /// has [`TRACE_BYTES_MAX`] bytes. `millpond replay` says what other sizes of memory and other policies would have
    /// made of them. The trace names the files that are open.
    ///
    /// A call costs about 0.2 us more meanwhile, a call that is not recorded nothing; memory is 5 MiB at most, beside the budget.
    ///
    /// # Errors
    /// [`Error::Trace`]: there is something at `path` already, it can't be made, or a recording is under way.
    pub fn record(&self, path: impl AsRef<Path>) -> Result<Recording> {
        let number = self.handle.record_start(path.as_ref(), TRACE_BYTES_MAX)?;
        Ok(Recording {
            cache: self.handle.clone(),
            number,
        })
    }
}

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

/// How a recording goes.
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

impl Inner {
    /// Begins a recording: its number.
    ///
    /// # Errors
    /// [`Error::Trace`].
    pub(crate) fn record_start(&self, path: &Path, bytes_max: u64) -> Result<u64> {
        let mut recordings = self.recordings.lock();
        let failed = |source| Error::Trace {
            path: path.to_owned(),
            source,
        };
        recordings.reap();
        if let Some(running) = &recordings.running {
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
        // It has the paths of all files that are used: for nobody else, whatever the umask is.
        let mut file = OpenOptions::new();
        file.write(true).create_new(true).mode(0o600);
        let file = file.open(path);
        let sink = Arc::new(Sink::default());
        let mut writer = Writer {
            shared: self.shared.clone(),
            sink: sink.clone(),
            path: path.to_owned(),
            file: file.map_err(|source| failed(write::with_a_way_out(source)))?,
            bytes: 0,
            bytes_max,
            before: self.shared.stats(),
            began: Instant::now(),
        };
        let began_ns = self.shared.clock.now().0;
        // A beginning alone is no trace, and in the way of the next try.
        let failed = |source| {
            let _ = std::fs::remove_file(path);
            failed(source)
        };
        writer.append(&self.beginning(began_ns)).map_err(failed)?;
        self.shared.calls.open(&sink);
        self.shared.poison.set_recorded(true);
        // Those that are opened from here on say so themselves; some may do so twice.
        self.files_open(|file| sink.opened(describe(file, began_ns, self.shared.page_size.bytes())));
        let thread = threads::spawn("millpond-trace", || writer.run());
        let thread = thread
            .inspect_err(|_| {
                self.shared.poison.set_recorded(false);
                self.shared.calls.flush(true);
            })
            .map_err(failed)?;
        events::recording(path);
        recordings.number += 1;
        recordings.running = Some(Running {
            path: path.to_owned(),
            sink,
            thread,
            began: Instant::now(),
        });
        Ok(recordings.number)
    }

    /// The first bytes of a trace.
    fn beginning(&self, began_ns: u64) -> Vec<u8> {
        let program = std::env::current_exe().ok();
        let program = program.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let stats = self.shared.stats();
        let options: serde_json::Map<_, _> = self
            .settings_now()
            .into_iter()
            .filter_map(|(setting, value)| Some((setting.name.to_owned(), value?.into())))
            .collect();
        let about = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "program": program,
            "began_unix_s": unix.unwrap_or_default().as_secs(),
            "began_ns": began_ns,
            "page_bytes": self.shared.page_size.bytes(),
            "memory_bytes": self.budget.lock().memory.0,
            "frames": stats.occupancy.frames.0,
            "resident": stats.occupancy.frames.0 - stats.occupancy.free.0,
            "options": options,
        });
        let mut out = MAGIC.to_vec();
        format::block(&mut out, Kind::About, |out| {
            out.extend_from_slice(about.to_string().as_bytes());
        });
        out
    }

    /// How the recording goes, or how the last one has ended; `None` if there was none.
    #[cfg(feature = "control")]
    pub(crate) fn record_progress(&self) -> Option<Progress> {
        let mut recordings = self.recordings.lock();
        recordings.reap();
        match &recordings.running {
            Some(running) => Some(Progress {
                path: running.path.clone(),
                accesses: running.sink.accesses.load(Ordering::Relaxed),
                lost: running.sink.lost.load(Ordering::Relaxed),
                bytes: running.sink.bytes.load(Ordering::Relaxed),
                took: running.began.elapsed(),
                ended: None,
            }),
            None => recordings.last.as_ref().map(Progress::from),
        }
    }

    /// Ends the recording, if it is the one of that number; what it came to, or the last one of that number did.
    pub(crate) fn record_stop(&self, number: Option<u64>) -> Option<Recorded> {
        let mut recordings = self.recordings.lock();
        if number.is_some_and(|number| number != recordings.number) {
            return None;
        }
        if let Some(running) = &recordings.running {
            running.sink.end();
        }
        recordings.join();
        recordings.last.clone()
    }
}

impl Recordings {
    /// Takes in what has ended by itself.
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

fn describe(file: &FileInner, at: u64, page_bytes: u64) -> Opened {
    let identity = file.device().identity();
    Opened {
        at,
        number: file.id.0,
        identity: (identity.device, identity.inode),
        pages: file.len().div_ceil(page_bytes).min(PAGES_MAX),
        path: file.path.as_os_str().as_bytes().to_vec(),
    }
}

impl Shared {
    /// A file was opened.
    pub(crate) fn note_opened(&self, file: &FileInner) {
        if !self.poison.is_usual()
            && let Some(sink) = self.calls.sink()
        {
            let now = self.clock.now().0;
            sink.opened(describe(file, now, self.page_size.bytes()));
        }
    }

    /// Notes a call about a file or region when what this returns is dropped, if calls are recorded.
    pub(crate) fn note(&self, file: FileId, pages: (u64, u64), what: What) -> Option<Note<'_>> {
        (!self.poison.is_usual()).then(|| self.calls.begin(self.clock, file, pages, what))
    }
}

impl File {
    /// As [`Shared::note`], for a call about bytes; none if that are no bytes.
    #[cold]
    pub(crate) fn note_bytes(&self, offset: u64, len: usize, writes: bool) -> Option<Note<'_>> {
        let shared = &self.cache.shared;
        let (size, length) = (shared.page_size.bytes(), self.len());
        let end = offset.saturating_add(len as u64);
        let end = if writes { end } else { end.min(length) };
        if offset >= end {
            return None;
        }
        let (first, last) = (offset / size, (end - 1) / size);
        if last >= PAGES_MAX {
            return None;
        }
        // What of a page was there before, and is not overwritten.
        let keeps = |page: u64| {
            let old = (page * size)..((page + 1) * size).min(length);
            old.start < old.end && (offset > old.start || end < old.end)
        };
        let what = match writes {
            false => What::Read,
            true => What::Write {
                keeps_first: keeps(first),
                keeps_last: last > first && keeps(last),
            },
        };
        shared.note(self.inner.id, (first, last - first + 1), what)
    }
}
