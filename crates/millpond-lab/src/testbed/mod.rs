//! A testbed: the kernel's page cache on a modelled disk, for the time of one run.
//!
//! ```text
//!   the run's files ── xfs or ext4 ── scheduler, throttling ── loop device ── the slow disk's file (`slowdisk`)
//!   in a memory group                      block.rs                             a process of its own: disk.rs
//!   dirty limits of a machine of that size
//! ```
//!
//! Every run has a testbed of its own, with a new file system on an empty disk, so that no run finds what another has left
//! on the platter, in the page cache or in the settings. While the testbed is made and its files are prepared the disk
//! answers at once; [`Testbed::begin`] starts the model's time. Everything that is changed is in an undo log before
//! (`undo_log.rs`), and undone when the testbed is dropped, or by others if this process is killed.
//!
//! On an existing disk, `tuned.rs` sets what `--kernel-variant` says, with the same undo log.

mod block;
mod configuration;
mod disk;
mod guard;
mod swap;
mod tuned;
mod undo_log;
mod writing;

pub use configuration::{ALL, Configuration, FileSystem, SYNTAX, Scheduler, TUNED, Wbt};
pub use disk::serve;
pub use guard::undo;
pub use swap::{SwapPlan, SwapTestbed};
pub use tuned::Tuned;
pub use writing::Writing;

use crate::disk_model::DiskModel;
use crate::error::{LabError, Result};
use crate::outcome::Outcome;
use crate::program::Program;
use block::Block;
use disk::Disk;
use millpond::internal::quantity;
use millpond_core::units::Bytes;
use procfs::{Current, Meminfo};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use undo_log::{RUN_DIR, Step, UndoLog};

/// The disk's size unless the files need more: what the figures were measured on that this is held against. With a
/// hard disk it says how far files lie apart.
const SIZE: Bytes = Bytes::from_mib(10 << 10);
/// The part of that, at most, for other than the files: the file systems' own tables and logs.
const FILE_SYSTEM_BYTES: u64 = 512 << 20;
/// A disk to try things out on: xfs takes no smaller one than 300 MiB.
const SIZE_OF_TRIAL: Bytes = Bytes::from_mib(512);
/// How long to wait for another run, which may just be taking its testbed down.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);

/// What `vm.dirty_bytes` and `vm.dirty_background_bytes` are in a testbed with a GiB of memory: about the 20 and 10 % that
/// the kernel takes of a whole machine. Groups of the first version have no such limits of their own.
const DIRTY_BYTES_PER_GIB: u64 = 200_000_000;

/// The testbed, and its purpose.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The disk.
    pub model: DiskModel,
    /// What is built on it.
    pub configuration: Configuration,
    /// Bytes that the run's files will have at most.
    pub files_bytes: Bytes,
    /// The memory of the machine whose dirty limits are used.
    pub memory: Bytes,
}

/// A testbed that is set up. Dropping it takes it down.
pub struct Testbed {
    disk: Option<Disk>,
    undo_log: UndoLog,
    files: PathBuf,
    /// What the disk must do without, in sentences.
    notices: Vec<String>,
}

impl Testbed {
    /// Sets one up, after undoing what killed runs have left. The disk answers at once until [`begin`](Testbed::begin).
    ///
    /// # Errors
    /// [`LabError::Unavailable`] with what is missing; else as the system says. Nothing is left either way.
    pub fn set_up(program: &Program, plan: &Plan) -> Result<Testbed> {
        let used = Bytes(plan.files_bytes.0 + FILE_SYSTEM_BYTES);
        let available = Meminfo::current().ok().and_then(|memory| memory.mem_available);
        if available.is_some_and(|available| used.0 > available) {
            return Err(LabError::Unavailable {
                target: "kernel".into(),
                why: format!(
                    "the disk's bytes are kept in memory, {} of them, and {} are free; give smaller sizes (--scale)",
                    quantity::size(used),
                    quantity::size(Bytes(available.unwrap_or_default()))
                ),
            });
        }
        let size = Bytes(SIZE.0.max((used.0 + used.0 / 4).next_multiple_of(1 << 20)));
        let (mut testbed, block) = Testbed::new(program, plan.model, size, used)?;
        block.choose(plan.configuration)?;
        let file_system = plan.configuration.file_system.unwrap_or(FileSystem::Xfs);
        block.mount(file_system, &testbed.files, &mut testbed.undo_log)?;
        let limit = || (plan.memory.0 as f64 / (1_u64 << 30) as f64 * DIRTY_BYTES_PER_GIB as f64) as u64;
        let hard = plan.configuration.dirty.map_or_else(limit, |bytes| bytes.0);
        testbed.undo_log.set_dirty_bytes(hard)?;
        Ok(testbed)
    }

