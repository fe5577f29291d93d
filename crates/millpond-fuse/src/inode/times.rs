//! Times of a file whose pages reach the disk later than programs wrote them.
//!
//! The underlying file system stamps a file when a page is written to it, seconds after the program changed it, and
//! perhaps after the program set its times (tar, rsync, cp -p). So the mount keeps the intended times until everything
//! is written:
//!
//! ```text
//!   write, truncate ──► mtime = ctime = now, pending            stat reports these while they are pending
//!   utimensat ────────► on disk at once; if pending also kept   ctime = now
//!   all pages written ► mtime is written to the disk once more: nothing is pending
//! ```
//!
//! The disk's change time is then that of this last write; no call can set it. As long as it stays that, stat reports
//! the same change time as before, so that programs that compare times (git, tar) don't see a change that did not
//! happen.

use rustix::fs::{Stat, Timespec};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicI64, Ordering};

/// A time of stat's, in seconds and nanoseconds.
type Stamp = (i64, u64);

/// A change time to report, and the one on disk that it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ReportedCtime {
    on_disk: Stamp,
    reported: Stamp,
}

/// The times that the disk does not have, or has otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// While pages may be written later than these.
    pending: Option<Pending>,
    /// Where the disk's change time is only that of our own write of the times.
    ctime: Option<ReportedCtime>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Pending {
    #[serde(with = "seconds_and_nanoseconds")]
    mtime: Timespec,
    #[serde(with = "seconds_and_nanoseconds")]
    ctime: Timespec,
    /// A program has set the modification time: it is to survive.
    is_explicit: bool,
}

mod seconds_and_nanoseconds {
    use rustix::fs::Timespec;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Timespec, to: S) -> Result<S::Ok, S::Error> {
        (time.tv_sec, time.tv_nsec).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timespec, D::Error> {
        let (tv_sec, tv_nsec) = Deserialize::deserialize(from)?;
        Ok(Timespec { tv_sec, tv_nsec })
    }
}

impl Times {
    /// Data were changed.
    pub(crate) fn data_changed(&mut self, now: Timespec) {
        self.pending = Some(Pending {
            mtime: now,
            ctime: now,
            is_explicit: false,
        });
    }

    /// The modification time was set to `mtime`, and on disk as well.
    pub(crate) fn mtime_set(&mut self, mtime: Timespec, now: Timespec) {
        if let Some(pending) = &mut self.pending {
            *pending = Pending {
                mtime,
                ctime: now,
                is_explicit: true,
            };
        }
    }

    /// Other attributes were changed.
    pub(crate) fn attributes_changed(&mut self, now: Timespec) {
        if let Some(pending) = &mut self.pending {
            pending.ctime = now;
        }
    }

    /// The modification time that is to be written once all pages are.
    pub(crate) fn pending_mtime(&self) -> Option<Timespec> {
        self.pending.map(|pending| pending.mtime)
    }

    /// The same, if a program has set it, so that a sync has to keep it.
    pub(crate) fn explicit_mtime(&self) -> Option<Timespec> {
        let pending = self.pending.filter(|pending| pending.is_explicit);
        pending.map(|pending| pending.mtime)
    }

    /// The pending modification time was written, and the file is `stat` on disk now.
    pub(crate) fn mtime_written(&mut self, stat: &Stat) {
        if let Some(pending) = self.pending.take() {
            self.ctime = Some(ReportedCtime {
                on_disk: ctime(stat),
                reported: (pending.ctime.tv_sec, pending.ctime.tv_nsec as u64),
            });
        }
    }

    /// What is to be remembered of an inode that is removed.
    pub(crate) fn reported_ctime(&self) -> Option<ReportedCtime> {
        self.ctime
    }

    /// Of an inode that is known again.
    pub(crate) fn remembering(ctime: Option<ReportedCtime>) -> Times {
        Times { pending: None, ctime }
    }

    /// Puts the times that are to be reported into what the disk says.
    pub(crate) fn apply_to(&self, stat: &mut Stat) {
        if let Some(Pending {
            mtime,
            ctime: changed,
            ..
        }) = self.pending
        {
            (stat.st_mtime, stat.st_mtime_nsec) = (mtime.tv_sec as _, mtime.tv_nsec as _);
            (stat.st_ctime, stat.st_ctime_nsec) = (changed.tv_sec as _, changed.tv_nsec as _);
        } else if let Some(ReportedCtime { on_disk, reported }) = self.ctime
            && ctime(stat) == on_disk
        {
            (stat.st_ctime, stat.st_ctime_nsec) = (reported.0 as _, reported.1 as _);
        }
    }
}

#[expect(
    clippy::unnecessary_cast,
    reason = "the fields of stat have other types on other machines"
)]
fn ctime(stat: &Stat) -> Stamp {
    (stat.st_ctime as i64, stat.st_ctime_nsec as u64)
}

/// The clock by which files are stamped here, so that a later change has no earlier time, whether it is stamped here or by
/// the file system below. That goes by a clock of a few milliseconds (`CLOCK_REALTIME_COARSE`), and from Linux 6.13 on by a
/// finer one for a file whose time was asked for, and never behind that.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// The latest change time that was reported, in nanoseconds. No call can set such a time.
    latest: AtomicI64,
}

impl Clock {
    pub(crate) fn now(&self) -> Timespec {
        let clock = |id| nanoseconds(rustix::time::clock_gettime(id));
        let (coarse, fine) = (clock(ClockId::RealtimeCoarse), clock(ClockId::Realtime));
        // Another host's clock, or this one's before it was set back, does not count.
        let now = coarse.max(self.latest.load(Ordering::Relaxed).min(fine));
        Timespec {
            tv_sec: now.div_euclid(NANOSECONDS),
            tv_nsec: now.rem_euclid(NANOSECONDS),
        }
    }

    /// The latest change time that was reported, for the process that takes over.
    pub(crate) fn latest(&self) -> i64 {
        self.latest.load(Ordering::Relaxed)
    }

    /// The process that served before has reported this.
    pub(crate) fn go_on_from(&self, latest: i64) {
        self.latest.fetch_max(latest, Ordering::Relaxed);
    }

    /// These times of a file go to a program.
    pub(crate) fn reported(&self, stat: &Stat) {
        let (seconds, rest) = ctime(stat);
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: rest as i64,
        };
        self.latest.fetch_max(nanoseconds(time), Ordering::Relaxed);
    }
}

const NANOSECONDS: i64 = 1_000_000_000;

/// Since 1970; up to the year 2262.
fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec
        .saturating_mul(NANOSECONDS)
        .saturating_add(time.tv_nsec)
}
