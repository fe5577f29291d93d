//! Notices: what the host does not allow and the cache works without. Each is one line, kept, and reported once.

use super::{MemoryLimit, RingRefusal, SmallPages};
use crate::host::hook::Hook;
use crate::size::{Size, apart};
use crate::sys::forks::OfProcess;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Why a file can't be opened a second time.
pub(crate) const NO_PROC: &str = "there is no /proc here, by which it would be opened once more";

/// Something that the cache works without. `Display` is one line: the cause, the effect, the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// No io_uring: threads perform the transfers.
    NoRing(RingRefusal),
    /// The file system refuses direct I/O: transfers go through the kernel's page cache.
    NoDirect {
        /// The first file of that file system.
        path: PathBuf,
        /// The file system's error.
        why: String,
    },
    /// Neither direct I/O nor buffered I/O that leaves nothing in the kernel's page cache (`RWF_DONTCACHE`).
    NoDontCache {
        /// The first file of that file system.
        path: PathBuf,
    },
    /// Another cache of the process also writes the file, which
    /// [`OpenOptions::beside_other_caches`](crate::OpenOptions::beside_other_caches) allowed.
    WrittenTwice {
        /// The file.
        path: PathBuf,
    },
    /// The disk was busy while it was measured, so the read latency goal is more than five times that of an idle disk.
    GoalOfBusyDisk {
        /// The file that was read.
        path: PathBuf,
        /// The read latency goal.
        goal: Duration,
        /// The approximate goal for the idle disk.
        idle: Duration,
    },
    /// Frames use small pages.
    NoHugePages(SmallPages),
    /// System calls that touch a page of a region that is not in memory fail with `EFAULT`.
    NoKernelFaults,
    /// The budget exceeds the memory limit of a control group, which the builder allowed.
    MemoryBeyondLimit {
        /// The budget, in bytes.
        given: u64,
        /// The limit.
        limit: MemoryLimit,
    },
    /// The budget exceeds the free memory, so the kernel will have to swap or kill a process.
    MemoryShort {
        /// The budget, or its increase, in bytes.
        given: u64,
        /// The free memory, in bytes.
        free: u64,
        /// The control group that is short of memory; `None`: the machine.
        group: Option<PathBuf>,
    },
}

impl Notice {
    /// Returns what is missing, and why.
    pub fn cause(&self) -> String {
        match self {
            Notice::NoRing(refusal) => refusal.to_string(),
            Notice::NoDirect { path, why } => {
                format!("direct I/O on {} is refused ({why})", path.display())
            }
            Notice::NoDontCache { path } => {
                format!(
                    "buffered I/O on {} can't bypass the page cache (no RWF_DONTCACHE)",
                    path.display()
                )
            }
            Notice::WrittenTwice { path } => {
                format!("another cache of this process writes {} as well", path.display())
            }
            Notice::GoalOfBusyDisk { path, goal, idle } => {
                let ms = |span: &Duration| span.as_micros() as f64 / 1e3;
                format!(
                    "the disk of {} was busy while it was measured: the goal for reads is {:.1} ms, and an idle disk needs about \
                     {:.1} ms",
                    path.display(),
                    ms(goal),
                    ms(idle)
                )
            }
            Notice::NoHugePages(why) => why.to_string(),
            Notice::NoKernelFaults => "userfaultfd serves no faults of the kernel (not root)".into(),
            Notice::MemoryBeyondLimit { given, limit } => {
                format!(
                    "the budget of {} is above the memory limit of {limit}",
                    Size(*given)
                )
            }
            Notice::MemoryShort { given, free, group } => {
                let place = match group {
                    Some(group) => format!("the control group {}", group.display()),
                    None => "this machine".into(),
                };
                {
                    let (given, free) = (apart(*given, *free), apart(*free, *given));
                    format!("the budget needs {given} and {place} has {free} free")
                }
            }
        }
    }

