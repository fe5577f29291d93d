//! `mount`: a store as a directory, for any program.

use crate::access::Access;
use crate::daemon::{self, LogFile, PidFile, leave_terminal, nowhere};
use crate::failure::{Failure, shown};
use crate::place::Place;
use crate::stopping::Stopping;
use crate::syslog::Syslog;
use millpond::internal::Surface;
use millpond::internal::quantity::parse_size;
use millpond::settings::{self, Value};
use millpond::units::Bytes;
use millpond_fuse::{MountError, Unmounted};
use millpond_store_mount::{Access as For, Error, How, StoreMount};
use millpond_volumes::StoreOptions;
use millpond_volumes::layout::OpenError;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How soon it is said again that the last commit is refused.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// How often it is looked whether the store of a reader answers.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// No FUSE, or not allowed to mount: as of `millpond mount`.
const EXIT_UNAVAILABLE: u8 = 3;

const MEMORY: Bytes = Bytes(512 << 20);

const HELP: &str = "\
Examples:
  millpond store mount s3://bucket/prefix /mnt/pond                        for one writer, until Ctrl-C
  millpond store mount s3://bucket/prefix /mnt/pond --read-only            follows its writer until Ctrl-C
  millpond store mount s3://bucket/prefix /mnt/pond --read-only --daemon   in the background
  millpond store mount s3://bucket/prefix /mnt/pond --read-only --snapshot monday
  millpond umount /mnt/pond

One process mounts a store for writing, any number with --read-only. A store that was not there is made. fsync(2) is a commit
of all that was changed before; what no fsync has returned for is committed within --expire. `millpond umount` commits the rest.
With --read-only a file stays as of the commit at which it was opened; opened again, it is as of the newest one that is
known, which --poll looks for. The attributes user.millpond.commit and user.millpond.age_ms of MNT say which commit is read,
and how long ago it was known to be the newest. docs/VOLUMES.md has the rest.
Exit codes: 0 ended and all is in the store, 1 failed or not all is, 2 bad command line, 3 no FUSE or not allowed to mount,
4 another writer has the store.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct MountArgs {
    /// A store.
    #[arg(value_name = "STORE")]
    store: String,
    /// Where to mount it: an empty directory.
    #[arg(value_name = "MNT", value_hint = clap::ValueHint::DirPath)]
    point: PathBuf,
    /// Allow no changes, and follow the writer.
    #[arg(long)]
    read_only: bool,
    /// Mount this snapshot, which stays as it is.
    #[arg(long, value_name = "NAME", requires = "read_only")]
    snapshot: Option<String>,
    /// How often to look for a newer commit, which is a request each time.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = time, requires = "read_only")]
    poll: Duration,
    /// Take the store from a writer that has not closed it: its mount can change nothing from then on.
    #[arg(long, conflicts_with = "read_only")]
    take_over: bool,
    /// How old a change may get before it is committed: if this process is killed, older changes are there.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = time, conflicts_with = "read_only")]
    expire: Duration,
    /// The cache's budget: a size; a share such as 10% of what the process may have; or auto:256M..4G for what the host
    /// has between these. The map of the store comes on top.
    #[arg(long, default_value = "512M", value_name = "SIZE", value_parser = memory)]
    memory: Value,
    /// Keep fetched pages in a file of this size on a local disk, for later mounts too: /var/tmp/pond:100G. Its tables are
    /// within --memory, 33 bytes for each page of the store that fits.
    #[arg(long, value_name = "PATH:SIZE", value_parser = disk)]
    disk: Option<(PathBuf, NonZeroU64)>,
    /// Serve in the background.
    #[arg(long)]
    daemon: bool,
    /// In the background, append messages to this file. Default: the journal or syslog.
    #[arg(long, value_name = "FILE", requires = "daemon")]
    log: Option<PathBuf>,
    /// Write the serving process's id into this file; it is removed at the end.
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,
    /// Let other users in.
    #[arg(long)]
    allow_other: bool,
    /// Mount over a directory that is not empty, hiding its contents.
    #[arg(long)]
    nonempty: bool,
    /// Threads that answer the kernel, and so the number of reads that can wait for the store at a time.
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=256))]
    threads: u16,
    /// This is the process that serves in the background.
    #[arg(long, hide = true)]
    in_background: bool,
    #[command(flatten)]
    access: Access,
}

fn memory(text: &str) -> Result<Value, String> {
    settings::memory(text, MEMORY).map_err(|why| why.to_string())
}

