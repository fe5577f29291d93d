//! The life of a mount: created, served, unmounted, everything written.

mod closed_files;
pub(crate) mod connect;
pub(crate) mod hand_over;
mod lender;
pub(crate) mod other;
mod readers;
mod take_over;
pub(crate) mod unsaved;

use crate::channel::Channel;
use crate::error::{MountError, Result, system};
use crate::events::Events;
use crate::exit_report::ReportPipe;
use crate::host::{self, mountinfo};
use crate::inode::lend_pool::{LendPool, LendRoom};
use crate::operations::shut_down::Unwritten;
use crate::options::Options;
use crate::request_memory::{BudgetNow, HeldWrites, RequestMemory};
use crate::requests::FuseServer;
use crate::source::{self, Source};
use crate::state::{MountState, PAGE_BYTES, Parts};
use closed_files::ClosedFilesThread;
use connect::{Connection, connect};
use fuser::Session;
use lender::LenderThread;
use millpond::PageCache;
use millpond::device::Calibration;
use millpond::internal::{give_large_buffers_back, memory_bytes};
use millpond::units::Nanos;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use unsaved::Unsaved;

/// A directory that is mounted. Dropping it unmounts it, or detaches it if it is in use, and writes everything.
pub struct Mount {
    point: PathBuf,
    source: PathBuf,
    state: Arc<MountState>,
    /// What answers the kernel; none once that has ended.
    sessions: Vec<JoinHandle<io::Result<()>>>,
    serving: Weak<Serving>,
    /// A descriptor of the connection to the kernel, for a process that takes over.
    connection: OwnedFd,
    /// How many threads read from it.
    readers: usize,
    allows_other: bool,
    /// Another process serves it.
    is_handed_over: bool,
    /// The process that has served it, and waits until it may end.
    predecessor: Option<Channel>,
    closed_files: Option<ClosedFilesThread>,
    lender: Option<LenderThread>,
    notices: Vec<String>,
    /// The number of its file system, by which it is told from another mount at the same place.
    device: Option<String>,
    /// The process that has made it: forked children leave it alone.
    process: u32,
}

/// What the threads hold that answer the kernel.
struct Serving(Events);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.notify();
    }
}

/// The result of [`Mount::unmount`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmounted {
    /// It is gone.
    Gone,
    /// It is in use. It has no name any more, and ends with its last user.
    Detached,
}

/// How a mount has ended.
#[derive(Debug)]
pub struct Ended {
    /// What could not be saved, in sentences; all is on the disk if there is none.
    pub lost: Vec<String>,
}

