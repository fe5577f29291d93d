//! Times of a file whose pages reach the disk later than programs have written them.
//!
//! The file system below stamps a file when a page is written to it, seconds after the program has changed it, and perhaps
//! after the program has set its times (tar, rsync, cp -p). So the mount keeps what it has to say until everything is
//! written:
//!
//! ```text
//!   write, truncate ──► mtime = ctime = now, unsettled            stat says these while unsettled
//!   utimensat ────────► on disk at once; if unsettled also kept   ctime = now
//!   all pages written ► mtime goes to the disk once more: settled
//! ```
//!
//! The disk's change time is then that of settling; nobody can set it. As long as it is still that, stat says what it said
//! before, so that programs that compare (git, tar) don't see a change that was none.

use rustix::fs::{Stat, Timespec};
use rustix::time::ClockId;
use std::sync::atomic::{AtomicI64, Ordering};

/// What stat says of a file, in seconds and nanoseconds.
type Stamp = (i64, u64);

/// The change time that was said of a file, and the one on disk in whose place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said((Stamp, Stamp));

/// What the disk does not know, or knows otherwise.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// While its pages may be written later than these say.
    unsettled: Option<Unsettled>,
    /// The disk's change time that is only that of settling, and the one to say instead.
    change: Option<(Stamp, Stamp)>,
}

#[derive(Clone, Copy, Debug)]
struct Unsettled {
    modified: Timespec,
    changed: Timespec,
    /// Somebody has set the modification time: it is to survive.
    is_set: bool,
}

impl Times {
    /// Data were changed.
    pub(crate) fn written(&mut self, now: Timespec) {
        self.unsettled = Some(Unsettled {
            modified: now,
            changed: now,
            is_set: false,
        });
    }

    /// The modification time was set to `modified`, and on disk as well.
    pub(crate) fn set(&mut self, modified: Timespec, now: Timespec) {
        if let Some(unsettled) = &mut self.unsettled {
            *unsettled = Unsettled {
                modified,
                changed: now,
                is_set: true,
            };
        }
    }

    /// Other attributes were changed.
    pub(crate) fn changed(&mut self, now: Timespec) {
        if let Some(unsettled) = &mut self.unsettled {
            unsettled.changed = now;
        }
    }

    /// The modification time that is to be set once everything is written.
    pub(crate) fn to_settle(&self) -> Option<Timespec> {
        self.unsettled.map(|unsettled| unsettled.modified)
    }

    /// Whether that was set by somebody, so that a sync has to keep it.
    pub(crate) fn is_set(&self) -> bool {
        self.unsettled.is_some_and(|unsettled| unsettled.is_set)
    }

    /// It was, and the disk says `stat` now.
    pub(crate) fn settled(&mut self, stat: &Stat) {
        if let Some(unsettled) = self.unsettled.take() {
            self.change = Some((changed(stat), stamp(unsettled.changed)));
        }
    }

    /// What is to be remembered of a file whose data and node are let go of.
    pub(crate) fn said(&self) -> Option<Said> {
        self.change.map(Said)
    }

    /// Of a file that is known again.
    pub(crate) fn remembering(said: Option<Said>) -> Times {
        Times {
            unsettled: None,
            change: said.map(|Said(change)| change),
        }
    }

    /// Puts into `stat`, what the disk says, what is to be said.
    pub(crate) fn tell(&self, stat: &mut Stat) {
        if let Some(Unsettled {
            modified, changed, ..
        }) = self.unsettled
        {
            (stat.st_mtime, stat.st_mtime_nsec) = (modified.tv_sec as _, modified.tv_nsec as _);
            (stat.st_ctime, stat.st_ctime_nsec) = (changed.tv_sec as _, changed.tv_nsec as _);
        } else if let Some((on_disk, said)) = self.change
            && changed(stat) == on_disk
        {
            (stat.st_ctime, stat.st_ctime_nsec) = (said.0 as _, said.1 as _);
        }
    }
}

fn stamp(time: Timespec) -> Stamp {
    (time.tv_sec, time.tv_nsec as u64)
}

#[expect(
    clippy::unnecessary_cast,
    reason = "the fields of stat have other types on other machines"
)]
fn changed(stat: &Stat) -> Stamp {
    (stat.st_ctime as i64, stat.st_ctime_nsec as u64)
}

/// The clock by which files are stamped here, so that what is done later has no earlier time, whether it is stamped here or by
/// the file system below. That goes by a clock of a few milliseconds (`CLOCK_REALTIME_COARSE`), and from Linux 6.13 on by a
/// finer one for a file whose time somebody has looked at, and never behind that.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// The latest time of a change that somebody was told, in nanoseconds. Nobody can set such a time.
    told: AtomicI64,
}

impl Clock {
    pub(crate) fn now(&self) -> Timespec {
        let clock = |id| nanoseconds(rustix::time::clock_gettime(id));
        let (coarse, fine) = (clock(ClockId::RealtimeCoarse), clock(ClockId::Realtime));
        // Another host's clock, or this one's before it was set back, does not count.
        let now = coarse.max(self.told.load(Ordering::Relaxed).min(fine));
        Timespec {
            tv_sec: now.div_euclid(NANOSECONDS),
            tv_nsec: now.rem_euclid(NANOSECONDS),
        }
    }

    /// Somebody is told this of a file.
    pub(crate) fn tell(&self, stat: &Stat) {
        let (seconds, rest) = changed(stat);
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: rest as i64,
        };
        self.told.fetch_max(nanoseconds(time), Ordering::Relaxed);
    }
}

const NANOSECONDS: i64 = 1_000_000_000;

/// Since 1970; up to the year 2262.
fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec
        .saturating_mul(NANOSECONDS)
        .saturating_add(time.tv_nsec)
}
