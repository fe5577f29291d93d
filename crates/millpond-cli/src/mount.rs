//! `millpond mount`: a directory through the cache, for any program.

use crate::address::local_address;
use crate::control::shown_path;
use crate::daemon::{self, LogFile, PidFile, leave_terminal, nowhere};
use crate::ending::Ending;
use crate::failure::Failure;
use crate::log;
use crate::replace::{breakdown, unless_taken, wait_for_starter};
use crate::serving::{serve, tell_systemd};
use crate::signals::{self, MountSignals};
use crate::syslog::Syslog;
use millpond::internal::quantity::size;
use millpond::settings::{self, Value};
use millpond::{Error, PageCache};
use millpond_core::units::Bytes;
use millpond_fuse::{Mount, MountError, Options, Successor, TakeOverStep};
use sd_notify::NotifyState;
use signal_hook::consts::SIGKILL;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

const HELP: &str = "\
Examples:
  millpond mount ./data /mnt/pond --memory 512M            serves until Ctrl-C, with a status line
  millpond mount ./data /mnt/pond --daemon --log pond.log  in the background
  millpond mount ./data /mnt/pond --allow-other            as root, for all users, each with their own permissions
  millpond stat 1                                          what its cache does, meanwhile
  millpond mount ./data /mnt/pond --replace --daemon       a newer program takes over: open files stay open
  millpond umount /mnt/pond                                writes everything, reports whether all is on the disk, ends

Programs see the files of SRC at MNT. While it is mounted, change the files through MNT only: changes made in SRC are
seen once no program has the file open. docs/MOUNT.md has the rest.
Exit codes: 0 ended and all is on the disk, 1 failed or something could not be written, 2 bad command line, 3 no FUSE or
not allowed to mount.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct MountArgs {
    /// The directory with the files.
    #[arg(value_name = "SRC", value_hint = clap::ValueHint::DirPath)]
    source: PathBuf,
    /// Where to mount them: an empty directory.
    #[arg(value_name = "MNT", value_hint = clap::ValueHint::DirPath)]
    point: PathBuf,
    /// The cache's budget: a size; a share such as 10% of what the process may have; or auto:256M..4G for what the host
    /// has between these. `millpond set memory=` changes it later.
    #[arg(long, default_value = "512M", value_name = "SIZE", value_parser = memory)]
    memory: Value,
    /// How much of the budget may be lent to the kernel: what is read lies in the kernel's own cache as well, where it costs no
    /// message. auto: up to a half, as much as is used again and the cache does not need; or SIZE at most; none: nothing.
    #[arg(long, default_value = "auto", value_name = "auto|SIZE|none", value_parser = lend, conflicts_with = "no_cache")]
    lend: u64,
    /// Serve in the background.
    #[arg(long)]
    daemon: bool,
    /// In the background, print nothing unless it fails: messages go to the log.
    #[arg(long, requires = "daemon")]
    quiet: bool,
    /// Write the serving process's id into this file; it is removed at the end.
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,
    /// In the background, append messages to this file. Default: the system's log (journal or
    /// syslog, by /dev/log).
    #[arg(long, value_name = "FILE", requires = "daemon")]
    log: Option<PathBuf>,
    /// How much goes to standard error, or to the log: error, warn, info, debug or trace; off for nothing. Default: what
    /// MILLPOND_LOG says, else warn.
    #[arg(long, value_name = "LEVEL", value_parser = log::level)]
    log_level: Option<LevelFilter>,
    /// Let other users in, each with their own permissions.
    #[arg(long)]
    allow_other: bool,
    /// Take over what is mounted at MNT from the process that serves it: open files stay open, and what programs ask meanwhile
    /// waits. Give the options that it was mounted with; --memory, --expire, --threads, --attribute-timeout, --metrics and those
    /// of the log may be others. If it fails, the other process goes on.
    #[arg(long, conflicts_with = "nonempty")]
    replace: bool,
    /// For tests: where a process that takes over breaks down.
    #[arg(long, hide = true, requires = "replace", value_parser = breakdown)]
    breakdown: Option<(TakeOverStep, bool)>,
    /// Mount over a directory that is not empty, hiding its contents.
    #[arg(long)]
    nonempty: bool,
    /// Allow no changes.
    #[arg(long)]
    read_only: bool,
    /// Allow no program to run from it.
    #[arg(long)]
    no_exec: bool,
    /// Ignore set-user-ID and set-group-ID bits; without root always so.
    #[arg(long)]
    no_suid: bool,
    /// Ignore device files; without root always so.
    #[arg(long)]
    no_dev: bool,
    /// How long the kernel may keep names and attributes without asking.
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    attribute_timeout: Duration,
    /// How old a change may get before it is written to SRC. If this process is killed, older changes are there. Later:
    /// `millpond set flusher.expire=`.
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = expire)]
    expire: Duration,
    /// Threads that answer the kernel. Default: two for each processor, 8 at least.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=256))]
    threads: Option<u16>,
    /// No control socket: `millpond stat`, `set` and `inspect` will not find its cache.
    #[arg(long)]
    no_control: bool,
    /// Serve figures for Prometheus at http://ADDRESS:PORT/metrics. A port alone is on 127.0.0.1; there is no password.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = local_address, conflicts_with = "no_cache")]
    metrics: Option<SocketAddr>,
    /// To measure what FUSE itself costs: go to the files through the kernel's page cache, without Millpond's.
    #[arg(long)]
    no_cache: bool,
    /// This is the process that serves in the background.
    #[arg(long, hide = true)]
    in_background: bool,
}

