//! The kernel's configuration in typed form: `mq-deadline`, `bfq//ext4`, `as-is/2000/dirty=32M`.
//!
//! ```text
//!   SCHEDULER[/WBT][/FILE-SYSTEM][/dirty=SIZE][/dontcache or /flush=SIZE]
//!   as-is         default        xfs, or ext4 where xfs is not to be had
//!   none          0 (off)        ext4
//!   mq-deadline   microseconds
//!   kyber
//!   bfq
//! ```
//!
//! A modelled disk is new, so nothing is as it is there; the directory on a real one has its file system.

use super::writing::{Writing, size_of};
use crate::error::{LabError, Result};
use millpond::internal::quantity::size_typed;
use millpond_core::units::Bytes;
use std::fmt;
use std::str::FromStr;

/// What the command line takes in place of one of them: every scheduler with throttling
/// off, the kernel's own and at 2 ms.
pub const ALL: &str = "all";

/// The same: the settings of administrators who want reads to stay fast beside writers.
pub const TUNED: &str = "tuned";

/// The syntax of `--kernel-variant`, for messages and `lab list`.
pub const SYNTAX: &str = "SCHEDULER[/WBT][/FILE-SYSTEM][/dirty=SIZE][/dontcache or /flush=SIZE]: as-is (on a real device), \
     none, mq-deadline, kyber or bfq; default, 0 or microseconds; xfs or ext4 (on a modelled one); vm.dirty_bytes, and \
     half of it in the background; writers with RWF_DONTCACHE, or with sync_file_range behind so many bytes; or all, or \
     tuned";

/// For `tuned`: a disk writes them in a tenth of a second.
const TUNED_DIRTY: Bytes = Bytes::from_mib(32);
/// The kernel's default for a disk that does not rotate.
const TUNED_WBT: Wbt = Wbt::Micros(2_000);

/// Two seconds: beyond any disk's latency, and far within what the kernel takes.
const WBT_US_MAX: u64 = 2_000_000;

/// The I/O scheduler of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// The device's present one.
    AsIs,
    /// Requests go to the disk in their order of arrival.
    None,
    /// `mq-deadline`.
    MqDeadline,
    /// `kyber`.
    Kyber,
    /// `bfq`, which switches the throttling of writeback off unless it was set by hand.
    Bfq,
}

impl Scheduler {
    const ALL: [Scheduler; 5] = [
        Scheduler::AsIs,
        Scheduler::None,
        Scheduler::MqDeadline,
        Scheduler::Kyber,
        Scheduler::Bfq,
    ];

    /// The one with this name in sysfs.
    pub(super) fn of_name(name: &str) -> Option<Scheduler> {
        Scheduler::ALL
            .into_iter()
            .find(|scheduler| scheduler.name() == name)
    }

    /// Its name in sysfs.
    pub const fn name(self) -> &'static str {
        match self {
            Scheduler::AsIs => "as-is",
            Scheduler::None => "none",
            Scheduler::MqDeadline => "mq-deadline",
            Scheduler::Kyber => "kyber",
            Scheduler::Bfq => "bfq",
        }
    }
}

/// The goal of the kernel's throttling of writeback, `wbt_lat_usec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wbt {
    /// The kernel's own choice: 75 ms on a rotating disk, 2 ms on another, off beneath `bfq`.
    Default,
    /// A number of microseconds; 0 is off.
    Micros(u64),
}

impl fmt::Display for Wbt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wbt::Default => f.write_str("default"),
            Wbt::Micros(0) => f.write_str("off"),
            Wbt::Micros(us) => write!(f, "{us}us"),
        }
    }
}

/// The file system under the experiment's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// xfs.
    Xfs,
    /// ext4.
    Ext4,
}

impl FileSystem {
    const ALL: [FileSystem; 2] = [FileSystem::Xfs, FileSystem::Ext4];

    /// Its name for mount(2).
    pub const fn name(self) -> &'static str {
        match self {
            FileSystem::Xfs => "xfs",
            FileSystem::Ext4 => "ext4",
        }
    }
}

