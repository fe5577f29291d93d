//! `millpond umount`: everything written, the mount taken away, and what became of the data.
//!
//! That everything is on the disk is said only after the process that served has said so with its last word.

use crate::failure::Failure;
use millpond_fuse::{ExitReport, Mount, MountError, MountServer, ServerProcess};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// After this, whoever waits is told for what.
const SILENT: Duration = Duration::from_secs(5);

/// What is in use for longer is said to be.
const BUSY_MAX: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(10);

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
    let point = place(&args.point)?;
    let asks = format!(
        "the mount at {} has not answered yet: its source, or the disk, lets its process wait; still waiting",
        point.display()
    );
    let serving = match telling(&asks, || ServerProcess::find(&point))? {
        MountServer::Running(serving) => serving,
        MountServer::Gone => {
            Mount::unmount_at(&point, true)?;
            return Err(Failure::failed(format!(
                "{} is unmounted; the process that served it was gone: what was synced is on the disk, what was not is \
                 lost",
                point.display()
            )));
        }
    };
    let mut unwritten: Option<String> = None;
    let writes = format!(
        "what was written at {} is on its way to the disk; still waiting",
        point.display()
    );
    let synced = telling(&writes, || serving.sync());
    if let Err(error) = &synced {
        let message = format!("not everything at {} can be written: {error}", point.display());
        if !args.force {
            return Err(Failure::failed(format!(
                "{message}; it stays mounted: mend the disk, or say --force to lose what can't be written"
            )));
        }
        say!("millpond umount: {message}");
        unwritten = Some(error.to_string());
    }
    if matches!(synced, Ok(false)) {
        unwritten =
            Some("some of what was stored through maps was lost before, and the mount has said which".into());
    }
    unmount(&point, args.lazy).map_err(|error| match is_busy(&error) {
        true => Failure::failed(format!(
            "{} is in use: end the programs that have files open there (`fuser -vm {0}` lists them), or say --lazy",
            point.display()
        )),
        false => error.into(),
    })?;
    let place = point.display();
    match (args.lazy, unwritten) {
        (true, None) => {
            say!(
                "millpond umount: what was written so far is on the disk; {place} has no name any more and ends when \
                 no program uses it"
            );
            Ok(ExitCode::SUCCESS)
        }
        (true, Some(error)) => Err(Failure::failed(format!(
            "{place} has no name any more and ends when no program uses it; not everything is on the disk: {error}"
        ))),
        (false, unwritten) => {
            let elsewhere = serving.elsewhere()?;
            match elsewhere.is_empty() {
                true => say(&point, telling(&writes, || serving.wait())?),
                false => say_elsewhere(&point, &elsewhere, unwritten),
            }
        }
    }
}

/// It is mounted at other places as well, and goes on.
fn say_elsewhere(point: &Path, others: &[PathBuf], unwritten: Option<String>) -> Result<ExitCode, Failure> {
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

/// The mount point, as the kernel calls it. What is mounted there is asked for nothing: its process may not answer.
fn place(given: &Path) -> io::Result<PathBuf> {
    let mut place = std::path::absolute(given)?;
    for _ in 0..LINKS_MAX {
        // One that ends with `..` has no name; one within what does not answer is taken as it is.
        place = match (place.parent().map(Path::canonicalize), place.file_name()) {
            (Some(Ok(folder)), Some(name)) => folder.join(name),
            _ => return Ok(place.canonicalize().unwrap_or(place)),
        };
        match (place.read_link(), place.parent()) {
            (Ok(target), Some(folder)) => place = folder.join(target),
            _ => break,
        }
    }
    Ok(place)
}

/// Unmounts; one that is only just in use, as by another who unmounts it, is tried again for a moment.
fn unmount(point: &Path, lazily: bool) -> Result<(), MountError> {
    let began = Instant::now();
    loop {
        match Mount::unmount_at(point, lazily) {
            Err(error) if is_busy(&error) && began.elapsed() < BUSY_MAX => thread::sleep(LOOK_EVERY),
            other => return other,
        }
    }
}

fn is_busy(error: &MountError) -> bool {
    let busy = Some(Errno::BUSY.raw_os_error());
    matches!(error, MountError::System { source, .. } if source.raw_os_error() == busy)
}

/// Does what may wait for long, and says so if it does.
fn telling<T>(what: &str, does: impl FnOnce() -> T) -> T {
    let (done, waits) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if waits.recv_timeout(SILENT) == Err(RecvTimeoutError::Timeout) {
                say!("millpond umount: {what}");
            }
        });
        let did = does();
        drop(done);
        did
    })
}

/// What the process has said at its end.
fn say(point: &Path, report: ExitReport) -> Result<ExitCode, Failure> {
    let place = point.display();
    let message = match report {
        ExitReport::Saved => {
            say!("millpond umount: {place} is unmounted, everything is on the disk");
            return Ok(ExitCode::SUCCESS);
        }
        ExitReport::Lost(lost) => format!(
            "{place} is unmounted, and not all of it is on the disk, what could not be written is lost: {}",
            lost.join("; ")
        ),
        ExitReport::Missing => format!(
            "{place} is unmounted, and the process that served it has ended without a word, killed perhaps: what was synced \
             is on the disk, of what was written since some may be lost"
        ),
        ExitReport::Unreadable(why) => format!(
            "{place} is unmounted; what was written before is on the disk, and of the rest its process says whether it is, \
             to its terminal or its --log: it can't be watched from here ({why})"
        ),
    };
    Err(Failure::failed(message))
}
