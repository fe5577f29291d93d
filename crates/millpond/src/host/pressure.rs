//! Descriptors that signal memory pressure: for the machine, and for each control group with a limit.
//!
//! ```text
//!   machine              /proc/pressure/memory    a trigger: 200 ms of stalls within 2 s (Linux 5.2)
//!   group of version 2   memory.pressure          the same
//!                        memory.events            the limit was reached
//!   group of version 1   memory.usage_in_bytes    thresholds, from half of the limit on
//!                        memory.pressure_level    the kernel reclaims there
//! ```
//!
//! What is unavailable (no write permission, no pressure support in this kernel) is left out: polling at short
//! intervals finds the same, later.

use super::limit::{ControlGroup, GroupVersion, groups_below};
use crate::sys::eventfd::Eventfd;
use rustix::event::{PollFd, PollFlags};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

/// A tenth of the time, the same threshold as that of the rule for the kernel's average (`control/auto`). Every user
/// may use windows of 2 s (Linux 6.5).
const TRIGGER: &str = "some 200000 2000000";

/// Thresholds of a version 1 group, in sixteenths of its limit.
const THRESHOLDS: std::ops::RangeInclusive<u64> = 8..=15;

/// A source of kernel notifications.
enum Teller {
    /// Stalls of the group or the machine.
    Stalls(File, Option<PathBuf>),
    /// A file that has changed.
    Changed(File),
    /// An event of a version 1 group.
    Event(Eventfd),
}

impl AsFd for Teller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Teller::Stalls(file, _) | Teller::Changed(file) => file.as_fd(),
            Teller::Event(event) => event.as_fd(),
        }
    }
}

/// All notification sources.
#[derive(Default)]
pub(crate) struct Pressure {
    tellers: Vec<Teller>,
}

impl Pressure {
    /// Opens the sources that this system allows.
    pub(crate) fn watch() -> Pressure {
        Pressure::below(Path::new("/"))
    }

    fn below(root: &Path) -> Pressure {
        let mut tellers = Vec::new();
        tellers.extend(stalls(&root.join("proc/pressure/memory"), None));
        for group in groups_below(root) {
            let Some(limit) = group.limits().into_iter().map(|limit| limit.bytes).min() else {
                continue;
            };
            match group.version {
                GroupVersion::Two => {
                    let path = group.path.join("memory.pressure");
                    tellers.extend(stalls(&path, Some(group.path.clone())));
                    tellers.extend(changed(&group.path.join("memory.events")).map(Teller::Changed));
                }
                GroupVersion::One => {
                    let thresholds =
                        THRESHOLDS.map(|part| ("memory.usage_in_bytes", (limit / 16 * part).to_string()));
                    let level = ("memory.pressure_level", "low".to_string());
                    let events = thresholds.chain([level]);
                    tellers.extend(events.filter_map(|(file, argument)| event(&group, file, &argument).ok()));
                }
            }
        }
        Pressure { tellers }
    }

    /// Returns the descriptors to poll.
    pub(crate) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.tellers.iter().map(|teller| {
            let flags = match teller {
                Teller::Event(_) => PollFlags::IN,
                _ => PollFlags::PRI,
            };
            PollFd::new(teller, flags)
        })
    }

    /// Processes the poll results, in the same order. Returns whether there was a notification. Adds to `stalled` the
    /// places whose programs stall.
    pub(crate) fn take(&mut self, said: &[PollFlags], stalled: &mut Vec<Option<PathBuf>>) -> bool {
        let mut gone = Vec::new();
        let mut any = false;
        for (at, (teller, said)) in self.tellers.iter_mut().zip(said).enumerate() {
            if said.is_empty() {
                continue;
            }
            any = true;
            match teller {
                // The group is gone.
                Teller::Stalls(..) if said.intersects(PollFlags::ERR) => gone.push(at),
                Teller::Stalls(_, place) => stalled.push(place.clone()),
                // It says so until it is read again.
                Teller::Changed(file) => {
                    let mut text = String::new();
                    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
                    if read.is_err() {
                        gone.push(at);
                    }
                }
                Teller::Event(event) if said.intersects(PollFlags::ERR | PollFlags::NVAL) => {
                    event.clear();
                    gone.push(at);
                }
                Teller::Event(event) => event.clear(),
            }
        }
        for at in gone.into_iter().rev() {
            self.tellers.remove(at);
        }
        any
    }
}

fn stalls(path: &Path, place: Option<PathBuf>) -> Option<Teller> {
    let mut file = File::options().read(true).write(true).open(path).ok()?;
    file.write_all(TRIGGER.as_bytes()).ok()?;
    Some(Teller::Stalls(file, place))
}

fn changed(path: &Path) -> Option<File> {
    let mut file = File::open(path).ok()?;
    file.read_to_string(&mut String::new()).ok()?;
    Some(file)
}

fn event(group: &ControlGroup, file: &str, argument: &str) -> io::Result<Teller> {
    let file = File::open(group.path.join(file))?;
    let event = Eventfd::new(false)?;
    let line = format!("{} {} {argument}", event.as_raw_fd(), file.as_raw_fd());
    let control = group.path.join("cgroup.event_control");
    File::options()
        .write(true)
        .open(control)?
        .write_all(line.as_bytes())?;
    Ok(Teller::Event(event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_says_it_has_changed_is_silent_once_it_was_read_and_one_that_is_gone_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.events");
        std::fs::write(&path, "max 1\n").unwrap();
        let gone = Teller::Stalls(File::open(&path).unwrap(), None);
        let there = Teller::Stalls(File::open(&path).unwrap(), Some("/box".into()));
        let mut pressure = Pressure {
            tellers: vec![Teller::Changed(changed(&path).unwrap()), gone, there],
        };
        let mut stalled = Vec::new();
        let (none, some) = (PollFlags::empty(), PollFlags::PRI);
        assert!(!pressure.take(&[none; 3], &mut stalled));
        assert!(pressure.take(&[some, some | PollFlags::ERR, some], &mut stalled));
        assert_eq!((pressure.fds().count(), stalled), (2, vec![Some("/box".into())]));
    }
}