/// A way to set up the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The throttling of writeback.
    pub wbt: Wbt,
    /// The file system; `None`: xfs, or ext4 where xfs is not to be had.
    pub file_system: Option<FileSystem>,
    /// `vm.dirty_bytes`, and half of it for `vm.dirty_background_bytes`; `None`: not changed on a real device, those of a
    /// machine of that size on a modelled one.
    pub dirty: Option<Bytes>,
    /// How the writers write.
    pub writing: Writing,
}

impl Configuration {
    /// The setup of most machines: `mq-deadline` with the kernel's own throttling.
    pub const DEFAULT: Configuration = Configuration {
        scheduler: Scheduler::MqDeadline,
        wbt: Wbt::Default,
        file_system: None,
        dirty: None,
        writing: Writing::Plain,
    };

    /// Every scheduler with throttling off, the kernel's own and at 2 ms; beneath `bfq` the first two are one.
    fn all() -> Vec<Configuration> {
        let with = |scheduler, wbt| Configuration {
            scheduler,
            wbt,
            ..Configuration::DEFAULT
        };
        let mut all = Vec::new();
        for scheduler in [Scheduler::None, Scheduler::MqDeadline] {
            all.extend([Wbt::Micros(0), Wbt::Default, Wbt::Micros(2_000)].map(|wbt| with(scheduler, wbt)));
        }
        all.extend([Wbt::Default, Wbt::Micros(2_000)].map(|wbt| with(Scheduler::Bfq, wbt)));
        all
    }

    /// What those set who want reads to stay fast beside writers: few dirty pages, throttling at 2 ms, each scheduler, and
    /// writers that leave nothing behind.
    fn tuned() -> Vec<Configuration> {
        let dirty = |scheduler, wbt| Configuration {
            scheduler,
            wbt,
            dirty: Some(TUNED_DIRTY),
            ..Configuration::DEFAULT
        };
        let writing = |writing| Configuration {
            scheduler: Scheduler::MqDeadline,
            wbt: TUNED_WBT,
            writing,
            ..Configuration::DEFAULT
        };
        vec![
            dirty(Scheduler::None, Wbt::Micros(0)),
            dirty(Scheduler::None, TUNED_WBT),
            dirty(Scheduler::MqDeadline, TUNED_WBT),
            dirty(Scheduler::Kyber, TUNED_WBT),
            dirty(Scheduler::Bfq, Wbt::Default),
            writing(Writing::DontCache),
            writing(Writing::Flush(Bytes::from_mib(1))),
        ]
    }

    /// The configurations that `texts` name, each once, in their order.
    ///
    /// # Errors
    /// [`LabError::BadValue`] with what is allowed.
    pub fn of_texts(texts: &[String]) -> Result<Vec<Configuration>> {
        let mut found: Vec<Configuration> = Vec::new();
        for text in texts {
            let named = match text.as_str() {
                ALL => Configuration::all(),
                TUNED => Configuration::tuned(),
                one => vec![one.parse()?],
            };
            for configuration in named {
                if !found.contains(&configuration) {
                    found.push(configuration);
                }
            }
        }
        Ok(found)
    }
}

/// In the form of a row's label: `mq-deadline wbt=default xfs`.
impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheduler.name())?;
        if (self.scheduler, self.wbt) != (Scheduler::Bfq, Wbt::Default) {
            write!(f, " wbt={}", self.wbt)?;
        }
        if let Some(file_system) = self.file_system {
            write!(f, " {}", file_system.name())?;
        }
        if let Some(dirty) = self.dirty {
            write!(f, " dirty={}", size_typed(dirty))?;
        }
        match self.writing {
            Writing::Plain => Ok(()),
            writing => write!(f, " {writing}"),
        }
    }
}

