//! A mount's life: made, served, taken away, everything written.

use crate::error::{MountError, Result, system};
use crate::exit_report::LastWord;
use crate::host;
use crate::options::Options;
use crate::requests::filesystem::Server;
use crate::source::{self, Source};
use crate::state::{PAGE_BYTES, Pond};
use fuser::{Config, MountOption, Session, SessionACL};
use millpond::PageCache;
use parking_lot::{Condvar, Mutex};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::ffi::CString;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often what nobody has open is looked after.
const TIDY_EVERY: Duration = Duration::from_secs(5);

/// More files than these are looked at once a minute, not each time: each costs a call of the system.
const MANY: usize = 10_000;

/// A directory that is mounted. Dropping it unmounts it, or detaches it if it is in use, and writes everything.
pub struct Mount {
    point: PathBuf,
    source: PathBuf,
    pond: Arc<Pond>,
    session: Option<JoinHandle<io::Result<()>>>,
    tidying: Option<JoinHandle<()>>,
    stop: Arc<(Mutex<bool>, Condvar)>,
    notices: Vec<String>,
    /// Whose it is: forked children of it let it be.
    process: u32,
}

/// What became of [`Mount::unmount`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmounted {
    /// It is gone.
    Gone,
    /// Somebody still uses it. It has no name any more, and ends when they are done.
    Detached,
}

/// How a mount has ended.
#[derive(Debug)]
pub struct Ended {
    /// What could not be saved, in sentences; all is on the disk if there is none.
    pub lost: Vec<String>,
}

impl Mount {
    /// Mounts. This changes the process: it may have more files open, and its umask is 0.
    ///
    /// # Errors
    /// [`MountError::Place`] if one of the directories can't be used, [`MountError::Unavailable`] without FUSE,
    /// [`MountError::Cache`] if there is no memory for the cache.
    pub fn new(options: &Options) -> Result<Mount> {
        let mut source = Source::open(options)?;
        let (point, cleared) = host::check_mount_point(options, &source.path)?;
        source.take(options)?;
        let descriptors = host::raise_descriptors();
        let root = source::root(&source)?;
        rustix::process::umask(Mode::empty());
        // The kernel must not wait for this process when it wants memory for it. Root may ask for that; for others it is
        // as for any program.
        let _ = rustix::process::configure_io_flusher_behavior(true);
        let cache = match options.cached {
            true => {
                let mut builder = PageCache::builder().memory(options.memory).page_size(PAGE_BYTES);
                if let Some(range) = options.memory_auto {
                    builder = builder.memory_auto(range.min.0, range.max.0);
                }
                if let Some(address) = options.metrics {
                    builder = builder.metrics(address);
                }
                // So that several mounts can be told apart.
                let builder = builder.name(point.display().to_string());
                Some(builder.control(options.control).build()?)
            }
            false => None,
        };
        let last_word = LastWord::new().map_err(system("can't make a pipe"))?;
        let lock = source.directory.clone();
        let pond = Arc::new(Pond::new((root, lock), cache, options, (descriptors, last_word)));
        let session = connect(options, &source.path, &point, Server(pond.clone()));
        let session = session.map_err(|e| host::unavailable(&point, e))?;
        source.look_again(options).inspect_err(|_| {
            // What was found is the error to tell.
            let _ = host::unmount(&point, true);
        })?;
        // It is set once, here.
        let _ = pond.notifier.set(session.notifier());
        let lacks = std::mem::take(&mut *pond.lacks.lock());
        let mut mount = Mount {
            notices: cleared.into_iter().chain(source.notice).chain(lacks).collect(),
            point,
            source: source.path,
            pond,
            session: None,
            tidying: None,
            stop: Arc::default(),
            process: std::process::id(),
        };
        let serve = thread::Builder::new().name("millpond-mount".into());
        mount.session = Some(
            serve
                .spawn(move || session.run())
                .map_err(system("can't make a thread"))?,
        );
        let (pond, stop) = (mount.pond.clone(), mount.stop.clone());
        let tidy = thread::Builder::new().name("millpond-tidy".into());
        let tidy = tidy.spawn(move || tidy_until(&pond, &stop));
        mount.tidying = Some(tidy.map_err(system("can't make a thread"))?);
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
        self.pond.cache.as_ref()
    }

    /// How many files the kernel knows.
    pub fn files(&self) -> usize {
        self.pond.nodes.count()
    }

    /// Whether somebody has unmounted it, and nobody uses it any more.
    pub fn is_ended(&self) -> bool {
        self.session.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Takes it out of the tree of files. It goes on serving whoever uses it.
    ///
    /// # Errors
    /// As umount(2) and `fusermount3 -u`.
    pub fn unmount(&self) -> Result<Unmounted> {
        let failed = system("can't unmount");
        match host::unmount(&self.point, false) {
            Ok(()) => Ok(Unmounted::Gone),
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                host::unmount(&self.point, true).map_err(failed)?;
                Ok(Unmounted::Detached)
            }
            // Not mounted any more.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(Unmounted::Gone),
            Err(error) => Err(failed(error)),
        }
    }

