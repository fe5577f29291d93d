//! The kernel as `--kernel-variant` says on the disk that is there: scheduler, throttling of writeback and limits for dirty
//! pages, for the time of one run.
//!
//! These are settings of the whole machine, so all who use it have them for that time. Each is in the undo log before it is
//! changed, and put back when the run ends, fails or is interrupted; by the guard when the run is killed (`guard.rs`); by
//! the next run when both were.
//!
//! Another scheduler comes with other settings of its own, and resets `nr_requests` and the throttling. So these are noted
//! first, and put back last. What can't be put back is that nobody had set `wbt_lat_usec` by hand: `bfq` switches off only
//! what the kernel has chosen.

use super::block::Block;
use super::configuration::{Configuration, Scheduler, Wbt};
use super::guard::Guard;
use super::undo_log::{self, RUN_DIR, Step, UndoLog};
use super::writing::Writing;
use super::{LOCK_WAIT_MAX, unavailable};
use crate::error::Result;
use crate::machine;
use crate::program::Program;
use std::fs;
use std::path::{Path, PathBuf};

/// The settings. Dropping it restores everything.
#[derive(Debug)]
pub struct Tuned {
    // before the guard, which undoes what is left
    undo_log: UndoLog,
    _guard: Guard,
}

impl Tuned {
    /// The meaning of `configuration` for files in `dir`: with names in place of `as-is`.
    ///
    /// # Errors
    /// [`LabError::Unavailable`](crate::error::LabError::Unavailable) of what can't be set here.
    pub fn resolve(dir: &Path, configuration: Configuration) -> Result<Configuration> {
        let queue = queue(dir)?;
        let mut meant = configuration;
        let (now, all) = (machine::scheduler(dir), read(&queue.join("scheduler"))?);
        if meant.scheduler == Scheduler::AsIs {
            let known = now.as_deref().and_then(Scheduler::of_name);
            meant.scheduler = known.unwrap_or(Scheduler::AsIs);
            if let (Wbt::Default, Some(us)) = (meant.wbt, machine::writeback_latency_us(dir)) {
                meant.wbt = Wbt::Micros(us);
            }
        } else if !words(&all).any(|name| name == meant.scheduler.name()) {
            return Err(unavailable(format!(
                "this kernel has no scheduler {} for that disk, but {}",
                meant.scheduler.name(),
                words(&all).collect::<Vec<_>>().join(", ")
            )));
        }
        if meant.wbt != Wbt::Default && !queue.join("wbt_lat_usec").exists() {
            return Err(unavailable("this kernel has no throttling of writeback".into()));
        }
        let changes = meant.dirty.is_some() || !is_set(dir, meant);
        if changes && !rustix::process::geteuid().is_root() {
            return Err(unavailable(
                "settings of the machine are changed for the time of a run, as root".into(),
            ));
        }
        if meant.writing == Writing::DontCache && !takes_dont_cache(dir) {
            return Err(unavailable(
                "this kernel has no RWF_DONTCACHE for that file system".into(),
            ));
        }
        Ok(meant)
    }

    /// Sets it, after undoing what killed runs have left. `None` where nothing differs.
    ///
    /// # Errors
    /// The system's; everything is then restored.
    pub fn set_up(program: &Program, dir: &Path, configuration: Configuration) -> Result<Option<Tuned>> {
        let is_set = is_set(dir, configuration);
        if is_set && configuration.dirty.is_none() {
            return Ok(None);
        }
        let undo_log = UndoLog::begin(Path::new(RUN_DIR), LOCK_WAIT_MAX).map_err(unavailable)?;
        let guard = Guard::post(program, undo_log.testbed())?;
        // from here on the drop undoes
        let mut tuned = Tuned {
            undo_log,
            _guard: guard,
        };
        if !is_set {
            let queue = queue(dir)?;
            tuned.note_queue(&queue)?;
            Block::of_queue(queue).choose(configuration)?;
        }
        if let Some(dirty) = configuration.dirty {
            tuned.undo_log.set_dirty_bytes(dirty.0)?;
        }
        Ok(Some(tuned))
    }

    /// Keeps the limits for dirty pages that are in force, while runs set them as they like.
    ///
    /// # Errors
    /// The system's, also if they may not be set.
    pub fn keep_dirty_limits(program: &Program) -> Result<Tuned> {
        let mut undo_log = UndoLog::begin(Path::new(RUN_DIR), LOCK_WAIT_MAX).map_err(unavailable)?;
        let guard = Guard::post(program, undo_log.testbed())?;
        undo_log.note_dirty_limits()?;
        Ok(Tuned {
            undo_log,
            _guard: guard,
        })
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// What could not be restored; the next run retries.
    pub fn take_down(mut self) -> Result<()> {
        self.undo_log.undo()
    }

    /// Undone from the last to the first: the scheduler, then what it has reset.
    fn note_queue(&mut self, queue: &Path) -> Result<()> {
        let own = fs::read_dir(queue.join("iosched"))
            .into_iter()
            .flatten()
            .flatten();
        let mut paths: Vec<PathBuf> = own.map(|entry| entry.path()).collect();
        paths.sort();
        paths.extend([queue.join("nr_requests"), queue.join("wbt_lat_usec")]);
        for path in paths {
            // a setting that can't be read or written has not been set
            let may_be_set = path.metadata().is_ok_and(|data| !data.permissions().readonly());
            let text = fs::read_to_string(&path).ok().filter(|_| may_be_set);
            if let Some(text) = text {
                let before = text.trim().to_owned();
                self.undo_log.note(Step::Text { path, before })?;
            }
        }
        let path = queue.join("scheduler");
        let text = read(&path)?;
        let before = machine::chosen(&text).unwrap_or("none").to_owned();
        self.undo_log.note(Step::Text { path, before })
    }
}

impl Drop for Tuned {
    fn drop(&mut self) {
        if let Err(error) = self.undo_log.undo() {
            say!("{error}");
        }
    }
}

/// Whether scheduler and throttling already have these values.
fn is_set(dir: &Path, configuration: Configuration) -> bool {
    let scheduler = configuration.scheduler;
    let is_scheduler =
        scheduler == Scheduler::AsIs || machine::scheduler(dir).as_deref() == Some(scheduler.name());
    let is_wbt = match configuration.wbt {
        Wbt::Default => scheduler == Scheduler::AsIs,
        Wbt::Micros(us) => machine::writeback_latency_us(dir) == Some(us),
    };
    is_scheduler && is_wbt
}

fn queue(dir: &Path) -> Result<PathBuf> {
    machine::block_queue(dir).ok_or_else(|| {
        unavailable(format!(
            "the kernel shows no disk under {} whose settings could be changed",
            dir.display()
        ))
    })
}

fn read(path: &Path) -> Result<String> {
    undo_log::read_text(path)
}

/// The names in `none [mq-deadline] bfq`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().map(|word| word.trim_matches(['[', ']']))
}

fn takes_dont_cache(dir: &Path) -> bool {
    let path = dir.join(format!("dontcache-{}", std::process::id()));
    let tried = fs::File::create_new(&path).and_then(|file| Writing::DontCache.write(&file, 0, &[0; 4096]));
    let _ = fs::remove_file(&path);
    tried.is_ok()
}
