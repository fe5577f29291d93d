//! `millpond umount`: writes everything, unmounts, and reports what became of the data.
//!
//! It reports that everything is on the disk only if the exit report of the serving process says so.

use crate::control::shown_path;
use crate::failure::Failure;
use crate::silence;
use millpond_fuse::{Elsewhere, ExitReport, Mount, MountError, MountKind, MountServer, ServerProcess};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A process that has not answered, read or written anything for this long hangs or is stopped.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// A process with data to write that has written nothing for this long makes no progress: longer than disks take for
/// one request.
const WRITES_WITHIN: Duration = Duration::from_secs(30);

/// The exit code of the process that waits for the sync, if data stored through a mapping was lost before.
const EXIT_STORES_LOST: u8 = 10;

/// The exit code of the process that waits for the sync, if another writer has taken the store over.
const EXIT_TAKEN_OVER: u8 = 12;

/// A process that was told to give up has ended by then: as long as one commit of a store may take (docs/VOLUMES.md,
/// `sync_timeout`), and half as much again.
const GIVES_UP_WITHIN: Duration = Duration::from_secs(90);

/// The exit code of the process that asks, if the mount's process is gone.
const EXIT_GONE: u8 = 11;

/// After this, a message says what is being waited for.
const NOTICE_AFTER: Duration = Duration::from_secs(5);

/// How often to ask the process for its progress in writing.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// A mount that is in use for longer is reported as busy.
const BUSY_RETRY_MAX: Duration = Duration::from_millis(200);
const BUSY_RETRY_EVERY: Duration = Duration::from_millis(10);

/// The number of links that the kernel follows.
const LINKS_MAX: u32 = 40;

const UMOUNT_HELP: &str = "\
Examples:
  millpond umount /mnt/pond
  millpond umount /mnt/pond --lazy     even if it is in use: detaches it; it ends when its last user is done

It writes everything first, of a store into the store; if that fails it stays mounted, unless --force allows it to lose
what can't be written. A mount whose process was killed is removed. One whose process does not answer stays mounted, and the
process is named; --force removes the mount. If it was unmounted before, and its process still writes into a store,
it waits for that process; --force ends it.
Exit codes: 0 unmounted and all is on the disk or in the store (with --lazy, or if it is still mounted elsewhere: all that
was written until then), 1 failed, or not everything could be written, or its process was gone; 2 bad command line.";

#[derive(clap::Args)]
#[command(after_help = UMOUNT_HELP)]
pub(crate) struct UmountArgs {
    /// Where it is mounted.
    #[arg(value_name = "MNT", add = crate::control::complete::mounts())]
    point: PathBuf,
    /// Unmount even if it is in use.
    #[arg(long)]
    lazy: bool,
    /// Unmount even if data can't be written, or the process does not answer.
    #[arg(long)]
    force: bool,
    /// Do only this part, in a process of its own.
    #[arg(long, hide = true)]
    only: Option<Only>,
}

/// The task of a process of its own.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Only {
    /// Asks the mount for its process.
    Ask,
    /// Has everything written.
    Sync,
}