/// Less is not worth a notification.
const LEND_MIN: u64 = 256 << 10;

impl From<MountError> for Failure {
    fn from(error: MountError) -> Failure {
        let code = match &error {
            MountError::Directory { .. } => 2,
            MountError::Cache(
                Error::BudgetTooSmall { .. }
                | Error::MemoryLimit { .. }
                | Error::MemoryOfMachine { .. }
                | Error::MemoryForTables { .. }
                | Error::Option(_),
            ) => 2,
            MountError::Unavailable { .. } => 3,
            _ => 1,
        };
        Failure {
            code,
            message: Some(error.to_string()),
        }
    }
}

/// As for `millpond set memory=`; `auto` alone is up to the default.
fn memory(text: &str) -> Result<Value, String> {
    let value = settings::memory(text, Bytes(512 << 20)).map_err(|why| why.to_string())?;
    match value {
        // Too few for any cache: a number this small without a unit means mebibytes.
        Value::Size(bytes) if bytes.0 <= 65_536 && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(format!(
                "a number without a unit is bytes, and {text} of them are too few: did you mean {text}M?"
            ))
        }
        value => Ok(value),
    }
}

/// The most, in bytes; 0 for `none`.
fn lend(text: &str) -> Result<u64, String> {
    match text {
        "auto" => return Ok(u64::MAX),
        "none" => return Ok(0),
        _ => {}
    }
    match settings::memory(text, Bytes(0)).map_err(|why| why.to_string())? {
        Value::Size(bytes) if bytes.0 >= LEND_MIN => Ok(bytes.0),
        _ => Err(format!(
            "give auto, none, or a size of {} or more",
            size(Bytes(LEND_MIN))
        )),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|s| (0.0..=86_400.0).contains(s));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give seconds, 0 to 86400".into())
}

/// As for `millpond set flusher.expire=`.
fn expire(text: &str) -> Result<Duration, String> {
    match settings::value("flusher.expire", text).map_err(|why| why.to_string())? {
        Value::Time(span) => Ok(Duration::from_nanos(span.0)),
        other => Err(format!("{other} is not a time")),
    }
}