fn disk(text: &str) -> Result<(PathBuf, NonZeroU64), String> {
    let (path, size) = text
        .rsplit_once(':')
        .filter(|(path, _)| !path.is_empty())
        .ok_or("must be a file and its size, like /var/tmp/pond:100G")?;
    let bytes = NonZeroU64::new(parse_size(size)?.0).ok_or("the file's size must be at least 16M")?;
    Ok((PathBuf::from(path), bytes))
}

/// Read as `millpond set flusher.expire=` reads it.
fn time(text: &str) -> Result<Duration, String> {
    match settings::value("flusher.expire", text) {
        Ok(Value::Time(span)) if span.0 >= 1_000_000 => Ok(Duration::from_nanos(span.0)),
        _ => Err(String::from(
            "must be a time of at least 1ms with its unit, like 500ms or 5s",
        )),
    }
}

fn failure(url: &str, point: &Path, error: Error) -> Failure {
    match error {
        Error::Store(millpond_volumes::Error::DiskTier(why)) => Failure::bad_usage(format!("--disk: {why}")),
        Error::Store(millpond_volumes::Error::Open(error @ OpenError::Held { .. })) => {
            let held = Failure::of(url, &error.into());
            let is_named = |message: String| {
                message.replace(
                    &format!("`millpond store take-over {url}`"),
                    &format!(
                        "`millpond store mount --take-over {url} {}`",
                        shown(&point.display().to_string())
                    ),
                )
            };
            held.said_as(is_named)
        }
        Error::Store(error) => Failure::of(url, &error),
        Error::Cache(
            error @ (millpond::Error::BudgetTooSmall { .. }
            | millpond::Error::MemoryLimit { .. }
            | millpond::Error::MemoryOfMachine { .. }
            | millpond::Error::MemoryForTables { .. }
            | millpond::Error::Option(_)),
        ) => Failure::bad_usage(format!("--memory: {}", error.told(Surface::CommandLine))),
        Error::Mount(error @ MountError::Directory { .. }) => Failure::bad_usage(error.to_string()),
        Error::Mount(error @ MountError::Unavailable { .. }) => {
            Failure::with_code(EXIT_UNAVAILABLE, error.to_string())
        }
        error => Failure::failed(format!("{url}: {error}")),
    }
}

pub(crate) fn mount(args: &MountArgs) -> Result<(), Failure> {
    let url = Place::store(&args.store)?;
    if args.daemon && !args.in_background {
        return start_in_background(args);
    }
    args.pid_file.as_deref().map(PidFile::check).transpose()?;
    let (log, syslog) = match (&args.log, args.in_background) {
        (_, false) => (None, None),
        (Some(log), true) => (Some(LogFile::at(log)?.open()?), None),
        (None, true) => match Syslog::open()? {
            Some((log, syslog)) => (Some(log), Some(syslog)),
            None => {
                say!(
                    "millpond: there is no system log here (/dev/log), so a later failure is reported nowhere: give --log FILE"
                );
                (Some(nowhere()?), None)
            }
        },
    };
    if args.in_background {
        // A hangup of the terminal must not end it. This fails if we already lead a session.
        let _ = rustix::process::setsid();
    }
    let mut ended = serve(args, &url, log);
    if let Some(syslog) = syslog {
        if let Err(failure) = &mut ended
            && let Some(message) = failure.message.take()
        {
            say!("millpond: error: {message}");
        }
        // Nothing is said from here on; what was said before is handed on.
        leave_terminal(&nowhere()?)?;
        syslog.end();
    }
    ended
}

fn serve(args: &MountArgs, url: &str, log: Option<File>) -> Result<(), Failure> {
    let named = shown(url);
    let say = move |why: &str| say!("millpond: error: {named}: {}", shown(why));
    let mounted = args
        .how(url)
        .mount(say)
        .map_err(|error| failure(url, &args.point, error))?;
    for notice in mounted.notices() {
        say!("millpond: {notice}");
    }
    let pid_file = args.pid_file.as_deref().map(PidFile::write).transpose()?;
    let stopping = Stopping::catch()?;
    let point = mounted.point().display().to_string();
    let about = about(args, url, &mounted);
    match log {
        Some(log) => {
            // Everything with a name is open: the starting directory can be released.
            let _ = std::env::set_current_dir("/");
            say!("millpond: {about}");
            daemon::serves(mounted.point().as_os_str().as_bytes())?;
            leave_terminal(&log)?;
            say!("millpond: {about}");
        }
        None => {
            io::stdout().write_all(&[mounted.point().as_os_str().as_bytes(), b"\n"].concat())?;
            say!("millpond: {about}; Ctrl-C or `millpond umount` ends it");
        }
    }
    let by_signal = wait(&mounted, &stopping, url).map_err(|error| failure(url, &args.point, error))?;
    let mut said: Option<Instant> = None;
    let tries_again = |why: &str| {
        if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            said = Some(Instant::now());
            say!(
                "millpond: error: {}: {}. It is kept in memory and tried again every second; `millpond umount --force` or {} (`kill {}`) \
                 ends the process, and it is lost",
                shown(url),
                shown(why),
                if by_signal { "a second signal" } else { "a signal" },
                std::process::id()
            );
        }
        by_signal || stopping.check().is_ok()
    };
    let ended = mounted.wait(tries_again);
    drop(pid_file);
    ended.map_err(|error| failure(url, &args.point, error))?;
    match args.read_only {
        true => say!("millpond: {} has ended", shown(&point)),
        false => say!(
            "millpond: {} has ended, everything is in the store",
            shown(&point)
        ),
    }
    Ok(())
}