pub(crate) fn umount(args: &UmountArgs) -> Result<ExitCode, Failure> {
    match args.only {
        Some(Only::Ask) => return only_ask(&args.point),
        Some(Only::Sync) => return only_sync(&args.point),
        None => {}
    }
    let given = args.point.clone();
    // The last component of a path within a mount that does not answer is taken as it is.
    let point = silence::answer_of(&[], ANSWERS_WITHIN, move || mount_point(&given));
    let point = point.unwrap_or_else(|| std::path::absolute(&args.point))?;
    let processes = millpond_fuse::processes_serving(&point);
    let shown = shown_path(&point);
    let kind = millpond_fuse::kind(&point);
    if !millpond_fuse::is_mounted(&point)
        && let Some((process, kind)) = crate::control::serves_without_name(&point)
    {
        if kind == MountKind::Store && !still_serves(process) {
            return wait_for_last_commit(&point, process, args.force);
        }
        return Err(Failure::failed(format!(
            "there is no longer a millpond mount at {shown}; process {process}, which served it, still serves open files \
             or writes its remaining data: `millpond stat --cache {process}`"
        )));
    }
    let server = match ask(&point, &processes)? {
        Asked::Still => return unanswered(&point, &processes, args.force, None),
        Asked::Of(MountServer::Running(server)) => server,
        Asked::Of(MountServer::Gone) => {
            Mount::unmount_at(&point, true)?;
            return Err(Failure::failed(format!(
                "{shown} is unmounted; the process that served it was gone: {}",
                kind.after_kill()
            )));
        }
    };
    let writes = match kind {
        MountKind::Directory => {
            format!("what was written at {shown} is on its way to the disk; still waiting")
        }
        MountKind::Store => format!("what was written at {shown} is on its way to the store; still waiting"),
        MountKind::StoreReader => format!("the process that serves {shown} has not ended; still waiting"),
    };
    let unwritten = match sync(&point, &server, &processes, args.force, &writes)? {
        Synced::Still => return unanswered(&point, &processes, args.force, Some(server)),
        Synced::All => None,
        Synced::Not(why) => Some(why),
    };
    unmount(&point, args.lazy).map_err(|error| match is_busy(&error) {
        true => busy(&point),
        false => error.into(),
    })?;
    if args.lazy {
        return report_detached(&point, kind, unwritten);
    }
    let elsewhere = server.elsewhere()?;
    if !elsewhere.is_empty() {
        return report_elsewhere(&point, kind, &elsewhere, unwritten);
    }
    let waits = move || server.wait();
    match with_notice(&writes, || {
        silence::answer_of(&processes, writes_within(&processes), waits)
    }) {
        Some(report) => report_ended(&point, kind, report?),
        None => Err(Failure::failed(format!(
            "{shown} is unmounted, and not everything written there is {}: {}",
            kind.place(),
            silence::describe(&processes)
        ))),
    }
}

/// Whether a process whose mount is gone goes on serving programs that use it. One that does not closes its connection to the
/// kernel soon after the mount is gone.
fn still_serves(process: u32) -> bool {
    let began = Instant::now();
    while millpond_fuse::serves(process as i32) {
        if began.elapsed() >= ANSWERS_WITHIN {
            return true;
        }
        thread::sleep(BUSY_RETRY_EVERY);
    }
    false
}

/// The mount is gone, and its process has a store to write into: waits until it has, or ends it.
fn wait_for_last_commit(point: &Path, process: u32, force: bool) -> Result<ExitCode, Failure> {
    let shown = shown_path(point);
    let server = ServerProcess::without_mount(point, process as i32);
    let Some(pid) = Pid::from_raw(process as i32) else {
        return Err(Failure::failed(format!("{shown} is not mounted")));
    };
    if force {
        // The first signal after its mount is gone tells it to give up.
        kill_process(pid, Signal::TERM).map_err(io::Error::from)?;
    }
    let waits = move || server.wait();
    let notice = format!(
        "{shown} was unmounted before, and process {process} still writes into the store; still waiting (--force ends it)"
    );
    let report = match force {
        false => Some(with_notice(&notice, waits)),
        true => silence::answer_while(|| (), GIVES_UP_WITHIN, waits),
    };
    match report {
        Some(report) => report_ended(point, MountKind::Store, report?),
        None => {
            kill_process(pid, Signal::KILL).map_err(io::Error::from)?;
            Err(Failure::failed(format!(
                "process {process}, which served {shown}, was killed: what it had not committed is lost"
            )))
        }
    }
}

