//! What a host does not allow and the cache does without: one line each, kept, and told once.

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

/// Why a file can't be opened once more.
pub(crate) const NO_PROC: &str = "there is no /proc here, by which it would be opened once more";

/// Something that the cache does without. `Display` is one line: the cause, what happens instead, the mend.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// No io_uring: threads do the transfers.
    NoRing(RingRefusal),
    /// The file system refuses direct I/O: transfers go through the kernel's page cache.
    NoDirect {
        /// The first file of that file system.
        path: PathBuf,
        /// What the file system said.
        why: String,
    },
    /// Neither direct I/O nor buffered I/O that leaves nothing behind (`RWF_DONTCACHE`).
    NoDontCache {
        /// The first file of that file system.
        path: PathBuf,
    },
    /// Another cache of the process writes the file too, which
    /// [`OpenOptions::beside_other_caches`](crate::OpenOptions::beside_other_caches) allowed.
    WrittenTwice {
        /// The file.
        path: PathBuf,
    },
    /// The disk was busy while it was measured, so the goal for reads is more than five times what an idle disk's would be.
    GoalOfBusyDisk {
        /// The file that was read.
        path: PathBuf,
        /// The goal for reads.
        goal: Duration,
        /// What it would be about.
        idle: Duration,
    },
    /// Frames are in small pages.
    NoHugePages(SmallPages),
    /// System calls that touch a page of a region which is not in memory fail with `EFAULT`.
    NoKernelFaults,
    /// The budget is above the memory limit of a control group, which the builder allowed.
    MemoryBeyondLimit {
        /// The budget, in bytes.
        given: u64,
        /// What it is above.
        limit: MemoryLimit,
    },
    /// The budget is more than is free now, so that the kernel will have to swap or kill something.
    MemoryShort {
        /// The budget, or what is added to it, in bytes.
        given: u64,
        /// What is free, in bytes.
        free: u64,
        /// The control group in which it is short; `None`: the machine.
        group: Option<PathBuf>,
    },
}

impl Notice {
    /// What is missing, and why.
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
                    "the disk of {} was busy while it was measured: the goal for reads is {:.1} ms, and an idle disk's is near \
                     {:.1} ms",
                    path.display(),
                    ms(goal),
                    ms(idle)
                )
            }
            Notice::NoHugePages(why) => why.to_string(),
            Notice::NoKernelFaults => "userfaultfd is for faults of programs only (not root)".into(),
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

    /// What happens instead.
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
            Notice::MemoryShort { .. } => "the kernel has to swap, or to kill a process",
        }
    }

    /// What would allow it.
    pub fn mend(&self) -> String {
        match self {
            Notice::NoRing(refusal) => refusal.mend(),
            Notice::NoDirect { why, .. } if why == NO_PROC => "mount /proc, or open the file by a name".into(),
            Notice::NoDirect { .. } => "put the file on ext4, xfs or btrfs".into(),
            Notice::NoDontCache { .. } => {
                "take Linux 6.14 with ext4, xfs or btrfs, or a file system with direct I/O".into()
            }
            Notice::WrittenTwice { .. } => "use one cache for both".into(),
            Notice::GoalOfBusyDisk { .. } => {
                "nothing is to be done: that is as soon as the disk is idle; or set admission.read_latency".into()
            }
            Notice::NoHugePages(why) => why.mend().into(),
            Notice::NoKernelFaults => {
                "set sysctl vm.unprivileged_userfaultfd=1, allow this user to open /dev/userfaultfd, or touch what a system \
                 call is given before it"
                    .into()
            }
            Notice::MemoryBeyondLimit { limit, .. } => {
                format!("take a budget below it, or raise {}", limit.file.display())
            }
            Notice::MemoryShort { .. } => "take a smaller budget, or free memory".into(),
        }
    }

    /// Of two that are alike in this, the second says nothing new.
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

/// Prints the notice on stderr, once a process: what [`Builder::on_notice`](crate::Builder::on_notice) replaces.
pub fn to_stderr(notice: &Notice) {
    static SAID: OfProcess<HashSet<String>> = OfProcess::new();
    let line = format!("millpond: {notice}");
    if SAID.lock().insert(line.clone()) {
        // A terminal that is gone is no reason to end a program.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// The notices of a cache.
pub(crate) struct Notices {
    hook: Hook<Notice>,
    /// With the file system that they are about.
    list: Mutex<Vec<(Notice, u64)>>,
}

impl Notices {
    pub(crate) fn new(hook: Hook<Notice>) -> Notices {
        Notices {
            hook,
            list: Mutex::default(),
        }
    }

    /// Keeps and tells it, unless there is one like it. `file_system`: where, if it is about one.
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
