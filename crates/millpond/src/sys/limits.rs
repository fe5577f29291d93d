//! This process's limits, as `ulimit` shows them, and its use of them.

use std::fs;
use std::io;

/// The limited resources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// Bytes of addresses (`ulimit -v`).
    Addresses,
    /// Bytes of memory that can be written and is the process's own, there or not (`ulimit -d`).
    Data,
    /// Bytes of a file that is written (`ulimit -f`).
    FileLength,
    /// Open files (`ulimit -n`).
    Descriptors,
    /// Bytes of locked memory (`ulimit -l`).
    Locked,
}

/// Limits; `None`: there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The limit in force.
    pub current: Option<u64>,
    /// The maximum to which the process may raise it.
    pub maximum: Option<u64>,
}

/// The limits of this process.
///
/// # Errors
/// The system's: a seccomp filter may refuse prlimit(2), and then nothing is known.
pub fn resource_limits(resource: Resource) -> io::Result<Limits> {
    let resource = match resource {
        Resource::Addresses => libc::RLIMIT_AS,
        Resource::Data => libc::RLIMIT_DATA,
        Resource::FileLength => libc::RLIMIT_FSIZE,
        Resource::Descriptors => libc::RLIMIT_NOFILE,
        Resource::Locked => libc::RLIMIT_MEMLOCK,
    };
    let mut found = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: a structure of that call, which outlives it.
    if unsafe { libc::getrlimit(resource, &raw mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let known = |value: libc::rlim_t| (value != libc::RLIM_INFINITY).then_some(value);
    Ok(Limits {
        current: known(found.rlim_cur),
        maximum: known(found.rlim_max),
    })
}

/// The limit that is in force; `None`: there is none, or the process may not ask.
pub(crate) fn limit(resource: Resource) -> Option<u64> {
    resource_limits(resource).ok()?.current
}

/// How much of it the process uses; 0 if that can't be known, without `/proc`.
pub(crate) fn used(resource: Resource) -> u64 {
    let name = match resource {
        Resource::Addresses => "VmSize:",
        Resource::Data => "VmData:",
        Resource::FileLength | Resource::Descriptors | Resource::Locked => return 0,
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_some_of_what_it_may_have() {
        let (addresses, data) = (used(Resource::Addresses), used(Resource::Data));
        assert!(data > 0 && addresses > data, "{addresses} {data}");
        for resource in [Resource::Addresses, Resource::Data] {
            assert!(limit(resource).is_none_or(|limit| limit > used(resource)));
        }
    }
}
