//! A testbed's changes to the machine, written down before they are made, so that any process can undo them.
//!
//! ```text
//!   /run/millpond-lab/lock       held by the process that has a testbed, or undoes one: there is one at a time
//!   /run/millpond-lab/undo_log   a line of JSON for the testbed, then one for each step, in their order
//! ```
//!
//! Undoing goes from the last step to the first, and doing it twice does nothing the second time. It happens
//!
//! - at the end of a run, and when the run fails or is interrupted: by the program itself;
//! - when the program is killed: by a process that has seen its pipe end (`guard.rs`), which on a modelled disk the disk's
//!   own process starts (`disk.rs`);
//! - when both were killed: by the next run that wants a testbed, before it does anything else.
//!
//! An undo log of before the machine was started again is only removed: nothing that it speaks of is left.

use super::block::tool;
use crate::error::{LabError, Result};
use millpond::internal::remove_loop_device;
use procfs::process::Process;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The directory of testbeds: empty after the machine was started, on most systems.
pub(super) const RUN_DIR: &str = "/run/millpond-lab";

/// How long a file system may stay in use by a process that is just ending.
const BUSY_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
const VM: &str = "/proc/sys/vm";

/// Something that was done, and by that how to undo it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    /// A folder was made. It is empty again when its turn comes.
    Folder(PathBuf),
    /// A process serves a slow disk that is mounted here.
    Disk {
        /// Its number, and when it was started, in ticks: another process may have the number later.
        pid: i32,
        started: u64,
        point: PathBuf,
    },
    /// The loop device of this number was made.
    Loop(u32),
    /// A file of one line, such as those of `/proc/sys`, had this text.
    Text { path: PathBuf, before: String },
    /// A file system is mounted here.
    Mount(PathBuf),
    /// A file was made.
    File(PathBuf),
    /// The kernel swaps to this file or device.
    Swap(PathBuf),
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    testbed: String,
    boot: String,
}

/// The undo log of one testbed.
#[derive(Debug)]
pub(super) struct UndoLog {
    run_dir: PathBuf,
    testbed: String,
    file: File,
    /// `None` once they are undone.
    steps: Option<Vec<Step>>,
    _lock: File,
}

impl UndoLog {
    /// A new undo log, once no other process has one and earlier remains are undone. Waits for `wait_max`.
    ///
    /// # Errors
    /// As a part of a sentence, because the caller knows what it is needed for.
    pub(super) fn begin(run_dir: &Path, wait_max: Duration) -> Result<UndoLog, String> {
        let failed = |e: io::Error| format!("{}: {e}", run_dir.display());
        fs::create_dir_all(run_dir).map_err(failed)?;
        let lock = lock(run_dir, wait_max)?
            .ok_or("another run has the kernel set up in its own way at the moment; wait until it is done")?;
        if let Some((_, steps)) = read(run_dir) {
            undo_all(run_dir, &steps)?;
        }
        let testbed = format!(
            "{}-{}",
            std::process::id(),
            started_at(std::process::id() as i32).unwrap_or(0)
        );
        let mut file = File::create(run_dir.join("undo_log")).map_err(failed)?;
        let header = Header {
            testbed: testbed.clone(),
            boot: boot(),
        };
        write_line(&mut file, &header).map_err(failed)?;
        Ok(UndoLog {
            run_dir: run_dir.to_owned(),
            testbed,
            file,
            steps: Some(Vec::new()),
            _lock: lock,
        })
    }

    /// The testbed's own name, for the process that may have to undo it.
    pub(super) fn testbed(&self) -> &str {
        &self.testbed
    }

    /// Writes a step down. Do it afterwards.
    ///
    /// # Errors
    /// If there is no room for a line.
    pub(super) fn note(&mut self, step: Step) -> Result<()> {
        write_line(&mut self.file, &step)
            .map_err(|e| LabError::path("cannot write", &self.run_dir.join("undo_log"), e))?;
        self.steps.get_or_insert_default().push(step);
        Ok(())
    }

    /// Writes `value` into a file of one line, whose text is written down before.
    ///
    /// # Errors
    /// The file's.
    pub(super) fn set(&mut self, path: &Path, before: String, value: &str) -> Result<()> {
        self.note(Step::Text {
            path: path.to_owned(),
            before,
        })?;
        fs::write(path, value).map_err(|e| LabError::path(&format!("cannot write {value} to"), path, e))
    }

