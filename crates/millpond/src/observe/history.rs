//! The changes of a cache's settings: when, by which process or part, from what to what, and what
//! became of the limits.
//!
//! For users that ask why a cache is no longer as it was configured: each change names the process, or the
//! part of the cache, that made it. [`PageCache::set`](crate::PageCache::set) returns the change that it was,
//! and [`PageCache::history`](crate::PageCache::history) has the last ones.
//!
//! ```
//! # let cache = millpond::PageCache::builder().build()?;
//! cache.set(&[("dirty.background", "8M")])?;
//! for change in &cache.history().changes {
//!     let names: Vec<_> = change.settings.iter().map(|setting| setting.name).collect();
//!     println!("{:.1} s after the start {} changed {names:?}", change.age.as_secs_f64(), change.by);
//! }
//! # Ok::<(), millpond::Error>(())
//! ```
//!
//! Kept in memory, the last [`CHANGES_MAX`] of them; those that are forgotten are counted. A call that sets what is set
//! already is no change and not kept. Changes by the host that follow one another are one, from the first to the last.

use millpond_core::manager::Derived;
use millpond_core::units::PageCount;
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, SystemTime};

/// So many are kept: a day of a change every six minutes, in well below 1 MiB.
pub const CHANGES_MAX: usize = 256;

/// What has changed something.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum By {
    /// The program that has the cache, by a call.
    Program,
    /// The cache itself, when it had measured its device or was given what one is like.
    Calibration,
    /// The cache itself, when a file was opened that needs memory beside its pages.
    File,
    /// The cache itself, when a region was made or dropped: what is known of its pages takes memory.
    Region,
    /// The cache itself, as the host had less memory or more: `memory=auto`.
    Host,
    /// A process, through the control socket.
    Process {
        /// Its number.
        pid: u32,
        /// Its user's.
        uid: u32,
        /// Its program's name, if the system still knew it.
        name: String,
    },
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            By::Program => f.write_str("the program"),
            By::Calibration => f.write_str("calibration"),
            By::File => f.write_str("opening a file"),
            By::Region => f.write_str("making or dropping a region"),
            By::Host => f.write_str("the host's memory"),
            By::Process { pid, uid, name } if name.is_empty() => write!(f, "pid {pid}, uid {uid}"),
            By::Process { pid, uid, name } => write!(f, "{name} (pid {pid}, uid {uid})"),
        }
    }
}

/// A setting that has become another.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SettingChange {
    /// Which, by the name in [`settings`](crate::settings).
    pub name: &'static str,
    /// What it was, as it can be typed; `None` if the form that was chosen then has no such setting.
    pub old: Option<String>,
    /// What it is.
    pub new: Option<String>,
}

/// A limit that has become another by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitChange {
    /// Which, as in [`PageCache::inspect_limits`](crate::PageCache::inspect_limits).
    pub name: &'static str,
    /// What it was.
    pub old: PageCount,
    /// What it is.
    pub new: PageCount,
}

/// What one call has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Change {
    /// Changes of a cache are counted from 1; 0 if nothing has changed.
    pub number: u64,
    /// When, by the calendar.
    pub at: SystemTime,
    /// How old the cache was.
    pub age: Duration,
    /// What made the change.
    pub by: By,
    /// The settings.
    pub settings: Vec<SettingChange>,
    /// The limits.
    pub limits: Vec<LimitChange>,
}

impl Change {
    /// One more of the same kind, told with it.
    fn go_on(&mut self, next: &Change) {
        (self.at, self.age) = (next.at, next.age);
        for limit in &next.limits {
            match self.limits.iter_mut().find(|known| known.name == limit.name) {
                Some(known) => known.new = limit.new,
                None => self.limits.push(*limit),
            }
        }
    }
}

/// The changes of a cache.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct History {
    /// The last of them, the oldest first.
    pub changes: VecDeque<Change>,
    /// How many before those are forgotten.
    pub forgotten: u64,
}

impl History {
    /// One more; it gets its number, unless it changes nothing.
    pub(crate) fn add(&mut self, change: &mut Change) {
        if change.settings.is_empty() && change.limits.is_empty() {
            return;
        }
        if let Some(last) = self
            .changes
            .back_mut()
            .filter(|last| change.by == By::Host && last.by == By::Host)
        {
            last.go_on(change);
            change.number = last.number;
            return;
        }
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
            self.forgotten += 1;
        }
        change.number = self.forgotten + self.changes.len() as u64 + 1;
        self.changes.push_back(change.clone());
    }
}

/// The limits, by the names of [`PageCache::inspect_limits`](crate::PageCache::inspect_limits).
fn limits(derived: &Derived) -> [(&'static str, PageCount); 11] {
    let (marks, dirty) = (&derived.watermarks, &derived.dirty);
    [
        ("frames", derived.frames),
        ("watermarks.min", marks.min),
        ("watermarks.low", marks.low),
        ("watermarks.high", marks.high),
        ("reserve", derived.reserve),
        ("dirty.ceiling", dirty.ceiling),
        ("dirty.hard", dirty.hard),
        ("dirty.background", dirty.background),
        ("dirty.free_run", dirty.free_run),
        ("dirty.failed", dirty.failed),
        ("dirty.burst", dirty.burst),
    ]
}

/// Those that differ.
pub(crate) fn limit_changes(old: &Derived, new: &Derived) -> Vec<LimitChange> {
    let both = limits(old).into_iter().zip(limits(new));
    both.filter(|(old, new)| old != new)
        .map(|((name, old), (_, new))| LimitChange { name, old, new })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_kept_and_the_others_counted() {
        let mut history = History::default();
        let limit = LimitChange {
            name: "reserve",
            old: PageCount(1),
            new: PageCount(2),
        };
        let change = |limits| Change {
            number: 0,
            at: SystemTime::UNIX_EPOCH,
            age: Duration::ZERO,
            by: By::Program,
            settings: Vec::new(),
            limits,
        };
        for n in 1..=CHANGES_MAX as u64 + 3 {
            let mut change = change(vec![limit]);
            history.add(&mut change);
            assert_eq!(change.number, n);
        }
        history.add(&mut change(Vec::new()));
        assert_eq!((history.changes.len(), history.forgotten), (CHANGES_MAX, 3));
        // The host's count as one, so that they don't drive out the others.
        let by_host = |old, new| Change {
            by: By::Host,
            ..change(vec![LimitChange {
                old: PageCount(old),
                new: PageCount(new),
                ..limit
            }])
        };
        let mut by_host = [by_host(9, 8), by_host(8, 7)];
        by_host.iter_mut().for_each(|change| history.add(change));
        assert_eq!(by_host[0].number, by_host[1].number);
        let last = history.changes.back().unwrap();
        assert_eq!(
            (last.limits[0].old, last.limits[0].new),
            (PageCount(9), PageCount(7))
        );
        history.changes.pop_back();
        let numbers: Vec<_> = history.changes.iter().map(|change| change.number).collect();
        assert!(numbers.is_sorted() && numbers[0] == 5, "{numbers:?}");
    }
}
