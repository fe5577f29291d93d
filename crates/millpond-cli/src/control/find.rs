//! Which caches there are, and which one a command means.

use super::trouble::{is_without_name, mount_of, troubles};
use super::{Cache, Which, ago, count, shown, shown_path, text};
use crate::failure::{Failure, gone};
use crate::silence;
use millpond::control::{Client, sockets};
use millpond::internal::quantity::size;
use millpond_core::units::Bytes;
use millpond_fuse::MountKind;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const HELP: &str = "\
Examples:
  millpond caches
  millpond caches --json

A cache is listed if its program asked for a control socket and runs as the same user. Caches whose program has chosen
another path for the socket are not listed; give it with --cache. For a cache that does not answer, the next line says what
its process does and the way out; mounts whose process is gone come last.
Exit codes: 0, even if there is none.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct CachesArgs {
    /// Print one JSON object a line instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn caches(args: &CachesArgs) -> Result<ExitCode, Failure> {
    let mut stdout = io::stdout().lock();
    let Found { answering, silent } = look();
    if args.json {
        for (socket, mut about) in answering {
            about["socket"] = socket.display().to_string().into();
            writeln!(stdout, "{about}")?;
        }
        for silent in silent {
            writeln!(stdout, "{}", silent.json())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let dead = millpond_fuse::dead_mounts();
    if answering.is_empty() && silent.is_empty() && dead.is_empty() {
        say!("millpond: no cache with a control socket is running as this user");
    }
    write!(stdout, "{}", table(&answering))?;
    for silent in silent {
        writeln!(stdout, "{}", silent.line())?;
    }
    for mount in dead {
        writeln!(stdout, "{:>8}  {}", "-", gone(&mount))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How long a cache may take to answer `about`. An answer takes well below a millisecond; after this the cache hangs,
/// and the others are shown without it.
const ABOUT_WAIT_MAX: Duration = Duration::from_secs(1);
/// The same while none has answered: on a very busy machine all of them may be late.
const FIRST_WAIT_MAX: Duration = Duration::from_secs(4);

/// How long to wait for a connection to a given path.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(3);

/// The caches of this user with a socket.
pub(crate) struct Found {
    /// Their sockets, and their answers to `about`.
    pub(crate) answering: Vec<(PathBuf, Value)>,
    pub(crate) silent: Vec<Silent>,
}

/// A cache whose process does not answer.
pub(crate) struct Silent {
    socket: PathBuf,
    process: u32,
    /// Its mount point, if it serves a mount.
    points: Vec<PathBuf>,
}

impl Silent {
    /// `None` if it has ended.
    fn at(socket: PathBuf) -> Option<Silent> {
        let process = match Client::connect(&socket) {
            Ok(client) => client.process(),
            // Its queue of connections is full: the process id is in the name.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let name = socket.file_name()?.to_str()?;
                name.split_once('-')?.0.parse().ok()
            }
            Err(_) => None,
        }?;
        Some(Silent {
            points: millpond_fuse::served_by(process),
            socket,
            process,
        })
    }

    fn program(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.process));
        shown(name.unwrap_or_default().trim_end())
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.points.iter().map(|point| shown_path(point)).collect();
        names.join(", ")
    }

    fn line(&self) -> String {
        let names = match self.names() {
            names if names.is_empty() => names,
            names => format!("{names}  "),
        };
        format!(
            "{:>8}  {:16} {:>10} {:>9}  {names}{}\n          does not answer: {}",
            self.process,
            self.program(),
            "-",
            "-",
            shown_path(&self.socket),
            silence::state(self.process)
        )
    }

    fn json(&self) -> Value {
        json!({
            "pid": self.process,
            "program": self.program(),
            "name": self.points.first().map(|point| point.display().to_string()),
            "socket": self.socket.display().to_string(),
            "silent": silence::state(self.process),
        })
    }

    /// The reason that it can't be asked.
    fn failure(&self) -> Failure {
        let serves = match self.names() {
            names if names.is_empty() => names,
            names => format!("{names}: "),
        };
        Failure::failed(format!("{serves}{}", silence::describe(&[self.process])))
    }
}

/// All caches that answer, with their answers to `about`. Takes a second if one hangs, and four if all do.
pub(crate) fn running() -> Vec<(PathBuf, Value)> {
    answering(sockets(), ABOUT_WAIT_MAX, FIRST_WAIT_MAX)
}

/// The process that served a mount here, and goes on although nothing is mounted.
pub(crate) fn serves_without_name(point: &Path) -> Option<(u32, MountKind)> {
    let mut running = running().into_iter().map(|(_, about)| about);
    let is_of = |about: &Value| mount_of(about).is_some_and(|(of, _)| of == point);
    let about = running.find(|about| is_of(about) && is_without_name(about))?;
    let (_, kind) = mount_of(&about)?;
    Some((u32::try_from(count(&about, "pid")).ok()?, kind))
}

/// All caches, including those that don't answer.
pub(crate) fn look() -> Found {
    let sockets = sockets();
    let answering = answering(sockets.clone(), ABOUT_WAIT_MAX, FIRST_WAIT_MAX);
    let is_silent = |socket: &PathBuf| answering.iter().all(|(other, _)| other != socket);
    let silent = sockets.into_iter().filter(is_silent).filter_map(Silent::at);
    Found {
        silent: silent.collect(),
        answering,
    }
}

/// The caches of these sockets that answer in time, in this order: the first one within `first`, and all others within
/// `at_most` from the start. All are asked at once.
fn answering(sockets: Vec<PathBuf>, at_most: Duration, first: Duration) -> Vec<(PathBuf, Value)> {
    let began = Instant::now();
    let (told, answers) = mpsc::channel();
    for (n, socket) in sockets.into_iter().enumerate() {
        let told = told.clone();
        // A cache that gets no thread is not asked; one that hangs in connecting is not waited for.
        let _ = std::thread::Builder::new().spawn(move || {
            let about = about(&socket, first);
            // An answer that comes too late is dropped.
            let _ = told.send((n, about.map(|about| (socket, about))));
        });
    }
    drop(told);
    let mut found = Vec::new();
    loop {
        let span = if found.is_empty() { first } else { at_most };
        // A little more than each of them has, so an answer at the last moment counts.
        let span = span + span / 4;
        match answers.recv_timeout(span.saturating_sub(began.elapsed())) {
            Ok((n, answer)) => found.extend(answer.map(|answer| (n, answer))),
            Err(_) => break,
        }
    }
    found.sort_by_key(|(n, _)| *n);
    found.into_iter().map(|(_, answer)| answer).collect()
}

fn about(socket: &Path, at_most: Duration) -> Option<Value> {
    let mut client = Client::connect(socket).ok()?;
    client.wait_at_most(at_most).ok()?;
    serde_json::from_str(&client.ask("about").ok()?).ok()
}

pub(crate) fn table(found: &[(PathBuf, Value)]) -> String {
    let mut lines = String::new();
    if !found.is_empty() {
        lines += &format!(
            "{:>8}  {:16} {:>10} {:>9}  NAME AND SOCKET\n",
            "PID", "PROGRAM", "MEMORY", "AGE"
        );
    }
    for (socket, about) in found {
        let name = about["name"].as_str().map(|name| format!("{}  ", shown(name)));
        lines += &format!(
            "{:>8}  {:16} {:>10} {:>9}  {}{}\n",
            count(about, "pid"),
            shown(text(about, "program")),
            size(Bytes(count(about, "memory_bytes"))),
            ago(about["age_s"].as_f64().unwrap_or(0.0)),
            name.unwrap_or_default(),
            socket.display()
        );
        for trouble in troubles(about) {
            lines += &format!("          {trouble}\n");
        }
    }
    lines
}

impl Which {
    /// Whether a cache was named.
    pub(crate) fn is_given(&self) -> bool {
        self.cache.is_some()
    }

    /// The cache that the command means.
    pub(crate) fn find(&self) -> Result<Cache, Failure> {
        let Found {
            answering: mut found,
            silent,
        } = look();
        let Some(given) = &self.cache else {
            return match found.len() {
                1 => connect(&found.remove(0)),
                0 if !silent.is_empty() => Err(silent[0].failure()),
                0 => Err(no_cache()),
                _ => Err(Failure::bad_usage(format!(
                    "several caches are running: say which one with --cache PID or --cache PATH\n{}",
                    table(&found)
                ))),
            };
        };
        let Ok(pid) = given.parse::<u32>() else {
            return named(given, found, &silent);
        };
        let mut of_pid = found.clone();
        of_pid.retain(|(_, about)| count(about, "pid") == u64::from(pid));
        match of_pid.len() {
            1 => connect(&of_pid.remove(0)),
            0 => Err(match silent.iter().find(|silent| silent.process == pid) {
                Some(silent) => silent.failure(),
                None => Failure::failed(format!(
                    "process {pid} has no cache with a control socket, or is another user's\n{}",
                    table(&found)
                )),
            }),
            _ => Err(Failure::bad_usage(format!(
                "process {pid} has several caches: give the path of one with --cache\n{}",
                table(&of_pid)
            ))),
        }
    }
}

/// Connects to a cache that has answered, and reports what is wrong with it.
fn connect((socket, about): &(PathBuf, Value)) -> Result<Cache, Failure> {
    for trouble in troubles(about) {
        let name = about["name"]
            .as_str()
            .map_or_else(|| socket.display().to_string(), shown);
        say!("millpond: {name}: {trouble}");
    }
    Cache::connect(socket)
}

/// No cache is running.
fn no_cache() -> Failure {
    let dead: Vec<_> = millpond_fuse::dead_mounts().iter().map(gone).collect();
    if !dead.is_empty() {
        return Failure::failed(dead.join("\n"));
    }
    Failure::failed(
        "no cache with a control socket is running as this user: start one (`millpond mount`, `millpond lab run`, a program that \
         builds one with `.control(true)`), or give the path of its socket with --cache",
    )
}

/// The cache of this name, such as a mount's directory, or of this socket. The path of a socket is never a name.
fn named(given: &str, found: Vec<(PathBuf, Value)>, silent: &[Silent]) -> Result<Cache, Failure> {
    use std::os::unix::fs::FileTypeExt;
    let path = PathBuf::from(given);
    // Without asking the file system: a mount that hangs must not hang the command that asks why.
    let whole = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
    let shown_as = whole.display().to_string();
    let is_it = |about: &Value| {
        let name = about["name"].as_str();
        let is_store = |name: &str| {
            name.strip_prefix(given)
                .is_some_and(|rest| rest.starts_with(" at /"))
        };
        let is_there = || mount_of(about).is_some_and(|(point, _)| point == whole);
        name.is_some_and(|name| name == given || name == shown_as || is_store(name)) || is_there()
    };
    let is_silent = |silent: &&Silent| silent.socket == whole || silent.points.contains(&whole);
    if let Some(silent) = silent.iter().find(is_silent) {
        return Err(silent.failure());
    }
    let mut found = found;
    found.retain(|(_, about)| is_it(about));
    if found.len() > 1 {
        return Err(Failure::bad_usage(format!(
            "several caches have that name: say which one with --cache PID or --cache MNT\n{}",
            table(&found)
        )));
    }
    if let [one @ (_, about)] = &found[..] {
        let is_mount = about["name"].as_str().is_some_and(|name| name.starts_with('/'));
        let is_socket = || std::fs::metadata(&path).is_ok_and(|found| found.file_type().is_socket());
        if is_mount || !is_socket() {
            return connect(one);
        }
    } else if millpond_fuse::is_mounted(&whole) {
        if let Some(mount) = millpond_fuse::dead_mounts()
            .into_iter()
            .find(|mount| mount.point == whole)
        {
            return Err(Failure::failed(gone(&mount)));
        }
        let processes = millpond_fuse::processes_serving(&whole);
        let served = match &processes[..] {
            [] => "a process that can't be seen from here".to_owned(),
            [process, ..] => format!("process {process}"),
        };
        return Err(Failure::failed(format!(
            "the mount at {}, served by {served}, has no control socket for this user: it was made with --no-control or \
             --no-cache, or by another user",
            shown_path(&whole)
        )));
    }
    // A call on a path within a hanging mount does not return.
    let connected = silence::answer_of(&[], CONNECT_WAIT_MAX, move || Cache::connect(&path));
    connected.unwrap_or_else(|| {
        Err(Failure::failed(format!(
            "{given} can't be reached: what holds it does not answer"
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A cache that hung kept `top` from seeing keys for a minute.
    #[test]
    fn a_cache_that_does_not_answer_is_left_out_after_a_moment() {
        let folder = tempfile::tempdir().unwrap();
        let (hangs, lives) = (folder.path().join("hangs"), folder.path().join("lives"));
        // The system accepts connections for it, and no thread answers.
        let _hanging = UnixListener::bind(&hangs).unwrap();
        let builder = millpond::PageCache::builder().memory(2 << 20).calibrate(false);
        let _cache = builder.name("a name").control_at(&lives).build().unwrap();
        let began = Instant::now();
        // The live one is found however late it answers; however long one hangs, it delays no other.
        let moment = Duration::from_millis(1);
        let found = answering(
            vec![hangs.clone(), lives.clone()],
            moment,
            Duration::from_secs(40),
        );
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].0, text(&found[0].1, "name")), (&lives, "a name"));
        // With a wait of 60 s it would be more, on any machine.
        assert!(began.elapsed() < Duration::from_secs(30));
        assert!(answering(vec![hangs], moment, moment).is_empty());
    }
}