    /// Which of `configurations` there can be here, with the file system that each gets, and sentences about the
    /// others. Sets up a small testbed and takes it down again.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] if none can be.
    pub fn try_out(
        program: &Program,
        model: DiskModel,
        configurations: &[Configuration],
    ) -> Result<(Vec<Configuration>, Vec<String>)> {
        let (mut testbed, block) = Testbed::new(program, model, SIZE_OF_TRIAL, SIZE_OF_TRIAL)?;
        let (mut found, mut notes, mut tried) = (Vec::new(), testbed.notices.clone(), Vec::new());
        for &configuration in configurations {
            match testbed.possible(&block, configuration, &mut tried) {
                Ok(file_system) => found.push(Configuration {
                    file_system: Some(file_system),
                    ..configuration
                }),
                Err(why) => notes.push(format!("The kernel with {configuration} was left out: {why}.")),
            }
        }
        testbed.take_down()?;
        if found.is_empty() {
            return Err(unavailable(notes.join(" ")));
        }
        Ok((found, notes))
    }

    /// The file system that a configuration can have, or why it cannot be. What was found out of file systems is kept
    /// in `tried`.
    fn possible(
        &mut self,
        block: &Block,
        configuration: Configuration,
        tried: &mut Vec<(FileSystem, Option<String>)>,
    ) -> Result<FileSystem, String> {
        block.choose(configuration).map_err(|e| e.to_string())?;
        let wanted = match configuration.file_system {
            Some(file_system) => vec![file_system],
            None => vec![FileSystem::Xfs, FileSystem::Ext4],
        };
        let mut whys = Vec::new();
        for file_system in wanted {
            let known = tried.iter().find(|(one, _)| *one == file_system);
            let why = match known {
                Some((_, why)) => why.clone(),
                None => {
                    let why = self.try_mount(block, file_system).err();
                    tried.push((file_system, why.clone()));
                    why
                }
            };
            match why {
                None => return Ok(file_system),
                Some(why) => whys.push(why),
            }
        }
        Err(whys.join("; "))
    }

    fn try_mount(&mut self, block: &Block, file_system: FileSystem) -> Result<(), String> {
        let mounted = block.mount(file_system, &self.files, &mut self.undo_log);
        mounted.map_err(|e| e.to_string())?;
        undo_log::unmount(&self.files)
    }

    /// A disk with a loop device on it, and a folder for the files.
    fn new(program: &Program, model: DiskModel, size: Bytes, used: Bytes) -> Result<(Testbed, Block)> {
        if !rustix::process::geteuid().is_root() {
            return Err(unavailable(
                "a file system on a modelled disk needs root; with --device real the kernel runs in the plain \
                 directory"
                    .into(),
            ));
        }
        let run_dir = Path::new(RUN_DIR);
        let undo_log = UndoLog::begin(run_dir, LOCK_WAIT_MAX).map_err(unavailable)?;
        // from here on the drop undoes
        let mut testbed = Testbed {
            disk: None,
            files: run_dir.join("files"),
            undo_log,
            notices: Vec::new(),
        };
        let point = run_dir.join("disk");
        testbed.make_folder(&point)?;
        testbed.make_folder(&testbed.files.clone())?;
        let disk = Disk::start(program, model, size, used, &point, &mut testbed.undo_log)?;
        testbed.notices = disk.notices.clone();
        let image = disk.image();
        let disk = testbed.disk.insert(disk);
        disk.control("untimed")?;
        let block = Block::new(&image, model.is_rotational(), &mut testbed.undo_log)?;
        Ok((testbed, block))
    }

    /// The directory of the run's files.
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// Begins the model's time, with a disk as after a rest.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(&self) -> Result<()> {
        self.sync()?;
        self.control("timed")?;
        self.control("reset")
    }

    /// Ends the model's time and adds what the disk has seen since it began to `outcome`.
    ///
    /// # Errors
    /// The system's.
    pub fn end(&self, outcome: &mut Outcome) -> Result<()> {
        if let Some(disk) = &self.disk {
            let seen = disk.statistics()?;
            let at = |path: &[&str]| {
                path.iter()
                    .try_fold(&seen, |value, key| value.get(key))
                    .and_then(Value::as_f64)
            };
            for (metric, unit, path) in [
                ("device_queue_depth_mean", "1", &["queue_depth_mean"][..]),
                ("device_seeks", "1", &["seeks"]),
                ("device_flushes", "1", &["flushes"]),
                ("device_late_mean_us", "us", &["late_us", "mean"]),
                ("device_late_max_us", "us", &["late_us", "max"]),
            ] {
                if let Some(value) = at(path) {
                    outcome.push(metric, unit, value);
                }
            }
        }
        self.control("untimed")
    }

    /// Takes it down.
    ///
    /// # Errors
    /// What could not be undone; the next testbed retries.
    pub fn take_down(mut self) -> Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> Result<()> {
        let result = self.undo_log.undo();
        if let Some(mut disk) = self.disk.take() {
            disk.reap();
        }
        result
    }

    fn make_folder(&mut self, path: &Path) -> Result<()> {
        self.undo_log.note(Step::Folder(path.to_owned()))?;
        let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(path);
        made.map_err(|e| LabError::path("cannot create", path, e))
    }

    fn control(&self, word: &str) -> Result<()> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.control(word))
    }

    fn sync(&self) -> Result<()> {
        let failed = |e: std::io::Error| LabError::path("syncing", &self.files, e);
        let files = File::open(&self.files).map_err(failed)?;
        rustix::fs::syncfs(files).map_err(|e| failed(e.into()))
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            say!("{error}");
        }
    }
}

fn unavailable(why: String) -> LabError {
    LabError::Unavailable {
        target: "kernel".into(),
        why,
    }
}
