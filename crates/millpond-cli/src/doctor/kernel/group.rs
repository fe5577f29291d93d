//! What the kernel's limits mean in the memory group that this process runs in.
//!
//! ```text
//!   version 1: the kernel does not divide its dirty limits by groups. A group smaller than the hard limit fills with dirty
//!              pages before a dirtier is held back, and then waits in reclaim, or is killed.
//!   version 2: where the memory and the io controller are in force together, a group has its own limit: its part of the
//!              machine's, by what it can have of files (Linux 4.2, `domain_dirty_limits` for `gdtc`).
//! ```

use super::super::Check;
use super::assess::HARD_LEAST;
use millpond::host;
use millpond::host::MemoryLimit;
use millpond::internal::GroupVersion;
use millpond::internal::quantity::size;
use millpond_core::units::Bytes;
use std::fs;
use std::path::Path;

const NAME: &str = "memory group";

/// Dirty memory above this fraction of a group is too much: half is the most that any limit in percent that the kernel
/// accepts leaves for file pages.
const SHARE: u64 = 2;

/// For the running kernel, whose hard limit is `hard` of `dirtyable` bytes.
pub(super) fn check(hard: Bytes, dirtyable: Bytes) -> Check {
    let Some(limit) = host::memory_limit() else {
        return Check::ok(
            NAME,
            "no group of this process has a limit: the machine's limits apply",
        );
    };
    let groups = millpond::internal::control_groups();
    let version = groups.iter().find(|group| group.path == limit.group);
    let version = version.map_or(GroupVersion::Two, |group| group.version);
    let has_own = version == GroupVersion::Two && has_io_controller(&limit.group);
    assess(&limit, has_own, hard, dirtyable)
}

/// Whether written pages are charged to the group's own writeback.
fn has_io_controller(group: &Path) -> bool {
    let controllers = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    controllers.split_whitespace().any(|name| name == "io")
}

fn assess(limit: &MemoryLimit, has_own: bool, hard: Bytes, dirtyable: Bytes) -> Check {
    let group = format!("{}, limit {}", limit.group.display(), size(Bytes(limit.bytes)));
    if has_own {
        // Its share of the machine's limit, out of all memory that it can have.
        let own = u128::from(limit.bytes) * u128::from(hard.0) / u128::from(dirtyable.0.max(1));
        let own = Bytes(own as u64);
        let found = format!("{group}: its hard limit is {} at most", size(own));
        return match own < HARD_LEAST {
            false => Check::ok(NAME, found),
            true => Check::without(
                NAME,
                found,
                "less than 16 MB: a writer on a rotating disk keeps 45 % of its rate with 1 MB and 71 % with 4 MB",
                format!(
                    "raise {}, or vm.dirty_ratio for the whole machine",
                    limit.file.display()
                ),
            ),
        };
    }
    let most = Bytes(limit.bytes / SHARE);
    let found = format!("{group}: the kernel does not divide its limits by groups there");
    if hard <= most {
        return Check::ok(
            NAME,
            format!("{found}, and its hard limit of {} fits", size(hard)),
        );
    }
    let mend = mended(limit);
    Check::without(
        NAME,
        format!("{found}, and its hard limit is {}", size(hard)),
        "the group is full of dirty pages before a writer is held back: it waits in reclaim for the disk, or is killed",
        format!(
            "sysctl -w vm.dirty_bytes={} vm.dirty_background_bytes={} (of the whole machine); or `millpond mount --memory \
             {}M`, which keeps to its own limits",
            mend.0,
            mend.0 / 2,
            (limit.bytes / 2) >> 20
        ),
    )
}

/// A hard limit that fits.
fn mended(limit: &MemoryLimit) -> Bytes {
    // In whole mebibytes where there is at least one: the kernel counts in pages.
    Bytes((limit.bytes / SHARE / 2).max(4 << 20) >> 20 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(mib: u64) -> MemoryLimit {
        MemoryLimit {
            bytes: mib << 20,
            group: "/sys/fs/cgroup/box".into(),
            file: "/sys/fs/cgroup/box/memory.max".into(),
        }
    }

    #[test]
    fn a_group_smaller_than_the_hard_limit_is_named_with_a_mend_that_fits() {
        let (hard, all) = (Bytes::from_mib(4096), Bytes::from_mib(20480));
        let check = assess(&limit(256), false, hard, all);
        assert!(
            !check.ok && check.found.contains("/sys/fs/cgroup/box"),
            "{}",
            check.line()
        );
        let mend = mended(&limit(256));
        assert!(check.line().contains(&format!("vm.dirty_bytes={}", mend.0)));
        assert!(assess(&limit(256), false, mend, all).ok);
        assert!(assess(&limit(16384), false, hard, all).ok);
    }

    #[test]
    fn a_group_with_limits_of_its_own_has_its_share_of_the_machines() {
        let (hard, all) = (Bytes::from_mib(4096), Bytes::from_mib(20480));
        let check = assess(&limit(256), true, hard, all);
        assert!(
            check.ok && check.found.ends_with("its hard limit is 51.2 MiB at most"),
            "{}",
            check.line()
        );
        assert!(!assess(&limit(64), true, hard, all).ok);
    }
}
