//! Between the slow disk's file and the experiment's files: a loop device with the queue of a drive, and a file system.
//!
//! The loop device is a new one for each testbed and goes with it, not one of those that the machine has. Its queue then has
//! no settings to put back; and the kernel's throttling has no past, which it may be stuck in: when a read ends while
//! another begins on another processor, it can take note of a read and forget which one (Linux 6.18, `wbt_issue` and
//! `wbt_done` of block/blk-wbt.c). It then never sees again that a read waits, for as long as the device exists. On a
//! loop device that had been used for hours a reader had 3 reads a second beside writers, on a new one 18.
//!
//! What is set on the queue, and why:
//!
//! - the loop device reads and writes past the page cache, in blocks of 4 KiB, or everything would be cached twice;
//! - 32 requests at a time, as many as the modelled drives take: set while there is no scheduler, since only then it
//!   is the device's own depth that changes;
//! - 1 MiB a request at most, as a command of the modelled drives;
//! - `rotational` as the model is: the file system, `bfq` and the default of the writeback throttling go by it.

use super::configuration::{Configuration, FileSystem, Scheduler, Wbt};
use super::undo_log::{Step, UndoLog};
use crate::error::{LabError, Result};
use millpond::internal::add_loop_device;
use rustix::mount::MountFlags;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The internals of the modelled drives.
const QUEUE_DEPTH: &str = "32";
const REQUEST_KIB_MAX: &str = "1024";

/// A loop device on a file, with its queue in sysfs.
pub(super) struct Block {
    device: PathBuf,
    queue: PathBuf,
}

impl Block {
    pub(super) fn new(image: &Path, is_rotational: bool, undo_log: &mut UndoLog) -> Result<Block> {
        let number = new_loop_device(undo_log)?;
        let device = PathBuf::from(format!("/dev/loop{number}"));
        let options = ["--direct-io=on", "--sector-size", "4096"];
        let mut attach = tool("losetup");
        attach.args(options).arg(&device).arg(image);
        output(&mut attach, "losetup", "util-linux")?;
        let queue = PathBuf::from(format!("/sys/block/loop{number}/queue"));
        let block = Block { device, queue };
        block.set("scheduler", "none")?;
        block.set("nr_requests", QUEUE_DEPTH)?;
        block.set("rotational", if is_rotational { "1" } else { "0" })?;
        block.set("max_sectors_kb", REQUEST_KIB_MAX)?;
        Ok(block)
    }

    /// The queue of a disk that is there. What is set on it is the caller's to put back.
    pub(super) fn of_queue(queue: PathBuf) -> Block {
        Block {
            device: queue.clone(),
            queue,
        }
    }

    /// The device.
    pub(super) fn device(&self) -> &Path {
        &self.device
    }

    /// Sets scheduler and throttling.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] for a scheduler or a setting that this kernel lacks.
    pub(super) fn choose(&self, configuration: Configuration) -> Result<()> {
        let unavailable = |what: &str, e: &io::Error| LabError::Unavailable {
            target: format!("kernel {configuration}"),
            why: format!("{what} ({e})"),
        };
        let scheduler = configuration.scheduler;
        self.set("scheduler", "none")?;
        let path = self.queue.join("wbt_lat_usec");
        let no_throttling = |e: &io::Error| unavailable("this kernel has no throttling of writeback", e);
        // 0 first: setting the present value would not count as set by hand, and `bfq` would switch throttling off
        let values = match (scheduler, configuration.wbt) {
            (Scheduler::Bfq, Wbt::Default) => vec![0],
            (_, Wbt::Default) => vec![-1],
            (_, Wbt::Micros(us)) => vec![0, us as i64],
        };
        for value in values {
            fs::write(&path, value.to_string()).map_err(|e| no_throttling(&e))?;
        }
        if scheduler != Scheduler::None {
            fs::write(self.queue.join("scheduler"), scheduler.name()).map_err(|e| {
                unavailable(&format!("this kernel has no scheduler {}", scheduler.name()), &e)
            })?;
        }
        if let Wbt::Micros(us) = configuration.wbt {
            let now = fs::read_to_string(&path).map_err(|e| no_throttling(&e))?;
            if now.trim() != us.to_string() {
                let why = io::Error::other(format!("wbt_lat_usec is {} and not {us}", now.trim()));
                return Err(unavailable("its throttling cannot be set so", &why));
            }
        }
        Ok(())
    }

    /// Makes a file system and mounts it at `point`, an empty folder.
    pub(super) fn mount(&self, file_system: FileSystem, point: &Path, undo_log: &mut UndoLog) -> Result<()> {
        let (name, package, options): (_, _, &[&str]) = match file_system {
            FileSystem::Xfs => ("mkfs.xfs", "xfsprogs", &["-q", "-f"]),
            // what is made later by a thread of the kernel would be in the measurement
            FileSystem::Ext4 => (
                "mkfs.ext4",
                "e2fsprogs",
                &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
            ),
        };
        output(tool(name).args(options).arg(&self.device), name, package)?;
        undo_log.note(Step::Mount(point.to_owned()))?;
        rustix::mount::mount(&self.device, point, file_system.name(), MountFlags::empty(), None).map_err(
            |e| LabError::Unavailable {
                target: "kernel".into(),
                why: format!("a file system {} cannot be mounted ({e})", file_system.name()),
            },
        )
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = self.queue.join(name);
        fs::write(&path, value).map_err(|e| LabError::path(&format!("cannot write {value} to"), &path, e))
    }
}

/// A loop device that was not there before.
fn new_loop_device(undo_log: &mut UndoLog) -> Result<u32> {
    let unavailable = |e: &io::Error| LabError::Unavailable {
        target: "kernel".into(),
        why: format!(
            "no loop device can be made ({e}): `modprobe loop`, or allow the container /dev/loop-control"
        ),
    };
    let names = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let numbers = names.filter_map(|name| name.strip_prefix("loop")?.parse::<u32>().ok());
    let mut number = numbers.max().map_or(0, |number| number + 1);
    loop {
        match add_loop_device(number) {
            Ok(()) => break,
            // another process was quicker
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(unavailable(&e)),
        }
    }
    // after it is there, or a number would be taken away that is another's
    undo_log.note(Step::Loop(number))?;
    Ok(number)
}

/// A program of the system, which is often where only root looks.
pub(super) fn tool(name: &str) -> Command {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let places = env::split_paths(&path).chain(usual);
    let found = places.map(|place| place.join(name)).find(|path| path.is_file());
    Command::new(found.unwrap_or_else(|| name.into()))
}

fn output(command: &mut Command, name: &str, package: &str) -> Result<String> {
    let unavailable = |why: String| LabError::Unavailable {
        target: "kernel".into(),
        why,
    };
    let output = command.output().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => unavailable(format!("there is no {name} here (package {package})")),
        _ => unavailable(format!("{name}: {e}")),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(unavailable(format!("{name}: {said}")))
}