pub(crate) fn mount(args: &MountArgs) -> Result<ExitCode, Failure> {
    if args.daemon && !args.in_background {
        return start_in_background(args);
    }
    args.pid_file.as_deref().map(PidFile::check).transpose()?;
    let log_file = args.log.as_deref().filter(|_| args.in_background);
    let log_file = log_file.map(LogFile::at).transpose()?;
    let (log, syslog) = match (&log_file, args.in_background) {
        (_, false) => (None, None),
        (Some(log), true) => (Some(log.open()?), None),
        (None, true) => match Syslog::open()? {
            Some((log, syslog)) => (Some(log), Some(syslog)),
            None if args.quiet => (Some(nowhere()?), None),
            None => {
                say!(
                    "millpond mount: there is no system log here (/dev/log), so a later failure to write is \
                     reported nowhere: give --log FILE"
                );
                (Some(nowhere()?), None)
            }
        },
    };
    let mut code = mount_with(args, log, log_file.as_ref());
    if args.in_background
        && let Err(failure) = &mut code
        && let Some(message) = failure.message.take()
    {
        say!("{}millpond mount: error: {message}", log::stamp());
    }
    if let Some(syslog) = syslog {
        // Nothing is reported from here on; earlier messages are handed on.
        leave_terminal(&nowhere()?)?;
        syslog.end();
    }
    code
}

fn mount_with(args: &MountArgs, log: Option<File>, log_file: Option<&LogFile>) -> Result<ExitCode, Failure> {
    let starter = rustix::process::getppid();
    if args.in_background {
        // A hangup of the terminal must not end it. This fails if we already lead a session.
        let _ = rustix::process::setsid();
    }
    let _log = log::start(args.log_level)?;
    let options = args.options();
    let signals = MountSignals::catch(args.in_background, options.events.clone())?;
    signals::outlive_long_files()?;
    // The kernel may end the process for it before the next message.
    let memory_notice = millpond_fuse::memory_notice(&options);
    if let Some(notice) = memory_notice.as_ref().filter(|_| !args.quiet) {
        say!("millpond mount: {notice}");
    }
    let mut mount = match args.replace {
        true => Mount::take_over(&options)?,
        false => Mount::new(&options)?,
    };
    let about = about(args, &mount);
    let say_start = || {
        for notice in mount.notices() {
            say!("{}millpond mount: {notice}", log::stamp());
        }
        if let Some(address) = mount.cache().and_then(PageCache::metrics_address) {
            say!(
                "{}millpond mount: metrics are at http://{address}/metrics",
                log::stamp()
            );
        }
    };
    if !args.quiet {
        say_start();
    }
    let mut pid_file = None;
    if let Some(path) = &args.pid_file {
        unless_taken(
            args.replace,
            PidFile::write(path).map(|file| pid_file = Some(file)),
        )?;
    }
    let point = mount.point().as_os_str().as_bytes();
    match log {
        Some(log) => {
            // Everything with a name is open: the starting directory can be released.
            let _ = std::env::set_current_dir("/");
            if !args.quiet {
                say!("millpond mount: {about}");
            }
            unless_taken(args.replace, daemon::serves(point))?;
            unless_taken(args.replace, leave_terminal(&log))?;
            if log_file.is_some() {
                log::to_file();
            }
            // Printed at every log level.
            say!("{}millpond mount: {about}", log::stamp());
            if let Some(notice) = &memory_notice {
                say!("{}millpond mount: {notice}", log::stamp());
            }
            say_start();
        }
        None => {
            let said = io::stdout().write_all(&[point, b"\n"].concat());
            unless_taken(args.replace, said)?;
            say!("millpond mount: {about}; Ctrl-C or `millpond umount` ends it");
        }
    }
    if args.replace && args.in_background {
        wait_for_starter(starter);
    }
    let process = NotifyState::MainPid(std::process::id());
    tell_systemd(&[process, NotifyState::Ready, NotifyState::Status(&about)]);
    mount.let_predecessor_end();
    let mut ending = Ending::new(
        &mount,
        &signals,
        &options.events,
        pid_file.as_ref().map(PidFile::path),
    );
    if let Some(successor) = serve(
        &mut mount,
        (&signals, &options.events),
        &mut ending,
        log_file,
        &about,
    )? {
        // It has written its number there.
        std::mem::forget(pid_file);
        let Successor {
            process,
            version,
            pause,
        } = successor;
        say!(
            "{}millpond mount: version {version}, process {process}, has taken over {} in a pause of {} ms",
            log::stamp(),
            shown_path(mount.point()),
            pause.as_millis()
        );
        return Ok(ExitCode::SUCCESS);
    }
    let point = shown_path(mount.point());
    let (ended, served) = mount.wait(|refused| ending.tries_again(refused));
    drop(pid_file);
    for lost in &ended.lost {
        say!("{}millpond mount: error: not on the disk: {lost}", log::stamp());
    }
    served?;
    if !ended.lost.is_empty() {
        return Err(Failure::failed(format!(
            "{point} has ended, and not everything is on the disk"
        )));
    }
    say!(
        "{}millpond mount: {point} has ended, everything is on the disk",
        log::stamp()
    );
    Ok(ExitCode::SUCCESS)
}