/// The error for a mount in use, with its users.
fn busy(point: &Path) -> Failure {
    let shown = shown_path(point);
    let mounts = millpond::internal::mounts().unwrap_or_default().into_iter();
    let within = mounts.filter(|mount| mount.point != point && mount.point.starts_with(point));
    let within: Vec<_> = within.map(|mount| shown_path(&mount.point)).collect();
    Failure::failed(match &within[..] {
        [] => format!(
            "{shown} is in use: end the programs that have files open there (`fuser -vm {shown}` lists them), or use --lazy"
        ),
        [first, others @ ..] => {
            let others = match others.len() {
                0 => String::new(),
                others => format!(" and {others} more mounts"),
            };
            format!(
                "{shown} is in use: {first}{others} is mounted inside it; unmount that first, or use --lazy"
            )
        }
    })
}

/// The mount's process does not answer, or makes no progress in writing.
fn unanswered(
    point: &Path,
    processes: &[u32],
    force: bool,
    server: Option<ServerProcess>,
) -> Result<ExitCode, Failure> {
    let kind = millpond_fuse::kind(point);
    let (shown, silent) = (shown_path(point), silence::describe(processes));
    if !millpond_fuse::is_mounted(point) {
        return Err(Failure::failed(format!(
            "{shown} does not answer, and is not a millpond mount"
        )));
    }
    if !force {
        return Err(Failure::failed(format!(
            "{shown} stays mounted: {silent}. `millpond umount --force {shown}` removes it nevertheless: programs that use \
             it get errors, and unwritten data stays with the process"
        )));
    }
    if let Some(server) = server.filter(|_| kind == MountKind::Store) {
        // It answers, and its store does not. It gives up when a commit has failed.
        let asked = point.to_owned();
        silence::answer_of(&[], ANSWERS_WITHIN, move || ServerProcess::give_up_at(&asked));
        Mount::abort_at(point)?;
        let waits = move || server.wait();
        if let Some(report) = silence::answer_while(|| (), GIVES_UP_WITHIN, waits) {
            return report_ended(point, kind, report?);
        }
    } else {
        Mount::abort_at(point)?;
    }
    Err(Failure::failed(format!(
        "{shown} is unmounted by force, and not all of it may be {}: {silent}. If it goes on, it writes its remaining data \
         and ends",
        kind.place()
    )))
}

/// How long to wait for processes that should write and don't; without limit where that can't be seen.
fn writes_within(processes: &[u32]) -> Duration {
    match silence::can_be_watched(processes) {
        true => WRITES_WITHIN,
        false => Duration::MAX,
    }
}

/// The mount's answer.
enum Asked {
    Of(MountServer),
    /// Nothing has moved for a while.
    Still,
}

/// Asks the mount for its process.
fn ask(point: &Path, processes: &[u32]) -> Result<Asked, Failure> {
    let child = child(Only::Ask, point).map_err(not_started)?;
    let Some(output) = silence::answer_of(processes, ANSWERS_WITHIN, move || child.wait_with_output()) else {
        return Ok(Asked::Still);
    };
    let output = output?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Asked::Of(match output.status.code() {
        Some(0) => MountServer::Running(ServerProcess::of(point, &said)?),
        Some(code) if code == i32::from(EXIT_GONE) => MountServer::Gone,
        code => {
            let code = code.and_then(|code| u8::try_from(code).ok());
            return Err(Failure {
                code: code.unwrap_or(1),
                message: Some(said),
            });
        }
    }))
}

