//! `millpond umount`: everything written, the mount taken away, and what became of the data.
//!
//! That everything is on the disk is said only after the exit report of the process that served says so.

use crate::failure::Failure;
use millpond_fuse::{ExitReport, Mount, MountError, MountServer, ServerProcess};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// After this it is printed what is waited for.
const NOTICE_AFTER: Duration = Duration::from_secs(5);

/// What is in use for longer is reported as such.
const BUSY_RETRY_MAX: Duration = Duration::from_millis(200);
const BUSY_RETRY_EVERY: Duration = Duration::from_millis(10);

/// As many links as the kernel follows.
const LINKS_MAX: u32 = 40;

const UMOUNT_HELP: &str = "\
Examples:
  millpond umount /mnt/pond
  millpond umount /mnt/pond --lazy     although it is in use: it has no name any more, and ends when its users are done

It writes everything first; if that fails it stays mounted, unless --force says that what can't be written may be lost.
What a mount whose process was killed has left is cleared away.
Exit codes: 0 unmounted and all is on the disk (with --lazy: all that was written until then), 1 failed, or not all of it
could be written, or its process was gone; 2 bad command line.";

#[derive(clap::Args)]
#[command(after_help = UMOUNT_HELP)]
pub(crate) struct UmountArgs {
    /// Where it is mounted.
    #[arg(value_name = "MNT", add = crate::control::complete::mounts())]
    point: PathBuf,
    /// Also if it is in use.
    #[arg(long)]
    lazy: bool,
    /// Also if some of it can't be written.
    #[arg(long)]
    force: bool,
}

pub(crate) fn umount(args: &UmountArgs) -> Result<ExitCode, Failure> {
    let point = mount_point(&args.point)?;
    let shown = point.display();
    let asks = format!(
        "the mount at {shown} has not answered yet: its source, or the disk, lets its process wait; still waiting"
    );
    let server = match with_notice(&asks, || ServerProcess::find(&point))? {
        MountServer::Running(server) => server,
        MountServer::Gone => {
            Mount::unmount_at(&point, true)?;
            return Err(Failure::failed(format!(
                "{shown} is unmounted; the process that served it was gone: what was synced is on the disk, what was not is \
                 lost"
            )));
        }
    };
    let writes = format!("what was written at {shown} is on its way to the disk; still waiting");
    let unwritten = sync(&server, &point, args.force, &writes)?;
    unmount(&point, args.lazy).map_err(|error| match is_busy(&error) {
        true => Failure::failed(format!(
            "{shown} is in use: end the programs that have files open there (`fuser -vm {shown}` lists them), or say --lazy"
        )),
        false => error.into(),
    })?;
    if args.lazy {
        return report_detached(&point, unwritten);
    }
    let elsewhere = server.elsewhere()?;
    if elsewhere.is_empty() {
        report_ended(&point, with_notice(&writes, || server.wait())?)
    } else {
        report_elsewhere(&point, &elsewhere, unwritten)
    }
}

/// Has everything written. What could not be, if that may be lost.
fn sync(server: &ServerProcess, point: &Path, force: bool, writes: &str) -> Result<Option<String>, Failure> {
    match with_notice(writes, || server.sync()) {
        Ok(true) => Ok(None),
        Ok(false) => Ok(Some(
            "some of what was stored through maps was lost before, and the mount has said which".into(),
        )),
        Err(error) => {
            let message = format!("not everything at {} can be written: {error}", point.display());
            if !force {
                return Err(Failure::failed(format!(
                    "{message}; it stays mounted: mend the disk, or say --force to lose what can't be written"
                )));
            }
            say!("millpond umount: {message}");
            Ok(Some(error.to_string()))
        }
    }
}

/// It has no name any more, and goes on for the programs that use it.
fn report_detached(point: &Path, unwritten: Option<String>) -> Result<ExitCode, Failure> {
    let message = format!(
        "{} has no name any more and ends when no program uses it",
        point.display()
    );
    match unwritten {
        None => {
            say!("millpond umount: what was written so far is on the disk; {message}");
            Ok(ExitCode::SUCCESS)
        }
        Some(error) => Err(Failure::failed(format!(
            "{message}; not everything is on the disk: {error}"
        ))),
    }
}

/// It is mounted elsewhere as well, and goes on.
fn report_elsewhere(
    point: &Path,
    others: &[PathBuf],
    unwritten: Option<String>,
) -> Result<ExitCode, Failure> {
    let others: Vec<_> = others.iter().map(|other| other.display().to_string()).collect();
    let message = format!(
        "{} is unmounted, and the same mount is still at {}",
        point.display(),
        others.join(", ")
    );
    match unwritten {
        None => {
            say!("millpond umount: {message}; what was written so far is on the disk");
            Ok(ExitCode::SUCCESS)
        }
        Some(error) => Err(Failure::failed(format!(
            "{message}; not everything is on the disk: {error}"
        ))),
    }
}

/// The mount point, as the kernel calls it. No call goes to what is mounted there: its process may not answer.
fn mount_point(given: &Path) -> io::Result<PathBuf> {
    let mut point = std::path::absolute(given)?;
    for _ in 0..LINKS_MAX {
        // One that ends with `..` has no name; one within what does not answer is taken as it is.
        point = match (point.parent().map(Path::canonicalize), point.file_name()) {
            (Some(Ok(folder)), Some(name)) => folder.join(name),
            _ => return Ok(point.canonicalize().unwrap_or(point)),
        };
        match (point.read_link(), point.parent()) {
            (Ok(target), Some(folder)) => point = folder.join(target),
            _ => break,
        }
    }
    Ok(point)
}

/// Unmounts. One that is only just in use, as by another umount, is tried again for a moment.
fn unmount(point: &Path, lazily: bool) -> Result<(), MountError> {
    let began = Instant::now();
    loop {
        match Mount::unmount_at(point, lazily) {
            Err(error) if is_busy(&error) && began.elapsed() < BUSY_RETRY_MAX => {
                thread::sleep(BUSY_RETRY_EVERY)
            }
            other => return other,
        }
    }
}

fn is_busy(error: &MountError) -> bool {
    let busy = Some(Errno::BUSY.raw_os_error());
    matches!(error, MountError::System { source, .. } if source.raw_os_error() == busy)
}

/// Calls `does`, and prints `notice` if that takes long.
fn with_notice<T>(notice: &str, does: impl FnOnce() -> T) -> T {
    let (done, waits) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if waits.recv_timeout(NOTICE_AFTER) == Err(RecvTimeoutError::Timeout) {
                say!("millpond umount: {notice}");
            }
        });
        let result = does();
        drop(done);
        result
    })
}

/// The process has ended.
fn report_ended(point: &Path, report: ExitReport) -> Result<ExitCode, Failure> {
    let shown = point.display();
    let message = match report {
        ExitReport::Saved => {
            say!("millpond umount: {shown} is unmounted, everything is on the disk");
            return Ok(ExitCode::SUCCESS);
        }
        ExitReport::Lost(lost) => format!(
            "{shown} is unmounted, and not all of it is on the disk, what could not be written is lost: {}",
            lost.join("; ")
        ),
        ExitReport::Missing => format!(
            "{shown} is unmounted, and the process that served it has ended without a report, killed perhaps: what was synced \
             is on the disk, of what was written since some may be lost"
        ),
        ExitReport::Unreadable(why) => format!(
            "{shown} is unmounted; what was written before is on the disk, and of the rest its process says whether it is, \
             to its terminal or its --log: it can't be watched from here ({why})"
        ),
    };
    Err(Failure::failed(message))
}
