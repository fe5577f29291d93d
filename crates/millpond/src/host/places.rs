//! The memory pools that this process shares with others: the machine, and each control group above it with a limit.
//!
//! ```text
//!   machine    /proc/meminfo    MemTotal, MemAvailable             /proc/pressure/memory
//!   group      its least limit, what it holds and can't drop       memory.pressure (version 2)
//! ```
//!
//! Reads a dozen small files, which takes a few tens of microseconds in total. An unreadable file omits its place or
//! the place's stalls.

use super::field;
use super::limit::groups_below;
use millpond_core::units::Bytes;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The share of the last 10 s in which something waited for memory: `some avg10` of the kernel's pressure files, in
/// hundredths of a percent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Stalls(pub(crate) u32);

impl Stalls {
    /// A tenth of the time. Our choice: a sixth of the 60 % at which systemd-oomd kills by default
    /// (`DefaultMemoryPressureLimit`), because the cache must react first.
    pub(crate) const HIGH: Stalls = Stalls(1_000);
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02} %", self.0 / 100, self.0 % 100)
    }
}

/// A pool of memory with a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MemoryGroup {
    /// The control group; `None`: the machine.
    pub(crate) group: Option<PathBuf>,
    pub(crate) limit: Bytes,
    /// The memory in use by any process that can't be dropped.
    pub(crate) held: Bytes,
    /// The stalls, where the kernel reports them.
    pub(crate) stalls: Option<Stalls>,
    /// What others recently took per second (`control/takers`); a single reading does not provide it.
    pub(crate) taken_a_second: Bytes,
}

/// Returns all places in their current state.
pub(crate) fn places() -> Vec<MemoryGroup> {
    places_below(Path::new("/"))
}

fn places_below(root: &Path) -> Vec<MemoryGroup> {
    let machine = machine_below(root);
    let groups = groups_below(root).into_iter().filter_map(|group| {
        let limit = group.limits().into_iter().map(|limit| limit.bytes).min()?;
        Some(MemoryGroup {
            limit: Bytes(limit),
            held: Bytes(group.held_bytes()?),
            stalls: stalls(&group.path.join("memory.pressure")),
            group: Some(group.path),
            taken_a_second: Bytes(0),
        })
    });
    machine.into_iter().chain(groups).collect()
}

fn machine_below(root: &Path) -> Option<MemoryGroup> {
    let facts = root.join("proc/meminfo");
    let bytes = |name| field(&facts, name)?.checked_mul(1024);
    let (total, available) = (bytes("MemTotal")?, bytes("MemAvailable")?);
    Some(MemoryGroup {
        group: None,
        limit: Bytes(total),
        held: Bytes(total.saturating_sub(available)),
        stalls: stalls(&root.join("proc/pressure/memory")),
        taken_a_second: Bytes(0),
    })
}

/// Parses `some avg10` of a pressure file.
fn stalls(path: &Path) -> Option<Stalls> {
    let text = fs::read_to_string(path).ok()?;
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent = some.split(' ').find_map(|word| word.strip_prefix("avg10="))?;
    // The kernel writes two decimals.
    let (whole, hundredths) = percent.split_once('.')?;
    let (whole, hundredths): (u32, u32) = (whole.parse().ok()?, hundredths.parse().ok()?);
    (whole <= 100 && hundredths < 100).then_some(Stalls(whole * 100 + hundredths))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::limit::tests::Host;

    /// `name limit held stalls` of each, from the machine and the own group on upwards.
    fn told(text: &str) -> Vec<String> {
        let host = Host::of(text);
        let places = places_below(host.root.path());
        let name = |place: &MemoryGroup| match &place.group {
            None => "machine".into(),
            Some(group) => host.name(group),
        };
        let told = places.iter().map(|place| {
            let stalls = place.stalls.map_or("unknown".into(), |stalls| stalls.to_string());
            format!("{} {} {} {stalls}", name(place), place.limit.0, place.held.0)
        });
        told.collect()
    }

    #[test]
    fn every_place_says_what_it_has_what_is_held_and_how_long_programs_wait() {
        let pressed = told(include_str!("../../tests/hosts/v2_pressed.txt"));
        let expected = [
            "machine 16384000000 12288000000 1.50 %",
            "sys/fs/cgroup/pond.slice/pond.service 1073741824 950000000 23.07 %",
            "sys/fs/cgroup/pond.slice 2147483648 1200000000 unknown",
        ];
        assert_eq!(pressed, expected);
        // Version 1 has no stalls; this host does not say what the machine has in all.
        let parent = told(include_str!("../../tests/hosts/v1_parent.txt"));
        let group = "sys/fs/cgroup/memory/box 268435456 68435456 unknown";
        assert!(parent.iter().any(|place| place == group), "{parent:?}");
        assert!(
            !parent.iter().any(|place| place.starts_with("machine")),
            "{parent:?}"
        );
    }

    #[test]
    fn a_pressure_file_that_says_something_else_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        for text in [
            "",
            "full avg10=1.00",
            "some avg10=x.y",
            "some avg10=900.00",
            "some avg60=1.00",
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(stalls(&path), None, "{text}");
        }
        assert_eq!(stalls(&folder.path().join("nothing")), None);
    }
}
