//! What to mount, where, and how.

use crate::events::Events;
use millpond::MemoryRange;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How a directory is mounted. [`Options::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory with the files.
    pub source: PathBuf,
    /// The directory at which programs see them.
    pub mount_point: PathBuf,
    /// The cache's budget in bytes; 512 MiB.
    pub memory: u64,
    /// Instead of `memory`: bounds between which the budget follows the host: see [`millpond::Builder::memory_auto`].
    pub memory_auto: Option<MemoryRange>,
    /// So many bytes of the budget, a half at most, are lent to the kernel's page cache at most. How many of them are follows
    /// what is used again. 0: the kernel caches nothing.
    pub lend: u64,
    /// Whether data go through the cache. Without it they go straight to the files below, through the kernel's page
    /// cache: for comparing.
    pub cached: bool,
    /// Whether other users than the one that mounts may use it.
    pub allow_other: bool,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether programs may be run from it.
    pub exec: bool,
    /// Whether programs run as their owner or group where their files say so; for root's mounts only, as are devices.
    pub suid: bool,
    /// Whether device files are devices.
    pub dev: bool,
    /// Whether the mount point may be a directory that is not empty, whose content is hidden then.
    pub nonempty: bool,
    /// For how long the kernel may cache names and attributes: so late may changes be seen that others make to the
    /// directory below; 1 s.
    pub attribute_timeout: Duration,
    /// How old a change gets before it is written to the file below, whatever the limits say (`flusher.expire`): if this
    /// process is killed, older ones are there; 2 s. So a thousand pages that are rewritten all the time are written every two
    /// seconds, 485 pages a second; with the 30 s of a kernel, which does not die with a program, 38, with 5 s 240, with 1 s
    /// 860. Temporary files that live for a second are never written with 2 s, and are with 1 s.
    pub expire: Duration,
    /// Threads that answer the kernel; at least 2.
    pub threads: usize,
    /// Whether `millpond stat`, `set` and `inspect` may look into the cache.
    pub control: bool,
    /// Where figures for Prometheus are served, if anywhere: see [`millpond::Builder::metrics`].
    pub metrics: Option<SocketAddr>,
    /// Told when the mount ends ([`Mount::is_ended`](crate::Mount::is_ended)), and when another process asks for it
    /// ([`Mount::has_successor`](crate::Mount::has_successor)).
    pub events: Events,
    /// For tests: where a process that takes a mount over breaks down, and whether it hangs then instead of dying.
    pub breakdown: Option<(TakeOverStep, bool)>,
}

/// A step of a process that takes a mount over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakeOverStep {
    /// It has messages of another format.
    Newer,
    /// It has asked for the mount.
    Asked,
    /// It has an answer.
    Answered,
    /// It has what it needs, and has said so.
    Prepared,
    /// It has the first part of what the other process knows.
    Receiving,
    /// It has all of it, and has not said so.
    Received,
    /// It has said that it serves.
    Begun,
}

impl Options {
    /// The defaults.
    pub fn new(source: impl Into<PathBuf>, mount_point: impl Into<PathBuf>) -> Options {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Options {
            source: source.into(),
            mount_point: mount_point.into(),
            memory: 512 << 20,
            memory_auto: None,
            lend: u64::MAX,
            cached: true,
            allow_other: false,
            read_only: false,
            exec: true,
            suid: true,
            dev: true,
            nonempty: false,
            attribute_timeout: Duration::from_secs(1),
            expire: Duration::from_secs(2),
            threads: (2 * processors).clamp(8, 32),
            control: true,
            metrics: None,
            events: Events::default(),
            breakdown: None,
        }
    }

    pub(crate) fn breaks_at(&self, step: TakeOverStep) -> bool {
        self.breakdown.is_some_and(|(at, _)| at == step)
    }

    /// Breaks down if it is to do so here.
    pub(crate) fn break_at(&self, step: TakeOverStep) {
        if !self.breaks_at(step) {
            return;
        }
        if self.breakdown.is_some_and(|(_, hangs)| !hangs) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        loop {
            std::thread::park();
        }
    }
}