    /// Returns the effect.
    pub fn effect(&self) -> &'static str {
        match self {
            Notice::NoRing(_) => "threads do the transfers, 32 at a time",
            Notice::NoDirect { .. } => "transfers go through the kernel's page cache, outside the budget",
            Notice::NoDontCache { .. } => {
                "what the kernel has cached is dropped by advice, written pages only when they are synced"
            }
            Notice::WrittenTwice { .. } => "each overwrites what the other writes to the same page",
            Notice::GoalOfBusyDisk { .. } => {
                "until it is measured again, reads beside writers may take that long"
            }
            Notice::NoHugePages(_) => {
                "frames are in small pages, and hits on a large set take two to three times as long"
            }
            Notice::NoKernelFaults => {
                "system calls that touch a page of a region which is not in memory fail with EFAULT"
            }
            Notice::MemoryBeyondLimit { .. } => {
                "the kernel reclaims, swaps or kills when the limit is reached"
            }
            Notice::MemoryShort { .. } => "the kernel must swap, or kill a process",
        }
    }

    /// Returns the remedy.
    pub fn mend(&self) -> String {
        match self {
            Notice::NoRing(refusal) => refusal.mend(),
            Notice::NoDirect { why, .. } if why == NO_PROC => "mount /proc, or open the file by a name".into(),
            Notice::NoDirect { .. } => "put the file on ext4, xfs or btrfs".into(),
            Notice::NoDontCache { .. } => {
                "use Linux 6.14 with ext4, xfs or btrfs, or a file system with direct I/O".into()
            }
            Notice::WrittenTwice { .. } => "use one cache for both".into(),
            Notice::GoalOfBusyDisk { .. } => {
                "nothing to do: it is measured again once the disk is idle; or set admission.read_latency".into()
            }
            Notice::NoHugePages(why) => why.mend().into(),
            Notice::NoKernelFaults => {
                "set sysctl vm.unprivileged_userfaultfd=1, allow this user to open /dev/userfaultfd, or touch the memory before a \
                 system call uses it"
                    .into()
            }
            Notice::MemoryBeyondLimit { limit, .. } => {
                format!("use a budget below it, or raise {}", limit.file.display())
            }
            Notice::MemoryShort { .. } => "use a smaller budget, or free memory".into(),
        }
    }

    /// Returns whether the second of two notices adds no information.
    fn is_like(&self, other: &Notice, same_place: bool) -> bool {
        match (self, other) {
            (Notice::NoDirect { .. }, Notice::NoDirect { .. })
            | (Notice::NoDontCache { .. }, Notice::NoDontCache { .. })
            | (Notice::GoalOfBusyDisk { .. }, Notice::GoalOfBusyDisk { .. }) => same_place,
            _ => self == other,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.cause(), self.effect(), self.mend())
    }
}

/// Prints the notice on standard error, once per process. [`Builder::on_notice`](crate::Builder::on_notice) replaces
/// this hook.
pub fn to_stderr(notice: &Notice) {
    static SAID: OfProcess<HashSet<String>> = OfProcess::new();
    let line = format!("millpond: {notice}");
    if SAID.lock().insert(line.clone()) {
        // A closed terminal must not end a program.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// The notices of a cache.
pub(crate) struct Notices {
    hook: Hook<Notice>,
    /// Each notice with the file system it concerns.
    list: Mutex<Vec<(Notice, u64)>>,
}

impl Notices {
    pub(crate) fn new(hook: Hook<Notice>) -> Notices {
        Notices {
            hook,
            list: Mutex::default(),
        }
    }

    /// Keeps and reports the notice, unless there is a similar one. `file_system` is the one it concerns, if any.
    pub(crate) fn add(&self, notice: Notice, file_system: u64) {
        {
            let mut list = self.list.lock();
            if list
                .iter()
                .any(|(known, place)| known.is_like(&notice, *place == file_system))
            {
                return;
            }
            list.push((notice.clone(), file_system));
        }
        // Not under the lock: the hook may ask for the list.
        self.hook.tell(&notice);
    }

    pub(crate) fn list(&self) -> Vec<Notice> {
        self.list
            .lock()
            .iter()
            .map(|(notice, _)| notice.clone())
            .collect()
    }
}
