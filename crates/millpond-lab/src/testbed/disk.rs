//! The slow disk under a testbed, served by a process of its own: this program again, as `lab disk`.
//!
//! ```text
//!   the run                                        its disk
//!   one line of JSON into its stdin ───────────►   locks itself in memory, mounts the disk, serves it
//!   waits for ◄──────────────────── {"ready": …}   or {"failed": …}
//!   keeps stdin open                               stdin ends: the run is gone; starts `lab undo TESTBED`
//!   unmounts it ───────────────────────────────►   ends when nothing is left to serve
//! ```
//!
//! So what is locked in memory and must never wait for the kernel's writeback is not the process whose memory is
//! limited, nor the one that shows progress. What undoes a testbed after a run was killed is a third process: one that
//! waits for a file system to be unmounted must not be the one that the file system is waiting for.

use super::undo_log::{self, Step, UndoLog};
use crate::disk_model::DiskModel;
use crate::error::{LabError, Result};
use crate::program::Program;
use crate::slowdisk::{Mounted, Options};
use millpond_core::units::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How soon the disk's process notices that it has nothing left to serve.
const POLL: Duration = Duration::from_millis(20);

/// The request to the disk's process.
#[derive(Serialize, Deserialize)]
struct Request {
    testbed: String,
    point: PathBuf,
    model: String,
    size: u64,
    used: u64,
}

/// Its answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    /// It is mounted; what it has to do without.
    Ready(Vec<String>),
    Failed(String),
}

/// A disk that is served.
pub(super) struct Disk {
    child: Child,
    point: PathBuf,
    /// What it must do without, in sentences.
    pub(super) notices: Vec<String>,
}

impl Disk {
    /// Starts one at `point`, an empty folder.
    pub(super) fn start(
        program: &Program,
        model: DiskModel,
        size: Bytes,
        used: Bytes,
        point: &Path,
        undo_log: &mut UndoLog,
    ) -> Result<Disk> {
        let unavailable = |why: String| LabError::Unavailable {
            target: "kernel".into(),
            why,
        };
        let program = program.sibling("disk");
        let mut child = Command::new(&program.path)
            .args(&program.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for the run, which takes the disk down in its order
            .process_group(0)
            .spawn()
            .map_err(|e| LabError::io("starting the disk's process", e))?;
        let pid = i32::try_from(child.id()).unwrap_or_default();
        // nothing is mounted before the request arrives, so this is early enough
        let noted = undo_log.note(Step::Disk {
            pid,
            started: undo_log::started_at(pid).unwrap_or_default(),
            point: point.to_owned(),
        });
        if let Err(error) = noted {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        let mut disk = Disk {
            child,
            point: point.to_owned(),
            notices: Vec::new(),
        };
        match disk.await_ready(undo_log.testbed(), model, size, used) {
            Ok(()) => Ok(disk),
            Err(why) => {
                let _ = disk.child.kill();
                let _ = disk.child.wait();
                Err(unavailable(why))
            }
        }
    }

    fn await_ready(
        &mut self,
        testbed: &str,
        model: DiskModel,
        size: Bytes,
        used: Bytes,
    ) -> Result<(), String> {
        let request = Request {
            testbed: testbed.into(),
            point: self.point.clone(),
            model: model.to_string(),
            size: size.0,
            used: used.0,
        };
        let mut line = serde_json::to_string(&request).map_err(|e| e.to_string())?;
        line.push('\n');
        if let Some(stdin) = &mut self.child.stdin {
            // if it has already died, its missing answer says more
            let _ = stdin.write_all(line.as_bytes());
        }
        let mut said = String::new();
        if let Some(stdout) = self.child.stdout.take() {
            let _ = BufReader::new(stdout).read_line(&mut said);
        }
        match serde_json::from_str(&said) {
            Ok(Answer::Ready(notices)) => {
                self.notices = notices;
                Ok(())
            }
            Ok(Answer::Failed(why)) => Err(why),
            Err(_) => Err(format!(
                "the disk's process said `{}` and not that it is ready",
                said.trim()
            )),
        }
    }

    /// The disk as a file.
    pub(super) fn image(&self) -> PathBuf {
        self.point.join("disk.img")
    }

    /// Says `timed`, `untimed` or `reset` to it.
    pub(super) fn control(&self, word: &str) -> Result<()> {
        let path = self.point.join("control");
        fs::write(&path, word).map_err(|e| LabError::path(&format!("cannot write {word} to"), &path, e))
    }

    /// Its activity since it was reset.
    pub(super) fn statistics(&self) -> Result<Value> {
        let path = self.point.join("stats");
        let failed = |e: io::Error| LabError::path("cannot read", &path, e);
        let text = fs::read_to_string(&path).map_err(failed)?;
        serde_json::from_str(&text).map_err(|e| failed(e.into()))
    }

    /// Waits for its process, which ends when it has been unmounted.
    pub(super) fn reap(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The disk's side: serves one disk until it is unmounted. Returns what the process should exit with.
pub fn serve() -> ExitCode {
    let mut line = String::new();
    let request = io::stdin().lock().read_line(&mut line);
    let request = request.and_then(|_| Ok(serde_json::from_str::<Request>(&line)?));
    let (answer, mounted) = match request.map_err(|e| e.to_string()).and_then(mount) {
        Ok((testbed, mounted)) => (Answer::Ready(mounted.notices.clone()), Some((testbed, mounted))),
        Err(why) => (Answer::Failed(why), None),
    };
    let told = serde_json::to_string(&answer).map(|line| writeln!(io::stdout().lock(), "{line}"));
    let Some((testbed, mounted)) = mounted else {
        return ExitCode::FAILURE;
    };
    let is_alone = Arc::new(AtomicBool::new(told.is_err()));
    let sees_end = Arc::clone(&is_alone);
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock().take(u64::MAX), &mut io::sink());
        sees_end.store(true, Ordering::Release);
    });
    let mut undoer = None;
    while !mounted.is_ended() {
        if undoer.is_none() && is_alone.load(Ordering::Acquire) {
            undoer = Some(undo_alone(&testbed));
        }
        thread::sleep(POLL);
    }
    match mounted.wait() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn mount(request: Request) -> Result<(String, Mounted), String> {
    let options = Options {
        mount_point: request.point,
        model: request.model.parse().map_err(|e: LabError| e.to_string())?,
        size: Bytes(request.size),
        used: Some(Bytes(request.used)),
        backing: None,
    };
    let mounted = Mounted::new(&options).map_err(|e| e.to_string())?;
    Ok((request.testbed, mounted))
}

/// Starts the process that undoes a testbed whose run is gone: at once, as its stdin has ended (`guard.rs`).
fn undo_alone(testbed: &str) -> io::Result<Child> {
    let program = Program::this(&["lab", "undo", testbed]);
    Command::new(&program.path)
        .args(&program.args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
}