    /// Sets `vm.dirty_bytes` to `hard` and the limit of the background to half of it. Of bytes and percents one is in force,
    /// and the other reads 0: that in force is what is put back.
    ///
    /// # Errors
    /// The files'.
    pub(super) fn set_dirty_bytes(&mut self, hard: u64) -> Result<()> {
        self.note_dirty_limits()?;
        for (name, bytes) in [("dirty_background_bytes", hard / 2), ("dirty_bytes", hard)] {
            let path = Path::new(VM).join(name);
            fs::write(&path, bytes.to_string()).map_err(|e| LabError::path("cannot write to", &path, e))?;
        }
        Ok(())
    }

    /// Writes down both limits as they are in force, and that they may be set: by setting them so.
    ///
    /// # Errors
    /// The files'.
    pub(super) fn note_dirty_limits(&mut self) -> Result<()> {
        for name in ["dirty_background", "dirty"] {
            let path = |unit: &str| Path::new(VM).join(format!("{name}_{unit}"));
            let in_bytes = read_text(&path("bytes"))?;
            let (path, before) = match in_bytes.as_str() {
                "0" => (path("ratio"), read_text(&path("ratio"))?),
                _ => (path("bytes"), in_bytes),
            };
            self.set(&path, before.clone(), &before)?;
        }
        Ok(())
    }

    /// Undoes everything.
    ///
    /// # Errors
    /// What could not be undone. It stays in the undo log, and the next run retries.
    pub(super) fn undo(&mut self) -> Result<()> {
        let Some(steps) = self.steps.take() else {
            return Ok(());
        };
        undo_all(&self.run_dir, &steps)
            .map_err(|why| LabError::io("putting back what was changed", io::Error::other(why)))
    }
}

/// Undoes that testbed, unless another process has undone it.
///
/// # Errors
/// What could not be undone.
pub(super) fn undo_of(run_dir: &Path, testbed: &str) -> Result<(), String> {
    loop {
        match read(run_dir) {
            Some((header, _)) if header.testbed == testbed => {}
            _ => return Ok(()),
        }
        if let Some(_lock) = lock(run_dir, Duration::ZERO)? {
            return match read(run_dir) {
                Some((header, steps)) if header.testbed == testbed => undo_all(run_dir, &steps),
                _ => Ok(()),
            };
        }
        thread::sleep(POLL);
    }
}

fn write_line(file: &mut File, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)
}

fn lock(run_dir: &Path, wait_max: Duration) -> Result<Option<File>, String> {
    let path = run_dir.join("lock");
    let failed = |e: io::Error| format!("{}: {e}", path.display());
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(failed)?;
    let began = Instant::now();
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::AGAIN | Errno::INTR) if began.elapsed() < wait_max => thread::sleep(POLL),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        }
    }
}

/// Reads the undo log, if there is one. The step of an incomplete last line was not done either.
fn read(run_dir: &Path) -> Option<(Header, Vec<Step>)> {
    let text = fs::read_to_string(run_dir.join("undo_log")).ok()?;
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next()?).ok()?;
    let steps = if header.boot == boot() {
        lines.map_while(|line| serde_json::from_str(line).ok()).collect()
    } else {
        Vec::new()
    };
    Some((header, steps))
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// The line in a file of one line.
pub(super) fn read_text(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).map_err(|e| LabError::path("cannot read", path, e))?;
    Ok(text.trim().to_owned())
}

/// When a process was started, in ticks since the machine was.
pub(super) fn started_at(pid: i32) -> Option<u64> {
    Some(Process::new(pid).ok()?.stat().ok()?.starttime)
}