impl Mount {
    /// Mounts. This changes the process: it may have more files open, its umask is 0, and its allocator gives large buffers
    /// back to the system as soon as they are freed.
    ///
    /// # Errors
    /// [`MountError::Directory`] if one of the directories can't be used, [`MountError::Unavailable`] without FUSE,
    /// [`MountError::Cache`] if there is no memory for the cache.
    pub fn new(options: &Options) -> Result<Mount> {
        let mut source = Source::open(options)?;
        let (point, cleared) =
            host::check_mount_point(&options.mount_point, options.nonempty, Some(&source.path))?;
        source.lock(options)?;
        let state = Arc::new(new_state(options, &source, &point, None)?);
        let session = mount_and_recheck(options, &source, &point, &state)?;
        // It is set once, here.
        let _ = state.notifier.set(session.notifier());
        let unsupported = std::mem::take(&mut *state.unsupported.lock());
        let connection = session.as_fd().try_clone_to_owned();
        let mut mount = Mount {
            notices: cleared
                .into_iter()
                .chain(source.notice)
                .chain(unsupported)
                .collect(),
            device: mountinfo::mount_at(&point)?.map(|mount| mount.device),
            point,
            source: source.path,
            state,
            sessions: Vec::new(),
            serving: Weak::new(),
            connection: connection.map_err(system("can't open the connection once more"))?,
            readers: options.threads.max(2),
            allows_other: options.allow_other,
            is_handed_over: false,
            predecessor: None,
            closed_files: None,
            lender: None,
            process: std::process::id(),
        };
        let no_thread = system("can't make a thread");
        let serve = thread::Builder::new().name("millpond-mount".into());
        let serving = Arc::new(Serving(options.events.clone()));
        mount.serving = Arc::downgrade(&serving);
        let run = move || {
            let _serving = serving;
            session.run()
        };
        let serve = serve.spawn(run).map_err(&no_thread)?;
        mount.sessions.push(serve);
        mount.lender = LenderThread::start(&mount.state).map_err(&no_thread)?;
        mount.closed_files = Some(ClosedFilesThread::start(mount.state.clone()).map_err(no_thread)?);
        Ok(mount)
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// The directory with the files.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// What had to be cleared away and what the host lacks, in sentences.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The cache, if it has one.
    pub fn cache(&self) -> Option<&PageCache> {
        self.state.cache.as_ref()
    }

    /// How many inodes the kernel knows.
    pub fn files(&self) -> usize {
        self.state.inodes.count()
    }

    /// A handle on what it has not written yet.
    pub fn unsaved(&self) -> Unsaved {
        Unsaved {
            point: self.point.clone(),
            device: self.device.clone(),
            state: self.state.clone(),
        }
    }

    /// Whether it is unmounted and no program uses it any more.
    pub fn is_ended(&self) -> bool {
        self.serving.strong_count() == 0
    }

    /// Unmounts it; lazily if it is in use, so that it goes on serving the programs that have files open.
    ///
    /// # Errors
    /// As umount(2) and `fusermount3 -u`.
    pub fn unmount(&self) -> Result<Unmounted> {
        unmount(&self.point, self.device.as_deref(), || self.is_ended())
    }

    /// Unmounts what any process of this program has mounted there: for `millpond umount`.
    ///
    /// # Errors
    /// [`MountError::Directory`] if no mount of ours is there, [`MountError::System`] with `EBUSY` if it is in use.
    pub fn unmount_at(point: &Path, lazily: bool) -> Result<()> {
        if !mountinfo::is_ours(point)? {
            return Err(no_mount(point));
        }
        host::unmount(point, lazily).map_err(system("can't unmount"))
    }

    /// Takes away what a process of this program has mounted there that does not answer: for `millpond umount --force`. Calls
    /// that wait for it end with an error. The process goes on with what it has when it can, and ends.
    ///
    /// # Errors
    /// [`MountError::Directory`] if no mount of ours is there, [`MountError::System`] if the system refuses it.
    pub fn abort_at(point: &Path) -> Result<()> {
        let mount = mountinfo::mount_at(point)?.filter(|mount| mount.fs_type == host::FS_TYPE);
        let mount = mount.ok_or_else(|| no_mount(point))?;
        host::abort(&mount).map_err(system("can't unmount"))
    }

    /// Waits until it is unmounted and no program uses it any more, and makes everything durable. Of what the disk refuses
    /// `tries_again` is told: it is tried once more when that returns true, and lost if not. It is not asked once
    /// `umount --force` has given that up.
    ///
    /// # Errors
    /// If the connection to the kernel broke; [`Ended`] tells of the data all the same.
    pub fn wait(mut self, mut tries_again: impl FnMut(&Unwritten) -> bool) -> (Ended, Result<()>) {
        let served = self.join();
        if let Some(thread) = self.closed_files.take() {
            thread.stop();
        }
        let unsaved = self.unsaved();
        let refused = || {
            unsaved.try_save()?;
            self.state.discard_unlinked();
            unsaved.try_save()
        };
        while !unsaved.is_given_up() && refused().is_some_and(|unwritten| tries_again(&unwritten)) {}
        let ended = self.shut_down();
        self.report_exit(&ended, &served);
        (ended, served)
    }

    /// Nothing is left to do: leaves the report for the program that has unmounted it.
    fn report_exit(&self, ended: &Ended, served: &Result<()>) {
        let mut lost = ended.lost.clone();
        lost.extend(served.as_ref().err().map(ToString::to_string));
        self.state.report_pipe.report(&lost);
    }

    fn join(&mut self) -> Result<()> {
        join(self.sessions.drain(..))
    }

    fn shut_down(&mut self) -> Ended {
        if let Some(thread) = self.lender.take() {
            thread.stop();
        }
        if let Some(thread) = self.closed_files.take() {
            thread.stop();
        }
        Ended {
            lost: self.state.shut_down(),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.process != std::process::id() || self.is_handed_over {
            // A forked child: it is its parent's mount, and has its parent's threads. Or another process', and threads stand.
            let sessions = std::mem::take(&mut self.sessions);
            let threads = (sessions, self.closed_files.take(), self.lender.take());
            return std::mem::forget((threads, self.state.clone()));
        }
        if !self.sessions.is_empty() {
            // No caller is left for an error.
            let _ = self.unmount();
            let served = self.join();
            let ended = self.shut_down();
            self.report_exit(&ended, &served);
            for lost in ended.lost {
                let _ = writeln!(io::stderr(), "millpond: {lost}");
            }
        }
    }
}

/// Unmounts what is mounted there with this number; lazily if it is in use.
fn unmount(point: &Path, device: Option<&str>, is_ended: impl Fn() -> bool) -> Result<Unmounted> {
    let failed = system("can't unmount");
    if !host::is_at(point, device) {
        // It was unmounted before. What is mounted there now is another's.
        return Ok(match is_ended() {
            true => Unmounted::Gone,
            false => Unmounted::Detached,
        });
    }
    match host::unmount(point, false) {
        Ok(()) => Ok(Unmounted::Gone),
        Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            host::unmount(point, true).map_err(failed)?;
            Ok(Unmounted::Detached)
        }
        // Not mounted any more.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(Unmounted::Gone),
        Err(error) => Err(failed(error)),
    }
}

/// Waits for what answers the kernel.
fn join(sessions: impl Iterator<Item = JoinHandle<io::Result<()>>>) -> Result<()> {
    let panicked = |_| Err(io::Error::other("its thread panicked"));
    let ended: Vec<_> = sessions
        .map(|session| session.join().unwrap_or_else(panicked))
        .collect();
    match ended.into_iter().collect() {
        // The kernel gives this as well, instead of ENODEV, to a thread that was asking when the last user left.
        Err(e) if e.raw_os_error() == Some(Errno::CONNABORTED.raw_os_error()) => Ok(()),
        other => other.map_err(system("the mount has ended")),
    }
}

fn no_mount(point: &Path) -> MountError {
    MountError::Directory {
        path: point.to_owned(),
        role: "unmounted",
        why: "no millpond mount is there".into(),
    }
}

/// What a process that takes a mount over has of the one that has served it.
struct Inherited {
    request_memory: RequestMemory,
    calibration: Option<Calibration>,
    report_pipe: ReportPipe,
}

/// What a mount needs before the kernel knows of it.
fn new_state(
    options: &Options,
    source: &Source,
    point: &Path,
    inherited: Option<Inherited>,
) -> Result<MountState> {
    let descriptors = host::raise_descriptors();
    give_large_buffers_back();
    let root = source::root(source)?;
    rustix::process::umask(Mode::empty());
    // The kernel must not wait for this process when it wants memory for it. Root may ask for that; for others it is as for
    // any program.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let budget = options.memory_auto.map_or(options.memory, |range| range.min.0);
    let request_memory = match &inherited {
        Some(inherited) => inherited.request_memory,
        None => RequestMemory::of(budget, options.threads),
    };
    let build = || build_cache(options, point, inherited.as_ref());
    let cache = options.cached.then(build).transpose()?;
    let lend = options.lend;
    let most = move |budget| lent_most(lend, budget, &request_memory);
    let lend_room = (lend > 0).then(|| Arc::new(LendRoom::new(most)));
    let set_aside = cache.as_ref().map(|cache| {
        let room = lend_room.clone();
        let lent = move |budget| room.as_ref().map_or(0, |room| room.rule(budget));
        cache.set_aside_by(move |budget| request_memory.bytes(budget) + lent(budget))
    });
    let set_aside = set_aside.transpose()?;
    let lend_pool = cache.clone().zip(lend_room);
    let lend_pool = lend_pool.map(|(cache, room)| LendPool::new(cache, room));
    let budget_now: BudgetNow = match cache.clone() {
        Some(cache) => Box::new(move || memory_bytes(&cache)),
        None => Box::new(move || budget),
    };
    let parts = Parts {
        root,
        source: source.directory.clone(),
        held_writes: HeldWrites::new(request_memory, budget_now),
        set_aside,
        point: point.to_owned(),
        cache,
        request_memory,
        lend_pool,
        descriptors,
        budget,
        report_pipe: match inherited {
            Some(inherited) => inherited.report_pipe,
            None => ReportPipe::new().map_err(system("can't make a pipe"))?,
        },
    };
    Ok(MountState::new(parts, options))
}

/// Of a budget, as much may be lent to the kernel: `lend`, a half at most, and what requests and the least cache leave.
fn lent_most(lend: u64, budget: u64, requests: &RequestMemory) -> u64 {
    const CACHE_MIN: u64 = 1 << 20;
    let left = budget.saturating_sub(requests.bytes(budget) + CACHE_MIN);
    lend.min(budget / 2).min(left)
}

/// What is known of a closed file whose pages stay in memory.
const PARKED_FILE_BYTES: u64 = 1024;

/// Of the budget as much may be known of such files, beside it.
const PARKED_SHARE: u64 = 16;

fn build_cache(options: &Options, point: &Path, inherited: Option<&Inherited>) -> Result<PageCache> {
    let mut cache_options = millpond::Options::default();
    cache_options.flusher.expire = Nanos(options.expire.as_nanos().min(u64::MAX.into()) as u64);
    let mut builder = PageCache::builder()
        .memory(options.memory)
        .page_size(PAGE_BYTES)
        .options(cache_options)
        .closed_files((options.memory / PARKED_SHARE / PARKED_FILE_BYTES) as usize)
        .calibrate(true)
        // They are events as well (`millpond::watchdog`), and so in the log in its form.
        .on_warning(|_| {});
    if let Some(range) = options.memory_auto {
        builder = builder.memory_auto(range.min.0, range.max.0);
    }
    if let Some(calibration) = inherited.and_then(|inherited| inherited.calibration) {
        builder = builder.calibration(calibration);
    }
    // The process that serves has the address until it ends.
    if let Some(address) = options.metrics.filter(|_| inherited.is_none()) {
        builder = builder.metrics(address);
    }
    // So that several mounts can be told apart.
    let builder = builder.name(point.display().to_string());
    Ok(builder.control(options.control).build()?)
}

fn mount_and_recheck(
    options: &Options,
    source: &Source,
    point: &Path,
    state: &Arc<MountState>,
) -> Result<Session<FuseServer>> {
    let server = FuseServer { state: state.clone() };
    let connection = Connection {
        source: &source.path,
        allow_other: options.allow_other,
        read_only: options.read_only,
        exec: options.exec,
        suid: options.suid,
        dev: options.dev,
        threads: options.threads,
    };
    let session = connect(&connection, point, server);
    let session = session.map_err(|e| host::unavailable(point, e))?;
    source.recheck(options).inspect_err(|_| {
        // The error to report is what was found.
        let _ = host::unmount(point, true);
    })?;
    Ok(session)
}
