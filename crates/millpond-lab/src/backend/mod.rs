//! Targets: whatever has files that a workload can read and write, and where they are listed.
//!
//! To add one, write a [`TargetKind`] and put it into [`TARGETS`]:
//!
//! * a target on real files gives [`Driver::Files`]: a function that opens it. Each run calls it in a fresh
//!   child process, inside that run's memory group if it has one, and drives it through [`Target`] and
//!   [`TargetFile`];
//! * a simulator gives [`Driver::InProcess`]: a function that performs a whole run in virtual time.
//!
//! Either way the result is an [`Outcome`] with the metric names of the experiment, and everything else
//! (interleaving, tables, JSON, reports) follows.

mod device;
pub mod engine;
mod goal_variant;
pub mod kernel;
pub mod kernel_limits;
mod millpond_rows;
pub mod paced;
pub(crate) mod reasons;
pub mod sim;
mod sim_hills;

pub use device::Device;
pub use goal_variant::GoalVariant;

use crate::child::Program;
use crate::error::{LabError, Result};
use crate::measure::disk::DiskBytes;
use crate::outcome::{Measure, Outcome, Setting};
use crate::room;
use crate::workload::hills2015::Both;
use crate::workload::{Progress, Workload};
use millpond_core::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Every kind of target of this build, in the order in which tables list them: the baseline first.
pub const TARGETS: &[TargetKind] = &[kernel::KIND, engine::KIND, sim::KIND, paced::KIND];

/// A kind of target.
pub struct TargetKind {
    /// The name that `--on` takes.
    pub name: &'static str,
    /// One line for `lab list`.
    pub about: &'static str,
    /// The rows that this target contributes to an experiment.
    pub rows: fn(&RowRequest) -> Result<Rows>,
    /// How a run is made.
    pub driver: Driver,
}

/// How a run is made.
#[derive(Clone, Copy)]
pub enum Driver {
    /// On real files, in a child process.
    Files(fn(&Setup) -> Result<Box<dyn Target>>),
    /// In virtual time, by a call. The function reports its progress now and then, and gives up with
    /// [`LabError::Interrupted`] when it is told to.
    InProcess(Simulate),
}

/// A whole run of a workload in virtual time.
pub type Simulate = fn(&Setup, &Workload, &mut dyn FnMut(Progress) -> Proceed) -> Result<Outcome>;

/// The answer to a report of progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proceed {
    /// Go on.
    Yes,
    /// The user has asked to stop.
    Stop,
}

/// What a target is asked when an experiment is planned.
pub struct RowRequest<'a> {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The variants that were asked for; none means the target's own choice. All are known to the experiment.
    pub variants: &'a [String],
    /// How the kernel is set up on a modelled disk; none means as most machines are.
    pub kernel_variants: &'a [room::Configuration],
    /// What starts a process of the laboratory's own.
    pub program: &'a Program,
    /// The device that was asked for.
    pub device: Device,
    /// Where files will be, on real devices.
    pub dir: &'a Path,
    /// The memory that a target may use.
    pub memory: Bytes,
    /// The read latency that variants which have a goal aim at; `None` leaves it to them.
    pub read_latency_goal: Option<Nanos>,
    /// The seed of everything random.
    pub seed: u64,
}

/// What a target answers: its rows, and what the user should know of those it left out.
#[derive(Default)]
pub struct Rows {
    /// The rows, baseline first.
    pub rows: Vec<Row>,
    /// Sentences for the report.
    pub notes: Vec<String>,
}

/// A row of the tables: a target in one variant on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The variant as reports and JSON show it: `kernel mq-deadline wbt=2000us`, `goal`.
    pub label: String,
    /// What the target is opened with.
    pub setup: Setup,
    /// Put the run's process into a memory group of [`Setup::memory`].
    pub in_memory_group: bool,
    /// Each run has its files in a room of its own, on a modelled disk, and not in [`Setup::dir`].
    pub room: Option<room::Configuration>,
    /// Repeating the run would give the same numbers, so one run is enough.
    pub is_deterministic: bool,
    /// How fast the device takes writes, in bytes a second, where that is known without measuring.
    pub device_bytes_per_s: Option<f64>,
}

/// All that a target's process must know to open it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The [`TargetKind`]'s name.
    pub target: String,
    /// The variant as the target knows it: a preset's name, or what it wrote here itself.
    pub variant: String,
    /// The device.
    pub device: Device,
    /// The directory of the files.
    pub dir: PathBuf,
    /// The memory that it may use, in bytes.
    #[serde(with = "bytes_as_number")]
    pub memory: Bytes,
    /// The read latency goal in nanoseconds, if one was given.
    #[serde(with = "nanos_as_number")]
    pub read_latency_goal: Option<Nanos>,
    /// The seed of everything random.
    pub seed: u64,
}

/// Where a read's bytes came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// From memory: a hit.
    Memory,
    /// From the device, or by waiting for somebody else's read from it: a miss.
    Device,
    /// The target cannot tell. Counts as a miss, so that no wait is left out.
    Unknown,
}

/// How a file will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Single pages anywhere, which are not expected to be in memory.
    Random,
    /// Single pages anywhere, most of which are meant to stay in memory.
    Cached,
    /// From the start to the end.
    Sequential,
}

/// An opened target. Used by several threads at a time.
pub trait Target: Send + Sync {
    /// Opens a file that exists, to be read in this way.
    ///
    /// # Errors
    /// The system's or the target's own.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn TargetFile>>;

