//! The changes of a cache's settings: when, by which process or component, from what to what, and the resulting limits.
//!
//! It shows why a cache differs from its configuration: each change names the process, or the part of the cache, that
//! made it. [`PageCache::set`](crate::PageCache::set) returns its change, and
//! [`PageCache::history`](crate::PageCache::history) the most recent ones.
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
//! The last [`CHANGES_MAX`] changes are kept in memory; forgotten ones are counted. A call that sets a value already in
//! force is not a change. Consecutive changes by the host, or by
//! lending to the kernel, are merged into one, from the first to the last.

use millpond_core::manager::Derived;
use millpond_core::units::PageCount;
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, SystemTime};

/// The number of changes kept: a change every six minutes for a day, in well under 1 MiB.
pub const CHANGES_MAX: usize = 256;

/// The origin of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum By {
    /// A call by the program that owns the cache.
    Program,
    /// The cache itself, after it measured its device or received a calibration.
    Calibration,
    /// The cache itself, when it opened a file that needs memory besides its pages.
    File,
    /// The cache itself, when a region was created or dropped, because page metadata takes memory.
    Region,
    /// The cache itself, because the host had less or more memory: `memory=auto`.
    Host,
    /// The cache itself, because a mount lends more or fewer pages to the kernel.
    Lending,
    /// A process, through the control socket.
    Process {
        /// The process ID.
        pid: u32,
        /// The user ID.
        uid: u32,
        /// The program's name, if the system still knew it.
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
            By::Lending => f.write_str("lending to the kernel"),
            By::Process { pid, uid, name } if name.is_empty() => write!(f, "pid {pid}, uid {uid}"),
            By::Process { pid, uid, name } => write!(f, "{name} (pid {pid}, uid {uid})"),
        }
    }
}

/// A changed setting.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SettingChange {
    /// Its name in [`settings`](crate::settings).
    pub name: &'static str,
    /// The old value, as it can be typed; `None` if the form selected then has no such setting.
    pub old: Option<String>,
    /// The new value, as it can be typed; `None` if the form selected now has no such setting.
    pub new: Option<String>,
}

/// A limit that changed as a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitChange {
    /// Its name, as in [`PageCache::inspect_limits`](crate::PageCache::inspect_limits).
    pub name: &'static str,
    /// The old value.
    pub old: PageCount,
    /// The new value.
    pub new: PageCount,
}

/// The changes made by one call.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Change {
    /// The number of the change in this cache, from 1; 0 if nothing changed.
    pub number: u64,
    /// The wall-clock time.
    pub at: SystemTime,
    /// The age of the cache.
    pub age: Duration,
    /// The origin of the change.
    pub by: By,
    /// The changed settings.
    pub settings: Vec<SettingChange>,
    /// The changed limits.
    pub limits: Vec<LimitChange>,
}

impl Change {
    /// Merges a further change of the same kind.
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
    /// The most recent changes, oldest first.
    pub changes: VecDeque<Change>,
    /// The number of earlier, forgotten changes.
    pub forgotten: u64,
}

impl History {
    /// Adds a change and numbers it, unless it changes nothing.
    pub(crate) fn add(&mut self, change: &mut Change) {
        if change.settings.is_empty() && change.limits.is_empty() {
            return;
        }
        let is_own = matches!(change.by, By::Host | By::Lending);
        if let Some(last) = self
            .changes
            .back_mut()
            .filter(|last| is_own && last.by == change.by)
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

/// Returns the limits by their names in [`PageCache::inspect_limits`](crate::PageCache::inspect_limits).
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

/// Returns the entries that differ.
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