/// The process that asks: prints the mount's answer on standard output, or why there is none.
fn only_ask(point: &Path) -> Result<ExitCode, Failure> {
    match ServerProcess::ask(point) {
        Ok(Some(answer)) => {
            write!(io::stdout(), "{answer}")?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(None) => Ok(ExitCode::from(EXIT_GONE)),
        Err(error) => {
            let failure = Failure::from(error);
            write!(io::stdout(), "{}", failure.message.unwrap_or_default())?;
            Ok(ExitCode::from(failure.code))
        }
    }
}

/// The result of a sync.
enum Synced {
    All,
    /// The reason.
    Not(String),
    /// Nothing has moved for a while.
    Still,
}

/// No child.
fn not_started(error: io::Error) -> Failure {
    Failure::failed(format!(
        "cannot start a process of its own, which asks the mount: {error}"
    ))
}

/// Starts this program for a part of the work: a call that the mount has begun to answer can't be abandoned, and a
/// process that has made it can't end before.
fn child(part: Only, point: &Path) -> io::Result<Child> {
    let word = match part {
        Only::Ask => "ask",
        Only::Sync => "sync",
    };
    // Not by its path: the user may not search the folders on the way to it.
    Command::new("/proc/self/exe")
        .args(["umount", "--only", word])
        .arg(point)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// The process's progress in writing: its own answers, one after the other, on a thread that may be left running.
struct SyncProgress(Arc<Mutex<Option<String>>>);

impl SyncProgress {
    fn watch(point: &Path) -> SyncProgress {
        let last = Arc::new(Mutex::new(None));
        let (own, point) = (Arc::downgrade(&last), point.to_owned());
        let _ = thread::Builder::new().spawn(move || {
            while let Ok(output) = child(Only::Ask, &point).and_then(Child::wait_with_output) {
                let Some(last) = own.upgrade() else { return };
                let said = String::from_utf8_lossy(&output.stdout);
                if let (Some(progress), Ok(mut last)) = (ServerProcess::progress_in(&said), last.lock()) {
                    *last = Some(progress.to_owned());
                }
                drop(last);
                thread::sleep(ASK_EVERY);
            }
        });
        SyncProgress(last)
    }

    /// The last answer; for a process that gives none, what it has read and written according to the system.
    fn now(&self, processes: &[u32]) -> (Option<String>, Vec<Option<String>>) {
        match self.0.lock().ok().and_then(|last| last.clone()) {
            Some(last) => (Some(last), Vec::new()),
            None => (None, silence::progress(processes)),
        }
    }
}

/// Has everything written. Returns what could not be written, if it may be lost.
fn sync(
    point: &Path,
    server: &ServerProcess,
    processes: &[u32],
    force: bool,
    writes: &str,
) -> Result<Synced, Failure> {
    let child = child(Only::Sync, point).map_err(not_started)?;
    let progress = SyncProgress::watch(point);
    let ended = || {
        silence::answer_while(
            || progress.now(processes),
            writes_within(processes),
            move || child.wait_with_output(),
        )
    };
    let Some(output) = with_notice(writes, ended) else {
        return Ok(Synced::Still);
    };
    let output = output?;
    match output.status.code() {
        Some(0) => Ok(Synced::All),
        Some(code) if code == i32::from(EXIT_STORES_LOST) => Ok(Synced::Not(
            "some data stored through mappings was lost before; the mount has reported which".into(),
        )),
        _ => {
            let mut why = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if let Some(unwritten) = server.unwritten() {
                let unwritten = crate::failure::shown(&unwritten);
                let is_said = unwritten.contains(&why) || millpond_fuse::kind(point) != MountKind::Directory;
                why = match is_said {
                    true => unwritten,
                    false => format!("{unwritten}: {why}"),
                };
            }
            let message = format!("not everything at {} can be written: {why}", shown_path(point));
            if !force && output.status.code() == Some(EXIT_TAKEN_OVER.into()) {
                let shown = shown_path(point);
                return Err(Failure::failed(format!(
                    "{message}. Nothing can be changed there any more: copy what you need from {shown}, then `millpond umount \
                     --force {shown}`"
                )));
            }
            if !force {
                return Err(Failure::failed(format!(
                    "{message}; it stays mounted until that is mended; --force unmounts it and loses what can't be written"
                )));
            }
            say!("millpond umount: {message}");
            server.give_up();
            Ok(Synced::Not(why))
        }
    }
}

/// The process that waits for the sync: prints on standard output why it failed.
fn only_sync(point: &Path) -> Result<ExitCode, Failure> {
    let synced = match ServerProcess::find(point)? {
        MountServer::Running(server) => server.sync(),
        MountServer::Gone => Err(Errno::NOTCONN.into()),
    };
    match synced {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::from(EXIT_STORES_LOST)),
        Err(error) => {
            writeln!(io::stdout(), "{error}")?;
            let is_stale = error.raw_os_error() == Some(Errno::STALE.raw_os_error());
            if is_stale && millpond_fuse::kind(point) == MountKind::Store {
                return Ok(ExitCode::from(EXIT_TAKEN_OVER));
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

/// It is detached, and goes on for the programs that use it.
fn report_detached(point: &Path, kind: MountKind, unwritten: Option<String>) -> Result<ExitCode, Failure> {
    let message = format!(
        "{} is detached and ends when no program uses it",
        shown_path(point)
    );
    match unwritten {
        None => {
            let so_far = written_so_far(kind);
            say!("millpond umount: {so_far}; {message}");
            Ok(ExitCode::SUCCESS)
        }
        Some(error) => Err(Failure::failed(format!(
            "{message}; not everything is {}: {error}",
            kind.place()
        ))),
    }
}

/// What can be said of a mount that goes on, after a sync.
fn written_so_far(kind: MountKind) -> String {
    match kind {
        MountKind::StoreReader => String::from("it was mounted for reading, and has nothing to write"),
        kind => format!("what was written so far is {}", kind.place()),
    }
}

/// It is mounted elsewhere as well, and goes on.
fn report_elsewhere(
    point: &Path,
    kind: MountKind,
    elsewhere: &Elsewhere,
    unwritten: Option<String>,
) -> Result<ExitCode, Failure> {
    let points: Vec<_> = elsewhere.points.iter().map(|other| shown_path(other)).collect();
    let mut others = Vec::new();
    if !points.is_empty() {
        others.push(format!("at {}", points.join(", ")));
    }
    if !elsewhere.processes.is_empty() {
        let processes: Vec<_> = elsewhere.processes.iter().map(u32::to_string).collect();
        others.push(format!(
            "in the mount namespaces of these processes: {}",
            processes.join(", ")
        ));
    }
    let message = format!(
        "{} is unmounted, and the same mount is still {}",
        shown_path(point),
        others.join(", and ")
    );
    match unwritten {
        None => {
            let so_far = written_so_far(kind);
            say!("millpond umount: {message}; {so_far}");
            Ok(ExitCode::SUCCESS)
        }
        Some(error) => Err(Failure::failed(format!(
            "{message}; not everything is {}: {error}",
            kind.place()
        ))),
    }
}

/// The mount point, as the kernel names it. No call goes into the mount: its process may not answer.
fn mount_point(given: &Path) -> io::Result<PathBuf> {
    let mut point = std::path::absolute(given)?;
    for _ in 0..LINKS_MAX {
        // A path that ends with `..` has no name; one within a mount that does not answer is taken as it is.
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

/// Unmounts. A mount that is briefly in use, as by another umount, is retried for a moment.
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
fn report_ended(point: &Path, kind: MountKind, report: ExitReport) -> Result<ExitCode, Failure> {
    let shown = shown_path(point);
    let message = match report {
        ExitReport::Saved => {
            match kind {
                MountKind::StoreReader => {
                    say!("millpond umount: {shown} is unmounted, there was nothing to write")
                }
                kind => say!(
                    "millpond umount: {shown} is unmounted, everything is {}",
                    kind.place()
                ),
            }
            return Ok(ExitCode::SUCCESS);
        }
        ExitReport::Lost(lost) => format!(
            "{shown} is unmounted, and not everything is {}; what could not be written is lost: {}",
            kind.place(),
            lost.join("; ")
        ),
        ExitReport::Missing => format!(
            "{shown} is unmounted, and the process that served it has ended without a report, perhaps killed: {}",
            kind.after_kill()
        ),
        ExitReport::Unreadable(why) => format!(
            "{shown} is unmounted; what was written before is {}; its process reports on the rest, on its terminal or in \
             its --log: it can't be watched from here ({why})",
            kind.place()
        ),
    };
    Err(Failure::failed(message))
}