impl FromStr for Configuration {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Configuration> {
        let bad = |part: &str| LabError::BadValue {
            option: "--kernel-variant",
            value: text.into(),
            allowed: format!("`{part}` is none of what it can be"),
            instead: format!("give {SYNTAX}"),
        };
        let mut parts = text.split('/').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let scheduler = Scheduler::of_name(name).ok_or_else(|| bad(name))?;
        let (mut wbt, mut file_system) = (None, None);
        let (mut dirty, mut writing) = (None, None);
        for part in parts {
            if let Some(size) = part.strip_prefix("dirty=").map(size_of) {
                let size = size.ok_or_else(|| bad(part))?;
                if dirty.replace(size).is_some() {
                    return Err(bad(part));
                }
                continue;
            }
            if let Some(read) = Writing::of_text(part) {
                if writing.replace(read).is_some() {
                    return Err(bad(part));
                }
                continue;
            }
            if let Some(known) = FileSystem::ALL.into_iter().find(|known| known.name() == part) {
                if file_system.replace(known).is_some() {
                    return Err(bad(part));
                }
                continue;
            }
            let read = match part {
                "" | "default" => Wbt::Default,
                "off" => Wbt::Micros(0),
                number => match number.trim_end_matches("us").parse() {
                    Ok(us) if us <= WBT_US_MAX => Wbt::Micros(us),
                    _ => return Err(bad(part)),
                },
            };
            let is_late = file_system.is_some() || dirty.is_some() || writing.is_some();
            if is_late || wbt.replace(read).is_some() {
                return Err(bad(part));
            }
        }
        // which is its default
        let wbt = match (scheduler, wbt.unwrap_or(Wbt::Default)) {
            (Scheduler::Bfq, Wbt::Micros(0)) => Wbt::Default,
            (_, wbt) => wbt,
        };
        Ok(Configuration {
            scheduler,
            wbt,
            file_system,
            dirty,
            writing: writing.unwrap_or(Writing::Plain),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_configurations_become_labels() {
        for (typed, label) in [
            ("mq-deadline", "mq-deadline wbt=default"),
            ("none/0", "none wbt=off"),
            ("none/off/ext4", "none wbt=off ext4"),
            ("mq-deadline/2000us/xfs", "mq-deadline wbt=2000us xfs"),
            ("mq-deadline/75000", "mq-deadline wbt=75000us"),
            ("bfq//ext4", "bfq ext4"),
            ("bfq/xfs", "bfq xfs"),
            ("bfq/0", "bfq"),
            ("bfq/2000", "bfq wbt=2000us"),
            ("as-is", "as-is wbt=default"),
            ("kyber/2000/dirty=32M", "kyber wbt=2000us dirty=32M"),
            (
                "none/0/ext4/dirty=1G/dontcache",
                "none wbt=off ext4 dirty=1G dontcache",
            ),
            ("none/flush=1M", "none wbt=default flush=1M"),
        ] {
            assert_eq!(typed.parse::<Configuration>().unwrap().to_string(), label);
        }
    }

    #[test]
    fn all_are_those_that_the_baseline_has_and_each_is_there_once() {
        let of = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
            Configuration::of_texts(&texts).unwrap()
        };
        assert_eq!(of(&[]), []);
        assert_eq!(of(&["tuned", "tuned"]).len(), 7);
        let all = of(&["all", "bfq", "mq-deadline/default"]);
        let labels: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(
            labels.join(", "),
            "none wbt=off, none wbt=default, none wbt=2000us, mq-deadline wbt=off, mq-deadline wbt=default, \
             mq-deadline wbt=2000us, bfq, bfq wbt=2000us"
        );
    }

    #[test]
    fn mistake_is_answered_with_what_is_allowed() {
        for (typed, part) in [
            ("deadline", "`deadline`"),
            ("", "``"),
            ("none/fast", "`fast`"),
            ("none/0/btrfs", "`btrfs`"),
            ("none/xfs/ext4", "`ext4`"),
            ("none/0/1", "`1`"),
            ("none/xfs/0", "`0`"),
            ("none/3000000", "`3000000`"),
            ("none/dirty=32M/2000", "`2000`"),
            ("none/dirty=4K", "`dirty=4K`"),
            ("none/dirty=1M/dirty=2M", "`dirty=2M`"),
            ("none/dontcache/flush=1M", "`flush=1M`"),
            ("none/flush=", "`flush=`"),
        ] {
            let error = typed.parse::<Configuration>().unwrap_err();
            assert_eq!(error.exit_code(), 2);
            let error = error.to_string();
            assert!(
                error.starts_with(&format!("--kernel-variant {typed}: ")) && error.contains(part),
                "{error}"
            );
        }
    }
}