    /// Creates a file that will be written from its start to `len` bytes. It must not exist.
    ///
    /// # Errors
    /// The system's or the target's own.
    fn create(&self, path: &Path, len: u64) -> io::Result<Box<dyn TargetFile>>;

    /// Creates a file of `len` bytes, whole pages, that will be filled page by page from its start, each page changed where
    /// it is in memory: every [`TargetFile::write_at`] of it has one page. It must not exist.
    ///
    /// # Errors
    /// The system's or the target's own; that this target has no such way.
    fn create_in_place(&self, _path: &Path, _len: u64) -> io::Result<Box<dyn TargetFile>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Opens a file that exists to change words of it where they are in memory, anywhere: with [`TargetFile::change_at`].
    ///
    /// # Errors
    /// The system's or the target's own; that this target has no such way.
    fn open_to_change(&self, _path: &Path) -> io::Result<Box<dyn TargetFile>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// How many files of that size a program keeps open behind the one that it writes, so that closing one finds nothing
    /// to write. None where closing writes nothing.
    fn files_kept_open(&self, _file_bytes: u64) -> usize {
        0
    }

    /// Counters of reclaim that only grow, by the metrics of `measure::reclaim`; none if it can't tell.
    fn reclaim(&self) -> Vec<Measure> {
        Vec::new()
    }

    /// Brings everything that was written to the device, as `sync` does; returns when it would survive a loss
    /// of power, names of new files included.
    ///
    /// # Errors
    /// The first write that failed.
    fn sync_all(&self) -> io::Result<()>;

    /// Sets the limits on dirty pages, for everything from now on.
    ///
    /// # Errors
    /// The system's or the target's own; that this target has no such limits.
    fn set_dirty_limits(&self, _both: Both) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Whether the limits in force are those that a fresh target with the same settings would have, if it can tell.
    fn dirty_limits_are_fresh(&self) -> Option<bool> {
        None
    }

    /// What it is set to, for the report.
    fn settings(&self) -> Vec<Setting>;

    /// What a reader of its numbers must know. Asked after the run.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its slowest calls and what they have waited for, a sentence each, if it can tell. Asked after the run.
    fn explanations(&self) -> Vec<String> {
        Vec::new()
    }

    /// Counters of its own, with stable metric names. Asked after the run.
    fn measures(&self) -> Vec<Measure> {
        Vec::new()
    }

    /// What its device has transferred so far, where the target has a device of its own. `None`: take the
    /// counters of the block device under the directory.
    fn device_bytes(&self) -> Option<DiskBytes> {
        None
    }

    /// Bytes of writes that were handed to the device and are not completed, if it can tell.
    fn in_transit_bytes(&self) -> Option<u64> {
        None
    }
}

/// A file of a target. Used by several threads at a time; dropping it closes it.
pub trait TargetFile: Send + Sync {
    /// Fills `buf`, which starts on a 4 KiB boundary and has whole pages, from `offset`, a multiple of 4 KiB, and
    /// says where the bytes came from.
    ///
    /// # Errors
    /// The system's or the target's own; also when the file ends before `buf` does.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<Served>;

    /// Writes all of `buf` at `offset`, both in whole pages of 4 KiB. May pause its caller.
    ///
    /// # Errors
    /// The system's or the target's own.
    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()>;

    /// Stores `word` at `offset`, a multiple of 8, in the page that is in memory or is brought there. Of a file from
    /// [`Target::open_to_change`].
    ///
    /// # Errors
    /// The system's or the target's own; that the file was not opened so.
    fn change_at(&self, _offset: u64, _word: u64) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Brings what was written to this file to the device.
    ///
    /// # Errors
    /// The first write that failed.
    fn sync(&self) -> io::Result<()>;
}

/// The kind of that name.
///
/// # Errors
/// [`LabError::UnknownName`] with the names there are.
pub fn find(name: &str) -> Result<&'static TargetKind> {
    if let Some(kind) = TARGETS.iter().find(|kind| kind.name == name) {
        return Ok(kind);
    }
    let all = TARGETS.iter().map(|kind| kind.name);
    Err(LabError::UnknownName {
        what: "target",
        value: name.into(),
        allowed: names(all),
    })
}

fn names(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

mod bytes_as_number {
    use super::Bytes;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(bytes.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
        u64::deserialize(d).map(Bytes)
    }
}

mod nanos_as_number {
    use super::Nanos;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(nanos: &Option<Nanos>, s: S) -> Result<S::Ok, S::Error> {
        nanos.map(|n| n.0).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Nanos>, D::Error> {
        Ok(Option::<u64>::deserialize(d)?.map(Nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_survives_the_way_to_the_child() {
        let setup = Setup {
            target: "kernel".into(),
            variant: "direct".into(),
            device: Device::Real,
            dir: "/a b/\u{e9}".into(),
            memory: Bytes::from_mib(512),
            read_latency_goal: Some(Nanos::from_millis(40)),
            seed: u64::MAX,
        };
        let json = serde_json::to_string(&setup).unwrap();
        assert_eq!(serde_json::from_str::<Setup>(&json).unwrap(), setup);
    }

    #[test]
    fn a_wrong_name_hears_the_right_ones() {
        for kind in TARGETS {
            assert!(find(kind.name).is_ok());
        }
        let error = find("kernal").err().map(|e| e.to_string()).unwrap();
        assert!(error.contains("`kernal`") && error.contains("kernel"), "{error}");
    }
}