    /// Takes it away wherever it is mounted with this program, without a [`Mount`]: for `millpond umount`.
    ///
    /// # Errors
    /// [`MountError::Place`] if no mount of ours is there, [`MountError::System`] with `EBUSY` if it is in use.
    pub fn unmount_at(point: &Path, lazily: bool) -> Result<()> {
        if !host::is_ours(point)? {
            return Err(MountError::Place {
                path: point.to_owned(),
                role: "unmounted",
                why: "no millpond mount is there".into(),
            });
        }
        host::unmount(point, lazily).map_err(system("can't unmount"))
    }

    /// Waits until it is unmounted and nobody uses it any more, and makes everything durable.
    ///
    /// # Errors
    /// If the connection to the kernel broke; what is said of the data is in [`Ended`] all the same.
    pub fn wait(mut self) -> (Ended, Result<()>) {
        let served = self.join();
        let ended = self.end();
        self.say_last(&ended, &served);
        (ended, served)
    }

    /// Nothing is left to do: whoever has unmounted it is told how it went.
    fn say_last(&self, ended: &Ended, served: &Result<()>) {
        let mut lost = ended.lost.clone();
        lost.extend(served.as_ref().err().map(ToString::to_string));
        self.pond.last_word.say(&lost);
    }

    fn join(&mut self) -> Result<()> {
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        let ended = session
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("its thread panicked")));
        match ended {
            // What the kernel says as well, instead of ENODEV, to a thread that was asking when the last user left.
            Err(e) if e.raw_os_error() == Some(Errno::CONNABORTED.raw_os_error()) => Ok(()),
            other => other.map_err(system("the mount has ended")),
        }
    }

    fn end(&mut self) -> Ended {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(tidying) = self.tidying.take() {
            // It has panicked if this fails, and has said so.
            let _ = tidying.join();
        }
        Ended {
            lost: self.pond.end(),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // A forked child: it is its parent's mount, and has its parent's threads.
            return std::mem::forget((self.session.take(), self.tidying.take(), self.pond.clone()));
        }
        if self.session.is_some() {
            // Nobody is left to be told.
            let _ = self.unmount();
            let served = self.join();
            let ended = self.end();
            self.say_last(&ended, &served);
            for lost in ended.lost {
                let _ = writeln!(io::stderr(), "millpond: {lost}");
            }
        }
    }
}

fn tidy_until(pond: &Arc<Pond>, stop: &(Mutex<bool>, Condvar)) {
    let mut stopped = stop.0.lock();
    let mut rounds = 0_u64;
    while !*stopped {
        if stop.1.wait_for(&mut stopped, TIDY_EVERY).timed_out() {
            drop(stopped);
            pond.tidy();
            rounds += 1;
            if pond.nodes.count() < MANY || rounds.is_multiple_of(12) {
                pond.forget_removed();
            }
            stopped = stop.0.lock();
        }
    }
}

/// Mounts, and answers the kernel's first question.
fn connect(options: &Options, source: &Path, point: &Path, server: Server) -> io::Result<Session<Server>> {
    let config = config(options, source);
    if !rustix::process::geteuid().is_root() {
        return Session::new(server, point, &config);
    }
    // By ourselves, so that it is known as a mount of this program.
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions",
        device.as_raw_fd()
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data)?;
    let mut flags = MountFlags::NOATIME;
    for (is_wanted, flag) in [
        (options.read_only, MountFlags::RDONLY),
        (!options.exec, MountFlags::NOEXEC),
        (!options.suid, MountFlags::NOSUID),
        (!options.dev, MountFlags::NODEV),
    ] {
        flags.set(flag, is_wanted);
    }
    rustix::mount::mount(source, point, host::TYPE, flags, Some(data.as_c_str()))?;
    let acl = config.acl;
    Session::from_fd(server, device, acl, config).inspect_err(|_| {
        // The error that brought us here is the one to tell.
        let _ = host::unmount(point, true);
    })
}

fn config(options: &Options, source: &Path) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source.display().to_string()),
        MountOption::Subtype(host::SUBTYPE.into()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        // Reading through a cache leaves no trace below.
        MountOption::NoAtime,
        if options.read_only {
            MountOption::RO
        } else {
            MountOption::RW
        },
    ];
    if !options.exec {
        config.mount_options.push(MountOption::NoExec);
    }
    config.acl = match options.allow_other {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    config.n_threads = Some(options.threads.max(2));
    config.clone_fd = true;
    config
}