/// Undoes the steps, last first, all of them even if one cannot be, and removes the undo log if none is left.
fn undo_all(run_dir: &Path, steps: &[Step]) -> Result<(), String> {
    for step in steps {
        if let Step::Disk { point, .. } = step {
            // What is still to be written need not take a disk's time.
            let _ = fs::write(point.join("control"), "untimed");
        }
    }
    let failed: Vec<String> = steps.iter().rev().filter_map(|step| undo(step).err()).collect();
    let undo_log = run_dir.join("undo_log");
    if failed.is_empty() {
        return match fs::remove_file(&undo_log) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(format!("{}: {e}", undo_log.display())),
            _ => Ok(()),
        };
    }
    Err(format!(
        "{}; the next run will try again, or undo it by hand and remove {}",
        failed.join("; "),
        undo_log.display()
    ))
}

fn undo(step: &Step) -> Result<(), String> {
    match step {
        Step::Folder(path) => match fs::remove_dir(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(format!("removing {}: {e}", path.display())),
            _ => Ok(()),
        },
        Step::Disk { pid, started, point } => {
            unmount(point)?;
            end(*pid, *started);
            Ok(())
        }
        Step::Loop(number) => remove_loop(*number),
        Step::Text { path, before } => {
            // what is gone has no settings, and what is so need not be set
            if fs::read_to_string(path).map_or(!path.exists(), |text| text.trim() == before) {
                return Ok(());
            }
            fs::write(path, before).map_err(|e| format!("writing {before} to {}: {e}", path.display()))
        }
        Step::Mount(point) => unmount(point),
        Step::File(path) => match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(format!("removing {}: {e}", path.display())),
            _ => Ok(()),
        },
        Step::Swap(path) => swap_off(path),
    }
}

/// Unmounts what is mounted there, if anything is, and waits a while for processes that use it.
pub(super) fn unmount(point: &Path) -> Result<(), String> {
    let began = Instant::now();
    loop {
        match rustix::mount::unmount(point, UnmountFlags::empty()) {
            Err(Errno::INTR) => {}
            // not there, or not mounted
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY) if began.elapsed() < BUSY_MAX => thread::sleep(POLL),
            // a process that is in it keeps it, without a name
            Err(Errno::BUSY) => {
                let detached = rustix::mount::unmount(point, UnmountFlags::DETACH);
                return detached.map_err(|e| format!("unmounting {}: {e}", point.display()));
            }
            Err(error) => return Err(format!("unmounting {}: {error}", point.display())),
        }
    }
}

/// Has the kernel read back what is there and swap to it no more.
fn swap_off(path: &Path) -> Result<(), String> {
    let is_on = || {
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        swaps.lines().any(|line| {
            line.split_whitespace()
                .next()
                .is_some_and(|on| Path::new(on) == path)
        })
    };
    if !is_on() {
        return Ok(());
    }
    let output = tool("swapoff").arg(path).output();
    match output {
        Err(e) => Err(format!("swapoff {}: {e}", path.display())),
        Ok(_) if !is_on() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Detaches the file of a loop device, and then removes the device.
fn remove_loop(number: u32) -> Result<(), String> {
    let device = PathBuf::from(format!("/dev/loop{number}"));
    if !Path::new(&format!("/sys/block/loop{number}")).exists() {
        return Ok(());
    }
    if Path::new(&format!("/sys/block/loop{number}/loop")).exists() {
        let detached = tool("losetup").arg("-d").arg(&device).output();
        detached.map_err(|e| format!("detaching {}: losetup: {e}", device.display()))?;
    }
    let began = Instant::now();
    loop {
        match remove_loop_device(number) {
            Ok(()) => return Ok(()),
            Err(e) if e.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => return Ok(()),
            // it goes when the last user has closed it, such as a program that looks at every new block device
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && began.elapsed() < BUSY_MAX => {
                thread::sleep(POLL)
            }
            Err(e) => return Err(format!("removing {}: {e}", device.display())),
        }
    }
}

/// Waits for a disk's process that has nothing left to serve, and ends it if it does not go.
fn end(pid: i32, started: u64) {
    let is_there = || started_at(pid) == Some(started);
    let began = Instant::now();
    while is_there() && began.elapsed() < BUSY_MAX {
        if Process::new(pid)
            .and_then(|p| p.stat())
            .is_ok_and(|stat| stat.state == 'Z')
        {
            // its parent will know
            return;
        }
        thread::sleep(POLL);
    }
    if is_there()
        && let Some(pid) = Pid::from_raw(pid)
    {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
#[path = "undo_log_tests.rs"]
mod tests;