/// What is served, by which process, where, and how.
fn about(args: &MountArgs, mount: &Mount) -> String {
    let mut about = format!(
        "version {}, process {}, serves {} at {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        shown_path(mount.source()),
        shown_path(mount.point())
    );
    match mount.cache() {
        Some(cache) => {
            about += &format!(" with memory={}", args.memory);
            if let Some((goal, source)) = cache.inspect_goal().zip(cache.goal_source()) {
                let ms = goal.goal.0 as f64 / 1e6;
                about += &format!("; the goal for reads is {ms:.1} ms: {source}");
            }
        }
        None => about += " without a cache",
    }
    about
}

/// Starts this program once more, and waits until it serves or has failed.
fn start_in_background(args: &MountArgs) -> Result<ExitCode, Failure> {
    if let Some(log) = &args.log {
        LogFile::at(log)?;
    }
    let (mut child, said) = daemon::start("--in-background")?;
    let Some(point) = said else {
        let status = child.wait()?;
        if let Some(signal) = status.signal() {
            return Err(Failure::failed(killed(child.id(), signal, args)));
        }
        // It has reported why.
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return Ok(ExitCode::from(code.filter(|&code| code > 0).unwrap_or(1)));
    };
    if !args.quiet {
        io::stdout().write_all(&[&point, &b"\n"[..]].concat())?;
        say!(
            "millpond mount: process {} serves {} in the background; `millpond umount` ends it",
            child.id(),
            shown_path(Path::new(OsStr::from_bytes(&point)))
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The process for the background was killed before it served. Unless it is quiet, it has reported before what it
/// needs.
fn killed(process: u32, signal: i32, args: &MountArgs) -> String {
    let notice = millpond_fuse::memory_notice(&args.options()).filter(|_| args.quiet);
    let why = match (signal, notice) {
        (SIGKILL, Some(notice)) => format!("perhaps for lack of memory: {notice}"),
        (SIGKILL, None) => "perhaps for lack of memory (`dmesg`): give a smaller --memory".into(),
        (signal, _) => format!("by signal {signal}"),
    };
    format!("process {process} was killed while it started, and nothing is mounted: {why}")
}

impl MountArgs {
    fn options(&self) -> Options {
        let mut options = Options::new(&self.source, &self.point);
        match self.memory {
            Value::Size(bytes) => options.memory = bytes.0,
            Value::Auto(range) => options.memory_auto = Some(range),
            _ => {}
        }
        options.cached = !self.no_cache;
        options.lend = self.lend;
        options.allow_other = self.allow_other;
        options.read_only = self.read_only;
        options.nonempty = self.nonempty;
        options.exec = !self.no_exec;
        options.suid = !self.no_suid;
        options.dev = !self.no_dev;
        options.attribute_timeout = self.attribute_timeout;
        options.expire = self.expire;
        options.threads = self.threads.map_or(options.threads, usize::from);
        options.control = !self.no_control;
        options.metrics = self.metrics;
        options.breakdown = self.breakdown;
        options
    }
}
