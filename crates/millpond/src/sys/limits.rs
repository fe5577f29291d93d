//! What this process may have: the limits that `ulimit` shows, and what it has of them.

use std::fs;

/// What there is a limit for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resource {
    /// Bytes of addresses (`ulimit -v`).
    Addresses,
    /// Bytes of memory that can be written and is the process's own, there or not (`ulimit -d`).
    Data,
    /// Bytes of a file that is written (`ulimit -f`).
    FileLength,
}

/// The limit that is in force; `None`: there is none, or the process may not ask.
pub(crate) fn limit(resource: Resource) -> Option<u64> {
    let resource = match resource {
        Resource::Addresses => libc::RLIMIT_AS,
        Resource::Data => libc::RLIMIT_DATA,
        Resource::FileLength => libc::RLIMIT_FSIZE,
    };
    let mut found = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: a structure of that call, which outlives it. A refusal leaves it as it is.
    unsafe { libc::getrlimit(resource, &raw mut found) };
    (found.rlim_cur != libc::RLIM_INFINITY).then_some(found.rlim_cur)
}

/// How much of it the process has; 0 if that can't be known, without `/proc`.
pub(crate) fn used(resource: Resource) -> u64 {
    let name = match resource {
        Resource::Addresses => "VmSize:",
        Resource::Data => "VmData:",
        Resource::FileLength => return 0,
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