/// Until it is unmounted, by whatever means; whether a signal has done it.
fn wait(mounted: &StoreMount, stopping: &Stopping, url: &str) -> Result<bool, Error> {
    let (mut is_unmounted, mut is_said, mut is_out) = (false, false, false);
    let mut looked = Instant::now();
    while !mounted.is_ended() {
        thread::sleep(Duration::from_millis(100));
        if let Some(why) = mounted.tier().and_then(|tier| tier.given_up).filter(|_| !is_said) {
            is_said = true;
            say!("millpond: warning: {}", shown(&why));
        }
        if looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            match mounted.outage() {
                Some(why) if !is_out => {
                    is_out = true;
                    say!("millpond: error: {}: {}", shown(url), shown(&why));
                }
                None if is_out => {
                    is_out = false;
                    say!("millpond: {} answers again", shown(url));
                }
                _ => {}
            }
        }
        if !is_unmounted && !mounted.is_ended() && stopping.check().is_err() {
            is_unmounted = true;
            if mounted.unmount()? == Unmounted::Detached {
                say!(
                    "millpond: {} is in use: it is detached, and ends when its last user has closed it; a second signal ends it at \
                     once",
                    shown(&mounted.point().display().to_string())
                );
            }
        }
    }
    Ok(is_unmounted)
}

/// What is served, by which process, where, and how.
fn about(args: &MountArgs, url: &str, mounted: &StoreMount) -> String {
    let commit = mounted.commit();
    let as_of = match (&args.snapshot, args.read_only) {
        (Some(name), _) => format!("as of the snapshot {}", shown(name)),
        (None, true) => format!(
            "as of commit {commit}, and of those that follow, looked for every {:?}",
            args.poll
        ),
        (None, false) => format!("from commit {commit} on, with a commit every {:?}", args.expire),
    };
    format!(
        "process {} serves {} at {} {as_of}, with memory={}",
        std::process::id(),
        shown(url),
        shown(&mounted.point().display().to_string()),
        args.memory
    )
}

/// Starts this program once more, and waits until it serves or has failed.
fn start_in_background(args: &MountArgs) -> Result<(), Failure> {
    args.log.as_deref().map(LogFile::at).transpose()?;
    let (mut child, said) = daemon::start("--in-background")?;
    let Some(point) = said else {
        let status = child.wait()?;
        if let Some(signal) = status.signal() {
            return Err(Failure::failed(format!(
                "process {} was ended by signal {signal} while it started, and nothing is mounted",
                child.id()
            )));
        }
        // It has reported why.
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return Err(Failure::said(code.filter(|&code| code > 0).unwrap_or(1)));
    };
    io::stdout().write_all(&[&point, &b"\n"[..]].concat())?;
    say!(
        "millpond: process {} serves {} in the background; `millpond umount` ends it",
        child.id(),
        shown(&OsStr::from_bytes(&point).to_string_lossy())
    );
    Ok(())
}

impl MountArgs {
    fn how(&self, url: &str) -> How {
        let options: StoreOptions = self.access.options().poll(self.poll);
        let options = match &self.disk {
            Some((path, bytes)) => options.disk_tier(path, *bytes),
            None => options,
        };
        let (memory, memory_auto) = match self.memory {
            Value::Size(bytes) => (bytes.0, None),
            Value::Auto(range) => (range.max.0, Some(range)),
            _ => (MEMORY.0, None),
        };
        How {
            url: url.to_owned(),
            access: match (&self.snapshot, self.read_only) {
                (Some(name), _) => For::Snapshot(name.clone()),
                (None, true) => For::Live,
                (None, false) => For::Write(self.expire),
            },
            options: options.take_over(self.take_over),
            poll: self.poll,
            point: self.point.clone(),
            memory,
            memory_auto,
            allow_other: self.allow_other,
            nonempty: self.nonempty,
            threads: self.threads.into(),
        }
    }
}
