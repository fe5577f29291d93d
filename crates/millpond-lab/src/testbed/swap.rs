//! Swap for the kernel's rows: a file that the kernel swaps to, or a modelled disk, for the time of one run.
//!
//! ```text
//!   real       a file of its own in the run's folder, with all its blocks
//!   modelled   the loop device of a testbed, whole, with the scheduler that most machines have
//! ```
//!
//! `vm.page-cluster` is set with it. All of it is in the testbed's undo log before it is done, and undone when this is dropped;
//! after a program was killed, by the next one that wants a testbed (a modelled disk's own process does it at once).

use super::block::tool;
use super::configuration::Configuration;
use super::undo_log::{RUN_DIR, Step, UndoLog};
use super::{LOCK_WAIT_MAX, Testbed, unavailable};
use crate::disk_model::DiskModel;
use crate::error::{LabError, Result};
use crate::machine;
use crate::outcome::Outcome;
use crate::program::Program;
use millpond_core::units::Bytes;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";

/// Swap that the kernel uses. Dropping it takes it away.
pub struct SwapTestbed {
    on: On,
}

enum On {
    File(UndoLog),
    Disk(Box<Testbed>),
}

/// The swap, and its purpose.
#[derive(Clone, Debug)]
pub struct SwapPlan<'a> {
    /// The disk; `None`: a file in `dir`.
    pub model: Option<DiskModel>,
    /// The folder of the file.
    pub dir: &'a Path,
    /// Its size.
    pub size: Bytes,
    /// `vm.page-cluster`: two to the power of this are read at a time. `None`: as the machine has it.
    pub page_cluster: Option<u32>,
}

impl SwapTestbed {
    /// Makes swap and has the kernel use it, after undoing what killed runs have left.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] with what is missing: root, room, a program of util-linux; that there is swap already,
    /// which pages would go to as well.
    pub fn set_up(program: &Program, plan: &SwapPlan<'_>) -> Result<SwapTestbed> {
        if !rustix::process::geteuid().is_root() {
            return Err(unavailable("swap of its own needs root".into()));
        }
        let on = match plan.model {
            None => On::File(UndoLog::begin(Path::new(RUN_DIR), LOCK_WAIT_MAX).map_err(unavailable)?),
            Some(model) => {
                let (testbed, block) = Testbed::new(program, model, plan.size, plan.size)?;
                // what the kernel gives such a device is what most machines have
                block.choose(Configuration::DEFAULT)?;
                let device = block.device().to_owned();
                let mut on = On::Disk(Box::new(testbed));
                check_no_other_swap()?;
                swap_on(on.undo_log(), &device)?;
                on
            }
        };
        // from here on the drop undoes
        let mut testbed = SwapTestbed { on };
        if plan.model.is_none() {
            check_no_other_swap()?;
            let path = plan.dir.join("millpond-lab.swap");
            testbed.make_file(&path, plan.size)?;
            swap_on(testbed.on.undo_log(), &path)?;
        }
        if let Some(order) = plan.page_cluster {
            let path = Path::new(PAGE_CLUSTER);
            let before = fs::read_to_string(path).map_err(|e| LabError::path("cannot read", path, e))?;
            let before = before.trim().to_owned();
            testbed.on.undo_log().set(path, before, &order.to_string())?;
        }
        Ok(testbed)
    }

    /// Begins the model's time.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(&self) -> Result<()> {
        match &self.on {
            On::File(_) => Ok(()),
            On::Disk(testbed) => {
                testbed.control("timed")?;
                testbed.control("reset")
            }
        }
    }

    /// Ends the model's time, with what the disk has seen.
    ///
    /// # Errors
    /// The system's.
    pub fn end(&self, outcome: &mut Outcome) -> Result<()> {
        match &self.on {
            On::File(_) => Ok(()),
            On::Disk(testbed) => testbed.end(outcome),
        }
    }

    /// Takes it away.
    ///
    /// # Errors
    /// What could not be undone; the next run retries.
    pub fn take_down(mut self) -> Result<()> {
        self.on.undo()
    }

    fn make_file(&mut self, path: &Path, size: Bytes) -> Result<()> {
        let failed = |e: io::Error| LabError::path("cannot make", path, e);
        if machine::is_in_memory(path.parent().unwrap_or(path)) {
            return Err(unavailable(format!(
                "{} is in memory: give --dir on a disk",
                path.display()
            )));
        }
        self.on.undo_log().note(Step::File(path.to_owned()))?;
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(path).map_err(failed)?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size.0)
            .map_err(|e| failed(e.into()))
    }
}

impl On {
    fn undo_log(&mut self) -> &mut UndoLog {
        match self {
            On::File(undo_log) => undo_log,
            On::Disk(testbed) => &mut testbed.undo_log,
        }
    }

    fn undo(&mut self) -> Result<()> {
        match self {
            On::File(undo_log) => undo_log.undo(),
            On::Disk(testbed) => testbed.undo(),
        }
    }
}

impl Drop for SwapTestbed {
    fn drop(&mut self) {
        if let Err(error) = self.on.undo() {
            say!("{error}");
        }
    }
}

/// Swap that is there already would take pages too, on a disk that may be of another kind.
fn check_no_other_swap() -> Result<()> {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    match swaps.lines().nth(1) {
        None => Ok(()),
        Some(line) => Err(unavailable(format!(
            "this machine has swap already ({}): swapoff it for the experiment",
            line.split_whitespace().next().unwrap_or_default()
        ))),
    }
}

fn swap_on(undo_log: &mut UndoLog, path: &Path) -> Result<()> {
    run("mkswap", path)?;
    undo_log.note(Step::Swap(path.to_owned()))?;
    run("swapon", path)
}

fn run(name: &str, path: &Path) -> Result<()> {
    let output = tool(name).arg(path).output().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => unavailable(format!("there is no {name} here (package util-linux)")),
        _ => unavailable(format!("{name}: {e}")),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(unavailable(format!(
        "{name}: {}",
        said.trim().replace('\n', "; ")
    )))
}
